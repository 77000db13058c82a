use super::cells::three_digits;
use super::values::Values;
use crate::nearest_name::{advice_for, nearest_of};
use crate::statistics::{distinct, mean, median, min_and_max};
use kumade_units::parse;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// So many values of a column are listed where none is the one that a statement is about; `…` stands for the others.
const MAX_LISTED_VALUES: usize = 20;

/// What `--row` chooses from.
const CASE_COLUMN: &str = "case";

/// What a paper states, as a figure of an experiment's rows and the bounds within which that is to be.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// In words, as the paper has it.
    pub says: String,
    /// A column of the rows' CSV: its mean over the rows, …
    pub figure: String,
    /// … or over those of this further file of the report.
    pub file: Option<String>,
    /// Which rows: columns, each with what it holds there.
    #[serde(rename = "in", default)]
    pub rows: BTreeMap<String, Condition>,
    /// By what the figure is divided; if none, it is taken as it is.
    pub relative_to: Option<Divisor>,
    /// A column: the figure is taken for each of its values by itself, and each is to be within the bounds.
    pub by: Option<String>,
    /// The part of these values that is to be; all, if not given.
    #[serde(deserialize_with = "part", default = "all")]
    pub in_at_least: f64,
    /// The paper's figure.
    pub published: Option<f64>,
    /// What the figure is to be at least, …
    pub min: Option<f64>,
    /// … and at most.
    pub max: Option<f64>,
    /// Why it does not hold here, where that is known. Told where it does not.
    pub reason: Option<String>,
    /// In place of it, in virtual time.
    pub virtual_reason: Option<String>,
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Condition {
    /// This.
    One(Scalar),
    /// One of these.
    Any(Vec<Scalar>),
    /// A number between these.
    Range(NumberRange),
}

/// Numbers between two, both included.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberRange {
    /// At least.
    pub from: f64,
    /// At most.
    pub to: f64,
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// Yes or no.
    Truth(bool),
    /// A number.
    Number(f64),
    /// A text; an asterisk at its end stands for anything.
    Text(String),
}

/// By what a figure is divided.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Divisor {
    /// A number.
    Number(f64),
    /// The same figure of other rows: the same columns, but for these.
    Rows(BTreeMap<String, Condition>),
}

/// What a paper states, and what came out here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatementResult {
    /// In words, as the paper has it.
    pub says: String,
    /// What the figures are: a column of the rows, and by what it is divided.
    #[serde(default)]
    pub figure: String,
    /// The paper's figure; null where it has none.
    pub published: Option<f64>,
    /// The figure here, the median of several; null where nothing was measured.
    pub value: Option<f64>,
    /// The least of them.
    pub min_value: Option<f64>,
    /// The greatest of them.
    pub max_value: Option<f64>,
    /// How many there are, …
    pub values: usize,
    /// … and how many of these are within the bounds.
    pub values_within: usize,
    /// What was to be reached at least.
    pub min: Option<f64>,
    /// What was to be reached at most.
    pub max: Option<f64>,
    /// Whether it holds; null where nothing was measured, or not what it is about.
    pub holds: Option<bool>,
    /// Why it does not, where that is known; or why this is not known.
    pub reason: Option<String>,
}

type Selection = BTreeMap<String, Condition>;

impl Statement {
    /// Whether it can be judged by the file that it is about, of which only the columns count here.
    ///
    /// # Errors
    /// It has no bound, or is about a file or a column that there is not.
    pub(crate) fn check(&self, values: Option<&Values>) -> Result<(), String> {
        let says = &self.says;
        if self.min.is_none() && self.max.is_none() {
            return Err(format!("nothing judges `{says}`: give it a min or a max"));
        }
        let values = values.ok_or_else(|| {
            format!(
                "`{says}` is about {}, which this experiment does not write",
                self.file.as_deref().unwrap_or("rows")
            )
        })?;
        let unknown = self.columns().find(|column| values.column(column).is_none());
        unknown.map_or(Ok(()), |column| {
            let names: Vec<_> = values.names.iter().map(String::as_str).collect();
            let advice = advice_for(column, &names, "columns");
            Err(format!("`{says}` has `{column}`, which is no column of its file: {advice}"))
        })
    }

