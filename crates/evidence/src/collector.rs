//! Collects the facts of one direction's trains.

use crate::facts::{Epoch, TrainFacts};
use crate::observations::Observations;
use crate::posterior::Evidence;
use kumade_probe_train::statistics::mean;
use kumade_probe_train::{Train, TrainRecord};
use kumade_units::Span;

/// No more trains are kept: a peer that has one measured for hours costs bounded memory.
const MAX_TRAINS: usize = 400;

/// The facts of one direction's trains, in the order of sending.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EvidenceCollector {
    epoch: Option<Epoch>,
    trains: Vec<TrainFacts>,
    idle_wait: Option<f64>,
}

impl EvidenceCollector {
    /// Takes in what became of a train that was to be sent as `plan`.
    pub fn add_train(&mut self, record: &TrainRecord, plan: &Train) {
        let Some(epoch) = self.epoch.or_else(|| Epoch::from_record(record)) else { return };
        self.epoch = Some(epoch);
        let last_end = self.trains.last().map(|train| train.end);
        if self.trains.len() < MAX_TRAINS {
            self.trains.extend(TrainFacts::from_record(record, plan, epoch, last_end));
        }
    }

    /// Takes in the delays of single packets on the path before it is loaded.
    pub fn set_idle_delays(&mut self, delays: &[Span]) {
        let Some(least) = delays.iter().min() else { return };
        self.idle_wait = Some(mean(&delays.iter().map(|delay| (*delay - *least).as_secs_f64()).collect::<Vec<_>>()));
    }

    /// The facts so far.
    pub fn trains(&self) -> &[TrainFacts] {
        &self.trains
    }

    /// What they come to; none where no train was queued. Takes some milliseconds.
    pub fn evidence(&self) -> Option<Evidence> {
        Observations::from_trains(&self.trains, self.idle_wait).map(|seen| Evidence::from_observations(&seen))
    }
}
