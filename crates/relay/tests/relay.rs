//! Both ends over loopback: what passes is what was sent, and each end of a connection is the end that was meant.

use kumade_daemon::ActivityWatch;
use kumade_net::SocketBinding;
use kumade_net::tcp::RtoLimits;
use kumade_noise_session::channel::{Channel, StreamInitiator};
use kumade_noise_session::stream::{PREFIX_BYTES, RecordReader};
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey, TAG_BYTES};
use kumade_relay::{
    AllowedTargets, ConnectRefusal, Forward, Message, Relay, RelayConfig, RelayReport, RelayRole, RelayStatus,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// However busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port that nothing listens on. One that was free a moment ago may be another test's now.
const CLOSED: &str = "127.0.0.1:1";

fn identity(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number; 32])
}

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn start(identity: PrivateKey, role: RelayRole) -> Relay {
    let config = RelayConfig { identity, psk: PresharedKey::default(), rto: RtoLimits::default(), role };
    Relay::start(config, ActivityWatch::default()).unwrap()
}

fn far_end(peers: Vec<PublicKey>, allowed: &[&str]) -> Relay {
    let allowed = allowed.iter().map(|text| text.parse::<AllowedTargets>().unwrap()).collect();
    let role = RelayRole::Far { listen: Some(local()), peers, allowed };
    start(identity(2), role)
}

fn near_end(address: SocketAddr, peer: u8, target: &str) -> Relay {
    let forwards = vec![Forward { listen: local(), target: target.parse().unwrap() }];
    let role = RelayRole::Near {
        host: address.into(),
        peer: identity(peer).public_key(),
        binding: SocketBinding::default(),
        congestion_control: None,
        forwards,
        redirect: None,
    };
    start(identity(1), role)
}

/// Both ends, for connections to this target.
struct Pair {
    near: Relay,
    far: Relay,
}

impl Pair {
    fn new(target: &str, allowed: &[&str]) -> Self {
        let far = far_end(vec![identity(1).public_key()], allowed);
        let near = near_end(far.addresses().unwrap()[0], 2, target);
        Pair { near, far }
    }

    fn connect(&self) -> TcpStream {
        connect(&self.near)
    }
}

fn connect(near: &Relay) -> TcpStream {
    let stream = TcpStream::connect(near.addresses().unwrap()[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(begun.elapsed() < PATIENCE, "in time"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Reports until there is one.
fn report(relay: &Relay) -> RelayReport {
    eventually(|| relay.take_reports().unwrap().into_iter().next())
}

fn is_reset(stream: &mut TcpStream) -> bool {
    let mut scratch = [0; 1000];
    loop {
        match stream.read(&mut scratch) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// Whether a connection is reset as soon as it is there, which may be before `connect` has returned.
fn is_reset_at_once(near: &Relay) -> bool {
    match TcpStream::connect(near.addresses().unwrap()[0]) {
        Ok(mut stream) => {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            is_reset(&mut stream)
        }
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 7 + place / 251 + seed) as u8).collect()
}

#[test]
fn bytes_pass_both_ways_and_each_direction_ends_by_itself() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let pair = Pair::new(&target, &[&target]);
    let (question, answer) = (bytes(1, 3_000_000), bytes(2, 2_000_000));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            assert!(received == question);
            // The other direction is still open.
            stream.write_all(&answer).unwrap();
        });
        let mut stream = pair.connect();
        stream.write_all(&question).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(received == answer);
    });
    let done = |status: RelayStatus| (status.connections == 0).then_some(status);
    let near = eventually(|| done(pair.near.status().unwrap()));
    assert_eq!((near.opened, near.sent_bytes, near.received_bytes), (1, 3_000_000, 2_000_000));
    eventually(|| done(pair.far.status().unwrap()));
    assert!(pair.near.take_reports().unwrap().is_empty());
}

#[test]
fn names_are_looked_up_at_the_far_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // By its name, or by the address that it leads to.
    for allowed in [format!("localhost:{port}"), format!("127.0.0.0/8:{port}")] {
        let pair = Pair::new(&format!("localhost:{port}"), &[&allowed]);
        let mut near = pair.connect();
        near.write_all(b"x").unwrap();
        listener.accept().unwrap().0.read_exact(&mut [0]).unwrap();
    }
    let pair = Pair::new("no-such-host.invalid:80", &["0.0.0.0/0"]);
    assert!(is_reset_at_once(&pair.near));
    assert!(matches!(report(&pair.near), RelayReport::Refused { refusal: ConnectRefusal::UnknownHost, .. }));
}

