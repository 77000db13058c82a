//! What a running end of a tunnel may be asked through its control socket, and what it replies.

use crate::status::Status;
pub use kumade_overlay_io::status::control::{Reply, Request};
use kumade_daemon::Protocol;

/// The protocol of the control sockets of tunnels.
#[derive(Debug, Clone, Copy)]
pub struct TunnelProtocol;

impl Protocol for TunnelProtocol {
    const SERVICE: &'static str = "tunnel";
    const VERSION: u32 = 1;
    type Request = Request;
    type Reply = Reply<Status>;
}
