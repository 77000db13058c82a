//! The method's loop.

use super::control::{self, TrainShape};
use super::interval;
use super::packets::{PrimedTrain, StampEpoch};
use super::path_model::{self, PathModel};
use super::state::{BUDGET, PrimedConfig, PrimedState};
use super::summary;
use crate::capacity::Shaping;
use crate::capacity::shaping::{self, RateChange};
use crate::config::{Budget, Conditions, MethodConfig};
use crate::method::{Method, Outcome, Step};
use crate::rejection::Rejection;
use kumade_probe_train::{PacketRecord, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// Primes are short: by less than this the rate may fall within them for other causes than a token bucket.
const MIN_RATE_DROP_RATIO: f64 = 3.0;

/// A body that left at so many times the rate at which it arrived shows that of a link or a bucket.
const MIN_SLOWDOWN_RATIO: f64 = 1.25;

impl MethodConfig for PrimedConfig {
    const NAME: &'static str = "primed";
    const SUMMARY: &'static str = "kumade's own: finds the range of rates by itself, then narrows the value down";
    const BUDGET: Option<Budget> = Some(BUDGET);
    const HANDLES_TOKEN_BUCKET: bool = true;

    fn max_packets(&self) -> u32 {
        control::MAX_PACKETS
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(Primed::new(*self, conditions))
    }
}

/// Measures available bandwidth by primed trains: see the module's introduction.
#[derive(Debug)]
pub struct Primed {
    state: PrimedState,
    started: Option<Time>,
    /// The train on its way.
    sent_shape: Option<TrainShape>,
    /// Where the rate fell within primes, as long as no token bucket is known.
    rate_changes: Vec<Option<RateChange>>,
    /// When the last packet left, by the clock of `next`.
    quiet_since: Option<Time>,
    epoch: Option<StampEpoch>,
    /// Trains recorded so far.
    recorded: usize,
    /// Sent so far.
    bytes: u64,
}

impl Primed {
    /// Starts with nothing known of the path but its conditions.
    pub fn new(config: PrimedConfig, conditions: &Conditions) -> Self {
        Primed {
            state: PrimedState::new(config, conditions),
            started: None,
            sent_shape: None,
            rate_changes: Vec::new(),
            quiet_since: None,
            epoch: None,
            recorded: 0,
            bytes: 0,
        }
    }

    fn take_train(&mut self, record: &TrainRecord, shape: TrainShape) -> Result<(), Rejection> {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => *self.epoch.insert(StampEpoch::from_record(record).ok_or(Rejection::PacketsMissing)?),
        };
        match shape {
            TrainShape::Scout => {
                self.state.scouted_rate = Some(control::scouted_rate(record).ok_or(Rejection::PacketsMissing)?)
            }
            TrainShape::Primed { prime } => {
                let prime = prime as usize;
                let train =
                    PrimedTrain { number: self.recorded, ..PrimedTrain::with_bursts_joined(record, prime, epoch)? };
                let joined = record.with_bursts_joined();
                let is_in_bursts = train.is_in_bursts;
                // The prime of a train of bursts is shorter than many buckets last. But a body that arrives about as fast as it left shows
                // its own rate.
                let is_whole = is_in_bursts && train.slowdown() > MIN_SLOWDOWN_RATIO;
                self.state.trains.push(train);
                let end = if is_whole { joined.record.packets.len() } else { joined.whole_bursts_within(prime) };
                if self.look_for_shaper(&joined.record.packets[..end]) && is_in_bursts {
                    self.begin_behind_shaper();
                }
                if self.state.shaping == Shaping::Unshaped {
                    // What was before is of another link. (A token bucket that nobody has looked for changes primes, too.)
                    self.state.trains.drain(..path_model::trains_before_change(&self.state.trains));
                }
                self.state.path_model = PathModel::from_trains(
                    &self.state.trains,
                    self.state.scouted_rate.unwrap_or(0.0),
                    &self.state.shaping,
                );
            }
            TrainShape::Paced { verifies } => {
                let train = PrimedTrain::with_bursts_joined(record, record.packets.len() / 4, epoch)?;
                let train = PrimedTrain { number: self.recorded, ..train };
                let scatter = summary::growth_scatter(&self.state);
                let narrow = self.state.path_model.capacity.unwrap_or(0.0);
                self.state.tight_link_search.add_train(train, verifies, (scatter, narrow));
            }
        }
        Ok(())
    }

    /// After a train that lost too many packets to be read, before any was read: it was far too fast. At least half of that is too much,
    /// and at most what arrived is available.
    fn record_slowdown(&mut self, record: &TrainRecord) {
        let Some(scouted) = self.state.scouted_rate.filter(|_| self.state.trains.is_empty()) else { return };
        let arrived = control::scouted_rate(record).unwrap_or(scouted);
        self.state.scouted_rate = Some(arrived.min(scouted / 2.0));
    }

    /// A small token bucket shows in the primes themselves: their first packets pass faster than the rest. Whether it has just been
    /// found.
    fn look_for_shaper(&mut self, packets: &[PacketRecord]) -> bool {
        if self.state.shaping != Shaping::Unknown {
            return false;
        }
        self.rate_changes.push(shaping::find_rate_change(packets));
        let change = shaping::reproduced_change(&self.rate_changes)
            .filter(|change| change.rate_drop_ratio > MIN_RATE_DROP_RATIO);
        let found = change.map(|change| shaping::shaper_estimate(&change, &self.rate_changes, None));
        self.state.shaping = found.map_or(Shaping::Unknown, Shaping::Shaped);
        found.is_some()
    }

    /// Earlier trains were meant for a path without a bucket: they were too short to empty it and too fast for its committed rate, and
    /// took more bytes than a measurement at that rate is to have.
    fn begin_behind_shaper(&mut self) {
        let newest = self.state.trains.len().saturating_sub(1);
        self.state.trains.drain(..newest);
        self.state.bytes_before_shaper = self.bytes;
    }

    /// The next train, and how long to wait before.
    fn plan_next(&mut self, now: Time) -> (Span, TrainShape, Train) {
        let state = &mut self.state;
        if state.tight_link_search.ceiling_rate().is_some() {
            let random = state.random();
            let wait = control::wait_before_train(state);
            let (shape, train) =
                control::plan_paced_train(state, state.tight_link_search.next_rate(random).unwrap_or(0.0));
            return (wait, shape, train);
        }
        let least = summary::min_wait(state, now - self.started.unwrap_or(now));
        let rate = control::next_rate(state);
        if let Some(rate) = rate.filter(|rate| control::burst_pacing(state, *rate).is_some()) {
            state.max_planned_rate = state.max_planned_rate.max(rate);
        }
        state.newest_planned_rate = rate.unwrap_or(0.0);
        let wait = control::wait_before_train(state).max(least);
        let quiet = self.quiet_since.map(|since| now - since + wait);
        let (shape, train) = control::plan_train(state, rate, quiet);
        (wait, shape, train)
    }

    fn plan_verification(&mut self, rate: f64) -> (Span, TrainShape, Train) {
        let wait = control::wait_before_train(&mut self.state).max(control::emptying_time(&self.state));
        let (shape, train) = control::plan_verification(&self.state, rate);
        (wait, shape, train)
    }

    /// Whether the train would take more than so many bytes, or so long.
    fn exceeds(&self, (wait, _, train): &(Span, TrainShape, Train), elapsed: Span, (bytes, time): (u64, Span)) -> bool {
        // A budget of a minute and more would allow trains that every server refuses.
        self.bytes + train.bytes() > bytes
            || elapsed + *wait + train.duration() > time
            || train.duration() > Train::MAX_DURATION
    }

    fn outcome(&self, now: Time) -> Outcome {
        let elapsed = now - self.started.unwrap_or(now);
        summary::outcome(&self.state, elapsed)
    }
}

