//! What headers take of a path.

use kumade_multipath::{MAX_LARGE_PACKET_BYTES, SAVED_SEGMENT_BYTES};

/// The longest packet on a path, in bytes.
pub(super) const PATH_MTU: u32 = 1500;
/// Bytes of IPv4 and TCP with time stamps.
pub(super) const TCP_HEADER_BYTES: u32 = 52;

/// Bytes that a tunnel's connections add to a full packet on a path, at best: a record of the stream holds as many segments as
/// may be merged, and is carried in such segments itself.
pub(super) fn connection_overhead_bytes() -> u32 {
    let payload = PATH_MTU - TCP_HEADER_BYTES;
    let segments = MAX_LARGE_PACKET_BYTES as u32 / payload;
    let record = segments * payload
        + (TCP_HEADER_BYTES - SAVED_SEGMENT_BYTES)
        + kumade_noise_session::stream::PREFIX_BYTES as u32
        + kumade_multipath::dataplane::OVERHEAD_BYTES;
    record / segments * PATH_MTU / payload - PATH_MTU
}
