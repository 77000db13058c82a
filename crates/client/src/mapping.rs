//! Which address and port of this host several ports of the far end see: packets and connections from one port here.

use crate::error::Error;
use crate::path::{MIN_SYN_TIMEOUT, SYN_ROUND_TRIPS};
use crate::port_probe::{PortSession, answered_index};
use crate::server_connection::ServerConnection;
use crate::udp_nonce::request_nonce;
use kumade_measurement::{MappingFacts, Measurement, UnsolicitedFacts};
use kumade_net::Family;
use kumade_net::platform::{pacing, readiness, tcp};
use kumade_net::{SocketBinding, clock};
use kumade_packet::SavedSyn;
use kumade_probe_train::PortProtocol;
use kumade_transport::deadline_after;
use kumade_units::{Span, Time};
use kumade_wire::{
    ClientMessage, CredentialBearer, FIRST_SECOND_ADDRESS_INDEX, PACKETS_PER_SEND_REQUEST, PortArrival, PortStatus,
    Preamble, ServerMessage, Version,
};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

const OPERATION: &str = "looking at address translation";
/// Timeout of the server's answer.
const ANSWER_TIMEOUT: Span = Span::from_secs(2);
/// Packets are taken to be lost after a round trip and this.
const UDP_TIMEOUT: Span = Span::from_millis(150);
/// Packets to each port, and from one to the next. Beside eight unsolicited ones that are lost, twelve that are not tell more than chance
/// (1 of 125 970).
const PACKETS_PER_PORT: u32 = 12;
const PACKET_INTERVAL: Span = Span::from_millis(2);
/// The number of the first packet that tells what is filtered.
const FIRST_FILTERING_INDEX: u32 = 2 * FIRST_SECOND_ADDRESS_INDEX;

/// The far end's ports at which this host is looked at.
struct SecondPorts {
    udp: Option<u16>,
    tcp: Option<u16>,
    address: Option<IpAddr>,
}

/// Has the far end listen at a second port, of UDP and of TCP, and tells the measurement where packets come from.
///
/// # Errors
/// Of the control connection.
pub(crate) fn tell_of_mappings(
    measurement: &mut Measurement,
    peer: &mut ServerConnection,
    binding: &SocketBinding,
) -> Result<(), Error> {
    let version = peer.version();
    if version < Version::PORTS {
        if version >= Version::PATH {
            measurement.mappings_unsupported(version.number(), Version::PORTS.number());
        }
        return Ok(());
    }
    let ports = PortProtocol::BOTH.map(|protocol| (protocol, 0)).to_vec();
    let answer = peer.request(&ClientMessage::OpenPorts { ports }, ANSWER_TIMEOUT, OPERATION)?;
    let ServerMessage::PortsOpened { ports, second_address: address } = answer else {
        return Err(peer.protocol_violation(OPERATION));
    };
    let port_of = |protocol| {
        let listening =
            |opened: &&kumade_wire::OpenedPort| opened.protocol == protocol && opened.status == PortStatus::Listening;
        ports.iter().find(listening).map(|opened| opened.port)
    };
    let own = peer.control_stream().local_addr().ok();
    let address = address.filter(|ip| own.is_some_and(|own| is_believable(own.ip(), peer.address.ip(), *ip)));
    let second = SecondPorts { udp: port_of(PortProtocol::Udp), tcp: port_of(PortProtocol::Tcp), address };
    let mut mappings = vec![udp_mapping(peer, binding, &second)?, tcp_mapping(peer, binding, &second)?];
    let ServerMessage::PortArrivals { arrivals } =
        peer.request(&ClientMessage::AskPortArrivals, ANSWER_TIMEOUT, OPERATION)?
    else {
        return Err(peer.protocol_violation(OPERATION));
    };
    for facts in &mut mappings {
        let seen = |is_wanted: fn(u32) -> bool| {
            let is_one = |arrival: &&PortArrival| {
                arrival.protocol == facts.protocol
                    && Some(arrival.port) == facts.second_port
                    && is_wanted(arrival.index)
            };
            arrivals.iter().find(is_one).map(|arrival| arrival.source)
        };
        let later = [
            seen(|index| index < FIRST_SECOND_ADDRESS_INDEX),
            seen(|index| (FIRST_SECOND_ADDRESS_INDEX..FIRST_FILTERING_INDEX).contains(&index)),
        ];
        [facts.seen[1], facts.seen[2]] = later;
    }
    measurement.mappings_observed(mappings);
    Ok(())
}

