use crate::PairId;
use crate::bytes::{put_unsigned, take_unsigned};
use kumade_sketch::{BucketedDelay, Lane, MINUTE_NANOS, Outcome, QUANTUM_NANOS, Sample, Summary};
use kumade_units::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;

/// The state of a pair is that of this many minutes, the current one included.
const STATE_MINUTES: usize = 5;

/// How a pair is now: what a cell of the matrix shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairState {
    /// Which pair.
    pub pair: PairId,
    /// When its last probe was sent.
    pub last_sent: Time,
    /// When the last one that was answered was sent; none if none was within a week.
    pub last_answered: Option<Time>,
    /// From source to target, over the last five minutes with probes; none without probes.
    pub up: Option<LaneState>,
    /// From target to source.
    pub down: Option<LaneState>,
    /// The round trip, where one-way delays aren't known.
    pub round_trip: Option<LaneState>,
}

/// Probes of a lane in the last minutes. Those that exclusive runs disturbed are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LaneState {
    /// Number of probes.
    pub sent: u64,
    /// Known to be lost in this lane.
    pub lost: u64,
    /// Perhaps lost in this lane.
    pub unknown: u64,
    /// Median of the delays; none if none arrived. As the next.
    pub median: Option<Span>,
    /// 95th percentile.
    pub percentile_95: Option<Span>,
    /// Least delay.
    pub minimum: Option<Span>,
}

/// The last minutes of all pairs.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    pairs: BTreeMap<PairId, RecentPair>,
}

#[derive(Debug, Default)]
struct RecentPair {
    last_sent: i64,
    last_answered: Option<i64>,
    minutes: BTreeMap<i64, Summary>,
    changed: bool,
}

impl Recent {
    pub(crate) fn add(&mut self, pair: PairId, sample: &Sample<BucketedDelay>) {
        let recent = self.pairs.entry(pair).or_default();
        let sent = sample.sent.as_nanos();
        recent.last_sent = recent.last_sent.max(sent);
        if !matches!(sample.outcome, Outcome::Lost(_)) {
            recent.last_answered = recent.last_answered.max(Some(sent));
        }
        recent.changed = true;
        let minute = sent.div_euclid(MINUTE_NANOS);
        if minute + STATE_MINUTES as i64 > recent.last_sent.div_euclid(MINUTE_NANOS) {
            recent.minutes.entry(minute).or_default().add_sample(sample);
            while recent.minutes.len() > STATE_MINUTES {
                recent.minutes.pop_first();
            }
        }
    }

    /// Takes what was stored where it is later than what is here.
    pub(crate) fn resume(&mut self, state: &PairState) {
        let recent = self.pairs.entry(state.pair).or_default();
        recent.last_sent = recent.last_sent.max(state.last_sent.as_nanos());
        recent.last_answered = recent.last_answered.max(state.last_answered.map(Time::as_nanos));
    }

    /// The states that have changed since they were taken last.
    pub(crate) fn take_changed(&mut self) -> Vec<PairState> {
        let changed = self.pairs.iter_mut().filter(|(_, recent)| recent.changed);
        let states = changed.map(|(pair, recent)| {
            recent.changed = false;
            recent.state(*pair)
        });
        states.collect()
    }

    /// They were not stored after all.
    pub(crate) fn put_back(&mut self, states: impl IntoIterator<Item = PairId>) {
        for pair in states {
            self.pairs.entry(pair).or_default().changed = true;
        }
    }
}

impl RecentPair {
    fn state(&mut self, pair: PairId) -> PairState {
        let first = self.last_sent.div_euclid(MINUTE_NANOS) + 1 - STATE_MINUTES as i64;
        self.minutes.retain(|minute, _| *minute >= first);
        let sum: Summary = self.minutes.values().collect();
        let lane = |lane: Lane| {
            let tally = &sum[lane].idle;
            let sent = tally.sent();
            let quantiles = tally.delays.quantiles(&[0.5, 0.95, 0.0]);
            let value = |place: usize| quantiles[place].map(|quantile| quantile.value);
            (sent > 0).then(|| LaneState {
                sent,
                lost: tally.lost,
                unknown: tally.unknown,
                median: value(0),
                percentile_95: value(1),
                minimum: value(2),
            })
        };
        PairState {
            pair,
            last_sent: Time::from_nanos(self.last_sent),
            last_answered: self.last_answered.map(Time::from_nanos),
            up: lane(Lane::Up),
            down: lane(Lane::Down),
            round_trip: lane(Lane::RoundTrip),
        }
    }
}

impl PairState {
    /// As it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put_signed(&mut bytes, Some(self.last_sent.as_nanos()));
        put_signed(&mut bytes, self.last_answered.map(|answered| (self.last_sent - answered).as_nanos()));
        for lane in [&self.up, &self.down, &self.round_trip] {
            put_signed(&mut bytes, lane.map(|lane| lane.sent as i64));
            let Some(lane) = lane else { continue };
            [lane.lost, lane.unknown].iter().for_each(|count| put_signed(&mut bytes, Some(*count as i64)));
            for delay in [lane.median, lane.percentile_95, lane.minimum] {
                put_signed(&mut bytes, delay.map(|delay| delay.as_nanos() / QUANTUM_NANOS));
            }
        }
        bytes
    }

    /// None of what is damaged: it is written again soon.
    pub(crate) fn decode(pair: PairId, bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes.strip_prefix(&[VERSION])?;
        let last_sent = Time::from_nanos(take_signed(&mut bytes)??);
        let last_answered = take_signed(&mut bytes)?.map(|before| last_sent - Span::from_nanos(before));
        let mut lanes = [None; 3];
        for lane in &mut lanes {
            let Some(sent) = take_signed(&mut bytes)? else { continue };
            let (lost, unknown) = (take_signed(&mut bytes)??, take_signed(&mut bytes)??);
            let mut delay =
                || Some(take_signed(&mut bytes)?.map(|quanta| Span::from_nanos(quanta.saturating_mul(QUANTUM_NANOS))));
            let (median, percentile_95, minimum) = (delay()?, delay()?, delay()?);
            let (sent, lost, unknown) = (sent as u64, lost as u64, unknown as u64);
            *lane = Some(LaneState { sent, lost, unknown, median, percentile_95, minimum });
        }
        let [up, down, round_trip] = lanes;
        Some(PairState { pair, last_sent, last_answered, up, down, round_trip })
    }
}

const VERSION: u8 = 1;

/// None as 0; others by magnitude, with their sign in the lowest bit.
fn put_signed(bytes: &mut Vec<u8>, number: Option<i64>) {
    let zigzag = |number: i64| ((number << 1) ^ (number >> 63)) as u64;
    put_unsigned(bytes, number.map_or(0, |number| zigzag(number).saturating_add(1)));
}

fn take_signed(bytes: &mut &[u8]) -> Option<Option<i64>> {
    let number = take_unsigned(bytes)?.checked_sub(1);
    Some(number.map(|number| (number >> 1) as i64 ^ -((number & 1) as i64)))
}