#[test]
fn two_hundred_connections_pass_at_once() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let pair = Pair::new(&target, &[&target]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                let mut stream = listener.accept().unwrap().0;
                scope.spawn(move || {
                    let mut received = Vec::new();
                    stream.read_to_end(&mut received).unwrap();
                    stream.write_all(&received).unwrap();
                });
            }
        });
        let mut streams: Vec<_> = (0..200).map(|_| pair.connect()).collect();
        for (seed, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&bytes(seed, 20_000)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
        for (seed, mut stream) in streams.into_iter().enumerate() {
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            assert!(received == bytes(seed, 20_000), "connection {seed}");
        }
    });
}

#[test]
fn who_takes_nothing_slows_the_other_side_down() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let pair = Pair::new(&target, &[&target]);
    let mut near = pair.connect();
    near.set_nonblocking(true).unwrap();
    let mut far = listener.accept().unwrap().0;
    let mut sent = 0;
    let mut waited = 0;
    // Until nothing has been taken for a while.
    while waited < 20 {
        match near.write(&bytes(sent, 100_000)) {
            Ok(count) => (sent, waited) = (sent + count, 0),
            Err(_) => {
                waited += 1;
                thread::sleep(Duration::from_millis(20));
            }
        }
        assert!(sent < 200_000_000, "somebody holds all of it");
    }
    drop(near);
    let mut received = 0;
    let mut scratch = vec![0; 100_000];
    while let Ok(count @ 1..) = far.read(&mut scratch) {
        received += count;
    }
    assert_eq!(received, sent);
}

#[test]
fn a_reset_is_passed_on() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let pair = Pair::new(&target, &[&target]);
    let reset = |stream: TcpStream| SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    let (near, mut far) = (pair.connect(), listener.accept().unwrap().0);
    reset(near);
    assert!(is_reset(&mut far));
    let (mut near, far) = (pair.connect(), listener.accept().unwrap().0);
    reset(far);
    assert!(is_reset(&mut near));
}

#[test]
fn what_is_not_allowed_or_does_not_listen_is_reset_and_named() {
    let free = CLOSED;
    let pair = Pair::new(free, &[free]);
    assert!(is_reset_at_once(&pair.near));
    let target = free.parse().unwrap();
    assert_eq!(report(&pair.near), RelayReport::Refused { target, refusal: ConnectRefusal::Refused });

    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap();
    let pair = Pair::new(&target.to_string(), &["127.0.0.2"]);
    let mut near = pair.connect();
    // What it sends meanwhile does not keep it from being told, by the write or by the read: a socket says it once.
    let told = near.write_all(&[0; 100_000]).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset);
    assert!(told || is_reset(&mut near));
    let target: kumade_relay::Target = target.to_string().parse().unwrap();
    let refusal = ConnectRefusal::NotAllowed;
    assert_eq!(report(&pair.near), RelayReport::Refused { target: target.clone(), refusal });
    assert_eq!(report(&pair.far), RelayReport::NotAllowed { peer: identity(1).public_key(), target });
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "it was not connected");
}

#[test]
fn all_networks_do_not_mean_the_far_host_itself() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "127.9.9.9", "[::ffff:127.0.0.1]", "0.0.0.0", "[::1]", "localhost", "169.254.169.254"] {
        let pair = Pair::new(&format!("{host}:{port}"), &["0.0.0.0/0", "::/0"]);
        assert!(is_reset_at_once(&pair.near));
        let report = report(&pair.near);
        assert!(matches!(report, RelayReport::Refused { refusal: ConnectRefusal::NotAllowed, .. }), "{report:?}");
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "it was not connected");
}

#[test]
fn other_keys_get_nothing() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    // The near end expects another key, or the far end does not know the near one.
    let strict = far_end(vec![identity(9).public_key()], &[&target]);
    let pair = Pair::new(&target, &[&target]);
    let ends =
        [near_end(strict.addresses().unwrap()[0], 2, &target), near_end(pair.far.addresses().unwrap()[0], 3, &target)];
    assert!(ends.iter().all(is_reset_at_once));
    assert!(ends.iter().all(|end| matches!(report(end), RelayReport::Unreachable { .. })));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "it was not connected");
}

