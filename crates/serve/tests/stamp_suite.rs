//! STAMP and its extensions (RFC 8762, 8972) with another implementation: stamp-suite 1.0.0.

use crate::common::reflecting::{Reflecting, delay_to, quick};
use crate::stamp::assert_sound;
use kumade_netns_testbed::eventually;
use kumade_serve::HostClock;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};

/// The other implementation, where `.ci/run` has installed it, or `STAMP_SUITE_ROOT` says that it is. Building it takes longer
/// than all other tests of this crate.
fn stamp_suite() -> Option<std::path::PathBuf> {
    let cached = || Some(std::path::Path::new(&std::env::var_os("HOME")?).join(".cache/kumade-stamp-suite"));
    let root = std::env::var_os("STAMP_SUITE_ROOT").map(Into::into).or_else(cached);
    let program = root.map(|root| root.join("bin/stamp-suite")).filter(|program| program.exists());
    if program.is_none() {
        let install = "cargo install --locked --version 1.0.0 --root ~/.cache/kumade-stamp-suite stamp-suite";
        eprintln!("SKIPPED: stamp-suite is not there: {install}");
    }
    program
}

/// Ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_implementation_agrees_as_reflector_and_as_sender() {
    let Some(program) = stamp_suite() else { return };
    let ours = Reflecting::start("127.0.0.1", HostClock::System);
    let port = ours.address.port().to_string();
    let output = Command::new(&program)
        .args(["-r", "127.0.0.1", "-p", &port, "-c", "100", "-d", "5", "--output-format", "json"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("\"packets_received\":100"), "{text}");
    for stateful in [&["--stateful-reflector"][..], &[]] {
        // At an address where no other test has ports.
        let host = Ipv4Addr::new(127, 3, 3, 4);
        let free = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap();
        let port = free.port().to_string();
        let child = Command::new(&program)
            .args(["-i", "-S", &host.to_string(), "-o", &port])
            .args(stateful)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _peer = Peer(child);
        // As the kernel lists it: proc_net(5).
        let listed = format!(" {:08X}:{:04X} ", u32::from_ne_bytes(host.octets()), free.port());
        let has_port = || std::fs::read_to_string("/proc/net/udp").unwrap().contains(&listed);
        assert!(eventually(has_port), "it takes its port");
        let delay = delay_to(&quick(free));
        assert_sound(&delay);
        assert_eq!(delay.round_trip_packets.unwrap().lost, 0);
    }
}
