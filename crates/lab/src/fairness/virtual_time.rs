use super::row::FairnessRow;
use super::scenario::{Fairness, FairnessPoint};
use crate::runner::RunError;

pub(super) fn run(_: &Fairness, _: &FairnessPoint<'_>) -> Result<FairnessRow, RunError> {
    Err(RunError { doing: "run", cause: anyhow::anyhow!("no network") })
}
