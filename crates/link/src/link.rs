use crate::exact::ExactTime;
use crate::fifo::{Fifo, Queued};
use crate::ledger::{DropCause, Fate, Kind, Ledger};
use crate::{ConfigError, CrossArrival, CrossTraffic, LinkConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use units::{Span, Time};

/// One direction of a link, carrying packets of type `P`. See the crate's page for how to drive it.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    now: Time,
    queue: Fifo<P>,
    /// Waiting packets that are not cross traffic.
    waiting: usize,
    /// When the packet in service, if any, has left.
    free_at: ExactTime,
    /// Packets whose service has begun, in order of due time.
    in_flight: VecDeque<Delivery<P>>,
    last_due: Time,
    /// Each source with its next arrival.
    cross: Vec<(CrossArrival, CrossTraffic)>,
    rng: Pcg64Mcg,
    ledger: Ledger,
}

/// A packet that comes out of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P> {
    /// What was offered.
    pub packet: P,
    /// Its size as offered.
    pub size: u32,
    /// When it reached the queue.
    pub arrival: Time,
    /// When it is to be delivered: end of service, delay and jitter.
    pub due: Time,
}

/// Before any event; the link's time starts here so that the first arrival sets it.
const BEGINNING: Time = Time::from_nanos(i64::MIN);

impl<P> Link<P> {
    /// An idle link.
    pub fn new(config: LinkConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Link {
            now: BEGINNING,
            queue: Fifo::new(config.queue_bytes),
            waiting: 0,
            free_at: ExactTime::at(BEGINNING),
            in_flight: VecDeque::new(),
            last_due: BEGINNING,
            cross: Vec::new(),
            rng: Pcg64Mcg::seed_from_u64(config.seed),
            ledger: Ledger::new(),
            config,
        })
    }

    /// Adds computed cross traffic. Whatever it should have sent before the link's present time arrives now, so start
    /// it at the present or later.
    pub fn add_cross(&mut self, mut source: CrossTraffic) {
        if let Some(first) = source.next() {
            self.cross.push((first, source));
        }
    }

    /// Ends all computed cross traffic: nothing of it arrives any more, and what waits is still served.
    pub fn stop_cross(&mut self) {
        self.cross.clear();
    }

    /// A packet of `size` IP bytes reaches the queue at `arrival`. An arrival before the link's time counts as arriving
    /// at that time; cross traffic of the same instant goes first. An error means that the packet is gone.
    pub fn offer(&mut self, packet: P, size: u32, arrival: Time) -> Result<(), DropCause> {
        self.advance(arrival);
        self.accept(Queued { packet: Some(packet), size, arrival: self.now })
    }

    /// Serves queue and cross traffic up to and including `now`; a time that has already passed changes nothing.
    pub fn advance(&mut self, now: Time) {
        if now < self.now {
            return;
        }
        while let Some(arrival) = self.next_cross(now) {
            self.now = self.now.max(arrival.time);
            self.serve_until(self.now);
            // A dropped cross packet is in the ledger; nobody else wants to know.
            let _ = self.accept(Queued { packet: None, size: arrival.size, arrival: self.now });
        }
        self.serve_until(now);
        self.now = now;
        self.ledger.reached(now);
    }

    /// The next packet that is due by `now`, in order of due time. Does not advance the link.
    pub fn pop_due(&mut self, now: Time) -> Option<Delivery<P>> {
        if self.in_flight.front()?.due > now {
            return None;
        }
        self.in_flight.pop_front()
    }

    /// The due time of the earliest packet whose service has begun. One that still waits is not known yet.
    pub fn next_due(&self) -> Option<Time> {
        self.in_flight.front().map(|delivery| delivery.due)
    }

    /// When to call [`Link::advance`] and [`Link::pop_due`] again at the latest for no packet to be late: the earliest
    /// known due time or the earliest that a waiting packet could have. `None` while no packet is on the link.
    pub fn next_event(&self) -> Option<Time> {
        let waiting = (self.waiting > 0).then(|| self.free_at.ceil() + self.config.delay);
        self.next_due().into_iter().chain(waiting).min()
    }

    /// How far the link has been advanced; `None` before the first call that says the time.
    pub fn now(&self) -> Option<Time> {
        (self.now > BEGINNING).then_some(self.now)
    }

    /// Bytes that wait for service, cross traffic included.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// The settings.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What has happened.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// To switch recording on, and to note deliveries.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// The earliest arrival of cross traffic by `now`; of simultaneous ones that of the source added first.
    fn next_cross(&mut self, now: Time) -> Option<CrossArrival> {
        let index = (0..self.cross.len()).min_by_key(|index| self.cross[*index].0.time)?;
        let (next, source) = &mut self.cross[index];
        let arrival = *next;
        if arrival.time > now {
            return None;
        }
        match source.next() {
            Some(following) => *next = following,
            None => drop(self.cross.remove(index)),
        }
        Some(arrival)
    }

    /// Puts a packet that arrives now into service if the link is idle (as Linux queues do, `TCQ_F_CAN_BYPASS`), else
    /// into the queue.
    fn accept(&mut self, packet: Queued<P>) -> Result<(), DropCause> {
        let (kind, size, arrival) = (packet.kind(), packet.size, packet.arrival);
        self.ledger.offered(kind, size, arrival);
        if self.queue.is_empty() && self.free_at.ceil() <= arrival {
            self.transmit(packet);
            return Ok(());
        }
        if self.queue.enqueue(packet).is_err() {
            self.ledger.decided(kind, size, arrival, Fate::Dropped(arrival, DropCause::QueueFull));
            return Err(DropCause::QueueFull);
        }
        self.waiting += usize::from(kind == Kind::Packet);
        Ok(())
    }

    /// Begins every service whose turn comes by `time`.
    fn serve_until(&mut self, time: Time) {
        while self.free_at.ceil() <= time {
            let Some(packet) = self.queue.dequeue() else { return };
            self.waiting -= usize::from(packet.kind() == Kind::Packet);
            self.transmit(packet);
        }
    }

    /// Begins the service of a packet. From then on its departure is certain, and so are loss and due time.
    fn transmit(&mut self, queued: Queued<P>) {
        let (kind, size, arrival) = (queued.kind(), queued.size, queued.arrival);
        let departure = match self.config.rate {
            Some(rate) => {
                self.free_at = self.free_at.not_before(arrival).after_bytes(size, rate);
                self.free_at.ceil()
            }
            None => arrival,
        };
        let mut fate = Fate::Departed(departure);
        if let Some(packet) = queued.packet {
            if self.config.loss > 0.0 && self.rng.random::<f64>() < self.config.loss {
                fate = Fate::Dropped(departure, DropCause::Loss);
            } else {
                let due = (departure + self.config.delay + self.draw_jitter()).max(self.last_due);
                self.last_due = due;
                self.in_flight.push_back(Delivery { packet, size, arrival, due });
            }
        }
        self.ledger.decided(kind, size, arrival, fate);
    }

    fn draw_jitter(&mut self) -> Span {
        let most = self.config.jitter.as_nanos();
        Span::from_nanos(if most > 0 { self.rng.random_range(0..=most) } else { 0 })
    }
}

impl<P> Queued<P> {
    fn kind(&self) -> Kind {
        if self.packet.is_some() { Kind::Packet } else { Kind::Cross }
    }
}

#[cfg(test)]
mod tests;
