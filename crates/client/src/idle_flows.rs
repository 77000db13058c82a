//! Flows that are left idle, each for a time of its own, all at once; afterwards the far end sends down each, and this host up.

use crate::cancel::StopCondition;
use crate::config::MeasureConfig;
use crate::error::Error;
use crate::host_claim::Claimed;
use crate::path::{MIN_SYN_TIMEOUT, SYN_ROUND_TRIPS};
use crate::port_probe::{MAX_TAKEN_AT_ONCE, PortSession, answered_index};
use crate::server_connection::ServerConnection;
use crate::udp_nonce::{open_flow, request_nonces};
use kumade_measurement::{Event, FlowKind, IdleFlowResult, IdleRound};
use kumade_net::platform::{pacing, tcp};
use kumade_net::{SocketBinding, clock};
use kumade_probe_train::PortProtocol;
use kumade_transport::deadline_after;
use kumade_units::{Span, Time};
use kumade_wire::{
    ClientMessage, CredentialBearer, IdleFlow, IdleFlowRecord, PortAnswer, Preamble, ServerMessage, Version,
};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

const OPERATION: &str = "leaving flows idle";
/// Timeout of the server's answer.
const ANSWER_TIMEOUT: Span = Span::from_secs(3);
/// A server keeps those of eight clients, two of a network (`FlowsPlace`, kumade-serve).
const NONE_HELD_REASON: &str = "the far end kept none of the flows: most likely it keeps those of as many other clients as it has room for; \
                                try again later";
/// Between the two exchanges of a flow that is to count as a stream: Linux takes it for one after 2 s (`UDP_CT_REPLIED`,
/// net/netfilter/nf_conntrack_proto_udp.c).
const STREAM_TIME: Span = Span::from_millis(2200);
/// From the end of the idle time, beyond a round trip: what the far end sends has arrived by then, also if it was sent again.
const DOWN_TIMEOUT: Span = Span::from_millis(2500);
/// Packets up, and from one to the next.
const COPIES: u32 = 3;
const COPY_INTERVAL: Span = Span::from_millis(200);
/// So that the far end and everybody on the path keep the control connection, and for the next look at the sockets.
const PING_INTERVAL: Span = Span::from_secs(4);
const LOOK_INTERVAL: Span = Span::from_millis(20);
/// Of the wait for this host's claim between two rounds: a server ends a session that has neither a turn nor flows after 30 s
/// (`IDLE_TIMEOUT`, kumade-serve).
const MAX_CLAIM_WAIT: Span = Span::from_secs(20);
const MAX_PONGS_AT_ONCE: u32 = 4;
/// From one event on the time that has passed to the next.
const EVENT_INTERVAL: Span = Span::from_secs(1);
/// The number of the first connection: no measurement takes as many others.
const FIRST_CONNECTION: u16 = 60_000;

/// A flow, from its opening on.
struct Flow {
    kind: FlowKind,
    idle: Span,
    socket: FlowSocket,
    /// Its number among those of its protocol.
    index: u32,
    /// When the last packet of the beginning was sent.
    began: Time,
    nonce: Option<[u8; 16]>,
    is_held: bool,
    received: Vec<u8>,
    has_passed_down: bool,
    copies_sent: u32,
}

enum FlowSocket {
    Udp(UdpSocket),
    Tcp(TcpStream),
    /// It could not be opened.
    None,
}

/// What a round takes of the measurement.
pub(crate) struct IdleRunner<'c> {
    pub(crate) config: &'c MeasureConfig,
    pub(crate) limit: &'c StopCondition,
    /// Of this host: not held while flows are idle.
    pub(crate) claim: Claimed,
    /// Whether the turn has ended: with the round before.
    pub(crate) has_left_turn: bool,
}

