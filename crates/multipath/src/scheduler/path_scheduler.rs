//! When a flow uses several paths, and which.

use crate::path::id::PathId;
use kumade_units::{Span, Time};
use std::iter;

/// What a decision has to know of a path that is up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathEstimate {
    /// Which path.
    pub path: PathId,
    /// Bits per second that it carries.
    pub rate: f64,
    /// One-way delay while it is empty, plus any offset that is the same for all paths.
    pub delay: Span,
    /// Round-trip time.
    pub round_trip: Span,
    /// Ratio of packets that are lost whatever the rate.
    pub loss_ratio: f64,
}

/// A set of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathSet(u16);

/// Decides which paths long flows use together, and from which size on a flow is long.
///
/// **Rule.** With resequencing, a flow over several paths has the sum of their rates, the longest of their delays, the
/// mean of their losses by what it sends over each (over those that lose more only what the others do not carry), and
/// acknowledgements that come back by the path with the least delay. What a TCP flow (CUBIC) makes of that is the lesser of
///
/// - the sum of the rates, less what its sawtooth leaves unused behind a short queue: at most 7.5 %, nothing where the round
///   trip is short against the queue; and
/// - its window at this loss, 1.22/√p or 1.05·(RTT/p)^¾ segments (RFC 9438), in each round trip, times the number of long flows.
///
/// The set begins with the path where this is most, and grows by the path that adds most, as long as one adds
/// 2 %, and is given up when it does not. So a path that is slow, long or lossy against the others is left out where it would cost more than it
/// brings, and long flows are never slower than on the better path alone. The set is changed where that
/// gains 5 % for 1.5 s, and at once when a path comes or goes.
///
/// A flow uses this set from the size on at which it ends sooner so than on the path with the least delay: at `S` bytes with
/// `S/R + Σ rᵢdᵢ/R = S/r + d`, if `R` is the sum of the rates `rᵢ` of paths with delays `dᵢ` and `r`, `d` are that
/// path's; and never before 32 kB. What a flow has sent so far is the best guess at what it has yet to send (flow sizes are
/// heavy-tailed). Bytes are forgotten at a quarter of what one flow is expected to get of its path alone (of the path with
/// the least delay, if it uses several): a flow that sends no faster needs no other path, however long it lasts.
///
/// A path that has never been full is taken for one that carries far more than it has so far: long flows do not
/// leave a path for one that is longer or lossy before they have reached its limit, and an unknown path is tried.
#[derive(Debug, Clone)]
pub struct PathScheduler {
    selected: PathSet,
    paths_up: PathSet,
    min_long_flow_bytes: f64,
    /// Bytes per second that a flow on each path may send without being a long one.
    leak_bytes_per_second: [f64; PathId::MAX_PATHS],
    /// The path with the least delay.
    least_delay_path: Option<PathId>,
    /// Another set has been better since then.
    better_since: Option<Time>,
}

const SEGMENT_BITS: f64 = 1448.0 * 8.0;
/// How long packets of long flows wait in our queue, about.
const BOTTLENECK_QUEUE_SECONDS: f64 = 0.01;
const MIN_LONG_FLOW_BYTES: f64 = 32e3;
const MIN_ROUND_TRIP_SECONDS: f64 = 1e-4;
const FORGOTTEN_SHARE: f64 = 0.25;
const MIN_ADDED_RATIO: f64 = 1.02;
const MIN_GAIN_RATIO: f64 = 1.05;
const BISECTIONS: u32 = 30;
const MIN_BETTER_PERIOD: Span = Span::from_millis(1500);

impl PathSet {
    /// The set of these paths.
    pub fn from_paths(paths: impl IntoIterator<Item = PathId>) -> Self {
        PathSet(paths.into_iter().fold(0, |bits, path| bits | 1 << path.index()))
    }

    /// Whether a path is in it.
    pub fn contains(self, path: PathId) -> bool {
        self.0 >> path.index() & 1 == 1
    }

    /// This set and another path.
    pub fn with_path(self, path: PathId) -> Self {
        PathSet(self.0 | 1 << path.index())
    }

    /// How many paths it has.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its paths in order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = PathId> {
        let mut bits = self.0;
        iter::from_fn(move || {
            let path = PathId::new(bits.trailing_zeros() as u8)?;
            bits &= bits - 1;
            Some(path)
        })
    }
}

impl Default for PathScheduler {
    fn default() -> Self {
        PathScheduler {
            selected: PathSet::default(),
            paths_up: PathSet::default(),
            min_long_flow_bytes: f64::MAX,
            leak_bytes_per_second: [0.0; PathId::MAX_PATHS],
            least_delay_path: None,
            better_since: None,
        }
    }
}

impl PathScheduler {
    /// The paths that long flows use together; empty while none is up.
    pub fn paths(&self) -> PathSet {
        self.selected
    }

    /// Whether a flow is a long one, by the bytes that it has sent and that are not forgotten ([`PathScheduler::forgotten_bytes`]).
    pub fn is_long_flow(&self, bytes: f64) -> bool {
        bytes > self.min_long_flow_bytes
    }

