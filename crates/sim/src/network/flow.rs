use super::ids::{GatewaysId, LinkId};
use super::packet::{NetworkPacket, PacketBody};
use super::sojourn::SojournHistogram;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::{Receiver, RecoveryConfig, Sender, SenderConfig, SenderStatistics};
use kumade_link::queue::Ecn;
use kumade_link::{CrossArrival, CrossConfig, CrossTraffic};
use kumade_units::ConfigError;
use kumade_units::{Rate, Span, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// A flow between two hosts that have no other.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowConfig {
    /// The links from the source, in order.
    pub forward: Vec<LinkId>,
    /// The links that acknowledgements take; without any they only take [`FlowConfig::delay_back`].
    pub back: Vec<LinkId>,
    /// The gateways that packets pass after these links, if any: with several paths between them.
    pub gateways: Option<GatewaysId>,
    /// Those that acknowledgements pass after their links.
    pub gateways_back: Option<GatewaysId>,
    /// Delay from the source to the first link; at least a nanosecond, so that time passes.
    pub delay_out: Span,
    /// Delay of an acknowledgement to the first link back.
    pub delay_back: Span,
    /// Additional delay of each packet from the source, uniform from zero to this, without overtaking. A little of it (a packet's
    /// time at the bottleneck) keeps flows from falling into step with the queue, which real hosts do not (Floyd and
    /// Jacobson 1992).
    pub jitter: Span,
    /// When it begins to send.
    pub start: Time,
    /// Additional time before the start, uniform from zero to this.
    pub start_jitter: Span,
    /// When it stops sending new data.
    pub stop: Option<Time>,
    /// What UDP packets say of ECN, though their sender does not react to marks. Of TCP, [`TcpConfig::ecn`] says it.
    pub ecn: Ecn,
    /// The link of which the queueing delays of its packets are kept, if any; see [`Network::flow_queueing`](super::Network::flow_queueing).
    pub record_queueing: Option<LinkId>,
    /// Whether the delay of each UDP packet is kept; see [`Network::delays`](super::Network::delays).
    pub record_delays: bool,
    /// The sender.
    pub source: TrafficSource,
}

/// The sender of a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum TrafficSource {
    /// A TCP connection.
    Tcp(TcpConfig),
    /// UDP packets without acknowledgements. Their times count from the flow's start.
    Udp(CrossConfig),
}

/// A TCP connection that sends in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConfig {
    /// The congestion controller.
    pub control: CongestionControl,
    /// Payload bytes of a segment.
    pub segment_bytes: u32,
    /// Bytes of the IP and TCP headers with their options; also the size of an acknowledgement.
    pub header_bytes: u32,
    /// 1 acknowledges every segment, 2 every other (RFC 1122), delayed by at most 40 ms.
    pub segments_per_ack: u32,
    /// The rate of the source's access link, in IP bits; unlimited if not given.
    pub access_rate: Option<Rate>,
    /// Payload bytes to send; without end if not given. No connection sends more than 2³² − 2 segments (5154 s of full
    /// packets at 10 Gbit/s): it then ends.
    pub bytes: Option<u64>,
    /// What its packets say of ECN, retransmissions excepted (RFC 3168, section 6.1.5): whether queues may mark them.
    pub ecn: Ecn,
    /// Whether its receiver keeps marks to itself, so that the sender never reacts to them.
    pub conceals_marks: bool,
    /// The receive window in payload bytes; unlimited if not given.
    pub receive_window: Option<u64>,
    /// How losses are found and repaired.
    pub recovery: RecoveryConfig,
}

/// The counters of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowStatistics {
    /// Payload bytes that arrived in order, each counted once; of UDP, all, less 28 bytes of headers per packet.
    pub goodput_bytes: u64,
    /// IP bytes that arrived, duplicates included.
    pub delivered_bytes: u64,
    /// Packets that arrived.
    pub delivered_packets: u64,
    /// Packets that left the source.
    pub sent_packets: u64,
    /// The counters of a TCP sender.
    pub tcp: SenderStatistics,
    /// The smoothed round-trip time of a TCP sender.
    pub smoothed_round_trip: Option<Span>,
    /// The window of a TCP sender in segments.
    pub window_segments: u32,
    /// When the first packet left.
    pub started: Option<Time>,
    /// When all was acknowledged.
    pub finished: Option<Time>,
}

