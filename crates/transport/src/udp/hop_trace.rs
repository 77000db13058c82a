//! Traces over UDP: by the socket's own flow, and by others between the same hosts.

use super::marked::send_one;
use super::{PROBE_HEADER_BYTES, UdpProbes};
use crate::error::Error;
use crate::hop_trace::{QuotedPacket, TracedFlow, trace_hops};
use kumade_net::platform::readiness;
use kumade_net::platform::udp::DatagramReceiver;
use kumade_net::platform::{AsFd, BorrowedFd};
use kumade_net::report_icmp_errors;
use kumade_packet::protocol;
use kumade_probe_train::{HopTrace, HopTraceRecord};
use kumade_units::Time;
use kumade_wire::{Credential, CredentialBearer, SessionEndpoint, Token};
use std::io;
use std::net::UdpSocket;

impl UdpProbes {
    /// Sends the packets of a trace as train `number` of the session, which the peer needs not know of, and hears what routers answer. Flow 0 is that
    /// of the trains, flow `n` that of `further[n - 1]`, which is connected to the peer's host. Blocks as long as the trace takes at most.
    ///
    /// # Errors
    /// [`Error::Plan`] before anything is sent; [`Error::Aborted`] if the control connection is closed; [`Error::Io`] if UDP is rejected, or the
    /// system has no answers to give.
    pub fn trace_hops(
        &mut self,
        number: u32,
        trace: &HopTrace,
        further: &[Option<UdpSocket>],
    ) -> Result<HopTraceRecord, Error> {
        self.begin_sending()?;
        self.are_rejections_expected = true;
        // Keys of stamps are not counted here.
        self.transmit_stamps.is_next_key_known = false;
        // A further one that can't hear answers counts as missing.
        let hears = |socket: &&UdpSocket| report_icmp_errors(*socket, true).is_ok();
        let heard: Vec<_> = further.iter().map(|socket| socket.as_ref().filter(hears)).collect();
        let enabled = report_icmp_errors(&self.socket, true);
        let done = match enabled.map_err(Error::io("hear of routers on the way to", self.peer)) {
            Ok(()) => {
                let (credential, sender) = (self.credential, self.local_endpoint);
                let flow = |socket| UdpFlow { socket, credential, sender, number, discarded: DatagramReceiver::new(1) };
                let sockets = [Some(&self.socket)].into_iter().chain(heard);
                let mut flows: Vec<_> = sockets.map(|socket| socket.map(flow)).collect();
                trace_hops(&mut flows, trace, self.peer, &mut self.control)
            }
            Err(error) => Err(error),
        };
        // Trains, and whatever else is sent, are not to be stopped by errors that come late.
        for socket in [&self.socket].into_iter().chain(further.iter().flatten()) {
            let _ = report_icmp_errors(socket, false);
            let _ = socket.take_error();
        }
        done
    }
}

/// Packets of a session by a connected socket.
struct UdpFlow<'s> {
    socket: &'s UdpSocket,
    credential: Credential,
    sender: SessionEndpoint,
    /// Of the session.
    number: u32,
    /// What the peer sends meanwhile is of no interest.
    discarded: DatagramReceiver,
}

impl UdpFlow<'_> {
    fn bearer(&self, index: u32) -> CredentialBearer {
        CredentialBearer::Packet { sender: self.sender, train: self.number, index }
    }
}

