//! Packets that end on the way, up and down, so that routers answer: the measurement's own flow, and others beside it.

use crate::error::Error;
use crate::path::{FIRST_SYN_NUMBER, failure_reason};
use crate::server_connection::ServerConnection;
use crate::udp_nonce::request_nonces;
use kumade_measurement::TraceRequest;
use kumade_net::SocketBinding;
use kumade_probe_train::{HopTrace, HopTraceRecord, PortProtocol};
use kumade_transport::{Probes, TcpHopFlows, UdpProbes};
use kumade_units::{Direction, Span};
use kumade_wire::{ClientMessage, ServerMessage, Version};
use std::net::UdpSocket;

const OPERATION: &str = "asking routers";
/// Timeout of the server's answer, beyond the trace's own time.
const ANSWER_TIMEOUT: Span = Span::from_secs(2);

/// What a trace comes to; the inner error is the reason why there is nothing.
type Traced = Result<Result<HopTraceRecord, String>, Error>;

/// The flows beside the measurement's own one, which are the same in all traces of a measurement.
#[derive(Debug, Default)]
pub(crate) struct HopFlows {
    udp: Vec<UdpHopFlow>,
    tcp: TcpHopFlows,
}

/// A flow of UDP.
#[derive(Debug)]
struct UdpHopFlow {
    /// None where the system gives none.
    socket: Option<UdpSocket>,
    /// What the server has answered it; none before it is asked, or where it does not answer.
    nonce: Option<[u8; 16]>,
}

impl HopFlows {
    /// Has the packets of a request sent, as train `number` of the session.
    ///
    /// # Errors
    /// Of the control connection.
    pub(crate) fn trace(
        &mut self,
        peer: &mut ServerConnection,
        probes: Option<&mut Probes>,
        binding: &SocketBinding,
        number: u32,
        request: &TraceRequest,
    ) -> Traced {
        let TraceRequest { direction, protocol, trace } = request;
        match (protocol, direction, probes) {
            (PortProtocol::Tcp, Direction::Up, _) => {
                keep_turn(peer)?;
                let control = peer.control_watch()?;
                let done = self.tcp.trace_hops(peer.address, binding, trace, control);
                Ok(done.map_err(|error| error.to_string()))
            }
            (PortProtocol::Udp, Direction::Up, Some(Probes::Udp(probes))) => {
                Ok(self.trace_up(peer, probes, binding, number, trace))
            }
            (PortProtocol::Udp, Direction::Down, Some(Probes::Udp(_))) => self.trace_down(peer, binding, number, trace),
            _ => Ok(Err("UDP is not open".to_owned())),
        }
    }

    fn trace_up(
        &mut self,
        peer: &ServerConnection,
        probes: &mut UdpProbes,
        binding: &SocketBinding,
        number: u32,
        trace: &HopTrace,
    ) -> Result<HopTraceRecord, String> {
        self.open_udp(peer, binding, trace);
        let sockets = |flow: &UdpHopFlow| flow.socket.as_ref().and_then(|socket| socket.try_clone().ok());
        let further: Vec<_> = self.udp.iter().map(sockets).collect();
        probes.trace_hops(number, trace, &further).map_err(|error| error.to_string())
    }

    /// The server asks the routers on its way to this host, at the ports from which these flows go up.
    fn trace_down(
        &mut self,
        peer: &mut ServerConnection,
        binding: &SocketBinding,
        number: u32,
        trace: &HopTrace,
    ) -> Traced {
        if let Err(why) = peer.require_version(Version::HOP_TRACES, "packets for routers") {
            return Ok(Err(why));
        }
        self.open_udp(peer, binding, trace);
        self.request_nonces(peer);
        // One that has got none is known to nobody.
        let flows = self.udp.iter().map(|flow| flow.nonce.unwrap_or_default()).collect();
        let question = ClientMessage::TraceHops { number, trace: trace.clone(), flows };
        match peer.request(&question, trace.max_duration + trace.timeout + ANSWER_TIMEOUT, OPERATION)? {
            ServerMessage::HopsTraced { number: n, record } if n == number => Ok(Ok(record)),
            other => failure_reason(peer, number, &other, OPERATION).map(Err),
        }
    }

    /// As many flows as a trace has.
    fn open_udp(&mut self, peer: &ServerConnection, binding: &SocketBinding, trace: &HopTrace) {
        let count = trace.probes.iter().map(|probe| probe.flow).max().unwrap_or(0);
        let open = || {
            let socket = binding.connect_udp(peer.address);
            let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
            socket.inspect_err(|error| tracing::debug!("a flow to ask routers by: {error}")).ok()
        };
        while self.udp.len() < usize::from(count) {
            self.udp.push(UdpHopFlow { socket: open(), nonce: None });
        }
    }

    fn request_nonces(&mut self, peer: &ServerConnection) {
        let (sockets, nonces): (Vec<_>, Vec<_>) = self
            .udp
            .iter_mut()
            .filter_map(|flow| Some((flow.socket.as_ref().filter(|_| flow.nonce.is_none())?, &mut flow.nonce)))
            .unzip();
        if sockets.is_empty() {
            return;
        }
        for (nonce, answer) in nonces.into_iter().zip(request_nonces(peer, &sockets)) {
            *nonce = answer.ok().map(|answer| answer.nonce);
        }
    }
}

/// A message of the turn, which ends without one after five seconds: the server hears nothing of SYNs that end on the way.
fn keep_turn(peer: &mut ServerConnection) -> Result<(), Error> {
    let question = ClientMessage::AskSyns { first: FIRST_SYN_NUMBER, expected: 0, wait: Span::ZERO };
    match peer.request(&question, ANSWER_TIMEOUT, OPERATION)? {
        ServerMessage::ConnectionSyns { .. } => Ok(()),
        _ => Err(peer.protocol_violation(OPERATION)),
    }
}
