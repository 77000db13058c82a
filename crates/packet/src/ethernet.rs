/// The header of an Ethernet frame (IEEE 802.3) with VLAN tags (802.1Q, 802.1ad).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
    /// EtherType of the payload, behind all tags; see [`ethertype`].
    pub ethertype: u16,
    /// Offset of the payload, in bytes.
    pub payload_offset: usize,
}

/// EtherTypes (IEEE 802).
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// A VLAN tag (802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// A service VLAN tag (802.1ad).
    pub const PROVIDER_VLAN: u16 = 0x88a8;
}

/// Tags that are followed at most; a frame with more counts as not IP.
const MAX_VLAN_TAGS: usize = 4;

impl Ethernet {
    /// Length of a header without tags, in bytes.
    pub const HEADER_BYTES: usize = 14;

    /// Reads the header of a frame; `None` where it is truncated.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (header, _) = frame.split_first_chunk::<{ Self::HEADER_BYTES }>()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, high, low] = *header;
        let mut ethertype = u16::from_be_bytes([high, low]);
        let mut payload_offset = Self::HEADER_BYTES;
        for _ in 0..MAX_VLAN_TAGS {
            if !matches!(ethertype, ethertype::VLAN | ethertype::PROVIDER_VLAN) {
                break;
            }
            let Some(&[_, _, high, low]) = frame.get(payload_offset..payload_offset + 4) else { break };
            ethertype = u16::from_be_bytes([high, low]);
            payload_offset += 4;
        }
        let (destination, source) = ([d0, d1, d2, d3, d4, d5], [s0, s1, s2, s3, s4, s5]);
        Some(Ethernet { destination, source, ethertype, payload_offset })
    }

    /// Whether the EtherType is that of IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        matches!(self.ethertype, ethertype::IPV4 | ethertype::IPV6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(types: &[u16]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for (index, kind) in types.iter().enumerate() {
            if index > 0 {
                bytes.extend([0, 5]);
            }
            bytes.extend(kind.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn both_versions_of_ip_are_known_behind_tags_too() {
        let carries = |types: &[u16]| Ethernet::parse(&frame(types)).unwrap().is_ip();
        assert!(
            carries(&[ethertype::IPV4]) && carries(&[ethertype::IPV6]) && carries(&[ethertype::VLAN, ethertype::IPV6])
        );
        assert!(!carries(&[ethertype::ARP]) && !carries(&[ethertype::VLAN, ethertype::ARP]));
    }

    #[test]
    fn tags_are_passed_over() {
        for (types, ethertype, payload_offset) in [
            (&[ethertype::IPV4][..], ethertype::IPV4, 14),
            (&[ethertype::VLAN, ethertype::IPV6], ethertype::IPV6, 18),
            (&[ethertype::PROVIDER_VLAN, ethertype::VLAN, ethertype::ARP], ethertype::ARP, 22),
            // More tags than anybody uses are not followed.
            (&[ethertype::VLAN; 6], ethertype::VLAN, 30),
        ] {
            let read = Ethernet::parse(&frame(types)).unwrap();
            assert_eq!((read.ethertype, read.payload_offset), (ethertype, payload_offset));
            assert_eq!((read.destination[5], read.source[5]), (1, 2));
        }
        assert_eq!(Ethernet::parse(&[0; 13]), None);
        // The tag itself is cut short.
        let cut = Ethernet::parse(&[&frame(&[ethertype::VLAN])[..], &[0, 5]].concat()).unwrap();
        assert_eq!((cut.ethertype, cut.is_ip()), (ethertype::VLAN, false));
    }

    proptest! {
        #[test]
        fn what_it_carries_lies_within_the_frame(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(header) = Ethernet::parse(&bytes) {
                prop_assert!(header.payload_offset <= bytes.len());
            }
        }
    }
}
