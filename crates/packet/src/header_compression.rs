//! Headers of established TCP and UDP flows in a few octets: what distinguishes them from those of an earlier packet of the flow.
//!
//! As in ROHC (RFC 6846, RFC 5225), what a flow's headers have in common is not repeated, lengths and the checksum of the IPv4 header
//! are inferred, and of numbers only the distance from what is expected is sent. Unlike there, a packet is decompressed by
//! [`ReferenceHeaders`] that never change, and by nothing that came in between: what is lost is lost alone.
//!
//! # Format
//!
//! | field | octets | |
//! | --- | --- | --- |
//! | first octet | 1 | octets of the time stamp value (bits 0 and 1) and of its echo (2, 3): 0, 1, 2, 4; numbers (4) and exceptions (5) follow; PSH is not as in the reference (6); the checksum is partial (7) |
//! | numbers | 0, 1 | octets of the sequence (bits 0 and 1) and acknowledgment number (2, 3): 0, 2, 3, 4; of the identification (4, 5): 0, 1, 2; the window is another one (6) |
//! | exceptions | 0, 1 | other ones are: DS field with ECN (0), TTL or hop limit (1), flags of TCP (2), urgent pointer (3), flow label (4), options of TCP (5), flags of IPv4 (6) |
//! | checksum | 0, 2 | of TCP; of UDP, unless the reference has none; not where it is partial |
//! | distances | 0 to 20 | sequence number, acknowledgment number, identification, time stamp value, its echo, each in so many octets |
//! | values | 0 to 52 | of what else is another one: window (2), then the exceptions in the order of their bits: 1, 1, 1, 2, 3, the length of the options (1) and they, 1 |
//!
//! The distance of a number is that from what is expected, plus an eighth of what its octets count: numbers seldom go back. A
//! sequence number and an identification are expected to have grown with each packet of the flow since the reference, by the
//! payload of the reference and by one; other numbers, to be as there. An identification of 0 is expected to stay: that is what hosts
//! without a counter send in atomic datagrams (RFC 6864 §4.1).
//!
//! A distance may take more octets than it needs ([`ReferenceHeaders::compress`]).
//!
//! A *partial* checksum is one that the sending host has left to its network card: whoever hands the packet on computes it, or leaves it to
//! theirs. In its place stands [`PARTIAL_CHECKSUM`].

mod fields;
mod layout;
#[cfg(test)]
mod tests;

use crate::checksum;
use crate::offload::PARTIAL_CHECKSUM;
use fields::{FieldReader, FieldWriter};
use layout::{Layout, TIMESTAMP_VALUE_BYTES, timestamp_offset};
use std::ops::Range;
use thiserror::Error;

pub use fields::MAX_COMPRESSED_BYTES;

/// Octets of the longest headers: IPv6, and TCP with all options that fit.
pub const MAX_HEADER_BYTES: usize = 40 + 60;
const NUMBERS_FOLLOW: u8 = 1 << 4;
const EXCEPTIONS_FOLLOW: u8 = 1 << 5;
const PUSH_DIFFERS: u8 = 1 << 6;
const CHECKSUM_IS_PARTIAL: u8 = 1 << 7;
const WINDOW_DIFFERS: u8 = 1 << 6;
/// In the flags of TCP.
const PUSH: u8 = 8;
/// No bit of the second and the third octet.
const UNUSED: u8 = 1 << 7;

/// Octets of a distance, by two bits.
const TIMESTAMP_SIZES: [usize; 4] = [0, 1, 2, 4];
const SEQUENCE_SIZES: [usize; 4] = [0, 2, 3, 4];
const IDENTIFICATION_SIZES: [usize; 3] = [0, 1, 2];

/// Bits of the exceptions.
mod exception {
    pub(super) const DS_FIELD: u8 = 1 << 0;
    pub(super) const HOPS: u8 = 1 << 1;
    pub(super) const TCP_FLAGS: u8 = 1 << 2;
    pub(super) const URGENT: u8 = 1 << 3;
    pub(super) const FLOW_LABEL: u8 = 1 << 4;
    pub(super) const OPTIONS: u8 = 1 << 5;
    pub(super) const IP_FLAGS: u8 = 1 << 6;
    /// Of those, what only TCP has.
    pub(super) const OF_TCP: u8 = TCP_FLAGS | URGENT | OPTIONS;
}

/// A packet that can be compressed: a whole TCP segment or UDP datagram, with lengths and a header checksum as they should be, and
/// without options of IPv4 or extension headers.
#[derive(Debug, Clone, Copy)]
pub struct CompressiblePacket<'p> {
    packet: &'p [u8],
    layout: Layout,
    is_checksum_partial: bool,
}

