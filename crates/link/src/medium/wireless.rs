use crate::random::random_stream;
use kumade_units::ConfigError;
use kumade_units::{Rate, Span, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// The physical rates of IEEE 802.11ac with two spatial streams at 80 MHz and short guard interval, in kbit/s, by
/// modulation and coding scheme.
const VHT80_TWO_STREAMS_BITS_PER_SECOND: [u64; 10] =
    [65_000, 130_000, 195_000, 260_000, 390_000, 520_000, 585_000, 650_000, 780_000, 866_700];
const SLOT_TIME: Span = Span::from_micros(9);
/// After this many missed steps a walk over ten schemes is in its steady state: it restarts.
const MAX_WALK_STEPS: i64 = 1000;

/// A last hop like IEEE 802.11ac: one transmission at a time, each an aggregate of packets that are delivered together
/// at its end, after a fixed overhead and a random backoff. The physical rate varies: at each interval it goes
/// one scheme up or down or stays, with equal probability, within its bounds.
///
/// Contention begins when a packet waits and the medium is free; at its end the queue gives up packets until the
/// aggregate is full. So packets wait on an idle link too, and the queue needs room for them. There are no retries:
/// what is lost is [`crate::Loss`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wireless {
    /// The slowest scheme that the walk reaches, 0 to 9 …
    pub slowest: usize,
    /// … and the fastest.
    pub fastest: usize,
    /// How often the rate may change.
    pub interval: Span,
    /// Maximum number of packets of an aggregate.
    pub packets: u32,
    /// Maximum airtime of an aggregate's packets: it is full when another packet like the last would exceed it.
    pub airtime: Span,
    /// Time that each transmission takes in addition to backoff and packets.
    pub overhead: Span,
    /// The backoff is uniform from 0 to this number of slots of 9 µs.
    pub backoff_slots: u32,
    /// Bytes transmitted with each packet in addition to its own.
    pub header_bytes: u32,
}

/// The state of the medium.
#[derive(Debug)]
pub(crate) struct WirelessChannel {
    config: Wireless,
    scheme: usize,
    /// When the last step of the walk was due.
    last_step: Option<Time>,
    walk: Pcg64Mcg,
    backoff: Pcg64Mcg,
    /// How long the next contention takes.
    contention: Span,
}

impl Default for Wireless {
    /// A good but not perfect signal (schemes 3 to 9), a step each 50 ms, 64 packets and 4 ms at most. The overhead is
    /// that of best effort traffic: AIFS 43 µs, preamble 44 µs, SIFS 16 µs and block acknowledgement 32 µs; with a
    /// backoff of 7.5 slots on the average it comes to 202.5 µs. Headers of 42 bytes: delimiter, MAC, LLC and FCS.
    fn default() -> Self {
        Wireless {
            slowest: 3,
            fastest: 9,
            interval: Span::from_millis(50),
            packets: 64,
            airtime: Span::from_millis(4),
            overhead: Span::from_micros(135),
            backoff_slots: 15,
            header_bytes: 42,
        }
    }
}

impl Wireless {
    /// The physical rate of a scheme; that of the last where there is no such scheme.
    pub fn physical_rate(scheme: usize) -> Rate {
        Rate::from_bits_per_second(
            VHT80_TWO_STREAMS_BITS_PER_SECOND[scheme.min(VHT80_TWO_STREAMS_BITS_PER_SECOND.len() - 1)] * 1000,
        )
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("wireless medium");
        if self.slowest > self.fastest || self.fastest >= VHT80_TWO_STREAMS_BITS_PER_SECOND.len() {
            let value = format!("{} to {}", self.slowest, self.fastest);
            return Err(error("range of schemes", value, "out of range", "give two of 0 to 9, the slower first"));
        }
        if self.interval < Span::from_millis(1) {
            let problem = "faster than any station follows";
            return Err(error("interval of the rate", self.interval.to_string(), problem, "give 1 ms or more"));
        }
        if self.packets == 0 || self.packets > 1024 {
            let problem = "no size of an aggregate";
            return Err(error("number of packets", self.packets.to_string(), problem, "give 1 to 1024; 64 is usual"));
        }
        for (name, span) in [("airtime", self.airtime), ("overhead", self.overhead)] {
            if span < Span::ZERO || span > Span::from_secs(1) {
                return Err(error(name, span.to_string(), "out of range", "give up to some milliseconds"));
            }
        }
        if self.backoff_slots > 1023 {
            let value = self.backoff_slots.to_string();
            return Err(error("backoff", value, "beyond the longest contention window", "give up to 1023 slots"));
        }
        Ok(())
    }

