use crate::allowed::Allowed;
use crate::ended::Ended;
use crate::exchange::{Action, Exchange};
use crate::message::{Message, Refusal};
use crate::resolver::Resolver;
use crate::sealed::{Filled, Sealed, read_greeting};
use crate::target::{Host, Target};
use kumade_daemon::Network;
use kumade_net::tcp::{Connecting, RtoLimits};
use kumade_net::{Binding, clock};
pub(crate) use kumade_noise_session::channel::Accepted;
use kumade_noise_session::channel::Acceptor;
use kumade_noise_session::stream::RecordReader;
use kumade_units::{Span, Time};
use rand::rngs::StdRng;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The far end: accepts streams of its peers, and connects to what they ask for.
pub(crate) struct Far {
    pub(crate) acceptor: Acceptor,
    pub(crate) random: StdRng,
    pub(crate) allowed: Vec<Allowed>,
    pub(crate) resolver: Resolver,
    pub(crate) rto: RtoLimits,
}

/// A connection that has not shown to be a peer's.
pub(crate) struct Stranger {
    pub(crate) stream: TcpStream,
    pub(crate) network: Network,
    reader: RecordReader,
}

/// A stream of a peer, before its target is connected.
pub(crate) struct Opening {
    pub(crate) sealed: Sealed,
    pub(crate) exchange: Exchange,
    state: State,
}

enum State {
    Unasked {
        is_full: bool,
    },
    /// Its name is being looked up.
    Resolving(Target),
    Connecting {
        target: Target,
        attempt: Connecting,
        since: Time,
        /// What to try then.
        rest: VecDeque<SocketAddr>,
        /// Nobody waits for it yet.
        is_new: bool,
    },
}

/// Why a stream was not opened.
pub(crate) enum NotOpened {
    /// The peer is to be told.
    Refused(Target, Refusal),
    /// The stream is over.
    Ended,
}

/// An address that has not answered for so long is given up for the next one.
const ATTEMPT: Span = Span::from_secs(5);

impl<E: Into<Ended>> From<E> for NotOpened {
    fn from(_: E) -> Self {
        NotOpened::Ended
    }
}

impl Far {
    fn permits(&self, target: &Target) -> bool {
        self.allowed.iter().any(|allowed| allowed.permits(target))
    }

    /// Of the addresses of a target's name, those that may be reached.
    fn permitted(&self, target: &Target, mut addresses: Vec<SocketAddr>) -> Result<VecDeque<SocketAddr>, Refusal> {
        if addresses.is_empty() {
            return Err(Refusal::UnknownHost);
        }
        if !self.permits(target) {
            addresses.retain(|address| self.allowed.iter().any(|allowed| allowed.permits_address(*address)));
        }
        if addresses.is_empty() { Err(Refusal::NotAllowed) } else { Ok(addresses.into()) }
    }

    fn accept(&mut self, initiation: &[u8], mut stream: &TcpStream) -> Result<Accepted, Ended> {
        let accepted = self.acceptor.accept(initiation, &mut self.random)?;
        // The send buffer of a new connection takes it.
        stream.write_all(&accepted.response)?;
        Ok(accepted)
    }
}

impl Stranger {
    /// # Errors
    /// The connection is no more.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        let network = Network::containing(stream.peer_addr()?.ip());
        Ok(Stranger { stream, network, reader: RecordReader::new() })
    }

    /// Goes on. Whether there is a stream of a peer now.
    pub(crate) fn advance(&mut self, far: &mut Far) -> Result<Option<Accepted>, Ended> {
        match read_greeting(&self.stream, &mut self.reader)? {
            Some(initiation) => far.accept(&initiation, &self.stream).map(Some),
            None => Ok(None),
        }
    }

    /// The same, where another has read the initiation.
    pub(crate) fn greeted(&self, initiation: &[u8], far: &mut Far) -> Result<Accepted, Ended> {
        far.accept(initiation, &self.stream)
    }

    /// The stream of a peer, who has too many if it is full.
    pub(crate) fn opening(self, accepted: Accepted, is_full: bool, rto: RtoLimits) -> io::Result<Opening> {
        let sealed = Sealed::new(self.stream, accepted.channel, self.reader, rto)?;
        Ok(Opening { sealed, exchange: Exchange::far(), state: State::Unasked { is_full } })
    }
}

