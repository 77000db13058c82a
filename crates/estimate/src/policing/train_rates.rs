//! Rates of sending and of arrival, and where in a train the latter falls.

use super::result::ExcessAction;
use crate::packet_timing::PacketTiming;
use crate::stats::{median, quantile};
use kumade_probe_train::TrainRecord;
use kumade_probe_train::fit::fit_robust_line;
use kumade_units::Span;
use std::collections::BTreeSet;

/// A rate lasts if what arrives falls by less than this part.
pub(super) const MAX_DROP_PART: f64 = 0.1;
/// From fewer packets it cannot be told whether the delay grew.
const MIN_TREND_PACKETS: usize = 4;
/// A delay grows by more than this many times what it varies by besides.
const MIN_GROWTH_DEVIATIONS: f64 = 4.0;
/// Points on either side of a fall.
const MIN_POINTS_PER_SIDE: usize = 12;

/// The rates of a part of a train, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PartRates {
    pub(super) sending_rate: f64,
    pub(super) arrival_rate: f64,
    /// Packets that arrived.
    pub(super) packets: usize,
    /// The part that was lost.
    pub(super) lost_part: f64,
    /// By how many seconds a second the delay grew.
    pub(super) delay_growth: f64,
    /// The mean square of how many packets more or less than on average had passed at each, up to there.
    pub(super) passed_count_variance: f64,
}

impl PartRates {
    /// The ratio of the sending to the arrival rate.
    pub(super) fn ratio(&self) -> f64 {
        self.sending_rate / self.arrival_rate
    }
}

/// Where the rate of arrivals fell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RateDrop {
    /// The first packet behind it.
    pub(super) index: usize,
    /// From there on.
    pub(super) rates: PartRates,
    /// When that packet left, from the first one on, in seconds.
    pub(super) sent_after_seconds: f64,
}

/// The rates of a part of a train; none where too little arrived.
pub(super) fn part_rates(part: &[PacketTiming]) -> Option<PartRates> {
    let (first, last) = (part.first()?, part.last()?);
    let sent_bits: f64 = part[1..].iter().map(|passage| passage.bits).sum();
    let arrivals: Vec<(f64, f64)> =
        part.iter().filter_map(|passage| Some((passage.sent, passage.in_order_arrival?))).collect();
    if arrivals.is_empty() || last.sent <= first.sent {
        return None;
    }
    let delay = |&(sent, arrived): &(f64, f64)| (sent, arrived - sent);
    let line = fit_robust_line(&arrivals.iter().map(delay).collect::<Vec<_>>());
    let growth = line.filter(|_| arrivals.len() >= MIN_TREND_PACKETS).map_or(0.0, |line| line.slope);
    let lost = 1.0 - arrivals.len() as f64 / part.len() as f64;
    let sent = sent_bits / (last.sent - first.sent);
    let arrived = sent * (1.0 - lost) / (1.0 + growth).max(0.1);
    let passed: Vec<(f64, f64)> =
        part.iter().map(|passage| (passage.sent, f64::from(u8::from(passage.in_order_arrival.is_some())))).collect();
    let wander = passed_count_variance(&passed);
    Some(PartRates {
        sending_rate: sent,
        arrival_rate: arrived,
        packets: arrivals.len(),
        lost_part: lost,
        delay_growth: growth,
        passed_count_variance: wander,
    })
}

/// The same of the part of a train from that place on, over so many connections in turn that send again what is lost. Packets behind a loss
/// on their connection are passed over, since it is not seen whether they arrived; those before it tell as much as if there had been no
/// others. Only the first packet of each connection counts: where packets are dropped at a steady rate, all of a connection may have the
/// same fate.
pub(super) fn part_rates_over_connections(connections: u32, train: &[PacketTiming], from: usize) -> Option<PartRates> {
    let seen = not_behind_losses(connections, train);
    let end = train.len().min(from.saturating_add(connections as usize));
    let (part, seen) = (train.get(from..end)?, seen.get(from..end)?);
    let count =
        |came: bool| part.iter().zip(seen).filter(|(p, is_seen)| **is_seen && p.arrival.is_some() == came).count();
    let (packets, missing) = (count(true), count(false));
    let lost = missing as f64 / (missing + packets) as f64;
    let all = part_rates(part)?;
    // Those that are not seen count as what they may be expected to be.
    let passed = part.iter().zip(seen).map(|(passage, is_seen)| match (is_seen, passage.arrival) {
        (false, _) => (passage.sent, 1.0 - lost),
        (true, came) => (passage.sent, f64::from(u8::from(came.is_some()))),
    });
    let wander = passed_count_variance(&passed.collect::<Vec<_>>());
    (packets > 0).then_some(PartRates {
        arrival_rate: all.sending_rate * (1.0 - lost),
        packets,
        lost_part: lost,
        passed_count_variance: wander,
        ..all
    })
}

