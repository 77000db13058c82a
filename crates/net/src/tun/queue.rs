use super::handover_times::HandoverTimes;
use super::open::{NAME_TAKEN, open, set_nonblocking};
use crate::interface;
use crate::segment_coalescing::{Coalescer, Group, Joining};
use crate::setup::SetupError;
use kumade_packet::checksum;
use kumade_packet::offload::{LargePacket, Offload, Segments};
use kumade_units::Time;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, SyncDevice};

/// One queue of a TUN device with segmentation offload: the host hands over TCP and UDP in packets of up to 64 kB, with
/// unfinished checksums, and takes them so. What comes out of and goes into a queue are nevertheless single IP packets no
/// longer than the device's MTU, with finished checksums: [`TunPackets`] segments what was read, and
/// [`write_batch`](Self::write_batch) merges again.
///
/// Several queues are for several threads, one each. The kernel keeps a flow on one queue, that to which packets of the
/// other direction were last written. The device vanishes when its last queue is dropped.
pub struct TunQueue {
    device: SyncDevice,
    buffer: Vec<u8>,
    coalescer: Coalescer,
    handovers: Option<HandoverTimes>,
}

/// The longest packet: 64 kB of IP, and headers of IPv6 which do not count.
const MAX_PACKET_BYTES: usize = (1 << 16) + 256;

impl TunQueue {
    /// Packets, large ones as they are, that the kernel keeps for each queue until they are read.
    const QUEUE_PACKETS: u32 = 2_000;

    /// Makes a device with so many queues, at least one, in the namespace of the calling thread, and switches it on. It
    /// has neither addresses nor routes: see [`interface::add_address`] and [`interface::add_route`].
    ///
    /// # Errors
    /// No /dev/net/tun, not allowed, the name is taken, or more queues than the kernel allows (256).
    pub fn open(name: &str, mtu: u16, queues: usize) -> Result<Vec<Self>, SetupError> {
        // The kernel would add the queues to another program's device.
        if interface::exists(name) {
            let refusal = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(SetupError::new(format!("make the TUN device {name}"), refusal).with_hint(NAME_TAKEN));
        }
        let first = open(name, DeviceBuilder::new().mtu(mtu).offload(true).multi_queue(true))?;
        interface::set_queue_packets(name, Self::QUEUE_PACKETS)?;
        let mut devices = vec![first];
        while devices.len() < queues {
            let device = devices[0].try_clone().map_err(|error| {
                SetupError::new(format!("add queue {} to the TUN device {name}", devices.len() + 1), error)
                    .with_hint("a device has 256 queues at most")
            })?;
            set_nonblocking(name, &device)?;
            devices.push(device);
        }
        Ok(devices.into_iter().map(TunQueue::new).collect())
    }

    fn new(device: SyncDevice) -> Self {
        let coalescer = Coalescer::new(device.udp_gso(), 0);
        TunQueue { device, buffer: Vec::new(), coalescer, handovers: None }
    }

    /// Has each packet that is read tell when the host handed it over ([`TunPackets::handover_time`]); in the device's namespace, where it has
    /// one queue.
    ///
    /// # Errors
    /// Not allowed, or no memory for the ring.
    pub fn with_handover_times(self, name: &str) -> Result<Self, SetupError> {
        Ok(TunQueue { handovers: Some(HandoverTimes::for_device(name)?), ..self })
    }

