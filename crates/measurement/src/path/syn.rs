//! What a SYN says of ECN and of options, of which a kernel has kept the headers.

use crate::report::EcnRequest;
use kumade_packet::{SavedSyn, tcp_option};

/// Those options that hosts send, by their names.
const OPTION_NAMES: [(u8, &str); 8] = [
    (tcp_option::MAXIMUM_SEGMENT_SIZE, "MSS"),
    (tcp_option::WINDOW_SCALE, "window scale"),
    (tcp_option::SACK_PERMITTED, "SACK permitted"),
    (tcp_option::TIMESTAMPS, "time stamps"),
    (tcp_option::MULTIPATH, "MPTCP"),
    (tcp_option::FAST_OPEN, "TCP Fast Open"),
    (172, "AccECN"),
    (174, "AccECN"),
];

/// What its flags ask for.
pub(super) fn ecn_request(syn: &SavedSyn) -> EcnRequest {
    match syn.ecn_flags {
        [false, false, false] => EcnRequest::None,
        [false, true, true] => EcnRequest::Classic,
        [true, true, true] => EcnRequest::Accurate,
        _ => EcnRequest::Mangled,
    }
}

/// The names of the options that one has and another one has not.
pub(super) fn options_beyond(syn: &SavedSyn, other: &SavedSyn) -> Vec<String> {
    syn.options.iter().filter(|kind| !other.options.contains(kind)).map(|kind| option_name(*kind)).collect()
}

fn option_name(kind: u8) -> String {
    let named = OPTION_NAMES.iter().find(|(number, _)| *number == kind);
    named.map_or_else(|| format!("option {kind}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syn(ecn_flags: [bool; 3], options: &[u8]) -> SavedSyn {
        SavedSyn {
            source: ([192, 0, 2, 1], 1).into(),
            hop_limit: 64,
            ds_field: 0,
            ecn_flags,
            mss: None,
            options: options.to_vec(),
        }
    }

    #[test]
    fn ecn_is_requested_by_two_flags_or_three() {
        let request = |flags| ecn_request(&syn(flags, &[]));
        assert_eq!([[true; 3], [false, true, true], [false; 3], [false, true, false]].map(request), {
            [EcnRequest::Accurate, EcnRequest::Classic, EcnRequest::None, EcnRequest::Mangled]
        });
    }

    #[test]
    fn options_are_compared_by_their_kinds() {
        let [usual, fewer] = [&[2, 4, 8, 3][..], &[2, 254]].map(|options| syn([false; 3], options));
        assert_eq!(options_beyond(&usual, &fewer), ["SACK permitted", "time stamps", "window scale"]);
        assert_eq!(options_beyond(&fewer, &usual), ["option 254"]);
    }
}
