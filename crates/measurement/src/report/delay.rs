//! Delay, loss and reordering in the document.

use super::clock::ClockReport;
use super::extensions::ExtensionsReport;
use super::figures::SecondsWithBounds;
use super::packets::PacketReport;
use super::warning::Warning;
use kumade_estimate::delay::{ClockModel, ClockModelError, Delays};
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Round-trip and one-way delay (RFC 7679), with bounds that hold for any error of the clocks, and the loss (RFC 7680),
/// duplication and reordering of the probe packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayReport {
    /// Kind of probes: `stamp` (RFC 8762) or `trains` (packet trains in each direction).
    pub probes: String,
    /// Round-trip delay without the reflector's processing time, without load by the measurement. With trains, it is the sum
    /// of one-way delays, each up with each down, on which the clocks' offset has no influence. Null if packets travelled in
    /// one direction only.
    pub round_trip: Option<DelayFigures>,
    /// Round-trip delay while packet trains load direction up; null if none did.
    pub up_loaded_round_trip: Option<DelayFigures>,
    /// Round-trip delay while packet trains load direction down; null if none did.
    pub down_loaded_round_trip: Option<DelayFigures>,
    /// One-way delay from this host to the peer, without load by the measurement.
    pub up: Option<DelayFigures>,
    /// One-way delay from the peer to this host, without load by the measurement.
    pub down: Option<DelayFigures>,
    /// One-way delay from this host to the peer while packet trains load that direction; null if none did.
    pub up_loaded: Option<DelayFigures>,
    /// One-way delay from the peer to this host while packet trains load that direction; null if none did.
    pub down_loaded: Option<DelayFigures>,
    /// Why values are missing; null if none are.
    #[schemars(with = "Option<String>")]
    pub reason: Option<ClockModelError>,
    /// The peer's clock relative to this host's; null if unknown.
    pub clock: Option<ClockReport>,
    /// Packet counts of the round trip; null if packets travelled in one direction only.
    pub round_trip_packets: Option<PacketReport>,
    /// Packet counts in direction up, without load by the measurement; null if the reflector does not number its replies
    /// by itself, and over TCP, where retransmission hides loss.
    pub up_packets: Option<PacketReport>,
    /// Packet counts in direction down, without load by the measurement; null as for `up_packets`.
    pub down_packets: Option<PacketReport>,
    /// Packet counts in direction up of the trains that load the path, which may cause loss themselves; null if there are
    /// none, and over TCP.
    pub up_loaded_packets: Option<PacketReport>,
    /// Packet counts in direction down of the trains that load the path; null as for `up_loaded_packets`.
    pub down_loaded_packets: Option<PacketReport>,
    /// Routers in direction up, from the remaining TTL; null if the reflector does not report it.
    pub up_hops: Option<u8>,
    /// Routers in direction down, from the remaining TTL; null if the reflector does not send with a TTL of 255.
    pub down_hops: Option<u8>,
    /// What a STAMP reflector says in the optional extensions of RFC 8972; null if it was not asked.
    #[serde(default)]
    pub extensions: Option<ExtensionsReport>,
    /// Circumstances that limit the validity of the values.
    #[schemars(with = "Vec<String>")]
    pub warnings: Vec<Warning>,
}

/// Statistics of the delays of many packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayFigures {
    /// Number of packets.
    pub packets: u32,
    /// The minimum.
    pub minimum_seconds: Estimate<f64>,
    /// The median.
    pub median_seconds: Estimate<f64>,
    /// The 95th percentile.
    pub percentile_95_seconds: Estimate<f64>,
    /// The 99th percentile.
    pub percentile_99_seconds: Estimate<f64>,
    /// The 95th percentile of the packet delay variation: delay above the minimum (PDV, RFC 5481, 4.2).
    pub variation_95_seconds: f64,
    /// The 99th percentile of the packet delay variation.
    pub variation_99_seconds: f64,
}

impl DelayReport {
    /// A report without values; the caller fills them in.
    pub fn new(probes: &str) -> Self {
        DelayReport {
            probes: probes.to_owned(),
            round_trip: None,
            up_loaded_round_trip: None,
            down_loaded_round_trip: None,
            up: None,
            down: None,
            up_loaded: None,
            down_loaded: None,
            reason: None,
            clock: None,
            round_trip_packets: None,
            up_packets: None,
            down_packets: None,
            up_loaded_packets: None,
            down_loaded_packets: None,
            up_hops: None,
            down_hops: None,
            extensions: None,
            warnings: Vec::new(),
        }
    }

