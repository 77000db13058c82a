//! The exchange of test packets and replies with a reflector.

use super::config::StampConfig;
use super::probe_pacing::ProbePacing;
use super::reply_timeout::ReplyTimeout;
use crate::cancel::StopCondition;
use kumade_estimate::delay::{OneWaySample, RoundTrip};
use kumade_net::clock;
use kumade_net::platform::datagram::{self, Datagram};
use kumade_net::platform::stamp::StampPlace;
use kumade_net::platform::{readiness, stamp};
use kumade_packet::{DsField, Ecn};
use kumade_transport::deadline_after;
use kumade_units::{Direction, Span, Time};
use kumade_wire::stamp::{
    ErrorEstimate, ExtensionsError, Probe, ReflectedTlvs, Reply, StampKey, TlvRequest, read_reflected_tlvs,
};
use std::io;
use std::net::UdpSocket;

/// Errors without any reply after which the exchange fails.
const MAX_INITIAL_ERRORS: u32 = 5;

/// Time stamps and the first reply of a test packet; the reflector's time stamps are by its clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProbeRecord {
    sent: PacketTimestamps,
    reply_received: PacketTimestamps,
    pub(super) reply: Option<Reply>,
    /// TTL of the reply on arrival.
    pub(super) reply_ttl: Option<u8>,
    /// DSCP and ECN of the reply on arrival.
    pub(super) reply_ds_field: Option<DsField>,
    /// The reply's optional extensions; none where there is no reply.
    pub(super) tlvs: Option<Result<ReflectedTlvs, ExtensionsError>>,
}

/// The time by the kernel, and by the program.
#[derive(Debug, Clone, Copy, Default)]
struct PacketTimestamps {
    kernel: Option<Time>,
    user: Option<Time>,
}

/// A reply that arrived, duplicates included.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReturnedReply {
    /// Sequence number of the test packet.
    pub(super) probe_sequence: u32,
    /// Sequence number of the reply.
    pub(super) reply_sequence: u32,
    /// Round-trip time.
    pub(super) round_trip: Span,
}

impl ReturnedReply {
    /// Maximum number of replies kept per test packet, on average; the first reply is always kept.
    pub(super) const MAX_KEPT_PER_PROBE: u32 = 4;
}

/// A session with a reflector.
#[derive(Debug)]
pub(super) struct StampExchange {
    socket: UdpSocket,
    /// Error estimate of this host's clock, for the test packets.
    clock_error: ErrorEstimate,
    key: Option<StampKey>,
    tlv_request: TlvRequest,
    pacing: ProbePacing,
    /// Whether test packets are ECN-capable.
    is_ecn_capable: bool,
    /// Test packets sent so far.
    sent_count: u32,
    probes: Vec<ProbeRecord>,
    /// In order of arrival.
    replies: Vec<ReturnedReply>,
    /// Whether the kernel's stamp keys match the sequence numbers, which a failed send makes uncertain.
    are_timestamp_ids_valid: bool,
    missing_replies: u32,
    timeout: ReplyTimeout,
    error_count: u32,
}

impl StampExchange {
    /// A session over a connected socket; `clock` is the error estimate that the test packets carry.
    pub(super) fn new(socket: UdpSocket, config: &StampConfig, clock: ErrorEstimate) -> Self {
        let (count, key) = (config.count, config.key.as_ref().map(StampKey::new));
        let keys_valid = stamp::enable_transmit(&socket, false).is_ok();
        let probes = vec![ProbeRecord::default(); count as usize];
        StampExchange {
            socket,
            clock_error: clock,
            key,
            tlv_request: config.tlv_request(),
            pacing: ProbePacing::new(config.interval),
            is_ecn_capable: config.ds_field.is_some_and(|field| matches!(field.ecn(), Ecn::Ect0 | Ecn::Ect1)),
            sent_count: 0,
            probes,
            replies: Vec::new(),
            are_timestamp_ids_valid: keys_valid,
            missing_replies: count,
            timeout: ReplyTimeout::new(config.late_after),
            error_count: 0,
        }
    }

