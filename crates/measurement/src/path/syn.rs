//! The headers of a SYN as a kernel keeps them: IP header, TCP header, options. They may come from a hostile far end.

use crate::report::EcnRequest;
use std::net::{IpAddr, SocketAddr};

const TCP: u8 = 6;
/// Kinds of options (IANA's registry).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const EXPERIMENT: u8 = 254;
/// Those that hosts send, by their names.
const OPTION_NAMES: [(u8, &str); 8] = [
    (MAXIMUM_SEGMENT_SIZE, "MSS"),
    (3, "window scale"),
    (4, "SACK permitted"),
    (8, "time stamps"),
    (MPTCP, "MPTCP"),
    (FAST_OPEN, "TCP Fast Open"),
    (172, "AccECN"),
    (174, "AccECN"),
];

/// What of a SYN is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Syn {
    pub(super) hop_limit: u8,
    pub(super) ds_field: u8,
    pub(super) ecn: EcnRequest,
    /// The maximum segment size that it announces.
    pub(super) mss: Option<u32>,
    /// Kinds of its options in their order, without padding.
    options: Vec<u8>,
}

impl Syn {
    /// Reads one; none of bytes that are none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (hop_limit, ds_field, tcp) = match bytes {
            [first, second, ..] if first >> 4 == 4 => {
                let header = usize::from(first & 0b1111) * 4;
                (*bytes.get(8)?, *second, bytes.get(header..).filter(|_| bytes[9] == TCP && header >= 20)?)
            }
            [first, second, ..] if first >> 4 == 6 => {
                (*bytes.get(7)?, first << 4 | second >> 4, bytes.get(40..).filter(|_| bytes[6] == TCP)?)
            }
            _ => return None,
        };
        let (offset, flags) = (*tcp.get(12)?, *tcp.get(13)?);
        let options = tcp.get(20..usize::from(offset >> 4) * 4)?;
        let [ae, cwr, ece] = [offset & 1 != 0, flags & 0x80 != 0, flags & 0x40 != 0];
        let ecn = match (ae, cwr, ece) {
            (false, false, false) => EcnRequest::None,
            (false, true, true) => EcnRequest::Classic,
            (true, true, true) => EcnRequest::Accurate,
            _ => EcnRequest::Mangled,
        };
        let (options, mss) = read_options(options);
        Some(Syn { hop_limit, ds_field, ecn, mss, options })
    }

    /// Whether it has an option of this kind.
    pub(super) fn has_option(&self, kind: u8) -> bool {
        self.options.contains(&kind)
    }

    /// The names of the options that this one has and another one has not.
    pub(super) fn options_beyond(&self, other: &Syn) -> Vec<String> {
        self.options.iter().filter(|kind| !other.options.contains(kind)).map(|kind| option_name(*kind)).collect()
    }
}

