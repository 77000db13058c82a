//! Quantities as people and other tools write them: `100mbit` and `20ms` as `tc` does, `20 Mbit/s`, `20Mbps` and `20M` as
//! `iperf3` and providers do, `64kb`, `1.5 MiB`, `0.1%`. A number without its unit is refused, unless it is zero.

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

const SPAN_UNITS: &[(&str, f64)] = &[
    ("s", 1e9),
    ("sec", 1e9),
    ("ms", 1e6),
    ("msec", 1e6),
    ("us", 1e3),
    ("usec", 1e3),
    ("µs", 1e3),
    ("ns", 1.0),
    ("min", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];
const RATIO_UNITS: &[(&str, f64)] = &[("%", 0.01), ("", 1.0)];

/// A rate such as `100mbit`, `20 Mbit/s`, `20Mbps`, `20M` or `2.5MB/s`. Prefixes are powers of 1000, and of 1024 with an
/// `i` (`Mibit`). As providers and most tools write it, and other than in `tc`, `Mbps` is mega*bits* per second; a `B`, as in
/// `MB/s` or `MBps`, is a byte.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn rate(text: &str) -> Result<Rate, ParseError> {
    const EXAMPLE: &str = "100mbit or 1.5 Gbit/s";
    let known = "bit/s, kbit/s, Mbit/s, Gbit/s (also bit, kbit, mbit, gbit, or kbps, Mbps, Gbps) or MB/s for bytes";
    parse_quantity(text, "rate", rate_factor, known, EXAMPLE).map(Rate::from_f64)
}

/// A time such as `20ms`, `1.5s`, `300us`, `2 min`, `7d`.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn span(text: &str) -> Result<Span, ParseError> {
    let factor = |unit: &str| find_factor(SPAN_UNITS, unit);
    let value = parse_quantity(text, "time", factor, "s, ms, us, ns, min, h, d", "20ms or 1.5s")?;
    Ok(Span::from_nanos(value.round() as i64))
}

/// A size such as `1500b`, `64kb`, `2mb`, `2 MiB` (powers of 1024, as in `tc`); `812 kB` and `2.6 MB` as reports print them (powers
/// of 1000, as SI has them).
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn bytes(text: &str) -> Result<u64, ParseError> {
    let known = "b, kb, mb, gb (powers of 1024, as KiB, MiB, GiB), kB, MB, GB (powers of 1000)";
    parse_quantity(text, "size", size_factor, known, "64kb or 1500b").map(|bytes| bytes.round() as u64)
}

/// A number of bytes where nothing else can be meant, such as the length of a packet: a size, or just `1500`.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn byte_count(text: &str) -> Result<u64, ParseError> {
    number(text).or_else(|_| bytes(text))
}

/// A part of the whole, such as `0.1%` or `0.001`, from 0 to 1.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn ratio(text: &str) -> Result<f64, ParseError> {
    let factor = |unit: &str| find_factor(RATIO_UNITS, unit);
    let value = parse_quantity(text, "ratio", factor, "%", "0.1% or 0.001")?;
    if value <= 1.0 { Ok(value) } else { Err(parse_error(text, "ratio", "it is more than the whole", "0.1% or 0.001")) }
}

/// A whole number such as `20`, as large as its type holds.
///
/// # Errors
/// Says what is wrong with the text, with an example.
pub fn number<N: FromStr>(text: &str) -> Result<N, ParseError> {
    text.trim()
        .parse()
        .map_err(|_| parse_error(text, "whole number", "it has other than digits, or is too large", "20"))
}

/// Parameters and their values, as text.
pub type Parameters<'a> = Vec<(&'a str, &'a str)>;

/// A name with parameters, such as `fair-share:target=5ms:window=300ms`: the name, and each parameter with its value.
///
/// # Errors
/// A part behind the name is not of the form `parameter=value`.
pub fn name_and_parameters(text: &str) -> Result<(&str, Parameters<'_>), ParseError> {
    let mut parts = text.trim().split(':');
    let name = parts.next().unwrap_or_default();
    let parameter = |part: &str| parse_error(part, "parameter", "it has no `=`", "interval=5ms");
    let split = |part| str::split_once(part, '=').ok_or_else(|| parameter(part));
    Ok((name, parts.map(split).collect::<Result<_, _>>()?))
}

fn parse_quantity(
    text: &str,
    kind: &'static str,
    factor: impl Fn(&str) -> Option<f64>,
    known: &str,
    example: &'static str,
) -> Result<f64, ParseError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number = f64::from_str(number).map_err(|_| match number {
        "" => parse_error(text, kind, "it does not begin with a number", example),
        number => parse_error(text, kind, &format!("`{number}` is no number"), example),
    })?;
    let factor = match (number, unit.trim()) {
        (0.0, "") => 1.0,
        (_, unit) => factor(unit).ok_or_else(|| {
            let problem = if unit.is_empty() { "it has no unit" } else { "the unit is unknown" };
            parse_error(text, kind, &format!("{problem}; the units are {known}"), example)
        })?,
    };
    let value = number * factor;
    if value < 9e18 { Ok(value) } else { Err(parse_error(text, kind, "it is too large", example)) }
}