    /// Reads what the host sent with one call: one packet, or one to be segmented. Each comes with `headroom` bytes before
    /// it, of any content.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where nothing waits. [`io::ErrorKind::InvalidData`] where the packet cannot be
    /// segmented; it is dropped. [`io::ErrorKind::NotFound`] where somebody has deleted the device.
    pub fn read(&mut self, headroom: usize) -> io::Result<TunPackets<'_>> {
        self.buffer.resize(headroom + MAX_PACKET_BYTES, 0);
        let mut header = [0; Offload::HEADER_BYTES];
        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut self.buffer[headroom..])];
        let read = self.device.recv_vectored(&mut parts);
        if let (Err(error), Some(handovers)) = (&read, &mut self.handovers)
            && error.kind() == io::ErrorKind::WouldBlock
        {
            handovers.discard_lost();
        }
        let read = read.map_err(|error| match error.raw_os_error() {
            Some(libc::EBADFD) => io::Error::new(io::ErrorKind::NotFound, "somebody has deleted the device"),
            _ => error,
        });
        let len = read?.checked_sub(Offload::HEADER_BYTES).ok_or(io::ErrorKind::InvalidData)?;
        let frame = &mut self.buffer[..headroom + len];
        let handed_over = self.handovers.as_mut().and_then(|handovers| handovers.stamp_of(&frame[headroom..]));
        let form = PacketForm::from_frame(frame, headroom, Offload::read(header))?;
        Ok(TunPackets { form, handover_time: handed_over })
    }

    /// Whether a packet waits, or is about to, where the queue is [stamped](Self::with_handover_times). Reads one word of memory.
    pub fn is_ready(&self) -> bool {
        self.handovers.as_ref().is_some_and(HandoverTimes::is_ready)
    }

    /// Hands the host IP packets in their order. Packets of one TCP connection, or of one UDP flow, that follow each other
    /// within the batch and whose checksums are valid, or partial where `has_partial_checksum` says so
    /// ([`PARTIAL_CHECKSUM`](kumade_packet::offload::PARTIAL_CHECKSUM)), are merged as far as the host's stack could have received them so
    /// from a network card. The packets of a flow are never reordered. The receiving stack runs within this call.
    ///
    /// A packet that the kernel refuses (it is no IP packet, or the device is down) is reported to `refused` by its
    /// index, and the others are written.
    pub fn write_batch<P: AsRef<[u8]>>(
        &mut self,
        packets: &[P],
        has_partial_checksum: impl Fn(&P) -> bool,
        mut refused: impl FnMut(usize, io::Error),
    ) {
        let joins =
            |index: usize| Joining { may_join: true, has_partial_checksum: has_partial_checksum(&packets[index]) };
        self.coalescer.group_packets(packets, joins);
        let mut parts = Vec::new();
        for group in self.coalescer.groups() {
            parts.clear();
            let members = self.coalescer.members(group);
            parts.push(IoSlice::new(group.headers()));
            parts.extend(members.clone().map(|index| IoSlice::new(&packets[index].as_ref()[group.skipped_bytes()..])));
            // Of a flow that is not known, its checksum is computed here.
            let sent = if group.is_unfinished() {
                Err(io::ErrorKind::InvalidData.into())
            } else {
                self.device.send_vectored(&parts).map(drop)
            };
            match sent {
                Ok(()) => {}
                Err(error) if group.is_single() => refused(group.first(), error),
                // Some kernel may dislike the whole; the parts are what would have come without this.
                Err(_) => members.for_each(|index| {
                    let packet = &packets[index];
                    self.write_single((index, packet.as_ref()), has_partial_checksum(packet), &mut refused);
                }),
            }
        }
    }

    /// Hands the host a packet that stands for segments with so many bytes of payload each, as another host's
    /// [`TunPackets::write_next_large`] gave it. Where the kernel does not take it, its segments are written.
    ///
    /// # Errors
    /// It is neither TCP nor UDP, or incomplete, or the kernel takes no segment: the device is down.
    pub fn write_large(&mut self, packet: &mut [u8], segment_bytes: NonZeroU16) -> io::Result<()> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let large = LargePacket::from_packet(packet, segment_bytes).map_err(invalid)?;
        large.set_partial_checksum(packet, packet.len());
        let header = large.virtio_header(packet, 0);
        let is_taken = self.device.send_vectored(&[IoSlice::new(&header), IoSlice::new(packet)]).is_ok();
        if is_taken {
            return Ok(());
        }
        let mut segments = Segments::from_frame(packet, 0, large.segment_bytes, None).map_err(invalid)?;
        let mut segment = Vec::new();
        while segments.write_next(&mut segment) {
            self.device.send_vectored(&[IoSlice::new(Group::NO_OFFLOAD), IoSlice::new(&segment)])?;
        }
        Ok(())
    }

    fn write_single(
        &self,
        (index, packet): (usize, &[u8]),
        has_partial_checksum: bool,
        refused: &mut impl FnMut(usize, io::Error),
    ) {
        let mut packet = Cow::Borrowed(packet);
        if has_partial_checksum {
            // What is no packet has none.
            let _ = checksum::set(packet.to_mut());
        }
        let parts = [IoSlice::new(Group::NO_OFFLOAD), IoSlice::new(&packet)];
        if let Err(error) = self.device.send_vectored(&parts) {
            refused(index, error);
        }
    }
}

