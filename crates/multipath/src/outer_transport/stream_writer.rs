use crate::outer_transport::in_flight_control::StreamDelivery;
use kumade_units::{Rate, Span, Time};

/// What a TCP connection says of its sending side (`TCP_INFO`), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSenderState {
    /// Those that it has taken and that have not left yet.
    pub unsent_bytes: u64,
    /// Those that may leave at once besides what has: the rest of the congestion window.
    pub window_bytes: u64,
    /// Those that were acknowledged in all.
    pub acknowledged_bytes: u64,
    /// Those that have arrived in all, in order or not.
    pub delivered_bytes: u64,
    /// Those that are believed to be on their way: neither delivered nor lost.
    pub in_flight_bytes: u64,
    /// Those that were repeated in all.
    pub retransmitted_bytes: u64,
    /// Lost data is being repeated.
    pub is_recovering: bool,
    /// By how much its segments' smoothed round trip exceeds the least.
    pub excess_round_trip: Span,
    /// At which it has delivered of late.
    pub delivery_rate: Rate,
}

/// A TCP connection as the carrier of a path: how much it is to hold, and what it takes now.
///
/// **Loop contract.** Say what the connection has taken ([`StreamWriter::record_written`]). Where [`StreamWriter::is_due`], tell how
/// it does ([`StreamWriter::sample_stream`]), give the [`StreamDelivery`] to the bond, and have the connection take no more than
/// [`StreamWriter::max_unsent_bytes`] says (`TCP_NOTSENT_LOWAT`). When it can be written again, it is due at once
/// ([`StreamWriter::set_writable`]).
#[derive(Debug)]
pub struct StreamWriter {
    written_bytes: u64,
    is_full: bool,
    /// Since when all that it has taken is acknowledged, as far as it was looked at.
    acknowledged_since: Option<Time>,
    /// It was so for [`IDLE_AFTER`] when it was last looked at, and it has taken nothing since.
    is_idle: bool,
    next_poll: Time,
    unsent_limit_bytes: u32,
    is_limit_adaptive: bool,
}

/// What waits in the connection behind the congestion window: the window must not open in vain.
const MAX_UNSENT_TIME: Span = Span::from_millis(2);
const MIN_UNSENT_BYTES: u32 = 8_000;
const MAX_UNSENT_BYTES: u32 = 1 << 20;
/// While traffic goes on, connections that have nothing on their way for a moment are looked at as the others are.
const IDLE_AFTER: Span = Span::from_secs(1);

impl StreamWriter {
    /// How it does is asked so often, as long as it is used.
    pub const SAMPLE_INTERVAL: Span = Span::from_millis(1);

    /// One that takes no more once so many bytes have not left yet; as many as it delivers in 2 ms, if none are given.
    pub fn new(unsent_bytes: Option<u32>, now: Time) -> Self {
        StreamWriter {
            written_bytes: 0,
            is_full: false,
            acknowledged_since: None,
            is_idle: false,
            next_poll: now,
            unsent_limit_bytes: unsent_bytes.unwrap_or(MIN_UNSENT_BYTES),
            is_limit_adaptive: unsent_bytes.is_none(),
        }
    }

    /// Bytes not sent yet above which it takes no more.
    pub fn max_unsent_bytes(&self) -> u32 {
        self.unsent_limit_bytes
    }

    /// It has taken so many bytes.
    pub fn record_written(&mut self, bytes: u64) {
        self.written_bytes += bytes;
        (self.acknowledged_since, self.is_idle) = (None, false);
    }

    /// Whether all that it has taken is acknowledged: of the end that opened the connection, the kernel counts the SYN, too.
    pub fn is_all_acknowledged(&self, acknowledged: u64) -> bool {
        acknowledged >= self.written_bytes
    }

    /// Whether it is known to take nothing more.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// It takes more again: how much has to be seen anew.
    pub fn set_writable(&mut self, now: Time) {
        self.next_poll = now;
        self.is_idle = false;
    }

    /// Whether nothing is on its way, as far as it was looked at.
    pub fn is_quiet(&self) -> bool {
        self.acknowledged_since.is_some()
    }

    /// When to look at it again; not before it takes more, where none.
    pub fn sample_at(&self) -> Option<Time> {
        (!self.is_idle).then_some(self.next_poll)
    }

    /// Whether that is now.
    pub fn is_due(&self, now: Time) -> bool {
        self.sample_at().is_some_and(|time| time <= now)
    }

