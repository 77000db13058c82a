//! Weights that the gateway finds by measuring its paths, between real hosts.
//!
//! How well a path is measured depends on how busy the machine is: what must hold is that a ratio is that of the measured
//! rates, or that the gateway says why it has none and leaves the configured one.

use kumade_daemon::RuntimeDir;
use kumade_gateway::GatewayConfig;
use kumade_gateway::config::Plane;
use kumade_gateway::direct::DirectPlane;
use kumade_gateway::measure::{MeasurementServer, PathMeasurer};
use kumade_gateway::status::MeasuredStatus;
use kumade_link::LinkConfig;
use kumade_multipath::measured::rates_to_ratio;
use kumade_net::clock;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{PathLinks, Sites, eventually, in_namespaces, run_ip};
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::BondedPlane;
use kumade_units::{Rate, Span};
use std::env;
use std::fs;
use std::path::PathBuf;

const LEFT_GATEWAY_CONFIG: &str = r#"
[gateway]
name = "left"
weights = "measured"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2"]
weight = 16

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2"]
weight = 3

[[remote]]
name = "right"
networks = ["10.2.0.0/24"]
measure = ["10.9.1.2", "10.9.2.2"]
"#;

/// Two paths, one of them with four times the rate of the other.
fn sites() -> Sites {
    let path = |mbit| {
        let link =
            LinkConfig { rate: Some(Rate::from_mbit(mbit)), delay: Span::from_millis(2), ..LinkConfig::default() };
        PathLinks { up: link.clone(), down: link }
    };
    Sites::with_emulated_paths(vec![path(40), path(10)]).unwrap()
}

