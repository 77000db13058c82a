//! Queue disciplines: which packets are queued in front of a link, which of them is sent next, and which are dropped or
//! marked.
//!
//! A [`QueueDiscipline`] decides at two moments only: when a packet arrives and when the link can take one. Like all
//! of this crate it is told the time, draws random numbers from a seed, and needs bounded memory; once its buffers have
//! grown to what a load needs, it allocates nothing. [`Queue`] is any of them, made from a [`QueueConfig`].
//!
//! [`DISCIPLINES`] is the table of all disciplines. To add one, write a file of `queue/disciplines/` that implements
//! [`DisciplineConfig`] and [`QueueDiscipline`], and name it in `queue/disciplines.rs`. [`DisciplineSettings`] reads a
//! discipline and its parameters as users write them.
//!
//! The caller says which flow a packet belongs to (a number; a hash of its addresses and ports, say) and whether its
//! sender supports ECN (RFC 3168). A discipline trusts both.

mod buffer;
mod calendar;
mod counts;
mod discipline;
mod disciplines;
mod flow_codel;
mod flow_table;
mod heavy_flows;
mod packet;
mod parameter;
mod recurring_event;
mod settings;
mod slab;
#[cfg(test)]
mod tests;

pub use ::kumade_packet::{Dscp, Ecn};
pub use discipline::{DisciplineConfig, QueueDiscipline};
pub use disciplines::*;
pub use heavy_flows::{DropPreference, FlowHistory, HeavyFlows};
pub use packet::{Divide, DroppedPacket, Label, QueueLimit, QueuedPacket};
pub use parameter::{GivenParameters, Parameter, ParameterInfo};
pub use settings::{DisciplineSettings, ParameterError};
