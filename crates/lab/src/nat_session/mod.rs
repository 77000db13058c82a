//! Experiments on NAT sessions, the paper's Fig. 3: flows between two sites whose gateways agree on sessions for them, and
//! when each of these was asked for, opened, used and ended at either gateway.
//!
//! A [`NatSessionExperiment`] consists of [`NatCase`]s, each run several times, between real gateways or in virtual time;
//! each run gives a [`NatSessionRow`], and the rows a [`NatSessionReport`]. What either gateway tells of its sessions goes to an
//! `observer`, which is the same for both.

mod file;
mod flow_traffic;
mod gateways;
mod realtime;
mod report;
mod row;
mod scenario;
mod session_observer;
mod study;
mod summary;
mod udp_flows;
mod virtual_time;

pub use report::NatSessionReport;
pub use row::{FlowRow, NatSessionRow, SessionEnd, SessionRow};
pub use scenario::{GatewayRestart, MessageLoss, NatCase, NatPoint, NatSessionExperiment, SessionGateway};
pub use summary::{CaseSummary, NatSessionSummary, Spread};
