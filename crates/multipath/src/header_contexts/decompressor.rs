use super::compressor::MAX_UNUSED_TIME;
use super::{
    COMPRESSED, COMPRESSED_KEEP, FORGET_INTERVAL, HeaderCompression, KEPT_NUMBER_MASK, MAX_KEPT, PLAIN_KEEP,
    PLAIN_WHOLE, packets_later,
};
use crate::message::KeptEntry;
use crate::path::id::PathId;
use kumade_packet::header_compression::{CompressiblePacket, MAX_HEADER_BYTES, ReferenceHeaders};
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// What has been kept is dropped after so long without use: the far end has ceased to use it by then, whatever was lost or late.
const MAX_KEPT_TIME: Span = Span::from_nanos(3 * MAX_UNUSED_TIME.as_nanos());

/// The receiving end.
#[derive(Debug)]
pub(crate) struct HeaderDecompressor {
    agreed: HeaderCompression,
    /// The last ones, with the numbers of their packets in their buckets.
    kept: VecDeque<(ReferenceHeaders, u32)>,
    /// Of the next ones, of as many bits as are sent.
    next_number: u16,
    /// When something came that was compressed, or to be kept.
    last_used: Time,
    /// What is still to be said, by the path of the last of it.
    unsent: Vec<KeptEntry>,
    /// Where a packet came that could not be decompressed, and by which headers.
    unknown: Option<(PathId, u16)>,
    next_forget: Time,
    undecompressed_packets: u64,
}

/// What has come in the place of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrivedPacket<'p> {
    pub(crate) bytes: &'p [u8],
    /// In its bucket.
    pub(crate) number: u32,
    pub(crate) path: PathId,
    pub(crate) counter: u64,
}

/// What is to be said to the far end, and by which path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderAnswer {
    Kept(PathId, Vec<KeptEntry>),
    Forget(PathId, u16),
}

impl HeaderDecompressor {
    /// As agreed with the peer. Kept headers are numbered from this one on: another one than in
    /// an earlier life that the peer may believe to go on.
    pub(crate) fn new(agreed: HeaderCompression, first_number: u16) -> Self {
        HeaderDecompressor {
            agreed,
            kept: VecDeque::new(),
            next_number: first_number & KEPT_NUMBER_MASK,
            last_used: Time::ZERO,
            unsent: Vec::new(),
            unknown: None,
            next_forget: Time::ZERO,
            undecompressed_packets: 0,
        }
    }

    /// Packets that came with headers that cannot be decompressed here, or in a form that was not agreed on.
    pub(crate) fn undecompressed_packets(&self) -> u64 {
        self.undecompressed_packets
    }

    #[cfg(test)]
    pub(super) fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// By so much a packet may be longer than what stands for it.
    pub(crate) fn max_growth_bytes(&self) -> usize {
        if self.agreed.is_on() { MAX_HEADER_BYTES } else { 0 }
    }

    /// Appends the packet as it was before its headers were compressed, and returns whether its transport checksum is partial; `None`,
    /// and nothing of it, where that cannot be.
    pub(crate) fn decompress(&mut self, arrived: ArrivedPacket<'_>, packet: &mut Vec<u8>, now: Time) -> Option<bool> {
        let start = packet.len();
        let Some(first) = arrived.bytes.first().filter(|_| self.agreed.is_on()) else {
            packet.extend_from_slice(arrived.bytes);
            return Some(false);
        };
        let (is_to_be_kept, has_partial_checksum) = if first & COMPRESSED == 0 {
            packet.extend_from_slice(arrived.bytes);
            packet[start] = first & !PLAIN_KEEP | PLAIN_WHOLE;
            (first & PLAIN_KEEP != 0, first & PLAIN_WHOLE == 0)
        } else {
            self.last_used = now;
            let Some(has_partial_checksum) = self.read_compressed(&arrived, packet) else {
                self.undecompressed_packets += 1;
                return None;
            };
            (first & COMPRESSED_KEEP != 0, has_partial_checksum)
        };
        if has_partial_checksum && !self.agreed.takes_partial_checksums() {
            self.undecompressed_packets += 1;
            packet.truncate(start);
            return None;
        }
        if is_to_be_kept {
            self.last_used = now;
            self.keep(&arrived, &packet[start..]);
        }
        Some(has_partial_checksum)
    }

    fn read_compressed(&mut self, arrived: &ArrivedPacket<'_>, packet: &mut Vec<u8>) -> Option<bool> {
        let (prefix, rest) = arrived.bytes.split_first_chunk()?;
        let number = u16::from_be_bytes(*prefix) & KEPT_NUMBER_MASK;
        // 0 for the last one.
        let age = self.next_number.wrapping_sub(number + 1) & KEPT_NUMBER_MASK;
        let place = self.kept.len().checked_sub(usize::from(age) + 1);
        let decompressed = place.map(|place| &self.kept[place]).and_then(|(headers, reference)| {
            headers.decompress(rest, packets_later(arrived.number, *reference), packet).ok()
        });
        if decompressed.is_none() {
            self.unknown = Some((arrived.path, number));
        }
        decompressed
    }

    fn keep(&mut self, arrived: &ArrivedPacket<'_>, packet: &[u8]) {
        let Some(compressible) = CompressiblePacket::parse(packet) else { return };
        if self.unsent.len() == KeptEntry::MAX_ENTRIES {
            return;
        }
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((ReferenceHeaders::new(&compressible), arrived.number));
        let number = self.next_number;
        self.next_number = (number + 1) & KEPT_NUMBER_MASK;
        self.unsent.push(KeptEntry { path: arrived.path, counter: arrived.counter as u32, number });
    }

    /// What is to be said now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<HeaderAnswer> {
        if !self.kept.is_empty() && now - self.last_used > MAX_KEPT_TIME {
            self.kept = VecDeque::new();
        }
        if now >= self.next_forget
            && let Some((path, number)) = self.unknown.take()
        {
            self.next_forget = now + FORGET_INTERVAL;
            return Some(HeaderAnswer::Forget(path, number));
        }
        let path = self.unsent.last()?.path;
        Some(HeaderAnswer::Kept(path, std::mem::take(&mut self.unsent)))
    }
}
