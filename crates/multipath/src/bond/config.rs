use crate::path::id::PathId;
use crate::path::state::PathConfig;
use crate::scheduler::policy::PathPolicy;
use kumade_link::queue::{CoDelConfig, FqCoDelConfig, QueueConfig, QueueLimit, TailDropConfig};
use kumade_units::{ConfigError, Span};

/// The settings of a [`Bond`](crate::Bond).
#[derive(Debug, Clone, PartialEq)]
pub struct BondConfig {
    /// By which path packets go.
    pub policy: PathPolicy,
    /// Where they wait until a path has room. The times of an FQ-CoDel follow the paths' round trips.
    pub queue: QueueConfig,
    /// The paths; their numbers are their places.
    pub paths: Vec<PathConfig>,
    /// The seed of the queue's random decisions.
    pub seed: u64,
}

/// For senders with short round trips, a long flow fills the paths after each drop with this target of CoDel, …
const MIN_CODEL_TARGET: Span = Span::from_millis(20);
/// … and this interval.
const MIN_CODEL_INTERVAL: Span = Span::from_millis(200);
/// Longer round trips are so many targets, …
const TARGETS_PER_ROUND_TRIP: i64 = 8;
/// … and the interval so many of them: until a sender has learned of a drop and the queue has become shorter by what it then
/// sends less, it must not meet another.
const ROUND_TRIPS_PER_INTERVAL: i64 = 2;

impl BondConfig {
    /// Whether a bond can have these paths and share packets so.
    ///
    /// # Errors
    /// There is no path or more than [`PathId::MAX_PATHS`], or the choice does not suit them.
    pub fn check(&self) -> Result<(), ConfigError> {
        let count = self.paths.len();
        if !(1..=PathId::MAX_PATHS).contains(&count) {
            let error = ConfigError::for_part("gateway");
            return Err(error("number of paths", count.to_string(), "out of range", "give 1 to 16 paths"));
        }
        self.policy.check_policy(count)
    }

    /// A queue that is managed: FQ-CoDel whose times follow the paths' round trips. Sparse flows do not wait for long ones, so
    /// that it may be longer than on a single link.
    pub fn managed_queue() -> QueueConfig {
        let (target, interval) = Self::codel_times(Span::ZERO);
        let codel = CoDelConfig { target, interval, ecn: true, ..CoDelConfig::default() };
        QueueConfig {
            limit: QueueLimit::Bytes(16 << 20),
            discipline: FqCoDelConfig { codel, ..FqCoDelConfig::default() }.into(),
        }
    }

    /// A queue that drops what does not fit, as long as that of a TUN device is by default: without an AQM.
    pub fn unmanaged_queue() -> QueueConfig {
        QueueConfig { limit: QueueLimit::Packets(500), discipline: TailDropConfig.into() }
    }

    /// The target and the interval of CoDel where the longest round trip of the paths is this.
    pub(crate) fn codel_times(round_trip: Span) -> (Span, Span) {
        let target = (round_trip / TARGETS_PER_ROUND_TRIP).max(MIN_CODEL_TARGET);
        (target, (round_trip * ROUND_TRIPS_PER_INTERVAL).max(MIN_CODEL_INTERVAL))
    }
}
