use crate::allowed::{AllowedTargets, is_reachable_by_name};
use crate::exchange::{MessageAction, MessageExchange};
use crate::message::{ConnectRefusal, Message};
use crate::relayed_stream::SMALL_BUFFER_BYTES;
use crate::resolver::NameResolver;
use crate::sealed::{ReadResult, SealedStream, read_handshake_record};
use crate::stream_end::StreamEndReason;
use crate::target::{Target, TargetHost};
use kumade_daemon::Network;
use kumade_net::tcp::{PendingConnection, RtoLimits};
use kumade_net::{SocketBinding, clock, is_own_address, readiness};
pub(crate) use kumade_noise_session::channel::AcceptedStream;
use kumade_noise_session::channel::{StreamAcceptor, StreamAnswer};
use kumade_noise_session::stream::RecordReader;
use kumade_noise_session::{PresharedKey, PublicKey, RefusedDatagram};
use kumade_units::{Span, Time};
use rand::rngs::StdRng;
use socket2::{SockRef, Socket};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The far end: accepts streams of its peers, and connects to what they ask for.
pub(crate) struct FarEnd {
    pub(crate) acceptor: StreamAcceptor,
    /// Who may begin streams, and the second key that all have.
    pub(crate) peers: (Vec<PublicKey>, PresharedKey),
    pub(crate) random: StdRng,
    pub(crate) allowed: Vec<AllowedTargets>,
    pub(crate) resolver: NameResolver,
    pub(crate) rto: RtoLimits,
}

/// A connection that has not shown to be a peer's.
pub(crate) struct UnauthenticatedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) network: Network,
    address: IpAddr,
    reader: RecordReader,
    /// Its initiation, where others come first.
    deferred_initiation: Option<Vec<u8>>,
}

/// A stream of a peer, before its target is connected.
pub(crate) struct OpeningStream {
    pub(crate) sealed: SealedStream,
    pub(crate) protocol: MessageExchange,
    pub(crate) has_small_buffers: bool,
    peer: PublicKey,
    state: OpeningState,
}

enum OpeningState {
    AwaitingOpen,
    /// Its name is being looked up.
    Resolving {
        target: Target,
        /// As long as this lives.
        _is_wanted: Arc<()>,
    },
    Connecting {
        target: Target,
        pending: PendingConnection,
        since: Time,
        /// What to try then.
        remaining_addresses: VecDeque<SocketAddr>,
        /// Nobody waits for it yet.
        is_unwatched: bool,
    },
}

/// Why a stream was not opened.
pub(crate) enum OpenFailure {
    /// The peer is to be told.
    Refused(Target, ConnectRefusal),
    /// The stream is over.
    Ended,
}

/// An address that has not answered for so long is given up for the next one.
const CONNECT_TIMEOUT: Span = Span::from_secs(5);

impl<E: Into<StreamEndReason>> From<E> for OpenFailure {
    fn from(_: E) -> Self {
        OpenFailure::Ended
    }
}

impl FarEnd {
    fn permits_address(&self, address: SocketAddr) -> bool {
        let is_own = is_own_address(address.ip());
        self.allowed.iter().any(|allowed| allowed.permits_address(address, is_own))
    }

    /// Whether a target may be reached at this address; where that is not known yet, whether it may by its name.
    pub(crate) fn permits_target(&self, target: &Target, address: Option<SocketAddr>) -> bool {
        match &target.host {
            TargetHost::Address(host) => self.permits_address(SocketAddr::new(*host, target.port)),
            TargetHost::Name(name) => {
                let is_by_name = self.allowed.iter().any(|allowed| allowed.permits_name(name, target.port));
                is_by_name && address.is_none_or(|address| is_reachable_by_name(address.ip()))
                    || address.is_some_and(|address| self.permits_address(address))
            }
        }
    }

    /// Of the addresses of a target's name, those that may be reached.
    fn permitted_addresses(
        &self,
        name: &str,
        mut addresses: Vec<SocketAddr>,
    ) -> Result<VecDeque<SocketAddr>, ConnectRefusal> {
        if addresses.is_empty() {
            return Err(ConnectRefusal::UnknownHost);
        }
        addresses.retain(|address| {
            let is_by_name = self.allowed.iter().any(|allowed| allowed.permits_name(name, address.port()));
            is_by_name && is_reachable_by_name(address.ip()) || self.permits_address(*address)
        });
        if addresses.is_empty() { Err(ConnectRefusal::NotAllowed) } else { Ok(addresses.into()) }
    }
}

