//! What kernels send to each other through devices, carried by two nodes without sockets between them: all that comes out is what
//! went in, octet by octet, and headers of flows are compressed.

use kumade_link::Label;
use kumade_link::queue::{FqCoDelConfig, QueueConfig, QueueLimit};
use kumade_multipath::dataplane::{HEADROOM_BYTES, Node, NodeConfig, OuterHeaders, Output, PacketBuffer, RemoteConfig};
use kumade_multipath::{
    BondConfig, HeaderCompression, OuterTransport, PathConfig, PathPolicy, ResequencerConfig, TrafficClass,
};
use kumade_net::clock;
use kumade_net::namespace::Namespace;
use kumade_net::tun::Tun;
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces};
use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey, Route};
use kumade_packet::{Classification, FlowDetail, Headers, PacketEnd};
use kumade_units::{Rate, Time};
use rand::SeedableRng;
use socket2::{SockRef, TcpKeepalive};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

type Buffer = Box<Vec<u8>>;

const MTU: u16 = 1400;
/// Of each connection.
const TRANSFERRED_BYTES: usize = 2_000_000;
/// One datagram in so many is lost, which the nodes repair; and one packet of a host before it gets to them, so that SACK has something to say.
const LOSS_INTERVAL: u64 = 150;
/// What comes later than so many others is lost.
const MAX_SENT_PACKETS: usize = 20_000;
/// More than the MTU.
const LONG_DATAGRAM_BYTES: usize = 4000;

fn address(host: usize, is_v4: bool) -> IpAddr {
    match is_v4 {
        true => Ipv4Addr::new(10, host as u8, 0, 1).into(),
        false => Ipv6Addr::new(0xfd00 + host as u16, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

fn outer_address(host: usize) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, 1 + host as u8), 7272).into()
}

/// What is among the packets that came out.
#[derive(Debug, Clone, Default)]
struct Seen {
    packets: u64,
    fragments: [u64; 2],
    resets: u64,
    keepalives: u64,
    selective_acknowledgments: u64,
    /// By the addresses and ports of a connection, where its data ends that way.
    ends: BTreeMap<[(Option<u16>, IpAddr); 2], u32>,
}

impl Seen {
    fn has_all(&self) -> bool {
        let counts =
            [self.fragments[0], self.fragments[1], self.resets, self.keepalives, self.selective_acknowledgments];
        !counts.contains(&0)
    }

    fn record(&mut self, packet: &[u8]) {
        let headers = Headers::parse(packet).expect("what a kernel sends");
        self.packets += 1;
        self.fragments[usize::from(headers.source.is_ipv6())] += u64::from(headers.is_fragment());
        let Some(tcp) = headers.tcp() else { return };
        self.resets += u64::from(tcp.rst);
        // Those that acknowledge have time stamps, and these beside them.
        let options = usize::from(packet[headers.transport_offset + 12] >> 4) * 4 - 20;
        self.selective_acknowledgments += u64::from(!tcp.syn && options > 12);
        let flow = [PacketEnd::Source, PacketEnd::Destination].map(|end| (headers.port(end), headers.address(end)));
        let end = tcp.sequence.wrapping_add(tcp.payload_len as u32 + u32::from(tcp.syn) + u32::from(tcp.fin));
        // What is repeated ends before.
        let last = self.ends.entry(flow).or_insert(end);
        self.keepalives += u64::from(tcp.payload_len == 0 && *last == end.wrapping_add(1));
        if end.wrapping_sub(*last) as i32 > 0 {
            *last = end;
        }
    }
}

/// The ends of the tunnel, and the devices through which the kernels of two hosts use them.
struct Tunnel {
    devices: [Tun; 2],
    nodes: [Node<Buffer>; 2],
    /// What each host has sent that has not come out yet.
    sent: [VecDeque<Vec<u8>>; 2],
    packets: u64,
    datagrams: u64,
    seen: Seen,
}