#[test]
fn what_answers_in_place_of_the_far_end_is_named() {
    let listener = TcpListener::bind(local()).unwrap();
    let near = near_end(listener.local_addr().unwrap(), 2, "127.0.0.1:9");
    let said = |answer: &[u8]| {
        let mut program = connect(&near);
        listener.accept().unwrap().0.write_all(answer).unwrap();
        assert!(is_reset(&mut program));
        match report(&near) {
            RelayReport::Unreachable { cause, .. } => cause,
            other => panic!("{other:?}"),
        }
    };
    assert!(said(b"HTTP/1.1 400 Bad Request\r\n\r\n").contains("HTTP/1.1"));
    // It knows how to answer, but not with what.
    let response = [&[0, 64, 6, 0, 0, 0][..], &[7; 60]].concat();
    assert!(said(&response).contains("preshared key"));
}

#[test]
fn strangers_see_nothing_and_are_left() {
    let far = far_end(vec![identity(1).public_key()], &["0.0.0.0/0"]);
    let mut strangers: Vec<_> = ["", "GET / HTTP/1.1\r\n\r\n", "\0\x05hello", "\0\0\0"]
        .into_iter()
        .map(|says| {
            let mut stream = TcpStream::connect(far.addresses().unwrap()[0]).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(says.as_bytes()).unwrap();
            (stream, Instant::now())
        })
        .collect();
    for (stranger, begun) in &mut strangers {
        // Not a byte, and all the same time.
        assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)));
        assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    }
}

/// Whether the far end has closed it.
fn is_left(stranger: &TcpStream) -> bool {
    stranger.set_nonblocking(true).unwrap();
    !matches!(stranger.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn strangers_are_bounded_and_keep_nobody_out() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let pair = Pair::new(&target, &[&target]);
    let address = pair.far.addresses().unwrap()[0];
    // Some of them look like peers at first.
    let initiation = [&[0, 140, 5, 0, 0, 0][..], &[7; 136]].concat();
    let mut strangers: Vec<_> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
    strangers.iter_mut().skip(100).for_each(|stranger| drop(stranger.write_all(&initiation)));
    let mut near = pair.connect();
    near.write_all(b"x").unwrap();
    listener.accept().unwrap().0.read_exact(&mut [0]).unwrap();
    let left = strangers.iter().filter(|stranger| is_left(stranger)).count();
    assert!(left >= 300 - 256, "{left}");
}

/// A connection from this address, which names the network of who connects.
fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// Begins a stream as a near end does. Whether it is answered.
fn is_answered(mut stream: &TcpStream) -> bool {
    let mut initiator = StreamInitiator::new(identity(1), identity(2).public_key(), PresharedKey::default());
    let (_, initiation) = initiator.begin(kumade_net::clock::realtime(), &mut StdRng::seed_from_u64(1)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&initiation).unwrap();
    matches!(stream.read(&mut [0; 200]), Ok(1..))
}

#[test]
fn strangers_of_one_network_keep_out_no_peer_that_connected_before_them() {
    let far = far_end(vec![identity(1).public_key()], &["0.0.0.0/0"]);
    let address = far.addresses().unwrap()[0];
    let peer = connect_from([127, 0, 0, 1], address);
    // Silent ones, and others that show that they are no peers.
    let initiation = [&[0, 140, 5, 0, 0, 0][..], &[7; 136]].concat();
    let strangers: Vec<_> =
        (0..600).map(|number| connect_from([127, 9, 9, 1 + (number % 200) as u8], address)).collect();
    strangers.iter().step_by(2).for_each(|mut stranger| drop(stranger.write_all(&initiation)));
    // They are accepted in their order.
    eventually(|| is_left(&strangers[600 - 256 - 1]).then_some(()));
    assert!(is_answered(&peer));
}

/// A peer that speaks for itself.
struct RawPeer {
    initiator: StreamInitiator,
    random: StdRng,
    address: SocketAddr,
}

struct RawStream {
    stream: TcpStream,
    channel: Channel,
    reader: RecordReader,
}

impl RawPeer {
    fn new(number: u8, address: SocketAddr) -> Self {
        let initiator = StreamInitiator::new(identity(number), identity(2).public_key(), PresharedKey::default());
        RawPeer { initiator, random: StdRng::seed_from_u64(number.into()), address }
    }

    fn open(&mut self) -> RawStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (pending, initiation) = self.initiator.begin(kumade_net::clock::realtime(), &mut self.random).unwrap();
        stream.write_all(&initiation).unwrap();
        let mut reader = RecordReader::new();
        let response = read_record(&mut stream, &mut reader).unwrap();
        let channel = pending.finish(&response).unwrap();
        reader.raise_record_limit(20_000);
        RawStream { stream, channel, reader }
    }
}

