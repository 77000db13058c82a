//! Quantities as `tc` writes them: `100mbit`, `20ms`, `0.1%`, `64kb`.

use crate::{Rate, Span};
use std::str::FromStr;
use thiserror::Error;

/// A text that is not the quantity it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a {kind}: {problem}; write it like {example}")]
pub struct ParseError {
    text: String,
    kind: &'static str,
    problem: String,
    example: &'static str,
}

const RATE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("bit", 1.0),
    ("kbit", 1e3),
    ("mbit", 1e6),
    ("gbit", 1e9),
    ("tbit", 1e12),
    ("bps", 8.0),
    ("kbps", 8e3),
    ("mbps", 8e6),
    ("gbps", 8e9),
];
const SPAN_UNITS: &[(&str, f64)] = &[("s", 1e9), ("ms", 1e6), ("us", 1e3), ("µs", 1e3), ("ns", 1.0)];
const BYTE_UNITS: &[(&str, f64)] =
    &[("", 1.0), ("b", 1.0), ("kb", 1024.0), ("k", 1024.0), ("mb", 1048576.0), ("m", 1048576.0), ("g", 1073741824.0)];
const RATIO_UNITS: &[(&str, f64)] = &[("%", 0.01), ("", 1.0)];

/// A rate such as `100mbit`, `1.5gbit`, or bits per second without a unit. As in `tc`, `bps` is *bytes* per second.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn rate(text: &str) -> Result<Rate, ParseError> {
    quantity(text, "rate", RATE_UNITS, "100mbit or 1.5gbit").map(Rate::from_f64)
}

/// A time such as `20ms`, `1.5s`, `300us`; the unit is needed.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn span(text: &str) -> Result<Span, ParseError> {
    quantity(text, "time", SPAN_UNITS, "20ms or 1.5s").map(|ns| Span::from_nanos(ns.round() as i64))
}

/// A size such as `1500`, `64kb`, `2mb` (powers of 1024, as in `tc`).
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn bytes(text: &str) -> Result<u64, ParseError> {
    quantity(text, "size", BYTE_UNITS, "64kb or 2mb").map(|bytes| bytes.round() as u64)
}

/// A part of the whole, such as `0.1%` or `0.001`, from 0 to 1.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn ratio(text: &str) -> Result<f64, ParseError> {
    let value = quantity(text, "ratio", RATIO_UNITS, "0.1% or 0.001")?;
    if value <= 1.0 { Ok(value) } else { Err(error(text, "ratio", "it is more than the whole", "0.1% or 0.001")) }
}

/// A whole number such as `20`, as large as its type holds.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn number<N: FromStr>(text: &str) -> Result<N, ParseError> {
    text.trim().parse().map_err(|_| error(text, "whole number", "it has other than digits, or is too large", "20"))
}

/// Parameters and their values, as text.
pub type Parameters<'a> = Vec<(&'a str, &'a str)>;

/// A name with parameters, such as `fair-share:target=5ms:window=300ms`: the name, and each parameter with its value.
///
/// # Errors
/// A part behind the name is not of the form `parameter=value`.
pub fn named(text: &str) -> Result<(&str, Parameters<'_>), ParseError> {
    let mut parts = text.trim().split(':');
    let name = parts.next().unwrap_or_default();
    let parameter = |part: &str| error(part, "parameter", "it has no `=`", "interval=5ms");
    let split = |part| str::split_once(part, '=').ok_or_else(|| parameter(part));
    Ok((name, parts.map(split).collect::<Result<_, _>>()?))
}

fn quantity(text: &str, kind: &'static str, units: &[(&str, f64)], example: &'static str) -> Result<f64, ParseError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number = f64::from_str(number).map_err(|_| error(text, kind, "it does not begin with a number", example))?;
    let unit = unit.trim().to_lowercase();
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let known: Vec<_> = units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        return Err(error(text, kind, &format!("the unit must be one of {}", known.join(", ")), example));
    };
    let value = number * factor;
    if value < 9e18 { Ok(value) } else { Err(error(text, kind, "it is too large", example)) }
}

fn error(text: &str, kind: &'static str, problem: &str, example: &'static str) -> ParseError {
    ParseError { text: text.to_owned(), kind, problem: problem.to_owned(), example }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tc_reads() {
        assert_eq!(rate("100mbit"), Ok(Rate::from_mbit(100)));
        assert_eq!(rate("1.5Gbit"), Ok(Rate::from_mbit(1500)));
        assert_eq!(rate("125kbps"), Ok(Rate::from_mbit(1)));
        assert_eq!(span("20ms"), Ok(Span::from_millis(20)));
        assert_eq!(span("1.5s"), Ok(Span::from_millis(1500)));
        assert_eq!(bytes("64kb"), Ok(65536));
        assert_eq!(ratio("0.1%"), Ok(0.001));
        assert_eq!(number(" 20 "), Ok(20u32));
    }

    #[test]
    fn parameters_follow_a_name() {
        assert_eq!(named("codel"), Ok(("codel", vec![])));
        assert_eq!(named(" codel:target=5ms:ecn=on"), Ok(("codel", vec![("target", "5ms"), ("ecn", "on")])));
        assert!(named("codel:target").unwrap_err().to_string().contains("`target` is not a parameter: it has no `=`"));
    }

    #[test]
    fn refuses_with_the_reason_and_an_example() {
        for (error, part) in [
            (rate("fast").unwrap_err(), "does not begin with a number"),
            (rate("10furlongs").unwrap_err(), "must be one of bit, kbit"),
            (rate("1.2.3mbit").unwrap_err(), "does not begin with a number"),
            (rate("99999999999gbit").unwrap_err(), "too large"),
            (span("20").unwrap_err(), "must be one of s, ms"),
            (ratio("150%").unwrap_err(), "more than the whole"),
            (bytes("-3").unwrap_err(), "does not begin with a number"),
            (number::<u32>("1.5").unwrap_err(), "`1.5` is not a whole number"),
            (number::<u8>("256").unwrap_err(), "too large"),
        ] {
            assert!(error.to_string().contains(part), "{error}");
            assert!(error.to_string().contains("write it like"), "{error}");
        }
    }
}
