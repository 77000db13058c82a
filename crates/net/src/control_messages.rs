//! Control messages of cmsg(3), written and read as bytes: of many datagrams at once, which nix keeps no room for.

use crate::stamp;
use kumade_packet::DsField;
use kumade_units::Time;
use nix::libc;
use nix::sys::time::TimeSpec;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// struct cmsghdr: length, level, type.
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
const WORD_BYTES: usize = size_of::<usize>();

/// Room for the control messages of a datagram, aligned as the kernel wants it: of IPv6, stamp, hop limit, address and traffic class
/// take 152 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(align(8))]
pub(crate) struct ControlMessages(pub(crate) [u8; 160]);

impl ControlMessages {
    pub(crate) const EMPTY: ControlMessages = ControlMessages([0; 160]);

    /// Appends to a message of which `len` bytes are written; the length with it.
    fn push(&mut self, len: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let bytes = &mut self.0[len..];
        bytes[..WORD_BYTES].copy_from_slice(&(HEADER_BYTES + data.len()).to_ne_bytes());
        bytes[WORD_BYTES..WORD_BYTES + 4].copy_from_slice(&level.to_ne_bytes());
        bytes[WORD_BYTES + 4..WORD_BYTES + 8].copy_from_slice(&kind.to_ne_bytes());
        bytes[HEADER_BYTES..HEADER_BYTES + data.len()].copy_from_slice(data);
        len + (HEADER_BYTES + data.len()).next_multiple_of(WORD_BYTES)
    }

    /// What a message to be sent says: DSCP and ECN, and how long each of its datagrams is but the last. Returns the
    /// length.
    pub(crate) fn write(&mut self, is_v4: bool, field: DsField, segment_bytes: Option<u16>) -> usize {
        let mut len = self.write_ds_field(0, is_v4, field);
        if let Some(bytes) = segment_bytes {
            len = self.push(len, libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
        }
        len
    }

    /// DSCP and ECN of a message of which `len` bytes are written, unless they are zero. Returns the length.
    pub(crate) fn write_ds_field(&mut self, len: usize, is_v4: bool, field: DsField) -> usize {
        if field == DsField::default() {
            return len;
        }
        let (level, kind) = if is_v4 { (libc::SOL_IP, libc::IP_TOS) } else { (libc::SOL_IPV6, libc::IPV6_TCLASS) };
        self.push(len, level, kind, &libc::c_int::from(field.octet()).to_ne_bytes())
    }

    /// From which address of this host a message is to be sent: ip(7), ipv6(7). Returns the length.
    pub(crate) fn write_source(&mut self, source: IpAddr) -> usize {
        match source {
            // struct in_pktinfo: interface, the address of this host, that of the header.
            IpAddr::V4(source) => {
                let mut data = [0; size_of::<libc::in_pktinfo>()];
                data[4..8].copy_from_slice(&source.octets());
                self.push(0, libc::SOL_IP, libc::IP_PKTINFO, &data)
            }
            // struct in6_pktinfo: the address, and the interface.
            IpAddr::V6(source) => {
                let mut data = [0; size_of::<libc::in6_pktinfo>()];
                data[..16].copy_from_slice(&source.octets());
                self.push(0, libc::SOL_IPV6, libc::IPV6_PKTINFO, &data)
            }
        }
    }
    /// With which DSCP, ECN and TTL or hop limit (none for the system's) a message is to be sent. Returns the length.
    pub(crate) fn write_mark(&mut self, is_v4: bool, ds_field: u8, hop_limit: Option<u8>) -> usize {
        let (level, field, limit) = match is_v4 {
            true => (libc::SOL_IP, libc::IP_TOS, libc::IP_TTL),
            false => (libc::SOL_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT),
        };
        let len = self.push(0, level, field, &libc::c_int::from(ds_field).to_ne_bytes());
        hop_limit.map_or(len, |hops| self.push(len, level, limit, &libc::c_int::from(hops).to_ne_bytes()))
    }
}

/// What came with a message. Each is none where the kernel does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ArrivalMetadata {
    /// DSCP and ECN.
    pub(crate) ds_field: Option<DsField>,
    /// Of each of its datagrams but the last, where there are several.
    pub(crate) segment_bytes: Option<usize>,
    pub(crate) stamp: Option<Time>,
    /// To which address of this host.
    pub(crate) destination: Option<IpAddr>,
    /// TTL or hop limit.
    pub(crate) ttl: Option<u8>,
}

