use units::Span;

/// How long after its planned end a train may still be sending; what has not left by then is given up.
pub const SEND_SLACK: Span = Span::from_secs(2);
/// How long after the last send transmit stamps are waited for at most.
pub const STAMP_WAIT: Span = Span::from_millis(500);

/// From the call of `send` to the train's first packet: the sender is awake and spinning by then.
pub(crate) const LEAD: Span = Span::from_micros(200);

/// Kernel stamps don't mind when the program reads: it wakes up for a batch, not for each packet, and leaves the
/// processor to the kernel (and in the lab to the link). Short enough for the receive buffer at 10 Gbit/s.
pub(crate) const NAP: Span = Span::from_micros(100);
