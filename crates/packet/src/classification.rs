use crate::ds_field::{DsField, Dscp};
use crate::ecn::Ecn;
use crate::selector::FlowSelector;

/// What a queue needs to know of a packet (RFC 2475 §2.3.1), read from its headers once, on reception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classification {
    /// What identifies its flow; `None` where this is not IP, or its header is truncated.
    pub selector: Option<FlowSelector>,
    /// The ECN field.
    pub ecn: Ecn,
    /// The differentiated services codepoint.
    pub dscp: Dscp,
    /// Length of the packet according to its own header, in bytes, as far as it is present; what follows is padding.
    pub total_len: usize,
}

impl Classification {
    /// Reads a packet from its IP header on.
    pub fn from_packet(packet: &[u8]) -> Self {
        match FlowSelector::from_packet(packet) {
            Some(selector) => {
                let field = DsField::read(packet);
                Classification {
                    selector: Some(selector),
                    ecn: field.ecn(),
                    dscp: field.dscp(),
                    total_len: total_len(packet).min(packet.len()),
                }
            }
            None => Self::not_ip(packet.len()),
        }
    }

    /// Of what is known not to be IP.
    pub fn not_ip(len: usize) -> Self {
        Classification { selector: None, ecn: Ecn::NotEct, dscp: Dscp::default(), total_len: len }
    }
}

/// What the header of a packet that is IP says, unless that is shorter than a header: packets with segmentation offload may say 0.
fn total_len(packet: &[u8]) -> usize {
    match packet {
        [first, _, high, low, ..] if first >> 4 == 4 => match u16::from_be_bytes([*high, *low]) {
            0..20 => packet.len(),
            len => len.into(),
        },
        [_, _, _, _, high, low, ..] => 40 + usize::from(u16::from_be_bytes([*high, *low])),
        _ => packet.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Headers, samples};
    use proptest::prelude::*;

    #[test]
    fn an_impossible_length_is_not_believed() {
        let mut packet = [0; 30];
        packet[0] = 0x45;
        for (said, total_len) in [(0, 30), (19, 30), (20, 20), (29, 29), (31, 30)] {
            packet[3] = said;
            assert_eq!(Classification::from_packet(&packet).total_len, total_len);
        }
    }

    proptest! {
        #[test]
        fn padding_does_not_count((packet, _) in samples::any_packet(), padding in 0..50_usize) {
            let headers = Headers::parse(&packet).unwrap();
            let found = Classification::from_packet(&[&packet[..], &vec![0; padding]].concat());
            prop_assert_eq!((found.total_len, found.ecn), (headers.total_len, crate::ecn::read(&packet)));
            prop_assert_eq!(found.selector.map(|selector| selector.source), Some(headers.source));
        }

        #[test]
        fn any_bytes_have_one(first: u8, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let packet = [&[first][..], &bytes].concat();
            let found = Classification::from_packet(&packet);
            prop_assert!(found.total_len <= packet.len());
            prop_assert!(found.selector.is_some() || found == Classification::not_ip(packet.len()));
        }
    }
}
