use crate::config::Forward;
use crate::redirect::ConnectionRedirect;
use crate::target::{Target, TargetHost};
use kumade_net::interface::Family;
use kumade_net::readiness::EpollSet;
use kumade_net::{SetupError, listener, tcp};
use socket2::{Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

/// The ports at which connections are accepted.
pub(crate) struct Listeners(Vec<Listener>);

pub(crate) struct Listener {
    listener: TcpListener,
    /// As it was asked for: the port may be any.
    asked_address: SocketAddr,
    address: SocketAddr,
    destination: ConnectionTarget,
    is_paused: bool,
}

/// Where connections lead.
enum ConnectionTarget {
    Fixed(Target),
    /// Where they were to go before packet rules led them here.
    Redirected(ConnectionRedirect),
    /// They come from a near end.
    FromPeer,
}

/// Who has connected.
pub(crate) enum AcceptedConnection {
    /// A program that wants to reach this.
    Program(Target),
    /// Maybe a peer.
    Unauthenticated,
    /// Nobody who is to be served.
    Unwanted,
}

const BACKLOG: i32 = 1024;

impl Listeners {
    /// Those of a near end.
    pub(crate) fn near_end(forwards: Vec<Forward>, redirect: Option<&ConnectionRedirect>) -> Result<Self, SetupError> {
        let forwards = forwards.into_iter().map(|forward| (forward.listen, ConnectionTarget::Fixed(forward.target)));
        // Programs arrive at the address of any interface.
        let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        let redirected =
            any.map(|any| Some((SocketAddr::new(any, 0), ConnectionTarget::Redirected(redirect?.clone()))));
        let redirected = redirected.into_iter().flatten().map(|(address, leads)| listen(address, leads));
        // Where there is no IPv6, no program connects by it.
        let redirected = redirected.filter(|outcome| !is_ipv6_missing(outcome));
        let forwards = forwards.map(|(address, leads)| listen(address, leads));
        forwards.chain(redirected).collect::<Result<_, _>>().map(Listeners)
    }

    /// That of a far end, if it has one.
    pub(crate) fn far_end(address: Option<SocketAddr>) -> Result<Self, SetupError> {
        let listeners = address.into_iter().map(|address| listen(address, ConnectionTarget::FromPeer));
        listeners.collect::<Result<_, _>>().map(Listeners)
    }

    /// Opens the ports of those forwardings that have none yet, for [`replace_forwards`](Self::replace_forwards).
    pub(crate) fn open_missing(&self, forwards: &[Forward]) -> Result<Vec<Listener>, SetupError> {
        let is_open = |forward: &&Forward| self.0.iter().any(|listener| listener.is_of(forward));
        let missing = forwards.iter().filter(|forward| !is_open(forward));
        missing.map(|forward| listen(forward.listen, ConnectionTarget::Fixed(forward.target.clone()))).collect()
    }

    /// Has the ports of these forwardings from now on, of which `opened` are new, and leads connections of `redirect` on. Ports
    /// that stay are not closed. The set reports as [`watch`](Self::watch) says.
    pub(crate) fn replace_forwards(
        &mut self,
        forwards: Vec<Forward>,
        opened: Vec<Listener>,
        redirect: Option<&ConnectionRedirect>,
        (set, first): (&EpollSet, u32),
    ) -> io::Result<()> {
        self.0.iter().filter(|listener| !listener.is_paused).try_for_each(|listener| set.remove(&listener.listener))?;
        let (mut known, redirected): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .chain(opened)
            .partition(|listener| matches!(listener.destination, ConnectionTarget::Fixed(_)));
        for forward in forwards {
            let Some(place) = known.iter().position(|listener| listener.is_of(&forward)) else { continue };
            let destination = ConnectionTarget::Fixed(forward.target);
            self.0.push(Listener { destination, is_paused: false, ..known.swap_remove(place) });
        }
        for listener in redirected {
            let destination = match redirect {
                Some(redirect) => ConnectionTarget::Redirected(redirect.clone()),
                None => listener.destination,
            };
            self.0.push(Listener { destination, is_paused: false, ..listener });
        }
        self.watch(set, first)
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|listener| listener.address).collect()
    }

    /// Of these, those to which packet rules lead connections.
    pub(crate) fn redirected_addresses(&self) -> Vec<SocketAddr> {
        let redirected =
            self.0.iter().filter(|listener| matches!(listener.destination, ConnectionTarget::Redirected(_)));
        redirected.map(|listener| listener.address).collect()
    }

    /// Has the set report each under its place, counted from `first`.
    pub(crate) fn watch(&self, set: &EpollSet, first: u32) -> io::Result<()> {
        (first..).zip(&self.0).try_for_each(|(number, listener)| set.add_reader(&listener.listener, number))
    }

    /// Accepts a connection. If the system has no room for one, further ones wait until
    /// [`resume`](Self::resume).
    pub(crate) fn accept(&mut self, place: usize, set: &EpollSet) -> Option<(TcpStream, AcceptedConnection)> {
        let listener = self.0.get(place)?;
        match listener.listener.accept() {
            Ok((stream, _)) => {
                let arrival = listener.destination.classify(&stream);
                Some((stream, arrival))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.pause(place, set);
                None
            }
        }
    }

    /// Has connections wait in the kernel's queue.
    pub(crate) fn pause(&mut self, place: usize, set: &EpollSet) {
        if let Some(listener) = self.0.get_mut(place) {
            listener.is_paused = set.remove(&listener.listener).is_ok();
        }
    }

    /// Whether connections are kept waiting at one of them.
    pub(crate) fn is_any_paused(&self) -> bool {
        self.0.iter().any(|listener| listener.is_paused)
    }

    /// Accepts again.
    pub(crate) fn resume(&mut self, set: &EpollSet, first: u32) {
        for (number, listener) in (first..).zip(&mut self.0).filter(|(_, listener)| listener.is_paused) {
            listener.is_paused = set.add_reader(&listener.listener, number).is_err();
        }
    }
}

