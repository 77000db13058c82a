//! The estimators that a measurement may choose from.

use estimate::{
    Budget, LinearScan, LinearScanConfig, Method, PathChirp, PathChirpConfig, PathTester, PathTesterClassic,
    PathTesterClassicConfig, PathTesterConfig, Pathload, PathloadConfig, Primed, PrimedConfig, Shaping,
};
use units::Span;

/// What plans and reads the trains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MethodChoice {
    /// The default: finds the range by itself, then pins the value down.
    Primed,
    /// The papers' rule with these numbers; the largest packet is the transport's.
    LinearScan(LinearScanConfig),
    /// PathTester, improved: ten short trains, steered by the receiving rate.
    PathTester,
    /// PathTester before: one short train for each wait of 2^iunit µs.
    PathTesterClassic {
        /// The first exponent.
        first_iunit: u32,
        /// The last one.
        last_iunit: u32,
    },
    /// Pathload: fleets of periodic streams, a range as the result.
    Pathload,
    /// pathChirp: trains whose rate grows exponentially.
    PathChirp,
}

/// What the user allows; none leaves it to the method.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed {
    /// IP bytes to send.
    pub bytes: Option<u64>,
    /// How long to measure.
    pub time: Option<Span>,
}

impl MethodChoice {
    /// Its name on the command line and in reports.
    pub fn name(&self) -> &'static str {
        match self {
            MethodChoice::Primed => "primed",
            MethodChoice::LinearScan(_) => "linear-scan",
            MethodChoice::PathTester => "pathtester",
            MethodChoice::PathTesterClassic { .. } => "pathtester-classic",
            MethodChoice::Pathload => "pathload",
            MethodChoice::PathChirp => "pathchirp",
        }
    }

    /// No train of it has more packets.
    pub(super) fn most_packets(&self) -> u32 {
        match self {
            MethodChoice::Primed => Primed::MOST_PACKETS,
            MethodChoice::LinearScan(scan) => scan.packets,
            MethodChoice::PathTester | MethodChoice::PathTesterClassic { .. } => PathTester::MOST_PACKETS,
            MethodChoice::Pathload => Pathload::MOST_PACKETS,
            MethodChoice::PathChirp => PathChirp::MOST_PACKETS,
        }
    }

    /// Whether it is right behind a token bucket that it has been told of; the others take what passes in a burst for
    /// what lasts.
    pub(super) fn sees_through_token_buckets(&self) -> bool {
        matches!(self, MethodChoice::Primed)
    }

    /// The method itself, for a transport that carries packets up to this size, where so much is known of token buckets on
    /// the path; what is random in it comes from `seed`.
    pub fn build(&self, shaping: Shaping, max_packet: u32, allowed: Allowed, seed: u64) -> Box<dyn Method> {
        match *self {
            MethodChoice::Primed => {
                let mut config = PrimedConfig { shaping, ..PrimedConfig::new(max_packet) };
                config.budget_bytes = allowed.bytes.unwrap_or(config.budget_bytes);
                config.budget_time = allowed.time.unwrap_or(config.budget_time);
                config.seed = seed;
                Box::new(Primed::new(config))
            }
            MethodChoice::LinearScan(scan) => Box::new(LinearScan::new(LinearScanConfig { max_packet, ..scan })),
            MethodChoice::PathTester => {
                let config = PathTesterConfig::paper(max_packet);
                Box::new(PathTester::new(PathTesterConfig { budget: allowed.of(config.budget), ..config }))
            }
            MethodChoice::PathTesterClassic { first_iunit, last_iunit } => {
                let config = PathTesterClassicConfig::paper(max_packet);
                let budget = allowed.of(config.budget);
                let config = PathTesterClassicConfig { first_iunit, last_iunit, budget, ..config };
                Box::new(PathTesterClassic::new(config))
            }
            MethodChoice::Pathload => {
                let config = PathloadConfig::paper(max_packet);
                Box::new(Pathload::new(PathloadConfig { budget: allowed.of(config.budget), ..config }))
            }
            MethodChoice::PathChirp => {
                let config = PathChirpConfig::paper(max_packet);
                Box::new(PathChirp::new(PathChirpConfig { budget: allowed.of(config.budget), ..config }))
            }
        }
    }
}

impl Allowed {
    fn of(self, own: Budget) -> Budget {
        Budget { bytes: self.bytes.unwrap_or(own.bytes), time: self.time.unwrap_or(own.time) }
    }
}
