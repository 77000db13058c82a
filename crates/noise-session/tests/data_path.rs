//! The data path: over a byte stream, from several threads, without allocation.

use allocation_counter::measure;
use kumade_noise_session::stream::{RecordReader, record_prefix};
use kumade_noise_session::{
    Cipher, DatagramKind, Endpoint, EndpointEvent, HEADER_BYTES, HandshakePolicy, OVERHEAD_BYTES, Opener, PeerId,
    PresharedKey, PrivateKey, Route, Sealer, Session, SessionTable, TAG_BYTES,
};
use kumade_units::Time;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

const NOW: Time = Time::ZERO;

/// One end of a connection.
struct End {
    endpoint: Endpoint,
    table: SessionTable,
    peer: PeerId,
    reader: RecordReader,
    outgoing: Vec<u8>,
    texts: Vec<Vec<u8>>,
}

fn route() -> Route {
    Route { path: 0, address: "192.0.2.1:7272".parse().unwrap() }
}

fn ends(cipher: Cipher) -> [End; 2] {
    ends_with([0, 1].map(|_| HandshakePolicy { cipher, ..HandshakePolicy::default() }))
}

fn ends_with(policies: [HandshakePolicy; 2]) -> [End; 2] {
    let random = &mut StdRng::seed_from_u64(1);
    let keys = [PrivateKey::generate(random), PrivateKey::generate(random)];
    [0, 1].map(|number| {
        let random = Box::new(StdRng::seed_from_u64(number as u64));
        let mut endpoint = Endpoint::new(keys[number].clone(), policies[number].clone(), random);
        let peer = endpoint.add_peer(keys[1 - number].public_key(), PresharedKey::default()).unwrap();
        endpoint.set_routes(peer, vec![route()], NOW);
        let (table, reader) = (SessionTable::new(), RecordReader::new());
        End { endpoint, table, peer, reader, outgoing: Vec::new(), texts: Vec::new() }
    })
}

impl End {
    fn push(&mut self, datagram: &[u8]) {
        self.outgoing.extend(record_prefix(datagram.len()).unwrap());
        self.outgoing.extend(datagram);
    }

    fn send(&mut self, text: &[u8]) {
        let mut datagram = [&[0; HEADER_BYTES], text, &[0; TAG_BYTES]].concat();
        self.table.seal(self.peer, 0, &mut datagram, NOW).unwrap();
        self.push(&datagram);
    }

    fn drain_events(&mut self) -> bool {
        let mut was_established = false;
        self.endpoint.advance(NOW, NOW);
        while let Some(event) = self.endpoint.next_event() {
            match event {
                EndpointEvent::Transmit { datagram, .. } => self.push(&datagram),
                EndpointEvent::Established { peer, session, .. } => {
                    self.table.install(peer, session, NOW);
                    self.reader.raise_record_limit(2000);
                    was_established = true;
                }
                EndpointEvent::Unreachable { .. } | EndpointEvent::Notice(_) => {}
            }
        }
        was_established
    }

    fn read(&mut self, bytes: &[u8]) {
        self.reader.free_space()[..bytes.len()].copy_from_slice(bytes);
        self.reader.add_filled(bytes.len());
        while let Some(record) = self.reader.next_record().unwrap() {
            if DatagramKind::from_datagram(record) == Some(DatagramKind::Data) {
                let (_, opened) = self.table.open(record, NOW).unwrap();
                self.texts.push(record[opened.plaintext].to_vec());
            } else {
                self.endpoint.receive(record, route(), NOW).unwrap();
            }
        }
        self.drain_events();
    }
}

/// Carries what both ends have to say to each other, seven bytes at a time.
fn exchange([a, b]: &mut [End; 2]) {
    while !a.outgoing.is_empty() || !b.outgoing.is_empty() {
        for piece in std::mem::take(&mut a.outgoing).chunks(7) {
            b.read(piece);
        }
        for piece in std::mem::take(&mut b.outgoing).chunks(7) {
            a.read(piece);
        }
    }
}

