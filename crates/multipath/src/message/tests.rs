use super::*;
use crate::path_id::PathId;
use crate::predecessor::Predecessor;
use proptest::prelude::*;
use units::{Span, Time};

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
    let header = DataHeader { bucket: 0x0123, number: 0x4567_89ab, unordered: false, redundant: true };
    let mut buffer = [0xee; 100];
    let (room, packet) = buffer.split_at_mut(90);
    packet.fill(0x45);
    let start = header.write_before([Predecessor::new(path(3), 0xf123_4567_89ab)], room);
    let expected = [[0x10, 0x21, 0x01, 0x23], [0x45, 0x67, 0x89, 0xab], [0x35, 0x67, 0x89, 0xab]];
    assert_eq!(&buffer[start..90], expected.as_flattened());
    let Ok(Message::Data(mut data)) = Message::parse(&buffer[start..]) else { panic!("no data") };
    assert_eq!((data.header, data.packet), (header, &[0x45; 10][..]));
    let predecessor = data.predecessors.next().unwrap();
    assert_eq!((predecessor.path(), predecessor.counter_near(0xf123_4600_0000)), (path(3), 0xf123_4567_89ab));
    assert_eq!(data.predecessors.next(), None);
}

#[test]
fn probes_and_echoes_come_back() {
    let probe = Probe { sent: Time::from_nanos(-5), size: 1400 };
    let bytes = written(Message::Probe(probe));
    assert_eq!((bytes.len(), bytes[0]), (1400, 0x11));
    assert_eq!(Message::parse(&bytes), Ok(Message::Probe(probe)));
    let [probe_sent, received, sent] = [1, 2, 3].map(Time::from_nanos);
    let echo = Echo { path: path(15), size: 1400, probe_sent, received, sent };
    assert_eq!(Message::parse(&written(Message::Echo(echo))), Ok(Message::Echo(echo)));
}

#[test]
fn reports_come_back_and_spans_that_do_not_fit_are_as_long_as_can_be() {
    let report = |number| PathReport {
        path: path(number),
        highest: (1 << 56) - 1,
        received: 1 << 60,
        marked: 7,
        bytes: u64::MAX,
        arrived: Time::from_nanos(1_763_000_000_123_456_789),
        held: Span::from_millis(4),
        queueing: Span::from_secs(60),
    };
    let mut bytes = Vec::new();
    PathReport::write([report(0), report(9)], &mut bytes);
    assert_eq!(bytes.len(), 1 + 2 * 48);
    let Ok(Message::Report(reports)) = Message::parse(&bytes) else { panic!("no report") };
    let back: Vec<_> = reports.collect();
    let longest = Span::from_nanos(u32::MAX.into());
    let expected = [0, 9].map(|number| PathReport { queueing: longest, ..report(number) });
    assert_eq!(back, expected);
}

#[test]
fn what_is_no_message_is_refused_with_the_reason() {
    let invalid = |field, value| MessageError::Invalid { field, value };
    for (bytes, error) in [
        (&[][..], MessageError::TooShort),
        (&[0x20, 0, 0, 0, 0, 0, 0, 0], MessageError::OtherVersion(2)),
        (&[0x14], MessageError::UnknownKind(4)),
        (&[0x10, 0, 0, 0, 0, 0, 0], MessageError::TooShort),
        (&[0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], MessageError::TooShort),
        (&[0x10, 0x40, 0, 0, 0, 0, 0, 0], invalid("flags", 0x40)),
        (&[0x10, 0, 4, 0, 0, 0, 0, 0], invalid("bucket", 1024)),
        (&[0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3], invalid("padding", 3)),
        (&[0x13, 0], MessageError::TooShort),
    ] {
        assert_eq!(Message::parse(bytes), Err(error), "{bytes:?}");
    }
    let mut echo = vec![0x12, 16];
    echo.resize(28, 0);
    assert_eq!(Message::parse(&echo), Err(invalid("path", 16)));
    echo[1] = 0;
    assert_eq!(Message::parse(&echo), Err(invalid("size", 0)));
    echo[3] = 9;
    assert!(Message::parse(&echo).is_ok());
    echo.push(0);
    assert_eq!(Message::parse(&echo), Err(MessageError::TooLong(1)));
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
        flags in 0u8..0x40,
        rest in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let bytes: Vec<_> = [first, flags].into_iter().chain(rest).collect();
        if let Ok(message) = Message::parse(&bytes) {
            prop_assert_eq!(written(message), bytes);
        }
    }
}
