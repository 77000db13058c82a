use crate::message::DataHeader;
use kumade_packet::offload::{LargePacket, MergePart, Segments, merge};
use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::ops::{DerefMut, Range};

/// Bytes that have to be free before an IP packet that is to be sent, for all headers of its datagram.
pub const HEADROOM_BYTES: usize = kumade_noise_session::SHORT_HEADER_BYTES + DataHeader::HEADROOM_BYTES;
/// Bytes by which a datagram is longer than its IP packet, where it is one of two paths.
pub const OVERHEAD_BYTES: u32 = kumade_noise_session::SHORTEST_OVERHEAD_BYTES as u32 + DataHeader::size_for_paths(2);

/// An IP packet or a datagram, somewhere in a buffer; or a packet that stands for segments
/// ([`LargePacket`](kumade_packet::offload::LargePacket)).
///
/// `B` is a vector of bytes that may belong to a pool.
#[derive(Debug, Clone)]
pub struct PacketBuffer<B> {
    buffer: B,
    range: Range<usize>,
    form: PacketForm,
}

/// What a packet stands for beside itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PacketForm {
    segment_bytes: Option<NonZeroU16>,
    has_partial_checksum: bool,
}

impl<B: DerefMut<Target = Vec<u8>>> PacketBuffer<B> {
    /// The whole buffer, without its first `start` bytes.
    ///
    /// # Panics
    /// The buffer is shorter.
    pub fn new(buffer: B, start: usize) -> Self {
        let range = start..buffer.len();
        assert!(range.start <= range.end, "a packet begins in its buffer");
        PacketBuffer { buffer, range, form: PacketForm::default() }
    }

    /// The packet stands for segments with so many bytes of payload each, if any.
    pub fn with_segments(self, segment_bytes: Option<NonZeroU16>) -> Self {
        let form = PacketForm { segment_bytes, ..self.form };
        self.with_form(form)
    }

    /// Bytes of payload of each segment, where the packet stands for several.
    pub fn segment_bytes(&self) -> Option<NonZeroU16> {
        self.form.segment_bytes
    }

    /// Its transport checksum is partial ([`PARTIAL_CHECKSUM`](kumade_packet::offload::PARTIAL_CHECKSUM)), if this says so.
    pub fn with_partial_checksum(self, is_partial: bool) -> Self {
        let form = PacketForm { has_partial_checksum: is_partial, ..self.form };
        self.with_form(form)
    }

    /// Whether its transport checksum is partial: a packet of TCP or UDP, unless somebody hostile has sent it.
    pub fn has_partial_checksum(&self) -> bool {
        self.form.has_partial_checksum
    }

    pub(crate) fn form(&self) -> PacketForm {
        self.form
    }

    pub(crate) fn with_form(self, form: PacketForm) -> Self {
        PacketBuffer { form, ..self }
    }

    /// Bytes of the longest of the segments for which it stands, or its own.
    pub(crate) fn longest_bytes(&self) -> u32 {
        let large = self.form.segment_bytes.and_then(|bytes| LargePacket::from_packet(self.bytes(), bytes).ok());
        let longest = large.map(|large| large.payload_offset + usize::from(large.segment_bytes));
        longest.map_or(self.len(), |longest| longest.min(self.len())) as u32
    }

    /// Appends the segments for which it stands, in buffers of their own, with their lengths.
    pub(crate) fn divide(self, buffers: &dyn Fn(usize) -> B, segments: &mut VecDeque<(Self, u32)>) {
        let (start, frame) = (self.range.start, &self.buffer[..self.range.end]);
        let cut = self.form.segment_bytes.and_then(|bytes| Segments::from_frame(frame, start, bytes.get(), None).ok());
        let Some(mut cut) = cut else {
            let bytes = self.len() as u32;
            return segments.push_back((self, bytes));
        };
        if self.form.has_partial_checksum {
            cut.leave_checksums_partial();
        }
        loop {
            let mut buffer = buffers(cut.max_segment_bytes() + kumade_noise_session::TAG_BYTES);
            if !cut.write_next(&mut buffer) {
                return;
            }
            let segment = PacketBuffer::new(buffer, start).with_partial_checksum(self.form.has_partial_checksum);
            let bytes = segment.len() as u32;
            segments.push_back((segment, bytes));
        }
    }

    /// Computes its transport checksum, if that is partial.
    pub(crate) fn complete_checksum(&mut self) {
        if std::mem::take(&mut self.form.has_partial_checksum) && self.form.segment_bytes.is_none() {
            // What is no packet has none.
            let _ = kumade_packet::checksum::set(self.bytes_mut());
        }
    }

    /// Has it stand for `next`, too, if that follows it directly in its flow and both together have `max_bytes` at most. Returns
    /// its length then.
    pub(crate) fn merge(&mut self, next: &Self, max_bytes: usize) -> Option<u32> {
        if self.len() + next.len() > max_bytes {
            return None;
        }
        let next = MergePart {
            packet: next.bytes(),
            segment_bytes: next.form.segment_bytes,
            has_partial_checksum: next.form.has_partial_checksum,
        };
        let own = (self.form.segment_bytes, self.form.has_partial_checksum);
        self.form.segment_bytes = Some(merge(&mut self.buffer, self.range.start, own, next)?);
        self.range.end = self.buffer.len();
        u32::try_from(self.len()).ok()
    }

    /// Leaves out its first bytes.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.range.start = (self.range.start + bytes).min(self.range.end);
    }

    /// Has fewer bytes, or as many, in the place of its first ones. Returns how many fewer; `None`, and changes nothing, where there are
    /// more, which would take the place of what follows.
    pub(crate) fn replace_start(&mut self, replaced_bytes: usize, bytes: &[u8]) -> Option<u32> {
        let fewer = replaced_bytes.checked_sub(bytes.len()).filter(|_| replaced_bytes <= self.len())?;
        self.skip(fewer);
        self.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        u32::try_from(fewer).ok()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.range.clone()]
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Puts the header of a data message before the packet, and frees what a datagram has besides.
    pub(crate) fn encapsulate(
        mut self,
        header: &DataHeader,
        predecessors: impl Iterator<Item = crate::Predecessor> + Clone,
    ) -> Self {
        let start = header.write_into_headroom(predecessors, &mut self.buffer[..self.range.start])
            - kumade_noise_session::SHORT_HEADER_BYTES;
        let end = self.range.end + kumade_noise_session::TAG_BYTES;
        self.buffer.resize(end, 0);
        self.range = start..end;
        self
    }
}

impl<B: DerefMut<Target = Vec<u8>>> AsRef<[u8]> for PacketBuffer<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}
