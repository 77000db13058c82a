//! Restores the order in which packets were sent.
//!
//! # Which packets wait, and for what
//!
//! Packets are numbered per bucket, and each path delivers datagrams in the order in which they were sent over it, or
//! not at all. A packet `m` that arrives while earlier numbers are missing waits. It brings with it, for each path but
//! its own, the counter of the last datagram that was sent over that path with an earlier packet of its bucket: its
//! [predecessors](crate::Predecessor). Be `m` the lowest number that has arrived of those not delivered. Then:
//!
//! > The gap before `m` is over as soon as each path has delivered a datagram, of whatever bucket and kind, with a
//! > counter that is not below that of `m`'s predecessor on it. Not earlier.
//!
//! *Nothing is given up that may still come:* what is missing before `m` was sent over some path, with a counter that is
//! not above that of the predecessor there (or over `m`'s own path, before `m`). That path has delivered as high a
//! counter, and it keeps order: what is missing is lost.
//!
//! *Nothing waits without need:* as long as a path has delivered lower counters only, its predecessor of `m` may still
//! come. And it is missing: had it come, so had its counter; had it been declared lost before, then by this rule, thus
//! after the path had passed it. So no rule that relies on order within paths alone can be faster or safer. (Except where
//! some packets of a bucket are sent in several copies and others are not: the predecessor may be a copy of what has come
//! over another path.)
//!
//! Other rules for the same purpose know less. The minimum over all paths of the highest number of the bucket that each
//! delivered holds packets up for any path that carries other buckets or nothing at the moment, and finds the loss of
//! the last packet on a path only by a timer. A list of the paths that the last *k* numbers took costs as many bytes,
//! fails when more than *k* are lost in a row, and without counters cannot use what other buckets' packets and probes
//! tell. A timer alone delays all that follows each loss (`sim/tests/several_paths/bonded_paths.rs` has them side by side).
//!
//! # What else ends a gap
//!
//! - A **timer**, for what nothing follows on its path: the difference of the greatest delay of the path that is waited
//!   for and the least of the packet's own ([`Resequencer::set_delay`]), and a margin. It does not expire while the path
//!   delivers other datagrams: then what is missing is behind them in a queue that has grown. No packet waits for longer
//!   than [`ResequencerConfig::max_wait`]. What was waited for is given up on its path, for all buckets: what was sent
//!   before it should have come, too.
//! - [`Resequencer::path_down`]: what a path had is given up, and nothing waits for it until it delivers again.
//! - Lack of memory: the gap goes whose timer would be the next to expire.
//!
//! What arrives after that is delivered nevertheless, and counted as late: TCP prefers a packet out of order to a
//! retransmission. Of a packet that was sent in several copies, one that is later than by 2048 numbers is dropped, since
//! another might have been delivered; and each such packet is, once the far end repeats what is lost. Of others there is but one, however
//! late: a connection that waits for its retransmission timer while others carry 100 Mbit/s is thousands of packets behind them.
//!
//! # What is lost and repeated
//!
//! Where the far end repeats what a path has lost ([`Resequencer::set_repair_wait`]), a gap that would be over is kept until what is
//! repeated can have come, counted from the arrival of the first packet behind it: losses that follow each other add nothing to
//! each other's waits. One or two packets wait no longer than 4 ms: for so few a TCP sender does not repeat, and they may be of
//! a sparse flow. What was lost with its path, and has not been found to be missing, is not repeated. Where it does not come in time again
//! and again, it is not waited for any more, until some comes that would have been in time.
//!
//! For a path that does not keep order itself one can say how far it does not
//! ([`Resequencer::set_reordering_extent`]): then that many higher counters more have to arrive, and the timer's margin
//! bounds how long that may take, as with RACK (RFC 8985).

mod bucket;
mod config;
mod frontier;
mod pool;
mod statistics;
mod tournament;
mod window;

pub use config::{DelayRange, ResequencerConfig};
pub use statistics::{ResequencerStatistics, WaitStatistics};

use crate::message::{BUCKET_COUNT, DataHeader};
use crate::path::id::PathId;
use crate::predecessor::Predecessor;
use bucket::{ReorderBucket, WaitingList};
use frontier::{AwaitedCounters, Frontier};
use kumade_link::SparseTable;
use kumade_units::{Span, Time};
use pool::{PacketPool, WaitingPacket};
use std::cmp::Ordering;
use tournament::TournamentTree;

