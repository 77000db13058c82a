use super::lines::{Lines, MOST_SKEW};
use super::steps;
use super::{Crossing, Reference, Way};
use crate::fit::lower_hull;
use std::ops::Range;
use thiserror::Error;
use train::Estimate;
use units::{Span, Time};

/// More pieces than this between steps, and nothing can be said of the clocks.
const MOST_PIECES: usize = 16;

/// Of a hull with more corners than this some are passed over: that only leaves wider bounds, and a peer that makes its
/// stamps up does not cost more than this.
const MOST_CORNERS: usize = 256;

/// Why nothing can be said of the far clock's offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoModel {
    /// No packet came to the far end.
    #[error("no packet arrived at the far end with both stamps")]
    NothingForward,
    /// No packet came back.
    #[error("no packet arrived at this end with both stamps")]
    NothingBackward,
    /// No few steps explain the stamps.
    #[error("the clocks do not run evenly: no few steps explain the stamps")]
    Unsteady,
}

/// A clock was set in the middle of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// When, by the near clock; as exact as the packets are close.
    pub at: Time,
    /// By how much the far clock is further ahead of the near one than before.
    pub size: Span,
}

/// What the far clock may be ahead of the near one, over the time of a measurement.
///
/// Every bound relies on this: between two steps, both clocks run evenly, and their rates differ by less than 1000 ppm.
/// A step that the delays' own variation hides goes unnoticed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockModel {
    axes: Axes,
    events: Vec<Event>,
    /// In the order of time; never empty.
    pieces: Vec<Piece>,
    steps: Vec<ClockStep>,
    contradicted: bool,
}

/// From stamps to small numbers: seconds since the first packet, and seconds of offset beyond what the first packet
/// shows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axes {
    near: Time,
    far: Time,
}

/// The events between two steps, without those that may belong beyond either.
#[derive(Debug, Clone, PartialEq)]
struct Piece {
    events: Range<usize>,
    lines: Lines,
    /// The most likely course: its height and slope.
    likely: (f64, f64),
}

/// A packet's stamps on the axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Event {
    pub(super) way: Way,
    /// When it was at the near end, by the near clock.
    pub(super) near: f64,
    /// When it was at the far end, by the far clock.
    pub(super) far: f64,
    /// The delay, and the offset: added forward, taken off backward.
    pub(super) delay: f64,
}

impl ClockModel {
    /// From packets in the order in which they were at the far end (or were sent there), and what is known of the
    /// clocks.
    ///
    /// # Errors
    /// Where no packet went one of the ways, or the clocks run too unevenly.
    pub fn fit(crossings: &[Crossing], references: &[Reference]) -> Result<Self, NoModel> {
        let first = |way| crossings.iter().find(|crossing| crossing.way == way);
        let origin = first(Way::Forward).ok_or(NoModel::NothingForward)?;
        first(Way::Backward).ok_or(NoModel::NothingBackward)?;
        let axes = Axes { near: origin.sent, far: origin.received };
        let events: Vec<Event> = crossings.iter().map(|crossing| axes.event(crossing)).collect();
        let mut cuts = steps::find(&events);
        let pieces = pieces(&events, &mut cuts)?;
        let at = |cut: usize| axes.near + Span::from_secs_f64(events[cut].near);
        let size = |cut| Span::from_secs_f64(steps::size(&events, cut));
        let steps = cuts.iter().map(|&cut| ClockStep { at: at(cut), size: size(cut) }).collect();
        let mut model = ClockModel { axes, events, pieces, steps, contradicted: false };
        references.iter().for_each(|reference| model.narrow(reference));
        Ok(model)
    }

    /// How much faster the far clock runs than the near one, as a part (1e-6 is 1 ppm), over the longest time without
    /// a step.
    pub fn skew(&self) -> Estimate<f64> {
        let piece = self.longest();
        let (low, high) = piece.lines.slopes();
        Estimate { value: piece.likely.1, low, high, confidence: 1.0 }
    }

    /// What the far clock is ahead of the near one in the middle of the longest time without a step.
    pub fn offset(&self) -> Estimate<Span> {
        let piece = self.longest();
        let middle = self.events[piece.events.start.midpoint(piece.events.end)].far;
        let [value, low, high] =
            piece.offset_at(middle).map(|beyond| (self.axes.far - self.axes.near) + Span::from_secs_f64(beyond));
        Estimate { value, low, high, confidence: 1.0 }
    }

    /// The steps that a clock made meanwhile.
    pub fn steps(&self) -> &[ClockStep] {
        &self.steps
    }

    /// Whether a reference could not be true, given the packets; it was left out then.
    pub fn is_contradicted(&self) -> bool {
        self.contradicted
    }

    /// The delays of those packets of one way that `choose` takes, by their places in what the model was made from:
    /// most likely, least, most, in seconds. Packets around a step have none.
    pub(super) fn each(&self, way: Way, choose: impl Fn(usize) -> bool) -> Vec<[f64; 3]> {
        let within = self.pieces.iter().flat_map(|piece| piece.events.clone().map(move |place| (piece, place)));
        let chosen = within.filter(|&(_, place)| self.events[place].way == way && choose(place));
        let delay = |(piece, place): (&Piece, usize)| {
            let event = self.events[place];
            let [likely, low, high] = piece.offset_at(event.far);
            match way {
                Way::Forward => [event.delay - likely, event.delay - high, event.delay - low],
                Way::Backward => [event.delay + likely, event.delay + low, event.delay + high],
            }
        };
        chosen.map(delay).collect()
    }

