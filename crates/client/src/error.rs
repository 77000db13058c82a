use crate::hint::Hint;
use kumade_net::ScopedAddress;
use kumade_probe_train::Transport;
use kumade_transport::ControlError;
use kumade_units::Span;
use kumade_wire::{PreambleError, SessionError, Version};
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why a measurement failed: the operation, its object, and the cause. [`Error::hint`] says what to try.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The host name can't be resolved.
    #[error("cannot resolve {host}: {cause}")]
    ResolutionFailed {
        /// As given.
        host: String,
        /// The resolver's answer.
        cause: String,
    },
    /// A link-local address without an interface (zone).
    #[error("cannot use the link-local address {host}: it has no interface")]
    NoInterface {
        /// As given.
        host: String,
    },
    /// The host has addresses, but none of the requested IP version.
    #[error("{host} has no {family} address")]
    NoAddressOfFamily {
        /// As given.
        host: String,
        /// IPv4 or IPv6.
        family: &'static str,
    },
    /// A socket can't be bound as configured.
    #[error("cannot send from {binding}: {cause}")]
    Bind {
        /// Source address, interface, mark.
        binding: String,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// The TCP connection can't be established.
    #[error("cannot connect to {address}: {cause}")]
    Connect {
        /// The last address tried.
        address: SocketAddr,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// No STAMP reflector answers.
    #[error("no STAMP reflector answers at {address}: {cause}")]
    NoReflector {
        /// Its supposed address.
        address: SocketAddr,
        /// The system's error, or a timeout.
        #[source]
        cause: io::Error,
    },
    /// The connection is established, but the handshake failed.
    #[error("cannot open a session with {address}: {cause}")]
    Handshake {
        /// The far end.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: SessionError,
    },
    /// The connection is established, but the peer does not answer.
    #[error("{address} accepted the connection but did not answer as a kumade server does ({cause})")]
    NoAnswer {
        /// The far end.
        address: SocketAddr,
        /// Timeout, or connection closed.
        cause: String,
    },
    /// The control connection broke during the measurement.
    #[error("lost the connection to {address} while {doing}: {cause}")]
    ConnectionLost {
        /// The far end.
        address: SocketAddr,
        /// The operation.
        doing: &'static str,
        /// Timeout, connection closed, or invalid data.
        cause: String,
    },
    /// The server refused the request.
    #[error("{address} refused the measurement: {reason}")]
    Refused {
        /// The far end.
        address: SocketAddr,
        /// As the server states it.
        reason: String,
    },
    /// The server let the client wait for too long.
    #[error("{address} did not begin the measurement within {wait}: it measures other clients first")]
    WaitExceeded {
        /// The far end.
        address: SocketAddr,
        /// As configured.
        wait: Span,
    },
    /// The server sent an unexpected message.
    #[error("{address} violated the protocol while {doing}")]
    ProtocolViolation {
        /// The far end.
        address: SocketAddr,
        /// The operation.
        doing: &'static str,
    },
    /// The requested transport can't be opened.
    #[error("cannot measure over {transport} to {address}: {reason}")]
    TransportUnavailable {
        /// The far end.
        address: SocketAddr,
        /// The transport.
        transport: Transport,
        /// The cause.
        reason: String,
    },
    /// Too few probe connections could be opened.
    #[error(
        "only {opened} of {requested} probe connections to {address} could be opened, at least {needed} are needed: {why}"
    )]
    TooFewConnections {
        /// The far end.
        address: SocketAddr,
        /// Connections opened.
        opened: usize,
        /// Connections requested.
        requested: u16,
        /// Connections needed for the packets of one train.
        needed: u16,
        /// Why the remaining ones failed.
        why: String,
    },
    /// Probe connections were reset repeatedly.
    #[error(
        "the probe connections to {address} keep breaking during trains, although they were replaced {replacements} \
         times"
    )]
    ConnectionsKeepBreaking {
        /// The far end.
        address: SocketAddr,
        /// How often they were replaced.
        replacements: u32,
    },
    /// Trains could not be sent or received.
    #[error("cannot exchange packet trains with {address}: {cause}")]
    Transport {
        /// The far end.
        address: SocketAddr,
        /// Why.
        #[source]
        cause: kumade_transport::Error,
    },
    /// The server speaks a version of the protocol in which the path can't be filled.
    #[error(
        "{address} cannot fill the path: it speaks protocol version {version}, which has that since version {}",
        Version::LOAD
    )]
    PathFillingUnsupported {
        /// The far end.
        address: SocketAddr,
        /// What it speaks.
        version: Version,
    },
    /// Another measurement at this host took longer than this one may wait for it.
    #[error("cannot measure at this host beside {holder}, which has measured for {wait} and longer")]
    HostInUse {
        /// Whose it is.
        holder: String,
        /// As configured.
        wait: Span,
    },
    /// The [token](crate::CancelToken) was cancelled.
    #[error("the measurement was cancelled")]
    Cancelled,
    /// The measurement exceeded its deadline.
    #[error("the measurement exceeded its deadline of {deadline}")]
    DeadlineExceeded {
        /// As configured.
        deadline: Span,
    },
}

