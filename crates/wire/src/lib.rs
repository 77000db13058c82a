//! The control protocol between `kumade measure` and `kumade serve`: its messages, their encoding, and its sessions;
//! and the packets of STAMP (RFC 8762) and NTP (RFC 5905).
//!
//! Every TCP connection begins with a fixed-size [`Preamble`] each way, which names the protocol version and what the
//! connection is for, so that other protocols are refused before anything else is parsed, and ends of two releases find the
//! newest [`Version`] that both speak. Control
//! connections then carry length-prefixed frames, encrypted with Noise where a key is shared; probe connections
//! carry nothing but probe packets.
//!
//! One side, the client, decides: it runs the estimators. The server sends and receives the trains it is asked to,
//! within its limits.
#![forbid(unsafe_code)]

mod cipher;
mod credential;
mod frame;
mod message;
pub mod ntp;
mod path_view;
mod port_packets;
mod ports;
mod preamble;
mod session;
pub mod stamp;
mod udp;
mod version;

pub use credential::{Credential, CredentialBearer, SessionEndpoint};
pub use frame::{FrameError, Message, decode, encode};
pub use kumade_noise_session::{KeyError, PresharedKey};
pub use message::{Arrival, ClientMessage, Departure, Limits, ServerMessage, TcpEndpointInfo, Token};
pub use path_view::{PathView, TcpEnd, TcpPathView, UdpPathView};
pub use port_packets::{PortAnswer, PortProbe};
pub use ports::{FIRST_SECOND_ADDRESS_INDEX, PACKETS_PER_SEND_REQUEST};
pub use ports::{IdleFlow, IdleFlowRecord, OpenedPort, PortArrival, PortStatus};
pub use preamble::{AdmissionDecision, MAGIC, Preamble, PreambleError, PreambleReply};
pub use session::{ClientSession, ServerSession, Session, SessionError, decide_admission};
pub use udp::{UdpAnswer, UdpRequest};
pub use version::Version;

/// The port on which a server listens, by TCP and by UDP, unless it is told another.
pub const DEFAULT_PORT: u16 = 7272;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
