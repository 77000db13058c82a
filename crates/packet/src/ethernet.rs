use crate::checksum;

/// The header of an Ethernet frame (IEEE 802.3), and what stands between it and an IP packet: VLAN tags (802.1Q, 802.1ad), and
/// behind these a PPPoE session (RFC 2516) or an MPLS label stack (RFC 3032).
///
/// What neither of these two leads to is passed over as little as possible: where a PPPoE session carries something else than
/// IP, or a label stack is deeper than [`MAX_MPLS_LABELS`](Self::MAX_MPLS_LABELS), the payload begins behind the VLAN tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
    /// EtherType of the payload: that of IPv4 or IPv6 also where PPPoE or MPLS carries it; see [`ethertype`].
    pub ethertype: u16,
    /// Offset of the payload, in bytes.
    pub payload_offset: usize,
    /// What is between the VLAN tags and an IP packet.
    pub encapsulation: Encapsulation,
}

/// What carries an IP packet within an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// Nothing else, or the frame does not carry IP.
    None,
    /// A PPPoE session.
    Pppoe {
        /// Offset of the length field in the frame: 16 bits, and counts what follows them.
        length_offset: usize,
    },
    /// MPLS labels, which lead one way only.
    Mpls,
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
    /// MPLS (RFC 3032).
    pub const MPLS: u16 = 0x8847;
    /// MPLS with a label that the receiver did not assign (RFC 5332).
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// A PPPoE session (RFC 2516).
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// A service VLAN tag (802.1ad).
    pub const PROVIDER_VLAN: u16 = 0x88a8;
}

/// Tags that are followed at most; a frame with more counts as not IP.
const MAX_VLAN_TAGS: usize = 4;
const VLAN_TAG_BYTES: usize = 4;
/// Version 1, type 1, and the code of a session's data (RFC 2516 §4).
const PPPOE_SESSION_DATA: [u8; 2] = [0x11, 0];
const PPPOE_LENGTH_OFFSET: usize = 4;
const PPPOE_HEADER_BYTES: usize = 6;
/// PPP's protocol numbers are below 256 where they have no control protocol, and may then be one byte (RFC 1661 §6.5).
const PPP_IPV4: u8 = 0x21;
const PPP_IPV6: u8 = 0x57;
const MPLS_LABEL_BYTES: usize = 4;
/// In the third byte of a label stack entry.
const MPLS_BOTTOM_OF_STACK: u8 = 1;
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
/// Up to which frames are padded, without their header.
const MIN_ETHERNET_PAYLOAD_BYTES: usize = 46;

impl Ethernet {
    /// Length of a header without tags, in bytes.
    pub const HEADER_BYTES: usize = 14;
    /// Labels of MPLS that are followed at most, as by Linux's flow dissector.
    pub const MAX_MPLS_LABELS: usize = 7;
    /// The greatest offset of a payload, in bytes.
    pub const MAX_PAYLOAD_OFFSET: usize =
        Self::HEADER_BYTES + MAX_VLAN_TAGS * VLAN_TAG_BYTES + Self::MAX_MPLS_LABELS * MPLS_LABEL_BYTES;

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
            let Some(&[_, _, high, low]) = frame.get(payload_offset..payload_offset + VLAN_TAG_BYTES) else { break };
            ethertype = u16::from_be_bytes([high, low]);
            payload_offset += VLAN_TAG_BYTES;
        }
        let mut encapsulation = Encapsulation::None;
        let payload = &frame[payload_offset..];
        let carried = match ethertype {
            ethertype::PPPOE_SESSION => {
                let length_offset = payload_offset + PPPOE_LENGTH_OFFSET;
                find_ip_in_pppoe(payload).map(|found| (Encapsulation::Pppoe { length_offset }, found))
            }
            ethertype::MPLS | ethertype::MPLS_UPSTREAM => {
                find_ip_in_mpls(payload).map(|found| (Encapsulation::Mpls, found))
            }
            _ => None,
        };
        if let Some((by, (kind, offset))) = carried {
            (encapsulation, ethertype) = (by, kind);
            payload_offset += offset;
        }
        let (destination, source) = ([d0, d1, d2, d3, d4, d5], [s0, s1, s2, s3, s4, s5]);
        Some(Ethernet { destination, source, ethertype, payload_offset, encapsulation })
    }

    /// Whether the EtherType is that of IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        matches!(self.ethertype, ethertype::IPV4 | ethertype::IPV6)
    }
}

