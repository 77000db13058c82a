use kumade_units::Span;

/// How a connection finds and repairs losses. The default is what Linux does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// How it finds them.
    pub detection: LossDetection,
    /// What the variance's part of the retransmission timeout is at least: Linux's `TCP_RTO_MIN`.
    pub min_timeout: Span,
    /// What that timeout is at most: Linux's `TCP_RTO_MAX`.
    pub max_timeout: Span,
    /// Whether the timeout counts from a tail loss probe on, as in Linux; else from the first segment's sending, be the
    /// probe ever so near to that. Matters where the timeout is not much longer than the round trip.
    pub probe_restarts_timeout: bool,
}

/// How a sender finds out that a segment was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossDetection {
    /// By selective acknowledgements and time, with tail loss probes (RFC 2018, RFC 2883, RFC 8985).
    #[default]
    RackTlp,
    /// By three duplicate acknowledgements, one segment per round trip, and by the timeout (RFC 6582): as systems without
    /// SACK have it.
    NewReno,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        RecoveryConfig {
            detection: LossDetection::default(),
            // RFC 6298 says 1 s.
            min_timeout: Span::from_millis(200),
            max_timeout: Span::from_secs(120),
            probe_restarts_timeout: false,
        }
    }
}
