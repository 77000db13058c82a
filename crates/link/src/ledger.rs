use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// What happened on a link: counters always, single packets where recording is switched on. Measurements are judged by it.
#[derive(Debug)]
pub struct Ledger {
    packets: Counters,
    cross: Counters,
    recording: Recording,
    entries: VecDeque<LedgerEntry>,
    /// Total cross bytes up to and including each arrival time.
    cross_bytes_log: VecDeque<(Time, u64)>,
    /// The log is complete from here on, …
    log_from: Time,
    /// … up to here, the link's present time, …
    log_until: Time,
    /// … and counts on from this total.
    bytes_before_log: u64,
    lateness: Lateness,
}

/// Trains in which the host was late by more than this do not show the behaviour of the link.
const LATE_THRESHOLD: Span = Span::from_micros(300);

/// How much a [`Ledger`] keeps besides its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recording {
    /// Counters only.
    Off,
    /// Arrivals of cross traffic, for [`Ledger::cross_bytes_between`]: 16 bytes each.
    Cross,
    /// Also an [`LedgerEntry`] for each packet that is dropped.
    Drops,
    /// Also an [`LedgerEntry`] for each other packet.
    All,
}

/// Why a packet is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The queue had no room for it.
    QueueFull,
    /// Dropped by the queue discipline (AQM) although there was room.
    Aqm,
    /// The policer had no tokens for it.
    Policed,
    /// Lost on the medium, after its transmission.
    Loss,
    /// More bytes were in flight than [`crate::LinkConfig::in_flight_bytes`] allows.
    InFlightFull,
}

/// The origin of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketOrigin {
    /// Offered by the driver.
    Offered,
    /// Computed cross traffic.
    CrossTraffic,
}

/// The outcome for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketOutcome {
    /// Its transmission ended then; it is delivered after the delay.
    Departed(Time),
    /// Dropped then.
    Dropped(Time, DropCause),
}

/// One packet, recorded when its transmission begins or it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEntry {
    /// When it reached the queue.
    pub arrival: Time,
    /// IP packet size in bytes.
    pub size: u32,
    /// Its origin.
    pub origin: PacketOrigin,
    /// The flow it belongs to.
    pub flow: u64,
    /// The outcome.
    pub outcome: PacketOutcome,
}

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes at the IP layer.
    pub bytes: u64,
}

impl Recording {
    fn includes(self, entry: &LedgerEntry) -> bool {
        match self {
            Recording::Off | Recording::Cross => false,
            Recording::Drops => matches!(entry.outcome, PacketOutcome::Dropped(..)),
            Recording::All => true,
        }
    }
}

impl TrafficCount {
    /// What was added since an earlier count.
    pub fn since(self, earlier: TrafficCount) -> TrafficCount {
        let packets = self.packets.saturating_sub(earlier.packets);
        TrafficCount { packets, bytes: self.bytes.saturating_sub(earlier.bytes) }
    }
}

/// Counters for the packets of one origin. What was offered was forwarded, dropped for one of the causes, lost, or is
/// still queued. What is delivered in the end is what was forwarded and what was duplicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Arrived at the queue.
    pub offered: TrafficCount,
    /// Transmitted and not lost.
    pub forwarded: TrafficCount,
    /// Found no room in the queue.
    pub queue_full: TrafficCount,
    /// Dropped by the queue discipline although there was room.
    pub aqm_dropped: TrafficCount,
    /// Dropped by the policer, before the queue.
    pub policed: TrafficCount,
    /// Transmitted, then lost.
    pub lost: TrafficCount,
    /// Transmitted, then dropped because too much was in flight.
    pub in_flight_full: TrafficCount,
    /// Duplicates delivered in addition.
    pub duplicated: TrafficCount,
    /// Delayed so that following packets overtake them; also counted above.
    pub reordered: TrafficCount,
    /// Sent on with an inverted bit; also counted above.
    pub corrupted: TrafficCount,
    /// Marked by the queue (ECN); also counted above.
    pub marked: TrafficCount,
}

