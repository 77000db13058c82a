//! The direct plane: the kernel divides the packets of local hosts among the paths, and gives them other addresses where a
//! path needs that.
//!
//! ```text
//! local host ──▶ prerouting: mark 27393, 27394 … in turn ──▶ routing table of the mark ──▶ postrouting: addresses ──▶ path
//! local host ◀── routing ◀── prerouting: addresses back ◀── any path
//! ```
//!
//! Which packet takes which path is the paper's rule: with weights 16 and 3, sixteen in a row take the first path and then
//! three the second. Packets that this host sends itself take the system's routes.
//!
//! The kernel merges packets of one flow as they arrive, and what is merged takes one path: 64 kB at once would fill a slow
//! path's queue for long. Where paths' rates are known, interfaces of local hosts merge no more than the slowest of them sends
//! in 2 ms. (See [`kumade_net::gro`] for what cannot be bounded.)
//!
//! Of a remote site with sessions, only single flows are divided, which are entered into lists while packets pass
//! ([`FlowLists`]); others take the system's routes, and are noted. A [`SessionPlane`] reads these notes, agrees with the remote
//! gateway on each flow ([`kumade_multipath::nat_session`]), and enters it. Its messages are sealed ([`kumade_noise_session`]) and travel in UDP by
//! the paths; how flows may be translated is for each gateway's own configuration to say, and for known keys only.
//!
//! Not done: fragments of single flows, which have no ports, are neither divided nor translated.
//!
//! Rules are installed at one instant and belong to this process (see [`kumade_net::nftables`]): if it is killed, the kernel removes
//! them, and packets take the system's routes. What is left then (routing tables that nothing uses) is removed by the next
//! start.

mod fast_path;
mod flow_lists;
mod flow_rules;
mod gro_limit_guard;
mod host;
mod plan;
mod plane;
mod reverse_path;
mod session_node;
mod session_plane;
mod session_rules;
mod session_shard;
mod session_status;

pub use fast_path::DirectFastPath;
pub use flow_lists::FlowLists;
pub use host::check_forwarding;
pub use plan::DirectPlan;
pub(crate) use plan::path_mark as mark;
pub use plane::{DirectError, DirectPlane, PathCount};
pub use session_plane::SessionPlane;
pub use session_shard::SessionsError;
pub use session_status::{RemoteSessions, SessionsStatus};
