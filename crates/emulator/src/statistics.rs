//! Counts of packets delivered and dropped, their sojourn times, and how late they were.
//!
//! A [`Recorder`] is told of each packet of one direction; it allocates nothing after it was made, and remembers a
//! bounded number of flows, those that send most. What it has seen is a [`DirectionStatistics`]: totals from the start
//! on. [`DirectionStatistics::delta_since`] makes of two of them what happened in between.

mod fairness;
mod flows;

pub use fairness::{MeanFairness, fairness_index};
pub use flows::FlowStatistics;

use flows::FlowTable;
use hdrhistogram::Histogram;
use kumade_link::TrafficCount;
use kumade_packet::FlowKey;
use kumade_units::Span;

/// Why a packet did not come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The queue had no room for it.
    QueueFull,
    /// The queue's discipline chose it though there was room.
    Aqm,
    /// It exceeded the policer's rate and burst.
    Policed,
    /// Lost behind the queue, as settings ask.
    EmulatedLoss,
    /// A rule refused it.
    FilteredByRule,
    /// It was not a packet that can be forwarded: truncated, or of a wrong length.
    Malformed,
    /// It is larger than the other side takes.
    TooLarge,
    /// More came than this program could read in time, or was on its way than it may hold.
    Overload,
    /// The other side did not take it.
    OutputRefused,
}

/// Takes note of each packet of one direction.
#[derive(Debug, Default)]
pub struct Recorder {
    counts: PacketCounts,
    queueing: DurationHistogram,
    sojourn: DurationHistogram,
    lateness: DurationHistogram,
    flows: FlowTable,
}

/// The statistics of a [`Recorder`].
#[derive(Debug, Clone)]
pub struct DirectionStatistics {
    /// Packets by what became of them.
    pub counts: PacketCounts,
    /// In the queue: from arrival until transmission began.
    pub queueing: DurationHistogram,
    /// From arrival to delivery.
    pub sojourn: DurationHistogram,
    /// How much later than due the packets were delivered: what this machine added.
    pub lateness: DurationHistogram,
    /// The flows that are remembered, in no order; the counts less theirs are those of all other flows.
    pub flows: Vec<FlowStatistics>,
}

/// How long a delivered packet took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// In the queue: from its arrival until its transmission began.
    pub queueing: Span,
    /// From its arrival to its delivery.
    pub sojourn: Span,
    /// From when it was due to its delivery.
    pub lateness: Span,
}

/// Packets of one direction, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounts {
    /// Reached the link, whatever became of it.
    pub offered: TrafficCount,
    /// Came out at the other side.
    pub delivered: TrafficCount,
    /// Marked by the queue (ECN); counted as delivered too.
    pub marked: TrafficCount,
    /// Came out with a bit inverted, as settings ask; counted as delivered too.
    pub corrupted: TrafficCount,
    /// Did not come out, by [`DropCause::ALL`].
    dropped: [TrafficCount; DropCause::ALL.len()],
    /// How much waited for the link when this was taken.
    pub queued_bytes: u64,
}

/// How long something took, of many packets: values within 1 % above 100 ns.
#[derive(Debug, Clone)]
pub struct DurationHistogram {
    histogram: Histogram<u64>,
}

/// Longer times count as this.
const MAX_DURATION: Span = Span::from_secs(100);
/// Shorter times are not distinguished.
const MIN_DURATION: Span = Span::from_nanos(64);

impl DropCause {
    /// All of them.
    pub const ALL: [DropCause; 9] = [
        DropCause::QueueFull,
        DropCause::Aqm,
        DropCause::Policed,
        DropCause::EmulatedLoss,
        DropCause::FilteredByRule,
        DropCause::Malformed,
        DropCause::TooLarge,
        DropCause::Overload,
        DropCause::OutputRefused,
    ];
}

