use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{ECN_HELP, GivenParameters, Parameter, RATIO_FORMAT, SIZE_FORMAT, SWITCH_FORMAT};
use kumade_units::{ConfigError, Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

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
    average: AverageQueue,
    rng: Pcg64Mcg,
    rule: R,
}

/// How a relative of RED treats an arriving packet while the average length calls for drops.
pub trait RedRule {
    /// A packet of this flow arrives.
    fn observe(&mut self, _flow: u64) {}

    /// By what RED's probability is multiplied for a packet of this flow.
    fn drop_factor(&self, _flow: u64) -> f64 {
        1.0
    }

    /// Whether the packet is compared with one drawn from the queue, and both are dropped if they are of one flow.
    const COMPARES_FLOWS: bool = false;
}

/// Random Early Detection (Floyd and Jacobson 1993): drops arriving packets with a probability that grows with the
/// average length of the queue.
pub type Red<P> = RedQueue<P, EqualFlows>;

/// RED itself: all packets are alike.
#[derive(Debug)]
pub struct EqualFlows;

impl RedRule for EqualFlows {}

const TYPICAL_PACKET_BYTES: u64 = 1500;
/// By default the thresholds are what the link carries in these times, …
const THRESHOLD_DELAYS: (Span, Span) = (Span::from_millis(5), Span::from_millis(15));
/// … but no fewer bytes than these, which are used where the rate is unknown, …
const MIN_THRESHOLD_BYTES: (u64, u64) = (5 * TYPICAL_PACKET_BYTES, 15 * TYPICAL_PACKET_BYTES);
/// … with the time of a usual packet at 1 Gbit/s.
const TYPICAL_PACKET_TIME: Span = Span::from_micros(12);

/// The average length of a queue and the decisions that follow from it.
#[derive(Debug)]
struct AverageQueue {
    config: RedConfig,
    bytes: f64,
    /// Packets since the last drop while above the minimum; so drops come at even distances instead of in clusters.
    since_drop: u32,
    /// When the queue was last known to be empty.
    empty_since: Option<Time>,
}

/// What becomes of an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RedDecision {
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
}

/// The settings for a link whose rate is unknown.
impl Default for RedConfig {
    fn default() -> Self {
        RedConfig::new(MIN_THRESHOLD_BYTES.0, MIN_THRESHOLD_BYTES.1, TYPICAL_PACKET_TIME)
    }
}

impl AsMut<RedConfig> for RedConfig {
    fn as_mut(&mut self) -> &mut RedConfig {
        self
    }
}

impl DisciplineConfig for RedConfig {
    const NAME: &'static str = "red";
    const SUMMARY: &'static str = "RED: drops with a probability that grows with the average queue length";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "red:min=1500b:max=9000b:probability=50%:weight=10%",
        "red:min=1500b:max=9000b:probability=50%:weight=10%:gentle=off:ecn=on",
    ];
    type Queue<P> = Red<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        parameters()
    }

    fn adapt_to_rate(&mut self, rate: Option<Rate>, given: &GivenParameters) {
        let bytes_in = |time, at_least: u64| rate.map_or(at_least, |rate| rate.bytes_in(time).max(at_least));
        if !given.contains_key("min") {
            self.min = bytes_in(THRESHOLD_DELAYS.0, MIN_THRESHOLD_BYTES.0);
        }
        if !given.contains_key("max") {
            self.max = bytes_in(THRESHOLD_DELAYS.1, MIN_THRESHOLD_BYTES.1).max(self.min.saturating_mul(3));
        }
        self.packet_time = rate.map_or(TYPICAL_PACKET_TIME, |rate| rate.time_for(TYPICAL_PACKET_BYTES));
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("RED queue");
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

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> Red<P> {
        RedQueue::with_rule(limit, *self, EqualFlows, seed)
    }
}

/// The parameters of RED, for every discipline that contains one.
pub(super) fn parameters<C: DisciplineConfig + AsMut<RedConfig>>() -> Vec<Parameter<C>> {
    let max = "average queue length at which packets are dropped with `probability`";
    let gentle = "let the probability grow on to 1 at twice `max`, instead of dropping everything above `max`";
    let (min_default, max_default) = ("5ms of the link's rate", "15ms of the link's rate, or 3 times `min`");
    vec![
        Parameter::new("min", SIZE_FORMAT, "average queue length below which nothing is dropped", |config: &mut C| {
            &mut config.as_mut().min
        })
        .with_rate_default(min_default),
        Parameter::new("max", SIZE_FORMAT, max, |config: &mut C| &mut config.as_mut().max)
            .with_rate_default(max_default),
        Parameter::new("probability", RATIO_FORMAT, "drop probability at `max`", |config: &mut C| {
            &mut config.as_mut().max_probability
        }),
        Parameter::new("gentle", SWITCH_FORMAT, gentle, |config: &mut C| &mut config.as_mut().gentle),
        Parameter::new(
            "weight",
            RATIO_FORMAT,
            "weight of the current queue length in the average",
            |config: &mut C| &mut config.as_mut().weight,
        ),
        Parameter::new("ecn", SWITCH_FORMAT, ECN_HELP, |config: &mut C| &mut config.as_mut().ecn),
    ]
}

