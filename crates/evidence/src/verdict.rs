//! A value, or why there is none.

use crate::quantiles::{ModelMass, Quantiles};

/// No value is given whose 95 % interval is wider than this part of it: a bound tells as much.
const MAX_RELATIVE_WIDTH: f64 = 0.5;
/// No value is given where trains that fit the leading model as badly are rarer than this.
const MIN_FIT_PROBABILITY: f64 = 0.01;
/// Where other priors move an end of the interval by more than this part of its width, the wider one is given.
const MAX_PRIOR_EFFECT: f64 = 0.25;

/// What the evidence comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// So much is available, in bit/s.
    Value {
        /// The median.
        value: f64,
        /// The low end of the interval that holds 95 %, or more where priors matter.
        low: f64,
        /// Its high end.
        high: f64,
    },
    /// No value, and a bound in bit/s: the 97.5 % quantile, or the fastest rate at which anything arrived where no model fits.
    None {
        /// Why.
        refusal: Refusal,
        /// At most so much is available.
        at_most: f64,
    },
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No model has such trains.
    NoModelFits,
    /// The leading model tells no more than a bound: this one.
    LeadingModel(&'static str),
    /// What is available is not known well enough.
    TooWide,
}

impl Verdict {
    /// Of the models in the order of their masses, the quantiles over all of them, the same with other priors, how well the leading model
    /// fits, and the fastest rate at which anything arrived: where no model fits, that is all that is known.
    pub(crate) fn new(
        models: &[ModelMass],
        found: &Quantiles,
        with_other_priors: &[Quantiles],
        fit: f64,
        fastest_arrival: f64,
    ) -> Self {
        let (low, high) = found.interval();
        let width = high - low;
        let moves = |other: &Quantiles| {
            let (other_low, other_high) = other.interval();
            (low - other_low).max(other_high - high) > MAX_PRIOR_EFFECT * width
        };
        let wider = with_other_priors.iter().filter(|other| moves(other)).map(Quantiles::interval);
        let (low, high) = wider.fold((low, high), |(low, high), (l, h)| (low.min(l), high.max(h)));
        let refused = |refusal| Verdict::None { refusal, at_most: high };
        match models.first() {
            _ if fit < MIN_FIT_PROBABILITY => {
                Verdict::None { refusal: Refusal::NoModelFits, at_most: high.max(fastest_arrival) }
            }
            Some(leading) if !leading.tells_value => refused(Refusal::LeadingModel(leading.name)),
            _ if high - low > MAX_RELATIVE_WIDTH * found.median() => refused(Refusal::TooWide),
            _ => Verdict::Value { value: found.median(), low, high },
        }
    }
}
