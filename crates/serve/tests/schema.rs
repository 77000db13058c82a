//! Real documents fit the published JSON Schemas.

use crate::common;

use common::RunningServer;
use jsonschema::Validator;
use kumade_client::{MeasureConfig, measure};
use kumade_measurement::Directions;
use kumade_measurement::report::{ErrorReport, StreamLine};
use kumade_serve::ServerConfig;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.measure.1.json");
const STREAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.measure-stream.1.json");

fn validator(file: &str) -> Validator {
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn each_line_of_a_stream_fits_its_schema() {
    let validator = validator(STREAM);
    let server = RunningServer::start(ServerConfig::default());
    let mut lines = Vec::new();
    let config = server.measuring().with_changed_plan(|plan| {
        plan.directions = Directions::Up;
        plan.capacity = true;
    });
    let result =
        measure(&config, &mut |event| lines.push(serde_json::to_value(StreamLine::from_event(event)).unwrap()));
    lines.push(serde_json::to_value(StreamLine::end(result.as_ref().unwrap())).unwrap());
    let refused = measure(&MeasureConfig::new("no-such-host.invalid", 7272), &mut |_| {});
    let refused = refused.unwrap_err();
    let failure = ErrorReport { kind: refused.kind().to_owned(), message: refused.to_string(), hint: None };
    lines.push(serde_json::to_value(StreamLine::failure(failure)).unwrap());
    for mut line in lines {
        if let Err(error) = validator.validate(&line) {
            panic!("{error} in {line}");
        }
        line["event"] = "eclipse".into();
        assert!(!validator.is_valid(&line), "{line}");
    }
}

#[test]
fn real_documents_fit_the_schema_and_broken_ones_do_not() {
    let validator = validator(DOCUMENT);
    let server = RunningServer::start(ServerConfig::default());
    for directions in [Directions::Both, Directions::Down] {
        let config = server.measuring().with_changed_plan(|plan| {
            plan.directions = directions;
            plan.capacity = true;
        });
        let report = measure(&config, &mut |_| {}).unwrap();
        let mut document = serde_json::to_value(&report).unwrap();
        if let Err(error) = validator.validate(&document) {
            panic!("{error} in {document}");
        }
        assert_eq!(document["schema"], "kumade.measure/1");
        document["down"]["bytes_sent"] = "many".into();
        assert!(!validator.is_valid(&document));
        document.as_object_mut().unwrap().remove("down");
        assert!(!validator.is_valid(&document), "a direction that was not asked for is null, not missing");
    }
}

#[test]
fn fields_stand_in_the_published_order() {
    let server = RunningServer::start(ServerConfig::default());
    let report = measure(&server.measuring(), &mut |_| {}).unwrap();
    let text = serde_json::to_string(&report).unwrap();
    let order = |names: &[&str]| {
        let places: Vec<_> = names.iter().map(|name| text.find(&format!("\"{name}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    };
    order(&["schema", "peer", "started", "up", "down"]);
    order(&[
        "transport",
        "method",
        "connections",
        "available_bits_per_second",
        "reason",
        "spread_bits_per_second",
        "capacity",
        "packets_sent",
        "bytes_sent",
        "duration_seconds",
        "trains",
        "trains_rejected",
        "warnings",
    ]);
}