/// What the packets of a flow have in common: version, protocol, addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressibleFlow {
    is_v4: bool,
    is_tcp: bool,
    addresses: [u8; 32],
    ports: [u8; 4],
}

impl<'p> CompressiblePacket<'p> {
    /// None of packets that are to be sent as they are.
    pub fn parse(packet: &'p [u8]) -> Option<Self> {
        Layout::read(packet).map(|layout| CompressiblePacket { packet, layout, is_checksum_partial: false })
    }

    /// Its checksum is partial, if this says so.
    pub fn with_partial_checksum(self, is_partial: bool) -> Self {
        CompressiblePacket { is_checksum_partial: is_partial, ..self }
    }

    /// Which flow it belongs to.
    pub fn flow(&self) -> CompressibleFlow {
        let mut addresses = [0; 32];
        let own = &self.packet[self.layout.addresses()];
        addresses[..own.len()].copy_from_slice(own);
        let ports = read(self.packet, self.layout.transport());
        CompressibleFlow { is_v4: self.layout.is_v4, is_tcp: self.layout.is_tcp, addresses, ports }
    }

    /// Bytes behind the headers.
    pub fn payload_bytes(&self) -> usize {
        self.packet.len() - self.layout.header_bytes
    }
}

/// The headers of a packet, by which others of its flow are compressed and decompressed.
#[derive(Debug, Clone)]
pub struct ReferenceHeaders {
    header: [u8; MAX_HEADER_BYTES],
    layout: Layout,
    payload_bytes: u16,
    /// Where the time stamps' values stand.
    timestamps: Option<usize>,
}

/// Octets of those distances that grow with the age of a reference, or with what is lost and sent again after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DistanceOctets {
    /// Each of the two time stamps: 0, 1, 2 or 4; 0 without any.
    pub timestamps: usize,
    /// The sequence number: 0, 2, 3 or 4.
    pub sequence: usize,
    /// The identification: 0, 1 or 2.
    pub identification: usize,
}

impl DistanceOctets {
    /// What suffices for both.
    pub fn max(self, other: Self) -> Self {
        DistanceOctets {
            timestamps: self.timestamps.max(other.timestamps),
            sequence: self.sequence.max(other.sequence),
            identification: self.identification.max(other.identification),
        }
    }
}

/// What stands for the headers of a packet.
#[derive(Debug, Clone)]
pub struct CompressedHeaders {
    fields: FieldWriter,
    /// So many bytes of the packet, from its first one on.
    pub replaced_bytes: usize,
    /// What its distances need; 0 of those that a packet of its kind does not have.
    pub needed_octets: DistanceOctets,
}

impl AsRef<[u8]> for CompressedHeaders {
    fn as_ref(&self) -> &[u8] {
        self.fields.as_ref()
    }
}

/// What claims to be a compressed header is none, or none of this reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the compressed headers do not belong to their reference: drop the packet")]
pub struct DecompressionError;

impl ReferenceHeaders {
    /// Those of this packet.
    pub fn new(packet: &CompressiblePacket<'_>) -> Self {
        let CompressiblePacket { packet: bytes, layout, .. } = packet;
        let mut header = [0; MAX_HEADER_BYTES];
        header[..layout.header_bytes].copy_from_slice(&bytes[..layout.header_bytes]);
        let options = layout.is_tcp.then(|| layout.options());
        let timestamps = options.and_then(|options| Some(options.start + timestamp_offset(&bytes[options])?));
        // No packet has more than its length can say.
        ReferenceHeaders { header, layout: *layout, payload_bytes: packet.payload_bytes() as u16, timestamps }
    }

