//! What is read of a monitor's status (kumade.monitor/1).

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct MeshStatus {
    pub(super) pairs: Vec<PairReading>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PairReading {
    /// Ids of its agents.
    pub(super) ends: [String; 2],
    pub(super) delays: Vec<DelayReading>,
    pub(super) loss: Option<LossReading>,
    pub(super) run: Option<RunReading>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DelayReading {
    pub(super) lane: String,
    pub(super) median_seconds: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct LossReading {
    pub(super) ratio: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunReading {
    pub(super) id: i64,
    pub(super) start_seconds: f64,
    pub(super) duration_seconds: f64,
    pub(super) up: Option<FigureReading>,
    pub(super) down: Option<FigureReading>,
    pub(super) error: Option<String>,
}

/// A value with its interval, or the reason why there is none.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FigureReading {
    pub(super) value: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) reason: Option<String>,
}

impl PairReading {
    pub(super) fn round_trip_seconds(&self) -> Option<f64> {
        let delay = self.delays.iter().find(|delay| delay.lane == "round_trip");
        delay.map(|delay| delay.median_seconds)
    }
}
