//! smokeping_prober: an exporter of histograms for Prometheus, which keeps nothing itself.

use crate::Outcome;
use crate::delays::{Delays, metric_values};
use crate::under_test::{Program, Running, output_of};
use kumade_net::namespace::Namespace;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

pub struct SmokepingProber;

/// As Debian calls it, and as it calls itself.
const NAMES: [&str; 2] = ["prometheus-smokeping-prober", "smokeping_prober"];
const PORT: u16 = 9374;
/// Its own begin at 50 µs and double, too coarse for round trips here.
const FIRST_BUCKET: f64 = 1e-5;
const BUCKET_RATIO: f64 = 1.4;
/// As many as there are by default.
const BUCKETS: i32 = 20;

impl Program for SmokepingProber {
    fn name(&self) -> &'static str {
        "smokeping_prober"
    }

    fn version(&self) -> Option<String> {
        let text = installed()?.1;
        Some(text.split_whitespace().nth(2)?.trim_end_matches(',').to_owned())
    }

    fn command(&self, host: &Namespace, _directory: &Path, targets: &[String]) -> Outcome<Command> {
        let mut command = host.command(installed().ok_or("it is gone")?.0);
        let buckets = (0..BUCKETS).map(|bucket| format!("{:e}", FIRST_BUCKET * BUCKET_RATIO.powi(bucket)));
        let buckets = buckets.collect::<Vec<_>>().join(",");
        // With raw sockets, as by default, each of its pingers reads all replies: that takes it 1.9 cores for 1000 targets in place of 0.3.
        let options = ["--no-privileged", "--config.file=", "--ping.interval=1s"];
        command.arg(format!("--buckets={buckets}")).args(options).args(targets);
        Ok(command)
    }

    /// As `histogram_quantile` does it, over all targets.
    fn delays(&self, running: &Running) -> Outcome<Delays> {
        let text = running.fetch_metrics(PORT)?;
        // By the bits of a positive number, which are ordered as it is.
        let mut buckets: BTreeMap<u64, f64> = BTreeMap::new();
        for (labels, count) in metric_values(&text, "smokeping_response_duration_seconds_bucket") {
            let bound = labels.split_once("le=\"").and_then(|(_, rest)| rest.split_once('"'));
            let bound: f64 = bound.ok_or("a bucket without a bound")?.0.replace("+Inf", "inf").parse()?;
            *buckets.entry(bound.to_bits()).or_default() += count;
        }
        let buckets: Vec<_> = buckets.into_iter().map(|(bound, count)| (f64::from_bits(bound), count)).collect();
        let quantile = |probability| quantile(&buckets, probability).ok_or("it tells no delays");
        Ok(Delays { median: quantile(0.5)?, quantile_95: quantile(0.95)? })
    }

    fn disk_bytes(&self, _: &Running) -> Outcome<Option<u64>> {
        Ok(None)
    }
}

/// Which one, and its version.
fn installed() -> Option<(&'static str, String)> {
    NAMES.into_iter().find_map(|name| Some((name, output_of(Path::new(name), &["--version"])?)))
}

/// Of cumulative counts below bounds. None without any.
fn quantile(buckets: &[(f64, f64)], probability: f64) -> Option<f64> {
    let rank = probability * buckets.last().filter(|(_, all)| *all > 0.0)?.1;
    let place = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (low, below) = place.checked_sub(1).map_or((0.0, 0.0), |before| buckets[before]);
    let (high, count) = buckets[place];
    Some(if high.is_finite() { low + (high - low) * (rank - below) / (count - below) } else { low })
}