    /// The same for runs by one clock: a reason that is of the other is left out.
    pub(crate) fn for_clock(mut self, is_virtual: bool) -> Self {
        let virtual_reason = self.virtual_reason.take().filter(|_| is_virtual);
        Statement { reason: virtual_reason.or(self.reason), ..self }
    }

    /// Whether all its rows are of one case, so that it is not about others that are left out.
    pub(crate) fn is_about_one_case(&self) -> bool {
        let is_exact = |text: &Condition| matches!(text, Condition::One(Scalar::Text(text)) if !text.ends_with('*'));
        let divisor = match &self.relative_to {
            Some(Divisor::Rows(other)) => other.get(CASE_COLUMN),
            Some(Divisor::Number(_)) | None => None,
        };
        self.rows.get(CASE_COLUMN).is_some_and(is_exact) && divisor.is_none_or(is_exact)
    }

    /// All columns that it names.
    fn columns(&self) -> impl Iterator<Item = &str> {
        let others = self.relative_to.iter().flat_map(|divisor| match divisor {
            Divisor::Rows(rows) => rows.keys().map(String::as_str).collect(),
            Divisor::Number(_) => Vec::new(),
        });
        let own = [Some(&self.figure), self.by.as_ref()].into_iter().flatten().chain(self.rows.keys());
        own.map(String::as_str).chain(others)
    }

    /// What came out, in these rows.
    pub(crate) fn compare_with(&self, values: Option<&Values>) -> StatementResult {
        let figures = values.map(|values| self.figures(values)).unwrap_or_default();
        let is_within =
            |value: &&f64| self.min.is_none_or(|min| **value >= min) && self.max.is_none_or(|max| **value <= max);
        let within = figures.iter().filter(is_within).count();
        let holds = (!figures.is_empty()).then_some(within as f64 >= figures.len() as f64 * self.in_at_least);
        let reason = match holds {
            Some(true) => None,
            Some(false) => self.reason.clone(),
            None => Some(self.missing_figure(values)),
        };
        StatementResult {
            says: self.says.clone(),
            figure: self.figure_in_words(),
            published: self.published,
            value: median(&figures),
            min_value: min_and_max(&figures).map(|(min, _)| min),
            max_value: min_and_max(&figures).map(|(_, max)| max),
            values: figures.len(),
            values_within: within,
            min: self.min,
            max: self.max,
            holds,
            reason,
        }
    }

    /// What the figure is.
    fn figure_in_words(&self) -> String {
        let divisor = self.relative_to.as_ref().map_or(String::new(), |divisor| match divisor {
            Divisor::Number(number) => format!(" ÷ {number}"),
            Divisor::Rows(rows) => format!(" ÷ that of {}", describe_selection(rows)),
        });
        let by = self.by.as_ref().map_or(String::new(), |by| format!(", for each {by}"));
        format!("{}{divisor}{by}", self.figure)
    }

    /// Why there is no figure.
    fn missing_figure(&self, values: Option<&Values>) -> String {
        let Some(values) = values.filter(|values| !values.lines.is_empty()) else {
            return format!("{} has no rows here", self.file.as_deref().unwrap_or("the report"));
        };
        let divisor = match &self.relative_to {
            Some(Divisor::Rows(other)) => Some(overlay(&self.rows, other)),
            Some(Divisor::Number(_)) | None => None,
        };
        let selections = [Some(&self.rows), divisor.as_ref()];
        let unmatched = selections.into_iter().flatten().find_map(|rows| describe_unmatched(values, rows));
        unmatched.unwrap_or_else(|| format!("{} has no value in these rows, or nothing to be divided by", self.figure))
    }

    /// One, or one for each value of the column by which it is taken.
    fn figures(&self, values: &Values) -> Vec<f64> {
        let Some(by) = &self.by else { return self.figure(values, &self.rows).into_iter().collect() };
        let Some(place) = values.column(by) else { return Vec::new() };
        let own = values.lines.iter().filter(|line| is_selected(values, line, &self.rows));
        let keys = distinct(own.map(|line| &line[place]));
        let figure = |key: &Value| {
            let mut rows = self.rows.clone();
            rows.insert(by.clone(), Condition::One(Scalar::from_value(key)?));
            self.figure(values, &rows)
        };
        keys.into_iter().filter_map(figure).collect()
    }