impl From<kumade_link::DropCause> for DropCause {
    fn from(cause: kumade_link::DropCause) -> Self {
        match cause {
            kumade_link::DropCause::QueueFull => DropCause::QueueFull,
            kumade_link::DropCause::Aqm => DropCause::Aqm,
            kumade_link::DropCause::Policed => DropCause::Policed,
            kumade_link::DropCause::Loss => DropCause::EmulatedLoss,
            kumade_link::DropCause::InFlightFull => DropCause::Overload,
        }
    }
}

impl Recorder {
    /// One that has seen nothing yet.
    pub fn new() -> Self {
        Recorder::default()
    }

    /// A packet of `size` IP bytes reached the link. `true` says that its flow is new here; [`Recorder::set_flow_key`] it,
    /// where it has a description.
    pub fn record_offered(&mut self, flow: u64, size: u32) -> bool {
        count_packet(&mut self.counts.offered, size);
        let (slot, new) = self.flows.find_or_insert(flow, size);
        if let Some(slot) = slot {
            count_packet(&mut slot.offered, size);
        }
        new
    }

    /// Who speaks to whom in a flow, for people to recognise it.
    pub fn set_flow_key(&mut self, flow: u64, key: FlowKey) {
        if let Some(slot) = self.flows.find(flow) {
            slot.key = Some(key);
        }
    }

    /// A packet was written to the other side.
    pub fn record_delivered(&mut self, flow: u64, size: u32, delays: Delays) {
        count_packet(&mut self.counts.delivered, size);
        self.queueing.record(delays.queueing);
        self.sojourn.record(delays.sojourn);
        self.lateness.record(delays.lateness);
        if let Some(slot) = self.flows.find(flow) {
            count_packet(&mut slot.delivered, size);
        }
    }

    /// The queue marked a packet (ECN), which is or will be delivered.
    pub fn record_marked(&mut self, flow: u64, size: u32) {
        count_packet(&mut self.counts.marked, size);
        if let Some(slot) = self.flows.find(flow) {
            count_packet(&mut slot.marked, size);
        }
    }

    /// A bit of a packet was inverted, which is or will be delivered.
    pub fn record_corrupted(&mut self, size: u32) {
        count_packet(&mut self.counts.corrupted, size);
    }

    /// A packet did not come out.
    pub fn record_dropped(&mut self, flow: u64, size: u32, cause: impl Into<DropCause>) {
        count_packet(&mut self.counts.dropped[cause.into() as usize], size);
        if let Some(slot) = self.flows.find(flow) {
            count_packet(&mut slot.dropped, size);
        }
    }

    /// So many packets, of which nothing else is known, could not be read in time.
    pub fn record_missed(&mut self, packets: u64) {
        self.counts.offered.packets += packets;
        self.counts.dropped[DropCause::Overload as usize].packets += packets;
    }

    /// Bytes in the queue now.
    pub fn set_queued_bytes(&mut self, bytes: u64) {
        self.counts.queued_bytes = bytes;
    }

    /// All so far.
    pub fn snapshot(&self) -> DirectionStatistics {
        let mut statistics = DirectionStatistics::default();
        self.copy_to(&mut statistics);
        statistics
    }

    /// Puts all so far in place of what is there; allocates nothing. This copies some ten kilobytes, and more where there
    /// are many flows: some microseconds.
    pub fn copy_to(&self, statistics: &mut DirectionStatistics) {
        let DirectionStatistics { counts, queueing, sojourn, lateness, flows } = statistics;
        *counts = self.counts;
        queueing.copy_from(&self.queueing);
        sojourn.copy_from(&self.sojourn);
        lateness.copy_from(&self.lateness);
        flows.clear();
        flows.extend(self.flows.iter().cloned());
    }
}

impl Default for DirectionStatistics {
    /// Nothing, with room for all flows that can be remembered.
    fn default() -> Self {
        DirectionStatistics {
            counts: PacketCounts::default(),
            queueing: DurationHistogram::default(),
            sojourn: DurationHistogram::default(),
            lateness: DurationHistogram::default(),
            flows: Vec::with_capacity(FlowTable::MAX_FLOWS),
        }
    }
}