/// Whether a far end at `first` may have this second address: a hostile one is not to have this host, at `own`, send to others of its own
/// networks.
fn is_believable(own: IpAddr, first: IpAddr, second: IpAddr) -> bool {
    // No one host, or this one.
    let is_special = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unspecified() || ip.is_multicast() || ip.is_unicast_link_local(),
    };
    // RFC 1918, RFC 4193, and RFC 6598.
    let is_private = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_private() || (ip.octets()[0] == 100 && ip.octets()[1] >> 6 == 1),
        IpAddr::V6(ip) => ip.is_unique_local(),
    };
    // Any host of IPv4, private ones too, by a NAT64: RFC 6052, 2.1, and RFC 8215.
    let is_translated = |ip: IpAddr| match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(ip) => {
            let segments = ip.segments();
            segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] || segments[..3] == [0x64, 0xff9b, 1]
        }
    };
    // What a host takes for its own link, mostly.
    let is_near = |one: IpAddr, other: IpAddr| match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] == other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.segments()[..4] == other.segments()[..4],
        _ => false,
    };
    let (own, first, second) = (own.to_canonical(), first.to_canonical(), second.to_canonical());
    first.is_ipv4() == second.is_ipv4()
        && !is_special(second)
        && !is_translated(second)
        && (is_near(own, first) || !is_near(own, second))
        && second.is_loopback() == first.is_loopback()
        && (is_private(first) || !is_private(second))
}

/// Of nothing that has been tried yet.
fn new_facts(protocol: PortProtocol, local: SocketAddr, second: &SecondPorts) -> MappingFacts {
    MappingFacts {
        protocol,
        local,
        seen: [None; 3],
        second_port: if protocol == PortProtocol::Udp { second.udp } else { second.tcp },
        has_second_address: second.address.is_some(),
        unsolicited: [None; 2],
        failure: None,
    }
}

/// The far end's second port at its first address, and at its second one.
fn targets(peer: SocketAddr, port: u16, second: &SecondPorts) -> [Option<SocketAddr>; 2] {
    let mut first = peer;
    first.set_port(port);
    [Some(first), second.address.map(|ip| SocketAddr::new(ip, port))]
}

fn udp_mapping(
    peer: &mut ServerConnection,
    binding: &SocketBinding,
    second: &SecondPorts,
) -> Result<MappingFacts, Error> {
    let address = peer.address;
    let local_ip = binding.source_towards(address).unwrap_or(address.ip());
    let mut facts = new_facts(PortProtocol::Udp, SocketAddr::new(local_ip, 0), second);
    let opened = open_flow(peer, binding).and_then(|(socket, nonce)| Ok((socket.local_addr()?, socket, nonce)));
    let (local, socket, nonce) = match opened {
        Ok(opened) => opened,
        Err(error) => return Ok(MappingFacts { failure: Some(udp_failure(&error)), ..facts }),
    };
    facts.local.set_port(local.port());
    // Where the far end can't listen, it only says whom it sees.
    let port = second.udp.unwrap_or(0);
    let exchange =
        SecondPortExchange { session: PortSession::new(peer), port, targets: targets(address, port, second) };
    let timeout = peer.round_trip + UDP_TIMEOUT;
    if second.udp.is_some() {
        exchange.send_probes(&socket, 0);
        exchange.count_answers(&socket, 0, PACKETS_PER_PORT, deadline_after(timeout));
    }
    // From another port of this host: an address translator that keeps state of what it has not let in (Linux) would otherwise have to map
    // the first one to another port.
    let filtered = second.udp.and_then(|_| open_flow(peer, binding).ok());
    facts.seen[0] = client_seen(peer, nonce, 0)?;
    let Some((socket, nonce)) = filtered else { return Ok(facts) };
    if client_seen(peer, nonce, port)?.is_none() {
        return Ok(facts);
    }
    let (unsolicited, _) = exchange.count_answers(&socket, 0, PACKETS_PER_SEND_REQUEST, deadline_after(timeout));
    exchange.send_probes(&socket, FIRST_FILTERING_INDEX);
    let (answers, late) =
        exchange.count_answers(&socket, FIRST_FILTERING_INDEX, PACKETS_PER_PORT, deadline_after(timeout));
    for (place, target) in exchange.targets.iter().enumerate() {
        // Late ones were let in, or came after this host had sent there: which, is not known.
        let is_known = unsolicited[place] > 0 || late[place] == 0;
        facts.unsolicited[place] = target.filter(|_| is_known).map(|_| UnsolicitedFacts {
            sent: PACKETS_PER_SEND_REQUEST,
            arrived: unsolicited[place],
            solicited_sent: PACKETS_PER_PORT,
            solicited_arrived: answers[place],
        });
    }
    Ok(facts)
}

/// A socket of UDP, and what the far end has answered to it.
fn open_flow(peer: &ServerConnection, binding: &SocketBinding) -> io::Result<(UdpSocket, [u8; 16])> {
    let socket = binding.bind_udp(Family::from_address(peer.address.ip()), 0)?;
    socket.set_nonblocking(true)?;
    let nonce = request_nonce(peer, &socket)?.nonce;
    Ok((socket, nonce))
}