/// From where a SYN comes; none of bytes that are none.
pub fn syn_source(bytes: &[u8]) -> Option<SocketAddr> {
    Syn::read(bytes)?;
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

/// The kinds of options of SYNs that are sent for them.
pub(super) const MPTCP: u8 = 30;
pub(super) const FAST_OPEN: u8 = 34;

/// Kinds, and the maximum segment size.
fn read_options(mut left: &[u8]) -> (Vec<u8>, Option<u32>) {
    let (mut kinds, mut mss) = (Vec::new(), None);
    while let [kind, rest @ ..] = left {
        match *kind {
            END => break,
            NO_OPERATION => left = rest,
            kind => {
                let Some(length) = rest.first().map(|length| usize::from(*length)).filter(|length| *length >= 2) else {
                    break;
                };
                let Some(option) = left.get(..length) else { break };
                if let [MAXIMUM_SEGMENT_SIZE, 4, high, low] = option {
                    mss = Some(u32::from(u16::from_be_bytes([*high, *low])));
                }
                // Linux tries the experimental option that came before where it has got no cookie by the standard one (RFC 6994).
                kinds.push(if let [EXPERIMENT, _, 0xf9, 0x89, ..] = option { FAST_OPEN } else { kind });
                left = &left[length..];
            }
        }
    }
    (kinds, mss)
}

fn option_name(kind: u8) -> String {
    let named = OPTION_NAMES.iter().find(|(number, _)| *number == kind);
    named.map_or_else(|| format!("option {kind}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With these options, over either version of IP.
    pub(super) fn syn(is_v4: bool, flags: [u8; 2], options: &[u8]) -> Vec<u8> {
        let ip = match is_v4 {
            true => {
                let mut header = vec![0; 20];
                (header[0], header[1], header[8], header[9]) = (0x45, 0xb8, 61, TCP);
                header
            }
            false => {
                let mut header = vec![0; 40];
                (header[0], header[1], header[6], header[7]) = (0x6b, 0x80, TCP, 61);
                header
            }
        };
        let mut tcp = vec![0; 20];
        (tcp[12], tcp[13]) = (((20 + options.len() / 4 * 4) as u8 / 4) << 4 | flags[0], flags[1]);
        [ip, tcp, options.to_vec()].concat()
    }

    const USUAL: [u8; 20] = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];

    #[test]
    fn a_syn_is_read_over_either_version_of_ip() {
        for is_v4 in [true, false] {
            let read = Syn::read(&syn(is_v4, [0, 0xc2], &USUAL)).unwrap();
            assert_eq!(
                (read.hop_limit, read.ds_field, read.ecn, read.mss),
                (61, 0xb8, EcnRequest::Classic, Some(1460))
            );
            assert_eq!(read.options, [2, 4, 8, 3]);
            let ecn = |flags| Syn::read(&syn(is_v4, flags, &USUAL)).unwrap().ecn;
            assert_eq!([[1, 0xc2], [0, 2], [0, 0x42]].map(ecn), {
                [EcnRequest::Accurate, EcnRequest::None, EcnRequest::Mangled]
            });
        }
    }

    #[test]
    fn options_are_compared_by_their_kinds() {
        let [usual, fewer] = [&USUAL[..], &[2, 4, 5, 180, 1, 1, 1, 1, 254, 4, 0, 0]]
            .map(|options| Syn::read(&syn(true, [0, 2], options)).unwrap());
        assert_eq!(usual.options_beyond(&fewer), ["SACK permitted", "time stamps", "window scale"]);
        assert_eq!(fewer.options_beyond(&usual), ["option 254"]);
    }

    #[test]
    fn a_request_for_a_cookie_is_known_by_either_option() {
        for (options, is_one) in [([34, 2, 1, 1], true), ([254, 4, 0xf9, 0x89], true), ([254, 4, 0xf9, 0x88], false)] {
            assert_eq!(Syn::read(&syn(true, [0, 2], &options)).unwrap().has_option(FAST_OPEN), is_one, "{options:?}");
        }
    }

    #[test]
    fn a_syn_says_where_it_comes_from() {
        for (is_v4, place, source) in [(true, 12, "10.0.0.7:4000"), (false, 8, "[fd00::7]:4000")] {
            let source: SocketAddr = source.parse().unwrap();
            let mut bytes = syn(is_v4, [0, 2], &USUAL);
            let octets = match source.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            bytes[place..place + octets.len()].copy_from_slice(&octets);
            let tcp = if is_v4 { 20 } else { 40 };
            bytes[tcp..tcp + 2].copy_from_slice(&source.port().to_be_bytes());
            assert_eq!(syn_source(&bytes), Some(source));
            assert_eq!(syn_source(&bytes[..tcp + 2]), None);
        }
    }

    #[test]
    fn what_is_cut_off_or_no_syn_is_survived() {
        let whole = syn(true, [0, 2], &USUAL);
        for end in 0..whole.len() {
            assert_eq!(Syn::read(&whole[..end]), None, "{end}");
        }
        for options in [&[2, 0, 0, 0][..], &[2, 1, 0, 0], &[2, 40, 0, 0], &[1, 1, 1, 8], &[0, 2, 4, 5]] {
            let read = Syn::read(&syn(false, [0, 2], options)).unwrap();
            assert_eq!((read.mss, read.options.len()), (None, 0), "{options:?}");
        }
        for place in 0..whole.len() {
            for value in 0..=255 {
                let mut bytes = whole.clone();
                bytes[place] = value;
                let _ = Syn::read(&bytes);
            }
        }
    }
}