/// Whether hardly any packet was lost for long and then many, none of which had waited: no queue does that, however much cross traffic comes,
/// but a policer of which the bucket is empty.
pub(super) fn drops_suddenly(train: &[PacketTiming], fall: &RateDrop) -> bool {
    const MIN_PASSED_PACKETS: usize = 100;
    const MIN_LOST_PACKETS: usize = 15;
    const MIN_LOST_PART: f64 = 0.2;
    const MAX_LOST_BEFORE_PART: f64 = 0.01;
    let (before, behind) = train.split_at(fall.index);
    let lost = |part: &[PacketTiming]| part.iter().filter(|passage| passage.arrival.is_none()).count();
    let (lost_before, lost_behind) = (lost(before) as f64, lost(behind));
    before.len() >= MIN_PASSED_PACKETS
        && lost_before <= MAX_LOST_BEFORE_PART * before.len() as f64
        && lost_behind >= MIN_LOST_PACKETS
        && lost_behind as f64 >= MIN_LOST_PART * behind.len() as f64
        && classify_excess_action(train, fall) == Some(ExcessAction::Drops)
}

/// The first packet of a train that was lost where others are lost soon, as where a bucket is empty.
pub(super) fn find_first_clustered_loss(train: &[PacketTiming]) -> Option<usize> {
    const WINDOW_PACKETS: usize = 12;
    const MIN_LOST_PACKETS: usize = 3;
    let is_lost = |passage: &PacketTiming| passage.arrival.is_none();
    let begins = |place: &usize| {
        let window = &train[*place..train.len().min(place + WINDOW_PACKETS)];
        is_lost(&window[0]) && window.iter().filter(|passage| is_lost(passage)).count() >= MIN_LOST_PACKETS
    };
    (0..train.len()).find(begins)
}

/// Packets of a train of which it is seen whether they arrived: over connections, none behind one that was lost on its own.
pub(super) fn seen_packets(connections: Option<u32>, train: &[PacketTiming]) -> Vec<PacketTiming> {
    let Some(connections) = connections else { return train.to_vec() };
    let is_seen = not_behind_losses(connections, train);
    train.iter().zip(is_seen).filter_map(|(passage, is_seen)| is_seen.then_some(*passage)).collect()
}

/// Which packets of a train over connections are not behind one that was lost on their own.
fn not_behind_losses(connections: u32, train: &[PacketTiming]) -> Vec<bool> {
    let mut has_lost = BTreeSet::new();
    let is_seen = |passage: &PacketTiming| {
        let connection = passage.index % connections.max(1) as usize;
        let is_seen = !has_lost.contains(&connection);
        has_lost.extend(passage.arrival.is_none().then_some(connection));
        is_seen
    };
    train.iter().map(is_seen).collect()
}

/// By how many seconds a second the delay is longer at the end than at the beginning, if it is.
pub(super) fn delay_growth(part: &[PacketTiming]) -> f64 {
    const END_PART_DIVISOR: usize = 10;
    let delays: Vec<(f64, f64)> =
        part.iter().filter_map(|passage| Some((passage.sent, passage.in_order_arrival? - passage.sent))).collect();
    let count = delays.len().div_ceil(END_PART_DIVISOR);
    let [first, last] = [&delays[..count], &delays[delays.len() - count..]].map(|end| {
        let middle = |of: fn(&(f64, f64)) -> f64| median(&end.iter().map(of).collect::<Vec<_>>());
        middle(|delay| delay.0).zip(middle(|delay| delay.1))
    });
    first.zip(last).map_or(0.0, |(first, last)| ((last.1 - first.1) / (last.0 - first.0).max(1e-6)).max(0.0))
}

