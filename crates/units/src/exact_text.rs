//! Quantities written so that [`parse`] reads exactly the same again: `100mbit`, `20ms`, `64kb`, `0.1%`.
//! `Display` is for people, and rounds.

use crate::{Rate, Span, parse};

/// A rate with the largest unit of which it is a whole number.
pub fn rate(rate: Rate) -> String {
    show_whole(rate.bits_per_second(), &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)])
}

/// The length of a time with the largest unit of which it is a whole number.
pub fn span(span: Span) -> String {
    show_whole(span.as_nanos().unsigned_abs(), &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)])
}

/// A size with the largest unit of which it is a whole number.
pub fn bytes(bytes: u64) -> String {
    show_whole(bytes, &[("mb", 1 << 20), ("kb", 1 << 10), ("b", 1)])
}

/// A part of the whole in percent, where that reads as the same again.
pub fn ratio(ratio: f64) -> String {
    let percent = format!("{}%", ratio * 100.0);
    let short = format!("{:.9}", ratio * 100.0);
    let short = format!("{}%", short.trim_end_matches('0').trim_end_matches('.'));
    let same = |text: &String| parse::ratio(text) == Ok(ratio);
    [short, percent].into_iter().find(same).unwrap_or_else(|| ratio.to_string())
}

fn show_whole(value: u64, units: &[(&str, u64)]) -> String {
    let fits = units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor));
    let (unit, factor) = fits.or(units.last()).copied().unwrap_or(("", 1));
    format!("{}{unit}", value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again_as_the_same() {
        for (text, nanos) in [("100us", 100_000), ("1s", 1_000_000_000), ("1500us", 1_500_000), ("7ns", 7)] {
            assert_eq!(span(Span::from_nanos(nanos)), text);
            assert_eq!(parse::span(text), Ok(Span::from_nanos(nanos)));
        }
        for (text, bits) in [("100mbit", 100_000_000), ("1500kbit", 1_500_000), ("0bit", 0)] {
            assert_eq!(rate(Rate::from_bits_per_second(bits)), text);
            assert_eq!(parse::rate(text), Ok(Rate::from_bits_per_second(bits)));
        }
        assert_eq!((bytes(65536).as_str(), bytes(1500).as_str()), ("64kb", "1500b"));
        for part in [0.001, 0.1 + 0.2, 1.0 / 3.0] {
            assert_eq!(parse::ratio(&ratio(part)), Ok(part));
        }
    }
}
