//! The part of the document that tells delays.

use super::clock::ClockReport;
use super::figures::Bounded;
use super::packets::PacketReport;
use estimate::delay::{ClockModel, Delays};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use train::Estimate;
use units::{Direction, Span};

/// How far it is: one-way delays, with bounds that hold whatever the clocks are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// What became of the probes on their way up, on the otherwise idle path; null where the reflector's numbers don't
    /// tell, and over TCP, which sends lost packets again.
    pub up_packets: Option<PacketReport>,
    /// The same on the way down.
    pub down_packets: Option<PacketReport>,
    /// What became of the packets of the trains that load the path that way, which may themselves cause loss; null where
    /// there are none, and over TCP.
    pub up_loaded_packets: Option<PacketReport>,
    /// The same on the way down.
    pub down_loaded_packets: Option<PacketReport>,
    /// Routers on the way up, by what is left of the TTL; null where the reflector does not tell.
    pub up_hops: Option<u8>,
    /// Routers on the way down; null where the reflector does not send with the largest TTL.
    pub down_hops: Option<u8>,
    /// What a reader of the figures should know.
    pub warnings: Vec<String>,
}

/// Delays of many packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayFigures {
    /// Packets that went into the figures.
    pub packets: u32,
    /// The least delay.
    pub minimum_seconds: Estimate<f64>,
    /// Half of the packets took no longer.
    pub median_seconds: Estimate<f64>,
    /// 95 % of the packets took no longer.
    pub percentile_95_seconds: Estimate<f64>,
    /// 99 % of the packets took no longer.
    pub percentile_99_seconds: Estimate<f64>,
    /// Delay beyond the least (PDV, RFC 5481, 4.2), of which 95 % of the packets had no more.
    pub variation_95_seconds: f64,
    /// The same for 99 %.
    pub variation_99_seconds: f64,
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
            up_loaded_packets: None,
            down_loaded_packets: None,
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
    pub fn of(model: &ClockModel, direction: Direction, choose: impl Fn(usize) -> bool) -> Option<Self> {
        model.delays(direction, choose).map(DelayFigures::from)
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
    /// `minimum 15.1 ms (wrong by at most 1 ms: 14.1 ms … 16 ms), median +0.1 ms, 95 % +0.4 ms, 99 % +0.9 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beyond = |seconds: f64| Span::from_secs_f64((seconds - self.minimum_seconds.value).max(0.0));
        write!(f, "minimum {}, median +{}", Bounded(self.minimum_seconds), beyond(self.median_seconds.value))?;
        let [most, nearly_all] = [self.variation_95_seconds, self.variation_99_seconds].map(Span::from_secs_f64);
        write!(f, ", 95 % +{most}, 99 % +{nearly_all}")
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
        lines.extend(self.reason.iter().map(|reason| format!("delay: no value: {reason}")));
        lines.extend(self.warnings.iter().map(|warning| format!("  note: {warning}")));
        f.write_str(&lines.join("\n"))
    }
}
