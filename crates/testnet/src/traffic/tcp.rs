use super::{PATIENCE, Sink, Traffic, is_patience};
use crate::network::{Host, NetworkError};
use net::SetupError;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use units::Rate;

impl Traffic {
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
        let failed = |error| {
            SetupError::new(format!("send TCP with {congestion_control} from {} to {}", from.name, to.name), error)
                .hint("`sysctl net.ipv4.tcp_available_congestion_control` lists what this kernel has")
        };
        let listener = to.namespace.run(|| listen(far, protocol))?.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stream = from.namespace.run(|| connect(near, address, protocol, congestion_control))?.map_err(failed)?;
        if let Some(rate) = max_rate {
            net::tcp::limit_rate(&stream, rate).map_err(failed)?;
        }
        let sink = accept(&listener, stream.local_addr().map_err(failed)?).map_err(failed)?;
        sink.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        // Further subflows of Multipath TCP are only accepted as long as the listener is open.
        Traffic::arriving(sink, &to.namespace)?.sent_by(&from.namespace, move |stop| {
            let _listener = listener;
            pour(&stream, stop);
        })
    }
}

impl Sink for TcpStream {
    fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&mut &*self).read(buffer)
    }
}

fn listen(at: Ipv4Addr, protocol: Protocol) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.bind(&SocketAddr::from((at, 0)).into())?;
    socket.listen(8)?;
    Ok(socket.into())
}

/// The congestion control is chosen before connecting: a connection that was once BBR's keeps pacing.
fn connect(from: Ipv4Addr, to: SocketAddr, protocol: Protocol, congestion_control: &str) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_tcp_congestion(congestion_control.as_bytes())?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(5))?;
    Ok(socket.into())
}

/// The connection from `peer`, which is open already.
fn accept(listener: &TcpListener, peer: SocketAddr) -> io::Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept()?;
        if from == peer {
            return Ok(stream);
        }
    }
}

fn pour(mut stream: &TcpStream, stop: &AtomicBool) {
    let bytes = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&bytes) {
            Ok(_) => {}
            Err(error) if is_patience(&error) => {}
            // The other end may have stopped first.
            Err(_) if stop.load(Ordering::Relaxed) => return,
            Err(error) => return tracing::warn!("cross traffic has ended: {error}"),
        }
    }
}