    fn figure(&self, values: &Values, rows: &Selection) -> Option<f64> {
        let own = self.mean(values, rows)?;
        let divisor = match &self.relative_to {
            None => 1.0,
            Some(Divisor::Number(number)) => *number,
            Some(Divisor::Rows(other)) => self.mean(values, &overlay(rows, other))?,
        };
        Some(own / divisor).filter(|quotient| quotient.is_finite())
    }

    fn mean(&self, values: &Values, rows: &Selection) -> Option<f64> {
        let place = values.column(&self.figure)?;
        let own = values.lines.iter().filter(|line| is_selected(values, line, rows));
        mean(&own.filter_map(|line| line[place].as_f64()).collect::<Vec<_>>())
    }
}

/// The same rows, but for these columns.
fn overlay(rows: &Selection, other: &Selection) -> Selection {
    rows.iter().chain(other).map(|(column, condition)| (column.clone(), condition.clone())).collect()
}

/// What of the selection no row has, with what there is instead; none where some row has all.
fn describe_unmatched(values: &Values, rows: &Selection) -> Option<String> {
    let has_row = |rows: &Selection| values.lines.iter().any(|line| is_selected(values, line, rows));
    let alone = |(column, condition): (&String, &Condition)| BTreeMap::from([(column.clone(), condition.clone())]);
    if has_row(rows) {
        return None;
    }
    let Some((column, condition)) = rows.iter().find(|one| !has_row(&alone(*one))) else {
        return Some(format!("no row has {} together", describe_selection(rows)));
    };
    let place = values.column(column)?;
    let known = distinct(values.lines.iter().filter_map(|line| Some(Scalar::from_value(&line[place])?.to_string())));
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let nearest = nearest_of(&condition.to_string(), &known).map(|name| format!("perhaps you mean `{name}`; "));
    let rest = if known.len() > MAX_LISTED_VALUES { ", …" } else { "" };
    let listed = known[..known.len().min(MAX_LISTED_VALUES)].join("`, `");
    Some(format!("no row has {column} `{condition}`; {}there are `{listed}`{rest}", nearest.unwrap_or_default()))
}

fn describe_selection(rows: &Selection) -> String {
    let parts: Vec<_> = rows.iter().map(|(column, condition)| format!("{column} `{condition}`")).collect();
    parts.join(" and ")
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::One(scalar) => scalar.fmt(f),
            Condition::Any(scalars) => {
                f.write_str(&scalars.iter().map(ToString::to_string).collect::<Vec<_>>().join("` or `"))
            }
            Condition::Range(NumberRange { from, to }) => write!(f, "{from} to {to}"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Truth(truth) => truth.fmt(f),
            Scalar::Number(number) => number.fmt(f),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

fn is_selected(values: &Values, line: &[Value], rows: &Selection) -> bool {
    rows.iter().all(|(column, condition)| {
        values.column(column).is_some_and(|place| match condition {
            Condition::One(scalar) => scalar.is_value(&line[place]),
            Condition::Any(scalars) => scalars.iter().any(|scalar| scalar.is_value(&line[place])),
            Condition::Range(NumberRange { from, to }) => {
                line[place].as_f64().is_some_and(|value| (*from..=*to).contains(&value))
            }
        })
    })
}

impl Scalar {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(Scalar::Truth(*truth)),
            Value::Number(number) => number.as_f64().map(Scalar::Number),
            Value::String(text) => Some(Scalar::Text(text.clone())),
            _ => None,
        }
    }

    fn is_value(&self, value: &Value) -> bool {
        match self {
            Scalar::Truth(truth) => value.as_bool() == Some(*truth),
            Scalar::Number(number) => value.as_f64() == Some(*number),
            Scalar::Text(text) => value.as_str().is_some_and(|value| match text.strip_suffix('*') {
                Some(beginning) => value.starts_with(beginning),
                None => value == text,
            }),
        }
    }
}

impl StatementResult {
    /// The same without a verdict, where not all was run that it is about; `why` not. What was not measured has a reason of its own.
    pub(crate) fn without_verdict(self, why: &str) -> Self {
        let reason = if self.value.is_some() { Some(why.to_owned()) } else { self.reason };
        StatementResult { holds: None, reason, ..self }
    }

