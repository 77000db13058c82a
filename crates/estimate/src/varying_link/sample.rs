//! What one train says: rates of sending and of arrival while its packets waited in the queue all the time.

use crate::packet_timing::PacketTiming;

/// Packets of a turn arrive within this part of the mean time between two arrivals.
const MAX_GAP_PART: f64 = 0.2;
/// The first turns may have found the link idle.
const SKIPPED_PERIODS: usize = 2;
/// Fewer turns tell nothing.
const MIN_PERIODS: usize = 4;
/// Of a part of a train, so many steps from turn to turn tell of its rate, which is then averaged over trains.
const MIN_PART_PERIODS: usize = 2;
/// From where on more of a train is lost than this part of it and a packet, the queue has overflowed.
const MAX_LOST_PART: f64 = 0.01;

/// A part of a train that always waited, from the last packet of one turn to the last packet of a later one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TrainPart {
    /// Its bits.
    pub(super) bits: f64,
    /// How long it took to be sent, in seconds …
    pub(super) sending_seconds: f64,
    /// … and to arrive.
    pub(super) arrival_seconds: f64,
}

/// What one train says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VaryingTrainSample {
    /// All of it that always waited.
    pub(super) whole_train: TrainPart,
    /// The fast part and the slow one; none where one of them is too short.
    pub(super) parts: Option<(TrainPart, TrainPart)>,
    /// From one turn to the next, in seconds.
    pub(super) period_seconds: f64,
    /// The halves of the slow part; none where it is too short.
    pub(super) halves: Option<(TrainPart, TrainPart)>,
}

/// Why there is no reading of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnusableTrain {
    /// Packets did not wait, or not for long.
    NoQueue,
    /// Too much was lost.
    TooManyLost,
}

/// Packets that arrived together.
#[derive(Debug, Clone, Copy)]
struct ArrivalBatch {
    bits: f64,
    /// When the last of them was sent.
    last_sent: f64,
    /// When the first of them arrived.
    first_arrived: f64,
}

impl TrainPart {
    /// The rate of arrival in bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.bits / self.arrival_seconds
    }

    /// The time to be sent as a part of that to arrive.
    pub(super) fn ratio(&self) -> f64 {
        self.sending_seconds / self.arrival_seconds
    }

    fn from_batches(turns: &[ArrivalBatch]) -> Option<Self> {
        let (first, rest) = turns.split_first()?;
        let last = rest.last()?;
        let bits = rest.iter().map(|turn| turn.bits).sum();
        let (sent, arrived) = (last.last_sent - first.last_sent, last.first_arrived - first.first_arrived);
        (arrived > 0.0).then_some(TrainPart { bits, sending_seconds: sent, arrival_seconds: arrived })
    }
}

impl VaryingTrainSample {
    /// Of a train whose fast part has so many packets.
    ///
    /// # Errors
    /// It tells nothing.
    pub(super) fn from_arrivals(passages: &[PacketTiming], fast_packets: usize) -> Result<Self, UnusableTrain> {
        let kept = before_overflow(passages);
        let none = if kept.len() < passages.len() { UnusableTrain::TooManyLost } else { UnusableTrain::NoQueue };
        let turns = arrival_batches(kept);
        let waiting = queued_batches(&turns, min_delay(kept)).filter(|turns| turns.len() >= MIN_PERIODS).ok_or(none)?;
        let whole = TrainPart::from_batches(waiting).ok_or(none)?;
        let fast = kept.iter().rev().find(|passage| passage.index < fast_packets);
        let end = fast.map_or(0.0, |passage| passage.sent);
        let split = waiting.partition_point(|turn| turn.last_sent <= end).saturating_sub(1);
        let is_enough = split.min(waiting.len() - 1 - split) >= MIN_PART_PERIODS;
        let parts = TrainPart::from_batches(&waiting[..=split])
            .zip(TrainPart::from_batches(&waiting[split..]))
            .filter(|_| is_enough);
        let half = split + (waiting.len() - 1 - split) / 2;
        let is_enough = is_enough && half - split >= MIN_PART_PERIODS;
        let halves = TrainPart::from_batches(&waiting[split..=half])
            .zip(TrainPart::from_batches(&waiting[half..]))
            .filter(|_| is_enough);
        Ok(VaryingTrainSample {
            whole_train: whole,
            parts,
            halves,
            period_seconds: whole.arrival_seconds / (waiting.len() - 1) as f64,
        })
    }
}

/// How long a train's last packet still waited, in seconds.
pub(super) fn last_packet_wait(passages: &[PacketTiming]) -> f64 {
    let delay = |passage: &PacketTiming| passage.arrival.map(|came| came - passage.sent);
    let last = passages.iter().rev().find_map(delay).unwrap_or(0.0);
    (last - min_delay(passages)).max(0.0)
}

/// Whether so much was lost as if the queue had overflowed.
pub(super) fn has_overflowed(passages: &[PacketTiming]) -> bool {
    before_overflow(passages).len() < passages.len()
}

/// The least delay, in seconds: infinite where nothing arrived.
pub(super) fn min_delay(passages: &[PacketTiming]) -> f64 {
    passages.iter().filter_map(|passage| Some(passage.arrival? - passage.sent)).fold(f64::INFINITY, f64::min)
}

fn before_overflow(passages: &[PacketTiming]) -> &[PacketTiming] {
    let mut lost = 0.0;
    let overflow = passages.iter().enumerate().position(|(place, passage)| {
        lost += if passage.arrival.is_none() { 1.0 } else { 0.0 };
        lost > 1.0 + MAX_LOST_PART * place as f64
    });
    &passages[..overflow.unwrap_or(passages.len())]
}

fn arrival_batches(passages: &[PacketTiming]) -> Vec<ArrivalBatch> {
    let mut arrivals: Vec<(f64, &PacketTiming)> =
        passages.iter().filter_map(|passage| Some((passage.arrival?, passage))).collect();
    arrivals.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else { return Vec::new() };
    let within = MAX_GAP_PART * (last.0 - first.0) / arrivals.len() as f64;
    let turn = |packets: &[(f64, &PacketTiming)]| ArrivalBatch {
        bits: packets.iter().map(|packet| packet.1.bits).sum(),
        last_sent: packets.iter().map(|packet| packet.1.sent).fold(0.0, f64::max),
        first_arrived: packets[0].0,
    };
    arrivals.chunk_by(|one, next| next.0 - one.0 <= within).map(turn).collect()
}

/// The longest run of turns, after the first ones, each of which had been sent when the one before arrived: the queue was never empty.
fn queued_batches(turns: &[ArrivalBatch], least_delay: f64) -> Option<&[ArrivalBatch]> {
    let later = turns.get(SKIPPED_PERIODS..)?;
    let run =
        later.chunk_by(|one, next| next.last_sent + least_delay <= one.first_arrived).max_by_key(|run| run.len())?;
    // The last turn may have had room for more, and that of the last packet has taken cross traffic that came after it.
    run.split_last().map(|(_, run)| run)
}
