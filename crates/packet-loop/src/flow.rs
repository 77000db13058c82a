//! The flow of a packet, as queues and shards tell it from others.

use kumade_link::Label;
use kumade_packet::Classification;
use std::hash::{BuildHasher, Hash, RandomState};

/// Tells flows apart by a hash whose key is drawn when this is made. As nobody knows the key, nobody can choose addresses
/// and ports so that flows collide (RFC 8290, section 6.2). Clones have the same key.
#[derive(Debug, Clone, Default)]
pub struct FlowHasher(RandomState);

impl FlowHasher {
    /// With a new key.
    pub fn new() -> Self {
        Self::default()
    }

    /// The flow that this tells from others: a [`kumade_packet::FlowSelector`], or a link header.
    pub fn hash_flow(&self, of: impl Hash) -> u64 {
        self.0.hash_one(of)
    }

    /// The label of a packet. Fragments are told apart as far as they can be; what is not IP is flow 0 of host 0. Hosts
    /// are source addresses. An empty packet
    /// counts as one byte, as a link cannot serve less.
    pub fn queueing_attributes(&self, packet: &Classification) -> Label {
        let [flow, host] =
            packet.selector.map_or([0; 2], |selector| [self.hash_flow(selector), self.hash_flow(selector.source)]);
        let (size, ecn, dscp) = (packet.total_len.max(1) as u32, packet.ecn, packet.dscp);
        Label { size, flow, host, ecn, dscp, ..Label::default() }
    }

    /// The same with the host at the other end, for disciplines that are fair between these: the destination address.
    pub fn attributes_of_both_ends(&self, packet: &Classification) -> Label {
        let destination = packet.selector.map_or(0, |selector| self.hash_flow(selector.destination));
        Label { destination_host: destination as u32, ..self.queueing_attributes(packet) }
    }
}

/// Which of so many shards has a flow, by its hash: always the same, and each as likely. None of zero shards has it, so
/// that is taken for one.
pub fn shard_of(flow: u64, shards: usize) -> usize {
    // The upper bits decide: queue disciplines choose by the lower ones, and are to see all of their values.
    ((u128::from(flow) * shards.max(1) as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::Ecn;
    use proptest::prelude::*;

    /// IPv4 without options, and the ports of TCP.
    fn segment(source_port: u8, traffic_class: u8) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[1], packet[3], packet[9]) = (0x45, traffic_class, 40, kumade_packet::protocol::TCP);
        (packet[21], packet[32]) = (source_port, 0x50);
        packet
    }

    #[test]
    fn both_ends_and_the_codepoint_are_told_apart() {
        let flows = FlowHasher::new();
        let label = |packet: &[u8]| flows.attributes_of_both_ends(&Classification::from_packet(packet));
        let to = |address: u8, traffic_class: u8| {
            let mut packet = segment(1, traffic_class);
            packet[19] = address;
            label(&packet)
        };
        assert_eq!((to(1, 0).host, to(1, 0).destination_host), (to(2, 0).host, to(1, 3).destination_host));
        assert_ne!(to(1, 0).destination_host, to(2, 0).destination_host);
        assert_eq!([to(1, 3), to(1, 0xb8)].map(|label| label.dscp.number()), [0, 46]);
    }

    #[test]
    fn connections_are_flows_of_their_own_whatever_their_ecn_field() {
        let flows = FlowHasher::new();
        let label = |packet: &[u8]| flows.queueing_attributes(&Classification::from_packet(packet));
        assert_eq!(label(&segment(1, 0)).flow, label(&segment(1, 2)).flow);
        assert_ne!(label(&segment(1, 0)).flow, label(&segment(2, 0)).flow);
        assert_eq!(label(&segment(1, 0)).host, label(&segment(2, 0)).host);
        assert_eq!((label(&segment(1, 2)).ecn, label(&segment(1, 0)).ecn), (Ecn::Ect0, Ecn::NotEct));
        assert_eq!((label(&[]).size, label(&[]).flow), (1, 0));
        assert_eq!(
            flows.clone().queueing_attributes(&Classification::from_packet(&segment(1, 0))),
            label(&segment(1, 0))
        );
    }

    #[test]
    fn shards_share_the_flows_evenly() {
        let flows = FlowHasher::new();
        let mut counts = [0; 3];
        (0..30_000_u32).for_each(|flow| counts[shard_of(flows.hash_flow(flow), 3)] += 1);
        assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn every_flow_has_a_shard(flow in any::<u64>(), shards in 0..1000_usize) {
            prop_assert!(shard_of(flow, shards) < shards.max(1));
        }
    }
}
