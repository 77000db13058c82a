use super::merge_profile::MergeProfile;
use crate::checksum;
use std::num::NonZeroU16;

/// A packet, and the payload of each of the segments for which it stands, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergePart<'a> {
    /// From its IP header on.
    pub packet: &'a [u8],
    /// In bytes.
    pub segment_bytes: Option<NonZeroU16>,
    /// Whether its transport checksum is still to be computed ([`PARTIAL_CHECKSUM`](super::PARTIAL_CHECKSUM)).
    pub has_partial_checksum: bool,
}

/// Has a packet, the content of `buffer` from `start` on, stand for `next`, too, if that follows it directly in its TCP
/// connection or UDP flow, and [segmentation](super::Segments) of the result gives both again; `segment_bytes` and whether its checksum is partial are as of the other
/// [part](MergePart). Returns the payload of each
/// segment then; its transport checksum means nothing any more. Packets with an invalid checksum are not merged, since
/// it would become valid, nor those with less payload than headers, since that would be no
/// [large packet](super::LargePacket).
pub fn merge(
    buffer: &mut Vec<u8>,
    start: usize,
    (segment_bytes, has_partial_checksum): (Option<NonZeroU16>, bool),
    next: MergePart<'_>,
) -> Option<NonZeroU16> {
    let packet = buffer.get(start..)?;
    let (shape, other) = (MergeProfile::from_packet(packet)?, MergeProfile::from_packet(next.packet)?);
    let segment = segment_bytes.or_else(|| NonZeroU16::new(u16::try_from(shape.payload_bytes).ok()?))?;
    let len = packet.len() + other.payload_bytes;
    let is_short = usize::from(segment.get()) < shape.payload_offset;
    let is_next =
        !is_short && is_continuation(&shape, &other, segment, next.segment_bytes) && len <= usize::from(u16::MAX);
    if !is_next
        || !has_trusted_checksum(MergePart { packet, segment_bytes, has_partial_checksum })
        || !has_trusted_checksum(next)
    {
        return None;
    }
    buffer.extend_from_slice(&next.packet[other.payload_offset..]);
    shape.extend_headers(&mut buffer[start..start + shape.payload_offset], len, next.packet);
    Some(segment)
}

fn is_continuation(
    first: &MergeProfile,
    next: &MergeProfile,
    segment: NonZeroU16,
    next_segment: Option<NonZeroU16>,
) -> bool {
    let bytes = usize::from(segment.get());
    let fits = next_segment.map_or(next.payload_bytes <= bytes, |of| of == segment);
    let is_whole = first.payload_bytes.is_multiple_of(bytes);
    !first.ends_group && is_whole && fits && first.is_followed_by(first.payload_bytes, bytes, next)
}

/// What stands for segments was checked when it was made, and what is partial is as its host has sent it.
fn has_trusted_checksum(part: MergePart<'_>) -> bool {
    part.segment_bytes.is_some()
        || if part.has_partial_checksum {
            checksum::is_header_valid(part.packet)
        } else {
            checksum::is_valid(part.packet).unwrap_or(false)
        }
}
