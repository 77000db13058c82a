use super::directed_link::DirectedLink;
use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::frame::{ClassifiedFrame, Frame};
use crate::port::Port;
use crate::statistics::{Delays, DirectionStatistics, DropCause, Recorder};
use kumade_daemon::EndNotice;
use kumade_link::{Delivery, Label};
use kumade_net::packet_socket::MAX_BATCH_FRAMES;
use kumade_packet_loop::{BufferPool, Shard, StampClock, WakeReason};
use kumade_units::{Span, Time};
use std::cell::Cell;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

/// Packets taken from each port in a turn, and those that come together with the last of them.
const MAX_RECEIVED_PACKETS: usize = 64;
/// How often the clock and the interfaces are checked while packets come; what happens to an interface, its port tells.
const CHECK_INTERVAL: Span = Span::from_millis(100);
/// As often when none come: nothing is known of a port that tells nothing.
const IDLE_CHECK_INTERVAL: Span = Span::from_secs(10);

/// Packets that can wait are left for no longer than this before they are taken: a port has room for 4096.
const MAX_DEFERRAL: Span = Span::from_millis(1);

/// The flow of packets that cannot be parsed.
const UNKNOWN_FLOW: u64 = 0;

/// Both directions of a link, and the ports between which they lie.
pub(super) struct EmulatorShard {
    /// Direction 0 leads from the first to the second, direction 1 back.
    ports: [Port; 2],
    links: [DirectedLink; 2],
    recorders: [Recorder; 2],
    clock: StampClock,
    pool: BufferPool,
    /// Packets being sent; kept to reuse its memory.
    batch: Vec<Delivery<Frame>>,
    /// Replies of the filter rules; kept to reuse its memory.
    replies: Vec<Frame>,
    last_check: Time,
    /// Up to when no packet is due that was not taken yet, for each direction.
    no_delivery_before: [Time; 2],
    /// Whether the packets of each port can wait for the next turn.
    deferrable: [bool; 2],
    /// Packets that each port has missed so far.
    missed_packets: [u64; 2],
    /// Where the statistics are left at the end.
    final_statistics: Arc<OnceLock<[DirectionStatistics; 2]>>,
    _end_notice: EndNotice,
}

impl EmulatorShard {
    pub(super) fn new(
        ports: [Port; 2],
        directions: [DirectionConfig; 2],
        last: Arc<OnceLock<[DirectionStatistics; 2]>>,
        end_notice: EndNotice,
    ) -> Result<Self, EmulatorError> {
        let [there, back] = directions;
        let clock = StampClock::new();
        let checked = clock.now();
        let links = [DirectedLink::new(there, checked)?, DirectedLink::new(back, checked)?];
        let (pool, batch) = (BufferPool::default(), Vec::with_capacity(MAX_BATCH_FRAMES));
        let (replies, missed) = (Vec::new(), [0; 2]);
        Ok(EmulatorShard {
            ports,
            links,
            recorders: Default::default(),
            clock,
            pool,
            batch,
            replies,
            last_check: checked,
            no_delivery_before: [checked; 2],
            deferrable: [false; 2],
            missed_packets: missed,
            final_statistics: last,
            _end_notice: end_notice,
        })
    }

    /// Goes on with other settings.
    pub(super) fn set_direction(&mut self, direction: usize, config: DirectionConfig) -> Result<(), EmulatorError> {
        self.links[direction].reconfigure(config, self.clock.now(), &mut self.recorders[direction])
    }

    /// Allocates nothing.
    pub(super) fn copy_statistics(&mut self, into: &mut [DirectionStatistics; 2]) {
        self.count_missed_packets();
        for (recorder, into) in self.recorders.iter().zip(into) {
            recorder.copy_to(into);
        }
    }

    /// Takes packets that have arrived for one direction, and serves its link up to there. Returns how many they were.
    fn receive_packets(&mut self, direction: usize) -> Result<usize, EmulatorError> {
        let EmulatorShard { ports, links, recorders, clock, pool, replies, no_delivery_before: none_due, .. } = self;
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
    fn send_due_packets(&mut self, direction: usize) -> usize {
        let now = self.clock.now();
        let (link, recorder) = (&mut self.links[direction], &mut self.recorders[direction]);
        while self.batch.len() < MAX_BATCH_FRAMES
            && let Some(delivery) = link.pop_due(now, recorder)
        {
            self.batch.push(delivery);
        }
        let mut refused: [Option<DropCause>; MAX_BATCH_FRAMES] = [None; MAX_BATCH_FRAMES];
        let frames = self.batch.iter().map(|delivery| (&delivery.packet, delivery.due));
        self.ports[1 - direction].send(frames, |place, cause| refused[place] = Some(cause));
        let written = self.batch.len();
        // For the first ones this is rather too late: writing to a TUN device takes time.
        let now = if written > 0 { self.clock.now() } else { now };
        for (delivery, refused) in self.batch.drain(..).zip(refused) {
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

    /// Checks whether the clock was set, whether the interfaces are still there, and how many packets they have missed.
    fn check_ports(&mut self) -> Result<(), EmulatorError> {
        self.clock.check_for_step();
        self.last_check = self.clock.now();
        self.count_missed_packets();
        self.ports.iter().try_for_each(Port::check_interface)
    }

    fn count_missed_packets(&mut self) {
        for ((port, missed), recorder) in self.ports.iter_mut().zip(&mut self.missed_packets).zip(&mut self.recorders) {
            let before = mem::replace(missed, port.missed_packets());
            recorder.record_missed(*missed - before);
        }
    }
}

impl Shard for EmulatorShard {
    type Error = EmulatorError;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.ports.iter().map(Port::poll_fd).collect()
    }

    fn process(&mut self, wake: WakeReason) -> Result<Time, EmulatorError> {
        // Before packets are taken that came after a while: their stamps are of a clock that may have been set.
        if self.clock.now() - self.last_check >= CHECK_INTERVAL {
            self.check_ports()?;
        }
        let taken = [self.receive_packets(0)?, self.receive_packets(1)?];
        for direction in [0, 1] {
            // More than was taken, so that nothing piles up.
            for _ in 0..=taken[direction].div_ceil(MAX_BATCH_FRAMES) {
                if self.send_due_packets(direction) < MAX_BATCH_FRAMES {
                    break;
                }
            }
        }
        // Something other than packets has ended the wait.
        if wake == WakeReason::Readable && taken == [0; 2] {
            self.check_ports()?;
        }
        let check = self.last_check + IDLE_CHECK_INTERVAL;
        let next = self.links.iter().filter_map(DirectedLink::next_event).fold(check, Time::min);
        let is_soon = next - self.clock.now() <= MAX_DEFERRAL;
        self.deferrable = [0, 1].map(|direction: usize| {
            is_soon && self.no_delivery_before[direction] >= next && self.ports[direction].is_stamped()
        });
        Ok(self.clock.to_monotonic(next))
    }

    fn has_work(&self) -> bool {
        self.ports.iter().zip(self.deferrable).any(|(port, deferrable)| !deferrable && port.is_ready())
    }

    fn deferrable_sources(&self) -> u64 {
        self.deferrable.iter().zip(0..).map(|(deferrable, place)| u64::from(*deferrable) << place).sum()
    }
}

impl Drop for EmulatorShard {
    fn drop(&mut self) {
        let _ = self.final_statistics.set(self.recorders.each_ref().map(Recorder::snapshot));
    }
}
