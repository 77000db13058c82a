//! Figures in a dozen bytes each: whole numbers as they are, others with 24 significant bits. The document has all digits.

use crate::bytes::{put_unsigned, take, take_unsigned};
use crate::figures::{Figure, Figures};
use std::collections::BTreeMap;

/// The names of figures by their numbers, and back.
#[derive(Debug, Clone, Default)]
pub(crate) struct FigureNames {
    by_name: BTreeMap<String, u32>,
    by_number: BTreeMap<u32, String>,
}

const ESTIMATE: u8 = 0;
const VALUE: u8 = 1;
const MISSING: u8 = 2;

/// Whole numbers up to this are exact.
const MAX_WHOLE: f64 = 9.0e15;

impl FigureNames {
    pub(crate) fn insert(&mut self, number: u32, name: String) {
        self.by_name.insert(name.clone(), number);
        self.by_number.insert(number, name);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The names in a document that have no number yet get one each: these are to be stored first.
    pub(crate) fn number_new_names(&mut self, figures: &Figures) -> Vec<(u32, String)> {
        let mut new = Vec::new();
        for (name, _) in figures.iter() {
            if !self.by_name.contains_key(name) {
                let number = self.by_number.last_key_value().map_or(0, |(last, _)| last + 1);
                self.insert(number, name.to_owned());
                new.push((number, name.to_owned()));
            }
        }
        new
    }

    /// Figures whose names all have numbers.
    pub(crate) fn encode(&self, figures: &Figures) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, figure) in figures.iter() {
            let Some(number) = self.by_name.get(name) else { continue };
            put_unsigned(&mut bytes, u64::from(*number));
            match figure {
                Figure::Estimate { value, low, high, confidence } => {
                    bytes.push(ESTIMATE);
                    [*value, *low, *high, *confidence].iter().for_each(|number| put_number(&mut bytes, *number));
                }
                Figure::Value { value } => {
                    bytes.push(VALUE);
                    put_number(&mut bytes, *value);
                }
                Figure::Missing { reason } => {
                    bytes.push(MISSING);
                    put_unsigned(&mut bytes, reason.len() as u64);
                    bytes.extend_from_slice(reason.as_bytes());
                }
            }
        }
        bytes
    }

    /// What was encoded; damaged figures, and those behind them, are left out.
    pub(crate) fn decode(&self, mut bytes: &[u8]) -> Figures {
        let mut figures = Figures::default();
        while let Some((name, figure)) = self.take_figure(&mut bytes) {
            figures.insert(name, figure);
        }
        figures
    }

    fn take_figure(&self, bytes: &mut &[u8]) -> Option<(String, Figure)> {
        let number = u32::try_from(take_unsigned(bytes)?).ok()?;
        let name = self.by_number.get(&number).cloned().unwrap_or_else(|| format!("figure-{number}"));
        let figure = match take(bytes, 1)?[0] {
            ESTIMATE => {
                let mut next = || take_number(bytes);
                Figure::Estimate { value: next()?, low: next()?, high: next()?, confidence: next()? }
            }
            VALUE => Figure::Value { value: take_number(bytes)? },
            MISSING => {
                let length = usize::try_from(take_unsigned(bytes)?).ok()?;
                Figure::Missing { reason: String::from_utf8_lossy(take(bytes, length)?).into_owned() }
            }
            _ => return None,
        };
        Some((name, figure))
    }
}

/// A whole number is shifted by one bit and its sign by another; 1 stands before four bytes of floating point, 3 before eight.
fn put_number(bytes: &mut Vec<u8>, value: f64) {
    if value.fract() == 0.0 && value.abs() <= MAX_WHOLE {
        let sign = u64::from(value < 0.0);
        put_unsigned(bytes, (value.abs() as u64) << 2 | sign << 1);
    } else if (value as f32).is_normal() {
        bytes.push(1);
        bytes.extend_from_slice(&(value as f32).to_le_bytes());
    } else {
        bytes.push(3);
        bytes.extend_from_slice(&value.to_le_bytes());
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<f64> {
    let head = take_unsigned(bytes)?;
    if head == 3 {
        return Some(f64::from_le_bytes(take(bytes, 8)?.try_into().ok()?));
    }
    if head & 1 == 1 {
        // The shortest decimal that is this number, as it was most probably written.
        let short = f32::from_le_bytes(take(bytes, 4)?.try_into().ok()?);
        return short.to_string().parse().ok();
    }
    let magnitude = (head >> 2) as f64;
    Some(if head & 2 == 2 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded_and_decoded(document: &str) -> (Figures, Figures, usize) {
        let figures = Figures::from_document(&serde_json::from_str(document).unwrap());
        let mut names = FigureNames::default();
        names.number_new_names(&figures);
        let bytes = names.encode(&figures);
        (names.decode(&bytes), figures, bytes.len())
    }

    #[test]
    fn figures_are_found_by_name_and_unknown_ones_kept() {
        let (kept, found, length) = encoded_and_decoded(
            r#"{"schema": "kumade.measure/9", "up": {"available_bits_per_second": {"value": 48123457, "low": 45000000,
            "high": 51000000, "confidence": 0.95}, "novel_seconds": 0.0125, "packets": 3}, "down": {"reason": "too few trains",
            "available_bits_per_second": null}, "delay": {"up": {"median_seconds": {"value": 0.000123456, "low": -0.5,
            "high": 0.25, "confidence": 1}}}}"#,
        );
        assert_eq!(kept, found);
        let up = Figure::Estimate { value: 48_123_457.0, low: 45e6, high: 51e6, confidence: 0.95 };
        assert_eq!(kept.get("up.available_bits_per_second"), Some(&up));
        assert_eq!(kept.get("up.novel_seconds"), Some(&Figure::Value { value: 0.0125 }));
        assert_eq!(kept.get("up.packets"), None);
        let missing = Figure::Missing { reason: "too few trains".to_owned() };
        assert_eq!(kept.get("down.available_bits_per_second"), Some(&missing));
        assert!(length < 80, "{length} bytes");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_number_comes_back_with_24_bits(value in any::<f64>()) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, value);
            let read = take_number(&mut &bytes[..]).unwrap();
            let short = f64::from(value as f32);
            prop_assert!(read == value || (read - short).abs() <= short.abs() * 1e-7 || (read.is_nan() && value.is_nan()));
        }

        #[test]
        fn any_bytes_are_decoded(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            FigureNames::default().decode(&bytes);
        }
    }
}