impl ArrivalMetadata {
    pub(crate) fn read(mut control: &[u8]) -> Self {
        let mut arrival = ArrivalMetadata::default();
        while let Some((level, kind, data)) = take_message(&mut control) {
            match (level, kind) {
                // One byte for IPv4, an integer for IPv6.
                (libc::SOL_IP, libc::IP_TOS) => arrival.ds_field = data.first().copied().map(DsField::from_octet),
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    arrival.ds_field = Some(DsField::from_octet(read_integer(data) as u8));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => arrival.segment_bytes = usize::try_from(read_integer(data)).ok(),
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => arrival.stamp = read_kernel_time(data),
                (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
                    arrival.ttl = u8::try_from(read_integer(data)).ok();
                }
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    arrival.destination = data.last_chunk().map(|octets: &[u8; 4]| Ipv4Addr::from(*octets).into());
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    arrival.destination = data.first_chunk().map(|octets: &[u8; 16]| Ipv6Addr::from(*octets).into());
                }
                _ => {}
            }
        }
        arrival
    }
}

/// Level, type and data of the first control message of these; what is cut short is left out.
fn take_message<'a>(control: &mut &'a [u8]) -> Option<(libc::c_int, libc::c_int, &'a [u8])> {
    let len = usize::from_ne_bytes(*control.first_chunk()?);
    let (header, data) = control.get(..len)?.split_at_checked(HEADER_BYTES)?;
    let (level, kind) = (read_integer(&header[WORD_BYTES..]), read_integer(&header[WORD_BYTES + 4..]));
    *control = control.get(len.next_multiple_of(WORD_BYTES)..).unwrap_or_default();
    Some((level, kind, data))
}

fn read_integer(data: &[u8]) -> libc::c_int {
    data.first_chunk().map_or(0, |bytes| libc::c_int::from_ne_bytes(*bytes))
}

/// The first of three struct timespec: that of the kernel itself.
fn read_kernel_time(data: &[u8]) -> Option<Time> {
    // The kernel's own type has two longs, whatever that of the C library has.
    let seconds = libc::c_long::from_ne_bytes(*data.first_chunk()?);
    let nanos = libc::c_long::from_ne_bytes(*data.get(size_of::<libc::c_long>()..)?.first_chunk()?);
    stamp::credible_time(TimeSpec::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use kumade_packet::Ecn;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        for is_v4 in [true, false] {
            let mut control = ControlMessages::EMPTY;
            assert_eq!(control.write(is_v4, DsField::default(), None), 0);
            let len = control.write(is_v4, Ecn::Ect0.into(), Some(1200));
            // The kernel reports the segment size as an integer, and by another name.
            let gro = control.push(len, libc::SOL_UDP, libc::UDP_GRO, &1200_i32.to_ne_bytes());
            let now = clock::realtime();
            let seconds = (now.as_nanos() / 1_000_000_000).to_ne_bytes();
            let nanos = (now.as_nanos() % 1_000_000_000).to_ne_bytes();
            let end = control.push(gro, libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[seconds, nanos].concat());
            let arrival = ArrivalMetadata::read(&control.0[..end]);
            assert_eq!(
                arrival,
                ArrivalMetadata {
                    ds_field: Some(Ecn::Ect0.into()),
                    segment_bytes: Some(1200),
                    stamp: Some(now),
                    ..ArrivalMetadata::default()
                }
            );
            assert_eq!(ArrivalMetadata::read(&control.0[..len + HEADER_BYTES + 3]).segment_bytes, None);
        }
    }

    #[test]
    fn the_source_of_an_answer_is_where_the_kernel_says_that_the_question_went() {
        for source in ["fd00::7", "::ffff:192.0.2.1"].map(|source| source.parse().unwrap()) {
            let mut control = ControlMessages::EMPTY;
            let len = control.write_source(source);
            assert_eq!(ArrivalMetadata::read(&control.0[..len]).destination, Some(source));
        }
        // The kernel says it in the last field, and is told in the one before.
        let mut control = ControlMessages::EMPTY;
        let len = control.push(0, libc::SOL_IP, libc::IP_PKTINFO, &[0, 0, 0, 3, 1, 1, 1, 1, 192, 0, 2, 1]);
        assert_eq!(ArrivalMetadata::read(&control.0[..len]).destination, Some([192, 0, 2, 1].into()));
        assert_eq!(control.write_source([192, 0, 2, 1].into()), len);
        assert_eq!(control.0[HEADER_BYTES..][..12], [0, 0, 0, 0, 192, 0, 2, 1, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(prop_oneof![Just(0), Just(20), any::<u8>()], 0..160)) {
            ArrivalMetadata::read(&bytes);
        }
    }
}