/// The EtherType of the IP packet that a PPPoE session carries, and its offset from the PPPoE header.
fn find_ip_in_pppoe(payload: &[u8]) -> Option<(u16, usize)> {
    let (header, ppp) = payload.split_first_chunk::<PPPOE_HEADER_BYTES>()?;
    let (protocol, protocol_bytes) = match ppp {
        [0, protocol, ..] => (*protocol, 2),
        [protocol, ..] => (*protocol, 1),
        [] => return None,
    };
    let kind = match protocol {
        PPP_IPV4 => ethertype::IPV4,
        PPP_IPV6 => ethertype::IPV6,
        _ => return None,
    };
    header.starts_with(&PPPOE_SESSION_DATA).then_some((kind, PPPOE_HEADER_BYTES + protocol_bytes))
}

/// The EtherType of the IP packet behind a label stack, and its offset from the first label.
fn find_ip_in_mpls(payload: &[u8]) -> Option<(u16, usize)> {
    let labels = payload.chunks_exact(MPLS_LABEL_BYTES).take(Ethernet::MAX_MPLS_LABELS);
    let above_bottom = labels.take_while(|label| label[2] & MPLS_BOTTOM_OF_STACK == 0).count();
    let offset = (above_bottom + 1) * MPLS_LABEL_BYTES;
    if above_bottom == Ethernet::MAX_MPLS_LABELS {
        return None;
    }
    let kind = ip_version_in_mpls(payload.get(offset..)?)?;
    Some((kind, offset))
}

