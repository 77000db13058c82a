//! The NAT44 against a reference model of plain maps, under random traffic and time.

use super::traffic::*;
use kumade_middlebox::{EndpointDependence, NatConfig, NatLimits, NatTimeouts, Protocol, SessionInfo};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp];
const UDP: Span = Span::from_secs(20);
const ICMP: Span = Span::from_secs(7);
const TRANSITORY: Span = Span::from_secs(10);
const ESTABLISHED: Span = Span::from_secs(60);

#[derive(Debug, Clone, Copy)]
enum Step {
    /// From an inside host and port to a remote endpoint.
    Send(usize, u8, u8, u8),
    /// From a remote endpoint to what the inside endpoint of this mapping is, or was, known by.
    Reply(usize, u8, u8, u8),
    Wait(i64),
}

type Inside = (usize, u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    deadline: Time,
    is_established: bool,
}

/// What the RFCs say of mappings and sessions, as maps that are searched from end to end.
#[derive(Default)]
struct Model {
    /// By inside endpoint and, where it matters, remote endpoint.
    sessions: BTreeMap<(Inside, Option<u8>), Session>,
    /// The last external endpoint of each inside endpoint.
    external: BTreeMap<Inside, String>,
    is_dependent: bool,
}

impl Model {
    fn key(&self, inside: Inside, remote: u8) -> (Inside, Option<u8>) {
        let matters = PROTOCOLS[inside.0] == Protocol::Tcp || self.is_dependent;
        (inside, matters.then_some(remote))
    }

    fn is_mapped(&self, inside: Inside) -> bool {
        self.sessions.keys().any(|(own, _)| *own == inside)
    }

    fn sessions_of_host(&self, host: u8) -> usize {
        self.sessions.keys().filter(|((_, own, _), _)| *own == host).count()
    }

    fn idle(protocol: usize, is_established: bool) -> Span {
        match PROTOCOLS[protocol] {
            Protocol::Udp => UDP,
            Protocol::Icmp => ICMP,
            Protocol::Tcp if is_established => ESTABLISHED,
            Protocol::Tcp => TRANSITORY,
        }
    }

    /// Whether a packet from the inside passes.
    fn send(&mut self, inside: Inside, remote: u8, now: Time) -> bool {
        let key = self.key(inside, remote);
        let known = self.sessions.get(&key).copied();
        if known.is_none() && self.sessions_of_host(inside.1) >= 12 {
            return false;
        }
        let is_established = known.is_some_and(|session| session.is_established);
        self.sessions.insert(key, Session { deadline: now + Self::idle(inside.0, is_established), is_established });
        true
    }

    /// Whether a packet from the outside passes to this inside endpoint.
    fn reply(&mut self, inside: Inside, remote: u8, now: Time) -> bool {
        let key = self.key(inside, remote);
        let is_mapped = self.is_mapped(inside);
        let Some(session) = self.sessions.get_mut(&key) else { return is_mapped && !self.is_dependent };
        // Only the first answer starts the idle time anew.
        if !session.is_established && PROTOCOLS[inside.0] != Protocol::Icmp {
            *session = Session { deadline: now + Self::idle(inside.0, true), is_established: true };
        }
        true
    }
}

