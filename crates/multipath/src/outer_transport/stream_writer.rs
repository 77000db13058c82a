use crate::path_carrier::CarrierState;
use kumade_units::{Rate, Span, Time};

/// What a TCP connection says of its sending side (`TCP_INFO`), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamState {
    /// Those that it has taken and that have not left yet.
    pub unsent: u64,
    /// Those that may leave at once besides what has: the rest of the congestion window.
    pub window: u64,
    /// Those that were acknowledged in all.
    pub acknowledged: u64,
    /// Those that have arrived in all, in order or not, in full segments.
    pub delivered: u64,
    /// Those that are believed to be on their way, in full segments: neither delivered nor lost.
    pub in_flight: u64,
    /// Those that were repeated in all, in full segments.
    pub repeated: u64,
    /// Lost data is being repeated.
    pub is_recovering: bool,
    /// By how much its segments' smoothed round trip exceeds the least.
    pub excess_round_trip: Span,
    /// At which it has delivered of late.
    pub delivery_rate: Rate,
}

/// A TCP connection as the carrier of a path: how much it is to hold, and what it takes now.
///
/// **Loop contract.** Say what the connection has taken ([`StreamCarrier::written`]). Where [`StreamCarrier::is_due`], tell how
/// it does ([`StreamCarrier::look`]), give the [`CarrierState`] to the bond, and have the connection take no more than
/// [`StreamCarrier::unsent_limit`] says (`TCP_NOTSENT_LOWAT`). When it can be written again, it is due at once
/// ([`StreamCarrier::writable`]).
#[derive(Debug)]
pub struct StreamCarrier {
    written: u64,
    is_full: bool,
    look_at: Time,
    unsent_limit: u32,
    follows_rate: bool,
}

/// What waits in the connection behind the congestion window: the window must not open in vain.
const UNSENT_TIME: Span = Span::from_millis(2);
const MIN_UNSENT: u32 = 8_000;
const MAX_UNSENT: u32 = 1 << 20;

impl StreamCarrier {
    /// How it does is asked so often, as long as it is used.
    pub const LOOK_INTERVAL: Span = Span::from_millis(1);

    /// One that takes no more once so many bytes have not left yet; as many as it delivers in 2 ms, if none are given.
    pub fn new(unsent_bytes: Option<u32>, now: Time) -> Self {
        StreamCarrier {
            written: 0,
            is_full: false,
            look_at: now,
            unsent_limit: unsent_bytes.unwrap_or(MIN_UNSENT),
            follows_rate: unsent_bytes.is_none(),
        }
    }

    /// Bytes not sent yet above which it takes no more.
    pub fn unsent_limit(&self) -> u32 {
        self.unsent_limit
    }

    /// It has taken so many bytes.
    pub fn written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Whether all that it has taken is acknowledged.
    pub fn is_empty(&self, acknowledged: u64) -> bool {
        acknowledged == self.written
    }

    /// Whether it is known to take nothing more.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// It takes more again: how much has to be seen anew.
    pub fn writable(&mut self, now: Time) {
        self.look_at = now;
    }

    /// When to look at it again.
    pub fn look_at(&self) -> Time {
        self.look_at
    }

    /// Whether that is now.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.look_at
    }

    /// How it does now, while so many bytes for it wait outside.
    pub fn look(&mut self, stream: &StreamState, pending: u64, now: Time) -> CarrierState {
        self.look_at = now + Self::LOOK_INTERVAL;
        let wanted = u32::try_from(stream.delivery_rate.bytes_in(UNSENT_TIME)).unwrap_or(u32::MAX);
        let wanted = wanted.clamp(MIN_UNSENT, MAX_UNSENT);
        if self.follows_rate && wanted.abs_diff(self.unsent_limit) > self.unsent_limit / 4 {
            self.unsent_limit = wanted;
        }
        let free = (stream.window + u64::from(self.unsent_limit)).saturating_sub(stream.unsent);
        self.is_full = pending > 0 || free == 0;
        CarrierState {
            free: if pending > 0 { 0 } else { free },
            open: stream.in_flight,
            held: self.written.saturating_sub(stream.acknowledged) + pending,
            acknowledged: stream.acknowledged,
            delivered: stream.delivered,
            repeated: stream.repeated,
            is_recovering: stream.is_recovering,
            excess_round_trip: stream.excess_round_trip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(mbit: u64) -> StreamState {
        StreamState {
            unsent: 2000,
            window: 5000,
            acknowledged: 10_000,
            delivered: 11_000,
            in_flight: 7000,
            repeated: 0,
            is_recovering: false,
            excess_round_trip: Span::ZERO,
            delivery_rate: Rate::from_bits_per_second(mbit * 1_000_000),
        }
    }

    #[test]
    fn it_takes_its_window_and_what_it_delivers_in_a_short_time() {
        let mut carrier = StreamCarrier::new(None, Time::ZERO);
        carrier.written(20_000);
        // 100 Mbit/s for 2 ms.
        let state = carrier.look(&stream(100), 0, Time::ZERO);
        assert_eq!((state.free, state.open, state.held), (5000 + 25_000 - 2000, 7000, 10_000));
        assert!(!carrier.is_due(Time::ZERO) && !carrier.is_full());
        // A rate that differs little changes nothing, and what waits outside comes first.
        let state = carrier.look(&stream(110), 300, Time::ZERO);
        assert_eq!((state.free, state.held, carrier.unsent_limit()), (0, 10_300, 25_000));
        assert!(carrier.is_full());
        carrier.writable(Time::ZERO);
        assert!(carrier.is_due(Time::ZERO));
    }

    #[test]
    fn a_limit_that_was_set_stays() {
        let mut carrier = StreamCarrier::new(Some(4000), Time::ZERO);
        carrier.look(&stream(1000), 0, Time::ZERO);
        assert_eq!(carrier.unsent_limit(), 4000);
    }
}
