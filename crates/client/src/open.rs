//! Opening a transport: UDP, or TCP connections.

use crate::error::Error;
use crate::path;
use crate::server_connection::ServerConnection;
use crate::udp_nonce::{UdpNonce, request_nonce};
use kumade_measurement::report::Warning;
use kumade_measurement::{OpenRequest, TcpConnectionInfo, UdpFacts, detect_proxy};
use kumade_net::SocketBinding;
use kumade_net::platform::{tcp, udp};
use kumade_probe_train::Transport;
use kumade_transport::{OpenedConnections, Probes, TcpProbes, UdpProbes, open_connections};
use kumade_units::Span;
use kumade_wire::{ClientMessage, CredentialBearer, Preamble, ServerMessage, SessionEndpoint};
use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;

/// Connections that have not been established by then, or within so many round trips, are most likely dropped by a firewall.
const CONNECT_TIMEOUT: Span = Span::from_secs(2);
const CONNECT_ROUND_TRIPS: i64 = 3;
/// Timeout of the last connection's preamble at the server, beyond a round trip: one may be retransmitted.
pub(crate) const PREAMBLE_TIMEOUT: Span = Span::from_secs(1);
/// Timeout of the server's answer.
pub(crate) const ANSWER_TIMEOUT: Span = Span::from_secs(3);

/// Opens UDP, in one or two round trips. The inner error is the reason why it does not pass.
pub(crate) fn open_udp(
    peer: &mut ServerConnection,
    binding: &SocketBinding,
) -> Result<Result<OpenedUdp, String>, Error> {
    let address = peer.address;
    let (socket, answer, view) = match request_udp(peer, binding) {
        Ok((socket, answer)) => {
            let doing = "opening UDP";
            peer.send(&ClientMessage::ProveUdp(answer.nonce), doing)?;
            // Beside it, which takes no round trip.
            let is_asked = peer.ask_path_view(doing)?;
            match peer.receive(peer.answer_deadline(ANSWER_TIMEOUT), doing)? {
                ServerMessage::UdpOpen => {}
                _ => return Err(peer.protocol_violation(doing)),
            }
            let view = if is_asked { peer.receive_path_view(ANSWER_TIMEOUT, doing)?.udp } else { None };
            (socket, answer, view)
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Err("no answer".to_owned())),
        Err(error) => {
            tracing::debug!("UDP: {error}");
            return Ok(Err("rejected".to_owned()));
        }
    };
    let probes = UdpProbes::new(socket, peer.credential, SessionEndpoint::Client)
        .map_err(|cause| Error::Transport { address, cause })?;
    let facts = view.and_then(|view| path::udp_facts(&probes, answer.arrived_hop_limit, &view));
    Ok(Ok(OpenedUdp { probes: with_control_watch(peer, Probes::Udp(probes))?, facts }))
}

/// UDP that is open at both ends.
pub(crate) struct OpenedUdp {
    pub(crate) probes: Probes,
    /// What is known of its path; none where the server does not say.
    pub(crate) facts: Option<UdpFacts>,
}

/// Asks until the server answers with a nonce.
fn request_udp(peer: &ServerConnection, binding: &SocketBinding) -> io::Result<(UdpSocket, UdpNonce)> {
    let socket = binding.connect_udp(peer.address)?;
    if let Err(error) = udp::report_marks(&socket, true) {
        tracing::debug!("the hop limit of the server's packets is not told: {error}");
    }
    let nonce = request_nonce(peer, &socket)?;
    // Of trains, it isn't asked for.
    let _ = udp::report_marks(&socket, false);
    Ok((socket, nonce))
}

