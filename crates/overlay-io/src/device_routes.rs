use crate::config::BondedConfig;
use crate::policy_routes::{KeptRoutes, RouteError};
use crate::restore_schedule::RestoreSchedule;
use ipnet::IpNet;
use kumade_daemon::{ChangedSetting, Journal};
use kumade_net::nftables::{Chain, Hook, InstalledTable, Rule, Statement, Table};
use kumade_net::policy_routing::{DeviceRoute, NetworkRoute};
use kumade_net::{SetupError, clock, interface};
use kumade_units::Time;

/// The addresses of a TUN device and the routes through it, which stay what they are whatever becomes of the device: the kernel
/// drops routes and IPv6 addresses when somebody takes it down.
#[derive(Debug)]
pub(crate) struct DeviceRoutes {
    device: String,
    addresses: Vec<IpNet>,
    address_schedule: RestoreSchedule,
    own_tables: Option<KeptRoutes<NetworkRoute>>,
    main_table: Option<KeptRoutes<DeviceRoute>>,
    arrival_marks: Option<ArrivalMarks>,
}

/// Packet rules for what arrives.
#[derive(Debug)]
struct ArrivalMarks {
    rules: Table,
    // In the order in which they go.
    table: InstalledTable,
    _valid_marks: Option<ChangedSetting>,
}

/// The name of what one tunnel in a network namespace has at a time: the routing tables of [`BondedConfig::network_routes`].
pub const ROUTES_LOCK: &str = "tunnel-networks";
/// That of `raw` (nft(8), "priority"): before connection tracking.
const RAW_PRIORITY: i32 = -300;

impl DeviceRoutes {
    /// Once the device is there.
    pub(crate) fn install(config: &BondedConfig) -> Result<Self, RouteError> {
        let mut routes = DeviceRoutes {
            device: config.device.clone(),
            addresses: Vec::new(),
            address_schedule: RestoreSchedule::new(clock::monotonic()),
            own_tables: None,
            main_table: None,
            arrival_marks: None,
        };
        routes.replace(config)?;
        Ok(routes)
    }

    /// Has the addresses and routes of these settings, of the same device. Those that are there already stay as they are.
    ///
    /// # Errors
    /// The system refuses one: some are there then.
    pub(crate) fn replace(&mut self, config: &BondedConfig) -> Result<(), RouteError> {
        let BondedConfig { device, addresses, network_routes, directory, .. } = config;
        for address in self.addresses.extract_if(.., |address| !addresses.contains(address)) {
            interface::remove_address(device, address)?;
        }
        for address in addresses {
            if !self.addresses.contains(address) {
                interface::add_address(device, *address)?;
                self.addresses.push(*address);
            }
        }
        KeptRoutes::replace(&mut self.main_table, main_table_routes(config), None, directory)?;
        ArrivalMarks::replace(&mut self.arrival_marks, config);
        let what = "a tunnel takes traffic for all other networks, or for those around its far end,";
        KeptRoutes::replace(&mut self.own_tables, network_routes.clone(), Some((ROUTES_LOCK, what)), directory)
    }

    /// Interfaces, addresses or routes have changed.
    pub(crate) fn record_change(&mut self) {
        self.address_schedule.record_change();
        self.own_tables.iter_mut().for_each(KeptRoutes::record_change);
        self.main_table.iter_mut().for_each(KeptRoutes::record_change);
    }

    /// When to [look](Self::restore_if_due).
    pub(crate) fn deadline(&self) -> Option<Time> {
        let own_tables = self.own_tables.as_ref().and_then(KeptRoutes::deadline);
        let main_table = self.main_table.as_ref().and_then(KeptRoutes::deadline);
        self.address_schedule.deadline(false).into_iter().chain(own_tables).chain(main_table).min()
    }

    /// Puts back what is gone. To be called at any time.
    pub(crate) fn restore_if_due(&mut self, now: Time) {
        if self.address_schedule.is_due(false, now) {
            self.restore_addresses();
        }
        self.own_tables.iter_mut().for_each(|routes| routes.restore_if_due(now));
        self.main_table.iter_mut().for_each(|routes| routes.restore_if_due(now));
    }

    /// At once: the device is a new one.
    pub(crate) fn restore(&mut self) {
        self.restore_addresses();
        self.own_tables.iter_mut().for_each(KeptRoutes::restore);
        self.main_table.iter_mut().for_each(KeptRoutes::restore);
    }

    fn restore_addresses(&self) {
        for address in &self.addresses {
            if interface::add_address(&self.device, *address).is_ok() {
                tracing::warn!("gave {} its address {address} again, which was gone", self.device);
            }
        }
    }
}

/// The routes of networks that have none in a table of their own.
fn main_table_routes(config: &BondedConfig) -> Vec<DeviceRoute> {
    let BondedConfig { device, addresses, network_routes, .. } = config;
    let networks = config.remotes.iter().flat_map(|remote| &remote.networks);
    let in_main = networks.filter(|network| !network_routes.iter().any(|route| route.network == **network));
    let route = |network: &IpNet| DeviceRoute {
        network: *network,
        interface: device.clone(),
        is_from_address: addresses.iter().any(|own| own.trunc() == *network),
    };
    in_main.map(route).collect()
}

