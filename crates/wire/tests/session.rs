//! Both ends of a control connection, byte by byte, without a socket.

#[allow(dead_code, reason = "each test uses its own check")]
use crate::checks;
use kumade_probe_train::{Segment, Train};
use kumade_units::{Span, Time};
use kumade_wire::{
    AdmissionDecision, Arrival, ClientMessage, ClientSession, Departure, FrameError, Limits, Message, Preamble,
    PreambleError, PreambleReply, PresharedKey, ServerMessage, ServerSession, SessionError, Token, Version,
    decide_admission,
};
use proptest::prelude::*;
use std::sync::Arc;

fn key(byte: u8) -> PresharedKey {
    PresharedKey::from_bytes([byte; 32])
}

/// Connects a client to a server; returns both once neither has anything more to say.
fn connect(
    client_key: Option<&PresharedKey>,
    server_key: Option<&PresharedKey>,
) -> (ClientSession, Option<ServerSession>, Result<(), SessionError>) {
    let mut client = ClientSession::client(client_key, Version::NEWEST);
    let opening = client.take_outgoing();
    let (preamble, rest) = opening.split_first_chunk::<{ Preamble::SIZE }>().unwrap();
    let Ok((Preamble::Control { encrypted }, version)) = Preamble::decode(preamble) else {
        panic!("no control preamble")
    };
    let verdict = decide_admission(encrypted, server_key.is_some(), true);
    if verdict != AdmissionDecision::Accepted {
        client.feed(&PreambleReply(verdict).encode(version));
        let result = client.receive().map(|_| ());
        return (client, None, result);
    }
    let mut server = ServerSession::server(server_key, version);
    server.feed(rest);
    let heard = server.receive();
    client.feed(&server.take_outgoing());
    let result = client.receive().map(|message| assert_eq!(message, None));
    assert_eq!(heard.is_ok(), result.is_ok());
    (client, Some(server), result)
}

#[test]
fn a_full_server_says_so_to_those_that_it_could_serve() {
    for key in [false, true] {
        assert_eq!(decide_admission(key, key, true), AdmissionDecision::Accepted);
        assert_eq!(decide_admission(key, key, false), AdmissionDecision::ServerFull);
    }
    assert_eq!(
        [decide_admission(false, true, false), decide_admission(true, false, false)],
        [AdmissionDecision::KeyRequired, AdmissionDecision::NoServerKey]
    );
}

/// A client needs to know nothing of others: its first record tells which key it has.
#[test]
fn a_server_with_several_keys_finds_the_clients_and_refuses_others() {
    let keys: Arc<[PresharedKey]> = (0..64).map(key).collect();
    for version in [Version::OLDEST, Version::NEWEST] {
        for place in [0, 17, 63, 64] {
            let mut client = ClientSession::client(Some(&key(place)), version);
            let mut server = ServerSession::server_with_keys(Arc::clone(&keys), version);
            server.feed(&client.take_outgoing()[Preamble::SIZE..]);
            let heard = server.receive();
            client.feed(&server.take_outgoing());
            if place == 64 {
                assert_eq!((heard, client.receive()), (Err(SessionError::WrongKey), Err(SessionError::WrongKey)));
                continue;
            }
            assert_eq!((server.key_index(), client.receive()), (Some(place.into()), Ok(None)));
            client.send(&ClientMessage::Ping).unwrap();
            server.feed(&client.take_outgoing());
            assert_eq!(server.receive(), Ok(Some(ClientMessage::Ping)));
        }
    }
}

#[test]
fn a_version_that_is_changed_on_the_way_opens_no_encrypted_session() {
    let hears = |version| {
        let key = key(1);
        let opening = ClientSession::client(Some(&key), Version::NEWEST).take_outgoing();
        let mut server = ServerSession::server(Some(&key), version);
        server.feed(&opening[Preamble::SIZE..]);
        server.receive().map(|_| server.is_open())
    };
    assert!(hears(Version::NEWEST).is_ok_and(|is_open| is_open));
    assert!(hears(Version::OLDEST).is_err());
}

fn long_message() -> ServerMessage {
    let departure = |index| Departure { index, size: 1500, sent: Some(Time::from_nanos(i64::MAX - i64::from(index))) };
    ServerMessage::Sent { number: 7, departures: (0..Train::MAX_PACKETS).map(departure).collect(), kernel_stamps: true }
}