impl IdleRunner<'_> {
    /// Carries out a round. The inner error is the reason why that is not possible.
    ///
    /// # Errors
    /// Of the control connection, or where the measurement is cancelled.
    pub(crate) fn run_round(
        &mut self,
        peer: &mut ServerConnection,
        round: &IdleRound,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Result<Vec<Option<IdleFlowResult>>, String>, Error> {
        if let Err(why) = peer.require_version(Version::PORTS, "idle flows") {
            return Ok(Err(why));
        }
        if std::mem::take(&mut self.has_left_turn) {
            // First: who waits for a turn there must not wait for somebody here who waits for one there.
            let mut keep = || keep_session(peer);
            if let Err(holder) = self.claim.wait_again(MAX_CLAIM_WAIT, self.limit, on_event, &mut keep)? {
                return Ok(Err(format!("another measurement holds this host: {holder}")));
            }
            peer.wait_for_turn(self.config.max_server_wait, on_event)?;
        }
        let mut flows = open_flows(peer, &self.config.binding, round)?;
        let held = hold_flows(peer, &mut flows)?;
        let is_open = |flow: &Flow| flow.nonce.is_some() || matches!(flow.socket, FlowSocket::Tcp(_));
        if flows.iter().any(is_open) && !flows.iter().any(|flow| flow.is_held) {
            return Ok(Err(NONE_HELD_REASON.to_owned()));
        }
        // Others may measure meanwhile, there and here.
        peer.end_turn(OPERATION)?;
        self.claim.release();
        self.has_left_turn = true;
        self.wait_for_all(peer, &mut flows, held, round.duration(), on_event)?;
        let ServerMessage::FlowRecords { udp, tcp } =
            peer.request(&ClientMessage::EndFlows, ANSWER_TIMEOUT, OPERATION)?
        else {
            return Err(peer.protocol_violation(OPERATION));
        };
        let elapsed = clock::monotonic() - held;
        Ok(Ok(flows.iter().map(|flow| result_of(flow, [held, held + elapsed], &udp, &tcp)).collect()))
    }

    /// Until each flow has been idle and used again.
    fn wait_for_all(
        &self,
        peer: &mut ServerConnection,
        flows: &mut [Flow],
        held: Time,
        longest: Span,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), Error> {
        let session = PortSession::new(peer);
        let down_timeout = DOWN_TIMEOUT + peer.round_trip;
        let end = held + longest + down_timeout + COPY_INTERVAL * i64::from(COPIES) + peer.round_trip;
        let (mut next_ping, mut next_event) = (clock::monotonic(), clock::monotonic());
        loop {
            self.limit.check()?;
            let now = clock::monotonic();
            if now >= end {
                return Ok(());
            }
            if now >= next_ping {
                next_ping = now + PING_INTERVAL;
                keep_session(peer)?;
            }
            if now >= next_event {
                next_event = now + EVENT_INTERVAL;
                let seconds = (now - held).min(longest).as_secs_f64();
                on_event(&Event::FlowsIdle { seconds, of_seconds: longest.as_secs_f64() });
            }
            flows
                .iter_mut()
                .filter(|flow| flow.is_held)
                .for_each(|flow| flow.advance(&session, held, down_timeout, now));
            self.limit.sleep_until((now + LOOK_INTERVAL).min(end))?;
        }
    }
}

/// Asks for a sign of life, and reads those that have come: a server that says more than it is asked for is not read for ever.
fn keep_session(peer: &mut ServerConnection) -> Result<(), Error> {
    peer.send(&ClientMessage::Ping, OPERATION)?;
    for _ in 0..MAX_PONGS_AT_ONCE {
        match peer.receive_or_timeout(deadline_after(Span::from_millis(1)), OPERATION)? {
            Some(ServerMessage::Pong) => {}
            Some(_) => return Err(peer.protocol_violation(OPERATION)),
            None => break,
        }
    }
    Ok(())
}

impl Flow {
    /// Takes what has come down, and sends up once nothing more is waited for.
    fn advance(&mut self, session: &PortSession, held: Time, down_timeout: Span, now: Time) {
        let due = held + self.idle;
        if now < due {
            return;
        }
        // What this host sends may open the way for what the far end sends again.
        self.has_passed_down |= self.copies_sent == 0 && self.receive(session);
        let next_up = due + down_timeout + COPY_INTERVAL * i64::from(self.copies_sent);
        let copies = if self.kind == FlowKind::Tcp { 1 } else { COPIES };
        if now >= next_up && self.copies_sent < copies {
            self.copies_sent += 1;
            let probe = session.probe(self.protocol(), 0, self.index);
            // What does not leave does not arrive.
            let _ = match &self.socket {
                FlowSocket::Udp(socket) => socket.send(&probe).or_else(|_| socket.send(&probe)),
                FlowSocket::Tcp(stream) => (&mut &*stream).write(&probe),
                FlowSocket::None => Ok(0),
            };
        }
    }

