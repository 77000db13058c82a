use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{ECN_HELP, Parameter, SMALL_SIZE_FORMAT, SWITCH_FORMAT, TIME_FORMAT};
use kumade_units::{ConfigError, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The settings of [`Pie`]; the default is that of RFC 8033.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieConfig {
    /// The delay that it steers to (`QDELAY_REF`).
    pub target: Span,
    /// How often the drop probability is calculated (`T_UPDATE`).
    pub update: Span,
    /// For how long a queue may grow before anything is dropped, when there was none before (`MAX_BURST_SEGMENTS`).
    pub burst: Span,
    /// The largest packet in bytes. While no more than two of this wait, nothing is dropped.
    pub mtu: u32,
    /// Mark packets that can be marked instead of dropping them, as long as the probability is at most 10 %.
    pub ecn: bool,
}

/// Proportional Integral controller Enhanced (RFC 8033): drops arriving packets with a probability that follows the
/// queueing delay, by how far it is from the target and by how it changes.
///
/// The delay is that of the packet served last (section 5.2 leaves the choice; Linux does the same), and drops come at even distances
/// (section 5.4).
#[derive(Debug)]
pub struct Pie<P> {
    config: PieConfig,
    buffer: Buffer<P>,
    state: PieState,
    rng: Pcg64Mcg,
}

/// What it drops by.
#[derive(Debug)]
struct PieState {
    probability: f64,
    /// The sum of the probabilities of the packets since the last drop.
    accumulated_probability: f64,
    /// That of the packet served last; zero of an empty queue.
    delay: Span,
    /// The same when the probability was last calculated.
    old_delay: Span,
    /// What is left of the burst that may pass.
    burst_allowance: Span,
    /// When the probability is calculated next; none before the first packet.
    next_calculation: Option<Time>,
}

/// The gains in 1/s for the default interval of calculations: of how far the delay is from the target, and of how it changes.
const CONTROLLER_GAINS: (f64, f64) = (0.125, 1.25);
const DEFAULT_UPDATE_INTERVAL: Span = Span::from_millis(15);
/// While the probability is below the first number, what is added to it is divided by the second (section 4.2).
const STEP_DIVISORS: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
/// From this probability on it grows by no more than that at a time (section 5.5).
const CAPPED_STEP_PROBABILITIES: (f64, f64) = (0.1, 0.02);
/// What remains of it at each calculation on an empty queue.
const DECAY_FACTOR: f64 = 0.98;
/// Below this probability nothing is dropped while the delay is less than half the target.
const SAFE_PROBABILITY: f64 = 0.2;
/// Up to this probability packets are marked.
const MAX_MARKING_PROBABILITY: f64 = 0.1;
/// Nothing is dropped before the probabilities since the last drop add up to the first, and always once they come to the second.
const DROP_DISTANCES: (f64, f64) = (0.85, 8.5);
/// After so many calculations without a packet between them, another one changes nothing that matters.
const MAX_CALCULATIONS: u32 = 2000;

impl Default for PieConfig {
    fn default() -> Self {
        let (target, burst) = (Span::from_millis(15), Span::from_millis(150));
        PieConfig { target, update: DEFAULT_UPDATE_INTERVAL, burst, mtu: 1500, ecn: false }
    }
}

impl DisciplineConfig for PieConfig {
    const NAME: &'static str = "pie";
    const SUMMARY: &'static str = "PIE: drops with a probability that steers the queueing delay to a target (RFC 8033)";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "pie:target=20us:update=100us:burst-allowance=0s:mtu=300",
        "pie:target=20us:update=100us:burst-allowance=200us:mtu=300:ecn=on",
    ];
    type Queue<P> = Pie<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let burst = "time for which a new queue may grow before anything is dropped";
        let mtu = "largest packet: nothing is dropped while no more than twice this is queued";
        vec![
            Parameter::new("target", TIME_FORMAT, "queueing delay that is steered to", |config: &mut Self| {
                &mut config.target
            }),
            Parameter::new(
                "update",
                TIME_FORMAT,
                "interval between calculations of the drop probability",
                |config: &mut Self| &mut config.update,
            ),
            Parameter::new("burst-allowance", TIME_FORMAT, burst, |config: &mut Self| &mut config.burst),
            Parameter::new("mtu", SMALL_SIZE_FORMAT, mtu, |config: &mut Self| &mut config.mtu),
            Parameter::new("ecn", SWITCH_FORMAT, ECN_HELP, |config: &mut Self| &mut config.ecn),
        ]
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("PIE queue");
        for (name, span, remedy) in [
            ("target", self.target, "give 0 or more; 15 ms is usual"),
            ("burst allowance", self.burst, "give 0 or more; 150 ms is usual"),
        ] {
            if span < Span::ZERO {
                return Err(error(name, span.to_string(), "which is negative", remedy));
            }
        }
        // Beyond that, the gains for this interval would lose their meaning.
        if self.update < Span::from_micros(10) || self.update > Span::from_millis(250) {
            let remedy = "give 10 us to 250 ms; 15 ms is usual";
            return Err(error("interval of calculations", self.update.to_string(), "out of range", remedy));
        }
        Ok(())
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> Pie<P> {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Pie { config: *self, buffer: Buffer::new(limit), state: PieState::new(self), rng }
    }
}

