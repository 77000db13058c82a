//! What must hold for any bytes that a network may bring: for the fuzzer, and for the test that replays its finds.

use blake2::{Blake2s256, Blake2sMac, Digest, digest::Mac, digest::consts::U16};
use kumade_noise_session::stream::{MAX_RECORD_BYTES, RecordError, RecordReader};
use kumade_noise_session::{
    Cipher, DatagramKind, Endpoint, EndpointEvent, HEADER_BYTES, HandshakePolicy, OpenedDatagram, PeerId, PresharedKey,
    PrivateKey, PublicKey, Route, SessionTable, TAG_BYTES,
};
use kumade_units::{Span, Time};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

/// How long each of the instructions that let time pass lets it.
const STEPS: [Span; 4] = [Span::from_millis(1), Span::from_secs(1), Span::from_secs(16), Span::from_secs(130)];

struct Host {
    endpoint: Endpoint,
    table: SessionTable,
    peer: PeerId,
    public: PublicKey,
    /// The numbers of packets that came.
    received: BTreeSet<u32>,
}

/// Two hosts and what is between them, which does as the bytes say. Each instruction is a byte, its highest bit the host:
///
/// - 0: the host wishes for a session.
/// - 1: it sends a packet on the path in the next byte.
/// - 2: time passes, by the next byte's index in [`STEPS`].
/// - 3: the datagram in the list of those sent, by the next byte, arrives.
/// - 4: the same, altered: the next two bytes are where, and by what. (Its `mac1` is valid again, as anyone could do.)
/// - 5: bytes arrive: the next byte is how many.
pub fn sessions(data: &[u8]) {
    let mut hosts = [host(1, 2), host(2, 1)];
    let (mut now, mut serial, mut sent) = (Time::ZERO, 0, Vec::new());
    let mut bytes = data.iter().copied();
    while let (Some(instruction), Some(operand)) = (bytes.next(), bytes.next()) {
        let number = usize::from(instruction >> 7);
        let host = &mut hosts[number];
        let pick = |sent: &Vec<Vec<u8>>| sent.get(sent.len().wrapping_sub(1 + usize::from(operand))).cloned();
        match instruction & 0x7f {
            0 => host.endpoint.connect(host.peer, now),
            1 => sent.extend(host.packet(operand, &mut serial, now)),
            2 => now += STEPS[usize::from(operand) % STEPS.len()],
            3 => host.arrive(pick(&sent).unwrap_or_default(), now),
            4 => host.arrive(altered(pick(&sent), [bytes.next(), bytes.next()], &host.public), now),
            _ => host.arrive(bytes.by_ref().take(usize::from(operand)).collect(), now),
        }
        for host in &mut hosts {
            host.endpoint.advance(now, now);
            sent.extend(host.transmitted(now));
        }
    }
}

impl Host {
    fn packet(&mut self, path: u8, serial: &mut u32, now: Time) -> Option<Vec<u8>> {
        let mut datagram = [&[0; HEADER_BYTES][..], &serial.to_le_bytes(), &[0; TAG_BYTES]].concat();
        let before = datagram.clone();
        match self.table.seal(self.peer, path, &mut datagram, now) {
            Ok(_) => {
                self.endpoint.record_data_sent(self.peer, now);
                *serial += 1;
                Some(datagram)
            }
            Err(_) => {
                assert_eq!(datagram, before, "nothing is sealed in part");
                None
            }
        }
    }

    fn arrive(&mut self, mut datagram: Vec<u8>, now: Time) {
        if DatagramKind::from_datagram(&datagram) != Some(DatagramKind::Data) {
            let from = Route { path: 0, address: "192.0.2.1:7272".parse().expect("an address") };
            let _ = self.endpoint.receive(&datagram, from, now);
            return;
        }
        let Ok((peer, OpenedDatagram { plaintext: text, .. })) = self.table.open(&mut datagram, now) else { return };
        assert_eq!(peer, self.peer);
        let Some(text) = datagram[text].first_chunk() else {
            self.endpoint.record_keepalive_received(peer, now);
            return;
        };
        self.endpoint.record_data_received(peer, now);
        assert!(self.received.insert(u32::from_le_bytes(*text)), "no packet comes twice");
    }

