//! Which packet lengths the paths to a peer pass: what is asked of them, and what hosts are told of packets that are too long.

use super::Remote;
use super::sending::{DatagramSeal, UnsealedDatagram, encode_message};
use crate::dataplane::packet_buffer::PacketBuffer;
use crate::message::Message;
use crate::{OuterTransport, PathId, PathState, PathStatus};
use kumade_noise_session::Route;
use kumade_packet::{Classification, DsField};
use kumade_units::Time;
use std::ops::DerefMut;

/// Of so many flows, one packet each is kept until it is certain what passes.
const MAX_KEPT_OVERSIZED_PACKETS: usize = 32;

impl<B: DerefMut<Target = Vec<u8>> + Clone> Remote<B> {
    /// An answer to a probe of a path's MTU, or a probe.
    pub(super) fn next_mtu_message(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<UnsealedDatagram<B>> {
        while let Some((path, number)) = self.mtus.take_answer() {
            if let Some(to) = self.routes[path.index()] {
                return Some(UnsealedDatagram {
                    path,
                    route: to,
                    ds_field: DsField::default(),
                    seal: DatagramSeal::Uncounted,
                    datagram: encode_message(&Message::MtuAnswer(number), buffers),
                });
            }
        }
        if !self.mtus.is_due(now) {
            return None;
        }
        for path in PathId::all().take(self.routes.len()) {
            let Some(PathStatus { round_trip, rate, .. }) = self.bond.status(path) else { continue };
            let mtu_before = self.mtus.mtu(path);
            let query = self.mtus.poll(path, round_trip, rate, now);
            if self.mtus.mtu(path).is_some_and(|mtu| mtu_before.is_some_and(|before| mtu < before)) {
                self.bond.undo_rate_reduction(path, now);
            }
            self.apply_mtu(path, now);
            if let (Some(query), Some(to)) = (query, self.routes[path.index()]) {
                return Some(UnsealedDatagram {
                    path,
                    route: to,
                    ds_field: DsField::default(),
                    seal: DatagramSeal::Uncounted,
                    datagram: encode_message(&Message::MtuProbe(query), buffers),
                });
            }
        }
        None
    }

    /// The kernel has refused a datagram to the peer, because it is too long for the interface.
    pub(crate) fn record_send_refusal(&mut self, to: Route, bytes: usize, now: Time) {
        if let Some(path) = PathId::new(to.path) {
            self.mtus.record_refusal(path, bytes, now);
            self.apply_mtu(path, now);
        }
    }

    /// A path's interface takes packets of this length from now on.
    pub(crate) fn set_interface_mtu(&mut self, path: usize, mtu: u32, now: Time) {
        let Some(Some(before)) = self.config.interface_mtus.get_mut(path) else { return };
        let is_other = std::mem::replace(before, mtu) != mtu;
        let Some(path) = PathId::all().nth(path).filter(|_| is_other) else { return };
        let config = &self.config.bond.paths[path.index()];
        if config.transport != OuterTransport::Tcp {
            self.mtus.set_transport(path, Some(mtu), config.overhead_bytes, now);
            if self.bond.status(path).is_some_and(|status| status.state == PathState::Up) {
                self.mtus.path_up(path, now);
            }
            self.apply_mtu(path, now);
        }
    }

    /// Packets to the peer have so many bytes before their message in a session.
    pub(crate) fn record_header_bytes(&mut self, bytes: usize, now: Time) {
        if self.mtus.raise_header_bytes(bytes) {
            PathId::all().take(self.routes.len()).for_each(|path| self.apply_mtu(path, now));
        }
    }

    /// Whether a path passes less than before, since this was last asked.
    pub(crate) fn take_mtu_reduction(&mut self) -> bool {
        self.mtus.take_reduction()
    }

    /// Has only those packets sent on a path that it passes.
    pub(super) fn apply_mtu(&mut self, path: PathId, now: Time) {
        self.bond.set_max_bytes(path, self.mtus.max_packet_bytes(path), now);
    }

    /// The longest packet of hosts that all paths pass, in bytes, as far as is known or expected.
    pub(crate) fn mtu(&self) -> Option<u32> {
        self.mtus.common_max_packet_bytes().map(|mtu| mtu.min(self.config.max_packet_bytes))
    }

    /// How many packets were too long for all paths since this was last asked, and the ICMP errors that tell their hosts, once it is
    /// certain what passes: until then one of each flow is kept, since its host may repeat it only seconds later.
    pub(crate) fn take_oversized(&mut self) -> (u64, Vec<Vec<u8>>) {
        let mut count = 0;
        while let Some(packet) = self.bond.take_oversized() {
            count += u64::from(packet.segment_count());
            self.keep_oversized(&packet);
        }
        if self.oversized.is_empty() {
            return (count, Vec::new());
        }
        let is_certain = PathId::all().take(self.routes.len()).all(|path| {
            let is_up = self.bond.status(path).is_some_and(|status| status.state == PathState::Up);
            !is_up || self.mtus.is_settled(path)
        });
        if !is_certain {
            return (count, Vec::new());
        }
        let (mtu, packets) = (self.mtu().unwrap_or(u32::MAX), self.oversized.drain(..));
        let too_long = packets.filter(|packet| packet.len() as u32 > mtu);
        (count, too_long.filter_map(|packet| kumade_packet::packet_too_big(&packet, mtu)).collect())
    }

    /// Of a packet that stands for several, the first one, since none is longer.
    pub(super) fn keep_oversized(&mut self, packet: &PacketBuffer<B>) {
        let packet = packet.copy_first();
        let flow = |packet: &Vec<u8>| Classification::from_packet(packet).selector;
        let of_packet = flow(&packet);
        self.oversized.retain(|kept| flow(kept) != of_packet);
        if self.oversized.len() < MAX_KEPT_OVERSIZED_PACKETS {
            self.oversized.push(packet);
        }
    }
}
