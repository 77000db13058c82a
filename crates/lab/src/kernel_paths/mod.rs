//! Paths of the kernel's own shapers, drawn at random: whether measurements of them are right, sure or wrong.
//!
//! ```text
//! a, c ── router ══ first shaper up ══▶ router ══ second shaper up ══▶ b
//!                                          └── d
//! ```

mod draw;
mod file;
mod judgement;
mod realtime;
mod report;
mod row;
mod scenario;
mod study;

pub use judgement::PathVerdict;
pub use report::{KernelKindSummary, KernelPathsReport};
pub use row::KernelPathRow;
pub use scenario::{KernelPathKind, KernelPathPoint, KernelPaths};
