use super::arrivals::ArrivalOrder;
use super::config::FlowConfig;
use super::delays::DelayHistogram;
use super::packet::{PacketBody, SitePacket};
use super::report::FlowReport;
use crate::network::{TcpConfig, TrafficSource};
use crate::tcp::{Receiver, Sender, SenderStatistics};
use kumade_link::queue::Ecn;
use kumade_link::{CrossArrival, CrossConfig, CrossTraffic, Label};
use kumade_multipath::{PathId, TrafficClass};
use kumade_units::{ConfigError, Span, Time};

/// A flow's two hosts.
#[derive(Debug)]
pub(super) struct SiteFlow {
    config: FlowConfig,
    index: u32,
    ends: FlowEnds,
    has_begun: bool,
    is_stopped: bool,
    arrivals: ArrivalOrder,
    /// Since the report began.
    delays: DelayHistogram,
    /// When the receiving application last got something.
    last_progress: Time,
    longest_stall: Span,
    /// When a path was back, and since when data may have passed it; none once it has.
    pending_restoration: Option<(Time, Time)>,
    recovery_delay: Option<Span>,
    counters: Counters,
    /// Its counters when the report began, and when that was.
    at_report_start: (Time, Counters),
}

#[derive(Debug)]
enum FlowEnds {
    Tcp { config: TcpConfig, sender: Box<Sender>, receiver: Box<Receiver> },
    Udp { traffic: CrossTraffic, next: Option<CrossArrival>, number: u32 },
}

#[derive(Debug, Clone)]
struct Counters {
    goodput_bytes: u64,
    sent_packets: u64,
    delivered_packets: u64,
    path_bytes: Vec<u64>,
    tcp: SenderStatistics,
}

const UDP_HEADER_BYTES: u32 = 28;

