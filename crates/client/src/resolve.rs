//! Name resolution.

use crate::cancel::StopCondition;
use crate::error::{Error, NO_NAME_SERVICE_ANSWER};
use crate::family::Family;
use kumade_net::{ScopedAddress, ScopedAddressError, clock};
use kumade_transport::deadline_after;
use kumade_units::Span;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;

/// Timeout of name resolution; the system resolver's own can be much longer.
const RESOLVE_TIMEOUT: Span = Span::from_secs(6);

/// The addresses of a host that belong to `family`, in the system's order of preference; at least one.
pub(crate) fn resolve(host: &str, port: u16, family: Family, limit: &StopCondition) -> Result<Vec<SocketAddr>, Error> {
    let (family, name): (fn(&SocketAddr) -> bool, _) = match family {
        Family::Any => (|_| true, "usable"),
        Family::V4 => (SocketAddr::is_ipv4, "IPv4"),
        Family::V6 => (SocketAddr::is_ipv6, "IPv6"),
    };
    let addresses = match host.parse::<ScopedAddress>() {
        Ok(address) => vec![address.with_port(port)],
        Err(ScopedAddressError::Malformed(_)) => resolve_name(host, port, limit)?,
        Err(error) => return Err(Error::ResolutionFailed { host: host.to_owned(), cause: error.to_string() }),
    };
    let usable: Vec<_> = addresses.into_iter().filter(family).collect();
    if usable.iter().any(is_unscoped_link_local) {
        return Err(Error::NoInterface { host: host.to_owned() });
    }
    if usable.is_empty() { Err(Error::NoAddressOfFamily { host: host.to_owned(), family: name }) } else { Ok(usable) }
}

fn is_unscoped_link_local(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0)
}

/// Asks the system resolver, which has no deadline, in a thread that may outlive this call.
fn resolve_name(host: &str, port: u16, limit: &StopCondition) -> Result<Vec<SocketAddr>, Error> {
    let (done, answer) = mpsc::channel();
    let target = (host.to_owned(), port);
    let failed = |cause: String| Error::ResolutionFailed { host: host.to_owned(), cause };
    let ask = move || done.send(target.to_socket_addrs().map(Iterator::collect::<Vec<_>>));
    let thread = thread::Builder::new().name("resolver".into()).spawn(ask);
    thread.map_err(|error| failed(format!("cannot start a thread: {error}")))?;
    let end = deadline_after(RESOLVE_TIMEOUT);
    while clock::monotonic() < end {
        limit.check()?;
        if let Ok(addresses) = answer.recv_timeout(StopCondition::CHECK_INTERVAL.to_duration()) {
            return addresses.map_err(|error: io::Error| failed(error.to_string()));
        }
    }
    Err(failed(format!("{NO_NAME_SERVICE_ANSWER} within {RESOLVE_TIMEOUT}")))
}
