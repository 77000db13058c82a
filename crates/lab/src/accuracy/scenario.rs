use super::firewall::FirewallRule;
use super::keywords::{BottleneckKind, CrossKind, CrossSource, Transport};
use super::path::{Bottleneck, DownstreamHop};
use crate::values::rates;
use kumade_estimate::MethodSettings;
use kumade_units::{Direction, Rate, Span};
use serde::Deserialize;

/// One path with its traffic, and what is measured on it: every level of cross traffic by every method over every
/// transport, `runs` times each. An [`AccuracyExperiment`](super::AccuracyExperiment) consists of one or several.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyScenario {
    /// What carries the trains of each method.
    pub transports: Vec<Transport>,
    /// The estimators.
    pub methods: Vec<MethodSettings>,
    /// The directions measured.
    pub directions: Vec<Direction>,
    /// How often each point is measured.
    pub runs: u32,
    /// Whether each run is a full measurement, with both directions, capacity and delay, and not of one direction's
    /// available bandwidth alone. In virtual time, only the row's own direction is measured, and the delay.
    pub makes_full_measurement: bool,
    /// Whether the report shows when each packet of the first train was sent and received.
    pub keeps_timeline: bool,
    /// The link that limits the path.
    pub bottleneck: Bottleneck,
    /// A faster link behind it.
    pub downstream_hop: Option<DownstreamHop>,
    /// Other traffic on the bottleneck.
    pub cross: CrossTraffic,
    /// What does not pass.
    pub firewall: Vec<FirewallRule>,
}

/// Cross traffic on the bottleneck, in the direction that is measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTraffic {
    /// How its packets follow each other.
    pub kind: CrossKind,
    /// Whether packets exist; by default only where they must.
    pub source: Option<CrossSource>,
    /// Mean rates, counted in IP packets; each is one point of the experiment. Of TCP, the maximum that it may send: a
    /// level of the bottleneck's rate or above leaves it greedy.
    #[serde(deserialize_with = "rates")]
    pub levels: Vec<Rate>,
    /// Bytes of each IP packet; TCP chooses for itself.
    #[serde(default = "default_packet_bytes")]
    pub packet_bytes: u32,
}

/// One measurement of an experiment: what one row of the report is about.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyPoint {
    /// Mean rate of the cross traffic.
    pub cross: Rate,
    /// What carries the trains.
    pub transport: Transport,
    /// The estimator.
    pub method: MethodSettings,
    /// The direction of the trains.
    pub direction: Direction,
    /// Counted from 1 for each combination of the others.
    pub run: u32,
}

impl AccuracyScenario {
    /// Every measurement in the order of running. Runs come outermost, so that a disturbance of some minutes spoils
    /// one run of many points and not all runs of one.
    pub fn points(&self) -> Vec<AccuracyPoint> {
        let mut points = Vec::new();
        for run in 1..=self.runs {
            for &cross in &self.cross.levels {
                for &transport in &self.transports {
                    for method in &self.methods {
                        for &direction in &self.directions {
                            points.push(AccuracyPoint { cross, transport, method: method.clone(), direction, run });
                        }
                    }
                }
            }
        }
        points
    }

    /// The rules that are in force while `transport` is measured.
    pub fn firewall_for(&self, transport: Transport) -> impl Iterator<Item = &FirewallRule> {
        self.firewall.iter().filter(move |r| r.transports.is_empty() || r.transports.contains(&transport))
    }

    /// The one-way propagation delay: the kernel's HTB has none.
    pub fn propagation_delay(&self) -> Span {
        if self.bottleneck.kind == BottleneckKind::Htb { Span::ZERO } else { self.bottleneck.delay }
    }

    /// Whether cross traffic is computed or sent.
    pub fn cross_source(&self) -> CrossSource {
        let fitting = if self.needs_packets() { CrossSource::Packets } else { CrossSource::Link };
        self.cross.source.unwrap_or(fitting)
    }

    /// Whether cross traffic cannot be computed: before the kernel's HTB, and as the kernel's TCP.
    pub(crate) fn needs_packets(&self) -> bool {
        self.bottleneck.kind == BottleneckKind::Htb || self.cross.kind == CrossKind::Tcp
    }
}

const fn default_packet_bytes() -> u32 {
    1500
}
