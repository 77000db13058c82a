//! STAMP and its extensions (RFC 8762, 8972) with another implementation: stamp-suite 1.0.0.
//!
//! It deviates from RFC 8972 in one thing that was met: in the authenticated mode, it answers padding alone, which needs no HMAC TLV
//! (4.8), with one, so that the answer is 20 octets longer than the question. This reflector does not.

use crate::common::reflecting::{Reflecting, delay_to, quick};
use crate::stamp::assert_sound;
use kumade_client::{DsField, Ecn, StampConfig};
use kumade_measurement::report::{EcnCodepoint, SynchronisationSource, TimestampMethod};
use kumade_netns_testbed::eventually;
use kumade_serve::HostClock;
use kumade_wire::PresharedKey;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The other implementation, where `.ci/run` has installed it, or `STAMP_SUITE_ROOT` says that it is. Building it takes longer
/// than all other tests of this crate.
fn stamp_suite() -> Option<PathBuf> {
    let cached = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache/kumade-stamp-suite"));
    let root = std::env::var_os("STAMP_SUITE_ROOT").map(Into::into).or_else(cached);
    let program = root.map(|root| root.join("bin/stamp-suite")).filter(|program| program.exists());
    if program.is_none() {
        let install = "cargo install --locked --version 1.0.0 --root ~/.cache/kumade-stamp-suite stamp-suite";
        eprintln!("SKIPPED: stamp-suite is not there: {install}");
    }
    program
}

/// Its reflector, which ends with the test.
struct Peer {
    process: Child,
    address: SocketAddr,
}

impl Peer {
    fn start(program: &Path, options: &[&str]) -> Self {
        // At an address where no other test has ports.
        let host = Ipv4Addr::new(127, 3, 3, 4);
        let address = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap();
        let process = Command::new(program)
            .args(["-i", "-S", &host.to_string(), "-o", &address.port().to_string()])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let peer = Peer { process, address };
        // As the kernel lists it: proc_net(5).
        let listed = format!(" {:08X}:{:04X} ", u32::from_ne_bytes(host.octets()), address.port());
        let has_port = || std::fs::read_to_string("/proc/net/udp").unwrap().contains(&listed);
        assert!(eventually(has_port), "it takes its port");
        peer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What its sender says of a measurement to this reflector.
fn measured_by_sender(program: &Path, reflector: &Reflecting, options: &[&str]) -> serde_json::Value {
    let port = reflector.address.port().to_string();
    let output = Command::new(program)
        .args(["-r", "127.0.0.1", "-p", &port, "-c", "100", "-d", "5", "--output-format", "json"])
        .args(options)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The key of the authenticated mode, and the options that say so.
fn key_and_options() -> (PresharedKey, Vec<String>) {
    let options = ["-A", "A", "--hmac-key", &"5a".repeat(32)].map(str::to_owned);
    (PresharedKey::from_bytes([0x5a; 32]), options.to_vec())
}

/// Without a key and with one.
fn modes() -> [(Option<PresharedKey>, Vec<String>); 2] {
    let (key, options) = key_and_options();
    [(None, Vec::new()), (Some(key), options)]
}

#[test]
fn another_implementation_agrees_as_reflector_and_as_sender() {
    let Some(program) = stamp_suite() else { return };
    for (key, options) in modes() {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let ours = Reflecting::with_key("127.0.0.1", HostClock::System, key.clone());
        let found = measured_by_sender(&program, &ours, &options);
        assert_eq!(found["packets_received"], 100, "{found}");
        for stateful in [&["--stateful-reflector"][..], &[]] {
            let peer = Peer::start(&program, &[&options, stateful].concat());
            let delay = delay_to(&StampConfig { key: key.clone(), ..quick(peer.address) });
            assert_sound(&delay);
            assert_eq!(delay.round_trip_packets.unwrap().lost, 0);
        }
    }
}

#[test]
fn its_reflector_answers_the_extensions_of_this_sender() {
    let Some(program) = stamp_suite() else { return };
    for (key, options) in modes() {
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.extend(["--stateful-reflector", "--clock-sync-source", "gps"]);
        let peer = Peer::start(&program, &options);
        let ds_field = Some(DsField::new("ef".parse().unwrap(), Ecn::Ect1));
        let config = StampConfig { key, ds_field, extensions: true, size: 300, ..quick(peer.address) };
        let found = delay_to(&config).extensions.unwrap();
        assert_eq!((&found.unanswered[..], found.not_authentic), (&[][..], 0));
        let class = found.class_of_service.unwrap();
        for way in [&class.up[..], &class.down] {
            let [count] = way else { panic!("{way:?}") };
            assert_eq!((count.packets, count.sent_dscp, count.arrived_dscp), (100, Some(46), 46));
            assert_eq!((count.sent_ecn, count.arrived_ecn), (Some(EcnCodepoint::Ect1), EcnCodepoint::Ect1));
        }
        let location = found.location.unwrap();
        assert_eq!(location.destination_address, Some(peer.address.ip().to_string()));
        assert_eq!(location.destination_port, Some(peer.address.port()));
        let timestamps = found.timestamps.unwrap();
        assert_eq!(timestamps.source_in, Some(SynchronisationSource::Navigation));
        assert_eq!(timestamps.method_in, Some(TimestampMethod::Software));
        let counters = found.counters.unwrap();
        assert_eq!((counters.sent, counters.received, counters.answered), (99, 99, 99));
        assert!(found.reply_lateness_seconds.is_some());
    }
}

#[test]
fn this_reflector_answers_the_extensions_of_its_sender() {
    let Some(program) = stamp_suite() else { return };
    let asked = "--cos --dscp 46 --ecn 1 --location --timestamp-info --direct-measurement --follow-up-telemetry \
        --access-report 1 --extra-padding 20";
    for (key, options) in modes() {
        let verified = if key.is_some() { 100 } else { 0 };
        let ours = Reflecting::with_key("127.0.0.1", HostClock::System, key);
        let options: Vec<&str> = options.iter().map(String::as_str).chain(asked.split_whitespace()).collect();
        let found = measured_by_sender(&program, &ours, &options);
        assert_eq!(found["packets_received"], 100, "{found}");
        assert_eq!(found["access_report"]["outcome"], "acknowledged", "{found}");
        let measurements = &found["measurements"];
        let validation = &measurements["tlv_validation"];
        assert_eq!(
            (&validation["evaluated_replies"], &validation["hmac"]["verified"]),
            (&100.into(), &verified.into())
        );
        for (flag, count) in validation["flags"].as_object().unwrap() {
            assert_eq!(count, 0, "{flag}: {validation}");
        }
        for kind in ["1", "2", "3", "4", "5", "7"] {
            assert_eq!(validation["by_type"][kind]["observed"], 100, "{kind}: {validation}");
        }
        let counted = &measurements["direct_measurement"];
        assert_eq!((&counted["reflector_received"], &counted["reverse_missing"]), (&99.into(), &0.into()), "{found}");
        let (matched, unmatched) = (&measurements["follow_up"]["matched"], &measurements["follow_up"]["unmatched"]);
        assert_eq!((matched, unmatched), (&99.into(), &0.into()), "{found}");
    }
}
