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
//! It is a look at the link that others have seen only as long as that keeps its rate: a few pairs of full packets at the end tell, where all
//! goes well.
//!
//! Waiting times are those above the least delay, less the clocks' drift. Stamps are noisy: how short a wait can be told from
//! none is read from the packets themselves, and what is missed below that is made up for.

mod waits;

use crate::back_to_back::{Gap, PacketGaps};
use crate::method::Step;
use crate::stats::random;
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
/// Where the link is busy for so large a part of the time at least, trains that push others aside found what it leaves.
const MAX_BUSY_FRACTION: f64 = 0.9;
/// Pairs of full packets, sent back to back, at the end, which need no more room in a queue than others do, …
const PAIRS: u32 = 10;
/// … the time between which the link takes for so many packets, so that they leave most of it to others, …
const PACKETS_BETWEEN_PAIRS: i64 = 6;
/// … and whose packets arrive at the rate of the link, but for this factor, unless it has another one now.
const MAX_RATE_RATIO: f64 = 1.25;
/// Packets that arrive closer together than they left, by this factor, were held up by a host and let go.
const MAX_COMPRESSION_RATIO: f64 = 1.25;

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UtilizationConfig {
    /// The rate of the link, for all that is known.
    pub rate: Rate,
    /// How long to look.
    pub time: Span,
    /// Of the times at which packets are sent.
    pub seed: u64,
    /// The largest packet that passes, in bytes.
    pub max_packet: u32,
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
    /// Whether the pairs at the end have been sent.
    has_sent_pairs: bool,
    /// What they showed.
    link_state: LinkState,
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
    /// Whether the link still had its rate in the end.
    pub link_state: LinkState,
}

/// Whether a link has the rate that it had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It has.
    Same,
    /// It has another one, or lets some packets pass faster than that: a token bucket, be it of half a packet, does after each pause. Small packets then
    /// find idle what is not.
    Changed,
    /// Too little of what was sent arrived, or too slowly sent.
    Unknown,
}

impl LinkState {
    /// Whether these may be the rates of one link: more than a factor of 1.25 apart, they are not.
    pub fn from_rates(one: Rate, other: Rate) -> Self {
        let is_other = one.max(other).as_f64() > MAX_RATE_RATIO * one.min(other).as_f64();
        if is_other { LinkState::Changed } else { LinkState::Same }
    }

