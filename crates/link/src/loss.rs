use crate::random::happens;
use kumade_units::ConfigError;
use rand::SeedableRng;
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
}

/// Decides packet by packet.
#[derive(Debug)]
pub(crate) struct LossProcess {
    loss: Loss,
    rng: Pcg64Mcg,
    is_bad_state: bool,
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

    /// The loss ratio in the long run.
    pub fn mean_ratio(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Independent(probability) => probability,
            Loss::GilbertElliott { loss_in_good, loss_in_bad, .. } => {
                loss_in_good + (loss_in_bad - loss_in_good) * self.bad_state_fraction()
            }
        }
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
        };
        named.into_iter().try_for_each(|(name, value)| ConfigError::check_probability("link", name, value))
    }
}

impl LossProcess {
    pub(crate) fn new(loss: Loss, seed: u64) -> Self {
        let mut process = LossProcess { loss: Loss::None, rng: Pcg64Mcg::seed_from_u64(seed), is_bad_state: false };
        process.set_loss(loss);
        process
    }

    /// Goes on with other probabilities. A bad medium stays bad until it turns.
    pub(crate) fn set_loss(&mut self, loss: Loss) {
        let in_bursts = |loss: &Loss| matches!(loss, Loss::GilbertElliott { .. });
        if !in_bursts(&self.loss) && in_bursts(&loss) {
            self.is_bad_state = happens(&mut self.rng, loss.bad_state_fraction());
        }
        self.loss = loss;
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(loss: Loss, count: usize) -> Vec<bool> {
        let mut process = LossProcess::new(loss, 1);
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

    #[test]
    fn it_begins_in_its_steady_state() {
        let loss = Loss::bursts(0.3, 1000.0).unwrap();
        let first = (0..4000).filter(|seed| LossProcess::new(loss, *seed).loses_next()).count();
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
