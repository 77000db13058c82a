//! What is due to be sent to a peer: packets, probes, reports.

use super::Remote;
use crate::dataplane::packet_buffer::PacketBuffer;
use crate::header_contexts::compressor::{HeaderCompressor, LeavingPacket};
use crate::header_contexts::decompressor::HeaderAnswer;
use crate::message::{DataHeader, Kept, KeptEntry, Message, Missing, Probe};
use crate::{OuterTransport, OutgoingPacket, PathId, PathState, Transmission};
use kumade_noise_session::{HeaderForm, Route, SHORT_HEADER_BYTES, TAG_BYTES};
use kumade_packet::DsField;
use kumade_units::Time;
use std::ops::DerefMut;

/// What a probe is padded to: a small packet, since it is to tell whether a path passes anything.
const PROBE_BYTES: u16 = 32;

/// A datagram before it is sealed.
#[derive(Debug)]
pub(crate) struct UnsealedDatagram<B> {
    pub(crate) path: PathId,
    pub(crate) route: Route,
    pub(crate) ds_field: DsField,
    pub(crate) seal: DatagramSeal,
    pub(crate) datagram: PacketBuffer<B>,
}

/// How a datagram is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatagramSeal {
    /// It does not count on its path.
    Uncounted,
    /// It has this counter of its path, and says so in this form.
    Counted(u64, HeaderForm),
}

