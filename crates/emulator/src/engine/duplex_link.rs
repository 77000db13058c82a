use super::directed_link::DirectedLink;
use super::link_state::{EndReason, EndRecord};
use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::frame::{ClassifiedFrame, Frame};
use crate::port::Port;
use crate::statistics::{Delays, DirectionStatistics, DropCause, Recorder};
use kumade_link::{Delivery, Label};
use kumade_net::packet_socket::MAX_BATCH_FRAMES;
use kumade_packet_loop::{BufferPool, StampClock};
use kumade_units::Time;
use std::cell::Cell;
use std::mem;

/// Packets taken from each port in a turn, and those that come together with the last of them.
const MAX_RECEIVED_PACKETS: usize = 64;
/// The flow of packets that cannot be parsed.
const UNKNOWN_FLOW: u64 = 0;

/// Both directions of a link, and the ports between which they lie.
pub(super) struct DuplexLink {
    /// Direction 0 leads from the first to the second, direction 1 back.
    pub(super) ports: [Port; 2],
    links: [DirectedLink; 2],
    recorders: [Recorder; 2],
    /// When something is due next, if nothing arrives.
    pub(super) next_event: Time,
    /// Up to when no packet is due that was not taken yet, for each direction.
    pub(super) no_delivery_before: [Time; 2],
    /// Packets that each port has missed so far.
    missed_packets: [u64; 2],
    end: EndRecord,
}

/// What is left of a link that has ended. Dropped, it gives the interfaces back, which takes the kernel a while, and then tells of the end.
pub(super) struct EndedLink {
    _ports: [Port; 2],
    _end: EndRecord,
}

/// What all links of a thread use in turn.
pub(super) struct SharedParts {
    pub(super) clock: StampClock,
    pool: BufferPool,
    /// Packets being sent; kept to reuse its memory.
    batch: Vec<Delivery<Frame>>,
    /// Replies of the filter rules; kept to reuse its memory.
    replies: Vec<Frame>,
}

impl SharedParts {
    pub(super) fn new() -> Self {
        let batch = Vec::with_capacity(MAX_BATCH_FRAMES);
        SharedParts { clock: StampClock::new(), pool: BufferPool::default(), batch, replies: Vec::new() }
    }
}

impl DuplexLink {
    pub(super) fn new(
        ports: [Port; 2],
        directions: [DirectionConfig; 2],
        now: Time,
        end: EndRecord,
    ) -> Result<Self, EmulatorError> {
        let [there, back] = directions;
        let links = [DirectedLink::new(there, now)?, DirectedLink::new(back, now)?];
        Ok(DuplexLink {
            ports,
            links,
            recorders: Default::default(),
            next_event: now,
            no_delivery_before: [now; 2],
            missed_packets: [0; 2],
            end,
        })
    }

    /// Goes on with other settings.
    pub(super) fn set_direction(
        &mut self,
        direction: usize,
        config: DirectionConfig,
        now: Time,
    ) -> Result<(), EmulatorError> {
        // What is due next may be another packet.
        self.next_event = now;
        self.end.state().record_change();
        self.links[direction].reconfigure(config, now, &mut self.recorders[direction])
    }

    /// Allocates nothing.
    pub(super) fn copy_statistics(&mut self, into: &mut [DirectionStatistics; 2]) {
        self.count_missed_packets();
        for (recorder, into) in self.recorders.iter().zip(into) {
            recorder.copy_to(into);
        }
    }

    /// Whether a packet is known to wait, or something is due.
    pub(super) fn has_work(&self, now: Time) -> bool {
        self.next_event <= now || self.ports.iter().any(Port::is_ready)
    }

    pub(super) fn end(mut self, reason: EndReason) -> EndedLink {
        self.end.reason = reason;
        self.end.statistics = Some(Box::new(self.recorders.each_ref().map(Recorder::snapshot)));
        EndedLink { _ports: self.ports, _end: self.end }
    }

