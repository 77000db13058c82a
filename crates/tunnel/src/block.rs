//! Nothing leaves a host but through a tunnel, or for its own networks, as long as an administrator wants it: routing rules of
//! the kernel, which need no process.

use crate::config::{DEFAULT_ROUTE_TABLES, FIRST_ROUTE_TABLE, OUTER_MARK};
use kumade_daemon::{InstalledRoutes, Journal, NamespaceLock, RuntimeDir};
use kumade_net::SetupError;
use kumade_net::interface::Family;
use kumade_net::policy_routing::{self, RoutingRule, RuleAction, RuleCondition};
use kumade_overlay_io::ROUTES_LOCK;

const MAIN_TABLE: u32 = 254;
const DNS_PORT: u16 = 53;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Before the rules of tunnels: what tunnels send themselves, and the DNS, which is not to ask a resolver in the LAN.
const FIRST_PRIORITY: u32 = FIRST_ROUTE_TABLE - 1;
/// After the rules of tunnels.
const LAST_PRIORITY: u32 = FIRST_ROUTE_TABLE + 64;

/// The rules, in the order in which they are added.
fn rules() -> Vec<RoutingRule> {
    let mut rules = Vec::new();
    for (family, default_table) in [Family::V4, Family::V6].into_iter().zip(DEFAULT_ROUTE_TABLES) {
        let mut add = |priority, condition, action| rules.push(RoutingRule { priority, family, condition, action });
        // What is to stop all comes first: meanwhile nothing leaks.
        add(LAST_PRIORITY, RuleCondition::Any, RuleAction::LookupWithoutDefault(MAIN_TABLE));
        add(LAST_PRIORITY, RuleCondition::Any, RuleAction::Refuse);
        add(FIRST_PRIORITY, RuleCondition::Mark(OUTER_MARK), RuleAction::Lookup(MAIN_TABLE));
        for protocol in [UDP, TCP] {
            add(FIRST_PRIORITY, RuleCondition::Port(protocol, DNS_PORT), RuleAction::Lookup(default_table));
        }
        for protocol in [UDP, TCP] {
            add(FIRST_PRIORITY, RuleCondition::Port(protocol, DNS_PORT), RuleAction::Refuse);
        }
    }
    rules
}

/// From now on and until [`unblock_traffic`] or a restart of the system, this host sends and forwards nothing of IPv4 and IPv6
/// but through a tunnel that takes all traffic, what such tunnels send themselves, and what is for networks to which the main
/// table has a route that is no default route. The DNS goes through the tunnel or nowhere.
///
/// # Errors
/// Not allowed.
pub fn block_traffic() -> Result<(), SetupError> {
    rules().iter().try_for_each(|rule| match rule.add() {
        Err(error) if rule.family == Family::V6 && is_unsupported(&error) => Ok(()),
        outcome => outcome,
    })
}

/// Ends that, and removes what killed tunnels have left, which may refuse packets as well.
///
/// # Errors
/// Not allowed.
pub fn unblock_traffic(directory: RuntimeDir) -> Result<(), SetupError> {
    InstalledRoutes::recover(&Journal::new(directory));
    // A service has its record in a directory of its own. No tunnel has these tables while this can be had.
    let is_unused = NamespaceLock::new(ROUTES_LOCK).is_ok();
    let tables = (FIRST_ROUTE_TABLE..LAST_PRIORITY).filter(|_| is_unused);
    for number in tables {
        policy_routing::remove_table(number, Family::V4)?;
        policy_routing::remove_table(number, Family::V6)?;
    }
    for family in [Family::V4, Family::V6] {
        policy_routing::remove_rules(FIRST_PRIORITY, family)?;
        policy_routing::remove_rules(LAST_PRIORITY, family)?;
    }
    Ok(())
}

fn is_unsupported(error: &SetupError) -> bool {
    Family::is_unsupported(error.io_error()) || error.io_error().kind() == std::io::ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tunnels_and_smaller_networks_are_left() {
        let v4: Vec<_> = rules().iter().take(7).map(ToString::to_string).collect();
        let expected = "ip -4 rule add priority 27553 table 254 suppress_prefixlength 0\n\
            ip -4 rule add priority 27553 unreachable\n\
            ip -4 rule add priority 27488 fwmark 0x6b61 table 254\n\
            ip -4 rule add priority 27488 ipproto 17 dport 53 table 27551\n\
            ip -4 rule add priority 27488 ipproto 6 dport 53 table 27551\n\
            ip -4 rule add priority 27488 ipproto 17 dport 53 unreachable\n\
            ip -4 rule add priority 27488 ipproto 6 dport 53 unreachable";
        assert_eq!(v4.join("\n"), expected);
    }
}
