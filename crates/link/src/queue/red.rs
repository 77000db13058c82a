use super::buffer::Buffer;
use super::{Dropped, Limit, QueueDiscipline, Queued, turn_away};
use crate::DropCause;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use units::ConfigError;
use units::{Span, Time};

/// The settings of [`Red`], and of what builds on it. Queue lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedConfig {
    /// Nothing is dropped while the average length is below this.
    pub min: u64,
    /// From `min` to here the probability of a drop grows from 0 to `max_probability`.
    pub max: u64,
    /// See `max`.
    pub max_probability: f64,
    /// From `max` to twice `max` the probability grows on to 1 (Floyd 2000); else all is dropped above `max`.
    pub gentle: bool,
    /// How much the length at one arrival counts in the average.
    pub weight: f64,
    /// How long the link takes for a usual packet: an idle queue is averaged in as so many arrivals at an empty one.
    pub packet_time: Span,
    /// Mark packets that can be marked instead of dropping them, as long as the probability is below 1.
    pub ecn: bool,
}

/// A first-in, first-out queue that drops arriving packets with a probability that grows with its average length, by a
/// rule of its own: [`Red`] and what builds on it.
#[derive(Debug)]
pub struct RedQueue<P, R> {
    buffer: Buffer<P>,
    average: Average,
    rng: Pcg64Mcg,
    rule: R,
}

/// How a relative of RED treats an arriving packet while the average length calls for drops.
pub trait Rule {
    /// A packet of this flow arrives.
    fn observe(&mut self, _flow: u64) {}

    /// By what RED's probability is multiplied for a packet of this flow.
    fn factor(&self, _flow: u64) -> f64 {
        1.0
    }

    /// Whether the packet meets one drawn from the queue, and both are dropped if they are of one flow.
    const MEETS: bool = false;
}

/// Random Early Detection (Floyd and Jacobson 1993): drops arriving packets with a probability that grows with the
/// average length of the queue.
pub type Red<P> = RedQueue<P, Alike>;

/// RED itself: all packets are alike.
#[derive(Debug)]
pub struct Alike;

impl Rule for Alike {}

/// The average length of a queue and the decisions that follow from it.
#[derive(Debug)]
struct Average {
    config: RedConfig,
    bytes: f64,
    /// Packets since the last drop while above the minimum; so drops come at even distances instead of in clusters.
    since_drop: u32,
    /// When the queue was last known to be empty.
    empty_since: Option<Time>,
}

/// What becomes of an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Admit,
    /// Chosen by chance: a mark will do.
    Early,
    /// The queue is too long for anything but a drop.
    Forced,
}

impl RedConfig {
    /// The usual settings: weight 0.002, at most 10 % by chance up to `max`, gentle above, no marks.
    pub fn new(min: u64, max: u64, packet_time: Span) -> Self {
        RedConfig { min, max, max_probability: 0.1, gentle: true, weight: 0.002, packet_time, ecn: false }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::of("RED queue");
        if self.max <= self.min {
            let problem = "which leaves nothing between it and the minimum";
            return Err(error(
                "maximum",
                format!("{} bytes", self.max),
                problem,
                "give more; 3 times the minimum is usual",
            ));
        }
        for (name, value) in [("maximum probability", self.max_probability), ("weight", self.weight)] {
            if !(value > 0.0 && value <= 1.0) {
                return Err(error(name, value.to_string(), "out of range", "give a part above 0 and up to 1"));
            }
        }
        if self.packet_time <= Span::ZERO {
            let problem = "in which no link sends a packet";
            return Err(error("packet time", self.packet_time.to_string(), problem, "give that of the mean packet"));
        }
        Ok(())
    }
}

impl<P> Red<P> {
    pub(super) fn new(limit: Limit, config: RedConfig, seed: u64) -> Result<Self, ConfigError> {
        RedQueue::with_rule(limit, config, Alike, seed)
    }
}

impl<P, R: Rule> RedQueue<P, R> {
    pub(super) fn with_rule(limit: Limit, config: RedConfig, rule: R, seed: u64) -> Result<Self, ConfigError> {
        let average = Average::new(config)?;
        Ok(RedQueue { buffer: Buffer::new(limit), average, rng: Pcg64Mcg::seed_from_u64(seed), rule })
    }

    /// The place in the queue of a random packet, if it is of the same flow.
    fn draw_match(&mut self, flow: u64) -> Option<usize> {
        if !R::MEETS || self.average.is_below_minimum() || self.buffer.len() == 0 {
            return None;
        }
        let place = self.rng.random_range(0..self.buffer.len());
        (self.buffer.flow_at(place) == Some(flow)).then_some(place)
    }
}

