use crate::random::happens;
use kumade_units::ConfigError;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Which packets a link loses after their transmission, as a lossy medium does. All probabilities are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// No packet.
    #[default]
    None,
    /// Each packet with this probability, independently.
    Independent(f64),
    /// In bursts (Gilbert 1960, Elliott 1963): the medium is in a good or a bad state, a packet is lost with the
    /// probability of the current state, and then the state may change. It begins in its steady state, so that short runs
    /// have the same mean loss as long ones. [`Loss::bursts`] computes the probabilities from mean and burst length.
    GilbertElliott {
        /// Probability that the medium turns bad after a packet in the good state.
        good_to_bad: f64,
        /// Probability that it turns good after a packet in the bad state.
        bad_to_good: f64,
        /// Probability that a packet is lost in the good state (Gilbert has 0).
        loss_in_good: f64,
        /// Probability that a packet is lost in the bad state (the simple Gilbert model has 1).
        loss_in_bad: f64,
    },
    /// A Markov chain of four states (Salsano and others 2012; `loss state` of `tc netem`): packets arrive in a gap (1) or within
    /// a burst (2), are lost within a burst (3), or alone (4), after which the gap goes on. What is left of each
    /// state's probabilities is that of staying. It begins in its steady state.
    FourState {
        /// From a gap to a loss that begins a burst.
        p13: f64,
        /// From a loss within a burst to a gap.
        p31: f64,
        /// From a loss within a burst to an arrival within it.
        p32: f64,
        /// From an arrival within a burst to a loss.
        p23: f64,
        /// From a gap to a loss alone.
        p14: f64,
    },
}

/// The states of [`Loss::FourState`], by their numbers less one, and whether a packet is lost in each.
const FOUR_STATES_LOSE: [bool; 4] = [false, false, true, true];

/// Decides packet by packet.
#[derive(Debug)]
pub(crate) struct LossProcess {
    loss: Loss,
    rng: Pcg64Mcg,
    is_bad_state: bool,
    /// Of four, from 0.
    state: usize,
}