/// How late a driver delivered packets, relative to their due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    /// Packets delivered.
    pub count: u64,
    /// Those later than the threshold.
    pub late: u64,
    /// The maximum.
    pub max: Span,
    /// The sum over all packets.
    pub sum: Span,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Ledger {
            packets: Counters::default(),
            cross: Counters::default(),
            recording: Recording::Off,
            entries: VecDeque::new(),
            cross_bytes_log: VecDeque::new(),
            log_from: Time::MAX,
            log_until: Time::from_nanos(i64::MIN),
            bytes_before_log: 0,
            lateness: Lateness::default(),
        }
    }

    /// Counters for the packets that the driver offered.
    pub fn packet_counters(&self) -> &Counters {
        &self.packets
    }

    /// Counters for computed cross traffic.
    pub fn cross_counters(&self) -> &Counters {
        &self.cross
    }

    /// Records from the link's current time on. Earlier records are kept if their kind is still recorded.
    pub fn record(&mut self, recording: Recording) {
        if self.recording == Recording::Off || recording == Recording::Off {
            self.cross_bytes_log.clear();
            self.bytes_before_log = self.cross.offered.bytes;
            // Cross traffic that arrived at this very moment may have been missed already.
            let next = self.log_until + Span::from_nanos(1);
            self.log_from = if recording == Recording::Off { Time::MAX } else { next };
        }
        self.entries.retain(|entry| recording.includes(entry));
        self.recording = recording;
    }

    /// The recorded packets, in the order in which they were decided.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &LedgerEntry> + '_ {
        self.entries.iter()
    }

    /// Bytes of cross traffic that *arrived* at the queue within `[from, to)`, whether or not they found room; `None`
    /// where the record does not cover all of it. On a link of rate C whose queue did not overflow, the bandwidth that
    /// was available in that time is C minus this over the time.
    pub fn cross_bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        if from < self.log_from || to > self.log_until + Span::from_nanos(1) {
            return None;
        }
        let before = |time: Time| {
            let index = self.cross_bytes_log.partition_point(|(arrival, _)| *arrival < time);
            index.checked_sub(1).map_or(self.bytes_before_log, |last| self.cross_bytes_log[last].1)
        };
        Some(before(to).saturating_sub(before(from)))
    }

    /// Discards records of arrivals before `time`, to bound the memory of long runs.
    pub fn forget_before(&mut self, time: Time) {
        while self.cross_bytes_log.front().is_some_and(|(arrival, _)| *arrival < time) {
            self.bytes_before_log = self.cross_bytes_log.pop_front().map_or(self.bytes_before_log, |(_, total)| total);
        }
        while self.entries.front().is_some_and(|entry| entry.arrival < time) {
            self.entries.pop_front();
        }
        self.log_from = self.log_from.max(time);
    }

    /// To be called by the driver: it delivered a packet this long after its due time. Early counts as on time.
    pub fn record_delivery(&mut self, lateness: Span) {
        let lateness = lateness.max(Span::ZERO);
        self.lateness.count += 1;
        self.lateness.late += u64::from(lateness > LATE_THRESHOLD);
        self.lateness.max = self.lateness.max.max(lateness);
        self.lateness.sum += lateness;
    }

    /// Lateness since the start or the last [`Ledger::take_lateness`].
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Returns the lateness so far and resets it, to judge each run by itself.
    pub fn take_lateness(&mut self) -> Lateness {
        std::mem::take(&mut self.lateness)
    }

    pub(crate) fn record_time(&mut self, time: Time) {
        self.log_until = time;
    }

    pub(crate) fn record_offer(&mut self, kind: PacketOrigin, size: u32, arrival: Time) {
        self.counters(kind).offered.count_packet(size);
        if kind == PacketOrigin::CrossTraffic && self.recording != Recording::Off {
            let total = self.cross.offered.bytes;
            match self.cross_bytes_log.back_mut() {
                Some((last, bytes)) if *last == arrival => *bytes = total,
                _ => self.cross_bytes_log.push_back((arrival, total)),
            }
        }
    }

    pub(crate) fn record_outcome(&mut self, entry: LedgerEntry) {
        let LedgerEntry { origin: kind, size, outcome: fate, .. } = entry;
        let counters = self.counters(kind);
        match fate {
            PacketOutcome::Departed(_) => counters.forwarded.count_packet(size),
            PacketOutcome::Dropped(_, DropCause::QueueFull) => counters.queue_full.count_packet(size),
            PacketOutcome::Dropped(_, DropCause::Aqm) => counters.aqm_dropped.count_packet(size),
            PacketOutcome::Dropped(_, DropCause::Policed) => counters.policed.count_packet(size),
            PacketOutcome::Dropped(_, DropCause::Loss) => counters.lost.count_packet(size),
            PacketOutcome::Dropped(_, DropCause::InFlightFull) => counters.in_flight_full.count_packet(size),
        }
        if self.recording.includes(&entry) {
            self.entries.push_back(entry);
        }
    }

    /// Of the packets that the driver offered.
    pub(crate) fn offered_counters(&mut self) -> &mut Counters {
        &mut self.packets
    }

    /// The packet in service departs at another time than was noted.
    pub(crate) fn revise_departure(&mut self, noted: Time, departure: Time) {
        for entry in self.entries.iter_mut().rev() {
            if let PacketOutcome::Departed(time)
            | PacketOutcome::Dropped(time, DropCause::Loss | DropCause::InFlightFull) = &mut entry.outcome
                && *time == noted
            {
                *time = departure;
                return;
            }
        }
    }

    pub(crate) fn record_mark(&mut self, kind: PacketOrigin, size: u32) {
        self.counters(kind).marked.count_packet(size);
    }

    fn counters(&mut self, kind: PacketOrigin) -> &mut Counters {
        match kind {
            PacketOrigin::Offered => &mut self.packets,
            PacketOrigin::CrossTraffic => &mut self.cross,
        }
    }
}

impl TrafficCount {
    pub(crate) fn count_packet(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}
