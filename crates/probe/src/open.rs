//! Opening a transport: UDP where it passes, else many TCP connections.

use crate::error::Error;
use crate::peer::Peer;
use measurement::OpenRequest;
use net::{Binding, clock};
use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use train::Transport;
use transport::{Opened, Probes, TcpProbes, UdpProbes, open_connections};
use units::{Span, Time};
use wire::{ClientMessage, Preamble, ServerMessage, UdpAnswer, UdpRequest};

/// When requests for UDP are sent, counted from the first.
const REQUESTS: [Span; 4] = [Span::ZERO, Span::from_millis(60), Span::from_millis(150), Span::from_millis(300)];
/// Silence for this long, or for three round trips, means that UDP is dropped.
const UDP_SILENCE: Span = Span::from_millis(600);
/// Connections that have not opened by then are most likely dropped by a firewall.
const CONNECTIONS_OPEN: Span = Span::from_secs(2);
/// What the last hello may take after the last connection has opened, beyond a round trip: one may be lost and sent again.
const HELLOS: Span = Span::from_secs(1);
const SERVER: Span = Span::from_secs(3);

/// Opens UDP, in a round trip or two; or says /// why it does not pass.
pub(crate) fn udp(peer: &mut Peer, binding: &Binding) -> Result<Result<Probes, String>, Error> {
    let address = peer.address;
    let socket = match ask_for_udp(peer, binding) {
        Ok((socket, nonce)) => {
            let doing = "opening UDP";
            match peer.ask(&ClientMessage::ProveUdp(nonce), SERVER, doing)? {
                ServerMessage::UdpOpen => socket,
                _ => return Err(peer.confused(doing)),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Err("no answer".to_owned())),
        Err(error) => {
            tracing::debug!("UDP: {error}");
            return Ok(Err("it is rejected".to_owned()));
        }
    };
    let probes = UdpProbes::new(socket, peer.token).map_err(|cause| Error::Transport { address, cause })?;
    Ok(Ok(depending(peer, Probes::Udp(probes))?))
}

/// Shows our token until the server's nonce comes back.
fn ask_for_udp(peer: &Peer, binding: &Binding) -> io::Result<(UdpSocket, [u8; 16])> {
    let socket = binding.connect_udp(peer.address)?;
    let request = UdpRequest { token: peer.token }.encode();
    let began = clock::monotonic();
    let end = began + UDP_SILENCE.max(peer.round_trip * 3);
    for (tried, after) in REQUESTS.iter().enumerate() {
        socket.send(&request)?;
        let next = REQUESTS.get(tried + 1).map_or(end, |&next| began + next.max(*after));
        if let Some(nonce) = hear_nonce(&socket, next)? {
            return Ok((socket, nonce));
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Waits for the nonce until `deadline`; anything else that comes is passed over.
fn hear_nonce(socket: &UdpSocket, deadline: Time) -> io::Result<Option<[u8; 16]>> {
    let mut payload = [0; UdpAnswer::SIZE + 1];
    loop {
        let left = deadline - clock::monotonic();
        if left <= Span::ZERO {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left.max(Span::from_millis(1)).to_duration()))?;
        match socket.recv(&mut payload) {
            Ok(length) => {
                if let Ok(answer) = UdpAnswer::decode(&payload[..length]) {
                    return Ok(Some(answer.nonce));
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}

/// Opens probe connections, all at once; returns those that both sides have, and a warning if some are missing.
pub(crate) fn tcp(
    peer: &mut Peer,
    binding: &Binding,
    request: &OpenRequest,
) -> Result<(Probes, Option<String>), Error> {
    let &OpenRequest { transport: kind, connections: count, needed, first, .. } = request;
    let address = peer.address;
    let token = peer.token;
    let hello = |number: u16| Preamble::Probe { token, index: first.wrapping_add(number) }.encode().to_vec();
    let opened = open_connections(address, binding, count, peer.round_trip, CONNECTIONS_OPEN, hello);
    let opened = opened.map_err(|cause| Error::Transport {
        address,
        cause: transport::Error::Io { operation: "open connections to", peer: address, cause },
    })?;
    let missing = missing(&opened);
    let mut streams: BTreeMap<u16, _> =
        opened.streams.into_iter().map(|(number, stream)| (first.wrapping_add(number), stream)).collect();
    let doing = "opening probe connections";
    let wait = peer.round_trip + HELLOS;
    let expected = streams.len() as u32;
    let question = ClientMessage::AwaitConnections { transport: kind, first, expected, wait };
    let ServerMessage::Connections(numbers) = peer.ask(&question, wait + SERVER, doing)? else {
        return Err(peer.confused(doing));
    };
    let streams: Option<Vec<_>> = numbers.iter().map(|number| streams.remove(number)).collect();
    let streams = streams.ok_or_else(|| peer.confused(doing))?;
    if streams.len() < usize::from(needed) {
        let why = missing.unwrap_or_else(|| "no more were asked for, or they were cut off".to_owned());
        return Err(Error::TooFewConnections { address, opened: streams.len(), asked: count, needed, why });
    }
    let warning = (streams.len() < usize::from(count)).then(|| {
        let why = missing.unwrap_or_else(|| "cut off after opening".to_owned());
        format!("only {} of {count} connections are in use ({why}): several packets travel on each", streams.len())
    });
    let probes = if kind == Transport::Single {
        streams.into_iter().next().map_or(Err(transport::Error::NoConnection(0)), TcpProbes::single)
    } else {
        TcpProbes::rake(streams)
    };
    let probes = Probes::Tcp(probes.map_err(|cause| match cause {
        transport::Error::NoConnection(_) => {
            let why = "all were cut off after opening".to_owned();
            Error::TooFewConnections { address, opened: 0, asked: count, needed, why }
        }
        cause => Error::Transport { address, cause },
    })?);
    Ok((depending(peer, probes)?, warning))
}

/// Probes whose trains end when the server is gone.
fn depending(peer: &Peer, mut probes: Probes) -> Result<Probes, Error> {
    probes.depend_on(peer.lifeline()?);
    Ok(probes)
}

/// What became of the connections that did not open.
fn missing(opened: &Opened) -> Option<String> {
    let mut parts = Vec::new();
    if opened.timed_out > 0 {
        parts.push(format!("{} did not open within {CONNECTIONS_OPEN}", opened.timed_out));
    }
    if opened.refused > 0 {
        let why = opened.refusal.as_ref().map_or_else(|| "refused".to_owned(), ToString::to_string);
        parts.push(format!("{} failed: {why}", opened.refused));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
