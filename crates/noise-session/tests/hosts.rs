//! Two hosts under a virtual clock: whatever the network does, no packet is delivered twice or altered, a session comes
//! up as soon as the network lets it, and a change of keys loses nothing.

use crate::network;
use crate::network::{Network, PathConfig, WALL, address};
use kumade_noise_session::{
    COOKIE_REPLY_BYTES, DatagramKind, Endpoint, EndpointEvent, HandshakeNotice, HandshakePolicy, PeerError, PeerId,
    PresharedKey, PrivateKey, RefusedDatagram, Route,
};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

const BOTH: [usize; 2] = [0, 1];
const NOTHING: [u32; 0] = [];

fn millis(count: i64) -> Span {
    Span::from_millis(count)
}

fn secs(count: i64) -> Span {
    Span::from_secs(count)
}

fn clean() -> Vec<PathConfig> {
    vec![PathConfig::delay_of(millis(20)), PathConfig::delay_of(millis(120))]
}

fn path() -> impl Strategy<Value = PathConfig> {
    (0i64..400, 0i64..300, 0.0..0.5, 0.0..0.3, 0.0..0.3).prop_map(|(delay, jitter, loss, duplication, corruption)| {
        PathConfig { delay: millis(delay), jitter: millis(jitter), loss, duplication, corruption }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// (Deliveries are checked by the network itself.)
    #[test]
    fn nothing_the_network_does_is_delivered_twice_or_altered(
        seed: u64,
        paths in prop::collection::vec(path(), 1..4),
        both: bool,
    ) {
        let mut network = Network::new(seed, paths);
        let senders = if both { &BOTH[..] } else { &BOTH[..1] };
        network.exchange(senders, secs(300), millis(150));
        // When the network is sound again, so is the session, at the latest after the longest back-off.
        for path in &mut network.paths {
            *path = PathConfig::delay_of(path.delay);
        }
        network.exchange(senders, secs(40), millis(150));
        let sound = network.now;
        network.exchange(senders, secs(20), millis(150));
        let until = network.now - secs(1);
        for &from in senders {
            let sent = network.hosts[from].sent.values().filter(|at| (sound..until).contains(*at)).count();
            prop_assert!(sent > 100, "{} sent {}", from, sent);
            prop_assert_eq!(network.missing(from, sound, until), NOTHING);
        }
    }

    /// Both begin within a few round trips of each other.
    #[test]
    fn simultaneous_handshakes_end_in_one_session(seed: u64, offset in 0i64..300) {
        let mut network = Network::new(seed, clean());
        let _ = network.send_data(0, 0);
        network.run_until(Time::ZERO + millis(offset));
        let _ = network.send_data(1, 0);
        network.run_until(Time::ZERO + secs(3));
        network.exchange(&BOTH, secs(1200), millis(400));
        let until = network.now - secs(1);
        for from in BOTH {
            prop_assert_eq!(network.missing(from, Time::ZERO, until), NOTHING);
            let sessions = network.hosts[from].established.len();
            prop_assert!((8..=15).contains(&sessions), "{} sessions in 1200 s", sessions);
        }
    }
}

#[test]
fn a_session_takes_one_round_trip_and_one_message_more() {
    let mut network = Network::new(1, clean());
    assert!(network.send_data(0, 0).is_err());
    network.run_until(Time::ZERO + millis(40));
    assert!(network.send_data(1, 1).is_err(), "the responder waits until it is confirmed");
    network.send_data(0, 1).unwrap();
    network.run_until(Time::ZERO + millis(60));
    network.send_data(1, 1).unwrap();
    network.run_until(Time::ZERO + millis(300));
    assert_eq!([network.hosts[0].received.len(), network.hosts[1].received.len()], [1, 1]);
    let kinds: Vec<_> =
        network.log.iter().map(|(from, datagram)| (*from, DatagramKind::from_datagram(datagram).unwrap())).collect();
    assert_eq!(kinds[..3], [(0, DatagramKind::Initiation), (1, DatagramKind::Response), (0, DatagramKind::Data)]);
}

/// As where the connection that carried it has ended.
#[test]
fn a_session_however_young_is_replaced_where_that_is_asked_for() {
    for (anew, sessions) in [(false, 1), (true, 2)] {
        let mut network = Network::new(1, clean());
        let _ = network.send_data(0, 0);
        network.run_until(Time::ZERO + secs(1));
        let (now, peer) = (network.now, network.hosts[0].peer);
        let endpoint = &mut network.hosts[0].endpoint;
        if anew {
            endpoint.reconnect(peer, now)
        } else {
            endpoint.connect(peer, now)
        }
        network.run_until(Time::ZERO + secs(2));
        assert_eq!(network.hosts[0].established.len(), sessions);
    }
}

#[test]
fn rekeying_loses_nothing_and_happens_every_two_minutes() {
    let mut network = Network::new(2, clean());
    network.exchange(&BOTH, secs(1210), millis(50));
    let until = network.now - secs(1);
    for from in BOTH {
        let (host, now) = (&network.hosts[from], network.now);
        let state = host.endpoint.peer_state(host.peer, now).unwrap();
        assert!(state.session_established.is_some_and(|established| now - established < secs(136)));
        assert_eq!((state.key, state.routes.len()), (network.private_key(1 - from).public_key(), 2));
        assert_eq!(network.missing(from, Time::ZERO, until), NOTHING);
        let established = &network.hosts[from].established;
        assert!((10..=14).contains(&established.len()), "{established:?}");
    }
}

#[test]
fn data_in_one_direction_is_answered_by_keepalives_alone() {
    let mut network = Network::new(3, clean());
    network.exchange(&[0], secs(600), millis(100));
    assert!(network.hosts[1].established.len() <= 6, "no handshake but to change keys");
    let answers = network
        .log
        .iter()
        .filter(|(from, d)| *from == 1 && DatagramKind::from_datagram(d) == Some(DatagramKind::Data))
        .count();
    assert!((50..70).contains(&answers), "{answers} in 600 s");
}

#[test]
fn an_idle_session_is_silent() {
    let mut network = Network::new(4, clean());
    let _ = network.send_data(0, 0);
    network.run_until(Time::ZERO + secs(30));
    let before = network.log.len();
    network.run_until(Time::ZERO + secs(3600));
    assert_eq!(network.log.len(), before);
    assert_eq!(network.hosts[0].endpoint.next_deadline(), None);
}

#[test]
fn a_restarted_peer_is_found_again_by_who_sends_to_it() {
    let mut network = Network::new(5, clean());
    network.exchange(&BOTH, secs(60), millis(100));
    network.restart(1, Span::ZERO);
    let restarted = network.now;
    network.exchange(&[0], secs(30), millis(100));
    let until = network.now - secs(1);
    assert_eq!(network.missing(0, restarted + secs(17), until), NOTHING);
}

#[test]
fn a_restarted_peer_that_sends_is_back_after_a_round_trip() {
    let mut network = Network::new(6, clean());
    network.exchange(&BOTH, secs(60), millis(100));
    network.restart(1, Span::ZERO);
    network.give_routes(1);
    let restarted = network.now;
    network.exchange(&BOTH, secs(30), millis(100));
    let until = network.now - secs(1);
    for from in BOTH {
        assert_eq!(network.missing(from, restarted + secs(1), until), NOTHING);
    }
}

#[test]
fn a_new_session_tells_a_changed_key_from_a_restart() {
    let mut network = Network::new(8, clean());
    network.exchange(&BOTH, secs(300), millis(100));
    let distinct = |network: &Network, host: usize| network.hosts[host].instances.iter().collect::<BTreeSet<_>>().len();
    assert!(network.hosts[0].instances.len() > 1);
    assert_eq!([distinct(&network, 0), distinct(&network, 1)], [1, 1]);
    network.restart(1, Span::ZERO);
    network.give_routes(1);
    network.exchange(&BOTH, secs(30), millis(100));
    assert_eq!([distinct(&network, 0), distinct(&network, 1)], [2, 1]);
}

/// When a host first sent something under a session after an instant.
fn first_sent(network: &Network, host: usize, since: Time) -> Option<Span> {
    network.hosts[host].sent.values().find(|at| **at > since).map(|first| *first - since)
}

#[test]
fn a_peer_restarted_with_its_clock_behind_goes_on_from_the_time_that_the_other_end_tells_it() {
    for behind in [secs(1), secs(1800), secs(86_400 * 365 * 56)] {
        let mut network = Network::new(7, clean());
        network.exchange(&BOTH, secs(60), millis(100));
        network.restart(1, -behind - secs(60));
        network.give_routes(1);
        let restarted = network.now;
        network.exchange(&[1], secs(300), millis(100));
        assert!(network.hosts[0].refused.contains(&RefusedDatagram::Outdated));
        let first = first_sent(&network, 1, restarted);
        assert!(first.is_some_and(|first| first < millis(500)), "{first:?}");
        assert_eq!(network.missing(1, restarted, network.now - secs(1)), NOTHING);
        // It is said once, and keys change as ever.
        let of_clock = |notice: &HandshakeNotice| match notice {
            HandshakeNotice::OwnClockBehind { behind, .. } => Some(*behind),
            _ => None,
        };
        let said: Vec<_> = network.hosts[1].notices.iter().filter_map(of_clock).collect();
        assert!(said.len() == 1 && (said[0] - behind).as_nanos().abs() < secs(2).as_nanos(), "{said:?}");
        assert!(network.hosts[1].established.len() >= 3);
    }
}

/// Two hosts that handshake for so long, over a path without delay; the first begins. Returns what the administrators were told.
fn told_of_handshakes(
    identities: [&PrivateKey; 2],
    peers: [&PrivateKey; 2],
    psks: [[u8; 32]; 2],
    lasting: Span,
) -> [Vec<HandshakeNotice>; 2] {
    let mut ids = Vec::new();
    let mut endpoints = [0, 1].map(|end| {
        let random = Box::new(StdRng::seed_from_u64(end as u64));
        let mut endpoint = Endpoint::new(identities[end].clone(), HandshakePolicy::default(), random);
        let psk = PresharedKey::from_bytes(psks[end]);
        ids.push(endpoint.add_peer(peers[end].public_key(), psk).unwrap());
        endpoint
    });
    endpoints[0].set_routes(ids[0], vec![Route { path: 0, address: address(1, 0) }], Time::ZERO);
    endpoints[0].connect(ids[0], Time::ZERO);
    let mut told = [Vec::new(), Vec::new()];
    let mut now = Time::ZERO;
    while now < Time::ZERO + lasting {
        for end in [0, 1, 0] {
            endpoints[end].advance(now, WALL + (now - Time::ZERO));
            while let Some(event) = endpoints[end].next_event() {
                match event {
                    EndpointEvent::Transmit { datagram, .. } => {
                        let from = Route { path: 0, address: address(end, 0) };
                        let _ = endpoints[1 - end].receive(&datagram, from, now);
                    }
                    EndpointEvent::Notice(notice) => told[end].push(notice),
                    EndpointEvent::Established { .. } | EndpointEvent::Unreachable { .. } => {}
                }
            }
        }
        now += millis(100);
    }
    told
}

#[test]
fn both_ends_are_told_which_key_is_wrong_and_once() {
    let [one, two, other] = [1, 2, 3].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let told = |identities, peers| told_of_handshakes(identities, peers, [[0; 32]; 2], secs(300));
    assert_eq!(told([&one, &two], [&two, &one]), [vec![], vec![]]);
    let unanswered = |told: &[HandshakeNotice], peer: &PrivateKey| {
        let [HandshakeNotice::Unanswered { peer: said, own, address: to, tried }] = told else { panic!("{told:?}") };
        assert_eq!((*said, *own, *to), (peer.public_key(), one.public_key(), address(1, 0)));
        assert!((secs(7)..secs(10)).contains(tried), "{tried}");
        assert!(told[0].to_string().contains(&one.public_key().to_string()));
    };
    // The far end has another peer.
    let [near, far] = told([&one, &two], [&two, &other]);
    unanswered(&near, &two);
    let [HandshakeNotice::UnknownPeer { offered, address: from, expected, untold: 0 }] = far[..] else {
        panic!("{far:?}")
    };
    assert_eq!((offered, expected, from), (one.public_key(), Some(other.public_key()), address(0, 0).ip()));
    // This end takes the far one for another.
    let [near, far] = told([&one, &two], [&other, &one]);
    unanswered(&near, &other);
    let from = address(0, 0).ip();
    assert_eq!(far, [HandshakeNotice::OtherReceiver { address: from, own: two.public_key(), untold: 0 }]);
    // The second keys differ.
    let [near, _] = told_of_handshakes([&one, &two], [&two, &one], [[1; 32], [2; 32]], secs(60));
    assert_eq!(near[0], HandshakeNotice::AnswerForged { peer: two.public_key(), address: address(1, 0) });
    assert_eq!(near.iter().filter(|notice| matches!(notice, HandshakeNotice::AnswerForged { .. })).count(), 1);
}

#[test]
fn a_clock_behind_is_found_out_also_where_the_answer_is_lost() {
    let mut network = Network::new(8, clean());
    network.exchange(&BOTH, secs(60), millis(100));
    network.restart(1, -secs(86_400));
    network.give_routes(1);
    let restarted = network.now;
    network.paths.iter_mut().for_each(|path| path.loss = 0.6);
    network.exchange(&[1], secs(10), millis(100));
    network.paths = clean();
    network.exchange(&[1], secs(20), millis(100));
    let first = first_sent(&network, 1, restarted);
    assert!(first.is_some_and(|first| first < secs(20)), "{first:?}");
}

/// What a peer says of timestamps concerns nobody but itself, and what somebody else says concerns nobody.
#[test]
fn a_timestamp_is_told_by_the_peer_that_was_asked_alone() {
    let mut network = Network::new(9, clean());
    network.exchange(&BOTH, secs(60), millis(100));
    network.restart(1, -secs(86_400));
    network.give_routes(1);
    let _ = network.send_data(1, 0);
    let initiated = network.log.len();
    network.run_until(network.now + millis(200));
    let reply = network.log[initiated..]
        .iter()
        .find(|(_, datagram)| DatagramKind::from_datagram(datagram) == Some(DatagramKind::TimestampReply))
        .expect("an answer")
        .1
        .clone();
    // It is over by then, and a new attempt has other messages.
    let route = Route { path: 0, address: address(0, 0) };
    let (now, peer) = (network.now, network.hosts[1].peer);
    let endpoint = &mut network.hosts[1].endpoint;
    assert_eq!(endpoint.receive(&reply, route, now), Err(RefusedDatagram::Unexpected));
    endpoint.reconnect(peer, now);
    endpoint.advance(now, WALL);
    let Some(EndpointEvent::Transmit { datagram: initiation, .. }) = endpoint.next_event() else { panic!("none") };
    let mut copied = reply;
    copied[4..8].copy_from_slice(&initiation[4..8]);
    assert_eq!(endpoint.receive(&copied, route, now), Err(RefusedDatagram::Forged));
    assert!(endpoint.next_event().is_none());
}

#[test]
fn a_running_hosts_clock_may_step_either_way() {
    for step in [-secs(86_400), secs(86_400), -secs(3)] {
        let mut network = Network::new(8, clean());
        network.exchange(&BOTH, secs(100), millis(100));
        network.hosts[0].clock_offset = step;
        let stepped = network.now;
        network.exchange(&BOTH, secs(400), millis(100));
        let until = network.now - secs(1);
        for from in BOTH {
            assert_eq!(network.missing(from, stepped, until), NOTHING);
        }
        assert!(network.hosts[1].established.len() >= 4);
    }
}

/// The last one as if it had never come; older ones with an answer that only the peer can read, and only for its last initiation.
#[test]
fn a_copied_initiation_makes_no_session_and_moves_nobody_wherever_it_comes_from() {
    let mut network = Network::new(9, clean());
    network.exchange(&BOTH, secs(130), millis(100));
    let initiations: Vec<_> = network
        .log
        .iter()
        .filter(|(_, d)| DatagramKind::from_datagram(d) == Some(DatagramKind::Initiation))
        .cloned()
        .collect();
    assert!(initiations.len() >= 2);
    let stranger = Route { path: 0, address: "203.0.113.9:9".parse().unwrap() };
    let (mut copies, mut answers) = (0, Vec::new());
    for (from, datagram) in initiations {
        let (receiver, now) = (1 - from, network.now);
        let host = &mut network.hosts[receiver];
        let state = |host: &network::Host| {
            let state = host.endpoint.peer_state(host.peer, now).unwrap();
            (state.routes.to_vec(), state.session_established, state.last_received)
        };
        let before = state(host);
        match host.endpoint.receive(&datagram, stranger, now) {
            Err(RefusedDatagram::Replayed) => copies += 1,
            Err(RefusedDatagram::Outdated) => {
                let Some(EndpointEvent::Transmit { to, datagram }) = host.endpoint.next_event() else { panic!("none") };
                assert_eq!((to, datagram.len()), (stranger, COOKIE_REPLY_BYTES));
                answers.push((from, datagram));
            }
            other => panic!("{other:?}"),
        }
        assert!(host.endpoint.next_event().is_none());
        assert_eq!(state(host), before);
    }
    assert!(copies > 0 && !answers.is_empty());
    // Whoever takes the answers to the peer does it no harm.
    for (asked, answer) in answers {
        let endpoint = &mut network.hosts[asked].endpoint;
        assert_eq!(endpoint.receive(&answer, stranger, network.now), Err(RefusedDatagram::Unexpected));
        assert!(endpoint.next_event().is_none());
    }
}

#[test]
fn copied_data_is_refused_also_after_the_keys_have_changed() {
    let mut network = Network::new(10, clean());
    network.exchange(&BOTH, secs(200), millis(100));
    network.run_until(network.now + secs(1));
    let log = network.log.clone();
    for (from, mut datagram) in
        log.into_iter().filter(|(_, d)| DatagramKind::from_datagram(d) == Some(DatagramKind::Data))
    {
        assert!(network.hosts[1 - from].table.open(&mut datagram, network.now).is_err());
    }
}

#[test]
fn a_dead_path_delays_the_handshake_by_one_retransmission() {
    let mut network = Network::new(11, clean());
    network.paths[0].loss = 1.0;
    let _ = network.send_data(0, 1);
    network.run_until(Time::ZERO + secs(2));
    assert_eq!(network.hosts[0].established.len(), 1);
}

#[test]
fn a_peer_that_never_answers_is_given_up_and_tried_again_on_demand() {
    let mut network = Network::new(12, clean());
    network.paths.iter_mut().for_each(|path| path.loss = 1.0);
    let _ = network.send_data(0, 0);
    network.run_until(Time::ZERO + secs(600));
    assert!(network.hosts[0].is_unreachable);
    assert!((7..=10).contains(&network.log.len()), "initiations in 90 s: {}", network.log.len());
    network.paths = clean();
    let _ = network.send_data(0, 0);
    network.run_until(Time::ZERO + secs(601));
    assert_eq!(network.hosts[0].established.len(), 1);
}

#[test]
fn another_preshared_key_makes_no_session() {
    let psks = [PresharedKey::from_bytes([1; 32]), PresharedKey::from_bytes([2; 32])];
    let mut network = Network::with_psks(13, clean(), psks);
    network.exchange(&BOTH, secs(30), millis(500));
    assert!(network.hosts[0].refused.contains(&RefusedDatagram::Forged));
    assert!(network.hosts.iter().all(|host| host.sent.is_empty()));
    let same = PresharedKey::from_bytes([3; 32]);
    let mut network = Network::with_psks(14, clean(), [same.clone(), same]);
    network.exchange(&BOTH, secs(30), millis(500));
    assert!(network.hosts.iter().all(|host| host.received.len() > 50));
}

/// The initiation of an endpoint that knows the public key of one of the network's hosts, but is not known there.
fn outsiders_initiation(network: &Network, to: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(77);
    let key = PrivateKey::generate(&mut random);
    let mut endpoint = Endpoint::new(key, HandshakePolicy::default(), Box::new(random));
    let peer = endpoint.add_peer(network.private_key(to).public_key(), PresharedKey::default()).unwrap();
    endpoint.set_routes(peer, vec![Route { path: 0, address: address(to, 0) }], Time::ZERO);
    endpoint.connect(peer, Time::ZERO);
    endpoint.advance(Time::ZERO, WALL);
    match endpoint.next_event() {
        Some(EndpointEvent::Transmit { datagram, .. }) => datagram,
        other => panic!("{other:?}"),
    }
}

#[test]
fn strangers_hear_nothing() {
    let mut network = Network::new(15, clean());
    let route = Route { path: 0, address: "203.0.113.9:9".parse().unwrap() };
    let mut message = outsiders_initiation(&network, 1);
    let endpoint = &mut network.hosts[1].endpoint;
    // Who knows the public key, but is not known.
    assert_eq!(endpoint.receive(&message, route, Time::ZERO), Err(RefusedDatagram::UnknownPeer));
    // Who does not even know that.
    message[20] ^= 1;
    assert_eq!(endpoint.receive(&message, route, Time::ZERO), Err(RefusedDatagram::InvalidMac));
    assert_eq!(endpoint.receive(&[4; 100], route, Time::ZERO), Err(RefusedDatagram::Malformed));
    // The administrator is told of the first two.
    let events: Vec<_> = std::iter::from_fn(|| endpoint.next_event()).collect();
    assert!(matches!(events[..], [EndpointEvent::Notice(_), EndpointEvent::Notice(_)]), "{events:?}");
}

/// Strangers have used up what is computed on without further proof.
#[test]
fn under_a_flood_a_peer_is_answered_at_once_over_a_connection() {
    let mut network = Network::new(16, clean());
    let flood = outsiders_initiation(&network, 1);
    let stranger = Route { path: 0, address: "203.0.113.9:9".parse().unwrap() };
    let mut refused = Vec::new();
    for _ in 0..100 {
        refused.push(network.hosts[1].endpoint.receive(&flood, stranger, Time::ZERO).unwrap_err());
    }
    let computed = refused.iter().filter(|refusal| **refusal == RefusedDatagram::UnknownPeer).count();
    assert!((20..30).contains(&computed), "{computed}");
    assert!(refused.contains(&RefusedDatagram::CookieRequired) && refused.contains(&RefusedDatagram::RateLimited));
    assert!(refused.iter().all(|refusal| refusal.may_be_followed() || *refusal == RefusedDatagram::UnknownPeer));
    while network.hosts[1].endpoint.next_event().is_some() {}
    // From an address that host 1 does not know.
    let from = Route { path: 0, address: "198.51.100.7:9".parse().unwrap() };
    let peer = network.hosts[0].peer;
    let [near, far] = &mut network.hosts;
    near.endpoint.connect(peer, Time::ZERO);
    near.endpoint.advance(Time::ZERO, WALL);
    let (_, initiation) = sent(&mut near.endpoint).remove(0);
    assert_eq!(far.endpoint.receive(&initiation, from, Time::ZERO), Err(RefusedDatagram::CookieRequired));
    assert_eq!(DatagramKind::from_datagram(&sent(&mut far.endpoint)[0].1), Some(DatagramKind::CookieReply));
    assert_eq!(far.endpoint.receive_from_connection(&initiation, from, Time::ZERO), Ok(()));
    assert_eq!(DatagramKind::from_datagram(&sent(&mut far.endpoint)[0].1), Some(DatagramKind::Response));
}

#[test]
fn a_peer_without_a_route_is_tried_later() {
    let network = Network::new(19, clean());
    let mut random = StdRng::seed_from_u64(79);
    let key = PrivateKey::generate(&mut random);
    let mut endpoint = Endpoint::new(key, HandshakePolicy::default(), Box::new(random));
    let peer = endpoint.add_peer(network.private_key(1).public_key(), PresharedKey::default()).unwrap();
    let now = Time::ZERO + secs(60);
    endpoint.connect(peer, now);
    endpoint.advance(now, WALL);
    assert!(endpoint.next_event().is_none() && endpoint.next_deadline().is_some_and(|next| next > now));
}

#[test]
fn a_route_that_becomes_known_is_tried_at_once() {
    let network = Network::new(18, clean());
    let mut random = StdRng::seed_from_u64(78);
    let key = PrivateKey::generate(&mut random);
    let mut endpoint = Endpoint::new(key, HandshakePolicy::default(), Box::new(random));
    let peer = endpoint.add_peer(network.private_key(1).public_key(), PresharedKey::default()).unwrap();
    let route = |path: u8| Route { path, address: address(1, 0) };
    let mut tried = |known: &[u8], after: Span| {
        let now = Time::ZERO + after;
        endpoint.set_routes(peer, known.iter().copied().map(route).collect(), now);
        endpoint.connect(peer, now);
        endpoint.advance(now, WALL + after);
        let events = std::iter::from_fn(|| endpoint.next_event());
        let paths = events
            .filter_map(|event| if let EndpointEvent::Transmit { to, .. } = event { Some(to.path) } else { None });
        paths.collect::<Vec<_>>()
    };
    // Datagrams first; then each connection as it opens, wherever it stands among the routes.
    assert_eq!(tried(&[0], millis(0)), [0]);
    assert_eq!(tried(&[0, 5], millis(50)), [5]);
    assert_eq!(tried(&[0, 3, 5], millis(60)), [3]);
}

/// An endpoint with this key, and its peer at this host of the network.
fn endpoint(own: &PrivateKey, peers: &[(&PrivateKey, usize)]) -> (Endpoint, Vec<PeerId>) {
    let mut endpoint = Endpoint::new(own.clone(), HandshakePolicy::default(), Box::new(StdRng::seed_from_u64(80)));
    let add = |&(key, host): &(&PrivateKey, usize)| {
        let peer = endpoint.add_peer(key.public_key(), PresharedKey::default()).unwrap();
        endpoint.set_routes(peer, vec![Route { path: 0, address: address(host, 0) }], Time::ZERO);
        peer
    };
    let peers = peers.iter().map(add).collect();
    (endpoint, peers)
}

/// What it sends now, and where.
fn sent(endpoint: &mut Endpoint) -> Vec<(Route, Vec<u8>)> {
    let events = std::iter::from_fn(|| endpoint.next_event());
    let datagrams = events.filter_map(|event| {
        if let EndpointEvent::Transmit { to, datagram } = event { Some((to, datagram)) } else { None }
    });
    datagrams.collect()
}

#[test]
fn a_removed_peer_is_forgotten_and_the_others_are_not() {
    let keys = [1, 2, 3].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let (mut own, peers) = endpoint(&keys[0], &[(&keys[1], 0), (&keys[2], 1)]);
    assert_eq!(
        [1, 0].map(|index| own.add_peer(keys[index].public_key(), PresharedKey::default())),
        [Err(PeerError::Duplicate(keys[1].public_key())), Err(PeerError::OwnKey(keys[0].public_key()))]
    );
    peers.iter().for_each(|&peer| own.connect(peer, Time::ZERO));
    own.advance(Time::ZERO, WALL);
    let responses: Vec<_> = sent(&mut own)
        .into_iter()
        .zip(&keys[1..])
        .map(|((to, initiation), key)| {
            let (mut other, _) = endpoint(key, &[(&keys[0], 0)]);
            other.receive(&initiation, to, Time::ZERO).unwrap();
            (to, sent(&mut other).remove(0).1)
        })
        .collect();
    own.remove_peer(peers[0]);
    assert!(own.peer_state(peers[0], Time::ZERO).is_none() && own.peer_state(peers[1], Time::ZERO).is_some());
    assert!(own.next_deadline().is_some());
    let [removed, other] = [0, 1].map(|index| own.receive(&responses[index].1, responses[index].0, Time::ZERO));
    assert_eq!((removed, other), (Err(RefusedDatagram::Unexpected), Ok(())));
    assert_eq!(
        own.receive(&responses[1].1, responses[1].0, Time::ZERO),
        Err(RefusedDatagram::Unexpected),
        "once is enough"
    );
    own.remove_peer(peers[1]);
    assert_eq!(own.next_deadline(), None);
    own.add_peer(keys[1].public_key(), PresharedKey::default()).unwrap();
}

/// Forward secrecy hangs on it: a constant one would open all recorded sessions to whoever gets the static keys.
#[test]
fn each_handshake_has_ephemeral_keys_of_its_own() {
    let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let (mut own, peers) = endpoint(&keys[0], &[(&keys[1], 1)]);
    let (mut other, _) = endpoint(&keys[1], &[(&keys[0], 0)]);
    let mut public = BTreeSet::new();
    for attempt in 1..=3 {
        let after = secs(60 * attempt);
        let now = Time::ZERO + after;
        own.reconnect(peers[0], now);
        own.advance(now, WALL + after);
        let (_, initiation) = sent(&mut own).remove(0);
        other.receive(&initiation, Route { path: 0, address: address(0, 0) }, now).unwrap();
        let (route, response) = sent(&mut other).remove(0);
        own.receive(&response, Route { address: address(1, 0), ..route }, now).unwrap();
        // The keepalive that tells of it.
        drop(sent(&mut own));
        // Where the Noise messages begin with them.
        public.insert(initiation[8..40].to_vec());
        public.insert(response[12..44].to_vec());
    }
    assert_eq!(public.len(), 6);
}

#[test]
fn the_address_of_an_authentic_handshake_is_where_the_peer_is_and_is_heard_also_under_a_flood() {
    let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let (mut own, peers) = endpoint(&keys[0], &[(&keys[1], 1)]);
    let (mut other, others) = endpoint(&keys[1], &[(&keys[0], 0)]);
    let mut initiation = |now| {
        other.reconnect(others[0], now);
        other.advance(now, WALL + (now - Time::ZERO));
        sent(&mut other).remove(0).1
    };
    let moved = Route { path: 0, address: "203.0.113.7:7".parse().unwrap() };
    let now = Time::ZERO + secs(1);
    own.receive(&initiation(now), moved, now).unwrap();
    let state = own.peer_state(peers[0], now).unwrap();
    assert_eq!((state.routes, state.last_received), (&[moved][..], Some(now)));
    assert_eq!(sent(&mut own)[0].0, moved);

    let now = now + secs(60);
    let (mut outsider, known) = endpoint(&PrivateKey::from_bytes([3; 32]), &[(&keys[0], 0)]);
    outsider.connect(known[0], now);
    outsider.advance(now, WALL);
    let forged = sent(&mut outsider).remove(0).1;
    let stranger = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        Route { path: 0, address: ([198, a, b, c], 9).into() }
    };
    let is_limited = |result| result == Err(RefusedDatagram::RateLimited);
    let first = (0..100_000).find(|&number| is_limited(own.receive(&forged, stranger(number), now)));
    assert!(first.is_some() && is_limited(own.receive(&forged, stranger(200_000), now)));
    assert_eq!(own.receive(&initiation(now), moved, now), Err(RefusedDatagram::CookieRequired));
}

/// 100 000 initiations a second to each host, from as many sources: one cannot tell them from a peer's without computing,
/// and they come faster than any host could.
#[test]
fn under_a_flood_a_peer_gets_through_by_a_cookie() {
    let mut network = Network::new(16, vec![PathConfig::delay_of(Span::from_micros(10_300))]);
    let messages = BOTH.map(|to| outsiders_initiation(&network, to));
    let mut serial = 0u32;
    let mut flood = |network: &mut Network| {
        for _ in 0..100 {
            serial += 1;
            let bytes = serial.to_be_bytes();
            let route = Route { path: 0, address: ([198, bytes[1], bytes[2], bytes[3]], 9).into() };
            let now = network.now;
            for (host, message) in network.hosts.iter_mut().zip(&messages) {
                let _ = host.endpoint.receive(message, route, now);
                while host.endpoint.next_event().is_some() {}
            }
        }
    };
    let _ = network.send_data(0, 0);
    while network.hosts[0].established.is_empty() {
        flood(&mut network);
        network.run_until(network.now + millis(1));
        assert!(network.now < Time::ZERO + secs(10), "{:?}", network.hosts[0].refused);
    }
    for host in &network.hosts {
        assert!(host.refused.contains(&RefusedDatagram::CookieRequired), "{:?}", host.refused);
    }
}
