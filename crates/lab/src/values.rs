//! How scenario files write quantities: as `tc` does, such as `100mbit`, `20ms`, `256kb`, `0.1%`.

use kumade_units::{Rate, Span, parse};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use std::fmt::{self, Display};

/// What stands in an error where a value is of another type.
const RATE: &str = "a rate in quotes, such as \"20mbit\"";
const SPAN: &str = "a time in quotes, such as \"20ms\"";
const SIZE: &str = "a size in quotes, such as \"256kb\"";
const RATIO: &str = "a part in quotes, such as \"0.1%\"";

pub(crate) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    parse_one(deserializer, RATE, parse::rate)
}

pub(crate) fn optional_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    rate(deserializer).map(Some)
}

pub(crate) fn rates<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rate>, D::Error> {
    parse_list(deserializer, RATE, parse::rate)
}

pub(crate) fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    parse_one(deserializer, SPAN, parse::span)
}

pub(crate) fn optional_span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    span(deserializer).map(Some)
}

pub(crate) fn spans<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Span>, D::Error> {
    parse_list(deserializer, SPAN, parse::span)
}

pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_one(deserializer, SIZE, parse::bytes)
}

pub(crate) fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

pub(crate) fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    parse_one(deserializer, RATIO, parse::ratio)
}

pub(crate) fn ratios<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    parse_list(deserializer, RATIO, parse::ratio)
}

/// A value that `parse` reads from a text; `expected` says in an error what to write instead of a value of another type.
pub(crate) fn parse_one<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    expected: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    parse(&deserializer.deserialize_str(ExpectedText(expected))?).map_err(Error::custom)
}

/// A list of them.
pub(crate) fn parse_list<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    expected: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, D::Error> {
    let texts = deserializer.deserialize_seq(ExpectedTexts(expected))?;
    texts.iter().map(|text| parse(text).map_err(Error::custom)).collect()
}

struct ExpectedText(&'static str);

impl<'de> Visitor<'de> for ExpectedText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

impl<'de> DeserializeSeed<'de> for ExpectedText {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

struct ExpectedTexts(&'static str);

impl<'de> Visitor<'de> for ExpectedTexts {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list, each element {}", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<String>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = elements.next_element_seed(ExpectedText(self.0))? {
            texts.push(text);
        }
        Ok(texts)
    }
}