/// Gaps for which what is repeated is waited for in vain before that is given up: …
const INITIAL_REPAIR_CREDIT: u32 = 8;
/// … after many packets that have closed a gap in time, …
const MAX_REPAIR_CREDIT: u32 = 32;
/// … each of which counts for so many.
const CREDIT_PER_REPAIR: u32 = 2;

/// Fewer packets than this behind a lost one do not make a TCP sender repeat it (RFC 5681 §3.2), …
const MIN_REPAIR_DEPTH: u32 = 3;
/// … and wait only until it is clear that no more follow: they may be of a sparse flow, such as speech. 3 packets of a flow of 9 Mbit/s
/// come meanwhile.
const SPARSE_REPAIR_WAIT: Span = Span::from_millis(4);

/// Delivers packets of type `T` in the order in which they were numbered by a [`Sequencer`](crate::Sequencer), per
/// bucket.
///
/// Hand over each packet by [`Resequencer::receive`] and the counter of each other datagram by
/// [`Resequencer::datagram_passed`]; call [`Resequencer::expire`] when [`Resequencer::deadline`] has come. All of them append
/// what is to be delivered now to `out`. Nothing is allocated per packet once the buffers have grown to the load.
#[derive(Debug)]
pub struct Resequencer<T> {
    config: ResequencerConfig,
    frontier: Frontier,
    buckets: SparseTable<ReorderBucket>,
    pool: PacketPool<T>,
    /// For each path, the counters that buckets wait for: each bucket that waits does so on one.
    waiting_buckets: [TournamentTree<u64>; PathId::MAX_PATHS],
    deadlines: TournamentTree<Time>,
    /// How long packets wait for what is repeated.
    repair_wait: Option<Span>,
    /// When datagrams were last found to be missing on a path.
    last_missing: Option<Time>,
    /// What is repeated was waited for at some time: of any packet another one may have come.
    has_repeats: bool,
    /// What is repeated may still be waited for in vain so often.
    repair_credit: u32,
    /// When a gap was last over that would have been kept if what is repeated had not been waited for in vain before.
    last_unkept_gap: Option<Time>,
    statistics: ResequencerStatistics,
}

/// A packet as it arrived. `P` gives its predecessors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivedData<P> {
    /// The path of the datagram.
    pub path: PathId,
    /// The datagram's counter on its path.
    pub counter: u64,
    /// The packet's place.
    pub header: DataHeader,
    /// What was sent before it over other paths.
    pub predecessors: P,
    /// The memory that it takes while it waits.
    pub bytes: u32,
}

impl<T> Resequencer<T> {
    /// Begins with number 0 in each bucket, as a new [`Sequencer`](crate::Sequencer) does.
    pub fn new(config: ResequencerConfig) -> Self {
        Resequencer {
            config,
            frontier: Frontier::default(),
            buckets: SparseTable::new(BUCKET_COUNT.into(), ReorderBucket::new),
            pool: PacketPool::new(),
            waiting_buckets: std::array::from_fn(|_| TournamentTree::new(BUCKET_COUNT, u64::MAX)),
            deadlines: TournamentTree::new(BUCKET_COUNT, Time::MAX),
            repair_wait: None,
            last_missing: None,
            has_repeats: false,
            repair_credit: INITIAL_REPAIR_CREDIT,
            last_unkept_gap: None,
            statistics: ResequencerStatistics::default(),
        }
    }

    /// A packet has arrived.
    ///
    /// # Panics
    /// The bucket is not below [`BUCKET_COUNT`]; that of a message that was parsed is.
    pub fn receive<P>(&mut self, arrival: ArrivedData<P>, payload: T, now: Time, out: &mut Vec<T>)
    where
        P: IntoIterator<Item = Predecessor>,
    {
        let (path, counter) = (arrival.path, arrival.counter);
        if arrival.header.is_unordered {
            self.receive_unordered(&arrival.header, payload, out);
        } else {
            self.receive_ordered(arrival, payload, now, out);
        }
        // Only now: the packet itself may be what others wait for.
        self.datagram_passed(path, counter, now, out);
    }

    /// A datagram with something else has arrived. It shows how far its path has come, too.
    pub fn datagram_passed(&mut self, path: PathId, counter: u64, now: Time, out: &mut Vec<T>) {
        self.frontier.datagram_arrived(path, counter, now);
        self.wake_buckets(path, now, out);
    }

