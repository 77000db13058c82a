//! The control connection to the server: connecting, requests, round-trip time.

use crate::cancel::{StopCondition, WatchedConnection};
use crate::config::MeasureConfig;
use crate::error::Error;
use crate::family::Family;
use crate::queue_watch::{QueueAction, QueueWatch};
use kumade_measurement::{Coalescing, Event};
use kumade_net::platform::tcp;
use kumade_net::{SocketBinding, clock, coalescing};
use kumade_probe_train::{ClockError, Train};
use kumade_transport::{ControlConnection, ControlError, ControlWatch, deadline_after};
use kumade_units::{Rate, Span, Time};
use kumade_wire::{ClientMessage, ClientSession, Credential, Limits, PathView, ServerMessage, Version};
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Timeout from the start until the session is open, beyond what a long path takes.
const TOTAL_TIMEOUT: Span = Span::from_millis(9500);
/// Timeout of the connection, for all addresses together.
const CONNECT_TIMEOUT: Span = Span::from_secs(4);
/// Timeout of the server's first message, beyond what a long path takes. So are all that follow.
const WELCOME_TIMEOUT: Span = Span::from_secs(4);
/// Timeout of the answer to [`ClientMessage::AskClock`].
const CLOCK_TIMEOUT: Span = Span::from_secs(3);
/// Timeout of the answer to a ping.
const PING_TIMEOUT: Span = Span::from_secs(4);
/// Round-trip times that are measured on the control connection.
const PING_COUNT: usize = 3;
/// Margin of a round-trip time on a path whose queues have drained.
const DRAINED_QUEUE_MARGIN: Span = Span::from_millis(5);
/// A path whose queues have not drained by then carries cross traffic.
const DRAIN_TIMEOUT: Span = Span::from_secs(2);
/// Maximum number of characters of a server's reason that are shown.
const MAX_REASON_CHARS: usize = 200;

/// An open control connection.
pub(crate) struct ServerConnection {
    pub(crate) address: SocketAddr,
    /// What its probe connections and UDP packets show.
    pub(crate) credential: Credential,
    pub(crate) limits: Limits,
    /// Minimum of a few round-trip times.
    pub(crate) round_trip: Span,
    /// Whether segments of the control connection have time stamps (RFC 7323), once the far end has said so.
    pub(crate) has_timestamps: Option<bool>,
    /// The highest rate at which a train has arrived at the server.
    pub(crate) max_upstream_rate: Option<Rate>,
    control: ControlConnection<ServerMessage, ClientMessage>,
    limit: StopCondition,
    /// Ends the connection when the measurement is cancelled.
    _watched: WatchedConnection,
}

impl ServerConnection {
    /// Connects to one of the host's addresses, performs the handshake, and measures the round-trip time.
    pub(crate) fn connect(
        config: &MeasureConfig,
        addresses: &[SocketAddr],
        limit: &StopCondition,
    ) -> Result<Self, Error> {
        let end = limit.cap_at_deadline(deadline_after(TOTAL_TIMEOUT));
        let (control, address, watched, welcome) = match open_session(config, addresses, Version::NEWEST, end, limit) {
            Err(error) => {
                let older = error.older_server_version(Version::NEWEST).ok_or(error)?;
                open_session(config, addresses, older, end, limit)?
            }
            opened => opened?,
        };
        let ServerMessage::Welcome { token, limits } = welcome else {
            return Err(Error::ProtocolViolation { address, doing: "connecting" });
        };
        let limit = limit.clone();
        let credential = control.credential(token);
        let mut peer = ServerConnection {
            address,
            credential,
            limits,
            round_trip: Span::MAX,
            has_timestamps: None,
            max_upstream_rate: None,
            control,
            limit,
            _watched: watched,
        };
        for _ in 0..PING_COUNT {
            peer.round_trip = peer.round_trip.min(peer.ping()?);
        }
        Ok(peer)
    }

    /// The version that both ends speak.
    pub(crate) fn version(&self) -> Version {
        self.control.version()
    }

    /// Whether the far end knows of this.
    ///
    /// # Errors
    /// Why not, for people.
    pub(crate) fn require_version(&self, needed: Version, what: &str) -> Result<(), String> {
        let theirs = self.version();
        if theirs >= needed {
            return Ok(());
        }
        Err(format!("the far end speaks version {theirs} of the protocol, and {what} came with version {needed}"))
    }