fn read_record(stream: &mut TcpStream, reader: &mut RecordReader) -> Option<Vec<u8>> {
    loop {
        if let Some(record) = reader.next_record().unwrap() {
            return Some(record.to_vec());
        }
        match stream.read(reader.free_space()) {
            Ok(count @ 1..) => reader.add_filled(count),
            _ => return None,
        }
    }
}

impl RawStream {
    fn record(&mut self, message: &Message<'_>) -> Vec<u8> {
        let text = message.encode();
        let mut record = [&[0; PREFIX_BYTES], &text[..], &[0; TAG_BYTES]].concat();
        self.channel.seal(&mut record).unwrap();
        record
    }

    fn ask(&mut self, target: &str) {
        let open = self.record(&Message::Open(target.parse().unwrap()));
        self.stream.write_all(&open).unwrap();
    }

    /// The next message, as text for comparison; none once the stream is over.
    fn next_message(&mut self) -> Option<String> {
        let mut record = read_record(&mut self.stream, &mut self.reader)?;
        Some(format!("{:?}", Message::decode(self.channel.open(&mut record).unwrap()).unwrap()))
    }
}

#[test]
fn a_peer_has_no_more_streams_than_promised_whatever_their_state() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let far = far_end(vec![identity(1).public_key(), identity(5).public_key()], &[&target]);
    let mut hostile = RawPeer::new(1, far.addresses().unwrap()[0]);
    // They ask for nothing.
    let mut streams: Vec<_> = (0..1000).map(|_| hostile.open()).collect();
    for _ in 0..100 {
        let mut stream = hostile.open();
        // It is told at once, and not waited for.
        assert_eq!(stream.next_message().as_deref(), Some("Refused(TooManyConnections)"));
        streams.push(stream);
    }
    // The last that were refused are waited for, others are left.
    let is_open = |stream: &&RawStream| stream.stream.peer_addr().is_ok();
    eventually(|| (streams.iter().filter(is_open).count() <= 1024).then_some(()));
    // Another peer has what it had.
    let mut honest = RawPeer::new(5, hostile.address).open();
    honest.ask(&target);
    assert_eq!(honest.next_message().as_deref(), Some("Opened"));
    // And so has this one, once it has fewer.
    drop(streams);
    eventually(|| {
        let mut stream = hostile.open();
        stream.ask(&target);
        (stream.next_message().as_deref() == Some("Opened")).then_some(())
    });
}

#[test]
fn what_a_peer_lets_wait_is_bounded() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let far = far_end(vec![identity(1).public_key(), identity(5).public_key()], &[&target]);
    let mut hostile = RawPeer::new(1, far.addresses().unwrap()[0]);
    // The target takes nothing. How much the kernel holds of a stream is the kernel's affair: there are more until it is too much.
    let (mut streams, mut targets) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    let report = loop {
        if streams.len() < 900 {
            let mut stream = hostile.open();
            stream.ask(&target);
            assert_eq!(stream.next_message().as_deref(), Some("Opened"));
            stream.stream.set_nonblocking(true).unwrap();
            let unsent = stream.record(&Message::Data(b"7"));
            streams.push((stream, unsent));
            targets.push(listener.accept().unwrap().0);
        }
        for (stream, unsent) in &mut streams {
            while let Ok(count @ 1..) = stream.stream.write(unsent) {
                unsent.drain(..count);
                if unsent.is_empty() {
                    *unsent = stream.record(&Message::Data(&[7; 1 << 14]));
                }
            }
        }
        if let Some(report) = far.take_reports().unwrap().into_iter().next() {
            break report;
        }
        assert!(begun.elapsed() < PATIENCE, "{} streams: {:?}", streams.len(), far.status());
    };
    assert!(matches!(report, RelayReport::TooMuchHeld { .. }), "{report:?}");
    let mut honest = RawPeer::new(5, hostile.address).open();
    honest.ask(&target);
    assert_eq!(honest.next_message().as_deref(), Some("Opened"));
}

#[test]
fn connections_end_with_either_end() {
    let listener = TcpListener::bind(local()).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let Pair { near, far } = Pair::new(&target, &[&target]);
    let (mut program, mut reached) = (connect(&near), listener.accept().unwrap().0);
    program.write_all(b"x").unwrap();
    reached.read_exact(&mut [0]).unwrap();
    drop(far);
    assert!(is_reset(&mut program) && is_reset(&mut reached));
    assert!(is_reset_at_once(&near), "nobody is there");
    assert!(matches!(report(&near), RelayReport::Unreachable { .. }));
}
