//! Pathload (Jain, Dovrolis: Pathload, a measurement tool for end-to-end available bandwidth, PAM 2002; End-to-end
//! available bandwidth, SIGCOMM 2002 and IEEE/ACM Transactions on Networking 11, 2003): self-loading periodic streams.
//!
//! "The one-way delays of a periodic packet stream show an increasing trend when the stream's rate is higher than the
//! avail-bw." A fleet of streams of one rate says whether that rate is above or below, or in a grey region in which the
//! available bandwidth varied; a binary search closes in on that region from both sides. The result is the range.
//!
//! Written from what is generally known of the method, without the papers' full text at hand: the order of the search
//! within the grey region and the rules for losses may differ in detail.

mod fleet;
mod search;
mod trend;

use crate::bound::{Bound, BoundKind};
use crate::config::{Budget, Conditions, MethodConfig};
use crate::method::{Method, Outcome, Rejection, Step};
use crate::published::{Flight, ProbeAccount};
use crate::reason::Reason;
use crate::warning::Warning;
use fleet::{Fleet, FleetShape, STREAM_PACKETS};
use kumade_probe_train::{Estimate, Segment, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use search::RateSearch;

/// The shortest interval between packets of a stream, as long as packets can grow instead.
const MIN_INTERVAL_SECONDS: f64 = 100e-6;
/// The smallest packet of a stream.
const MIN_PACKET_BYTES: u32 = 200;
/// Above this no path is measured.
const MAX_BITS_PER_SECOND: f64 = 10e9;
/// Streams of a lower rate would last longer than a train may.
const MIN_BITS_PER_SECOND: f64 = 10e3;
/// Packets of the scout.
const SCOUT_PACKETS: u32 = 10;

/// How exact Pathload is to be. The default has resolutions in the ratio of the paper's experiments, which had ω = 1 and
/// χ = 1.5 Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathloadConfig {
    /// The width of the range at which it is narrow enough (the paper's ω), as a part of the path's dispersion rate.
    pub resolution: f64,
    /// How near both ends must come to the grey region (the paper's χ), as such a part.
    pub grey_resolution: f64,
}

/// Where it must end, however wide the range is then, unless the user says otherwise. The published measurements took 10
/// to 130 s; a published fleet takes about 1 s at 100 Mbit/s and 6 s at 2.5 Mbit/s.
const BUDGET: Budget = Budget { bytes: 30_000_000, time: Span::from_secs(55) };

impl Default for PathloadConfig {
    fn default() -> Self {
        PathloadConfig { resolution: 0.05, grey_resolution: 0.075 }
    }
}

impl MethodConfig for PathloadConfig {
    const NAME: &'static str = "pathload";
    const SUMMARY: &'static str = "fleets of periodic streams, up to a minute; the result is a range";
    const IS_COMPARISON: bool = true;
    const BUDGET: Option<Budget> = Some(BUDGET);

    fn max_packets(&self) -> u32 {
        STREAM_PACKETS
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(Pathload::new(*self, conditions))
    }
}

/// The published tool, with these differences:
///
/// - The first rate is the dispersion rate of a short back-to-back train, which lies between available bandwidth and
///   capacity; from there it doubles until a fleet is above.
/// - Above 120 Mbit/s, where packets cannot grow, they follow each other faster than every 100 µs.
/// - A fleet ends as soon as the streams to come could not change what it says.
/// - It waits nine stream durations and not at least a round trip: whoever carries the train hears of the last one a
///   round trip later anyhow.
/// - Where the time does not suffice for fleets of twelve streams of a hundred packets, it waits less, and then sends
///   fewer and shorter streams: at 100 kbit/s one published fleet would take more than three minutes.
/// - It ends with the budget, too; the range is then as wide as it is.
///
/// Its streams are periodic, as published: where cross traffic is just as regular, the two drift past each other, and a
/// delay that rises or falls all along the stream does not depend on bandwidth.
#[derive(Debug)]
pub struct Pathload {
    config: PathloadConfig,
    max_packet: u32,
    budget: Budget,
    search: Option<RateSearch>,
    fleet: Option<Fleet>,
    /// The silence before the next train.
    silence: Span,
    /// When the scout was asked for.
    scouted_at: Time,
    /// How long after a train's end it is known what became of it.
    turnaround: Option<Span>,
    /// Whether any fleet was less than the published one.
    is_shortened: bool,
    account: ProbeAccount,
}