    /// Size in bytes of the largest packet of a train: larger than Ethernet's if the server knows such, and if the interfaces of both
    /// ends take them, as the size of TCP's segments shows.
    pub(crate) fn max_packet(&self) -> u32 {
        let segment =
            tcp::segment_sizes(self.control.stream()).map_or(0, |sizes| sizes.header_bytes + sizes.max_payload_bytes);
        if self.version() < Version::JUMBO {
            return Train::MAX_ETHERNET_PACKET_BYTES;
        }
        segment.clamp(Train::MAX_ETHERNET_PACKET_BYTES, Train::MAX_PACKET_BYTES)
    }

    /// How the interface that the control connection is on coalesces receive interrupts, which that of the trains is as well.
    pub(crate) fn coalescing(&self) -> Option<Coalescing> {
        let address = self.control.stream().local_addr().ok()?.ip();
        let interface = coalescing::interface_with_address(address)?;
        let found = coalescing::InterruptCoalescing::of_interface(&interface).unwrap_or_else(|error| {
            tracing::debug!("{error}");
            None
        })?;
        Some(Coalescing { interface, delay: found.max_delay })
    }

    /// Queues for a turn and waits until it begins, for `wait` at most.
    pub(crate) fn wait_for_turn(&mut self, wait: Span, on_event: &mut dyn FnMut(&Event)) -> Result<(), Error> {
        let doing = "waiting for a turn";
        self.send(&ClientMessage::EnterQueue, doing)?;
        let mut queue = QueueWatch::new(clock::monotonic(), wait);
        loop {
            let address = self.address;
            let heard = match queue.next(clock::monotonic()) {
                QueueAction::Ping => self.send(&ClientMessage::Ping, doing).map(|()| None)?,
                QueueAction::Pause(until) => self.limit.sleep_until(until).map(|()| None)?,
                QueueAction::Receive(until) => self.receive_or_timeout(until, doing)?,
                QueueAction::ServerSilent => {
                    return Err(Error::connection_lost(address, doing)(ControlError::TimedOut));
                }
                QueueAction::WaitExpired => return Err(Error::WaitExceeded { address, wait }),
            };
            let ahead = match heard {
                None => continue,
                Some(ServerMessage::TurnBegins) => return Ok(()),
                Some(ServerMessage::QueuePosition(ahead)) => Some(ahead),
                Some(ServerMessage::Pong) => None,
                Some(_) => return Err(self.protocol_violation(doing)),
            };
            if let (true, Some(ahead)) = (queue.record_message(ahead, clock::monotonic()), ahead) {
                on_event(&Event::Waiting { ahead });
            }
        }
    }

    /// The maximum error of the server's clock, and what the server sees of the session's packets, as far as it says so: both in one round
    /// trip.
    pub(crate) fn clock_error_and_path(&mut self) -> Result<(Option<ClockError>, Option<PathView>), Error> {
        let doing = "asking for the server's clock";
        self.send(&ClientMessage::AskClock, doing)?;
        let is_asked = self.ask_path_view(doing)?;
        let ServerMessage::Clock { maximum_error } = self.receive(self.answer_deadline(CLOCK_TIMEOUT), doing)? else {
            return Err(self.protocol_violation(doing));
        };
        let view = if is_asked { Some(self.receive_path_view(CLOCK_TIMEOUT, doing)?) } else { None };
        let far = view.as_ref().and_then(|view| view.tcp.as_ref());
        self.has_timestamps = far.map(|view| view.endpoint.options & tcp::TIMESTAMPS_OPTION != 0);
        Ok((maximum_error.map(ClockError::within_error), view))
    }

    /// Asks what the server sees of the session's packets; false where it is too old to say.
    pub(crate) fn ask_path_view(&mut self, doing: &'static str) -> Result<bool, Error> {
        let is_known = self.version() >= Version::PATH;
        if is_known {
            self.send(&ClientMessage::AskPathView { destination: self.address }, doing)?;
        }
        Ok(is_known)
    }

    /// The answer to that.
    pub(crate) fn receive_path_view(&mut self, timeout: Span, doing: &'static str) -> Result<PathView, Error> {
        match self.receive(self.answer_deadline(timeout), doing)? {
            ServerMessage::PathView(view) => Ok(*view),
            _ => Err(self.protocol_violation(doing)),
        }
    }

    /// The connection itself.
    pub(crate) fn control_stream(&self) -> &TcpStream {
        self.control.stream()
    }

    /// Makes trains end early when the control connection does, or at the deadline.
    pub(crate) fn control_watch(&self) -> Result<ControlWatch, Error> {
        let address = self.address;
        let control = ControlWatch::from_stream(self.control.stream());
        control.map(|control| control.with_deadline(self.limit.deadline())).map_err(|cause| {
            let cause =
                kumade_transport::Error::Io { operation: "watch the control connection to", peer: address, cause };
            Error::Transport { address, cause }
        })
    }