impl<P, R: RedRule> RedQueue<P, R> {
    pub(super) fn with_rule(limit: QueueLimit, config: RedConfig, rule: R, seed: u64) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        RedQueue { buffer: Buffer::new(limit), average: AverageQueue::new(config), rng, rule }
    }

    /// The place in the queue of a random packet, if it is of the same flow.
    fn draw_same_flow(&mut self, flow: u64) -> Option<usize> {
        if !R::COMPARES_FLOWS || self.average.is_below_minimum() || self.buffer.len() == 0 {
            return None;
        }
        let place = self.rng.random_range(0..self.buffer.len());
        (self.buffer.flow_at(place) == Some(flow)).then_some(place)
    }
}

impl<P, R: RedRule> QueueDiscipline<P> for RedQueue<P, R> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        let now = packet.arrival;
        self.rule.observe(packet.flow);
        self.average.observe_arrival(self.buffer.bytes(), now);
        if let Some(drawn) = self.draw_same_flow(packet.flow).and_then(|place| self.buffer.remove_at(place)) {
            self.average.observe_departure(self.buffer.bytes(), now);
            drops.push(DroppedPacket { packet: drawn, cause: DropCause::Aqm });
            return packet.drop_into(DropCause::Aqm, drops);
        }
        let verdict = self.average.decide(&mut self.rng, self.rule.drop_factor(packet.flow));
        self.average.apply_decision(verdict, packet, &mut self.buffer, drops)
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        let packet = self.buffer.pop();
        self.average.observe_departure(self.buffer.bytes(), now);
        packet
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

impl AverageQueue {
    fn new(config: RedConfig) -> Self {
        AverageQueue { config, bytes: 0.0, since_drop: 0, empty_since: None }
    }

    /// A packet arrives where so many bytes wait.
    fn observe_arrival(&mut self, waiting: u64, now: Time) {
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
    fn observe_departure(&mut self, waiting: u64, now: Time) {
        self.empty_since = (waiting == 0).then_some(now);
    }

    fn is_below_minimum(&self) -> bool {
        self.bytes < self.config.min as f64
    }

    /// Decides over the packet that was observed last, by the usual probability times `factor`.
    fn decide(&mut self, rng: &mut Pcg64Mcg, factor: f64) -> RedDecision {
        let (min, max) = (self.config.min as f64, self.config.max as f64);
        if self.bytes < min {
            self.since_drop = 0;
            return RedDecision::Admit;
        }
        let highest = self.config.max_probability;
        let probability = if self.bytes < max {
            highest * (self.bytes - min) / (max - min)
        } else if self.config.gentle && self.bytes < 2.0 * max {
            highest + (1.0 - highest) * (self.bytes - max) / max
        } else {
            self.since_drop = 0;
            return RedDecision::Forced;
        };
        let probability = probability * factor;
        let spread = 1.0 - f64::from(self.since_drop) * probability;
        if rng.random::<f64>() * spread < probability {
            self.since_drop = 0;
            return RedDecision::Early;
        }
        self.since_drop = self.since_drop.saturating_add(1);
        RedDecision::Admit
    }

    /// Queues, marks or drops the packet.
    fn apply_decision<P>(
        &self,
        verdict: RedDecision,
        mut packet: QueuedPacket<P>,
        buffer: &mut Buffer<P>,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Result<(), DropCause> {
        let stays = match verdict {
            RedDecision::Admit => true,
            RedDecision::Early => self.config.ecn && packet.mark(),
            RedDecision::Forced => false,
        };
        if stays { buffer.push(packet, drops) } else { packet.drop_into(DropCause::Aqm, drops) }
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

    fn average(bytes: f64, gentle: bool) -> AverageQueue {
        let config = RedConfig { gentle, ..RedConfig::new(10_000, 30_000, Span::from_millis(1)) };
        AverageQueue { bytes, ..AverageQueue::new(config) }
    }

    /// The part of 100 000 packets that is dropped while the average stands still.
    fn dropped(bytes: f64, gentle: bool, factor: f64) -> f64 {
        let (mut average, mut rng) = (average(bytes, gentle), Pcg64Mcg::seed_from_u64(1));
        (0..100_000).filter(|_| average.decide(&mut rng, factor) != RedDecision::Admit).count() as f64 / 1e5
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
        let drops: Vec<_> = (0..10_000).filter(|_| average.decide(&mut rng, 1.0) == RedDecision::Early).collect();
        assert!(drops.windows(2).all(|two| two[1] - two[0] <= 20), "none is farther than 1/p from the one before");
    }

    #[test]
    fn the_average_follows_arrivals_and_idle_time_alike() {
        let (mut busy, mut idle) = (average(20_000.0, true), average(20_000.0, true));
        busy.observe_arrival(40_000, Time::ZERO);
        assert!((busy.bytes - 20_040.0).abs() < 1e-9);
        idle.observe_departure(0, Time::ZERO);
        idle.observe_arrival(0, Time::ZERO + Span::from_millis(99));
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