    fn protocol(&self) -> PortProtocol {
        if self.kind == FlowKind::Tcp { PortProtocol::Tcp } else { PortProtocol::Udp }
    }

    /// Whether the far end's packet has come.
    fn receive(&mut self, session: &PortSession) -> bool {
        let (protocol, index) = (self.protocol(), self.index);
        let is_right = |bytes: &[u8]| answered_index(session, protocol, 0, bytes) == Some(index);
        let mut bytes = [0; 64];
        match &self.socket {
            FlowSocket::Udp(socket) => {
                for _ in 0..MAX_TAKEN_AT_ONCE {
                    match socket.recv(&mut bytes) {
                        Ok(length) if is_right(&bytes[..length]) => return true,
                        Ok(_) => {}
                        Err(_) => break,
                    }
                }
                false
            }
            FlowSocket::Tcp(stream) => {
                let room = PortAnswer::SIZE.saturating_sub(self.received.len());
                if let Ok(length) = (&mut &*stream).read(&mut bytes[..room]) {
                    self.received.extend_from_slice(&bytes[..length]);
                }
                is_right(&self.received)
            }
            FlowSocket::None => false,
        }
    }
}

/// Opens all flows: those that are to be streams first.
fn open_flows(peer: &mut ServerConnection, binding: &SocketBinding, round: &IdleRound) -> Result<Vec<Flow>, Error> {
    let mut counts = [0; 2];
    let mut flows: Vec<Flow> = Vec::new();
    for &(kind, idle) in &round.flows {
        let count = &mut counts[usize::from(kind == FlowKind::Tcp)];
        let index = *count;
        *count += 1;
        let socket = match kind {
            FlowKind::Tcp => FlowSocket::None,
            FlowKind::Udp | FlowKind::UdpStream => open_flow(peer, binding).map_or(FlowSocket::None, FlowSocket::Udp),
        };
        flows.push(Flow {
            kind,
            idle,
            socket,
            index,
            began: clock::monotonic(),
            nonce: None,
            is_held: false,
            received: Vec::new(),
            has_passed_down: false,
            copies_sent: 0,
        });
    }
    let of_kind = |flows: &[Flow], kind| flows.iter().any(|flow| flow.kind == kind);
    if of_kind(&flows, FlowKind::UdpStream) {
        exchange_packets(peer, &mut flows, FlowKind::UdpStream);
        pacing::sleep_until(deadline_after(STREAM_TIME));
        exchange_packets(peer, &mut flows, FlowKind::UdpStream);
        // A message of the turn: the far end ends one without.
        peer.request(&ClientMessage::AskPortArrivals, ANSWER_TIMEOUT, OPERATION)?;
    }
    connect_all(peer, binding, &mut flows);
    if of_kind(&flows, FlowKind::Udp) {
        exchange_packets(peer, &mut flows, FlowKind::Udp);
    }
    Ok(flows)
}

/// One packet each way of all flows of a kind, where none is lost.
fn exchange_packets(peer: &ServerConnection, flows: &mut [Flow], kind: FlowKind) {
    let of_kind = flows.iter_mut().filter(|flow| flow.kind == kind);
    let (sockets, fields): (Vec<_>, Vec<_>) = of_kind
        .filter_map(|Flow { socket, nonce, began, .. }| match socket {
            FlowSocket::Udp(socket) => Some((&*socket, (nonce, began))),
            _ => None,
        })
        .unzip();
    for ((nonce, began), answer) in fields.into_iter().zip(request_nonces(peer, &sockets)) {
        if let Ok(answer) = answer {
            (*nonce, *began) = (Some(answer.nonce), answer.requested);
        }
    }
}

/// Opens all connections at once, each of which shows its number.
fn connect_all(peer: &ServerConnection, binding: &SocketBinding, flows: &mut [Flow]) {
    let mut connecting: Vec<_> = flows
        .iter_mut()
        .filter(|flow| flow.kind == FlowKind::Tcp)
        .filter_map(|flow| Some((tcp::PendingConnection::begin(peer.address, binding).ok()?, flow)))
        .collect();
    let deadline = deadline_after(MIN_SYN_TIMEOUT.max(peer.round_trip * SYN_ROUND_TRIPS));
    for (connecting, flow) in &mut connecting {
        let index = FIRST_CONNECTION + flow.index as u16;
        let authenticator = peer.credential.authenticator_for(CredentialBearer::Connection { index });
        let hello = Preamble::Probe { authenticator, index }.encode(peer.version());
        let opened = connecting.wait(deadline).ok().flatten();
        if let Some(stream) = opened.filter(|stream| (&*stream).write_all(&hello).is_ok()) {
            (flow.socket, flow.began) = (FlowSocket::Tcp(stream), clock::monotonic());
        }
    }
}

