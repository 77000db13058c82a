use super::packet::Wire;
use crate::tcp::{Connection, Segment};
use multipath::CarrierState;
use std::collections::VecDeque;
use units::{Span, Time};

/// A connection that carries datagrams as records, and what it is asked for and given: as the programs have it in real time.
#[derive(Debug)]
pub(super) struct Carrier {
    connection: Connection<Wire>,
    /// Records that the connection has not taken yet.
    pending: VecDeque<Wire>,
    pending_bytes: u64,
    /// Bytes that it has taken in all.
    written: u64,
    is_full: bool,
    look_at: Time,
    /// Bytes not sent yet above which it takes no more (`TCP_NOTSENT_LOWAT`).
    unsent_limit: u32,
    /// Whether that follows the rate.
    follows_rate: bool,
}

/// How it does is asked so often, as long as it is used.
const LOOK_INTERVAL: Span = Span::from_millis(1);
/// What waits in it behind the congestion window.
const UNSENT_TIME: Span = Span::from_millis(2);
const MIN_UNSENT: u32 = 8_000;
const MAX_UNSENT: u32 = 1 << 20;
/// Beyond this, reports, which no room holds back, are dropped.
const MAX_PENDING: u64 = 64 << 10;

impl Carrier {
    /// One that takes records until so many bytes are unsent; as many as it delivers in 2 ms, if none are given.
    pub(super) fn new(connection: Connection<Wire>, unsent_bytes: Option<u32>) -> Self {
        Carrier {
            connection,
            pending: VecDeque::new(),
            pending_bytes: 0,
            written: 0,
            is_full: false,
            look_at: Time::ZERO,
            unsent_limit: unsent_bytes.unwrap_or(MIN_UNSENT),
            follows_rate: unsent_bytes.is_none(),
        }
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self, now: Time) {
        self.connection.on_time(now);
        let is_full = self.is_full || !self.pending.is_empty();
        if is_full && self.connection.unsent_bytes() < u64::from(self.unsent_limit) {
            self.look_at = now;
        }
    }

    /// How it does now; none where that was said a short time ago.
    pub(super) fn state(&mut self, now: Time) -> Option<CarrierState> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_INTERVAL;
        let state = self.connection.state();
        let wanted = u32::try_from(state.delivery_rate.bytes_in(UNSENT_TIME)).unwrap_or(u32::MAX);
        let wanted = wanted.clamp(MIN_UNSENT, MAX_UNSENT);
        if self.follows_rate && wanted.abs_diff(self.unsent_limit) > self.unsent_limit / 4 {
            self.unsent_limit = wanted;
        }
        let free = (state.window + u64::from(self.unsent_limit)).saturating_sub(state.unsent);
        self.is_full = !self.pending.is_empty() || free == 0;
        Some(CarrierState {
            free: if self.pending.is_empty() { free } else { 0 },
            open: self.written.saturating_sub(state.acknowledged + state.unsent),
            held: self.written.saturating_sub(state.acknowledged) + self.pending_bytes,
            acknowledged: state.acknowledged,
            repeated: state.repeated,
            is_recovering: state.is_recovering,
        })
    }

    /// Adds a datagram to what is to be sent.
    pub(super) fn push(&mut self, wire: Wire) {
        let bytes = u64::from(wire.bytes);
        let most = MAX_PENDING.max(self.unsent_limit.into());
        if self.pending.is_empty() || self.pending_bytes + bytes <= most {
            self.pending_bytes += bytes;
            self.pending.push_back(wire);
        }
    }

    /// What leaves now, if anything.
    pub(super) fn poll_send(&mut self, now: Time) -> Option<Segment<Wire>> {
        while self.connection.unsent_bytes() < u64::from(self.unsent_limit) {
            let Some(wire) = self.pending.pop_front() else { break };
            let bytes = wire.bytes;
            self.pending_bytes -= u64::from(bytes);
            self.written += u64::from(bytes);
            self.connection.write(wire, bytes);
        }
        self.connection.poll_send(now)
    }

    /// A segment of its far end has arrived; appends the datagrams that it completes.
    pub(super) fn receive(&mut self, segment: Segment<Wire>, now: Time, out: &mut Vec<Wire>) {
        self.connection.receive(segment, now, out);
    }

    /// When it has something to do; while something waits for it, also when to look at it again.
    pub(super) fn next_time(&self, is_awaited: bool) -> Option<Time> {
        self.connection.next_time().into_iter().chain(is_awaited.then_some(self.look_at)).min()
    }
}
