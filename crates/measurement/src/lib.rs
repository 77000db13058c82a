//! A full measurement as a pure state machine: choice of the transport, one-way delay of the unloaded path, then for each
//! direction the capacity, the available bandwidth by an estimation method and a check that both are consistent, and
//! finally the report.
//!
//! A [`Measurement`] decides the order of the trains and divides the budget. Drivers carry the trains: `client` over
//! sockets, `sim` over virtual paths.
//!
//! **Loop contract.** Call [`Measurement::next`]. On [`Step::Open`], open that transport and report the result with
//! [`transport_opened`](Measurement::transport_opened) or [`transport_failed`](Measurement::transport_failed). On [`Step::Send`], wait, send the train,
//! receive it at the other end and pass the record to [`train_delivered`](Measurement::train_delivered). On [`Step::Load`], which only a plan
//! with [`load`](MeasurementPlan::load) leads to, fill the path and pass what came of it to [`load_completed`](Measurement::load_completed) or
//! [`load_failed`](Measurement::load_failed). On [`Step::Mark`], which only a plan with [`path`](MeasurementPlan::path) leads to, send the
//! marked packets and pass what became of them to [`marks_delivered`](Measurement::marks_delivered) or
//! [`marks_failed`](Measurement::marks_failed). On [`Step::Trace`], which only one with [`trace`](MeasurementPlan::trace) leads to, send the packets that
//! end on the way, or have the far end send them, and pass what routers answered to [`hops_traced`](Measurement::hops_traced) or [`hops_not_traced`](Measurement::hops_not_traced).
//! On [`Step::Ports`], which only one with [`ports`](MeasurementPlan::ports) leads to, try these ports and pass what became of them to
//! [`ports_tried`](Measurement::ports_tried) or [`ports_failed`](Measurement::ports_failed). On [`Step::IdleFlows`], which only one with
//! [`idle_timeouts`](MeasurementPlan::idle_timeouts) leads to, leave flows idle and pass what became of them to
//! [`flows_idled`](Measurement::flows_idled) or [`flows_failed`](Measurement::flows_failed).
//! On [`Step::SendDsFields`], which only one with [`path`](MeasurementPlan::path) or
//! [`queues`](MeasurementPlan::queues) leads to, send that train and pass what became of it to
//! [`ds_fields_delivered`](Measurement::ds_fields_delivered) or [`ds_fields_failed`](Measurement::ds_fields_failed).
//! [`Step::Progress`] is an event
//! for the user. Then call `next` again, until it returns [`Step::Done`] or [`Step::Failed`]. The state machine reads no
//! clock: `now` comes from the caller, and time stamps are in the records.
//!
//! [`report`] has the result, the document `kumade.measure/1`.
#![forbid(unsafe_code)]

mod clocks;
mod delay;
mod ecmp;
mod event;
mod interpretation;
mod load;
mod measurement;
mod packet_size;
mod path;
mod plan;
mod proxy_detection;
mod receive_timeout;
pub mod report;
mod series;
mod step;
mod transport;

pub use clocks::Clocks;
pub use delay::report_one_way;
pub use event::Event;
pub use kumade_estimate::{MethodSettings, RequestedBudget};
pub use load::{LoadRecord, LoadRequest};
pub use measurement::Measurement;
pub use path::{
    FlowKind, IdleFlowResult, IdleRound, MappingFacts, PortRound, PortRoundRecord, PortTarget, PortTry, PortTryAnswer,
    SynProbeFacts, SynProbeKind, TcpEndFacts, TcpFacts, UdpFacts, UnopenedPort, UnsolicitedFacts,
};
pub use plan::{Coalescing, Directions, MeasurementPlan, Session, TransportChoice};
pub use proxy_detection::{TcpConnectionInfo, detect_proxy};
pub use report::Report;
pub use series::{Cost, DeliveredTrain, TrainSeries};
pub use step::{DsFieldRequest, Failure, MarkRequest, OpenRequest, Opened, Purpose, SendRequest, Step, TraceRequest};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
