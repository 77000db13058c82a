//! The bonded plane over TCP connections, between real hosts.

use kumade_daemon::RuntimeDir;
use kumade_multipath::{PathPolicy, PathState, UnorderedFlows};
use kumade_net::SocketBinding;
use kumade_net::capture::Capture;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{Sites, eventually, in_namespaces, run_ip};
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::{
    BondedConfig, BondedPlane, BondedRemote, ConnectionConfig, ConnectionRole, ConnectionTuning, OuterTransportConfig,
};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

const PORT: u16 = 4430;

fn key(end: u8) -> PrivateKey {
    PrivateKey::from_bytes([end; 32])
}

/// The left end (1) opens so many connections to the right one (2).
fn config(end: u8, connections: usize) -> BondedConfig {
    let address = SocketAddr::new(Sites::gateway_address(0, 2).into(), PORT);
    let role = match end {
        1 => ConnectionRole::Connect { address, binding: SocketBinding::default(), connections },
        _ => ConnectionRole::Listen { address, handover: None },
    };
    BondedConfig {
        device: "tunnel".into(),
        mtu: Some(1500),
        addresses: vec![format!("10.77.0.{end}/24").parse().unwrap()],
        identity: key(end),
        transports: OuterTransportConfig::Tcp(ConnectionConfig {
            role,
            congestion_control: None,
            dscp: Default::default(),
            tuning: ConnectionTuning::default(),
        }),
        policy: PathPolicy::LeastSent,
        unordered_flows: UnorderedFlows::default(),
        remotes: vec![BondedRemote {
            key: key(3 - end).public_key(),
            psk: PresharedKey::default(),
            networks: vec!["10.77.0.0/24".parse().unwrap()],
            addresses: Vec::new(),
            host: None,
        }],
        network_routes: Vec::new(),
        // Nothing is written down where there are no routes.
        directory: RuntimeDir::from_path(std::env::temp_dir().join("kumade-overlay-io")),
    }
}

fn start(inside: &Namespace, config: BondedConfig) -> BondedPlane {
    inside.run(|| BondedPlane::start(config, Default::default())).unwrap().unwrap()
}

fn paths_up(plane: &BondedPlane) -> usize {
    let status = plane.status().unwrap();
    status.remotes[0].paths.iter().filter(|path| path.status.state == PathState::Up).count()
}

/// Sends so many bytes from the left end through the tunnel, and checks each of them.
fn transfer(sites: &Sites, bytes: usize) {
    let listener = sites.right.run(|| TcpListener::bind("10.77.0.2:9").unwrap()).unwrap();
    let data: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = sites.left.run(|| TcpStream::connect("10.77.0.2:9").unwrap()).unwrap();
            stream.write_all(&data).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        assert!(received == data, "{} of {} bytes", received.len(), data.len());
    });
}

#[test]
fn packets_travel_over_several_connections_and_nothing_stays_behind() {
    in_namespaces("packets_travel_over_several_connections_and_nothing_stays_behind", || {
        let sites = Sites::with_veth_paths(1).unwrap();
        let right = start(&sites.right, config(2, 0));
        let left = start(&sites.left, config(1, 6));
        assert!(eventually(|| paths_up(&left) == 6 && paths_up(&right) == 6));
        transfer(&sites, 5_000_000);
        let sent: Vec<_> = left.status().unwrap().remotes[0].paths.iter().map(|path| path.status.sent_bytes).collect();
        // Two are kept for sparse flows.
        assert!(sent.iter().skip(2).all(|bytes| *bytes > 200_000), "{sent:?}");
        drop((left, right));
        for gateway in [&sites.left, &sites.right] {
            assert!(!run_ip(gateway, &["-o", "link"]).unwrap().contains("tunnel"));
        }
    });
}

#[test]
fn one_connection_carries_packets_too() {
    in_namespaces("one_connection_carries_packets_too", || {
        let sites = Sites::with_veth_paths(1).unwrap();
        let right = start(&sites.right, config(2, 0));
        let left = start(&sites.left, config(1, 1));
        assert!(eventually(|| paths_up(&left) == 1 && paths_up(&right) == 1));
        transfer(&sites, 1_000_000);
    });
}

#[test]
fn an_end_that_restarts_is_found_again() {
    in_namespaces("an_end_that_restarts_is_found_again", || {
        let sites = Sites::with_veth_paths(1).unwrap();
        let left = start(&sites.left, config(1, 3));
        let right = start(&sites.right, config(2, 0));
        assert!(eventually(|| paths_up(&left) == 3 && paths_up(&right) == 3));
        drop(right);
        assert!(eventually(|| paths_up(&left) == 0));
        let right = start(&sites.right, config(2, 0));
        assert!(eventually(|| paths_up(&left) == 3 && paths_up(&right) == 3));
        transfer(&sites, 100_000);
        drop(left);
        let left = start(&sites.left, config(1, 2));
        assert!(eventually(|| paths_up(&left) == 2 && paths_up(&right) == 2));
        transfer(&sites, 100_000);
    });
}