fn udp_failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "no packet of UDP passes".to_owned(),
        _ => error.to_string(),
    }
}

/// The address and port that has received this nonce as the far end sees it, which sends packets there from this port of its own.
fn client_seen(peer: &mut ServerConnection, nonce: [u8; 16], port: u16) -> Result<Option<SocketAddr>, Error> {
    match peer.request(&ClientMessage::SendFromPort { nonce, port }, ANSWER_TIMEOUT, OPERATION)? {
        ServerMessage::SentFromPort { client } => Ok(client),
        _ => Err(peer.protocol_violation(OPERATION)),
    }
}

/// Packets to the far end's second port, and from there.
struct SecondPortExchange {
    session: PortSession,
    port: u16,
    targets: [Option<SocketAddr>; 2],
}

impl SecondPortExchange {
    /// Sends packets to each address, from this number on.
    fn send_probes(&self, socket: &UdpSocket, first: u32) {
        for index in first..first + PACKETS_PER_PORT {
            for (target, offset) in self.targets.iter().zip([0, FIRST_SECOND_ADDRESS_INDEX]) {
                let probe = self.session.probe(PortProtocol::Udp, self.port, index + offset);
                // What does not leave is lost, like any packet.
                let _ = target.map(|target| socket.send_to(&probe, target));
            }
            pacing::sleep_until(clock::monotonic() + PACKET_INTERVAL);
        }
    }

    /// How many of the far end's packets arrive until then, by its address, of those with the numbers of one look, which begin with `first`, and
    /// of those of another; no longer than until so many of the former have from each.
    fn count_answers(&self, socket: &UdpSocket, first: u32, expected: u32, deadline: Time) -> ([u32; 2], [u32; 2]) {
        let expected = self.targets.map(|target| target.map_or(0, |_| expected));
        let (mut counts, mut others) = ([0; 2], [0; 2]);
        let mut payload = [0; 64];
        while counts.iter().zip(expected).any(|(count, expected)| *count < expected) && clock::monotonic() < deadline {
            match socket.recv_from(&mut payload) {
                Ok((length, source)) if source.port() == self.port => {
                    let index = answered_index(&self.session, PortProtocol::Udp, self.port, &payload[..length]);
                    if let Some(index) = index {
                        let is_own = index / FIRST_FILTERING_INDEX == first / FIRST_FILTERING_INDEX;
                        let is_second = index % FIRST_FILTERING_INDEX >= FIRST_SECOND_ADDRESS_INDEX;
                        (if is_own { &mut counts } else { &mut others })[usize::from(is_second)] += 1;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let _ = readiness::wait_readable(socket, deadline);
                }
                // An ICMP error: the packets are lost.
                Err(_) => {}
            }
        }
        ([counts[0].min(expected[0]), counts[1].min(expected[1])], others)
    }
}

fn tcp_mapping(
    peer: &mut ServerConnection,
    binding: &SocketBinding,
    second: &SecondPorts,
) -> Result<MappingFacts, Error> {
    let address = peer.address;
    let unknown = SocketAddr::new(address.ip(), 0);
    let deadline = || deadline_after(MIN_SYN_TIMEOUT.max(peer.round_trip * SYN_ROUND_TRIPS));
    let opened = tcp::PendingConnection::begin_from_port(address, binding, 0)
        .and_then(|mut connecting| connecting.wait(deadline())?.ok_or_else(|| io::ErrorKind::TimedOut.into()));
    let opened = opened.and_then(|stream| Ok((stream.local_addr()?, stream)));
    let (local, stream) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            return Ok(MappingFacts {
                failure: Some(error.to_string()),
                ..new_facts(PortProtocol::Tcp, unknown, second)
            });
        }
    };
    let mut facts = new_facts(PortProtocol::Tcp, local, second);
    let index = MAPPING_CONNECTION_NUMBER;
    let authenticator = peer.credential.authenticator_for(CredentialBearer::Connection { index });
    // One that is closed at once has told nothing.
    let _ = (&stream).write_all(&Preamble::Probe { authenticator, index }.encode(peer.version()));
    let session = PortSession::new(peer);
    let port = second.tcp.unwrap_or(0);
    let targets = targets(address, port, second).map(|target| target.filter(|_| port != 0));
    let connecting: Vec<_> = targets
        .into_iter()
        .zip([0, FIRST_SECOND_ADDRESS_INDEX])
        .filter_map(|(target, index)| {
            Some((tcp::PendingConnection::begin_from_port(target?, binding, local.port()).ok()?, index))
        })
        .collect();
    let end = deadline();
    let streams: Vec<TcpStream> = connecting
        .into_iter()
        .filter_map(|(mut connecting, index)| {
            let stream = connecting.wait(end).ok().flatten()?;
            (&stream).write_all(&session.probe(PortProtocol::Tcp, port, index)).ok()?;
            Some(stream)
        })
        .collect();
    // An answer says that the far end has noted down where the connection comes from.
    for stream in &streams {
        let _ = readiness::wait_readable(stream, end.max(deadline_after(peer.round_trip + UDP_TIMEOUT)));
    }
    let wait = peer.round_trip + MIN_SYN_TIMEOUT;
    let question = ClientMessage::AskSyns { first: index, expected: 1, wait };
    let ServerMessage::ConnectionSyns { syns } = peer.request(&question, wait + ANSWER_TIMEOUT, OPERATION)? else {
        return Err(peer.protocol_violation(OPERATION));
    };
    facts.seen[0] =
        syns.iter().find(|(number, _)| *number == index).and_then(|(_, syn)| SavedSyn::read(syn)).map(|syn| syn.source);
    Ok(facts)
}

