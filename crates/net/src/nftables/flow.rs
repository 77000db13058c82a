//! Single flows in tables of rules: which there are, what becomes of them, and how the kernel spells them.

use crate::interface::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A flow of a protocol with ports, such as TCP (6) and UDP (17), in one direction. Both addresses are of one IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Where its packets come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// As in the IP header.
    pub protocol: u8,
    /// Of the source.
    pub source_port: u16,
    /// Of the destination.
    pub destination_port: u16,
}

/// Both addresses of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
}

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
    Seen {
        /// That time, in milliseconds, from when it was entered.
        timeout_millis: u64,
        /// How many there are at a time; further ones are not entered.
        max_entries: u32,
    },
}

impl Flow {
    /// Of its addresses.
    pub fn family(&self) -> Family {
        if self.source.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// As rules put it together from a packet: addresses, protocol, ports, each in whole words.
    pub(super) fn key(&self) -> Vec<u8> {
        let addresses = Addresses { source: self.source, destination: self.destination };
        let mut key = addresses.value();
        key.extend([self.protocol, 0, 0, 0]);
        key.extend(self.source_port.to_be_bytes());
        key.extend(self.destination_port.to_be_bytes());
        key
    }

    pub(super) fn from_key(key: &[u8]) -> Option<Self> {
        let (addresses, rest) = key.split_at_checked(key.len().checked_sub(8)?)?;
        let [protocol, _, _, _, s0, s1, d0, d1] = *rest else { return None };
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        Some(Flow {
            source: address(source)?,
            destination: address(destination)?,
            protocol,
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
        })
    }
}

impl Addresses {
    /// As rules write it to a packet.
    pub(super) fn value(&self) -> Vec<u8> {
        [octets(self.source), octets(self.destination)].concat()
    }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(|octets| Ipv4Addr::from(octets).into());
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(|octets| Ipv6Addr::from(octets).into())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_read_from_its_key() {
        for (source, destination) in [("10.1.0.2", "10.2.0.9"), ("fd01::2", "fd02::9")] {
            let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
            let flow = Flow { source, destination, protocol: 17, source_port: 1234, destination_port: 9 };
            assert_eq!(Flow::from_key(&flow.key()), Some(flow));
            assert_eq!(flow.key().len(), if source.is_ipv4() { 16 } else { 40 });
        }
        assert_eq!(Flow::from_key(&[]), None);
        assert_eq!(Flow::from_key(&[0; 15]), None);
    }
}
