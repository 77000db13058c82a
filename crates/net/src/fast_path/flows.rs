//! Single flows of the fast path, which any thread enters and takes out while packets pass.

use crate::bpf::Map;
use crate::nftables::CounterValue;
use crate::setup::SetupError;
use kumade_packet::{Addresses, FlowKey};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Of struct count, struct flow_key and struct flow.
pub(super) const COUNT_BYTES: usize = 16;
pub(super) const FLOW_KEY_BYTES: usize = 48;
pub(super) const FLOW_BYTES: usize = 48;

/// Single flows of the fast path. Those that it does not know are left to packet rules.
#[derive(Debug)]
pub struct FastFlows {
    pub(super) map: Map,
}

/// What becomes of a flow. Paths are given by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowUse {
    /// It is divided among the paths to its destination, and counted.
    Divided {
        /// A bit for each path on which it is [translated](FlowUse::Translated), the lowest for the first one.
        translating_paths: u64,
    },
    /// If divided so, it has these addresses on a path.
    Translated {
        /// Which.
        path: usize,
        /// There.
        addresses: Addresses,
    },
    /// As it arrives, it gets these addresses, and is counted.
    Restored(Addresses),
}

impl FastFlows {
    /// Enters a flow.
    ///
    /// # Errors
    /// It is there, or there is no room.
    pub fn add(&self, flow: &FlowKey, purpose: FlowUse) -> Result<(), SetupError> {
        let addresses = match purpose {
            FlowUse::Divided { translating_paths } => {
                let mut octets = [0; 32];
                octets[..8].copy_from_slice(&translating_paths.to_ne_bytes());
                octets
            }
            FlowUse::Translated { addresses, .. } | FlowUse::Restored(addresses) => encode_addresses(addresses),
        };
        let value = [&[0; COUNT_BYTES][..], &addresses].concat();
        let outcome = self.map.add(&encode_flow_key(flow, purpose), &value);
        outcome.map_err(|error| SetupError::new("enter a flow into the fast path", error))
    }

    /// Takes a flow out; one that is not there stays away.
    pub fn remove(&self, flow: &FlowKey, purpose: FlowUse) {
        if let Err(error) = self.map.remove(&encode_flow_key(flow, purpose)) {
            tracing::debug!("cannot take a flow out of the fast path: {error}");
        }
    }

    /// What has passed of the flows that are divided.
    ///
    /// # Errors
    /// The system refuses.
    pub fn divided_flows(&self) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError> {
        self.read(DIVIDED_FLOW)
    }

    /// What has passed of the flows that get their addresses back, as they arrive.
    ///
    /// # Errors
    /// The system refuses.
    pub fn restored_flows(&self) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError> {
        self.read(RESTORED_FLOW)
    }

    fn read(&self, wanted: u32) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError> {
        let mut flows = BTreeMap::new();
        let read = |key: &[u8], value: &[u8]| {
            if let Some((kind, flow)) = decode_flow_key(key)
                && kind == wanted
            {
                flows.insert(flow, decode_count(value));
            }
        };
        let outcome = self.map.read_all(read);
        outcome.map_err(|error| SetupError::new("read the flows of the fast path", error))?;
        Ok(flows)
    }
}

/// enum flow_kind.
const DIVIDED_FLOW: u32 = 0;
const TRANSLATED_FLOW: u32 = 1;
const RESTORED_FLOW: u32 = 2;

/// struct flow_key.
fn encode_flow_key(flow: &FlowKey, purpose: FlowUse) -> Vec<u8> {
    let (kind, index) = match purpose {
        FlowUse::Divided { .. } => (DIVIDED_FLOW, 0),
        FlowUse::Translated { path, .. } => (TRANSLATED_FLOW, path as u32),
        FlowUse::Restored(_) => (RESTORED_FLOW, 0),
    };
    let mut key: Vec<u8> = [kind, index, flow.protocol.into()].iter().flat_map(|word| word.to_ne_bytes()).collect();
    key.extend([flow.source.port(), flow.destination.port()].iter().flat_map(|port| port.to_be_bytes()));
    key.extend(encode_addresses(flow.addresses()));
    key
}

fn decode_flow_key(key: &[u8]) -> Option<(u32, FlowKey)> {
    let word = |place: usize| Some(u32::from_ne_bytes(*key.get(4 * place..)?.first_chunk()?));
    let port = |place: usize| Some(u16::from_be_bytes(*key.get(place..)?.first_chunk()?));
    let address = |place: usize| Some(decode_address(*key.get(place..)?.first_chunk()?));
    let flow = FlowKey {
        protocol: word(2)? as u8,
        source: SocketAddr::new(address(16)?, port(12)?),
        destination: SocketAddr::new(address(32)?, port(14)?),
    };
    Some((word(0)?, flow))
}

fn encode_addresses(addresses: Addresses) -> [u8; 32] {
    let mut octets = [0; 32];
    octets[..16].copy_from_slice(&encode_address(addresses.source));
    octets[16..].copy_from_slice(&encode_address(addresses.destination));
    octets
}

fn decode_address(octets: [u8; 16]) -> IpAddr {
    IpAddr::from(octets).to_canonical()
}

/// An IPv4 address as ::ffff:0:0/96 has it.
pub(super) fn encode_address(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// struct count, which struct flow begins with.
pub(super) fn decode_count(value: &[u8]) -> CounterValue {
    let word = |place: usize| {
        value.get(8 * place..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u64::from_ne_bytes)
    };
    CounterValue { packets: word(0), bytes: word(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_read_from_its_key() {
        for (source, destination) in [("10.1.0.2:1234", "10.2.0.9:9"), ("[fd01::2]:1234", "[fd02::9]:9")] {
            let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
            let flow = FlowKey { protocol: 17, source, destination };
            let key = encode_flow_key(&flow, FlowUse::Divided { translating_paths: 7 });
            assert_eq!((key.len(), decode_flow_key(&key)), (FLOW_KEY_BYTES, Some((DIVIDED_FLOW, flow))));
        }
        assert_eq!(decode_flow_key(&[0; FLOW_KEY_BYTES - 1]), None);
    }
}
