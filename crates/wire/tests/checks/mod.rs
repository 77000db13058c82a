//! What must hold for any bytes that a peer may send: for the fuzzer, and for the test that replays its finds.

mod conversation;

pub use conversation::conversation;

use kumade_packet::DsField;
use kumade_wire::{
    ClientSession, Message, PortAnswer, PortProbe, Preamble, PreambleReply, PresharedKey, ServerSession, Session,
    SessionError, UdpAnswer, UdpRequest, Version, ntp, stamp,
};
use std::fmt::Debug;
use std::net::SocketAddr;

/// A control connection: the first byte says in what pieces the rest arrives.
pub fn control(data: &[u8]) {
    let Some((&size, bytes)) = data.split_first() else { return };
    let piece = usize::from(size) + 1;
    let key = PresharedKey::from_bytes([7; 32]);
    arrives_alike(|| ServerSession::server(None, Version::NEWEST), bytes, piece);
    arrives_alike(|| ServerSession::server(Some(&key), Version::NEWEST), bytes, piece);
    let keys = || [[8; 32], [7; 32]].map(PresharedKey::from_bytes).into_iter().collect();
    arrives_alike(|| ServerSession::server_with_keys(keys(), Version::NEWEST), bytes, piece);
    arrives_alike(|| ClientSession::client(None, Version::NEWEST), bytes, piece);
    arrives_alike(|| ClientSession::client(Some(&key), Version::NEWEST), bytes, piece);
}

/// The first bytes of a connection, and UDP packets.
pub fn preamble(data: &[u8]) {
    if let Some(bytes) = data.first_chunk()
        && let Ok((preamble, version)) = Preamble::decode(bytes)
    {
        assert_eq!(preamble.encode(version), *bytes, "one preamble, one spelling");
    }
    if let Some(bytes) = data.first_chunk()
        && let Ok((answer, version)) = PreambleReply::decode(bytes)
    {
        assert_eq!(PreambleReply::decode(&answer.encode(version)), Ok((answer, version)));
    }
    if let Ok((request, version)) = UdpRequest::decode(data) {
        assert_eq!(UdpRequest::decode(&request.encode(version)), Ok((request, version)));
    }
    if let Ok(answer) = UdpAnswer::decode(data) {
        assert_eq!(UdpAnswer::decode(&answer.encode(Version::NEWEST)), Ok(answer));
    }
    if let Ok((probe, version)) = PortProbe::decode(data) {
        assert_eq!(PortProbe::decode(&probe.encode(version)), Ok((probe, version)));
    }
    if let Ok(answer) = PortAnswer::decode(data) {
        assert_eq!(PortAnswer::decode(&answer.encode(Version::NEWEST)), Ok(answer));
    }
}

/// A UDP payload that came to a STAMP reflector or sender, or as the answer of an NTP server.
pub fn stamp(data: &[u8]) {
    let mut payload = data.to_vec();
    let answer = |probe: &stamp::Probe| stamp::Reflection {
        sequence: probe.sequence,
        reflected: probe.sent,
        received: probe.sent,
        error_estimate: probe.error_estimate,
        probe_ttl: 255,
    };
    let Ok(probe) = stamp::Reply::reflect(&mut payload, answer) else {
        assert!(data.len() < stamp::MIN_PROBE_BYTES && payload == data);
        return;
    };
    assert_eq!(payload.len(), data.len(), "never longer than the probe");
    let own = payload.len().min(stamp::PACKET_BYTES);
    assert_eq!(payload[own..], data[own..]);
    let mut padded = [data, &[0; stamp::PACKET_BYTES]].concat();
    stamp::Reply::reflect(&mut padded, answer).expect("a longer one");
    // Its session is where the padding is.
    assert!(data.len() < 16 || payload[..own] == padded[..own], "cut off, and nothing else");
    if let Ok(reply) = stamp::Reply::decode(&payload) {
        assert_eq!((reply.probe_sequence, reply.session), (probe.sequence, probe.session));
        assert_eq!(reply.probe_timestamp, data[4..14]);
    }
    let now = probe.sent;
    if let Ok(error) = ntp::clock_error(data, [0; 8], now, now) {
        assert!(error.low <= error.high);
    }
}