impl TracedFlow for UdpFlow<'_> {
    const PROTOCOL: u8 = protocol::UDP;
    const HAS_SEQUENCE_NUMBERS: bool = false;

    fn send(&mut self, index: u32, ds_field: u8, hop_limit: u8) -> io::Result<()> {
        let shown = self.credential.authenticator_for(self.bearer(index));
        let payload = [&shown.0[..], &self.number.to_be_bytes(), &index.to_be_bytes()].concat();
        send_one(self.socket, &payload, ds_field, Some(hop_limit))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn ports(&self) -> Option<[u16; 2]> {
        Some([self.socket.local_addr().ok()?.port(), self.socket.peer_addr().ok()?.port()])
    }

    /// The last one, without proof, where too little is quoted to tell: RFC 792 demands no more than the UDP header.
    fn quoted_packet(&self, payload: &[u8], last: u32) -> Option<QuotedPacket> {
        let Some(header) = payload.first_chunk::<PROBE_HEADER_BYTES>() else {
            return Some(QuotedPacket { index: last, is_proven: false });
        };
        let (shown, rest) = header.split_first_chunk()?;
        let index = u32::from_be_bytes(rest.strip_prefix(&self.number.to_be_bytes())?.try_into().ok()?);
        let is_own = self.credential.is_authenticator_of(self.bearer(index), &Token(*shown));
        is_own.then_some(QuotedPacket { index, is_proven: true })
    }

    fn wait_for_any<'f>(sockets: impl Iterator<Item = BorrowedFd<'f>>, deadline: Time) -> io::Result<bool> {
        readiness::wait_any_readable(sockets, deadline)
    }

    fn discard_others(&mut self) -> bool {
        let _ = self.discarded.receive(self.socket, |_, _| ());
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::{HopProbe, Mark, MarkedTrain};
    use kumade_units::Span;
    use kumade_wire::Version;

    const EF_ECT0: u8 = 46 << 2 | 0b10;

    /// To a port that is closed, whose host answers like a router.
    fn probes_to_closed_port(own: &str) -> UdpProbes {
        let closed = UdpSocket::bind(own).unwrap().local_addr().unwrap();
        let socket = UdpSocket::bind(own).unwrap();
        socket.connect(closed).unwrap();
        let credential = Credential::new(Token([7; 16]), Version::NEWEST, true);
        UdpProbes::new(socket, credential, SessionEndpoint::Client).unwrap()
    }

    #[test]
    fn answers_are_heard_over_either_version_of_ip_and_stop_nothing_afterwards() {
        for own in ["127.0.0.1:0", "[::1]:0"] {
            let mut probes = probes_to_closed_port(own);
            let timeout = HopTrace::MAX_DURATION;
            let hop_probes = [1, 2, 9].map(|hop_limit| HopProbe { flow: 0, hop_limit }).to_vec();
            let trace = HopTrace { ds_field: EF_ECT0, probes: hop_probes, timeout, max_duration: timeout };
            let record = probes.trace_hops(5, &trace, &[]).unwrap();
            assert_eq!(record.sent, [0, 1, 2]);
            for (answer, index) in record.answers.iter().zip(0..) {
                assert_eq!((answer.index, answer.from), (index, Some(probes.peer.ip())));
                assert_eq!([answer.icmp_type, answer.icmp_code], if answer.is_v6 { [1, 4] } else { [3, 3] });
                assert_eq!(answer.quoted_ds_field, record.can_read_quotes.then_some(EF_ECT0));
            }
            assert_eq!(record.answers.len(), 3);
            // Rejected packets do not keep others from being sent.
            let marks = vec![Mark { ds_field: 0, hop_limit: None }; 9];
            let marked = MarkedTrain { interval: Span::from_millis(1), marks };
            assert_eq!(probes.send_marked(6, &marked).unwrap().len(), 9);
            assert_eq!(probes.send_marked(7, &marked).unwrap().len(), 9);
            let nothing = probes.receive(8, &marked.unmarked(), Span::from_millis(10)).unwrap();
            assert!(nothing.arrivals.is_empty(), "{nothing:?}");
        }
    }

    #[test]
    fn packets_of_several_flows_are_answered_each_by_itself() {
        let mut probes = probes_to_closed_port("127.0.0.1:0");
        let further = UdpSocket::bind("127.0.0.1:0").unwrap();
        further.connect(probes.peer).unwrap();
        let timeout = HopTrace::MAX_DURATION;
        let probe = |(flow, hop_limit)| HopProbe { flow, hop_limit };
        // The second one is missing.
        let hop_probes = [(0, 1), (1, 1), (2, 1), (0, 9), (2, 9)].map(probe).to_vec();
        let trace = HopTrace { ds_field: EF_ECT0, probes: hop_probes, timeout, max_duration: timeout };
        let record = probes.trace_hops(5, &trace, &[None, Some(further)]).unwrap();
        assert_eq!(record.sent, [0, 2, 3, 4]);
        assert_eq!(record.answers.iter().map(|answer| answer.index).collect::<Vec<_>>(), [0, 2, 3, 4]);
        let is_quoted = record.answers.iter().all(|answer| answer.quoted_ds_field == Some(EF_ECT0));
        assert_eq!(is_quoted, record.can_read_quotes);
    }

    #[test]
    fn a_quote_is_of_the_packet_that_it_shows_and_else_of_the_last_one_without_proof() {
        let probes = probes_to_closed_port("127.0.0.1:0");
        let flow = |number| UdpFlow {
            socket: &probes.socket,
            credential: probes.credential,
            sender: SessionEndpoint::Client,
            number,
            discarded: DatagramReceiver::new(1),
        };
        let shown = probes.credential.authenticator_for(flow(5).bearer(3));
        let own = [&shown.0[..], &5u32.to_be_bytes(), &3u32.to_be_bytes()].concat();
        let found = |number, payload: &[u8]| {
            flow(number).quoted_packet(payload, 8).map(|quoted| (quoted.index, quoted.is_proven))
        };
        assert_eq!(found(5, &own), Some((3, true)));
        assert_eq!(found(5, &[own.clone(), vec![1; 9]].concat()), Some((3, true)));
        assert_eq!(found(5, &own[..PROBE_HEADER_BYTES - 1]), Some((8, false)), "too little is quoted");
        assert_eq!(found(6, &own), None, "of another train");
        let mut forged = own;
        forged[0] ^= 1;
        assert_eq!(found(5, &forged), None);
    }
}
