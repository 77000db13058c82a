//! Which part of the time the narrow link is busy, from small packets at random times.
//!
//! A packet that comes while the link sends another one waits, if only for the rest of that packet; one that finds the link idle
//! does not. Packets at the times of a Poisson process see what a clock would see (PASTA: Wolff 1982), so that the part of them
//! that wait is the part of the time in which the link is busy, and what it leaves idle is available (ProbeGap: Lakshminarayanan,
//! Padmanabhan, Padhye, IMC 2004). That holds whatever the cross traffic is: it is hardly pushed aside by packets of 64 bytes,
//! so that TCP connections don't give way as they do to trains; and with a queue for each flow, too, since a packet on the link is
//! finished before another one is sent.
//!
//! It holds for one link only. Where faster links are loaded as well, packets wait there too, and less seems to be left than is.
//!
//! It is a look at the link that trains have seen only as long as that keeps its rate: a few full packets back to back at the end tell.
//!
//! Waiting times are those above the least delay, less the clocks' drift. Stamps are noisy: how short a wait can be told from
//! none is read from the packets themselves, and what is missed below that is made up for.

mod waits;

use crate::method::Step;
use crate::stats::{median, random};
use kumade_probe_train::{Estimate, PacketRecord, Segment, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use waits::{WaitSample, WaitStatistics};

/// Of each packet: the smallest that every transport can send.
const PACKET_BYTES: u32 = 64;
/// A packet of cross traffic.
const FULL_PACKET_BYTES: u64 = 1500;
/// The packets may take this part of the link.
const MAX_OWN_PART: f64 = 0.02;
/// The mean time between two is at least this.
const MIN_INTERVAL: Span = Span::from_millis(2);
/// Packets of one train, after which a round trip passes.
const MAX_TRAIN_PACKETS: u32 = 250;
/// Fewer packets tell nothing.
const MIN_PACKETS: usize = 100;
/// Of so many, enough arrive where one of ten is lost.
const SAFE_PACKETS: u32 = 112;
/// Full packets back to back at the end, …
const BURST_PACKETS: u32 = 10;
/// … which arrive at the rate that other bursts did, but for this factor, unless the link has another one now. (Of a burst of so few packets, the
/// median gap may have a packet of cross traffic in it.)
const MAX_BURST_RATE_RATIO: f64 = 1.25;

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UtilizationConfig {
    /// The rate of the link.
    pub rate: Rate,
    /// How long to look.
    pub time: Span,
    /// Of the times at which packets are sent.
    pub seed: u64,
    /// At which rate bursts of packets of so many bytes have arrived; none where that is not known.
    pub burst: Option<(u32, Rate)>,
}

/// Looks at how busy the link is. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct UtilizationProbe {
    config: UtilizationConfig,
    interval: Span,
    packets_left: u32,
    samples: Vec<WaitSample>,
    /// Packets that did not arrive.
    lost: usize,
    /// Whether the burst at the end has been sent.
    has_sent_burst: bool,
    /// Whether it showed another rate than those before.
    has_changed: bool,
    random: u64,
}

/// How busy the link was. Parts are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utilization {
    /// The part of the time in which it was busy.
    pub busy_fraction: Estimate<f64>,
    /// The part of it that the packets themselves took.
    pub own_fraction: f64,
    /// Of the packets that waited, those that waited for longer than one full packet takes.
    pub queued_fraction: f64,
    /// The mean wait of the others, as a part of that time: half, where all were full packets of this link.
    pub mean_wait: f64,
    /// The correlation of each wait with the next one, from -1 to 1: none where not queues but stamps or hosts make packets late.
    pub correlation: f64,
}

impl UtilizationConfig {
    /// How long to look at a link of this rate at least, for enough packets to arrive.
    pub fn min_duration(rate: Rate) -> Span {
        interval(rate) * i64::from(SAFE_PACKETS)
    }

    /// Whether enough packets can be sent in that time.
    pub fn is_possible(&self) -> bool {
        self.packets() >= MIN_PACKETS as u32 && waits::is_possible(self.service())
    }

    /// IP bytes to be sent.
    pub fn bytes(&self) -> u64 {
        let burst = self.burst.map_or(0, |(size, _)| size * BURST_PACKETS);
        u64::from(self.packets() * PACKET_BYTES + burst)
    }

    fn packets(&self) -> u32 {
        (self.time.as_secs_f64() / interval(self.rate).as_secs_f64()) as u32
    }

    fn service(&self) -> Span {
        self.rate.time_for(FULL_PACKET_BYTES)
    }
}

impl UtilizationProbe {
    /// Starts with no packet sent.
    pub fn new(config: UtilizationConfig) -> Self {
        let (interval, packets_left) = (interval(config.rate), config.packets());
        UtilizationProbe {
            config,
            interval,
            packets_left,
            samples: Vec::new(),
            lost: 0,
            has_sent_burst: false,
            has_changed: false,
            random: config.seed,
        }
    }

