use super::{
    COMPRESSED, COMPRESSED_KEEP, FORGET_INTERVAL, HeaderCompression, KEPT_NUMBER_MASK, MAX_KEPT, PLAIN_KEEP,
    PLAIN_WHOLE, packets_later,
};
use crate::message::KEPT_NUMBER_BITS;
use crate::path::id::PathId;
use kumade_noise_session::REJECT_AFTER;
use kumade_packet::header_compression::{
    CompressedHeaders, CompressibleFlow, CompressiblePacket, DistanceOctets, MAX_COMPRESSED_BYTES, ReferenceHeaders,
};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// The flows of a peer whose headers are compressed, at most: sets of a few, by the flow's bucket, in which the least recently used gives
/// way.
const SETS: usize = 256;
const FLOWS_IN_SET: usize = 4;
const _: () = assert!(SETS * FLOWS_IN_SET <= MAX_KEPT);
/// Before compressed headers: which they are compressed by.
const PREFIX_BYTES: usize = 2;
/// A reference is used until so many headers have been asked to be kept after it.
pub(crate) const MAX_LATER_REQUESTS: u64 = MAX_KEPT as u64 / 2;
/// Requests in the long run, and at once.
pub(crate) const REQUESTS_PER_SECOND: i64 = 80;
const MAX_REQUESTS_AT_ONCE: i64 = 64;
/// Of these, what only flows that have no reference use: others gain an octet or two by another reference, they all of their headers.
const RESERVED_REQUESTS: i64 = 32;
// A datagram can be opened for so long after it was sealed, whoever has held it back. Its number means the same headers until then.
const _: () = assert!(
    ((1 << KEPT_NUMBER_BITS) - MAX_LATER_REQUESTS as i64 - MAX_REQUESTS_AT_ONCE) * 1_000_000_000 / REQUESTS_PER_SECOND
        > REJECT_AFTER.as_nanos()
);
/// Packets of a flow that are sent before it is worth a request: it takes an answer of some 50 bytes.
const PACKETS_BEFORE_REQUEST: u32 = 2;
/// A reference is replaced after so many packets and so much time: a time stamp in milliseconds takes an octet for the first 223.
const PACKETS_OF_REFERENCE: u32 = 32;
const REFERENCE_LIFETIME: Span = Span::from_millis(100);
/// … by one that is shorter only after so many: how much the sequence number grows by is taken from it.
const PACKETS_BEFORE_SHORTER: u32 = 128;
/// An answer that takes longer is taken for lost at first, and then twice what one has taken; the longest that is waited for.
const FIRST_ANSWER_TIMEOUT: Span = Span::from_secs(1);
const MAX_ANSWER_TIMEOUT: Span = Span::from_secs(10);
/// Requests that wait for their answers: more than are made while the longest is waited for.
const MAX_UNANSWERED: usize = 1024;
const _: () = assert!(
    MAX_REQUESTS_AT_ONCE + REQUESTS_PER_SECOND * MAX_ANSWER_TIMEOUT.as_nanos() / 1_000_000_000 < MAX_UNANSWERED as i64
);
/// Where nothing has been compressed for so long, all begins anew, so that the far end need not keep anything longer either.
pub(super) const MAX_UNUSED_TIME: Span = Span::from_secs(10);
/// Packets with so much payload are sent many at once, as one message that the kernel divides into datagrams of one length
/// (UDP_SEGMENT): their distances take as many octets as those of any other flow have needed in this time, or in the same time before.
const LONG_PAYLOAD_BYTES: usize = 1000;
const NEEDED_OCTETS_TIME: Span = Span::from_secs(1);
/// As all time stamps need that are not of the reference's own millisecond.
const MIN_OCTETS: DistanceOctets = DistanceOctets { timestamps: 1, sequence: 0, identification: 0 };

