//! What runs beside a bulk flow: a sparse one, and an echo.

use kumade_units::Span;

/// IPv4, UDP and 100 bytes of payload.
pub(super) const PACKET_BYTES: u32 = 128;
/// From one packet to the next.
pub(super) const PACKET_INTERVAL: Span = Span::from_millis(20);
/// The same of the echo, whose packets are as long.
pub(super) const ECHO_INTERVAL: Span = Span::from_millis(10);