    /// How it does now, while so many bytes for it wait outside.
    pub fn sample_stream(&mut self, stream: &TcpSenderState, pending: u64, now: Time) -> StreamDelivery {
        self.next_poll = now + Self::SAMPLE_INTERVAL;
        let wanted = u32::try_from(stream.delivery_rate.bytes_in(MAX_UNSENT_TIME)).unwrap_or(u32::MAX);
        let wanted = wanted.clamp(MIN_UNSENT_BYTES, MAX_UNSENT_BYTES);
        if self.is_limit_adaptive && wanted.abs_diff(self.unsent_limit_bytes) > self.unsent_limit_bytes / 4 {
            self.unsent_limit_bytes = wanted;
        }
        let free = (stream.window_bytes + u64::from(self.unsent_limit_bytes)).saturating_sub(stream.unsent_bytes);
        self.is_full = pending > 0 || free == 0;
        let is_done = pending == 0 && self.is_all_acknowledged(stream.acknowledged_bytes);
        self.acknowledged_since = self.acknowledged_since.filter(|_| is_done).or(is_done.then_some(now));
        self.is_idle = self.acknowledged_since.is_some_and(|since| now - since >= IDLE_AFTER);
        StreamDelivery {
            writable_bytes: if pending > 0 { 0 } else { free },
            in_flight_bytes: stream.in_flight_bytes,
            unacknowledged_bytes: self.written_bytes.saturating_sub(stream.acknowledged_bytes) + pending,
            acknowledged_bytes: stream.acknowledged_bytes,
            delivered_bytes: stream.delivered_bytes,
            retransmitted_bytes: stream.retransmitted_bytes,
            is_recovering: stream.is_recovering,
            excess_round_trip: stream.excess_round_trip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(mbit: u64) -> TcpSenderState {
        TcpSenderState {
            unsent_bytes: 2000,
            window_bytes: 5000,
            acknowledged_bytes: 10_000,
            delivered_bytes: 11_000,
            in_flight_bytes: 7000,
            retransmitted_bytes: 0,
            is_recovering: false,
            excess_round_trip: Span::ZERO,
            delivery_rate: Rate::from_bits_per_second(mbit * 1_000_000),
        }
    }

    #[test]
    fn it_takes_its_window_and_what_it_delivers_in_a_short_time() {
        let mut carrier = StreamWriter::new(None, Time::ZERO);
        carrier.record_written(20_000);
        // 100 Mbit/s for 2 ms.
        let state = carrier.sample_stream(&stream(100), 0, Time::ZERO);
        assert_eq!(
            (state.writable_bytes, state.in_flight_bytes, state.unacknowledged_bytes),
            (5000 + 25_000 - 2000, 7000, 10_000)
        );
        assert!(!carrier.is_due(Time::ZERO) && !carrier.is_full());
        // A rate that differs little changes nothing, and what waits outside comes first.
        let state = carrier.sample_stream(&stream(110), 300, Time::ZERO);
        assert_eq!((state.writable_bytes, state.unacknowledged_bytes, carrier.max_unsent_bytes()), (0, 10_300, 25_000));
        assert!(carrier.is_full());
        carrier.set_writable(Time::ZERO);
        assert!(carrier.is_due(Time::ZERO));
    }

    #[test]
    fn one_that_has_nothing_on_its_way_is_not_looked_at_until_it_takes_more() {
        let mut carrier = StreamWriter::new(None, Time::ZERO);
        carrier.record_written(10_000);
        for pending in [300, 0] {
            carrier.sample_stream(&stream(100), pending, Time::ZERO);
            carrier.sample_stream(&stream(100), pending, Time::ZERO + IDLE_AFTER / 2);
            assert_eq!((carrier.is_due(Time::MAX), carrier.is_quiet()), (true, pending == 0), "more may come soon");
        }
        carrier.sample_stream(&stream(100), 0, Time::ZERO + IDLE_AFTER);
        assert!(!carrier.is_due(Time::MAX) && carrier.is_quiet());
        carrier.record_written(1);
        assert!(carrier.is_due(Time::MAX) && !carrier.is_quiet());
        let with_syn = TcpSenderState { acknowledged_bytes: 10_002, ..stream(100) };
        carrier.sample_stream(&with_syn, 0, Time::ZERO + IDLE_AFTER);
        carrier.sample_stream(&with_syn, 0, Time::ZERO + IDLE_AFTER * 2);
        assert!(carrier.is_quiet());
    }

    #[test]
    fn a_limit_that_was_set_stays() {
        let mut carrier = StreamWriter::new(Some(4000), Time::ZERO);
        carrier.sample_stream(&stream(1000), 0, Time::ZERO);
        assert_eq!(carrier.max_unsent_bytes(), 4000);
    }
}
