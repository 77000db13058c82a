//! The library's hints, worded with the options of the command line.

use kumade_client::{DEFAULT_PORT, Error, Hint};
use kumade_measurement::report::ErrorReport;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

/// The error with what to try.
pub fn describe_error(error: &Error) -> String {
    describe_hint(error).map_or_else(|| error.to_string(), |words| format!("{error}; {words}"))
}

/// The error for documents.
pub fn error_report(error: &Error) -> ErrorReport {
    ErrorReport { kind: error.kind().to_owned(), message: error.to_string(), hint: describe_hint(error) }
}

fn describe_hint(error: &Error) -> Option<String> {
    let words = error.hint().and_then(hint_text)?;
    let brackets = match error {
        Error::Connect { address: SocketAddr::V6(address), .. } => bracketed(address),
        _ => None,
    };
    Some(brackets.map_or_else(|| words.to_owned(), |meant| format!("{words}; or is {meant} meant?")))
}

/// An IPv6 address whose end looks like the usual port, where none was given, as what may be meant: `[fd00::1]:7272` of `fd00::1:7272`.
fn bracketed(address: &SocketAddrV6) -> Option<String> {
    let text = address.ip().to_string();
    let (host, port) = text.rsplit_once(':').filter(|_| address.port() == DEFAULT_PORT)?;
    // Other numbers are a host's rather, which a name may stand for.
    (port == DEFAULT_PORT.to_string() && host.parse::<Ipv6Addr>().is_ok()).then(|| format!("[{host}]:{port}"))
}

fn hint_text(hint: Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::CheckName => "check the host name",
        Hint::CheckNameService => {
            "no name service answers: check this host's DNS (/etc/resolv.conf), or give an address"
        }
        Hint::AllowOtherFamily => "omit -4 or -6, or choose another --source",
        Hint::AddressOfOtherFamily => {
            "it is an address of the other IP version: omit -4 or -6, or give the host's name"
        }
        Hint::NameInterface => "append the interface, as in fe80::1%eth0",
        Hint::StartServer => "nothing listens on that port: check the port, and that `kumade serve` is running",
        Hint::CheckAddressAndFirewall => "no answer: check the address, and that firewalls pass the port",
        Hint::RouteDiscards => {
            "a route of this host may discard what goes there (`blackhole`, `prohibit`): see `ip route get`"
        }
        Hint::CheckRouteAndFirewall => "check routes and firewalls",
        Hint::CheckService => "check that `kumade serve` is running on that port",
        Hint::CheckServerAndPath => "check that the server and the path to it are still up, then try again",
        Hint::UseSameRelease => "use the same release on both ends",
        Hint::TryLater => "try again later",
        Hint::WaitLonger => "try again later, or wait longer with --wait",
        Hint::UseTcp => "use --transport rake or --transport auto",
        Hint::ConnectionsLimited => "a firewall may limit connections: try again later, or use --transport udp",
        Hint::UseFewerConnections => {
            "a middlebox resets connections: use fewer with --connections, or use --transport udp"
        }
        Hint::StartReflector => {
            "nothing listens on that port: check the port, and that `kumade serve --stamp` or another reflector is running"
        }
        Hint::CheckReflectorAndFirewall => {
            "check the port, that `kumade serve --stamp` or another reflector is running on it, and that firewalls pass UDP"
        }
        Hint::GiveKey => "use the server's key with --key FILE",
        Hint::OmitKey => {
            "start the server with the same --key (anybody on the path could have given this answer: it is not authenticated)"
        }
        Hint::CheckBinding => "check --source, --interface and --mark (which requires CAP_NET_ADMIN)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_port_behind_an_address_without_brackets_is_asked_about() {
        let said = |address: &str, port| {
            let address = SocketAddr::new(address.parse().unwrap(), port);
            describe_error(&Error::Connect { address, cause: io::ErrorKind::NetworkUnreachable.into() })
        };
        let text = said("fd77::1:7272", DEFAULT_PORT);
        assert!(text.ends_with("check routes and firewalls; or is [fd77::1]:7272 meant?"), "{text}");
        for (address, port) in
            [("fd77::1:7272", 80), ("fd77::1", DEFAULT_PORT), ("fd77::7272", DEFAULT_PORT), ("192.0.2.1", DEFAULT_PORT)]
        {
            assert!(!said(address, port).contains("meant"), "{address}");
        }
    }

    /// "Temporary failure in name resolution; check the host name" was all that was said where no name service answered.
    #[test]
    fn a_name_service_that_does_not_answer_is_no_fault_of_the_name() {
        let hint =
            |cause: &str| describe_error(&Error::ResolutionFailed { host: "far".to_owned(), cause: cause.to_owned() });
        let silent = hint("failed to lookup address information: Temporary failure in name resolution");
        assert!(silent.contains("/etc/resolv.conf") && !silent.contains("check the host name"), "{silent}");
        assert!(
            hint("failed to lookup address information: Name or service not known").ends_with("check the host name")
        );
    }
}
