//! What a running gateway may be asked through its control socket, and what it replies.

use crate::status::GatewayStatus;
pub use kumade_overlay_io::status::control::{Reply, Request};
use kumade_daemon::Protocol;

/// The protocol of the control sockets of gateways.
#[derive(Debug, Clone, Copy)]
pub struct GatewayProtocol;

impl Protocol for GatewayProtocol {
    const SERVICE: &'static str = "gateway";
    const VERSION: u32 = 1;
    type Request = Request;
    type Reply = Reply<GatewayStatus>;
}
