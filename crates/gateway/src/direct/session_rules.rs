//! Which aliases the flows of NAT sessions may have, as a configuration says: for flows that this gateway sends, and for those
//! that the gateway of a remote site sends it.

use crate::config::{AddressTranslation, GatewayConfig, GatewaySide, SessionsConfig};
use ipnet::IpNet;
use kumade_multipath::nat_session::{DividedRule, RestoredRule};
use kumade_packet::{Addresses, FlowKey, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many ways to divide a flow are tried.
const MAX_CANDIDATES: u128 = 64;

/// The ways to divide a flow to a remote site, by its place: where addresses are shared, each with others.
pub(super) fn candidate_rules(
    config: &GatewayConfig,
    remote: usize,
    flow: FlowKey,
) -> impl Iterator<Item = DividedRule> {
    let paths = &config.remotes[remote].paths;
    let pools: Vec<_> = paths.iter().map(|&path| (path, AddressPool::new(config, path, flow.addresses()))).collect();
    let count = pools.iter().map(|(_, pool)| pool.size()).max().unwrap_or(1).min(MAX_CANDIDATES);
    // Flows begin at different places, so that few find their first choice taken.
    let first = u128::from(flow.source.port()) + u128::from(flow.destination.port());
    (0..count).map(move |number| DividedRule {
        flow,
        // There are no more than 16 paths.
        aliases: pools.iter().map(|(path, pool)| (*path as u8, pool.alias(first + number))).collect(),
    })
}

/// Whether the gateway of a remote site, by its place, may have a flow given its addresses back so: the flow goes from a
/// host of that site to one behind this gateway, and arrives with addresses that translations have for these.
pub(super) fn is_permitted(
    config: &GatewayConfig,
    sessions: &SessionsConfig,
    remote: usize,
    rule: &RestoredRule,
) -> bool {
    let Addresses { source, destination } = rule.flow.addresses();
    let is_local =
        |address: IpAddr| config.locals.iter().flat_map(|local| &local.networks).any(contains_address(address));
    let is_transport = [protocol::TCP, protocol::UDP].contains(&rule.flow.protocol);
    let is_known = |address, alias, side| {
        alias == address || address_aliases(config, side, address).any(maps_to_alias(address, alias))
    };
    is_transport
        && find_remote(config, source) == Some(remote)
        && !is_local(source)
        && is_local(destination)
        && rule.arriving_flows().all(|arriving| {
            is_known(source, arriving.source.ip(), GatewaySide::Remote)
                && is_known(destination, arriving.destination.ip(), GatewaySide::Local)
                && !is_gateway_traffic(sessions, &arriving)
        })
}

/// Which remote site has an address, by its place.
fn find_remote(config: &GatewayConfig, address: IpAddr) -> Option<usize> {
    let networks = config.remotes.iter().enumerate();
    let networks = networks.flat_map(|(place, remote)| remote.networks.iter().map(move |network| (place, network)));
    let containing = networks.filter(|(_, network)| network.contains(&address));
    containing.max_by_key(|(_, network)| network.prefix_len()).map(|(place, _)| place)
}

/// Whether a flow would be taken for the messages of gateways themselves.
fn is_gateway_traffic(sessions: &SessionsConfig, flow: &FlowKey) -> bool {
    flow.protocol == protocol::UDP && [flow.source.port(), flow.destination.port()] == [sessions.port; 2]
}

/// Translations of an address, from wherever it is.
fn address_aliases(
    config: &GatewayConfig,
    side: GatewaySide,
    address: IpAddr,
) -> impl Iterator<Item = &AddressTranslation> {
    config.translations.iter().filter(move |one| one.side == side && one.network.contains(&address))
}

fn maps_to_alias(address: IpAddr, alias: IpAddr) -> impl Fn(&AddressTranslation) -> bool {
    move |translation| match translation.is_shared() {
        true => translation.alias.contains(&alias),
        false => translate_address(address, translation.alias) == alias,
    }
}

fn contains_address(address: IpAddr) -> impl Fn(&IpNet) -> bool {
    move |network| network.contains(&address)
}

/// The addresses that a flow may have on one path.
struct AddressPool {
    source: AddressRange,
    destination: AddressRange,
}

/// Addresses that follow each other.
struct AddressRange {
    first: IpAddr,
    size: u128,
}

impl AddressPool {
    fn new(config: &GatewayConfig, path: usize, own: Addresses) -> Self {
        let range = |side, address| {
            let translation = address_aliases(config, side, address).find(|one| one.path == Some(path));
            translation
                .map_or(AddressRange { first: address, size: 1 }, |translation| AddressRange::new(translation, address))
        };
        AddressPool {
            source: range(GatewaySide::Local, own.source),
            destination: range(GatewaySide::Remote, own.destination),
        }
    }

    fn size(&self) -> u128 {
        self.source.size.saturating_mul(self.destination.size)
    }

    fn alias(&self, number: u128) -> Addresses {
        let AddressPool { source, destination } = self;
        Addresses { source: source.get(number), destination: destination.get(number / source.size) }
    }
}

impl AddressRange {
    fn new(translation: &AddressTranslation, address: IpAddr) -> Self {
        let alias = translation.alias;
        if !translation.is_shared() {
            return AddressRange { first: translate_address(address, alias), size: 1 };
        }
        let bits = alias.max_prefix_len() - alias.prefix_len();
        AddressRange { first: alias.network(), size: 1 << bits.min(64) }
    }

    fn get(&self, number: u128) -> IpAddr {
        let offset = number % self.size;
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + offset as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + offset).into(),
        }
    }
}