/// The sending end.
#[derive(Debug)]
pub(crate) struct HeaderCompressor {
    agreed: HeaderCompression,
    /// Made when the first packet comes; each with the most recently used flow first.
    sets: Vec<Vec<FlowContext>>,
    unanswered: BTreeMap<DatagramId, Request>,
    /// How long an answer is waited for.
    answer_timeout: Span,
    /// So many packets were sent whose headers the far end is to keep.
    requests: u64,
    /// When the next one may be, were there not several at once.
    next_request: Time,
    /// When something was compressed or asked for.
    last_used: Time,
    /// When the far end may say again that it lacks something.
    next_forget: Time,
    /// What distances of long packets have needed since then, and in the time before.
    needed_octets: [DistanceOctets; 2],
    needed_since: Time,
    saved_bytes: u64,
}

#[derive(Debug)]
struct FlowContext {
    flow: CompressibleFlow,
    /// Packets since it is known that the reference is kept, or since the first one.
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

/// Its path, and the lowest bits of its counter there.
type DatagramId = (PathId, u32);

#[derive(Debug)]
struct Request {
    request: u64,
    set: usize,
    sent: Time,
}

/// What stands for the first bytes of a packet.
#[derive(Debug)]
pub(crate) struct SentHeaders {
    bytes: [u8; PREFIX_BYTES + MAX_COMPRESSED_BYTES],
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
    /// Whether its transport checksum is; only where [that is agreed on](HeaderCompressor::agreed).
    pub(crate) has_partial_checksum: bool,
    pub(crate) bucket: u16,
    /// In the bucket.
    pub(crate) number: u32,
    /// By this path, with this counter.
    pub(crate) path: PathId,
    pub(crate) counter: u64,
}

impl HeaderCompressor {
    /// As agreed with the peer.
    pub(crate) fn new(agreed: HeaderCompression) -> Self {
        HeaderCompressor {
            agreed,
            sets: Vec::new(),
            unanswered: BTreeMap::new(),
            answer_timeout: FIRST_ANSWER_TIMEOUT,
            requests: 0,
            next_request: Time::ZERO,
            last_used: Time::ZERO,
            next_forget: Time::ZERO,
            needed_octets: [DistanceOctets::default(); 2],
            needed_since: Time::ZERO,
            saved_bytes: 0,
        }
    }

    /// What has been agreed with the peer.
    pub(crate) fn agreed(&self) -> HeaderCompression {
        self.agreed
    }

    /// Bytes by which packets were shorter.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
    }

    #[cfg(test)]
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    #[cfg(test)]
    pub(super) fn has_contexts(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The far end cannot decompress packets by the headers with this number. If any is compressed by them now, it has lost what it
    /// has kept, and all begins anew; else it was a late packet that has told it so.
    pub(crate) fn forget(&mut self, kept: u16, now: Time) {
        // Each takes a look at all flows.
        if now < self.next_forget {
            return;
        }
        self.next_forget = now + FORGET_INTERVAL / 2;
        let is_in_use = |context: &FlowContext| context.reference.as_ref().is_some_and(|(number, _)| *number == kept);
        if self.sets.iter().flatten().any(is_in_use) {
            self.clear();
        }
    }

    fn clear(&mut self) {
        (self.sets, self.unanswered) = (Vec::new(), BTreeMap::new());
    }

    /// Occupies no memory where nothing has been compressed of late.
    pub(crate) fn drop_unused(&mut self, now: Time) {
        if !self.sets.is_empty() && now - self.last_used > MAX_UNUSED_TIME {
            self.clear();
        }
    }

    /// What the packet is sent with instead of its first bytes; none where it is sent as it is.
    pub(crate) fn compress(&mut self, leaving: LeavingPacket<'_>, now: Time) -> Option<SentHeaders> {
        if !self.agreed.is_on() {
            return None;
        }
        let LeavingPacket { packet, has_partial_checksum, .. } = leaving;
        let sent = self.compress_flow(leaving, now);
        let first = packet.first().filter(|_| sent.is_none() && has_partial_checksum);
        first.map(|first| SentHeaders::plain(*first, true, false)).or(sent)
    }

    fn compress_flow(&mut self, leaving: LeavingPacket<'_>, now: Time) -> Option<SentHeaders> {
        let LeavingPacket { packet, has_partial_checksum, bucket, number, .. } = leaving;
        let compressible = CompressiblePacket::parse(packet)?.with_partial_checksum(has_partial_checksum);
        self.drop_unused(now);
        if self.sets.is_empty() {
            self.sets.resize_with(SETS, Vec::new);
            self.last_used = now;
        }
        let set = usize::from(bucket) % SETS;
        let requests = self.requests;
        let is_long = compressible.payload_bytes() >= LONG_PAYLOAD_BYTES;
        let min_octets = if is_long { self.min_octets(now) } else { DistanceOctets::default() };
        let context = find_context(&mut self.sets[set], compressible.flow());
        context.packets = context.packets.saturating_add(1);
        context.reference.take_if(|(_, reference)| requests - reference.request > MAX_LATER_REQUESTS);
        let reserved = if context.reference.is_some() { RESERVED_REQUESTS } else { 0 };
        let may_request = self.next_request <= now + request_interval() * (MAX_REQUESTS_AT_ONCE - 1 - reserved);
        let compressed = context.reference.as_ref().and_then(|(kept, reference)| {
            let later = packets_later(number, reference.packet_number);
            let headers = reference.headers.compress(&compressible, later, min_octets)?;
            (PREFIX_BYTES + headers.as_ref().len() < headers.replaced_bytes).then_some((*kept, headers))
        });
        let is_requested =
            may_request && context.needs_reference(compressible.payload_bytes(), (requests, self.answer_timeout), now);
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
            Some((kept, headers)) => {
                if is_long {
                    self.needed_octets[0] = self.needed_octets[0].max(headers.needed_octets);
                }
                SentHeaders::compressed(kept, &headers, is_requested)
            }
            None if is_requested => SentHeaders::plain(packet[0], has_partial_checksum, true),
            None => return None,
        };
        self.last_used = now;
        self.saved_bytes += (sent.replaced_bytes - sent.length) as u64;
        Some(sent)
    }

