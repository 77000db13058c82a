use super::Segments;
use crate::checksum;
use crate::headers::Headers;
use std::num::NonZeroU16;

/// What a packet that stands for several is without its first segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRest {
    /// Where it begins in its frame.
    pub start: usize,
    /// Payload of each of its segments, in bytes, where it still stands for several.
    pub segment_bytes: Option<NonZeroU16>,
}

/// Cuts the first segment off a packet that stands for several, which is what `frame` holds from `start` on, and has `out` be that
/// segment, with the bytes before the packet. What is left becomes a packet of its own in its place: its headers take that of payload
/// that has been cut off. `None`, and nothing is changed, where the packet stands for itself alone.
///
/// Checksums of both are valid, but those of a rest that stands for several, and all of the transport if they `are_partial`
/// ([`PARTIAL_CHECKSUM`]).
pub fn cut_first(
    frame: &mut [u8],
    start: usize,
    (segment_bytes, are_partial): (NonZeroU16, bool),
    out: &mut Vec<u8>,
) -> Option<PacketRest> {
    let mut segments = Segments::from_frame(frame, start, segment_bytes.get(), None).ok()?;
    let (end, data_offset, cut) = (segments.frame.len(), segments.data_offset, segments.segment_bytes);
    let left = (end - data_offset).checked_sub(cut).filter(|left| *left > 0)?;
    segments.has_partial_checksums = are_partial;
    segments.write_next(out);
    let segments = Segments { frame: &[], ..segments };
    frame.copy_within(start..data_offset, start + cut);
    let rest = &mut frame[cut..end];
    segments.write_network_header(rest);
    segments.write_transport_header(rest, true);
    let (packet, is_several) = (&mut rest[start..], left > cut);
    if is_several || are_partial {
        segments.leave_checksum_partial(packet);
    } else {
        let headers = Headers { total_len: packet.len(), ..segments.headers };
        checksum::set_with_headers(packet, &headers);
    }
    Some(PacketRest { start: start + cut, segment_bytes: Some(segment_bytes).filter(|_| is_several) })
}
