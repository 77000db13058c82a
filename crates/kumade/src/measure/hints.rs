//! What the library advises, in the words of the command line.

use probe::{Error, Hint};

/// The error with what to try.
pub fn describe(error: &Error) -> String {
    match error.hint().and_then(words) {
        Some(words) => format!("{error}; {words}"),
        None => error.to_string(),
    }
}

fn words(hint: Hint) -> Option<&'static str> {
    Some(match hint {
        Hint::CheckName => "check the name",
        Hint::AllowOtherFamily => "measure without -4 or -6, or from another --source",
        Hint::NameInterface => "write it with its interface, as in fe80::1%eth0",
        Hint::StartServer => "nothing listens there: check the port, and that `kumade serve` runs",
        Hint::CheckAddressAndFirewall => "no answer: check the address, and that a firewall lets the port through",
        Hint::CheckRouteAndFirewall => "check the route and the firewall",
        Hint::CheckService => "check that `kumade serve` runs on that port",
        Hint::CheckServerAndPath => "check that the server and the path to it are still up, then try again",
        Hint::UseSameRelease => "use the same release on both ends",
        Hint::TryLater => "try again later",
        Hint::UseTcp => "measure with --transport rake, or auto",
        Hint::ConnectionsLimited => "a firewall may limit them: try again later, or --transport udp",
        Hint::UseFewerConnections => {
            "something on the path resets them: try fewer with --connections, or --transport udp"
        }
        Hint::StartReflector => {
            "nothing listens there: check the port, and that `kumade serve --stamp` or another reflector runs"
        }
        Hint::CheckReflectorAndFirewall => {
            "check the port, that `kumade serve --stamp` or another reflector runs there, and that a firewall lets UDP \
             through"
        }
        Hint::GiveKey => "give the same --key FILE as there",
        Hint::OmitKey => "measure without --key, or start the server with it",
        Hint::CheckBinding => "check --source, --interface and --mark; a mark needs CAP_NET_ADMIN",
        _ => return None,
    })
}