#[test]
fn a_stream_carries_handshake_and_data_in_any_pieces() {
    let mut ends = ends(Cipher::fastest());
    let peer = ends[0].peer;
    ends[0].endpoint.connect(peer, NOW);
    ends[0].drain_events();
    exchange(&mut ends);
    for length in [1, 100, 1500] {
        ends[0].send(&vec![1; length]);
        ends[1].send(&vec![2; length]);
    }
    exchange(&mut ends);
    let lengths = |end: &End| end.texts.iter().map(Vec::len).filter(|length| *length > 0).collect::<Vec<_>>();
    assert_eq!([lengths(&ends[0]), lengths(&ends[1])], [[1, 100, 1500], [1, 100, 1500]]);
}

/// Both ends of a session, which go to threads of their own.
fn sessions() -> [Session; 2] {
    shake_hands(ends(Cipher::fastest()))
}

fn shake_hands(mut ends: [End; 2]) -> [Session; 2] {
    let peer = ends[0].peer;
    ends[0].endpoint.connect(peer, NOW);
    let mut sessions = [const { Vec::new() }; 2];
    for turn in [0, 1, 0] {
        ends[turn].endpoint.advance(NOW, NOW);
        while let Some(event) = ends[turn].endpoint.next_event() {
            match event {
                EndpointEvent::Transmit { datagram, .. } => {
                    _ = ends[1 - turn].endpoint.receive(&datagram, route(), NOW);
                }
                EndpointEvent::Established { session, .. } => sessions[turn].push(session),
                EndpointEvent::Unreachable { .. } | EndpointEvent::Notice(_) => {}
            }
        }
    }
    sessions.map(|mut sessions: Vec<Session>| sessions.pop().expect("a session"))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn threads_seal_and_open_one_session_and_nothing_comes_twice() {
    let [mut ours, theirs] = sessions();
    let second = ours.take_paths(16..=31).unwrap();
    let sealed: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads = [(ours, 0..4), (second, 16..20)].map(|(mut session, paths)| {
            scope.spawn(move || {
                let datagrams = (0..2000u32).map(|number| {
                    let mut datagram = [&[0; HEADER_BYTES][..], &number.to_le_bytes(), &[0; TAG_BYTES]].concat();
                    session.seal(paths.start + (number % paths.len() as u32) as u8, &mut datagram).unwrap();
                    datagram
                });
                datagrams.collect::<Vec<_>>()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let (_, opener): (Sealer, Opener) = theirs.split();
    // Copies of all reach both threads.
    let opened = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| {
            let (opener, mut sealed) = (opener.clone(), sealed.clone());
            scope.spawn(move || {
                let opened = sealed.iter_mut().filter_map(|datagram| opener.open(datagram).ok());
                opened.map(|opened| (opened.path, opened.counter)).collect::<Vec<_>>()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(opened.len(), 4000);
    assert_eq!(opened.into_iter().collect::<BTreeSet<_>>().len(), 4000, "each counter of each path once");
}

#[test]
fn sealing_and_opening_allocate_nothing() {
    let [mut ours, theirs] = sessions();
    let mut datagram = [0; OVERHEAD_BYTES + 1400];
    let mut pass = || {
        ours.seal(3, &mut datagram).unwrap();
        theirs.open(&mut datagram).unwrap();
    };
    // The first one on a path makes its replay window.
    pass();
    let allocations = measure(|| (0..100).for_each(|_| pass()));
    assert_eq!(allocations.count_total, 0);
}

/// Hosts of earlier versions have none, and do not look where they are said.
#[test]
fn a_session_has_the_capabilities_that_both_ends_have() {
    for (one, other) in [(0, 0), (0, 1), (1, 0), (1, 1), (0b110, 0b011), (u8::MAX, 0b101)] {
        let policies = [one, other].map(|capabilities| HandshakePolicy { capabilities, ..HandshakePolicy::default() });
        let mut sessions = shake_hands(ends_with(policies));
        assert_eq!(sessions.each_ref().map(Session::capabilities), [one & other; 2]);
        // Its parts have them, too.
        assert_eq!(sessions[0].take_paths(0..=15).unwrap().capabilities(), one & other);
    }
}
