//! By which name a server is asked.

use std::fs;
use std::net::IpAddr;

/// Whether a server is asked for by a name that it has: `host` is what the request says (`Host`, of HTTP), with or without a port. A foreign page
/// whose name is made to lead to the server (DNS rebinding) has another name, and an address is no name. On the loopback interface
/// (`is_loopback`), the server is reached by the addresses of that interface alone.
///
/// Names are `localhost`, the name of the host as the kernel has it, and those of which `is_own_name` says so.
pub fn is_own_host(host: &str, is_loopback: bool, is_own_name: impl FnOnce(&str) -> bool) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !is_loopback,
        Err(_) => name == "localhost" || is_name_of_host(name) || is_own_name(name),
    }
}

/// Debian's hosts know themselves by that name as 127.0.1.1.
fn is_name_of_host(name: &str) -> bool {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    !name.is_empty() && own.trim_end().eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_loopback_interface_a_server_has_its_addresses_its_names_and_what_it_is_said_to_be_called() {
        let is_own = |host, is_loopback| is_own_host(host, is_loopback, |name| name == "paths.example");
        for host in ["localhost", "localhost:9273", "127.0.0.1:9273", "[::1]:9273", "[::1]", "paths.example:1"] {
            assert!(is_own(host, true) && is_own(host, false), "{host}");
        }
        for host in ["rebound.example:9273", "localhost.rebound.example", "", ":9273", "[rebound.example]"] {
            assert!(!is_own(host, true) && !is_own(host, false), "{host}");
        }
        let own_name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert!(is_own_host(&format!("{}:9273", own_name.trim_end()), true, |_| false));
        assert_eq!([true, false].map(|is_loopback| is_own("192.0.2.1:9273", is_loopback)), [false, true]);
    }
}