#[test]
fn the_longest_messages_fit_their_frames() {
    let mut out = Vec::new();
    kumade_wire::encode(&long_message(), &mut out).unwrap();
    assert!(out.len() < ServerMessage::MAX_BODY_BYTES * 3 / 4, "{}", out.len());
    let segment = Segment { count: u32::MAX, interval: Span::MAX, first_size: u32::MAX, size_step: i32::MIN };
    let train = Train { segments: vec![segment; 64] };
    let mut out = Vec::new();
    kumade_wire::encode(&ClientMessage::Receive { number: u32::MAX, train, timeout: Span::MAX }, &mut out).unwrap();
    assert!(out.len() < ClientMessage::MAX_BODY_BYTES * 3 / 4, "{}", out.len());
}

#[test]
fn messages_pass_both_ways_plain_and_encrypted_in_pieces_of_any_size() {
    let key = key(1);
    for key in [None, Some(&key)] {
        for piece in [1, 7, 1000, usize::MAX] {
            let (mut client, server, result) = connect(key, key);
            assert_eq!(result, Ok(()));
            let mut server = server.unwrap();
            assert!(client.is_open() && server.is_open());
            client.send(&ClientMessage::EnterQueue).unwrap();
            client.send(&ClientMessage::Ping).unwrap();
            server.feed(&client.take_outgoing());
            assert_eq!(server.receive(), Ok(Some(ClientMessage::EnterQueue)));
            assert_eq!(server.receive(), Ok(Some(ClientMessage::Ping)));
            assert_eq!(server.receive(), Ok(None));
            server.send(&long_message()).unwrap();
            let bytes = server.take_outgoing();
            let mut came = None;
            for part in bytes.chunks(piece.min(bytes.len())) {
                assert_eq!(came, None, "whole before its end");
                client.feed(part);
                came = client.receive().unwrap();
            }
            assert_eq!(came, Some(long_message()));
        }
    }
}

#[test]
fn a_key_on_one_side_only_and_different_keys_are_named() {
    assert_eq!(connect(None, Some(&key(1))).2, Err(SessionError::KeyRequired));
    assert_eq!(connect(Some(&key(1)), None).2, Err(SessionError::NoServerKey));
    let (mut client, server, result) = connect(Some(&key(1)), Some(&key(2)));
    assert_eq!(result, Err(SessionError::WrongKey));
    assert!(!client.is_open() && !server.unwrap().is_open());
    assert_eq!(client.receive(), Err(SessionError::NotOpen), "an error ends the session");
}

#[test]
fn an_encrypted_session_shows_nothing_and_notices_damage() {
    let key = key(3);
    let (mut client, server, _) = connect(Some(&key), Some(&key));
    let limits = Limits { connections: 1, bytes: 2, packets: 3, turn: Span::from_secs(4) };
    let token = Token(*b"secret-token-123");
    let mut server = server.unwrap();
    server.send(&ServerMessage::Welcome { token, limits }).unwrap();
    let mut bytes = server.take_outgoing();
    assert!(!bytes.windows(16).any(|w| w == token.0));
    *bytes.last_mut().unwrap() ^= 1;
    client.feed(&bytes);
    assert_eq!(client.receive(), Err(SessionError::DecryptionFailed));
}

#[test]
fn peers_that_are_something_else_are_told_by_their_first_bytes() {
    let hears = |bytes: &[u8]| {
        let mut client = ClientSession::client(None, Version::NEWEST);
        client.feed(bytes);
        client.receive()
    };
    assert_eq!(hears(b"HT"), Err(PreambleError::NotKumade.into()), "before a whole answer is there");
    assert_eq!(hears(b"SSH-2.0-OpenSSH_9.2p1 Debian"), Err(PreambleError::NotKumade.into()));
    let mut other = PreambleReply(AdmissionDecision::UnsupportedVersion).encode(Version::NEWEST);
    other[7] = 200;
    assert_eq!(hears(&other), Err(PreambleError::UnsupportedVersion { theirs: 200 }.into()));
    assert_eq!(
        hears(&PreambleReply(AdmissionDecision::ServerFull).encode(Version::NEWEST)),
        Err(SessionError::ServerFull)
    );
    assert_eq!(hears(b"KUMA"), Ok(None), "the rest may still come");
}

