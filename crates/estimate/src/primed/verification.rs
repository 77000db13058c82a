//! The last step: a rate a little below the value must pass without the queue growing, whatever links the path consists of.
//!
//! Primed trains take it that queues grow at the narrow link. Where they grow at another one, the tight link, or where a prime
//! still waits at the narrow link while its body passes, what they find available is too much. Two long trains of one rate
//! make no such assumption (Jain and Dovrolis: End-to-End Available Bandwidth, 2002): their delays keep growing exactly
//! where less than their rate is available.

use super::packets::{PacketPoint, PrimedTrain, SendingGap};
use super::sample::{is_held_up, sending_rate};
use crate::cross_traffic::{CROSS_PACKET_BITS, CrossTrafficUnit};
use crate::stats::{mean, median, standard_deviation, student_t_95};
use kumade_probe_train::fit::fit_robust_line;

/// So many trains verify a value …
pub(super) const MIN_VERIFICATION_TRAINS: usize = 2;
/// … and so many at most, where cross traffic varies.
const MAX_VERIFICATION_TRAINS: usize = 6;

/// Growth by less than so many standard errors is no reason to look again …
const UNSUSPICIOUS_STANDARD_ERRORS: f64 = 1.0;
/// … and by more than so many, in the end, no chance.
const LAST_TRAIN_STANDARD_ERRORS: f64 = 1.8;

/// At so much of the interval's low end.
pub(super) const VERIFIED_RATE_PART: f64 = 0.97;

/// Each train's delays are averaged in so many parts, of which the first two pass while the queue finds its length.
const TRAIN_PARTS: usize = 6;
const SKIPPED_TRAIN_PARTS: usize = 2;

/// By how many seconds a second the delay may grow for other reasons: stamps, and clocks that drift; …
const GROWTH_TOLERANCE: f64 = 0.0015;
/// … and by this part of a packet of cross traffic over the whole train, since some meet it at its end and not at its start.
const PACKET_TOLERANCE_PART: f64 = 0.1;

/// One long train of one rate.
#[derive(Debug, Clone)]
pub(super) struct Verification {
    pub(super) rate: f64,
    /// By how many seconds a second the delay grew from part to part.
    growth_rates: Vec<f64>,
    /// From the first part that counts to the last, in seconds.
    duration: f64,
}

impl Verification {
    /// Of a train whose packets are all of one rate; none of a train that hosts held up too often.
    pub(super) fn from_train(train: &PrimedTrain) -> Option<Self> {
        if train.is_in_bursts { Self::from_bursts(train) } else { Self::from_packets(train) }
    }