    /// Takes what has arrived, a bounded number of packets, and sends what is due. Returns how many packets were taken.
    pub(super) fn process(&mut self, shared: &mut SharedParts) -> Result<usize, EmulatorError> {
        let taken = [self.receive_packets(0, shared)?, self.receive_packets(1, shared)?];
        for direction in [0, 1] {
            // More than was taken, so that nothing piles up.
            for _ in 0..=taken[direction].div_ceil(MAX_BATCH_FRAMES) {
                if self.send_due_packets(direction, shared) < MAX_BATCH_FRAMES {
                    break;
                }
            }
        }
        self.end.state().record_change();
        self.next_event = self.links.iter().filter_map(DirectedLink::next_event).fold(Time::MAX, Time::min);
        Ok(taken.iter().sum())
    }

    /// Takes packets that have arrived for one direction, and serves its link up to there. Returns how many they were.
    fn receive_packets(&mut self, direction: usize, shared: &mut SharedParts) -> Result<usize, EmulatorError> {
        let DuplexLink { ports, links, recorders, no_delivery_before: none_due, .. } = self;
        let SharedParts { clock, pool, replies, .. } = shared;
        let (link, port, recorder) = (&mut links[direction], &mut ports[direction], &mut recorders[direction]);
        // All packets that have arrived before this are found, unless there are too many for one turn.
        let now = clock.now();
        let (taken, last) = (Cell::new(0), Cell::new(now));
        let mut take = |stamp: Time, arrived: Result<ClassifiedFrame, u32>| {
            taken.set(taken.get() + 1);
            let stamp = clock.from_stamp(stamp, now);
            last.set(stamp);
            match arrived {
                Ok(received) => {
                    let header = received.frame.link_header;
                    let reply = link.offer(received, stamp, recorder);
                    replies.extend(reply.zip(header.reversed()).map(|(reply, link)| Frame::new(pool, link, &reply)));
                }
                Err(size) => {
                    recorder.record_offered(UNKNOWN_FLOW, size);
                    recorder.record_dropped(UNKNOWN_FLOW, size, DropCause::Malformed);
                }
            }
        };
        while taken.get() < MAX_RECEIVED_PACKETS && port.receive(pool, &mut take)? {}
        // A reply that finds no room is lost, as any packet may be.
        port.send(replies.iter().map(|reply| (reply, now)), |_, _| {});
        replies.clear();
        let is_all = taken.get() < MAX_RECEIVED_PACKETS;
        let horizon = if is_all { now } else { last.get().min(now) };
        link.advance(horizon, recorder);
        none_due[direction] = link.earliest_due(horizon);
        Ok(taken.get())
    }

    /// Sends a batch of one direction's packets that are due. Returns how many they were.
    fn send_due_packets(&mut self, direction: usize, shared: &mut SharedParts) -> usize {
        let SharedParts { clock, batch, .. } = shared;
        let now = clock.now();
        let (link, recorder) = (&mut self.links[direction], &mut self.recorders[direction]);
        while batch.len() < MAX_BATCH_FRAMES
            && let Some(delivery) = link.pop_due(now, recorder)
        {
            batch.push(delivery);
        }
        let mut refused: [Option<DropCause>; MAX_BATCH_FRAMES] = [None; MAX_BATCH_FRAMES];
        let frames = batch.iter().map(|delivery| (&delivery.packet, delivery.due));
        self.ports[1 - direction].send(frames, |place, cause| refused[place] = Some(cause));
        let written = batch.len();
        // For the first ones this is rather too late: writing to a TUN device takes time.
        let now = if written > 0 { clock.now() } else { now };
        for (delivery, refused) in batch.drain(..).zip(refused) {
            let Label { flow, size, .. } = delivery.label;
            match refused {
                Some(cause) => recorder.record_dropped(flow, size, cause),
                None => {
                    let queueing = delivery.service_start - delivery.arrival;
                    let (sojourn, lateness) = (now - delivery.arrival, now - delivery.due);
                    recorder.record_delivered(flow, size, Delays { queueing, sojourn, lateness });
                }
            }
        }
        written
    }

    /// Checks whether the interfaces are still there, and how many packets they have missed.
    pub(super) fn check_ports(&mut self) -> Result<(), EmulatorError> {
        self.count_missed_packets();
        self.ports.iter().try_for_each(Port::check_interface)
    }

    fn count_missed_packets(&mut self) {
        for ((port, missed), recorder) in self.ports.iter_mut().zip(&mut self.missed_packets).zip(&mut self.recorders) {
            let before = mem::replace(missed, port.missed_packets());
            if *missed > before {
                recorder.record_missed(*missed - before);
                self.end.state().record_change();
            }
        }
    }
}
