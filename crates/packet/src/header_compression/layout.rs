use crate::checksum;
use crate::headers::protocol;
use std::ops::Range;

/// Where the fields of a packet stand that is an unfragmented TCP segment or UDP datagram, and whose lengths and header checksum can be
/// inferred from the rest of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) is_v4: bool,
    pub(super) is_tcp: bool,
    /// IP and transport.
    pub(super) header_bytes: usize,
}

/// The two values of the time stamps option (RFC 7323 §3.2).
pub(super) const TIMESTAMP_VALUE_BYTES: usize = 8;
const TIMESTAMP_KIND: u8 = 8;
const END_KIND: u8 = 0;
const PADDING_KIND: u8 = 1;

const V4_BYTES: usize = 20;
const V6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// The reserved bit and "do not fragment".
const V4_FLAGS: u8 = 0xc0;

impl Layout {
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
        let (is_v4, kind) = match packet {
            [0x45, _, high, low, _, _, flags, offset, _, kind, ..] if packet.len() >= V4_BYTES => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                let is_whole = length == packet.len() && flags & !V4_FLAGS == 0 && *offset == 0;
                (true, (is_whole && has_computed_checksum(packet)).then_some(*kind)?)
            }
            [first, _, _, _, high, low, kind, ..] if first >> 4 == 6 && packet.len() >= V6_BYTES => {
                let length = V6_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
                (false, (length == packet.len()).then_some(*kind)?)
            }
            _ => return None,
        };
        let transport = if is_v4 { V4_BYTES } else { V6_BYTES };
        let segment = &packet[transport..];
        let (is_tcp, transport_bytes) = match kind {
            protocol::TCP => (true, usize::from(segment.get(12)? >> 4) * 4),
            protocol::UDP => {
                let length = u16::from_be_bytes([*segment.get(4)?, *segment.get(5)?]);
                (false, (usize::from(length) == segment.len()).then_some(UDP_BYTES)?)
            }
            _ => return None,
        };
        let least = if is_tcp { TCP_BYTES } else { UDP_BYTES };
        let is_complete = transport_bytes >= least && transport_bytes <= segment.len();
        is_complete.then_some(Layout { is_v4, is_tcp, header_bytes: transport + transport_bytes })
    }

    pub(super) fn transport(&self) -> usize {
        if self.is_v4 { V4_BYTES } else { V6_BYTES }
    }

    pub(super) fn addresses(&self) -> Range<usize> {
        if self.is_v4 { 12..20 } else { 8..40 }
    }

    /// Offsets of what one of both versions has elsewhere.
    pub(super) fn hops(&self) -> usize {
        if self.is_v4 { 8 } else { 7 }
    }

    pub(super) fn checksum(&self) -> usize {
        self.transport() + if self.is_tcp { 16 } else { 6 }
    }

    pub(super) fn sequence(&self) -> usize {
        self.transport() + 4
    }

    pub(super) fn acknowledgment(&self) -> usize {
        self.transport() + 8
    }

    /// Of the octet with the length of the header.
    pub(super) fn data_offset(&self) -> usize {
        self.transport() + 12
    }

    pub(super) fn tcp_flags(&self) -> usize {
        self.transport() + 13
    }

    pub(super) fn window(&self) -> usize {
        self.transport() + 14
    }

    pub(super) fn urgent(&self) -> usize {
        self.transport() + 18
    }

    /// Of TCP.
    pub(super) fn options(&self) -> Range<usize> {
        self.transport() + TCP_BYTES..self.header_bytes
    }

    /// The DS field with ECN, the octet that RFC 791 and RFC 8200 call type of service and traffic class.
    pub(super) fn ds_field(&self, packet: &[u8]) -> u8 {
        if self.is_v4 { packet[1] } else { packet[0] << 4 | packet[1] >> 4 }
    }

    pub(super) fn set_ds_field(&self, packet: &mut [u8], field: u8) {
        if self.is_v4 {
            packet[1] = field;
        } else {
            packet[0] = packet[0] & 0xf0 | field >> 4;
            packet[1] = packet[1] & 0x0f | field << 4;
        }
    }

    /// Of IPv6.
    pub(super) fn flow_label(&self, packet: &[u8]) -> [u8; 3] {
        [packet[1] & 0x0f, packet[2], packet[3]]
    }

    pub(super) fn set_flow_label(&self, packet: &mut [u8], [high, middle, low]: [u8; 3]) {
        packet[1] = packet[1] & 0xf0 | high & 0x0f;
        packet[2..4].copy_from_slice(&[middle, low]);
    }

    /// None where the packet would be a fragment.
    pub(super) fn set_v4_flags(&self, header: &mut [u8], flags: u8) -> Option<()> {
        header[6] = flags;
        (flags & !V4_FLAGS == 0).then_some(())
    }

    /// Makes it that of a header with these options; none where they do not fit.
    pub(super) fn set_options(&mut self, header: &mut [u8], options: &[u8]) -> Option<()> {
        let start = self.options().start;
        header.get_mut(start..start + options.len())?.copy_from_slice(options);
        let words = (TCP_BYTES + options.len()) / 4;
        let fits = options.len().is_multiple_of(4) && words <= 15;
        let octet = &mut header[self.data_offset()];
        *octet = *octet & 0x0f | (words as u8) << 4;
        self.header_bytes = start + options.len();
        fits.then_some(())
    }

    /// Makes it the header of a packet with so many bytes of payload; none where there is no such packet.
    pub(super) fn set_lengths(&self, header: &mut [u8], payload_bytes: usize) -> Option<()> {
        let total = self.header_bytes + payload_bytes;
        let (place, length) = if self.is_v4 { (2, total) } else { (4, total - V6_BYTES) };
        header[place..place + 2].copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
        if !self.is_tcp {
            let length = u16::try_from(UDP_BYTES + payload_bytes).ok()?;
            header[self.transport() + 4..][..2].copy_from_slice(&length.to_be_bytes());
        }
        Some(())
    }
}

/// Of the two spellings of zero, too, a checksum has to be the one that is computed.
fn has_computed_checksum(packet: &[u8]) -> bool {
    let mut header = [0; V4_BYTES];
    header.copy_from_slice(&packet[..V4_BYTES]);
    checksum::set_ipv4_header(&mut header);
    header[10..12] == packet[10..12]
}

/// Where in the options of TCP the values of the time stamps stand, if they have them.
pub(super) fn timestamp_offset(options: &[u8]) -> Option<usize> {
    let mut place = 0;
    loop {
        match options[place..] {
            [PADDING_KIND, ..] => place += 1,
            [TIMESTAMP_KIND, 10, ..] if options.len() - place >= 10 => return Some(place + 2),
            [END_KIND, ..] | [] | [_] | [_, 0 | 1, ..] => return None,
            [_, length, ..] => place += usize::from(length).min(options.len() - place),
        }
    }
}