    fn longest(&self) -> &Piece {
        // There is always one; the first stands in for a proof.
        self.pieces.iter().max_by_key(|piece| piece.events.len()).unwrap_or(&self.pieces[0])
    }

    fn narrow(&mut self, reference: &Reference) {
        let moment = (reference.at - self.axes.near).as_secs_f64();
        let base = self.axes.far - self.axes.near;
        let [low, high] = [reference.low, reference.high].map(|offset| (offset - base).as_secs_f64());
        let starts = |piece: &Piece| self.events[piece.events.start].near;
        let last = self.pieces.iter().rposition(|piece| starts(piece) <= moment).unwrap_or(0);
        let piece = &mut self.pieces[last];
        // What the far clock shows then depends on its offset, too.
        match piece.lines.below((moment + high, high)).and_then(|lines| lines.above((moment + low, low))) {
            Some(lines) => {
                piece.likely = lines.middle(piece.likely.1);
                piece.lines = lines;
            }
            None => self.contradicted = true,
        }
    }
}

impl Piece {
    /// Most likely, least, greatest.
    fn offset_at(&self, far: f64) -> [f64; 3] {
        let (low, high) = self.lines.range_at(far);
        [(self.likely.0 + self.likely.1 * far).clamp(low, high), low, high]
    }
}

impl Axes {
    fn event(&self, crossing: &Crossing) -> Event {
        let (near, far) = match crossing.way {
            Way::Forward => (crossing.sent, crossing.received),
            Way::Backward => (crossing.received, crossing.sent),
        };
        let (near, far) = (near - self.near, far - self.far);
        let delay = if crossing.way == Way::Forward { far - near } else { near - far };
        Event { way: crossing.way, near: near.as_secs_f64(), far: far.as_secs_f64(), delay: delay.as_secs_f64() }
    }
}

/// Fits each piece between the cuts, and cuts further where no line passes between the packets of both ways.
fn pieces(events: &[Event], cuts: &mut Vec<usize>) -> Result<Vec<Piece>, NoModel> {
    loop {
        let mut pieces = Vec::new();
        let mut further = None;
        for range in ranges(cuts, events.len()) {
            let range = steps::certain(events, range);
            match fit(&events[range.clone()]) {
                Some((lines, likely)) => pieces.push(Piece { events: range, lines, likely }),
                None if has_both_ways(&events[range.clone()]) => {
                    further = Some(range.start + longest_fit(&events[range]))
                }
                // Too little is left between two steps: nothing is said of it.
                None => {}
            }
        }
        match further {
            None if pieces.is_empty() => return Err(NoModel::Unsteady),
            None => return Ok(pieces),
            Some(cut) if cuts.len() + 1 >= MOST_PIECES || cuts.contains(&cut) => return Err(NoModel::Unsteady),
            Some(cut) => cuts.push(cut),
        }
        cuts.sort_unstable();
    }
}

fn ranges(cuts: &[usize], end: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    starts.zip(cuts.iter().copied().chain(std::iter::once(end))).map(|(from, to)| from..to)
}

fn has_both_ways(events: &[Event]) -> bool {
    [Way::Forward, Way::Backward].iter().all(|way| events.iter().any(|event| event.way == *way))
}

/// How many of the events, from the first, still have a line between both ways; at least one, and not all.
fn longest_fit(events: &[Event]) -> usize {
    let fails_with = |count: usize| has_both_ways(&events[..count]) && fit(&events[..count]).is_none();
    let (mut fits, mut fails) = (1, events.len());
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        if fails_with(middle) { fails = middle } else { fits = middle }
    }
    fits
}

/// The courses of the offset under which no packet is early, and the most likely of them; none where there is none, or
/// packets went one way only.
fn fit(events: &[Event]) -> Option<(Lines, (f64, f64))> {
    if !has_both_ways(events) {
        return None;
    }
    let hull = |way: Way| {
        let mut points: Vec<_> = events.iter().filter(|e| e.way == way).map(|e| (e.far, e.delay)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let corners = lower_hull(points);
        let step = corners.len().div_ceil(MOST_CORNERS).max(1);
        corners.into_iter().step_by(step).collect::<Vec<_>>()
    };
    let (forward, backward) = (hull(Way::Forward), hull(Way::Backward));
    let reach = forward.iter().chain(&backward).map(|&(x, y)| y.abs() + MOST_SKEW * x.abs()).fold(1.0, f64::max);
    let mut lines = Lines::between(-2.0 * reach, 2.0 * reach);
    for &corner in &forward {
        lines = lines.below(corner)?;
    }
    for &(far, delay) in &backward {
        lines = lines.above((far, -delay))?;
    }
    let likely = lines.middle(widest_gap(&forward, &backward));
    Some((lines, likely))
}

/// The slope at which the least delays of both ways together are greatest: the sum is concave in the slope.
fn widest_gap(forward: &[(f64, f64)], backward: &[(f64, f64)]) -> f64 {
    let least = |hull: &[(f64, f64)], slope: f64| hull.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min);
    let gap = |slope: f64| least(forward, slope) + least(backward, -slope);
    let (mut low, mut high) = (-MOST_SKEW, MOST_SKEW);
    for _ in 0..60 {
        let third = (high - low) / 3.0;
        if gap(low + third) < gap(high - third) { low += third } else { high -= third }
    }
    low.midpoint(high)
}
