use crate::control::ControlError;
use crate::transport;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;
use wire::{PreambleError, SessionError};

/// Why a measurement failed: what was tried, on what, why it failed, and what to try.
#[derive(Debug, Error)]
pub enum Error {
    /// The host's name has no address.
    #[error("cannot find the address of {host}: {cause}; check the name")]
    Resolve {
        /// As given.
        host: String,
        /// The resolver's answer.
        cause: String,
    },
    /// The host has addresses, but none of the family asked for.
    #[error("{host} has no {family} address; measure without -4 or -6")]
    Family {
        /// As given.
        host: String,
        /// IPv4 or IPv6.
        family: &'static str,
    },
    /// No TCP connection.
    #[error("cannot connect to {address}: {cause}{}", connect_hint(cause))]
    Connect {
        /// The last address tried.
        address: SocketAddr,
        /// The system's answer.
        #[source]
        cause: io::Error,
    },
    /// No STAMP reflector.
    #[error("no STAMP reflector answers at {address}: {cause}; {}", reflector_hint(cause))]
    NoReflector {
        /// Where it was sought.
        address: SocketAddr,
        /// The system's answer, or silence.
        #[source]
        cause: io::Error,
    },
    /// A connection, but not to a server that would have us.
    #[error("cannot open a session with {address}: {cause}{}", handshake_hint(cause))]
    Handshake {
        /// The far end.
        address: SocketAddr,
        /// What is wrong with it.
        #[source]
        cause: SessionError,
    },
    /// A connection, and nothing on it.
    #[error(
        "{address} took the connection but did not answer like a kumade server ({cause}): check that `kumade serve` runs \
         on that port"
    )]
    Mute {
        /// The far end.
        address: SocketAddr,
        /// Silent, or closed.
        cause: String,
    },
    /// The connection broke in the middle of the measurement.
    #[error(
        "lost {address} while {doing}: {cause}; check that the server and the path to it are still up, then try again"
    )]
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
    #[error("{address} does not keep to the protocol while {doing}: use the same release on both ends")]
    Protocol {
        /// The far end.
        address: SocketAddr,
        /// What was going on.
        doing: &'static str,
    },
    /// UDP was asked for and does not pass.
    #[error("UDP does not pass to {address}: {why}; measure with --transport rake, or auto")]
    NoUdp {
        /// The far end.
        address: SocketAddr,
        /// Rejected, or silence.
        why: &'static str,
    },
    /// Too few probe connections opened.
    #[error(
        "only {opened} of {asked} probe connections to {address} opened, at least {needed} are needed: {why}; a firewall \
         may limit them: try again later, or --transport udp"
    )]
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
         {times} times: something on the path resets them; try fewer with --connections, or --transport udp"
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
}

impl Error {
    /// A control connection that failed before it was open.
    pub(super) fn handshake(address: SocketAddr) -> impl FnOnce(ControlError) -> Error {
        move |error| match error {
            ControlError::Session(cause) => Error::Handshake { address, cause },
            other => Error::Mute { address, cause: other.to_string() },
        }
    }

    /// A control connection that failed later.
    pub(super) fn lost(address: SocketAddr, doing: &'static str) -> impl FnOnce(ControlError) -> Error {
        move |error| Error::Lost { address, doing, cause: error.to_string() }
    }
}

fn connect_hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => "; nothing listens there: check the port, and that `kumade serve` runs",
        io::ErrorKind::TimedOut => "; no answer: check the address, and that a firewall lets the port through",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "; check the route and the firewall",
        _ => "",
    }
}

fn reflector_hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "check the route and the firewall",
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: check the port, and that `kumade serve --stamp` or another reflector runs"
        }
        _ => {
            "check the port, that `kumade serve --stamp` or another reflector runs there, and that a firewall lets UDP \
             through"
        }
    }
}

fn handshake_hint(cause: &SessionError) -> &'static str {
    match cause {
        SessionError::Preamble(PreambleError::NotKumade) => "; check the port, and that `kumade serve` runs there",
        SessionError::Preamble(PreambleError::Malformed) | SessionError::Frame(_) | SessionError::Damaged => {
            "; use the same release on both ends"
        }
        _ => "",
    }
}
