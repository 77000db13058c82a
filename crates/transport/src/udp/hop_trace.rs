//! Packets of the socket's own flow that end on the way, and what routers answer.

use super::marked::send_one;
use super::{PROBE_HEADER_BYTES, UdpProbes};
use crate::error::Error;
use kumade_net::udp::{DatagramReceiver, IcmpError};
use kumade_net::{IcmpListener, clock, readiness, udp};
use kumade_packet::QuotedUdp;
use kumade_probe_train::{HopAnswer, HopTrace, HopTraceRecord};
use kumade_units::Time;
use kumade_wire::{CredentialBearer, Token};
use std::collections::BTreeMap;

/// Messages that are read before the time is looked at again: anybody may send some.
const MAX_READS: usize = 64;

/// What has been heard of a trace so far.
struct Heard<'t> {
    trace: &'t HopTrace,
    /// Of the session.
    number: u32,
    /// When each packet left.
    sent: BTreeMap<u32, Time>,
    answers: BTreeMap<u32, HopAnswer>,
    /// DSCP and ECN of packets that were quoted.
    quoted: BTreeMap<u32, u8>,
    /// None where this process may not have one.
    listener: Option<IcmpListener>,
    /// What the peer sends meanwhile is of no interest.
    discarded: DatagramReceiver,
}

impl UdpProbes {
    /// Sends the packets of a trace as train `number` of the session, which the peer needs not know of, and hears what routers answer. Blocks as
    /// long as the trace takes at most.
    ///
    /// # Errors
    /// [`Error::Aborted`] if the control connection is closed; [`Error::Io`] if UDP is rejected, or the system has no answers to give.
    pub fn trace_hops(&mut self, number: u32, trace: &HopTrace) -> Result<HopTraceRecord, Error> {
        self.begin_sending()?;
        self.are_rejections_expected = true;
        udp::report_icmp_errors(&self.socket, true).map_err(Error::io("hear of routers on the way to", self.peer))?;
        let mut heard = Heard {
            trace,
            number,
            sent: BTreeMap::new(),
            answers: BTreeMap::new(),
            quoted: BTreeMap::new(),
            listener: IcmpListener::open(self.peer.ip()).ok(),
            discarded: DatagramReceiver::new(1),
        };
        let done = self.send_hop_probes(&mut heard);
        // Trains are not to be stopped by the errors of others.
        let _ = udp::report_icmp_errors(&self.socket, false);
        done.map(|()| heard.into_record())
    }

    fn send_hop_probes(&mut self, heard: &mut Heard<'_>) -> Result<(), Error> {
        let HopTrace { ds_field, timeout, max_duration, ref hop_limits } = *heard.trace;
        let end = clock::monotonic() + max_duration;
        for (hop_limit, index) in hop_limits.iter().zip(0u32..) {
            if clock::monotonic() >= end {
                break;
            }
            self.write_header(0, heard.number, index);
            let sent_at = clock::realtime();
            match send_one(&self.socket, &self.packet[..PROBE_HEADER_BYTES], ds_field, Some(*hop_limit)) {
                Ok(()) => {
                    heard.sent.insert(index, sent_at);
                    self.transmit_stamps.advance_keys(1);
                    self.await_answer(heard, index, (clock::monotonic() + timeout).min(end))?;
                }
                // It counts as not sent.
                Err(_) => self.transmit_stamps.is_next_key_known = false,
            }
        }
        Ok(())
    }

    /// Waits for the answer to the packet that was sent last.
    fn await_answer(&mut self, heard: &mut Heard<'_>, last: u32, deadline: Time) -> Result<(), Error> {
        loop {
            self.take_answers(heard, last)?;
            if heard.answers.contains_key(&last) || clock::monotonic() >= deadline {
                return Ok(());
            }
            if self.control.is_closed() {
                return Err(Error::Aborted(self.peer));
            }
            readiness::wait_readable(&self.socket, self.control.next_wakeup(deadline))
                .map_err(Error::io("wait for answers of routers on the way to", self.peer))?;
            // An error that was reported, or a packet, would end every wait at once.
            let _ = heard.discarded.receive(&self.socket, |_, _| ());
        }
    }