    /// Sends all test packets and waits for the replies: for the last ones as long as [`ReplyTimeout`] says, to distinguish late from
    /// lost ones.
    pub(super) fn run(&mut self, config: &StampConfig, limit: &StopCondition) -> io::Result<()> {
        let mut payload = self.new_payload(config);
        let mut due = clock::monotonic();
        for number in 0..config.count {
            while clock::monotonic() < due {
                if limit.check().is_err() {
                    return Ok(());
                }
                self.wait_for_replies(due.min(deadline_after(StopCondition::CHECK_INTERVAL)))?;
            }
            self.send(number, &mut payload)?;
            due += self.pacing.interval();
        }
        let sent = clock::monotonic();
        while self.missing_replies > 0 && limit.check().is_ok() {
            // With each reply more is known of how long they take.
            let end = sent + self.timeout.after_last_probe();
            if clock::monotonic() >= end {
                break;
            }
            self.wait_for_replies(end.min(deadline_after(StopCondition::CHECK_INTERVAL)))?;
        }
        self.collect_stamps()
    }

    /// Sends the first test packet alone.
    pub(super) fn send_first(&mut self, config: &StampConfig) -> io::Result<()> {
        let mut payload = self.new_payload(config);
        self.send(0, &mut payload)
    }

    fn new_payload(&self, config: &StampConfig) -> Vec<u8> {
        vec![0; config.size.max(self.tlv_request.probe_bytes(self.key.is_some()))]
    }

    /// All test packets by sequence number.
    pub(super) fn probes(&self) -> &[ProbeRecord] {
        &self.probes
    }

    /// All replies in order of arrival.
    pub(super) fn replies(&self) -> &[ReturnedReply] {
        &self.replies
    }

    /// Whether the kernel stamped at least half of the packets both when sent and when received. All samples use one kind
    /// of time stamp.
    pub(super) fn has_kernel_stamps(&self) -> bool {
        let back = self.probes.iter().filter(|probe| probe.reply.is_some());
        let stamped =
            back.clone().filter(|probe| probe.sent.kernel.is_some() && probe.reply_received.kernel.is_some()).count();
        stamped > 0 && stamped * 2 >= back.count()
    }

    /// The one-way samples of each answered test packet, in order, and its round-trip delay without the reflector's
    /// processing time.
    pub(super) fn samples(&self) -> (Vec<OneWaySample>, Vec<RoundTrip>) {
        let kernel = self.has_kernel_stamps();
        let choose = |stamp: PacketTimestamps| if kernel { stamp.kernel } else { stamp.user };
        let (mut samples, mut round_trips) = (Vec::new(), Vec::new());
        for probe in &self.probes {
            let (Some(sent), Some(returned), Some(reply)) =
                (choose(probe.sent), choose(probe.reply_received), probe.reply)
            else {
                continue;
            };
            let submitted = probe.sent.user.unwrap_or(sent);
            let (received, reflected) = (reply.received, reply.reflected);
            samples.push(OneWaySample { direction: Direction::Up, sent, submitted, received });
            // The reflector reads its clock before it sends.
            let down =
                OneWaySample { direction: Direction::Down, sent: reflected, submitted: reflected, received: returned };
            samples.push(down);
            // A processing time longer than the round trip means that the reflector's time stamps are invalid.
            let (whole, reflecting) = (returned - sent, reflected - received);
            let delay = if (Span::ZERO..=whole).contains(&reflecting) { whole - reflecting } else { whole };
            round_trips.push(RoundTrip { delay, max_delay: delay + (sent - submitted).max(Span::ZERO) });
        }
        (samples, round_trips)
    }

