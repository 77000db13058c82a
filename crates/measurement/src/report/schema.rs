use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// The JSON Schema of documents of this type, under this name.
pub(super) fn published<T: JsonSchema>(name: &str) -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), name.into());
    schema.to_value()
}
