//! What middleboxes do to real packets, and that the kernel's own do the same.

use kumade_link::{LinkConfig, Loss};
use kumade_middlebox::{
    Chance, Direction, MiddleboxConfig, PacketKind, TcpOptionMatch, Treatment, TreatmentAction, TreatmentMatch,
};
use kumade_net::capture::Capture;
use kumade_netns_testbed::{
    ExperimentNetwork, Host, HtbNetwork, Network, NetworkError, NetworkSpec, TEST_DEADLINE, eventually, in_namespaces,
};
use kumade_packet::{
    DsField, Dscp, Ecn, Headers, PacketEnd, TcpRewrite, checksum, has_ecn_flags, has_tcp_option, tcp_option,
};
use kumade_units::{Rate, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

const PORT: u16 = 5000;
/// Of the packet behind all others, which no treatment here meets.
const LAST_PORT: u16 = 5001;
const LONG_PACKET_BYTES: usize = 1450;

fn link() -> LinkConfig {
    let delay = Span::from_millis(2);
    LinkConfig { rate: Some(Rate::from_mbit(100)), queue_bytes: 200_000, delay, seed: 1, ..LinkConfig::default() }
}

/// Hosts that ask for ECN, so that its flags can be seen.
fn ask_for_ecn(network: &dyn ExperimentNetwork) {
    for name in ["a", "b"] {
        let set = || fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap();
        network.host(name).unwrap().namespace.run(set).unwrap();
    }
}

fn address(host: &Host, is_v6: bool) -> IpAddr {
    if is_v6 { host.v6.unwrap().into() } else { host.v4.into() }
}

/// Other packets ask for addresses on a line.
fn is_last(packet: &[u8]) -> bool {
    let headers = Headers::parse(packet).ok();
    headers.is_some_and(|headers| headers.ports.is_some_and(|(_, to)| to == LAST_PORT))
}

/// What arrives of what the hosts send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Observation {
    /// The octets of DSCP and ECN with which UDP packets arrived, by those with which they were sent.
    fields: BTreeMap<u8, u8>,
    /// Of the SYN, or the SYN-ACK, that arrived first: whether it has ECN's flags, its maximum segment size, its options.
    handshake: (bool, Option<u16>, BTreeSet<u8>),
    /// The path's MTU as the sender knows it after a long packet, and whether that arrived.
    long_packet: (u32, bool),
}

/// One way through the network.
struct Way<'a> {
    from: &'a Host,
    to: &'a Host,
    is_v6: bool,
}

impl Way<'_> {
    fn send(&self, port: u16, field: u8, bytes: usize) -> UdpSocket {
        let socket = self.from.namespace.run(|| UdpSocket::bind((address(self.from, self.is_v6), 0))).unwrap().unwrap();
        socket.connect((address(self.to, self.is_v6), port)).unwrap();
        kumade_net::udp::prepare_socket(&socket, TEST_DEADLINE).unwrap();
        let options = socket2::SockRef::from(&socket);
        match self.is_v6 {
            true => options.set_tclass_v6(field.into()).unwrap(),
            false => options.set_tos_v4(field.into()).unwrap(),
        }
        // The first octet says how it was sent.
        let mut payload = vec![field; bytes - if self.is_v6 { 48 } else { 28 }];
        payload.truncate(payload.len().max(1));
        socket.send(&payload).unwrap();
        socket
    }

    fn capture(&self) -> Capture {
        self.to.namespace.run(|| Capture::incoming(Host::DEVICE)).unwrap().unwrap()
    }

    fn reversed(&self) -> Way<'_> {
        Way { from: self.to, to: self.from, is_v6: self.is_v6 }
    }

    /// What arrives until a last packet does.
    fn arrivals(&self, mut capture: Capture) -> Vec<Vec<u8>> {
        self.send(LAST_PORT, 0, 100);
        let mut packets: Vec<Vec<u8>> = Vec::new();
        assert!(
            eventually(|| {
                while let Some(packet) = capture.next(|_, packet| packet.to_vec()) {
                    packets.push(packet);
                }
                packets.iter().any(|packet| is_last(packet))
            }),
            "{} to {}: {} packets",
            self.from.name,
            address(self.to, self.is_v6),
            packets.len()
        );
        packets
    }

    fn fields(&self) -> BTreeMap<u8, u8> {
        let capture = self.capture();
        let sent: Vec<_> = (0..64).map(|dscp| dscp << 2).chain([1, 2, 3]).collect();
        sent.iter().for_each(|field| drop(self.send(PORT, *field, 100)));
        let arrived = self.arrivals(capture).into_iter().filter_map(|packet| {
            let headers = Headers::parse(&packet).ok()?;
            assert_eq!(checksum::is_valid(&packet), Ok(true));
            let sent = *packet.get(headers.transport_offset + 8)?;
            (headers.port(PacketEnd::Destination) == Some(PORT)).then(|| (sent, DsField::read(&packet).octet()))
        });
        arrived.collect()
    }

    /// Of the segment with SYN that comes this way, of a connection from `client` to `server`.
    fn handshake(&self, client: &Host, server: &Host) -> (bool, Option<u16>, BTreeSet<u8>) {
        let mut capture = self.capture();
        let listener = server.namespace.run(|| TcpListener::bind((address(server, self.is_v6), 0))).unwrap().unwrap();
        let peer = listener.local_addr().unwrap();
        let connection = client.namespace.run(|| TcpStream::connect(peer)).unwrap().unwrap();
        let port = connection.local_addr().unwrap().port();
        let mut seen = None;
        assert!(eventually(|| {
            while let Some(mut packet) = capture.next(|_, packet| packet.to_vec()) {
                let Ok(headers) = Headers::parse(&packet) else { continue };
                let is_ours = headers.ports.is_some_and(|ports| ports.0 == port || ports.1 == port);
                if !is_ours || headers.tcp().is_none_or(|tcp| !tcp.syn) {
                    continue;
                }
                assert_eq!(checksum::is_valid(&packet), Ok(true));
                let kinds = (2..=254).filter(|kind| has_tcp_option(&packet, &headers, *kind)).collect();
                let has_flags = has_ecn_flags(&packet, &headers);
                let mss = TcpRewrite::new(&mut packet, &headers, false).unwrap().mss();
                seen.get_or_insert((has_flags, mss, kinds));
            }
            seen.is_some()
        }));
        seen.unwrap()
    }

    fn long_packet(&self) -> (u32, bool) {
        let capture = self.capture();
        let socket = self.send(PORT, 0, LONG_PACKET_BYTES);
        let arrived = self.arrivals(capture).iter().any(|packet| packet.len() == LONG_PACKET_BYTES);
        // What came back before this is known.
        let back = self.reversed();
        back.arrivals(back.capture());
        (kumade_net::udp::path_mtu(&socket).unwrap(), arrived)
    }
}