    fn send(&mut self, number: u32, payload: &mut [u8]) -> io::Result<()> {
        let now = clock::realtime();
        let probe = Probe { sequence: number, sent: now, error_estimate: self.clock_error, session: 0 };
        match &self.key {
            Some(key) => payload.first_chunk_mut().map(|packet| probe.encode_authenticated(packet, key)),
            None => payload.first_chunk_mut().map(|packet| probe.encode(packet)),
        };
        self.tlv_request.encode(payload, self.sent_count.wrapping_add(1), self.key.as_ref());
        match self.socket.send(payload) {
            Ok(_) => {
                self.sent_count = self.sent_count.wrapping_add(1);
                self.probes[number as usize].sent.user = Some(now);
            }
            Err(error) => {
                self.are_timestamp_ids_valid = false;
                self.tolerate_error(error)?;
            }
        }
        Ok(())
    }

    /// Takes replies that are there, or come until then.
    pub(super) fn wait_for_replies(&mut self, deadline: Time) -> io::Result<()> {
        // Whatever was lost, the next one has its time of reading at once.
        if !(stamp::IS_TIME_OF_READING && self.is_reply_awaited()) {
            readiness::wait_readable(&self.socket, deadline)?;
        }
        self.collect_stamps()?;
        self.collect_replies()
    }

    fn is_reply_awaited(&self) -> bool {
        self.sent_count as usize + self.missing_replies as usize > self.probes.len()
    }

    fn collect_stamps(&mut self) -> io::Result<()> {
        while let Some(stamp) = stamp::next_transmit_stamp(&self.socket)? {
            if self.are_timestamp_ids_valid
                && stamp.place == StampPlace::Device
                && let Some(probe) = self.probes.get_mut(stamp.key as usize)
            {
                probe.sent.kernel.get_or_insert(stamp.time);
            }
        }
        Ok(())
    }

    fn collect_replies(&mut self) -> io::Result<()> {
        let mut buffer = [0; 2048];
        // Bounded, so that a peer that sends continuously does not delay the test packets.
        for _ in 0..64 {
            let datagram = match datagram::receive(&self.socket, &mut buffer) {
                Ok(datagram) => datagram,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.tolerate_error(error),
            };
            let user = clock::realtime();
            let payload = &buffer[..datagram.len];
            let reply = match &self.key {
                Some(key) => Reply::decode_authenticated(payload, key).ok(),
                None => Reply::decode(payload).ok(),
            };
            if let Some(reply) = reply {
                self.record_reply(reply, payload, user, &datagram);
            }
        }
        Ok(())
    }

    fn record_reply(&mut self, reply: Reply, payload: &[u8], user: Time, datagram: &Datagram) {
        let most = self.probes.len() * ReturnedReply::MAX_KEPT_PER_PROBE as usize;
        let Some(probe) = self.probes.get_mut(reply.probe_sequence as usize) else { return };
        let Some(sent) = probe.sent.user else { return };
        // A forged reply does not know the test packet's time stamp; a reply to an earlier session has another one.
        if reply.probe_timestamp[..8] != self.clock_error.format.encode(sent) {
            return;
        }
        // A flood of duplicates must not displace first replies.
        if probe.reply.is_some() && self.replies.len() >= most {
            return;
        }
        self.replies.push(ReturnedReply {
            probe_sequence: reply.probe_sequence,
            reply_sequence: reply.sequence,
            round_trip: user - sent,
        });
        if probe.reply.is_none() {
            self.timeout.record_round_trip(user - sent);
            let returned = PacketTimestamps { kernel: datagram.stamp, user: Some(user) };
            let tlvs = read_reflected_tlvs(payload, self.key.as_ref(), reply.error_estimate.format);
            *probe = ProbeRecord {
                sent: probe.sent,
                reply: Some(reply),
                reply_received: returned,
                reply_ttl: datagram.ttl,
                reply_ds_field: datagram.ds_field,
                tlvs: Some(tlvs),
            };
            self.missing_replies -= 1;
            let up = tlvs.ok().and_then(|tlvs| tlvs.class_of_service).map(|class| class.arrived);
            let is_marked = [up, datagram.ds_field].into_iter().flatten().any(|field| field.ecn() == Ecn::Ce);
            if self.is_ecn_capable && is_marked {
                self.pacing.record_mark(clock::monotonic(), user - sent);
            }
        }
    }