/// The part of the packets that waited, where the narrow link takes so many seconds for one. None where stamps are not exact enough to tell.
pub(super) fn waiting_fraction(train: &[PacketTiming], passing: f64) -> Option<f64> {
    const MIN_PART: f64 = 0.3;
    const STAMP_SCATTER_SECONDS: f64 = 40e-6;
    let delays: Vec<f64> = train.iter().filter_map(|passage| Some(passage.in_order_arrival? - passage.sent)).collect();
    let least = quantile(&delays, 0.02)?;
    let waited = delays.iter().filter(|&&delay| delay - least > MIN_PART * passing).count();
    (MIN_PART * passing > STAMP_SCATTER_SECONDS).then(|| waited as f64 / delays.len() as f64)
}

/// The rate at which packets came, from the first to the last one, in bit/s: right also where a queue grew first and then overflowed,
/// and where many are reordered because flows have queues of their own.
pub(super) fn arrival_rate(part: &[PacketTiming]) -> f64 {
    let mut arrivals: Vec<(f64, f64)> =
        part.iter().filter_map(|passage| Some((passage.arrival?, passage.bits))).collect();
    arrivals.sort_by(|one, other| one.0.total_cmp(&other.0));
    let [(first, _), rest @ .., (last, bits)] = &arrivals[..] else { return 0.0 };
    if last > first { (rest.iter().map(|arrival| arrival.1).sum::<f64>() + bits) / (last - first) } else { 0.0 }
}

/// The rate of arrivals of a part with these rates, in bit/s. Where a queue grew first and then overflowed, losses and growth do not add up.
pub(super) fn queue_adjusted_arrival_rate(part: &[PacketTiming], rates: &PartRates) -> f64 {
    const MIN_QUEUE_GROWTH_PART: f64 = 0.1;
    let overflowed = rates.lost_part > 0.0 && rates.delay_growth > MIN_QUEUE_GROWTH_PART;
    if overflowed { rates.arrival_rate.max(arrival_rate(part)) } else { rates.arrival_rate }
}

/// See [`PartRates::passed_count_variance`]: of when packets were sent, and how many of each have passed.
fn passed_count_variance(passed: &[(f64, f64)]) -> f64 {
    let [(begin, _), .., (end, _)] = passed else { return 0.0 };
    let total: f64 = passed.iter().map(|packet| packet.1).sum();
    let mut before = 0.0;
    let square = |&(sent, part): &(f64, f64)| {
        let expected = (sent - begin) / (end - begin) * total;
        before += part;
        part * (before - part / 2.0 - expected).powi(2)
    };
    passed.iter().map(square).sum::<f64>() / total.max(1.0)
}

/// From sending to arrival, the clocks' unknown offset included.
pub(super) fn delays(record: &TrainRecord) -> impl Iterator<Item = Span> + '_ {
    record.packets.iter().filter_map(|packet| Some(packet.received? - packet.sent?))
}

/// Whether losses kept the sender from sending all of a train, as they do over TCP: what was sent does not show what all of it would have met.
pub(super) fn is_cut_short(train: &[PacketTiming], planned: u32) -> bool {
    const MIN_SENT_PART: f64 = 0.8;
    const MIN_LOST_PART: f64 = 0.03;
    let lost = train.iter().filter(|passage| passage.in_order_arrival.is_none()).count();
    (train.len() as f64) < MIN_SENT_PART * f64::from(planned) && lost as f64 > MIN_LOST_PART * train.len() as f64
}

/// Where the rate of arrival falls for the rest of the train, by the two parts that explain most of what was lost or
/// delayed: none where it does not fall.
pub(super) fn find_rate_drop(train: &[PacketTiming]) -> Option<RateDrop> {
    // What each packet brought less than it should have, counted in packets: all of it if it was lost.
    let step = (train.last()?.sent - train.first()?.sent) / (train.len() - 1).max(1) as f64;
    let mut before = 0.0;
    let missing: Vec<f64> = train
        .iter()
        .map(|passage| match passage.in_order_arrival {
            None => 1.0,
            Some(arrived) => {
                let delay = arrived - passage.sent;
                let grown = (delay - before) / step;
                before = delay;
                grown.clamp(-3.0, 3.0)
            }
        })
        .collect();
    let total: f64 = missing.iter().sum();
    let (mut sum, mut best) = (0.0, None::<(f64, usize)>);
    for split in 0..=missing.len().saturating_sub(MIN_POINTS_PER_SIDE) {
        if split == 0 || split >= MIN_POINTS_PER_SIDE / 2 {
            let (early, late) = (split as f64, (missing.len() - split) as f64);
            let explained = if split == 0 { 0.0 } else { (sum / early - (total - sum) / late).powi(2) * early * late };
            let falls = split == 0 || (total - sum) / late > sum / early;
            if falls && best.is_none_or(|(most, _)| explained > most) {
                best = Some((explained, split));
            }
        }
        sum += missing[split];
    }
    let (_, index) = best?;
    let rates = part_rates(&train[index..])?;
    Some(RateDrop { index, rates, sent_after_seconds: train[index].sent - train[0].sent })
}

