//! Values as an Arrow file (Feather version 2), which keeps their types.

use super::values::Values;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::writer::FileWriter;
use serde_json::Value;
use std::error::Error;
use std::sync::Arc;

/// The file.
pub(super) fn to_arrow(values: &Values) -> Result<Vec<u8>, Box<dyn Error>> {
    let columns = values.names.iter().enumerate().map(|(place, name)| {
        let column: Vec<&Value> = values.lines.iter().map(|line| &line[place]).collect();
        (name, column_array(&column), true)
    });
    let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// Of the narrowest type that has all values.
fn column_array(column: &[&Value]) -> ArrayRef {
    let are = |is: fn(&Value) -> bool| column.iter().all(|value| value.is_null() || is(value));
    let values = || column.iter();
    match () {
        () if are(Value::is_null) => Arc::new(NullArray::new(column.len())),
        () if are(Value::is_boolean) => Arc::new(values().map(|value| value.as_bool()).collect::<BooleanArray>()),
        () if are(Value::is_i64) => Arc::new(values().map(|value| value.as_i64()).collect::<Int64Array>()),
        () if are(Value::is_u64) => Arc::new(values().map(|value| value.as_u64()).collect::<UInt64Array>()),
        () if are(Value::is_number) => Arc::new(values().map(|value| value.as_f64()).collect::<Float64Array>()),
        () => Arc::new(values().map(|value| value.as_str()).collect::<StringArray>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt64Type};
    use serde_json::json;

    #[test]
    fn values_keep_their_types_and_nulls_stay_nulls() {
        let rows = [json!({"case": "a", "share": 0.5, "seed": u64::MAX}), json!({"case": null, "share": 1, "seed": 7})];
        let file = to_arrow(&Values::from_rows(&rows, "case share seed nothing").unwrap()).unwrap();
        let mut read = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(file), None).unwrap();
        let batch = read.next().unwrap().unwrap();
        assert_eq!(batch["case"].as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None]);
        assert_eq!(batch["share"].as_primitive::<Float64Type>().values(), &[0.5, 1.0]);
        assert_eq!(batch["seed"].as_primitive::<UInt64Type>().values(), &[u64::MAX, 7]);
        assert_eq!(batch["nothing"].len(), 2);
    }
}
