//! What becomes of what a peer sends.

use super::Remote;
use crate::dataplane::outer_headers::OuterHeaders;
use crate::dataplane::packet_buffer::PacketBuffer;
use crate::dataplane::shard_message::session_path;
use crate::header_contexts::decompressor::{ArrivedPacket, HeaderDecompressor};
use crate::message::{Data, KeptEntry, Message};
use crate::{ArrivedData, DelayRange, OuterTransport, PathId};
use kumade_noise_session::CounterReference;
use kumade_packet::Ecn;
use kumade_units::{Span, Time};
use std::ops::DerefMut;

/// The text of an authentic datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedText<'t> {
    pub(crate) path: PathId,
    /// Its counter on the path, if it has one.
    pub(crate) counter: Option<u64>,
    pub(crate) text: &'t [u8],
    /// Bytes of the datagram.
    pub(crate) datagram_bytes: usize,
}

impl<B: DerefMut<Target = Vec<u8>> + Clone> Remote<B> {
    /// What is known of the path by whose number a datagram ends that tells only the lowest bits of its counter.
    pub(crate) fn counter_reference(&self, path: u8) -> Option<CounterReference> {
        let path = PathId::new(path).filter(|path| path.index() < self.path_count)?;
        let next_counter = self.receivers[path.index()].next_counter();
        Some(CounterReference { path: session_path(self.shard, path), next_counter })
    }

    /// An authentic datagram came over a path. Returns whether there was a packet in it; `None` if it was no message.
    pub(crate) fn receive(
        &mut self,
        received: ReceivedText<'_>,
        outer: OuterHeaders,
        now: Time,
        buffers: &dyn Fn(usize) -> B,
        delivered: &mut Vec<PacketBuffer<B>>,
    ) -> Option<bool> {
        let ReceivedText { path, counter, text, datagram_bytes } = received;
        if path.index() >= self.path_count {
            return None;
        }
        self.update_route(path, &outer, datagram_bytes, now);
        let OuterHeaders { ecn, packet_bytes: size, arrival: arrived, .. } = outer;
        let receiver = &mut self.receivers[path.index()];
        match Message::parse(text) {
            Ok(Message::Data(Data { header, predecessors, packet })) => {
                if outer.transport == OuterTransport::Tcp {
                    self.last_connection_data = Some(now);
                }
                let counter = counter?;
                receiver.receive(counter, size, header.requests_report, arrived);
                self.record_arrival(path, counter, outer.transport, now);
                let arrived = ArrivedPacket { bytes: packet, number: header.number, path, counter };
                match decapsulate(&mut self.decompressor, (arrived, ecn), now, buffers) {
                    Some(packet) => {
                        let packet = packet.with_segments(header.segment_bytes);
                        let bytes = packet.len() as u32;
                        let arrival = ArrivedData { path, counter, header, predecessors, bytes };
                        self.resequencer.receive(arrival, packet, now, delivered);
                        return Some(true);
                    }
                    None => self.resequencer.datagram_passed(path, counter, now, delivered),
                }
            }
            Ok(Message::Probe(_)) => {
                let counter = counter?;
                receiver.receive(counter, size, true, arrived);
                self.record_arrival(path, counter, outer.transport, now);
                self.resequencer.datagram_passed(path, counter, now, delivered);
            }
            Ok(Message::Report(report)) => {
                self.bond.receive_report(path, &report, now);
                if self.bond.take_long_packet_suspicion(path) {
                    self.mtus.confirm(path, now);
                }
                let most = self.bond.status(path).and_then(|status| status.round_trip);
                let most = most.map(|most| most * self.max_delay_round_trips());
                self.resequencer.set_delay(path, most.map(|most| DelayRange { min: Span::ZERO, max: most }));
                self.resequencer.set_repair_wait(self.bond.repair_wait());
            }
            Ok(Message::Kept(kept)) => {
                let mut record =
                    |KeptEntry { path, counter, number }| self.compressor.record_kept(path, counter, number, now);
                kept.entries().for_each(&mut record);
            }
            Ok(Message::ForgetHeaders(number)) => self.compressor.forget(number, now),
            Ok(Message::Missing(missing)) => self.bond.receive_missing(missing.path, missing.counters(), now),
            Ok(Message::MtuProbe(query)) => self.mtus.record_query(path, query.number),
            Ok(Message::MtuAnswer(number)) => {
                self.mtus.record_answer(path, number, now);
                self.apply_mtu(path, now);
            }
            Ok(Message::Session { .. }) | Err(_) => return None,
        }
        Some(false)
    }

    /// Connections lose nothing by themselves.
    fn record_arrival(&mut self, path: PathId, counter: u64, transport: OuterTransport, now: Time) {
        if transport == OuterTransport::Udp {
            let is_after_gap = self.missing.receive(path, counter, now);
            if is_after_gap {
                self.resequencer.record_missing(now);
            }
        }
    }

    /// How many round trips one direction takes at most: one, as long as both directions do; and two more where what is lost is
    /// repeated, once that is noticed.
    fn max_delay_round_trips(&self) -> i64 {
        let repeats = self.config.bond.paths.iter().any(|path| path.transport == OuterTransport::Tcp);
        if repeats { 3 } else { 1 }
    }
}

/// The packet as it leaves the tunnel; `None` where it has to be dropped for its ECN field, or cannot be decompressed.
fn decapsulate<B>(
    decompressor: &mut HeaderDecompressor,
    (arrived, outer): (ArrivedPacket<'_>, Ecn),
    now: Time,
    buffers: &dyn Fn(usize) -> B,
) -> Option<PacketBuffer<B>>
where
    B: DerefMut<Target = Vec<u8>>,
{
    let mut buffer = buffers(arrived.bytes.len() + decompressor.max_growth_bytes());
    let has_partial_checksum = decompressor.decompress(arrived, &mut buffer, now)?;
    let inner = kumade_packet::ecn::read(&buffer);
    let field = inner.decapsulated(outer)?;
    if field != inner {
        kumade_packet::ecn::set(&mut buffer, field);
    }
    Some(PacketBuffer::new(buffer, 0).with_partial_checksum(has_partial_checksum))
}
