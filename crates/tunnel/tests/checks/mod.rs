//! What must hold whatever a tunnel's file says: for the fuzzer, and for the test that replays its finds.

#[path = "../../../../fuzz/edited.rs"]
mod edited;

use edited::edited;
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_tunnel::{EndSettings, FileOptions, TunnelEnd, TunnelFile};
use std::net::{Ipv4Addr, SocketAddr};

/// Of each end, with and without packets.
const FILES: [&str; 3] = [
    r#"[tunnel]
name = "office"
listen = "443"
key = "tunnel.key"
preshared-key = "both.key"
addresses = ["10.77.0.1/24", "fd77::1/64"]
carrier = "rake"
device = "kumade1"
mtu = 1400
allow = ["10.2.0.0/16:22", "db.example:5432"]
prometheus = "9272"
on-event = "logger $KUMADE_EVENT"

[tuning]
min-rto = "40ms"
max-rto = "2s"
send-buffer = "256kb"

[[peer]]
name = "laptop"
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
networks = ["10.77.0.2", "fd77::2"]

[[peer]]
name = "branch"
public-key = "75d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
networks = ["10.77.0.3", "10.3.0.0/16"]
"#,
    r#"[tunnel]
connect = "host.example:443"
key = "tunnel.key"
addresses = ["10.77.0.2/24"]
carrier = "relay"
connections = 8
congestion-control = "bbr"
relay-from = ["10.5.0.0/24"]

[[peer]]
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
networks = ["0.0.0.0/0", "192.0.2.0/24"]
"#,
    r#"[tunnel]
connect = "192.0.2.1"
key = "tunnel.key"
forwards = ["8080:127.0.0.1:80", "[::1]:2222:build.example:22"]

[[peer]]
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
"#,
];

/// The file that the first byte names, edited by the rest.
pub fn configurations(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = edited(FILES[usize::from(*first) % FILES.len()], rest);
    let file = match TunnelFile::from_toml(&text, "tunnel.toml", &FileOptions::default()) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(file.settings.unchangeable_since(&file.settings), None);
    let end = match &file.settings.end {
        EndSettings::Listen(address) => TunnelEnd::Listen(*address),
        EndSettings::Connect(_) => TunnelEnd::Connect(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 443)).into()),
    };
    let config = file.settings.to_config(PrivateKey::from_bytes([7; 32]), PresharedKey::default(), end);
    match config.validate() {
        Ok(()) => drop(config.network_routes()),
        Err(error) => assert!(file.locate(&error.into()).is_some_and(|located| located.line.is_some())),
    }
}
