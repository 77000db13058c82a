//! The document `kumade.measure/1`, on which other programs may rely: it can be written and read back. Its JSON Schema
//! is `schemas/kumade.measure.1.json`.

mod capacity;
mod clock;
mod delay;
mod direction;
mod document;
mod figures;
mod packets;
mod schema;
mod stream;

pub use capacity::{CapacityReport, ShaperReport};
pub use clock::{ClockReport, StepReport};
pub use delay::{DelayFigures, DelayReport};
pub use direction::DirectionReport;
pub use document::{Report, SCHEMA};
pub use packets::PacketReport;
pub use stream::StreamLine;
