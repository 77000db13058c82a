//! Numbers formatted for people.

use kumade_probe_train::Estimate;
use kumade_units::Span;
use std::fmt;

/// A confidence level in percent: `95 %`; with one decimal just below a hundred, as in `99.7 %`.
pub(super) struct Confidence(pub(super) f64);

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        if (99.5..100.0).contains(&percent) { write!(f, "{percent:.1} %") } else { write!(f, "{percent:.0} %") }
    }
}

/// A number of bytes in B, kB (1000 bytes) or MB.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..1_000 => write!(f, "{bytes} B"),
            bytes @ 1_000..1_000_000 => write!(f, "{:.0} kB", bytes as f64 / 1e3),
            bytes => write!(f, "{:.1} MB", bytes as f64 / 1e6),
        }
    }
}

/// What a token bucket lets pass at once, in bytes: the value where it is known, else within which bounds it is.
pub struct Burst(pub Estimate<u64>);

impl Burst {
    /// The value, unless far more may pass: earlier trains may have used up a part.
    pub fn known_bytes(&self) -> Option<u64> {
        const MAX_RATIO: u64 = 2;
        Some(self.0.value).filter(|value| self.0.high <= value.saturating_mul(MAX_RATIO))
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known_bytes() {
            Some(value) => write!(f, "burst {}", Bytes(value)),
            None => write!(f, "burst {} … {}", Bytes(self.0.low), Bytes(self.0.high)),
        }
    }
}

/// A time in seconds, with its bounds where they differ: `15.1 ms ±1 ms`.
pub(super) struct SecondsWithBounds(pub(super) Estimate<f64>);

impl fmt::Display for SecondsWithBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, low, high, .. } = self.0;
        let [value, low, high] = [value, low, high].map(Span::from_secs_f64);
        write!(f, "{value}")?;
        if low == high { Ok(()) } else { write!(f, " ±{}", (value - low).max(high - value)) }
    }
}