    /// The headers of a packet of the same flow that is so many packets later; of one that is earlier, the number is negative. None where
    /// they cannot be made of these, or would be no shorter.
    ///
    /// Distances of a TCP segment take at least `min_octets`: packets of flows with older and younger references are of one length only where
    /// none takes less than another one needs.
    pub fn compress(
        &self,
        packet: &CompressiblePacket<'_>,
        packets_later: i32,
        min_octets: DistanceOctets,
    ) -> Option<CompressedHeaders> {
        let CompressiblePacket { packet: bytes, layout, .. } = *packet;
        let is_partial = packet.is_checksum_partial;
        let has_checksum = self.has_checksum() || bytes[layout.checksum()..][..2] == [0, 0];
        if !has_checksum
            || (is_partial && !self.has_checksum())
            || !self.is_of_flow(packet)
            || !self.has_same_reserved_bits(packet)
        {
            return None;
        }
        let mut fields = FieldWriter::new();
        if self.has_checksum() && !is_partial {
            fields.push(&bytes[layout.checksum()..][..2]);
        }
        let min_octets = if layout.is_tcp { min_octets } else { DistanceOctets::default() };
        let (mut numbers, mut needed_octets) = self.write_numbers(packet, packets_later, min_octets, &mut fields);
        let has_other_options = layout.is_tcp && self.has_other_options_than(packet);
        let timestamps = self.timestamps.filter(|_| !has_other_options);
        let mut first = 0;
        if let Some(place) = timestamps {
            (first, needed_octets.timestamps) =
                self.write_timestamps(packet, place, min_octets.timestamps, &mut fields);
        }
        if layout.is_tcp && self.differs(packet, layout.window(), 2) {
            numbers |= WINDOW_DIFFERS;
            fields.push(&bytes[layout.window()..][..2]);
        }
        let exceptions = self.write_exceptions(packet, has_other_options, &mut fields);
        if layout.is_tcp && self.changed_tcp_flags(packet) == PUSH {
            first |= PUSH_DIFFERS;
        }
        first |= if is_partial { CHECKSUM_IS_PARTIAL } else { 0 };
        first |= if numbers != 0 { NUMBERS_FOLLOW } else { 0 } | if exceptions != 0 { EXCEPTIONS_FOLLOW } else { 0 };
        fields.put_before([first, numbers, exceptions]);
        let replaced_bytes = layout.header_bytes;
        (fields.as_ref().len() < replaced_bytes).then_some(CompressedHeaders { fields, replaced_bytes, needed_octets })
    }

    /// Returns the bits that say how, and how many octets are needed for each.
    fn write_timestamps(
        &self,
        packet: &CompressiblePacket<'_>,
        place: usize,
        min_octets: usize,
        fields: &mut FieldWriter,
    ) -> (u8, usize) {
        let (mut first, mut needed) = (0, 0);
        for (place, shift) in [(place, 0), (place + 4, 2)] {
            let (size, octets) = fields.push_distance(self.distance(packet, place), &TIMESTAMP_SIZES, min_octets);
            first |= size << shift;
            needed = needed.max(octets);
        }
        (first, needed)
    }

    /// The same of the numbers.
    fn write_numbers(
        &self,
        packet: &CompressiblePacket<'_>,
        packets_later: i32,
        min_octets: DistanceOctets,
        fields: &mut FieldWriter,
    ) -> (u8, DistanceOctets) {
        let CompressiblePacket { packet: bytes, layout, .. } = *packet;
        let (mut numbers, mut needed) = (0, DistanceOctets::default());
        if layout.is_tcp {
            let sequence = self.distance(packet, layout.sequence()).wrapping_sub(self.expected_payload(packets_later));
            let (size, octets) = fields.push_distance(sequence, &SEQUENCE_SIZES, min_octets.sequence);
            (numbers, needed.sequence) = (size, octets);
            numbers |= fields.push_distance(self.distance(packet, layout.acknowledgment()), &SEQUENCE_SIZES, 0).0 << 2;
        }
        if layout.is_v4 {
            let identification = u16::from_be_bytes(read(bytes, 4)).wrapping_sub(self.identification(packets_later));
            let (size, octets) =
                fields.push_short_distance(identification, &IDENTIFICATION_SIZES, min_octets.identification);
            (numbers, needed.identification) = (numbers | size << 4, octets);
        }
        (numbers, needed)
    }

    /// In the order of their bits.
    fn write_exceptions(
        &self,
        packet: &CompressiblePacket<'_>,
        has_other_options: bool,
        fields: &mut FieldWriter,
    ) -> u8 {
        let CompressiblePacket { packet: bytes, layout, .. } = *packet;
        let mut exceptions = 0;
        let mut write = |exception: u8, is_needed: bool, value: &[u8]| {
            if is_needed {
                exceptions |= exception;
                fields.push(value);
            }
        };
        let ds_field = layout.ds_field(bytes);
        write(exception::DS_FIELD, ds_field != layout.ds_field(&self.header), &[ds_field]);
        write(exception::HOPS, self.differs(packet, layout.hops(), 1), &[bytes[layout.hops()]]);
        if layout.is_tcp {
            let has_other_flags = self.changed_tcp_flags(packet) & !PUSH != 0;
            write(exception::TCP_FLAGS, has_other_flags, &[bytes[layout.tcp_flags()]]);
            write(exception::URGENT, self.differs(packet, layout.urgent(), 2), &bytes[layout.urgent()..][..2]);
        }
        if !layout.is_v4 {
            let label = layout.flow_label(bytes);
            write(exception::FLOW_LABEL, label != layout.flow_label(&self.header), &label);
        }
        if has_other_options {
            let options = &bytes[layout.options()];
            write(exception::OPTIONS, true, &[options.len() as u8]);
            write(exception::OPTIONS, true, options);
        }
        write(exception::IP_FLAGS, layout.is_v4 && self.differs(packet, 6, 1), &[bytes[6]]);
        exceptions
    }

