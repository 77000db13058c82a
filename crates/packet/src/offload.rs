//! Finishing what a sender left to its network card: checksums (RFC 1071) and the division into packets of a size that
//! the line carries (segmentation offload), as the header of `linux/virtio_net.h` tells it.

use crate::checksum;
use crate::headers::{Headers, ParseError, Transport};
use thiserror::Error;

/// What is left to do for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unfinished {
    /// The checksum that stands for the pseudo header only.
    pub checksum: Option<PartialChecksum>,
    /// Bytes of data that each packet is to carry, where the frame is to be divided.
    pub segment_bytes: Option<u16>,
}

/// A checksum to be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialChecksum {
    /// It covers the frame from here to its end.
    pub start: u16,
    /// Where it is put, from `start`.
    pub offset: u16,
}

/// A frame that cannot be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UnfinishedError {
    /// It is to be divided, but is no whole packet.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It is to be divided in a way that is not known.
    #[error(
        "cannot divide a packet of {len} bytes into segments of {segment_bytes}: it is no whole TCP or UDP packet, or \
         carries one in a tunnel"
    )]
    Kind {
        /// Bytes given.
        len: usize,
        /// Bytes of data wanted in each.
        segment_bytes: u16,
    },
    /// The checksum would lie outside.
    #[error("cannot complete the checksum of a frame of {len} bytes: it should stand at byte {at}")]
    Checksum {
        /// Bytes given.
        len: usize,
        /// Where it should stand.
        at: usize,
    },
}

impl Unfinished {
    /// Bytes of the header that says so.
    pub const HEADER: usize = 10;

    /// Reads struct virtio_net_hdr, in this machine's byte order as packet(7) and TUN devices give it.
    pub fn read(header: [u8; Self::HEADER]) -> Self {
        const NEEDS_CHECKSUM: u8 = 1;
        let [flags, kind, _, _, s0, s1, c0, c1, o0, o1] = header;
        let (start, offset) = (u16::from_ne_bytes([c0, c1]), u16::from_ne_bytes([o0, o1]));
        let segment_bytes = u16::from_ne_bytes([s0, s1]);
        Unfinished {
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some(PartialChecksum { start, offset }),
            segment_bytes: (kind != 0 && segment_bytes > 0).then_some(segment_bytes),
        }
    }
}

impl PartialChecksum {
    /// Where SCTP has its checksum, which is of another kind; no other protocol has one there.
    const SCTP_OFFSET: u16 = 8;

    /// Completes it in `frame`, which begins where `start` is counted from.
    ///
    /// # Errors
    /// It would lie outside; nothing is changed.
    pub fn complete(self, frame: &mut [u8]) -> Result<(), UnfinishedError> {
        let (start, len) = (usize::from(self.start), frame.len());
        let at = start + usize::from(self.offset);
        let is_sctp = self.offset == Self::SCTP_OFFSET;
        if at + if is_sctp { 4 } else { 2 } > len {
            return Err(UnfinishedError::Checksum { len, at });
        }
        if is_sctp {
            frame[at..at + 4].fill(0);
            let value = checksum::crc32c(&frame[start..]);
            frame[at..at + 4].copy_from_slice(&value.to_le_bytes());
            return Ok(());
        }
        // The sender has put the pseudo header's sum there, so that it is counted with the rest.
        let value = match checksum::of(&frame[start..]) {
            // To UDP, zero means that there is none; to the others both are the same.
            0 => 0xffff,
            value => value,
        };
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        Ok(())
    }
}

/// The packets that a large one is divided into.
#[derive(Debug)]
pub struct Segments<'a> {
    frame: &'a [u8],
    network_offset: usize,
    /// Where the data begin.
    data_offset: usize,
    /// Where the transport's header begins.
    transport_offset: usize,
    transport: Transport,
    segment_bytes: usize,
    /// Data already given.
    given: usize,
    number: u16,
}

impl<'a> Segments<'a> {
    /// Divides a frame whose IP packet begins at `network_offset`; what stands before is repeated. Where its transport's
    /// header is known to begin, `transport_at` says so: that of a packet in a tunnel is another.
    ///
    /// # Errors
    /// It is no whole TCP or UDP packet, or it is one in a tunnel that is to be divided.
    pub fn of(
        frame: &'a [u8],
        network_offset: usize,
        segment_bytes: u16,
        transport_at: Option<usize>,
    ) -> Result<Self, UnfinishedError> {
        let packet = frame.get(network_offset..).unwrap_or_default();
        let headers = Headers::parse(packet)?;
        let refused = UnfinishedError::Kind { len: packet.len(), segment_bytes };
        let is_here = transport_at.is_none_or(|at| at == network_offset + headers.transport_offset);
        let can_be = is_here && !headers.is_fragment() && segment_bytes > 0;
        let transport = headers.transport.filter(|_| can_be).ok_or(refused)?;
        let data = match transport {
            Transport::Tcp(tcp) => tcp.payload_len,
            Transport::Udp(udp) => udp.payload_len,
            Transport::Icmp(_) => return Err(refused),
        };
        let end = network_offset + headers.total_len;
        Ok(Segments {
            frame: &frame[..end],
            network_offset,
            data_offset: end - data,
            transport_offset: network_offset + headers.transport_offset,
            transport,
            segment_bytes: segment_bytes.into(),
            given: 0,
            number: 0,
        })
    }

    /// Bytes of the longest that there are, with all that stands before it.
    pub fn longest(&self) -> usize {
        self.frame.len().min(self.data_offset + self.segment_bytes)
    }

    /// Puts the next packet with all that stands before it into `out`, in place of what it held; false where there is
    /// none left. Checksums are right.
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        let data = &self.frame[self.data_offset..];
        if self.given >= data.len() && self.number > 0 {
            return false;
        }
        let end = data.len().min(self.given + self.segment_bytes);
        out.clear();
        out.extend_from_slice(&self.frame[..self.data_offset]);
        out.extend_from_slice(&data[self.given..end]);
        let is_last = end == data.len();
        self.set_network(out);
        self.set_transport(out, is_last);
        // The headers were read as whole ones, and their lengths are right again.
        let _ = checksum::set(&mut out[self.network_offset..]);
        self.given = end;
        self.number = self.number.wrapping_add(1);
        true
    }

    fn set_network(&self, out: &mut [u8]) {
        let packet = &mut out[self.network_offset..];
        let len = packet.len();
        if packet[0] >> 4 == 4 {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let identification = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(self.number);
            packet[4..6].copy_from_slice(&identification.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
    }

    fn set_transport(&self, out: &mut [u8], is_last: bool) {
        let header = &mut out[self.transport_offset..];
        match self.transport {
            Transport::Tcp(tcp) => {
                let sequence = tcp.sequence.wrapping_add(self.given as u32);
                header[4..8].copy_from_slice(&sequence.to_be_bytes());
                if !is_last {
                    header[13] &= !(FIN | PUSH);
                }
                if self.number > 0 {
                    header[13] &= !REDUCED;
                }
            }
            _ => {
                let len = header.len() as u16;
                header[4..6].copy_from_slice(&len.to_be_bytes());
            }
        }
    }
}

// Flags of TCP that belong to the last, or to the first (RFC 3168 §6.1.2), packet only.
const FIN: u8 = 0x01;
const PUSH: u8 = 0x08;
const REDUCED: u8 = 0x80;

#[cfg(test)]
mod tests;