impl<B: DerefMut<Target = Vec<u8>> + Clone> Remote<B> {
    /// The next datagram that is due.
    pub(crate) fn next(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<UnsealedDatagram<B>> {
        let datagram = self.next_report(now, buffers).or_else(|| self.next_mtu_message(now, buffers));
        datagram.or_else(|| self.next_transmission(now, buffers))
    }

    fn next_report(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<UnsealedDatagram<B>> {
        for (path, receiver) in PathId::all().zip(&mut self.receivers) {
            if let (Some(report), Some(to)) = (receiver.poll(now), self.routes[path.index()]) {
                let datagram = encode_message(&Message::Report(report), buffers);
                let (ds_field, seal) = (DsField::default(), DatagramSeal::Uncounted);
                return Some(UnsealedDatagram { path, route: to, ds_field, seal, datagram });
            }
        }
        self.next_missing_report(now, buffers).or_else(|| self.next_header_answer(now, buffers))
    }

    /// Tells what a path has lost, by the fastest paths.
    fn next_missing_report(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<UnsealedDatagram<B>> {
        let (path, missing) = self.missing.poll(|| self.bond.fastest_paths(), now)?;
        let route = self.routes[path.index()]?;
        let (first_counter, offsets) = (*missing.counters.first()?, Missing::offsets_of(&missing.counters));
        let message = Message::Missing(Missing { path: missing.path, first_counter, offsets: &offsets });
        let (ds_field, seal) = (DsField::default(), DatagramSeal::Uncounted);
        Some(UnsealedDatagram { path, route, ds_field, seal, datagram: encode_message(&message, buffers) })
    }

    /// Tells of headers that have been kept.
    fn next_header_answer(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<UnsealedDatagram<B>> {
        self.compressor.drop_unused(now);
        let (path, datagram) = match self.decompressor.poll(now)? {
            HeaderAnswer::Kept(path, entries) => {
                let entries: Vec<_> = entries.into_iter().map(KeptEntry::to_bytes).collect();
                (path, encode_message(&Message::Kept(Kept::new(&entries)), buffers))
            }
            HeaderAnswer::Forget(path, number) => (path, encode_message(&Message::ForgetHeaders(number), buffers)),
        };
        let (route, ds_field, seal) = (self.routes[path.index()]?, DsField::default(), DatagramSeal::Uncounted);
        Some(UnsealedDatagram { path, route, ds_field, seal, datagram })
    }

    fn next_transmission(&mut self, now: Time, buffers: &dyn Fn(usize) -> B) -> Option<UnsealedDatagram<B>> {
        loop {
            let (compressor, mut ds_field) = (&mut self.compressor, DsField::default());
            let divide = &mut |packet: &mut PacketBuffer<B>| packet.take_first(buffers);
            let shorten = &mut |packet: &mut OutgoingPacket<PacketBuffer<B>>, path, counter| {
                if packet.is_ecn_marked {
                    kumade_packet::ecn::mark(packet.content.bytes_mut());
                }
                ds_field = DsField::read(packet.content.bytes());
                compress_headers(compressor, packet, (path, counter), now)
            };
            let Transmission { path, counter, packet, .. } = self.bond.next_divided(now, shorten, divide)?;
            // A path without an address is not enabled.
            let Some(mut to) = self.routes[path.index()] else { continue };
            let (ds_field, form, datagram) = match packet {
                None => {
                    to = self.other_route(path).filter(|_| counter % 2 == 0).unwrap_or(to);
                    // It has the far end know the counter again after an outage.
                    let probe = Message::Probe(Probe { size: PROBE_BYTES });
                    (DsField::default(), HeaderForm::Whole, encode_message(&probe, buffers))
                }
                Some(packet) => {
                    let datagram = encapsulate(packet, path);
                    self.mtus.record_sent(path, datagram.len() - SHORT_HEADER_BYTES - TAG_BYTES);
                    (ds_field, HeaderForm::Short, datagram)
                }
            };
            let seal = DatagramSeal::Counted(counter, form);
            return Some(UnsealedDatagram { path, route: to, ds_field, seal, datagram });
        }
    }

    /// Where the peer is to be reached by the configuration or its name, for probes of a path that is down: the address that it had last
    /// may be gone, at both ends, so that neither would hear of another one.
    fn other_route(&self, path: PathId) -> Option<Route> {
        let is_up = self.bond.status(path).is_none_or(|status| status.state == PathState::Up);
        self.configured_routes[path.index()].filter(|_| !is_up && self.transport(path) == OuterTransport::Udp)
    }
}

/// Returns by how many bytes the packet is shorter then.
fn compress_headers<B>(
    compressor: &mut HeaderCompressor,
    packet: &mut OutgoingPacket<PacketBuffer<B>>,
    (path, counter): (PathId, u64),
    now: Time,
) -> u32
where
    B: DerefMut<Target = Vec<u8>>,
{
    let DataHeader { bucket, number, .. } = packet.header;
    if !compressor.agreed().takes_partial_checksums() {
        packet.content.complete_checksum();
    }
    let has_partial_checksum = packet.content.has_partial_checksum();
    let leaving = LeavingPacket { packet: packet.content.bytes(), has_partial_checksum, bucket, number, path, counter };
    let headers = compressor.compress(leaving, now);
    headers.and_then(|headers| packet.content.replace_start(headers.replaced_bytes, headers.as_ref())).unwrap_or(0)
}

/// The packet with what stands before it.
fn encapsulate<B>(packet: OutgoingPacket<PacketBuffer<B>>, path: PathId) -> PacketBuffer<B>
where
    B: DerefMut<Target = Vec<u8>>,
{
    let predecessors = packet.predecessors(path);
    let header = DataHeader { segment_bytes: packet.content.segment_bytes(), ..packet.header };
    packet.content.encapsulate(&header, predecessors)
}

/// A message with room for what a datagram has besides.
pub(super) fn encode_message<B: DerefMut<Target = Vec<u8>>>(
    message: &Message<'_>,
    buffers: &dyn Fn(usize) -> B,
) -> PacketBuffer<B> {
    let bytes = match message {
        Message::MtuProbe(query) => query.size,
        _ => PROBE_BYTES,
    };
    let mut buffer = buffers(kumade_noise_session::OVERHEAD_BYTES + usize::from(bytes));
    buffer.resize(kumade_noise_session::HEADER_BYTES, 0);
    message.write(&mut buffer);
    let end = buffer.len() + TAG_BYTES;
    buffer.resize(end, 0);
    PacketBuffer::new(buffer, 0)
}