    /// How many of the bytes of a flow on this path, or on several, are forgotten in a time.
    pub fn forgotten_bytes(&self, path: Option<PathId>, time: Span) -> f64 {
        path.or(self.least_delay_path).map_or(0.0, |path| self.leak_bytes_per_second[path.index()] * time.as_secs_f64())
    }

    /// Decides anew, for so many long flows. `paths` are those that are up.
    pub fn update(&mut self, paths: &[PathEstimate], flows: u32, now: Time) {
        let up = PathSet::from_paths(paths.iter().map(|estimate| estimate.path));
        let same = std::mem::replace(&mut self.paths_up, up) == up;
        let best = best_path_set(paths, flows);
        let [after, before] = [best, self.selected].map(|set| expected_rate(paths, set, flows));
        // A path that brings nothing is not kept either.
        let better =
            after > MIN_GAIN_RATIO * before || (best.len() < self.selected.len() && after * MIN_ADDED_RATIO >= before);
        self.better_since = if better { self.better_since.or(Some(now)) } else { None };
        let lasting = self.better_since.is_some_and(|since| now - since >= MIN_BETTER_PERIOD);
        if lasting || !same {
            self.selected = best;
            self.better_since = None;
        }
        self.min_long_flow_bytes = min_long_flow_bytes(paths, self.selected);
        self.least_delay_path = paths.iter().min_by_key(|estimate| estimate.delay).map(|first| first.path);
        for PathEstimate { path, .. } in paths {
            self.leak_bytes_per_second[path.index()] =
                expected_rate(paths, PathSet::from_paths([*path]), 1) / 8.0 * FORGOTTEN_SHARE;
        }
    }
}

/// The set of paths by which so many long flows are expected to get most.
pub fn best_path_set(paths: &[PathEstimate], flows: u32) -> PathSet {
    let mut set = PathSet::default();
    let mut rate = 0.0;
    loop {
        let others = paths.iter().filter(|estimate| !set.contains(estimate.path));
        let grown = others
            .map(|estimate| (expected_rate(paths, set.with_path(estimate.path), flows), set.with_path(estimate.path)));
        match grown.max_by(|one, other| one.0.total_cmp(&other.0)) {
            Some((more, grown)) if more > rate * MIN_ADDED_RATIO => (rate, set) = (more, grown),
            _ => return set,
        }
    }
}

/// Bits per second that so many long flows are expected to get by these paths together.
pub fn expected_rate(paths: &[PathEstimate], set: PathSet, flows: u32) -> f64 {
    let used = || paths.iter().filter(|estimate| set.contains(estimate.path));
    let sum: f64 = used().map(|estimate| estimate.rate).sum();
    if sum <= 0.0 {
        return 0.0;
    }
    let flows = f64::from(flows.max(1));
    let round_trip = flow_round_trip_seconds(paths, used().map(|estimate| estimate.delay).max().unwrap_or_default());
    let unused = (1.0 - 0.925 * (1.0 + BOTTLENECK_QUEUE_SECONDS / round_trip)).max(0.0) / flows;
    let mut by_loss: Vec<&PathEstimate> = used().collect();
    by_loss.sort_by(|one, other| one.loss_ratio.total_cmp(&other.loss_ratio));
    let window_rate =
        |rate| flows * window_segments(loss_at_rate(&by_loss, rate, unused), round_trip) * SEGMENT_BITS / round_trip;
    // The more is sent, the more of it goes over the paths that lose more.
    let (mut low, mut high) = (0.0, sum * (1.0 - unused));
    if window_rate(high) >= high {
        return high;
    }
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if window_rate(middle) >= middle { low = middle } else { high = middle }
    }
    low
}

/// The ratio of packets that are lost at this rate, where each path is used as soon as those that lose less are full but
/// for what is left unused.
fn loss_at_rate(by_loss: &[&PathEstimate], rate: f64, unused: f64) -> f64 {
    let (mut left, mut lost) = (rate, 0.0);
    for estimate in by_loss {
        let taken = left.min(estimate.rate * (1.0 - unused));
        lost += taken * estimate.loss_ratio;
        left -= taken;
    }
    lost / rate.max(1.0)
}

/// Segments that a CUBIC flow has under way at this loss (RFC 9438).
fn window_segments(loss: f64, round_trip: f64) -> f64 {
    let loss = loss.max(1e-7);
    (1.22 / loss.sqrt()).max(1.054 * (round_trip / loss).powf(0.75))
}

/// Seconds from a packet that takes so long to its acknowledgement, by the path with the least delay.
fn flow_round_trip_seconds(paths: &[PathEstimate], delay: Span) -> f64 {
    let Some(first) = paths.iter().min_by_key(|estimate| estimate.delay) else { return MIN_ROUND_TRIP_SECONDS };
    (first.round_trip + (delay - first.delay)).as_secs_f64().max(MIN_ROUND_TRIP_SECONDS)
}

