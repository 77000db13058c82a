use crate::tcp::{Acknowledgement, Data};

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
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Data(Data),
    Acknowledgement(Acknowledgement),
    Plain,
}

impl Body {
    /// RFC 3168, section 6.1.5: what is sent again is not to be marked.
    pub(super) fn is_again(&self) -> bool {
        matches!(self, Body::Data(data) if data.again)
    }
}
