use super::*;
use crate::path::id::PathId;
use crate::predecessor::Predecessor;
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::num::NonZeroU16;

fn path(number: u8) -> PathId {
    PathId::new(number).unwrap()
}

fn written(message: Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes
}

#[test]
fn data_stands_on_the_wire_as_documented() {
    let header = DataHeader { bucket: 0x0123, number: 0x2_89ab, requests_report: true, ..DataHeader::default() };
    let first = [0x10 | 0x04, 0x8c | 0x02, 0x89, 0xab];
    let with_form = |form: u8| [first[0] | form << 5, first[1], first[2], first[3]];
    let written_before = |header: DataHeader, predecessors: &[(u8, u64)]| {
        let mut buffer = [0xee; 100];
        let (room, packet) = buffer.split_at_mut(90);
        packet.fill(0x45);
        let predecessors = predecessors.iter().map(|(number, counter)| Predecessor::new(path(*number), *counter));
        let predecessors: Vec<_> = predecessors.collect();
        let start = header.write_into_headroom(predecessors.iter().copied(), room);
        let Ok(Message::Data(data)) = Message::parse(&buffer[start..]) else { panic!("no data") };
        assert_eq!((data.header, data.packet), (header, &[0x45; 10][..]));
        assert_eq!(data.predecessors.collect::<Vec<_>>(), if header.is_unordered { vec![] } else { predecessors });
        buffer[start..90].to_vec()
    };
    assert_eq!(written_before(header, &[]), first);
    assert_eq!(written_before(header, &[(0, 0xf123_4567_89ab)]), [&with_form(1)[..], &[0x89, 0xab]].concat());
    assert_eq!(written_before(header, &[(1, 7)]), [&with_form(2)[..], &[0, 7]].concat());
    assert_eq!(written_before(header, &[(2, 7)]), [&with_form(6)[..], &[0x01, 2, 0, 7]].concat());
    assert_eq!(written_before(header, &[(0, 7), (15, 8)]), [&with_form(6)[..], &[0x02, 0, 0, 7, 15, 0, 8]].concat());
    let unordered = DataHeader { is_unordered: true, ..header };
    assert_eq!(written_before(unordered, &[(0, 7)]), with_form(5));
    let redundant = DataHeader { is_redundant: true, ..header };
    assert_eq!(written_before(redundant, &[]), [&with_form(6)[..], &[0x10]].concat());
    assert_eq!(written_before(redundant, &[(0, 9)]), [&with_form(3)[..], &[0, 9]].concat());
    assert_eq!(written_before(redundant, &[(1, 9)]), [&with_form(4)[..], &[0, 9]].concat());
    let unordered = DataHeader { is_redundant: true, ..unordered };
    assert_eq!(written_before(unordered, &[]), [&with_form(6)[..], &[0x50]].concat());
    let segments = DataHeader { segment_bytes: NonZeroU16::new(1448), ..header };
    assert_eq!(written_before(segments, &[(1, 9)]), [&with_form(6)[..], &[0x21, 1, 0, 9, 0x05, 0xa8]].concat());
    let all: Vec<_> = (0..15).map(|number| (number, 1)).collect();
    let both = DataHeader { segment_bytes: NonZeroU16::new(1448), ..redundant };
    assert_eq!(written_before(both, &all).len(), DataHeader::HEADROOM_BYTES);
}

#[test]
fn predecessors_are_known_by_their_lowest_bits() {
    let predecessor = Predecessor::new(path(3), 0xf123_4567_89ab);
    assert_eq!((predecessor.path(), predecessor.counter_near(0xf123_4567_0000)), (path(3), 0xf123_4566_89ab));
    assert_eq!(predecessor.counter_near(0xf123_4567_8000), 0xf123_4567_89ab);
}

/// What the README of gateways and tunnels promises of lengths: see docs/tunnel.md.
#[test]
fn with_one_path_or_two_few_octets_stand_before_a_packet() {
    assert_eq!([1, 2, 3, 16].map(DataHeader::size_for_paths), [4, 6, 11, 50]);
}