    /// A path delivers nothing any more: what was sent over it is lost, and nothing waits for it until something arrives
    /// over it.
    pub fn path_down(&mut self, path: PathId, now: Time, out: &mut Vec<T>) {
        self.frontier.path_down(path);
        self.wake_buckets(path, now, out);
    }

    /// Between what bounds the one-way delay of a path is, for the timer; `None` if it is not known. It counts from the
    /// next event of each bucket on.
    pub fn set_delay(&mut self, path: PathId, delay: Option<DelayRange>) {
        self.frontier.set_delay(path, delay);
    }

    /// After how many datagrams sent later one may still arrive over a path (RFC 4737, reordering extent); 0, as at the
    /// beginning, for a path that keeps order.
    pub fn set_reordering_extent(&mut self, path: PathId, datagrams: u32) {
        self.frontier.set_reordering_extent(path, datagrams);
    }

    /// The far end repeats what paths have lost, within this time of the arrival of the first packet that follows: as long is a gap
    /// kept that is over otherwise. While what is repeated does not come in time, it is not waited for.
    pub fn set_repair_wait(&mut self, wait: Option<Span>) {
        self.repair_wait = wait;
        self.has_repeats |= wait.is_some();
    }

    /// Datagrams were found to be missing on a path ([`MissingDatagrams`](crate::MissingDatagrams)): what they carried is repeated. To be
    /// told before the packet that shows it is received.
    pub fn record_missing(&mut self, now: Time) {
        self.last_missing = Some(now);
    }