fn node(own: usize, keys: &[PrivateKey; 2]) -> Node<Buffer> {
    let far = 1 - own;
    let path = PathConfig { rate: Some(Rate::from_mbit(500)), ..PathConfig::default() };
    let remote = RemoteConfig {
        key: keys[far].public_key(),
        psk: PresharedKey::default(),
        networks: [true, false].map(|is_v4| address(far, is_v4).into()).into(),
        routes: (0..2).map(|path| Some(Route { path, address: outer_address(far) })).collect(),
        interface_mtus: Vec::new(),
        max_packet_bytes: u32::MAX,
        bond: BondConfig {
            policy: PathPolicy::Weighted,
            queue: QueueConfig { limit: QueueLimit::Bytes(4_000_000), discipline: FqCoDelConfig::default().into() },
            paths: vec![path; 2],
            seed: 1,
        },
        resequencer: ResequencerConfig::default(),
    };
    let (identity, policy) = (keys[own].clone(), HandshakePolicy::default());
    let config =
        NodeConfig { identity, policy, header_compression: HeaderCompression::default(), remotes: vec![remote] };
    let random = Box::new(rand::rngs::StdRng::seed_from_u64(own as u64));
    Node::new(config, random, Box::new(|bytes| Box::new(Vec::with_capacity(bytes))), clock::monotonic()).unwrap()
}

