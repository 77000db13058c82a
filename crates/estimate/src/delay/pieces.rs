//! What the offset may have been between two steps of a clock.

use super::event::TransitEvent;
use super::feasible_lines::{FeasibleLines, MAX_SKEW_RATIO};
use super::lines::LineSet;
use super::steps;
use kumade_probe_train::fit::lower_hull;
use kumade_units::Direction;
use std::ops::Range;

/// Where more pieces than this would be needed, nothing is said of the clocks.
const MAX_PIECES: usize = 16;

/// Of a hull with more corners than this some are left out: a bound on the work that forged stamps can cause.
const MAX_HULL_CORNERS: usize = 256;

/// The events between two steps, without those that may belong beyond either.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClockPiece {
    pub(super) events: Range<usize>,
    /// Every course that the offset may have taken.
    pub(super) feasible_lines: FeasibleLines,
    /// The straight ones, and the likeliest of them, under which packets left when they were stamped if that can be: its height
    /// and slope. None if there is none.
    pub(super) straight_lines: Option<(LineSet, (f64, f64))>,
}

impl ClockPiece {
    /// Most likely, least, greatest.
    pub(super) fn offset_at(&self, far: f64) -> [f64; 3] {
        let (low, high) = self.feasible_lines.range_at(far);
        let likely = self.straight_lines.as_ref().map(|(_, (height, slope))| height + slope * far);
        [likely.unwrap_or(low.midpoint(high)).clamp(low, high), low, high]
    }

    /// Leaves those courses that the bounds at this moment allow. Returns whether there are any; if not, nothing changes.
    pub(super) fn narrow_at(&mut self, moment: f64, low: f64, high: f64) -> bool {
        // What the far clock shows then depends on its offset, too: between the two it changes by less than the clocks differ.
        let shown = moment + low.midpoint(high);
        let slack = (high - low) / 2.0 * MAX_SKEW_RATIO;
        let Some(courses) = self.feasible_lines.through_range(shown, low - slack, high + slack) else { return false };
        self.feasible_lines = courses;
        self.straight_lines = self.straight_lines.take().and_then(|(lines, (_, slope))| {
            let lines = lines.below_point((moment + high, high))?.above_point((moment + low, low))?;
            let likely = lines.middle_line(slope);
            Some((lines, likely))
        });
        true
    }
}

/// Fits each piece between the cuts, and cuts further where no line passes between the packets of both directions; none
/// where too many cuts would be needed.
pub(super) fn fit_pieces(events: &[TransitEvent], cuts: &mut Vec<usize>) -> Option<Vec<ClockPiece>> {
    loop {
        let mut pieces = Vec::new();
        let mut further = None;
        for range in cut_ranges(cuts, events.len()) {
            let range = steps::certain_range(events, range);
            match fit_piece(range.clone(), events) {
                Some(piece) => pieces.push(piece),
                None if has_both_directions(&events[range.clone()]) => {
                    further = Some(range.start + longest_fitting_events(&events[range]))
                }
                // Too little is left between two steps: nothing is said of it.
                None => {}
            }
        }
        match further {
            None if pieces.is_empty() => return None,
            None => return Some(pieces),
            Some(cut) if cuts.len() + 1 >= MAX_PIECES || cuts.contains(&cut) => return None,
            Some(cut) => cuts.push(cut),
        }
        cuts.sort_unstable();
    }
}

fn cut_ranges(cuts: &[usize], end: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    starts.zip(cuts.iter().copied().chain(std::iter::once(end))).map(|(from, to)| from..to)
}

fn has_both_directions(events: &[TransitEvent]) -> bool {
    Direction::BOTH.iter().all(|direction| events.iter().any(|event| event.direction == *direction))
}

/// How many of the events, from the first, still have a line between both directions; at least one, and not all.
fn longest_fitting_events(events: &[TransitEvent]) -> usize {
    let fails_with = |count: usize| has_both_directions(&events[..count]) && fit_piece(0..count, events).is_none();
    let (mut fits, mut fails) = (1, events.len());
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        if fails_with(middle) { fails = middle } else { fits = middle }
    }
    fits
}

/// The courses of the offset under which no packet is early; none where there is none, or packets went in one direction only.
fn fit_piece(events: Range<usize>, all: &[TransitEvent]) -> Option<ClockPiece> {
    let within = &all[events.clone()];
    if !has_both_directions(within) {
        return None;
    }
    let latest =
        |direction| within.iter().filter(move |event| event.direction == direction).map(TransitEvent::upper_limit);
    let courses = FeasibleLines::between_points(
        latest(Direction::Up).collect(),
        latest(Direction::Down).map(|(far, most)| (far, -most)),
    )?;
    let stamped = DelayHulls::from_events(within, |event| (event.far_time, event.delay));
    let straight = DelayHulls::from_events(within, TransitEvent::upper_limit).lines().map(|lines| {
        let likely = stamped.lines().as_ref().unwrap_or(&lines).middle_line(stamped.widest_gap());
        (lines, likely)
    });
    Some(ClockPiece { events, feasible_lines: courses, straight_lines: straight })
}

/// The least delays of both directions over time.
struct DelayHulls {
    forward: Vec<(f64, f64)>,
    backward: Vec<(f64, f64)>,
}

impl DelayHulls {
    /// Of these points of the events: the time at the far end, and the delay.
    fn from_events(events: &[TransitEvent], point: impl Fn(&TransitEvent) -> (f64, f64)) -> Self {
        let hull = |direction: Direction| {
            let mut points: Vec<_> = events.iter().filter(|e| e.direction == direction).map(&point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let corners = lower_hull(points);
            let step = corners.len().div_ceil(MAX_HULL_CORNERS).max(1);
            corners.into_iter().step_by(step).collect::<Vec<_>>()
        };
        DelayHulls { forward: hull(Direction::Up), backward: hull(Direction::Down) }
    }

    /// All that pass between both.
    fn lines(&self) -> Option<LineSet> {
        let DelayHulls { forward, backward } = self;
        let reach =
            forward.iter().chain(backward).map(|&(x, y)| y.abs() + MAX_SKEW_RATIO * x.abs()).fold(1.0, f64::max);
        let mut lines = LineSet::between_offsets(-2.0 * reach, 2.0 * reach);
        for &corner in forward {
            lines = lines.below_point(corner)?;
        }
        for &(far, delay) in backward {
            lines = lines.above_point((far, -delay))?;
        }
        Some(lines)
    }

    /// The slope at which the least delays of both directions together are greatest: the sum is concave in the slope.
    fn widest_gap(&self) -> f64 {
        let least =
            |hull: &[(f64, f64)], slope: f64| hull.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min);
        let gap = |slope: f64| least(&self.forward, slope) + least(&self.backward, -slope);
        let (mut low, mut high) = (-MAX_SKEW_RATIO, MAX_SKEW_RATIO);
        for _ in 0..60 {
            let third = (high - low) / 3.0;
            if gap(low + third) < gap(high - third) { low += third } else { high -= third }
        }
        low.midpoint(high)
    }
}
