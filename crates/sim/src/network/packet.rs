use super::ids::FlowId;
use crate::tcp::{TcpAcknowledgement, TcpData};
use kumade_link::queue::Ecn;
use kumade_units::Time;

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetworkPacket {
    pub(super) flow: u32,
    /// How many links of its path it has passed.
    pub(super) hop: u32,
    /// IP bytes.
    pub(super) size: u32,
    /// What its sender says of ECN.
    pub(super) ecn: Ecn,
    /// Whether it was.
    pub(super) is_marked: bool,
    pub(super) body: PacketBody,
    /// On one of several paths: between which gateways, which path, and what they know the packet by.
    pub(super) encapsulation: Option<GatewayEncapsulation>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct GatewayEncapsulation {
    pub(super) gateway_pair: u32,
    pub(super) path: u32,
    pub(super) tag: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PacketBody {
    Data(TcpData),
    Acknowledgement(TcpAcknowledgement),
    Plain { sent: Time },
}

impl NetworkPacket {
    /// The number by which queues know the flow's packets in this direction.
    pub(super) fn label(&self) -> u64 {
        let back = matches!(self.body, PacketBody::Acknowledgement(_));
        FlowId(self.flow).label() + u64::from(back)
    }
}

impl PacketBody {
    /// RFC 3168, section 6.1.5: what is sent again is not to be marked.
    pub(super) fn is_retransmission(&self) -> bool {
        matches!(self, PacketBody::Data(data) if data.is_retransmission)
    }
}
