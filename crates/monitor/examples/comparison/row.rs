//! The table that is printed.

use crate::delays::Delays;
use crate::usage::Used;
use std::fmt;

pub const HEAD: &str = "program            version  targets  probes/s  % of a core  ms/1000 probes  PSS MB  p50 µs  p95 µs  written a day MB  disk MB";

/// What a program took.
pub struct Row {
    pub name: &'static str,
    pub version: String,
    pub targets: usize,
    pub used: Used,
    pub delays: Delays,
    /// After a year.
    pub disk_bytes: Option<u64>,
}

const DAY_SECONDS: f64 = 86_400.0;

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, version, targets, used, delays, disk_bytes } = self;
        let (seconds, cpu) = (used.time.as_secs_f64(), used.cpu.as_secs_f64());
        let megabytes = |bytes: f64| bytes / 1e6;
        write!(f, "{name:18} {version:8} {targets:7}  {:8.2}", used.probes as f64 / seconds)?;
        write!(f, "  {:11.3}  {:14.2}", 100.0 * cpu / seconds, 1e6 * cpu / used.probes.max(1) as f64)?;
        write!(f, "  {:6.1}", megabytes(used.memory_bytes as f64))?;
        write!(f, "  {:6.1}  {:6.1}", delays.median * 1e6, delays.quantile_95 * 1e6)?;
        write!(f, "  {:16.0}", megabytes(used.written_bytes as f64) * DAY_SECONDS / seconds)?;
        let disk = disk_bytes.map_or_else(|| "none".to_owned(), |bytes| format!("{:.0}", megabytes(bytes as f64)));
        write!(f, "  {disk:>7}")
    }
}