impl Tunnel {
    fn run(&mut self, is_at_end: &AtomicBool, seen: &Mutex<(Seen, u64)>) {
        while !is_at_end.load(Ordering::Relaxed) {
            let now = clock::monotonic();
            let is_idle = ![0, 1].map(|own| self.read_device(own, now) | self.drain(own, now)).contains(&true);
            let status = self.nodes.each_ref().map(|node| node.remote_statuses().remove(0));
            assert_eq!(status.each_ref().map(|status| status.undecompressed_packets), [0; 2]);
            *seen.lock().unwrap() = (self.seen.clone(), status.iter().map(|status| status.saved_header_bytes).sum());
            if is_idle {
                thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// What a host has sent goes to its node. Returns whether there was anything.
    fn read_device(&mut self, own: usize, now: Time) -> bool {
        let mut packet = [0; 2048];
        let mut is_any = false;
        while let Ok(length) = self.devices[own].read(&mut packet) {
            is_any = true;
            let (packet, classification) = (&packet[..length], Classification::from_packet(&packet[..length]));
            let Some(selector) = classification.selector else { continue };
            // Else it is to routers.
            if ![address(1 - own, true), address(1 - own, false)].contains(&selector.destination) {
                continue;
            }
            self.packets += 1;
            if self.packets.is_multiple_of(LOSS_INTERVAL) {
                continue;
            }
            self.sent[own].push_back(packet.to_vec());
            let buffer = [&[0; HEADROOM_BYTES][..], packet].concat();
            let ports = match selector.detail {
                FlowDetail::Ports(one, other) => u64::from(one) << 16 | u64::from(other),
                _ => 0,
            };
            let flow = (ports + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
            let label = Label { size: length as u32, flow, host: flow, ecn: classification.ecn, ..Label::default() };
            let buffer = PacketBuffer::new(Box::new(buffer), HEADROOM_BYTES);
            self.nodes[own].send(buffer, Some(selector.destination), label, TrafficClass::Ordered, now);
        }
        is_any
    }

    fn drain(&mut self, own: usize, now: Time) -> bool {
        let mut output = Output::default();
        self.nodes[own].drain(now, clock::realtime(), &mut output);
        for outbound in &output.datagrams {
            self.datagrams += 1;
            if self.datagrams.is_multiple_of(LOSS_INTERVAL) {
                continue;
            }
            let mut datagram = outbound.datagram.bytes().to_vec();
            let outer = OuterHeaders {
                route: Route { path: outbound.route.path, address: outer_address(own) },
                transport: OuterTransport::Udp,
                ecn: outbound.ds_field.ecn(),
                packet_bytes: datagram.len() as u32 + 28,
                arrival: now,
            };
            self.nodes[1 - own].receive(&mut datagram, outer, now);
        }
        for packet in &output.packets {
            let sent = &mut self.sent[1 - own];
            let place = sent.iter().position(|sent| sent == packet.bytes());
            let place = place.unwrap_or_else(|| panic!("this was not sent: {:02x?}", packet.bytes()));
            sent.remove(place);
            sent.drain(..sent.len().saturating_sub(MAX_SENT_PACKETS));
            self.seen.record(packet.bytes());
            let _ = self.devices[own].write(packet.bytes());
        }
        !output.datagrams.is_empty()
    }
}

#[test]
fn what_kernels_send_comes_out_as_it_was_with_headers_compressed() {
    in_namespaces("what_kernels_send_comes_out_as_it_was_with_headers_compressed", compare_what_kernels_send);
}

fn compare_what_kernels_send() {
    let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap()];
    let device = |host: usize| {
        let (IpAddr::V4(v4), IpAddr::V6(v6)) = (address(host, true), address(host, false)) else { unreachable!() };
        hosts[host].run(|| Tun::new("tun", MTU, Some(v4), Some(v6))).unwrap().unwrap()
    };
    let keys = [1, 2].map(|seed| PrivateKey::from_bytes([seed; 32]));
    let mut tunnel = Tunnel {
        devices: [device(0), device(1)],
        nodes: [node(0, &keys), node(1, &keys)],
        sent: Default::default(),
        packets: 0,
        datagrams: 0,
        seen: Seen::default(),
    };
    let (is_at_end, seen) = (AtomicBool::new(false), Mutex::new((Seen::default(), 0)));
    let has_all = thread::scope(|scope| {
        // Nodes stay on their thread.
        let hosts = scope.spawn(|| {
            for is_v4 in [true, false] {
                use_connection(&hosts, is_v4);
                use_datagrams(&hosts, is_v4);
            }
            let has_all = eventually(|| seen.lock().unwrap().0.has_all());
            is_at_end.store(true, Ordering::Relaxed);
            has_all
        });
        tunnel.run(&is_at_end, &seen);
        hosts.join().expect("what hosts do")
    });
    let (seen, saved_bytes) = seen.into_inner().unwrap();
    assert!(has_all, "{seen:?}");
    // Of 52 or 72 bytes of IP and TCP, and some packets before references are there.
    assert!(saved_bytes > 30 * seen.packets, "{saved_bytes} bytes of {seen:?}");
}

/// A transfer, an idle time with keep-alives, and a reset.
fn use_connection(hosts: &[Namespace; 2], is_v4: bool) {
    let listener = hosts[1].run(|| TcpListener::bind((address(1, is_v4), 9))).unwrap().unwrap();
    let mut near = None;
    let connects = || {
        near = hosts[0].run(|| TcpStream::connect(listener.local_addr().unwrap())).unwrap().ok();
        near.is_some()
    };
    assert!(eventually(connects), "the tunnel is up");
    let (near, (mut far, _)) = (near.unwrap(), listener.accept().unwrap());
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(1)).with_interval(Duration::from_secs(1));
    SockRef::from(&near).set_tcp_keepalive(&keepalive).unwrap();
    let data: Vec<u8> = (0..TRANSFERRED_BYTES).map(|place| (place % 251) as u8).collect();
    near.set_write_timeout(Some(TEST_DEADLINE)).unwrap();
    far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    let mut received = vec![0; TRANSFERRED_BYTES];
    thread::scope(|scope| {
        scope.spawn(|| (&near).write_all(&data).unwrap());
        far.read_exact(&mut received).unwrap();
    });
    assert!(received == data);
    // The last of it may be lost once, and its acknowledgment.
    thread::sleep(Duration::from_millis(2500));
    SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    let _ = near.shutdown(Shutdown::Both);
}

/// Short ones, and some that are sent in fragments; those that are lost are of no interest.
fn use_datagrams(hosts: &[Namespace; 2], is_v4: bool) {
    let far = hosts[1].run(|| UdpSocket::bind((address(1, is_v4), 10))).unwrap().unwrap();
    let near = hosts[0].run(|| UdpSocket::bind((address(0, is_v4), 0))).unwrap().unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    for number in 0..200_usize {
        let bytes = if number % 50 == 0 { LONG_DATAGRAM_BYTES } else { number };
        near.send(&vec![number as u8; bytes]).unwrap();
        thread::sleep(Duration::from_micros(500));
    }
}