    /// Appends the packet, of so many packets later, of which these are the compressed headers and the payload; on an error, what was
    /// there. Returns whether its checksum is partial.
    ///
    /// # Errors
    /// They are no compressed headers, or those of no packet of this flow.
    pub fn decompress(
        &self,
        compressed: &[u8],
        packets_later: i32,
        packet: &mut Vec<u8>,
    ) -> Result<bool, DecompressionError> {
        let mut reader = FieldReader(compressed);
        let (header, length) = self.read_header(&mut reader, packets_later).ok_or(DecompressionError)?;
        packet.extend_from_slice(&header[..length]);
        packet.extend_from_slice(reader.0);
        Ok(compressed[0] & CHECKSUM_IS_PARTIAL != 0)
    }

    /// Leaves the payload.
    fn read_header(&self, reader: &mut FieldReader<'_>, packets_later: i32) -> Option<([u8; MAX_HEADER_BYTES], usize)> {
        let (mut header, mut layout) = (self.header, self.layout);
        let first = reader.take_octet()?;
        let numbers = if first & NUMBERS_FOLLOW != 0 { reader.take_octet()? } else { 0 };
        let exceptions = if first & EXCEPTIONS_FOLLOW != 0 { reader.take_octet()? } else { 0 };
        let timestamps = self.timestamps.filter(|_| exceptions & exception::OPTIONS == 0);
        if !self.can_have(first, numbers, exceptions) || (timestamps.is_none() && first & 0xf != 0) {
            return None;
        }
        if first & CHECKSUM_IS_PARTIAL != 0 {
            copy_field(&mut header, layout.checksum(), &PARTIAL_CHECKSUM);
        } else if self.has_checksum() {
            copy_field(&mut header, layout.checksum(), reader.take_slice(2)?);
        }
        self.read_numbers(numbers, reader, packets_later, &mut header)?;
        for (place, shift) in timestamps.into_iter().flat_map(|timestamps| [(timestamps, 0), (timestamps + 4, 2)]) {
            add(&mut header, place, reader.take_distance(&TIMESTAMP_SIZES, first >> shift)?);
        }
        if numbers & WINDOW_DIFFERS != 0 {
            copy_field(&mut header, layout.window(), reader.take_slice(2)?);
        }
        if first & PUSH_DIFFERS != 0 {
            header[layout.tcp_flags()] ^= PUSH;
        }
        read_exceptions(exceptions, reader, &mut layout, &mut header)?;
        layout.set_lengths(&mut header, reader.0.len())?;
        if layout.is_v4 {
            checksum::set_ipv4_header(&mut header);
        }
        Some((header, layout.header_bytes))
    }

    /// Whether the packets of the flow have what these octets say.
    fn can_have(&self, first: u8, numbers: u8, exceptions: u8) -> bool {
        let Layout { is_v4, is_tcp, .. } = self.layout;
        let of_other_version = if is_v4 { exception::FLOW_LABEL } else { exception::IP_FLAGS };
        let has_fields_of_tcp =
            first & (PUSH_DIFFERS | 0xf) | numbers & (WINDOW_DIFFERS | 0xf) != 0 || exceptions & exception::OF_TCP != 0;
        (numbers | exceptions) & UNUSED == 0
            && (first & CHECKSUM_IS_PARTIAL == 0 || self.has_checksum())
            && exceptions & of_other_version == 0
            && (is_tcp || !has_fields_of_tcp)
            && (is_v4 || numbers & 0x30 == 0)
    }

