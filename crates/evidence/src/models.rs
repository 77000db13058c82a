//! The table of models.

mod fifo;
mod flow_queueing;
mod idle;
mod other;
mod single_link;
mod tight_link;
mod varying;

use crate::model::PathModel;
pub(crate) use single_link::LINE_VARIANCE_FACTOR;

/// All path models. Priors add up to one: they are assumptions (`assumptions.rs`), and three times as much of one, or a third,
/// must not change the answer (see [`Verdict`](crate::Verdict)).
pub const MODELS: &[&dyn PathModel] = &[
    &fifo::Fifo,
    &idle::Idle,
    &flow_queueing::FlowQueueing,
    &tight_link::TightLinkElsewhere,
    &varying::VaryingLink,
    &other::Other,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priors_add_up_to_one_and_something_else_is_never_excluded() {
        let sum: f64 = MODELS.iter().map(|model| model.prior()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let other = MODELS.iter().find(|model| model.name() == "other").unwrap();
        assert!(other.prior() >= 0.05);
    }
}