/// The EtherType of what follows a label stack. Nothing but its first four bits says which protocol that is, and an Ethernet
/// frame of a pseudowire without control word may begin with those of IP (RFC 8469): so the checksum of an IPv4 header, or
/// IPv6's length, has to be right. Else a mark would go into an address.
fn ip_version_in_mpls(packet: &[u8]) -> Option<u16> {
    match packet.first()? {
        0x45..=0x4f if packet.len() >= IPV4_HEADER_BYTES && checksum::is_header_valid(packet) => Some(ethertype::IPV4),
        0x60..=0x6f => {
            let len = IPV6_HEADER_BYTES + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            let is_whole = len == packet.len() || (len..=MIN_ETHERNET_PAYLOAD_BYTES).contains(&packet.len());
            is_whole.then_some(ethertype::IPV6)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Sample, SampleKind, V4, V6};
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

    const PPPOE: [u8; 4] = [0x11, 0, 0, 7];
    const LABEL: [u8; 4] = [0, 1, 0, 64];
    const BOTTOM_LABEL: [u8; 4] = [0, 1, 1, 64];

    fn samples() -> [(u16, u8, Vec<u8>); 2] {
        [(ethertype::IPV4, PPP_IPV4, V4), (ethertype::IPV6, PPP_IPV6, V6)].map(|(kind, protocol, addresses)| {
            (kind, protocol, Sample::new(addresses, SampleKind::Udp, &[7; 30]).packet())
        })
    }

    fn pppoe(protocol: &[u8], packet: &[u8]) -> Vec<u8> {
        let len = ((protocol.len() + packet.len()) as u16).to_be_bytes();
        [&frame(&[ethertype::VLAN, ethertype::PPPOE_SESSION])[..], &PPPOE, &len, protocol, packet].concat()
    }

    fn mpls(labels_above: usize, packet: &[u8]) -> Vec<u8> {
        [&frame(&[ethertype::MPLS])[..], &LABEL.repeat(labels_above), &BOTTOM_LABEL, packet].concat()
    }

    #[test]
    fn ip_in_a_pppoe_session_is_found_also_with_a_compressed_protocol_field() {
        for (kind, protocol, packet) in samples() {
            for field in [&[0, protocol][..], &[protocol]] {
                let whole = pppoe(field, &packet);
                let read = Ethernet::parse(&whole).unwrap();
                assert_eq!((read.ethertype, &whole[read.payload_offset..]), (kind, &packet[..]));
                assert_eq!(read.encapsulation, Encapsulation::Pppoe { length_offset: 22 });
                for cut in 0..read.payload_offset - 1 {
                    assert!(Ethernet::parse(&whole[..cut]).is_none_or(|read| !read.is_ip()));
                }
            }
        }
        let not_ip = |bytes: &[u8], changed: usize, value| {
            let mut bytes = bytes.to_vec();
            bytes[changed] = value;
            let read = Ethernet::parse(&bytes).unwrap();
            assert_eq!((read.ethertype, read.payload_offset), (ethertype::PPPOE_SESSION, 18));
            assert_eq!(read.encapsulation, Encapsulation::None);
        };
        let [(_, protocol, packet), _] = samples();
        // LCP; IPCP; another version; discovery.
        not_ip(&pppoe(&[0, protocol], &packet), 24, 0xc0);
        not_ip(&pppoe(&[0, protocol], &packet), 24, 0x80);
        not_ip(&pppoe(&[0, protocol], &packet), 18, 0x12);
        not_ip(&pppoe(&[0, protocol], &packet), 19, 9);
    }

    #[test]
    fn ip_behind_mpls_labels_is_found() {
        for (kind, _, packet) in samples() {
            for above in 0..Ethernet::MAX_MPLS_LABELS {
                let whole = mpls(above, &packet);
                let read = Ethernet::parse(&whole).unwrap();
                assert_eq!((read.ethertype, read.encapsulation), (kind, Encapsulation::Mpls));
                assert_eq!(whole[read.payload_offset..], packet);
            }
            // More labels than are followed.
            let deep = Ethernet::parse(&mpls(Ethernet::MAX_MPLS_LABELS, &packet)).unwrap();
            assert_eq!((deep.ethertype, deep.payload_offset), (ethertype::MPLS, 14));
        }
    }

    /// Ethernet in MPLS, with and without a control word.
    #[test]
    fn a_frame_of_a_pseudowire_is_not_taken_for_ip() {
        let [(_, _, v4), (_, _, v6)] = samples();
        for (first, packet) in [(0x45, v4), (0x60, v6)] {
            let mut inner = [&frame(&[ethertype::IPV4])[..], &packet].concat();
            inner[0] = first;
            for payload in [inner.clone(), [&[0; 4], &inner[..]].concat()] {
                let read = Ethernet::parse(&mpls(1, &payload)).unwrap();
                assert_eq!((read.ethertype, read.payload_offset), (ethertype::MPLS, 14));
            }
        }
    }

    proptest! {
        #[test]
        fn a_carrier_of_anything_is_read_safely(
            kind in prop::sample::select(vec![ethertype::PPPOE_SESSION, ethertype::MPLS, ethertype::MPLS_UPSTREAM]),
            tags in 0..6_usize,
            bytes in prop::collection::vec(prop::sample::select(vec![0, 1, 0x11, 0x21, 0x45, 0x57, 0x60, 0xff]), 0..80),
        ) {
            let types = [&vec![ethertype::VLAN; tags][..], &[kind]].concat();
            let whole = [frame(&types), bytes].concat();
            let header = Ethernet::parse(&whole).unwrap();
            prop_assert!(header.payload_offset <= whole.len().min(Ethernet::MAX_PAYLOAD_OFFSET));
            prop_assert_eq!(header.is_ip(), header.encapsulation != Encapsulation::None);
        }

        #[test]
        fn what_it_carries_lies_within_the_frame(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(header) = Ethernet::parse(&bytes) {
                prop_assert!(header.payload_offset <= bytes.len());
            }
        }
    }
}