/// The number of the connection to the session's port: those for other SYNs come after it.
const MAPPING_CONNECTION_NUMBER: u16 = crate::path::FIRST_SYN_NUMBER - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_wire::{Credential, PortAnswer, SessionEndpoint, Token};

    /// Those to packets that this host has sent would else be packets that came without: "address-and-port-dependent" of a firewall that lets all
    /// in.
    #[test]
    fn packets_that_come_late_do_not_count_as_answers_of_another_look() {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        near.set_nonblocking(true).unwrap();
        let (to, version) = (near.local_addr().unwrap(), Version::NEWEST);
        let session = PortSession { credential: Credential::new(Token([7; 16]), version, false), version };
        let port = far.local_addr().unwrap().port();
        for index in [
            0,
            1,
            FIRST_SECOND_ADDRESS_INDEX,
            FIRST_FILTERING_INDEX,
            FIRST_FILTERING_INDEX + FIRST_SECOND_ADDRESS_INDEX,
        ] {
            let (sender, protocol) = (SessionEndpoint::Server, PortProtocol::Udp);
            let bearer = CredentialBearer::Port { sender, protocol, port, index };
            let answer = PortAnswer { authenticator: session.credential.authenticator_for(bearer), index };
            far.send_to(&answer.encode(version), to).unwrap();
        }
        let exchange = SecondPortExchange { session, port, targets: [Some(to); 2] };
        let soon = deadline_after(Span::from_millis(200));
        assert_eq!(exchange.count_answers(&near, FIRST_FILTERING_INDEX, 2, soon), ([1, 1], [2, 1]));
    }

    #[test]
    fn a_far_end_has_no_second_address_in_networks_of_this_host_alone() {
        let (own_v4, own_v6) = ("198.51.100.9", "2001:db8:9::9");
        for (first, second, expected) in [
            ("192.0.2.1", "192.0.2.2", true),
            ("10.0.0.1", "192.168.0.1", true),
            ("10.0.0.1", "192.0.2.2", true),
            ("2001:db8::1", "2001:db8::2", true),
            ("127.0.0.1", "127.0.0.2", true),
            ("192.0.2.1", "10.0.0.1", false),
            ("192.0.2.1", "100.64.0.1", false),
            ("192.0.2.1", "127.0.0.1", false),
            ("192.0.2.1", "::ffff:127.0.0.1", false),
            ("192.0.2.1", "169.254.0.1", false),
            ("192.0.2.1", "255.255.255.255", false),
            ("192.0.2.1", "224.0.0.1", false),
            ("192.0.2.1", "2001:db8::2", false),
            ("2001:db8::1", "fd00::1", false),
            ("2001:db8::1", "fe80::1", false),
            ("2001:db8::1", "::1", false),
            // Beside this host, where the far end is not.
            ("192.0.2.1", "198.51.100.1", false),
            ("198.51.100.1", "198.51.100.2", true),
            ("2001:db8::1", "2001:db8:9::1", false),
            ("2001:db8:9::1", "2001:db8:9::2", true),
            // Hosts of IPv4, behind a translator.
            ("2001:db8::1", "64:ff9b::10.0.0.1", false),
            ("64:ff9b::192.0.2.1", "64:ff9b::192.0.2.2", false),
            ("2001:db8::1", "64:ff9b:1:2::10.0.0.1", false),
        ] {
            let own = if first.contains(':') { own_v6 } else { own_v4 };
            let [own, far, other] = [own, first, second].map(|ip| ip.parse().unwrap());
            assert_eq!(is_believable(own, far, other), expected, "{first} {second}");
        }
    }
}
