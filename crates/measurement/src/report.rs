//! The document `kumade.measure/1`, a stable format for other programs, which can be serialised and deserialised. Its
//! JSON Schema is `schemas/kumade.measure.1.json`.

mod capacity;
mod clock;
mod delay;
mod direction;
mod document;
mod extensions;
mod figures;
mod guard;
mod idle_timeouts;
mod load;
mod load_balancing;
mod packets;
mod path;
mod ports;
mod queue_classes;
mod queue_marking;
mod schema;
mod stream;
mod trace;
mod warning;

pub use capacity::{CapacityReport, PolicerReport, ShaperReport};
pub use clock::{ClockReport, StepReport};
pub use delay::{DelayFigures, DelayReport};
pub use direction::DirectionReport;
pub use document::{ErrorReport, Report, SCHEMA};
pub use extensions::{
    ClassOfServiceCount, ClassOfServiceReport, CountersReport, EcnCodepoint, ExtensionsReport, LocationReport,
    SynchronisationSource, TimestampMethod, TimestampsReport,
};
pub use figures::{Burst, Bytes};
pub(crate) use guard::without_contradictions;
pub use idle_timeouts::{IdleTimeoutReport, IdleTimeoutsReport};
pub use kumade_estimate::delay::ClockModelError;
pub use kumade_estimate::{ArrivalPattern, CapacityReason, Reason, Rejection};
pub(crate) use load::IP_BYTES_PER_BYTE;
pub use load::{BufferbloatGrade, LoadReport};
pub use load_balancing::LoadBalancingReport;
pub use packets::PacketReport;
pub use path::{
    AddressReport, DscpPattern, EcnGrade, EcnReadiness, EcnRequest, HopLimitReport, MarkReport, MssReport, MtuReport,
    NatFiltering, NatMapping, PathDirectionReport, PathReport, SynProbeOutcome, SynProbeReport, SynReport,
    TcpPathReport, Treatment,
};
pub use ports::{PortOutcome, PortReport, PortsReport};
pub use queue_classes::{ClassQueue, ClassQueueReport, QueueClassesReport, QueueCount, ServedPackets};
pub use queue_marking::{
    CodepointMarkingReport, FirstMarkReport, LastingQueueKind, LastingQueueReport, MarkingThresholdReport,
    QueueMarkingKind, QueueMarkingReport,
};
pub use stream::StreamLine;
pub use trace::{FarEndMarkReport, HopReport, MarkChangeReport, TracePathReport, TraceReport};
pub use warning::{LoadReason, ProxySign, Warning};
