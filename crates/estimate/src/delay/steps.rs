//! Where a clock was set: both directions' delays jump at once, one up and one down by the same.

use super::event::TransitEvent;
use super::feasible_lines::MAX_SKEW_RATIO;
use crate::stats::median;
use kumade_units::Direction;
use std::ops::Range;

/// The least delay of so many packets of each direction stands for the empty path before and after a moment …
const WINDOW_PACKETS: usize = 4;
/// … if they are found among so many events.
const SEARCH_RADIUS_EVENTS: usize = 64;
/// A step is located to within so many events.
const UNCERTAINTY_EVENTS: usize = 2;
const MAX_STEPS: usize = 8;
/// Smaller steps are not told from noise.
const MIN_STEP_SECONDS: f64 = 100e-6;

/// Half the difference of both directions' least delays (the offset, if the path is symmetric), and their sum.
#[derive(Debug, Clone, Copy)]
struct OffsetLevel {
    delay_difference: f64,
    round_trip: f64,
    from: f64,
    until: f64,
}

/// The events, in the order of time, before which a clock was set.
///
/// A queue moves the level by half of what it adds to the round trip at most; whatever moves more is a step. Two queues
/// that change places are taken for one: that only leaves wider bounds.
pub(super) fn find_steps(events: &[TransitEvent]) -> Vec<usize> {
    let moves: Vec<(usize, OffsetLevel, OffsetLevel)> = (1..events.len())
        .filter_map(|cut| {
            let (before, after) = levels_around(events, cut, WINDOW_PACKETS)?;
            Some((cut, before, after))
        })
        .collect();
    let shifts: Vec<f64> = moves.iter().map(|(_, a, b)| (b.delay_difference - a.delay_difference).abs()).collect();
    // A window with a step in it shows less than the shortest round trip: only direct answers tell that.
    let shortest = answered_round_trips(events).fold(f64::INFINITY, f64::min);
    let queue = |level: &OffsetLevel| (level.round_trip - shortest).max(0.0);
    let noise = median(&shifts).unwrap_or(0.0) * 6.0 + MIN_STEP_SECONDS;
    let excess: Vec<(usize, f64)> = moves
        .iter()
        .map(|(cut, a, b)| {
            let queues = (queue(a) + queue(b)) / 2.0;
            let skew = MAX_SKEW_RATIO * (b.until - a.from).max(0.0);
            (*cut, (b.delay_difference - a.delay_difference).abs() - queues - skew - noise)
        })
        .collect();
    let mut cuts = Vec::new();
    split_range(&excess, 0..events.len(), &mut cuts);
    cuts.sort_unstable();
    cuts
}

/// The round trips that packets show which were answered at once: the least of the last few that went, and of the first
/// few that came back.
fn answered_round_trips(events: &[TransitEvent]) -> impl Iterator<Item = f64> + '_ {
    let turns = (1..events.len())
        .filter(|&place| events[place - 1].direction == Direction::Up && events[place].direction == Direction::Down);
    turns.map(|turn| {
        let went = events[..turn].iter().rev().take_while(|event| event.direction == Direction::Up);
        let came = events[turn..].iter().take_while(|event| event.direction == Direction::Down);
        let least = |delays: &mut dyn Iterator<Item = f64>| delays.take(WINDOW_PACKETS).fold(f64::INFINITY, f64::min);
        least(&mut went.map(|event| event.delay)) + least(&mut came.map(|event| event.delay))
    })
}

/// The clearest step, then those on both sides of it, as long as their windows hold no part of it.
fn split_range(excess: &[(usize, f64)], within: Range<usize>, cuts: &mut Vec<usize>) {
    if cuts.len() >= MAX_STEPS {
        return;
    }
    let inside = excess.iter().filter(|(cut, _)| within.contains(cut));
    let Some(&(cut, most)) = inside.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    if most > 0.0 {
        cuts.push(cut);
        split_range(excess, within.start..cut.saturating_sub(SEARCH_RADIUS_EVENTS / 4), cuts);
        split_range(excess, cut + SEARCH_RADIUS_EVENTS / 4..within.end, cuts);
    }
}

/// By how much the far clock jumps ahead before this event; zero where too little is around it to tell.
pub(super) fn step_size(events: &[TransitEvent], cut: usize) -> f64 {
    let both = levels_around(events, cut, WINDOW_PACKETS).or_else(|| levels_around(events, cut, 1));
    both.map_or(0.0, |(before, after)| after.delay_difference - before.delay_difference)
}

/// What of the events between two steps (or the ends) surely belongs between them: the order at the far end is that of
/// the list but for the packets that overtook others.
pub(super) fn certain_range(events: &[TransitEvent], range: Range<usize>) -> Range<usize> {
    // Packets of one direction, so that their times at this end compare.
    let forward = |places: Range<usize>| places.filter(|&place| events[place].direction == Direction::Up);
    let (mut from, mut until) = (range.start, range.end);
    if range.start > 0 {
        let guard = round_trip_spread(&events[range.start..(range.start + SEARCH_RADIUS_EVENTS).min(range.end)]);
        let first = forward(range.clone()).next().map_or(0.0, |place| events[place].near_time);
        from = forward(range.clone()).find(|&place| events[place].near_time - first > guard).unwrap_or(range.end);
        from = (from + UNCERTAINTY_EVENTS).min(range.end);
    }
    if range.end < events.len() {
        let guard =
            round_trip_spread(&events[range.end.saturating_sub(SEARCH_RADIUS_EVENTS).max(range.start)..range.end]);
        let last = forward(range.clone()).next_back().map_or(0.0, |place| events[place].near_time);
        until = forward(range.clone()).rfind(|&place| last - events[place].near_time > guard).unwrap_or(range.start);
        until = until.saturating_sub(UNCERTAINTY_EVENTS);
    }
    from..until.max(from)
}

/// How much later than the quickest a packet comes, both directions together.
fn round_trip_spread(events: &[TransitEvent]) -> f64 {
    let of = |direction: Direction| {
        let delays = events.iter().filter(|event| event.direction == direction).map(|event| event.delay);
        let (least, most) = delays.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), d| (l.min(d), m.max(d)));
        (most - least).max(0.0)
    };
    of(Direction::Up) + of(Direction::Down)
}

fn levels_around(events: &[TransitEvent], cut: usize, window: usize) -> Option<(OffsetLevel, OffsetLevel)> {
    let before = mean_level(events[cut.saturating_sub(SEARCH_RADIUS_EVENTS)..cut].iter().rev(), window)?;
    let after = mean_level(events[cut..(cut + SEARCH_RADIUS_EVENTS).min(events.len())].iter(), window)?;
    Some((before, after))
}

fn mean_level<'e>(events: impl Iterator<Item = &'e TransitEvent>, window: usize) -> Option<OffsetLevel> {
    let (mut forward, mut backward) = ((0, f64::INFINITY), (0, f64::INFINITY));
    let (mut from, mut until) = (f64::INFINITY, f64::NEG_INFINITY);
    for event in events {
        let (count, least) = if event.direction == Direction::Up { &mut forward } else { &mut backward };
        if *count < window {
            (*count, *least) = (*count + 1, least.min(event.delay));
            (from, until) = (from.min(event.near_time), until.max(event.near_time));
        }
        if forward.0 == window && backward.0 == window {
            let difference = (forward.1 - backward.1) / 2.0;
            return Some(OffsetLevel { delay_difference: difference, round_trip: forward.1 + backward.1, from, until });
        }
    }
    None
}
