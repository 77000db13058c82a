//! What the path does to packets: what both kernels know of it, and the exchange of marked packets.

use crate::error::Error;
use crate::server_connection::ServerConnection;
use kumade_measurement::{MarkRequest, Measurement, SynProbeFacts, SynProbeKind, TcpEndFacts, TcpFacts, UdpFacts};
use kumade_net::platform::tcp::SynOption;
use kumade_net::platform::{pacing, tcp};
use kumade_net::{SocketBinding, clock, sysctl};
use kumade_probe_train::{MarkedRecord, MarkedTrain};
use kumade_transport::{Probes, SEND_SLACK, deadline_after};
use kumade_units::{Direction, Span};
use kumade_wire::{
    ClientMessage, CredentialBearer, Preamble, ServerMessage, TcpEnd, TcpPathView, UdpPathView, Version,
};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

/// From the announcement of marked packets to the first of them.
const ANNOUNCEMENT_DELAY: Span = Span::from_millis(2);
/// Timeout of a connection of this host to itself, which a packet filter may drop.
const OWN_CONNECTION_TIMEOUT: Span = Span::from_millis(200);
/// Timeout of the server's answer, beyond the packets' own time.
const ANSWER_TIMEOUT: Span = Span::from_secs(2);
/// Timeout of connections that are opened for their SYNs, beyond …
pub(crate) const MIN_SYN_TIMEOUT: Span = Span::from_millis(300);
/// … so many round trips.
pub(crate) const SYN_ROUND_TRIPS: i64 = 3;
/// What these SYNs carry.
const SYN_PROBES: [(SynProbeKind, SynOption); 3] = [
    (SynProbeKind::Mptcp, SynOption::Mptcp),
    (SynProbeKind::FastOpen, SynOption::FastOpen),
    (SynProbeKind::Ecn, SynOption::Ecn),
];
/// The number of the first such connection: no measurement takes as many others. One more comes before it, for address translation.
pub(crate) const FIRST_SYN_NUMBER: u16 = u16::MAX - SYN_PROBES.len() as u16;
const OPERATION: &str = "looking at marked packets";

/// Tells a measurement what is known of the control connection: what the server sees, and what this host knows.
pub(crate) fn tell_of_tcp(measurement: &mut Measurement, peer: &ServerConnection, view: Option<TcpPathView>) {
    if peer.version() < Version::PATH {
        measurement.path_unsupported(peer.version().number(), Version::PATH.number());
    }
    let Some(view) = view else { return };
    match tcp_facts(peer.control_stream(), view) {
        Ok(facts) => measurement.tcp_observed(facts),
        Err(error) => tracing::debug!("what this host's kernel knows of the control connection: {error}"),
    }
}

fn tcp_facts(stream: &TcpStream, view: TcpPathView) -> io::Result<TcpFacts> {
    let near = tcp::path_info(stream)?;
    let local = stream.local_addr()?;
    let reference_syn = own_syn(local, None).unwrap_or_else(|error| {
        tracing::debug!("what this host's SYNs look like: {error}");
        None
    });
    let near = TcpEndFacts {
        options: near.options,
        announced_mss: near.announced_mss,
        send_mss: near.send_mss,
        path_mtu: near.path_mtu,
        hop_limit: near.hop_limit,
        delivered_ce: near.delivered_ce,
    };
    Ok(TcpFacts {
        local,
        seen: view.client,
        is_destination_kept: view.is_destination_kept,
        arrived_syn: view.syn,
        reference_syn,
        ecn_setting: sysctl::read_number("net.ipv4.tcp_ecn"),
        near,
        far: far_facts(view.endpoint),
    })
}

fn far_facts(end: TcpEnd) -> TcpEndFacts {
    let TcpEnd { options, announced_mss, send_mss, path_mtu, hop_limit, delivered_ce } = end;
    TcpEndFacts { options, announced_mss, send_mss, path_mtu, hop_limit, delivered_ce }
}

/// A SYN of this host as it leaves, of a connection of the host to itself over the same version of IP: settings, routes and congestion control
/// decide on its options and flags, and differ between kernels.
fn own_syn(like: SocketAddr, option: Option<SynOption>) -> io::Result<Option<Vec<u8>>> {
    let loopback = match like.ip().to_canonical().is_ipv4() {
        true => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        false => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
    };
    let listener = TcpListener::bind(loopback)?;
    listener.set_nonblocking(true)?;
    tcp::save_syns(&listener)?;
    let mut connecting = begin(listener.local_addr()?, &SocketBinding::default(), option)?;
    let Some(stream) = connecting.wait(deadline_after(OWN_CONNECTION_TIMEOUT))? else { return Ok(None) };
    let (accepted, source) = listener.accept()?;
    // Somebody else's may have been faster.
    if source != stream.local_addr()? {
        return Ok(None);
    }
    tcp::saved_syn(&accepted, TcpPathView::MAX_SYN_BYTES)
}

fn begin(
    address: SocketAddr,
    binding: &SocketBinding,
    option: Option<SynOption>,
) -> io::Result<tcp::PendingConnection> {
    match option {
        None => tcp::PendingConnection::begin(address, binding),
        Some(option) => tcp::PendingConnection::begin_with_option(address, binding, option),
    }
}

