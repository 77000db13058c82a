//! A path on which several threads send: one pace, one rate.

use crate::congestion_control::control::{DeliverySample, PathCongestionControl};
use crate::congestion_control::shared_rate::SharedRateView;
use crate::path::sent_log::{AcknowledgedPackets, SentPacket};
use kumade_units::{Rate, Span, Time};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// One shard's part in a path that others send on, too. A path that is used by one thread has one shard.
///
/// **Rule.** The path has one pace, and whoever has a packet takes the next place in it: when the path is free again is one
/// number for all, and each packet that leaves moves it on by the time that the packet takes. So no shard is given a part of the
/// pace that it may not need, and an idle one leaves nothing unused. As long as packets wait in several shards, those of the
/// shard that has had more than another for the number of its flows leave later by [`HOLD_BACK_TIME`], so that the other has the
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
pub(crate) struct ShardPath {
    path: Arc<SharedPath>,
    shard_index: usize,
}

/// All that the shards of a path have in common.
#[derive(Debug)]
pub(crate) struct SharedPath {
    pacing: PacingState,
    rate_view: SharedRateView,
    congestion_state: Mutex<LazyEstimates>,
    shard_usages: Box<[ShardUsage]>,
}

/// What each packet that leaves changes. In a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct PacingState {
    /// The pace allows the next packet then.
    release_time: AtomicTime,
    /// All that was sent will have passed the bottleneck then.
    bottleneck_clear_time: AtomicTime,
    last_sent: AtomicTime,
    /// No shard had anything to send since then, though the path was free; [`NOT_IDLE`] otherwise.
    idle_since: AtomicTime,
    /// What there was to send was for other paths since then; [`NOT_IDLE`] otherwise.
    out_of_turn_since: AtomicTime,
    /// For how long that was so in all, in nanoseconds.
    idle_nanos: AtomicI64,
    /// When it last asked for an answer.
    last_report_request: AtomicTime,
    sent_packets: AtomicU64,
    sent_bytes: AtomicU64,
    lost_packets: AtomicI64,
}

/// What a shard has had of a path. Written by that shard alone; in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ShardUsage {
    /// Whether packets wait for the path there, …
    is_waiting: AtomicBool,
    /// … and of how many flows they last were.
    waiting_flows: AtomicU32,
    /// Bytes for each flow that were sent while packets waited, as the bits of a float; none that it might have sent while
    /// nothing waited.
    served_bytes_per_flow: AtomicU64,
}

/// What is learned of a path, from the first report on: most paths that a peer may have are never used.
#[derive(Debug)]
struct LazyEstimates {
    measured: Option<Rate>,
    max: Option<Rate>,
    made_at: Time,
    estimates: Option<Box<SharedEstimates>>,
}

#[derive(Debug)]
struct SharedEstimates {
    congestion_control: PathCongestionControl,
    /// The packet of which a report has told last: its number, …
    newest_reported: Option<u64>,
    /// … the bytes sent up to it, and those of them that have arrived.
    reported_sent_bytes: u64,
    received_bytes: u64,
}

/// What a report tells a shard of a packet and all before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathObservation {
    pub now: Time,
    pub sent: AcknowledgedPackets,
    pub arrival: Time,
    pub round_trip: Span,
    /// Bytes that the shard had sent since its last report, …
    pub sent_bytes: u64,
    /// … of them, those that have arrived, …
    pub received_bytes: u64,
    /// … and the packets that have not; less than none, where some had only been late.
    pub lost_packets: i64,
    /// Nothing but probes is sent: it tells of the delay only.
    pub is_probing_only: bool,
}

/// What a late caller may catch up: about what a thread waits for its turn on a busy host. The path stood idle meanwhile, so
/// that its queue becomes no longer than this.
const MAX_LATENESS: Span = Span::from_millis(5);
/// What may be caught up in any case.
const MIN_LATENESS: Span = Span::from_millis(1);
/// A packet sent so long after the queue is thought to be empty finds it empty.
const EMPTY_PATH_MARGIN: Span = Span::from_millis(1);
const REPORT_REQUEST_INTERVAL: Span = Span::from_secs(1);
/// A shard that has had more than another, which waits, leaves it the pace for so long: less than what may be caught up.
const HOLD_BACK_TIME: Span = Span::from_micros(500);
/// It has had more if that is more than a packet, and more than the path carries in this time.
const MAX_LEAD_TIME: Span = Span::from_micros(250);
const MIN_LEAD_BYTES: u64 = 1500;
/// In place of the time since when a path is idle.
const NOT_IDLE: Time = Time::from_nanos(i64::MAX);

