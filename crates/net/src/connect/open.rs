use super::{begin_connecting, prepare_unconnected};
use crate::platform::readiness::SocketSet;
use crate::{SocketBinding, clock};
use kumade_units::{Span, Time};
use rustix::fd::{AsFd, BorrowedFd};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

/// What came of [`open_connections`].
#[derive(Debug, Default)]
pub struct OpenedConnections {
    /// The connections that opened and took their hello, by number, in ascending order; they do not block.
    pub streams: Vec<(u16, TcpStream)>,
    /// Refused, reset, or impossible on this host.
    pub refused: u32,
    /// Not open when the deadline came: most likely dropped by a firewall.
    pub timed_out: u32,
    /// The first refusal's reason.
    pub refusal: Option<io::Error>,
}

/// With nothing opening for this long, or for two round trips, what is still closed hangs.
const STALL_TIMEOUT: Span = Span::from_millis(250);
/// From one new attempt to the next: a firewall that lets few SYNs pass in a second meets no more of these than of others.
const RETRY_INTERVAL: Span = Span::from_millis(20);

/// Opens `count` connections together, so that all take one round trip, waits for them at most until `deadline` from
/// now, and writes `hello(number)` on each as soon as it is open. They are begun `spacing` apart, for a path that passes
/// few packets at once: zero begins all together. Firewalls cap connections (the rest hang or are
/// reset) or the rate of new ones. Those that hang are therefore tried anew, one by one: the kernel would repeat all
/// their SYNs a second later, together (RFC 6298), and lose them together. What opened in time is what there is.
///
/// # Errors
/// Where the system can't even wait for sockets.
pub fn open_connections(
    address: SocketAddr,
    binding: &SocketBinding,
    count: u16,
    round_trip: Span,
    spacing: Span,
    deadline: Span,
    hello: impl Fn(u16) -> Vec<u8>,
) -> io::Result<OpenedConnections> {
    let deadline = clock::monotonic() + deadline;
    let mut opening = ConnectionOpener::new(address, binding, count, spacing, STALL_TIMEOUT.max(round_trip * 2))?;
    let mut events = Vec::new();
    while opening.is_pending() && clock::monotonic() < deadline {
        let until = deadline.min(opening.next_begin.unwrap_or(opening.next_retry));
        opening.readiness.wait_open(|number| opening.pending_socket(number), &mut events, until)?;
        for event in &events {
            opening.handle_ready(event.number as u16, &hello);
        }
        opening.begin_due_connections();
        opening.retry_oldest();
    }
    Ok(opening.finish())
}

/// Connections on their way.
struct ConnectionOpener<'b> {
    address: SocketAddr,
    binding: &'b SocketBinding,
    readiness: SocketSet,
    /// By number, of those that have begun.
    attempts: Vec<Option<Attempt>>,
    count: u16,
    spacing: Span,
    /// When the next one begins; none if all have.
    next_begin: Option<Time>,
    opened: OpenedConnections,
    /// No attempt is given up before it is this old.
    stall_timeout: Span,
    next_retry: Time,
    is_retrying: bool,
}

struct Attempt {
    stream: TcpStream,
    started_at: Time,
}

impl<'b> ConnectionOpener<'b> {
    fn new(address: SocketAddr, binding: &'b SocketBinding, count: u16, spacing: Span, lull: Span) -> io::Result<Self> {
        let (readiness, now) = (SocketSet::new()?, clock::monotonic());
        let mut opening = ConnectionOpener {
            address,
            binding,
            readiness,
            attempts: Vec::new(),
            count,
            spacing,
            next_begin: Some(now),
            opened: OpenedConnections::default(),
            stall_timeout: lull,
            next_retry: now + lull,
            is_retrying: false,
        };
        opening.begin_due_connections();
        Ok(opening)
    }

    /// Whether one is on its way, or still to begin.
    fn is_pending(&self) -> bool {
        self.next_begin.is_some() || self.attempts.iter().any(Option::is_some)
    }