    /// The same without what is known of another run: why it does not hold.
    pub(crate) fn without_reason(self) -> Self {
        StatementResult { reason: self.reason.filter(|_| self.holds.is_none()), ..self }
    }

    /// In one sentence.
    pub(crate) fn in_words(&self) -> String {
        let verdict = match self.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None if self.value.is_some() => "not judged",
            None => "not measured",
        };
        let figure = if self.figure.is_empty() { String::new() } else { format!("{}: ", self.figure) };
        let published = self.published.map(|published| format!("published {}", three_digits(published)));
        let range = self.min_value.zip(self.max_value).filter(|_| self.values > 1).map(|(min, max)| {
            let (within, all) = (self.values_within, self.values);
            format!(" in the median ({} to {}, {within} of {all} as required)", three_digits(min), three_digits(max))
        });
        let here = self.value.map(|value| format!("here {}{}", three_digits(value), range.unwrap_or_default()));
        let bounds = [("at least", self.min), ("at most", self.max)];
        let bounds: Vec<_> =
            bounds.iter().filter_map(|(word, bound)| bound.map(|b| format!("{word} {}", three_digits(b)))).collect();
        let required = Some(format!("required {}", bounds.join(" and ")));
        let figures: Vec<_> = [published, here, required, self.reason.clone()].into_iter().flatten().collect();
        format!("{verdict}: {}: {figure}{}", self.says, figures.join("; "))
    }
}

