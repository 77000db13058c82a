use super::HeaderCompression::{Off, PartialChecksums, WithChecksums};
use super::compressor::{HeaderCompressor, LeavingPacket, MAX_LATER_REQUESTS, MAX_UNUSED_TIME, REQUESTS_PER_SECOND};
use super::decompressor::{ArrivedPacket, HeaderAnswer, HeaderDecompressor};
use super::{COMPRESSED, KEPT_NUMBER_MASK, MAX_KEPT, packets_later};
use crate::message::{KeptEntry, NUMBER_BITS};
use crate::path::id::PathId;
use kumade_packet::checksum;
use kumade_packet::offload::PARTIAL_CHECKSUM;
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A full segment of a TCP connection with time stamps over IPv4.
fn segment(flow: u16, number: u32, now: Time) -> Vec<u8> {
    segment_after_shorter(flow, number, 0, now)
}

/// The same where the segments before had so many octets less than full ones.
fn segment_after_shorter(flow: u16, number: u32, missing: u32, now: Time) -> Vec<u8> {
    let mut packet = vec![0; 52 + 1394];
    let length = packet.len() as u16;
    packet[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[4..6].copy_from_slice(&(number as u16).to_be_bytes());
    packet[12..20].copy_from_slice(&[10, 1, 0, 1, 10, 2, 0, 1]);
    packet[20..22].copy_from_slice(&flow.to_be_bytes());
    packet[24..28].copy_from_slice(&number.wrapping_mul(1394).wrapping_sub(missing).to_be_bytes());
    packet[32..36].copy_from_slice(&[0x80, 0x10, 1, 0]);
    packet[40..44].copy_from_slice(&[1, 1, 8, 10]);
    let millis = (now - Time::ZERO).as_nanos() / 1_000_000;
    packet[44..48].copy_from_slice(&(millis as u32).to_be_bytes());
    packet[48..52].copy_from_slice(&(millis as u32).to_be_bytes());
    packet[52..56].copy_from_slice(&number.to_be_bytes());
    checksum::set(&mut packet).unwrap();
    packet
}

struct Ends {
    compressor: HeaderCompressor,
    decompressor: HeaderDecompressor,
    counters: [u64; 2],
    now: Time,
}

/// On its way.
#[derive(Debug, Clone)]
struct Datagram {
    original: Vec<u8>,
    is_partial: bool,
    sent: Vec<u8>,
    number: u32,
    path: PathId,
    counter: u64,
}

impl Ends {
    fn new() -> Self {
        // Numbers wrap.
        let (compressor, decompressor) =
            (HeaderCompressor::new(PartialChecksums), HeaderDecompressor::new(PartialChecksums, KEPT_NUMBER_MASK - 9));
        Ends { compressor, decompressor, counters: [0; 2], now: Time::ZERO }
    }

    fn send(&mut self, original: Vec<u8>, bucket: u16, number: u32, path: usize) -> Datagram {
        self.send_segment((original, false), bucket, number, path)
    }

    /// One of what a host has sent as one packet, with a partial checksum.
    fn send_partial(&mut self, mut original: Vec<u8>, bucket: u16, number: u32, path: usize) -> Datagram {
        original[36..38].copy_from_slice(&PARTIAL_CHECKSUM);
        self.send_segment((original, true), bucket, number, path)
    }

    fn send_segment(
        &mut self,
        (original, is_partial): (Vec<u8>, bool),
        bucket: u16,
        number: u32,
        path: usize,
    ) -> Datagram {
        let counter = self.counters[path];
        self.counters[path] += 1;
        let path = PathId::all().nth(path).unwrap();
        let leaving =
            LeavingPacket { packet: &original, has_partial_checksum: is_partial, bucket, number, path, counter };
        let sent = match self.compressor.compress(leaving, self.now) {
            Some(headers) => [headers.as_ref(), &original[headers.replaced_bytes..]].concat(),
            None => original.clone(),
        };
        assert!(sent.len() <= original.len(), "a packet that fits goes");
        Datagram { original, is_partial, sent, number, path, counter }
    }

    /// Whether it comes out, and as what it was then.
    fn receive(&mut self, datagram: &Datagram) -> bool {
        let Datagram { original, is_partial, sent, number, path, counter } = datagram;
        let arrived =
            ArrivedPacket { bytes: sent, number: number & ((1 << NUMBER_BITS) - 1), path: *path, counter: *counter };
        let mut packet = Vec::new();
        let decompressed = self.decompressor.decompress(arrived, &mut packet, self.now);
        assert!(if decompressed.is_some() { packet == *original } else { packet.is_empty() });
        assert!(decompressed.is_none_or(|is_partial_there| is_partial_there == *is_partial));
        decompressed.is_some()
    }

    /// What is answered arrives, too.
    fn answer(&mut self) -> Vec<KeptEntry> {
        let mut all = Vec::new();
        while let Some(answer) = self.decompressor.poll(self.now) {
            all.extend(self.take_answer(answer));
        }
        all
    }

    fn take_answer(&mut self, answer: HeaderAnswer) -> Vec<KeptEntry> {
        match answer {
            HeaderAnswer::Kept(_, entries) => {
                assert!(!entries.is_empty() && entries.len() <= KeptEntry::MAX_ENTRIES);
                let now = self.now;
                let mut record = |kept: &KeptEntry| {
                    self.compressor.record_kept(kept.path, kept.counter, kept.number, now);
                };
                entries.iter().for_each(&mut record);
                entries
            }
            HeaderAnswer::Forget(_, number) => {
                self.compressor.forget(number, self.now);
                Vec::new()
            }
        }
    }
}

#[test]
fn numbers_say_how_much_later_a_packet_is() {
    let last = (1 << NUMBER_BITS) - 1;
    assert_eq!(
        (packets_later(7, 5), packets_later(5, 7), packets_later(1, last), packets_later(last, 1)),
        (2, -2, 2, -2)
    );
}

#[test]
fn a_partial_checksum_takes_no_octets() {
    let mut ends = Ends::new();
    let mut octets = Vec::new();
    for number in 0..2000 {
        // Packets of other kinds come in between: one whose headers are as they are, and one that is compressed with its checksum.
        let mut datagrams = vec![ends.send_partial(segment(1, number, ends.now), 1, number, 0)];
        let mut with_options = segment(2, number, ends.now);
        (with_options[0], with_options[6]) = (0x46, 0);
        datagrams.push(ends.send_partial(with_options, 2, number, 0));
        datagrams.push(ends.send(segment(3, number, ends.now), 3, number, 0));
        assert!(datagrams.iter().all(|datagram| ends.receive(datagram)), "{number}");
        if number % 320 == 319 {
            ends.answer();
        }
        octets.push([0, 1, 2].map(|flow| datagrams[flow].sent.len() - 1394));
        ends.now += Span::from_micros(125);
    }
    let mean = |flow: usize| octets[1000..].iter().map(|octets| octets[flow]).sum::<usize>() as f64 / 1000.0;
    assert!((5.0..5.2).contains(&mean(0)) && mean(1) == 52.0 && (7.0..7.2).contains(&mean(2)), "{octets:?}");
}

/// Whole or compressed, what says that its checksum is partial is refused where that is not agreed on, and nothing of it is left.
#[test]
fn a_partial_checksum_that_was_not_agreed_on_is_refused() {
    let mut ends = Ends::new();
    ends.decompressor = HeaderDecompressor::new(WithChecksums, 0);
    let mut refused = 0;
    for number in 0..200 {
        let whole = ends.send(segment(1, number, ends.now), 1, number, 0);
        assert!(ends.receive(&whole));
        let partial = ends.send_partial(segment(1, number, ends.now), 1, number, 0);
        let Datagram { sent, number, path, counter, .. } = &partial;
        let arrived = ArrivedPacket { bytes: sent, number: *number, path: *path, counter: *counter };
        let mut packet = vec![7];
        assert_eq!(ends.decompressor.decompress(arrived, &mut packet, ends.now), None);
        assert_eq!(packet, [7]);
        refused += 1;
        assert_eq!(ends.decompressor.undecompressed_packets(), refused);
        ends.answer();
        ends.now += Span::from_millis(20);
    }
    assert!(ends.compressor.saved_bytes() > 0, "some were compressed");
}

#[test]
fn a_bulk_flow_takes_seven_octets_a_packet() {
    let mut ends = Ends::new();
    let (mut octets, mut answers) = (Vec::new(), 0);
    for number in 0..20_000 {
        let datagram = ends.send(segment(1, number, ends.now), 1, number, (number % 2) as usize);
        assert!(ends.receive(&datagram));
        // A round trip of 40 ms, at 8000 packets a second.
        if number % 320 == 319 {
            answers += ends.answer().len();
        }
        octets.push(datagram.sent.len() - 1394);
        ends.now += Span::from_micros(125);
    }
    let steady = &octets[1000..];
    let mean = steady.iter().sum::<usize>() as f64 / steady.len() as f64;
    assert!((7.0..7.2).contains(&mean), "{mean} octets");
    // Ten times a second.
    assert!((10..30).contains(&answers), "{answers}");
    assert_eq!(ends.decompressor.undecompressed_packets(), 0);
    assert_eq!(ends.compressor.saved_bytes(), octets.iter().map(|octets| 52 - *octets as u64).sum::<u64>());
}

#[test]
fn nothing_is_compressed_before_the_far_end_has_said_that_it_can_be_read() {
    let mut ends = Ends::new();
    for number in 0..5000 {
        let datagram = ends.send(segment(1, number, ends.now), 1, number, 0);
        assert!(datagram.sent[0] & COMPRESSED == 0, "{number}");
        ends.receive(&datagram);
        ends.now += Span::from_millis(1);
        // The answers are lost.
        let _ = ends.decompressor.poll(ends.now);
    }
}

#[test]
fn ends_that_have_not_agreed_send_all_as_it_is() {
    let mut compressor = HeaderCompressor::new(Off);
    let mut decompressor = HeaderDecompressor::new(Off, 0);
    for number in 0..100 {
        let packet = segment(1, number, Time::ZERO);
        let (path, counter) = (PathId::new(0).unwrap(), number.into());
        let leaving = LeavingPacket { packet: &packet, has_partial_checksum: false, bucket: 1, number, path, counter };
        assert!(compressor.compress(leaving, Time::ZERO).is_none());
        let mut out = Vec::new();
        for first in [0x45, 0x55, 0x85, 0xc5] {
            let bytes = [&[first][..], &packet[1..]].concat();
            let arrived = ArrivedPacket { bytes: &bytes, number, path, counter };
            assert_eq!(decompressor.decompress(arrived, &mut out, Time::ZERO), Some(false));
            assert_eq!(std::mem::take(&mut out), bytes);
        }
        assert_eq!(decompressor.poll(Time::ZERO), None);
    }
}

/// A far end that has lost what it has kept, and cannot know it: all begins anew, and no packet comes out wrong.
#[test]
fn a_far_end_that_does_not_know_a_reference_has_all_begin_anew() {
    let mut ends = Ends::new();
    let send = |ends: &mut Ends, numbers: std::ops::Range<u32>| {
        let mut lost = 0;
        for number in numbers {
            let datagram = ends.send(segment(1, number, ends.now), 1, number, 0);
            lost += u32::from(!ends.receive(&datagram));
            ends.answer();
            ends.now += Span::from_millis(1);
        }
        lost
    };
    assert_eq!(send(&mut ends, 0..100), 0);
    ends.decompressor = HeaderDecompressor::new(PartialChecksums, 100);
    assert_eq!(send(&mut ends, 100..101), 1);
    assert_eq!(send(&mut ends, 101..1000), 0);
    let datagram = ends.send(segment(1, 1000, ends.now), 1, 1000, 0);
    assert!(datagram.sent[0] & COMPRESSED != 0);
}

#[test]
fn what_flows_ask_for_is_bounded() {
    let mut ends = Ends::new();
    let (mut asked, seconds) = (0, 20);
    // Ten thousand flows, each of which sends in turn, at 20 000 packets a second.
    for number in 0..seconds * 20_000_u32 {
        let flow = number / 5 % 10_000;
        let datagram = ends.send(segment(flow as u16, number, ends.now), flow as u16 % 1024, number, 0);
        assert!(ends.receive(&datagram));
        asked += ends.answer().len();
        ends.now += Span::from_micros(50);
    }
    assert!(asked as i64 <= i64::from(seconds + 1) * REQUESTS_PER_SECOND, "{asked}");
    assert!(asked > MAX_KEPT);
    assert_eq!(ends.decompressor.undecompressed_packets(), 0);
}

/// A flow that sends seldom beside others that have their headers kept again and again: it is never compressed by what the far end has
/// forgotten.
#[test]
fn a_reference_is_not_used_when_many_have_been_kept_after_it() {
    let mut ends = Ends::new();
    let mut number = 0;
    let mut send = |ends: &mut Ends, flow: u16| {
        number += 1;
        let datagram = ends.send(segment(flow, number, ends.now), flow % 1024, number, 0);
        assert!(ends.receive(&datagram));
        ends.answer();
        ends.now += Span::from_millis(8);
        datagram.sent[0] & COMPRESSED != 0
    };
    (0..10).for_each(|_| _ = send(&mut ends, 0));
    assert!(send(&mut ends, 0));
    for flow in 0..MAX_LATER_REQUESTS as u16 + 2 {
        (0..3).for_each(|_| _ = send(&mut ends, 1 + flow));
    }
    assert!(!send(&mut ends, 0));
    assert!(send(&mut ends, 1 + MAX_LATER_REQUESTS as u16));
}

/// What a direction of a path is: packets and answers take half a round trip each.
struct DelayedEnds {
    ends: Ends,
    round_trip: Span,
    packets: VecDeque<(Time, Datagram)>,
    answers: VecDeque<(Time, HeaderAnswer)>,
    lost: usize,
}

impl DelayedEnds {
    fn new(round_trip_millis: i64) -> Self {
        let round_trip = Span::from_millis(round_trip_millis);
        DelayedEnds { ends: Ends::new(), round_trip, packets: VecDeque::new(), answers: VecDeque::new(), lost: 0 }
    }

    /// Sends a packet after this time; returns its length.
    fn send(&mut self, flow: u16, number: u32, gap: Span) -> usize {
        self.send_after_shorter(flow, number, 0, gap)
    }

    /// The same where the segments before had so many octets less than full ones.
    fn send_after_shorter(&mut self, flow: u16, number: u32, missing: u32, gap: Span) -> usize {
        let now = self.ends.now;
        let segment = segment_after_shorter(flow, number, missing, now);
        let datagram = self.ends.send(segment, flow.wrapping_mul(37) % 1024, number, 0);
        let length = datagram.sent.len();
        self.packets.push_back((now + self.round_trip / 2, datagram));
        self.pass(now + gap);
        length
    }

    fn pass(&mut self, until: Time) {
        self.ends.now = until;
        while let Some((_, datagram)) = self.packets.pop_front_if(|(arrival, _)| *arrival <= until) {
            self.lost += usize::from(!self.ends.receive(&datagram));
        }
        while let Some(answer) = self.ends.decompressor.poll(until) {
            self.answers.push_back((until + self.round_trip / 2, answer));
        }
        while let Some((_, answer)) = self.answers.pop_front_if(|(arrival, _)| *arrival <= until) {
            self.ends.take_answer(answer);
        }
    }
}

/// What the last segment of a write has less than others, as one of 64 kB in segments of 1368 bytes has.
const MISSING_OCTETS: u32 = 128;

/// Datagrams that the kernel takes as one, of 32 that are sent at once, by this many bulk flows in turn at 20 000 packets a second
/// (`equal_length_run` of the crate `net`): of equal length, or the last one shorter. If `writes_of` so many segments end with a shorter one, that
/// one itself is left out.
fn datagrams_per_message(flows: u16, round_trip_millis: i64, writes_of: Option<u32>) -> (f64, f64) {
    let (mut ends, mut lengths) = (DelayedEnds::new(round_trip_millis), Vec::new());
    for packet in 0..100_000_u32 {
        let (flow, number) = ((packet % u32::from(flows)) as u16, packet / u32::from(flows));
        let missing = writes_of.map_or(0, |segments| (number + u32::from(flow) * 7) / segments * MISSING_OCTETS);
        lengths.push(ends.send_after_shorter(flow, number, missing, Span::from_micros(50)));
    }
    assert_eq!(ends.lost, 0);
    let steady = &lengths[60_000..];
    let mut messages = 0;
    for mut rest in steady.chunks(32) {
        while let [first, others @ ..] = rest {
            let equal = others.iter().take_while(|length| *length == first).count();
            let has_shorter = others.get(equal).is_some_and(|length| length < first);
            rest = &others[equal + usize::from(has_shorter)..];
            messages += 1;
        }
    }
    let mean = steady.iter().sum::<usize>() as f64 / steady.len() as f64 - 1394.0;
    (steady.len() as f64 / f64::from(messages), mean)
}

/// Whatever the number of flows and the round trip, the lengths of their full segments are the same.
#[test]
fn bulk_flows_side_by_side_have_segments_of_one_length() {
    for (flows, max_octets) in [(1, 7.1), (5, 7.1), (20, 9.1), (50, 9.1)] {
        for round_trip_millis in [10, 40, 150] {
            let (datagrams, octets) = datagrams_per_message(flows, round_trip_millis, None);
            println!("{flows} flows, {round_trip_millis} ms: {datagrams:.1} datagrams a message, {octets:.2} octets");
            assert!(datagrams > 31.0, "{flows} flows, {round_trip_millis} ms: {datagrams} datagrams");
            let max_octets = if round_trip_millis == 150 { 9.1 } else { max_octets };
            assert!(octets < max_octets, "{flows} flows, {round_trip_millis} ms: {octets} octets");
        }
    }
}

/// Also where each ends its writes with shorter segments, after which sequence numbers are others than a reference of full ones has expected.
#[test]
fn flows_that_end_writes_with_shorter_segments_have_full_ones_of_one_length() {
    for flows in [1, 10, 20] {
        let (datagrams, octets) = datagrams_per_message(flows, 10, Some(48));
        println!("{flows} flows: {datagrams:.1} datagrams a message, {octets:.2} octets");
        assert!(datagrams > 31.0, "{flows} flows: {datagrams} datagrams");
        assert!(octets < 13.1, "{flows} flows: {octets} octets");
    }
}

/// A path whose queue is seconds long, beside another one: what comes late is lost, and nobody else is.
#[test]
fn a_packet_whose_reference_has_been_evicted_is_lost_alone() {
    let mut ends = DelayedEnds::new(200);
    let mut held = None;
    let (mut compressed, mut sent) = (0, 0);
    for packet in 0..200_000_u32 {
        let (flow, number) = ((packet % 1000 / 10) as u16, packet / 1000 * 10 + packet % 10);
        let length = ends.send(flow, number, Span::from_micros(200));
        if packet == 20_000 {
            assert!(ends.packets.back().unwrap().1.sent[0] & COMPRESSED != 0);
            held = ends.packets.pop_back();
        }
        if packet >= 120_000 {
            (compressed, sent) = (compressed + usize::from(length < 1394 + 20), sent + 1);
        }
        // Every 100 ms, a copy that was held back, from when it can't be decompressed any more.
        if packet >= 120_000 && packet % 500 == 0 {
            let (_, late) = held.clone().unwrap();
            assert!(!ends.ends.receive(&late));
        }
    }
    assert_eq!(ends.lost, 0);
    assert!(compressed * 100 > sent * 98, "{compressed} of {sent}");
}

/// What is underway when the far end has lost all has it say so again and again: references that were given since stay.
#[test]
fn all_begins_anew_once() {
    let mut ends = DelayedEnds::new(300);
    (0..5000).for_each(|number| _ = ends.send(1, number, Span::from_millis(1)));
    ends.ends.decompressor = HeaderDecompressor::new(PartialChecksums, 9000);
    let lengths: Vec<_> = (5000..7000).map(|number| ends.send(1, number, Span::from_millis(1))).collect();
    // A round trip for the far end to say so, once more if that is of a reference that has just been replaced, and a round trip until it has
    // kept others.
    assert!((250..500).contains(&ends.lost), "{}", ends.lost);
    let is_plain = |length: &&usize| **length > 1394 + 20;
    let plain = lengths.iter().filter(is_plain).count();
    assert!((200..500).contains(&plain), "{plain}");
    assert_eq!(lengths.iter().skip(800).filter(is_plain).count(), 0);
}

#[test]
fn round_trips_of_seconds_have_compression_too() {
    for seconds in [2, 4] {
        let mut ends = DelayedEnds::new(seconds * 1000);
        let lengths: Vec<_> = (0..4000).map(|number| ends.send(1, number, Span::from_millis(10))).collect();
        assert!(lengths[2500..].iter().all(|length| *length < 1394 + 20), "{seconds} s");
        assert_eq!(ends.lost, 0);
    }
}

/// From thirteen bulk flows on, more would have their references renewed than can be.
#[test]
fn a_new_flow_gets_a_reference_beside_many_that_renew_theirs() {
    let mut ends = DelayedEnds::new(40);
    for packet in 0..40_000_u32 {
        ends.send((packet % 60) as u16, packet / 60, Span::from_micros(100));
    }
    for flow in 100..110 {
        let lengths: Vec<_> = (0..20).map(|number| ends.send(flow, number, Span::from_millis(5))).collect();
        assert!(*lengths.last().unwrap() < 1394 + 20);
        // 100 packets of others, 20 ms.
        (0..100).for_each(|packet| _ = ends.send(packet % 60, 700 + u32::from(flow), Span::from_micros(200)));
    }
    assert_eq!(ends.lost, 0);
}

/// Thousands of requests, with packets underway: numbers wrap, and no packet is lost or altered.
#[test]
fn numbers_that_wrap_and_references_that_are_evicted_are_of_no_consequence() {
    let mut ends = DelayedEnds::new(500);
    let mut numbers = vec![0; 3000];
    // Three minutes, and with that 80 * 240 requests.
    for packet in 0..240_000_usize {
        let flow = (packet / 4 * 7) % numbers.len();
        numbers[flow] += 1;
        ends.send(flow as u16, numbers[flow], Span::from_millis(1));
    }
    assert_eq!((ends.lost, ends.ends.decompressor.undecompressed_packets()), (0, 0));
    assert!(ends.ends.compressor.requests() > u64::from(KEPT_NUMBER_MASK) + 1, "{}", ends.ends.compressor.requests());
    assert_eq!(ends.ends.decompressor.kept_count(), MAX_KEPT);
}

/// Both ends take no memory for a flow that has ended, and none of it is lost when it goes on.
#[test]
fn what_is_not_used_is_dropped() {
    let mut ends = DelayedEnds::new(40);
    let mut number = 0;
    for pause_seconds in [1, 5, 9, 11, 29, 32, 60] {
        // All has arrived.
        ends.pass(ends.ends.now + Span::from_secs(1));
        ends.pass(ends.ends.now + Span::from_secs(pause_seconds - 1));
        ends.ends.compressor.drop_unused(ends.ends.now);
        let is_unused = Span::from_secs(pause_seconds) > MAX_UNUSED_TIME;
        assert_eq!(ends.ends.compressor.has_contexts(), number > 0 && !is_unused, "{pause_seconds} s");
        assert_eq!(ends.ends.decompressor.kept_count() > 0, number > 0 && pause_seconds < 30, "{pause_seconds} s");
        for _ in 0..200 {
            number += 1;
            ends.send(1, number, Span::from_millis(1));
        }
    }
    assert_eq!(ends.lost, 0);
}

/// The far end may say that it lacks what nobody uses, or what somebody does, as often as it wants.
#[test]
fn only_what_is_used_is_begun_anew() {
    let mut ends = Ends::new();
    for number in 0..100 {
        let datagram = ends.send(segment(1, number, ends.now), 1, number, 0);
        assert!(ends.receive(&datagram));
        ends.answer();
        ends.now += Span::from_millis(1);
    }
    let is_compressed =
        |ends: &mut Ends, number| ends.send(segment(1, number, ends.now), 1, number, 0).sent[0] & COMPRESSED != 0;
    let used = u16::from_be_bytes(ends.send(segment(1, 100, ends.now), 1, 100, 0).sent[..2].try_into().unwrap())
        & KEPT_NUMBER_MASK;
    ends.compressor.forget(used.wrapping_sub(5) & KEPT_NUMBER_MASK, ends.now);
    assert!(is_compressed(&mut ends, 101));
    ends.now += Span::from_secs(1);
    ends.compressor.forget(used, ends.now);
    assert!(!is_compressed(&mut ends, 102));
}

/// A peer that has everything kept: the last ones are, and no more is answered at once than one message has room for.
#[test]
fn headers_that_are_kept_are_bounded_whatever_is_asked_for() {
    let mut ends = Ends::new();
    let path = PathId::new(0).unwrap();
    for counter in 0..5000_u32 {
        let mut bytes = segment(counter as u16, counter, ends.now);
        bytes[0] |= 0x10;
        let arrived = ArrivedPacket { bytes: &bytes, number: counter, path, counter: counter.into() };
        assert!(ends.decompressor.decompress(arrived, &mut Vec::new(), ends.now).is_some());
        if counter < 4000 && counter % 50 == 49 {
            assert_eq!(ends.answer().len(), 50);
        }
    }
    assert_eq!(ends.decompressor.kept_count(), MAX_KEPT);
    // Without an answer, no more than that is kept.
    assert_eq!(ends.answer().len(), KeptEntry::MAX_ENTRIES);
    assert_eq!(ends.answer(), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is lost, late, repeated or overtaken on two paths, what comes out is what was sent, and no packet is lost for another.
    #[test]
    fn losses_and_order_are_of_no_consequence_for_other_packets(
        steps in prop::collection::vec((0..4_u16, 0..2_usize, 0..10_u8, 0..3000_i64, any::<prop::sample::Index>()), 50..400),
    ) {
        let mut ends = Ends::new();
        let mut underway: Vec<Datagram> = Vec::new();
        for (number, (flow, path, fate, micros, place)) in steps.into_iter().enumerate() {
            ends.now += Span::from_micros(micros);
            let number = (1 << NUMBER_BITS) - 100 + number as u32;
            // All in one bucket.
            underway.push(ends.send(segment(flow, number, ends.now), 5, number, path));
            match fate {
                0 => drop(underway.swap_remove(place.index(underway.len()))),
                1 => {}
                2 => {
                    let twice = underway[place.index(underway.len())].clone();
                    prop_assert!(ends.receive(&twice));
                }
                3 => drop(ends.decompressor.poll(ends.now)),
                _ => {
                    let arrived = underway.swap_remove(place.index(underway.len()));
                    prop_assert!(ends.receive(&arrived));
                    ends.answer();
                }
            }
        }
        for datagram in std::mem::take(&mut underway) {
            prop_assert!(ends.receive(&datagram));
        }
    }

    /// A peer may send whatever it wants: no more is kept than there is room for, and no answer is longer than what it is to.
    #[test]
    fn a_hostile_peer_occupies_no_more_than_there_is_room_for(
        sent in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..80), 0..4_u8), 0..60),
        kept in prop::collection::vec((0..4_u32, any::<u16>()), 0..40),
    ) {
        let mut ends = Ends::new();
        let path = PathId::new(0).unwrap();
        for (counter, (flow, bytes, kind)) in sent.iter().enumerate() {
            let mut bytes = if *kind == 0 { bytes.clone() } else { segment(*flow, counter as u32, ends.now) };
            if let (Some(first), 1) = (bytes.first_mut(), *kind) {
                *first |= 0x10;
            }
            let arrived = ArrivedPacket { bytes: &bytes, number: counter as u32, path, counter: counter as u64 };
            let mut packet = Vec::new();
            ends.decompressor.decompress(arrived, &mut packet, ends.now);
            prop_assert!(packet.len() <= bytes.len() + 100);
        }
        let answers = ends.answer();
        prop_assert!(answers.len() <= sent.len().min(KeptEntry::MAX_ENTRIES));
        // Nobody has asked for these.
        kept.iter().for_each(|(counter, number)| ends.compressor.record_kept(path, *counter, *number, ends.now));
        let datagram = ends.send(segment(1, 1, ends.now), 1, 1, 0);
        prop_assert!(datagram.sent[0] & COMPRESSED == 0);
    }
}
