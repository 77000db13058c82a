//! What one train says: rates of sending and of arrival while its packets waited in the queue all the time.

use crate::passage::Passage;

/// Packets of a turn arrive within this part of the mean time between two arrivals.
const MAX_GAP_PART: f64 = 0.2;
/// The first turns may have found the link idle.
const SKIPPED_TURNS: usize = 2;
/// Fewer turns tell nothing.
const MIN_TURNS: usize = 4;
/// Of a part of a train, so many steps from turn to turn tell of its rate, which is then averaged over trains.
const MIN_PART_STEPS: usize = 2;
/// From where on more of a train is lost than this part of it and a packet, the queue has overflowed.
const MAX_LOST_PART: f64 = 0.01;

/// A part of a train that always waited, from the last packet of one turn to the last packet of a later one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    /// Its bits.
    pub(super) bits: f64,
    /// How long it took to be sent, in seconds …
    pub(super) sent: f64,
    /// … and to arrive.
    pub(super) arrived: f64,
}

/// What one train says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// All of it that always waited.
    pub(super) whole: Part,
    /// The fast part and the slow one; none where one of them is too short.
    pub(super) parts: Option<(Part, Part)>,
    /// From one turn to the next, in seconds.
    pub(super) turn: f64,
    /// The halves of the slow part; none where it is too short.
    pub(super) halves: Option<(Part, Part)>,
}

/// Why there is no reading of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// Packets did not wait, or not for long.
    Empty,
    /// Too much was lost.
    Lost,
}

/// Packets that arrived together.
#[derive(Debug, Clone, Copy)]
struct Turn {
    bits: f64,
    /// When the last of them was sent.
    sent: f64,
    /// When the first of them arrived.
    arrived: f64,
}

impl Part {
    /// The rate of arrival in bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.bits / self.arrived
    }

    /// The time to be sent as a part of that to arrive.
    pub(super) fn ratio(&self) -> f64 {
        self.sent / self.arrived
    }

    fn of(turns: &[Turn]) -> Option<Self> {
        let (first, rest) = turns.split_first()?;
        let last = rest.last()?;
        let bits = rest.iter().map(|turn| turn.bits).sum();
        let (sent, arrived) = (last.sent - first.sent, last.arrived - first.arrived);
        (arrived > 0.0).then_some(Part { bits, sent, arrived })
    }
}

impl Reading {
    /// Of a train whose fast part has so many packets.
    ///
    /// # Errors
    /// It tells nothing.
    pub(super) fn of(passages: &[Passage], fast_packets: usize) -> Result<Self, Unread> {
        let kept = before_overflow(passages);
        let none = if kept.len() < passages.len() { Unread::Lost } else { Unread::Empty };
        let turns = turns(kept);
        let waiting = waiting(&turns, least_delay(kept)).filter(|turns| turns.len() >= MIN_TURNS).ok_or(none)?;
        let whole = Part::of(waiting).ok_or(none)?;
        let fast = kept.iter().rev().find(|passage| passage.index < fast_packets);
        let end = fast.map_or(0.0, |passage| passage.sent);
        let split = waiting.partition_point(|turn| turn.sent <= end).saturating_sub(1);
        let is_enough = split.min(waiting.len() - 1 - split) >= MIN_PART_STEPS;
        let parts = Part::of(&waiting[..=split]).zip(Part::of(&waiting[split..])).filter(|_| is_enough);
        let half = split + (waiting.len() - 1 - split) / 2;
        let is_enough = is_enough && half - split >= MIN_PART_STEPS;
        let halves = Part::of(&waiting[split..=half]).zip(Part::of(&waiting[half..])).filter(|_| is_enough);
        Ok(Reading { whole, parts, halves, turn: whole.arrived / (waiting.len() - 1) as f64 })
    }
}

/// How long a train's last packet still waited, in seconds.
pub(super) fn left_waiting(passages: &[Passage]) -> f64 {
    let delay = |passage: &Passage| passage.came.map(|came| came - passage.sent);
    let last = passages.iter().rev().find_map(delay).unwrap_or(0.0);
    (last - least_delay(passages)).max(0.0)
}

/// Whether so much was lost as if the queue had overflowed.
pub(super) fn has_overflowed(passages: &[Passage]) -> bool {
    before_overflow(passages).len() < passages.len()
}

/// The least delay, in seconds: infinite where nothing arrived.
pub(super) fn least_delay(passages: &[Passage]) -> f64 {
    passages.iter().filter_map(|passage| Some(passage.came? - passage.sent)).fold(f64::INFINITY, f64::min)
}

fn before_overflow(passages: &[Passage]) -> &[Passage] {
    let mut lost = 0.0;
    let overflow = passages.iter().enumerate().position(|(place, passage)| {
        lost += if passage.came.is_none() { 1.0 } else { 0.0 };
        lost > 1.0 + MAX_LOST_PART * place as f64
    });
    &passages[..overflow.unwrap_or(passages.len())]
}

fn turns(passages: &[Passage]) -> Vec<Turn> {
    let mut arrivals: Vec<(f64, &Passage)> =
        passages.iter().filter_map(|passage| Some((passage.came?, passage))).collect();
    arrivals.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else { return Vec::new() };
    let within = MAX_GAP_PART * (last.0 - first.0) / arrivals.len() as f64;
    let turn = |packets: &[(f64, &Passage)]| Turn {
        bits: packets.iter().map(|packet| packet.1.bits).sum(),
        sent: packets.iter().map(|packet| packet.1.sent).fold(0.0, f64::max),
        arrived: packets[0].0,
    };
    arrivals.chunk_by(|one, next| next.0 - one.0 <= within).map(turn).collect()
}

/// The longest run of turns, after the first ones, each of which had been sent when the one before arrived: the queue was never empty.
fn waiting(turns: &[Turn], least_delay: f64) -> Option<&[Turn]> {
    let later = turns.get(SKIPPED_TURNS..)?;
    let run = later.chunk_by(|one, next| next.sent + least_delay <= one.arrived).max_by_key(|run| run.len())?;
    // The last turn may have had room for more, and that of the last packet has taken cross traffic that came after it.
    run.split_last().map(|(_, run)| run)
}
