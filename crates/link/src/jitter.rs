use crate::random::{happens, random_stream};
use kumade_units::{ConfigError, Span};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;
use thiserror::Error;

/// Delay that varies from packet to packet, in addition to [`crate::LinkConfig::delay`].
#[derive(Debug, Clone, PartialEq)]
pub struct Jitter {
    /// How much the delay varies; what that means is for the distribution to say. Zero for no jitter.
    pub amount: Span,
    /// How the delays are spread.
    pub distribution: JitterDistribution,
    /// From 0 to 1: with this probability a packet has the jitter of the packet before it, else a new one (the DAR(1) process of Jacobs and
    /// Lewis 1978). The correlation of two packets is this to the power of their distance, and the distribution stays
    /// what it is.
    ///
    /// `tc netem` takes `(1 − ρ) · random + ρ · last` instead, before it looks the number up in a table: the deviation is
    /// only √((1 − ρ) / (1 + ρ)) of what was asked for, and the ends of the table are never reached.
    pub correlation: f64,
    /// Whether a packet may overtake those before it, as in `tc netem`. Otherwise a packet is not due before the one ahead of it, so
    /// packets that follow each other closer than the jitter keep some of the delay of those ahead.
    pub reorders: bool,
}

/// How the delays of a [`Jitter`] are spread.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum JitterDistribution {
    /// Uniform from zero to the amount: the delay is the least.
    #[default]
    OneSided,
    /// Uniform from minus the amount to the amount: the delay is the mean, as in `tc netem` without a distribution.
    Uniform,
    /// A table, in units of the amount: as in `tc netem` with a distribution.
    Table(JitterTable),
}

/// A distribution as the files `*.dist` of iproute2 have it: equally likely values in 8192ths of the jitter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitterTable(Arc<[i16]>);

/// Why a text cannot be read as a distribution.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "cannot read the distribution: line {line} {problem}; the files *.dist of iproute2 have whole numbers from -32768 to 32767, 8192 for one jitter, and comments behind #"
)]
pub struct JitterTableError {
    line: usize,
    problem: String,
}

/// One jitter in a table (`NETEM_DIST_SCALE`).
const TABLE_SCALE: i64 = 8192;
/// The most values that `tc` reads.
const MAX_TABLE_VALUES: usize = 16 * 1024;

/// Decides packet by packet.
#[derive(Debug)]
pub(crate) struct JitterProcess {
    rng: Pcg64Mcg,
    /// What the packet before had.
    last: Option<Span>,
}

impl Default for Jitter {
    fn default() -> Self {
        Span::ZERO.into()
    }
}

impl From<Span> for Jitter {
    /// Uniform from zero to this, independent, in order.
    fn from(amount: Span) -> Self {
        Jitter { amount, distribution: JitterDistribution::OneSided, correlation: 0.0, reorders: false }
    }
}

impl Jitter {
    /// The least of it; below zero where the delay is the mean.
    pub fn lowest(&self) -> Span {
        match &self.distribution {
            JitterDistribution::OneSided => Span::ZERO,
            JitterDistribution::Uniform => -self.amount,
            JitterDistribution::Table(table) => table.scaled(self.amount, table.0.iter().copied().min()),
        }
    }

    /// The most of it.
    pub fn highest(&self) -> Span {
        match &self.distribution {
            JitterDistribution::OneSided | JitterDistribution::Uniform => self.amount,
            JitterDistribution::Table(table) => table.scaled(self.amount, table.0.iter().copied().max()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.amount < Span::ZERO {
            let error = ConfigError::for_part("link");
            return Err(error("jitter", self.amount.to_string(), "which is less than none", "give 0 or more"));
        }
        ConfigError::check_probability("link", "correlation of jitter", self.correlation)
    }
}

impl JitterTable {
    /// Reads a file `*.dist` of iproute2.
    ///
    /// # Errors
    /// A value is no whole number of 16 bits, or there is none, or more than `tc` takes.
    pub fn parse(text: &str) -> Result<Self, JitterTableError> {
        let mut values: Vec<i16> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let error = |problem: String| JitterTableError { line: index + 1, problem };
            let numbers = line.split('#').next().unwrap_or_default();
            for word in numbers.split_whitespace() {
                let shown: String = word.chars().take(40).collect();
                values.push(word.parse().map_err(|_| error(format!("has '{shown}', no number of 16 bits")))?);
            }
            if values.len() > MAX_TABLE_VALUES {
                return Err(error(format!("has the number {} of the table, one more than tc reads", values.len())));
            }
        }
        if values.is_empty() {
            return Err(JitterTableError { line: 1, problem: "and those below have no number".to_owned() });
        }
        Ok(JitterTable(values.into()))
    }

    /// The mean of all values, in jitters. That of a table for `tc netem` should be 0.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|value| f64::from(*value)).sum::<f64>() / self.0.len() as f64 / TABLE_SCALE as f64
    }

