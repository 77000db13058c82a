//! SmokePing with fping.

use crate::Outcome;
use crate::delays::Delays;
use crate::under_test::{Program, Running, output_of};
use kumade_net::namespace::Namespace;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub struct SmokePing;

/// Of the package's own configuration, which is used as it comes.
pub const STEP: Duration = Duration::from_secs(300);
const PACKAGED: [&str; 3] = ["Database", "Presentation", "Probes"];
const PINGS: usize = 20;
/// Prints what files have of the last step: the median, then each ping, a line a file.
const LAST_STEP: &str = r#"
for my $file (@ARGV) {
    my $info = RRDs::info($file);
    print join(" ", map { $info->{"ds[$_].last_ds"} } "median", map { "ping$_" } 1..20), "\n";
}"#;

impl Program for SmokePing {
    fn name(&self) -> &'static str {
        "SmokePing"
    }

    fn version(&self) -> Option<String> {
        output_of(Path::new("fping"), &["--version"])?;
        output_of(Path::new("smokeping"), &["--version"])
    }

    fn command(&self, host: &Namespace, directory: &Path, targets: &[String]) -> Outcome<Command> {
        let place = directory.display();
        let mut text = format!(
            "*** General ***\nowner = nobody\ncontact = nobody@localhost\nmailhost = localhost\nsendmail = /bin/true\n\
             cgiurl = http://localhost/smokeping.cgi\nimgurl = ../images\nimgcache = {place}/images\ndatadir = {place}/data\n\
             piddir = {place}\ndyndir = {place}\nsmokemail = /etc/smokeping/smokemail\ntmail = /etc/smokeping/tmail\n"
        );
        for section in PACKAGED {
            writeln!(text, "@include /etc/smokeping/config.d/{section}")?;
        }
        text += "*** Targets ***\nprobe = FPing\nmenu = Top\ntitle = Top\n+ all\nmenu = all\ntitle = all\n";
        for (number, target) in targets.iter().enumerate() {
            writeln!(text, "++ target{number}\nmenu = {target}\ntitle = {target}\nhost = {target}")?;
        }
        for folder in ["images", "data"] {
            fs::create_dir_all(directory.join(folder))?;
        }
        fs::write(directory.join("config"), text)?;
        let mut command = host.command("smokeping");
        command.arg(format!("--config={place}/config")).arg("--nodaemon");
        Ok(command)
    }

    /// Of the last step.
    fn delays(&self, running: &Running) -> Outcome<Delays> {
        let files = fs::read_dir(running.directory.join("data/all"))?.map(|entry| Ok(entry?.path()));
        let files = files.collect::<Outcome<Vec<_>>>()?;
        let printed = Command::new("perl").args(["-MRRDs", "-e", LAST_STEP]).args(files).output()?;
        let (mut medians, mut quantiles) = (Vec::new(), Vec::new());
        for line in String::from_utf8(printed.stdout)?.lines() {
            let mut values: Vec<f64> = line.split(' ').filter_map(|value| value.parse().ok()).collect();
            if values.len() != PINGS + 1 {
                return Err(format!("a step has not {PINGS} pings: {line}").into());
            }
            medians.push(values.remove(0));
            values.sort_by(f64::total_cmp);
            quantiles.push(values[PINGS * 95 / 100 - 1]);
        }
        Delays::of_targets(medians, quantiles)
    }

    /// Its files have their full size from the beginning.
    fn disk_bytes(&self, running: &Running) -> Outcome<Option<u64>> {
        let sizes = fs::read_dir(running.directory.join("data/all"))?.map(|entry| Ok(entry?.metadata()?.len()));
        Ok(Some(sizes.sum::<Outcome<u64>>()?))
    }
}
