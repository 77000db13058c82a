//! A network of pairs in virtual time: probes of one host to many targets, random losses, bursts, pauses of the program, outages.

use kumade_alerts::{Alerting, Notice, Reach, RiskKind, Rule, SavedAlerts, SharedRisk, WatchedPair};
use kumade_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What happens.
#[derive(Debug, Clone)]
pub struct Network {
    pub seed: u64,
    pub pairs: usize,
    /// Mean interval of probes.
    pub interval: f64,
    pub days: f64,
    /// Independent losses.
    pub loss: f64,
    /// Bursts in which all probes of a pair are lost, a day and pair; of at most [`MAX_BURST_INTERVALS`].
    pub bursts: f64,
    /// The same, of all pairs at once, a day.
    pub common_bursts: f64,
    /// Pauses of the program, up to an hour each, a day.
    pub pauses: f64,
    /// Until when an unanswered probe is seen.
    pub seen_after: f64,
    /// Outages that are none by chance: from, to, of this pair or of all.
    pub outages: Vec<(f64, f64, Option<usize>)>,
    /// It decides each second, not only when something has happened.
    pub has_ticks: bool,
}

/// Shorter than the shortest outage.
pub const MAX_BURST_INTERVALS: f64 = 2.0;
/// Probes are no farther apart.
const MAX_INTERVAL_RATIO: f64 = 4.0;
/// As `kumade_monitor` sends them: within an outage, and after a single loss.
const CONFIRMATIONS: u32 = 12;
const CONFIRMATIONS_PER_INTERVAL: f64 = 3.0;
const DAY: f64 = 86_400.0;

/// SplitMix64: fast, also where the crates of others are not optimised.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    fn interval(&mut self, mean: f64) -> f64 {
        // The mean of the untruncated distribution that has this one once it is truncated at four means.
        self.exponential(1.09 * mean).min(MAX_INTERVAL_RATIO * mean)
    }
}

struct Prober {
    random: Random,
    /// When the next probe that is looked at is sent.
    next: f64,
    /// When the last probe that was answered had been sent.
    answered: f64,
    burst: (f64, f64),
    /// Of the common bursts and the outages, by their place.
    passed: usize,
    stops: Vec<(f64, f64)>,
}

/// What was told, and how much had been looked at.
#[derive(Debug, Default)]
pub struct Told {
    pub notices: Vec<(f64, Notice)>,
    pub probes: f64,
    pub lost: u64,
}

