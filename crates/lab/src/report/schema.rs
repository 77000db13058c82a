use jsonschema::Validator;
use schemars::JsonSchema;
use serde_json::Value;

/// The published schema of the documents of type `T`, which is checked to be the one generated from that type and its
/// comments. To write it anew: `UPDATE_SCHEMAS=1 cargo test -p kumade-lab schema`.
pub(crate) fn published_schema<T: JsonSchema>(name: &str) -> Validator {
    let path = format!("{}/../../schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::to_value(schemars::schema_for!(T)).unwrap();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, format!("{schema:#}\n")).unwrap();
    }
    let published: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(published, schema, "write it anew: UPDATE_SCHEMAS=1 cargo test -p kumade-lab schema");
    jsonschema::validator_for(&published).unwrap()
}
