//! What must hold whatever a gateway's file says: for the fuzzer, and for the test that replays its finds.

#[path = "../../../../fuzz/edited.rs"]
mod edited;

use edited::edited;
use kumade_gateway::GatewayConfig;
use kumade_gateway::direct::DirectPlan;

/// Of each plane.
const FILES: [&str; 3] = [
    r#"[gateway]
name = "left"
prometheus = "9000"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24", "fd01::/64"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2", "fd09:1::2"]
weight = 32

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2"]
weight = 6
rate = "8mbit"

[[remote]]
name = "right"
networks = ["10.2.0.0/24"]

[[remote]]
name = "rest"
networks = ["0.0.0.0/0", "::/0"]
paths = ["one"]

[[translation]]
network = "10.1.0.0/24"
alias = "192.0.2.0/24"
path = "one"
"#,
    r#"[gateway]
name = "site"
plane = "bonded"

[bonded]
key = "gateway.key"
addresses = ["10.8.0.1/24"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2", "fd09:1::2"]

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2"]

[[remote]]
name = "far"
networks = ["10.2.0.0/24", "fd02::/64"]
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
addresses = ["192.0.2.1", "192.0.2.2"]
"#,
    r#"[gateway]
name = "site"

[sessions]
key = "gateway.key"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2"]

[[remote]]
name = "far"
networks = ["10.2.0.0/24"]
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
addresses = ["192.0.2.1"]
"#,
];

/// The file that the first byte names, edited by the rest.
pub fn configurations(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = edited(FILES[usize::from(*first) % FILES.len()], rest);
    let interfaces = ["lo", "lan", "path1", "path2"].map(String::from);
    match GatewayConfig::from_toml(&text, "site.toml", &interfaces) {
        Ok(config) => drop(DirectPlan::new(&config).to_string()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
