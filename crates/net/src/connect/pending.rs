use super::begin_connecting;
use crate::SocketBinding;
#[cfg(target_os = "linux")]
use crate::option::FastOpenConnect;
use crate::platform::{readiness, stamp};
use crate::report_icmp_errors;
use kumade_units::Time;
#[cfg(target_os = "linux")]
use nix::sys::socket::setsockopt;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The congestion control that requests ECN whatever `net.ipv4.tcp_ecn` says (RFC 8257).
#[cfg(target_os = "linux")]
const ECN_CONTROLLER: &[u8] = b"dctcp";

/// What a SYN carries beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynOption {
    /// Multipath TCP (RFC 8684).
    Mptcp,
    /// A request for a cookie of TCP Fast Open (RFC 7413).
    FastOpen,
    /// A request for ECN (RFC 3168), by a congestion control that needs it.
    Ecn,
}

/// A TCP connection that is being opened, so that whoever waits for it can look at something else now and then.
#[derive(Debug)]
pub struct PendingConnection {
    /// None once it has been handed over.
    stream: Option<TcpStream>,
    /// An error that was there at once.
    immediate_error: Option<io::Error>,
}

impl PendingConnection {
    /// Begins to connect.
    ///
    /// # Errors
    /// Where the socket can't be made or bound; what the far end or the route says comes from [`wait`](Self::wait).
    pub fn begin(address: SocketAddr, binding: &SocketBinding) -> io::Result<Self> {
        PendingConnection::begin_prepared(address, binding, |_| Ok(()))
    }

    /// Begins to connect a socket that was prepared: some options come too late afterwards.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), and those of `prepare`.
    pub fn begin_prepared(
        address: SocketAddr,
        binding: &SocketBinding,
        prepare: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> io::Result<Self> {
        Self::begin_protocol(address, binding, Protocol::TCP, prepare)
    }

    /// Begins to connect by TCP whose SYN carries this option.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), and where the kernel has it not, or is set not to use it.
    #[cfg(target_os = "linux")]
    pub fn begin_with_option(address: SocketAddr, binding: &SocketBinding, option: SynOption) -> io::Result<Self> {
        match option {
            SynOption::Mptcp => Self::begin_protocol(address, binding, Protocol::MPTCP, |_| Ok(())),
            SynOption::FastOpen => {
                Self::begin_prepared(address, binding, |socket| Ok(setsockopt(socket, FastOpenConnect, &1)?))
            }
            SynOption::Ecn => {
                Self::begin_prepared(address, binding, |socket| socket.set_tcp_congestion(ECN_CONTROLLER))
            }
        }
    }

    /// Begins to connect by TCP whose SYN carries this option, which nobody says here.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_os = "linux"))]
    pub fn begin_with_option(_: SocketAddr, _: &SocketBinding, option: SynOption) -> io::Result<Self> {
        let text = format!("this system lets no program choose whether a SYN carries {option:?}");
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    fn begin_protocol(
        address: SocketAddr,
        binding: &SocketBinding,
        protocol: Protocol,
        prepare: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
        binding.apply(&socket, address)?;
        prepare(&socket)?;
        Self::connect(socket, address)
    }

    /// Begins to connect from this port of this host, which connections to other addresses may have as well if they were begun like this;
    /// 0 is any.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), and where the port is taken.
    pub fn begin_from_port(address: SocketAddr, binding: &SocketBinding, port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        binding.apply_with_port(&socket, address, port)?;
        Self::connect(socket, address)
    }

    /// Begins to connect from this port, or any, by packets with this octet of DSCP and ECN (of which TCP sets the latter itself) and this TTL or hop
    /// limit. Routers at which that ends answer, which [`next_icmp_error`](crate::next_icmp_error) reads; it takes Linux 5.9. A
    /// connection that opens all the same is reset when it is dropped.
    ///
    /// # Errors
    /// As [`begin_from_port`](Self::begin_from_port).
    pub fn begin_with_hop_limit(
        address: SocketAddr,
        binding: &SocketBinding,
        port: u16,
        ds_field: u8,
        hop_limit: u8,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_linger(Some(Duration::ZERO))?;
        match address.ip().to_canonical().is_ipv4() {
            true => {
                socket.set_ttl_v4(hop_limit.into())?;
                socket.set_tos_v4(ds_field.into())?;
            }
            false => {
                socket.set_unicast_hops_v6(hop_limit.into())?;
                #[cfg(not(windows))]
                socket.set_tclass_v6(ds_field.into())?;
            }
        }
        report_icmp_errors(&socket, true)?;
        // Without, the time is that of reading.
        let _ = stamp::enable_receive(&socket);
        binding.apply_with_port(&socket, address, port)?;
        Self::connect(socket, address)
    }

    fn connect(socket: Socket, address: SocketAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let refusal = begin_connecting(&socket, &address.into()).err();
        Ok(PendingConnection { stream: Some(socket.into()), immediate_error: refusal })
    }

    /// The socket, to be waited for with others; none once it has been handed over.
    pub fn socket(&self) -> Option<&TcpStream> {
        self.stream.as_ref()
    }

    /// The connection, which does not block; none where it is not open by `deadline`.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn wait(&mut self, deadline: Time) -> io::Result<Option<TcpStream>> {
        if let Some(refusal) = self.immediate_error.take() {
            return Err(refusal);
        }
        let Some(stream) = &self.stream else { return Ok(None) };
        if !readiness::wait_writable(stream, deadline)? {
            return Ok(None);
        }
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(self.stream.take()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use kumade_units::Span;
    use std::net::TcpListener;

    #[test]
    fn a_connection_opens_or_says_why_not() {
        let soon = || clock::monotonic() + Span::from_secs(30);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let mut connecting = PendingConnection::begin(there, &SocketBinding::default()).unwrap();
        assert_eq!(connecting.wait(soon()).unwrap().unwrap().peer_addr().unwrap(), there);
        // One that was free a moment ago may be another test's now.
        let closed = "127.0.0.1:1".parse().unwrap();
        let mut connecting = PendingConnection::begin(closed, &SocketBinding::default()).unwrap();
        assert_eq!(connecting.wait(soon()).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn connections_to_several_addresses_have_one_port() {
        let soon = || clock::monotonic() + Span::from_secs(30);
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut opened: Vec<TcpStream> = Vec::new();
        for listener in &listeners {
            let port = opened.first().map_or(0, |stream| stream.local_addr().unwrap().port());
            let (there, binding) = (listener.local_addr().unwrap(), SocketBinding::default());
            let mut connecting = PendingConnection::begin_from_port(there, &binding, port).unwrap();
            opened.push(connecting.wait(soon()).unwrap().unwrap());
        }
        assert_eq!(opened[0].local_addr().unwrap(), opened[1].local_addr().unwrap());
    }
}
