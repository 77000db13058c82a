use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a document says in numbers, by name: `up.available_bits_per_second`. Names that nobody knew when this was written are
/// kept like all others.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Figures {
    by_name: BTreeMap<String, Figure>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// An estimate with its interval.
    Estimate {
        /// The point estimate.
        value: f64,
        /// Lower end of the interval.
        low: f64,
        /// Upper end.
        high: f64,
        /// Nominal coverage of the truth, 0 to 1.
        confidence: f64,
    },
    /// A number without an interval.
    Value {
        /// The number.
        value: f64,
    },
    /// Why a part of the document has no estimate: the figure's name is that of the part, such as `up`.
    Missing {
        /// A sentence.
        reason: String,
    },
}

/// Numbers without an interval are kept where their name ends in a unit.
const UNITS: [&str; 4] = ["_bits_per_second", "_seconds", "_bytes", "_ratio"];

/// A document gives at most this many; `kumade.measure/1` has some forty.
const MAX_FIGURES: usize = 256;

/// A reason that is kept longer than its document ends with its first clause, and is cut to this.
const MAX_BRIEF_REASON_CHARS: usize = 80;

/// Deeper parts of a document are not looked at.
const MAX_DEPTH: usize = 8;

impl Figures {
    /// All figures of a document: objects of `value`, `low`, `high`, `confidence`; numbers whose names end in a unit; reasons.
    pub fn from_document(document: &Value) -> Self {
        let mut figures = Figures::default();
        if let Value::Object(fields) = document {
            figures.read_object("", fields, 0);
        }
        figures
    }

    /// The figure of this name, or why there is none: the reason of the nearest part around it that states one.
    pub fn get(&self, name: &str) -> Option<&Figure> {
        let mut around = Some(name);
        while let Some(part) = around {
            match self.by_name.get(part) {
                Some(figure) if part == name || matches!(figure, Figure::Missing { .. }) => return Some(figure),
                _ => around = part.rsplit_once('.').map(|(outer, _)| outer),
            }
        }
        None
    }

    /// Those that are kept after their document: estimates and bounds of rates, medians of delays, loss ratios, reasons. Light
    /// probes say more about delays than a run does.
    pub(crate) fn brief(&self) -> Figures {
        let brief = self.by_name.iter().filter(|(name, figure)| {
            let delay = name.starts_with("delay.");
            let of_idle_path =
                !name.contains("_loaded") && (name.ends_with(".median_seconds") || name.ends_with(".loss_ratio"));
            match figure {
                Figure::Estimate { .. } => !delay || of_idle_path,
                Figure::Value { .. } => name.ends_with("_bits_per_second"),
                Figure::Missing { .. } => true,
            }
        });
        let cut = |figure: &Figure| match figure {
            Figure::Missing { reason } => Figure::Missing { reason: brief_reason(reason) },
            figure => figure.clone(),
        };
        Figures { by_name: brief.map(|(name, figure)| (name.clone(), cut(figure))).collect() }
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Figure)> {
        self.by_name.iter().map(|(name, figure)| (name.as_str(), figure))
    }

    pub(crate) fn insert(&mut self, name: String, figure: Figure) {
        if self.by_name.len() < MAX_FIGURES {
            self.by_name.insert(name, figure);
        }
    }

    fn read_object(&mut self, path: &str, fields: &Map<String, Value>, depth: usize) {
        if let Some(estimate) = estimate_from_object(fields) {
            self.insert(path.to_owned(), estimate);
            return;
        }
        if let Some(reason) = reason_from_object(fields) {
            self.insert(path.to_owned(), Figure::Missing { reason });
        }
        for (name, value) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match value {
                Value::Object(fields) if depth < MAX_DEPTH => self.read_object(&path, fields, depth + 1),
                Value::Number(number) if UNITS.iter().any(|unit| name.ends_with(unit)) => {
                    if let Some(value) = number.as_f64() {
                        self.insert(path, Figure::Value { value });
                    }
                }
                _ => {}
            }
        }
    }
}

fn estimate_from_object(fields: &Map<String, Value>) -> Option<Figure> {
    let number = |name| fields.get(name).and_then(Value::as_f64);
    let (value, low, high) = (number("value")?, number("low")?, number("high")?);
    Some(Figure::Estimate { value, low, high, confidence: number("confidence")? })
}

/// The reason of a part; the message of an error.
fn reason_from_object(fields: &Map<String, Value>) -> Option<String> {
    let text = |fields: &Map<String, Value>, name| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let error = || fields.get("error").and_then(Value::as_object).and_then(|error| text(error, "message"));
    text(fields, "reason").or_else(error)
}

/// The first clause that says more than a name.
fn brief_reason(reason: &str) -> String {
    let mut ends = reason.match_indices([':', ';']).map(|(end, _)| end);
    let is_end = |end: &usize| reason[end + 1..].starts_with(' ') && reason[..*end].contains(' ');
    let clause = ends.find(is_end).map_or(reason, |end| &reason[..end]);
    match clause.char_indices().nth(MAX_BRIEF_REASON_CHARS) {
        Some((end, _)) => format!("{}…", &clause[..end]),
        None => clause.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_reason_says_more_than_a_name() {
        let kept = |reason: &str| brief_reason(reason);
        assert_eq!(kept("too few packets arrived: 3 of 100"), "too few packets arrived");
        assert_eq!(
            kept("2001:db8::2: the quota is exceeded; come again at noon"),
            "2001:db8::2: the quota is exceeded"
        );
        assert_eq!(kept("10.0.0.2: connection refused"), "10.0.0.2: connection refused");
        assert_eq!(kept(&"é".repeat(200)).chars().count(), MAX_BRIEF_REASON_CHARS + 1);
    }
}
