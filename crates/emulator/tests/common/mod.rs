//! Two hosts, and the bridge's own namespace between them.

#![allow(dead_code, reason = "each test file uses its own part")]

use emulator::{DirectionConfig, Engine, PortSpec};
use link::LinkConfig;
use link::queue::{Discipline, Limit, QueueConfig};
use net::interface;
use net::namespace::Namespace;
use testnet::eventually;

/// ```text
/// left ══ veth ══ middle: one, two ══ veth ══ right
/// ```
pub struct Hosts {
    pub left: Namespace,
    pub middle: Namespace,
    pub right: Namespace,
}

/// The interface of either host.
pub const DEVICE: &str = "host";

impl Hosts {
    /// With offloads as the kernel has them, on.
    pub fn new(mtu: u16) -> Self {
        let hosts = Hosts {
            left: Namespace::new().unwrap(),
            middle: Namespace::new().unwrap(),
            right: Namespace::new().unwrap(),
        };
        let mtu = mtu.to_string();
        for (host, number, name) in [(&hosts.left, 1, "one"), (&hosts.right, 2, "two")] {
            let path = hosts.middle.path();
            call(host, &["link", "add", DEVICE, "type", "veth", "peer", "name", name, "netns", &path]);
            call(host, &["addr", "add", &format!("10.79.0.{number}/24"), "dev", DEVICE]);
            call(host, &["-6", "addr", "add", &format!("fd79::{number}/64"), "dev", DEVICE, "nodad"]);
            for (inside, device) in [(host, DEVICE), (&hosts.middle, name)] {
                call(inside, &["link", "set", device, "mtu", &mtu]);
                inside.run(|| interface::up(device)).unwrap().unwrap();
            }
        }
        // The kernel drops what is sent before it has seen that the other end of the cable is up.
        for host in [&hosts.left, &hosts.right] {
            assert!(eventually(|| call(host, &["-o", "link", "show", DEVICE]).contains("state UP")));
        }
        hosts
    }

    pub fn bridge(&self, directions: [DirectionConfig; 2]) -> Engine {
        let ports = ["one", "two"].map(|name| PortSpec::Interface(name.into()));
        self.middle.run(|| Engine::start(ports, directions)).unwrap().unwrap()
    }
}

/// Runs `ip` with these arguments in a namespace; returns what it prints.
pub fn call(inside: &Namespace, arguments: &[&str]) -> String {
    let output = inside.command("ip").args(arguments).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A link that changes nothing.
pub fn config() -> DirectionConfig {
    with_link(LinkConfig::default())
}

pub fn with_link(link: LinkConfig) -> DirectionConfig {
    let queue = QueueConfig { limit: Limit::Bytes(1_500_000), discipline: Discipline::default() };
    DirectionConfig { link, queue, rules: None }
}