fn observe(network: &dyn ExperimentNetwork, direction: Direction, is_v6: bool, mtu: bool) -> Observation {
    let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
    let (from, to) = if direction == Direction::Outbound { (a, b) } else { (b, a) };
    let way = Way { from, to, is_v6 };
    match mtu {
        true => Observation { long_packet: way.long_packet(), ..Observation::default() },
        false => Observation { fields: way.fields(), handshake: way.handshake(a, b), ..Observation::default() },
    }
}

/// Waits until hosts and routers know the addresses on their lines; what they send until then may be lost.
fn wait_for_neighbours(network: &dyn ExperimentNetwork) {
    let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
    for (from, to, is_v6) in [(a, b, false), (b, a, false), (a, b, true), (b, a, true)] {
        let way = Way { from, to, is_v6 };
        let mut capture = way.capture();
        assert!(eventually(|| {
            way.send(LAST_PORT, 0, 100);
            std::iter::from_fn(|| capture.next(|_, packet| is_last(packet))).any(|is_last| is_last)
        }));
    }
}

/// All that both can do, each with the condition that it has; those of the MTU last, which hosts remember.
fn treatments() -> Vec<(TreatmentMatch, TreatmentAction)> {
    let all = TreatmentMatch::default();
    let dscp = |number| Dscp::new(number).unwrap();
    vec![
        (all, TreatmentAction::SetEcn(Ecn::NotEct)),
        (TreatmentMatch { ecn: Some(Ecn::Ect1), ..all }, TreatmentAction::SetEcn(Ecn::Ect0)),
        (TreatmentMatch { ecn: Some(Ecn::Ce), ..all }, TreatmentAction::Drop),
        (all, TreatmentAction::SetDscp(dscp(0))),
        (TreatmentMatch { dscp: Some(dscp(46)), ..all }, TreatmentAction::SetDscp(dscp(10))),
        (TreatmentMatch { dscp: Some(dscp(46)), ..all }, TreatmentAction::Drop),
        (all, TreatmentAction::MaskDscp(0b111_000)),
        (all, TreatmentAction::MaskDscp(0b000_111)),
        (all, TreatmentAction::ClearEcnFlags),
        (all, TreatmentAction::ClampMss(1300)),
        (all, TreatmentAction::RemoveOptions(TcpOptionMatch::Kind(tcp_option::SACK_PERMITTED))),
        (all, TreatmentAction::RemoveOptions(TcpOptionMatch::Kind(tcp_option::TIMESTAMPS))),
        (all, TreatmentAction::LimitMtu { mtu: 1400, replies: false }),
        (all, TreatmentAction::LimitMtu { mtu: 1400, replies: true }),
    ]
}

