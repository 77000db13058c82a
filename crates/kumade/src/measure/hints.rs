//! The library's hints, worded with the options of the command line.

use kumade_client::{Error, Hint};
use kumade_measurement::report::ErrorReport;

/// The error with what to try.
pub fn describe_error(error: &Error) -> String {
    match error.hint().and_then(hint_text) {
        Some(words) => format!("{error}; {words}"),
        None => error.to_string(),
    }
}

/// The error for documents.
pub fn error_report(error: &Error) -> ErrorReport {
    let hint = error.hint().and_then(hint_text).map(str::to_owned);
    ErrorReport { kind: error.kind().to_owned(), message: error.to_string(), hint }
}

fn hint_text(hint: Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::CheckName => "check the host name",
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
