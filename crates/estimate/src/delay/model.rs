use super::event::{ClockAxes, TransitEvent};
use super::feasible_lines::MAX_SKEW_RATIO;
use super::pieces::{ClockPiece, fit_pieces};
use super::sample::{ClockReference, OneWaySample};
use super::steps;
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Span, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why nothing can be said of the far clock's offset. Documents have its sentence alone, as which it is read again.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
#[non_exhaustive]
pub enum ClockModelError {
    /// No packet arrived at the far end.
    #[error("no packet arrived at the far end with both stamps")]
    NothingUp,
    /// No packet arrived at the near end.
    #[error("no packet arrived at this end with both stamps")]
    NothingDown,
    /// Too many steps would be needed to explain the stamps.
    #[error("the clocks do not run evenly: too many steps would be needed to explain the time stamps")]
    Unsteady,
    /// The sentence of a document that was read.
    #[error("{0}")]
    Other(String),
}

impl From<String> for ClockModelError {
    fn from(words: String) -> Self {
        ClockModelError::Other(words)
    }
}

impl From<ClockModelError> for String {
    fn from(error: ClockModelError) -> Self {
        error.to_string()
    }
}

/// A clock was set during the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// When, by the near clock, to within the time between two packets.
    pub time: Time,
    /// By how much the far clock's offset grew.
    pub size: Span,
}

/// What the offset of the far clock may have been, over the time of a measurement.
///
/// Every bound relies on this: between two steps, the clocks' rates differ by less than 1000 ppm, evenly or not: either may be
/// slewed meanwhile. Where both run evenly, values are more accurate. A step that the delays' own variation hides goes unnoticed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockModel {
    axes: ClockAxes,
    events: Vec<TransitEvent>,
    /// In the order of time; never empty.
    pieces: Vec<ClockPiece>,
    steps: Vec<ClockStep>,
    is_contradicted: bool,
}

/// A packet's delay, and its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct DelayRange {
    /// Tells the times without a step apart.
    pub(super) piece_index: usize,
    /// When it was at the far end, in seconds from the origin.
    pub(super) far_time: f64,
    /// How late it may have been stamped, in seconds.
    pub(super) stamp_lateness: f64,
    /// Most likely, least, greatest, in seconds.
    pub(super) delays: [f64; 3],
    /// What the far clock was most likely ahead then, in seconds.
    pub(super) offset: f64,
}

impl ClockModel {
    /// From samples in the order of their times at the far end, and what is known of the clocks.
    ///
    /// # Errors
    /// No packet arrived in one of the directions, or the clocks run too unevenly.
    pub fn fit(samples: &[OneWaySample], references: &[ClockReference]) -> Result<Self, ClockModelError> {
        let first = |direction| samples.iter().find(|sample| sample.direction == direction);
        let origin = first(Direction::Up).ok_or(ClockModelError::NothingUp)?;
        first(Direction::Down).ok_or(ClockModelError::NothingDown)?;
        let axes = ClockAxes { near_origin: origin.sent, far_origin: origin.received };
        let events: Vec<TransitEvent> = samples.iter().map(|sample| axes.transit_event(sample)).collect();
        let mut cuts = steps::find_steps(&events);
        let pieces = fit_pieces(&events, &mut cuts).ok_or(ClockModelError::Unsteady)?;
        let at = |cut: usize| axes.near_origin + Span::from_secs_f64(events[cut].near_time);
        let size = |cut| Span::from_secs_f64(steps::step_size(&events, cut));
        let steps = cuts.iter().map(|&cut| ClockStep { time: at(cut), size: size(cut) }).collect();
        let mut model = ClockModel { axes, events, pieces, steps, is_contradicted: false };
        references.iter().for_each(|reference| model.narrow_by_reference(reference));
        Ok(model)
    }

    /// How much faster the far clock runs than the near one, as a part (1e-6 is 1 ppm), over the longest time without
    /// a step, if both ran evenly then.
    pub fn skew(&self) -> Estimate<f64> {
        let straight = self.longest_piece().straight_lines.as_ref();
        let known = straight.map(|(lines, (_, slope))| (*slope, lines.slope_range()));
        let (value, (low, high)) = known.unwrap_or((0.0, (-MAX_SKEW_RATIO, MAX_SKEW_RATIO)));
        Estimate { value, low, high, confidence: 1.0 }
    }

    /// What the far clock is ahead of the near one in the middle of the longest time without a step.
    pub fn offset(&self) -> Estimate<Span> {
        let piece = self.longest_piece();
        let middle = self.events[piece.events.start.midpoint(piece.events.end)].far_time;
        let [value, low, high] = piece
            .offset_at(middle)
            .map(|beyond| (self.axes.far_origin - self.axes.near_origin) + Span::from_secs_f64(beyond));
        Estimate { value, low, high, confidence: 1.0 }
    }

    /// The steps that a clock made meanwhile.
    pub fn steps(&self) -> &[ClockStep] {
        &self.steps
    }

    /// Whether a reference could not be true, given the packets; it was left out then.
    pub fn is_contradicted(&self) -> bool {
        self.is_contradicted
    }

    /// Those packets of one direction that `choose` takes, by their places in what the model was made from. Packets around a
    /// step have no place.
    pub(super) fn delay_ranges(&self, direction: Direction, choose: impl Fn(usize) -> bool) -> Vec<DelayRange> {
        let of = |piece: &ClockPiece| {
            let chosen =
                piece.events.clone().filter(|&place| self.events[place].direction == direction && choose(place));
            let placed = chosen.map(|place| {
                let event = self.events[place];
                let [likely, low, high] = piece.offset_at(event.far_time);
                let ((far, most), late) = (event.upper_limit(), event.stamp_lateness);
                let [_, earliest, latest] = piece.offset_at(far);
                let delays = match direction {
                    Direction::Up => [event.delay - likely, event.delay - high, most - earliest],
                    Direction::Down => [event.delay + likely, event.delay + low, most + latest],
                };
                DelayRange {
                    piece_index: piece.events.start,
                    far_time: event.far_time,
                    offset: likely,
                    stamp_lateness: late,
                    delays,
                }
            });
            placed.collect::<Vec<_>>()
        };
        self.pieces.iter().flat_map(of).collect()
    }

    fn longest_piece(&self) -> &ClockPiece {
        // There is always one; the first stands in for a proof.
        self.pieces.iter().max_by_key(|piece| piece.events.len()).unwrap_or(&self.pieces[0])
    }

    fn narrow_by_reference(&mut self, reference: &ClockReference) {
        let moment = (reference.time - self.axes.near_origin).as_secs_f64();
        let base = self.axes.far_origin - self.axes.near_origin;
        let [low, high] = [reference.low, reference.high].map(|offset| (offset - base).as_secs_f64());
        let starts = |piece: &ClockPiece| self.events[piece.events.start].near_time;
        let last = self.pieces.iter().rposition(|piece| starts(piece) <= moment).unwrap_or(0);
        self.is_contradicted |= !self.pieces[last].narrow_at(moment, low, high);
    }
}
