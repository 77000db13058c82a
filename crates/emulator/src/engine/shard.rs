use super::duplex_link::{DuplexLink, SharedParts};
use super::link_state::{EndReason, EndRecord};
use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::port::Port;
use crate::statistics::DirectionStatistics;
use kumade_net::packet_socket::Receiver;
use kumade_packet_loop::{Shard, WakeReason};
use kumade_units::{Span, Time};
use std::mem;
use std::os::fd::BorrowedFd;
use std::thread;

/// How often the clock and the interfaces are checked while packets come; what happens to an interface, its port tells.
const CHECK_INTERVAL: Span = Span::from_millis(100);
/// As often when none come: nothing is known of a port that tells nothing.
const IDLE_CHECK_INTERVAL: Span = Span::from_secs(10);
/// Packets that can wait are left for no longer than this before they are taken: a port has room for 4096.
const MAX_DEFERRAL: Span = Span::from_millis(1);

/// Packets that can wait to be taken at the ports of up to 32 links together, 2 kB each, which the kernel keeps in memory.
const TOTAL_RING_PACKETS: usize = 16_384;
/// At each port of more links: those of a sender at 1 Gbit/s in 3 ms, in which the thread serves the others. `bench -- links` loses none.
const MIN_RING_PACKETS: usize = 256;

/// All links of a packet thread.
pub(super) struct EmulatorShard {
    /// Those that have not ended, each with its number.
    links: Vec<(usize, DuplexLink)>,
    shared: SharedParts,
    last_check: Time,
    /// Whether a link has ended since this was last asked.
    has_fewer_links: bool,
    /// So that each of its ports has room for as many packets as there can be.
    started_with_one: bool,
    /// Whether the packets of each port of the only link can wait for the next turn.
    deferrable: [bool; 2],
}

/// What a link is made of.
pub(super) struct LinkParts {
    pub(super) ports: [Port; 2],
    pub(super) directions: [DirectionConfig; 2],
    pub(super) end: EndRecord,
}

impl EmulatorShard {
    /// The links' numbers are their places.
    pub(super) fn new(links: Vec<LinkParts>) -> Result<Self, EmulatorError> {
        let shared = SharedParts::new();
        let now = shared.clock.now();
        let built = links.into_iter().map(|parts| DuplexLink::new(parts.ports, parts.directions, now, parts.end));
        let links: Vec<_> =
            built.enumerate().map(|(number, link)| Ok((number, link?))).collect::<Result<_, EmulatorError>>()?;
        let started_with_one = links.len() == 1;
        let deferrable = [false; 2];
        Ok(EmulatorShard { links, shared, last_check: now, has_fewer_links: false, started_with_one, deferrable })
    }

    /// Has a link go on with other settings.
    pub(super) fn set_direction(
        &mut self,
        number: usize,
        direction: usize,
        config: DirectionConfig,
    ) -> Result<(), EmulatorError> {
        let now = self.shared.clock.now();
        self.find_link(number).ok_or(EmulatorError::LinkEnded)?.set_direction(direction, config, now)
    }

    /// Allocates nothing. False where the link has ended.
    pub(super) fn copy_statistics(&mut self, number: usize, into: &mut [DirectionStatistics; 2]) -> bool {
        self.find_link(number).map(|link| link.copy_statistics(into)).is_some()
    }

    /// Ends a link, if it has not ended.
    pub(super) fn end_link(&mut self, number: usize) {
        if let Some(place) = self.links.iter().position(|(own, _)| *own == number) {
            self.give_back(place, EndReason::Requested);
        }
    }

    fn find_link(&mut self, number: usize) -> Option<&mut DuplexLink> {
        self.links.iter_mut().find(|(own, _)| *own == number).map(|(_, link)| link)
    }

    /// Takes the link at this place away. Another thread gives its interfaces back: the packets of other links can't wait for that.
    fn give_back(&mut self, place: usize, reason: EndReason) {
        let (_, link) = self.links.remove(place);
        self.has_fewer_links = true;
        let ended = link.end(reason);
        // Where the system refuses a thread, this one does it.
        let _ = thread::Builder::new().name("link end".into()).spawn(move || drop(ended));
    }

    /// Does this with each link; those that fail end.
    fn for_each_link(&mut self, mut work: impl FnMut(&mut DuplexLink, &mut SharedParts) -> Result<(), EmulatorError>) {
        let mut place = 0;
        while let Some((_, link)) = self.links.get_mut(place) {
            match work(link, &mut self.shared) {
                Ok(()) => place += 1,
                Err(error) => self.give_back(place, EndReason::Failed(error)),
            }
        }
    }

    /// Checks whether the clock was set, and the interfaces.
    fn check(&mut self) {
        self.shared.clock.check_for_step();
        self.last_check = self.shared.clock.now();
        self.for_each_link(|link, _| link.check_ports());
    }

    /// Whose packets can wait until `next`. With several links all end the wait: what a thread waits for would change with each packet, and
    /// there is less room for those that wait.
    fn find_deferrable(&self, next: Time) -> [bool; 2] {
        let [(_, link)] = &self.links[..] else { return [false; 2] };
        if !self.started_with_one {
            return [false; 2];
        }
        let is_soon = next - self.shared.clock.now() <= MAX_DEFERRAL;
        [0, 1].map(|direction| {
            is_soon && link.no_delivery_before[direction] >= next && link.ports[direction].is_stamped()
        })
    }
}

impl Shard for EmulatorShard {
    type Error = EmulatorError;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.links.iter().flat_map(|(_, link)| &link.ports).map(Port::poll_fd).collect()
    }

    fn take_sources_change(&mut self) -> bool {
        mem::take(&mut self.has_fewer_links)
    }

    fn process(&mut self, wake: WakeReason) -> Result<Time, EmulatorError> {
        // Before packets are taken that came after a while: their stamps are of a clock that may have been set.
        let now = self.shared.clock.now();
        if now - self.last_check >= CHECK_INTERVAL {
            self.check();
        }
        let mut taken = 0;
        self.for_each_link(|link, shared| {
            if link.has_work(now) {
                taken += link.process(shared)?;
            }
            Ok(())
        });
        // Something else has ended the wait: a packet of which only reading tells, or no packet.
        if wake == WakeReason::Readable && taken == 0 {
            self.for_each_link(|link, shared| link.process(shared).map(|found| taken += found));
        }
        if wake == WakeReason::Readable && taken == 0 {
            self.check();
        }
        let check = self.last_check + IDLE_CHECK_INTERVAL;
        let next = self.links.iter().map(|(_, link)| link.next_event).fold(check, Time::min);
        self.deferrable = self.find_deferrable(next);
        Ok(self.shared.clock.to_monotonic(next))
    }

    fn has_work(&self) -> bool {
        let ports = self.links.iter().flat_map(|(_, link)| link.ports.iter().zip(self.deferrable));
        ports.into_iter().any(|(port, deferrable)| !deferrable && port.is_ready())
    }

    fn deferrable_sources(&self) -> u64 {
        self.deferrable.iter().zip(0..).map(|(deferrable, place)| u64::from(*deferrable) << place).sum()
    }
}

/// How many packets can wait at each port of so many links.
pub(super) fn ring_packets(links: usize) -> usize {
    (TOTAL_RING_PACKETS / (2 * links.max(1))).clamp(MIN_RING_PACKETS, Receiver::DEFAULT_FRAMES)
}