impl ArrivalMarks {
    /// Has the rules of these settings in place of those that there are, at one instant.
    fn replace(kept: &mut Option<Self>, config: &BondedConfig) {
        let Some(rules) = arrival_rules(config) else {
            *kept = None;
            return;
        };
        let hint = "what reverse path filtering (rp_filter) takes for forged gets lost, and neighbours reach the addresses of a \
            tunnel that takes all traffic";
        let warn = |error: &SetupError| tracing::warn!("{error}; without it, {hint}");
        if let Some(kept) = kept {
            if kept.table.change(&kept.rules, &rules).inspect_err(warn).is_ok() {
                kept.rules = rules;
            }
            return;
        }
        let Ok(table) = InstalledTable::install(&rules).inspect_err(warn) else { return };
        let valid_marks = ChangedSetting::valid_marks(&Journal::new(config.directory.clone())).inspect_err(warn);
        *kept = Some(ArrivalMarks { rules, table, _valid_marks: valid_marks.ok().flatten() });
    }
}

/// What arrives for this host gets the mark of what leaves the other way, so that reverse path filtering (RFC 3704), which asks
/// by which interface its source would be reached, follows the same routes. None where nothing is routed by marks.
fn arrival_rules(config: &BondedConfig) -> Option<Table> {
    let accept = |statement| Rule(vec![statement, Statement::Accept]);
    let mut rules = Vec::new();
    if let Some(route) = config.network_routes.first() {
        // All traffic of the host goes through the device. Its addresses there are nobody else's business: a neighbour that
        // finds one could go on to infer what this host's connections are, and inject into them (CVE-2019-14899).
        let host = |address: &IpNet| IpNet::from(address.addr());
        rules.push(accept(Statement::InputInterface(config.device.clone())));
        rules.push(accept(Statement::InputInterface("lo".to_owned())));
        rules.extend(config.addresses.iter().map(|own| Rule(vec![Statement::Destination(host(own)), Statement::Drop])));
        rules.push(accept(Statement::ToOtherHost));
        rules.push(Rule(vec![Statement::SetMark(route.excluded_mark)]));
    } else {
        let routes =
            config.transports.datagrams().map(|datagrams| &datagrams.routes).filter(|routes| !routes.is_empty())?;
        rules.push(accept(Statement::ToOtherHost));
        let mut marks: Vec<_> = routes.iter().map(|route| (route.interface.clone(), route.number)).collect();
        marks.dedup();
        let mark = |(interface, mark)| Rule(vec![Statement::InputInterface(interface), Statement::SetMark(mark)]);
        rules.extend(marks.into_iter().map(mark));
    }
    let arriving = Chain { name: "arriving".into(), hook: Some(Hook::Prerouting(RAW_PRIORITY)), rules };
    Some(Table {
        name: Table::name_with_interface("kumade", &config.device),
        counters: Vec::new(),
        flow_lists: Vec::new(),
        chains: vec![arriving],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DatagramConfig, OuterTransportConfig};
    use crate::outer_dscp::OuterDscp;
    use kumade_daemon::RuntimeDir;
    use kumade_multipath::{PathPolicy, UnorderedFlows};
    use kumade_net::interface::Family;
    use kumade_net::policy_routing::MarkedRoute;
    use kumade_noise_session::PrivateKey;

    fn config(network_routes: Vec<NetworkRoute>, routes: Vec<MarkedRoute>) -> BondedConfig {
        BondedConfig {
            device: "tunnel.0".into(),
            mtu: None,
            addresses: ["10.77.0.2/24", "fd77::2/64"].map(|text| text.parse().unwrap()).into(),
            identity: PrivateKey::from_bytes([1; 32]),
            transports: OuterTransportConfig::Udp(DatagramConfig {
                port: 0,
                threads: 1,
                paths: Vec::new(),
                routes,
                dscp: OuterDscp::default(),
            }),
            policy: PathPolicy::Weighted,
            unordered_flows: UnorderedFlows::default(),
            remotes: Vec::new(),
            network_routes,
            directory: RuntimeDir::from_path(std::path::PathBuf::from("unused")),
        }
    }

    fn shown(config: &BondedConfig) -> Option<String> {
        Some(arrival_rules(config)?.chains[0].to_string())
    }

    const HEAD: &str = "\tchain arriving {\n\t\ttype filter hook prerouting priority -300; policy accept;\n";

    #[test]
    fn what_arrives_elsewhere_reaches_no_address_of_a_device_that_takes_all_traffic() {
        let network = "0.0.0.0/0".parse().unwrap();
        let route = NetworkRoute { number: 9, network, excluded_mark: 7, interface: "tunnel.0".into() };
        let rules = "\t\tiifname \"tunnel.0\" accept\n\t\tiifname \"lo\" accept\n\
            \t\tip daddr 10.77.0.2/32 drop\n\t\tip6 daddr fd77::2/128 drop\n\
            \t\tfib daddr type unicast accept\n\t\tmeta mark set 7\n\t}\n";
        assert_eq!(shown(&config(vec![route], Vec::new())), Some(format!("{HEAD}{rules}")));
    }

    #[test]
    fn what_arrives_by_a_path_is_filtered_by_the_routes_of_that_path() {
        let route = |family, number, interface: &str| MarkedRoute {
            number,
            family,
            interface: interface.into(),
            gateway: None,
        };
        let routes = vec![route(Family::V4, 8, "wan1"), route(Family::V6, 8, "wan1"), route(Family::V4, 9, "wan2")];
        let rules = "\t\tfib daddr type unicast accept\n\t\tiifname \"wan1\" meta mark set 8\n\
            \t\tiifname \"wan2\" meta mark set 9\n\t}\n";
        assert_eq!(shown(&config(Vec::new(), routes)), Some(format!("{HEAD}{rules}")));
        assert_eq!(shown(&config(Vec::new(), Vec::new())), None);
    }
}
