//! Control messages of cmsg(3), written and read as bytes: of many datagrams at once, which nix keeps no room for.

use nix::libc;
use packet::Ecn;
use std::mem::size_of;
use units::Time;

use crate::stamp;
use nix::sys::time::TimeSpec;

/// struct cmsghdr: length, level, type.
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
const WORD: usize = size_of::<usize>();

/// Room for the control messages of a datagram, aligned as the kernel wants it.
#[derive(Debug, Clone, Copy)]
#[repr(align(8))]
pub(super) struct Control(pub(super) [u8; 128]);

impl Control {
    pub(super) const EMPTY: Control = Control([0; 128]);

    /// Appends to a message of which `len` bytes are written; the length with it.
    fn push(&mut self, len: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let bytes = &mut self.0[len..];
        bytes[..WORD].copy_from_slice(&(HEADER_BYTES + data.len()).to_ne_bytes());
        bytes[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        bytes[WORD + 4..WORD + 8].copy_from_slice(&kind.to_ne_bytes());
        bytes[HEADER_BYTES..HEADER_BYTES + data.len()].copy_from_slice(data);
        len + (HEADER_BYTES + data.len()).next_multiple_of(WORD)
    }

    /// What a message to be sent says: its ECN field, and how long each of its datagrams is but the last. Returns the
    /// length.
    pub(super) fn write(&mut self, is_v4: bool, ecn: Ecn, segment_bytes: Option<u16>) -> usize {
        let mut len = 0;
        if ecn != Ecn::NotEct {
            let (level, kind) = if is_v4 { (libc::SOL_IP, libc::IP_TOS) } else { (libc::SOL_IPV6, libc::IPV6_TCLASS) };
            len = self.push(len, level, kind, &libc::c_int::from(ecn as u8).to_ne_bytes());
        }
        if let Some(bytes) = segment_bytes {
            len = self.push(len, libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes());
        }
        len
    }
}

/// What came with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Arrival {
    pub(super) ecn: Ecn,
    /// Of each of its datagrams but the last, where there are several.
    pub(super) segment_bytes: Option<usize>,
    pub(super) stamp: Option<Time>,
}

impl Arrival {
    pub(super) fn read(mut control: &[u8]) -> Self {
        let mut arrival = Arrival::default();
        while let Some((level, kind, data)) = take(&mut control) {
            match (level, kind) {
                // One byte for IPv4, an integer for IPv6.
                (libc::SOL_IP, libc::IP_TOS) => arrival.ecn = Ecn::from_bits(data.first().copied().unwrap_or(0)),
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => arrival.ecn = Ecn::from_bits(integer(data) as u8),
                (libc::SOL_UDP, libc::UDP_GRO) => arrival.segment_bytes = usize::try_from(integer(data)).ok(),
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => arrival.stamp = time(data),
                _ => {}
            }
        }
        arrival
    }
}

/// Level, type and data of the first control message of these; what is cut short is left out.
fn take<'a>(control: &mut &'a [u8]) -> Option<(libc::c_int, libc::c_int, &'a [u8])> {
    let len = usize::from_ne_bytes(*control.first_chunk()?);
    let (header, data) = control.get(..len)?.split_at_checked(HEADER_BYTES)?;
    let (level, kind) = (integer(&header[WORD..]), integer(&header[WORD + 4..]));
    *control = control.get(len.next_multiple_of(WORD)..).unwrap_or_default();
    Some((level, kind, data))
}

fn integer(data: &[u8]) -> libc::c_int {
    data.first_chunk().map_or(0, |bytes| libc::c_int::from_ne_bytes(*bytes))
}

/// The first of three struct timespec: that of the kernel itself.
fn time(data: &[u8]) -> Option<Time> {
    // The kernel's own type has two longs, whatever that of the C library has.
    let seconds = libc::c_long::from_ne_bytes(*data.first_chunk()?);
    let nanos = libc::c_long::from_ne_bytes(*data.get(size_of::<libc::c_long>()..)?.first_chunk()?);
    stamp::credible(TimeSpec::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        for is_v4 in [true, false] {
            let mut control = Control::EMPTY;
            assert_eq!(control.write(is_v4, Ecn::NotEct, None), 0);
            let len = control.write(is_v4, Ecn::Ect0, Some(1200));
            // The kernel reports the segment size as an integer, and by another name.
            let gro = control.push(len, libc::SOL_UDP, libc::UDP_GRO, &1200_i32.to_ne_bytes());
            let now = clock::realtime();
            let seconds = (now.as_nanos() / 1_000_000_000).to_ne_bytes();
            let nanos = (now.as_nanos() % 1_000_000_000).to_ne_bytes();
            let end = control.push(gro, libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[seconds, nanos].concat());
            let arrival = Arrival::read(&control.0[..end]);
            assert_eq!(arrival, Arrival { ecn: Ecn::Ect0, segment_bytes: Some(1200), stamp: Some(now) });
            assert_eq!(Arrival::read(&control.0[..len + HEADER_BYTES + 3]).segment_bytes, None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(prop_oneof![Just(0), Just(20), any::<u8>()], 0..128)) {
            Arrival::read(&bytes);
        }
    }
}
