use super::*;
use kumade_net::waker::new_waker;
use kumade_net::{clock, readiness};
use kumade_overlay_io::status::StatusDocument;
use kumade_units::Time;
use std::convert::Infallible;
use std::path::Path;

fn rake() -> Status {
    serde_json::from_str(include_str!("../../tests/statuses/rake.json")).unwrap()
}

fn forward() -> Status {
    serde_json::from_str(include_str!("../../tests/statuses/forward.json")).unwrap()
}

#[test]
fn people_read_a_table() {
    insta::assert_snapshot!("rake", rake().to_string());
    insta::assert_snapshot!("forward", forward().to_string());
}

#[test]
fn only_paths_that_carry_count_as_carriers() {
    let mut status = rake();
    assert!(status.to_string().contains("2 TCP connections"), "{status}");
    let packets = status.peers[0].packets.as_mut().unwrap();
    let datagrams = TunnelPath { carrier: OuterTransport::Udp, ..packets.tunnel.paths[0].clone() };
    packets.tunnel.paths.push(datagrams);
    packets.paths_up += 1;
    assert!(status.to_string().contains("2 TCP connections"), "{status}");
}

#[test]
fn rates_are_those_of_the_interval_and_paths_may_come_and_go() {
    let before = rake();
    let mut now = before.clone();
    now.duration_seconds += 2.0;
    let packets = now.peers[0].packets.as_mut().unwrap();
    packets.sent.bytes += 1_000_000;
    packets.tunnel.paths.remove(0);
    packets.tunnel.paths[0].received.bytes += 500;
    now.relayed.as_mut().unwrap().received_bytes += 250_000;
    let now = now.with_rates_since(&before);
    let packets = now.peers[0].packets.as_ref().unwrap();
    assert_eq!((now.interval_seconds, packets.sent.bits_per_second), (Some(2.0), Some(4e6)));
    assert_eq!(packets.tunnel.paths[0].received.bits_per_second, Some(2e3));
    assert_eq!(now.relayed.unwrap().received_bits_per_second, Some(1e6));
}

/// Set `UPDATE_SCHEMAS` to write the file anew after a deliberate change.
#[test]
fn the_published_schema_is_that_of_the_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/kumade.tunnel.1.json");
    let generated = serde_json::to_string_pretty(&Status::json_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    assert!(published == generated, "run the test again with UPDATE_SCHEMAS=1 if the document was meant to change");
    let validator = jsonschema::validator_for(&serde_json::from_str(&published).unwrap()).unwrap();
    for status in [rake(), forward()] {
        let mut document = serde_json::to_value(status).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        document["duration_seconds"] = "long".into();
        assert!(!validator.is_valid(&document));
    }
}

#[test]
fn a_status_is_renewed_for_whoever_asks_and_while_something_happens() {
    let config = crate::config::tests::config(crate::TransportMode::Udp, "10.77.0.2");
    let mut recorder = Status::recorder(&config, "tunnel");
    assert!(recorder.is_due(false, clock::monotonic()), "there is none yet");
    let (waker, receiver) = new_waker().unwrap();
    recorder.renew_when_asked(std::sync::Arc::new(waker));
    let latest = recorder.latest();
    let asking = std::thread::spawn(move || latest.get());
    assert!(readiness::wait_readable(&receiver, Time::MAX).unwrap());
    let renew = |recorder: &mut Recorder<Status>| {
        let Ok(()) = recorder.renew(|status, _| {
            status.device = Some("renewed".into());
            Ok::<_, Infallible>(())
        });
    };
    renew(&mut recorder);
    // On a busy machine it may have been given what there was before, or have asked again.
    asking.join().unwrap();
    renew(&mut recorder);
    let due = recorder.next_renewal();
    assert!(!recorder.is_due(false, due), "nothing has happened, and nobody asks");
    assert!(recorder.is_due(true, due) && !recorder.is_due(true, due - kumade_units::Span::from_nanos(1)));
    let latest = recorder.latest();
    drop(recorder);
    assert_eq!(latest.get().device.as_deref(), Some("renewed"), "nobody renews it any more");
}
