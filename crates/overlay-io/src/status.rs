//! What is seen of bonded planes from outside: parts of the documents that gateways and tunnels publish, the same for people, and
//! as metrics for Prometheus.
//!
//! A [`Recorder`] renews a program's document once a second, for whoever asks. Counts are totals since the start; rates and
//! shares are about the last interval, made of two documents.

pub mod control;
mod document;
mod interval_rates;
pub mod metrics;
mod plane;
mod recorder;
mod refused;
mod resequencing;
mod text;
mod traffic;
mod tunnel;
mod tunnel_metrics;

pub use document::StatusDocument;
pub use kumade_multipath::OuterTransport;
pub use recorder::{LatestStatus, Recorder, utc_timestamp};
pub use refused::RefusedTraffic;
pub use resequencing::{HistogramBucket, Resequencing, Waits};
pub use traffic::Traffic;
pub use tunnel::{PathState, Tunnel, TunnelPath};