impl AsFd for TunQueue {
    /// Readable whenever a packet waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl fmt::Debug for TunQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunQueue").field("fd", &self.device.as_fd()).finish_non_exhaustive()
    }
}

/// The packets that one read has given, segmented as they are asked for: all of one flow.
#[derive(Debug)]
pub struct TunPackets<'a> {
    form: PacketForm<'a>,
    handover_time: Option<Time>,
}

#[derive(Debug)]
enum PacketForm<'a> {
    /// A packet that is not to be segmented, until it is taken.
    Single(Option<&'a [u8]>),
    Segmented(Segments<'a>),
}

impl<'a> PacketForm<'a> {
    fn from_frame(frame: &'a mut [u8], headroom: usize, offload: Offload) -> io::Result<Self> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if let Some(segment_bytes) = offload.segment_bytes {
            let transport = offload.checksum.map(|checksum| headroom + usize::from(checksum.start));
            return Segments::from_frame(frame, headroom, segment_bytes, transport)
                .map(PacketForm::Segmented)
                .map_err(invalid);
        }
        if let Some(checksum) = offload.checksum {
            checksum.complete(&mut frame[headroom..]).map_err(invalid)?;
        }
        Ok(PacketForm::Single(Some(frame)))
    }
}

impl TunPackets<'_> {
    /// When the host handed them over (CLOCK_REALTIME), as one; none where that is not known, or not [asked for](TunQueue::with_handover_times).
    pub fn handover_time(&self) -> Option<Time> {
        self.handover_time
    }

    /// What was read, with the headroom. Where it is to be segmented, its checksums and lengths are not those of a packet.
    pub fn frame(&self) -> &[u8] {
        match &self.form {
            PacketForm::Segmented(segments) => segments.frame(),
            PacketForm::Single(frame) => frame.unwrap_or_default(),
        }
    }

    /// Bytes of the longest of them, with the headroom.
    pub fn max_packet_bytes(&self) -> usize {
        match &self.form {
            PacketForm::Segmented(segments) => segments.max_segment_bytes(),
            PacketForm::Single(frame) => frame.map_or(0, <[u8]>::len),
        }
    }

    /// Bytes of what [`write_next_large`](Self::write_next_large) gives next, with the headroom, or a few more.
    pub fn next_bytes(&self, max_bytes: usize) -> usize {
        match &self.form {
            PacketForm::Segmented(segments) => segments.next_bytes(max_bytes),
            PacketForm::Single(frame) => frame.map_or(0, <[u8]>::len),
        }
    }

    /// Has the segments have partial checksums ([`PARTIAL_CHECKSUM`](kumade_packet::offload::PARTIAL_CHECKSUM)); false where nothing is to be
    /// segmented, so that the checksum is there.
    pub fn leave_checksums_partial(&mut self) -> bool {
        match &mut self.form {
            PacketForm::Segmented(segments) => segments.leave_checksums_partial(),
            PacketForm::Single(_) => return false,
        }
        true
    }

    /// Replaces `out` by the headroom and the next packet, which stands for as many segments as fit in `max_bytes` without the
    /// headroom, and for at least one. Returns the payload of each, where they are several; its transport checksum means
    /// nothing then ([`TunQueue::write_large`]). `None` where there is none left.
    pub fn write_next_large(&mut self, max_bytes: usize, out: &mut Vec<u8>) -> Option<Option<NonZeroU16>> {
        match &mut self.form {
            PacketForm::Segmented(segments) => segments.write_next_large(max_bytes, out),
            PacketForm::Single(_) => self.write_next(out).then_some(None),
        }
    }

    /// Replaces `out` by the headroom and the next packet; false where there is none left.
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        match &mut self.form {
            PacketForm::Segmented(segments) => segments.write_next(out),
            PacketForm::Single(frame) => match frame.take() {
                Some(frame) => {
                    out.clear();
                    out.extend_from_slice(frame);
                    true
                }
                None => false,
            },
        }
    }
}
