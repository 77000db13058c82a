//! What paths do to packets, beside what the section `path` of reports says of it: middleboxes of known truth, in real time.

mod file;
mod judgement;
mod queue_case;
#[cfg(target_os = "linux")]
mod realtime;
mod report;
mod row;
mod scenario;
mod study;
mod treatment_settings;
mod truth;

pub use judgement::{JudgedItem, Verdict};
pub use queue_case::QueueCase;
pub use report::{PathTreatmentReport, TreatmentSummary};
pub use row::TreatmentRow;
pub use scenario::{IpVersion, LinkSettings, PathTreatmentExperiment, TreatmentCase, TreatmentPoint};
pub use treatment_settings::{ActionSettings, OptionKind, PacketKindSettings, TreatmentSettings};
