use kumade_units::Span;

/// What a gateway allows the sessions with one other gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatConfig {
    /// A session ends when no packet of its flow has passed for this long.
    pub idle_timeout: Span,
    /// How many sessions there are at a time, at most, in each role.
    pub max_sessions: usize,
}

impl Default for NatConfig {
    /// The paper's three minutes, and 10 000 sessions.
    fn default() -> Self {
        NatConfig { idle_timeout: Span::from_secs(180), max_sessions: 10_000 }
    }
}

/// The first interval between two messages of the same content; each further one is twice as long.
pub(super) const INITIAL_RETRY_INTERVAL: Span = Span::from_millis(500);
/// The longest such interval.
pub(super) const MAX_RETRY_INTERVAL: Span = Span::from_secs(8);
/// Messages of the same content before the session is given up: over 15.5 s.
pub(super) const MAX_TRIES: u32 = 6;
/// For how long a flow is left alone that was refused or given up.
pub(super) const HOLD_DOWN: Span = Span::from_secs(30);
/// Requests that wait for an answer, at most; further sessions wait their turn.
pub(super) const MAX_OPEN_REQUESTS: usize = 256;
/// How often the far end is asked whether it knows the sessions.
pub(super) const CHECK_INTERVAL: Span = Span::from_secs(1);
/// Sessions are mentioned at least once within so many intervals.
pub(super) const CHECK_CYCLE_INTERVALS: usize = 20;
/// Without an answer for this long, the far end counts as lost.
pub(super) const PEER_LOST_AFTER: Span = Span::from_secs(5);
/// A rule that is not mentioned for this long is forgotten.
pub(super) const SESSION_LEASE: Span = Span::from_secs(120);
/// Requests per second that are sent, and how many of them at once.
pub(super) const MAX_REQUESTS_PER_SECOND: f64 = 4000.0;
pub(super) const MAX_REQUEST_BURST: f64 = 256.0;
/// Messages per second that are looked at, and as many at once. The far end sends as many requests, and less of others.
pub(super) const MAX_MESSAGES_PER_SECOND: f64 = 2.0 * MAX_REQUESTS_PER_SECOND;

/// How long to wait after so many messages of the same content, of which there is one at least.
pub(super) fn retry_interval(tries: u32) -> Span {
    (INITIAL_RETRY_INTERVAL * (1 << (tries - 1).min(10))).min(MAX_RETRY_INTERVAL)
}
