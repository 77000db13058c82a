//! Which packets of a batch are handed to the kernel as one, and with which headers: what it does itself on reception (GRO), for
//! packets that come by a tunnel or an emulated link.

use kumade_packet::checksum;
use kumade_packet::offload::{LargePacket, MergeProfile, Offload};
use kumade_packet::protocol;
use std::iter::successors;

/// Divides batches into groups. Of no meaning from batch to batch; kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    merges_udp: bool,
    link_header_bytes: u16,
    groups: Vec<Group>,
    /// By packet: the next one of its group.
    next: Vec<usize>,
}

/// Packets that become one, or a single packet.
#[derive(Debug)]
pub(crate) struct Group {
    first: usize,
    last: usize,
    count: usize,
    /// All bytes of the packet as it will be.
    len: usize,
    /// Of the first packet; `None` where its flow is not known.
    merge_profile: Option<MergeProfile>,
    is_open: bool,
    /// The checksums of the first packet have been found valid, or that of its transport is partial.
    is_verified: bool,
    /// So is the checksum of the first packet.
    has_partial_checksum: bool,
    headers: [u8; Offload::HEADER_BYTES + MergeProfile::MAX_HEADER_BYTES],
}

/// What decides beside its bytes whether a packet is merged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joining {
    /// With packets before it; where it may not, none that follows may either.
    pub(crate) may_join: bool,
    /// [`PARTIAL_CHECKSUM`](kumade_packet::offload::PARTIAL_CHECKSUM) stands for its transport checksum.
    pub(crate) has_partial_checksum: bool,
}

/// As many as UDP segmentation has always allowed (`UDP_MAX_SEGMENTS`).
const MAX_GROUP_PACKETS: usize = 64;
const MAX_GROUP_BYTES: usize = u16::MAX as usize;
/// Of so many groups, the newest, each packet's flow is looked for.
const MAX_SEARCHED_GROUPS: usize = 64;

impl Coalescer {
    /// `link_header_bytes` stand before each packet that may be merged, in its frame.
    pub(crate) fn new(merges_udp: bool, link_header_bytes: u16) -> Self {
        Coalescer { merges_udp, link_header_bytes, ..Coalescer::default() }
    }

    /// Divides these packets, in place of those before. Groups stand in the order of their first packets, and the packets
    /// of a flow, taken group by group, in their own.
    pub(crate) fn group_packets<P: AsRef<[u8]>>(&mut self, packets: &[P], joining: impl Fn(usize) -> Joining) {
        self.groups.clear();
        self.next.clear();
        // Groups before this one get no more packets.
        let mut barrier = 0;
        for index in 0..packets.len() {
            self.next.push(index);
            let Joining { may_join, has_partial_checksum } = joining(index);
            if !may_join {
                barrier = self.groups.len();
            }
            let shape = MergeProfile::from_packet(packets[index].as_ref());
            let from = barrier.max(self.groups.len().saturating_sub(MAX_SEARCHED_GROUPS));
            let is_merged = shape
                .as_ref()
                .is_some_and(|shape| self.append_to_flow_group(packets, (index, shape), has_partial_checksum, from));
            if !is_merged {
                // Which flow's packet it may be is not known: a fragment, for one.
                barrier = if shape.is_none() { self.groups.len() + 1 } else { barrier };
                self.groups.push(Group::new((index, packets[index].as_ref().len()), has_partial_checksum, shape));
            }
        }
        for group in self.groups.iter_mut().filter(|group| group.has_own_headers()) {
            group.write_headers(self.link_header_bytes, packets[group.first].as_ref(), packets[group.last].as_ref());
        }
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    /// The packets of a group, by index.
    pub(crate) fn members(&self, group: &Group) -> impl Iterator<Item = usize> + Clone {
        successors(Some(group.first), |&index| Some(self.next[index])).take(group.count)
    }

    /// Appends a packet to the newest group of its flow, if that is possible.
    fn append_to_flow_group<P: AsRef<[u8]>>(
        &mut self,
        packets: &[P],
        (index, shape): (usize, &MergeProfile),
        has_partial_checksum: bool,
        from: usize,
    ) -> bool {
        let is_of_flow =
            |group: &&mut Group| group.merge_profile.as_ref().is_some_and(|other| other.is_same_flow(shape));
        let Some(group) = self.groups[from..].iter_mut().rev().find(is_of_flow) else { return false };
        if shape.protocol == protocol::UDP && !self.merges_udp || !group.is_continued_by(shape) {
            return false;
        }
        // The checksum will be computed anew, and must not make corrupt bytes valid.
        let is_valid = |index: usize| checksum::is_valid(packets[index].as_ref()).unwrap_or(false);
        group.is_verified = group.is_verified || is_valid(group.first);
        if !group.is_verified || !(has_partial_checksum || is_valid(index)) {
            return false;
        }
        self.next[group.last] = index;
        group.append(index, shape);
        true
    }
}

impl Group {
    /// struct virtio_net_hdr of a packet of which nothing was left to do.
    pub(crate) const NO_OFFLOAD: &[u8] = &[0; Offload::HEADER_BYTES];

