use crate::tcp::{TcpAcknowledgement, TcpData, TcpSegment};
use kumade_multipath::message::DataHeader;
use kumade_multipath::{
    MissingReport, PathId, PathReport, Predecessor, SAVED_ACKNOWLEDGMENT_BYTES, SAVED_DATAGRAM_BYTES,
    SAVED_SEGMENT_BYTES,
};
use kumade_packet::{PayloadKind, StreamSegment};
use kumade_units::{Span, Time};

/// A packet of a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct SitePacket {
    pub(super) flow: u32,
    /// Its number in its flow and direction; a retransmission has that of the first.
    pub(super) number: u32,
    /// IP bytes.
    pub(super) size: u32,
    /// When the host sent it.
    pub(super) sent: Time,
    /// Whether a queue has marked it.
    pub(super) marked: bool,
    pub(super) body: PacketBody,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PacketBody {
    Data(TcpData),
    Acknowledgement(TcpAcknowledgement),
    Udp,
    /// A UDP packet that comes back.
    Echo,
}

/// A datagram on a path.
#[derive(Debug, Clone)]
pub(super) struct OuterPacket {
    /// Which shard of its gateway has sent it, for the same one of the other.
    pub(super) shard: usize,
    pub(super) counter: u64,
    /// When it left its gateway.
    pub(super) sent: Time,
    /// IP bytes on the path.
    pub(super) bytes: u32,
    pub(super) is_answer: bool,
    pub(super) content: OuterContent,
}

/// Packets that travel as one: segments that follow each other, or a single packet.
#[derive(Debug, Clone)]
pub(super) struct PacketBatch(pub(super) Vec<SitePacket>);

/// IP and TCP headers with time stamps.
const TCP_HEADER_BYTES: u32 = 52;

#[derive(Debug, Clone)]
pub(super) enum OuterContent {
    /// As it came from its host.
    Plain(SitePacket),
    Numbered(DataHeader, Vec<Predecessor>, PacketBatch),
    Probe,
    Report(PathReport),
    Missing(MissingReport),
    /// What a connection sends, which carries others.
    Segment(PathId, Box<TcpSegment<OuterPacket>>),
}

impl OuterPacket {
    /// A packet as it came from its host.
    pub(super) fn unencrypted(packet: SitePacket, sent: Time) -> Self {
        OuterPacket {
            shard: 0,
            counter: 0,
            sent,
            bytes: packet.size,
            is_answer: false,
            content: OuterContent::Plain(packet),
        }
    }
}

impl OuterContent {
    pub(super) fn packet(&self) -> Option<&SitePacket> {
        match self {
            OuterContent::Plain(packet) => Some(packet),
            OuterContent::Numbered(_, _, packets) => packets.0.first(),
            OuterContent::Probe | OuterContent::Report(_) | OuterContent::Missing(_) | OuterContent::Segment(..) => {
                None
            }
        }
    }
}

impl PacketBatch {
    pub(super) fn single(packet: SitePacket) -> Self {
        PacketBatch(vec![packet])
    }

    pub(super) fn flow(&self) -> u32 {
        self.0.first().map_or(0, |first| first.flow)
    }

    /// IP bytes, with one set of headers.
    pub(super) fn bytes(&self) -> u32 {
        self.0.iter().map(|packet| packet.size).sum::<u32>()
            - (self.0.len() as u32).saturating_sub(1) * TCP_HEADER_BYTES
    }

    /// By how many bytes it is shorter, its headers compressed: those of a flow's first packets are not, which are few.
    pub(super) fn compressed_bytes(&self) -> u32 {
        match self.0.first().map(|first| &first.body) {
            Some(PacketBody::Data(_)) => SAVED_SEGMENT_BYTES,
            Some(PacketBody::Acknowledgement(_)) => SAVED_ACKNOWLEDGMENT_BYTES,
            Some(PacketBody::Udp | PacketBody::Echo) => SAVED_DATAGRAM_BYTES,
            None => 0,
        }
    }

    pub(super) fn payload(&self) -> PayloadKind {
        let [first, last] = [self.0.first(), self.0.last()].map(|packet| packet.map(SitePacket::payload));
        match (first, last) {
            (Some(PayloadKind::Stream(first)), Some(PayloadKind::Stream(last))) => {
                PayloadKind::Stream(StreamSegment { end: last.end, ..first })
            }
            (first, _) => first.unwrap_or(PayloadKind::Other),
        }
    }

    pub(super) fn with_ecn_mark(mut self, marked: bool) -> Self {
        self.0.iter_mut().for_each(|packet| packet.marked |= marked);
        self
    }

    /// Has it stand for `next`, too, if that follows it directly in its flow and both together have `max_bytes` at most. Returns
    /// its length then.
    pub(super) fn merge(&mut self, next: &PacketBatch, max_bytes: usize) -> Option<u32> {
        let bytes = self.bytes() + next.bytes() - TCP_HEADER_BYTES.min(next.bytes());
        let (last, first) = (self.0.last()?, next.0.first()?);
        let joins = last.is_followed_by(first) && bytes as usize <= max_bytes;
        joins.then(|| {
            self.0.extend(&next.0);
            bytes
        })
    }
}

impl SitePacket {
    /// The numbers of streams are those of segments, not of octets.
    fn payload(&self) -> PayloadKind {
        let (bytes, acknowledgment) = match &self.body {
            PacketBody::Data(data) => (data.number..data.number + 1, 0),
            PacketBody::Acknowledgement(acknowledgement) => (0..0, acknowledgement.next),
            PacketBody::Udp | PacketBody::Echo => return PayloadKind::Datagram,
        };
        PayloadKind::Stream(StreamSegment { start: bytes.start, end: bytes.end, acknowledgment })
    }

    /// Whether both are data of one connection, one after the other: network devices and their drivers hand those over
    /// together (GRO).
    pub(super) fn is_continued_by(&self, next: &SitePacket) -> bool {
        let (PacketBody::Data(data), PacketBody::Data(after)) = (&self.body, &next.body) else { return false };
        self.flow == next.flow && after.number == data.number + 1
    }

    /// Whether both are full segments with the same headers, one after the other: time stamps have milliseconds.
    fn is_followed_by(&self, next: &SitePacket) -> bool {
        let (PacketBody::Data(data), PacketBody::Data(after)) = (&self.body, &next.body) else { return false };
        let millisecond = |data: &TcpData| (data.timestamp - Time::ZERO).as_nanos() / Span::from_millis(1).as_nanos();
        self.is_continued_by(next) && self.size >= next.size && millisecond(data) == millisecond(after)
    }
}
