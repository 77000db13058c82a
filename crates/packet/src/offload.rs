//! Doing in software what a sender left to its network card: transmit checksums (RFC 1071) and segmentation, as
//! `struct virtio_net_hdr` of `linux/virtio_net.h` describes it.

mod cut;
mod merge;
mod merge_profile;

pub use cut::{PacketRest, cut_first};
pub use merge::{MergePart, merge};
pub use merge_profile::MergeProfile;

use crate::checksum;
use crate::headers::{Headers, ParseError, Transport, protocol};
use std::num::NonZeroU16;
use thiserror::Error;

/// What a sender has left to its network card for one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// The checksum to be completed: so far it covers the pseudo header only.
    pub checksum: Option<PartialChecksum>,
    /// Payload of each segment in bytes, if the frame is to be segmented.
    pub segment_bytes: Option<u16>,
}

/// A checksum to be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Offset in the frame, in bytes, from which the checksum covers it to its end.
    pub start: u16,
    /// Offset of the checksum field from `start`, in bytes.
    pub offset: u16,
}

/// A TCP or UDP packet that stands for segments: its receiver takes them as one, or leaves it to its network card to
/// divide them. Its transport checksum need not be valid.
///
/// Segments have as much payload as headers at least, but for the last one: whoever sends a large packet has no more than
/// twice its bytes sent on. What would be shorter is no large packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargePacket {
    /// TCP or UDP.
    pub protocol: u8,
    /// Offset of the transport header, in bytes.
    pub transport_offset: usize,
    /// Offset of the payload, in bytes.
    pub payload_offset: usize,
    /// Payload of each segment but the last, in bytes; 0 where the packet is not to be divided, and only its checksum is partial.
    pub segment_bytes: u16,
}

/// Why offloaded work cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// The frame to be segmented does not contain a complete IP packet.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The packet cannot be segmented.
    #[error(
        "cannot segment a packet of {len} bytes into {segment_bytes} each: it is a fragment, not TCP or UDP, or a tunnel's; \
         switch off segmentation offload at its sender"
    )]
    Unsupported {
        /// Length of the packet, in bytes.
        len: usize,
        /// Payload of each segment, in bytes.
        segment_bytes: u16,
    },
    /// The checksum field is outside the frame.
    #[error("cannot complete the checksum of a frame of {len} bytes: its field is at byte {at}; drop the frame")]
    ChecksumField {
        /// Length of the frame, in bytes.
        len: usize,
        /// Offset of the field, in bytes.
        at: usize,
    },
}

impl Offload {
    /// Length of `struct virtio_net_hdr`, in bytes.
    pub const HEADER_BYTES: usize = 10;

    /// Reads `struct virtio_net_hdr`, in host byte order as packet(7) and TUN devices deliver it.
    pub fn read(header: [u8; Self::HEADER_BYTES]) -> Self {
        const NEEDS_CHECKSUM: u8 = 1;
        let [flags, kind, _, _, s0, s1, c0, c1, o0, o1] = header;
        let (start, offset) = (u16::from_ne_bytes([c0, c1]), u16::from_ne_bytes([o0, o1]));
        let segment_bytes = u16::from_ne_bytes([s0, s1]);
        Offload {
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some(PartialChecksum { start, offset }),
            segment_bytes: (kind != 0 && segment_bytes > 0).then_some(segment_bytes),
        }
    }
}

impl LargePacket {
    /// A packet without anything behind it.
    ///
    /// # Errors
    /// It is incomplete, a fragment, or neither TCP nor UDP, or there is something behind it; or it has UDP datagrams that are
    /// shorter than segments may be. Those of TCP are made as long as they have to be: they are parts of a stream.
    pub fn from_packet(packet: &[u8], segment_bytes: NonZeroU16) -> Result<Self, OffloadError> {
        let segments = Segments::from_frame(packet, 0, segment_bytes.get(), None)?;
        let Headers { protocol, transport_offset, total_len, .. } = segments.headers;
        let payload_offset = segments.data_offset;
        // Headers of IP have less than 64 kB.
        let longer = segment_bytes.get().max(payload_offset as u16);
        let is_short = longer > segment_bytes.get() && packet.len() - payload_offset > usize::from(segment_bytes.get());
        if total_len != packet.len() || is_short && protocol != protocol::TCP {
            return Err(OffloadError::Unsupported { len: packet.len(), segment_bytes: segment_bytes.get() });
        }
        let segment_bytes = if is_short { longer } else { segment_bytes.get() };
        Ok(LargePacket { protocol, transport_offset, payload_offset, segment_bytes })
    }