/// One octet more, and a copy of the longest packet would not pass where the packet does.
#[test]
fn a_copy_has_no_more_octets_than_the_longest_packets_leave_room_for() {
    for paths in 2..=PathId::MAX_PATHS {
        for (is_unordered, count) in [(true, 0)].into_iter().chain((0..paths).map(|count| (false, count))) {
            let header = DataHeader { is_redundant: true, is_unordered, ..DataHeader::default() };
            for first in 0..=paths - count {
                let predecessors = (first..).map_while(|number| PathId::new(number as u8)).take(count);
                let predecessors: Vec<_> = predecessors.map(|path| Predecessor::new(path, 9)).collect();
                let mut room = [0; DataHeader::HEADROOM_BYTES];
                let bytes = room.len() - header.write_into_headroom(predecessors, &mut room);
                assert!(bytes as u32 <= DataHeader::size_for_paths(paths), "{paths} paths, {count}: {bytes}");
            }
        }
    }
}

#[test]
fn probes_and_reports_come_back() {
    let probe = Probe { size: 1400 };
    let bytes = written(Message::Probe(probe));
    assert_eq!((bytes.len(), bytes[0]), (1400, 0xe1));
    assert_eq!(Message::parse(&bytes), Ok(Message::Probe(probe)));
    let query = MtuQuery { number: 9, size: 1400 };
    let bytes = written(Message::MtuProbe(query));
    assert_eq!((bytes.len(), bytes[0]), (1400, 0xe3));
    assert_eq!(Message::parse(&bytes), Ok(Message::MtuProbe(query)));
    let bytes = written(Message::MtuAnswer(9));
    assert_eq!(bytes, [0xe4, 0, 0, 0, 9]);
    assert_eq!(Message::parse(&bytes), Ok(Message::MtuAnswer(9)));
    let report = PathReport {
        highest_counter: (1 << 56) - 1,
        received_packets: PathReport::MAX_COUNT,
        received_bytes: PathReport::MAX_COUNT,
        arrival: Time::from_nanos(-5),
        hold_time: Span::from_millis(4),
    };
    let bytes = written(Message::Report(report));
    assert_eq!(bytes.len(), 37);
    assert_eq!(Message::parse(&bytes), Ok(Message::Report(report)));
    let more = PathReport::MAX_COUNT + 1;
    for (field, report) in [
        ("highest counter", PathReport { highest_counter: more, ..report }),
        ("number of packets", PathReport { received_packets: more, ..report }),
        ("number of bytes", PathReport { received_bytes: more, ..report }),
    ] {
        let bytes = written(Message::Report(report));
        assert_eq!(Message::parse(&bytes), Err(MessageError::Invalid { field, value: more }));
    }
}

#[test]
fn missing_datagrams_come_back() {
    let counters = [(1 << 40) + 5, (1 << 40) + 6, (1 << 40) + 70_000 - 4460];
    let offsets = Missing::offsets_of(&counters);
    let missing = Missing { path: path(3), first_counter: counters[0], offsets: &offsets };
    let bytes = written(Message::Missing(missing));
    assert_eq!(bytes, [0xe5, 3, 0, 0, 1, 0, 0, 0, 0, 5, 0, 1, 0xff, 0xff]);
    let Ok(Message::Missing(read)) = Message::parse(&bytes) else { panic!("no report") };
    assert!(read.counters().eq(counters));
}

#[test]
fn kept_headers_come_back() {
    let entries = [
        KeptEntry { path: path(15), counter: 0x0102_0304, number: 0x3fff },
        KeptEntry { path: path(0), counter: 7, number: 0 },
    ];
    let all = entries.map(KeptEntry::to_bytes);
    let bytes = written(Message::Kept(Kept::new(&all)));
    assert_eq!(bytes, [0xe6, 15, 1, 2, 3, 4, 0x3f, 0xff, 0, 0, 0, 0, 7, 0, 0]);
    let Ok(Message::Kept(read)) = Message::parse(&bytes) else { panic!("no kept headers") };
    assert!(read.entries().eq(entries));
    assert_eq!(written(Message::ForgetHeaders(0x3ffe)), [0xe7, 0x3f, 0xfe]);
    assert_eq!(Message::parse(&[0xe7, 0x3f, 0xfe]), Ok(Message::ForgetHeaders(0x3ffe)));
    let many = vec![all[1]; KeptEntry::MAX_ENTRIES + 1];
    assert!(Message::parse(&written(Message::Kept(Kept::new(&many[1..])))).is_ok());
    let invalid = MessageError::Invalid { field: "kept headers", value: many.len() as u64 };
    assert_eq!(Message::parse(&written(Message::Kept(Kept::new(&many)))), Err(invalid));
}