/// The address of the same place in an alias, as rules move it.
fn translate_address(address: IpAddr, alias: IpNet) -> IpAddr {
    match (address, alias) {
        (IpAddr::V4(address), IpNet::V4(alias)) => {
            Ipv4Addr::from_bits(address.to_bits() & alias.hostmask().to_bits() | alias.network().to_bits()).into()
        }
        (IpAddr::V6(address), IpNet::V6(alias)) => {
            Ipv6Addr::from_bits(address.to_bits() & alias.hostmask().to_bits() | alias.network().to_bits()).into()
        }
        // An alias is of its network's IP version.
        (address, _) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEFT: &str = r#"
[gateway]
name = "left"
[sessions]
key = "key"
[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]
[[path]]
name = "one"
interface = "path1"
[[path]]
name = "two"
interface = "path2"
[[remote]]
name = "right"
networks = ["10.2.0.0/24"]
sessions = true
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcdef"
[[remote]]
name = "third"
networks = ["10.3.0.0/24"]
[[translation]]
network = "10.1.0.0/24"
alias = "198.51.100.0/30"
path = "two"
[[translation]]
network = "10.2.0.0/24"
alias = "203.0.113.0/24"
path = "two"
"#;

    fn read(text: &str) -> GatewayConfig {
        GatewayConfig::from_toml(text, "", &["lan", "path1", "path2"].map(String::from)).unwrap()
    }

    /// The gateway at the other end, with the same translations. It has another remote besides.
    fn right() -> GatewayConfig {
        let [here, there] = ["networks = [\"10.1.0.0/24\"]", "networks = [\"10.2.0.0/24\"]"];
        let swapped = LEFT.replace(here, "X").replace(there, here).replace('X', there);
        read(&swapped.replace("path = \"two\"\n", ""))
    }

    fn left_gateway() -> GatewayConfig {
        read(&LEFT.replace("[[remote]]\nname = \"third\"\nnetworks = [\"10.3.0.0/24\"]\n", ""))
    }

    fn flow(source: &str, destination: &str, protocol: u8) -> FlowKey {
        FlowKey { protocol, source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn each_candidate_has_another_of_the_shared_addresses_and_the_far_end_permits_it() {
        let (left, right) = (left_gateway(), right());
        let flow = flow("10.1.0.2:5000", "10.2.0.9:80", protocol::TCP);
        let rules: Vec<_> = candidate_rules(&left, 0, flow).collect();
        let mut sources: Vec<_> = rules.iter().map(|rule| rule.aliases[1].1.source.to_string()).collect();
        sources.sort();
        assert_eq!(sources, ["198.51.100.0", "198.51.100.1", "198.51.100.2", "198.51.100.3"]);
        for rule in rules {
            assert_eq!(rule.aliases[0], (0, flow.addresses()));
            assert_eq!(rule.aliases[1].1.destination, "203.0.113.9".parse::<IpAddr>().unwrap());
            assert!(is_permitted(&right, right.sessions.as_ref().unwrap(), 0, &rule.restored_rule()));
        }
    }

    #[test]
    fn what_the_configuration_does_not_have_is_refused() {
        let right = right();
        let permitted = |flow: FlowKey, source: &str, destination: &str| {
            let arriving =
                vec![Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }];
            is_permitted(&right, right.sessions.as_ref().unwrap(), 0, &RestoredRule { flow, arriving })
        };
        let good = flow("10.1.0.2:5000", "10.2.0.9:80", protocol::TCP);
        assert!(permitted(good, "198.51.100.3", "203.0.113.9"));
        assert!(permitted(good, "10.1.0.2", "203.0.113.9"));
        // An alias of another host, or none.
        assert!(!permitted(good, "198.51.100.3", "203.0.113.8"));
        assert!(!permitted(good, "198.51.100.4", "203.0.113.9"));
        // Of a local host, another remote's, nobody's; to a host that is not here.
        for source in ["10.2.0.2:1", "10.3.0.2:1", "192.0.2.1:1"] {
            assert!(!permitted(flow(source, "10.2.0.9:80", protocol::TCP), "198.51.100.3", "10.2.0.9"), "{source}");
        }
        assert!(!permitted(flow("10.1.0.2:1", "192.0.2.1:80", protocol::TCP), "198.51.100.3", "192.0.2.1"));
        assert!(!permitted(flow("10.1.0.2:1", "10.2.0.9:0", 47), "198.51.100.3", "10.2.0.9"));
        // Messages of the gateways themselves.
        assert!(!permitted(flow("10.1.0.2:7273", "10.2.0.9:7273", protocol::UDP), "198.51.100.3", "10.2.0.9"));
    }

    proptest! {
        #[test]
        fn moved_addresses_are_in_the_alias(address in any::<[u8; 4]>(), alias in any::<[u8; 4]>(), length in 0u8..=32) {
            let alias = IpNet::new(alias.into(), length).unwrap().trunc();
            let place = translate_address(address.into(), alias);
            prop_assert!(alias.contains(&place));
            prop_assert_eq!(translate_address(place, alias), place);
        }
    }
}