    /// What pairs of packets, sent back to back, show of a link that had this rate. Cross traffic only lengthens gaps: so the link is faster if some
    /// of them are shorter, and slower if even the shortest are longer, and were sent shorter. (Where a token bucket is full after each pause, pairs are
    /// shorter that meet one, as many as the load lets: beside 60 % of HTB's rate, fewer than half.)
    fn from_pairs(record: &TrainRecord, before: Rate) -> Self {
        let gaps = pair_gaps(record);
        let known = gaps.usual().zip(gaps.second_shortest()).filter(|_| gaps.len() * 2 >= PAIRS as usize);
        let Some((usual, shortest)) = known.filter(|_| !gaps.is_batched()) else { return LinkState::Unknown };
        let size = record.packets.iter().map(|packet| packet.size).max().unwrap_or_default();
        let expected = f64::from(size) * 8.0 / before.as_f64().max(1.0);
        let is_shown = Gap { received: shortest, ..usual }.is_set_by_path();
        if shortest * MAX_RATE_RATIO < expected {
            if usual.ratio() > MAX_COMPRESSION_RATIO { LinkState::Unknown } else { LinkState::Changed }
        } else if !usual.is_set_by_path() {
            LinkState::Unknown
        } else if shortest > expected * MAX_RATE_RATIO {
            if is_shown { LinkState::Changed } else { LinkState::Unknown }
        } else {
            LinkState::Same
        }
    }
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
        u64::from(self.packets() * PACKET_BYTES + 2 * PAIRS * self.max_packet)
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
            has_sent_pairs: false,
            link_state: LinkState::Unknown,
            random: config.seed,
        }
    }

    /// What to do now. The result is none where the packets do not tell.
    pub fn next(&mut self, _now: Time) -> Step<Option<Utilization>> {
        match self.packets_left {
            _ if !self.config.is_possible() => return Step::Done(None),
            0 if self.has_sent_pairs || self.is_full() => return Step::Done(self.utilization()),
            0 => {
                self.has_sent_pairs = true;
                let first_size = self.config.max_packet;
                let packet = |interval| Segment { count: 1, interval, first_size, size_step: 0 };
                let pair = [packet(Span::ZERO), packet(self.config.service() * PACKETS_BETWEEN_PAIRS)];
                let segments = std::iter::repeat_n(pair, PAIRS as usize).flatten().collect();
                return Step::Send { wait: self.draw_gap(), train: Train { segments } };
            }
            _ => {}
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
        if self.has_sent_pairs {
            self.link_state = LinkState::from_pairs(record, self.config.rate);
            return;
        }
        for packet in &record.packets {
            match (packet.sent, packet.received) {
                (Some(sent), Some(received)) => self.samples.push(WaitSample { sent, delay: received - sent }),
                _ => self.lost += 1,
            }
        }
    }

    /// Whether nothing can be told of what the link leaves idle, so that its rate does not matter, and others want all of it.
    fn is_full(&self) -> bool {
        self.utilization().is_none_or(|found| found.busy_fraction.low > MAX_BUSY_FRACTION)
    }

    /// To the next packet: exponentially distributed.
    fn draw_gap(&mut self) -> Span {
        let part = -(1.0 - random(&mut self.random)).ln();
        Span::from_secs_f64(self.interval.as_secs_f64() * part.min(10.0))
    }

    fn utilization(&self) -> Option<Utilization> {
        if self.samples.len() < MIN_PACKETS {
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
        Some(Utilization {
            busy_fraction: busy,
            own_fraction: own,
            queued_fraction: queued,
            mean_wait,
            correlation,
            link_state: self.link_state,
        })
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

/// The gaps within those pairs that arrived whole.
fn pair_gaps(record: &TrainRecord) -> PacketGaps {
    let stamps = |packet: &PacketRecord| packet.sent.zip(packet.received);
    let mut gaps = PacketGaps::default();
    for pair in record.packets.chunks_exact(2) {
        if let [Some(before), Some(then)] = [&pair[0], &pair[1]].map(stamps) {
            gaps.push(Gap { sent: (then.0 - before.0).as_secs_f64(), received: (then.1 - before.1).as_secs_f64() });
        }
    }
    gaps
}

fn interval(rate: Rate) -> Span {
    let own = Rate::from_f64((rate.as_f64() * MAX_OWN_PART).max(1.0));
    own.time_for(u64::from(PACKET_BYTES)).max(MIN_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_mbit(10);

    /// What a look finds at an idle link of 10 Mbit/s if this becomes of each pair in the end that leaves then: when packets are sent and received.
    fn look_at_link(deliver: impl Fn(usize, Time) -> [[Option<Time>; 2]; 2]) -> Utilization {
        let config = UtilizationConfig { rate: RATE, time: Span::from_secs(1), seed: 3, max_packet: 1500 };
        let mut probe = UtilizationProbe::new(config);
        let mut now = Time::ZERO;
        loop {
            let (wait, train) = match probe.next(now) {
                Step::Send { wait, train } => (wait, train),
                Step::Done(found) => return found.unwrap(),
            };
            let packets = train.packets().enumerate().map(|(number, planned)| {
                let start = now + wait + planned.offset;
                let [sent, received] = match planned.size {
                    1500 => deliver(number / 2, start)[number % 2],
                    size => [Some(start), Some(start + RATE.time_for(u64::from(size)))],
                };
                PacketRecord { size: planned.size, sent, submitted: None, received }
            });
            probe.record(&TrainRecord { packets: packets.collect() });
            now += wait + train.duration() + Span::from_millis(20);
        }
    }

    /// With gaps of so many µs within the pairs, as sent and as received.
    fn look_at_gaps(sent: i64, received: impl Fn(usize) -> i64) -> Utilization {
        look_at_link(|pair, start| {
            let later = |micros| Some(start + Span::from_micros(micros));
            [[later(0), later(5000)], [later(sent), later(5000 + received(pair))]]
        })
    }

    #[test]
    fn pairs_in_the_end_tell_whether_the_link_still_has_its_rate() {
        let shown = |sent, received| look_at_gaps(sent, |_| received).link_state;
        // Of 1500 bytes: 1.2 ms.
        assert_eq!(shown(10, 1200), LinkState::Same);
        assert_eq!([2400, 857].map(|gap| shown(10, gap)), [LinkState::Changed; 2]);
        // What was found before stands either way.
        assert!(look_at_gaps(10, |_| 2400).busy_fraction.value < 0.02);
    }

    /// Behind HTB, whose bucket held half a packet, beside 60 % of cross traffic: values to which the look had been added were from 45 to 51 of 100 Mbit/s,
    /// where 40 were left. Pairs that meet the bucket full pass at once, fewer than half of them.
    #[test]
    fn a_bucket_of_half_a_packet_is_seen_by_the_pairs_that_meet_it_full() {
        let behind_bucket = look_at_gaps(10, |pair| if pair % 3 == 0 { 15 } else { 1200 });
        assert_eq!(behind_bucket.link_state, LinkState::Changed);
    }

    /// Beside cross traffic whose packets got into half of the gaps, a link was said to have another rate; and one of 10 Mbit/s before a sender
    /// that takes 2 ms for a packet.
    #[test]
    fn neither_cross_traffic_nor_a_slow_sender_is_a_change_of_the_link() {
        let beside_others = look_at_gaps(900, |pair| if pair % 3 == 0 { 1250 } else { 2400 });
        assert_eq!(beside_others.link_state, LinkState::Same);
        assert_eq!(look_at_gaps(2000, |_| 2000).link_state, LinkState::Unknown);
        // A host that held packets up lets them go closer together than they left.
        assert_eq!(look_at_gaps(1000, |_| 500).link_state, LinkState::Unknown);
    }

    /// What told nothing was taken for what showed no change.
    #[test]
    fn pairs_of_which_few_arrive_tell_nothing() {
        let lost = look_at_link(|_, start| [[Some(start), Some(start)], [Some(start), None]]);
        let batched = look_at_gaps(10, |_| 0);
        assert_eq!([lost, batched].map(|found| found.link_state), [LinkState::Unknown; 2]);
    }
}
