use kumade_units::parse;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// What was published, or measured elsewhere, of one contender on such paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedGoodput {
    /// Whose figure it is: `paper`, for example.
    pub source: String,
    /// The contender to which it compares, as reports write it.
    pub contender: String,
    /// The share of the sum of the paths' rates; null where it is not told so.
    #[serde(default, deserialize_with = "optional_ratio")]
    pub share_of_sum_ratio: Option<f64>,
    /// The goodput; null where it is not told so.
    #[serde(default, deserialize_with = "optional_bits")]
    pub goodput_bits_per_second: Option<f64>,
}

impl PublishedGoodput {
    /// In a few words: `paper 92 %`.
    pub(crate) fn in_words(&self) -> String {
        let share = self.share_of_sum_ratio.map(|share| format!(" {:.0} %", share * 100.0));
        let rate = self.goodput_bits_per_second.map(|rate| format!(" {:.1} Mbit/s", rate / 1e6));
        [Some(self.source.clone()), share, rate].into_iter().flatten().collect()
    }
}

/// A number as in documents, or a text as in scenario files.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(Option<f64>),
    Text(String),
}

fn optional_ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    read_number(deserializer, |text| parse::ratio(text).map_err(|error| error.to_string()))
}

fn optional_bits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    read_number(deserializer, |text| parse::rate(text).map(|rate| rate.as_f64()).map_err(|error| error.to_string()))
}

fn read_number<'de, D: Deserializer<'de>>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<f64, String>,
) -> Result<Option<f64>, D::Error> {
    match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => Ok(number),
        NumberOrText::Text(text) => parse(&text).map(Some).map_err(serde::de::Error::custom),
    }
}
