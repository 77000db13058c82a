use super::packet::{GatewayEncapsulation, NetworkPacket};
use kumade_units::Time;
use std::fmt;

/// Two gateways with several paths between them, for one direction: the one that packets enter chooses a path for each,
/// the one that they leave says when. What the two tell each other besides is their own business.
///
/// The network calls all of it; see [`Network::add_gateways`](super::Network::add_gateways).
pub trait Gateways: fmt::Debug {
    /// A packet has come to the first gateway. Appends to `out` what leaves it, each with the index of a path; it may be
    /// several copies.
    fn send(&mut self, packet: Datagram, now: Time, out: &mut Vec<(usize, Datagram)>);

    /// A packet has come to the second gateway over this path. Appends to `out` what leaves it now.
    fn receive(&mut self, path: usize, packet: Datagram, now: Time, out: &mut Vec<Datagram>);

    /// When the second gateway has something to do next.
    fn next_time(&self) -> Option<Time>;

    /// That time has come.
    fn on_time(&mut self, now: Time, out: &mut Vec<Datagram>);
}

/// A packet as two gateways carry it.
#[derive(Debug, Clone, Copy)]
pub struct Datagram {
    pub(super) packet: NetworkPacket,
    /// What the first gateway tells the second, or knows it by.
    pub tag: u64,
    /// Bytes of the headers that it has on its path in addition to its own.
    pub overhead_bytes: u32,
}

impl Datagram {
    pub(super) fn new(packet: NetworkPacket) -> Self {
        Datagram { packet, tag: 0, overhead_bytes: 0 }
    }

    /// IP bytes of the packet itself.
    pub fn bytes(&self) -> u32 {
        self.packet.size
    }

    /// The number by which queues know its flow and direction.
    pub fn flow(&self) -> u64 {
        self.packet.label()
    }

    /// On its path, with the bytes that it takes there.
    pub(super) fn into_packet(self, gateways: u32, path: usize) -> (NetworkPacket, u32) {
        let carried = Some(GatewayEncapsulation { gateway_pair: gateways, path: path as u32, tag: self.tag });
        (NetworkPacket { encapsulation: carried, ..self.packet }, self.packet.size + self.overhead_bytes)
    }
}
