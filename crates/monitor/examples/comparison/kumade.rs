//! `kumade monitor` as a single host.

use crate::Outcome;
use crate::delays::{Delays, metric_values};
use crate::under_test::{Program, Running, output_of};
use kumade_net::namespace::Namespace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Kumade {
    pub program: PathBuf,
}

const METRICS_PORT: u16 = 9469;
const FILE: &str = "monitor.toml";

impl Program for Kumade {
    fn name(&self) -> &'static str {
        "kumade"
    }

    fn version(&self) -> Option<String> {
        let text = output_of(&self.program, &["--version"])?;
        Some(text.split_whitespace().nth(1)?.to_owned())
    }

    fn command(&self, host: &Namespace, directory: &Path, targets: &[String]) -> Outcome<Command> {
        let archive = directory.join("archive");
        let mut text = format!("[monitor]\narchive = {archive:?}\nprometheus = \"{METRICS_PORT}\"\n");
        targets.iter().for_each(|target| text += &format!("[[target]]\nhost = \"{target}\"\n"));
        fs::write(directory.join(FILE), text)?;
        let mut command = host.command(&self.program);
        command.args(["monitor", "--config"]).arg(directory.join(FILE));
        // Another monitor of this host has the same name.
        command.env("XDG_RUNTIME_DIR", directory);
        Ok(command)
    }

    fn delays(&self, running: &Running) -> Outcome<Delays> {
        let text = running.fetch_metrics(METRICS_PORT)?;
        let values = |name| metric_values(&text, name).map(|(_, value)| value).collect();
        Delays::of_targets(values("kumade_monitor_delay_median_seconds"), values("kumade_monitor_delay_95_seconds"))
    }

    /// By its own forecast, which is for both directions: of round trips it keeps less.
    fn disk_bytes(&self, running: &Running) -> Outcome<Option<u64>> {
        let file = running.directory.join(FILE);
        let text = output_of(&self.program, &["monitor", "check", &file.to_string_lossy()]).unwrap_or_default();
        let forecast = text.lines().find_map(|line| line.strip_prefix("archive: ")).ok_or(text.clone())?;
        let megabytes: f64 = forecast.split(' ').next().unwrap_or_default().parse()?;
        Ok(Some((megabytes * 1e6) as u64))
    }
}