fn find_factor(units: &[(&str, f64)], unit: &str) -> Option<f64> {
    let unit = unit.to_lowercase();
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// Bits per second of a unit of rates.
fn rate_factor(unit: &str) -> Option<f64> {
    let (prefix, unit) = split_prefix(unit, 1000.0);
    let bits = match unit {
        "" if prefix > 1.0 => 1.0,
        "B/s" | "Bps" | "byte/s" | "bytes/s" => 8.0,
        _ => match unit.to_lowercase().as_str() {
            "b" | "bps" | "b/s" | "bit" | "bits" | "bit/s" | "bits/s" => 1.0,
            _ => return None,
        },
    };
    Some(prefix * bits)
}

/// Bytes of a unit of sizes.
fn size_factor(unit: &str) -> Option<f64> {
    let is_si = ["kB", "MB", "GB", "TB"].contains(&unit);
    let (prefix, unit) = split_prefix(unit, if is_si { 1000.0 } else { 1024.0 });
    match unit.to_lowercase().as_str() {
        "" if prefix > 1.0 => Some(prefix),
        "b" | "byte" | "bytes" => Some(prefix),
        _ => None,
    }
}

/// What the prefix of a unit stands for, its steps being powers of `base`, or of 1024 with an `i`; and what follows it.
fn split_prefix(unit: &str, base: f64) -> (f64, &str) {
    let power = match unit.chars().next().map(|prefix| prefix.to_ascii_lowercase()) {
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        _ => return (1.0, unit),
    };
    match unit[1..].strip_prefix('i') {
        Some(rest) => (1024f64.powi(power), rest),
        None => (base.powi(power), &unit[1..]),
    }
}

fn parse_error(text: &str, kind: &'static str, problem: &str, example: &'static str) -> ParseError {
    ParseError { text: text.to_owned(), kind, problem: problem.to_owned(), example }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tc_reads() {
        assert_eq!(rate("100mbit"), Ok(Rate::from_mbit(100)));
        assert_eq!(rate("1.5Gbit"), Ok(Rate::from_mbit(1500)));
        assert_eq!(span("20ms"), Ok(Span::from_millis(20)));
        assert_eq!(span("1.5s"), Ok(Span::from_millis(1500)));
        assert_eq!(bytes("64kb"), Ok(65536));
        assert_eq!(ratio("0.1%"), Ok(0.001));
        assert_eq!(number(" 20 "), Ok(20u32));
    }

    /// Finding 3 of the review by a new user: `20Mbps` was 160 Mbit/s, `20M` unknown, `20` 20 bit/s, `100` 100 bytes.
    #[test]
    fn reads_units_as_everybody_writes_them() {
        let megabits =
            ["20mbit", "20Mbps", "20M", "20m", "20Mbit/s", "20 Mbit/s", "20 Mb/s", "20000k", "2.5MB/s", "2.5 MBps"];
        megabits.iter().for_each(|text| assert_eq!(rate(text), Ok(Rate::from_mbit(20)), "{text}"));
        assert_eq!(rate("1Mibit"), Ok(Rate::from_bits_per_second(1 << 20)));
        assert_eq!(rate("8bps"), Ok(Rate::from_bits_per_second(8)));
        let mebibytes = ["2mb", "2 MiB", "2M", "2097152 bytes"];
        mebibytes.iter().for_each(|text| assert_eq!(bytes(text), Ok(2 << 20), "{text}"));
        assert_eq!((byte_count("1500"), byte_count("2kb")), (Ok(1500), Ok(2048)));
        assert_eq!((bytes("812 kB"), bytes("2.6MB"), bytes("812KB")), (Ok(812_000), Ok(2_600_000), Ok(812 << 10)));
        let minutes = ["2 min", "120 sec", "120000 msec"];
        minutes.iter().for_each(|text| assert_eq!(span(text), Ok(Span::from_secs(120)), "{text}"));
        assert_eq!((rate("0"), bytes("0"), span("0")), (Ok(Rate::ZERO), Ok(0), Ok(Span::ZERO)));
        for rate_shown in [Rate::from_mbit(20), Rate::from_bits_per_second(1), Rate::from_mbit(1500)] {
            assert_eq!(rate(&rate_shown.to_string()), Ok(rate_shown));
        }
        assert_eq!(span(&Span::from_micros(12).to_string()), Ok(Span::from_micros(12)));
    }

    #[test]
    fn parameters_follow_a_name() {
        assert_eq!(name_and_parameters("codel"), Ok(("codel", vec![])));
        assert_eq!(
            name_and_parameters(" codel:target=5ms:ecn=on"),
            Ok(("codel", vec![("target", "5ms"), ("ecn", "on")]))
        );
        assert!(
            name_and_parameters("codel:target")
                .unwrap_err()
                .to_string()
                .contains("`target` is not a parameter: it has no `=`")
        );
    }

    #[test]
    fn refuses_with_the_reason_and_an_example() {
        for (error, part) in [
            (rate("fast").unwrap_err(), "does not begin with a number"),
            (rate("10furlongs").unwrap_err(), "the unit is unknown; the units are bit/s, kbit/s"),
            (rate("20").unwrap_err(), "it has no unit; the units are bit/s, kbit/s"),
            (bytes("100").unwrap_err(), "it has no unit; the units are b, kb"),
            (bytes("1mbit").unwrap_err(), "the unit is unknown"),
            (rate("1.2.3mbit").unwrap_err(), "`1.2.3` is no number"),
            (rate("99999999999gbit").unwrap_err(), "too large"),
            (span("20").unwrap_err(), "it has no unit; the units are s, ms"),
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