    /// Of long packets.
    fn min_octets(&mut self, now: Time) -> DistanceOctets {
        let age = now - self.needed_since;
        if age >= NEEDED_OCTETS_TIME {
            let last = if age < NEEDED_OCTETS_TIME * 2 { self.needed_octets[0] } else { DistanceOctets::default() };
            (self.needed_octets, self.needed_since) = ([DistanceOctets::default(), last], now);
        }
        self.needed_octets.into_iter().fold(MIN_OCTETS, DistanceOctets::max)
    }

    fn record_request(&mut self, leaving: &LeavingPacket<'_>, set: usize, now: Time) {
        let LeavingPacket { path, counter, .. } = *leaving;
        if self.unanswered.len() == MAX_UNANSWERED {
            self.unanswered.retain(|_, request| now - request.sent < MAX_ANSWER_TIMEOUT);
        }
        self.unanswered.insert((path, counter as u32), Request { request: self.requests, set, sent: now });
        self.requests += 1;
        self.next_request = self.next_request.max(now) + request_interval();
    }

    /// The far end has kept the headers of the packet in this datagram, under this number.
    pub(crate) fn record_kept(&mut self, path: PathId, counter: u32, kept: u16, now: Time) {
        let Some(Request { request, set, sent }) = self.unanswered.remove(&(path, counter)) else { return };
        // Also of one that is not waited for any more: the next ones are.
        self.answer_timeout = self.answer_timeout.max(((now - sent) * 2).min(MAX_ANSWER_TIMEOUT));
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
    fn needs_reference(&self, payload_bytes: usize, (requests, answer_timeout): (u64, Span), now: Time) -> bool {
        if self.requested.as_ref().is_some_and(|requested| now - requested.sent < answer_timeout) {
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
        let mut sent = SentHeaders { bytes: [0; PREFIX_BYTES + MAX_COMPRESSED_BYTES], length: 0, replaced_bytes };
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

    /// By the packet's first octet.
    fn plain(first: u8, has_partial_checksum: bool, is_to_be_kept: bool) -> Self {
        let whole = if has_partial_checksum { first & !PLAIN_WHOLE } else { first };
        SentHeaders::new([&[whole | if is_to_be_kept { PLAIN_KEEP } else { 0 }], &[]], 1)
    }
}
