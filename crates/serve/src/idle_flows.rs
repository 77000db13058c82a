//! Flows of a client that are kept while they are idle, beyond its turn: after its idle time, three packets are sent down each, to see whether
//! address translators and firewalls on the path still know it.
//!
//! They are few, for a bounded time, and each has been opened by the client, which has proved to receive there.

use kumade_net::clock;
use kumade_probe_train::PortProtocol;
use kumade_units::{Span, Time};
use kumade_wire::{Credential, CredentialBearer, IdleFlowRecord, PortAnswer, PortProbe, SessionEndpoint, Version};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of flows of a client.
pub(super) const MAX_FLOWS: usize = 64;
/// Maximum number of clients whose flows are kept at once.
const MAX_CLIENTS: usize = 8;
/// A flow of UDP has so many copies, this far apart: one may be lost.
const COPIES: u32 = 3;
const COPY_INTERVAL: Span = Span::from_millis(300);
/// How long flows are kept after the last of them: until the client has sent up it, and asked.
const TIME_TO_ASK: Span = Span::from_secs(30);

/// A place among the clients whose flows are kept; free again when dropped.
pub(super) struct FlowsPlace(Arc<AtomicUsize>);

impl FlowsPlace {
    /// One of the server's, whose places are counted here.
    ///
    /// # Errors
    /// The reason for a refusal: all are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>) -> Result<Self, String> {
        let place = FlowsPlace(Arc::clone(taken));
        match taken.fetch_add(1, Ordering::SeqCst) < MAX_CLIENTS {
            true => Ok(place),
            false => Err(format!("idle flows of {MAX_CLIENTS} clients are kept already: try again later")),
        }
    }
}

impl Drop for FlowsPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A flow's socket.
pub(super) enum FlowSocket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

struct HeldFlow {
    socket: FlowSocket,
    index: u32,
    due: Time,
    copies_left: u32,
    /// For how long it was idle.
    idle: Option<Span>,
}

/// The flows of a client.
pub(super) struct IdleFlows {
    /// None where the flow could not be kept.
    flows: [Vec<Option<HeldFlow>>; 2],
    began: Time,
    credential: Credential,
    version: Version,
    _place: FlowsPlace,
}

impl IdleFlows {
    /// Keeps these flows from now on, each with its idle time: those of UDP, and TCP connections.
    pub(super) fn begin(
        flows: [Vec<(Option<FlowSocket>, Span)>; 2],
        credential: Credential,
        version: Version,
        place: FlowsPlace,
    ) -> Self {
        let began = clock::monotonic();
        let hold = |(index, (socket, idle)): (usize, (Option<FlowSocket>, Span))| {
            let socket = socket?;
            let copies_left = if matches!(socket, FlowSocket::Udp(_)) { COPIES } else { 1 };
            Some(HeldFlow { socket, index: index as u32, due: began + idle, copies_left, idle: None })
        };
        let flows = flows.map(|flows| flows.into_iter().enumerate().map(hold).collect());
        IdleFlows { flows, began, credential, version, _place: place }
    }

    /// Which of them are kept.
    pub(super) fn are_held(&self) -> [Vec<bool>; 2] {
        [0, 1].map(|kind: usize| self.flows[kind].iter().map(Option::is_some).collect())
    }

    /// When something is to be sent next; none once all is.
    pub(super) fn next_time(&self) -> Option<Time> {
        let left = self.flows.iter().flatten().flatten().filter(|flow| flow.copies_left > 0);
        left.map(|flow| flow.due).min()
    }

    /// When they are given up, whether the client has asked or not.
    pub(super) fn end_time(&self) -> Time {
        let last = self.flows.iter().flatten().flatten().map(|flow| flow.due).max();
        last.unwrap_or(self.began) + TIME_TO_ASK
    }

    /// Sends what is due.
    pub(super) fn advance(&mut self, now: Time) {
        let (credential, version) = (self.credential, self.version);
        for (protocol, flow) in
            with_protocol(&mut self.flows).filter(|(_, flow)| flow.copies_left > 0 && flow.due <= now)
        {
            let bearer = flow_bearer(SessionEndpoint::Server, protocol, flow.index);
            let packet = PortAnswer { authenticator: credential.authenticator_for(bearer), index: flow.index };
            let packet = packet.encode(version);
            flow.idle.get_or_insert(now - self.began);
            // What does not leave is lost, like any packet: of UDP, an ICMP error for an earlier one may be the reason.
            let _ = match &flow.socket {
                FlowSocket::Udp(socket) => socket.send(&packet).or_else(|_| socket.send(&packet)),
                FlowSocket::Tcp(stream) => (&mut &*stream).write(&packet),
            };
            flow.copies_left -= 1;
            flow.due = now + COPY_INTERVAL;
        }
    }

    /// What has become of them.
    pub(super) fn end(mut self) -> [Vec<IdleFlowRecord>; 2] {
        let credential = self.credential;
        let arrived = |protocol, flow: &HeldFlow| {
            let mut bytes = [0; PortProbe::SIZE];
            let bearer = flow_bearer(SessionEndpoint::Client, protocol, flow.index);
            let is_right = |bytes: &[u8]| {
                PortProbe::decode(bytes)
                    .is_ok_and(|(probe, _)| credential.is_authenticator_of(bearer, &probe.authenticator))
            };
            match &flow.socket {
                FlowSocket::Udp(socket) => {
                    (0..MAX_TAKEN).any(|_| socket.recv(&mut bytes).is_ok_and(|length| is_right(&bytes[..length])))
                }
                FlowSocket::Tcp(stream) => (&mut &*stream).read_exact(&mut bytes).is_ok() && is_right(&bytes),
            }
        };
        let record = |protocol: PortProtocol, flow: &Option<HeldFlow>| {
            let flow = flow.as_ref().filter(|flow| flow.idle.is_some());
            IdleFlowRecord {
                idle: flow.and_then(|flow| flow.idle),
                has_arrived: flow.is_some_and(|flow| arrived(protocol, flow)),
            }
        };
        let [udp, tcp] = std::mem::take(&mut self.flows);
        [
            udp.iter().map(|flow| record(PortProtocol::Udp, flow)).collect(),
            tcp.iter().map(|flow| record(PortProtocol::Tcp, flow)).collect(),
        ]
    }
}

/// Packets that are read from a flow of UDP at its end: requests of its beginning, and three copies.
const MAX_TAKEN: usize = 16;

fn with_protocol(flows: &mut [Vec<Option<HeldFlow>>; 2]) -> impl Iterator<Item = (PortProtocol, &mut HeldFlow)> {
    flows
        .iter_mut()
        .zip(PortProtocol::BOTH)
        .flat_map(|(flows, protocol)| flows.iter_mut().flatten().map(move |flow| (protocol, flow)))
}

/// What packets of such flows show: they are at no port of their own.
fn flow_bearer(sender: SessionEndpoint, protocol: PortProtocol, index: u32) -> CredentialBearer {
    CredentialBearer::Port { sender, protocol, port: 0, index }
}