impl Method for Primed {
    fn next(&mut self, now: Time) -> Step {
        let started = *self.started.get_or_insert(now);
        if self.sent_shape.take().is_some() {
            self.state.count_rejection(Rejection::PacketsMissing);
        }
        let elapsed = now - started;
        let mut next = if summary::has_enough_trains(&self.state, elapsed) { None } else { Some(self.plan_next(now)) };
        let limit = (summary::byte_limit(&self.state), summary::time_limit(&self.state, elapsed));
        if next.as_ref().is_none_or(|planned| self.exceeds(planned, elapsed, limit)) {
            next = summary::rate_to_verify(&self.state, elapsed).map(|rate| self.plan_verification(rate));
        }
        // Verifying is worth a little more time.
        let limit = (summary::max_bytes(&self.state), (limit.1 * 2).min(self.state.budget.time * 7));
        let Some((wait, shape, train)) = next.filter(|planned| !self.exceeds(planned, elapsed, limit)) else {
            return Step::Done(self.outcome(now));
        };
        let spent = self.bytes + train.bytes();
        self.bytes = spent;
        self.quiet_since = Some(now + wait + train.duration());
        self.sent_shape = Some(shape);
        self.state.is_newest_paced = matches!(shape, TrainShape::Paced { .. });
        Step::Send { wait, train }
    }

