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

/// How often the clock and the interfaces are checked while packets come; what happens to an interface, its port tells.
const CHECK_INTERVAL: Span = Span::from_millis(100);
/// As often when none come: nothing is known of a port that tells nothing.
const IDLE_CHECK_INTERVAL: Span = Span::from_secs(10);
/// Packets that can wait are left for no longer than this before they are taken: a port has room for hundreds.
const MAX_DEFERRAL: Span = Span::from_millis(1);

/// Of several links, the packets that can wait at all their ports together; each takes 2 kB. One link alone has the room of a quarter.
const TOTAL_RING_PACKETS: usize = 16_384;
/// At 10 Mbit/s these last for 300 ms.
const MIN_RING_PACKETS: usize = 256;

/// All links of a packet thread.
pub(super) struct EmulatorShard {
    /// Those that have not ended, each with its number.
    links: Vec<(usize, DuplexLink)>,
    shared: SharedParts,
    last_check: Time,
    /// Whether a link has ended since this was last asked.
    has_fewer_links: bool,
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
        let links =
            built.enumerate().map(|(number, link)| Ok((number, link?))).collect::<Result<_, EmulatorError>>()?;
        Ok(EmulatorShard { links, shared, last_check: now, has_fewer_links: false, deferrable: [false; 2] })
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
            let (_, mut link) = self.links.remove(place);
            link.end.reason = EndReason::Requested;
            self.has_fewer_links = true;
        }
    }

    fn find_link(&mut self, number: usize) -> Option<&mut DuplexLink> {
        self.links.iter_mut().find(|(own, _)| *own == number).map(|(_, link)| link)
    }

    /// Does this with each link; those that fail end.
    fn for_each_link(&mut self, mut work: impl FnMut(&mut DuplexLink, &mut SharedParts) -> Result<(), EmulatorError>) {
        let EmulatorShard { links, shared, has_fewer_links, .. } = self;
        links.retain_mut(|(_, link)| {
            let Err(error) = work(link, shared) else { return true };
            link.end.reason = EndReason::Failed(error);
            *has_fewer_links = true;
            false
        });
    }

    /// Checks whether the clock was set, and the interfaces.
    fn check(&mut self) {
        self.shared.clock.check_for_step();
        self.last_check = self.shared.clock.now();
        self.for_each_link(|link, _| link.check_ports());
    }

    /// Whose packets can wait until `next`. With several links all end the wait: what a thread waits for would change with each packet.
    fn find_deferrable(&self, next: Time) -> [bool; 2] {
        let [(_, link)] = &self.links[..] else { return [false; 2] };
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
        // Something other than packets has ended the wait.
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