    fn from_packets(train: &PrimedTrain) -> Option<Self> {
        let points = steadily_sent(train);
        if (points.len() as f64) < MIN_UNDISTURBED_PART * train.points.len() as f64 {
            return None;
        }
        let size = points.len().div_ceil(TRAIN_PARTS).max(1);
        let middle = |points: &[PacketPoint]| {
            let of = |value: fn(&PacketPoint) -> f64| mean(&points.iter().map(value).collect::<Vec<_>>());
            (of(|p| p.sent), of(|p| p.delay))
        };
        let parts: Vec<(f64, f64)> = points.chunks(size).skip(SKIPPED_TRAIN_PARTS).map(middle).collect();
        let growths = parts.windows(2).map(|w| (w[1].1 - w[0].1) / (w[1].0 - w[0].0)).collect();
        let duration = parts.last().zip(parts.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        let rate = if points.len() < train.points.len() { sending_rate(points) } else { train.body_rate() };
        Some(Verification { rate, growth_rates: growths, duration })
    }

    /// Single bursts wait for the hosts as well, by as much as a queue grows: one line through all tells more than parts.
    fn from_bursts(train: &PrimedTrain) -> Option<Self> {
        let points = undisturbed_part(train)?;
        let counted = &points[points.len() * SKIPPED_TRAIN_PARTS / TRAIN_PARTS..];
        let delays: Vec<(f64, f64)> = counted.iter().map(|p| (p.sent, p.first_packet_delay)).collect();
        let growths = vec![fit_robust_line(&delays)?.slope];
        let duration = delays.last()?.0 - delays.first()?.0;
        Some(Verification { rate: sending_rate(points), growth_rates: growths, duration })
    }
}

/// The longest part of a train whose packets left one by one as planned: behind a pause, a host makes up for it.
fn steadily_sent(train: &PrimedTrain) -> &[PacketPoint] {
    let Some(gap) = SendingGap::usual_gap(train.points.iter()) else { return &train.points };
    let is_steady = |one: &PacketPoint, next: &PacketPoint| !gap.is_held_up(one, next) && !gap.catches_up(one, next);
    train.points.chunk_by(is_steady).max_by_key(|part| part.len()).unwrap_or_default()
}

/// A train is verified by its longest part between two that were held up, if that is this part of it or more …
const MIN_UNDISTURBED_PART: f64 = 0.4;
/// … and was sent at its rate but for this factor: a host that was held up makes up for it.
const MAX_CATCH_UP_RATIO: f64 = 1.03;
/// A burst that is so many times as far behind the one before was held up at the sender.
const MAX_GAP_RATIO: f64 = 4.0;

fn undisturbed_part(train: &PrimedTrain) -> Option<&[PacketPoint]> {
    let gaps: Vec<f64> = train.points.windows(2).map(|pair| pair[1].sent - pair[0].sent).collect();
    let usual = median(&gaps)?;
    let is_together = |one: &PacketPoint, next: &PacketPoint| {
        next.sent - one.sent < MAX_GAP_RATIO * usual
            && !is_held_up(one, next, CrossTrafficUnit::Burst.max_wait(train.size_bits, train.size_bits / usual))
    };
    let longest = train.points.chunk_by(is_together).max_by_key(|part| part.len())?;
    let is_long = longest.len() as f64 >= MIN_UNDISTURBED_PART * train.points.len() as f64;
    (is_long && sending_rate(longest) < MAX_CATCH_UP_RATIO * train.size_bits / usual).then_some(longest)
}

/// What verifying trains say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerificationResult {
    /// The queue did not grow.
    Available,
    /// It kept growing.
    Grew,
    /// It grew by what may be chance, since cross traffic varies: more trains are needed.
    Undecided,
}

/// The verdict of so many trains, and by how many seconds a second the delay may have grown; `scatter` is by how much its
/// growth differs between trains in any case, as primed ones show, and `narrow` the narrow link's rate.
pub(super) fn evaluate_verifications(
    verifications: &[Verification],
    scatter: f64,
    narrow: f64,
) -> (VerificationResult, f64) {
    let growths: Vec<f64> = verifications.iter().flat_map(|v| v.growth_rates.iter().copied()).collect();
    if verifications.len() < MIN_VERIFICATION_TRAINS || growths.len() < 2 {
        return (VerificationResult::Undecided, 0.0);
    }
    let within = standard_deviation(&growths) / (growths.len() as f64).sqrt();
    let error = within.max(scatter / (verifications.len() as f64).sqrt());
    let duration = mean(&verifications.iter().map(|v| v.duration).collect::<Vec<_>>());
    let tolerance = GROWTH_TOLERANCE + PACKET_TOLERANCE_PART * CROSS_PACKET_BITS / narrow / duration.max(1e-6);
    let excess = mean(&growths) - tolerance;
    let is_last = verifications.len() >= MAX_VERIFICATION_TRAINS;
    let verdict =
        if excess > student_t_95(growths.len()) * error || is_last && excess > LAST_TRAIN_STANDARD_ERRORS * error {
            VerificationResult::Grew
        } else if excess < UNSUSPICIOUS_STANDARD_ERRORS * error || is_last {
            VerificationResult::Available
        } else {
            VerificationResult::Undecided
        };
    (verdict, (excess + error).max(0.0))
}