/// Opens probe connections in parallel; returns those that are open at both ends, and warnings: if some are missing,
/// or a proxy ends them.
pub(crate) fn open_tcp(
    peer: &mut ServerConnection,
    binding: &SocketBinding,
    request: &OpenRequest,
) -> Result<(Probes, Vec<Warning>), Error> {
    let &OpenRequest {
        transport: kind, connections: count, min_connections: needed, first_number: first, spacing, ..
    } = request;
    let address = peer.address;
    TcpProbes::check_system(peer.control_stream()).map_err(|cause| Error::TransportUnavailable {
        address,
        transport: kind,
        reason: cause.to_string(),
    })?;
    let opened = open_probe_connections(peer, binding, (count, first), spacing)?;
    let missing = describe_missing(&opened, connect_timeout(peer));
    let mut streams: BTreeMap<u16, _> =
        opened.streams.into_iter().map(|(number, stream)| (first.wrapping_add(number), stream)).collect();
    let doing = "opening probe connections";
    let wait = peer.round_trip + PREAMBLE_TIMEOUT;
    let expected = streams.len() as u32;
    let header = match peer.has_timestamps.filter(|_| !tcp::ARE_SIZES_KNOWN) {
        Some(has_timestamps) => Some(tcp::header_bytes(address, has_timestamps)),
        None => {
            let sizes = streams.values().filter_map(|stream| tcp::segment_sizes(stream).ok());
            sizes.map(|sizes| sizes.header_bytes).max()
        }
    };
    let header = header.unwrap_or(0);
    let question = ClientMessage::AwaitConnections { transport: kind, first, expected, wait, header };
    let ServerMessage::Connections { numbers, server_endpoint: far } =
        peer.request(&question, wait + ANSWER_TIMEOUT, doing)?
    else {
        return Err(peer.protocol_violation(doing));
    };
    let streams: Option<Vec<_>> = numbers.iter().map(|number| streams.remove(number)).collect();
    let streams = streams.ok_or_else(|| peer.protocol_violation(doing))?;
    if streams.len() < usize::from(needed) {
        let why = missing.unwrap_or_else(|| "the server allows no more, or they were closed".to_owned());
        return Err(Error::TooFewConnections { address, opened: streams.len(), requested: count, needed, why });
    }
    let warning = (streams.len() < usize::from(count)).then(|| {
        let why = missing.unwrap_or_else(|| "closed after opening".to_owned());
        Warning::FewConnections(streams.len() as u32, count.into(), why)
    });
    let probes = if kind == Transport::Single {
        streams.into_iter().next().map_or(Err(kumade_transport::Error::NoConnection(0)), TcpProbes::single)
    } else {
        TcpProbes::rake(streams)
    };
    let mut probes = probes.map_err(|cause| match cause {
        kumade_transport::Error::NoConnection(_) => {
            let why = "all were closed after opening".to_owned();
            Error::TooFewConnections { address, opened: 0, requested: count, needed, why }
        }
        cause => Error::Transport { address, cause },
    })?;
    let near = probes.endpoint_info();
    probes.set_header_bytes(header);
    far.into_iter().for_each(|far| probes.limit_payload(far.payload));
    let proxy = near
        .zip(far)
        .and_then(|(near, far)| detect_proxy(connection_info(near), connection_info(far), peer.round_trip));
    let warnings = [warning, proxy].into_iter().flatten().collect();
    Ok((with_control_watch(peer, Probes::Tcp(probes))?, warnings))
}

/// What a warning of proxies asks of it.
fn connection_info(known: kumade_wire::TcpEndpointInfo) -> TcpConnectionInfo {
    TcpConnectionInfo { header_bytes: known.header, round_trip: known.round_trip }
}

/// Opens connections that say which session they belong to, numbered from `first` on.
pub(crate) fn open_probe_connections(
    peer: &ServerConnection,
    binding: &SocketBinding,
    (count, first): (u16, u16),
    spacing: Span,
) -> Result<OpenedConnections, Error> {
    let (address, credential, version) = (peer.address, peer.credential, peer.version());
    let hello = |number: u16| {
        let index = first.wrapping_add(number);
        let shown = credential.authenticator_for(CredentialBearer::Connection { index });
        Preamble::Probe { authenticator: shown, index }.encode(version).to_vec()
    };
    let deadline = connect_timeout(peer) + spacing * i64::from(count);
    let opened = open_connections(address, binding, count, peer.round_trip, spacing, deadline, hello);
    opened.map_err(|cause| Error::Transport {
        address,
        cause: kumade_transport::Error::Io { operation: "open connections to", peer: address, cause },
    })
}

fn connect_timeout(peer: &ServerConnection) -> Span {
    CONNECT_TIMEOUT.max(peer.round_trip * CONNECT_ROUND_TRIPS)
}

/// Makes trains end early when the server is gone.
fn with_control_watch(peer: &ServerConnection, mut probes: Probes) -> Result<Probes, Error> {
    probes.abort_on_close_of(peer.control_watch()?);
    Ok(probes)
}

/// Why connections did not open; none if all did.
fn describe_missing(opened: &OpenedConnections, timeout: Span) -> Option<String> {
    let mut parts = Vec::new();
    if opened.timed_out > 0 {
        parts.push(format!("{} timed out after {timeout}", opened.timed_out));
    }
    if opened.refused > 0 {
        let why = opened.refusal.as_ref().map_or_else(|| "refused".to_owned(), ToString::to_string);
        parts.push(format!("{} failed: {why}", opened.refused));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
