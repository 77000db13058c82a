use crate::config::BondedConfig;
use crate::policy_routes::{KeptRoutes, RouteError};
use ipnet::IpNet;
use kumade_daemon::{Journal, ValidMarks};
use kumade_net::interface;
use kumade_net::nftables::{Chain, Hook, InstalledTable, Rule, Statement, Table};
use kumade_net::policy_routing::{DeviceRoute, NetworkRoute};
use kumade_units::{Span, Time};

/// The addresses of a TUN device and the routes through it, which stay what they are whatever becomes of the device: the kernel
/// drops routes and IPv6 addresses when somebody takes it down.
#[derive(Debug)]
pub(crate) struct DeviceRoutes {
    device: String,
    addresses: Vec<IpNet>,
    next_address_check: Time,
    own_tables: Option<KeptRoutes<NetworkRoute>>,
    main_table: Option<KeptRoutes<DeviceRoute>>,
    _guard: Option<DeviceGuard>,
}

/// What protects a host all of whose traffic goes through a device.
#[derive(Debug)]
struct DeviceGuard {
    // In the order in which they go.
    _table: InstalledTable,
    _valid_marks: Option<ValidMarks>,
}

const ADDRESS_CHECK_INTERVAL: Span = Span::from_secs(1);
/// That of `raw` (nft(8), "priority"): before connection tracking.
const RAW_PRIORITY: i32 = -300;

impl DeviceRoutes {
    /// Once the device is there.
    pub(crate) fn install(config: &BondedConfig, now: Time) -> Result<Self, RouteError> {
        let BondedConfig { device, addresses, network_routes, directory, .. } = config;
        for address in addresses {
            interface::add_address(device, *address)?;
        }
        let networks = config.remotes.iter().flat_map(|remote| &remote.networks);
        let in_main = networks.filter(|network| !network_routes.iter().any(|route| route.network == **network));
        let route = |network: &IpNet| DeviceRoute {
            network: *network,
            interface: device.clone(),
            is_from_address: addresses.iter().any(|own| own.trunc() == *network),
        };
        let main_table = KeptRoutes::install(in_main.map(route).collect(), None, directory)?;
        let guard = network_routes.first().and_then(|route| DeviceGuard::install(config, route.excluded_mark));
        let what = "a tunnel takes traffic for all other networks, or for those around its far end,";
        let own_tables = KeptRoutes::install(network_routes.clone(), Some(("tunnel-networks", what)), directory)?;
        Ok(DeviceRoutes {
            device: device.clone(),
            addresses: addresses.clone(),
            next_address_check: now + ADDRESS_CHECK_INTERVAL,
            own_tables,
            main_table,
            _guard: guard,
        })
    }

    /// Now and then, puts back what is gone. To be called at any time.
    pub(crate) fn restore_if_due(&mut self, now: Time) {
        if now >= self.next_address_check {
            self.next_address_check = now + ADDRESS_CHECK_INTERVAL;
            for address in &self.addresses {
                if interface::add_address(&self.device, *address).is_ok() {
                    tracing::warn!("gave {} its address {address} again, which was gone", self.device);
                }
            }
        }
        self.own_tables.iter_mut().for_each(|routes| routes.restore_if_due(now));
        self.main_table.iter_mut().for_each(|routes| routes.restore_if_due(now));
    }
}

impl DeviceGuard {
    fn install(config: &BondedConfig, mark: u32) -> Option<Self> {
        let hint = "what strict reverse path filtering (rp_filter=1) takes for forged gets lost, and neighbours reach the \
            addresses of the tunnel";
        let table = InstalledTable::install(&guard_rules(&config.device, &config.addresses, mark));
        let table = table.inspect_err(|error| tracing::warn!("{error}; without it, {hint}")).ok()?;
        let valid_marks = ValidMarks::install(&Journal::new(config.directory.clone()));
        let valid_marks = valid_marks.inspect_err(|error| tracing::warn!("{error}; without it, {hint}"));
        Some(DeviceGuard { _table: table, _valid_marks: valid_marks.ok().flatten() })
    }
}

/// What arrives by other interfaces reaches no address of the device: a neighbour that finds which one this host has there
/// could go on to infer what its connections are, and inject into them (CVE-2019-14899). And what arrives for this host is
/// judged by the main table, where reverse path filtering asks by which interface its source would be reached.
fn guard_rules(device: &str, addresses: &[IpNet], mark: u32) -> Table {
    let accept = |statement| Rule(vec![statement, Statement::Accept]);
    let host = |address: &IpNet| IpNet::from(address.addr());
    let mut rules =
        vec![accept(Statement::InputInterface(device.to_owned())), accept(Statement::InputInterface("lo".to_owned()))];
    rules.extend(addresses.iter().map(|own| Rule(vec![Statement::Destination(host(own)), Statement::Drop])));
    rules.push(accept(Statement::ToOtherHost));
    rules.push(Rule(vec![Statement::SetMark(mark)]));
    let arriving = Chain { name: "arriving".into(), hook: Some(Hook::Prerouting(RAW_PRIORITY)), rules };
    Table {
        name: Table::name_with_interface("kumade-tunnel", device),
        counters: Vec::new(),
        flow_lists: Vec::new(),
        chains: vec![arriving],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_elsewhere_reaches_no_address_of_the_device() {
        let addresses = ["10.77.0.2/24", "fd77::2/64"].map(|text| text.parse().unwrap());
        let expected = "table inet kumade-tunnel-tunnel_0 {\n\tflags owner\n\tchain arriving {\n\
            \t\ttype filter hook prerouting priority -300; policy accept;\n\
            \t\tiifname \"tunnel.0\" accept\n\t\tiifname \"lo\" accept\n\
            \t\tip daddr 10.77.0.2/32 drop\n\t\tip6 daddr fd77::2/128 drop\n\
            \t\tfib daddr type unicast accept\n\t\tmeta mark set 7\n\t}\n}";
        assert_eq!(guard_rules("tunnel.0", &addresses, 7).to_string(), expected);
    }
}
