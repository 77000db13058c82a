//! The part of the document that tells delays.

use estimate::Estimate;
use estimate::delay::{ClockModel, Delays, Deliveries, Way};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use units::{Span, Time};

/// How far it is: one-way delays, with bounds that hold whatever the clocks are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DelayReport {
    /// What was probed with: `stamp` (RFC 8762) or `trains` (packet trains each way).
    pub probes: String,
    /// There and back, less what the reflector took; null where each packet went one way only.
    pub round_trip: Option<DelayFigures>,
    /// From here to the peer, on the otherwise idle path.
    pub up: Option<DelayFigures>,
    /// From the peer to here, on the otherwise idle path.
    pub down: Option<DelayFigures>,
    /// From here to the peer, while trains load the path that way; null where none did.
    pub up_loaded: Option<DelayFigures>,
    /// From the peer to here, while trains load the path that way; null where none did.
    pub down_loaded: Option<DelayFigures>,
    /// Why figures are missing; null where none are.
    pub reason: Option<String>,
    /// What the peer's clock is ahead of this host's; null where nothing can be said.
    pub clock: Option<ClockReport>,
    /// What became of the probes there and back; null where each packet went one way only.
    pub round_trip_packets: Option<PacketReport>,
    /// What became of the probes on their way up; null where the reflector does not count.
    pub up_packets: Option<PacketReport>,
    /// What became of the probes on their way down; null where the reflector does not count.
    pub down_packets: Option<PacketReport>,
    /// Routers on the way up, by what is left of the TTL; null where the reflector does not tell.
    pub up_hops: Option<u8>,
    /// Routers on the way down; null where the reflector does not send with the largest TTL.
    pub down_hops: Option<u8>,
    /// What a reader of the figures should know.
    pub warnings: Vec<String>,
}

/// Delays of many packets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DelayFigures {
    /// Packets that went into the figures.
    pub packets: u32,
    /// The least delay.
    pub minimum_seconds: Interval,
    /// Half of the packets took no longer.
    pub median_seconds: Interval,
    /// 95 % of the packets took no longer.
    pub percentile_95_seconds: Interval,
    /// 99 % of the packets took no longer.
    pub percentile_99_seconds: Interval,
    /// Delay beyond the least (PDV, RFC 5481, 4.2), of which 95 % of the packets had no more.
    pub variation_95_seconds: f64,
    /// The same for 99 %.
    pub variation_99_seconds: f64,
}

/// A figure and the interval that holds the truth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The best single figure: the one for a path of equal length both ways, as far as nothing else is known.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// 1 is a bound: it holds as long as the clocks run evenly and what they say of themselves is true.
    pub confidence: f64,
}

/// The peer's clock against this host's.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClockReport {
    /// What the peer's is ahead.
    pub offset_seconds: Interval,
    /// How much faster it runs: 1e-6 is a part in a million.
    pub skew: Interval,
    /// When a clock was set meanwhile.
    pub steps: Vec<StepReport>,
    /// By how much this host's clock may be wrong; null where nothing is known.
    pub near_error_seconds: Option<f64>,
    /// By how much the peer's clock may be wrong, by its own word; null where it does not know.
    pub far_error_seconds: Option<f64>,
}

/// A clock that was set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StepReport {
    /// When, counted from the first probe.
    pub after_seconds: f64,
    /// By how much the peer's clock is further ahead.
    pub size_seconds: f64,
}

/// What became of packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PacketReport {
    /// Packets sent.
    pub sent: u32,
    /// Packets that arrived within the deadline.
    pub arrived: u32,
    /// Packets that arrived later: they are not lost.
    pub late: u32,
    /// Packets that never arrived.
    pub lost: u32,
    /// Those as a part of all.
    pub loss_ratio: f64,
    /// Further copies (RFC 5560).
    pub duplicates: u32,
    /// Packets that arrived behind one that was sent later (RFC 4737).
    pub reordered: u32,
    /// Those as a part of all that arrived.
    pub reordering_ratio: f64,
    /// The most places by which one came behind.
    pub reordering_extent: u32,
}

impl DelayReport {
    /// Without figures, as long as none are added.
    pub fn new(probes: &str) -> Self {
        DelayReport {
            probes: probes.to_owned(),
            round_trip: None,
            up: None,
            down: None,
            up_loaded: None,
            down_loaded: None,
            reason: None,
            clock: None,
            round_trip_packets: None,
            up_packets: None,
            down_packets: None,
            up_hops: None,
            down_hops: None,
            warnings: Vec::new(),
        }
    }

    /// Whether there is any figure.
    pub fn has_value(&self) -> bool {
        [&self.round_trip, &self.up, &self.down].into_iter().any(Option::is_some)
    }
}

impl DelayFigures {
    /// Of one way's packets, or of a part of them.
    pub fn of(model: &ClockModel, way: Way, choose: impl Fn(usize) -> bool) -> Option<Self> {
        model.delays(way, choose).map(DelayFigures::from)
    }
}