impl SharedPath {
    /// A path of so many shards, with a rate that was measured or is searched for. It never goes above `max`.
    pub fn new(measured: Option<Rate>, max: Option<Rate>, shards: usize, now: Time) -> Self {
        let rate = PathCongestionControl::new(measured, max, now);
        SharedPath {
            pacing: PacingState {
                release_time: AtomicTime::new(now),
                bottleneck_clear_time: AtomicTime::new(now),
                last_sent: AtomicTime::new(now),
                idle_since: AtomicTime::new(NOT_IDLE),
                out_of_turn_since: AtomicTime::new(NOT_IDLE),
                idle_nanos: AtomicI64::new(0),
                last_report_request: AtomicTime::new(now - REPORT_REQUEST_INTERVAL),
                sent_packets: AtomicU64::new(0),
                sent_bytes: AtomicU64::new(0),
                lost_packets: AtomicI64::new(0),
            },
            rate_view: SharedRateView::new(&rate),
            congestion_state: Mutex::new(LazyEstimates { measured, max, made_at: now, estimates: None }),
            shard_usages: (0..shards).map(|_| ShardUsage::default()).collect(),
        }
    }

    /// Has the rate changed by an event, and all shards see what comes of it.
    fn update_rate(&self, change: impl FnOnce(&mut PathCongestionControl)) {
        let mut learned = self.congestion_state.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = &mut learned.get_mut().congestion_control;
        change(rate);
        self.rate_view.publish(rate);
    }

    /// Nothing that began before `now` can be concluded. Of a path that nothing is known of, nothing has begun.
    fn interrupt_rate(&self, now: Time) {
        let mut learned = self.congestion_state.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.estimates.is_some() {
            let rate = &mut learned.get_mut().congestion_control;
            rate.path_interrupted(now);
            self.rate_view.publish(rate);
        } else {
            learned.made_at = now;
            self.rate_view.publish(&PathCongestionControl::new(learned.measured, learned.max, now));
        }
    }

