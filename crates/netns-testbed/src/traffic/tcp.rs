use super::blocks::BlockWrites;
use super::{STOP_POLL_INTERVAL, Traffic, TrafficSink, is_timeout};
use crate::network::{Host, NetworkError};
use kumade_net::SetupError;
use kumade_units::Rate;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A TCP connection from one host to another.
#[derive(Debug, Clone, Copy)]
pub struct TcpEnds<'a> {
    /// Who sends.
    pub from: &'a Host,
    /// Who receives.
    pub to: &'a Host,
    /// The receiver's port; any, if 0.
    pub port: u16,
    /// Where the sender connects, if it is something else that passes the connection on to the receiver.
    pub proxy: Option<SocketAddr>,
    /// That of both ends, such as `cubic`.
    pub congestion_control: &'a str,
}

/// What forwards a connection has to reach the receiver within this.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of a connection whose blocks change no more waits to leave, so that what was written before has soon left.
const MAX_UNSENT_BYTES: u32 = 64 << 10;

impl Traffic {
    /// The longest write.
    pub const MAX_BLOCK_BYTES: usize = 1 << 16;

    /// Connects and begins to write in blocks of 64 kB, as fast as the connection takes them; [`BlockWrites::write`] changes that.
    ///
    /// # Errors
    /// As for [`Traffic::tcp`]; or what is to pass the connection on does not.
    pub fn tcp_blocks(ends: &TcpEnds<'_>) -> Result<(Self, BlockWrites), NetworkError> {
        let failed = |error| ends.failed(error);
        let (stream, sink) = ends.open(Protocol::TCP, ends.from.v4, ends.to.v4).map_err(failed)?;
        kumade_net::tcp::limit_unsent(&stream, MAX_UNSENT_BYTES).map_err(failed)?;
        let bytes = Arc::new(AtomicUsize::new(Self::MAX_BLOCK_BYTES));
        let blocks = BlockWrites::new(Arc::clone(&bytes), stream.try_clone().map_err(failed)?);
        let traffic = Traffic::count_arrivals(sink, &ends.to.namespace)?;
        let traffic = traffic.run_source(&ends.from.namespace, move |stop| write_blocks(&stream, &bytes, stop))?;
        Ok((traffic, blocks))
    }

    /// Connects over IPv4 and begins to send as fast as the congestion control of this name lets it: `cubic`, `reno`.
    /// (The system's default may be any.) With `max_rate` it never sends faster than that, counted in IP packets.
    ///
    /// # Errors
    /// Where the kernel does not have this congestion control, or the host cannot be reached.
    pub fn tcp(from: &Host, to: &Host, congestion_control: &str, max_rate: Option<Rate>) -> Result<Self, NetworkError> {
        let ends = [(from, from.v4), (to, to.v4)];
        Traffic::connection(ends, Protocol::TCP, congestion_control, max_rate)
    }

    /// The same over Multipath TCP (RFC 8684), from and to these addresses of the hosts at first.
    ///
    /// # Errors
    /// As for [`Traffic::tcp`]; or the kernel has no Multipath TCP.
    pub fn mptcp(
        from: (&Host, Ipv4Addr),
        to: (&Host, Ipv4Addr),
        congestion_control: &str,
    ) -> Result<Self, NetworkError> {
        Traffic::connection([from, to], Protocol::MPTCP, congestion_control, None)
    }

    fn connection(
        [(from, near), (to, far)]: [(&Host, Ipv4Addr); 2],
        protocol: Protocol,
        congestion_control: &str,
        max_rate: Option<Rate>,
    ) -> Result<Self, NetworkError> {
        let ends = TcpEnds { from, to, port: 0, proxy: None, congestion_control };
        let failed = |error| ends.failed(error);
        let (stream, (sink, listener)) = ends.open_listening(protocol, near, far).map_err(failed)?;
        if let Some(rate) = max_rate {
            kumade_net::tcp::set_max_pacing_rate(&stream, rate).map_err(failed)?;
        }
        // Further subflows of Multipath TCP are only accepted as long as the listener is open.
        Traffic::count_arrivals(sink, &to.namespace)?.run_source(&from.namespace, move |stop| {
            let _listener = listener;
            write_blocks(&stream, &AtomicUsize::new(Traffic::MAX_BLOCK_BYTES), stop);
        })
    }
}

impl TcpEnds<'_> {
    fn failed(&self, error: io::Error) -> SetupError {
        let TcpEnds { from, to, congestion_control, .. } = self;
        SetupError::new(format!("send TCP with {congestion_control} from {} to {}", from.name, to.name), error)
            .with_hint("`sysctl net.ipv4.tcp_available_congestion_control` lists what this kernel has")
    }

    /// The sending and the receiving socket.
    fn open(&self, protocol: Protocol, near: Ipv4Addr, far: Ipv4Addr) -> io::Result<(TcpStream, TcpStream)> {
        let (stream, (sink, _)) = self.open_listening(protocol, near, far)?;
        Ok((stream, sink))
    }

    /// The same with the socket that has listened.
    fn open_listening(
        &self,
        protocol: Protocol,
        near: Ipv4Addr,
        far: Ipv4Addr,
    ) -> io::Result<(TcpStream, (TcpStream, TcpListener))> {
        let listener = self
            .to
            .namespace
            .run(|| listen((far, self.port), protocol, self.congestion_control))
            .map_err(io::Error::other)??;
        let address = self.proxy.map_or_else(|| listener.local_addr(), Ok)?;
        let connect = || connect(near, address, protocol, self.congestion_control);
        let stream = self.from.namespace.run(connect).map_err(io::Error::other)??;
        let peer = if self.proxy.is_some() { None } else { Some(stream.local_addr()?) };
        let sink = accept(&listener, peer)?;
        sink.set_read_timeout(Some(STOP_POLL_INTERVAL))?;
        Ok((stream, (sink, listener)))
    }
}

impl TrafficSink for TcpStream {
    fn read_bytes(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&mut &*self).read(buffer)
    }
}

/// The receiver uses the sender's congestion control: those that live on ECN's marks have the receiver echo them exactly.
fn listen(at: (Ipv4Addr, u16), protocol: Protocol, congestion_control: &str) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_tcp_congestion(congestion_control.as_bytes())?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from(at).into())?;
    // Of accepting, too.
    socket.set_read_timeout(Some(ACCEPT_TIMEOUT))?;
    socket.listen(8)?;
    Ok(socket.into())
}

/// The congestion control is chosen before connecting: a connection that was once BBR's keeps pacing.
fn connect(from: Ipv4Addr, to: SocketAddr, protocol: Protocol, congestion_control: &str) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_tcp_congestion(congestion_control.as_bytes())?;
    socket.set_write_timeout(Some(STOP_POLL_INTERVAL))?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(5))?;
    Ok(socket.into())
}

/// The connection from `peer`, which is open already; or the next one.
fn accept(listener: &TcpListener, peer: Option<SocketAddr>) -> io::Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept()?;
        if peer.is_none_or(|peer| peer == from) {
            return Ok(stream);
        }
    }
}

fn write_blocks(mut stream: &TcpStream, block: &AtomicUsize, stop: &AtomicBool) {
    let bytes = vec![0; Traffic::MAX_BLOCK_BYTES];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&bytes[..block.load(Ordering::Relaxed)]) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            // The other end may have stopped first.
            Err(_) if stop.load(Ordering::Relaxed) => return,
            Err(error) => return tracing::warn!("cross traffic has ended: {error}"),
        }
    }
}
