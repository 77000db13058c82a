use crate::error::EmulatorError;
use crate::frame::{ClassifiedFrame, Frame, LinkHeader};
use crate::offload_guard::OffloadGuard;
use kumade_net::packet_socket::{InterfaceFault, OutgoingFrame, ReceivedFrame, Receiver, Sender};
use kumade_net::{interface, sysctl};
use kumade_packet::offload::{PartialChecksum, Segments};
use kumade_packet::{Classification, Ethernet};
use kumade_packet_loop::BufferPool;
use kumade_units::{Span, Time};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Segments of a connection that are due within so long of each other may leave as one packet, as they may have come as one: at 1 Gbit/s
/// and below, each full-sized packet has a time of its own.
const MAX_JOINED_SPAN: Span = Span::from_micros(10);

/// An Ethernet interface whose frames are taken and sent whole.
#[derive(Debug)]
pub(super) struct EthernetPort {
    name: String,
    receiver: Receiver,
    sender: Sender,
    /// Restores the offloads when it is dropped.
    _offloads: OffloadGuard,
}

impl EthernetPort {
    /// With room for this many packets that wait.
    pub(super) fn open(name: &str, room: usize) -> Result<Self, EmulatorError> {
        let name = &*interface::kernel_name(name)?;
        if interface::master(name)?.is_some() {
            return Err(EmulatorError::HasMaster(name.into()));
        }
        warn_of_forwarding(name);
        let (receiver, sender) = (Receiver::with_room_for(name, room)?, Sender::open(name)?);
        Ok(EthernetPort { name: name.into(), receiver, sender, _offloads: OffloadGuard::new(name)? })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.receiver.is_ready()
    }

    pub(super) fn receive(
        &mut self,
        pool: &BufferPool,
        take: &mut dyn FnMut(Time, Result<ClassifiedFrame, u32>),
    ) -> bool {
        self.receiver.next(|arrived| complete_offloads(arrived, pool, &mut |frame| take(arrived.stamp, frame)))
    }

    pub(super) fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = (&'a Frame, Time)>,
        refused: impl FnMut(usize, io::Error),
    ) {
        let mut first: Option<(&Frame, Time)> = None;
        let outgoing = frames.map(|(frame, due)| {
            let joins = |(first, first_due): (&Frame, Time)| {
                due - first_due <= MAX_JOINED_SPAN && first.link_header.has_same_addresses(&frame.link_header)
            };
            let may_join = first.is_some_and(joins);
            if !may_join {
                first = Some((frame, due));
            }
            OutgoingFrame { link_header: &frame.link_header, packet: &frame.packet, may_join }
        });
        self.sender.send(&outgoing.collect::<Vec<_>>(), refused);
    }

    pub(super) fn missed_packets(&mut self) -> u64 {
        self.receiver.dropped_frames()
    }

    pub(super) fn check_interface(&self) -> Result<(), EmulatorError> {
        match self.receiver.fault() {
            Some(InterfaceFault::Removed) => Err(EmulatorError::InterfaceVanished(self.name.clone())),
            Some(InterfaceFault::Down) => {
                tracing::warn!("the interface {} is switched off; packets pass again when it is on", self.name);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Does what the sender left to its network card, and hands on what then would be on the line.
fn complete_offloads(
    arrived: ReceivedFrame<'_>,
    pool: &BufferPool,
    take: &mut dyn FnMut(Result<ClassifiedFrame, u32>),
) {
    let ReceivedFrame { frame, vlan_tag: tag, offload, .. } = arrived;
    let malformed = Err(frame.len().saturating_sub(Ethernet::HEADER_BYTES) as u32);
    let Some(ethernet) = Ethernet::parse(frame) else { return take(malformed) };
    let (before, packet) = frame.split_at(ethernet.payload_offset);
    let Some(link) = LinkHeader::from_frame(before, tag, ethernet.encapsulation) else { return take(malformed) };
    let classification =
        if ethernet.is_ip() { Classification::from_packet(packet) } else { Classification::not_ip(packet.len()) };
    if let Some(bytes) = offload.segment_bytes {
        // It counts from the frame's start, the packet does not.
        let transport_at = offload.checksum.map(|checksum| usize::from(checksum.start).wrapping_sub(before.len()));
        let Ok(mut segments) = Segments::from_frame(packet, 0, bytes, transport_at) else { return take(malformed) };
        let longest = segments.max_segment_bytes();
        let mut part = Frame::with_capacity(pool, link, longest);
        while segments.write_next(&mut part.packet) {
            part.update_link_header();
            let total_len = part.packet.len();
            take(Ok(ClassifiedFrame { frame: part, classification: Classification { total_len, ..classification } }));
            part = Frame::with_capacity(pool, link, longest);
        }
        return;
    }
    let mut whole = ClassifiedFrame::new(pool, link, packet, classification);
    if let Some(PartialChecksum { start, offset }) = offload.checksum {
        // It counts from the frame's start, the packet does not.
        let done = usize::from(start)
            .checked_sub(before.len())
            .and_then(|start| PartialChecksum { start: start as u16, offset }.complete(&mut whole.frame.packet).ok());
        if done.is_none() {
            return take(malformed);
        }
    }
    take(Ok(whole));
}

/// What is addressed to this host itself may then go both ways.
fn warn_of_forwarding(name: &str) {
    for family in ["ipv4", "ipv6"] {
        if sysctl::read(&format!("net/{family}/conf/{name}/forwarding")).is_ok_and(|value| value != "0") {
            tracing::warn!(
                "this host itself forwards {family} that arrives at {name}: what is addressed to it may pass twice; \
                 `sysctl net.{family}.conf.{name}.forwarding=0` keeps it from that"
            );
        }
    }
}
