/// A link of a [`Network`](super::Network).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(super) u32);

/// Two gateways of a [`Network`](super::Network).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewaysId(pub(super) u32);

/// A flow of a [`Network`](super::Network).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub(super) u32);

impl FlowId {
    /// The flow that is added after this many: for a queue that has to know flows before there are any.
    pub fn from_index(others: u32) -> Self {
        FlowId(others)
    }

    /// The number by which queues know the flow's data; its acknowledgements have the next.
    pub fn label(self) -> u64 {
        u64::from(self.0) * 2
    }
}