/// A directory for this test alone.
fn create_runtime_dir(test: &str) -> RuntimeDir {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("measured-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    RuntimeDir::from_path(directory)
}

fn start(sites: &Sites, test: &str) -> (DirectPlane, PathMeasurer) {
    let interfaces = ["lan", "path1", "path2"].map(String::from);
    let config = GatewayConfig::from_toml(LEFT_GATEWAY_CONFIG, "test.toml", &interfaces).unwrap();
    let plane = sites.left.run(|| DirectPlane::start(&config, create_runtime_dir(test))).unwrap().unwrap();
    (plane, PathMeasurer::new(&config, None, 1, clock::monotonic()).unwrap())
}

fn is_known(path: &MeasuredStatus) -> bool {
    path.age_seconds.is_some() || path.error.is_some()
}

/// Until each path has been measured once, or has failed to be.
fn measure(sites: &Sites, plane: &mut DirectPlane, measurer: &mut PathMeasurer) {
    let is_done = || {
        sites.left.run(|| measurer.update_direct_weights(plane)).unwrap().unwrap();
        measurer.status(clock::monotonic()).iter().all(|path| is_known(&path.measured))
    };
    assert!(eventually(is_done));
}

#[test]
fn the_ratio_becomes_that_of_the_measured_rates() {
    in_namespaces("the_ratio_becomes_that_of_the_measured_rates", || {
        let sites = sites();
        let _server = sites.right.run(|| MeasurementServer::start(7272, None)).unwrap().unwrap();
        let (mut plane, mut measurer) = start(&sites, "ratio");
        measure(&sites, &mut plane, &mut measurer);
        let status = measurer.status(clock::monotonic());
        assert_eq!(status.iter().map(|path| (path.remote, path.path)).collect::<Vec<_>>(), [(0, 0), (0, 1)]);
        let rates: Option<Vec<f64>> = status.iter().map(|path| path.measured.rate_bits_per_second).collect();
        match rates {
            Some(rates) => {
                let weights: Vec<u32> = status.iter().map(|path| path.weight.unwrap()).collect();
                assert_eq!(plane.weights(0), weights);
                // A path whose delay seems to differ is left out.
                assert!(weights == rates_to_ratio(&rates) || weights.contains(&0), "{rates:?}: {weights:?}");
                eprintln!("40 and 10 Mbit/s: {rates:?}, {weights:?}");
            }
            None => {
                assert!(status.iter().any(|path| path.measured.error.as_ref().is_some_and(|reason| !reason.is_empty())))
            }
        }
        sites.left.run(|| drop((plane, measurer))).unwrap();
    });
}

#[test]
fn without_an_answer_the_configured_weights_stay_and_the_reason_is_told() {
    in_namespaces("without_an_answer_the_configured_weights_stay_and_the_reason_is_told", || {
        let sites = sites();
        let (mut plane, mut measurer) = start(&sites, "silent");
        measure(&sites, &mut plane, &mut measurer);
        let refused = |status: &kumade_gateway::measure::MeasuredPathStatus, words: &str| {
            let reason = status.measured.error.clone().unwrap();
            assert!(reason.contains(words), "{reason}");
            assert_eq!((status.measured.rate_bits_per_second, status.weight), (None, None));
        };
        for (path, address) in measurer.status(clock::monotonic()).iter().zip(["10.9.1.2:7272", "10.9.2.2:7272"]) {
            refused(path, &format!("cannot connect to {address}"));
        }
        assert_eq!(plane.weights(0), [16, 3]);
        // One that answers others only.
        let key = PresharedKey::from_bytes([1; 32]);
        let _server = sites.right.run(|| MeasurementServer::start(7272, Some(key))).unwrap().unwrap();
        let config =
            GatewayConfig::from_toml(LEFT_GATEWAY_CONFIG, "test.toml", &["lan", "path1", "path2"].map(String::from))
                .unwrap();
        let mut measurer = PathMeasurer::new(&config, None, 1, clock::monotonic()).unwrap();
        measure(&sites, &mut plane, &mut measurer);
        measurer.status(clock::monotonic()).iter().for_each(|path| refused(path, "10.9."));
        assert_eq!(plane.weights(0), [16, 3]);
        sites.left.run(|| drop((plane, measurer))).unwrap();
    });
}

/// The left (1) or right (2) gateway of a tunnel; the left one measures.
fn bonded(own: u8) -> GatewayConfig {
    let far = 3 - own;
    let key = PrivateKey::from_bytes([far; 32]).public_key();
    let text = format!(
        r#"
        gateway = {{ name = "bonded", plane = "bonded", weights = "{}" }}
        bonded = {{ key = "unused" }}
        path = [{{ name = "one", interface = "path1" }}, {{ name = "two", interface = "path2" }}]
        [[remote]]
        name = "far"
        networks = ["10.{far}.0.0/24"]
        public-key = "{key}"
        addresses = ["10.9.1.{far}", "10.9.2.{far}"]
        "#,
        if own == 1 { "measured" } else { "fixed" }
    );
    GatewayConfig::from_toml(&text, "bonded.toml", &["path1", "path2"].map(String::from)).unwrap()
}

#[test]
fn the_bonded_plane_is_told_what_was_measured_of_idle_paths() {
    in_namespaces("the_bonded_plane_is_told_what_was_measured_of_idle_paths", || {
        let sites = sites();
        let start = |own: u8, inside: &Namespace| {
            let config = bonded(own);
            let Plane::Bonded(bonded) = &config.plane else { unreachable!("it is") };
            let keys = (PrivateKey::from_bytes([own; 32]), vec![PresharedKey::default()]);
            let directory = create_runtime_dir(&format!("bonded{own}"));
            let keyed = kumade_gateway::bonded::plane_config(&config, bonded, keys.0, keys.1, directory);
            run_ip(inside, &["route", "del", &format!("10.{}.0.0/24", 3 - own)]).unwrap();
            inside.run(|| BondedPlane::start(keyed, Default::default())).unwrap().unwrap()
        };
        let planes = [start(1, &sites.left), start(2, &sites.right)];
        let remote = || planes[0].status().unwrap().remotes.remove(0);
        assert!(eventually(|| remote().is_connected));
        let _server = sites.right.run(|| MeasurementServer::start(7272, None)).unwrap().unwrap();
        let mut measurer = PathMeasurer::new(&bonded(1), None, 1, clock::monotonic()).unwrap();
        let mut was_told = [false; 2];
        let is_done = || {
            sites.left.run(|| measurer.update_bonded_rates(&planes[0])).unwrap();
            let paths = measurer.status(clock::monotonic()).into_iter().zip(remote().paths);
            for ((measured, known), was_told) in paths.zip(&mut was_told) {
                // What differs by less than a tenth is left as it was believed. Nor is a path told that carries something just then:
                // 100 kbit/s, for a second. What a path carries afterwards may tell it another rate.
                let is_told = measured.measured.rate_bits_per_second.is_some_and(|rate| {
                    (0.9..=1.12).contains(&(known.status.rate.as_f64() / rate)) || known.status.sent_bytes > 12_500
                });
                *was_told |= is_told || measured.measured.error.is_some();
            }
            was_told == [true; 2]
        };
        assert!(eventually(is_done), "{:?}", measurer.status(clock::monotonic()));
    });
}
