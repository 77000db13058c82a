//! The ECN field of an IP packet (RFC 3168).

use crate::checksum::Update;

/// Not ECN-capable transport.
pub const NOT_ECT: u8 = 0b00;
/// ECN-capable transport, codepoint ECT(1).
pub const ECT_1: u8 = 0b01;
/// ECN-capable transport, codepoint ECT(0).
pub const ECT_0: u8 = 0b10;
/// Congestion experienced.
pub const CE: u8 = 0b11;

/// The codepoint of an IP packet; [`NOT_ECT`] for other bytes.
pub fn read(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second & 0b11,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 0b11,
        _ => NOT_ECT,
    }
}

/// Sets the codepoint [`CE`] and updates the IPv4 header checksum. A packet that is not ECN-capable does not change;
/// false then, and where the bytes are not an IP packet.
pub fn mark(packet: &mut [u8]) -> bool {
    if read(packet) == NOT_ECT {
        return false;
    }
    match packet {
        [first, second, rest @ ..] if *first >> 4 == 4 => {
            // The checksum is at offset 10.
            let Some(&mut [ref mut high, ref mut low]) = rest.get_mut(8..10) else { return false };
            let mut update = Update::default();
            update.changed(&[*first, *second], &[*first, *second | CE]);
            *second |= CE;
            [*high, *low] = update.apply(u16::from_be_bytes([*high, *low])).to_be_bytes();
        }
        [_, second, ..] => *second |= CE << 4,
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
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
            prop_assert_eq!(mark(&mut packet), field != NOT_ECT);
            prop_assert_eq!(read(&packet), if field == NOT_ECT { NOT_ECT } else { CE });
            prop_assert!(checksum::is_valid(&packet).unwrap());
            with_field(&mut packet, field);
            prop_assert_eq!(packet, before);
        }

        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let marked = mark(&mut bytes);
            prop_assert!(!marked || read(&bytes) == CE);
        }
    }
}
