use crate::Retention;
use crate::store::Kept;
use kumade_sketch::Layer;
use kumade_units::Span;

/// How much room an archive will take: computed before it is filled, from what the bench has measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// Pairs; probes of a pair go both ways.
    pub pairs: u64,
    /// Light probes of each pair a second.
    pub probes_per_second: f64,
    /// Exclusive runs of each pair a day.
    pub runs_per_day: f64,
    /// How long what is kept.
    pub retention: Retention,
}

/// Bytes by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForecastBytes {
    /// By kind, those that take noteworthy room.
    pub kept: Vec<(Kept, u64)>,
}

impl ForecastBytes {
    /// All together.
    pub fn total(&self) -> u64 {
        self.kept.iter().map(|(_, bytes)| bytes).sum()
    }
}

const DAY_SECONDS: f64 = 86_400.0;

/// Bytes of a probe, both directions. All figures are those of the bench's mixed paths, over a year.
const PROBE_BYTES: f64 = 2.14;
/// Bytes of a minute, an hour and a day of a probe a second, both directions.
const MINUTE_BYTES: f64 = 22.9;
const HOUR_BYTES: f64 = 116.0;
const DAY_BYTES: f64 = 880.0;
/// Other rates fill fewer or more buckets, the less so the longer the time.
const MINUTE_EXPONENT: f64 = 0.7;
const HOUR_EXPONENT: f64 = 0.3;
const DAY_EXPONENT: f64 = 0.2;
/// Bytes of a run's figures and of its document.
const FIGURES_BYTES: f64 = 343.0;
const DOCUMENT_BYTES: f64 = 774.0;

impl Forecast {
    /// What is kept once it has run for so long.
    pub fn bytes_after(&self, time: Span) -> ForecastBytes {
        let days = |kept: Kept| {
            let kept = self.retention.span(kept).map_or(time, |span| span.min(time));
            kept.as_secs_f64() / DAY_SECONDS
        };
        let probes = self.probes_per_second * DAY_SECONDS;
        let scaled = |exponent| self.probes_per_second.powf(exponent);
        let per_day = [
            (Kept::Packets, probes * PROBE_BYTES),
            (Kept::Blocks(Layer::Minutes), 24.0 * 60.0 * MINUTE_BYTES * scaled(MINUTE_EXPONENT)),
            (Kept::Blocks(Layer::Hours), 24.0 * HOUR_BYTES * scaled(HOUR_EXPONENT)),
            (Kept::Blocks(Layer::Days), DAY_BYTES * scaled(DAY_EXPONENT)),
            (Kept::Runs, self.runs_per_day * FIGURES_BYTES),
            (Kept::Documents, self.runs_per_day * DOCUMENT_BYTES),
        ];
        let bytes = |(kept, bytes): (Kept, f64)| (kept, (self.pairs as f64 * days(kept) * bytes) as u64);
        ForecastBytes { kept: per_day.into_iter().map(bytes).collect() }
    }
}
