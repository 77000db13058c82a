//! Who connects to whom.

use crate::id::AgentId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of IP that a pair uses: the same hosts over both are two pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressFamily {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl AddressFamily {
    /// Both.
    pub const ALL: [AddressFamily; 2] = [AddressFamily::Ipv4, AddressFamily::Ipv6];
}

impl fmt::Display for AddressFamily {
    /// `IPv4` or `IPv6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressFamily::Ipv4 => "IPv4",
            AddressFamily::Ipv6 => "IPv6",
        })
    }
}

/// How a host can be reached over one version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reachability {
    /// It has no address of this version.
    #[default]
    Absent,
    /// It connects to others, and nobody connects to it: behind address translation or a firewall.
    Outgoing,
    /// Others connect to it, too.
    Incoming,
}

/// One end of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Which agent; none for a target that only answers.
    pub agent: Option<AgentId>,
    /// Over the version of the pair.
    pub reachability: Reachability,
}

/// Why a pair can't be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnreachablePair {
    /// An end has no address.
    #[error("{0} has no {1} address: declare one, or leave the pair out over {1}")]
    NoAddress(End, AddressFamily),
    /// Neither accepts connections.
    #[error(
        "neither end accepts connections over {0}: give one an address that others can connect to, or forward a port to it"
    )]
    NoneAccepts(AddressFamily),
    /// The end that would have to begin is no agent.
    #[error("only {0} could connect, and it is no agent: run an agent there, or make the other end reachable over {1}")]
    NoAgent(End, AddressFamily),
    /// Neither end is an agent.
    #[error("neither end is an agent: run one at one of them")]
    NoAgents,
}

/// One of the ends of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The one that is named first.
    First,
    /// The other one.
    Second,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::First => "the first end",
            End::Second => "the second end",
        })
    }
}

/// Which end connects to the other, and begins the runs of the pair. Where both could, every other pair of an agent is begun
/// by it, so that the work is divided.
///
/// # Errors
///
/// Neither can.
pub fn choose_initiator(first: Endpoint, second: Endpoint, family: AddressFamily) -> Result<End, UnreachablePair> {
    let ends = [(End::First, first), (End::Second, second)];
    if let Some((end, _)) = ends.into_iter().find(|(_, end)| end.reachability == Reachability::Absent) {
        return Err(UnreachablePair::NoAddress(end, family));
    }
    let can_begin =
        |own: Endpoint, other: Endpoint| own.agent.is_some() && other.reachability == Reachability::Incoming;
    match (can_begin(first, second), can_begin(second, first)) {
        (true, true) => {
            let sum = first.agent.zip(second.agent).map_or(0, |(a, b)| u64::from(a.0) + u64::from(b.0));
            let is_first_smaller = first.agent <= second.agent;
            Ok(if sum.is_multiple_of(2) == is_first_smaller { End::First } else { End::Second })
        }
        (true, false) => Ok(End::First),
        (false, true) => Ok(End::Second),
        (false, false) if first.agent.is_none() && second.agent.is_none() => Err(UnreachablePair::NoAgents),
        (false, false) => match (first.reachability, second.reachability) {
            (Reachability::Incoming, _) => Err(UnreachablePair::NoAgent(End::Second, family)),
            (_, Reachability::Incoming) => Err(UnreachablePair::NoAgent(End::First, family)),
            _ => Err(UnreachablePair::NoneAccepts(family)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reachability::{Absent, Incoming, Outgoing};

    fn choose(first: (Option<u32>, Reachability), second: (Option<u32>, Reachability)) -> Result<End, UnreachablePair> {
        let end = |(agent, reachability): (Option<u32>, _)| Endpoint { agent: agent.map(AgentId), reachability };
        choose_initiator(end(first), end(second), AddressFamily::Ipv4)
    }

    #[test]
    fn whoever_is_behind_address_translation_begins() {
        assert_eq!(choose((Some(1), Outgoing), (Some(2), Incoming)), Ok(End::First));
        assert_eq!(choose((Some(1), Incoming), (Some(2), Outgoing)), Ok(End::Second));
        assert_eq!(choose((Some(1), Outgoing), (None, Incoming)), Ok(End::First));
        assert_eq!(choose((None, Incoming), (Some(1), Incoming)), Ok(End::Second));
    }

    #[test]
    fn pairs_that_cannot_be_measured_are_named_with_the_reason() {
        let v4 = AddressFamily::Ipv4;
        let none_accepts = choose((Some(1), Outgoing), (Some(2), Outgoing));
        assert_eq!(none_accepts, Err(UnreachablePair::NoneAccepts(v4)));
        assert_eq!(choose((Some(1), Incoming), (Some(2), Absent)), Err(UnreachablePair::NoAddress(End::Second, v4)));
        assert_eq!(choose((Some(1), Incoming), (None, Outgoing)), Err(UnreachablePair::NoAgent(End::Second, v4)));
        assert_eq!(choose((None, Incoming), (None, Incoming)), Err(UnreachablePair::NoAgents));
    }

    #[test]
    fn the_work_is_divided_whichever_end_is_named_first() {
        let mut begun = [0; 20];
        for (a, b) in (0..20).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let forward = choose((Some(a), Incoming), (Some(b), Incoming)).unwrap();
            let backward = choose((Some(b), Incoming), (Some(a), Incoming)).unwrap();
            assert_ne!(forward, backward);
            begun[if forward == End::First { a } else { b } as usize] += 1;
        }
        assert!(begun.iter().all(|count| (9..=10).contains(count)), "{begun:?}");
    }
}
