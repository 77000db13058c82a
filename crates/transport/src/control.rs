//! A control connection: the sans-I/O session of `wire` over a blocking TCP stream.

use kumade_net::clock;
use kumade_net::platform::{readiness, tcp};
use kumade_units::{Span, Time};
use kumade_wire::{Credential, Message, Session, SessionError, Token, Version};
use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Duration;
use thiserror::Error;

/// Maximum time that sent data may remain unacknowledged (`TCP_USER_TIMEOUT`, RFC 5482), on paths whose round trip is short.
const USER_TIMEOUT: Span = Span::from_secs(5);
/// The same while transfers fill the path, whose queue may take so long.
const LOADED_USER_TIMEOUT: Span = Span::from_secs(30);
/// Timeout of a write to a peer that does not read, likewise.
const WRITE_TIMEOUT: Span = Span::from_secs(5);
/// What takes longer than a fixed time on long or slow paths gets so many times what its connection's retransmission timeout exceeds the
/// usual by: a question, its answer, and one of them repeated.
const ALLOWED_RETRANSMISSION_TIMEOUTS: i64 = 3;
/// That of a path of which nothing is known (RFC 6298 §2.1): fixed times allow for it.
const USUAL_RETRANSMISSION_TIMEOUT: Span = Span::from_secs(1);
/// Bounds that: a path with a longer queue is of no use.
const MAX_ALLOWANCE: Span = Span::from_secs(30);

/// Why a control connection failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer or a middlebox reset it.
    #[error("the connection was reset by the peer or by a middlebox")]
    Reset,
    /// The peer sends nothing, or does not read.
    #[error("no answer in time")]
    TimedOut,
    /// Any other error of the system.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// Received data violates the protocol.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl From<io::Error> for ControlError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::TimedOut,
            io::ErrorKind::ConnectionReset => ControlError::Reset,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => ControlError::Closed,
            _ => ControlError::Io(error),
        }
    }
}

/// One end of a control connection.
pub struct ControlConnection<In, Out> {
    stream: TcpStream,
    session: Session<In, Out>,
    last_received: Time,
    is_path_loaded: bool,
    /// As it is set.
    user_timeout: Span,
}

impl<In: Message, Out: Message> ControlConnection<In, Out> {
    /// Takes over a connected stream and sends the session's first data.
    ///
    /// # Errors
    /// If the connection has failed, an option can't be set, or the peer does not read in time.
    pub fn begin(stream: TcpStream, session: Session<In, Out>) -> Result<Self, ControlError> {
        let mut control = Self::resume(stream, session)?;
        control.flush()?;
        Ok(control)
    }