/// What follows a STAMP packet, at a reflector and at a sender; the first byte says whether there is a key, and whether the rest is
/// authenticated with it.
pub fn stamp_extensions(data: &[u8]) {
    let Some((&kind, octets)) = data.split_first() else { return };
    let key = stamp::StampKey::new(&PresharedKey::from_bytes([7; 32]));
    let (key, packet_bytes) = match kind % 2 {
        0 => (None, stamp::PACKET_BYTES),
        _ => (Some(&key), stamp::AUTHENTICATED_PACKET_BYTES),
    };
    let mut question = vec![0; packet_bytes];
    question.extend_from_slice(octets);
    if kind & 2 != 0 {
        // The octets are what is asked for, and padding.
        let [first, second] = *octets.first_chunk().unwrap_or(&[0; 2]);
        request(first, second).encode(&mut question, 1, key);
    }
    let mut answer = question.clone();
    let ds_field = stamp::reflect_tlvs(&mut answer, key, &probe_facts(kind));
    assert_eq!((answer.len(), &answer[..packet_bytes]), (question.len(), &question[..packet_bytes]));
    // Reflected once more, it is what it was: what a reflector writes, it understands.
    if key.is_none() {
        let mut again = answer.clone();
        assert_eq!(stamp::reflect_tlvs(&mut again, key, &probe_facts(kind)).is_some(), ds_field.is_some());
    }
    for payload in [&question, &answer] {
        for format in [stamp::ClockFormat::Ntp, stamp::ClockFormat::Ptp] {
            let _ = stamp::read_reflected_tlvs(payload, key, format);
        }
    }
    // Zeroes are no padding where there is no room for what authenticates TLVs.
    let is_whole = key.is_none() || question.len() >= stamp::AUTHENTICATED_PACKET_BYTES + 20;
    if kind & 2 != 0 && is_whole {
        let read = stamp::read_reflected_tlvs(&answer, key, stamp::ClockFormat::Ntp);
        read.expect("what this sender asks for, this reflector answers");
    }
}

fn request(first: u8, dscp: u8) -> stamp::TlvRequest {
    let asks = |bit: u8| first & 1 << bit != 0;
    stamp::TlvRequest {
        class_of_service: asks(0).then(|| DsField::from_octet(dscp)),
        timestamp_information: asks(1),
        location: asks(2),
        direct_measurement: asks(3),
        access_report: asks(4).then_some(stamp::AccessReport { access_id: 1, return_code: dscp }),
        follow_up_telemetry: asks(5),
    }
}

fn probe_facts(kind: u8) -> stamp::ProbeFacts {
    let source = if kind & 4 == 0 { "192.0.2.1:5" } else { "[2001:db8::1]:5" };
    let source: SocketAddr = source.parse().expect("an address");
    stamp::ProbeFacts {
        sequence: 0,
        ds_field: DsField::from_octet(kind),
        location: (kind & 8 == 0).then_some(stamp::ProbeLocation {
            source,
            destination: Some(source.ip()),
            destination_port: stamp::PORT,
        }),
        timestamps: stamp::TimestampInformation::default(),
        format: stamp::ClockFormat::Ntp,
        received: 1,
        transmitted: 1,
        last_reflection: None,
    }
}

/// Messages do not depend on the pieces in which their bytes arrive, and come back when they are sent again.
fn arrives_alike<In, Out>(begin: impl Fn() -> Session<In, Out>, bytes: &[u8], piece: usize)
where
    In: Message + PartialEq + Debug,
    Out: Message,
{
    let whole = all_messages(begin(), [bytes].into_iter());
    let pieces = all_messages(begin(), bytes.chunks(piece));
    assert_eq!(whole, pieces);
    for message in &whole.0 {
        let mut again = Vec::new();
        kumade_wire::encode(message, &mut again).expect("what came in a frame fits into one");
        let (back, taken) = kumade_wire::decode::<In>(&again).expect("a frame of ours").expect("a whole one");
        assert_eq!((&back, taken), (message, again.len()));
    }
}

fn all_messages<'b, In: Message, Out: Message>(
    mut session: Session<In, Out>,
    pieces: impl Iterator<Item = &'b [u8]>,
) -> (Vec<In>, Option<SessionError>) {
    let mut messages = Vec::new();
    for piece in pieces {
        session.feed(piece);
        loop {
            match session.receive() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}
