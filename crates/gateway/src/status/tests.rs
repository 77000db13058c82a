use super::*;
use kumade_overlay_io::status::StatusDocument;
use std::path::Path as File;

fn bonded() -> GatewayStatus {
    serde_json::from_str(include_str!("../../tests/statuses/bonded.json")).unwrap()
}

fn direct() -> GatewayStatus {
    serde_json::from_str(include_str!("../../tests/statuses/direct.json")).unwrap()
}

#[test]
fn people_read_tables() {
    insta::assert_snapshot!("bonded", bonded().to_string());
    insta::assert_snapshot!("direct", direct().to_string());
}

#[test]
fn rates_and_shares_are_those_of_the_interval() {
    let before = bonded();
    let mut now = before.clone();
    now.duration_seconds += 2.0;
    now.paths[0].sent.bytes += 3_000_000;
    now.paths[1].sent.bytes += 1_000_000;
    let tunnel = now.remotes[0].tunnel.as_mut().unwrap();
    tunnel.paths[0].sent.bytes += 3_000_000;
    // Counted anew since the remote gateway restarted.
    tunnel.paths[1].sent.bytes = 1_000_000;
    tunnel.paths[1].received.bytes += 500;
    let now = now.with_rates_since(&before);
    assert_eq!(now.interval_seconds, Some(2.0));
    assert_eq!(now.paths[0].sent.bits_per_second, Some(12e6));
    assert_eq!(now.paths[1].share_ratio, Some(0.25));
    let paths = &now.remotes[0].tunnel.as_ref().unwrap().paths;
    assert_eq!((paths[1].sent.bits_per_second, paths[1].share_ratio), (Some(4e6), Some(0.25)));
    assert_eq!((paths[1].received.bits_per_second, paths[0].received.bits_per_second), (Some(2e3), Some(0.0)));
}

#[test]
fn where_nothing_is_sent_no_path_has_a_share() {
    let before = direct();
    let now =
        GatewayStatus { duration_seconds: before.duration_seconds + 1.0, ..before.clone() }.with_rates_since(&before);
    assert_eq!((now.paths[0].share_ratio, now.paths[0].sent.bits_per_second), (None, Some(0.0)));
}

/// Set `UPDATE_SCHEMAS` to write the file anew after a deliberate change.
#[test]
fn the_published_schema_is_that_of_the_documents() {
    let path = File::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/kumade.gateway.1.json");
    let generated = serde_json::to_string_pretty(&GatewayStatus::json_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    assert!(published == generated, "run the test again with UPDATE_SCHEMAS=1 if the document was meant to change");
    let validator = jsonschema::validator_for(&serde_json::from_str(&published).unwrap()).unwrap();
    for status in [bonded(), direct()] {
        let mut document = serde_json::to_value(status).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        document["paths"][0]["sent"]["packets"] = "many".into();
        assert!(!validator.is_valid(&document));
    }
}