    /// An ICMP error for one test packet need not apply to the next one: only repeated errors without any reply count.
    fn tolerate_error(&mut self, error: io::Error) -> io::Result<()> {
        self.error_count += 1;
        let has_failed = self.replies.is_empty() && self.error_count >= MAX_INITIAL_ERRORS;
        if has_failed { Err(error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;
    use kumade_wire::stamp::Reflection;

    fn reflect(reflector: &UdpSocket) {
        let mut packet = [0; 2048];
        let (length, sender) = reflector.recv_from(&mut packet).unwrap();
        let now = clock::realtime();
        let answer = |probe: &Probe| Reflection {
            sequence: probe.sequence,
            reflected: now,
            received: now,
            error_estimate: probe.error_estimate,
            probe_ttl: 64,
        };
        Reply::reflect(&mut packet[..length], answer).unwrap();
        reflector.send_to(&packet[..length], sender).unwrap();
    }

    fn exchange(reflector: &UdpSocket, config: &StampConfig) -> StampExchange {
        let socket = datagram::connect(&[reflector.local_addr().unwrap()], &config.binding).unwrap();
        StampExchange::new(socket, config, ErrorEstimate::new(false, Span::from_secs(1)))
    }

    /// Each ICMP error ended the exchange where readers looked for packets first.
    #[test]
    fn a_reflector_that_ends_leaves_what_it_has_answered() {
        let reflector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = StampConfig {
            count: 20,
            interval: Span::from_millis(2),
            late_after: Span::from_millis(20),
            ..StampConfig::new("127.0.0.1", reflector.local_addr().unwrap().port())
        };
        let mut exchange = exchange(&reflector, &config);
        let answering = std::thread::spawn(move || (0..3).for_each(|_| reflect(&reflector)));
        exchange.run(&config, &StopCondition::new(&CancelToken::default(), None)).unwrap();
        answering.join().unwrap();
        assert_eq!(exchange.replies().len(), 3);
        assert!(exchange.error_count > 0);
    }

    #[test]
    fn a_port_that_is_closed_refuses() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = StampConfig { interval: Span::from_millis(2), ..StampConfig::new("127.0.0.1", 1) };
        let mut exchange = exchange(&closed, &config);
        drop(closed);
        let error = exchange.run(&config, &StopCondition::new(&CancelToken::default(), None)).unwrap_err();
        assert_eq!((error.kind(), exchange.error_count), (io::ErrorKind::ConnectionRefused, MAX_INITIAL_ERRORS));
    }

    /// After one, the newest reply counted as that before it, and was read late.
    #[test]
    fn a_reply_is_awaited_as_long_as_one_is_missing_whatever_could_not_be_sent() {
        let reflector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = StampConfig { count: 3, ..StampConfig::new("127.0.0.1", 1) };
        let mut exchange = exchange(&reflector, &config);
        exchange.send(0, &mut vec![0; 70_000]).unwrap();
        assert!((exchange.error_count, exchange.is_reply_awaited()) == (1, false));
        for number in 1..3 {
            exchange.send(number, &mut exchange.new_payload(&config)).unwrap();
            assert!(exchange.is_reply_awaited());
        }
        let end = deadline_after(Span::from_secs(60));
        for missing in [true, false] {
            reflect(&reflector);
            while exchange.is_reply_awaited() != missing && clock::monotonic() < end {
                exchange.wait_for_replies(end).unwrap();
            }
            assert_eq!(exchange.is_reply_awaited(), missing);
        }
        assert_eq!(exchange.replies().len(), 2);
    }
}
