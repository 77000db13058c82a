//! Single flows in tables of rules: what becomes of them, and how the kernel spells them.

use crate::interface::Family;
use kumade_packet::{Addresses, FlowKey};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A list of flows of one IP version, which rules consult. Its entries change while packets pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowList {
    /// At most 255 bytes: a letter, then letters, digits, `-` and `_`.
    pub name: String,
    /// Of all its flows.
    pub family: Family,
    /// What it is for.
    pub kind: FlowListKind,
}

/// What a list of flows is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowListKind {
    /// Members are told from others, and their packets counted.
    Set,
    /// Members' packets get other addresses, and are counted.
    Translation,
    /// Rules enter flows themselves; each is forgotten after a time.
    Dynamic {
        /// That time, in milliseconds, from when it was entered.
        timeout_millis: u64,
        /// How many there are at a time; further ones are not entered.
        max_entries: u32,
    },
}

/// A flow as rules put it together from a packet: addresses, protocol, ports, each in whole words.
pub(super) fn encode_flow_key(flow: &FlowKey) -> Vec<u8> {
    let mut key = encode_addresses(flow.addresses());
    key.extend([flow.protocol, 0, 0, 0]);
    key.extend(flow.source.port().to_be_bytes());
    key.extend(flow.destination.port().to_be_bytes());
    key
}

pub(super) fn decode_flow_key(key: &[u8]) -> Option<FlowKey> {
    let (addresses, rest) = key.split_at_checked(key.len().checked_sub(8)?)?;
    let [protocol, _, _, _, s0, s1, d0, d1] = *rest else { return None };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    Some(FlowKey {
        protocol,
        source: SocketAddr::new(decode_address(source)?, u16::from_be_bytes([s0, s1])),
        destination: SocketAddr::new(decode_address(destination)?, u16::from_be_bytes([d0, d1])),
    })
}

/// Addresses as rules write them to a packet.
pub(super) fn encode_addresses(addresses: Addresses) -> Vec<u8> {
    [octets(addresses.source), octets(addresses.destination)].concat()
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn decode_address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(|octets| Ipv4Addr::from(octets).into());
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(|octets| Ipv6Addr::from(octets).into())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_read_from_its_key() {
        for (source, destination) in [("10.1.0.2:1234", "10.2.0.9:9"), ("[fd01::2]:1234", "[fd02::9]:9")] {
            let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
            let flow = FlowKey { protocol: 17, source, destination };
            assert_eq!(decode_flow_key(&encode_flow_key(&flow)), Some(flow));
            assert_eq!(encode_flow_key(&flow).len(), if source.is_ipv4() { 16 } else { 40 });
        }
        assert_eq!(decode_flow_key(&[]), None);
        assert_eq!(decode_flow_key(&[0; 15]), None);
    }
}
