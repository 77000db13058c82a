use crate::accuracy::{BottleneckKind, Transport};
use crate::values::{rates, ratios, span};
use kumade_units::{Rate, Span};
use serde::Deserialize;

/// An experiment on links of gigabits per second. It comes from a scenario file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FastLinksExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// What implements the bottleneck: this program, or the kernel's HTB.
    pub bottleneck: BottleneckKind,
    /// What carries the trains: UDP, or many TCP connections.
    pub transports: Vec<Transport>,
    /// Of the bottleneck, counted in IP packets.
    #[serde(deserialize_with = "rates")]
    pub rates: Vec<Rate>,
    /// Of all devices, in bytes.
    pub mtus: Vec<u16>,
    /// Cross traffic as parts of the rate, from 0 to 1.
    #[serde(deserialize_with = "ratios")]
    pub loads: Vec<f64>,
    /// What the bottleneck's queue holds, by the time that it takes to send that.
    #[serde(deserialize_with = "span")]
    pub queue: Span,
    /// How often each point is measured.
    pub runs: u32,
}

/// A network to be built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FastLinkPath {
    /// The bottleneck's rate.
    pub rate: Rate,
    /// Of all devices, in bytes.
    pub mtu: u16,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FastLinkPoint {
    /// On which network.
    pub path: FastLinkPath,
    /// The mean rate of the cross traffic.
    pub cross: Rate,
    /// What carries the trains.
    pub transport: Transport,
    /// Counted from 1.
    pub run: u32,
}

impl FastLinksExperiment {
    /// Every network in the order of building.
    pub fn paths(&self) -> Vec<FastLinkPath> {
        let of_mtu = |&mtu: &u16| self.rates.iter().map(move |&rate| FastLinkPath { rate, mtu });
        self.mtus.iter().flat_map(of_mtu).collect()
    }

    /// The measurements on a network in the order of the report.
    pub fn points_on(&self, path: FastLinkPath) -> Vec<FastLinkPoint> {
        let of_load = |&load: &f64| {
            let cross = Rate::from_f64(path.rate.as_f64() * load);
            let of_transport = move |&transport: &Transport| {
                (1..=self.runs).map(move |run| FastLinkPoint { path, cross, transport, run })
            };
            self.transports.iter().flat_map(of_transport)
        };
        self.loads.iter().flat_map(of_load).collect()
    }
}
