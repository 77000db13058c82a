//! By which name a server is asked.

use std::net::IpAddr;

/// Whether a server is asked for by a name that it has: `host` is what the request says (`Host`, of HTTP), with or without a port. A foreign page
/// whose name is made to lead to the server (DNS rebinding) has another name, and an address is no name. On the loopback interface
/// (`is_loopback`), the server is reached by the addresses of that interface alone.
///
/// `is_own_name` is asked of names other than `localhost`.
pub fn is_own_host(host: &str, is_loopback: bool, is_own_name: impl FnOnce(&str) -> bool) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !is_loopback,
        Err(_) => name == "localhost" || is_own_name(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_loopback_interface_a_server_has_its_addresses_localhost_and_what_it_is_said_to_be_called() {
        let is_own = |host, is_loopback| is_own_host(host, is_loopback, |name| name == "paths.example");
        for host in ["localhost", "localhost:9273", "127.0.0.1:9273", "[::1]:9273", "[::1]", "paths.example:1"] {
            assert!(is_own(host, true) && is_own(host, false), "{host}");
        }
        for host in ["rebound.example:9273", "localhost.rebound.example", "", ":9273", "[rebound.example]"] {
            assert!(!is_own(host, true) && !is_own(host, false), "{host}");
        }
        assert_eq!([true, false].map(|is_loopback| is_own("192.0.2.1:9273", is_loopback)), [false, true]);
    }
}
