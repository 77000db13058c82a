//! Paths of many kinds, drawn at random from seeds, with known truth: what measurements are tuned and judged by.
//!
//! Seeds that tune are kept apart from seeds that judge: [`Seeds::Tuning`] and [`Seeds::Evaluation`] never give the same path.
//! A new kind is a variant of [`PathKind`], a line in [`PathKind::ALL`], and what it draws.

pub mod cellular;
mod comparison;
mod draw;
mod kind;
mod measure;
mod summary;
mod truth;

pub use comparison::{KindComparison, PathComparison, Statement, StatementSummary};
pub use draw::DrawnPath;
pub use kind::PathKind;
pub use measure::{AtlasMeasurement, MeasureError};
pub use summary::{KindResults, PathResult, refusal_cause};
pub use truth::{EstimateError, EstimateFault, PathTruth};

/// Which seeds draw paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// Those that methods may be tuned with.
    Tuning,
    /// Those that methods are judged by, and never tuned with.
    Evaluation,
}

impl Seeds {
    /// The seed of the path with this number.
    pub fn seed(self, number: u32) -> u64 {
        let half = match self {
            Seeds::Tuning => 0,
            Seeds::Evaluation => 1 << 32,
        };
        half + u64::from(number)
    }
}