/// Has the far end keep them; since when they are idle.
fn hold_flows(peer: &mut ServerConnection, flows: &mut [Flow]) -> Result<Time, Error> {
    let is_tcp = |flow: &&Flow| flow.kind == FlowKind::Tcp;
    let udp = flows.iter().filter(|flow| !is_tcp(flow));
    // One that has got no nonce is known to nobody.
    let udp = udp.map(|flow| (flow.nonce.unwrap_or_default(), IdleFlow { idle: flow.idle })).collect();
    let tcp = flows.iter().filter(is_tcp).filter(|flow| matches!(flow.socket, FlowSocket::Tcp(_)));
    let tcp: Vec<_> = tcp.map(|flow| (FIRST_CONNECTION + flow.index as u16, IdleFlow { idle: flow.idle })).collect();
    let wait = peer.round_trip + MIN_SYN_TIMEOUT;
    let question = ClientMessage::HoldFlows { udp, tcp: tcp.clone(), wait };
    let ServerMessage::FlowsHeld { udp: held_udp, tcp: held_tcp } =
        peer.request(&question, wait + ANSWER_TIMEOUT, OPERATION)?
    else {
        return Err(peer.protocol_violation(OPERATION));
    };
    for flow in flows {
        flow.is_held = match flow.kind {
            FlowKind::Tcp => {
                let place = tcp.iter().position(|(number, _)| *number == FIRST_CONNECTION + flow.index as u16);
                // The far end numbers those that it was asked to keep.
                flow.index = place.unwrap_or(0) as u32;
                place.and_then(|place| held_tcp.get(place).copied()).unwrap_or(false)
            }
            _ => flow.nonce.is_some() && held_udp.get(flow.index as usize).copied().unwrap_or(false),
        };
    }
    Ok(clock::monotonic())
}

/// What has become of a flow that was kept from the first of these times on, and used again before the second.
fn result_of(
    flow: &Flow,
    [held, ended]: [Time; 2],
    udp: &[IdleFlowRecord],
    tcp: &[IdleFlowRecord],
) -> Option<IdleFlowResult> {
    let records = if flow.kind == FlowKind::Tcp { tcp } else { udp };
    let record = records.get(flow.index as usize).filter(|_| flow.is_held)?;
    // What is not possible is not believed: the far end began to count a moment before this end knew of it.
    let idle = record.idle.filter(|idle| (flow.idle..=ended - flow.began).contains(idle))?;
    // The far end counts from its answer on; the flow was idle before as well.
    Some(IdleFlowResult {
        idle: [idle, idle + (held - flow.began)],
        has_passed_down: flow.has_passed_down,
        has_passed_up: record.has_arrived,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_wire::{Credential, SessionEndpoint, Token};

    #[test]
    fn of_a_stream_of_packets_so_many_are_read_at_once_and_the_far_ends_is_found() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let version = Version::NEWEST;
        let session = PortSession { credential: Credential::new(Token([7; 16]), version, false), version };
        for _ in 0..MAX_TAKEN_AT_ONCE {
            socket.send(b"something else").unwrap();
        }
        let (sender, protocol, port, index) = (SessionEndpoint::Server, PortProtocol::Udp, 0, 3);
        let bearer = CredentialBearer::Port { sender, protocol, port, index };
        let answer = PortAnswer { authenticator: session.credential.authenticator_for(bearer), index };
        socket.send(&answer.encode(version)).unwrap();
        let mut flow = Flow {
            kind: FlowKind::Udp,
            idle: Span::ZERO,
            socket: FlowSocket::Udp(socket),
            index,
            began: clock::monotonic(),
            nonce: None,
            is_held: true,
            received: Vec::new(),
            has_passed_down: false,
            copies_sent: 0,
        };
        assert!(!flow.receive(&session));
        assert!(flow.receive(&session));
    }
}