#[test]
fn a_frame_beyond_the_limit_is_refused_by_its_prefix() {
    let mut server = ServerSession::server(None, Version::NEWEST);
    server.feed(&u32::MAX.to_be_bytes());
    let limit = ClientMessage::MAX_BODY_BYTES;
    assert_eq!(server.receive(), Err(FrameError::TooLong { length: u32::MAX as usize, limit }.into()));
}

#[test]
fn a_frame_of_the_greatest_length_passes_and_one_byte_more_does_not() {
    let framed = |length: usize| {
        let mut frame = Vec::new();
        kumade_wire::encode(&ServerMessage::Refused("x".repeat(length)), &mut frame).map(|()| frame)
    };
    let limit = ServerMessage::MAX_BODY_BYTES;
    let overhead = framed(limit - 100).unwrap().len() - 4 - (limit - 100);
    let longest = framed(limit - overhead).unwrap();
    assert_eq!(longest.len(), 4 + limit);
    let (message, taken) = kumade_wire::decode::<ServerMessage>(&longest).unwrap().unwrap();
    assert_eq!((message, taken), (ServerMessage::Refused("x".repeat(limit - overhead)), 4 + limit));
    assert_eq!(framed(limit - overhead + 1), Err(FrameError::TooLong { length: limit + 1, limit }));
}

#[test]
fn a_record_beyond_the_limit_is_refused_by_its_prefix() {
    let key = key(1);
    for (length, result) in [((16 << 10) + 16, Ok(None)), ((16 << 10) + 17, Err(SessionError::DecryptionFailed))] {
        let (mut client, _, _) = connect(Some(&key), Some(&key));
        client.feed(&u16::to_be_bytes(length));
        assert_eq!(client.receive(), result, "{length} bytes");
    }
}

#[test]
fn only_an_older_server_is_asked_again() {
    let answered = |theirs| SessionError::from(PreambleError::UnsupportedVersion { theirs });
    let newest = Version::NEWEST;
    assert_eq!(answered(Version::OLDEST.number()).older_server_version(newest), Some(Version::OLDEST));
    assert_eq!(answered(newest.number()).older_server_version(newest), None);
    assert_eq!(answered(newest.number()).older_server_version(Version::OLDEST), None);
    assert_eq!(answered(0).older_server_version(newest), None);
    assert_eq!(SessionError::ServerFull.older_server_version(newest), None);
}

#[test]
fn bytes_behind_a_message_within_its_frame_are_refused() {
    let mut frame = Vec::new();
    kumade_wire::encode(&ClientMessage::EnterQueue, &mut frame).unwrap();
    frame.push(0);
    frame[3] += 1;
    assert_eq!(kumade_wire::decode::<ClientMessage>(&frame), Err(FrameError::Malformed));
}

proptest! {
    #[test]
    fn no_input_panics(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
        with_key: bool,
        open: bool,
    ) {
        let key = key(9);
        let key = with_key.then_some(&key);
        let (mut client, server, _) = connect(key, key);
        let mut server = server.unwrap();
        if !open {
            (client, server) = (ClientSession::client(key, Version::NEWEST), ServerSession::server(key, Version::NEWEST));
        }
        for part in &parts {
            client.feed(part);
            server.feed(part);
            while let Ok(Some(_)) = client.receive() {}
            while let Ok(Some(_)) = server.receive() {}
        }
    }

    #[test]
    fn any_arrivals_come_back_as_they_were(
        number: u32,
        arrivals in prop::collection::vec((any::<u32>(), any::<Option<i64>>()), 0..200),
    ) {
        let arrivals =
            arrivals.into_iter().map(|(index, t)| Arrival { index, received: t.map(Time::from_nanos) }).collect();
        let message = ServerMessage::Received { number, arrivals, kernel_stamps: true };
        let mut bytes = Vec::new();
        kumade_wire::encode(&message, &mut bytes).unwrap();
        let length = bytes.len();
        prop_assert_eq!(kumade_wire::decode(&bytes), Ok(Some((message, length))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn whoever_is_between_the_ends_makes_nobody_hear_what_was_not_said(
        mode in any::<u8>(),
        // Of eight steps, six are of those who say and pass something.
        steps in proptest::collection::vec((0_u8..64, any::<u8>(), any::<u8>()), 0..60),
    ) {
        let steps = steps.into_iter().flat_map(|(step, first, second)| [if step < 56 { step % 6 } else { step }, first, second]);
        checks::conversation(&std::iter::once(mode).chain(steps).collect::<Vec<_>>());
    }
}
