//! Cellular links, by the model that Winstein, Sivaraman and Balakrishnan found to describe measured ones (Stochastic Forecasts Achieve
//! High Throughput and Low Delay over Cellular Networks, NSDI 2013, section 3.1): opportunities to send are a Poisson process, whose
//! rate itself wanders in Brownian motion. Theirs wanders by 200 packets/s in a second at up to 1000 packets/s; here it is by a fifth
//! of the mean rate. It stays between a fifth of the mean and nine fifths: outages, of which theirs has some, last longer than a
//! measurement. Opportunities are at whole milliseconds, as those of an LTE base station are.

use kumade_link::{Trace, TraceError};
use kumade_units::Rate;
use rand::{Rng, RngExt};
use std::fmt::Write;

/// After this many milliseconds the trace begins anew.
const TRACE_MILLIS: u32 = 20_000;
/// Bytes of an opportunity.
const PACKET_BYTES: f64 = 1500.0;
/// By which part of the mean rate it wanders in a second …
const RELATIVE_DEVIATION: f64 = 0.2;
/// … and how far.
const MIN_RATE_RATIO: f64 = 0.2;
const MAX_RATE_RATIO: f64 = 1.8;

/// A trace of about this mean rate, in the format of mahimahi.
///
/// # Errors
/// There is no opportunity in it, at rates of less than a few kbit/s.
pub fn draw_trace(mean: Rate, random: &mut impl Rng) -> Result<Trace, TraceError> {
    let mean = mean.as_f64() / (PACKET_BYTES * 8.0) / 1000.0;
    let (mut rate, mut text, mut next) = (1.0, String::new(), 0.0);
    for millis in 1..=TRACE_MILLIS {
        // About normal: the sum of twelve uniform numbers.
        let normal: f64 = (0..12).map(|_| random.random_range(-0.5..0.5)).sum();
        rate = reflect_rate(rate + RELATIVE_DEVIATION * normal * 1e-3f64.sqrt());
        // The time to the next opportunity passes faster while the rate is higher.
        next -= mean * rate;
        while next <= 0.0 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{millis}");
            next -= (1.0 - random.random_range(0.0..1.0f64)).ln();
        }
    }
    Trace::parse(&text)
}

fn reflect_rate(rate: f64) -> f64 {
    if rate < MIN_RATE_RATIO {
        2.0 * MIN_RATE_RATIO - rate
    } else if rate > MAX_RATE_RATIO {
        2.0 * MAX_RATE_RATIO - rate
    } else {
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn the_mean_rate_is_about_as_asked_for_over_many_traces() {
        let mean = Rate::from_mbit(10);
        let rate = |seed| draw_trace(mean, &mut Pcg64Mcg::seed_from_u64(seed)).unwrap().mean_rate().as_f64();
        let rates: Vec<f64> = (0..40).map(rate).collect();
        let mean_of_all = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!((0.9..1.1).contains(&(mean_of_all / mean.as_f64())), "{mean_of_all}");
        assert!(rates.iter().any(|rate| *rate < 0.85 * mean.as_f64()));
    }
}