impl From<Delays> for DelayFigures {
    fn from(delays: Delays) -> Self {
        DelayFigures {
            packets: delays.packets,
            minimum_seconds: delays.minimum.into(),
            median_seconds: delays.median.into(),
            percentile_95_seconds: delays.percentile_95.into(),
            percentile_99_seconds: delays.percentile_99.into(),
            variation_95_seconds: delays.variation_95.as_secs_f64(),
            variation_99_seconds: delays.variation_99.as_secs_f64(),
        }
    }
}

impl From<Estimate<Span>> for Interval {
    fn from(estimate: Estimate<Span>) -> Self {
        let Estimate { value, low, high, confidence } = estimate;
        let [value, low, high] = [value, low, high].map(Span::as_secs_f64);
        Interval { value, low, high, confidence }
    }
}

impl From<Estimate<f64>> for Interval {
    fn from(estimate: Estimate<f64>) -> Self {
        let Estimate { value, low, high, confidence } = estimate;
        Interval { value, low, high, confidence }
    }
}

impl ClockReport {
    /// What a model says; steps are told from `started` on, by the near clock.
    pub fn new(model: &ClockModel, started: Time, near_error: Option<Span>, far_error: Option<Span>) -> Self {
        let steps = model.steps().iter().map(|step| StepReport {
            after_seconds: (step.at - started).as_secs_f64(),
            size_seconds: step.size.as_secs_f64(),
        });
        ClockReport {
            offset_seconds: model.offset().into(),
            skew: model.skew().into(),
            steps: steps.collect(),
            near_error_seconds: near_error.map(Span::as_secs_f64),
            far_error_seconds: far_error.map(Span::as_secs_f64),
        }
    }
}

impl From<Deliveries> for PacketReport {
    fn from(counts: Deliveries) -> Self {
        PacketReport {
            sent: counts.sent,
            arrived: counts.arrived,
            late: counts.late,
            lost: counts.lost,
            loss_ratio: counts.loss_ratio(),
            duplicates: counts.duplicates,
            reordered: counts.reordered,
            reordering_ratio: counts.reordering_ratio(),
            reordering_extent: counts.reordering_extent,
        }
    }
}

impl fmt::Display for Interval {
    /// Seconds, with the interval where it is wider than nothing: `15.1 ms (14.2 ms … 16.0 ms)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [value, low, high] = [self.value, self.low, self.high].map(Span::from_secs_f64);
        if low == high { write!(f, "{value}") } else { write!(f, "{value} ({low} … {high})") }
    }
}

impl fmt::Display for DelayFigures {
    /// `15.1 ms (14.2 ms … 16.0 ms), median +0.1 ms, 95 % +0.4 ms, 99 % +0.9 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beyond = |seconds: f64| Span::from_secs_f64((seconds - self.minimum_seconds.value).max(0.0));
        write!(f, "{}, median +{}", self.minimum_seconds, beyond(self.median_seconds.value))?;
        let [most, nearly_all] = [self.variation_95_seconds, self.variation_99_seconds].map(Span::from_secs_f64);
        write!(f, ", 95 % +{most}, 99 % +{nearly_all}")
    }
}

impl fmt::Display for PacketReport {
    /// `200 sent, 1 lost (0.5 %), 2 late, 3 duplicates, 4 reordered (by up to 2 places)`; zeros but for loss are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sent, {} lost ({:.2} %)", self.sent, self.lost, self.loss_ratio * 100.0)?;
        if self.late > 0 {
            write!(f, ", {} late", self.late)?;
        }
        if self.duplicates > 0 {
            write!(f, ", {} duplicates", self.duplicates)?;
        }
        if self.reordered > 0 {
            write!(f, ", {} reordered (by up to {} places)", self.reordered, self.reordering_extent)?;
        }
        Ok(())
    }
}

impl fmt::Display for DelayReport {
    /// A few plain lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = Vec::new();
        let figures = [
            ("round trip", &self.round_trip),
            ("delay up", &self.up),
            ("delay up under load", &self.up_loaded),
            ("delay down", &self.down),
            ("delay down under load", &self.down_loaded),
        ];
        lines.extend(figures.iter().filter_map(|(name, figures)| Some(format!("{name}: {}", figures.as_ref()?))));
        let packets = [
            ("packets", &self.round_trip_packets),
            ("packets up", &self.up_packets),
            ("packets down", &self.down_packets),
        ];
        lines.extend(packets.iter().filter_map(|(name, packets)| Some(format!("{name}: {}", packets.as_ref()?))));
        if let (Some(up), Some(down)) = (self.up_hops, self.down_hops) {
            lines.push(format!("routers: {up} up, {down} down"));
        }
        if let Some(clock) = &self.clock {
            let ppm = clock.skew.value * 1e6;
            lines.push(format!("peer's clock: ahead by {}, drifting by {ppm:+.1} ppm", clock.offset_seconds));
        }
        lines.extend(self.reason.iter().map(|reason| format!("delay: no value: {reason}")));
        lines.extend(self.warnings.iter().map(|warning| format!("  note: {warning}")));
        f.write_str(&lines.join("\n"))
    }
}