/// The same of a train over so many connections in turn, by the packets that are [seen](part_rates_over_connections): where connections have lost some, what is
/// behind them seems to be lost, too. It falls where these begin to be lost in numbers, though the fall that explains most may come later: more
/// are lost when connections send again what was lost before.
pub(super) fn find_rate_drop_over_connections(connections: u32, train: &[PacketTiming]) -> Option<RateDrop> {
    const WINDOW_PACKETS: usize = 60;
    const MIN_LOST_FRACTION: f64 = 0.08;
    let seen = seen_packets(Some(connections), train);
    let found = find_rate_drop(&seen)?;
    let is_lost = |passage: &PacketTiming| passage.arrival.is_none();
    let begins = |window: &[PacketTiming]| {
        let lost = window.iter().filter(|passage| is_lost(passage)).count();
        is_lost(&window[0]) && lost as f64 > MIN_LOST_FRACTION * window.len() as f64
    };
    let place = seen.windows(WINDOW_PACKETS).take(found.index).position(begins).unwrap_or(found.index);
    let first = seen.get(place)?;
    let index = train.partition_point(|passage| passage.index < first.index);
    Some(RateDrop { index, rates: part_rates(&train[index..])?, sent_after_seconds: train[index].sent - train[0].sent })
}

/// Whether the delay grows steadily, and does not only vary by as much: by its median deviation from the line.
pub(super) fn queue_grows(part: &[PacketTiming]) -> bool {
    let delays: Vec<(f64, f64)> =
        part.iter().filter_map(|passage| Some((passage.sent, passage.in_order_arrival? - passage.sent))).collect();
    let (Some(line), Some(first), Some(last)) = (fit_robust_line(&delays), delays.first(), delays.last()) else {
        return false;
    };
    let deviations: Vec<f64> = delays.iter().map(|&(sent, delay)| (delay - line.value_at(sent)).abs()).collect();
    let grown = line.slope * (last.0 - first.0);
    median(&deviations).is_some_and(|deviation| grown > MIN_GROWTH_DEVIATIONS * deviation)
}

/// Whether what exceeds is dropped or delayed, by what becomes of packets behind the fall: those that a policer lets pass
/// were not delayed.
pub(super) fn classify_excess_action(train: &[PacketTiming], fall: &RateDrop) -> Option<ExcessAction> {
    let (before, after) = train.split_at(fall.index);
    let delays = |part: &[PacketTiming]| {
        median(&part.iter().filter_map(|passage| Some(passage.in_order_arrival? - passage.sent)).collect::<Vec<_>>())
    };
    let missing = 1.0 - 1.0 / fall.rates.ratio();
    let by_loss = fall.rates.lost_part / missing.max(1e-6);
    // Of a shaper, the queue may overflow, but not before it has filled.
    let waited = delays(after)? - delays(before).unwrap_or(0.0);
    let service = after.first()?.bits / queue_adjusted_arrival_rate(after, &fall.rates);
    match by_loss {
        0.7.. if waited < 0.8 * service => Some(ExcessAction::Drops),
        ..0.3 => Some(ExcessAction::Delays),
        _ if waited > 10.0 * service => Some(ExcessAction::Delays),
        _ => None,
    }
}

/// From one burst to the next, the queue does not grow by more than so many bursts take to be sent.
const MAX_WAIT_BURSTS: f64 = 2.0;
/// A burst that is so many times as far behind the one before was held up at the sender, …
const MAX_GAP_RATIO: f64 = 4.0;
/// … which makes up for it, and then sends faster than planned.
const MAX_CATCH_UP_RATIO: f64 = 1.05;
/// Where more of the bursts than this part wait so long, the path does not carry them as fast: hosts hold up single ones.
const MAX_HELD_UP_PART: f64 = 0.1;
/// Less of a train than this part is not enough.
const MIN_UNDISTURBED_PART: f64 = 0.5;

