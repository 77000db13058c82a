//! What a posterior over path models says, beside the value that follows from rules.

use kumade_evidence::{Evidence, Fact, ModelMass, Quantiles, Refusal, Verdict};
use kumade_probe_train::Estimate;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A posterior over path models, from facts of the trains of one direction. It has no part in the direction's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceReport {
    /// Each path model, the most probable one first.
    pub models: Vec<ModelReport>,
    /// Quantiles of the available bandwidth over all models.
    pub available: QuantilesReport,
    /// Quantiles of what one flow can have, if flows have queues of their own; null if that model is not weighed.
    pub fair_share: Option<QuantilesReport>,
    /// The value that would follow: the middle, and the interval that holds 95 % or, where the models' prior probabilities matter, more.
    /// Null if no model fits, the leading one tells no value, or the interval is wider than half of the value.
    pub available_bits_per_second: Option<Estimate<Rate>>,
    /// What is available at most by the 97.5 % quantile, where there is no such value; null if there is.
    pub at_most_bits_per_second: Option<Rate>,
    /// Why there is no such value: `no-model-fits`, `leading-model` or `too-wide`; null if there is.
    pub refusal: Option<String>,
    /// The probability of trains that fit the leading model no better.
    pub fit_ratio: f64,
    /// The fact that favours the leading model most over the next one: `dispersion`, `growth`, `quick-gaps`, `idle-waits` or `loss`; null if
    /// none does.
    pub decided_by: Option<String>,
    /// The natural logarithm of the ratio of likelihoods that it contributes.
    pub decided_by_ln_ratio: Option<f64>,
    /// Trains of one rate that were weighed.
    pub trains: usize,
    /// How many independent ones they are worth.
    pub effective_trains: f64,
    /// The time that the quantiles speak of: from the start of the first train to the end of the last one.
    pub window_seconds: f64,
    /// The part of it that trains watched.
    pub watched_ratio: f64,
}

/// One path model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReport {
    /// Its name.
    pub name: String,
    /// What kind of path that is, in words.
    pub description: String,
    /// Its posterior probability.
    pub probability: f64,
    /// Quantiles of the available bandwidth if the path is of this kind.
    pub available: QuantilesReport,
}

/// Quantiles of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuantilesReport {
    /// 2.5 %.
    pub p2_5_bits_per_second: Rate,
    /// 10 %.
    pub p10_bits_per_second: Rate,
    /// 25 %.
    pub p25_bits_per_second: Rate,
    /// The median.
    pub p50_bits_per_second: Rate,
    /// 75 %.
    pub p75_bits_per_second: Rate,
    /// 90 %.
    pub p90_bits_per_second: Rate,
    /// 97.5 %.
    pub p97_5_bits_per_second: Rate,
}

impl QuantilesReport {
    /// The central interval that holds this part of the probability: 0.5, 0.8 or 0.95, the nearest of which is taken.
    pub fn central_interval(&self, probability: f64) -> (Rate, Rate) {
        match probability {
            ..0.65 => (self.p25_bits_per_second, self.p75_bits_per_second),
            ..0.875 => (self.p10_bits_per_second, self.p90_bits_per_second),
            _ => (self.p2_5_bits_per_second, self.p97_5_bits_per_second),
        }
    }
}

impl From<Quantiles> for QuantilesReport {
    fn from(found: Quantiles) -> Self {
        let [p2_5, p10, p25, p50, p75, p90, p97_5] = found.0.map(Rate::from_f64);
        QuantilesReport {
            p2_5_bits_per_second: p2_5,
            p10_bits_per_second: p10,
            p25_bits_per_second: p25,
            p50_bits_per_second: p50,
            p75_bits_per_second: p75,
            p90_bits_per_second: p90,
            p97_5_bits_per_second: p97_5,
        }
    }
}

impl From<ModelMass> for ModelReport {
    fn from(model: ModelMass) -> Self {
        ModelReport {
            name: model.name.to_owned(),
            description: model.description.to_owned(),
            probability: model.mass,
            available: model.quantiles.into(),
        }
    }
}

impl From<Evidence> for EvidenceReport {
    fn from(found: Evidence) -> Self {
        let (value, at_most, refusal) = match found.verdict {
            Verdict::Value { value, low, high } => {
                let [value, low, high] = [value, low, high].map(Rate::from_f64);
                (Some(Estimate { value, low, high, confidence: 0.95 }), None, None)
            }
            Verdict::None { refusal, at_most } => (None, Some(Rate::from_f64(at_most)), Some(refusal)),
        };
        EvidenceReport {
            models: found.models.into_iter().map(ModelReport::from).collect(),
            available: found.quantiles.into(),
            fair_share: found.share.map(QuantilesReport::from),
            available_bits_per_second: value,
            at_most_bits_per_second: at_most,
            refusal: refusal.map(|why| refusal_name(why).to_owned()),
            fit_ratio: found.fit_probability,
            decided_by: found.decided_by.map(|(fact, _)| fact.name().to_owned()),
            decided_by_ln_ratio: found.decided_by.map(|(_, ratio)| ratio),
            trains: found.trains,
            effective_trains: found.effective_trains,
            window_seconds: found.window_seconds,
            watched_ratio: found.watched_fraction,
        }
    }
}

fn refusal_name(why: Refusal) -> &'static str {
    match why {
        Refusal::NoModelFits => "no-model-fits",
        Refusal::LeadingModel(_) => "leading-model",
        Refusal::TooWide => "too-wide",
    }
}

/// The words for a fact by its name.
fn describe_fact(name: &str) -> String {
    Fact::ALL
        .into_iter()
        .find(|fact| fact.name() == name)
        .map_or_else(|| name.to_owned(), |fact| fact.describe().to_owned())
}

impl fmt::Display for EvidenceReport {
    /// `92 % one queue before a link of a fixed rate, with cross traffic (by how the delay grew over trains of one rate); 50.1 Mbit/s (95 %: …)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(leading) = self.models.first() else { return f.write_str("no model") };
        write!(f, "{:.0} % {}", leading.probability * 100.0, leading.description)?;
        if let Some(fact) = &self.decided_by {
            write!(f, ", by {}", describe_fact(fact))?;
        }
        if let Some(next) = self.models.get(1).filter(|next| next.probability > 0.05) {
            write!(f, "; {:.0} % {}", next.probability * 100.0, next.description)?;
        }
        let (low, high) = self.available.central_interval(0.95);
        write!(f, "; {} (95 %: {low} … {high})", self.available.p50_bits_per_second)?;
        match self.refusal.as_deref() {
            Some("no-model-fits") => f.write_str(", but trains do not fit any model")?,
            Some("leading-model") => f.write_str(", a bound")?,
            Some(_) => f.write_str(", too wide for a value")?,
            None => {}
        }
        write!(f, ", of {:.2} s", self.window_seconds)
    }
}