/// Opens a connection for each SYN with something unusual, and asks the server how it arrived.
///
/// # Errors
/// Of the control connection.
pub(crate) fn tell_of_syns(
    measurement: &mut Measurement,
    peer: &mut ServerConnection,
    binding: &SocketBinding,
) -> Result<(), Error> {
    if peer.version() < Version::PATH {
        return Ok(());
    }
    let address = peer.address;
    let mut probes: Vec<(SynProbeFacts, Option<tcp::PendingConnection>)> = Vec::new();
    for (kind, option) in SYN_PROBES {
        let reference_syn = own_syn(address, Some(option)).ok().flatten();
        // What the kernel does not send to itself it does not send to others.
        let opening = reference_syn.as_ref().and_then(|_| begin(address, binding, Some(option)).ok());
        probes.push((SynProbeFacts { kind, reference_syn, arrived_syn: None }, opening));
    }
    let deadline = deadline_after(MIN_SYN_TIMEOUT.max(peer.round_trip * SYN_ROUND_TRIPS));
    let mut streams = Vec::new();
    for (place, (_, opening)) in probes.iter_mut().enumerate() {
        let opened = opening.as_mut().and_then(|opening| opening.wait(deadline).ok().flatten());
        let index = FIRST_SYN_NUMBER + place as u16;
        let authenticator = peer.credential.authenticator_for(CredentialBearer::Connection { index });
        let hello = Preamble::Probe { authenticator, index }.encode(peer.version());
        // One that is closed at once has told nothing.
        streams.extend(opened.filter(|stream| (&*stream).write_all(&hello).is_ok()));
    }
    let doing = "looking at SYNs";
    let wait = peer.round_trip + MIN_SYN_TIMEOUT;
    let question = ClientMessage::AskSyns { first: FIRST_SYN_NUMBER, expected: streams.len() as u32, wait };
    let ServerMessage::ConnectionSyns { syns } = peer.request(&question, wait + ANSWER_TIMEOUT, doing)? else {
        return Err(peer.protocol_violation(doing));
    };
    for (number, syn) in syns {
        let place = usize::from(number).checked_sub(FIRST_SYN_NUMBER.into());
        if let Some((facts, _)) = place.and_then(|place| probes.get_mut(place)) {
            facts.arrived_syn = Some(syn);
        }
    }
    measurement.syns_observed(probes.into_iter().map(|(facts, _)| facts).collect());
    Ok(())
}

/// What is known of UDP that has just been opened, where the server's answer arrived with this hop limit.
pub(crate) fn udp_facts(
    probes: &kumade_transport::UdpProbes,
    arrived_hop_limit: Option<u8>,
    view: &UdpPathView,
) -> Option<UdpFacts> {
    Some(UdpFacts {
        local: probes.local_address().ok()?,
        seen: view.client,
        up_hop_limits: [probes.hop_limit(), view.arrived_hop_limit],
        down_hop_limits: [view.hop_limit, arrived_hop_limit],
        near_path_mtu: None,
        far_path_mtu: None,
    })
}

/// Carries marked packets as train `number`. The inner error is the reason why that is not possible.
pub(crate) fn exchange_marks(
    peer: &mut ServerConnection,
    probes: &mut Probes,
    number: u32,
    request: &MarkRequest,
) -> Result<Result<MarkedRecord, String>, Error> {
    let Probes::Udp(probes) = probes else { return Ok(Err("UDP is not open".to_owned())) };
    let MarkRequest { direction, train, timeout } = request;
    match direction {
        Direction::Up => send_upstream(peer, probes, number, train, *timeout),
        Direction::Down => receive_downstream(peer, probes, number, train, *timeout),
    }
}

fn send_upstream(
    peer: &mut ServerConnection,
    probes: &mut kumade_transport::UdpProbes,
    number: u32,
    train: &MarkedTrain,
    timeout: Span,
) -> Result<Result<MarkedRecord, String>, Error> {
    peer.send(&ClientMessage::ReceiveMarked { number, train: train.clone(), timeout }, OPERATION)?;
    pacing::sleep_until(clock::monotonic() + ANNOUNCEMENT_DELAY);
    let sent = probes.send_marked(number, train);
    match peer.receive(peer.answer_deadline(timeout + ANSWER_TIMEOUT), OPERATION)? {
        ServerMessage::ReceivedMarked { number: n, arrivals } if n == number => {
            Ok(sent.map(|sent| MarkedRecord { sent, arrivals }).map_err(|error| error.to_string()))
        }
        other => failure_reason(peer, number, &other, OPERATION).map(Err),
    }
}

fn receive_downstream(
    peer: &mut ServerConnection,
    probes: &mut kumade_transport::UdpProbes,
    number: u32,
    train: &MarkedTrain,
    timeout: Span,
) -> Result<Result<MarkedRecord, String>, Error> {
    peer.send(&ClientMessage::SendMarked { number, train: train.clone() }, OPERATION)?;
    let arrivals = probes.receive_marked(number, train, timeout + peer.round_trip);
    match peer.receive(peer.answer_deadline(SEND_SLACK + ANSWER_TIMEOUT), OPERATION)? {
        ServerMessage::SentMarked { number: n, sent } if n == number => {
            Ok(arrivals.map(|arrivals| MarkedRecord { sent, arrivals }).map_err(|error| error.to_string()))
        }
        other => failure_reason(peer, number, &other, OPERATION).map(Err),
    }
}

/// Why the server could not carry train `number`, where its answer is that.
pub(crate) fn failure_reason(
    peer: &ServerConnection,
    number: u32,
    answer: &ServerMessage,
    operation: &'static str,
) -> Result<String, Error> {
    match answer {
        ServerMessage::Failed { number: n, reason } if *n == number => Ok(peer.printable(reason)),
        _ => Err(peer.protocol_violation(operation)),
    }
}
