//! The ECN field of an IP packet (RFC 3168), also in tunnels (RFC 6040).

use crate::checksum::ChecksumUpdate;
use std::fmt;

/// A codepoint of the ECN field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable transport: the sender does not support ECN, so that the packet can only be dropped.
    #[default]
    NotEct = 0b00,
    /// ECN-capable transport, codepoint ECT(1).
    Ect1 = 0b01,
    /// ECN-capable transport, codepoint ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced: a queue has marked the packet.
    Ce = 0b11,
}

impl Ecn {
    /// From the two lowest bits; the others do not count.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The field of a packet that leaves a tunnel, of its own (`self`) and that of the header around it (RFC 6040 §4.2);
    /// `None` where it is to be dropped: a queue has marked what can only be dropped. A tunnel that copies the field
    /// outwards (§4.1, normal mode) never meets that.
    pub const fn decapsulated(self, outer: Ecn) -> Option<Ecn> {
        match (self, outer) {
            (Ecn::NotEct, Ecn::Ce) => None,
            (Ecn::Ect0 | Ecn::Ect1, Ecn::Ce) => Some(Ecn::Ce),
            (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
            _ => Some(self),
        }
    }
}

impl fmt::Display for Ecn {
    /// As RFC 3168 writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ecn::NotEct => "Not-ECT",
            Ecn::Ect0 => "ECT(0)",
            Ecn::Ect1 => "ECT(1)",
            Ecn::Ce => "CE",
        })
    }
}

/// The codepoint of an IP packet; [`Ecn::NotEct`] for other bytes.
pub fn read(packet: &[u8]) -> Ecn {
    match packet {
        [first, second, ..] if first >> 4 == 4 => Ecn::from_bits(*second),
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(*second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Sets the codepoint [`Ecn::Ce`] and updates the IPv4 header checksum. A packet that is not ECN-capable does not change;
/// false then, and where the bytes are not an IP packet.
pub fn mark(packet: &mut [u8]) -> bool {
    read(packet) != Ecn::NotEct && set(packet, Ecn::Ce)
}

/// Sets a codepoint and updates the IPv4 header checksum; false where the bytes are not an IP packet.
pub fn set(packet: &mut [u8], codepoint: Ecn) -> bool {
    set_octet_bits(packet, 0b11, codepoint as u8)
}

/// Sets the bits of `mask` in the octet that holds DSCP and ECN, and updates the IPv4 header checksum; false where the bytes
/// are not an IP packet.
pub(crate) fn set_octet_bits(packet: &mut [u8], mask: u8, bits: u8) -> bool {
    match packet {
        [first, second, rest @ ..] if *first >> 4 == 4 => {
            // The checksum is at offset 10.
            let Some(&mut [ref mut high, ref mut low]) = rest.get_mut(8..10) else { return false };
            let mut update = ChecksumUpdate::default();
            let new = *second & !mask | bits & mask;
            update.record_change(&[*first, *second], &[*first, new]);
            *second = new;
            [*high, *low] = update.apply(u16::from_be_bytes([*high, *low])).to_be_bytes();
        }
        [first, second, ..] if *first >> 4 == 6 => {
            // Behind the version, across two bytes.
            let octet = (*first << 4 | *second >> 4) & !mask | bits & mask;
            *first = *first & 0xf0 | octet >> 4;
            *second = *second & 0x0f | octet << 4;
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::samples::{self, Sample, SampleKind, V4, V6};
    use proptest::prelude::*;

    fn with_field(packet: &mut [u8], field: u8) {
        match packet[0] >> 4 {
            4 => packet[1] = packet[1] & !0b11 | field,
            _ => packet[1] = packet[1] & !0x30 | field << 4,
        }
        checksum::set(packet).unwrap();
    }

    #[test]
    fn what_leaves_a_tunnel_is_as_rfc_6040_has_it() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        // Figure 4. Columns: the outer field Not-ECT, ECT(0), ECT(1), CE.
        let rows = [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ];
        for (inner, row) in rows {
            assert_eq!([NotEct, Ect0, Ect1, Ce].map(|outer| inner.decapsulated(outer)), row, "{inner:?}");
        }
    }

    #[test]
    fn what_is_no_ip_packet_has_no_field() {
        for version in (0..16).filter(|version| ![4, 6].contains(version)) {
            let mut bytes = [0xff; 24];
            bytes[0] = version << 4;
            let before = bytes;
            assert_eq!(read(&bytes), Ecn::NotEct, "{version}");
            assert!(!set(&mut bytes, Ecn::Ect0) && bytes == before, "{version}");
        }
    }

    #[test]
    fn any_codepoint_takes_the_place_of_any_other_and_the_class_of_service_stays() {
        for ends in [V4, V6] {
            let mut packet = Sample::new(ends, SampleKind::Udp, b"x").packet();
            // Expedited forwarding (RFC 3246), which all sixteen changes leave as it is.
            let [first, second] = if ends == V4 { [0x45, 0b1011_1000] } else { [0x6b, 0x80] };
            (packet[0], packet[1]) = (first, second);
            checksum::set(&mut packet).unwrap();
            for before in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                for after in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                    assert!(set(&mut packet, before) && set(&mut packet, after));
                    assert_eq!((read(&packet), checksum::is_valid(&packet)), (after, Ok(true)));
                }
            }
            assert!(set(&mut packet, Ecn::NotEct));
            assert_eq!(packet[..2], [first, second]);
        }
    }

    proptest! {
        #[test]
        fn a_marked_packet_says_so_and_is_valid((mut packet, _) in samples::any_packet(), field in 0u8..4) {
            with_field(&mut packet, field);
            prop_assert_eq!(read(&packet) as u8, field);
            let before = packet.clone();
            let is_capable = field != Ecn::NotEct as u8;
            prop_assert_eq!(mark(&mut packet), is_capable);
            prop_assert_eq!(read(&packet), if is_capable { Ecn::Ce } else { Ecn::NotEct });
            prop_assert!(checksum::is_valid(&packet).unwrap());
            with_field(&mut packet, field);
            prop_assert_eq!(packet, before);
        }

        #[test]
        fn a_codepoint_that_is_set_is_read_and_the_packet_is_valid((mut packet, _) in samples::any_packet(), field in 0u8..4) {
            prop_assert!(set(&mut packet, Ecn::from_bits(field)));
            prop_assert_eq!(read(&packet) as u8, field);
            prop_assert!(checksum::is_valid(&packet).unwrap());
        }

        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let marked = mark(&mut bytes);
            prop_assert!(!marked || read(&bytes) == Ecn::Ce);
        }
    }
}