impl SiteFlow {
    pub(super) fn new(config: FlowConfig, index: u32, paths: usize, now: Time) -> Result<Self, ConfigError> {
        let start = config.start.max(now);
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
                FlowEnds::Udp { traffic, next, number: 0 }
            }
        };
        let counters = Counters {
            goodput_bytes: 0,
            sent_packets: 0,
            delivered_packets: 0,
            path_bytes: vec![0; paths],
            tcp: SenderStatistics::default(),
        };
        Ok(SiteFlow {
            config: FlowConfig { start, ..config },
            index,
            ends,
            has_begun: false,
            is_stopped: false,
            arrivals: ArrivalOrder::new(),
            delays: DelayHistogram::default(),
            last_progress: now,
            longest_stall: Span::ZERO,
            pending_restoration: None,
            recovery_delay: None,
            at_report_start: (now, counters.clone()),
            counters,
        })
    }

    pub(super) fn traffic_class(&self) -> TrafficClass {
        self.config.class
    }

    pub(super) fn bypasses_plane(&self) -> bool {
        self.config.bypasses_plane
    }

    /// Of each of its packets.
    pub(super) fn header_bytes(&self) -> u32 {
        match &self.ends {
            FlowEnds::Tcp { config, .. } => config.header_bytes,
            FlowEnds::Udp { .. } => UDP_HEADER_BYTES,
        }
    }

    /// A path is back that has this delay.
    pub(super) fn record_restoration(&mut self, delay: Span, now: Time) {
        self.pending_restoration = Some((now, now + delay));
    }

    /// What queues need to know of a packet.
    pub(super) fn label(&self, packet: &SitePacket) -> Label {
        let ecn = match (&self.ends, &packet.body) {
            (FlowEnds::Tcp { config, .. }, PacketBody::Data(data)) if !data.is_retransmission => config.ecn,
            _ => Ecn::NotEct,
        };
        let flow = 17 + u64::from(self.index) * 7919;
        Label { size: packet.size, flow, host: flow, ecn, destination_host: flow as u32, ..Label::default() }
    }

    /// When the source has something to do next.
    pub(super) fn source_time(&self) -> Option<Time> {
        let next = match &self.ends {
            FlowEnds::Tcp { .. } if !self.has_begun => Some(self.config.start),
            FlowEnds::Tcp { sender, .. } => sender.next_time(),
            FlowEnds::Udp { .. } if self.is_stopped => None,
            FlowEnds::Udp { next, .. } => next.map(|next| next.time),
        };
        next.into_iter().chain(self.config.stop.filter(|_| !self.is_stopped)).min()
    }

    /// When the receiver has something to do next.
    pub(super) fn receiver_time(&self) -> Option<Time> {
        match &self.ends {
            FlowEnds::Tcp { receiver, .. } => receiver.next_time(),
            FlowEnds::Udp { .. } => None,
        }
    }

    pub(super) fn on_source_time(&mut self, now: Time) {
        let stops = self.config.stop.is_some_and(|stop| stop <= now) && !self.is_stopped;
        self.is_stopped |= stops;
        self.has_begun |= now >= self.config.start;
        if let FlowEnds::Tcp { sender, .. } = &mut self.ends {
            if stops {
                sender.stop();
            }
            sender.on_time(now);
        }
    }

    /// The packet that the source sends now, if any.
    pub(super) fn poll_send(&mut self, now: Time) -> Option<SitePacket> {
        if !self.has_begun {
            return None;
        }
        let (number, size, body) = match &mut self.ends {
            FlowEnds::Tcp { config, sender, .. } => {
                let data = sender.poll_send(now)?;
                (data.number, config.packet_size(data.number), PacketBody::Data(data))
            }
            FlowEnds::Udp { traffic, next, number } => {
                let due = next.filter(|next| next.time <= now && !self.is_stopped)?;
                *next = traffic.next();
                *number += 1;
                (*number - 1, due.size, PacketBody::Udp)
            }
        };
        self.counters.sent_packets += 1;
        Some(SitePacket { flow: self.index, number, size, sent: now, marked: false, body })
    }

    /// An acknowledgement that has been delayed.
    pub(super) fn on_receiver_time(&mut self, now: Time) -> Option<SitePacket> {
        let FlowEnds::Tcp { config, receiver, .. } = &mut self.ends else { return None };
        let body = PacketBody::Acknowledgement(receiver.on_time(now)?);
        Some(SitePacket { flow: self.index, number: 0, size: config.header_bytes, sent: now, marked: false, body })
    }

    /// A packet reaches the host at its end. Returns the answer to it.
    fn receive_packet(&mut self, packet: &SitePacket, now: Time) -> Option<SitePacket> {
        match (&mut self.ends, packet.body) {
            (FlowEnds::Tcp { sender, .. }, PacketBody::Acknowledgement(acknowledgement)) => {
                sender.acknowledge(&acknowledgement, now);
                None
            }
            (FlowEnds::Tcp { config, receiver, .. }, PacketBody::Data(data)) => {
                self.counters.delivered_packets += 1;
                if let Some((restored, _)) = self.pending_restoration.take_if(|(_, earliest)| *earliest <= now) {
                    self.recovery_delay = Some(now - restored);
                }
                if !data.is_retransmission {
                    self.arrivals.record_arrival(data.number.into());
                }
                let before = receiver.in_order_segments();
                let answer = receiver.receive(&data, packet.marked, now);
                let (after, size) = (receiver.in_order_segments(), config.header_bytes);
                let payload = u64::from(after) * u64::from(config.segment_bytes);
                self.counters.goodput_bytes = config.bytes.map_or(payload, |bytes| payload.min(bytes));
                if after > before {
                    self.record_progress(now);
                }
                let body = PacketBody::Acknowledgement(answer?);
                Some(SitePacket { flow: self.index, number: 0, size, sent: now, marked: false, body })
            }
            (_, PacketBody::Echo) => {
                self.delays.record(now - packet.sent);
                None
            }
            _ => {
                self.counters.delivered_packets += 1;
                self.counters.goodput_bytes += u64::from(packet.size.saturating_sub(UDP_HEADER_BYTES));
                self.arrivals.record_arrival(packet.number.into());
                self.record_progress(now);
                if self.config.is_echoed {
                    return Some(SitePacket { body: PacketBody::Echo, ..*packet });
                }
                self.delays.record(now - packet.sent);
                None
            }
        }
    }

    /// Packets reach the host together. Returns the answers: one to all that is new, and one to each segment that was there.
    pub(super) fn receive_batch(&mut self, packets: &[SitePacket], now: Time) -> Vec<SitePacket> {
        let mut answers: Vec<SitePacket> =
            packets.iter().filter_map(|packet| self.receive_packet(packet, now)).collect();
        if packets.len() > 1 && !answers.is_empty() {
            let last = answers.pop().map(|last| self.complete_answer(last, now));
            answers.retain(|answer| matches!(answer.body, PacketBody::Acknowledgement(ack) if ack.is_dsack));
            answers.extend(last);
        }
        answers
    }

    /// What is acknowledged covers all that has arrived.
    fn complete_answer(&mut self, answer: SitePacket, now: Time) -> SitePacket {
        let FlowEnds::Tcp { receiver, .. } = &mut self.ends else { return answer };
        let all = receiver.take_delayed_acknowledgement().map(PacketBody::Acknowledgement);
        SitePacket { sent: now, body: all.unwrap_or(answer.body), ..answer }
    }

    /// A packet of it came out of a path.
    pub(super) fn record_path_bytes(&mut self, path: PathId, bytes: u32) {
        self.counters.path_bytes[path.index()] += u64::from(bytes);
    }

    fn record_progress(&mut self, now: Time) {
        self.longest_stall = self.longest_stall.max(now - self.last_progress);
        self.last_progress = now;
    }

    pub(super) fn begin_report(&mut self, now: Time) {
        self.at_report_start = (now, self.counters());
        self.arrivals.reset();
        self.delays = DelayHistogram::default();
        (self.last_progress, self.longest_stall, self.recovery_delay) = (now, Span::ZERO, None);
    }

    pub(super) fn report(&self, to: Time) -> FlowReport {
        let (from, before) = &self.at_report_start;
        let Counters { goodput_bytes, sent_packets, delivered_packets, path_bytes, tcp } = self.counters();
        FlowReport {
            from: *from,
            to,
            goodput_bytes: goodput_bytes - before.goodput_bytes,
            sent_packets: sent_packets - before.sent_packets,
            delivered_packets: delivered_packets - before.delivered_packets,
            out_of_order: self.arrivals.out_of_order,
            max_reordering_extent: self.arrivals.max_extent,
            duplicates: self.arrivals.duplicates,
            longest_stall: self.longest_stall.max(to - self.last_progress),
            delays: self.delays.clone(),
            recovery: self.recovery_delay,
            path_bytes: path_bytes.iter().zip(&before.path_bytes).map(|(now, then)| now - then).collect(),
            tcp: tcp.since(&before.tcp),
        }
    }

    fn counters(&self) -> Counters {
        let tcp = match &self.ends {
            FlowEnds::Tcp { sender, .. } => *sender.statistics(),
            FlowEnds::Udp { .. } => SenderStatistics::default(),
        };
        Counters { tcp, ..self.counters.clone() }
    }
}