    /// How long packets of these bytes together are on the air.
    fn airtime(&self, packets: u32, bytes: u64, rate: Rate) -> Span {
        rate.time_for(bytes + u64::from(packets) * u64::from(self.header_bytes))
    }
}

impl WirelessChannel {
    pub(crate) fn new(config: Wireless, seed: u64) -> Self {
        let mut walk = random_stream(seed, 0x7761_6c6b);
        let scheme = walk.random_range(config.slowest..=config.fastest);
        let backoff = random_stream(seed, 0x736c_6f74);
        let mut channel = WirelessChannel { config, scheme, last_step: None, walk, backoff, contention: Span::ZERO };
        channel.draw_contention();
        channel
    }

    /// How long the next transmission contends for the medium.
    pub(crate) fn contention(&self) -> Span {
        self.contention
    }

    /// Takes the steps of the walk that are due by `now`.
    pub(crate) fn update_scheme(&mut self, now: Time) {
        let stepped = *self.last_step.get_or_insert(now);
        let due = (now - stepped).as_nanos() / self.config.interval.as_nanos();
        for _ in 0..due.min(MAX_WALK_STEPS) {
            self.scheme = match self.walk.random_range(0..3) {
                0 => self.scheme.saturating_sub(1).max(self.config.slowest),
                1 => (self.scheme + 1).min(self.config.fastest),
                _ => self.scheme,
            };
        }
        self.last_step = Some(stepped + self.config.interval * due);
    }

    /// Whether an aggregate that holds so much, and last a packet of `last` bytes, may grow.
    pub(crate) fn has_room(&self, packets: u32, bytes: u64, last: u32) -> bool {
        let grown = self.config.airtime(packets + 1, bytes + u64::from(last), Wireless::physical_rate(self.scheme));
        packets < self.config.packets && grown <= self.config.airtime
    }

    /// Sends an aggregate: how long that takes from the end of contention.
    pub(crate) fn send(&mut self, packets: u32, bytes: u64) -> Span {
        self.draw_contention();
        let airtime = self.config.airtime(packets, bytes, Wireless::physical_rate(self.scheme));
        self.config.overhead + airtime
    }

    pub(crate) fn config(&self) -> &Wireless {
        &self.config
    }

    fn draw_contention(&mut self) {
        let slots = self.backoff.random_range(0..=self.config.backoff_slots);
        self.contention = SLOT_TIME * i64::from(slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_goes_by_single_steps_and_visits_all_schemes_alike() {
        let config = Wireless { slowest: 2, fastest: 6, ..Wireless::default() };
        let mut channel = WirelessChannel::new(config, 1);
        let (mut visits, mut before) = ([0u32; 10], channel.scheme);
        for step in 0..100_000 {
            channel.update_scheme(Time::ZERO + config.interval * step);
            assert!(channel.scheme.abs_diff(before) <= 1);
            before = channel.scheme;
            visits[before] += 1;
        }
        assert_eq!(visits.iter().sum::<u32>(), visits[2..=6].iter().sum::<u32>());
        assert!(visits[2..=6].iter().all(|count| (18_000..22_000).contains(count)), "{visits:?}");
    }

    #[test]
    fn the_walk_does_not_depend_on_how_often_it_is_looked_at() {
        let (mut often, mut seldom) =
            (WirelessChannel::new(Wireless::default(), 3), WirelessChannel::new(Wireless::default(), 3));
        for millis in 0..20_000 {
            often.update_scheme(Time::ZERO + Span::from_millis(millis));
            if millis % 997 == 0 {
                seldom.update_scheme(Time::ZERO + Span::from_millis(millis));
                assert_eq!(often.scheme, seldom.scheme);
            }
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let good = Wireless::default();
        assert_eq!(good.check(), Ok(()));
        for (config, part) in [
            (Wireless { slowest: 9, fastest: 8, ..good }, "9 to 8"),
            (Wireless { fastest: 10, ..good }, "give two of 0 to 9"),
            (Wireless { interval: Span::ZERO, ..good }, "faster than any station"),
            (Wireless { packets: 0, ..good }, "no size of an aggregate"),
            (Wireless { airtime: Span::MAX, ..good }, "airtime"),
            (Wireless { overhead: Span::from_nanos(-1), ..good }, "overhead is -1 ns"),
            (Wireless { backoff_slots: 5000, ..good }, "contention window"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