impl TcpConfig {
    /// An endless connection as Linux has it over IPv4 and Ethernet: 1448 bytes of payload with time stamps, every
    /// other segment acknowledged, a receive window that does not bind, no ECN but for controllers that live on marks.
    pub fn new(control: CongestionControl) -> Self {
        TcpConfig {
            control,
            segment_bytes: 1448,
            header_bytes: 52,
            segments_per_ack: 2,
            access_rate: None,
            bytes: None,
            ecn: control.usual_ecn(),
            conceals_marks: false,
            receive_window: None,
            recovery: RecoveryConfig::default(),
        }
    }

    /// Bytes of a full IP packet.
    pub fn packet_bytes(&self) -> u32 {
        self.segment_bytes.saturating_add(self.header_bytes)
    }

    fn segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.segment_bytes.max(1).into())).unwrap_or(u32::MAX)
    }

    /// IP bytes of a segment: the last may be short.
    pub(crate) fn packet_size(&self, number: u32) -> u32 {
        let before = u64::from(number) * u64::from(self.segment_bytes);
        let left = self.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(before));
        self.header_bytes.saturating_add(u64::from(self.segment_bytes).min(left) as u32)
    }

    /// Bounds the memory of a connection.
    const MAX_OUTSTANDING_SEGMENTS: u32 = 1 << 20;

    pub(crate) fn new_sender(&self) -> Sender {
        let window = self.receive_window.map_or(u32::MAX, |bytes| self.segments(bytes).max(1));
        let config = SenderConfig {
            packet_bytes: self.packet_bytes(),
            // Numbers are not to overflow when a block ends after the last.
            segments: self.bytes.map_or(u32::MAX, |bytes| self.segments(bytes)).min(u32::MAX - 1),
            receive_window: window.min(TcpConfig::MAX_OUTSTANDING_SEGMENTS),
            recovery: self.recovery,
        };
        Sender::new(config, self.control.build(self.packet_bytes()))
    }

    pub(crate) fn new_receiver(&self) -> Receiver {
        Receiver::new(self.segments_per_ack).with_recovery(&self.recovery)
    }
}

impl FlowConfig {
    /// A flow from time zero on, without an end, over these links; acknowledgements come back by delay alone.
    pub fn new(forward: Vec<LinkId>, source: TrafficSource) -> Self {
        FlowConfig {
            forward,
            back: Vec::new(),
            gateways: None,
            gateways_back: None,
            delay_out: Span::ZERO,
            delay_back: Span::ZERO,
            jitter: Span::ZERO,
            start: Time::ZERO,
            start_jitter: Span::ZERO,
            stop: None,
            ecn: Ecn::NotEct,
            record_queueing: None,
            record_delays: false,
            source,
        }
    }
}

/// Packets on a way that takes a fixed time, in order.
#[derive(Debug, Default)]
pub(super) struct DelayLine(VecDeque<(Time, NetworkPacket)>);

impl DelayLine {
    /// Puts a packet in that comes out at `due`, or with the one before it if that is later.
    fn push(&mut self, due: Time, packet: NetworkPacket) {
        let due = self.0.back().map_or(due, |(last, _)| due.max(*last));
        self.0.push_back((due, packet));
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.0.front().map(|(due, _)| *due)
    }

    fn pop_due(&mut self, now: Time) -> Option<NetworkPacket> {
        self.next_time().filter(|due| *due <= now)?;
        self.0.pop_front().map(|(_, packet)| packet)
    }
}

/// A flow's two hosts and the ways between them and the links.
#[derive(Debug)]
pub(super) struct NetworkFlow {
    pub(super) config: FlowConfig,
    pub(super) forward_line: DelayLine,
    pub(super) backward_line: DelayLine,
    pub(super) ends: FlowEnds,
    index: u32,
    start: Time,
    /// Whether a connection's start has come.
    has_begun: bool,
    is_stopped: bool,
    access_free_at: Time,
    last_departure: Time,
    random: Pcg64Mcg,
    statistics: FlowStatistics,
    /// Of UDP packets that have arrived: when each did, and how long it was on its way.
    delays: Vec<(Time, Span)>,
    queueing: Option<Box<SojournHistogram>>,
}

/// What stands at the ends.
#[derive(Debug)]
pub(super) enum FlowEnds {
    Tcp {
        config: TcpConfig,
        sender: Box<Sender>,
        receiver: Box<Receiver>,
    },
    Udp {
        traffic: CrossTraffic,
        next: Option<CrossArrival>,
        /// What was given besides: when each packet is to leave, and its bytes.
        extra_packets: VecDeque<(Time, u32)>,
    },
}

const UDP_HEADER_BYTES: u32 = 28;

