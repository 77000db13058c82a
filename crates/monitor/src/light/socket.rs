//! The socket by which a target is probed: STAMP or ICMP echo.

use super::session::{FarStamps, ProbeSession, StampedReply, Stamps};
use kumade_net::stamp::StampPlace;
use kumade_net::{EchoSocket, SocketBinding, clock, datagram, stamp};
use kumade_units::{Span, Time};
use kumade_wire::stamp::{AUTHENTICATED_PACKET_BYTES, ErrorEstimate, PACKET_BYTES, Probe, Reply, StampKey};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// How a target is probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeKind {
    /// ICMP echo: any host.
    Echo,
    /// STAMP (RFC 8762), with authentication where there is a key.
    Stamp(Option<StampKey>),
}

/// A socket to one address of a target, with the probes that were sent by it.
#[derive(Debug)]
pub(super) struct ProbeSocket {
    kind: SocketKind,
    /// The session's number of the first probe of this socket, from which the kernel counts its stamps.
    first_sequence: u64,
    /// A failed send leaves it open whether the kernel has counted it.
    are_timestamp_ids_valid: bool,
    /// Whether the kernel has told when the last reply came.
    are_replies_stamped: bool,
}

#[derive(Debug)]
enum SocketKind {
    /// With what tells this socket's replies from those to other processes, and from forged ones.
    Echo(EchoSocket, [u8; TOKEN_BYTES]),
    Stamp(UdpSocket, Option<StampKey>),
}

const TOKEN_BYTES: usize = 8;
/// Token and sequence number; with the header, as long as a probe of STAMP.
const ECHO_DATA_BYTES: usize = PACKET_BYTES - 8;
/// Longer than any reply to what is sent here.
const MAX_REPLY_BYTES: usize = 2048;
/// Replies that are read at once: one who sends without end delays no other target's probes.
const MAX_REPLIES_AT_ONCE: usize = 64;
/// Less is not what a clock that is kept by NTP or PTP over a network can know.
const MIN_CLOCK_ERROR: Span = Span::from_micros(1);

impl ProbeSocket {
    /// Connects to an address. `next_sequence` is the number of the next probe of the session.
    pub(super) fn connect(address: SocketAddr, kind: &ProbeKind, next_sequence: u64) -> io::Result<Self> {
        let binding = SocketBinding::default();
        let kind = match kind {
            ProbeKind::Echo => {
                let scope = if let SocketAddr::V6(v6) = address { v6.scope_id() } else { 0 };
                let token = getrandom::u64().map_err(io::Error::other)?.to_be_bytes();
                SocketKind::Echo(EchoSocket::connect(address.ip(), scope, &binding)?, token)
            }
            ProbeKind::Stamp(key) => {
                let socket = datagram::connect(&[address], &binding)?;
                socket.set_nonblocking(true)?;
                SocketKind::Stamp(socket, key.clone())
            }
        };
        let has_stamps = match &kind {
            SocketKind::Stamp(socket, _) => stamp::enable_transmit(socket, false).is_ok(),
            SocketKind::Echo(..) => true,
        };
        Ok(ProbeSocket {
            kind,
            first_sequence: next_sequence,
            are_timestamp_ids_valid: has_stamps,
            are_replies_stamped: false,
        })
    }

    /// Whether replies may wait to be received: the kernel tells when they came. Not known before the first one.
    pub(super) fn are_replies_stamped(&self) -> bool {
        self.are_replies_stamped
    }

    /// Sends the next probe of the session. `clock_error` is that of this host's clock; none where it does not follow UTC.
    pub(super) fn send(&mut self, session: &mut ProbeSession, clock_error: Option<Span>) -> io::Result<()> {
        let sequence = session.next_sequence();
        let (now, user) = (clock::monotonic(), clock::realtime());
        let sent = match &self.kind {
            SocketKind::Echo(socket, token) => {
                let mut data = [0; ECHO_DATA_BYTES];
                data[..TOKEN_BYTES].copy_from_slice(token);
                data[TOKEN_BYTES..TOKEN_BYTES + 8].copy_from_slice(&sequence.to_be_bytes());
                socket.send(sequence as u16, &data)
            }
            SocketKind::Stamp(socket, key) => {
                let estimate = ErrorEstimate::new(clock_error.is_some(), clock_error.unwrap_or(Span::from_secs(1)));
                let probe = Probe { sequence: sequence as u32, sent: user, error_estimate: estimate, session: 0 };
                let mut payload = [0; AUTHENTICATED_PACKET_BYTES];
                let length = match key {
                    Some(key) => {
                        probe.encode_authenticated(&mut payload, key);
                        AUTHENTICATED_PACKET_BYTES
                    }
                    None => {
                        payload.first_chunk_mut().into_iter().for_each(|packet| probe.encode(packet));
                        PACKET_BYTES
                    }
                };
                socket.send(&payload[..length]).map(drop)
            }
        };
        match sent {
            Ok(()) => session.probe_sent(now, user),
            Err(_) => self.are_timestamp_ids_valid = false,
        }
        sent
    }