/// The [kind](Error::kind) of [`Error::HostInUse`].
pub const HOST_IN_USE: &str = "host-in-use";
/// The [kind](Error::kind) of [`Error::DeadlineExceeded`].
pub const DEADLINE_EXCEEDED: &str = "deadline-exceeded";

impl Error {
    /// Its name for programs, such as `connect`.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::ResolutionFailed { .. } => "resolve",
            Error::NoInterface { .. } => "no-interface",
            Error::NoAddressOfFamily { .. } => "family",
            Error::Bind { .. } => "bind",
            Error::Connect { .. } => "connect",
            Error::NoReflector { .. } => "no-reflector",
            Error::Handshake { .. } => "handshake",
            Error::NoAnswer { .. } => "no-answer",
            Error::ConnectionLost { .. } => "lost",
            Error::WaitExceeded { .. } => "wait-exceeded",
            Error::Refused { .. } => "refused",
            Error::ProtocolViolation { .. } => "protocol",
            Error::TransportUnavailable { .. } => "transport-unavailable",
            Error::TooFewConnections { .. } => "too-few-connections",
            Error::ConnectionsKeepBreaking { .. } => "connections-keep-breaking",
            Error::Transport { .. } => "transport",
            Error::PathFillingUnsupported { .. } => "cannot-load",
            Error::HostInUse { .. } => HOST_IN_USE,
            Error::Cancelled => "cancelled",
            Error::DeadlineExceeded { .. } => DEADLINE_EXCEEDED,
        }
    }

    /// What to try; none if there is no general advice.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Error::ResolutionFailed { cause, .. } if is_of_name_service(cause) => Some(Hint::CheckNameService),
            Error::ResolutionFailed { .. } => Some(Hint::CheckName),
            Error::NoInterface { .. } => Some(Hint::NameInterface),
            Error::NoAddressOfFamily { host, .. } if host.parse::<ScopedAddress>().is_ok() => {
                Some(Hint::AddressOfOtherFamily)
            }
            Error::NoAddressOfFamily { .. } => Some(Hint::AllowOtherFamily),
            Error::Bind { .. } => Some(Hint::CheckBinding),
            Error::Connect { cause, .. } => connect_hint(cause),
            Error::NoReflector { cause, .. } => reflector_hint(cause),
            Error::Handshake { cause, .. } => handshake_hint(cause),
            Error::NoAnswer { .. } => Some(Hint::CheckService),
            Error::ConnectionLost { .. } => Some(Hint::CheckServerAndPath),
            Error::WaitExceeded { .. } | Error::HostInUse { .. } => Some(Hint::WaitLonger),
            Error::ProtocolViolation { .. } | Error::PathFillingUnsupported { .. } => Some(Hint::UseSameRelease),
            Error::TransportUnavailable { transport: Transport::Udp, .. } => Some(Hint::UseTcp),
            Error::TooFewConnections { .. } => Some(Hint::ConnectionsLimited),
            Error::ConnectionsKeepBreaking { .. } => Some(Hint::UseFewerConnections),
            Error::Transport { cause, .. } => transport_hint(cause),
            Error::Refused { .. }
            | Error::TransportUnavailable { .. }
            | Error::Cancelled
            | Error::DeadlineExceeded { .. } => None,
        }
    }

    /// The version to begin again with, where the server is older than `version`.
    pub(crate) fn older_server_version(&self, version: Version) -> Option<Version> {
        match self {
            Error::Handshake { cause, .. } => cause.older_server_version(version),
            _ => None,
        }
    }

    /// From a control connection that failed during the handshake.
    pub(crate) fn handshake(address: SocketAddr) -> impl FnOnce(ControlError) -> Error {
        move |error| match error {
            ControlError::Session(cause) => Error::Handshake { address, cause },
            // Of this host: the peer has nothing to do with it.
            ControlError::Io(cause) => Error::Connect { address, cause },
            other => Error::NoAnswer { address, cause: other.to_string() },
        }
    }

    /// From a control connection that failed after the handshake.
    pub(crate) fn connection_lost(address: SocketAddr, doing: &'static str) -> impl FnOnce(ControlError) -> Error {
        move |error| Error::ConnectionLost { address, doing, cause: error.to_string() }
    }
}

