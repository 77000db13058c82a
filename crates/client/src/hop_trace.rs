//! Packets that end on the way, up and down, so that routers answer: the measurement's own flow, and others beside it.

use crate::error::Error;
use crate::path::{FIRST_SYN_NUMBER, failure_reason};
use crate::server_connection::ServerConnection;
use crate::udp_nonce::{open_flow, request_nonces};
use kumade_measurement::TraceRequest;
use kumade_net::{SocketBinding, clock};
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
    /// Whether the server was asked: once.
    is_asked: bool,
    /// What it has answered.
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
        let began = clock::monotonic();
        let count = self.open_udp(peer, binding, trace);
        self.request_nonces(peer, count);
        // One that has got none is known to nobody.
        let flows = self.udp.iter().take(count).map(|flow| flow.nonce.unwrap_or_default()).collect();
        // The time that this took is part of the trace's own.
        let max_duration = trace.max_duration - (clock::monotonic() - began);
        if max_duration <= Span::ZERO {
            return Ok(Ok(HopTraceRecord::default()));
        }
        let trace = HopTrace { max_duration, ..trace.clone() };
        let question = ClientMessage::TraceHops { number, trace, flows };
        match peer.request(&question, max_duration + ANSWER_TIMEOUT, OPERATION)? {
            ServerMessage::HopsTraced { number: n, record } if n == number => Ok(Ok(record)),
            other => failure_reason(peer, number, &other, OPERATION).map(Err),
        }
    }

    /// As many further flows as a trace has; returns how many.
    fn open_udp(&mut self, peer: &ServerConnection, binding: &SocketBinding, trace: &HopTrace) -> usize {
        let count = trace.probes.iter().map(|probe| probe.flow.into()).max().unwrap_or(0);
        while self.udp.len() < count {
            self.udp.push(UdpHopFlow { socket: open_flow(peer, binding), is_asked: false, nonce: None });
        }
        count
    }

    /// Of the first flows, as many as this.
    fn request_nonces(&mut self, peer: &ServerConnection, count: usize) {
        let unasked = self.udp.iter_mut().take(count).filter_map(|UdpHopFlow { socket, is_asked, nonce }| {
            let is_new = !std::mem::replace(is_asked, true);
            Some((socket.as_ref().filter(|_| is_new)?, nonce))
        });
        let (sockets, nonces): (Vec<_>, Vec<_>) = unasked.unzip();
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