impl Loss {
    /// The simple Gilbert model with this loss ratio, in bursts of this many successive packets on average.
    ///
    /// # Errors
    /// The mean is no probability, or the bursts are shorter than a packet or than `mean / (1 − mean)` packets, the minimum
    /// of the model for this loss ratio.
    pub fn bursts(mean: f64, mean_length: f64) -> Result<Self, ConfigError> {
        let error = ConfigError::for_part("loss");
        if !(0.0..1.0).contains(&mean) {
            return Err(error("mean", mean.to_string(), "out of range", "give a part from 0 up to below 1"));
        }
        let shortest = (mean / (1.0 - mean)).max(1.0);
        if !(mean_length >= shortest && mean_length.is_finite()) {
            let problem = "shorter than bursts of so much loss can be, or endless";
            let value = format!("{mean_length} packets, where {shortest:.2} is the least");
            return Err(error("mean burst length", value, problem, "give longer bursts or less loss"));
        }
        let bad_to_good = 1.0 / mean_length;
        let good_to_bad = (bad_to_good * mean / (1.0 - mean)).min(1.0);
        Ok(Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good: 0.0, loss_in_bad: 1.0 })
    }

    /// Loss with this probability, where the loss of a packet and that of the next have this correlation, from 0 to 1; in the
    /// simple Gilbert model. The loss ratio is the probability, and bursts have `1 / ((1 − p) (1 − ρ))` packets in the mean.
    ///
    /// The correlation of `tc netem` changes the ratio instead: its random numbers are sums, which are rarely small. Of 1 %
    /// with a correlation of 25 %, netem loses one packet in a million; of 10 % with 25 %, 1.7 %; of 10 % with 50 %, 0.1 %.
    pub fn correlated(probability: f64, correlation: f64) -> Self {
        if correlation == 0.0 {
            return if probability == 0.0 { Loss::None } else { Loss::Independent(probability) };
        }
        let turns = 1.0 - correlation;
        let (good_to_bad, bad_to_good) = (probability * turns, (1.0 - probability) * turns);
        Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good: 0.0, loss_in_bad: 1.0 }
    }

    /// The loss ratio in the long run.
    pub fn mean_ratio(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Independent(probability) => probability,
            Loss::GilbertElliott { loss_in_good, loss_in_bad, .. } => {
                loss_in_good + (loss_in_bad - loss_in_good) * self.bad_state_fraction()
            }
            Loss::FourState { .. } => {
                let lost = self.state_fractions().into_iter().zip(FOUR_STATES_LOSE).filter(|(_, loses)| *loses);
                lost.map(|(fraction, _)| fraction).sum()
            }
        }
    }

    /// The part of all packets that finds each of four states. A chain that never leaves a state that it need not enter
    /// is in the others.
    fn state_fractions(&self) -> [f64; 4] {
        let Loss::FourState { p13, p31, p32, p23, p14 } = *self else { return [1.0, 0.0, 0.0, 0.0] };
        if p13 == 0.0 {
            return [1.0, 0.0, 0.0, p14].map(|weight| weight / (1.0 + p14));
        }
        // Nothing leads to the second.
        let p23 = if p32 == 0.0 { 1.0 } else { p23 };
        // Each way between the gap and the burst, and between the states of either, is taken as often as its way back.
        let weights = [p31 * p23, p13 * p32, p13 * p23, p14 * p31 * p23];
        let sum: f64 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }

    /// The part of all packets that finds the medium bad. A medium that never changes stays good.
    fn bad_state_fraction(&self) -> f64 {
        match *self {
            Loss::GilbertElliott { good_to_bad, bad_to_good, .. } if good_to_bad > 0.0 => {
                good_to_bad / (good_to_bad + bad_to_good)
            }
            _ => 0.0,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let named = match *self {
            Loss::None => return Ok(()),
            Loss::Independent(loss) => vec![("loss", loss)],
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => vec![
                ("probability of turning bad", good_to_bad),
                ("probability of turning good", bad_to_good),
                ("loss in the good state", loss_in_good),
                ("loss in the bad state", loss_in_bad),
            ],
            Loss::FourState { p13, p31, p32, p23, p14 } => vec![
                ("loss state p13", p13),
                ("loss state p31", p31),
                ("loss state p32", p32),
                ("loss state p23", p23),
                ("loss state p14", p14),
                ("sum of the loss states p13 and p14", p13 + p14),
                ("sum of the loss states p31 and p32", p31 + p32),
            ],
        };
        named.into_iter().try_for_each(|(name, value)| ConfigError::check_probability("link", name, value))
    }
}

impl LossProcess {
    pub(crate) fn new(loss: Loss, rng: Pcg64Mcg) -> Self {
        let mut process = LossProcess { loss: Loss::None, rng, is_bad_state: false, state: 0 };
        process.set_loss(loss);
        process
    }

    /// Goes on with other probabilities. A bad medium stays bad until it turns.
    pub(crate) fn set_loss(&mut self, loss: Loss) {
        let in_bursts = |loss: &Loss| matches!(loss, Loss::GilbertElliott { .. });
        if !in_bursts(&self.loss) && in_bursts(&loss) {
            self.is_bad_state = happens(&mut self.rng, loss.bad_state_fraction());
        }
        let has_four = |loss: &Loss| matches!(loss, Loss::FourState { .. });
        if !has_four(&self.loss) && has_four(&loss) {
            self.state = self.draw_state(loss.state_fractions());
        }
        self.loss = loss;
    }

    /// One of the four, which have these probabilities.
    fn draw_state(&mut self, probabilities: [f64; 4]) -> usize {
        let mut rest: f64 = self.rng.random();
        let is_it = |probability: &f64| {
            rest -= probability;
            rest < 0.0
        };
        probabilities.iter().position(is_it).unwrap_or(0)
    }