    fn pending_socket(&self, number: u32) -> Option<BorrowedFd<'_>> {
        Some(self.attempts.get(number as usize)?.as_ref()?.stream.as_fd())
    }

    /// Begins those that are due.
    fn begin_due_connections(&mut self) {
        let now = clock::monotonic();
        while let Some(due) = self.next_begin.filter(|due| *due <= now) {
            let number = self.attempts.len() as u16;
            let is_left = number < self.count;
            if is_left {
                self.attempts.push(None);
                self.begin_connection(number);
                self.next_retry = now + self.stall_timeout;
            }
            self.next_begin = is_left.then(|| due + self.spacing);
        }
    }

    /// Starts this connection, in place of the attempt that there may be.
    fn begin_connection(&mut self, number: u16) {
        if let Some(given_up) = self.attempts[usize::from(number)].take() {
            // It is closed in any case.
            let _ = self.readiness.remove(&given_up.stream);
        }
        let started = start_connecting(self.address, self.binding).and_then(|stream| {
            self.readiness.add_writer(&stream, number.into())?;
            Ok(Attempt { stream, started_at: clock::monotonic() })
        });
        self.attempts[usize::from(number)] = started.map_err(|error| self.opened.record_refusal(error)).ok();
    }

    /// A connection is open, or has failed.
    fn handle_ready(&mut self, number: u16, hello: &impl Fn(u16) -> Vec<u8>) {
        let attempt = self.attempts.get_mut(usize::from(number)).and_then(Option::take);
        let Some(Attempt { stream, .. }) = attempt else { return };
        match self.readiness.remove(&stream).and_then(|()| send_hello(stream, &hello(number))) {
            Ok(stream) => self.opened.streams.push((number, stream)),
            Err(error) => self.opened.record_refusal(error),
        }
        if !self.is_retrying {
            self.next_retry = clock::monotonic() + self.stall_timeout;
        }
    }

    /// Once nothing has happened for a lull: gives up the oldest attempt for a new one, now and then.
    fn retry_oldest(&mut self) {
        let now = clock::monotonic();
        if now < self.next_retry {
            return;
        }
        self.is_retrying = true;
        self.next_retry = now + RETRY_INTERVAL;
        let began = |(number, attempt): (u16, &Option<Attempt>)| Some((attempt.as_ref()?.started_at, number));
        if let Some((began, oldest)) = (0..).zip(&self.attempts).filter_map(began).min()
            && now - began >= self.stall_timeout
        {
            self.begin_connection(oldest);
        }
    }

    fn finish(mut self) -> OpenedConnections {
        self.opened.timed_out = self.attempts.iter().flatten().count() as u32;
        self.opened.streams.sort_by_key(|(number, _)| *number);
        self.opened
    }
}

impl OpenedConnections {
    fn record_refusal(&mut self, error: io::Error) {
        self.refused += 1;
        self.refusal.get_or_insert(error);
    }
}

fn start_connecting(address: SocketAddr, binding: &SocketBinding) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    binding.apply(&socket, address)?;
    prepare_unconnected(&socket)?;
    socket.set_nonblocking(true)?;
    begin_connecting(&socket, &address.into()).map(|()| socket.into())
}

fn send_hello(mut stream: TcpStream, hello: &[u8]) -> io::Result<TcpStream> {
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

    const SHORT: Span = Span::from_millis(1);

    #[test]
    fn every_connection_says_its_own_hello() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let at = listener.local_addr().unwrap();
            let opened =
                open_connections(at, &SocketBinding::default(), 20, SHORT, Span::ZERO, Span::from_secs(60), |n| {
                    n.to_be_bytes().to_vec()
                })
                .unwrap();
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
        // One that was free a moment ago may be another test's now.
        let at = "127.0.0.1:1".parse().unwrap();
        let opened =
            open_connections(at, &SocketBinding::default(), 5, SHORT, Span::ZERO, Span::from_secs(60), |_| vec![1])
                .unwrap();
        assert_eq!((opened.streams.len(), opened.refused, opened.timed_out), (0, 5, 0));
        assert_eq!(opened.refusal.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn connections_that_hang_are_counted_when_the_deadline_comes() {
        let (_full, at) = nearly_full();
        let opened =
            open_connections(at, &SocketBinding::default(), 12, SHORT, Span::ZERO, Span::from_secs(1), |_| vec![1])
                .unwrap();
        assert!(!opened.streams.is_empty() && opened.timed_out > 0, "{opened:?}");
        assert_eq!(opened.streams.len() as u32 + opened.timed_out, 12);
    }

    #[test]
    fn the_oldest_that_hangs_is_tried_anew() {
        let (_full, at) = nearly_full();
        let binding = SocketBinding::default();
        let mut opening = ConnectionOpener::new(at, &binding, 12, Span::ZERO, Span::ZERO).unwrap();
        let port = |attempt: &Option<Attempt>| Some(attempt.as_ref()?.stream.local_addr().unwrap().port());
        let before: Vec<_> = opening.attempts.iter().map(port).collect();
        opening.attempts[0] = None;
        opening.retry_oldest();
        let after: Vec<_> = opening.attempts.iter().map(port).collect();
        assert_eq!((after[0], after[1] == before[1], &after[2..]), (None, false, &before[2..]));
    }

    /// A listener whose full backlog drops further handshakes, as a firewall does.
    fn nearly_full() -> (Socket, SocketAddr) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(3).unwrap();
        let at = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, at)
    }
}
