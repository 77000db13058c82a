use ipnet::IpNet;
use net::nftables::{Chain, Hook, Rule, Statement, Table};
use std::net::SocketAddr;

/// Connections of local programs, and of hosts that this one forwards for, that are relayed without knowing it: those to some
/// networks. Packet rules lead their first packets to a port of this end; they go when this end does, however it ends.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// What goes to these networks is relayed.
    pub networks: Vec<IpNet>,
    /// But for what goes to these: this host's own addresses there.
    pub except: Vec<IpNet>,
    /// And for what arrives at this interface: from the tunnel itself.
    pub device: String,
}

/// Of destination NAT (nft(8), "priority").
const DESTINATION_NAT: i32 = -100;
const TCP: u8 = 6;

impl Redirect {
    /// The rules, for ports of both IP versions.
    pub(crate) fn table(&self, ports: &[SocketAddr]) -> Table {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let device: String = self.device.chars().map(|c| if is_word(c) { c } else { '_' }).collect();
        let from_tunnel = Rule(vec![Statement::Input(self.device.clone()), Statement::Return]);
        let arriving = [from_tunnel].into_iter().chain(self.rules(ports)).collect();
        let chain = |name: &str, hook, rules| Chain { name: name.into(), hook: Some(hook), rules };
        Table {
            name: format!("kumade-relay-{device}"),
            counters: Vec::new(),
            flows: Vec::new(),
            chains: vec![
                chain("arriving", Hook::PreroutingOfConnections(DESTINATION_NAT), arriving),
                chain("sent", Hook::OutputOfConnections(DESTINATION_NAT), self.rules(ports).collect()),
            ],
        }
    }

    fn rules(&self, ports: &[SocketAddr]) -> impl Iterator<Item = Rule> {
        let except = self.except.iter().map(|own| Rule(vec![Statement::Destination(*own), Statement::Return]));
        let redirected = self.networks.iter().filter_map(|network| {
            let port = ports.iter().find(|port| port.is_ipv4() == network.addr().is_ipv4())?.port();
            let statements = [Statement::Protocol(TCP), Statement::Destination(*network), Statement::Redirect(port)];
            Some(Rule(statements.to_vec()))
        });
        except.chain(redirected)
    }

    /// Whether a connection to this address is one of these, and not one to the port itself.
    pub(crate) fn is_for(&self, destination: SocketAddr) -> bool {
        let contains = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&destination.ip()));
        contains(&self.networks) && !contains(&self.except)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_leave_alone_what_comes_out_of_the_tunnel_and_what_is_for_this_host() {
        let networks = |list: &[&str]| list.iter().map(|network| network.parse().unwrap()).collect::<Vec<IpNet>>();
        let redirect = Redirect {
            networks: networks(&["10.77.0.0/24", "fd77::/64"]),
            except: networks(&["10.77.0.1/32"]),
            device: "tunnel.0".into(),
        };
        let ports = ["0.0.0.0:4000", "[::]:5000"].map(|address| address.parse().unwrap());
        let expected = "table inet kumade-relay-tunnel_0 {\n\tflags owner\n\tchain arriving {\n\
            \t\ttype nat hook prerouting priority -100; policy accept;\n\
            \t\tiifname \"tunnel.0\" return\n\
            \t\tip daddr 10.77.0.1/32 return\n\
            \t\tmeta l4proto 6 ip daddr 10.77.0.0/24 redirect to :4000\n\
            \t\tmeta l4proto 6 ip6 daddr fd77::/64 redirect to :5000\n\t}\n\tchain sent {\n\
            \t\ttype nat hook output priority -100; policy accept;\n\
            \t\tip daddr 10.77.0.1/32 return\n\
            \t\tmeta l4proto 6 ip daddr 10.77.0.0/24 redirect to :4000\n\
            \t\tmeta l4proto 6 ip6 daddr fd77::/64 redirect to :5000\n\t}\n}";
        assert_eq!(redirect.table(&ports).to_string(), expected);
        assert!(redirect.is_for("10.77.0.9:80".parse().unwrap()));
        assert!(
            !redirect.is_for("10.77.0.1:80".parse().unwrap()) && !redirect.is_for("127.0.0.1:4000".parse().unwrap())
        );
    }
}