impl Pathload {
    /// Starts knowing nothing of the path.
    pub fn new(config: PathloadConfig, conditions: &Conditions) -> Self {
        Pathload {
            config,
            max_packet: conditions.max_packet,
            budget: BUDGET.or_requested(conditions.budget),
            search: None,
            fleet: None,
            silence: Span::ZERO,
            scouted_at: Time::ZERO,
            turnaround: None,
            is_shortened: false,
            account: ProbeAccount::default(),
        }
    }

    /// The next train; none when the search is over.
    fn plan_stream(&mut self, now: Time) -> Option<Train> {
        let max_packet = self.max_packet;
        let Some(search) = &self.search else {
            self.scouted_at = now;
            let scout = Segment { count: SCOUT_PACKETS, interval: Span::ZERO, first_size: max_packet, size_step: 0 };
            return Some(Train { segments: vec![scout] });
        };
        let on_the_way = || Span::from_secs_f64(f64::from(SCOUT_PACKETS * max_packet) * 8.0 / search.first_rate);
        let turnaround = *self.turnaround.get_or_insert_with(|| (now - self.scouted_at - on_the_way()).max(Span::ZERO));
        if self.fleet.is_none() {
            let rate = search.next_rate().filter(|rate| (MIN_BITS_PER_SECOND..=MAX_BITS_PER_SECOND).contains(rate))?;
            let room = (self.budget.time - self.account.elapsed(now)) / search.fleets_to_come();
            let shape = FleetShape::fit_into(room, stream_segment(rate, max_packet).interval, turnaround);
            self.fleet = Some(Fleet::new(rate, shape));
        }
        let Fleet { rate, shape, .. } = self.fleet?;
        let stream = Train { segments: vec![Segment { count: shape.packets, ..stream_segment(rate, max_packet) }] };
        self.silence = Span::from_secs_f64(stream.duration().as_secs_f64() * shape.silence);
        self.is_shortened |= shape != FleetShape::PUBLISHED_SHAPE;
        Some(stream)
    }

    fn record_scout(&mut self, flight: &Flight) {
        let Some(rate) = flight.receiving_rate().filter(|_| flight.loss_fraction() < 0.5) else {
            return self.account.reject(Rejection::PacketsMissing);
        };
        let first = rate.clamp(MIN_BITS_PER_SECOND, MAX_BITS_PER_SECOND);
        let Pathload { config: PathloadConfig { resolution, grey_resolution, .. }, .. } = *self;
        self.search = Some(RateSearch::new(first, resolution * first, grey_resolution * first));
        self.account.accept();
    }

    fn outcome(&self) -> Outcome {
        let mut warnings = vec![Warning::PathloadRange];
        let found = match self.search {
            Some(RateSearch { low, high: Some(high), .. }) => {
                let [value, low, high] = [(low + high) / 2.0, low, high].map(Rate::from_f64);
                Ok(Estimate { value, low, high, confidence: 0.0 })
            }
            Some(RateSearch { low, .. }) if low > 0.0 => Err(Reason::NoRateExceeds(Rate::from_f64(low))),
            _ => Err(Reason::NoCompleteFleet),
        };
        if found.is_ok() && self.search.is_some_and(|search| search.next_rate().is_some()) {
            warnings.push(Warning::RangeTooWide);
        }
        if self.is_shortened {
            warnings.push(Warning::StreamsShortened);
        }
        Outcome { bound: self.bound(), ..self.account.outcome(found, warnings) }
    }

    /// What is known where no rate exceeded the available bandwidth.
    fn bound(&self) -> Option<Bound> {
        let RateSearch { low, high, .. } = self.search?;
        (high.is_none() && low > 0.0).then(|| Bound::AtLeast(Rate::from_f64(low), BoundKind::RateRange))
    }
}

impl Method for Pathload {
    fn next(&mut self, now: Time) -> Step {
        self.account.begin_measurement(now);
        let wait = self.silence.max(Span::from_millis(10));
        let Some(train) = self.plan_stream(now) else { return Step::Done(self.outcome()) };
        let step = self.account.send(now, wait, train, &self.budget);
        step.unwrap_or_else(|| Step::Done(self.outcome()))
    }

