//! Traces over TCP: connections that are begun with a TTL or hop limit that ends on the way, each flow always from the same port.
//!
//! Routers answer SYNs as they answer datagrams. Of segments of an established connection the kernel tells no more than that they were not
//! delivered, not who said so: that takes `CAP_NET_RAW`.

use crate::control_watch::ControlWatch;
use crate::error::Error;
use crate::hop_trace::{QuotedPacket, TracedFlow, trace_hops};
use kumade_net::SocketBinding;
use kumade_net::platform::readiness;
use kumade_net::platform::tcp::PendingConnection;
use kumade_net::platform::{AsFd, BorrowedFd};
use kumade_packet::protocol;
use kumade_probe_train::{HopTrace, HopTraceRecord};
use kumade_units::Time;
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Flows to a port of a host, which are kept from one trace to the next.
#[derive(Debug, Default)]
pub struct TcpHopFlows {
    /// Ports of this host.
    ports: Vec<u16>,
}

impl TcpHopFlows {
    /// Sends the SYNs of a trace to `peer`, and hears what routers answer. Blocks as long as the trace takes at most.
    ///
    /// # Errors
    /// [`Error::Plan`] before anything is sent; [`Error::Aborted`] if the control connection is closed; [`Error::Io`] if the system has no answers to
    /// give.
    pub fn trace_hops(
        &mut self,
        peer: SocketAddr,
        binding: &SocketBinding,
        trace: &HopTrace,
        mut control: ControlWatch,
    ) -> Result<HopTraceRecord, Error> {
        let count = trace.probes.iter().map(|probe| usize::from(probe.flow) + 1).max().unwrap_or(0);
        self.ports.resize(self.ports.len().max(count), 0);
        let flow = |port: &u16| Some(TcpFlow { peer, binding, port: *port, connecting: None });
        let mut flows: Vec<_> = self.ports.iter().map(flow).collect();
        let done = trace_hops(&mut flows, trace, peer, &mut control);
        self.ports = flows.iter().flatten().map(|flow| flow.port).collect();
        done
    }
}

/// SYNs from one port.
struct TcpFlow<'b> {
    peer: SocketAddr,
    binding: &'b SocketBinding,
    /// Zero before the first one.
    port: u16,
    connecting: Option<PendingConnection>,
}

impl TcpFlow<'_> {
    fn stream(&self) -> Option<&TcpStream> {
        self.connecting.as_ref()?.socket()
    }
}

impl TracedFlow for TcpFlow<'_> {
    const PROTOCOL: u8 = protocol::TCP;
    const HAS_SEQUENCE_NUMBERS: bool = true;

    fn send(&mut self, _: u32, ds_field: u8, hop_limit: u8) -> io::Result<()> {
        // The port is free then.
        self.connecting = None;
        let connecting =
            PendingConnection::begin_with_hop_limit(self.peer, self.binding, self.port, ds_field, hop_limit)?;
        self.connecting = Some(connecting);
        if let Some(Ok(local)) = self.stream().map(TcpStream::local_addr) {
            self.port = local.port();
        }
        Ok(())
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream().map(AsFd::as_fd)
    }

    fn ports(&self) -> Option<[u16; 2]> {
        Some([self.port, self.peer.port()])
    }

    /// The kernel knows by the sequence number that it is the last one.
    fn quoted_packet(&self, _: &[u8], last: u32) -> Option<QuotedPacket> {
        Some(QuotedPacket { index: last, is_proven: true })
    }

    /// Also until a connection opens.
    fn wait_for_any<'s>(sockets: impl Iterator<Item = BorrowedFd<'s>>, deadline: Time) -> io::Result<bool> {
        readiness::wait_any_writable(sockets, deadline)
    }

    /// A connection that opened, or was refused, has met no router that answers.
    fn discard_others(&mut self) -> bool {
        self.stream().is_none_or(|stream| stream.peer_addr().is_ok() || !matches!(stream.take_error(), Ok(None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::HopProbe;
    use kumade_units::Span;
    use std::net::TcpListener;

    /// No router is on the way: connections open, or are refused, without a wait, from the same port each time.
    #[test]
    fn connections_that_meet_no_router_end_a_wait_and_leave_their_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // One that was free a moment ago may be another test's now.
        for peer in [listener.local_addr().unwrap(), "127.0.0.1:1".parse().unwrap()] {
            let mut flows = TcpHopFlows::default();
            let probe = |(flow, hop_limit)| HopProbe { flow, hop_limit };
            let (probes, timeout) = ([(0, 1), (1, 1), (0, 2), (1, 2)].map(probe).to_vec(), Span::from_secs(5));
            let trace = HopTrace { ds_field: 46 << 2, probes, timeout, max_duration: timeout };
            let mut run = || {
                let record =
                    flows.trace_hops(peer, &SocketBinding::default(), &trace, ControlWatch::default()).unwrap();
                assert!(record.answers.is_empty() && record.sent == [0, 1, 2, 3], "{record:?}");
                flows.ports.clone()
            };
            let ports = run();
            assert!(ports[0] != ports[1] && ports.iter().all(|port| *port > 0), "{ports:?}");
            assert_eq!(run(), ports);
        }
    }
}
