//! A whole measurement as a pure state machine: which transport carries the trains, the delay of the idle path, then for
//! each direction the capacity, the available bandwidth by a method, and whether the two agree; at last the report.
//!
//! A [`Measurement`] decides what comes after what, and what it may cost. Whoever carries the trains (`probe` over
//! sockets, `sim` over virtual paths) has no second copy of that.
//!
//! **Loop contract.** Call [`Measurement::next`]. On [`Step::Open`] open that transport and say what came of it by
//! [`opened`](Measurement::opened) or [`not_opened`](Measurement::not_opened); on [`Step::Send`] wait, send the train,
//! collect it and give what became of it to [`carried`](Measurement::carried); [`Step::Progress`] is for whoever
//! watches. Then call `next` again, until it answers [`Step::Done`] or [`Step::Failed`]. Nothing happens between calls, and no clock is read: `now`
//! comes from the caller, stamps are in the records.
//!
//! [`report`] is what a measurement comes to, the document `kumade.measure/1`.
#![forbid(unsafe_code)]

mod clocks;
mod delay;
mod event;
mod measurement;
mod plan;
mod receive_timeout;
pub mod report;
mod series;
mod step;
mod transport;

pub use clocks::Clocks;
pub use delay::report_one_way;
pub use estimate::{Allowance, MethodSettings};
pub use event::Event;
pub use measurement::Measurement;
pub use plan::{Directions, MeasurementPlan, Session, TransportChoice};
pub use report::Report;
pub use series::{CarriedTrain, Cost, TrainSeries};
pub use step::{Failure, OpenRequest, Opened, Purpose, SendRequest, Step};