    /// What to do now. The result is none where the packets do not tell.
    pub fn next(&mut self, _now: Time) -> Step<Option<Utilization>> {
        let burst = self.config.burst.filter(|_| !self.has_sent_burst);
        match burst {
            _ if !self.config.is_possible() => return Step::Done(None),
            _ if self.packets_left > 0 => {}
            Some((first_size, _)) => {
                self.has_sent_burst = true;
                let segment = Segment { count: BURST_PACKETS, interval: Span::ZERO, first_size, size_step: 0 };
                return Step::Send { wait: self.draw_gap(), train: Train { segments: vec![segment] } };
            }
            None => return Step::Done(self.utilization()),
        }
        let packets = self.packets_left.min(MAX_TRAIN_PACKETS);
        self.packets_left -= packets;
        let wait = self.draw_gap();
        let segment = |interval| Segment { count: 1, interval, first_size: PACKET_BYTES, size_step: 0 };
        let segments = (0..packets).map(|_| segment(self.draw_gap())).collect();
        Step::Send { wait, train: Train { segments } }
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        if let Some((_, rate)) = self.config.burst.filter(|_| self.has_sent_burst) {
            self.has_changed = burst_rate(record).is_some_and(|now| differ(now, rate));
            return;
        }
        for packet in &record.packets {
            match (packet.sent, packet.received) {
                (Some(sent), Some(received)) => self.samples.push(WaitSample { sent, delay: received - sent }),
                _ => self.lost += 1,
            }
        }
    }

    /// To the next packet: exponentially distributed.
    fn draw_gap(&mut self) -> Span {
        let part = -(1.0 - random(&mut self.random)).ln();
        Span::from_secs_f64(self.interval.as_secs_f64() * part.min(10.0))
    }

    fn utilization(&self) -> Option<Utilization> {
        if self.samples.len() < MIN_PACKETS || self.has_changed {
            return None;
        }
        let own_bytes = self.samples.len() as u64 * u64::from(PACKET_BYTES);
        let seconds = self.interval.as_secs_f64() * self.samples.len() as f64;
        let own = own_bytes as f64 * 8.0 / seconds / self.config.rate.as_f64();
        let read = waits::interpret_waits(&self.samples, self.config.service())?;
        let arrived = self.samples.len() as f64 / (self.samples.len() + self.lost) as f64;
        // What was lost may have found a full queue.
        let high = 1.0 - (1.0 - read.busy_fraction.high) * arrived;
        let busy = Estimate { high, ..read.busy_fraction };
        let WaitStatistics { queued_fraction: queued, mean_wait, correlation, .. } = read;
        Some(Utilization { busy_fraction: busy, own_fraction: own, queued_fraction: queued, mean_wait, correlation })
    }
}

impl Utilization {
    /// What a link of this rate left idle, and what the packets themselves took of it; others may have had that where it was full.
    pub fn available_of_link(&self, link: &Estimate<Rate>) -> Estimate<Rate> {
        let of = |rate: Rate, busy: f64| Rate::from_f64(rate.as_f64() * (1.0 - busy).clamp(0.0, 1.0));
        Estimate {
            value: of(link.value, self.busy_fraction.value - self.own_fraction),
            low: of(link.low, self.busy_fraction.high),
            high: of(link.high, self.busy_fraction.low - self.own_fraction),
            confidence: 0.95,
        }
    }
}

/// The rate at which a burst arrived, by the median gap; none where too little of it did.
fn burst_rate(record: &TrainRecord) -> Option<Rate> {
    let arrived = |packet: &PacketRecord| Some((packet.received?, packet.size));
    let gap = |pair: &[PacketRecord]| {
        let ((before, _), (then, size)) = (arrived(&pair[0])?, arrived(&pair[1])?);
        Some((then - before).as_secs_f64() / f64::from(size * 8))
    };
    let gaps: Vec<f64> = record.packets.windows(2).filter_map(gap).collect();
    let usual = median(&gaps).filter(|gap| *gap > 0.0 && gaps.len() * 2 >= BURST_PACKETS as usize)?;
    Some(Rate::from_f64(1.0 / usual))
}

fn differ(one: Rate, other: Rate) -> bool {
    one.max(other).as_f64() > MAX_BURST_RATE_RATIO * one.min(other).as_f64()
}

fn interval(rate: Rate) -> Span {
    let own = Rate::from_f64((rate.as_f64() * MAX_OWN_PART).max(1.0));
    own.time_for(u64::from(PACKET_BYTES)).max(MIN_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at an idle link that others have seen at 10 Mbit/s, and that passes a burst at this rate in the end.
    fn look_at_link(rate_in_the_end: Rate) -> Option<Utilization> {
        let (rate, time) = (Rate::from_mbit(10), Span::from_secs(1));
        let mut probe = UtilizationProbe::new(UtilizationConfig { rate, time, seed: 3, burst: Some((1500, rate)) });
        let mut now = Time::ZERO;
        loop {
            let (wait, train) = match probe.next(now) {
                Step::Send { wait, train } => (wait, train),
                Step::Done(found) => return found,
            };
            let mut free = now;
            let packets = train.packets().map(|planned| {
                let sent = now + wait + planned.offset;
                free = free.max(sent) + rate_in_the_end.time_for(u64::from(planned.size));
                PacketRecord { size: planned.size, sent: Some(sent), submitted: None, received: Some(free) }
            });
            probe.record(&TrainRecord { packets: packets.collect() });
            now += wait + train.duration() + Span::from_millis(20);
        }
    }

    #[test]
    fn a_look_says_nothing_of_a_link_whose_rate_has_changed() {
        let found = look_at_link(Rate::from_mbit(10)).unwrap();
        assert!(found.busy_fraction.value < 0.02, "{found:?}");
        for rate in [5, 14] {
            assert_eq!(look_at_link(Rate::from_mbit(rate)), None, "{rate} Mbit/s");
        }
    }
}