/// From which size on a flow ends sooner over these paths than over the one with the least delay.
fn min_long_flow_bytes(paths: &[PathEstimate], set: PathSet) -> f64 {
    let Some(first) = paths.iter().min_by_key(|estimate| estimate.delay) else { return f64::MAX };
    let used = || paths.iter().filter(|estimate| set.contains(estimate.path));
    let sum: f64 = used().map(|estimate| estimate.rate).sum();
    if sum <= first.rate {
        return if set == PathSet::from_paths([first.path]) { MIN_LONG_FLOW_BYTES } else { f64::MAX };
    }
    let later: f64 = used().map(|estimate| estimate.rate * (estimate.delay - first.delay).as_secs_f64()).sum();
    MIN_LONG_FLOW_BYTES.max(later / sum / (1.0 / first.rate - 1.0 / sum) / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rate in Mbit/s, one-way delay in ms, loss.
    fn estimates(paths: &[(f64, f64, f64)]) -> Vec<PathEstimate> {
        let ids = PathId::all();
        let estimate = |(path, (mbit, millis, loss)): (PathId, &(f64, f64, f64))| {
            let delay = Span::from_secs_f64(millis / 1e3);
            PathEstimate { path, rate: mbit * 1e6, delay, round_trip: delay * 2, loss_ratio: *loss }
        };
        ids.zip(paths).map(estimate).collect()
    }

    fn chosen(paths: &[(f64, f64, f64)], flows: u32) -> Vec<u8> {
        best_path_set(&estimates(paths), flows).iter().map(PathId::number).collect()
    }

    #[test]
    fn a_path_that_costs_more_than_it_brings_is_left_out() {
        assert_eq!(chosen(&[(8.0, 0.0, 0.0), (8.0, 25.0, 0.0)], 1), [0, 1]);
        assert_eq!(chosen(&[(100.0, 10.0, 0.0), (100.0, 35.0, 0.0)], 1), [0, 1]);
        assert_eq!(chosen(&[(200.0, 1.0, 0.0), (2.0, 80.0, 0.0)], 1), [0], "1 % more, at 80 times the round trip");
        assert_eq!(chosen(&[(100.0, 20.0, 0.0), (50.0, 20.0, 0.005)], 1), [0], "its losses slow the whole flow");
        assert_eq!(chosen(&[(100.0, 20.0, 0.0), (50.0, 20.0, 0.005)], 30), [0, 1], "many flows bear that");
        assert_eq!(chosen(&[(2.0, 1.0, 0.0), (200.0, 30.0, 0.0)], 1), [1]);
        assert!(chosen(&[], 1).is_empty());
    }

    #[test]
    fn a_flow_is_long_when_it_ends_sooner_over_several_paths() {
        let mut several = PathScheduler::default();
        several.update(&estimates(&[(8.0, 1.0, 0.0), (8.0, 26.0, 0.0)]), 1, Time::ZERO);
        // 8 Mbit/s carry 25 kB in the 25 ms by which the other path is longer.
        assert!(!several.is_long_flow(31e3) && several.is_long_flow(33e3));
        several.update(&estimates(&[(8.0, 1.0, 0.0), (8.0, 81.0, 0.0)]), 1, Time::ZERO);
        assert!(!several.is_long_flow(79e3) && several.is_long_flow(81e3));
        let forgotten = several.forgotten_bytes(None, Span::from_secs(1));
        assert!((230e3..=250e3).contains(&forgotten), "{forgotten}");
        several.update(&estimates(&[(100.0, 20.0, 0.0), (100.0, 25.0, 0.01)]), 1, Time::ZERO);
        let [first, lossy] = [0, 1].map(|path| several.forgotten_bytes(PathId::new(path), Span::from_secs(1)));
        assert!(lossy < first / 10.0, "a slow flow on a lossy path is slow because of that");
    }

    #[test]
    fn the_set_changes_when_that_lasts_and_at_once_when_a_path_goes() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut several = PathScheduler::default();
        let good = estimates(&[(50.0, 10.0, 0.0), (50.0, 10.0, 0.0)]);
        let lossy = estimates(&[(50.0, 10.0, 0.0), (50.0, 60.0, 0.01)]);
        several.update(&good, 1, at(0));
        assert_eq!(several.paths().len(), 2);
        several.update(&lossy, 1, at(250));
        several.update(&good, 1, at(500));
        several.update(&lossy, 1, at(750));
        several.update(&lossy, 1, at(2000));
        assert_eq!(several.paths().len(), 2);
        several.update(&lossy, 1, at(2250));
        assert_eq!(several.paths().len(), 1);
        several.update(&good[1..], 1, at(2300));
        assert_eq!(several.paths(), PathSet::from_paths([good[1].path]));
        several.update(&[], 1, at(2400));
        assert!(several.paths().is_empty() && !several.is_long_flow(1e9));
    }

    proptest! {
        #[test]
        fn what_is_expected_of_the_set_is_never_less_than_of_a_path_alone(
            paths in prop::collection::vec((0.1f64..1000.0, 0.0f64..200.0, 0.0f64..0.02), 1..6),
            flows in 1u32..20,
        ) {
            let paths = estimates(&paths);
            let rate = expected_rate(&paths, best_path_set(&paths, flows), flows);
            for path in &paths {
                prop_assert!(rate >= expected_rate(&paths, PathSet::from_paths([path.path]), flows));
            }
        }
    }
}