    /// Ends the turn; the session goes on.
    pub(crate) fn end_turn(&mut self, doing: &'static str) -> Result<(), Error> {
        self.send(&ClientMessage::EndTurn, doing)
    }

    /// Ends the turn. Errors don't matter any more.
    pub(crate) fn leave(mut self) {
        let _ = self.control.send(&ClientMessage::EndTurn);
    }

    /// Sends a message and waits for the answer.
    pub(crate) fn request(
        &mut self,
        message: &ClientMessage,
        timeout: Span,
        doing: &'static str,
    ) -> Result<ServerMessage, Error> {
        self.send(message, doing)?;
        self.receive(self.answer_deadline(timeout), doing)
    }

    /// The time `span` from now, and later on a path whose round trip is long: its handshake has shown how long it is, and all
    /// that went over the connection since (RFC 6298).
    pub(crate) fn answer_deadline(&self, span: Span) -> Time {
        deadline_after(span + self.control.timeout_allowance())
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &ClientMessage, doing: &'static str) -> Result<(), Error> {
        let Err(error) = self.control.send(message) else { return Ok(()) };
        // A server that refuses sends the reason before it closes the connection.
        if let Ok(ServerMessage::Refused(reason)) = self.control.receive(clock::monotonic()) {
            return Err(Error::Refused { address: self.address, reason: to_printable(&reason) });
        }
        Err(Error::connection_lost(self.address, doing)(error))
    }

    /// The next message. Answers to keepalive pings are skipped.
    pub(crate) fn receive(&mut self, deadline: Time, doing: &'static str) -> Result<ServerMessage, Error> {
        let timed_out = Error::connection_lost(self.address, doing);
        loop {
            match self.receive_or_timeout(deadline, doing)? {
                Some(ServerMessage::Pong) if clock::monotonic() <= deadline => {}
                None | Some(ServerMessage::Pong) => return Err(timed_out(ControlError::TimedOut)),
                Some(message) => return Ok(message),
            }
        }
    }

    /// The next message, whatever it is but a refusal; none at the deadline.
    pub(crate) fn receive_or_timeout(
        &mut self,
        deadline: Time,
        doing: &'static str,
    ) -> Result<Option<ServerMessage>, Error> {
        match self.control.receive(self.limit.cap_at_deadline(deadline)) {
            Ok(ServerMessage::Refused(reason)) => {
                Err(Error::Refused { address: self.address, reason: to_printable(&reason) })
            }
            Ok(message) => Ok(Some(message)),
            Err(ControlError::TimedOut) => self.limit.check().map(|()| None),
            Err(error) => Err(Error::connection_lost(self.address, doing)(error)),
        }
    }

    /// Waits until the queues on the path have drained, which on a slow path can take seconds: until the round-trip time is
    /// close to its minimum.
    pub(crate) fn wait_for_drain(&mut self) -> Result<(), Error> {
        let end = deadline_after(DRAIN_TIMEOUT);
        let drained = self.round_trip * 2 + DRAINED_QUEUE_MARGIN;
        while clock::monotonic() < end && self.ping()? > drained {}
        Ok(())
    }

    /// Allows for a long queue on the path, or no longer.
    pub(crate) fn set_path_loaded(&mut self, is_loaded: bool, doing: &'static str) -> Result<(), Error> {
        self.control.set_path_loaded(is_loaded).map_err(Error::connection_lost(self.address, doing))
    }

    /// One round trip of the control connection.
    fn ping(&mut self) -> Result<Span, Error> {
        let doing = "measuring the round-trip time";
        let asked = clock::monotonic();
        self.send(&ClientMessage::Ping, doing)?;
        match self.receive_or_timeout(self.answer_deadline(PING_TIMEOUT), doing)? {
            Some(ServerMessage::Pong) => Ok(clock::monotonic() - asked),
            Some(_) => Err(self.protocol_violation(doing)),
            None => Err(Error::connection_lost(self.address, doing)(ControlError::TimedOut)),
        }
    }

    /// What the server says, for a terminal.
    pub(crate) fn printable(&self, text: &str) -> String {
        to_printable(text)
    }

    /// The error for an unexpected message.
    pub(crate) fn protocol_violation(&self, doing: &'static str) -> Error {
        Error::ProtocolViolation { address: self.address, doing }
    }
}

type OpenedSession = (ControlConnection<ServerMessage, ClientMessage>, SocketAddr, WatchedConnection, ServerMessage);

