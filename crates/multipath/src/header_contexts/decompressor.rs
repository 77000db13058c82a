use super::{COMPRESSED, COMPRESSED_KEEP, KEPT_NUMBER_MASK, MAX_KEPT, PLAIN_KEEP, packets_later};
use crate::message::KeptEntry;
use crate::path::id::PathId;
use kumade_packet::header_compression::{CompressiblePacket, MAX_HEADER_BYTES, ReferenceHeaders};
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// The far end is asked to begin anew no more often.
const FORGET_INTERVAL: Span = Span::from_millis(100);

/// The receiving end.
#[derive(Debug)]
pub(crate) struct HeaderDecompressor {
    is_on: bool,
    /// The last ones, with the numbers of their packets in their buckets.
    kept: VecDeque<(ReferenceHeaders, u32)>,
    /// Of the next ones.
    next_number: u64,
    /// What is still to be said, by the path of the last of it.
    unsent: Vec<KeptEntry>,
    /// Where a packet came whose headers are not kept here.
    unknown_path: Option<PathId>,
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
    Forget(PathId),
}

impl HeaderDecompressor {
    /// Of a peer that compresses headers, or of one that does not.
    pub(crate) fn new(is_on: bool) -> Self {
        HeaderDecompressor {
            is_on,
            kept: VecDeque::new(),
            next_number: 0,
            unsent: Vec::new(),
            unknown_path: None,
            next_forget: Time::ZERO,
            undecompressed_packets: 0,
        }
    }

    /// Packets that came with headers that cannot be decompressed here.
    pub(crate) fn undecompressed_packets(&self) -> u64 {
        self.undecompressed_packets
    }

    /// By so much a packet may be longer than what stands for it.
    pub(crate) fn max_growth_bytes(&self) -> usize {
        if self.is_on { MAX_HEADER_BYTES } else { 0 }
    }

    /// Appends the packet as it was before its headers were compressed; false, and nothing of it, where that cannot be.
    pub(crate) fn decompress(&mut self, arrived: ArrivedPacket<'_>, packet: &mut Vec<u8>) -> bool {
        let start = packet.len();
        let Some(first) = arrived.bytes.first().filter(|_| self.is_on) else {
            packet.extend_from_slice(arrived.bytes);
            return true;
        };
        let is_to_be_kept = if first & COMPRESSED == 0 {
            packet.extend_from_slice(arrived.bytes);
            packet[start] &= !PLAIN_KEEP;
            first & PLAIN_KEEP != 0
        } else {
            if self.read_compressed(&arrived, packet).is_none() {
                self.undecompressed_packets += 1;
                return false;
            }
            first & COMPRESSED_KEEP != 0
        };
        if is_to_be_kept {
            self.keep(&arrived, &packet[start..]);
        }
        true
    }

    fn read_compressed(&mut self, arrived: &ArrivedPacket<'_>, packet: &mut Vec<u8>) -> Option<()> {
        let (prefix, rest) = arrived.bytes.split_first_chunk()?;
        let number = u64::from(u16::from_be_bytes(*prefix) & KEPT_NUMBER_MASK);
        // 0 for the last one.
        let age = self.next_number.wrapping_sub(number + 1) & u64::from(KEPT_NUMBER_MASK);
        let place = self.kept.len().checked_sub(age as usize + 1);
        let Some((headers, reference)) = place.map(|place| &self.kept[place]) else {
            self.unknown_path = Some(arrived.path);
            return None;
        };
        headers.decompress(rest, packets_later(arrived.number, *reference), packet).ok()
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
        let number = self.next_number as u16 & KEPT_NUMBER_MASK;
        self.next_number += 1;
        self.unsent.push(KeptEntry { path: arrived.path, counter: arrived.counter as u32, number });
    }

    /// What is to be said now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<HeaderAnswer> {
        if now >= self.next_forget
            && let Some(path) = self.unknown_path.take()
        {
            self.next_forget = now + FORGET_INTERVAL;
            return Some(HeaderAnswer::Forget(path));
        }
        let path = self.unsent.last()?.path;
        Some(HeaderAnswer::Kept(path, std::mem::take(&mut self.unsent)))
    }
}
