//! By which name a server is asked.

use std::fs;
use std::net::IpAddr;

/// Whether a server is asked for by a name that it has: `host` is what the request says (`Host`, of HTTP), with or without a port. A foreign page
/// whose name is made to lead to the server (DNS rebinding) has another name, and an address is no name. On the loopback interface
/// (`is_loopback`), the server is reached by the addresses of that interface alone.
///
/// Names are `localhost`, the host's own as its kernel and `/etc/hosts` have them, and those of which `is_own_name` says so.
pub fn is_own_host(host: &str, is_loopback: bool, is_own_name: impl FnOnce(&str) -> bool) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !is_loopback,
        Err(_) => name == "localhost" || is_own_name(name) || is_name_of_host(name),
    }
}

/// Debian's hosts know themselves by their short and their full name as 127.0.1.1.
fn is_name_of_host(name: &str) -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let is_alike = |own: &str| own.eq_ignore_ascii_case(name);
    !name.is_empty()
        && (is_alike(read("/proc/sys/kernel/hostname").trim_end()) || loopback_names(&read("/etc/hosts")).any(is_alike))
}

/// The names that a file of hosts (hosts(5)) has for addresses of the loopback interface.
fn loopback_names(hosts: &str) -> impl Iterator<Item = &str> {
    hosts.lines().flat_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let is_loopback = words.next().and_then(|word| word.parse::<IpAddr>().ok()).is_some_and(|it| it.is_loopback());
        words.filter(move |_| is_loopback)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_names_of_its_loopback_addresses() {
        let hosts =
            "127.0.0.1 localhost\n127.0.1.1\tpaths.example.org paths # own\n192.0.2.1 other\n#127.0.0.1 no\n::1 six\n";
        assert_eq!(loopback_names(hosts).collect::<Vec<_>>(), ["localhost", "paths.example.org", "paths", "six"]);
    }

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
