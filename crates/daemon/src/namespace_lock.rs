use crate::name_lock::NameLockError;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

/// The right to something of the network namespace of the thread that claims it, such as one of its interfaces, among all
/// processes of all users there, as long as this lives and no longer than its process.
///
/// It is the name of a socket in that namespace (unix(7), abstract), so that it depends neither on a directory nor on the
/// environment. Any process there may take the name: a claim keeps programs from disturbing each other by mistake.
#[derive(Debug)]
pub struct NamespaceLock {
    _name: UnixListener,
}

impl NamespaceLock {
    /// Claims `resource`, such as `interface-2`.
    ///
    /// # Errors
    /// [`NameLockError::Taken`] where it has an owner; or the system refuses the name.
    pub fn new(resource: &str) -> Result<Self, NameLockError> {
        let failed = |cause| NameLockError::Io { path: PathBuf::from(format!("@{}", abstract_name(resource))), cause };
        let address = SocketAddr::from_abstract_name(abstract_name(resource)).map_err(failed)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(NamespaceLock { _name: listener }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(NameLockError::Taken { resource: resource.to_owned(), process: describe_owner(resource) })
            }
            Err(error) => Err(failed(error)),
        }
    }
}

fn abstract_name(resource: &str) -> String {
    format!("kumade/{resource}")
}

/// The number of the process that has it, and its user, if it is another's; or `unknown`.
fn describe_owner(resource: &str) -> String {
    let ask = || -> io::Result<String> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.connect(&SockAddr::unix(format!("\0{}", abstract_name(resource)))?)?;
        let peer = getsockopt(&socket, PeerCredentials)?;
        let other = nix::unistd::geteuid().as_raw() != peer.uid();
        // A process of another PID namespace has no number here.
        let process = if peer.pid() > 0 { peer.pid().to_string() } else { "unknown".to_owned() };
        Ok(if other { format!("{process} of user {}", peer.uid()) } else { process })
    };
    ask().unwrap_or_else(|_| "unknown".to_owned())
}
