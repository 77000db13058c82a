//! The bonded plane over UDP or TCP, whichever passes and performs, between real hosts with a firewall between them.

use crate::policer;

use kumade_daemon::RuntimeDir;
use kumade_link::LinkConfig;
use kumade_middlebox::{FilterRule, MiddleboxConfig, PacketMatch, RefusalKind};
use kumade_multipath::{OuterTransport, PathPolicy, PathState, UnorderedFlows};
use kumade_net::SocketBinding;
use kumade_netns_testbed::{Host, Network, NetworkSpec, eventually, in_namespaces};
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::{
    BondedConfig, BondedPlane, BondedRemote, ConnectionConfig, ConnectionRole, ConnectionTuning, DatagramConfig,
    OuterTransportConfig,
};
use kumade_packet::protocol;
use kumade_units::{Rate, Span};
use policer::Policer;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 4430;

/// What an end uses.
#[derive(Clone, Copy, PartialEq)]
enum Uses {
    Either,
    Datagrams,
    Connections(usize),
}

/// Two hosts, 20 Mbit/s and 10 ms of round trip.
fn network() -> Network {
    let (rate, delay) = (Some(Rate::from_mbit(20)), Span::from_millis(5));
    Network::build(NetworkSpec::host_pair(LinkConfig {
        rate,
        queue_bytes: 100_000,
        delay,
        seed: 1,
        ..LinkConfig::default()
    }))
    .unwrap()
}

fn key(end: u8) -> PrivateKey {
    PrivateKey::from_bytes([end; 32])
}

fn host(network: &Network, end: u8) -> &Host {
    network.host(if end == 1 { "a" } else { "b" }).unwrap()
}

/// The left end (1) connects to the right one (2), which listens on all of its addresses.
fn config(end: u8, uses: Uses, far: IpAddr) -> BondedConfig {
    let address = SocketAddr::new(if end == 1 { far } else { Ipv6Addr::UNSPECIFIED.into() }, PORT);
    let connections = if let Uses::Connections(connections) = uses { connections } else { 15 };
    let role = match end {
        1 => ConnectionRole::Connect { address, binding: SocketBinding::default(), connections },
        _ => ConnectionRole::Listen { address, handover: None },
    };
    let connections = ConnectionConfig {
        role,
        congestion_control: None,
        dscp: Default::default(),
        tuning: ConnectionTuning::default(),
    };
    let source = (end == 2).then_some(address.ip());
    let datagrams = DatagramConfig {
        port: if end == 2 { PORT } else { 0 },
        threads: 1,
        paths: vec![(SocketBinding { source, ..SocketBinding::default() }, None)],
        routes: Vec::new(),
        dscp: Default::default(),
    };
    let (carriers, mtu) = match uses {
        Uses::Either => (OuterTransportConfig::UdpOrTcp(datagrams, connections), None),
        Uses::Datagrams => (OuterTransportConfig::Udp(datagrams), None),
        Uses::Connections(_) => (OuterTransportConfig::Tcp(connections), Some(1500)),
    };
    let addresses = match uses {
        Uses::Connections(_) => Vec::new(),
        Uses::Either | Uses::Datagrams => vec![(end == 1).then_some(address)],
    };
    BondedConfig {
        device: "tunnel".into(),
        mtu,
        addresses: vec![format!("10.78.0.{end}/24").parse().unwrap()],
        identity: key(end),
        transports: carriers,
        policy: PathPolicy::LeastSent,
        unordered_flows: UnorderedFlows::default(),
        remotes: vec![BondedRemote {
            key: key(3 - end).public_key(),
            psk: PresharedKey::default(),
            networks: vec!["10.78.0.0/24".parse().unwrap()],
            addresses,
            host: None,
        }],
        network_routes: Vec::new(),
        // Nothing is written down where there are no routes.
        directory: RuntimeDir::from_path(std::env::temp_dir().join("kumade-overlay-io")),
    }
}

fn start(network: &Network, end: u8, uses: Uses) -> BondedPlane {
    let config = config(end, uses, host(network, 2).v4.into());
    host(network, end).namespace.run(|| BondedPlane::start(config, Default::default())).unwrap().unwrap()
}

fn carrier(plane: &BondedPlane) -> Option<OuterTransport> {
    plane.status().unwrap().remotes[0].outer_transport
}

fn open_connections(plane: &BondedPlane) -> usize {
    let status = plane.status().unwrap();
    status.remotes[0].paths.iter().skip(1).filter(|path| path.status.state == PathState::Up).count()
}

fn both_use(planes: &[BondedPlane; 2], kind: OuterTransport) -> bool {
    eventually(|| planes.iter().all(|plane| carrier(plane) == Some(kind)))
}