impl<P> QueueDiscipline<P> for Pie<P> {
    fn enqueue(&mut self, mut packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        let Pie { config, buffer, state: control, rng } = self;
        control.calculate_until(packet.arrival, config);
        if control.drops_next(buffer.bytes(), config, rng) {
            let is_marked = config.ecn && control.probability <= MAX_MARKING_PROBABILITY && packet.mark();
            if !is_marked {
                return packet.drop_into(DropCause::Aqm, drops);
            }
        }
        buffer.push(packet, drops)
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.state.calculate_until(now, &self.config);
        let packet = self.buffer.pop();
        let served = packet.as_ref().filter(|_| self.buffer.len() > 0);
        self.state.delay = served.map_or(Span::ZERO, |packet| now - packet.arrival);
        packet
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

impl PieState {
    fn new(config: &PieConfig) -> Self {
        PieState {
            probability: 0.0,
            accumulated_probability: 0.0,
            delay: Span::ZERO,
            old_delay: Span::ZERO,
            burst_allowance: config.burst,
            next_calculation: None,
        }
    }

    /// Makes up for the calculations that were due by now: nothing has changed since the last packet came or went.
    fn calculate_until(&mut self, now: Time, config: &PieConfig) {
        let mut next = self.next_calculation.unwrap_or(now + config.update);
        for _ in 0..MAX_CALCULATIONS {
            if next > now {
                break;
            }
            self.calculate_probability(config);
            next += config.update;
        }
        self.next_calculation = Some(if next > now { next } else { now + config.update });
    }

    fn calculate_probability(&mut self, config: &PieConfig) {
        let [delay, old, target] = [self.delay, self.old_delay, config.target].map(Span::as_secs_f64);
        // Calculations at half the interval take half the one gain, and a quarter of it more of the other (section 4.2).
        let ratio = config.update.as_secs_f64() / DEFAULT_UPDATE_INTERVAL.as_secs_f64();
        let gains = (CONTROLLER_GAINS.0 * ratio, CONTROLLER_GAINS.1 + CONTROLLER_GAINS.0 / 2.0 * (1.0 - ratio));
        let step = gains.0 * (delay - target) + gains.1 * (delay - old);
        let divisor = STEP_DIVISORS.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, by)| *by);
        let step = if self.probability >= CAPPED_STEP_PROBABILITIES.0 {
            step.min(CAPPED_STEP_PROBABILITIES.1)
        } else {
            step / divisor
        };
        let is_over = self.delay == Span::ZERO && self.old_delay == Span::ZERO;
        let decay = if is_over { DECAY_FACTOR } else { 1.0 };
        self.probability = ((self.probability + step) * decay).clamp(0.0, 1.0);
        let is_short = |delay: Span| delay < config.target / 2;
        self.burst_allowance = if self.probability == 0.0 && is_short(self.delay) && is_short(self.old_delay) {
            config.burst
        } else {
            (self.burst_allowance - config.update).max(Span::ZERO)
        };
        self.old_delay = self.delay;
    }