    fn read_numbers(
        &self,
        numbers: u8,
        reader: &mut FieldReader<'_>,
        packets_later: i32,
        header: &mut [u8],
    ) -> Option<()> {
        if self.layout.is_tcp {
            let sequence = reader.take_distance(&SEQUENCE_SIZES, numbers)?;
            add(header, self.layout.sequence(), sequence.wrapping_add(self.expected_payload(packets_later)));
            add(header, self.layout.acknowledgment(), reader.take_distance(&SEQUENCE_SIZES, numbers >> 2)?);
        }
        if self.layout.is_v4 {
            let distance = reader.take_distance(&IDENTIFICATION_SIZES, numbers >> 4)?;
            let identification = self.identification(packets_later).wrapping_add(distance as u16);
            copy_field(header, 4, &identification.to_be_bytes());
        }
        Some(())
    }

    fn is_of_flow(&self, packet: &CompressiblePacket<'_>) -> bool {
        let (own, other) = (&self.layout, &packet.layout);
        let is_equal = |range: Range<usize>| self.header[range.clone()] == packet.packet[range];
        (own.is_v4, own.is_tcp) == (other.is_v4, other.is_tcp)
            && is_equal(own.addresses())
            && is_equal(own.transport()..own.transport() + 4)
    }

    /// Those beside the length of a TCP header.
    fn has_same_reserved_bits(&self, packet: &CompressiblePacket<'_>) -> bool {
        let place = self.layout.data_offset();
        !self.layout.is_tcp || (packet.packet[place] ^ self.header[place]) & 0x0f == 0
    }

    fn has_checksum(&self) -> bool {
        self.layout.is_tcp || self.header[self.layout.checksum()..][..2] != [0, 0]
    }

    fn changed_tcp_flags(&self, packet: &CompressiblePacket<'_>) -> u8 {
        packet.packet[self.layout.tcp_flags()] ^ self.header[self.layout.tcp_flags()]
    }

    /// Whether the options are longer or shorter, or differ in more than the values of the time stamps.
    fn has_other_options_than(&self, packet: &CompressiblePacket<'_>) -> bool {
        let (own, other) = (&self.header[self.layout.options()], &packet.packet[packet.layout.options()]);
        let values = self.timestamps.map_or(0..0, |place| {
            let start = place - self.layout.options().start;
            start..start + TIMESTAMP_VALUE_BYTES
        });
        own.len() != other.len()
            || own[..values.start] != other[..values.start]
            || own[values.end..] != other[values.end..]
    }

    fn differs(&self, packet: &CompressiblePacket<'_>, place: usize, octets: usize) -> bool {
        packet.packet[place..place + octets] != self.header[place..place + octets]
    }

    /// By how much a number of 32 bits is greater there.
    fn distance(&self, packet: &CompressiblePacket<'_>, place: usize) -> u32 {
        u32::from_be_bytes(read(packet.packet, place)).wrapping_sub(u32::from_be_bytes(read(&self.header, place)))
    }

    fn expected_payload(&self, packets_later: i32) -> u32 {
        u32::from(self.payload_bytes).wrapping_mul(packets_later as u32)
    }

    fn identification(&self, packets_later: i32) -> u16 {
        match u16::from_be_bytes(read(&self.header, 4)) {
            0 => 0,
            own => own.wrapping_add(packets_later as u16),
        }
    }
}

/// In the order of their bits, into the header and where it has its fields.
fn read_exceptions(exceptions: u8, reader: &mut FieldReader<'_>, layout: &mut Layout, header: &mut [u8]) -> Option<()> {
    let has = |exception: u8| exceptions & exception != 0;
    if has(exception::DS_FIELD) {
        layout.set_ds_field(header, reader.take_octet()?);
    }
    let places = [
        (exception::HOPS, layout.hops(), 1),
        (exception::TCP_FLAGS, layout.tcp_flags(), 1),
        (exception::URGENT, layout.urgent(), 2),
    ];
    for (_, place, octets) in places.into_iter().filter(|(exception, ..)| has(*exception)) {
        copy_field(header, place, reader.take_slice(octets)?);
    }
    if has(exception::FLOW_LABEL) {
        layout.set_flow_label(header, reader.take()?);
    }
    if has(exception::OPTIONS) {
        let length = reader.take_octet()?.into();
        layout.set_options(header, reader.take_slice(length)?)?;
    }
    if has(exception::IP_FLAGS) {
        layout.set_v4_flags(header, reader.take_octet()?)?;
    }
    Some(())
}

fn read<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
    std::array::from_fn(|octet| bytes[place + octet])
}

fn copy_field(header: &mut [u8], place: usize, field: &[u8]) {
    header[place..place + field.len()].copy_from_slice(field);
}

fn add(header: &mut [u8], place: usize, distance: u32) {
    let value = u32::from_be_bytes(read(header, place)).wrapping_add(distance);
    copy_field(header, place, &value.to_be_bytes());
}
