use crate::checksum;
use crate::headers::protocol;

/// IP without options, TCP with all that may follow.
const MAX_HEADER_BYTES: usize = 40 + 60;

// Offsets in TCP headers, and flags there.
const TCP_FLAGS: usize = 13;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
/// Those that belong to the last of the segments which are merged.
const LAST_SEGMENT_FLAGS: u8 = FIN | PSH;

/// What decides whether a TCP or UDP packet can be merged with another, as network cards and the kernel do it on reception
/// (LRO, GRO).
#[derive(Debug, Clone)]
pub struct MergeProfile {
    /// The headers without what may differ from packet to packet: lengths, checksums, identification, sequence number and
    /// the flags of the last segment are zero.
    common_headers: [u8; MAX_HEADER_BYTES],
    /// Offset of the transport header, in bytes.
    pub transport_offset: usize,
    /// Offset of the payload, in bytes.
    pub payload_offset: usize,
    /// TCP or UDP.
    pub protocol: u8,
    /// Length of the payload, in bytes.
    pub payload_bytes: usize,
    /// Of TCP.
    sequence: u32,
    /// Of IPv4, where the packet may be fragmented; those of others mean nothing (RFC 6864 §4.1).
    identification: Option<u16>,
    /// Data of an established connection or of UDP with a checksum; otherwise the packet stays as it is.
    pub can_merge: bool,
    /// The FIN or PSH flag.
    pub ends_group: bool,
}

impl MergeProfile {
    /// The longest headers that one has, in bytes.
    pub const MAX_HEADER_BYTES: usize = MAX_HEADER_BYTES;

    /// `None` for anything but a whole IPv4 packet without options or IPv6 packet without extension headers that
    /// contains all of a TCP or UDP header: such a packet's flow is not known.
    pub fn from_packet(packet: &[u8]) -> Option<Self> {
        let (transport, protocol, len, identification) = parse_network_header(packet)?;
        let header = packet.get(transport..).filter(|_| len == packet.len())?;
        let (header_bytes, can_merge) = match protocol {
            protocol::TCP => parse_tcp_header(header)?,
            protocol::UDP => parse_udp_header(header)?,
            _ => return None,
        };
        let (payload, flags) = (transport + header_bytes, header.get(TCP_FLAGS).copied().unwrap_or(0));
        let mut common = [0; MAX_HEADER_BYTES];
        common[..payload].copy_from_slice(packet.get(..payload)?);
        clear_variable_fields(&mut common, transport, protocol);
        let payload_bytes = len - payload;
        let is_tcp = protocol == protocol::TCP;
        Some(MergeProfile {
            common_headers: common,
            transport_offset: transport,
            payload_offset: payload,
            protocol,
            payload_bytes,
            sequence: if is_tcp { u32::from_be_bytes(*header.get(4..)?.first_chunk()?) } else { 0 },
            identification,
            can_merge: can_merge && payload_bytes > 0,
            ends_group: is_tcp && flags & LAST_SEGMENT_FLAGS != 0,
        })
    }

    /// Whether both packets are of one flow: addresses, ports, protocol and IP version are the same.
    pub fn is_same_flow(&self, other: &Self) -> bool {
        let addresses = if self.transport_offset == 20 { 12 } else { 8 };
        // The addresses stand just before the ports.
        let range = addresses..self.transport_offset + 4;
        self.transport_offset == other.transport_offset
            && self.protocol == other.protocol
            && self.common_headers[range.clone()] == other.common_headers[range]
    }

    /// Whether the headers differ at most in what segmentation sets.
    fn has_same_headers(&self, other: &Self) -> bool {
        self.payload_offset == other.payload_offset && self.common_headers == other.common_headers
    }

    /// Whether `next` follows a packet of this shape that has `payload_bytes` by now, in whole segments of `segment_bytes`, so
    /// that dividing both gives each again.
    pub fn is_followed_by(&self, payload_bytes: usize, segment_bytes: usize, next: &MergeProfile) -> bool {
        let sequence = match self.protocol {
            protocol::TCP => self.sequence.wrapping_add(payload_bytes as u32),
            _ => 0,
        };
        let count = payload_bytes / segment_bytes.max(1);
        let identification = self.identification.map(|first| first.wrapping_add(count as u16));
        self.can_merge
            && next.can_merge
            && next.has_same_headers(self)
            && (next.sequence, next.identification) == (sequence, identification)
    }

    /// Makes the headers of such a packet those of one of `len` bytes that ends as the packet `last` does. The transport
    /// checksum stays.
    pub fn extend_headers(&self, headers: &mut [u8], len: usize, last: &[u8]) {
        let (network, transport) = headers.split_at_mut(self.transport_offset);
        if network.len() == 20 {
            network[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            checksum::set_ipv4_header(network);
        } else {
            network[4..6].copy_from_slice(&((len - self.transport_offset) as u16).to_be_bytes());
        }
        if self.protocol == protocol::TCP {
            transport[TCP_FLAGS] |= last[self.transport_offset + TCP_FLAGS] & LAST_SEGMENT_FLAGS;
        } else {
            transport[4..6].copy_from_slice(&((len - self.transport_offset) as u16).to_be_bytes());
        }
    }
}

/// Offset of the transport header, protocol, length and identification.
fn parse_network_header(packet: &[u8]) -> Option<(usize, u8, usize, Option<u16>)> {
    const DONT_FRAGMENT: u16 = 0x4000;
    const RESERVED: u16 = 0x8000;
    let word = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    match packet.first()? {
        0x45 => {
            let fragment = word(6)?;
            // Any other bit: this is a fragment.
            let is_whole = fragment & !(DONT_FRAGMENT | RESERVED) == 0;
            let identification = if fragment & DONT_FRAGMENT == 0 { Some(word(4)?) } else { None };
            is_whole.then_some((20, *packet.get(9)?, usize::from(word(2)?), identification))
        }
        version if version >> 4 == 6 => Some((40, *packet.get(6)?, 40 + usize::from(word(4)?), None)),
        _ => None,
    }
}

/// Length of the header, and whether the packet may be merged by its flags.
fn parse_tcp_header(header: &[u8]) -> Option<(usize, bool)> {
    let (&[offset, flags], bytes) = (header.get(12..)?.first_chunk()?, usize::from(header.get(12)? >> 4) * 4);
    // ECE may be set on all; CWR and what is reserved belongs to the one segment that has it.
    let is_plain = flags & !(LAST_SEGMENT_FLAGS | ECE) == ACK && offset & 0x0f == 0;
    (20..=header.len()).contains(&bytes).then_some((bytes, is_plain))
}

fn parse_udp_header(header: &[u8]) -> Option<(usize, bool)> {
    let &[length_high, length_low, checksum @ ..] = header.get(4..)?.first_chunk::<4>()?;
    let is_whole = usize::from(u16::from_be_bytes([length_high, length_low])) == header.len();
    Some((8, is_whole && checksum != [0, 0]))
}

fn clear_variable_fields(common: &mut [u8; MAX_HEADER_BYTES], transport: usize, protocol: u8) {
    let length_to_identification = if transport == 20 { 2..6 } else { 4..6 };
    common[length_to_identification].fill(0);
    if transport == 20 {
        common[10..12].fill(0);
    }
    let header = &mut common[transport..];
    if protocol == protocol::TCP {
        header[4..8].fill(0);
        header[16..18].fill(0);
        header[TCP_FLAGS] &= !LAST_SEGMENT_FLAGS;
    } else {
        header[4..8].fill(0);
    }
}
