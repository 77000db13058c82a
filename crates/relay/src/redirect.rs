use ipnet::IpNet;
use kumade_net::nftables::{Chain, Hook, Rule, Statement, Table};
use std::net::SocketAddr;

/// Connections of local programs, and of hosts that are named, that are relayed without knowing it: those to some networks
/// whose packets would leave through the tunnel's device. Packet rules lead their first packets to a port of this end; they go
/// when this end does, however it ends.
#[derive(Debug, Clone)]
pub struct ConnectionRedirect {
    /// What goes to these networks is relayed, …
    pub networks: Vec<IpNet>,
    /// … if routes lead through this interface, the tunnel's: not what goes to this host itself, to neighbours or to the far
    /// end, be these in the networks or not.
    pub device: String,
    /// Which other hosts' connections are relayed as well, where they arrive at this host: those from these networks. No
    /// others, since the far end takes whatever is relayed for that of this host's key.
    pub sources: Vec<IpNet>,
}

/// Of destination NAT (nft(8), "priority").
const DESTINATION_NAT_PRIORITY: i32 = -100;
const TCP_PROTOCOL: u8 = 6;

impl ConnectionRedirect {
    /// The rules, for ports of both IP versions.
    pub(crate) fn packet_rules(&self, ports: &[SocketAddr]) -> Table {
        let routed = Statement::RoutedToInterface(self.device.clone());
        let from = |source: &IpNet| self.rules(ports, &[Statement::Source(*source), routed.clone()]);
        let arriving = self.sources.iter().flat_map(from).collect();
        let sent = self.rules(ports, &[Statement::OutputInterface(self.device.clone())]);
        let chain = |name: &str, hook, rules| Chain { name: name.into(), hook: Some(hook), rules };
        Table {
            name: Table::name_with_interface("kumade-relay", &self.device),
            counters: Vec::new(),
            flow_lists: Vec::new(),
            chains: vec![
                chain("arriving", Hook::PreroutingNat(DESTINATION_NAT_PRIORITY), arriving),
                chain("sent", Hook::OutputNat(DESTINATION_NAT_PRIORITY), sent),
            ],
        }
    }

    fn rules(&self, ports: &[SocketAddr], conditions: &[Statement]) -> Vec<Rule> {
        let redirected = self.networks.iter().filter_map(|network| {
            let port = ports.iter().find(|port| port.is_ipv4() == network.addr().is_ipv4())?.port();
            let is_possible = |condition: &Statement| match condition {
                Statement::Source(source) => source.addr().is_ipv4() == network.addr().is_ipv4(),
                _ => true,
            };
            if !conditions.iter().all(is_possible) {
                return None;
            }
            let (is_tcp, is_inside) = (Statement::Protocol(TCP_PROTOCOL), Statement::Destination(*network));
            let target = [Statement::Redirect(port)];
            Some(Rule([is_tcp, is_inside].iter().chain(conditions).chain(&target).cloned().collect()))
        });
        redirected.collect()
    }

    /// Whether a connection to this address, accepted at `port`, is one of these, and not one to the port itself.
    pub(crate) fn is_redirected(&self, destination: SocketAddr, port: SocketAddr) -> bool {
        destination != port && self.networks.iter().any(|network| network.contains(&destination.ip()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_take_what_would_enter_the_tunnel() {
        let redirect = ConnectionRedirect {
            networks: ["10.77.0.0/24", "::/0"].map(|network| network.parse().unwrap()).into(),
            device: "tunnel.0".into(),
            sources: ["192.0.2.0/24"].map(|network| network.parse().unwrap()).into(),
        };
        let ports = ["0.0.0.0:4000", "[::]:5000"].map(|address| address.parse().unwrap());
        let expected = "table inet kumade-relay-tunnel_0 {\n\tflags owner\n\tchain arriving {\n\
            \t\ttype nat hook prerouting priority -100; policy accept;\n\
            \t\tmeta l4proto 6 ip daddr 10.77.0.0/24 ip saddr 192.0.2.0/24 fib daddr oifname \"tunnel.0\" redirect to :4000\n\t}\n\
            \tchain sent {\n\
            \t\ttype nat hook output priority -100; policy accept;\n\
            \t\tmeta l4proto 6 ip daddr 10.77.0.0/24 oifname \"tunnel.0\" redirect to :4000\n\
            \t\tmeta l4proto 6 meta nfproto ipv6 oifname \"tunnel.0\" redirect to :5000\n\t}\n}";
        assert_eq!(redirect.packet_rules(&ports).to_string(), expected);
    }

    #[test]
    fn who_connects_to_the_port_itself_is_not_relayed() {
        let redirect = ConnectionRedirect {
            networks: vec!["0.0.0.0/0".parse().unwrap()],
            device: "tunnel".into(),
            sources: Vec::new(),
        };
        let [far, own, v6] = ["192.0.2.1:80", "127.0.0.1:4000", "[::1]:4000"].map(|text| text.parse().unwrap());
        assert!(
            redirect.is_redirected(far, own) && !redirect.is_redirected(own, own) && !redirect.is_redirected(v6, own)
        );
    }
}