impl<P, R: Rule> QueueDiscipline<P> for RedQueue<P, R> {
    fn enqueue(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        let now = packet.arrival;
        self.rule.observe(packet.flow);
        self.average.observe(self.buffer.bytes(), now);
        if let Some(drawn) = self.draw_match(packet.flow).and_then(|place| self.buffer.remove(place)) {
            self.average.left(self.buffer.bytes(), now);
            drops.push(Dropped { packet: drawn, cause: DropCause::Managed });
            return turn_away(packet, DropCause::Managed, drops);
        }
        let verdict = self.average.judge(&mut self.rng, self.rule.factor(packet.flow));
        self.average.carry_out(verdict, packet, &mut self.buffer, drops)
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        let packet = self.buffer.pop();
        self.average.left(self.buffer.bytes(), now);
        packet
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

impl Average {
    fn new(config: RedConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Average { config, bytes: 0.0, since_drop: 0, empty_since: None })
    }

    /// A packet arrives where so many bytes wait.
    fn observe(&mut self, waiting: u64, now: Time) {
        match self.empty_since {
            Some(since) if waiting == 0 => {
                let missed = (now - since).as_nanos().max(0) / self.config.packet_time.as_nanos();
                self.bytes *= power(1.0 - self.config.weight, missed as u64 + 1);
                self.empty_since = Some(now);
            }
            _ => self.bytes += self.config.weight * (waiting as f64 - self.bytes),
        }
    }

    /// A packet has left so many bytes behind.
    fn left(&mut self, waiting: u64, now: Time) {
        self.empty_since = (waiting == 0).then_some(now);
    }

    fn is_below_minimum(&self) -> bool {
        self.bytes < self.config.min as f64
    }

    /// Decides over the packet that was observed last, by the usual probability times `factor`.
    fn judge(&mut self, rng: &mut Pcg64Mcg, factor: f64) -> Verdict {
        let (min, max) = (self.config.min as f64, self.config.max as f64);
        if self.bytes < min {
            self.since_drop = 0;
            return Verdict::Admit;
        }
        let highest = self.config.max_probability;
        let probability = if self.bytes < max {
            highest * (self.bytes - min) / (max - min)
        } else if self.config.gentle && self.bytes < 2.0 * max {
            highest + (1.0 - highest) * (self.bytes - max) / max
        } else {
            self.since_drop = 0;
            return Verdict::Forced;
        };
        let probability = probability * factor;
        let spread = 1.0 - f64::from(self.since_drop) * probability;
        if rng.random::<f64>() * spread < probability {
            self.since_drop = 0;
            return Verdict::Early;
        }
        self.since_drop = self.since_drop.saturating_add(1);
        Verdict::Admit
    }

    /// Queues, marks or drops the packet.
    fn carry_out<P>(
        &self,
        verdict: Verdict,
        mut packet: Queued<P>,
        buffer: &mut Buffer<P>,
        drops: &mut Vec<Dropped<P>>,
    ) -> Result<(), DropCause> {
        let stays = match verdict {
            Verdict::Admit => true,
            Verdict::Early => self.config.ecn && packet.mark(),
            Verdict::Forced => false,
        };
        if stays { buffer.push(packet, drops) } else { turn_away(packet, DropCause::Managed, drops) }
    }
}

/// By repeated squaring, so that it is the same on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn average(bytes: f64, gentle: bool) -> Average {
        let config = RedConfig { gentle, ..RedConfig::new(10_000, 30_000, Span::from_millis(1)) };
        Average { bytes, ..Average::new(config).unwrap() }
    }

    /// The part of 100 000 packets that is dropped while the average stands still.
    fn dropped(bytes: f64, gentle: bool, factor: f64) -> f64 {
        let (mut average, mut rng) = (average(bytes, gentle), Pcg64Mcg::seed_from_u64(1));
        (0..100_000).filter(|_| average.judge(&mut rng, factor) != Verdict::Admit).count() as f64 / 1e5
    }

    #[test]
    fn drops_grow_with_the_average() {
        assert_eq!(dropped(9_999.0, true, 1.0), 0.0);
        // Even distances from 1 to 1/p drop twice p, less a little (Floyd and Jacobson 1993, section 7).
        assert!((dropped(20_000.0, true, 1.0) - 2.0 * 0.05 / 1.05).abs() < 0.002, "{}", dropped(20_000.0, true, 1.0));
        assert!((dropped(20_000.0, true, 0.5) - 2.0 * 0.025 / 1.025).abs() < 0.002);
        assert!((dropped(45_000.0, true, 1.0) - 0.7).abs() < 0.1, "{}", dropped(45_000.0, true, 1.0));
        assert_eq!(dropped(30_000.0, false, 1.0), 1.0);
        assert_eq!(dropped(60_000.0, true, 1.0), 1.0);
    }

    #[test]
    fn drops_come_at_even_distances() {
        let (mut average, mut rng) = (average(20_000.0, true), Pcg64Mcg::seed_from_u64(1));
        let drops: Vec<_> = (0..10_000).filter(|_| average.judge(&mut rng, 1.0) == Verdict::Early).collect();
        assert!(drops.windows(2).all(|two| two[1] - two[0] <= 20), "none is farther than 1/p from the one before");
    }

    #[test]
    fn the_average_follows_arrivals_and_idle_time_alike() {
        let (mut busy, mut idle) = (average(20_000.0, true), average(20_000.0, true));
        busy.observe(40_000, Time::ZERO);
        assert!((busy.bytes - 20_040.0).abs() < 1e-9);
        idle.left(0, Time::ZERO);
        idle.observe(0, Time::ZERO + Span::from_millis(99));
        assert!((idle.bytes - 20_000.0 * 0.998f64.powi(100)).abs() < 1e-6, "{}", idle.bytes);
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let good = RedConfig::new(1000, 3000, Span::from_millis(1));
        for (config, part) in [
            (RedConfig { max: 1000, ..good }, "maximum is 1000 bytes"),
            (RedConfig { max_probability: 1.5, ..good }, "maximum probability is 1.5"),
            (RedConfig { weight: f64::NAN, ..good }, "weight is NaN"),
            (RedConfig { packet_time: Span::ZERO, ..good }, "packet time"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(good.check(), Ok(()));
    }
}