    fn new((first, len): (usize, usize), has_partial_checksum: bool, shape: Option<MergeProfile>) -> Self {
        let is_open = shape.as_ref().is_some_and(|shape| shape.can_merge && !shape.ends_group);
        let headers = [0; Offload::HEADER_BYTES + MergeProfile::MAX_HEADER_BYTES];
        Group {
            first,
            last: first,
            count: 1,
            len,
            merge_profile: shape,
            is_open,
            is_verified: has_partial_checksum,
            has_partial_checksum,
            headers,
        }
    }

    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// It is a packet as it came.
    pub(crate) fn is_single(&self) -> bool {
        !self.has_own_headers() && !self.has_partial_checksum
    }

    /// Its checksum is partial, and the kernel cannot be told where it is.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.has_partial_checksum && !self.has_own_headers()
    }

    /// Several packets have other headers than each, and one has another checksum than it came with if that is partial.
    fn has_own_headers(&self) -> bool {
        self.count > 1 || (self.has_partial_checksum && self.merge_profile.is_some())
    }

    /// What is to be written before the packets: struct virtio_net_hdr, and the headers where they are merged.
    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers[..Offload::HEADER_BYTES + self.skipped_bytes()]
    }

    /// How many bytes of each packet are not to be written, since [`headers`](Self::headers) stand for them.
    pub(crate) fn skipped_bytes(&self) -> usize {
        self.merge_profile.as_ref().filter(|_| self.has_own_headers()).map_or(0, |shape| shape.payload_offset)
    }

    fn is_continued_by(&self, packet: &MergeProfile) -> bool {
        let Some(first) = self.merge_profile.as_ref().filter(|_| self.is_open) else { return false };
        first.is_followed_by(self.len - first.payload_offset, first.payload_bytes, packet)
            && packet.payload_bytes <= first.payload_bytes
            && self.count < MAX_GROUP_PACKETS
            && self.len + packet.payload_bytes <= MAX_GROUP_BYTES
    }

    fn append(&mut self, index: usize, packet: &MergeProfile) {
        let is_shorter = self.merge_profile.as_ref().is_none_or(|first| packet.payload_bytes < first.payload_bytes);
        self.is_open = !is_shorter && !packet.ends_group;
        (self.last, self.count, self.len) = (index, self.count + 1, self.len + packet.payload_bytes);
    }

    /// The headers of the first packet, with the length of all, the last one's flags, and the checksum as far as a sender
    /// computes it who leaves the rest to the network card.
    fn write_headers(&mut self, link_header_bytes: u16, first: &[u8], last: &[u8]) {
        let Some(shape) = &self.merge_profile else { return };
        let (offload, packet) = self.headers.split_at_mut(Offload::HEADER_BYTES);
        let packet = &mut packet[..shape.payload_offset];
        packet.copy_from_slice(&first[..shape.payload_offset]);
        shape.extend_headers(packet, self.len, last);
        let large = LargePacket {
            protocol: shape.protocol,
            transport_offset: shape.transport_offset,
            payload_offset: shape.payload_offset,
            segment_bytes: if self.count > 1 { shape.payload_bytes as u16 } else { 0 },
        };
        large.set_partial_checksum(packet, self.len);
        offload.copy_from_slice(&large.virtio_header(packet, link_header_bytes));
    }
}

#[cfg(test)]
mod tests;
