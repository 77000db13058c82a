//! What a SYN says of ECN and of options, of which a kernel has kept the headers.

use crate::report::EcnRequest;
use kumade_packet::{SavedSyn, tcp_option};
use std::net::{IpAddr, SocketAddr};

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

/// From where a SYN comes; none of bytes that are none.
pub fn syn_source(bytes: &[u8]) -> Option<SocketAddr> {
    SavedSyn::read(bytes)?;
    let v6 = |octets: &[u8]| Some(IpAddr::from(<[u8; 16]>::try_from(octets).ok()?));
    let v4 = |octets: &[u8]| Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?));
    let is_v4 = bytes[0] >> 4 == 4;
    let (ip, tcp) = match is_v4 {
        true => (v4(bytes.get(12..16)?)?, usize::from(bytes[0] & 0b1111) * 4),
        false => (v6(bytes.get(8..24)?)?, 40),
    };
    let port = <[u8; 2]>::try_from(bytes.get(tcp..tcp + 2)?).ok()?;
    Some(SocketAddr::new(ip, u16::from_be_bytes(port)))
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
        SavedSyn { hop_limit: 64, ds_field: 0, ecn_flags, mss: None, options: options.to_vec() }
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

    #[test]
    fn a_syn_says_where_it_comes_from() {
        for (is_v4, place, source) in [(true, 12, "10.0.0.7:4000"), (false, 8, "[fd00::7]:4000")] {
            let source: SocketAddr = source.parse().unwrap();
            let tcp = if is_v4 { 20 } else { 40 };
            let mut bytes = vec![0; tcp + 20];
            (bytes[0], bytes[if is_v4 { 9 } else { 6 }]) = (if is_v4 { 0x45 } else { 0x60 }, 6);
            (bytes[tcp + 12], bytes[tcp + 13]) = (0x50, 2);
            let octets = match source.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            bytes[place..place + octets.len()].copy_from_slice(&octets);
            bytes[tcp..tcp + 2].copy_from_slice(&source.port().to_be_bytes());
            assert_eq!(syn_source(&bytes), Some(source));
            assert_eq!(syn_source(&bytes[..tcp + 2]), None);
        }
    }
}
