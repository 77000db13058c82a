//! Requests for UDP: the server answers each socket with a nonce, which proves that this host receives there.

use crate::port_probe::MAX_TAKEN_AT_ONCE;
use crate::server_connection::ServerConnection;
use kumade_net::platform::{datagram, readiness};
use kumade_net::{SocketBinding, clock};
use kumade_units::{Span, Time};
use kumade_wire::{CredentialBearer, UdpAnswer, UdpRequest};
use std::io;
use std::net::UdpSocket;

/// Times at which requests are sent, from the first, or one and a half round trips after the one before if that is longer: an answer that is a little
/// late is not to be asked for again.
const REQUEST_OFFSETS: [Span; 4] = [Span::ZERO, Span::from_millis(60), Span::from_millis(150), Span::from_millis(300)];
/// UDP is taken to be dropped without an answer for this long, or for three round trips if that is longer.
const TIMEOUT: Span = Span::from_millis(600);
const TIMEOUT_ROUND_TRIPS: i64 = 3;

/// The server's answer to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UdpNonce {
    pub(crate) nonce: [u8; 16],
    /// TTL or hop limit with which it arrived, where the socket reports marks.
    pub(crate) arrived_hop_limit: Option<u8>,
    /// When the last request was sent.
    pub(crate) requested: Time,
}

/// A socket for one more flow to the server, which does not block; none where the system gives none.
pub(crate) fn open_flow(peer: &ServerConnection, binding: &SocketBinding) -> Option<UdpSocket> {
    let socket = binding.connect_udp(peer.address);
    let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket.inspect_err(|error| tracing::debug!("a further flow by UDP: {error}")).ok()
}

/// Asks by one socket.
///
/// # Errors
/// As [`request_nonces`].
pub(crate) fn request_nonce(peer: &ServerConnection, socket: &UdpSocket) -> io::Result<UdpNonce> {
    request_nonces(peer, &[socket]).pop().unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
}

/// Asks by all of these sockets at once, connected or not, until each is answered, or the time is over: one packet each way, where none is lost.
///
/// # Errors
/// Each by itself: [`io::ErrorKind::TimedOut`] where no answer comes; else what the socket reports, such as that the packet was rejected.
pub(crate) fn request_nonces(peer: &ServerConnection, sockets: &[&UdpSocket]) -> Vec<io::Result<UdpNonce>> {
    let authenticator = peer.credential.authenticator_for(CredentialBearer::UdpRequest);
    let request = UdpRequest { authenticator }.encode(peer.version());
    let began = clock::monotonic();
    let end = began + TIMEOUT.max(peer.round_trip * TIMEOUT_ROUND_TRIPS);
    let mut outcomes: Vec<Option<io::Result<UdpNonce>>> = sockets.iter().map(|_| None).collect();
    for number in 1..=REQUEST_OFFSETS.len() {
        let requested = clock::monotonic();
        let mut waiting: Vec<_> = sockets.iter().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_none()).collect();
        for (socket, outcome) in &mut waiting {
            **outcome = socket.send_to(&request, peer.address).err().map(Err);
        }
        let round_trips = peer.round_trip * (3 * number as i64) / 2;
        let next = REQUEST_OFFSETS.get(number).map_or(end, |offset| (began + round_trips.max(*offset)).min(end));
        for (socket, outcome) in waiting.into_iter().filter(|(_, outcome)| outcome.is_none()) {
            *outcome = receive_nonce(socket, next, requested).transpose();
        }
        if outcomes.iter().all(Option::is_some) {
            break;
        }
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))).collect()
}

/// Waits for the nonce until `deadline`; ignores everything else. What has come by then is read, also if that is over already, but no
/// more than [`MAX_TAKEN_AT_ONCE`] packets of it: there may be a stream of them.
fn receive_nonce(socket: &UdpSocket, deadline: Time, requested: Time) -> io::Result<Option<UdpNonce>> {
    let mut payload = [0; UdpAnswer::SIZE + 1];
    let mut taken_late = 0;
    while taken_late < MAX_TAKEN_AT_ONCE {
        taken_late += usize::from(clock::monotonic() >= deadline);
        match datagram::receive(socket, &mut payload) {
            Ok(received) => {
                if let Ok(answer) = UdpAnswer::decode(&payload[..received.len]) {
                    let (nonce, arrived_hop_limit) = (answer.nonce, received.ttl);
                    return Ok(Some(UdpNonce { nonce, arrived_hop_limit, requested }));
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock if readiness::wait_readable(socket, deadline)? => {}
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_wire::Version;

    #[test]
    fn what_has_come_by_the_deadline_is_read_and_a_stream_of_packets_ends_the_wait() {
        for (others, expected) in [(0, true), (MAX_TAKEN_AT_ONCE - 1, true), (MAX_TAKEN_AT_ONCE, false)] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            for _ in 0..others {
                socket.send_to(b"something else", address).unwrap();
            }
            socket.send_to(&UdpAnswer { nonce: [7; 16] }.encode(Version::NEWEST), address).unwrap();
            let received = receive_nonce(&socket, Time::ZERO, Time::ZERO).unwrap();
            assert_eq!(received.map(|answer| answer.nonce), expected.then_some([7; 16]), "behind {others}");
        }
    }
}
