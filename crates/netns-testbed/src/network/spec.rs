use super::error::NetworkError;
use kumade_link::queue::QueueConfig;
use kumade_link::{CrossConfig, LinkConfig, Medium, TokenBucket};
use kumade_packet::Ecn;
use kumade_units::{Direction, Span};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host to be built.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSpec {
    /// What [`Network::host`](crate::Network::host) finds it by.
    pub name: String,
    /// Its IPv4 address; all others are reached through its one device.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, if it has one.
    pub v6: Option<Ipv6Addr>,
    /// A second IPv4 address, if it has one.
    pub second_v4: Option<Ipv4Addr>,
    /// What this host's ECN-capable packets are sent as, where that is not what its kernel has: ECT(1) makes an L4S sender (RFC 9331) of
    /// a host of Linux, which knows ECT(0) only.
    pub ect: Option<Ecn>,
    /// Access links between a left host and the bottleneck, the one at the host first. Right hosts have none.
    pub access: Vec<AccessSpec>,
}

/// A link between one host and the bottleneck, the same in both directions, with the cross traffic that it carries towards
/// the bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessSpec {
    /// The link.
    pub link: LinkConfig,
    /// Its cross traffic, which begins with the network, whatever its `start` says.
    pub cross_traffic: Option<CrossConfig>,
}

/// A network to be built: hosts left and right of one bottleneck.
#[derive(Debug, Clone)]
pub struct NetworkSpec {
    /// At least one. The first one measures: packets of the others count as cross traffic.
    pub left: Vec<HostSpec>,
    /// At least one; the first one is measured against.
    pub right: Vec<HostSpec>,
    /// The bottleneck from left to right.
    pub up: LinkConfig,
    /// Its queue, in place of tail drop; flows are told apart by addresses, protocol and ports.
    pub up_queue: Option<QueueConfig>,
    /// A downstream hop behind it, with tail drop.
    pub up_second_hop: Option<LinkConfig>,
    /// The bottleneck from right to left.
    pub down: LinkConfig,
    /// Its queue, as [`up_queue`](Self::up_queue).
    pub down_queue: Option<QueueConfig>,
    /// A downstream hop behind that one, with tail drop.
    pub down_second_hop: Option<LinkConfig>,
}

impl NetworkSpec {
    /// The minimum delay of a link: packets are held back so that they can be ordered by their stamps, and they are read
    /// with the lateness of the scheduler.
    pub const MIN_DELAY: Span = Span::from_micros(200);

    /// One host on each side, `a` and `b`, with the same link both ways.
    pub fn host_pair(link: LinkConfig) -> Self {
        NetworkSpec {
            left: vec![HostSpec::with_number("a", 1)],
            right: vec![HostSpec::with_number("b", 2)],
            up: link.clone(),
            up_queue: None,
            up_second_hop: None,
            down: link,
            down_queue: None,
            down_second_hop: None,
        }
    }

    /// The links of one direction, in the order in which packets pass them: the bottleneck, and the downstream hop.
    pub(super) fn links(&self, direction: Direction) -> impl Iterator<Item = &LinkConfig> {
        let (link, downstream_hop) = match direction {
            Direction::Up => (&self.up, &self.up_second_hop),
            Direction::Down => (&self.down, &self.down_second_hop),
        };
        std::iter::once(link).chain(downstream_hop)
    }

    pub(super) fn check(&self) -> Result<(), NetworkError> {
        let refuse = |why: String| Err(NetworkError::Spec(why));
        if self.left.is_empty() || self.right.is_empty() {
            return refuse("each side needs a host".into());
        }
        let hosts: Vec<_> = self.left.iter().chain(&self.right).collect();
        for (index, host) in hosts.iter().enumerate() {
            let twin = hosts[..index].iter().find(|other| {
                let v4 = |spec: &HostSpec| [Some(spec.v4), spec.second_v4];
                let shares_v4 = v4(other).iter().flatten().any(|address| v4(host).contains(&Some(*address)));
                other.name == host.name || shares_v4 || host.v6.is_some() && other.v6 == host.v6
            });
            if let Some(twin) = twin {
                return refuse(format!("the hosts {} and {} share a name or an address", twin.name, host.name));
            }
        }
        if let Some(host) = self.right.iter().find(|host| !host.access.is_empty()) {
            return refuse(format!("{} is on the right, where hosts have no access links", host.name));
        }
        let directions = [(Direction::Up, "up"), (Direction::Down, "down")];
        let named = |(direction, name)| self.links(direction).map(move |link| (link, name));
        for (link, name) in directions.into_iter().flat_map(named) {
            if link.delay < Self::MIN_DELAY {
                return refuse(format!("the delay {name} is {}, give it at least {}", link.delay, Self::MIN_DELAY));
            }
        }
        Ok(())
    }
}

impl HostSpec {
    /// A host with the addresses 10.77.0.`number` and fd77::`number`.
    pub fn with_number(name: &str, number: u8) -> Self {
        let v6 = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number.into());
        HostSpec {
            name: name.into(),
            v4: Ipv4Addr::new(10, 77, 0, number),
            v6: Some(v6),
            second_v4: None,
            ect: None,
            access: Vec::new(),
        }
    }
}

pub(super) fn token_bucket(link: &LinkConfig) -> Option<TokenBucket> {
    match link.medium {
        Some(Medium::TokenBucket(bucket)) => Some(bucket),
        _ => None,
    }
}
