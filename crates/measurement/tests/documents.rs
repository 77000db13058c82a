//! The documents of a measurement: their published JSON Schemas, and that they can be read back.

use kumade_measurement::Report;
use kumade_measurement::report::StreamLine;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.measure.1.json");
const STREAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.measure-stream.1.json");

/// Set `UPDATE_SCHEMAS` to regenerate the files after a deliberate change.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads and writes the published files")]
fn the_published_schemas_are_up_to_date() {
    for (file, schema) in [(DOCUMENT, Report::json_schema()), (STREAM, StreamLine::json_schema())] {
        let generated = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(file, &generated).unwrap();
        }
        let published = std::fs::read_to_string(file).unwrap();
        assert!(published == generated, "run the test again with UPDATE_SCHEMAS=1 if {file} was meant to change");
    }
}