    fn record(&mut self, record: &TrainRecord) {
        let Some(shape) = self.sent_shape.take() else { return };
        match self.take_train(record, shape) {
            Ok(()) if self.state.path_model.is_newest_stalled || self.state.path_model.is_newest_prime_short => {
                self.state.failures_in_row += 1
            }
            Ok(()) => self.state.failures_in_row = 0,
            Err(why) => {
                self.state.count_rejection(why);
                self.record_slowdown(record);
            }
        }
        self.recorded += 1;
    }

    fn current_estimate(&self) -> Option<Rate> {
        let used = summary::used_samples(&self.state);
        (!used.is_empty())
            .then(|| Rate::from_f64(interval::weighted_value(&used, self.state.path_model.capacity.unwrap_or(0.0))))
    }

    fn value_trains(&self) -> Option<(usize, usize)> {
        summary::value_trains(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shaper;
    use crate::bound::{Bound, BoundKind};
    use crate::reason::Reason;
    use kumade_probe_train::Estimate;

    fn is_of_bucket(reason: Option<&Reason>) -> bool {
        matches!(
            reason,
            Some(Reason::UnknownTokenBucket | Reason::ArrivedEverMoreSlowly | Reason::TokenBucketNotEmptied)
        )
    }

    /// A fluid path: a bucket of `bucket` bits that fills at `rate`, then a queue of that rate, on a line so fast that
    /// sending takes no time; `cross` uses up part of the rate.
    struct Bucket {
        rate: f64,
        cross: f64,
        bucket: f64,
        line: f64,
        credit: f64,
        now: f64,
    }

    impl Bucket {
        fn new(rate: f64, cross: f64, bucket: f64, line: f64) -> Self {
            Bucket { rate, cross, bucket, line, credit: bucket, now: 0.0 }
        }

        /// Sends a train `wait` from now. Credit below zero is what waits in the queue.
        fn send(&mut self, wait: Span, train: &Train) -> TrainRecord {
            self.send_held_up(wait, train, (0, Span::ZERO))
        }

        /// The same by a host that is held up for so long before the packet at that place, and then catches up.
        fn send_held_up(&mut self, wait: Span, train: &Train, (place, stall): (usize, Span)) -> TrainRecord {
            let start = self.now + wait.as_secs_f64();
            let mut free: f64 = 0.0;
            let packets = train.packets().enumerate().map(|(index, planned)| {
                let late = if index == place { stall.as_secs_f64() } else { 0.0 };
                let at = (start + planned.offset.as_secs_f64() + late).max(free);
                free = at + 5e-6;
                let bits = f64::from(planned.size) * 8.0;
                self.credit = (self.credit + (self.rate - self.cross) * (at - self.now)).min(self.bucket) - bits;
                self.now = at;
                let delay = 0.005 + (bits / self.line).max(-self.credit / self.rate);
                let sent = Time::ZERO + Span::from_secs_f64(at);
                PacketRecord {
                    size: planned.size,
                    sent: Some(sent),
                    submitted: None,
                    received: Some(sent + Span::from_secs_f64(delay)),
                }
            });
            TrainRecord { packets: packets.collect() }
        }
    }

    fn measure(path: impl FnMut(Span, &Train) -> TrainRecord) -> Outcome {
        measure_with(PrimedConfig::default(), Shaping::Unknown, path)
    }

    fn measure_with(
        config: PrimedConfig,
        shaping: Shaping,
        mut path: impl FnMut(Span, &Train) -> TrainRecord,
    ) -> Outcome {
        let mut method = Primed::new(config, &Conditions { shaping, ..Conditions::new(1500) });
        let mut now = Time::ZERO;
        loop {
            match method.next(now) {
                Step::Send { wait, train } => {
                    method.record(&path(wait, &train));
                    now += wait + train.duration() + Span::from_millis(10);
                }
                Step::Done(outcome) => return outcome,
            }
        }
    }

    #[test]
    fn a_fluid_path_is_known_exactly() {
        for (rate, cross) in [(100e6, 0.0), (100e6, 60e6), (5e6, 2e6)] {
            let mut path = Bucket::new(rate, cross, 0.0, 1e10);
            let found = measure(|wait, train| path.send(wait, train)).available.unwrap();
            let error = found.value.as_f64() / (rate - cross) - 1.0;
            assert!(error.abs() < 0.003, "{rate} less {cross}: {found:?}");
        }
    }

    /// Trains before and after a change were taken for trains of one link, whose rate was the median of both: more seemed available than it ever
    /// carried.
    #[test]
    fn what_passed_before_a_link_became_faster_or_slower_says_nothing_of_it() {
        // All arrives, the first train is lost, or one of those before the change arrives as it was sent, which shows no rate.
        for (before, after, spoilt) in [(10e6, 30e6, 0), (30e6, 10e6, 1), (100e6, 150e6, 3)] {
            let (mut path, mut trains) = (Bucket::new(before, before * 0.3, 0.0, 1e10), 0);
            let conditions = Conditions { shaping: Shaping::Unshaped, ..Conditions::new(1500) };
            let mut method = Primed::new(PrimedConfig::default(), &conditions);
            let mut now = Time::ZERO;
            let outcome = loop {
                match method.next(now) {
                    Step::Send { wait, train } => {
                        trains += 1;
                        if trains == 6 {
                            path.rate = after;
                        }
                        let mut record = path.send(wait, &train);
                        for packet in record.packets.iter_mut().filter(|_| trains == spoilt) {
                            packet.received = packet.sent.filter(|_| trains > 1).map(|at| at + Span::from_millis(5));
                        }
                        method.record(&record);
                        now += wait + train.duration() + Span::from_millis(10);
                    }
                    Step::Done(outcome) => break outcome,
                }
            };
            let found = outcome.available.unwrap_or_else(|| panic!("{before}, {after}: {outcome:?}"));
            let left = after - before * 0.3;
            assert!((found.value.as_f64() / left - 1.0).abs() < 0.01, "{before}, {after}: {found:?}");
            let (first, last) = method.value_trains().unwrap();
            assert!(first >= 5 && last > first && last < trains, "{before}, {after}: {first} to {last} of {trains}");
        }
    }

    /// A bucket of so many bits in front of a line of 1 Gbit/s, as found by the capacity probe.
    fn shaper_estimate(rate: f64, bucket: f64) -> Shaper {
        let exact = |value: f64| Estimate {
            value: Rate::from_f64(value),
            low: Rate::from_f64(value * 0.998),
            high: Rate::from_f64(value * 1.002),
            confidence: 0.95,
        };
        let bytes = (bucket / 8.0) as u64;
        let burst_bytes = Estimate { value: bytes, low: bytes, high: bytes, confidence: 0.95 };
        Shaper { peak_rate: Some(exact(1e9)), committed_rate: exact(rate), burst_bytes }
    }

    #[test]
    fn a_token_bucket_that_is_known_is_seen_through() {
        for (rate, cross, bucket) in [(10e6, 2e6, 80e3), (10e6, 0.0, 400e3), (50e6, 20e6, 1.2e6)] {
            let shaping = Shaping::Shaped(shaper_estimate(rate, bucket));
            let mut path = Bucket::new(rate, cross, bucket, 1e9);
            let outcome = measure_with(PrimedConfig::default(), shaping, |wait, train| path.send(wait, train));
            let value = outcome.available.unwrap().value.as_f64();
            assert!((value / (rate - cross) - 1.0).abs() < 0.01, "{rate} less {cross} after {bucket}: {value}");
        }
    }

    #[test]
    fn a_token_bucket_that_is_not_known_is_seen_through_or_named() {
        // A packet pair reads a shaped 10 Mbit/s as the line's 1 Gbit/s; all but the first bucket hold a prime whole.
        for bucket in [80e3, 150e3, 400e3] {
            let mut path = Bucket::new(10e6, 2e6, bucket, 1e9);
            let outcome = measure(|wait, train| path.send(wait, train));
            match outcome.available {
                Some(found) => assert!((found.value.as_f64() / 8e6 - 1.0).abs() < 0.03, "{bucket}: {found:?}"),
                None => assert!(is_of_bucket(outcome.reason.as_ref()), "{bucket}: {:?}", outcome.reason),
            }
        }
    }

    /// On HTB of 2 Gbit/s, whose bucket holds 16 kB, with 600 Mbit/s of cross traffic a bucket of 33 kB was found that fills at
    /// 1.46 Gbit/s: values were 2 % too high, and most intervals did not hold the truth.
    #[test]
    fn two_stalls_are_no_token_bucket_where_none_was_found() {
        let outcome = |shaping| {
            let (mut path, mut trains) = (Bucket::new(100e6, 0.0, 0.0, 1e10), 0);
            measure_with(PrimedConfig { precision: 0.0 }, shaping, |wait, train| {
                trains += 1;
                let mut record = path.send(wait, train);
                // The end of the prime comes in steps of half a millisecond, and all that follows with the last of them.
                for (index, packet) in
                    record.packets.iter_mut().enumerate().skip(4).filter(|_| [6, 9].contains(&trains))
                {
                    packet.received = packet.received.map(|at| at + Span::from_micros(500 * (index.min(7) as i64 - 3)));
                }
                record
            })
        };
        assert!(is_of_bucket(outcome(Shaping::Unknown).reason.as_ref()));
        let found = outcome(Shaping::Unshaped).available.unwrap();
        assert!((found.value.as_f64() / 100e6 - 1.0).abs() < 0.01, "{found:?}");
    }

    /// Beside two busy loops, the start of one train in 24 waited for a host, and its packets came together: a token bucket was named.
    #[test]
    fn packets_that_a_host_held_up_are_no_token_bucket() {
        let (mut path, mut trains) = (Bucket::new(100e6, 30e6, 0.0, 1e10), 0);
        let outcome = measure_with(PrimedConfig { precision: 0.0 }, Shaping::Unknown, |wait, train| {
            trains += 1;
            let mut record = path.send(wait, train);
            let first = record.packets[0].received.unwrap();
            let awake = first + Span::from_micros(if trains == 6 { 400 } else { 0 });
            for (index, packet) in record.packets.iter_mut().enumerate() {
                packet.received = packet.received.map(|at| at.max(awake + Span::from_micros(5 * index as i64)));
            }
            record
        });
        let found = outcome.available.unwrap_or_else(|| panic!("{:?}", outcome.reason));
        assert!((found.value.as_f64() / 70e6 - 1.0).abs() < 0.01, "{found:?}");
    }

    /// Beside two busy loops, a host is held up in every other train for longer than what it has queued takes to pass, and then catches up:
    /// of an idle link of 100 Mbit/s, 83 to 91 seemed available, and the rate that verifies seemed to build a queue.
    #[test]
    fn a_sender_that_is_held_up_leaves_the_value_as_it_is() {
        // Late in every other train; and early in each that verifies, so that most of it makes up for that.
        let late = |trains, count: usize| (count * 2 / 3, Span::from_millis(if trains % 2 == 0 { 3 } else { 0 }));
        let verifying = control::MIN_VERIFICATION_PACKETS as usize;
        let early = |_, count| (count / 6, Span::from_millis(if count == verifying { 4 } else { 0 }));
        for (cross, held_up) in [(0.0, &late as &dyn Fn(u32, usize) -> _), (40e6, &late), (0.0, &early), (40e6, &early)]
        {
            let (mut path, mut trains) = (Bucket::new(100e6, cross, 0.0, 1e10), 0);
            let outcome = measure(|wait, train| {
                trains += 1;
                path.send_held_up(wait, train, held_up(trains, train.packets().count()))
            });
            let found = outcome.available.unwrap();
            assert!((found.value.as_f64() / (100e6 - cross) - 1.0).abs() < 0.01, "{cross}: {found:?}");
            assert!(found.low.as_f64() > 0.9 * (100e6 - cross), "{cross}: {found:?}");
        }
    }

    #[test]
    fn a_path_that_takes_everything_has_no_number() {
        let mut path = Bucket::new(1e12, 0.0, 0.0, 1e12);
        let outcome = measure(|wait, train| path.send(wait, train));
        assert!(outcome.available.is_none());
        let Some(Bound::AtLeast(rate, BoundKind::Sender)) = outcome.bound else { panic!("{outcome:?}") };
        assert!(
            rate > Rate::from_mbit(100)
                && matches!(outcome.reason, Some(Reason::SenderLimited(_) | Reason::SenderHeldUp(..)))
        );
    }

    /// The kernel's HTB of 20 Mbit/s with a queue of two packets: the scout passed at once, and of each train four packets.
    #[test]
    fn a_train_of_which_nearly_nothing_arrives_is_followed_by_slower_ones() {
        let mut path = Bucket::new(20e6, 0.0, 24e3, 1e10);
        let outcome = measure(|wait, train| {
            let start = path.now + wait.as_secs_f64();
            let packets = train.packets().map(|planned| {
                let (at, bits) = (start + planned.offset.as_secs_f64(), f64::from(planned.size) * 8.0);
                let credit = (path.credit + path.rate * (at - path.now)).min(path.bucket);
                let fits = credit - bits > -2.0 * 12e3;
                (path.credit, path.now) = (credit - if fits { bits } else { 0.0 }, at);
                let sent = Time::ZERO + Span::from_secs_f64(at);
                let received = sent + Span::from_secs_f64(0.005 + (-path.credit / path.rate).max(1e-6));
                let received = Some(received).filter(|_| fits);
                PacketRecord { size: planned.size, sent: Some(sent), submitted: None, received }
            });
            TrainRecord { packets: packets.collect() }
        });
        let found = outcome.available.unwrap_or_else(|| panic!("{outcome:?}")).value.as_f64();
        assert!((found / 20e6 - 1.0).abs() < 0.05, "{outcome:?}");
    }

    #[test]
    fn nothing_comes_back() {
        let outcome = measure(|_, train| TrainRecord {
            packets: train
                .packets()
                .map(|p| PacketRecord { size: p.size, sent: None, submitted: None, received: None })
                .collect(),
        });
        assert_eq!(outcome.reason, Some(Reason::NoPacketArrived));
        assert_eq!(outcome.trains_rejected[&Rejection::PacketsMissing], 8);
    }
}
