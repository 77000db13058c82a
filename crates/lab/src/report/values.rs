//! Rows as a table of values, whose columns are parts of their JSON, and that as CSV.

use serde::Serialize;
use serde_json::Value;
use std::error::Error;

/// The text of a CSV file, or why it could not be made.
pub(crate) type CsvResult = Result<String, Box<dyn Error>>;

/// Values in rows and columns.
pub(crate) struct Values {
    /// The names of the columns.
    pub(crate) names: Vec<String>,
    /// As many values as columns in each.
    pub(crate) lines: Vec<Vec<Value>>,
}

impl Values {
    /// A line for each row. `columns` are words: a path into a row's JSON, such as `drops.offered_packets`, whose last part is the column's
    /// name unless another stands before it (`dropped=drops.managed_packets`). An array that stands alone behind an asterisk (`*flows`) has
    /// a line for each of its elements, whose parts have it before them (`flows.group`).
    ///
    /// # Errors
    /// Where serialization fails; no case is known.
    pub(crate) fn from_rows<R: Serialize>(rows: &[R], columns: &str) -> serde_json::Result<Self> {
        let (arrays, columns): (Vec<_>, Vec<_>) = columns.split_whitespace().partition(|word| word.starts_with('*'));
        let columns: Vec<(&str, &str)> = columns.into_iter().map(name_and_path).collect();
        let mut lines = Vec::with_capacity(rows.len());
        for row in rows {
            let mut own = vec![serde_json::to_value(row)?];
            for array in &arrays {
                own = own.into_iter().flat_map(|row| each_element(row, array.trim_start_matches('*'))).collect();
            }
            let values = |row: &Value| columns.iter().map(|(_, path)| value_of(row, path).clone()).collect();
            lines.extend(own.iter().map(values));
        }
        Ok(Values { names: columns.iter().map(|(name, _)| (*name).to_owned()).collect(), lines })
    }

    /// The place of the column of that name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// A header line, and the others; an empty cell stands for null.
    pub(crate) fn to_csv(&self) -> CsvResult {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.names)?;
        for line in &self.lines {
            writer.write_record(line.iter().map(cell))?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    }
}

fn name_and_path(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or_else(|| (word.rsplit('.').next().unwrap_or(word), word))
}

fn value_of<'v>(row: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(row, |value, part| value.get(part).unwrap_or(&Value::Null))
}

/// The row once for each element of that array, with the element in its place.
fn each_element(mut row: Value, path: &str) -> Vec<Value> {
    let pointer = format!("/{}", path.replace('.', "/"));
    // Taken out of the row, which would be copied with all of them for each.
    let Some(Value::Array(elements)) = row.pointer_mut(&pointer).map(Value::take) else { return Vec::new() };
    let with = |element| {
        let mut row = row.clone();
        row.pointer_mut(&pointer).into_iter().for_each(|place| *place = Value::clone(&element));
        row
    };
    elements.into_iter().map(with).collect()
}

/// Numbers as people write them: without an exponent, and without decimals that say nothing.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_parts_of_rows_and_arrays_are_lines() {
        let rows = [
            json!({"case": "a, b", "run": 1, "delay": {"p99_seconds": 2.0}, "flows": [{"share": 0.000_001}, {"share": null}]}),
            json!({"case": "c", "run": 2, "delay": null, "flows": []}),
        ];
        let to_csv = |columns| Values::from_rows(&rows, columns).unwrap().to_csv().unwrap();
        let text = to_csv("case run delay_p99_seconds=delay.p99_seconds");
        assert_eq!(text, "case,run,delay_p99_seconds\n\"a, b\",1,2\nc,2,\n");
        let text = to_csv("*flows run flows.share");
        assert_eq!(text, "run,share\n1,0.000001\n1,\n");
    }
}