/// The longest part of a train of bursts between two that were held up by a host; none where that is not enough, and all of a train
/// whose packets were sent one by one.
pub(super) fn undisturbed_part(train: Vec<PacketTiming>, rate: f64) -> Option<Vec<PacketTiming>> {
    let bursts = first_of_batches(&train);
    if bursts.len() == train.len() {
        return Some(train);
    }
    let gaps: Vec<f64> = bursts.windows(2).map(|pair| pair[1].sent - pair[0].sent).collect();
    let usual = median(&gaps)?;
    let delay = |passage: &PacketTiming| passage.in_order_arrival.map(|at| at - passage.sent);
    let is_held_up = |one: &PacketTiming, next: &PacketTiming| {
        delay(one).zip(delay(next)).is_some_and(|(one, next)| next - one > MAX_WAIT_BURSTS * usual)
    };
    let held_up = bursts.windows(2).filter(|pair| is_held_up(&pair[0], &pair[1])).count();
    let is_path = held_up as f64 > MAX_HELD_UP_PART * bursts.len() as f64;
    let is_together = |one: &PacketTiming, next: &PacketTiming| {
        next.sent - one.sent < MAX_GAP_RATIO * usual && (is_path || !is_held_up(one, next))
    };
    let longest = bursts.chunk_by(is_together).max_by_key(|part| part.len())?;
    let (first, last) = (longest.first()?.sent, longest.last()?.sent);
    let is_enough = longest.len() as f64 >= MIN_UNDISTURBED_PART * bursts.len() as f64;
    let part: Vec<_> = train.into_iter().filter(|passage| (first..=last).contains(&passage.sent)).collect();
    let is_planned = part_rates(&part).is_none_or(|rates| rates.sending_rate < MAX_CATCH_UP_RATIO * rate);
    (is_enough && is_planned).then_some(part)
}

/// The first packet of each burst, and those that were sent by themselves.
pub(super) fn first_of_batches(train: &[PacketTiming]) -> Vec<PacketTiming> {
    train.chunk_by(|one, next| one.sent == next.sent).filter_map(|burst| burst.first().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet every 100 µs, which takes 5 ms and this many microseconds more, if it is not lost.
    fn train(count: usize, delay: impl Fn(usize) -> Option<f64>) -> Vec<PacketTiming> {
        let passage = |index: usize| {
            let sent = index as f64 * 1e-4;
            let came = delay(index).map(|micros| sent + 0.005 + micros * 1e-6);
            PacketTiming { index, sent, in_order_arrival: came, arrival: came, bits: 12_000.0 }
        };
        (0..count).map(passage).collect()
    }

    /// Behind a policer of 863 kB, cross traffic explained that 29 of the last 70 packets of a train were lost, so that nothing was found.
    #[test]
    fn many_losses_after_none_and_without_a_queue_are_a_policers() {
        let drops = |delay: &dyn Fn(usize) -> Option<f64>| {
            let train = train(880, delay);
            drops_suddenly(&train, &find_rate_drop(&train).unwrap())
        };
        let passes = |index: usize| index < 810 || index % 5 > 1;
        assert!(drops(&|index| passes(index).then_some(3.0)));
        // A queue filled first, packets were lost all the time, or too few in the end.
        assert!(!drops(&|index| passes(index).then_some((index as f64 - 700.0).clamp(0.0, 110.0) * 100.0)));
        assert!(!drops(&|index| (index % 5 > 1).then_some(3.0)));
        assert!(!drops(&|index| (index < 810 || index % 9 > 0).then_some(3.0)));
    }

    #[test]
    fn losses_begin_where_others_follow_soon() {
        let begins =
            |lost: &[usize]| find_first_clustered_loss(&train(100, |index| (!lost.contains(&index)).then_some(0.0)));
        assert_eq!(begins(&[7, 60, 62, 66, 80]), Some(60));
        assert_eq!(
            (begins(&[7, 60, 90]), begins(&[97, 98, 99]), find_first_clustered_loss(&[])),
            (None, Some(97), None)
        );
    }
}