fn time(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

pub fn watched(number: usize, interval: f64) -> WatchedPair {
    WatchedPair {
        id: format!("pair {number}"),
        name: format!("pair {number}"),
        interval: Span::from_secs_f64(interval),
        lost_after: Span::from_secs(4),
        period: None,
        risks: vec![SharedRisk { kind: RiskKind::Host, name: "here".to_owned() }],
        agents: None,
    }
}

impl Network {
    pub fn run(&self, rules: Vec<Rule>) -> Told {
        let end = self.days * DAY;
        let mut random = Random(self.seed);
        let common = self.common_stops(&mut random, end);
        let mut probers: Vec<Prober> = (0..self.pairs).map(|pair| self.prober(pair, &common)).collect();
        let pairs = (0..self.pairs).map(|number| watched(number, self.interval)).collect();
        let mut alerting = Alerting::new(rules, pairs, SavedAlerts::default(), Time::ZERO, Time::ZERO);
        let mut told = Told { probes: end / self.interval * self.pairs as f64, ..Told::default() };
        let mut events: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
        let mut episodes: Vec<VecDeque<(Time, Reach)>> = vec![VecDeque::new(); self.pairs];
        for (pair, prober) in probers.iter_mut().enumerate() {
            episodes[pair] = self.episode(prober, &mut told);
            events.push(Reverse((episodes[pair][0].0, pair)));
        }
        let (mut heard, mut next_pause) = (0.0, random.exponential(DAY / self.pauses.max(1e-9)));
        let mut tick = 0.0;
        while let Some(Reverse((event, pair))) = events.peek().copied() {
            let is_tick = self.has_ticks && time(tick) < event;
            let now = if is_tick { time(tick) } else { event };
            let seconds = now.as_secs_f64();
            if seconds >= end {
                break;
            }
            if seconds > next_pause {
                // Nothing was heard meanwhile, and the program notices that it did not run.
                next_pause = seconds + random.exponential(DAY / self.pauses.max(1e-9));
                alerting.resume(now);
            }
            if seconds - heard > 2.0 * self.interval {
                heard = seconds;
                for pair in 0..self.pairs {
                    alerting.set_heard(pair, time(seconds - 0.5 * self.interval));
                }
            }
            if is_tick {
                tick += 1.0;
            } else {
                events.pop();
                if let Some((_, reach)) = episodes[pair].pop_front() {
                    alerting.set_reach(pair, &reach);
                }
                if episodes[pair].is_empty() {
                    episodes[pair] = self.episode(&mut probers[pair], &mut told);
                }
                events.push(Reverse((episodes[pair][0].0, pair)));
            }
            told.notices.extend(alerting.update(now, now).into_iter().map(|notice| (seconds, notice)));
        }
        told
    }

    fn common_stops(&self, random: &mut Random, end: f64) -> Vec<(f64, f64)> {
        let mut stops = Vec::new();
        let mut next = random.exponential(DAY / self.common_bursts.max(1e-9));
        while next < end {
            stops.push((next, next + self.burst_length(random)));
            next += random.exponential(DAY / self.common_bursts.max(1e-9));
        }
        stops
    }

    fn burst_length(&self, random: &mut Random) -> f64 {
        self.interval * (0.5 * random.exponential(1.0)).min(MAX_BURST_INTERVALS)
    }

    fn prober(&self, pair: usize, common: &[(f64, f64)]) -> Prober {
        let mut random = Random(self.seed ^ (pair as u64 + 1).wrapping_mul(0x5851_f42d_4c95_7f2d));
        let own = self.outages.iter().filter(|(_, _, of)| of.is_none_or(|of| of == pair));
        let mut stops = common.to_vec();
        stops.extend(own.map(|(from, to, _)| (*from, *to)));
        stops.sort_by(|one, other| one.0.total_cmp(&other.0));
        let next = random.interval(self.interval);
        let start = random.exponential(DAY / self.bursts.max(1e-9));
        let burst = (start, start + self.burst_length(&mut random));
        Prober { random, next, answered: 0.0, burst, passed: 0, stops }
    }

    /// The next losses in a row and the answer after them, when each is seen.
    fn episode(&self, prober: &mut Prober, told: &mut Told) -> VecDeque<(Time, Reach)> {
        loop {
            while prober.burst.1 < prober.next {
                let start = prober.burst.1 + prober.random.exponential(DAY / self.bursts.max(1e-9));
                prober.burst = (start, start + self.burst_length(&mut prober.random));
            }
            while prober.stops.get(prober.passed).is_some_and(|stop| stop.1 < prober.next) {
                prober.passed += 1;
            }
            let stop = prober.stops.get(prober.passed).map_or(f64::INFINITY, |stop| stop.0);
            let answered = (1.0 - prober.random.unit()).ln() / (1.0 - self.loss).ln();
            let by_chance = prober.next + answered.floor() * self.interval;
            let interrupted = prober.burst.0.min(stop).max(prober.next);
            let first = if by_chance < interrupted {
                by_chance
            } else {
                let first = interrupted + prober.random.interval(self.interval);
                if !prober.is_interrupted(first) {
                    // No probe was sent within it.
                    (prober.answered, prober.next) = (first, first + prober.random.interval(self.interval));
                    continue;
                }
                first
            };
            let mut lost = vec![first];
            let mut regular = first + prober.random.interval(self.interval);
            // Once a loss is seen, probes follow each other faster, to see whether it is more than one.
            let mut confirmations = CONFIRMATIONS;
            let mut confirmation = first + self.seen_after;
            let next = loop {
                let next = if confirmations > 0 && confirmation < regular {
                    confirmations -= 1;
                    confirmation += self.interval / CONFIRMATIONS_PER_INTERVAL;
                    confirmation - self.interval / CONFIRMATIONS_PER_INTERVAL
                } else {
                    let sent = regular;
                    regular += prober.random.interval(self.interval);
                    sent
                };
                if !prober.is_interrupted(next) && prober.random.unit() >= self.loss {
                    break next;
                }
                lost.push(next);
            };
            told.lost += lost.len() as u64;
            let before = if first > prober.next && interrupted > prober.next {
                (first - prober.random.interval(self.interval)).min(interrupted).max(prober.answered)
            } else {
                prober.answered
            };
            let before = time(before);
            prober.answered = next;
            prober.next = if regular > next { regular } else { next + prober.random.interval(self.interval) };
            let seen = lost.iter().enumerate().map(|(place, sent)| {
                let reach = Reach {
                    lost_in_a_row: place as u32 + 1,
                    lost: Some((time(first), time(*sent))),
                    answered: Some(before),
                };
                (sent + self.seen_after, reach)
            });
            // What is seen only after the answer is no loss in a row.
            let mut all: VecDeque<(Time, Reach)> =
                seen.filter(|(seen, _)| *seen < next).map(|(seen, reach)| (time(seen), reach)).collect();
            if all.is_empty() {
                continue;
            }
            let answered = Reach { answered: Some(time(next)), ..Reach::default() };
            all.push_back((time(next + 0.05), answered));
            return all;
        }
    }
}

impl Prober {
    fn is_interrupted(&self, sent: f64) -> bool {
        let within = |(from, to): (f64, f64)| (from..to).contains(&sent);
        within(self.burst)
            || self.stops[self.passed..].iter().take_while(|stop| stop.0 <= sent).any(|stop| within(*stop))
    }
}
