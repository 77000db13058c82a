//! The sparse flow that runs beside a bulk one.

use units::Span;

/// IPv4, UDP and 100 bytes of payload.
pub(super) const PACKET_BYTES: u32 = 128;
/// From one packet to the next.
pub(super) const INTERVAL: Span = Span::from_millis(20);
