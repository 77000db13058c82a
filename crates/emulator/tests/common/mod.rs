//! An emulated link between two hosts.

use kumade_emulator::{DirectionConfig, Engine, PortSpec};
use kumade_link::LinkConfig;
use kumade_link::queue::{Discipline, QueueConfig, QueueLimit};
use kumade_middlebox::FilterRule;
use kumade_netns_testbed::VethHosts;

/// Joins the hosts by this link, in both directions.
pub fn emulate(hosts: &VethHosts, directions: [DirectionConfig; 2]) -> Engine {
    let ports = VethHosts::MIDDLE_INTERFACES.map(|name| PortSpec::Interface(name.into()));
    hosts.middle.run(|| Engine::start(ports, directions, Default::default())).unwrap().unwrap()
}

/// A link that changes nothing.
pub fn config() -> DirectionConfig {
    with_link(LinkConfig::default())
}

pub fn with_link(link: LinkConfig) -> DirectionConfig {
    with(link, Vec::new())
}

pub fn with(link: LinkConfig, rules: Vec<FilterRule>) -> DirectionConfig {
    let queue = QueueConfig { limit: QueueLimit::Bytes(1_500_000), discipline: Discipline::default() };
    DirectionConfig::new(link, queue, rules).unwrap()
}