    /// Whether the next packet is lost.
    pub(crate) fn loses_next(&mut self) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Independent(probability) => happens(&mut self.rng, probability),
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => {
                let (loss, turn) =
                    if self.is_bad_state { (loss_in_bad, bad_to_good) } else { (loss_in_good, good_to_bad) };
                let lost = happens(&mut self.rng, loss);
                self.is_bad_state ^= happens(&mut self.rng, turn);
                lost
            }
            Loss::FourState { p13, p31, p32, p23, p14 } => {
                let lost = FOUR_STATES_LOSE[self.state];
                let next = match self.state {
                    0 => [1.0 - p13 - p14, 0.0, p13, p14],
                    1 => [0.0, 1.0 - p23, p23, 0.0],
                    2 => [p31, p32, 1.0 - p31 - p32, 0.0],
                    _ => [1.0, 0.0, 0.0, 0.0],
                };
                self.state = self.draw_state(next);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn fates(loss: Loss, count: usize) -> Vec<bool> {
        let mut process = LossProcess::new(loss, Pcg64Mcg::seed_from_u64(1));
        (0..count).map(|_| process.loses_next()).collect()
    }

    fn part_lost(fates: &[bool]) -> f64 {
        fates.iter().filter(|lost| **lost).count() as f64 / fates.len() as f64
    }

    #[test]
    fn bursts_have_the_mean_loss_and_the_mean_length_asked_for() {
        for (mean, length) in [(0.01, 1.0), (0.01, 8.0), (0.1, 3.0), (0.5, 1.0), (0.6, 20.0)] {
            let loss = Loss::bursts(mean, length).unwrap();
            assert!((loss.mean_ratio() - mean).abs() < 1e-12);
            let fates = fates(loss, 2_000_000);
            let bursts = fates.chunk_by(|a, b| a == b).filter(|run| run[0]);
            let (count, lost) = bursts.fold((0, 0), |(count, lost), burst| (count + 1, lost + burst.len()));
            let measured = lost as f64 / f64::from(count);
            assert!((part_lost(&fates) - mean).abs() < 0.05 * mean, "{mean} {length}: {}", part_lost(&fates));
            assert!((measured - length).abs() < 0.05 * length, "{mean} {length}: {measured}");
        }
    }

    #[test]
    fn both_states_lose_their_part() {
        let loss = Loss::GilbertElliott { good_to_bad: 0.02, bad_to_good: 0.18, loss_in_good: 0.01, loss_in_bad: 0.4 };
        assert!((loss.mean_ratio() - (0.9 * 0.01 + 0.1 * 0.4)).abs() < 1e-12);
        let fates = fates(loss, 1_000_000);
        assert!((part_lost(&fates) - loss.mean_ratio()).abs() < 0.001, "{}", part_lost(&fates));
        // P(lost, lost) from theory: the state at the next packet given that at this one.
        let both = 0.9 * 0.01 * (0.98 * 0.01 + 0.02 * 0.4) + 0.1 * 0.4 * (0.82 * 0.4 + 0.18 * 0.01);
        let pairs = fates.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / 999_999.0;
        assert!((pairs - both).abs() < 0.05 * both, "{pairs} {both}");
    }

    /// Mean, and the correlation of each with the next.
    fn ratio_and_correlation(fates: &[bool]) -> (f64, f64) {
        let mean = part_lost(fates);
        let both = fates.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / (fates.len() - 1) as f64;
        (mean, (both - mean * mean) / (mean * (1.0 - mean)))
    }

    #[test]
    fn correlated_loss_keeps_its_ratio_and_has_its_correlation() {
        for (probability, correlation) in [(0.01, 0.0), (0.01, 0.25), (0.01, 0.5), (0.2, 0.9), (0.7, 0.3)] {
            let loss = Loss::correlated(probability, correlation);
            assert!((loss.mean_ratio() - probability).abs() < 1e-12);
            let (mean, following) = ratio_and_correlation(&fates(loss, 4_000_000));
            assert!((mean - probability).abs() < 0.03 * probability, "{probability} {correlation}: {mean}");
            assert!((following - correlation).abs() < 0.02, "{probability} {correlation}: {following}");
        }
        assert_eq!(Loss::correlated(0.0, 0.0), Loss::None);
    }

    /// The random numbers of the kernel's `get_crandom` (net/sched/sch_netem.c): what the documentation says of its correlation.
    #[test]
    fn the_correlation_of_netem_does_not_keep_the_ratio() {
        const PACKETS: u32 = 1_000_000;
        let lost_of_netem = |probability: f64, correlation: f64| {
            let mut rng = Pcg64Mcg::seed_from_u64(5);
            let mut last: u64 = rng.random::<u32>().into();
            let rho = (correlation * f64::from(u32::MAX)) as u64 + 1;
            let threshold = (probability * f64::from(u32::MAX)) as u64;
            let lost = (0..PACKETS).filter(|_| {
                let value: u64 = rng.random::<u32>().into();
                last = ((u128::from(value) * ((1 << 32) - u128::from(rho)) + u128::from(last * rho)) >> 32) as u64;
                last <= threshold
            });
            lost.count() as f64 / f64::from(PACKETS)
        };
        let figures = [(0.01, 0.25), (0.1, 0.25), (0.3, 0.25), (0.1, 0.5)].map(|(loss, rho)| lost_of_netem(loss, rho));
        println!("netem, seed 5: 1 % 25 %, 10 % 25 %, 30 % 25 %, 10 % 50 % lose {figures:?}");
        assert!(figures[0] < 0.000_02 && (0.016..0.019).contains(&figures[1]) && figures[3] < 0.002, "{figures:?}");
    }

    #[test]
    fn four_states_lose_what_their_chain_says() {
        let chain = |[p13, p31, p32, p23, p14]: [f64; 5]| Loss::FourState { p13, p31, p32, p23, p14 };
        for (loss, mean) in [
            // Without bursts that have arrivals: 1/(1 + p31/p13), and alone p14 of the gap.
            (chain([0.05, 0.95, 0.0, 1.0, 0.0]), 0.05),
            (chain([0.0, 0.3, 0.2, 0.1, 0.1]), 0.1 / 1.1),
            (chain([0.01, 0.2, 0.3, 0.6, 0.005]), (0.01 / 0.2 + 0.005) / (1.0 + 0.005 + 0.05 * 1.5)),
            // It never leaves its burst.
            (chain([0.5, 0.0, 0.5, 0.25, 0.0]), 1.0 / 3.0),
        ] {
            assert!(loss.check().is_ok());
            assert!((loss.mean_ratio() - mean).abs() < 1e-12, "{loss:?}: {}", loss.mean_ratio());
            let lost = part_lost(&fates(loss, 2_000_000));
            assert!((lost - mean).abs() < 0.03 * mean, "{loss:?}: {lost} {mean}");
        }
        for (four, part) in
            [([0.6, 0.1, 0.1, 0.1, 0.5], "p13 and p14 is 1.1"), ([0.1, 0.9, 0.2, 1.0, 0.0], "p31 and p32")]
        {
            let error = chain(four).check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    /// A loss alone is followed by an arrival, so its bursts have one packet; those of the burst state are longer.
    #[test]
    fn four_states_have_two_kinds_of_losses() {
        let alone = fates(Loss::FourState { p13: 0.0, p31: 1.0, p32: 0.0, p23: 1.0, p14: 0.1 }, 100_000);
        assert!(alone.windows(2).all(|pair| !(pair[0] && pair[1])));
        let bursts = fates(Loss::FourState { p13: 0.02, p31: 0.1, p32: 0.1, p23: 0.5, p14: 0.0 }, 1_000_000);
        let (count, lost) =
            bursts.chunk_by(|a, b| a == b).filter(|run| run[0]).fold((0, 0), |(n, sum), run| (n + 1, sum + run.len()));
        let mean = lost as f64 / f64::from(count);
        assert!((mean - 5.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn it_begins_in_its_steady_state() {
        let loss = Loss::bursts(0.3, 1000.0).unwrap();
        let first =
            (0..4000).filter(|seed| LossProcess::new(loss, Pcg64Mcg::seed_from_u64(*seed)).loses_next()).count();
        assert!((1100..1300).contains(&first), "{first}");
    }

    #[test]
    fn bursts_that_cannot_be_are_refused() {
        for (mean, length) in
            [(0.9, 2.0), (0.1, 0.5), (0.1, f64::NAN), (f64::NAN, 2.0), (1.0, 5.0), (0.1, f64::INFINITY)]
        {
            assert!(Loss::bursts(mean, length).is_err(), "{mean} {length}");
        }
    }
}
