use super::ids::FlowId;
use crate::tcp::{Acknowledgement, Data};
use kumade_units::Time;

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) flow: u32,
    /// How many links of its path it has passed.
    pub(super) hop: u32,
    /// IP bytes.
    pub(super) size: u32,
    /// Whether it may be marked.
    pub(super) capable: bool,
    /// Whether it was.
    pub(super) marked: bool,
    pub(super) body: Body,
    /// On one of several paths: between which gateways, which path, and what they know the packet by.
    pub(super) carried: Option<Carried>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    pub(super) gateways: u32,
    pub(super) path: u32,
    pub(super) tag: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Data(Data),
    Acknowledgement(Acknowledgement),
    Plain { sent: Time },
}

impl Packet {
    /// The number by which queues know the flow's packets in this direction.
    pub(super) fn label(&self) -> u64 {
        let back = matches!(self.body, Body::Acknowledgement(_));
        FlowId(self.flow).label() + u64::from(back)
    }
}

impl Body {
    /// RFC 3168, section 6.1.5: what is sent again is not to be marked.
    pub(super) fn is_again(&self) -> bool {
        matches!(self, Body::Data(data) if data.again)
    }
}