impl Listener {
    /// Whether it is the port of a forwarding, wherever that leads.
    fn is_of(&self, forward: &Forward) -> bool {
        matches!(self.destination, ConnectionTarget::Fixed(_)) && self.asked_address == forward.listen
    }
}

impl ConnectionTarget {
    fn classify(&self, stream: &TcpStream) -> AcceptedConnection {
        match self {
            ConnectionTarget::Fixed(target) => AcceptedConnection::Program(target.clone()),
            ConnectionTarget::FromPeer => AcceptedConnection::Unauthenticated,
            ConnectionTarget::Redirected(redirect) => match (tcp::original_destination(stream), stream.local_addr()) {
                (Ok(destination), Ok(port)) if redirect.is_redirected(destination, port) => {
                    AcceptedConnection::Program(Target {
                        host: TargetHost::Address(destination.ip()),
                        port: destination.port(),
                    })
                }
                // It has connected to the port itself.
                _ => AcceptedConnection::Unwanted,
            },
        }
    }
}

fn is_ipv6_missing(outcome: &Result<Listener, SetupError>) -> bool {
    outcome.as_ref().is_err_and(|error| Family::is_unsupported(error.io_error()))
}

fn listen(asked_address: SocketAddr, leads: ConnectionTarget) -> Result<Listener, SetupError> {
    let listener = || -> io::Result<Listener> {
        let reusable = |socket: &Socket| socket.set_reuse_address(true);
        let socket = match &leads {
            // The other one has a socket of its own, which alone knows where its connections were to go.
            ConnectionTarget::Redirected(_) => listener::bind_one_family(asked_address, Type::STREAM, reusable)?,
            _ => listener::bind(asked_address, Type::STREAM, reusable)?,
        };
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        Ok(Listener { listener, asked_address, address, destination: leads, is_paused: false })
    };
    listener().map_err(|error| listener::bind_error(format!("listen for TCP connections on {asked_address}"), error))
}
