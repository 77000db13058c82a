//! Flows of a client that are kept while they are idle, beyond its turn: after its idle time, three packets are sent down each, to see whether
//! address translators and firewalls on the path still know it.
//!
//! They are few, for a bounded time, and each has been opened by the client, which has proved to receive there.

use kumade_daemon::Network;
use kumade_net::clock;
use kumade_probe_train::PortProtocol;
use kumade_units::{Span, Time};
use kumade_wire::{Credential, CredentialBearer, IdleFlowRecord, PortAnswer, PortProbe, SessionEndpoint, Version};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of flows of a client.
pub(super) const MAX_FLOWS: usize = 64;
/// Maximum number of clients whose flows are kept at once.
const MAX_CLIENTS: usize = 8;
/// Maximum number of them in a network: one host leaves places to others.
const MAX_NETWORK_CLIENTS: usize = 2;
/// A flow of UDP has so many copies, this far apart: one may be lost.
const COPIES: u32 = 3;
const COPY_INTERVAL: Span = Span::from_millis(300);
/// How long flows are kept after the last of them: until the client has sent up it, and asked.
const TIME_TO_ASK: Span = Span::from_secs(30);
/// Packets that are read from a flow of UDP at its end: requests of its beginning, and three copies.
const MAX_TAKEN: usize = 16;

/// The networks of the clients whose flows are kept, each as often as it has clients.
pub(super) type FlowNetworks = Mutex<Vec<Network>>;

/// A place among the clients whose flows are kept; free again when dropped.
pub(super) struct FlowsPlace {
    taken: Arc<FlowNetworks>,
    network: Network,
}

impl FlowsPlace {
    /// One for a client of this network; none where all are taken, or those of its network.
    pub(super) fn take(taken: &Arc<FlowNetworks>, network: Network) -> Option<Self> {
        // Every change under this lock is consistent even if its thread panics.
        let mut networks = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let in_network = networks.iter().filter(|taken| **taken == network).count();
        if networks.len() == MAX_CLIENTS || in_network == MAX_NETWORK_CLIENTS {
            return None;
        }
        networks.push(network);
        Some(FlowsPlace { taken: Arc::clone(taken), network })
    }
}

impl Drop for FlowsPlace {
    fn drop(&mut self) {
        let mut networks = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = networks.iter().position(|network| *network == self.network) {
            networks.swap_remove(place);
        }
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
    end_time: Time,
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
        let longest = flows.iter().flatten().map(|(_, idle)| *idle).max().unwrap_or_default();
        let end_time = began + longest + COPY_INTERVAL * i64::from(COPIES) + TIME_TO_ASK;
        let flows = flows.map(|flows| flows.into_iter().enumerate().map(hold).collect());
        IdleFlows { flows, began, end_time, credential, version, _place: place }
    }

    /// When something is to be sent next, or all is to be given up.
    pub(super) fn next_time(&self) -> Time {
        let left = self.flows.iter().flatten().flatten().filter(|flow| flow.copies_left > 0);
        left.map(|flow| flow.due).fold(self.end_time, Time::min)
    }

    /// When they are given up, whether the client has asked or not.
    pub(super) fn end_time(&self) -> Time {
        self.end_time
    }

    /// Sends what is due; breaks once they are to be given up.
    pub(super) fn advance(&mut self, now: Time) -> ControlFlow<()> {
        if now >= self.end_time {
            return ControlFlow::Break(());
        }
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
        ControlFlow::Continue(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_wire::Token;

    #[test]
    fn flows_are_given_up_a_bounded_time_after_the_last_of_them_whether_the_client_asks_or_not() {
        let networks = Arc::default();
        let place = FlowsPlace::take(&networks, Network::containing([192, 0, 2, 1].into())).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        let idle = Span::from_secs(600);
        let credential = Credential::new(Token([7; 16]), Version::NEWEST, false);
        let udp = vec![(Some(FlowSocket::Udp(socket)), idle)];
        let mut flows = IdleFlows::begin([udp, Vec::new()], credential, Version::NEWEST, place);
        let mut due = flows.began;
        let mut sent = 0;
        while flows.advance(due).is_continue() {
            sent += u32::from(due >= flows.began + idle);
            due = flows.next_time();
        }
        assert_eq!((sent, due), (COPIES, flows.began + idle + COPY_INTERVAL * i64::from(COPIES) + TIME_TO_ASK));
        drop(flows);
        assert!(networks.lock().unwrap().is_empty());
    }

    #[test]
    fn a_network_takes_two_places_of_eight_and_each_is_free_again() {
        let networks = Arc::default();
        let take = |third: u8, last: u8| FlowsPlace::take(&networks, Network::containing([10, 0, third, last].into()));
        let mut places: Vec<_> = (0..4).flat_map(|network| [take(network, 1), take(network, 1)]).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(take(9, 1).is_none(), "a ninth client");
        places.truncate(2);
        assert!(take(0, 2).is_none(), "a third one of a network");
        assert!(take(1, 1).is_some());
        places.pop();
        assert!(take(0, 2).is_some());
    }
}
