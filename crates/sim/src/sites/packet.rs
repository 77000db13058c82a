use crate::tcp::{Acknowledgement, Data};
use multipath::message::DataHeader;
use multipath::{Predecessor, Report};
use units::Time;

/// A packet of a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) flow: u32,
    /// Its number in its flow and direction; a retransmission has that of the first.
    pub(super) number: u32,
    /// IP bytes.
    pub(super) size: u32,
    /// When the host sent it.
    pub(super) sent: Time,
    /// Whether a queue has marked it.
    pub(super) marked: bool,
    pub(super) body: Body,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Data(Data),
    Acknowledgement(Acknowledgement),
    Udp,
}

/// A datagram on a path.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    /// Which shard of its gateway has sent it, for the same one of the other.
    pub(super) shard: usize,
    pub(super) counter: u64,
    /// When it left its gateway.
    pub(super) sent: Time,
    /// IP bytes on the path.
    pub(super) bytes: u32,
    pub(super) answer: bool,
    pub(super) content: Content,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// As it came from its host.
    Plain(Packet),
    Numbered(DataHeader, Vec<Predecessor>, Packet),
    Probe,
    Report(Report),
}

impl Content {
    pub(super) fn packet(&self) -> Option<&Packet> {
        match self {
            Content::Plain(packet) | Content::Numbered(_, _, packet) => Some(packet),
            Content::Probe | Content::Report(_) => None,
        }
    }
}