fn packet(protocol: usize, from: &str, to: &str, is_reply: bool) -> Vec<u8> {
    match PROTOCOLS[protocol] {
        Protocol::Tcp => tcp(from, to, "A", b"data"),
        Protocol::Udp => udp(from, to, b"data"),
        Protocol::Icmp => echo(from, to, !is_reply),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ends = (0usize..3, 0u8..4, 0u8..8, 0u8..4);
    let step = prop_oneof![
        4 => ends.clone().prop_map(|(protocol, host, port, remote)| Step::Send(protocol, host, port, remote)),
        4 => ends.prop_map(|(protocol, host, port, remote)| Step::Reply(protocol, host, port, remote)),
        1 => (0i64..15).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..250)
}

fn config(filtering: EndpointDependence) -> NatConfig {
    let timeouts = NatTimeouts {
        udp: UDP,
        tcp_established: ESTABLISHED,
        tcp_transitory: TRANSITORY,
        icmp: ICMP,
        ..NatTimeouts::default()
    };
    let limits = NatLimits { max_sessions_per_host: 12, ..NatLimits::default() };
    NatConfig { filtering, timeouts, limits, allow_short_timeouts: true, ..nat() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn bindings_are_those_of_the_model(is_dependent: bool, steps in steps()) {
        let filtering =
            if is_dependent { EndpointDependence::AddressAndPortDependent } else { EndpointDependence::EndpointIndependent };
        let mut router = router(config(filtering));
        let mut model = Model { is_dependent, ..Model::default() };
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Step::Wait(seconds) => now += Span::from_secs(seconds),
                Step::Send(protocol, host, port, remote) => {
                    let inside = (protocol, host, port);
                    let (from, to) = (format!("10.0.0.{}:{}", host + 1, 1000 + u16::from(port)), format!("192.0.2.{}:{}", remote + 1, 9));
                    let was_mapped = model.is_mapped(inside);
                    let sent = out(&mut router, &packet(protocol, &from, &to, false), now);
                    prop_assert_eq!(sent.is_some(), model.send(inside, remote, now), "{:?} at {:?}", step, now);
                    if let Some(sent) = sent {
                        let external = flow(&sent).source.to_string();
                        let previous = model.external.insert(inside, external.clone());
                        prop_assert!(!was_mapped || previous == Some(external), "a mapping lasts");
                    }
                }
                Step::Reply(protocol, host, port, remote) => {
                    let inside = (protocol, host, port);
                    let Some(external) = model.external.get(&inside).cloned() else { continue };
                    // A port of a mapping that has ended may belong to another by now.
                    let owner = model.external.iter().find(|(own, known)| {
                        own.0 == protocol && **known == external && model.is_mapped(**own)
                    }).map(|(own, _)| *own);
                    let from = format!("192.0.2.{}:9", remote + 1);
                    let received = back(&mut router, &packet(protocol, &from, &external, true), now);
                    let expected = owner.is_some_and(|owner| model.reply(owner, remote, now));
                    prop_assert_eq!(received.is_some(), expected, "{:?} at {:?}", step, now);
                    if let (Some(received), Some((_, host, port))) = (received, owner) {
                        let to = format!("10.0.0.{}:{}", host + 1, 1000 + u16::from(port));
                        prop_assert_eq!(received, packet(protocol, &from, &to, true), "as if it had been sent there");
                    }
                }
            }
            model.sessions.retain(|_, session| session.deadline > now);
            router.expire(now);
            check(&model, &router.sessions().collect::<Vec<_>>())?;
            prop_assert_eq!(router.counters().sessions, model.sessions.len());
        }
    }
}

/// Sessions, deadlines and mappings are those of the model, and no two inside endpoints share an external one.
fn check(model: &Model, sessions: &[SessionInfo]) -> Result<(), TestCaseError> {
    let of_router: BTreeSet<_> = sessions
        .iter()
        .map(|session| {
            let protocol = PROTOCOLS.iter().position(|protocol| *protocol == session.protocol).unwrap();
            let inside = (protocol, session.inside.ip().octets()[3] - 1, (session.inside.port() - 1000) as u8);
            (inside, session.remote.map(|remote| remote.ip().octets()[3] - 1), session.expires)
        })
        .collect();
    let of_model: BTreeSet<_> =
        model.sessions.iter().map(|((inside, remote), session)| (*inside, *remote, session.deadline)).collect();
    prop_assert_eq!(of_router, of_model);
    let mut owners = BTreeMap::new();
    for session in sessions {
        let owner = owners.insert((session.protocol, session.external), session.inside);
        prop_assert!(owner.is_none_or(|owner| owner == session.inside));
    }
    Ok(())
}