    /// With the intervals that stamps of this host allow which differ by so much from each other; with a note, since variations have none.
    pub fn widened_by_scatter(mut self, scatter: Span) -> Self {
        if scatter == Span::ZERO || !self.has_value() {
            return self;
        }
        let round_trips = [&mut self.round_trip, &mut self.up_loaded_round_trip, &mut self.down_loaded_round_trip];
        let one_way = [&mut self.up, &mut self.down, &mut self.up_loaded, &mut self.down_loaded];
        for figures in round_trips.into_iter().chain(one_way).flatten() {
            figures.widen(scatter.as_secs_f64());
        }
        self.warnings.push(Warning::CoarseStamps(scatter));
        self
    }

    /// Whether any delay was measured.
    pub fn has_value(&self) -> bool {
        [&self.round_trip, &self.up, &self.down].into_iter().any(Option::is_some)
    }
}

impl DelayFigures {
    /// Of the packets of one direction that `choose` selects by their index; none if there are none.
    pub fn from_model(model: &ClockModel, direction: Direction, choose: impl Fn(usize) -> bool) -> Option<Self> {
        model.delays(direction, choose).map(DelayFigures::from)
    }

    fn widen(&mut self, seconds: f64) {
        let delays = [
            &mut self.minimum_seconds,
            &mut self.median_seconds,
            &mut self.percentile_95_seconds,
            &mut self.percentile_99_seconds,
        ];
        for delay in delays {
            // Where the clocks leave it open, it may be less than nothing anyway.
            delay.low = (delay.low - seconds).max(delay.low.min(0.0));
            delay.high += seconds;
        }
    }
}

impl From<Delays> for DelayFigures {
    fn from(delays: Delays) -> Self {
        DelayFigures {
            packets: delays.packets,
            minimum_seconds: delays.minimum.map(Span::as_secs_f64),
            median_seconds: delays.median.map(Span::as_secs_f64),
            percentile_95_seconds: delays.percentile_95.map(Span::as_secs_f64),
            percentile_99_seconds: delays.percentile_99.map(Span::as_secs_f64),
            variation_95_seconds: delays.variation_95.as_secs_f64(),
            variation_99_seconds: delays.variation_99.as_secs_f64(),
        }
    }
}

impl fmt::Display for DelayFigures {
    /// `minimum 15.1 ms ±1 ms, above minimum: median 0.1 ms, p95 0.4 ms, p99 0.9 ms`; without the minimum where the clocks
    /// leave open whether it is anything at all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = (self.median_seconds.value - self.minimum_seconds.value).max(0.0);
        let above = [median, self.variation_95_seconds, self.variation_99_seconds];
        let [median, p95, p99] = above.map(Span::from_secs_f64);
        let Estimate { value, low, .. } = self.minimum_seconds;
        if value == 0.0 || low > 0.0 {
            write!(f, "minimum {}, ", SecondsWithBounds(self.minimum_seconds))?;
        }
        write!(f, "above minimum: median {median}, p95 {p95}, p99 {p99}")
    }
}

impl fmt::Display for DelayReport {
    /// One line for each set of values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = Vec::new();
        let figures = [
            ("round trip", &self.round_trip),
            ("round trip, up under load", &self.up_loaded_round_trip),
            ("round trip, down under load", &self.down_loaded_round_trip),
            ("delay up", &self.up),
            ("delay up under load", &self.up_loaded),
            ("delay down", &self.down),
            ("delay down under load", &self.down_loaded),
        ];
        lines.extend(figures.iter().filter_map(|(name, figures)| Some(format!("{name}: {}", figures.as_ref()?))));
        let packets = [
            ("packets", &self.round_trip_packets),
            ("packets up", &self.up_packets),
            ("packets up under load", &self.up_loaded_packets),
            ("packets down", &self.down_packets),
            ("packets down under load", &self.down_loaded_packets),
        ];
        lines.extend(packets.iter().filter_map(|(name, packets)| Some(format!("{name}: {}", packets.as_ref()?))));
        if let (Some(up), Some(down)) = (self.up_hops, self.down_hops) {
            lines.push(format!("routers: {up} up, {down} down"));
        }
        if let Some(clock) = &self.clock {
            lines.push(clock.to_string());
        }
        lines.extend(self.extensions.iter().map(ToString::to_string).filter(|lines| !lines.is_empty()));
        lines.extend(self.reason.iter().map(|reason| format!("delay: no value: {reason}")));
        lines.extend(self.warnings.iter().map(|warning| format!("  note: {warning}")));
        f.write_str(&lines.join("\n"))
    }
}
