use crate::config::Forward;
use crate::target::Target;
use net::SetupError;
use net::readiness::Readiness;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// The ports at which connections are accepted.
pub(crate) struct Listeners(Vec<Listener>);

struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    /// Where its connections lead; none at the far end.
    target: Option<Target>,
    is_paused: bool,
}

const BACKLOG: i32 = 1024;

impl Listeners {
    /// Those of a near end.
    pub(crate) fn of_forwards(forwards: Vec<Forward>) -> Result<Self, SetupError> {
        let listener = |forward: Forward| listen(forward.listen, Some(forward.target));
        forwards.into_iter().map(listener).collect::<Result<_, _>>().map(Listeners)
    }

    /// That of a far end, if it has one.
    pub(crate) fn of_far_end(address: Option<SocketAddr>) -> Result<Self, SetupError> {
        address.into_iter().map(|address| listen(address, None)).collect::<Result<_, _>>().map(Listeners)
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|listener| listener.address).collect()
    }

    /// Has the set report each under its place, counted from `first`.
    pub(crate) fn watch(&self, set: &Readiness, first: u32) -> io::Result<()> {
        (first..).zip(&self.0).try_for_each(|(number, listener)| set.add_reader(&listener.listener, number))
    }

    /// Accepts a connection; where it leads, if that is known. If the system has no room for one, further ones wait until
    /// [`resume`](Self::resume).
    pub(crate) fn accept(&mut self, place: usize, set: &Readiness) -> Option<(TcpStream, Option<Target>)> {
        let listener = self.0.get(place)?;
        match listener.listener.accept() {
            Ok((stream, _)) => Some((stream, listener.target.clone())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.pause(place, set);
                None
            }
        }
    }

    /// Has connections wait in the kernel's queue.
    pub(crate) fn pause(&mut self, place: usize, set: &Readiness) {
        if let Some(listener) = self.0.get_mut(place) {
            listener.is_paused = set.remove(&listener.listener).is_ok();
        }
    }

    /// Accepts again.
    pub(crate) fn resume(&mut self, set: &Readiness, first: u32) {
        for (number, listener) in (first..).zip(&mut self.0).filter(|(_, listener)| listener.is_paused) {
            listener.is_paused = set.add_reader(&listener.listener, number).is_err();
        }
    }
}

fn listen(address: SocketAddr, target: Option<Target>) -> Result<Listener, SetupError> {
    let listener = || -> io::Result<Listener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        Ok(Listener { listener, address, target, is_paused: false })
    };
    listener().map_err(|error| SetupError::new(format!("listen for TCP connections on {address}"), error))
}
