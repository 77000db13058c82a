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
    let header = DataHeader {
        bucket: 0x0123,
        number: 0x4567_89ab,
        counter: 7,
        is_unordered: false,
        is_redundant: true,
        requests_report: true,
        segment_bytes: None,
    };
    let mut buffer = [0xee; 100];
    let (room, packet) = buffer.split_at_mut(90);
    packet.fill(0x45);
    let start = header.write_into_headroom([Predecessor::new(path(3), 0xf123_4567_89ab)], room);
    let expected = [[0x10, 0x61, 0x01, 0x23], [0x45, 0x67, 0x89, 0xab], [0, 0, 0, 7], [0x35, 0x67, 0x89, 0xab]];
    assert_eq!(&buffer[start..90], expected.as_flattened());
    let Ok(Message::Data(mut data)) = Message::parse(&buffer[start..]) else { panic!("no data") };
    assert_eq!((data.header, data.packet), (header, &[0x45; 10][..]));
    let predecessor = data.predecessors.next().unwrap();
    assert_eq!((predecessor.path(), predecessor.counter_near(0xf123_4600_0000)), (path(3), 0xf123_4567_89ab));
    assert_eq!(data.predecessors.next(), None);
}

#[test]
fn a_packet_that_stands_for_segments_says_how_long_they_are() {
    let header = DataHeader { number: 9, segment_bytes: NonZeroU16::new(1448), ..DataHeader::default() };
    let mut room = [0xee; 40];
    let start = header.write_into_headroom([Predecessor::new(path(3), 7)], &mut room);
    assert_eq!(room[start..], [0x10, 0x81, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x30, 0, 0, 7, 0x05, 0xa8]);
    let Ok(Message::Data(data)) = Message::parse(&room[start..]) else { panic!("no data") };
    assert_eq!((data.header, data.predecessors.count(), data.packet), (header, 1, &[][..]));
    room[38..].fill(0);
    let error = Message::parse(&room[start..]).unwrap_err();
    assert_eq!(error, MessageError::Invalid { field: "length of segments", value: 0 });
}

#[test]
fn probes_and_reports_come_back() {
    let probe = Probe { counter: u32::MAX, size: 1400 };
    let bytes = written(Message::Probe(probe));
    assert_eq!((bytes.len(), bytes[0]), (1400, 0x11));
    assert_eq!(Message::parse(&bytes), Ok(Message::Probe(probe)));
    let query = MtuQuery { number: 9, size: 1400 };
    let bytes = written(Message::MtuProbe(query));
    assert_eq!((bytes.len(), bytes[0]), (1400, 0x13));
    assert_eq!(Message::parse(&bytes), Ok(Message::MtuProbe(query)));
    let bytes = written(Message::MtuAnswer(9));
    assert_eq!(bytes, [0x14, 0, 0, 0, 9]);
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
fn what_is_no_message_is_refused_with_the_reason() {
    let invalid = |field, value| MessageError::Invalid { field, value };
    for (bytes, error) in [
        (&[][..], MessageError::TooShort),
        (&[0x20, 0, 0, 0, 0, 0, 0, 0], MessageError::OtherVersion(2)),
        (&[0x15], MessageError::UnknownKind(5)),
        (&[0x10, 0, 0, 0, 0, 0, 0], MessageError::TooShort),
        (&[0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], MessageError::TooShort),
        (&[0x10, 0, 4, 0, 0, 0, 0, 0], invalid("bucket", 1024)),
        (&[0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3], invalid("padding", 3)),
        (&[0x12, 0], MessageError::TooShort),
        (&[0x13, 0, 0, 0, 0, 9], invalid("padding", 9)),
        (&[0x14, 0, 0, 0, 0, 9], MessageError::TooLong(1)),
    ] {
        assert_eq!(Message::parse(bytes), Err(error), "{bytes:?}");
    }
    assert_eq!(Message::parse(&[&[0x12][..], &[0; 37]].concat()), Err(MessageError::TooLong(1)));
    assert_eq!(invalid("path", 16).to_string(), "the path cannot be 16");
}

#[test]
fn kinds_from_8_on_belong_to_sessions() {
    let message = Message::Session { kind: 9, body: &[1, 2] };
    assert_eq!(written(message), [0x19, 1, 2]);
    assert_eq!(Message::parse(&[0x19, 1, 2]), Ok(message));
}

proptest! {
    #[test]
    fn a_message_has_one_spelling(
        first in 0x10u8..0x20,
        flags: u8,
        rest in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let bytes: Vec<_> = [first, flags].into_iter().chain(rest).collect();
        if let Ok(message) = Message::parse(&bytes) {
            prop_assert_eq!(written(message), bytes);
        }
    }
}