/// Has matching packets dropped.
fn block(network: &Network, protocol: u8, destination_port: Option<u16>) {
    let rules = vec![FilterRule::Refuse {
        matching: PacketMatch { protocol: Some(protocol), destination_port },
        refusal: RefusalKind::Drop,
    }];
    network.set_middlebox(Some(MiddleboxConfig { rules, ..MiddleboxConfig::default() })).unwrap();
}

/// Data that flows from the left host to the right one, through the tunnel, until this is dropped.
struct Transfer {
    received: Arc<AtomicU64>,
}

impl Transfer {
    fn start(network: &Network) -> Self {
        let listener = host(network, 2).namespace.run(|| TcpListener::bind("10.78.0.2:9").unwrap()).unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::downgrade(&received);
        host(network, 1)
            .namespace
            .spawn("sends", || {
                let mut stream = TcpStream::connect("10.78.0.2:9").unwrap();
                // Until the other end closes.
                while stream.write_all(&[7; 4096]).is_ok() {}
            })
            .unwrap();
        thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            drop(listener);
            let mut buffer = [0; 1 << 16];
            while let (Ok(1..), Some(count)) = (stream.read(&mut buffer).map(|bytes| bytes.min(1)), count.upgrade()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Transfer { received }
    }

    /// Whether more arrives, many times.
    fn goes_on(&self) -> bool {
        let before = self.received.load(Ordering::Relaxed);
        eventually(|| self.received.load(Ordering::Relaxed) > before + 50)
    }
}

#[test]
fn datagrams_are_used_where_they_pass() {
    in_namespaces("datagrams_are_used_where_they_pass", || {
        let network = network();
        let planes = [2, 1].map(|end| start(&network, end, Uses::Either));
        assert!(both_use(&planes, OuterTransport::Udp));
        let transfer = Transfer::start(&network);
        assert!(transfer.goes_on());
    });
}

#[test]
fn connections_are_used_where_datagrams_never_passed_and_datagrams_once_they_do() {
    in_namespaces("connections_are_used_where_datagrams_never_passed_and_datagrams_once_they_do", || {
        let network = network();
        block(&network, protocol::UDP, None);
        let planes = [2, 1].map(|end| start(&network, end, Uses::Either));
        assert!(both_use(&planes, OuterTransport::Tcp));
        let transfer = Transfer::start(&network);
        assert!(transfer.goes_on());
        network.set_middlebox(None).unwrap();
        assert!(eventually(|| carrier(&planes[1]) == Some(OuterTransport::Udp)));
        assert!(transfer.goes_on());
    });
}

#[test]
fn a_transfer_goes_on_when_datagrams_pass_no_more() {
    in_namespaces("a_transfer_goes_on_when_datagrams_pass_no_more", || {
        let network = network();
        let planes = [2, 1].map(|end| start(&network, end, Uses::Either));
        assert!(both_use(&planes, OuterTransport::Udp));
        let transfer = Transfer::start(&network);
        assert!(transfer.goes_on());
        assert!(eventually(|| open_connections(&planes[1]) <= 2));
        // To the right host only: reports do not come back then.
        block(&network, protocol::UDP, Some(PORT));
        assert!(both_use(&planes, OuterTransport::Tcp));
        assert!(transfer.goes_on());
        assert!(eventually(|| open_connections(&planes[1]) == 15));
        // And the other way round.
        block(&network, protocol::TCP, None);
        assert!(both_use(&planes, OuterTransport::Udp));
        assert!(transfer.goes_on());
    });
}

#[test]
fn connections_are_used_where_datagrams_pass_one_way_only() {
    in_namespaces("connections_are_used_where_datagrams_pass_one_way_only", || {
        let network = network();
        block(&network, protocol::UDP, Some(PORT));
        let planes = [2, 1].map(|end| start(&network, end, Uses::Either));
        assert!(both_use(&planes, OuterTransport::Tcp));
        let transfer = Transfer::start(&network);
        assert!(transfer.goes_on());
    });
}

/// The ends with a middlebox between them.
fn start_behind(network: &Network, police: &Arc<Policer>) -> [BondedPlane; 2] {
    let near: SocketAddr = (Ipv4Addr::LOCALHOST, PORT).into();
    let far = SocketAddr::new(host(network, 2).v4.into(), PORT);
    let left = &host(network, 1).namespace;
    left.run(|| police.start(near, far)).unwrap();
    let config = config(1, Uses::Either, near.ip());
    [start(network, 2, Uses::Either), left.run(|| BondedPlane::start(config, Default::default())).unwrap().unwrap()]
}

#[test]
fn connections_are_used_where_datagrams_are_policed() {
    in_namespaces("connections_are_used_where_datagrams_are_policed", || {
        let network = network();
        let planes = start_behind(&network, &Policer::new(125_000, 1500));
        assert!(both_use(&planes, OuterTransport::Udp));
        let transfer = Transfer::start(&network);
        // A trial is not enough.
        let mut since = None;
        assert!(eventually(|| {
            let uses_connections = carrier(&planes[1]) == Some(OuterTransport::Tcp);
            since = since.filter(|_| uses_connections).or_else(|| uses_connections.then(Instant::now));
            since.is_some_and(|since: Instant| since.elapsed() > Duration::from_secs(8))
        }));
        assert!(transfer.goes_on());
    });
}

#[test]
fn a_transfer_goes_on_when_long_datagrams_pass_no_more() {
    in_namespaces("a_transfer_goes_on_when_long_datagrams_pass_no_more", || {
        let network = network();
        let police = Policer::new(u32::MAX, 1500);
        let planes = start_behind(&network, &police);
        assert!(both_use(&planes, OuterTransport::Udp));
        let transfer = Transfer::start(&network);
        assert!(transfer.goes_on());
        // Shorter than any path has to pass.
        police.set_max_bytes(1000);
        assert!(eventually(|| carrier(&planes[1]) == Some(OuterTransport::Tcp)));
        assert!(transfer.goes_on());
    });
}

#[test]
fn few_connections_suffice_where_a_firewall_allows_no_more() {
    in_namespaces("few_connections_suffice_where_a_firewall_allows_no_more", || {
        let network = network();
        let rules = vec![
            FilterRule::Refuse {
                matching: PacketMatch { protocol: Some(protocol::UDP), destination_port: None },
                refusal: RefusalKind::Drop,
            },
            FilterRule::LimitConnections { max_connections: 3, refusal: RefusalKind::Drop },
        ];
        network.set_middlebox(Some(MiddleboxConfig { rules, ..MiddleboxConfig::default() })).unwrap();
        let planes = [2, 1].map(|end| start(&network, end, Uses::Either));
        assert!(both_use(&planes, OuterTransport::Tcp));
        let transfer = Transfer::start(&network);
        assert!(transfer.goes_on());
    });
}

fn is_found_again_after_a_restart(network: &Network, kind: OuterTransport) {
    let mut planes = [2, 1].map(|end| start(network, end, Uses::Either));
    for end in [2, 1] {
        assert!(both_use(&planes, kind));
        let [right, left] = planes;
        planes = if end == 2 {
            drop(right);
            [start(network, end, Uses::Either), left]
        } else {
            drop(left);
            [right, start(network, end, Uses::Either)]
        };
        let transfer = Transfer::start(network);
        assert!(transfer.goes_on(), "end {end}");
    }
}

#[test]
fn an_end_that_restarts_is_found_again_over_either() {
    in_namespaces("an_end_that_restarts_is_found_again_over_either", || {
        let network = network();
        is_found_again_after_a_restart(&network, OuterTransport::Udp);
        block(&network, protocol::UDP, None);
        is_found_again_after_a_restart(&network, OuterTransport::Tcp);
    });
}

#[test]
fn an_end_that_takes_either_understands_those_that_use_one() {
    in_namespaces("an_end_that_takes_either_understands_those_that_use_one", || {
        let network = network();
        let listening = start(&network, 2, Uses::Either);
        let kinds = [
            (Uses::Connections(16), OuterTransport::Tcp),
            (Uses::Datagrams, OuterTransport::Udp),
            (Uses::Connections(1), OuterTransport::Tcp),
            (Uses::Either, OuterTransport::Udp),
        ];
        for (uses, kind) in kinds {
            let connecting = start(&network, 1, uses);
            let has_come = || carrier(&connecting) == Some(kind) && carrier(&listening) == Some(kind);
            assert!(eventually(has_come), "{kind}");
            let transfer = Transfer::start(&network);
            assert!(transfer.goes_on(), "{kind}");
        }
    });
}

#[test]
fn both_versions_of_ip_are_listened_to() {
    in_namespaces("both_versions_of_ip_are_listened_to", || {
        let network = network();
        let _listening = start(&network, 2, Uses::Datagrams);
        let right = host(&network, 2);
        for far in [IpAddr::V4(right.v4), IpAddr::V6(right.v6.unwrap())] {
            let config = config(1, Uses::Datagrams, far);
            let connecting =
                host(&network, 1).namespace.run(|| BondedPlane::start(config, Default::default())).unwrap().unwrap();
            assert!(eventually(|| carrier(&connecting) == Some(OuterTransport::Udp)), "{far}");
        }
    });
}
