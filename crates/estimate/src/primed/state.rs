use super::packets::PrimedTrain;
use super::path_model::PathModel;
use super::tight_link::TightLinkSearch;
use crate::capacity::Shaping;
use crate::config::{Budget, Conditions};
use crate::rejection::Rejection;
use kumade_probe_train::Train;
use kumade_units::Span;
use std::collections::BTreeMap;

/// When a measurement knows enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrimedConfig {
    /// Half the interval's width at which the value is known well enough, as a part of the value.
    pub precision: f64,
}

impl Default for PrimedConfig {
    fn default() -> Self {
        PrimedConfig { precision: 0.01 }
    }
}

/// What it costs at most unless the user says otherwise. On paths so slow that the time does not suffice for
/// [`MIN_VALUE_TRAINS`](super::path_model::MIN_VALUE_TRAINS) trains, or that single packets of cross traffic show in the value, it goes on for up to six times as long.
pub(super) const BUDGET: Budget = Budget { bytes: 1_670_000, time: Span::from_secs(2) };

/// What a measurement is to keep to, and what it has found.
#[derive(Debug)]
pub(super) struct PrimedState {
    pub(super) config: PrimedConfig,
    /// The largest packet that is sent by itself, in bytes.
    pub(super) max_packet: u32,
    /// The largest packet of a burst, in bytes: a jumbo frame where the path takes them.
    pub(super) max_burst_packet: u32,
    /// Whether packets that are too close together are sent in bursts.
    pub(super) sends_bursts: bool,
    pub(super) budget: Budget,
    /// Whether the user has limited the bytes.
    pub(super) limits_bytes: bool,
    /// IP bytes of what was sent too fast before a token bucket was found.
    pub(super) bytes_before_shaper: u64,
    /// Where a token bucket is known, its committed rate is the capacity, and primes empty it.
    pub(super) shaping: Shaping,
    /// The rate at which the scout arrived, in bit/s.
    pub(super) scouted_rate: Option<f64>,
    pub(super) trains: Vec<PrimedTrain>,
    pub(super) path_model: PathModel,
    /// Beside the primed trains, which make the assumption that it tests.
    pub(super) tight_link_search: TightLinkSearch,
    /// The train sent last was one of the search.
    pub(super) is_newest_paced: bool,
    pub(super) rejected: BTreeMap<Rejection, u32>,
    pub(super) failures_in_row: u32,
    /// The highest rate of a train that was sent in bursts, as planned, in bit/s.
    pub(super) max_planned_rate: f64,
    /// The rate of the newest primed train, as planned, in bit/s.
    pub(super) newest_planned_rate: f64,
    random: u64,
}

impl PrimedState {
    /// Nothing known of the path but its conditions.
    pub(super) fn new(config: PrimedConfig, conditions: &Conditions) -> Self {
        PrimedState {
            config,
            max_packet: conditions.max_packet.min(Train::MAX_ETHERNET_PACKET_BYTES),
            max_burst_packet: conditions.max_packet,
            sends_bursts: conditions.bursts,
            limits_bytes: conditions.budget.bytes.is_some(),
            bytes_before_shaper: 0,
            budget: BUDGET.or_requested(conditions.budget),
            shaping: conditions.shaping,
            // Where a token bucket's rate is known, no scout is needed.
            scouted_rate: conditions.shaping.shaper().map(|shaper| shaper.committed_rate.value.as_f64()),
            trains: Vec::new(),
            path_model: PathModel::default(),
            tight_link_search: TightLinkSearch::default(),
            is_newest_paced: false,
            rejected: BTreeMap::new(),
            failures_in_row: 0,
            max_planned_rate: 0.0,
            newest_planned_rate: 0.0,
            random: conditions.seed,
        }
    }

    /// A random number from 0 up to but not including 1.
    pub(super) fn random(&mut self) -> f64 {
        crate::stats::random(&mut self.random)
    }

    pub(super) fn count_rejection(&mut self, why: Rejection) {
        *self.rejected.entry(why).or_default() += 1;
        self.failures_in_row += 1;
    }
}
