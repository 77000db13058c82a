//! What stamps that scatter leave of a value: a rate is a train's bytes by the time between two stamps.

use kumade_estimate::{Outcome, Reason};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// A value that is less certain than this is of no use: published tools differ by less from one another.
const MAX_RELATIVE_ERROR: f64 = 0.25;
/// Smaller errors are below what intervals cover anyway.
const MIN_RELATIVE_ERROR: f64 = 0.001;

/// The outcome with the interval that stamps allow which scatter by so much, where the longest train arrived within this time; none where they
/// do not suffice.
pub(crate) fn widen_by_scatter(scatter: Span, longest_train: Span, outcome: Outcome) -> Outcome {
    // At either end of a train.
    let error = 2.0 * scatter.as_secs_f64() / longest_train.as_secs_f64().max(1e-9);
    let Some(found) = outcome.available.filter(|_| error > MIN_RELATIVE_ERROR) else { return outcome };
    if error > MAX_RELATIVE_ERROR {
        return Outcome::without_value(Reason::CoarseStamps(scatter, longest_train));
    }
    // What is available is the difference of two rates, of which the capacity is the larger one.
    let margin = outcome.capacity.map_or(found.value, |capacity| capacity.max(found.value)).as_f64() * error;
    let low =
        Rate::from_f64((found.value.as_f64() - (found.value.as_f64() - found.low.as_f64()).hypot(margin)).max(0.0));
    let high = Rate::from_f64(found.value.as_f64() + (found.high.as_f64() - found.value.as_f64()).hypot(margin));
    Outcome { available: Some(Estimate { low, high, ..found }), ..outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let [low, value, high] = [49, 50, 51].map(Rate::from_mbit);
        let available = Some(Estimate { value, low, high, confidence: 0.95 });
        Outcome {
            available,
            reason: None,
            capacity: Some(Rate::from_mbit(100)),
            ..Outcome::without_value(Reason::NearlyFull)
        }
    }

    #[test]
    fn intervals_widen_with_the_scatter_until_there_is_no_value() {
        let train = Span::from_millis(100);
        assert_eq!(widen_by_scatter(Span::ZERO, train, outcome()), outcome());
        let mut widths = Vec::new();
        for micros in [100, 500, 2_000, 10_000] {
            let widened = widen_by_scatter(Span::from_micros(micros), train, outcome()).available.unwrap();
            assert_eq!(widened.value, Rate::from_mbit(50));
            widths.push(widened.high.as_f64() - widened.low.as_f64());
        }
        assert!(widths[0] > 2e6 && widths.is_sorted());
        let refused = widen_by_scatter(Span::from_millis(20), train, outcome());
        assert_eq!(
            (refused.available, refused.reason),
            (None, Some(Reason::CoarseStamps(Span::from_millis(20), train)))
        );
    }
}
