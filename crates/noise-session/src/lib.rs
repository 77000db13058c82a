//! Authenticated and encrypted datagrams and streams between hosts that know each other's public keys. Several paths
//! share one session.
//!
//! A host is known by its [`PublicKey`]. Two hosts agree on a [`Session`] by a handshake of one message each way: Noise IK
//! with an optional pre-shared key, `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s` (The Noise Protocol Framework, revision 34,
//! §7.5 and §9), in messages laid out like those of WireGuard (Donenfeld: *WireGuard: Next Generation Kernel Network
//! Tunnel*, NDSS 2017, §5.4), with its timers (§6). The data path uses other keys than the handshake, as the handshake
//! derives them, and either ChaCha20-Poly1305 (RFC 8439) or AES-256-GCM: whichever both hosts prefer, else the former.
//! It is not WireGuard's protocol: the two do not understand each other.
//!
//! Three parts work together:
//!
//! - [`Endpoint`] does the handshakes with all peers, in one place of the program.
//! - [`SessionTable`] seals and opens data, in place and without allocation: one for each thread that does.
//! - [`stream`] puts the same datagrams into a byte stream, as records, and finds them there.
//!
//! [`channel`] does the same handshake for one byte stream alone.
//!
//! # Loop contract
//!
//! Time is passed to each call and never goes back; what the clock on the wall shows, which may, is passed to
//! [`Endpoint::advance`] only. After each call of the endpoint, do what [`Endpoint::next_event`] says, until it says
//! nothing; sleep until [`Endpoint::next_deadline`] or the next datagram.
//!
//! ```
//! use kumade_noise_session::{DatagramKind, Endpoint, EndpointEvent, HEADER_BYTES, PeerId, Route, SessionTable};
//! use kumade_units::Time;
//!
//! /// A datagram arrived, in a buffer that may be changed.
//! fn arrived(endpoint: &mut Endpoint, table: &mut SessionTable, datagram: &mut [u8], from: Route, now: Time) {
//!     if DatagramKind::from_datagram(datagram) != Some(DatagramKind::Data) {
//!         // An error is why it was dropped: for a counter.
//!         let _ = endpoint.receive(datagram, from, now);
//!     } else if let Ok((peer, opened)) = table.open(datagram, now) {
//!         if opened.plaintext.is_empty() {
//!             endpoint.record_keepalive_received(peer, now);
//!         } else {
//!             endpoint.record_data_received(peer, now);
//!             deliver(peer, opened.path, opened.counter, &datagram[opened.plaintext]);
//!         }
//!     }
//!     act(endpoint, table, now);
//! }
//!
//! /// `datagram` has the text behind [`HEADER_BYTES`] and before [`kumade_noise_session::TAG_BYTES`] bytes more.
//! fn send(endpoint: &mut Endpoint, table: &mut SessionTable, peer: PeerId, to: Route, datagram: &mut [u8], now: Time) {
//!     match table.seal(peer, to.path, datagram, now) {
//!         Ok(sealed) => {
//!             transmit(to, datagram);
//!             endpoint.record_data_sent(peer, now);
//!             if sealed.is_rekey_due {
//!                 endpoint.connect(peer, now);
//!             }
//!         }
//!         // Without a session the packet is lost, and the next ones find one.
//!         Err(_) => endpoint.connect(peer, now),
//!     }
//!     act(endpoint, table, now);
//! }
//!
//! /// After each call, and when the endpoint's deadline has passed.
//! fn act(endpoint: &mut Endpoint, table: &mut SessionTable, now: Time) {
//!     # let wall = now;
//!     endpoint.advance(now, wall);
//!     while let Some(event) = endpoint.next_event() {
//!         match event {
//!             EndpointEvent::Transmit { to, datagram } => transmit(to, &datagram),
//!             EndpointEvent::Established { peer, session, .. } => table.install(peer, session, now),
//!             EndpointEvent::Unreachable { peer } => println!("{peer:?} does not answer"),
//!             EndpointEvent::Notice(notice) => println!("{notice}"),
//!         }
//!     }
//! }
//! # fn deliver(_: PeerId, _: u8, _: u64, _: &[u8]) {}
//! # fn transmit(_: Route, _: &[u8]) {}
//! ```
//!
//! # Paths and threads
//!
//! A data message has a nonce of 64 bits. The highest byte is the number of a path, the rest a counter, so that each
//! path has a counter of its own, and the receiver a replay window of its own for it ([`ReplayWindow`], RFC 6479): however
//! unequal the delays of two paths are, no packet looks like a replay.
//!
//! Who counts its datagrams on a path anyway, across changes of keys, seals them with that number
//! ([`Sealer::seal_numbered`]). These have counters of their own, and a header of four bytes: the receiver knows what is left out
//! ([`CounterReference`]). One that is taken for another than it is does not authenticate. A small one with the whole counter,
//! for example one that asks whether a path passes anything, sets the receiver right after however much was lost.
//!
//! A number has one sender, and so needs no lock. Where several threads send on one path, each has its own number for it,
//! for example the thread in the high four bits and the path in the low four: [`Session::take_paths`] makes the session
//! of a thread with the numbers that only it seals under. All of them open what comes on any path; their replay windows
//! are shared, each behind a lock of its own, so that a packet is opened once even if copies reach several threads.
//! [`ENDPOINT_PATH`] is the endpoint's own number, for keepalives.
//!
//! # What holds
//!
//! - Nothing is sent to who does not know this host's public key (`mac1`), nor, but for cookie replies, to who is not a
//!   peer. A copied initiation is refused by its timestamp: it makes no session, and moves no address. If it is not the last
//!   one of the peer, what the timestamp has to exceed is answered, sealed for the peer alone and for this initiation
//!   (a timestamp reply, which WireGuard does not have): a peer that has restarted with its clock behind goes on from there, and
//!   is told so ([`HandshakeNotice::OwnClockBehind`]).
//! - Strangers cost constant memory, and computation as [`HandshakePolicy`] says: beyond a rate, handshake messages are computed on
//!   only if they carry a cookie (`mac2`) or come over a TCP connection, which proves that the sender receives at its address.
//!   Among those, the network that has sent most in vain lately is refused first, and addresses of peers last. Peers' own
//!   messages count for nothing, up to 10 handshakes a second each.
//! - A session is replaced after 120 s or 256 GiB, and never used after 180 s or 512 GiB. Old ones still open what is in
//!   flight. The initiator replaces it, the responder if that has not happened 15 s later. Handshakes begun by both hosts
//!   at once make two sessions, of which each host uses the one that it made last.
//! - A responder sends only after a datagram has come under the session: until then, the initiation might be a copy, and
//!   the response lost.
//! - Initiations are repeated after 1 s, 2 s, 4 s … 16 s and a random fraction, by one route after the other, until 90 s
//!   after the last wish to send.
//! - Both messages of a handshake carry a random number of the process that sends them, its instance
//!   ([`EndpointEvent::Established`]): a peer with another one has restarted, and begins its own numbering of packets again.
//! - When nothing has come for 15 s although data was sent, the peer may have restarted: a new session is made.
//! - Ephemeral keys are made of the randomness that the caller gives. Recorded traffic stays secret when a static key is
//!   lost later (Noise §7.7).
//!
//! # What does not
//!
//! - A peer of a version without timestamp replies that restarts with its clock behind is refused as a copy would be, until
//!   its clock has passed the time of its last initiation. If it has been silent for 15 s and a route to it is known, this host
//!   begins a handshake in its turn, which needs no clock of the peer's.
//! - Whoever sends from the address of a peer, behind the same address translation, or from the network (IPv4 /24, IPv6 /48) of a
//!   peer that is not known yet, can keep it waiting.
//! - A host whose clock is set back while the process lives goes on from its last timestamp.
//! - The lengths and times of packets are not hidden; texts are not padded.
//! - Keys are overwritten when they are dropped where this crate holds them; the libraries' copies are not.
#![forbid(unsafe_code)]