#[test]
fn nothing_leaves_in_the_clear() {
    in_namespaces("nothing_leaves_in_the_clear", || {
        let sites = Sites::with_veth_paths(1).unwrap();
        let [right, left] = [(&sites.right, 2), (&sites.left, 1)].map(|(inside, end)| start(inside, config(end, 4)));
        assert!(eventually(|| paths_up(&left) == 4 && paths_up(&right) == 4));
        let mut capture = sites.left.run(|| Capture::outgoing(&Sites::path_interface(0)).unwrap()).unwrap();
        let socket = sites.left.run(|| UdpSocket::bind("10.77.0.1:0").unwrap()).unwrap();
        let far = sites.right.run(|| UdpSocket::bind("10.77.0.2:9").unwrap()).unwrap();
        far.set_read_timeout(Some(kumade_netns_testbed::TEST_DEADLINE)).unwrap();
        let secret = b"what nobody else is to read";
        for _ in 0..20 {
            socket.send_to(secret, "10.77.0.2:9").unwrap();
            let mut buffer = [0; 100];
            let count = far.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], secret);
        }
        let mut seen = 0;
        // Neither what is said nor who says it to whom.
        let inner_addresses = [10, 77, 0, 1, 10, 77, 0, 2];
        while let Some(clear) = capture.next(|_, packet| {
            let holds = |part: &[u8]| packet.windows(part.len()).any(|window| window == part);
            holds(secret) || holds(&inner_addresses)
        }) {
            assert!(!clear);
            seen += 1;
        }
        assert!(seen >= 20, "{seen} packets left");
    });
}

#[test]
fn a_stranger_is_told_nothing() {
    in_namespaces("a_stranger_is_told_nothing", || {
        let sites = Sites::with_veth_paths(1).unwrap();
        let right = start(&sites.right, config(2, 0));
        let address = SocketAddr::new(Sites::gateway_address(0, 2).into(), PORT);
        let requests: [&[u8]; 4] = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &[0, 148, 1, 0], &[0; 200], b""];
        let mut strangers: Vec<_> = requests
            .iter()
            .map(|request| {
                let mut stream = sites.left.run(|| TcpStream::connect(address).unwrap()).unwrap();
                stream.write_all(request).unwrap();
                stream
            })
            .collect();
        for stream in &mut strangers {
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            // Nothing comes, and nobody hangs up in another way than on who is silent.
            let error = stream.read(&mut [0; 9]).expect_err("silence");
            assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
        }
        let left = start(&sites.left, config(1, 2));
        assert!(eventually(|| paths_up(&left) == 2 && paths_up(&right) == 2));
        transfer(&sites, 100_000);
        // After a while all of them are left, without a word.
        for stream in &mut strangers {
            stream.set_read_timeout(Some(kumade_netns_testbed::TEST_DEADLINE)).unwrap();
            assert!(!matches!(stream.read(&mut [0; 9]), Ok(1..)), "no byte");
        }
    });
}

/// Whether the far end has closed it.
fn is_left(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn strangers_of_one_network_push_out_no_connection_of_another() {
    in_namespaces("strangers_of_one_network_push_out_no_connection_of_another", || {
        let sites = Sites::with_veth_paths(1).unwrap();
        let path = Sites::path_interface(0);
        run_ip(&sites.left, &["address", "add", "192.0.2.1/24", "dev", &path]).unwrap();
        run_ip(&sites.right, &["route", "add", "192.0.2.0/24", "dev", &path]).unwrap();
        let right = start(&sites.right, config(2, 0));
        let address = SocketAddr::new(Sites::gateway_address(0, 2).into(), PORT);
        // A peer that says nothing yet, as one far away.
        let quiet = sites.left.run(|| TcpStream::connect(address).unwrap()).unwrap();
        let stranger = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from(([192, 0, 2, 1], 0)).into()).unwrap();
            socket.connect(&address.into()).unwrap();
            TcpStream::from(socket)
        };
        let strangers = || -> Vec<_> { (0..400).map(|_| sites.left.run(stranger).unwrap()).collect() };
        // They are accepted in their order.
        let before = strangers();
        assert!(eventually(|| is_left(&before[400 - 256 - 1])));
        assert!(!is_left(&quiet));
        // With all places taken, a peer connects.
        let left = start(&sites.left, config(1, 6));
        let after = strangers();
        assert!(eventually(|| paths_up(&left) == 6 && paths_up(&right) == 6));
        transfer(&sites, 100_000);
        drop((before, after));
    });
}
