use crate::headers::protocol;
use crate::tcp_rewrite::tcp_option;
use std::net::{IpAddr, SocketAddr};

/// The headers of a SYN as a kernel keeps them (`TCP_SAVED_SYN`): IP header, TCP header, options. They may come from a hostile far end, and need not
/// be of a whole packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSyn {
    /// From where it comes.
    pub source: SocketAddr,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// The octet of DSCP and ECN.
    pub ds_field: u8,
    /// The flags AE (RFC 9768), CWR and ECE (RFC 3168).
    pub ecn_flags: [bool; 3],
    /// The maximum segment size that it announces, in bytes.
    pub mss: Option<u16>,
    /// Kinds of its options in their order, without padding ([`tcp_option`]).
    pub options: Vec<u8>,
}

/// Before TCP Fast Open had an option kind, it had this one for experiments (RFC 6994), …
const EXPERIMENT: u8 = 254;
/// … with this identifier (RFC 7413).
const FAST_OPEN_IDENTIFIER: [u8; 2] = [0xf9, 0x89];

impl SavedSyn {
    /// Reads one; none of bytes that are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (source, hop_limit, ds_field, tcp) = match bytes {
            [first, second, ..] if first >> 4 == 4 => {
                let header = usize::from(first & 0b1111) * 4;
                let is_tcp = *bytes.get(9)? == protocol::TCP && header >= 20;
                let source = IpAddr::from(*bytes.get(12..)?.first_chunk::<4>()?);
                (source, *bytes.get(8)?, *second, bytes.get(header..).filter(|_| is_tcp)?)
            }
            [first, second, ..] if first >> 4 == 6 => {
                let is_tcp = *bytes.get(6)? == protocol::TCP;
                let source = IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?);
                (source, *bytes.get(7)?, first << 4 | second >> 4, bytes.get(40..).filter(|_| is_tcp)?)
            }
            _ => return None,
        };
        let (offset, flags) = (*tcp.get(12)?, *tcp.get(13)?);
        let (options, mss) = read_options(tcp.get(20..usize::from(offset >> 4) * 4)?);
        let ecn_flags = [offset & 1 != 0, flags & 0x80 != 0, flags & 0x40 != 0];
        let source = SocketAddr::new(source, u16::from_be_bytes(*tcp.first_chunk()?));
        Some(SavedSyn { source, hop_limit, ds_field, ecn_flags, mss, options })
    }
}

/// Kinds, and the maximum segment size.
fn read_options(mut left: &[u8]) -> (Vec<u8>, Option<u16>) {
    let (mut kinds, mut mss) = (Vec::new(), None);
    while let [kind, rest @ ..] = left {
        match *kind {
            tcp_option::END_OF_OPTIONS => break,
            tcp_option::NO_OPERATION => left = rest,
            kind => {
                let Some(length) = rest.first().map(|length| usize::from(*length)).filter(|length| *length >= 2) else {
                    break;
                };
                let Some(option) = left.get(..length) else { break };
                if let [tcp_option::MAXIMUM_SEGMENT_SIZE, 4, high, low] = option {
                    mss = Some(u16::from_be_bytes([*high, *low]));
                }
                // Linux tries the experimental option where it has got no cookie by the standard one.
                let is_fast_open = kind == EXPERIMENT && option.get(2..4) == Some(&FAST_OPEN_IDENTIFIER[..]);
                kinds.push(if is_fast_open { tcp_option::FAST_OPEN } else { kind });
                left = &left[length..];
            }
        }
    }
    (kinds, mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With these options, over either version of IP.
    fn syn(is_v4: bool, flags: [u8; 2], options: &[u8]) -> Vec<u8> {
        let ip = match is_v4 {
            true => {
                let mut header = vec![0; 20];
                (header[0], header[1], header[8], header[9]) = (0x45, 0xb8, 61, protocol::TCP);
                header
            }
            false => {
                let mut header = vec![0; 40];
                (header[0], header[1], header[6], header[7]) = (0x6b, 0x80, protocol::TCP, 61);
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
            let read = SavedSyn::read(&syn(is_v4, [1, 0x82], &USUAL)).unwrap();
            assert_eq!((read.hop_limit, read.ds_field, read.mss), (61, 0xb8, Some(1460)));
            assert_eq!((&read.options[..], read.ecn_flags), (&[2, 4, 8, 3][..], [true, true, false]));
        }
    }

    #[test]
    fn a_syn_says_where_it_comes_from() {
        for (is_v4, tcp, place, source) in [(true, 20, 12, "10.0.0.7:4000"), (false, 40, 8, "[fd00::7]:4000")] {
            let (mut bytes, source) = (syn(is_v4, [0, 2], &[]), source.parse::<SocketAddr>().unwrap());
            let octets = match source.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            bytes[place..place + octets.len()].copy_from_slice(&octets);
            bytes[tcp..tcp + 2].copy_from_slice(&source.port().to_be_bytes());
            assert_eq!(SavedSyn::read(&bytes).unwrap().source, source);
        }
    }

    #[test]
    fn a_request_for_a_cookie_is_known_by_either_option() {
        for (options, kind) in [([34, 2, 1, 1], 34), ([254, 4, 0xf9, 0x89], 34), ([254, 4, 0xf9, 0x88], 254)] {
            assert_eq!(SavedSyn::read(&syn(true, [0, 2], &options)).unwrap().options, [kind], "{options:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_no_syn_is_survived() {
        let whole = syn(true, [0, 2], &USUAL);
        for end in 0..whole.len() {
            assert_eq!(SavedSyn::read(&whole[..end]), None, "{end}");
        }
        for options in [&[2, 0, 0, 0][..], &[2, 1, 0, 0], &[2, 40, 0, 0], &[1, 1, 1, 8], &[0, 2, 4, 5]] {
            let read = SavedSyn::read(&syn(false, [0, 2], options)).unwrap();
            assert_eq!((read.mss, read.options.len()), (None, 0), "{options:?}");
        }
    }
}
