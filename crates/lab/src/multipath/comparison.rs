use crate::report::three_digits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a scenario asks about a contender: a figure, by itself or relative to another contender's in the same case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Whose figure, as reports write it.
    pub contender: String,
    /// By whose it is divided; if none, it is taken as it is, in bits per second or seconds.
    #[serde(rename = "with")]
    pub baseline: Option<String>,
    /// Which.
    pub figure: ContenderFigure,
    /// What is to be reached at least, …
    pub min: Option<f64>,
    /// … or at most.
    pub max: Option<f64>,
    /// What the paper, or another source, has.
    pub published: Option<f64>,
    /// In which cases, by their labels; in all where the contenders are run, if none are named.
    #[serde(default)]
    pub cases: Vec<String>,
}

/// A figure of a contender in a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[serde(rename = "Figure")]
pub enum ContenderFigure {
    /// Goodput, the mean over the runs.
    Goodput,
    /// The median of the echo's round trips, the median over the runs.
    EchoMedian,
    /// Their 99th percentile.
    EchoP99,
    /// The time until data arrives again after an outage, the median over the runs.
    Recovery,
}

/// How a comparison came out in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(rename = "Compared")]
pub struct ComparisonResult {
    /// The set of paths.
    pub case: String,
    /// Whose figure.
    pub contender: String,
    /// By whose it is divided; null where it is taken as it is, in bits per second or seconds.
    #[serde(rename = "with")]
    pub baseline: Option<String>,
    /// Which.
    pub figure: ContenderFigure,
    /// The quotient, or the figure; null where there is none.
    pub value: Option<f64>,
    /// What was to be reached at least.
    pub min: Option<f64>,
    /// What was to be reached at most.
    pub max: Option<f64>,
    /// What was published.
    pub published: Option<f64>,
}

impl ContenderFigure {
    /// In words: `goodput`.
    pub(crate) fn keyword(self) -> &'static str {
        match self {
            ContenderFigure::Goodput => "goodput",
            ContenderFigure::EchoMedian => "echo p50",
            ContenderFigure::EchoP99 => "echo p99",
            ContenderFigure::Recovery => "recovery",
        }
    }
}

impl ComparisonResult {
    /// Whether what was to be reached is; none where nothing was.
    pub fn is_met(&self) -> Option<bool> {
        self.min.or(self.max)?;
        let within = |value: f64| self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max);
        Some(self.value.is_some_and(within))
    }

    /// In one sentence.
    pub(crate) fn in_words(&self) -> String {
        let say = |value: f64| match (&self.baseline, self.figure) {
            (Some(_), _) => format!("{} ×", three_digits(value)),
            (None, ContenderFigure::Goodput) => format!("{} Mbit/s", three_digits(value / 1e6)),
            (None, _) => format!("{} ms", three_digits(value * 1e3)),
        };
        let value = self.value.map_or("unknown".into(), say);
        let of = self.baseline.as_ref().map_or(String::new(), |with| format!(" that of {with}"));
        let published = self.published.map_or(String::new(), |published| format!("; published {}", say(published)));
        let bounds =
            [self.min.map(|min| format!("at least {}", say(min))), self.max.map(|max| format!("at most {}", say(max)))];
        let bounds: Vec<_> = bounds.into_iter().flatten().collect();
        let verdict = self.is_met().map_or(String::new(), |met| {
            format!("; required {}: {}", bounds.join(" and "), if met { "met" } else { "not met" })
        });
        format!("{}: {} of {}: {value}{of}{published}{verdict}", self.case, self.figure.keyword(), self.contender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_the_quotient_what_was_published_and_whether_it_is_met() {
        let compared = ComparisonResult {
            case: "1 %".into(),
            contender: "tunnel-rake".into(),
            baseline: Some("single".into()),
            figure: ContenderFigure::Goodput,
            value: Some(2.5),
            min: Some(2.0),
            max: None,
            published: Some(1.1),
        };
        let words =
            "1 %: goodput of tunnel-rake: 2.50 × that of single; published 1.10 ×; required at least 2.00 ×: met";
        assert_eq!(compared.in_words(), words);
        let alone = ComparisonResult {
            baseline: None,
            figure: ContenderFigure::EchoP99,
            value: Some(0.05),
            max: Some(0.035),
            min: None,
            ..compared
        };
        assert!(alone.in_words().contains("echo p99 of tunnel-rake: 50.0 ms"), "{}", alone.in_words());
        assert_eq!((alone.is_met(), ComparisonResult { value: None, ..alone }.is_met()), (Some(false), Some(false)));
    }
}