impl NetworkFlow {
    pub(super) fn new(config: FlowConfig, index: u32, now: Time, mut random: Pcg64Mcg) -> Result<Self, ConfigError> {
        let most = config.start_jitter.as_nanos().max(0);
        let start = config.start.max(now) + Span::from_nanos(random.random_range(0..=most));
        let ends = match &config.source {
            TrafficSource::Tcp(tcp) => FlowEnds::Tcp {
                config: *tcp,
                sender: Box::new(tcp.new_sender()),
                receiver: Box::new(tcp.new_receiver()),
            },
            TrafficSource::Udp(cross) => {
                let shifted = CrossConfig { start: start + (cross.start - Time::ZERO), ..cross.clone() };
                let mut traffic = CrossTraffic::new(shifted)?;
                let next = traffic.next();
                FlowEnds::Udp { traffic, next, extra_packets: VecDeque::new() }
            }
        };
        let queueing = config.record_queueing.map(|_| Box::default());
        Ok(NetworkFlow {
            config,
            forward_line: DelayLine::default(),
            backward_line: DelayLine::default(),
            ends,
            index,
            start,
            has_begun: false,
            is_stopped: false,
            access_free_at: Time::ZERO,
            last_departure: Time::ZERO,
            random,
            statistics: FlowStatistics::default(),
            delays: Vec::new(),
            queueing,
        })
    }

    /// A packet that has left a host, on the way out or back.
    pub(super) fn pop_due(&mut self, back: bool, now: Time) -> Option<NetworkPacket> {
        if back { self.backward_line.pop_due(now) } else { self.forward_line.pop_due(now) }
    }

    /// When the source has something to do next.
    pub(super) fn next_source_time(&self) -> Option<Time> {
        if self.is_stopped && matches!(self.ends, FlowEnds::Udp { .. }) {
            return None;
        }
        let next = match &self.ends {
            FlowEnds::Tcp { .. } if !self.has_begun => Some(self.start),
            FlowEnds::Tcp { sender, .. } => sender.next_time(),
            FlowEnds::Udp { next, extra_packets: given, .. } => {
                let given = given.front().map(|(time, _)| *time);
                next.map(|next| next.time).into_iter().chain(given).min()
            }
        };
        let stop = self.config.stop.filter(|_| !self.is_stopped && self.statistics.finished.is_none());
        next.into_iter().chain(stop).min()
    }

    /// When the receiver has something to do next.
    pub(super) fn next_receiver_time(&self) -> Option<Time> {
        match &self.ends {
            FlowEnds::Tcp { receiver, .. } => receiver.next_time(),
            FlowEnds::Udp { .. } => None,
        }
    }

    /// Packets that a UDP source is to send besides its own, in order.
    pub(super) fn add_packets(&mut self, packets: impl IntoIterator<Item = (Time, u32)>) {
        if let FlowEnds::Udp { extra_packets: given, .. } = &mut self.ends {
            given.extend(packets);
        }
    }

    pub(super) fn on_source_time(&mut self, now: Time) {
        if self.config.stop.is_some_and(|stop| stop <= now) && !self.is_stopped {
            self.is_stopped = true;
            if let FlowEnds::Tcp { sender, .. } = &mut self.ends {
                sender.stop();
            }
        }
        if let FlowEnds::Tcp { sender, .. } = &mut self.ends {
            self.has_begun |= now >= self.start;
            if !self.has_begun {
                return;
            }
            sender.on_time(now);
        }
        self.send_segments(now);
    }

    pub(super) fn on_receiver_time(&mut self, now: Time) {
        let FlowEnds::Tcp { receiver, .. } = &mut self.ends else { return };
        if let Some(acknowledgement) = receiver.on_time(now) {
            self.send_answer(PacketBody::Acknowledgement(acknowledgement), now);
        }
    }

    /// A packet has come through its last link.
    pub(super) fn receive_packet(&mut self, packet: &NetworkPacket, now: Time) {
        match (&packet.body, &mut self.ends) {
            (PacketBody::Data(data), FlowEnds::Tcp { config, receiver, .. }) => {
                let answer = receiver.receive(data, packet.is_marked && !config.conceals_marks, now);
                let payload = u64::from(receiver.in_order_segments()) * u64::from(config.segment_bytes);
                self.statistics.goodput_bytes = config.bytes.map_or(payload, |bytes| payload.min(bytes));
                self.count_delivered(packet.size);
                if let Some(acknowledgement) = answer {
                    self.send_answer(PacketBody::Acknowledgement(acknowledgement), now);
                }
            }
            (PacketBody::Acknowledgement(acknowledgement), FlowEnds::Tcp { sender, .. }) => {
                sender.acknowledge(acknowledgement, now);
                self.send_segments(now);
            }
            _ => {
                if let (PacketBody::Plain { sent }, true) = (&packet.body, self.config.record_delays) {
                    self.delays.push((now, now - *sent));
                }
                self.count_delivered(packet.size);
                self.statistics.goodput_bytes += u64::from(packet.size.saturating_sub(UDP_HEADER_BYTES));
            }
        }
    }