    /// `struct virtio_net_hdr` of it, whose checksum [`Self::set_partial_checksum`] has prepared; `packet` are its headers at least, and
    /// `link_header_bytes` stand before it in its frame.
    pub fn virtio_header(&self, packet: &[u8], link_header_bytes: u16) -> [u8; Offload::HEADER_BYTES] {
        const NEEDS_CHECKSUM: u8 = 1;
        const TCP_V4: u8 = 1;
        const TCP_V6: u8 = 4;
        const UDP: u8 = 5;
        const ECN: u8 = 0x80;
        const NO_SEGMENTS: u8 = 0;
        let kind = match (self.protocol, packet[0] >> 4) {
            _ if self.segment_bytes == 0 => NO_SEGMENTS,
            (protocol::UDP, _) => UDP,
            (_, version) => {
                let cwr = packet[self.transport_offset + 13] & CWR != 0;
                (if version == 4 { TCP_V4 } else { TCP_V6 }) | if cwr { ECN } else { 0 }
            }
        };
        let [header_bytes, start] =
            [self.payload_offset, self.transport_offset].map(|offset| offset as u16 + link_header_bytes);
        let words = [header_bytes, self.segment_bytes, start, self.checksum_offset() as u16];
        let [[h0, h1], [s0, s1], [c0, c1], [o0, o1]] = words.map(u16::to_ne_bytes);
        [NEEDS_CHECKSUM, kind, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    /// Has the transport checksum cover the pseudo header only, as for a network card that completes it. `packet` are
    /// the headers at least, of a packet of `len` bytes.
    pub fn set_partial_checksum(&self, packet: &mut [u8], len: usize) {
        let (network, transport) = packet.split_at_mut(self.transport_offset);
        let addresses = if network[0] >> 4 == 4 { &network[12..20] } else { &network[8..40] };
        let [high, low] = ((len - self.transport_offset) as u16).to_be_bytes();
        let mut sum = checksum::ChecksumUpdate::default();
        sum.record_change(&[0; 32][..addresses.len()], addresses);
        sum.record_change(&[0; 4], &[0, self.protocol, high, low]);
        // The sum, not its complement.
        let sum = !sum.apply(u16::MAX);
        let at = self.checksum_offset();
        transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn checksum_offset(&self) -> usize {
        checksum_offset(self.protocol)
    }
}

/// In the header of TCP or UDP.
fn checksum_offset(protocol: u8) -> usize {
    if protocol == protocol::TCP { 16 } else { 6 }
}

impl PartialChecksum {
    /// Offset of the SCTP checksum, a CRC32c; no other protocol has a checksum there.
    const SCTP_OFFSET: u16 = 8;

    /// Completes the checksum in `frame`, from whose beginning `start` counts.
    ///
    /// # Errors
    /// The field is outside the frame; nothing is changed.
    pub fn complete(self, frame: &mut [u8]) -> Result<(), OffloadError> {
        let (start, len) = (usize::from(self.start), frame.len());
        let at = start + usize::from(self.offset);
        let is_sctp = self.offset == Self::SCTP_OFFSET;
        if at + if is_sctp { 4 } else { 2 } > len {
            return Err(OffloadError::ChecksumField { len, at });
        }
        if is_sctp {
            frame[at..at + 4].fill(0);
            let value = checksum::crc32c(&frame[start..]);
            frame[at..at + 4].copy_from_slice(&value.to_le_bytes());
            return Ok(());
        }
        // The field contains the sum of the pseudo header, which is thus included.
        let value = match checksum::compute(&frame[start..]) {
            // In UDP, zero means that there is no checksum; elsewhere both are the same.
            0 => 0xffff,
            value => value,
        };
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        Ok(())
    }
}

/// The segments of a large TCP or UDP packet.
#[derive(Debug)]
pub struct Segments<'a> {
    frame: &'a [u8],
    network_offset: usize,
    /// Offset of the payload.
    data_offset: usize,
    /// Of the whole packet.
    headers: Headers,
    transport: Transport,
    segment_bytes: usize,
    /// Payload already written.
    written_bytes: usize,
    segment_index: u16,
    has_partial_checksums: bool,
}

impl<'a> Segments<'a> {
    /// Segments a frame whose IP packet begins at `network_offset`; the bytes before are repeated in each segment.
    /// `transport_at` is the offset of the transport header as far as the sender tells it: with a tunnel, that of the
    /// inner packet, which is not supported.
    ///
    /// # Errors
    /// The packet is incomplete, a fragment, neither TCP nor UDP, or a tunnel's.
    pub fn from_frame(
        frame: &'a [u8],
        network_offset: usize,
        segment_bytes: u16,
        transport_at: Option<usize>,
    ) -> Result<Self, OffloadError> {
        let packet = frame.get(network_offset..).unwrap_or_default();
        let headers = Headers::parse(packet)?;
        let refused = OffloadError::Unsupported { len: packet.len(), segment_bytes };
        let is_here = transport_at.is_none_or(|at| at == network_offset + headers.transport_offset);
        let can_be = is_here && !headers.is_fragment() && segment_bytes > 0;
        let transport = headers.transport.filter(|_| can_be).ok_or(refused)?;
        let data = match transport {
            Transport::Tcp(tcp) => tcp.payload_len,
            Transport::Udp(udp) => udp.payload_len,
            Transport::Icmp(_) => return Err(refused),
        };
        let end = network_offset + headers.total_len;
        Ok(Segments {
            frame: &frame[..end],
            network_offset,
            data_offset: end - data,
            headers,
            transport,
            segment_bytes: segment_bytes.into(),
            written_bytes: 0,
            segment_index: 0,
            has_partial_checksums: false,
        })
    }

    /// Has [`PARTIAL_CHECKSUM`] in each segment from now on: somebody behind this computes what is to be there.
    pub fn leave_checksums_partial(&mut self) {
        self.has_partial_checksums = true;
    }

    /// What is segmented, with the bytes before.
    pub fn frame(&self) -> &[u8] {
        self.frame
    }

    /// Bytes of payload that are not written yet.
    fn left_bytes(&self) -> usize {
        self.frame.len() - self.data_offset - self.written_bytes
    }

    /// Length of what is written next, with the bytes before its packet, where a packet may have `max_bytes`; at most that.
    pub fn next_bytes(&self, max_bytes: usize) -> usize {
        let payload = max_bytes.saturating_sub(self.data_offset - self.network_offset).max(self.segment_bytes);
        self.data_offset + payload.min(self.left_bytes())
    }

    /// Length of the longest segment with the bytes before its packet, in bytes.
    pub fn max_segment_bytes(&self) -> usize {
        self.frame.len().min(self.data_offset + self.segment_bytes)
    }

    /// Replaces `out` by the next segment with the bytes before its packet; false where there is none left. Checksums
    /// are valid, unless those of the transport are [to be partial](Self::leave_checksums_partial).
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        let is_written = self.write_payload(self.segment_bytes, out);
        if is_written {
            let packet = &mut out[self.network_offset..];
            let headers = Headers { total_len: packet.len(), ..self.headers };
            if self.has_partial_checksums {
                self.leave_checksum_partial(packet);
            } else {
                checksum::set_with_headers(packet, &headers);
            }
        }
        is_written
    }

    /// Replaces `out` by the bytes before the packet and the next segments, as many as one packet of `max_bytes` takes and at
    /// least one. Returns the payload of each, where they are several: `out` is a [`LargePacket`] then, and its transport
    /// checksum is not valid. `None` where there is nothing left.
    pub fn write_next_large(&mut self, max_bytes: usize, out: &mut Vec<u8>) -> Option<Option<NonZeroU16>> {
        let headers = self.data_offset - self.network_offset;
        let count = max_bytes.saturating_sub(headers) / self.segment_bytes;
        if count <= 1 || self.left_bytes() <= self.segment_bytes || self.segment_bytes < headers {
            return self.write_next(out).then_some(None);
        }
        self.write_payload(count * self.segment_bytes, out);
        self.leave_checksum_partial(&mut out[self.network_offset..]);
        Some(NonZeroU16::new(self.segment_bytes as u16))
    }

    fn leave_checksum_partial(&self, packet: &mut [u8]) {
        checksum::set_ipv4_header(packet);
        let field = self.headers.transport_offset + checksum_offset(self.headers.protocol);
        packet[field..field + 2].copy_from_slice(&PARTIAL_CHECKSUM);
    }

    /// Replaces `out` by the next so many bytes of payload, with headers of valid lengths.
    fn write_payload(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let data = &self.frame[self.data_offset..];
        if self.written_bytes >= data.len() && self.segment_index > 0 {
            return false;
        }
        let end = data.len().min(self.written_bytes + bytes);
        out.clear();
        out.extend_from_slice(&self.frame[..self.data_offset]);
        out.extend_from_slice(&data[self.written_bytes..end]);
        let is_last = end == data.len();
        self.write_network_header(out);
        self.write_transport_header(out, is_last);
        let segments = (end - self.written_bytes).div_ceil(self.segment_bytes).max(1);
        self.written_bytes = end;
        self.segment_index = self.segment_index.wrapping_add(segments as u16);
        true
    }

    fn write_network_header(&self, out: &mut [u8]) {
        let packet = &mut out[self.network_offset..];
        let len = packet.len();
        if packet[0] >> 4 == 4 {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let identification = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(self.segment_index);
            packet[4..6].copy_from_slice(&identification.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
    }

    fn write_transport_header(&self, out: &mut [u8], is_last: bool) {
        let header = &mut out[self.network_offset + self.headers.transport_offset..];
        match self.transport {
            Transport::Tcp(tcp) => {
                let sequence = tcp.sequence.wrapping_add(self.written_bytes as u32);
                header[4..8].copy_from_slice(&sequence.to_be_bytes());
                if !is_last {
                    header[13] &= !(FIN | PSH);
                }
                if self.segment_index > 0 {
                    header[13] &= !CWR;
                }
            }
            _ => {
                let len = header.len() as u16;
                header[4..6].copy_from_slice(&len.to_be_bytes());
            }
        }
    }
}

/// What stands in place of a transport checksum that is still to be computed: in UDP, 0 would say that there is none.
pub const PARTIAL_CHECKSUM: [u8; 2] = [0xff; 2];

// TCP flags that belong to the last segment only, or to the first (CWR, RFC 3168 §6.1.2).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests;
