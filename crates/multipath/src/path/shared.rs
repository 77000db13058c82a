//! A path on which several threads send: one pace, one rate.

use crate::path_sent::{Departure, Sent};
use crate::rate::{PathRate, Sample};
use crate::rate_view::RateView;
use kumade_units::{Rate, Span, Time};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// One shard's part in a path that others send on, too. A path that is used by one thread has one shard.
///
/// **Rule.** The path has one pace, and whoever has a packet takes the next place in it: when the path is free again is one
/// number for all, and each packet that leaves moves it on by the time that the packet takes. So no shard is given a part of the
/// pace that it may not need, and an idle one leaves nothing unused. As long as packets wait in several shards, those of the
/// shard that has had more than another for the number of its flows leave later by [`HOLD_BACK`], so that the other has the
/// next places; if it does not take them, nothing is lost, since what is late by so little is caught up.
///
/// The rate is learned from the reports to all shards. A packet's number and the bytes sent up to it are counted over all of
/// them, and packets leave a path in the order in which they entered it: so what lies between any two packets tells how fast
/// the path is, whichever shards sent them. Of what was sent between two reports, as much has arrived as of the reporting
/// shard's own packets: what others have lost is not known at that time. Lost packets are the sum over the shards.
///
/// Nobody waits for a lock to send a packet: what sending needs are single numbers. A report that comes while another
/// shard's is looked at is left out; the next one tells the same.
#[derive(Debug, Clone)]
pub(crate) struct PathPart {
    path: Arc<SharedPath>,
    shard: usize,
}

/// All that the shards of a path have in common.
#[derive(Debug)]
pub(crate) struct SharedPath {
    pacing: Pacing,
    view: RateView,
    learned: Mutex<Learned>,
    turns: Box<[Turn]>,
}

/// What each packet that leaves changes. In a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Pacing {
    /// The pace allows the next packet then.
    release: AtomicTime,
    /// All that was sent will have passed the bottleneck then.
    clear: AtomicTime,
    last_sent: AtomicTime,
    /// No shard had anything to send since then, though the path was free; [`BUSY`] otherwise.
    idle_since: AtomicTime,
    /// What there was to send was for other paths since then; [`BUSY`] otherwise.
    turn_since: AtomicTime,
    /// For how long that was so in all, in nanoseconds.
    idle: AtomicI64,
    /// When it last asked for an answer.
    asked: AtomicTime,
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicI64,
}

/// What a shard has had of a path. Written by that shard alone; in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Turn {
    /// Whether packets wait for the path there, …
    waits: AtomicBool,
    /// … and of how many flows they last were.
    flows: AtomicU32,
    /// Bytes for each flow that were sent while packets waited, as the bits of a float; none that it might have sent while
    /// nothing waited.
    served: AtomicU64,
}

#[derive(Debug)]
struct Learned {
    rate: PathRate,
    /// The packet of which a report has told last: its number, …
    newest: Option<u64>,
    /// … the bytes sent up to it, and those of them that have arrived.
    total: u64,
    received: u64,
}

/// What a report tells a shard of a packet and all before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub now: Time,
    pub sent: Sent,
    pub arrival: Time,
    pub round_trip: Span,
    /// Bytes that the shard had sent since its last report, …
    pub reported: u64,
    /// … of them, those that have arrived, …
    pub received: u64,
    /// … and the packets that have not; less than none, where some had only been late.
    pub lost: i64,
    /// Nothing but probes is sent: it tells of the delay only.
    pub is_down: bool,
}

/// What a late caller may catch up: about what a thread waits for its turn on a busy host. The path stood idle meanwhile, so
/// that its queue becomes no longer than this.
const MAX_LATENESS: Span = Span::from_millis(5);
/// What may be caught up in any case.
const MIN_LATENESS: Span = Span::from_millis(1);
/// A packet sent so long after the queue is thought to be empty finds it empty.
const QUIET_MARGIN: Span = Span::from_millis(1);
const ASK_INTERVAL: Span = Span::from_secs(1);
/// A shard that has had more than another, which waits, leaves it the pace for so long: less than what may be caught up.
const HOLD_BACK: Span = Span::from_micros(500);
/// It has had more if that is more than a packet, and more than the path carries in this time.
const MAX_LEAD: Span = Span::from_micros(250);
const MIN_LEAD_BYTES: u64 = 1500;
/// In place of the time since when a path is idle.
const BUSY: Time = Time::from_nanos(i64::MAX);

impl SharedPath {
    /// A path of so many shards, with a rate that was measured or is searched for. It never goes above `max`.
    pub fn new(measured: Option<Rate>, max: Option<Rate>, shards: usize, now: Time) -> Self {
        let rate = PathRate::new(measured, max, now);
        SharedPath {
            pacing: Pacing {
                release: AtomicTime::new(now),
                clear: AtomicTime::new(now),
                last_sent: AtomicTime::new(now),
                idle_since: AtomicTime::new(BUSY),
                turn_since: AtomicTime::new(BUSY),
                idle: AtomicI64::new(0),
                asked: AtomicTime::new(now - ASK_INTERVAL),
                packets: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                lost: AtomicI64::new(0),
            },
            view: RateView::new(&rate),
            learned: Mutex::new(Learned { rate, newest: None, total: 0, received: 0 }),
            turns: (0..shards).map(|_| Turn::default()).collect(),
        }
    }