    fn record(&mut self, record: &TrainRecord) {
        let Some(flight) = self.account.read_record(record) else { return };
        let (Some(fleet), Some(search)) = (&mut self.fleet, &mut self.search) else {
            return self.record_scout(&flight);
        };
        self.account.accept();
        if let Some(verdict) = fleet.take_stream(&flight) {
            search.record_fleet(fleet.rate, verdict);
            self.fleet = None;
        }
    }

    fn current_estimate(&self) -> Option<Rate> {
        let search = self.search?;
        search.high.map(|high| Rate::from_f64((search.low + high) / 2.0))
    }
}

/// A stream of this rate: the shortest interval and the size that fits, or else the smallest or largest size and the
/// interval that fits.
fn stream_segment(rate: f64, max_packet: u32) -> Segment {
    let size = ((rate * MIN_INTERVAL_SECONDS / 8.0) as u32).clamp(MIN_PACKET_BYTES.min(max_packet), max_packet);
    let interval = Span::from_secs_f64(f64::from(size) * 8.0 / rate);
    Segment { count: STREAM_PACKETS, interval, first_size: size, size_step: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RequestedBudget;
    use crate::published::fluid::{Fluid, measure, nothing};

    fn run(available: f64, capacity: f64, budget: RequestedBudget) -> (Outcome, Vec<Train>) {
        let mut path = Fluid::new(available, capacity);
        let conditions = Conditions { budget, ..Conditions::new(1500) };
        measure(&mut Pathload::new(PathloadConfig::default(), &conditions), |wait, train| path.send(wait, train))
    }

    #[test]
    fn the_range_holds_a_steady_value() {
        for (available, capacity) in [(100e6, 100e6), (30e6, 100e6), (4e6, 5e6), (700e6, 1e9)] {
            let (outcome, trains) = run(available, capacity, RequestedBudget::default());
            let found = outcome.available.unwrap();
            let [low, high] = [found.low, found.high].map(Rate::as_f64);
            assert!(low <= available * 1.001 && available <= high * 1.001, "{available}: {found:?}");
            assert!(high - low <= 0.051 * capacity, "{available}: {found:?}");
            assert!(trains[1..].iter().all(|t| t.packet_count() == 100));
        }
    }

    #[test]
    fn streams_keep_the_papers_sizes_and_intervals() {
        let of = |rate| {
            let segment = stream_segment(rate, 1500);
            (segment.first_size, segment.interval)
        };
        assert_eq!(of(40e6), (500, Span::from_micros(100)));
        assert_eq!(of(1e6), (200, Span::from_micros(1600)));
        assert_eq!(of(240e6), (1500, Span::from_micros(50)));
        assert!(Train { segments: vec![stream_segment(MIN_BITS_PER_SECOND, 1500)] }.check(1500).is_ok());
    }

    #[test]
    fn the_budget_ends_it_with_what_is_known() {
        let budget = RequestedBudget { bytes: Some(3_000_000), time: None };
        let (outcome, _) = run(30e6, 100e6, budget);
        let found = outcome.available.unwrap();
        assert!(found.low.as_f64() <= 30e6 && 30e6 <= found.high.as_f64(), "{found:?}");
        assert!(outcome.warnings.contains(&Warning::RangeTooWide), "{:?}", outcome.warnings);
    }

    #[test]
    fn a_path_that_loses_everything_has_no_value() {
        let mut method = Pathload::new(PathloadConfig::default(), &Conditions::new(1500));
        let reason = measure(&mut method, |_, train| nothing(train)).0.reason;
        assert!(matches!(reason, Some(Reason::RejectedInRow(..))), "{reason:?}");
    }

    #[test]
    fn a_fleet_that_loses_too_much_was_too_fast() {
        let mut path = Fluid::new(30e6, 100e6);
        let mut method = Pathload::new(PathloadConfig::default(), &Conditions::new(1500));
        let (outcome, _) = measure(&mut method, |wait, train| {
            let mut record = path.send(wait, train);
            // As a short queue would: what exceeds 20 Mbit/s loses one in eight.
            if train.packet_count() == STREAM_PACKETS
                && train.bytes() as f64 * 8.0 > 20e6 * train.duration().as_secs_f64()
            {
                record.packets.iter_mut().step_by(8).for_each(|p| p.received = None);
            }
            record
        });
        assert!(outcome.available.unwrap().high.as_f64() < 25e6, "{outcome:?}");
    }
}