impl Opening {
    /// Goes on, as the stream with this number. Returns the target, once it is connected.
    pub(crate) fn advance(&mut self, number: u32, far: &mut Far) -> Result<Option<(TcpStream, Target)>, NotOpened> {
        match &mut self.state {
            State::Unasked { is_full } => {
                let is_full = *is_full;
                match self.question()? {
                    Some(target) if is_full => Err(NotOpened::Refused(target, Refusal::TooMany)),
                    Some(target) => self.ask(number, target, far).map(|()| None),
                    None => Ok(None),
                }
            }
            State::Resolving(_) => Ok(None),
            State::Connecting { target, attempt, since, rest, .. } => match attempt.wait(Time::ZERO) {
                Ok(Some(stream)) => {
                    let target = target.clone();
                    self.sealed.push(&Message::Opened)?;
                    Ok(Some((stream, target)))
                }
                Ok(None) if rest.is_empty() || clock::monotonic() - *since < ATTEMPT => Ok(None),
                outcome => {
                    let (target, rest) = (target.clone(), mem::take(rest));
                    let refusal = outcome.err().map_or(Refusal::Unreachable, |error| refusal_of(&error));
                    self.connect(target, rest, refusal).map(|()| None)
                }
            },
        }
    }

    /// What the peer asks for, once it has.
    fn question(&mut self) -> Result<Option<Target>, Ended> {
        loop {
            if let Some(text) = self.sealed.next_text()? {
                let Action::Connect(target) = self.exchange.receive(Message::decode(text)?)? else { return Ok(None) };
                return Ok(Some(target));
            }
            if self.sealed.fill()? == Filled::Nothing {
                return Ok(None);
            }
        }
    }

    fn ask(&mut self, number: u32, target: Target, far: &mut Far) -> Result<(), NotOpened> {
        match target.host {
            Host::Address(address) if far.permits(&target) => {
                let address = SocketAddr::new(address, target.port);
                self.connect(target, VecDeque::from([address]), Refusal::Unreachable)
            }
            Host::Address(_) => Err(NotOpened::Refused(target, Refusal::NotAllowed)),
            Host::Name(ref name) => {
                far.resolver.ask(number, name, target.port);
                self.state = State::Resolving(target);
                Ok(())
            }
        }
    }

    /// The name of the target has these addresses.
    pub(crate) fn resolved(&mut self, addresses: Vec<SocketAddr>, far: &Far) -> Result<(), NotOpened> {
        let State::Resolving(target) = &self.state else { return Ok(()) };
        let target = target.clone();
        match far.permitted(&target, addresses) {
            Ok(addresses) => self.connect(target, addresses, Refusal::Unreachable),
            Err(refusal) => Err(NotOpened::Refused(target, refusal)),
        }
    }

    /// Begins to connect to the first of these addresses that the system lets it try. `refusal` is why the one before failed.
    fn connect(
        &mut self,
        target: Target,
        mut rest: VecDeque<SocketAddr>,
        mut refusal: Refusal,
    ) -> Result<(), NotOpened> {
        while let Some(address) = rest.pop_front() {
            // From its first moment, whatever comes between.
            let prepare = |socket: &Socket| socket.set_linger(Some(Duration::ZERO));
            match Connecting::begin_prepared(address, &Binding::default(), prepare) {
                Ok(attempt) => {
                    self.state = State::Connecting { target, attempt, since: clock::monotonic(), rest, is_new: true };
                    return Ok(());
                }
                Err(error) => refusal = refusal_of(&error),
            }
        }
        Err(NotOpened::Refused(target, refusal))
    }

    /// The socket to wait for, once.
    pub(crate) fn new_socket(&mut self) -> Option<&TcpStream> {
        let State::Connecting { attempt, is_new, .. } = &mut self.state else { return None };
        if mem::take(is_new) { attempt.socket() } else { None }
    }
}

fn refusal_of(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Refusal::Refused,
        _ => Refusal::Unreachable,
    }
}