    /// Has the rate changed by an event, and all shards see what comes of it.
    fn change(&self, change: impl FnOnce(&mut PathRate)) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut learned.rate);
        self.view.publish(&learned.rate);
    }

    /// None while another shard looks at a report.
    fn try_lock(&self) -> Option<MutexGuard<'_, Learned>> {
        match self.learned.try_lock() {
            Ok(learned) => Some(learned),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Learned {
    /// Counts what has arrived of all that was sent up to a packet.
    fn advance(&mut self, seen: &Seen) -> u64 {
        let sent = u128::from(seen.sent.total - self.total);
        let received = sent * u128::from(seen.received) / u128::from(seen.reported.max(1));
        self.received = self.received.saturating_add(u64::try_from(received).unwrap_or(u64::MAX));
        self.total = seen.sent.total;
        self.newest = Some(seen.sent.number);
        self.received
    }
}

impl PathPart {
    /// The part of the shard with this number.
    pub fn new(path: Arc<SharedPath>, shard: usize) -> Self {
        PathPart { path, shard }
    }

    /// The path's rate.
    pub fn rate(&self) -> &RateView {
        &self.path.view
    }

    /// When this shard may send.
    pub fn ready_at(&self) -> Time {
        self.free_at() + self.hold_back()
    }

    /// When the path takes the next packet.
    pub fn free_at(&self) -> Time {
        self.path.pacing.release.get().max(self.rate().drained())
    }

    /// When a packet last left, of whichever shard.
    pub fn last_sent(&self) -> Time {
        self.path.pacing.last_sent.get()
    }

    /// A packet of so many bytes on the path leaves at the pace. The caller comes `late`.
    pub fn send(&self, bytes: u32, late: Span, now: Time) -> Departure {
        let pacing = &self.path.pacing;
        // Only a caller's delay may be caught up, not a time in which nothing was to be sent.
        let [idle_since, turn_since] = [&pacing.idle_since, &pacing.turn_since].map(|since| since.replace(BUSY));
        let takes = self.rate().pace().time_for(bytes.into());
        let mut catch_up = late.clamp(MIN_LATENESS, MAX_LATENESS);
        if turn_since != BUSY {
            // Paths that wait for each other would all stand idle for a part of each packet.
            catch_up = catch_up.max(takes);
            let unused = now - catch_up - pacing.release.get().max(turn_since);
            pacing.idle.fetch_add(unused.max(Span::ZERO).as_nanos(), Relaxed);
        }
        let mut earliest = self.rate().drained().max(now - catch_up);
        if idle_since != BUSY {
            pacing.idle.fetch_add((now - idle_since).as_nanos(), Relaxed);
            earliest = now;
        }
        let departure = self.leave(bytes, now);
        pacing.release.update(|release| release.max(earliest) + takes);
        self.count(bytes);
        departure
    }

    /// A packet leaves, whatever the pace.
    pub fn leave(&self, size: u32, now: Time) -> Departure {
        let pacing = &self.path.pacing;
        let quiet = self.is_quiet(now);
        pacing.last_sent.update(|last| last.max(now));
        let takes = self.rate().capacity().time_for(size.into());
        pacing.clear.update(|clear| clear.max(now) + takes);
        let number = pacing.packets.fetch_add(1, Relaxed);
        let total = pacing.bytes.fetch_add(size.into(), Relaxed) + u64::from(size);
        let idle = Span::from_nanos(pacing.idle.load(Relaxed));
        Departure { time: now, size, number, total, idle, quiet }
    }

    /// It might have sent, but there was nothing. The path is idle only if no other shard has anything either.
    pub fn note_idle(&self, now: Time) {
        if !self.others_waiting().any(|_| true) {
            self.path.pacing.idle_since.update(|since| since.min(now));
        }
    }

    /// It might have sent, but the next packet is for another path.
    pub fn note_turn(&self, now: Time) {
        self.path.pacing.turn_since.update(|since| since.min(now));
    }

    /// Whether a packet that leaves now should be answered at once: it tells the delay of the empty path.
    pub fn asks(&self, now: Time) -> bool {
        let asked = &self.path.pacing.asked;
        let asks = self.is_quiet(now) && now - asked.get() >= ASK_INTERVAL;
        if asks {
            asked.set(now);
        }
        asks
    }

    /// Whether a packet that leaves now finds the path empty: nothing was there to be sent for a while, or it was drained.
    /// What leaves at the pace tells nothing new, since that the path is clear follows from the delay of those before.
    fn is_quiet(&self, now: Time) -> bool {
        let (pacing, drained) = (&self.path.pacing, self.rate().drained());
        now >= pacing.clear.get().max(pacing.release.get()) + QUIET_MARGIN
            || (pacing.last_sent.get() < drained && now >= drained)
    }

    /// Takes what a report to this shard says.
    pub fn report(&self, seen: &Seen) {
        let pacing = &self.path.pacing;
        let Seen { now, sent, arrival, round_trip, is_down, .. } = *seen;
        let lost = if is_down { 0 } else { seen.lost };
        let lost = pacing.lost.fetch_add(lost, Relaxed) + lost;
        let Some(mut learned) = self.path.try_lock() else { return };
        // What another shard has been told meanwhile is newer; or a thread was stopped while it counted its packet.
        if learned.newest.is_some_and(|newest| newest >= sent.number) || sent.total < learned.total {
            return;
        }
        let received = learned.advance(seen);
        let open = pacing.bytes.load(Relaxed) - sent.total;
        let (counter, is_estimate) = (sent.number, self.path.turns.len() > 1);
        let sample = Sample { now, sent, counter, arrival, round_trip, received, is_estimate, lost, open };
        let rate = &mut learned.rate;
        if is_down {
            rate.probed(&sample);
        } else {
            rate.sample(&sample);
        }
        // The capacity may be less than believed.
        pacing.clear.set(rate.clear() + rate.capacity().time_for(open) / 10);
        self.path.view.publish(rate);
    }

    /// The path has failed, as far as this shard sees: nothing that began before can be concluded.
    pub fn interrupted(&self, now: Time) {
        self.path.change(|rate| rate.interrupted(now));
        self.path.pacing.clear.set(now);
        self.path.pacing.idle_since.set(BUSY);
    }

    /// A measurement says what the path carries.
    pub fn suggest(&self, measured: Rate, now: Time) {
        self.path.change(|rate| rate.suggest(measured, now));
    }

    /// Whether packets of this shard wait for the path, of so many flows; of none, if not.
    pub fn set_waiting(&self, flows: u32) {
        if self.path.turns.len() == 1 {
            return;
        }
        let own = self.own();
        if flows > 0 {
            own.flows.store(flows, Relaxed);
            if !own.waits.load(Relaxed) {
                own.raise(self.level());
            }
        }
        own.waits.store(flows > 0, Relaxed);
    }

    /// What those have had that wait, so that one that begins to wait has no more due to it than they; or what anyone has had,
    /// if nobody does.
    fn level(&self) -> f64 {
        let waiting = self.others_waiting().map(Turn::served).reduce(f64::min);
        waiting.unwrap_or_else(|| self.path.turns.iter().map(Turn::served).fold(0.0, f64::max))
    }

    /// The part of the path's rate that this shard's packets have while they wait.
    pub fn fraction(&self) -> f64 {
        let others: f64 = self.others_waiting().map(Turn::weight).sum();
        let own = self.own().weight();
        own / (own + others)
    }

    fn own(&self) -> &Turn {
        &self.path.turns[self.shard]
    }

    fn others_waiting(&self) -> impl Iterator<Item = &Turn> {
        let others = self.path.turns.iter().enumerate().filter(|(shard, _)| *shard != self.shard);
        others.map(|(_, turn)| turn).filter(|turn| turn.waits.load(Relaxed))
    }

    fn count(&self, bytes: u32) {
        if self.path.turns.len() > 1 {
            let own = self.own();
            own.raise(own.served() + f64::from(bytes) / own.weight());
        }
    }

    fn hold_back(&self) -> Span {
        let Some(least) = self.others_waiting().map(Turn::served).reduce(f64::min) else { return Span::ZERO };
        let own = self.own();
        let lead = self.rate().pace().bytes_in(MAX_LEAD).max(MIN_LEAD_BYTES) as f64;
        if (own.served() - least) * own.weight() > lead { HOLD_BACK } else { Span::ZERO }
    }
}

impl Turn {
    fn served(&self) -> f64 {
        f64::from_bits(self.served.load(Relaxed))
    }

    fn raise(&self, level: f64) {
        self.served.store(self.served().max(level).to_bits(), Relaxed);
    }

    fn weight(&self) -> f64 {
        f64::from(self.flows.load(Relaxed).max(1))
    }
}

/// A [`Time`] that threads share.
#[derive(Debug)]
struct AtomicTime(AtomicI64);

impl AtomicTime {
    fn new(time: Time) -> Self {
        AtomicTime(AtomicI64::new(time.as_nanos()))
    }

    fn get(&self) -> Time {
        Time::from_nanos(self.0.load(Relaxed))
    }

    fn set(&self, time: Time) {
        self.0.store(time.as_nanos(), Relaxed);
    }

    fn replace(&self, time: Time) -> Time {
        // Hardly ever is there anything to replace, and a load leaves the cache line where it is.
        if self.get() == time { time } else { Time::from_nanos(self.0.swap(time.as_nanos(), Relaxed)) }
    }

    fn update(&self, change: impl Fn(Time) -> Time) {
        let step = |nanos| Some(change(Time::from_nanos(nanos)).as_nanos());
        // It always gives a value.
        let _ = self.0.fetch_update(Relaxed, Relaxed, step);
    }
}

#[cfg(test)]
mod tests;
