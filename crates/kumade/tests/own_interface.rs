//! Shapers on the interfaces of the host that measures, and of the server.

use kumade_netns_testbed::{VethHosts, in_namespaces, run_ip};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// Ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Finding 1 of the review by a new user: there was no value, eight times of eight.
#[test]
fn a_shaper_on_the_own_interface_is_part_of_the_path() {
    in_namespaces("a_shaper_on_the_own_interface_is_part_of_the_path", || {
        let hosts = VethHosts::new(1500).unwrap();
        let (near, far) = (&hosts.left, &hosts.middle);
        run_ip(far, &["addr", "add", "10.79.0.3/24", "dev", VethHosts::MIDDLE_INTERFACES[0]]).unwrap();
        let tc = ["/usr/sbin/tc", "/sbin/tc"].into_iter().find(|path| Path::new(path).exists()).unwrap_or("tc");
        let shaped =
            [(near, VethHosts::DEVICE), (far, VethHosts::MIDDLE_INTERFACES[0])].iter().all(|(host, device)| {
                let tbf = ["qdisc", "add", "dev", device, "root", "tbf"];
                let bucket = ["rate", "20mbit", "burst", "10kb", "latency", "50ms"];
                host.command(tc).args(tbf).args(bucket).status().is_ok_and(|status| status.success())
            });
        if !shaped {
            println!("not tested: this system has no tc, or no TBF");
            return;
        }
        let program = assert_cmd::cargo::cargo_bin("kumade");
        let mut server = far.command(&program);
        let mut server = Ended(server.args(["serve"]).stderr(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listening on ")));
        let measured = near.command(&program).args(["measure", "10.79.0.3", "--json"]).output();
        let document: Value = serde_json::from_slice(&measured.unwrap().stdout).unwrap();
        for direction in ["up", "down"] {
            let (found, shaper) = (&document[direction], &document[direction]["capacity"]["shaper"]);
            // A busy machine may spoil the trains, and the reason then says so.
            let results = ["available_bits_per_second", "at_least_bits_per_second", "reason"];
            assert!(results.iter().any(|name| !found[name].is_null()), "{document}");
            if let Some(value) = found["available_bits_per_second"]["low"].as_u64() {
                assert!(value < 21_000_000, "{document}");
            }
            assert!(shaper.is_null() || shaper["at_sender"] == true, "{direction}: {document}");
            let mut warnings = found["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let is_warned = warnings.any(|warning| warning.contains("own interface"));
            assert!(shaper["at_sender"] == true || is_warned, "{direction}: {document}");
        }
    });
}
