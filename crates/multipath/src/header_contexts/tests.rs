use super::compressor::{HeaderCompressor, LeavingPacket, MAX_LATER_REQUESTS, REQUESTS_PER_SECOND};
use super::decompressor::{ArrivedPacket, HeaderAnswer, HeaderDecompressor};
use super::{COMPRESSED, MAX_KEPT, packets_later};
use crate::message::{KeptEntry, NUMBER_BITS};
use crate::path::id::PathId;
use kumade_packet::checksum;
use kumade_units::{Span, Time};
use proptest::prelude::*;

/// A full segment of a TCP connection with time stamps over IPv4.
fn segment(flow: u16, number: u32, now: Time) -> Vec<u8> {
    let mut packet = vec![0; 52 + 1394];
    let length = packet.len() as u16;
    packet[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[4..6].copy_from_slice(&(number as u16).to_be_bytes());
    packet[12..20].copy_from_slice(&[10, 1, 0, 1, 10, 2, 0, 1]);
    packet[20..22].copy_from_slice(&flow.to_be_bytes());
    packet[24..28].copy_from_slice(&number.wrapping_mul(1394).to_be_bytes());
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
    sent: Vec<u8>,
    number: u32,
    path: PathId,
    counter: u64,
}

impl Ends {
    fn new() -> Self {
        let (compressor, decompressor) = (HeaderCompressor::new(true), HeaderDecompressor::new(true));
        Ends { compressor, decompressor, counters: [0; 2], now: Time::ZERO }
    }

    fn send(&mut self, original: Vec<u8>, bucket: u16, number: u32, path: usize) -> Datagram {
        let counter = self.counters[path];
        self.counters[path] += 1;
        let path = PathId::all().nth(path).unwrap();
        let leaving = LeavingPacket { packet: &original, bucket, number, path, counter };
        let sent = match self.compressor.compress(leaving, self.now) {
            Some(headers) => [headers.as_ref(), &original[headers.replaced_bytes..]].concat(),
            None => original.clone(),
        };
        assert!(sent.len() <= original.len(), "a packet that fits goes");
        Datagram { original, sent, number, path, counter }
    }

    /// Whether it comes out, and as what it was then.
    fn receive(&mut self, datagram: &Datagram) -> bool {
        let Datagram { original, sent, number, path, counter } = datagram;
        let arrived =
            ArrivedPacket { bytes: sent, number: number & ((1 << NUMBER_BITS) - 1), path: *path, counter: *counter };
        let mut packet = Vec::new();
        let is_decompressed = self.decompressor.decompress(arrived, &mut packet);
        assert!(if is_decompressed { packet == *original } else { packet.is_empty() });
        is_decompressed
    }

    /// What is answered arrives, too.
    fn answer(&mut self) -> Vec<KeptEntry> {
        let mut all = Vec::new();
        while let Some(answer) = self.decompressor.poll(self.now) {
            match answer {
                HeaderAnswer::Kept(_, entries) => {
                    assert!(!entries.is_empty() && entries.len() <= KeptEntry::MAX_ENTRIES);
                    entries.iter().for_each(|kept| self.compressor.record_kept(kept.path, kept.counter, kept.number));
                    all.extend(entries);
                }
                HeaderAnswer::Forget(_) => self.compressor.forget(),
            }
        }
        all
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
    let mut compressor = HeaderCompressor::new(false);
    let mut decompressor = HeaderDecompressor::new(false);
    for number in 0..100 {
        let packet = segment(1, number, Time::ZERO);
        let (path, counter) = (PathId::new(0).unwrap(), number.into());
        let leaving = LeavingPacket { packet: &packet, bucket: 1, number, path, counter };
        assert!(compressor.compress(leaving, Time::ZERO).is_none());
        let mut out = Vec::new();
        for first in [0x45, 0x55, 0x85, 0xc5] {
            let bytes = [&[first][..], &packet[1..]].concat();
            assert!(decompressor.decompress(ArrivedPacket { bytes: &bytes, number, path, counter }, &mut out));
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
    ends.decompressor = HeaderDecompressor::new(true);
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
            ends.decompressor.decompress(arrived, &mut packet);
            prop_assert!(packet.len() <= bytes.len() + 100);
        }
        let answers = ends.answer();
        prop_assert!(answers.len() <= sent.len().min(KeptEntry::MAX_ENTRIES));
        // Nobody has asked for these.
        kept.iter().for_each(|(counter, number)| ends.compressor.record_kept(path, *counter, *number));
        let datagram = ends.send(segment(1, 1, ends.now), 1, 1, 0);
        prop_assert!(datagram.sent[0] & COMPRESSED == 0);
    }
}