#[test]
fn what_is_no_message_is_refused_with_the_reason() {
    let invalid = |field, value| MessageError::Invalid { field, value };
    for (bytes, error) in [
        (&[][..], MessageError::TooShort),
        (&[0xe0], MessageError::UnknownKind(0)),
        (&[0xe6], MessageError::TooShort),
        (&[0xe6, 0, 0, 0, 0, 0, 0], MessageError::TooShort),
        (&[0xe6, 16, 0, 0, 0, 0, 0, 0], invalid("kept headers", 1)),
        (&[0xe6, 0, 0, 0, 0, 0, 0x40, 0], invalid("kept headers", 1)),
        (&[0xe7, 9], MessageError::TooShort),
        (&[0xe7, 0x40, 0], invalid("kept headers", 0x4000)),
        (&[0xe7, 9, 0, 0], MessageError::TooLong(1)),
        (&[0xe5, 0, 0, 0, 0, 0, 0, 0, 0], MessageError::TooShort),
        (&[0xe5, 16, 0, 0, 0, 0, 0, 0, 0, 1], invalid("path", 16)),
        (&[0xe5, 0, 0x40, 0, 0, 0, 0, 0, 0, 1], invalid("counter", (1 << 62) + 1)),
        (&[0xe5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7], MessageError::TooShort),
        (&[0xe5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], invalid("order of counters", 1)),
        (&[0xe5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 7, 0, 7], invalid("order of counters", 1)),
        (&[0xf1], MessageError::UnknownKind(17)),
        (&[0, 0, 0], MessageError::TooShort),
        (&[0x20, 0, 0, 0, 0], MessageError::TooShort),
        (&[0x60, 0, 0, 0, 0], MessageError::TooShort),
        (&[0xc0, 0, 0, 0], MessageError::TooShort),
        (&[0xc0, 0, 0, 0, 0], invalid("extension", 0)),
        (&[0xc0, 0, 0, 0, 0x80], invalid("extension", 0x80)),
        (&[0xc0, 0, 0, 0, 0x40], invalid("extension", 0x40)),
        (&[0xc0, 0, 0, 0, 0x51, 2, 0, 0], invalid("extension", 0x51)),
        (&[0xc0, 0, 0, 0, 1, 2, 0], MessageError::TooShort),
        (&[0xc0, 0, 0, 0, 0x11, 1, 0, 0], invalid("list of predecessors", 1)),
        (&[0xc0, 0, 0, 0, 1, 16, 0, 0], invalid("list of predecessors", 16)),
        (&[0xc0, 0, 0, 0, 0x20, 0, 0], invalid("length of segments", 0)),
        (&[0xe1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3], invalid("padding", 3)),
        (&[0xe2, 0], MessageError::TooShort),
        (&[0xe3, 0, 0, 0, 0, 9], invalid("padding", 9)),
        (&[0xe4, 0, 0, 0, 0, 9], MessageError::TooLong(1)),
    ] {
        assert_eq!(Message::parse(bytes), Err(error), "{bytes:?}");
    }
    assert_eq!(Message::parse(&[&[0xe2][..], &[0; 37]].concat()), Err(MessageError::TooLong(1)));
    let offsets: Vec<_> = (1..=64u16).flat_map(u16::to_be_bytes).collect();
    let missing = |offsets: &[u8]| [&[0xe5, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], offsets].concat();
    assert!(Message::parse(&missing(&offsets[..126])).is_ok());
    assert_eq!(Message::parse(&missing(&offsets)), Err(invalid("number of datagrams", 65)));
    assert_eq!(invalid("path", 16).to_string(), "the path cannot be 16");
}

#[test]
fn kinds_from_8_on_belong_to_sessions() {
    let message = Message::Session { kind: 9, body: &[1, 2] };
    assert_eq!(written(message), [0xe9, 1, 2]);
    assert_eq!(Message::parse(&[0xe9, 1, 2]), Ok(message));
}

proptest! {
    #[test]
    fn a_message_has_one_spelling(
        first: u8,
        extension in prop::option::of(0u8..0x80),
        rest in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut bytes: Vec<_> = [first].into_iter().chain(rest).collect();
        extension.into_iter().zip(bytes.get_mut(4)).for_each(|(octet, place)| *place = octet);
        if let Ok(message) = Message::parse(&bytes) {
            prop_assert_eq!(written(message), bytes);
        }
    }
}