    fn take_answers(&self, heard: &mut Heard<'_>, last: u32) -> Result<(), Error> {
        let mut payload = [0; PROBE_HEADER_BYTES];
        for _ in 0..MAX_READS {
            let Some(error) = udp::next_icmp_error(&self.socket, &mut payload)
                .map_err(Error::io("read answers of routers on the way to", self.peer))?
            else {
                break;
            };
            // The kernel gives the message to raw sockets first.
            self.take_quotes(heard, last);
            if let Some(index) = self.quoted_index(&payload[..error.payload_bytes], heard.number, last) {
                heard.record(index, &error);
            }
        }
        Ok(())
    }

    fn take_quotes(&self, heard: &mut Heard<'_>, last: u32) {
        let Some(listener) = &heard.listener else { return };
        let mut memory = [0; IcmpListener::MAX_MESSAGE_BYTES];
        let is_v6 = self.peer.ip().to_canonical().is_ipv6();
        let own_port = self.socket.local_addr().map(|own| own.port()).ok();
        for _ in 0..MAX_READS {
            let Ok(Some(message)) = listener.receive(&mut memory) else { break };
            let Some(quoted) = QuotedUdp::from_icmp(message, is_v6) else { continue };
            let flow = (quoted.destination, quoted.destination_port, Some(quoted.source_port));
            if flow != (self.peer.ip().to_canonical(), self.peer.port(), own_port) {
                continue;
            }
            if let Some(index) = self.quoted_index(quoted.payload, heard.number, last) {
                heard.quoted.entry(index).or_insert(quoted.ds_field);
            }
        }
    }

    /// Which packet of train `number` is quoted: that which was sent last, where too little is quoted to tell (RFC 792 demands no more than the
    /// UDP header); none for others.
    fn quoted_index(&self, payload: &[u8], number: u32, last: u32) -> Option<u32> {
        let Some(header) = payload.first_chunk::<PROBE_HEADER_BYTES>() else { return Some(last) };
        let (shown, rest) = header.split_first_chunk()?;
        let index = u32::from_be_bytes(rest.strip_prefix(&number.to_be_bytes())?.try_into().ok()?);
        let bearer = CredentialBearer::Packet { sender: self.local_endpoint, train: number, index };
        self.credential.is_authenticator_of(bearer, &Token(*shown)).then_some(index)
    }
}

impl Heard<'_> {
    /// The first answer to a packet counts.
    fn record(&mut self, index: u32, error: &IcmpError) {
        let Some(sent) = self.sent.get(&index) else { return };
        let arrived = error.stamp.unwrap_or_else(clock::realtime);
        self.answers.entry(index).or_insert(HopAnswer {
            index,
            from: error.from,
            is_v6: error.is_v6,
            icmp_type: error.icmp_type,
            icmp_code: error.icmp_code,
            round_trip: arrived - *sent,
            quoted_ds_field: None,
        });
    }

    fn into_record(self) -> HopTraceRecord {
        let Heard { sent, answers, quoted, listener, .. } = self;
        let with_quote =
            |(index, answer): (u32, HopAnswer)| HopAnswer { quoted_ds_field: quoted.get(&index).copied(), ..answer };
        HopTraceRecord {
            sent: sent.into_keys().collect(),
            answers: answers.into_iter().map(with_quote).collect(),
            can_read_quotes: listener.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::{Mark, MarkedTrain};
    use kumade_units::Span;
    use kumade_wire::{Credential, SessionEndpoint, Version};
    use std::net::UdpSocket;

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
            let timeout = Span::from_secs(20);
            let trace = HopTrace { ds_field: EF_ECT0, hop_limits: vec![1, 2, 9], timeout, max_duration: timeout };
            let record = probes.trace_hops(5, &trace).unwrap();
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
    fn a_quote_is_of_the_packet_that_it_shows_and_else_of_the_last_one() {
        let mut probes = probes_to_closed_port("127.0.0.1:0");
        probes.write_header(0, 5, 3);
        let own = probes.packet[..PROBE_HEADER_BYTES].to_vec();
        assert_eq!(probes.quoted_index(&own, 5, 8), Some(3));
        assert_eq!(probes.quoted_index(&[own.clone(), vec![1; 9]].concat(), 5, 8), Some(3));
        assert_eq!(probes.quoted_index(&own[..PROBE_HEADER_BYTES - 1], 5, 8), Some(8), "too little is quoted");
        assert_eq!(probes.quoted_index(&own, 6, 8), None, "of another train");
        let mut forged = own;
        forged[0] ^= 1;
        assert_eq!(probes.quoted_index(&forged, 5, 8), None);
    }
}
