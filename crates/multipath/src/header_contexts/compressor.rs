use super::{COMPRESSED, COMPRESSED_KEEP, KEPT_NUMBER_MASK, MAX_KEPT, PLAIN_KEEP, packets_later};
use crate::message::KEPT_NUMBER_BITS;
use crate::path::id::PathId;
use kumade_packet::header_compression::{
    CompressedHeaders, CompressibleFlow, CompressiblePacket, MAX_COMPRESSED_BYTES, ReferenceHeaders,
};
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// The flows of a peer whose headers are compressed, at most: sets of a few, by the flow's bucket, in which the least recently used gives
/// way.
const SETS: usize = 256;
const FLOWS_IN_SET: usize = 4;
const _: () = assert!(SETS * FLOWS_IN_SET <= MAX_KEPT);
/// A reference is used until so many headers have been asked to be kept after it.
pub(crate) const MAX_LATER_REQUESTS: u64 = MAX_KEPT as u64 / 2;
/// Requests in the long run, and at once.
pub(crate) const REQUESTS_PER_SECOND: i64 = 128;
const MAX_REQUESTS_AT_ONCE: i64 = 64;
const _: () = assert!((1 << KEPT_NUMBER_BITS) / REQUESTS_PER_SECOND >= 120);
/// Packets of a flow that are sent before it is worth a request: it takes an answer of some 50 bytes.
const PACKETS_BEFORE_REQUEST: u32 = 2;
/// A reference is replaced after so many packets and so much time: a time stamp in milliseconds takes an octet for the first 223.
const PACKETS_OF_REFERENCE: u32 = 32;
const REFERENCE_LIFETIME: Span = Span::from_millis(100);
/// … by one that is shorter only after so many: how much the sequence number grows by is taken from it.
const PACKETS_BEFORE_SHORTER: u32 = 128;
/// An answer that takes longer does not come: the longest round trip that anybody uses a tunnel over.
const ANSWER_TIMEOUT: Span = Span::from_secs(1);
/// Requests that wait for their answers.
const MAX_UNANSWERED: usize = 256;

/// The sending end.
#[derive(Debug)]
pub(crate) struct HeaderCompressor {
    is_on: bool,
    /// Made when the first packet comes; each with the most recently used flow first.
    sets: Vec<Vec<FlowContext>>,
    unanswered: VecDeque<Request>,
    /// So many packets were sent whose headers the far end is to keep.
    requests: u64,
    /// When the next one may be, were there not several at once.
    next_request: Time,
    saved_bytes: u64,
}

#[derive(Debug)]
struct FlowContext {
    flow: CompressibleFlow,
    /// Packets since the reference was sent, or since the first one.
    packets: u32,
    reference: Option<(u16, Box<Reference>)>,
    requested: Option<Box<Reference>>,
}

/// Headers that the far end is to keep, or has.
#[derive(Debug)]
struct Reference {
    headers: ReferenceHeaders,
    payload_bytes: usize,
    packet_number: u32,
    /// Its number among all requests.
    request: u64,
    sent: Time,
}

#[derive(Debug)]
struct Request {
    path: PathId,
    /// The lowest bits of the datagram's counter.
    counter: u32,
    request: u64,
    set: usize,
}

/// What stands for the first bytes of a packet.
#[derive(Debug)]
pub(crate) struct SentHeaders {
    bytes: [u8; 2 + MAX_COMPRESSED_BYTES],
    length: usize,
    /// How many those are.
    pub(crate) replaced_bytes: usize,
}

impl AsRef<[u8]> for SentHeaders {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A packet that is about to leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeavingPacket<'p> {
    pub(crate) packet: &'p [u8],
    pub(crate) bucket: u16,
    /// In the bucket.
    pub(crate) number: u32,
    /// By this path, with this counter.
    pub(crate) path: PathId,
    pub(crate) counter: u64,
}

