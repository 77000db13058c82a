//! What a datagram costs to seal and to open, and what a handshake costs: `cargo bench -p kumade-noise-session`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kumade_noise_session::{
    Cipher, Endpoint, EndpointEvent, HEADER_BYTES, HandshakePolicy, OVERHEAD_BYTES, PeerId, PresharedKey, PrivateKey,
    Route, Session, SessionTable,
};
use kumade_units::Time;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::hint::black_box;

const NOW: Time = Time::ZERO;

/// A path, and an address that nothing is sent to.
fn route() -> Route {
    Route { path: 0, address: "192.0.2.1:7272".parse().expect("an address") }
}

fn endpoint(key: &PrivateKey, peer: &PrivateKey, cipher: Cipher) -> (Endpoint, PeerId) {
    endpoint_with(key, peer, HandshakePolicy { cipher, handshakes_per_second: u32::MAX, ..HandshakePolicy::default() })
}

fn endpoint_with(key: &PrivateKey, peer: &PrivateKey, policy: HandshakePolicy) -> (Endpoint, PeerId) {
    let random = Box::new(StdRng::seed_from_u64(u64::from(key.public_key().as_bytes()[0])));
    let mut endpoint = Endpoint::new(key.clone(), policy, random);
    let id = endpoint.add_peer(peer.public_key(), PresharedKey::default()).expect("another host");
    endpoint.set_routes(id, vec![route()], NOW);
    (endpoint, id)
}

/// Hands everything that one endpoint sends to the other, until there is nothing more; the sessions that came of it.
fn exchange(from: &mut Endpoint, to: &mut Endpoint) -> Vec<Session> {
    let mut sessions = Vec::new();
    while let Some(event) = from.next_event() {
        match event {
            EndpointEvent::Transmit { datagram, .. } => drop(to.receive(&datagram, route(), NOW)),
            EndpointEvent::Established { session, .. } => sessions.push(session),
            EndpointEvent::Unreachable { .. } | EndpointEvent::Notice(_) => {}
        }
    }
    sessions
}

/// The ends of a session: the initiator's and the responder's.
fn handshake(cipher: Cipher) -> (PeerId, Session, Session) {
    let random = &mut StdRng::seed_from_u64(1);
    let keys = [PrivateKey::generate(random), PrivateKey::generate(random)];
    let (mut a, id) = endpoint(&keys[0], &keys[1], cipher);
    let (mut b, _) = endpoint(&keys[1], &keys[0], cipher);
    a.connect(id, NOW);
    a.advance(NOW, NOW);
    exchange(&mut a, &mut b);
    let theirs = exchange(&mut b, &mut a).pop().expect("a session");
    (id, exchange(&mut a, &mut b).pop().expect("a session"), theirs)
}

fn data(criterion: &mut Criterion) {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        for size in [64, 1400] {
            let (id, mut ours, theirs) = handshake(cipher);
            let mut datagram = vec![7; size + OVERHEAD_BYTES];
            let mut group = criterion.benchmark_group(format!("{cipher:?}, {size} bytes"));
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function("seal", |bencher| {
                bencher.iter(|| ours.seal(0, black_box(&mut datagram)).expect("a session"));
            });
            group.bench_function("seal and open", |bencher| {
                bencher.iter(|| {
                    ours.seal(0, black_box(&mut datagram)).expect("a session");
                    theirs.open(black_box(&mut datagram)).expect("a datagram of ours")
                });
            });
            let mut tables = [SessionTable::new(), SessionTable::new()];
            for (table, session) in tables.iter_mut().zip([ours, theirs]) {
                table.install(id, session, NOW);
            }
            let [ours, theirs] = &mut tables;
            group.bench_function("seal and open by the table", |bencher| {
                bencher.iter(|| {
                    ours.seal(id, 0, black_box(&mut datagram), NOW).expect("a session");
                    theirs.open(black_box(&mut datagram), NOW).expect("a datagram of ours")
                });
            });
            datagram[HEADER_BYTES] ^= 1;
            group.bench_function("refuse a forged one", |bencher| {
                bencher.iter(|| theirs.open(black_box(&mut datagram), NOW).is_err());
            });
        }
    }
}

fn handshakes(criterion: &mut Criterion) {
    criterion.bench_function("handshake, both sides", |bencher| bencher.iter(|| handshake(Cipher::Aes256Gcm)));
    let random = &mut StdRng::seed_from_u64(1);
    let keys = [PrivateKey::generate(random), PrivateKey::generate(random), PrivateKey::generate(random)];
    let (mut stranger, id) = endpoint(&keys[2], &keys[1], Cipher::Aes256Gcm);
    stranger.connect(id, NOW);
    stranger.advance(NOW, NOW);
    let Some(EndpointEvent::Transmit { mut datagram, .. }) = stranger.next_event() else { panic!("an initiation") };
    let (mut host, _) = endpoint(&keys[1], &keys[0], Cipher::Aes256Gcm);
    criterion.bench_function("refuse an unknown peer", |bencher| {
        bencher.iter(|| host.receive(black_box(&datagram), route(), NOW).is_err());
    });
    for (name, replies) in [("ask for a cookie", u32::MAX), ("drop in a flood", 1)] {
        let policy = HandshakePolicy {
            handshakes_per_second: 1,
            cookie_replies_per_second_and_source: u32::MAX,
            cookie_replies_per_second: replies,
            ..HandshakePolicy::default()
        };
        let (mut flooded, _) = endpoint_with(&keys[1], &keys[0], policy);
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                let _ = flooded.receive(black_box(&datagram), route(), NOW);
                flooded.next_event()
            });
        });
    }
    datagram[20] ^= 1;
    criterion.bench_function("refuse who does not know the public key", |bencher| {
        bencher.iter(|| host.receive(black_box(&datagram), route(), NOW).is_err());
    });
}

criterion_group!(benches, data, handshakes);
criterion_main!(benches);