    /// Whether the packet that arrives where so many bytes wait is to be dropped.
    fn drops_next(&mut self, waiting: u64, config: &PieConfig, rng: &mut Pcg64Mcg) -> bool {
        let is_short = self.old_delay < config.target / 2 && self.probability < SAFE_PROBABILITY;
        if self.burst_allowance > Span::ZERO || is_short || waiting <= 2 * u64::from(config.mtu) {
            return false;
        }
        self.accumulated_probability =
            if self.probability == 0.0 { 0.0 } else { self.accumulated_probability + self.probability };
        let (least, most) = DROP_DISTANCES;
        let drops = self.accumulated_probability >= most
            || (self.accumulated_probability >= least && rng.random::<f64>() < self.probability);
        if drops {
            self.accumulated_probability = 0.0;
        }
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::Ecn;

    fn control(probability: f64, delay: Span, old_delay: Span) -> PieState {
        let config = PieConfig::default();
        PieState { probability, delay, old_delay, burst_allowance: Span::ZERO, ..PieState::new(&config) }
    }

    const MS: fn(i64) -> Span = Span::from_millis;

    #[test]
    fn steps_are_smaller_while_the_probability_is_small() {
        // 10 ms beyond the target, and no change: 0.125 · 0.01.
        for (probability, step) in [
            (0.0, 0.00125 / 2048.0),
            (5e-6, 0.00125 / 512.0),
            (5e-5, 0.00125 / 128.0),
            (5e-4, 0.00125 / 32.0),
            (5e-3, 0.00125 / 8.0),
            (5e-2, 0.00125 / 2.0),
            (5e-1, 0.00125),
        ] {
            let mut control = control(probability, MS(25), MS(25));
            control.calculate_probability(&PieConfig::default());
            assert!((control.probability - probability - step).abs() < 1e-15, "{probability}: {}", control.probability);
        }
    }

    #[test]
    fn the_probability_follows_change_is_capped_and_decays_on_an_empty_queue() {
        let after = |probability, delay, old| {
            let mut control = control(probability, delay, old);
            control.calculate_probability(&PieConfig::default());
            control.probability
        };
        // 1.25 · 0.01 for a delay that has grown to the target.
        assert!((after(0.05, MS(15), MS(5)) - 0.05 - 0.0125 / 2.0).abs() < 1e-12);
        assert!((after(0.5, MS(500), MS(0)) - 0.52).abs() < 1e-12, "no more than 2 % at a time");
        assert!((after(0.5, MS(0), MS(0)) - 0.98 * (0.5 - 0.125 * 0.015)).abs() < 1e-12);
        assert_eq!((after(0.0, MS(0), MS(0)), after(0.999, MS(500), MS(0))), (0.0, 1.0));
    }

    #[test]
    fn gains_follow_the_interval_of_calculations() {
        let config = PieConfig { update: Span::from_micros(7_500), ..PieConfig::default() };
        let mut control = control(0.5, MS(16), MS(15));
        control.calculate_probability(&config);
        let step = 0.0625 * 0.001 + (1.25 + 0.125 / 4.0) * 0.001;
        assert!((control.probability - 0.5 - step).abs() < 1e-12, "{}", control.probability);
    }

    #[test]
    fn drops_come_at_even_distances() {
        // A sixteenth, so that sums are exact.
        let (mut control, mut rng) = (control(0.0625, MS(20), MS(20)), Pcg64Mcg::seed_from_u64(1));
        let drops: Vec<i64> =
            (0..100_000).filter(|_| control.drops_next(100_000, &PieConfig::default(), &mut rng)).collect();
        let gaps: Vec<i64> = drops.windows(2).map(|two| two[1] - two[0]).collect();
        let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
        assert!(*least == 14 && *most <= 136, "0.85 and 8.5 of the mean distance by chance alone: {least}, {most}");
        let mean = gaps.iter().sum::<i64>() as f64 / gaps.len() as f64;
        assert!((mean - 29.0).abs() < 1.0, "13 packets for which nothing is drawn, and 16 on average: {mean}");
    }

    /// How many are dropped and what delays the others have, where `load` packets come for each that is served, one in a
    /// millisecond.
    fn under(load: f64, seconds: i64) -> (usize, Vec<Span>) {
        let mut queue = PieConfig::default().new_queue(QueueLimit::Packets(u64::MAX), 1);
        let (mut drops, mut delays, mut due) = (Vec::new(), Vec::new(), 0.0);
        for milli in 1..=seconds * 1000 {
            let now = Time::ZERO + MS(milli);
            due += load;
            while due >= 1.0 {
                due -= 1.0;
                let _ = queue.enqueue(QueuedPacket::new((), 1000, 0, now), &mut drops);
            }
            delays.extend(queue.dequeue(now, &mut drops).map(|packet| now - packet.arrival));
        }
        (drops.len(), delays)
    }

    #[test]
    fn senders_that_do_not_react_lose_the_excess_and_wait_for_about_the_target() {
        let (drops, delays) = under(1.25, 120);
        assert!((drops as f64 / 30_000.0 - 1.0).abs() < 0.05, "{drops} of 30000 that are too many");
        let last = &delays[60_000..];
        let mean = last.iter().fold(Span::ZERO, |sum, delay| sum + *delay) / last.len() as i64;
        assert!((MS(10)..MS(20)).contains(&mean), "{mean}");
    }

    #[test]
    fn a_burst_passes_and_what_lasts_does_not() {
        let first_drop = |burst| {
            let config = PieConfig { burst, ..PieConfig::default() };
            (1..30).find(|tenths| {
                let mut queue = config.new_queue(QueueLimit::Packets(u64::MAX), 1);
                let mut drops = Vec::new();
                for tenth in 0..tenths * 1000 {
                    let now = Time::ZERO + Span::from_micros(100) * tenth;
                    let _ = queue.enqueue(QueuedPacket::new((), 1000, 0, now), &mut drops);
                    if tenth % 10 == 0 {
                        queue.dequeue(now, &mut drops);
                    }
                }
                !drops.is_empty()
            })
        };
        let (allowed, at_once) = (first_drop(MS(2000)).unwrap(), first_drop(Span::ZERO).unwrap());
        assert!(allowed > at_once && allowed > 20, "{allowed} and {at_once} tenths of a second");
    }

    /// Of a thousand packets that arrive at once: how many are dropped, and how many marked.
    fn dropped_and_marked(probability: f64) -> (usize, usize) {
        let config = PieConfig { ecn: true, ..PieConfig::default() };
        let mut queue = config.new_queue(QueueLimit::Packets(u64::MAX), 1);
        queue.state = control(probability, MS(20), MS(20));
        let mut drops = Vec::new();
        for _ in 0..1000 {
            let _ = queue
                .enqueue(QueuedPacket { ecn: Ecn::Ect0, ..QueuedPacket::new((), 1000, 0, Time::ZERO) }, &mut drops);
        }
        let left = std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut Vec::new()));
        (drops.len(), left.filter(|packet| packet.marked).count())
    }

    #[test]
    fn what_can_be_marked_is_not_dropped_while_few_are() {
        let (few, many) = (dropped_and_marked(0.1), dropped_and_marked(0.2));
        assert!(few.0 == 0 && few.1 > 30, "{few:?}");
        assert!(many.0 > 60 && many.1 == 0, "{many:?}");
    }

    #[test]
    fn a_pause_is_forgotten_however_long_it_lasts() {
        let config = PieConfig::default();
        let mut queue = config.new_queue(QueueLimit::Packets(u64::MAX), 1);
        let enqueue = |queue: &mut Pie<()>, at| {
            queue.enqueue(QueuedPacket::new((), 1000, 0, at), &mut Vec::new()).unwrap();
            queue.dequeue(at, &mut Vec::new())
        };
        queue.state.probability = 1.0;
        for pause in [Span::from_secs(60), Span::from_secs(1_000_000_000)] {
            assert!(enqueue(&mut queue, Time::ZERO + pause).is_some());
            assert_eq!(queue.state.burst_allowance, config.burst);
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let good = PieConfig::default();
        for (config, part) in [
            (PieConfig { target: Span::from_nanos(-1), ..good }, "target is -1 ns"),
            (PieConfig { burst: Span::from_nanos(-1), ..good }, "burst allowance is -1 ns"),
            (PieConfig { update: Span::ZERO, ..good }, "interval of calculations is 0"),
            (PieConfig { update: Span::from_secs(1), ..good }, "15 ms is usual"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(good.check(), Ok(()));
    }
}