impl UnauthenticatedConnection {
    /// # Errors
    /// The connection is no more.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        let address = stream.peer_addr()?.ip();
        Ok(UnauthenticatedConnection {
            stream,
            network: Network::containing(address),
            address,
            reader: RecordReader::new(),
            deferred_initiation: None,
        })
    }

    /// Goes on. Whether there is a stream of a peer now.
    pub(crate) fn advance(&mut self, far: &mut FarEnd) -> Result<Option<AcceptedStream>, StreamEndReason> {
        match self.deferred_initiation.take() {
            Some(initiation) => {
                self.check_connected()?;
                self.accept_initiation(initiation, far)
            }
            None => match read_handshake_record(&self.stream, &mut self.reader)? {
                Some(initiation) => self.accept_initiation(initiation, far),
                None => Ok(None),
            },
        }
    }

    /// Who has gone is not worth a handshake.
    fn check_connected(&self) -> Result<(), StreamEndReason> {
        match self.stream.peek(&mut [0]) {
            Ok(0) => Err(StreamEndReason::Disconnected),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The same, where another has read the initiation.
    pub(crate) fn accept_initiation(
        &mut self,
        initiation: Vec<u8>,
        far: &mut FarEnd,
    ) -> Result<Option<AcceptedStream>, StreamEndReason> {
        match far.acceptor.accept(&initiation, self.address, clock::monotonic(), &mut far.random) {
            // The send buffer of a new connection takes what is answered.
            Ok(StreamAnswer::Accepted(accepted)) => {
                (&self.stream).write_all(&accepted.response)?;
                Ok(Some(*accepted))
            }
            // The peer, if it is that, begins anew.
            Ok(StreamAnswer::Outdated(answer)) => {
                (&self.stream).write_all(&answer)?;
                Ok(None)
            }
            Err(RefusedDatagram::RateLimited) => {
                self.deferred_initiation = Some(initiation);
                Ok(None)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Whether it is to be gone on with although nothing has come.
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred_initiation.is_some()
    }

    /// The stream of a peer.
    pub(crate) fn into_opening(
        self,
        accepted: AcceptedStream,
        has_small_buffers: bool,
        rto: RtoLimits,
    ) -> io::Result<OpeningStream> {
        if has_small_buffers {
            SockRef::from(&self.stream).set_recv_buffer_size(SMALL_BUFFER_BYTES)?;
        }
        Ok(OpeningStream {
            sealed: SealedStream::new(self.stream, accepted.channel, self.reader, rto)?,
            protocol: MessageExchange::for_far_end(),
            has_small_buffers,
            peer: accepted.peer,
            state: OpeningState::AwaitingOpen,
        })
    }
}

impl OpeningState {
    fn next_attempt_at(&self) -> Option<Time> {
        match self {
            OpeningState::Connecting { since, remaining_addresses, .. } if !remaining_addresses.is_empty() => {
                Some(*since + CONNECT_TIMEOUT)
            }
            _ => None,
        }
    }
}

impl OpeningStream {
    /// Goes on, as the stream with this number. Returns the target, once it is connected.
    pub(crate) fn advance(
        &mut self,
        number: u32,
        far: &mut FarEnd,
    ) -> Result<Option<(TcpStream, Target)>, OpenFailure> {
        let is_late = self.next_attempt_at().is_some_and(|due| due <= clock::monotonic());
        match &mut self.state {
            OpeningState::AwaitingOpen => match self.next_target()? {
                Some(target) => self.connect_to_target(number, target, far).map(|()| None),
                None => Ok(None),
            },
            // A peer that waits ends nothing by itself.
            _ if readiness::is_closed(&self.sealed.stream)? => Err(OpenFailure::Ended),
            OpeningState::Resolving { .. } => Ok(None),
            OpeningState::Connecting { target, pending: attempt, remaining_addresses: rest, .. } => {
                match attempt.wait(Time::ZERO) {
                    Ok(Some(stream)) => {
                        let target = target.clone();
                        self.sealed.queue_message(&Message::Opened)?;
                        Ok(Some((stream, target)))
                    }
                    Ok(None) if !is_late => Ok(None),
                    outcome => {
                        let (target, rest) = (target.clone(), mem::take(rest));
                        let refusal = outcome.err().map_or(ConnectRefusal::Unreachable, |error| refusal_for(&error));
                        self.connect_to_next(target, rest, refusal).map(|()| None)
                    }
                }
            }
        }
    }

    /// When the address that is being connected is given up for another one, if there is one.
    pub(crate) fn next_attempt_at(&self) -> Option<Time> {
        self.state.next_attempt_at()
    }

    /// What is being connected.
    pub(crate) fn connecting_target(&self) -> Option<&Target> {
        match &self.state {
            OpeningState::Connecting { target, .. } => Some(target),
            OpeningState::AwaitingOpen | OpeningState::Resolving { .. } => None,
        }
    }

    /// What the peer asks for, once it has.
    fn next_target(&mut self) -> Result<Option<Target>, StreamEndReason> {
        loop {
            if let Some(text) = self.sealed.next_message()? {
                let MessageAction::Connect(target) = self.protocol.receive(Message::decode(text)?)? else {
                    return Ok(None);
                };
                return Ok(Some(target));
            }
            if self.sealed.read_records()? == ReadResult::WouldBlock {
                self.sealed.release_memory();
                return Ok(None);
            }
        }
    }

    fn connect_to_target(&mut self, number: u32, target: Target, far: &mut FarEnd) -> Result<(), OpenFailure> {
        match target.host {
            TargetHost::Address(address) => {
                let address = SocketAddr::new(address, target.port);
                if !far.permits_address(address) {
                    return Err(OpenFailure::Refused(target, ConnectRefusal::NotAllowed));
                }
                self.connect_to_next(target, VecDeque::from([address]), ConnectRefusal::Unreachable)
            }
            TargetHost::Name(ref name) => {
                let is_wanted = Arc::new(());
                far.resolver.look_up(self.peer, number, name, target.port, Arc::downgrade(&is_wanted));
                self.state = OpeningState::Resolving { target, _is_wanted: is_wanted };
                Ok(())
            }
        }
    }

    /// The name of the target has these addresses.
    pub(crate) fn connect_to_addresses(&mut self, addresses: Vec<SocketAddr>, far: &FarEnd) -> Result<(), OpenFailure> {
        let OpeningState::Resolving { target, .. } = &self.state else { return Ok(()) };
        let target = target.clone();
        let TargetHost::Name(name) = &target.host else { return Ok(()) };
        match far.permitted_addresses(name, addresses) {
            Ok(addresses) => self.connect_to_next(target, addresses, ConnectRefusal::Unreachable),
            Err(refusal) => Err(OpenFailure::Refused(target, refusal)),
        }
    }

    /// Begins to connect to the first of these addresses that the system lets it try. `refusal` is why the one before failed.
    fn connect_to_next(
        &mut self,
        target: Target,
        mut rest: VecDeque<SocketAddr>,
        mut refusal: ConnectRefusal,
    ) -> Result<(), OpenFailure> {
        while let Some(address) = rest.pop_front() {
            // From its first moment, whatever comes between.
            let prepare = |socket: &Socket| {
                if self.has_small_buffers {
                    socket.set_recv_buffer_size(SMALL_BUFFER_BYTES)?;
                }
                socket.set_linger(Some(Duration::ZERO))
            };
            match PendingConnection::begin_prepared(address, &SocketBinding::default(), prepare) {
                Ok(attempt) => {
                    self.state = OpeningState::Connecting {
                        target,
                        pending: attempt,
                        since: clock::monotonic(),
                        remaining_addresses: rest,
                        is_unwatched: true,
                    };
                    return Ok(());
                }
                Err(error) => refusal = refusal_for(&error),
            }
        }
        Err(OpenFailure::Refused(target, refusal))
    }

    /// The socket to wait for, once.
    pub(crate) fn take_unwatched_socket(&mut self) -> Option<&TcpStream> {
        let OpeningState::Connecting { pending: attempt, is_unwatched: is_new, .. } = &mut self.state else {
            return None;
        };
        if mem::take(is_new) { attempt.socket() } else { None }
    }
}

fn refusal_for(error: &io::Error) -> ConnectRefusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => ConnectRefusal::Refused,
        _ => ConnectRefusal::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_address_that_does_not_answer_is_given_up_where_there_is_another_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let since = Time::ZERO + Span::from_secs(7);
        let due = |remaining: &[SocketAddr]| {
            let pending = PendingConnection::begin(address, &SocketBinding::default()).unwrap();
            let (target, remaining_addresses) = ("10.2.0.7:22".parse().unwrap(), remaining.iter().copied().collect());
            let state = OpeningState::Connecting { target, pending, since, remaining_addresses, is_unwatched: true };
            state.next_attempt_at()
        };
        assert_eq!(due(&[]), None);
        assert_eq!(due(&[address]), Some(since + CONNECT_TIMEOUT));
        assert_eq!(OpeningState::AwaitingOpen.next_attempt_at(), None);
    }
}
