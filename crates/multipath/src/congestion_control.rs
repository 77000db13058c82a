//! The rate of a path: from the delays and losses of what is sent on it.

pub(crate) mod background_loss;
pub(crate) mod base_delay;
pub(crate) mod competition;
pub(crate) mod control;
pub(crate) mod queue_delay;
pub(crate) mod shared_rate;
