use crate::hint::Hint;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;
use train::Transport;
use transport::ControlError;
use units::Span;
use wire::{PreambleError, SessionError};

/// Why a measurement failed: what was tried, on what, and why it failed. [`Error::hint`] says what to try.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The host's name has no address.
    #[error("cannot find the address of {host}: {cause}")]
    Resolve {
        /// As given.
        host: String,
        /// The resolver's answer.
        cause: String,
    },
    /// A link-local address does not say through which interface.
    #[error("cannot use the link-local address {host}: it does not name its interface")]
    NoInterface {
        /// As given.
        host: String,
    },
    /// The host has addresses, but none of the IP version asked for.
    #[error("{host} has no {family} address")]
    Family {
        /// As given.
        host: String,
        /// IPv4 or IPv6.
        family: &'static str,
    },
    /// Sockets can't be bound as asked.
    #[error("cannot send from {binding}: {cause}")]
    Bind {
        /// Source address, interface, mark.
        binding: String,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// No TCP connection.
    #[error("cannot connect to {address}: {cause}")]
    Connect {
        /// The last address tried.
        address: SocketAddr,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// No STAMP reflector.
    #[error("no STAMP reflector answers at {address}: {cause}")]
    NoReflector {
        /// Where it was sought.
        address: SocketAddr,
        /// The system's answer, or silence.
        #[source]
        cause: io::Error,
    },
    /// A connection, but not to a server that accepts this client.
    #[error("cannot open a session with {address}: {cause}")]
    Handshake {
        /// The far end.
        address: SocketAddr,
        /// What is wrong with it.
        #[source]
        cause: SessionError,
    },
    /// A connection, and nothing on it.
    #[error("{address} accepted the connection but did not answer like a kumade server ({cause})")]
    Mute {
        /// The far end.
        address: SocketAddr,
        /// Silent, or closed.
        cause: String,
    },
    /// The connection broke in the middle of the measurement.
    #[error("lost {address} while {doing}: {cause}")]
    Lost {
        /// The far end.
        address: SocketAddr,
        /// What was going on.
        doing: &'static str,
        /// Silent, closed, or damaged.
        cause: String,
    },
    /// The server said no.
    #[error("{address} refused: {reason}")]
    Refused {
        /// The far end.
        address: SocketAddr,
        /// In the server's words.
        reason: String,
    },
    /// The server answered something that was not asked.
    #[error("{address} does not keep to the protocol while {doing}")]
    Protocol {
        /// The far end.
        address: SocketAddr,
        /// What was going on.
        doing: &'static str,
    },
    /// The transport asked for can't be opened.
    #[error("cannot measure over {transport} to {address}: {reason}")]
    TransportUnavailable {
        /// The far end.
        address: SocketAddr,
        /// Which.
        transport: Transport,
        /// Rejected, or silence.
        reason: String,
    },
    /// Too few probe connections opened.
    #[error("only {opened} of {asked} probe connections to {address} opened, at least {needed} are needed: {why}")]
    TooFewConnections {
        /// The far end.
        address: SocketAddr,
        /// In use.
        opened: usize,
        /// Tried.
        asked: u16,
        /// For the packets of one train.
        needed: u16,
        /// What became of the others.
        why: String,
    },
    /// Connections were reset again and again.
    #[error(
        "the probe connections to {address} broke in the middle of a train again and again, though they were replaced \
         {times} times"
    )]
    Disturbed {
        /// The far end.
        address: SocketAddr,
        /// How often new ones were opened.
        times: u32,
    },
    /// The trains could not be carried.
    #[error("cannot send packet trains to {address}: {cause}")]
    Transport {
        /// The far end.
        address: SocketAddr,
        /// Why.
        #[source]
        cause: transport::Error,
    },
    /// The [token](crate::CancelToken) was cancelled.
    #[error("the measurement was cancelled")]
    Cancelled,
    /// The measurement had not ended by its deadline.
    #[error("the measurement had not ended after {deadline}")]
    DeadlineExceeded {
        /// As asked for.
        deadline: Span,
    },
}

impl Error {
    /// What may help.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Error::Resolve { .. } => Some(Hint::CheckName),
            Error::NoInterface { .. } => Some(Hint::NameInterface),
            Error::Family { .. } => Some(Hint::AllowOtherFamily),
            Error::Bind { .. } => Some(Hint::CheckBinding),
            Error::Connect { cause, .. } => connect_hint(cause),
            Error::NoReflector { cause, .. } => Some(reflector_hint(cause)),
            Error::Handshake { cause, .. } => handshake_hint(cause),
            Error::Mute { .. } => Some(Hint::CheckService),
            Error::Lost { .. } => Some(Hint::CheckServerAndPath),
            Error::Protocol { .. } => Some(Hint::UseSameRelease),
            Error::TransportUnavailable { transport: Transport::Udp, .. } => Some(Hint::UseTcp),
            Error::TooFewConnections { .. } => Some(Hint::ConnectionsLimited),
            Error::Disturbed { .. } => Some(Hint::UseFewerConnections),
            Error::Transport { cause, .. } => transport_hint(cause),
            Error::Refused { .. }
            | Error::TransportUnavailable { .. }
            | Error::Cancelled
            | Error::DeadlineExceeded { .. } => None,
        }
    }

    /// A control connection that failed before it was open.
    pub(crate) fn handshake(address: SocketAddr) -> impl FnOnce(ControlError) -> Error {
        move |error| match error {
            ControlError::Session(cause) => Error::Handshake { address, cause },
            other => Error::Mute { address, cause: other.to_string() },
        }
    }

    /// A control connection that failed later.
    pub(crate) fn lost(address: SocketAddr, doing: &'static str) -> impl FnOnce(ControlError) -> Error {
        move |error| Error::Lost { address, doing, cause: error.to_string() }
    }
}

fn connect_hint(cause: &io::Error) -> Option<Hint> {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => Some(Hint::StartServer),
        io::ErrorKind::TimedOut => Some(Hint::CheckAddressAndFirewall),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Hint::CheckRouteAndFirewall),
        _ => None,
    }
}

fn reflector_hint(cause: &io::Error) -> Hint {
    match cause.kind() {
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Hint::CheckRouteAndFirewall,
        io::ErrorKind::ConnectionRefused => Hint::StartReflector,
        _ => Hint::CheckReflectorAndFirewall,
    }
}

fn handshake_hint(cause: &SessionError) -> Option<Hint> {
    match cause {
        SessionError::KeyRequired | SessionError::WrongKey => Some(Hint::GiveKey),
        SessionError::NoKey => Some(Hint::OmitKey),
        SessionError::Preamble(PreambleError::NotKumade) => Some(Hint::CheckService),
        SessionError::Preamble(_) | SessionError::Frame(_) | SessionError::Damaged => Some(Hint::UseSameRelease),
        SessionError::Full => Some(Hint::TryLater),
        SessionError::NotOpen => None,
    }
}

fn transport_hint(cause: &transport::Error) -> Option<Hint> {
    let transport::Error::Io { cause, .. } = cause else { return None };
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => Some(Hint::UseTcp),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Hint::CheckRouteAndFirewall),
        _ => None,
    }
}