    fn transmitted(&mut self, now: Time) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        while let Some(event) = self.endpoint.next_event() {
            match event {
                EndpointEvent::Transmit { datagram, .. } => datagrams.push(datagram),
                EndpointEvent::Established { peer, session, .. } => self.table.install(peer, session, now),
                EndpointEvent::Unreachable { .. } | EndpointEvent::Notice(_) => {}
            }
        }
        assert!(datagrams.len() <= 4, "one call, few datagrams");
        datagrams
    }
}

fn host(own: u8, other: u8) -> Host {
    let key = |byte| PrivateKey::from_bytes([byte; 32]);
    let random = Box::new(StdRng::seed_from_u64(own.into()));
    // A host so limited that floods are short.
    let policy = HandshakePolicy {
        cipher: Cipher::ChaCha20Poly1305,
        capabilities: 1,
        handshakes_per_second: 10,
        cookie_replies_per_second_and_source: 10,
        cookie_replies_per_second: 100,
    };
    let mut endpoint = Endpoint::new(key(own), policy, random);
    let peer = endpoint.add_peer(key(other).public_key(), PresharedKey::default()).expect("another host");
    let route = Route { path: 0, address: "192.0.2.2:7272".parse().expect("an address") };
    endpoint.set_routes(peer, vec![route], Time::ZERO);
    Host { endpoint, table: SessionTable::new(), peer, public: key(own).public_key(), received: BTreeSet::new() }
}

/// A datagram with one byte changed, and the `mac1` that it should have then.
fn altered(datagram: Option<Vec<u8>>, operands: [Option<u8>; 2], receiver: &PublicKey) -> Vec<u8> {
    let (Some(mut datagram), [Some(at), Some(by)]) = (datagram, operands) else { return Vec::new() };
    let at = usize::from(at) % datagram.len();
    datagram[at] ^= by;
    if matches!(DatagramKind::from_datagram(&datagram), Some(DatagramKind::Initiation | DatagramKind::Response)) {
        let mac1_at = datagram.len() - 32;
        let key = Blake2s256::new().chain_update(b"kumade mac1").chain_update(receiver.as_bytes()).finalize();
        let mac = <Blake2sMac<U16> as Mac>::new_from_slice(&key).expect("a key of 32 bytes");
        let mac1 = mac.chain_update(&datagram[..mac1_at]).finalize().into_bytes();
        datagram[mac1_at..mac1_at + 16].copy_from_slice(&mac1);
    }
    datagram
}

/// A stream of records: the first byte says in what pieces it arrives, the second how long records may be. Neither
/// pieces nor what was read before change what comes out.
pub fn records(data: &[u8]) {
    let Some(([piece, max], stream)) = data.split_first_chunk() else { return };
    let (piece, max) = (usize::from(*piece) + 1, usize::from(*max) * 16);
    assert_eq!(read(stream, piece, max), read(stream, MAX_RECORD_BYTES, max));
}

fn read(mut stream: &[u8], piece: usize, max: usize) -> (Vec<Vec<u8>>, Option<RecordError>) {
    let mut reader = RecordReader::new();
    reader.raise_record_limit(max);
    let mut records = Vec::new();
    while !stream.is_empty() {
        let space = reader.free_space();
        let length = piece.min(space.len()).min(stream.len());
        assert!(length > 0, "there is room");
        space[..length].copy_from_slice(&stream[..length]);
        stream = &stream[length..];
        reader.add_filled(length);
        loop {
            match reader.next_record() {
                Ok(Some(record)) => records.push(record.to_vec()),
                Ok(None) => break,
                Err(error) => return (records, Some(error)),
            }
        }
    }
    (records, None)
}