#[test]
fn the_kernels_middlebox_does_what_ours_does() {
    in_namespaces("the_kernels_middlebox_does_what_ours_does", || {
        let mut own = Network::build(NetworkSpec::host_pair(link())).unwrap();
        let mut kernel = match HtbNetwork::build(Rate::from_mbit(100), 200_000) {
            Ok(kernel) => kernel,
            Err(NetworkError::NoShaper(error)) => return println!("passed over: {error}"),
            Err(error) => panic!("{error}"),
        };
        let networks: [&mut dyn ExperimentNetwork; 2] = [&mut own, &mut kernel];
        for network in &networks {
            ask_for_ecn(*network);
            wait_for_neighbours(*network);
        }
        let [own, kernel] = networks;
        for (matching, action) in treatments() {
            let is_mtu = matches!(action, TreatmentAction::LimitMtu { .. });
            for direction in [Direction::Outbound, Direction::Inbound] {
                let matching = TreatmentMatch { direction: Some(direction), ..matching };
                let treatments = vec![Treatment { matching, chance: Chance::Always, action }];
                let config = MiddleboxConfig { treatments, ..MiddleboxConfig::default() };
                let observed = |network: &mut dyn ExperimentNetwork| {
                    network.set_middlebox(Some(config.clone())).unwrap();
                    [false, true].map(|is_v6| observe(network, direction, is_v6, is_mtu))
                };
                let seen = observed(own);
                assert_eq!(seen, observed(kernel), "{direction:?} {action:?}");
                own.set_middlebox(None).unwrap();
                // Hosts remember a path's MTU; that of the line is known without a packet.
                let untreated = [false, true].map(|is_v6| match is_mtu {
                    true => Observation { long_packet: (1500, true), ..Observation::default() },
                    false => observe(own, direction, is_v6, false),
                });
                assert!(seen.iter().zip(&untreated).all(|(seen, untreated)| seen != untreated), "{action:?}: {seen:?}");
            }
        }
    });
}

#[test]
fn a_handshake_without_ecn_is_repeated_where_one_with_it_is_lost() {
    in_namespaces("a_handshake_without_ecn_is_repeated_where_one_with_it_is_lost", || {
        let network = Network::build(NetworkSpec::host_pair(link())).unwrap();
        ask_for_ecn(&network);
        let matching = TreatmentMatch { kind: Some(PacketKind::EcnSyn), ..TreatmentMatch::default() };
        for (treatments, has_ecn) in [
            (vec![], true),
            (vec![Treatment { matching, chance: Chance::Always, action: TreatmentAction::Drop }], false),
        ] {
            network.set_middlebox(Some(MiddleboxConfig { treatments, ..MiddleboxConfig::default() })).unwrap();
            for is_v6 in [false, true] {
                assert_eq!(observe(&network, Direction::Outbound, is_v6, false).handshake.0, has_ecn);
            }
        }
    });
}

#[test]
fn tcp_passes_shifted_sequences_also_where_packets_are_lost() {
    in_namespaces("tcp_passes_shifted_sequences_also_where_packets_are_lost", || {
        let lossy = LinkConfig { loss: Loss::Independent(0.02), ..link() };
        let network = Network::build(NetworkSpec::host_pair(lossy)).unwrap();
        let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
        for direction in [Some(Direction::Outbound), Some(Direction::Inbound), None] {
            let matching = TreatmentMatch { direction, ..TreatmentMatch::default() };
            let treatments =
                vec![Treatment { matching, chance: Chance::Always, action: TreatmentAction::RandomizeSequence }];
            network.set_middlebox(Some(MiddleboxConfig { treatments, ..MiddleboxConfig::default() })).unwrap();
            for is_v6 in [false, true] {
                let server = SocketAddr::new(address(b, is_v6), 0);
                let listener = b.namespace.run(|| TcpListener::bind(server)).unwrap().unwrap();
                let server = listener.local_addr().unwrap();
                let sent: Vec<u8> = (0..500_000u32).map(|number| number as u8 ^ (number >> 8) as u8).collect();
                let echoed = sent.clone();
                let sender = a.namespace.spawn("sender", move || {
                    let mut stream = TcpStream::connect(server).unwrap();
                    stream.write_all(&echoed).unwrap();
                    let mut back = vec![0; echoed.len()];
                    stream.read_exact(&mut back).unwrap();
                    assert!(back == echoed);
                });
                let (mut stream, _) = listener.accept().unwrap();
                let mut received = vec![0; sent.len()];
                stream.read_exact(&mut received).unwrap();
                assert!(received == sent);
                stream.write_all(&received).unwrap();
                sender.unwrap().join().unwrap();
            }
        }
    });
}
