//! How an address translator maps one port of this host towards several of the far end's, and what it lets in: RFC 4787, sections 4.1 and 5;
//! for TCP, RFC 5382, section 4.

use super::facts::MappingFacts;
use super::fisher::{LossCount, MAX_CHANCE, loss_p_value};
use crate::report::{NatFiltering, NatMapping};
use kumade_probe_train::PortProtocol;

/// How it maps; none where nothing was asked, or it is not known, then why.
pub(super) fn mapping(facts: &MappingFacts) -> (Option<NatMapping>, Option<String>) {
    if let Some(why) = &facts.failure {
        return (None, Some(format!("{}: the kind of address translation: {why}", facts.protocol)));
    }
    let [Some(first), Some(second), third] = facts.seen else { return (None, Some(unseen(facts))) };
    if first == second && first == facts.local {
        // Nobody translates.
        return (None, None);
    }
    let found = match third {
        _ if first != second => NatMapping::AddressAndPortDependent,
        None => NatMapping::NotAddressAndPortDependent,
        Some(third) if third == first => NatMapping::EndpointIndependent,
        Some(_) => NatMapping::AddressDependent,
    };
    let is_undecided = found == NatMapping::NotAddressAndPortDependent;
    (Some(found), is_undecided.then(|| undecided(facts)))
}

fn unseen(facts: &MappingFacts) -> String {
    let MappingFacts { protocol, seen, second_port, .. } = facts;
    let what = if *protocol == PortProtocol::Udp { "packet" } else { "connection" };
    match (seen[0], second_port) {
        (None, _) => format!(
            "{protocol}: the kind of address translation: the far end has not seen where this host's {what}s come from"
        ),
        (_, None) => {
            format!("{protocol}: the kind of address translation: the far end could not listen at a second port")
        }
        (_, Some(port)) => format!(
            "{protocol}: the kind of address translation: no {what} of this host arrived at the far end's second port, {port}: a \
             firewall drops it, or nothing forwards it; `kumade serve --ports` has the far end use ports that pass"
        ),
    }
}

fn undecided(facts: &MappingFacts) -> String {
    let protocol = facts.protocol;
    match facts.has_second_address {
        false => format!(
            "{protocol}: whether the translation depends on the address of the far end: a second address there would tell (`kumade serve \
             --second-address`)"
        ),
        true => format!(
            "{protocol}: whether the translation depends on the address of the far end: nothing arrived at its second address"
        ),
    }
}

/// What is let in that nobody inside has asked for; none where that is not known.
pub(super) fn filtering(facts: &MappingFacts) -> Option<NatFiltering> {
    let [port, address] = facts.unsolicited;
    let port = port?;
    match (port.arrived > 0, address) {
        (_, Some(address)) if address.arrived > 0 => Some(NatFiltering::EndpointIndependent),
        (true, None) => Some(NatFiltering::NotAddressAndPortDependent),
        (true, Some(address)) => address.is_filtered().then_some(NatFiltering::AddressDependent),
        (false, _) => port.is_filtered().then_some(NatFiltering::AddressAndPortDependent),
    }
}

impl super::facts::UnsolicitedFacts {
    /// Whether more of them are missing than chance explains.
    fn is_filtered(&self) -> bool {
        let unsolicited = LossCount { sent: self.sent, lost: self.sent - self.arrived.min(self.sent) };
        let solicited = LossCount {
            sent: self.solicited_sent,
            lost: self.solicited_sent - self.solicited_arrived.min(self.solicited_sent),
        };
        self.arrived == 0 && loss_p_value(unsolicited, solicited) <= MAX_CHANCE
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::UnsolicitedFacts;
    use super::*;
    use std::net::SocketAddr;

    const LOCAL: &str = "10.0.0.7:4000";

    fn facts(seen: [Option<&str>; 3]) -> MappingFacts {
        let seen = seen.map(|seen| seen.map(|seen| seen.parse::<SocketAddr>().unwrap()));
        let has_second_address = seen[2].is_some();
        MappingFacts {
            protocol: PortProtocol::Udp,
            local: LOCAL.parse().unwrap(),
            seen,
            second_port: Some(40_000),
            has_second_address,
            unsolicited: [None, None],
            failure: None,
        }
    }

    #[test]
    fn a_mapping_is_what_rfc_4787_calls_it_as_far_as_the_far_ends_ports_and_addresses_tell() {
        let [a, b, c] = ["192.0.2.1:4000", "192.0.2.1:1024", "192.0.2.1:1025"].map(Some);
        use NatMapping::{AddressAndPortDependent, AddressDependent, EndpointIndependent, NotAddressAndPortDependent};
        for (seen, expected) in [
            ([a, a, a], EndpointIndependent),
            ([a, a, b], AddressDependent),
            ([a, b, c], AddressAndPortDependent),
            ([a, b, None], AddressAndPortDependent),
            ([a, a, None], NotAddressAndPortDependent),
            // From another address of a pool.
            ([a, Some("192.0.2.2:4000"), None], AddressAndPortDependent),
        ] {
            let (found, unknown) = mapping(&facts(seen));
            assert_eq!(found, Some(expected), "{seen:?}");
            assert_eq!(unknown.is_some(), expected == NotAddressAndPortDependent, "{unknown:?}");
        }
        assert_eq!(mapping(&facts([Some(LOCAL), Some(LOCAL), None])), (None, None), "it is not translated");
    }

    #[test]
    fn what_could_not_be_looked_at_is_said_with_what_it_takes() {
        let seen = Some("192.0.2.1:4000");
        for (facts, expected) in [
            (facts([seen, None, None]), "second port, 40000: a firewall drops it"),
            (facts([seen, seen, None]), "--second-address"),
            (MappingFacts { has_second_address: true, ..facts([seen, seen, None]) }, "nothing arrived at its second"),
            (MappingFacts { second_port: None, ..facts([seen, None, None]) }, "could not listen"),
            (MappingFacts { failure: Some("no answer".to_owned()), ..facts([None; 3]) }, "no answer"),
        ] {
            let why = mapping(&facts).1.unwrap();
            assert!(why.starts_with("UDP: ") && why.contains(expected), "{why}");
        }
    }

    fn unsolicited(arrived: u32, solicited_arrived: u32) -> Option<UnsolicitedFacts> {
        Some(UnsolicitedFacts { sent: 8, arrived, solicited_sent: 12, solicited_arrived })
    }

    #[test]
    fn filtering_is_told_where_chance_does_not_explain_it() {
        use NatFiltering::{
            AddressAndPortDependent, AddressDependent, EndpointIndependent, NotAddressAndPortDependent,
        };
        for (found, expected) in [
            ([unsolicited(0, 12), None], Some(AddressAndPortDependent)),
            ([unsolicited(8, 12), None], Some(NotAddressAndPortDependent)),
            ([unsolicited(1, 12), unsolicited(1, 12)], Some(EndpointIndependent)),
            ([unsolicited(8, 12), unsolicited(0, 12)], Some(AddressDependent)),
            ([unsolicited(8, 12), unsolicited(0, 0)], None),
            // As many are lost of those that were asked for.
            ([unsolicited(0, 5), None], None),
            ([None, None], None),
        ] {
            let facts = MappingFacts { unsolicited: found, ..facts([None; 3]) };
            assert_eq!(filtering(&facts), expected, "{found:?}");
        }
    }
}