    /// None while another shard looks at a report.
    fn try_lock(&self) -> Option<MutexGuard<'_, LazyEstimates>> {
        match self.congestion_state.try_lock() {
            Ok(learned) => Some(learned),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl LazyEstimates {
    fn get_mut(&mut self) -> &mut SharedEstimates {
        let LazyEstimates { measured, max, made_at, .. } = *self;
        self.estimates.get_or_insert_with(|| {
            Box::new(SharedEstimates {
                congestion_control: PathCongestionControl::new(measured, max, made_at),
                newest_reported: None,
                reported_sent_bytes: 0,
                received_bytes: 0,
            })
        })
    }
}

impl SharedEstimates {
    /// Counts what has arrived of all that was sent up to a packet.
    fn add_observation(&mut self, seen: &PathObservation) -> u64 {
        let sent = u128::from(seen.sent.total_bytes - self.reported_sent_bytes);
        let received = sent * u128::from(seen.received_bytes) / u128::from(seen.sent_bytes.max(1));
        self.received_bytes = self.received_bytes.saturating_add(u64::try_from(received).unwrap_or(u64::MAX));
        self.reported_sent_bytes = seen.sent.total_bytes;
        self.newest_reported = Some(seen.sent.number);
        self.received_bytes
    }
}

impl ShardPath {
    /// The part of the shard with this number.
    pub fn new(path: Arc<SharedPath>, shard: usize) -> Self {
        ShardPath { path, shard_index: shard }
    }

    /// The path's rate.
    pub fn rate(&self) -> &SharedRateView {
        &self.path.rate_view
    }

    /// When this shard may send.
    pub fn shard_ready_at(&self) -> Time {
        self.path_free_at() + self.hold_back_time()
    }

    /// When the path takes the next packet.
    pub fn path_free_at(&self) -> Time {
        self.path.pacing.release_time.get().max(self.rate().drained_at())
    }

    /// When a packet last left, of whichever shard.
    pub fn last_sent(&self) -> Time {
        self.path.pacing.last_sent.get()
    }

    /// A packet of so many bytes on the path leaves at the pace. The caller comes `late`.
    pub fn send_packet(&self, bytes: u32, late: Span, now: Time) -> SentPacket {
        let pacing = &self.path.pacing;
        // Only a caller's delay may be caught up, not a time in which nothing was to be sent.
        let [idle_since, turn_since] =
            [&pacing.idle_since, &pacing.out_of_turn_since].map(|since| since.replace(NOT_IDLE));
        let takes = self.rate().pacing_rate().time_for(bytes.into());
        let mut catch_up = late.clamp(MIN_LATENESS, MAX_LATENESS);
        if turn_since != NOT_IDLE {
            // Paths that wait for each other would all stand idle for a part of each packet.
            catch_up = catch_up.max(takes);
            let unused = now - catch_up - pacing.release_time.get().max(turn_since);
            pacing.idle_nanos.fetch_add(unused.max(Span::ZERO).as_nanos(), Relaxed);
        }
        let mut earliest = self.rate().drained_at().max(now - catch_up);
        if idle_since != NOT_IDLE {
            pacing.idle_nanos.fetch_add((now - idle_since).as_nanos(), Relaxed);
            earliest = now;
        }
        let departure = self.record_departure(bytes, now);
        pacing.release_time.update(|release| release.max(earliest) + takes);
        self.count_bytes(bytes);
        departure
    }

    /// A packet leaves, whatever the pace.
    pub fn record_departure(&self, size: u32, now: Time) -> SentPacket {
        let pacing = &self.path.pacing;
        let quiet = self.is_path_empty(now);
        pacing.last_sent.update(|last| last.max(now));
        let takes = self.rate().capacity().time_for(size.into());
        pacing.bottleneck_clear_time.update(|clear| clear.max(now) + takes);
        let number = pacing.sent_packets.fetch_add(1, Relaxed);
        let total = pacing.sent_bytes.fetch_add(size.into(), Relaxed) + u64::from(size);
        let idle = Span::from_nanos(pacing.idle_nanos.load(Relaxed));
        SentPacket {
            time: now,
            size,
            number,
            total_bytes: total,
            idle_time: idle,
            found_empty_path: quiet,
            is_shortened: false,
        }
    }

    /// It might have sent, but there was nothing. The path is idle only if no other shard has anything either.
    pub fn record_idle(&self, now: Time) {
        if !self.other_waiting_usages().any(|_| true) {
            self.path.pacing.idle_since.update(|since| since.min(now));
        }
    }

    /// It might have sent, but the next packet is for another path.
    pub fn record_out_of_turn(&self, now: Time) {
        self.path.pacing.out_of_turn_since.update(|since| since.min(now));
    }

    /// Whether a packet that leaves now should be answered at once: it tells the delay of the empty path.
    pub fn claim_report_request(&self, now: Time) -> bool {
        let asked = &self.path.pacing.last_report_request;
        let asks = self.is_path_empty(now) && now - asked.get() >= REPORT_REQUEST_INTERVAL;
        if asks {
            asked.set(now);
        }
        asks
    }

    /// Whether a packet that leaves now finds the path empty: nothing was there to be sent for a while, or it was drained.
    /// What leaves at the pace tells nothing new, since that the path is clear follows from the delay of those before.
    fn is_path_empty(&self, now: Time) -> bool {
        let (pacing, drained) = (&self.path.pacing, self.rate().drained_at());
        now >= pacing.bottleneck_clear_time.get().max(pacing.release_time.get()) + EMPTY_PATH_MARGIN
            || (pacing.last_sent.get() < drained && now >= drained)
    }

    /// Takes what a report to this shard says.
    pub fn record_observation(&self, seen: &PathObservation) {
        let pacing = &self.path.pacing;
        let PathObservation { now, sent, arrival, round_trip, is_probing_only: is_down, .. } = *seen;
        let lost = if is_down { 0 } else { seen.lost_packets };
        let lost = pacing.lost_packets.fetch_add(lost, Relaxed) + lost;
        let Some(mut locked) = self.path.try_lock() else { return };
        let learned = locked.get_mut();
        // What another shard has been told meanwhile is newer; or a thread was stopped while it counted its packet.
        if learned.newest_reported.is_some_and(|newest| newest >= sent.number)
            || sent.total_bytes < learned.reported_sent_bytes
        {
            return;
        }
        let received = learned.add_observation(seen);
        let open = pacing.sent_bytes.load(Relaxed) - sent.total_bytes;
        let (counter, is_estimate) = (sent.number, self.path.shard_usages.len() > 1);
        let sample = DeliverySample {
            now,
            sent,
            counter,
            arrival,
            round_trip,
            received_bytes: received,
            is_received_estimated: is_estimate,
            lost_packets: lost,
            in_flight_bytes: open,
        };
        let rate = &mut learned.congestion_control;
        if is_down {
            rate.record_probe(&sample);
        } else {
            rate.record_sample(&sample);
        }
        // The capacity may be less than believed.
        pacing.bottleneck_clear_time.set(rate.clear_at() + rate.capacity().time_for(open) / 10);
        self.path.rate_view.publish(rate);
    }

    /// The path has failed, as far as this shard sees: nothing that began before can be concluded.
    pub fn path_interrupted(&self, now: Time) {
        self.path.interrupt_rate(now);
        self.path.pacing.bottleneck_clear_time.set(now);
        self.path.pacing.idle_since.set(NOT_IDLE);
    }

    /// A measurement says what the path carries.
    pub fn suggest_capacity(&self, measured: Rate, now: Time) {
        self.path.update_rate(|rate| rate.suggest_capacity(measured, now));
    }

    /// Whether packets of this shard wait for the path, of so many flows; of none, if not.
    pub fn set_waiting_flows(&self, flows: u32) {
        if self.path.shard_usages.len() == 1 {
            return;
        }
        let own = self.own_usage();
        if flows > 0 {
            own.waiting_flows.store(flows, Relaxed);
            if !own.is_waiting.load(Relaxed) {
                own.raise_served_bytes_per_flow(self.starting_bytes_per_flow());
            }
        }
        own.is_waiting.store(flows > 0, Relaxed);
    }

    /// What those have had that wait, so that one that begins to wait has no more due to it than they; or what anyone has had,
    /// if nobody does.
    fn starting_bytes_per_flow(&self) -> f64 {
        let waiting = self.other_waiting_usages().map(ShardUsage::served_bytes_per_flow).reduce(f64::min);
        waiting
            .unwrap_or_else(|| self.path.shard_usages.iter().map(ShardUsage::served_bytes_per_flow).fold(0.0, f64::max))
    }

    /// The part of the path's rate that this shard's packets have while they wait.
    pub fn shard_fraction(&self) -> f64 {
        let others: f64 = self.other_waiting_usages().map(ShardUsage::flow_weight).sum();
        let own = self.own_usage().flow_weight();
        own / (own + others)
    }

    fn own_usage(&self) -> &ShardUsage {
        &self.path.shard_usages[self.shard_index]
    }

    fn other_waiting_usages(&self) -> impl Iterator<Item = &ShardUsage> {
        let others = self.path.shard_usages.iter().enumerate().filter(|(shard, _)| *shard != self.shard_index);
        others.map(|(_, turn)| turn).filter(|turn| turn.is_waiting.load(Relaxed))
    }

    fn count_bytes(&self, bytes: u32) {
        if self.path.shard_usages.len() > 1 {
            let own = self.own_usage();
            own.raise_served_bytes_per_flow(own.served_bytes_per_flow() + f64::from(bytes) / own.flow_weight());
        }
    }

    fn hold_back_time(&self) -> Span {
        let Some(least) = self.other_waiting_usages().map(ShardUsage::served_bytes_per_flow).reduce(f64::min) else {
            return Span::ZERO;
        };
        let own = self.own_usage();
        let lead = self.rate().pacing_rate().bytes_in(MAX_LEAD_TIME).max(MIN_LEAD_BYTES) as f64;
        if (own.served_bytes_per_flow() - least) * own.flow_weight() > lead { HOLD_BACK_TIME } else { Span::ZERO }
    }
}

impl ShardUsage {
    fn served_bytes_per_flow(&self) -> f64 {
        f64::from_bits(self.served_bytes_per_flow.load(Relaxed))
    }

    fn raise_served_bytes_per_flow(&self, level: f64) {
        self.served_bytes_per_flow.store(self.served_bytes_per_flow().max(level).to_bits(), Relaxed);
    }

    fn flow_weight(&self) -> f64 {
        f64::from(self.waiting_flows.load(Relaxed).max(1))
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
