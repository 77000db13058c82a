use kumade_net::namespace::Namespace;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host as built.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// A second IPv4 address, if it has one.
    pub second_v4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// Where its programs run.
    pub namespace: Namespace,
}

impl Host {
    /// The name of every host's device.
    pub const DEVICE: &'static str = "kumade0";
}
