//! The ECN field of an IP packet (RFC 3168).

use crate::checksum;

/// Sender and receiver understand no marks.
pub const NOT_CAPABLE: u8 = 0b00;
/// ECT(1).
pub const CAPABLE_1: u8 = 0b01;
/// ECT(0).
pub const CAPABLE_0: u8 = 0b10;
/// A queue has marked the packet: congestion experienced.
pub const MARKED: u8 = 0b11;

/// The field's two bits, [`NOT_CAPABLE`] where there are none.
pub fn read(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second & 0b11,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 0b11,
        _ => NOT_CAPABLE,
    }
}

/// Marks a packet, and keeps the checksum of IPv4 right. One whose sender understands no marks stays as it is; false
/// then, and where these bytes are no IP packet.
pub fn mark(packet: &mut [u8]) -> bool {
    if read(packet) == NOT_CAPABLE {
        return false;
    }
    match packet {
        [first, second, rest @ ..] if *first >> 4 == 4 => {
            // The checksum stands behind eight more bytes.
            let Some(&mut [ref mut high, ref mut low]) = rest.get_mut(8..10) else { return false };
            let old = [*first, *second];
            *second |= MARKED;
            let sum = checksum::updated(u16::from_be_bytes([*high, *low]), &old, &[*first, *second]);
            [*high, *low] = sum.to_be_bytes();
        }
        [_, second, ..] => *second |= MARKED << 4,
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use proptest::prelude::*;

    fn with_field(packet: &mut [u8], field: u8) {
        match packet[0] >> 4 {
            4 => packet[1] = packet[1] & !0b11 | field,
            _ => packet[1] = packet[1] & !0x30 | field << 4,
        }
        checksum::set(packet).unwrap();
    }

    proptest! {
        #[test]
        fn a_marked_packet_says_so_and_is_valid((mut packet, _) in samples::any_packet(), field in 0u8..4) {
            with_field(&mut packet, field);
            prop_assert_eq!(read(&packet), field);
            let before = packet.clone();
            prop_assert_eq!(mark(&mut packet), field != NOT_CAPABLE);
            prop_assert_eq!(read(&packet), if field == NOT_CAPABLE { NOT_CAPABLE } else { MARKED });
            prop_assert!(checksum::is_valid(&packet).unwrap());
            with_field(&mut packet, field);
            prop_assert_eq!(packet, before);
        }

        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let marked = mark(&mut bytes);
            prop_assert!(!marked || read(&bytes) == MARKED);
        }
    }
}
