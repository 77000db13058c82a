//! How scenario files write quantities: as `tc` does, such as `100mbit`, `20ms`, `256kb`, `0.1%`.

use kumade_units::{Rate, Span, parse};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;

pub(crate) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    parse_one(deserializer, parse::rate)
}

pub(crate) fn optional_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    rate(deserializer).map(Some)
}

pub(crate) fn rates<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rate>, D::Error> {
    parse_list(deserializer, parse::rate)
}

pub(crate) fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    parse_one(deserializer, parse::span)
}

pub(crate) fn optional_span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    span(deserializer).map(Some)
}

pub(crate) fn spans<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Span>, D::Error> {
    parse_list(deserializer, parse::span)
}

pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_one(deserializer, parse::bytes)
}

pub(crate) fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

pub(crate) fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    parse_one(deserializer, parse::ratio)
}

pub(crate) fn ratios<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    parse_list(deserializer, parse::ratio)
}

/// A value that `parse` reads from a string.
pub(crate) fn parse_one<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(Error::custom)
}

/// A list of them.
pub(crate) fn parse_list<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|text| parse(text).map_err(Error::custom)).collect()
}