impl DirectionStatistics {
    /// The difference to an `earlier` one of the same direction.
    pub fn delta_since(&self, earlier: &DirectionStatistics) -> DirectionStatistics {
        let mut before: Vec<_> = earlier.flows.iter().collect();
        before.sort_unstable_by_key(|flow| flow.flow);
        let known = |flow: u64| before.binary_search_by_key(&flow, |flow| flow.flow).ok().map(|index| before[index]);
        DirectionStatistics {
            counts: self.counts.delta_since(&earlier.counts),
            queueing: self.queueing.delta_since(&earlier.queueing),
            sojourn: self.sojourn.delta_since(&earlier.sojourn),
            lateness: self.lateness.delta_since(&earlier.lateness),
            flows: self.flows.iter().map(|flow| flow.delta_since(known(flow.flow))).collect(),
        }
    }
}

impl PacketCounts {
    /// Packets dropped for this cause.
    pub fn dropped_for(&self, cause: DropCause) -> TrafficCount {
        self.dropped[cause as usize]
    }

    /// Packets dropped for any cause.
    pub fn total_dropped(&self) -> TrafficCount {
        self.dropped.iter().fold(TrafficCount::default(), |sum, count| sum_counts(sum, *count))
    }

    fn delta_since(&self, earlier: &PacketCounts) -> PacketCounts {
        PacketCounts {
            offered: self.offered.since(earlier.offered),
            delivered: self.delivered.since(earlier.delivered),
            marked: self.marked.since(earlier.marked),
            corrupted: self.corrupted.since(earlier.corrupted),
            dropped: std::array::from_fn(|cause| self.dropped[cause].since(earlier.dropped[cause])),
            queued_bytes: self.queued_bytes,
        }
    }
}

impl Default for DurationHistogram {
    fn default() -> Self {
        let (low, high) = (MIN_DURATION.as_nanos() as u64, MAX_DURATION.as_nanos() as u64);
        let histogram = Histogram::new_with_bounds(low, high, 2).expect("bounds that the crate's page allows");
        DurationHistogram { histogram }
    }
}

impl DurationHistogram {
    fn record(&mut self, span: Span) {
        self.histogram.saturating_record(span.as_nanos().max(0) as u64);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their quantile, of a part from 0 to 1; `None` where there are none.
    pub fn quantile(&self, part: f64) -> Option<Span> {
        (self.count() > 0).then(|| span_from_nanos(self.histogram.value_at_quantile(part)))
    }

    /// The mean; `None` where there are none.
    pub fn mean(&self) -> Option<Span> {
        (self.count() > 0).then(|| span_from_nanos(self.histogram.mean().round() as u64))
    }

    /// How many lasted no longer than this.
    pub fn count_up_to(&self, span: Span) -> u64 {
        self.histogram.count_between(0, span.as_nanos().max(0) as u64)
    }

    fn copy_from(&mut self, other: &DurationHistogram) {
        self.histogram.reset();
        // Fails only where the other one holds more than fits into this one, which is made alike.
        let copied = self.histogram.add(&other.histogram);
        debug_assert!(copied.is_ok());
    }

    fn delta_since(&self, earlier: &DurationHistogram) -> DurationHistogram {
        let mut histogram = self.histogram.clone();
        // Fails only where the earlier one has more, so that it isn't an earlier one.
        match histogram.subtract(&earlier.histogram) {
            Ok(()) => DurationHistogram { histogram },
            Err(_) => self.clone(),
        }
    }
}

fn span_from_nanos(value: u64) -> Span {
    Span::from_nanos(i64::try_from(value).unwrap_or(i64::MAX))
}

fn count_packet(count: &mut TrafficCount, size: u32) {
    count.packets += 1;
    count.bytes += u64::from(size);
}

fn sum_counts(left: TrafficCount, right: TrafficCount) -> TrafficCount {
    TrafficCount { packets: left.packets + right.packets, bytes: left.bytes + right.bytes }
}

#[cfg(test)]
mod tests;