impl HeaderCompressor {
    /// Of a peer that decompresses headers, or of one that does not.
    pub(crate) fn new(is_on: bool) -> Self {
        HeaderCompressor {
            is_on,
            sets: Vec::new(),
            unanswered: VecDeque::new(),
            requests: 0,
            next_request: Time::ZERO,
            saved_bytes: 0,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Bytes by which packets were shorter.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
    }

    /// The far end has kept nothing: all begins anew.
    pub(crate) fn forget(&mut self) {
        self.sets.clear();
        self.unanswered.clear();
    }

    /// What the packet is sent with instead of its first bytes; none where it is sent as it is.
    pub(crate) fn compress(&mut self, leaving: LeavingPacket<'_>, now: Time) -> Option<SentHeaders> {
        let LeavingPacket { packet, bucket, number, .. } = leaving;
        let compressible = CompressiblePacket::parse(packet).filter(|_| self.is_on)?;
        if self.sets.is_empty() {
            self.sets.resize_with(SETS, Vec::new);
        }
        let set = usize::from(bucket) % SETS;
        let requests = self.requests;
        let may_request = self.next_request <= now + request_interval() * (MAX_REQUESTS_AT_ONCE - 1);
        let context = find_context(&mut self.sets[set], compressible.flow());
        context.packets = context.packets.saturating_add(1);
        context.reference.take_if(|(_, reference)| requests - reference.request > MAX_LATER_REQUESTS);
        let compressed = context.reference.as_ref().and_then(|(kept, reference)| {
            let later = packets_later(number, reference.packet_number);
            Some((*kept, reference.headers.compress(&compressible, later)?))
        });
        let is_requested = may_request && context.needs_reference(compressible.payload_bytes(), requests, now);
        if is_requested {
            context.requested = Some(Box::new(Reference {
                headers: ReferenceHeaders::new(&compressible),
                payload_bytes: compressible.payload_bytes(),
                packet_number: number,
                request: requests,
                sent: now,
            }));
            self.record_request(&leaving, set, now);
        }
        let sent = match compressed {
            Some((kept, headers)) => SentHeaders::compressed(kept, &headers, is_requested),
            None if is_requested => SentHeaders::plain_to_be_kept(packet[0]),
            None => return None,
        };
        self.saved_bytes += (sent.replaced_bytes - sent.length) as u64;
        Some(sent)
    }

    fn record_request(&mut self, leaving: &LeavingPacket<'_>, set: usize, now: Time) {
        let LeavingPacket { path, counter, .. } = *leaving;
        if self.unanswered.len() == MAX_UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(Request { path, counter: counter as u32, request: self.requests, set });
        self.requests += 1;
        self.next_request = self.next_request.max(now) + request_interval();
    }

    /// The far end has kept the headers of the packet in this datagram, under this number.
    pub(crate) fn record_kept(&mut self, path: PathId, counter: u32, kept: u16) {
        let is_of_datagram = |request: &Request| (request.path, request.counter) == (path, counter);
        let Some(place) = self.unanswered.iter().position(is_of_datagram) else { return };
        let Some(Request { request, set, .. }) = self.unanswered.remove(place) else { return };
        let is_requested =
            |context: &&mut FlowContext| context.requested.as_ref().is_some_and(|sent| sent.request == request);
        if let Some(context) = self.sets.get_mut(set).and_then(|set| set.iter_mut().find(is_requested)) {
            context.reference = context.requested.take().map(|reference| (kept & KEPT_NUMBER_MASK, reference));
            context.packets = 0;
        }
    }
}

/// Its context is the first one from now on.
fn find_context(set: &mut Vec<FlowContext>, flow: CompressibleFlow) -> &mut FlowContext {
    match set.iter().position(|context| context.flow == flow) {
        Some(place) => set[..=place].rotate_right(1),
        None => {
            set.truncate(FLOWS_IN_SET - 1);
            set.insert(0, FlowContext { flow, packets: 0, reference: None, requested: None });
        }
    }
    &mut set[0]
}

fn request_interval() -> Span {
    Span::from_nanos(1_000_000_000 / REQUESTS_PER_SECOND)
}

impl FlowContext {
    /// Whether the headers of a packet with so many bytes of payload are to be kept.
    fn needs_reference(&self, payload_bytes: usize, requests: u64, now: Time) -> bool {
        if self.requested.as_ref().is_some_and(|requested| now - requested.sent < ANSWER_TIMEOUT) {
            return false;
        }
        let Some((_, reference)) = &self.reference else { return self.packets > PACKETS_BEFORE_REQUEST };
        let is_old = self.packets >= PACKETS_OF_REFERENCE && now - reference.sent >= REFERENCE_LIFETIME;
        let is_as_long = payload_bytes >= reference.payload_bytes || self.packets >= PACKETS_BEFORE_SHORTER;
        (is_old && is_as_long) || requests - reference.request > MAX_LATER_REQUESTS / 2
    }
}

impl SentHeaders {
    fn new(parts: [&[u8]; 2], replaced_bytes: usize) -> Self {
        let mut sent = SentHeaders { bytes: [0; 2 + MAX_COMPRESSED_BYTES], length: 0, replaced_bytes };
        for part in parts {
            sent.bytes[sent.length..sent.length + part.len()].copy_from_slice(part);
            sent.length += part.len();
        }
        sent
    }

    fn compressed(kept: u16, headers: &CompressedHeaders, is_to_be_kept: bool) -> Self {
        let flags = COMPRESSED | if is_to_be_kept { COMPRESSED_KEEP } else { 0 };
        let prefix = (u16::from(flags) << 8 | kept).to_be_bytes();
        SentHeaders::new([&prefix, headers.as_ref()], headers.replaced_bytes)
    }

    fn plain_to_be_kept(first: u8) -> Self {
        SentHeaders::new([&[first | PLAIN_KEEP], &[]], 1)
    }
}
