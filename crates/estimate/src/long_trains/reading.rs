//! What one train says: rates of sending and of arrival while its packets waited in the queue all the time.

use crate::sustained::reading::Passage;

/// Packets of a turn arrive within this part of the mean time between two arrivals.
const MAX_GAP_PART: f64 = 0.2;
/// The first turns may have found the link idle.
const SKIPPED_TURNS: usize = 2;
/// Fewer turns tell nothing.
const MIN_TURNS: usize = 6;
/// A part of so few turns does not tell of its rate alone.
const MIN_PART_TURNS: usize = 3;
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
}

/// A train without a reading, and why.
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

    /// What the link carried in bit/s, beside cross traffic of this rate.
    pub(super) fn carried(&self, cross: f64) -> f64 {
        (self.bits + cross * self.sent) / self.arrived
    }

    /// The time to be sent as a part of that to arrive.
    pub(super) fn ratio(&self) -> f64 {
        self.sent / self.arrived
    }

    fn of(turns: &[Turn]) -> Option<Self> {
        let [first, rest @ .., last] = turns else { return None };
        let bits = rest.iter().chain([last]).map(|turn| turn.bits).sum();
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
        let is_lost = kept.len() < passages.len();
        let none = if is_lost { Unread::Lost } else { Unread::Empty };
        let turns = turns(kept);
        let waiting = waiting(&turns, least_delay(kept)).ok_or(none)?;
        if waiting.len() < super::tune("MINT", 4.0) as usize {
            return Err(none);
        }
        let whole = Part::of(waiting).ok_or(none)?;
        let end = passages.get(fast_packets.saturating_sub(1)).map_or(f64::INFINITY, |passage| passage.sent);
        let split = waiting.partition_point(|turn| turn.sent <= end).saturating_sub(1);
        let is_enough = split >= super::tune("MINPT", 3.0) as usize && waiting.len() - 1 - split >= super::tune("MINPT", 3.0) as usize;
        let parts = Part::of(&waiting[..=split]).zip(Part::of(&waiting[split..])).filter(|_| is_enough);
        Ok(Reading { whole, parts, turn: whole.arrived / (waiting.len() - 1) as f64 })
    }
}

/// How long a train's last packets still waited, in seconds.
pub(super) fn left_waiting(passages: &[Passage]) -> f64 {
    let delay = |passage: &Passage| passage.came.map(|came| came - passage.sent);
    let last = passages.iter().rev().find_map(delay).unwrap_or(0.0);
    (last - least_delay(passages)).max(0.0)
}

fn least_delay(passages: &[Passage]) -> f64 {
    passages.iter().filter_map(|passage| Some(passage.came? - passage.sent)).fold(f64::INFINITY, f64::min)
}

fn before_overflow(passages: &[Passage]) -> &[Passage] {
    let mut lost = 0.0;
    let overflow = passages.iter().enumerate().position(|(place, passage)| {
        lost += f64::from(u8::from(passage.came.is_none()));
        lost > 1.0 + MAX_LOST_PART * place as f64
    });
    &passages[..overflow.unwrap_or(passages.len())]
}

fn turns(passages: &[Passage]) -> Vec<Turn> {
    let mut arrivals: Vec<(f64, &Passage)> = passages.iter().filter_map(|passage| Some((passage.came?, passage))).collect();
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

/// The longest run of turns, after the first ones, that had all been sent when the turn before arrived: the queue was never empty.
fn waiting(turns: &[Turn], least_delay: f64) -> Option<&[Turn]> {
    let later = turns.get(SKIPPED_TURNS..)?;
    let run = later.chunk_by(|one, next| next.sent + least_delay <= one.arrived).max_by_key(|run| run.len())?;
    // The last turn may have taken what there was, and have had room for more; that of the last packet has, of cross traffic.
    run.split_last().map(|(_, run)| run)
}