/// A session of this version, and the server's first message.
fn open_session(
    config: &MeasureConfig,
    addresses: &[SocketAddr],
    version: Version,
    end: Time,
    limit: &StopCondition,
) -> Result<OpenedSession, Error> {
    let stream = connect_any(addresses, &config.binding, end.min(deadline_after(CONNECT_TIMEOUT)), limit)?;
    let address = stream.peer_addr().map_err(|cause| Error::Connect { address: ([0, 0, 0, 0], 0).into(), cause })?;
    let watched = limit.watch(&stream).map_err(|cause| Error::Connect { address, cause })?;
    let handshake = || {
        let mut control = ControlConnection::begin(stream, ClientSession::client(config.key.as_ref(), version))?;
        let allowance = control.timeout_allowance();
        let welcome = control.receive((end + allowance).min(deadline_after(WELCOME_TIMEOUT + allowance)))?;
        Ok((control, welcome))
    };
    let (control, welcome) = handshake().map_err(Error::handshake(address))?;
    Ok((control, address, watched, welcome))
}

/// The server's reason without control characters, for a terminal.
fn to_printable(reason: &str) -> String {
    reason.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_REASON_CHARS).collect()
}

/// The family of the source address, unless another is configured.
pub(crate) fn effective_family(config: &MeasureConfig) -> Family {
    match (config.family, config.binding.source) {
        (Family::Any, Some(source)) if source.is_ipv4() => Family::V4,
        (Family::Any, Some(_)) => Family::V6,
        (family, _) => family,
    }
}

/// Tries one address after the other, each with an equal share of the remaining time.
fn connect_any(
    addresses: &[SocketAddr],
    binding: &SocketBinding,
    deadline: Time,
    limit: &StopCondition,
) -> Result<TcpStream, Error> {
    let mut failure = None;
    for (tried, &address) in addresses.iter().enumerate() {
        let left = (deadline - clock::monotonic()) / (addresses.len() - tried) as i64;
        match connect_one(address, binding, deadline_after(left.max(Span::from_millis(100))), limit)? {
            Ok(stream) => return Ok(stream),
            Err(cause) => failure = Some(Error::Connect { address, cause }),
        }
    }
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
    Err(failure.unwrap_or(Error::Connect { address: unspecified, cause: io::ErrorKind::AddrNotAvailable.into() }))
}

/// Connects to one address, with regular checks of the limit.
fn connect_one(
    address: SocketAddr,
    binding: &SocketBinding,
    end: Time,
    limit: &StopCondition,
) -> Result<io::Result<TcpStream>, Error> {
    let bound = |cause| Error::Bind { binding: binding.to_string(), cause };
    let mut connecting = tcp::PendingConnection::begin(address, binding).map_err(bound)?;
    loop {
        limit.check()?;
        let look = end.min(deadline_after(StopCondition::CHECK_INTERVAL));
        match connecting.wait(look) {
            Ok(Some(stream)) => return Ok(Ok(stream)),
            Ok(None) if clock::monotonic() >= end => return Ok(Err(io::ErrorKind::TimedOut.into())),
            Ok(None) => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;
    use kumade_wire::{Preamble, ServerSession, Token};
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_path_has_settled_once_a_round_trip_is_short_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            (&stream).read_exact(&mut [0; Preamble::SIZE]).unwrap();
            let mut control = ControlConnection::begin(stream, ServerSession::server(None, Version::NEWEST)).unwrap();
            let limits = Limits { connections: 1, bytes: 1, packets: 1, turn: Span::from_secs(1) };
            control.send(&ServerMessage::Welcome { token: Token([0; 16]), limits }).unwrap();
            let mut answered = 0;
            while control.receive(deadline_after(Span::from_secs(20))).is_ok() {
                // Two of them wait in a queue.
                if (PING_COUNT..PING_COUNT + 2).contains(&answered) {
                    thread::sleep(Duration::from_millis(100));
                }
                control.send(&ServerMessage::Pong).unwrap();
                answered += 1;
            }
            answered
        });
        let mut peer = ServerConnection::connect(
            &MeasureConfig::new("127.0.0.1", port),
            &[([127, 0, 0, 1], port).into()],
            &StopCondition::new(&CancelToken::default(), None),
        )
        .unwrap();
        peer.wait_for_drain().unwrap();
        drop(peer);
        assert!(server.join().unwrap() >= PING_COUNT + 3);
    }

    #[test]
    fn a_servers_words_cannot_command_the_terminal() {
        assert_eq!(to_printable("no\u{1b}[2J\nmore"), "no [2J more");
        assert_eq!(to_printable(&"x".repeat(1000)).len(), MAX_REASON_CHARS);
    }
}
