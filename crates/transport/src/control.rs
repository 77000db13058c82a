//! A control connection: the sans-I/O session of `wire` over a blocking TCP stream.

use net::{clock, readiness};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use thiserror::Error;
use units::{Span, Time};
use wire::{Message, Session, SessionError};

/// Unacknowledged bytes for this long mean that the peer or the path is gone (`TCP_USER_TIMEOUT`, RFC 5482).
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// A write that the peer does not take for this long is given up.
const WRITE_PATIENCE: Span = Span::from_secs(5);

/// Why a control connection has ended.
#[derive(Debug, Error)]
pub enum ControlError {
    /// By the peer.
    #[error("the peer closed the connection")]
    Closed,
    /// By the peer or the path.
    #[error("the connection was reset, by the peer or by something on the path")]
    Reset,
    /// The peer is silent, or takes nothing.
    #[error("no answer in time")]
    TimedOut,
    /// The system reports something else.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// What came is not what the protocol has.
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
pub struct Control<In, Out> {
    stream: TcpStream,
    session: Session<In, Out>,
    last_heard: Time,
}

impl<In: Message, Out: Message> Control<In, Out> {
    /// Takes over a connected stream and sends what the session begins with.
    ///
    /// # Errors
    /// Where the connection has ended, the peer is silent, or what it sent is not of the protocol.
    pub fn begin(stream: TcpStream, session: Session<In, Out>) -> Result<Self, ControlError> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_PATIENCE.to_duration()))?;
        let options = SockRef::from(&stream);
        options.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
        let keepalive =
            TcpKeepalive::new().with_time(Duration::from_secs(2)).with_interval(Duration::from_secs(1)).with_retries(3);
        options.set_tcp_keepalive(&keepalive)?;
        let mut control = Control { stream, session, last_heard: clock::monotonic() };
        control.flush()?;
        Ok(control)
    }

    /// The connection, to be waited for together with others.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// When the peer last sent anything, on [`clock::monotonic`].
    pub fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// Counts the peer as heard of just now.
    pub fn touch(&mut self) {
        self.last_heard = clock::monotonic();
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Where the connection has ended, the peer is silent, or what it sent is not of the protocol.
    pub fn send(&mut self, message: &Out) -> Result<(), ControlError> {
        self.session.send(message)?;
        self.flush()
    }

    /// The next message, waited for until `deadline`; what is there already is read even when that has passed.
    ///
    /// # Errors
    /// Where the connection has ended, the peer is silent, or what it sent is not of the protocol.
    pub fn receive(&mut self, deadline: Time) -> Result<In, ControlError> {
        let mut late = false;
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            // A peer that sends on and on without an end must not keep us.
            if late || !readiness::readable(&self.stream, deadline)? {
                return Err(ControlError::TimedOut);
            }
            self.read_once()?;
            late = clock::monotonic() > deadline;
        }
    }

    /// Reads what is there, once; the stream must be readable.
    ///
    /// # Errors
    /// Where the connection has ended, the peer is silent, or what it sent is not of the protocol.
    pub fn read_once(&mut self) -> Result<(), ControlError> {
        let mut buffer = [0; 16 << 10];
        match (&self.stream).read(&mut buffer)? {
            0 => Err(ControlError::Closed),
            count => {
                self.last_heard = clock::monotonic();
                self.session.feed(&buffer[..count]);
                Ok(())
            }
        }
    }

    /// A message that has been read already.
    ///
    /// # Errors
    /// Where the connection has ended, the peer is silent, or what it sent is not of the protocol.
    pub fn try_receive(&mut self) -> Result<Option<In>, ControlError> {
        let result = self.session.receive();
        // A handshake answers by itself, and a refused one says why.
        self.flush()?;
        Ok(result?)
    }

    /// Waits until the session is open.
    ///
    /// # Errors
    /// Where the connection has ended, the peer is silent, or what it sent is not of the protocol.
    pub fn open(&mut self, deadline: Time) -> Result<(), ControlError> {
        while !self.session.is_open() {
            if !readiness::readable(&self.stream, deadline)? {
                return Err(ControlError::TimedOut);
            }
            self.read_once()?;
            // Whoever is welcome says nothing before the other has answered.
            if self.try_receive()?.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ControlError> {
        let bytes = self.session.take_outgoing();
        let mut left = &bytes[..];
        // A peer that takes a byte now and then must not hold us for long either.
        let deadline = within(WRITE_PATIENCE);
        while !left.is_empty() {
            match (&self.stream).write(left) {
                Ok(count) if clock::monotonic() < deadline => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => return Err(ControlError::TimedOut),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The instant `span` from now.
pub fn within(span: Span) -> Time {
    clock::monotonic() + span
}
