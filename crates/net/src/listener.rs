//! Sockets at which others are waited for.

use crate::interface::Family;
use crate::setup::SetupError;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether a descriptor or memory is missing, which others have: who waits at a listener goes on waiting, and the listener stays ready.
pub fn is_out_of_resources(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// A socket of this type at this address, where `::` means all addresses: of IPv6 and of IPv4, whatever the system does by
/// itself (`net.ipv6.bindv6only`), or of IPv4 alone where it has no IPv6. `prepare` sets what the socket needs before it is bound.
///
/// # Errors
/// The address is taken, is not this host's, or requires privileges; or `prepare` fails.
pub fn bind(address: SocketAddr, kind: Type, prepare: impl Fn(&Socket) -> io::Result<()>) -> io::Result<Socket> {
    match bind_families(address, kind, false, &prepare) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && is_ipv6_unavailable(&error) => {
            bind_families((Ipv4Addr::UNSPECIFIED, address.port()).into(), kind, false, &prepare)
        }
        outcome => outcome,
    }
}

/// The same, where `::` means the addresses of IPv6 alone: beside a socket of IPv4.
///
/// # Errors
/// As [`bind`]; and where the system has no IPv6 ([`Family::is_unsupported`]).
pub fn bind_one_family(
    address: SocketAddr,
    kind: Type,
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    bind_families(address, kind, true, &prepare)
}

fn bind_families(
    address: SocketAddr,
    kind: Type,
    is_v6_alone: bool,
    prepare: &impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(is_v6_alone)?;
    }
    prepare(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A socket cannot be bound: the operation, which reads on from "cannot", the system's answer, and what to try.
pub fn bind_error(operation: String, cause: io::Error) -> SetupError {
    let hint = match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "another program uses that port (`ss -lntup` shows which): choose another one, or end that program"
        }
        io::ErrorKind::AddrNotAvailable => "this host does not have that address: `ip address` lists those that it has",
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 require privileges: choose a higher one, or run setcap cap_net_bind_service+ep on the program"
        }
        _ => return SetupError::new(operation, cause),
    };
    SetupError::new(operation, cause).with_hint(hint)
}

/// The kernel has none, or nothing of it is set up.
fn is_ipv6_unavailable(error: &io::Error) -> bool {
    Family::is_unsupported(error) || error.raw_os_error() == Some(libc::EADDRNOTAVAIL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use kumade_netns_testbed::in_namespaces;
    use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};
    use std::fs;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::thread;

    fn everywhere() -> SocketAddr {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    }

    fn listen(socket: Socket) -> TcpListener {
        socket.listen(1).unwrap();
        socket.into()
    }

    #[test]
    fn all_addresses_are_those_of_ipv4_too_whatever_the_system_does() {
        in_namespaces("listener::tests::all_addresses_are_those_of_ipv4_too_whatever_the_system_does", || {
            let namespace = Namespace::new().unwrap();
            let heard = |setting: &'static str| {
                move || {
                    fs::write("/proc/sys/net/ipv6/bindv6only", setting).unwrap();
                    let listener = listen(bind(everywhere(), Type::STREAM, |_| Ok(())).unwrap());
                    let port = listener.local_addr().unwrap().port();
                    let alone = listen(bind_one_family(everywhere(), Type::STREAM, |_| Ok(())).unwrap());
                    let other = alone.local_addr().unwrap().port();
                    let connects = |address: &str, port| TcpStream::connect((address, port)).is_ok();
                    [
                        connects("127.0.0.1", port),
                        connects("::1", port),
                        connects("127.0.0.1", other),
                        connects("::1", other),
                    ]
                }
            };
            for setting in ["0", "1"] {
                assert_eq!(namespace.run(heard(setting)).unwrap(), [true, true, false, true], "bindv6only={setting}");
            }
        });
    }

    /// The kernel's answer is a filter's, on a thread of its own.
    #[test]
    fn without_ipv6_all_addresses_are_those_of_ipv4() {
        let bound = thread::spawn(|| {
            let is_v6 = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::AF_INET6 as u64);
            let rule = SeccompRule::new(vec![is_v6.unwrap()]).unwrap();
            let (rules, none) = ([(libc::SYS_socket, vec![rule])], SeccompAction::Errno(libc::EAFNOSUPPORT as u32));
            let architecture = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(rules.into(), SeccompAction::Allow, none, architecture).unwrap();
            let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
            seccompiler::apply_filter(&filter).unwrap();
            let udp = bind(everywhere(), Type::DGRAM, |_| Ok(())).map(UdpSocket::from);
            let tcp = bind(everywhere(), Type::STREAM, |_| Ok(())).map(TcpListener::from);
            let alone = bind_one_family(everywhere(), Type::STREAM, |_| Ok(())).unwrap_err();
            let loopback = bind((Ipv6Addr::LOCALHOST, 0).into(), Type::STREAM, |_| Ok(())).unwrap_err();
            assert!(Family::is_unsupported(&alone) && Family::is_unsupported(&loopback));
            [udp.unwrap().local_addr().unwrap().ip(), tcp.unwrap().local_addr().unwrap().ip()]
        });
        assert_eq!(bound.join().unwrap(), [Ipv4Addr::UNSPECIFIED; 2]);
    }
}
