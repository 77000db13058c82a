use kumade_units::Span;

/// Maximum time after its planned end for which a train may still be sent; remaining packets are dropped.
pub const SEND_SLACK: Span = Span::from_secs(2);
/// Maximum wait for transmit time stamps after the last send.
pub const STAMP_WAIT: Span = Span::from_millis(500);

/// Time from the call of `send` to the train's first packet: by then the sender is spinning.
pub(crate) const START_DELAY: Span = Span::from_micros(200);

/// Sleep between reads of a receiver. Kernel time stamps don't depend on when the program reads, so it wakes up once per
/// batch and leaves the processor to the kernel (and in the lab to the link). Short enough for the receive buffer at
/// 10 Gbit/s.
pub(crate) const READ_INTERVAL: Span = Span::from_micros(100);