    /// The standard deviation of all values, in jitters. That of a table for `tc netem` should be 1.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let square = |value: &i16| (f64::from(*value) / TABLE_SCALE as f64 - mean).powi(2);
        (self.0.iter().map(square).sum::<f64>() / self.0.len() as f64).sqrt()
    }

    /// A value of the table, for this jitter, to the nearest nanosecond as the kernel has it.
    fn scaled(&self, amount: Span, value: Option<i16>) -> Span {
        let product = i128::from(amount.as_nanos()) * i128::from(value.unwrap_or(0));
        let scale = i128::from(TABLE_SCALE);
        let nanos = (product + product.signum() * scale / 2) / scale;
        Span::from_nanos(i64::try_from(nanos).unwrap_or(if nanos > 0 { i64::MAX } else { i64::MIN }))
    }
}

impl JitterProcess {
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        JitterProcess { rng: random_stream(seed, purpose), last: None }
    }

    /// What comes next is not like what came before.
    pub(crate) fn forget_last(&mut self) {
        self.last = None;
    }

    /// The jitter of the next packet.
    pub(crate) fn draw_next(&mut self, jitter: &Jitter) -> Span {
        let most = jitter.amount.as_nanos();
        if most <= 0 {
            return Span::ZERO;
        }
        // The second number is drawn in any case, so that packets keep theirs whatever the correlation.
        let is_repeated = happens(&mut self.rng, jitter.correlation);
        let drawn = match &jitter.distribution {
            JitterDistribution::OneSided => Span::from_nanos(self.rng.random_range(0..=most)),
            JitterDistribution::Uniform => Span::from_nanos(self.rng.random_range(-most..=most)),
            JitterDistribution::Table(table) => {
                table.scaled(jitter.amount, table.0.get(self.rng.random_range(0..table.0.len())).copied())
            }
        };
        let next = self.last.filter(|_| is_repeated).unwrap_or(drawn);
        self.last = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;
    const SEED: u64 = 11;

    fn draws(jitter: &Jitter) -> Vec<f64> {
        let mut process = JitterProcess::new(SEED, 1);
        (0..DRAWS).map(|_| process.draw_next(jitter).as_secs_f64() * 1e3).collect()
    }

    /// Mean, deviation, and the correlation of each with the next.
    fn moments(values: &[f64]) -> [f64; 3] {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let covariance =
            |lag: usize| values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n;
        [mean, covariance(0).sqrt(), covariance(1) / covariance(0)]
    }

    fn table() -> JitterTable {
        JitterTable::parse("# two lines\n -8192 -8192 # half of them\n\n8192\t16384\n").unwrap()
    }

    #[test]
    fn each_distribution_has_its_mean_and_deviation_whatever_the_correlation() {
        let amount = Span::from_millis(6);
        let uniform = 6.0 / 3f64.sqrt();
        for (distribution, mean, deviation) in [
            (JitterDistribution::OneSided, 3.0, uniform / 2.0),
            (JitterDistribution::Uniform, 0.0, uniform),
            (JitterDistribution::Table(table()), 6.0 * table().mean(), 6.0 * table().deviation()),
        ] {
            for correlation in [0.0, 0.25, 0.9] {
                let jitter = Jitter { amount, distribution: distribution.clone(), correlation, reorders: true };
                let values = draws(&jitter);
                let [is, spread, following] = moments(&values);
                // As many independent draws as this are worth.
                let tolerance = 5.0 * deviation * ((1.0 + correlation) / (1.0 - correlation) / DRAWS as f64).sqrt();
                let text = format!("seed {SEED}, {distribution:?} {correlation}: {is} ± {spread}, {following}");
                assert!((is - mean).abs() < tolerance && (spread - deviation).abs() < tolerance, "{text}");
                assert!((following - correlation).abs() < 0.01, "{text}");
                let ends = [jitter.lowest(), jitter.highest()].map(|end| end.as_secs_f64() * 1e3);
                assert!(values.iter().all(|value| (ends[0]..=ends[1]).contains(value)), "{text}");
            }
        }
    }

    #[test]
    fn a_table_is_rounded_as_the_kernel_rounds_it() {
        let table = JitterTable::parse("1 -1 4096 -4096 32767").unwrap();
        let scaled = |nanos, value| table.scaled(Span::from_nanos(nanos), Some(value)).as_nanos();
        assert_eq!([scaled(4095, 1), scaled(4096, 1), scaled(4096, -1)], [0, 1, -1]);
        assert_eq!(scaled(10_000_000, 8192), 10_000_000);
        // More than the kernel's 32 bits.
        assert_eq!(scaled(3_600_000_000_000, -32768), -4 * 3_600_000_000_000);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        for (text, part) in [
            ("", "line 1 and those below have no number"),
            ("# nothing\n\n", "have no number"),
            ("1 2\n3 x\n", "line 2 has 'x'"),
            ("40000", "no number of 16 bits"),
            ("1.5", "'1.5'"),
            (&"1 2 3 4 5 6 7 8\n".repeat(2049), "line 2049 has the number 16392"),
        ] {
            let error = JitterTable::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