fn part<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    parse::ratio(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

const fn all() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values() -> Values {
        let row = |case: &str, bytes: u32, rate: f64| json!({"case": case, "bytes": bytes, "rate": rate});
        let rows = [row("a", 1, 10.0), row("a", 2, 20.0), row("b", 1, 5.0), row("b", 2, 40.0), row("b", 2, 60.0)];
        Values::from_rows(&rows, "case bytes rate").unwrap()
    }

    fn result(text: &str) -> StatementResult {
        let statement: Statement = toml::from_str(&format!("says = \"so\"\nfigure = \"rate\"\n{text}")).unwrap();
        statement.check(Some(&values())).unwrap();
        statement.compare_with(Some(&values()))
    }

    #[test]
    fn a_figure_is_a_mean_of_the_rows_or_a_quotient_of_two() {
        let alone = result("in = { case = \"b\", bytes = 2 }\nmax = 50.0");
        assert_eq!((alone.value, alone.holds), (Some(50.0), Some(true)));
        let quotient =
            result("in = { case = \"b\", bytes = 2 }\nrelative_to = { case = \"a\" }\npublished = 3\nmin = 3");
        assert_eq!((quotient.value, quotient.holds), (Some(2.5), Some(false)));
        assert_eq!(
            quotient.in_words(),
            "does not hold: so: rate ÷ that of case `a`: published 3.00; here 2.50; required at least 3.00"
        );
        assert_eq!(result("in = { case = [\"a\", \"b\"], bytes = 1 }\nrelative_to = 7.5\nmin = 1").value, Some(1.0));
    }

    #[test]
    fn a_figure_for_each_value_of_a_column_holds_where_enough_of_them_do() {
        let each = "in = { case = \"b*\", bytes = { from = 1, to = 2 } }\nrelative_to = { case = \"a\" }\nby = \"bytes\"\nmin = 1.0";
        let all = result(&format!("{each}\nreason = \"because\""));
        assert_eq!((all.values, all.values_within, all.holds), (2, 1, Some(false)));
        let words = "so: rate ÷ that of case `a`, for each bytes: here 1.50 in the median (0.500 to 2.50, 1 of 2 as required); \
                     required at least 1.00; because";
        assert!(all.in_words().ends_with(words), "{}", all.in_words());
        let half = result(&format!("{each}\nin_at_least = \"50%\"\nreason = \"because\""));
        assert_eq!((half.holds, half.reason), (Some(true), None));
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        for text in ["in = { case = \"c\" }\nmin = 1", "relative_to = 0\nmin = 1"] {
            let none = result(text);
            assert_eq!((none.value, none.holds), (None, None), "{text}");
            assert!(none.in_words().starts_with("not measured: so: rate"), "{}", none.in_words());
            assert!(none.in_words().contains(": required at least 1.00; "), "{}", none.in_words());
        }
    }

    /// A misspelt value was "not measured", without a word on why.
    #[test]
    fn what_matches_no_row_says_what_there_is() {
        let reason = |text: &str| result(&format!("{text}\nmin = 1")).reason.unwrap();
        assert_eq!(reason("in = { case = \"c\" }"), "no row has case `c`; there are `a`, `b`");
        assert_eq!(reason("in = { bytes = [7, 8] }"), "no row has bytes `7` or `8`; there are `1`, `2`");
        let divisor = reason("in = { case = \"a\" }\nrelative_to = { case = \"c\" }");
        assert_eq!(divisor, "no row has case `c`; there are `a`, `b`");
        assert_eq!(reason("in = { case = \"a\", rate = 60 }"), "no row has case `a` and rate `60` together");
        assert_eq!(reason("relative_to = 0"), "rate has no value in these rows, or nothing to be divided by");
        let statement: Statement = toml::from_str("says = \"so\"\nfigure = \"x\"\nfile = \"x.csv\"\nmin = 1").unwrap();
        assert_eq!(statement.compare_with(None).reason.unwrap(), "x.csv has no rows here");
    }

    #[test]
    fn what_was_run_otherwise_has_no_verdict_and_no_reason_of_another_run() {
        let failed = result("in = { case = \"a\" }\nmin = 100\nreason = \"because\"");
        assert_eq!(failed.clone().without_reason().reason, None);
        let not_judged = failed.without_verdict("--duration 5 s");
        assert_eq!((not_judged.holds, not_judged.value), (None, Some(15.0)));
        let words = "not judged: so: rate: here 15.0; required at least 100; --duration 5 s";
        assert_eq!(not_judged.in_words(), words);
        let not_measured = result("in = { case = \"c\" }\nmin = 1").without_verdict("--duration 5 s");
        assert_eq!(not_measured.reason.unwrap(), "no row has case `c`; there are `a`, `b`");
    }

    #[test]
    fn a_statement_about_one_case_is_not_about_others() {
        for (text, is_of_one) in [
            ("in = { case = \"a\" }", true),
            ("in = { case = \"a\" }\nrelative_to = { case = \"b\", bytes = 1 }", true),
            ("in = { case = \"a\" }\nrelative_to = { case = [\"a\", \"b\"] }", false),
            ("in = { case = \"a*\" }", false),
            ("in = { case = [\"a\", \"b\"] }", false),
            ("by = \"case\"", false),
        ] {
            let statement: Statement =
                toml::from_str(&format!("says = \"so\"\nfigure = \"rate\"\nmin = 1\n{text}")).unwrap();
            assert_eq!(statement.is_about_one_case(), is_of_one, "{text}");
        }
    }

    /// What is known of virtual time was told of runs in real time.
    #[test]
    fn a_reason_of_virtual_time_is_not_told_of_real_time() {
        let text = "says = \"so\"\nfigure = \"rate\"\nmin = 1\nreason = \"always\"\nvirtual_reason = \"virtually\"";
        let reason = |is_virtual| toml::from_str::<Statement>(text).unwrap().for_clock(is_virtual).reason.unwrap();
        assert_eq!([reason(true), reason(false)], ["virtually", "always"]);
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        let refusal = |text: &str, values: Option<&Values>| {
            let statement: Statement = toml::from_str(&format!("says = \"so\"\nfigure = {text}")).unwrap();
            statement.check(values).unwrap_err()
        };
        let values = values();
        assert!(refusal("\"rate\"", Some(&values)).contains("nothing judges `so`"));
        for (text, column) in [
            ("\"rat\"\nmax = 1", "rat"),
            ("\"rate\"\nmax = 1\nby = \"byte\"", "byte"),
            ("\"rate\"\nmax = 1\nin = { cases = 1 }", "cases"),
            ("\"rate\"\nmax = 1\nrelative_to = { cased = 1 }", "cased"),
        ] {
            let refusal = refusal(text, Some(&values));
            assert!(
                refusal.contains(&format!("`{column}`, which is no column of its file: perhaps you mean")),
                "{refusal}"
            );
        }
        let refusal = refusal("\"rate\"\nmax = 1\nfile = \"other.csv\"", None);
        assert!(refusal.contains("other.csv, which this experiment does not write"), "{refusal}");
    }
}