    /// Takes what has come: stamps of probes that have left, and replies. Errors are those of the path, such as an unreachable port.
    pub(super) fn receive(&mut self, session: &mut ProbeSession, clock_error: Option<Span>) -> io::Result<()> {
        while let Some(stamp) = stamp::next_transmit_stamp(self)? {
            let sequence = self.first_sequence + u64::from(stamp.key);
            if self.are_timestamp_ids_valid && stamp.place == StampPlace::Device {
                session.probe_stamped(sequence, stamp.time);
            }
            // To ask for more takes as long as to get one.
            if sequence + 1 == session.next_sequence() {
                break;
            }
        }
        let mut buffer = [0; MAX_REPLY_BYTES];
        for _ in 0..MAX_REPLIES_AT_ONCE {
            let reply = match self.receive_reply(&mut buffer, session, clock_error) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                reply => reply?,
            };
            if let Some(reply) = reply {
                self.are_replies_stamped = reply.arrived.kernel.is_some();
                session.reply_received(&reply);
                // Others that have come are told of again.
                if !session.is_waiting() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// None where what has come is no reply to a probe of this session.
    fn receive_reply(
        &self,
        buffer: &mut [u8],
        session: &ProbeSession,
        clock_error: Option<Span>,
    ) -> io::Result<Option<StampedReply>> {
        match &self.kind {
            SocketKind::Echo(socket, token) => {
                let reply = socket.receive(buffer)?;
                let arrived = |kernel| Stamps { kernel, user: clock::realtime() };
                Ok(reply.and_then(|reply| {
                    let (own, rest) = reply.data.split_first_chunk::<TOKEN_BYTES>()?;
                    let sequence = u64::from_be_bytes(*rest.first_chunk()?);
                    (own == token).then_some(StampedReply { sequence, arrived: arrived(reply.stamp), far: None })
                }))
            }
            SocketKind::Stamp(socket, key) => {
                let datagram = datagram::receive(socket, buffer)?;
                let payload = &buffer[..datagram.len];
                let reply = match key {
                    Some(key) => Reply::decode_authenticated(payload, key).ok(),
                    None => Reply::decode(payload).ok(),
                };
                let arrived = Stamps { kernel: datagram.stamp, user: clock::realtime() };
                Ok(reply.and_then(|reply| stamped_reply(&reply, arrived, session, clock_error)))
            }
        }
    }
}

impl AsFd for ProbeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            SocketKind::Echo(socket, _) => socket.as_fd(),
            SocketKind::Stamp(socket, _) => socket.as_fd(),
        }
    }
}

/// None where it answers no probe of this session, or is forged: it does not know the probe's stamp.
fn stamped_reply(
    reply: &Reply,
    arrived: Stamps,
    session: &ProbeSession,
    near_error: Option<Span>,
) -> Option<StampedReply> {
    let sequence = whole_sequence(reply.probe_sequence, session.next_sequence());
    // A second reply to a probe has nothing to be compared with any more: it counts as a duplicate, and means nothing else.
    if let Some(sent) = session.sent_stamp(sequence) {
        is_stamp_of(reply, sent).then_some(())?;
    }
    let estimate = reply.error_estimate;
    let far_error = Some(estimate.error()).filter(|error| estimate.synchronised && *error >= MIN_CLOCK_ERROR);
    let clock_error = near_error.zip(far_error).map(|(near, far)| near + far);
    let far =
        Some(FarStamps { number: reply.sequence, received: reply.received, reflected: reply.reflected, clock_error });
    Some(StampedReply { sequence, arrived, far })
}

fn is_stamp_of(reply: &Reply, sent: Time) -> bool {
    reply.probe_timestamp[..8] == ErrorEstimate::new(false, Span::ZERO).format.encode(sent)
}

/// The session's number of which a packet has the lower half: the newest one that has been sent.
fn whole_sequence(lower: u32, next: u64) -> u64 {
    let newest = next.wrapping_sub(1);
    newest.wrapping_sub(u64::from((newest as u32).wrapping_sub(lower)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_half_of_a_number_tells_the_whole() {
        let wrap = 1 << 32;
        assert_eq!(whole_sequence(4, 5), 4);
        assert_eq!(whole_sequence(0, 5), 0);
        assert_eq!(whole_sequence(u32::MAX, wrap + 3), wrap - 1);
        assert_eq!(whole_sequence(1, wrap + 3), wrap + 1);
    }

    /// Who forges the reflector's address does not know the probe's stamp.
    #[test]
    fn a_reply_without_the_probes_stamp_is_forged() {
        let sent = Time::from_nanos(1_800_000_000_000_000_000);
        let mut session = ProbeSession::new(crate::light::ReplyLimits::default());
        session.probe_sent(sent, sent);
        let clock = ErrorEstimate::new(false, Span::ZERO);
        let reply = |probe_timestamp| Reply {
            sequence: 0,
            reflected: sent,
            error_estimate: clock,
            session: 0,
            received: sent,
            probe_sequence: 1,
            probe_timestamp,
            probe_ttl: 255,
        };
        let mut stamp = [0; 10];
        stamp[..8].copy_from_slice(&clock.format.encode(sent));
        let arrived = Stamps::default();
        assert!(stamped_reply(&reply(stamp), arrived, &session, None).is_some());
        stamp[3] ^= 1;
        assert_eq!(stamped_reply(&reply(stamp), arrived, &session, None), None);
    }
}