    /// When [`Resequencer::expire`] is to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.lowest().map(|(time, _)| time)
    }

    /// Ends the gaps whose time has come.
    pub fn expire(&mut self, now: Time, out: &mut Vec<T>) {
        while let Some((_, bucket)) = self.deadlines.lowest().filter(|(time, _)| *time <= now) {
            // A path may have come back, or have another delay, since the bucket waits.
            self.deliver_ready(bucket, false, now, out);
            if self.deadlines.get(bucket).is_some_and(|deadline| deadline <= now) {
                self.statistics.expired += 1;
                self.give_up_gap(bucket, now, out);
            }
        }
    }

    /// Ends all gaps: delivers what waits, in order, as when the far gateway has restarted.
    pub fn flush(&mut self, now: Time, out: &mut Vec<T>) {
        while let Some((_, bucket)) = self.deadlines.lowest() {
            self.deliver_ready(bucket, true, now, out);
        }
    }

    /// Packets that wait, and their bytes.
    pub fn waiting_totals(&self) -> (usize, u64) {
        (self.pool.packet_count(), self.pool.byte_count())
    }

    /// What it has done so far.
    pub fn statistics(&self) -> &ResequencerStatistics {
        &self.statistics
    }

    fn receive_unordered(&mut self, header: &DataHeader, payload: T, out: &mut Vec<T>) {
        let window = &mut self.buckets.get_mut(header.bucket.into()).unordered_window;
        // Also where there are no copies: the window goes on, so that the numbers of those that have some are known.
        let (number, _) = window.recognise(header.number);
        if !window.insert(number) && header.is_redundant {
            self.statistics.duplicates += 1;
            return;
        }
        self.statistics.unordered += 1;
        out.push(payload);
    }

    fn receive_ordered<P>(&mut self, arrival: ArrivedData<P>, payload: T, now: Time, out: &mut Vec<T>)
    where
        P: IntoIterator<Item = Predecessor>,
    {
        let DataHeader { bucket: index, number, is_redundant, .. } = arrival.header;
        let (number, is_resynchronised) = self.buckets.get_mut(index.into()).ordered_window.recognise(number);
        if is_resynchronised {
            self.resynchronise(index, number, now, out);
        } else if number > self.buckets.get_mut(index.into()).ordered_window.next() {
            self.free_memory(arrival.bytes, now, out);
        }
        let bucket = self.buckets.get_mut(index.into());
        match number.cmp(&bucket.ordered_window.next()) {
            Ordering::Less => self.receive_late(&arrival.header, number, payload, now, out),
            Ordering::Equal => {
                bucket.ordered_window.insert(number);
                if is_redundant && bucket.depth > 0 {
                    self.record_repair();
                }
                self.statistics.in_order += 1;
                out.push(payload);
            }
            Ordering::Greater => {
                let ArrivedData { path, counter, predecessors, bytes, .. } = arrival;
                let waits = self.frontier.awaited_counters(path, counter, predecessors);
                let waiting = WaitingPacket {
                    number,
                    arrival: now,
                    earliest_arrival_onward: now,
                    bytes,
                    awaited: waits,
                    payload,
                };
                let inserted = if is_redundant && bucket.has_passed_number(&self.pool, path, number) {
                    bucket.insert_repeated(&mut self.pool, waiting)
                } else {
                    bucket.insert(&mut self.pool, path, waiting)
                };
                match inserted {
                    Ok(()) => {}
                    // Another one with its number may come, and would be delivered, too.
                    Err(_) if is_redundant => self.statistics.duplicates += 1,
                    Err(payload) => {
                        self.statistics.late += 1;
                        out.push(payload);
                    }
                }
            }
        }
        if self.buckets.get_mut(index.into()).depth > 0 {
            self.deliver_ready(index, false, now, out);
        }
        let depth = self.buckets.get_mut(index.into()).depth;
        self.statistics.max_depth = self.statistics.max_depth.max(depth);
    }

    fn receive_late(&mut self, header: &DataHeader, number: u64, payload: T, now: Time, out: &mut Vec<T>) {
        let window = &mut self.buckets.get_mut(header.bucket.into()).ordered_window;
        let is_alone = !header.is_redundant && !self.has_repeats && window.is_too_old(number);
        if is_alone || window.insert(number) {
            self.statistics.late += 1;
            out.push(payload);
            let kept_until = self.last_unkept_gap.and_then(|over| Some(over + self.repair_wait?));
            if header.is_redundant && self.repair_credit == 0 && kept_until.is_some_and(|until| now <= until) {
                self.record_repair();
            }
        } else {
            self.statistics.duplicates += 1;
        }
    }

    /// What is repeated is worth waiting for.
    fn record_repair(&mut self) {
        if self.repair_wait.is_some() {
            self.repair_credit = (self.repair_credit + CREDIT_PER_REPAIR).min(MAX_REPAIR_CREDIT);
        }
    }

    /// A bucket goes on with this number: more was lost before it than its lowest bits tell apart.
    fn resynchronise(&mut self, index: u16, number: u64, now: Time, out: &mut Vec<T>) {
        while self.lowest(index).is_some() {
            self.deliver_ready(index, true, now, out);
        }
        let window = &mut self.buckets.get_mut(index.into()).ordered_window;
        self.statistics.lost = self.statistics.lost.saturating_add(number.saturating_sub(window.next()));
        window.skip_to(number);
    }

    /// A path has come further: continues with the buckets that waited for that.
    fn wake_buckets(&mut self, path: PathId, now: Time, out: &mut Vec<T>) {
        while let Some((counter, bucket)) = self.waiting_buckets[path.index()].lowest() {
            if !self.frontier.has_passed(path, counter) {
                return;
            }
            self.deliver_ready(bucket, false, now, out);
        }
    }

    /// Delivers what a bucket has until there is a gap that is not over; with `force`, the first one is.
    fn deliver_ready(&mut self, index: u16, mut force: bool, now: Time, out: &mut Vec<T>) {
        while let Some((list, first)) = self.lowest(index) {
            let (number, waits) = (first.number, first.awaited);
            let next = self.buckets.get_mut(index.into()).ordered_window.next();
            if number > next {
                if !force && (self.register_waits(index, &waits) || self.register_repair(index, &waits, now)) {
                    return;
                }
                // What is lost with a path that is down is not waited for when it is back. For others it changes nothing.
                waits.iter().filter(|_| !force).for_each(|(path, counter)| self.frontier.give_up(path, counter));
                force = false;
                self.statistics.lost = self.statistics.lost.saturating_add(number - next);
                self.buckets.get_mut(index.into()).ordered_window.skip_to(number);
            }
            let bucket = self.buckets.get_mut(index.into());
            let Some(waiting) = bucket.take(&mut self.pool, list) else { break };
            if bucket.ordered_window.insert(number) {
                self.statistics.in_order += 1;
                self.statistics.waits.record_wait(now - waiting.arrival);
                out.push(waiting.payload);
                if list == WaitingList::Repeated {
                    self.record_repair();
                }
            } else {
                self.statistics.duplicates += 1;
            }
        }
        self.register_bucket(index, None);
    }

    /// Lets a bucket wait for that of its paths which may take longest. Returns whether there is any.
    fn register_waits(&mut self, index: u16, waits: &AwaitedCounters) -> bool {
        let open = self.frontier.still_awaited(waits);
        let limit = |(path, counter)| Some((self.bucket_deadline(index, path)?, path, counter));
        let latest = open.filter_map(limit).max();
        if let Some((deadline, path, counter)) = latest {
            self.register_bucket(index, Some((path, counter)));
            self.deadlines.set(index, Some(deadline));
        }
        latest.is_some()
    }

    /// Lets a bucket wait for what is repeated, if it may still come. Returns whether it may.
    fn register_repair(&mut self, index: u16, waits: &AwaitedCounters, now: Time) -> bool {
        let Some(wait) = self.repair_wait else { return false };
        let Some(found) = self.last_missing.filter(|_| !self.frontier.lost_with_path(waits)) else { return false };
        let wait = wait.min(self.config.max_wait);
        let Some(bucket) = self.buckets.get(index.into()) else { return false };
        let Some(first) = bucket.earliest_arrival(&self.pool) else { return false };
        let is_sparse = bucket.depth < MIN_REPAIR_DEPTH;
        let until = (first + if is_sparse { SPARSE_REPAIR_WAIT } else { wait }).min(found + wait);
        if self.repair_credit == 0 {
            self.last_unkept_gap = Some(now);
            return false;
        }
        if until <= now {
            self.repair_credit -= u32::from(!is_sparse);
            return false;
        }
        self.register_bucket(index, None);
        self.deadlines.set(index, Some(until));
        true
    }

    /// Until when a path should have delivered what is missing before all packets of a bucket that wait. It was sent
    /// before any of them, thus arrives later than each by the difference of their paths' delays at most; unless there is
    /// a queue of which the last to arrive knew nothing. But then others arrive before it.
    fn bucket_deadline(&self, index: u16, path: PathId) -> Option<Time> {
        let bucket = self.buckets.get(index.into())?;
        let expected = |(over, waiting): (PathId, &WaitingPacket<T>)| {
            let spread = self.frontier.delay_difference(over, path);
            waiting.earliest_arrival_onward
                + spread.map_or(self.config.max_wait, |spread| spread + self.config.wait_margin)
        };
        let expected = bucket.path_heads(&self.pool).map(expected).min()?;
        let first = bucket.earliest_arrival(&self.pool)?;
        let silent = self.frontier.last_arrival(path).map_or(expected, |last| last + self.config.wait_margin);
        Some(expected.max(silent).min(first + self.config.max_wait))
    }

    /// Notes for which counter of which path a bucket waits.
    fn register_bucket(&mut self, index: u16, what: Option<(PathId, u64)>) {
        let path = what.map(|(path, _)| path);
        let before = std::mem::replace(&mut self.buckets.get_mut(index.into()).waiting_for, path);
        if let Some(before) = before.filter(|before| Some(*before) != path) {
            self.waiting_buckets[before.index()].set(index, None);
        }
        match what {
            Some((path, counter)) => self.waiting_buckets[path.index()].set(index, Some(counter)),
            None => self.deadlines.set(index, None),
        }
    }

    /// Gives up what a bucket waits for, on each path for all buckets.
    fn give_up_gap(&mut self, index: u16, now: Time, out: &mut Vec<T>) {
        let Some((_, first)) = self.lowest(index) else { return };
        let waits = first.awaited;
        for (path, counter) in waits.iter() {
            self.frontier.give_up(path, counter);
            self.wake_buckets(path, now, out);
        }
    }

    /// The packet of a bucket with the lowest number, and the list that it is in.
    fn lowest(&self, index: u16) -> Option<(WaitingList, &WaitingPacket<T>)> {
        self.buckets.get(index.into())?.lowest(&self.pool)
    }

    fn free_memory(&mut self, bytes: u32, now: Time, out: &mut Vec<T>) {
        while self.pool.packet_count() >= self.config.max_packets
            || self.pool.byte_count() + u64::from(bytes) > self.config.max_bytes
        {
            let Some((_, bucket)) = self.deadlines.lowest() else { return };
            self.statistics.evicted += 1;
            self.deliver_ready(bucket, true, now, out);
        }
    }
}

#[cfg(test)]
mod tests;