mod admission;
pub mod channel;
mod cipher;
mod counter_reference;
mod endpoint;
mod event;
mod key;
mod keyring;
mod limits;
mod mac;
mod message;
mod noise;
mod notice;
mod peer;
mod policy;
mod replay;
mod session;
pub mod stream;
mod table;
mod timestamp;
mod timestamp_reply;

pub use cipher::Cipher;
pub use counter_reference::{CounterReference, HeaderForm};
pub use endpoint::{ENDPOINT_PATH, Endpoint};
pub use event::{EndpointEvent, PeerError, RefusedDatagram};
pub use key::{KeyError, PresharedKey, PrivateKey, PublicKey, PublicKeyError};
pub use limits::REJECT_AFTER;
pub use mac::{is_equal, keyed_hash};
pub use message::{
    COOKIE_REPLY_BYTES, DatagramKind, HEADER_BYTES, INITIATION_BYTES, OVERHEAD_BYTES, RESPONSE_BYTES,
    SHORT_HEADER_BYTES, SHORTEST_HEADER_BYTES, SHORTEST_OVERHEAD_BYTES, TAG_BYTES, receiver_index,
};
pub use notice::{HandshakeNotice, ToldRefusals};
pub use peer::{PeerId, PeerState, Route};
pub use policy::HandshakePolicy;
pub use replay::ReplayWindow;
pub use session::{OpenError, OpenedDatagram, Opener, SealError, SealedDatagram, Sealer, Session};
pub use table::SessionTable;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
