//! The methods that are compared on virtual paths.

use estimate::{
    LinearScan, LinearScanConfig, Method, PathChirp, PathChirpConfig, PathTester, PathTesterClassic,
    PathTesterClassicConfig, PathTesterConfig, Pathload, PathloadConfig, Primed, PrimedConfig,
};
use units::{Rate, Span};

const PACKET: u32 = 1500;

/// The names that users choose them by.
pub const METHODS: [&str; 6] = ["primed", "linear-scan", "pathtester", "pathtester-classic", "pathload", "pathchirp"];

/// With the settings of its paper, for a link of about this capacity.
pub fn method(name: &str, capacity: Rate, seed: u64) -> Box<dyn Method> {
    match name {
        "primed" => Box::new(Primed::new(PrimedConfig { seed, ..PrimedConfig::new(PACKET) })),
        "linear-scan" => {
            // The paper's train scans up to 116 Mbit/s: here as much in proportion.
            let paper = LinearScanConfig::paper(PACKET);
            let interval = Span::from_secs_f64(paper.interval.as_secs_f64() * 100e6 / capacity.as_f64());
            Box::new(LinearScan::new(LinearScanConfig { interval, ..paper }))
        }
        "pathtester" => Box::new(PathTester::new(PathTesterConfig::paper(PACKET))),
        "pathtester-classic" => Box::new(PathTesterClassic::new(PathTesterClassicConfig::paper(PACKET))),
        "pathload" => Box::new(Pathload::new(PathloadConfig::paper(PACKET))),
        "pathchirp" => Box::new(PathChirp::new(PathChirpConfig::paper(PACKET))),
        other => panic!("no method {other}"),
    }
}