    pub(super) fn statistics(&self) -> FlowStatistics {
        let FlowEnds::Tcp { sender, .. } = &self.ends else { return self.statistics };
        FlowStatistics {
            tcp: *sender.statistics(),
            smoothed_round_trip: sender.smoothed_round_trip(),
            window_segments: sender.window(),
            ..self.statistics
        }
    }

    /// One of its packets has waited for so long in the queue of a link.
    pub(super) fn record_queueing(&mut self, link: LinkId, waited: Span) {
        if let Some(queueing) = self.queueing.as_mut().filter(|_| self.config.record_queueing == Some(link)) {
            queueing.record(waited);
        }
    }

    pub(super) fn queueing(&self) -> Option<&SojournHistogram> {
        self.queueing.as_deref()
    }

    pub(super) fn delays(&self) -> &[(Time, Span)] {
        &self.delays
    }

    fn count_delivered(&mut self, size: u32) {
        self.statistics.delivered_bytes += u64::from(size);
        self.statistics.delivered_packets += 1;
    }

    /// Lets the source send what it may.
    fn send_segments(&mut self, now: Time) {
        while let Some((body, size)) = self.ends.poll_send(now, self.is_stopped) {
            self.statistics.started.get_or_insert(now);
            self.statistics.sent_packets += 1;
            let leaves = match &self.ends {
                FlowEnds::Tcp { config: TcpConfig { access_rate: Some(rate), .. }, .. } => {
                    self.access_free_at = self.access_free_at.max(now) + rate.time_for(size.into());
                    self.access_free_at
                }
                _ => now,
            };
            let most = self.config.jitter.as_nanos();
            let jitter = Span::from_nanos(if most > 0 { self.random.random_range(0..=most) } else { 0 });
            // What has left the pipe may not be overtaken either.
            self.last_departure =
                self.last_departure.max(leaves + self.config.delay_out.max(Span::from_nanos(1)) + jitter);
            let ecn = match &self.ends {
                FlowEnds::Tcp { .. } if body.is_retransmission() => Ecn::NotEct,
                FlowEnds::Tcp { config, .. } => config.ecn,
                FlowEnds::Udp { .. } => self.config.ecn,
            };
            let packet =
                NetworkPacket { flow: self.index, hop: 0, size, ecn, is_marked: false, body, encapsulation: None };
            self.forward_line.push(self.last_departure, packet);
        }
        if matches!(&self.ends, FlowEnds::Tcp { sender, .. } if sender.is_finished()) {
            self.statistics.finished.get_or_insert(now);
        }
    }

    fn send_answer(&mut self, body: PacketBody, now: Time) {
        let size = match &self.ends {
            FlowEnds::Tcp { config, .. } => config.header_bytes,
            FlowEnds::Udp { .. } => UDP_HEADER_BYTES,
        };
        let packet = NetworkPacket {
            flow: self.index,
            hop: 0,
            size,
            ecn: Ecn::NotEct,
            is_marked: false,
            body,
            encapsulation: None,
        };
        self.backward_line.push(now + self.config.delay_back.max(Span::ZERO), packet);
    }
}

impl FlowEnds {
    fn poll_send(&mut self, now: Time, stopped: bool) -> Option<(PacketBody, u32)> {
        match self {
            FlowEnds::Tcp { config, sender, .. } => {
                let data = sender.poll_send(now)?;
                Some((PacketBody::Data(data), config.packet_size(data.number)))
            }
            FlowEnds::Udp { traffic, next, extra_packets: given } => {
                if let Some((_, size)) = given.front().copied().filter(|(time, _)| *time <= now && !stopped) {
                    given.pop_front();
                    return Some((PacketBody::Plain { sent: now }, size));
                }
                let due = next.filter(|next| next.time <= now && !stopped)?;
                *next = traffic.next();
                Some((PacketBody::Plain { sent: now }, due.size))
            }
        }
    }
}