/// The cause where a name is not resolved in time.
pub(crate) const NO_NAME_SERVICE_ANSWER: &str = "no answer from the name service";

/// Whether it is no answer about the name. The standard library tells of EAI_AGAIN by the C library's text alone, of glibc and of musl.
fn is_of_name_service(cause: &str) -> bool {
    ["Temporary failure in name resolution", "Try again", NO_NAME_SERVICE_ANSWER]
        .iter()
        .any(|text| cause.contains(text))
}

fn connect_hint(cause: &io::Error) -> Option<Hint> {
    match cause.kind() {
        // What connect(2) answers to a route of the type blackhole, and to one of the type prohibit.
        io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied => Some(Hint::RouteDiscards),
        io::ErrorKind::ConnectionRefused => Some(Hint::StartServer),
        io::ErrorKind::TimedOut => Some(Hint::CheckAddressAndFirewall),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Hint::CheckRouteAndFirewall),
        _ => None,
    }
}

fn reflector_hint(cause: &io::Error) -> Option<Hint> {
    match cause.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied => Some(Hint::RouteDiscards),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Hint::CheckRouteAndFirewall),
        io::ErrorKind::ConnectionRefused => Some(Hint::StartReflector),
        // Of this system: the reflector was not asked.
        io::ErrorKind::Unsupported => None,
        _ => Some(Hint::CheckReflectorAndFirewall),
    }
}

fn handshake_hint(cause: &SessionError) -> Option<Hint> {
    match cause {
        SessionError::KeyRequired | SessionError::WrongKey => Some(Hint::GiveKey),
        SessionError::NoServerKey => Some(Hint::OmitKey),
        SessionError::Preamble(PreambleError::NotKumade) => Some(Hint::CheckService),
        SessionError::Preamble(_) | SessionError::Frame(_) | SessionError::DecryptionFailed => {
            Some(Hint::UseSameRelease)
        }
        SessionError::ServerFull => Some(Hint::TryLater),
        SessionError::NotOpen => None,
    }
}

fn transport_hint(cause: &kumade_transport::Error) -> Option<Hint> {
    let kumade_transport::Error::Io { cause, .. } = cause else { return None };
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => Some(Hint::UseTcp),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Hint::CheckRouteAndFirewall),
        _ => None,
    }
}
