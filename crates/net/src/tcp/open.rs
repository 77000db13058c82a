use super::prepare_early;
use crate::clock;
use crate::readiness::Readiness;
use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use units::Span;

/// What came of [`open_connections`].
#[derive(Debug, Default)]
pub struct Opened {
    /// The connections that opened and took their hello, by number, in ascending order; they do not block.
    pub streams: Vec<(u16, TcpStream)>,
    /// Refused, reset, or impossible on this host.
    pub refused: u32,
    /// Not open when the deadline came: most likely dropped by a firewall.
    pub timed_out: u32,
    /// The first refusal's reason.
    pub refusal: Option<io::Error>,
}

/// Opens `count` connections together, so that all take one round trip, waits for them at most until `deadline` from
/// now, and writes `hello(number)` on each as soon as it is open. Firewalls cap connections (the rest hang or are
/// reset) or the rate of new ones: what opened in time is what there is.
///
/// # Errors
/// Where the system can't even wait for sockets.
pub fn open_connections(
    address: SocketAddr,
    count: u16,
    deadline: Span,
    hello: impl Fn(u16) -> Vec<u8>,
) -> io::Result<Opened> {
    let deadline = clock::monotonic() + deadline;
    let mut opened = Opened::default();
    let readiness = Readiness::new()?;
    let mut connecting: Vec<Option<TcpStream>> = Vec::with_capacity(count.into());
    for number in 0..count {
        let started = start(address).and_then(|stream| {
            readiness.add_writer(&stream, number.into())?;
            Ok(stream)
        });
        connecting.push(started.map_err(|error| opened.refuse(error)).ok());
    }
    let mut events = Vec::new();
    while connecting.iter().any(Option::is_some) && clock::monotonic() < deadline {
        readiness.wait(&mut events, deadline)?;
        for event in &events {
            let Some(stream) = connecting.get_mut(event.number as usize).and_then(Option::take) else { continue };
            let number = event.number as u16;
            let greeted = readiness.remove(&stream).and_then(|()| greet(stream, &hello(number)));
            match greeted {
                Ok(stream) => opened.streams.push((number, stream)),
                Err(error) => opened.refuse(error),
            }
        }
    }
    opened.timed_out = connecting.iter().flatten().count() as u32;
    opened.streams.sort_by_key(|(number, _)| *number);
    Ok(opened)
}

impl Opened {
    fn refuse(&mut self, error: io::Error) {
        self.refused += 1;
        self.refusal.get_or_insert(error);
    }
}

fn start(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    prepare_early(&socket)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

fn greet(mut stream: TcpStream, hello: &[u8]) -> io::Result<TcpStream> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    // A new connection's send buffer takes any hello whole.
    match stream.write(hello)? {
        written if written == hello.len() => Ok(stream),
        written => Err(io::Error::other(format!("only {written} of the hello's {} bytes were taken", hello.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn every_connection_says_its_own_hello() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let at = listener.local_addr().unwrap();
            let opened = open_connections(at, 20, Span::from_secs(5), |n| n.to_be_bytes().to_vec()).unwrap();
            assert_eq!((opened.streams.len(), opened.refused, opened.timed_out), (20, 0, 0));
            let mut seen: Vec<u16> = Vec::new();
            for _ in 0..20 {
                let mut hello = [0; 2];
                listener.accept().unwrap().0.read_exact(&mut hello).unwrap();
                seen.push(u16::from_be_bytes(hello));
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_closed_port_refuses_at_once() {
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let opened = open_connections(at, 5, Span::from_secs(30), |_| vec![1]).unwrap();
        assert_eq!((opened.streams.len(), opened.refused, opened.timed_out), (0, 5, 0));
        assert_eq!(opened.refusal.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn connections_that_hang_are_counted_when_the_deadline_comes() {
        // A full backlog drops further handshakes, as a firewall does.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(3).unwrap();
        let at = socket.local_addr().unwrap().as_socket().unwrap();
        let opened = open_connections(at, 12, Span::from_millis(300), |_| vec![1]).unwrap();
        assert!(!opened.streams.is_empty() && opened.timed_out > 0, "{opened:?}");
        assert_eq!(opened.streams.len() as u32 + opened.timed_out, 12);
    }
}