    /// Takes over a connected stream whose session has begun.
    ///
    /// # Errors
    /// If an option can't be set.
    pub fn resume(stream: TcpStream, session: Session<In, Out>) -> Result<Self, ControlError> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        tcp::set_keepalive(&stream, Duration::from_secs(2), Duration::from_secs(1), 3)?;
        let (last_received, is_path_loaded, user_timeout) = (clock::monotonic(), false, Span::ZERO);
        let mut control = ControlConnection { stream, session, last_received, is_path_loaded, user_timeout };
        control.update_user_timeout()?;
        Ok(control)
    }

    /// What is to be added to the time in which an answer is expected: nothing on most paths, but seconds where the round trip has been
    /// seen to take as long.
    pub fn timeout_allowance(&self) -> Span {
        let timeout = tcp::retransmission_timeout(&self.stream).unwrap_or(Span::ZERO);
        allowance_beyond_usual(timeout)
    }

    /// Has the system wait for acknowledgements as long as the path, as it is now, makes it necessary.
    fn update_user_timeout(&mut self) -> Result<(), ControlError> {
        let least = if self.is_path_loaded { LOADED_USER_TIMEOUT } else { USER_TIMEOUT };
        let timeout = least.max(self.timeout_allowance());
        if timeout != self.user_timeout {
            tcp::set_user_timeout(&self.stream, timeout)?;
            self.stream.set_write_timeout(Some(WRITE_TIMEOUT.max(timeout).to_duration()))?;
            self.user_timeout = timeout;
        }
        Ok(())
    }

    /// The connection, for polling.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The version that both ends speak.
    pub fn version(&self) -> Version {
        self.session.version()
    }

    /// What connections and packets of this session show, whose server has told this token.
    pub fn credential(&self, token: Token) -> Credential {
        self.session.credential(token)
    }

    /// When data was last received, on [`clock::monotonic`].
    pub fn last_received(&self) -> Time {
        self.last_received
    }

    /// Treats the peer as active now, without received data.
    pub fn mark_active(&mut self) {
        self.last_received = clock::monotonic();
    }

    /// Allows for a long queue on the path, or no longer.
    ///
    /// # Errors
    /// If the option can't be set.
    pub fn set_path_loaded(&mut self, is_loaded: bool) -> Result<(), ControlError> {
        self.is_path_loaded = is_loaded;
        self.update_user_timeout()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the connection has failed, the peer does not read in time, or the handshake is not complete.
    pub fn send(&mut self, message: &Out) -> Result<(), ControlError> {
        self.session.send(message)?;
        self.flush()
    }

    /// The next message, waited for until `deadline`. Data that has arrived is read even if the deadline has passed.
    ///
    /// # Errors
    /// [`ControlError::TimedOut`] at the deadline; and if the connection has failed or received data violates the protocol.
    pub fn receive(&mut self, deadline: Time) -> Result<In, ControlError> {
        let mut late = false;
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            // Bounded, even if the peer sends continuously without completing a message.
            if late || !readiness::wait_readable(&self.stream, deadline)? {
                return Err(ControlError::TimedOut);
            }
            self.read_once()?;
            late = clock::monotonic() > deadline;
        }
    }

    /// Reads available data once; the stream must be readable.
    ///
    /// # Errors
    /// If the connection has failed or the peer has closed it.
    pub fn read_once(&mut self) -> Result<(), ControlError> {
        let mut buffer = [0; 16 << 10];
        match (&self.stream).read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
            Ok(0) => Err(ControlError::Closed),
            Ok(count) => {
                self.last_received = clock::monotonic();
                self.session.feed(&buffer[..count]);
                self.update_user_timeout()
            }
        }
    }

    /// A message that has been read already.
    ///
    /// # Errors
    /// If received data violates the protocol, or an answer of the handshake can't be sent.
    pub fn try_receive(&mut self) -> Result<Option<In>, ControlError> {
        let result = self.session.receive();
        // The handshake sends answers by itself, and the reason when it refuses the peer.
        self.flush()?;
        Ok(result?)
    }

    fn flush(&mut self) -> Result<(), ControlError> {
        let bytes = self.session.take_outgoing();
        let mut left = &bytes[..];
        // Bounded as a whole, even if the peer reads a few bytes now and then.
        let deadline = deadline_after(WRITE_TIMEOUT + self.timeout_allowance());
        while !left.is_empty() {
            match tcp::write_short_segment(&self.stream, left) {
                Ok(count) if clock::monotonic() < deadline => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => return Err(ControlError::TimedOut),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn allowance_beyond_usual(retransmission_timeout: Span) -> Span {
    let excess = (retransmission_timeout - USUAL_RETRANSMISSION_TIMEOUT).max(Span::ZERO);
    (excess * ALLOWED_RETRANSMISSION_TIMEOUTS).min(MAX_ALLOWANCE)
}

/// The time `span` from now, on [`clock::monotonic`].
pub fn deadline_after(span: Span) -> Time {
    clock::monotonic() + span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_allowed_more_time_within_bounds() {
        // Round trip of 100 ms; 2 s, first and later; and what is no path any more.
        for (timeout_millis, allowance_millis) in [(300, 0), (1000, 0), (6000, 15_000), (2200, 3600), (120_000, 30_000)]
        {
            let allowance = allowance_beyond_usual(Span::from_millis(timeout_millis));
            assert_eq!(allowance, Span::from_millis(allowance_millis));
        }
    }
}
