//! A fast path between real hosts, measured as `kumade measure` does against `kumade serve`.

use super::row::FastLinkRow;
use super::scenario::{FastLinkPath, FastLinkPoint};
use crate::accuracy::Transport;
use crate::error::RunError;
use crate::serving::Serving;
use anyhow::anyhow;
use measurement::{Event, TransportChoice};
use probe::{Directions, MeasureConfig, MeasurementPlan};
use std::collections::BTreeMap;
use testnet::{FastHtb, NetworkError};
use units::{Rate, Span};

const NEAR: &str = "a";
const FAR: &str = "b";

/// A network with a server in it.
pub(super) struct Testbed {
    serving: Serving,
    htb: FastHtb,
    /// Of all devices, in bytes.
    mtu: u16,
    /// What this machine carries there.
    carried: Rate,
}

/// The packets of a measurement's trains.
#[derive(Debug, Default)]
struct Trains {
    bytes_by_size: BTreeMap<u32, u64>,
}

impl Trains {
    fn note(&mut self, event: &Event) {
        let Event::Train { record, .. } = event else { return };
        for packet in &record.packets {
            *self.bytes_by_size.entry(packet.size).or_default() += u64::from(packet.size);
        }
    }

    /// Of the packets that most bytes were sent in.
    fn packet_bytes(&self) -> Option<u32> {
        self.bytes_by_size.iter().max_by_key(|(_, bytes)| **bytes).map(|(size, _)| *size)
    }
}

impl Testbed {
    /// Builds the network, and looks at what this machine carries on it.
    ///
    /// # Errors
    /// The system refuses something, or lacks HTB.
    pub(super) fn build(path: FastLinkPath, queue: Span) -> Result<Self, RunError> {
        let htb =
            FastHtb::build(path.rate, path.rate.bytes_in(queue), path.mtu).map_err(failed("build the network"))?;
        let carried = htb.carried().map_err(failed("count what the network carries"))?;
        let serving = Serving::start(htb.host(FAR).map_err(failed("find the far host"))?)?;
        Ok(Testbed { serving, htb, mtu: path.mtu, carried })
    }

    /// Measures once. That the path cannot be measured is a result.
    ///
    /// # Errors
    /// The system refuses something.
    pub(super) fn measure(&self, point: &FastLinkPoint) -> Result<FastLinkRow, RunError> {
        let cross = (point.cross > Rate::ZERO).then(|| self.htb.cross(point.cross)).transpose();
        let cross = cross.map_err(failed("send the cross traffic"))?;
        let plan = MeasurementPlan {
            directions: Directions::Up,
            transport: TransportChoice::Fixed(carrier(point.transport)?),
            seed: point.run.into(),
            ..MeasurementPlan::default()
        };
        let server = self.serving.address();
        let config = MeasureConfig { plan, ..MeasureConfig::new(server.ip().to_string(), server.port()) };
        let mut trains = Trains::default();
        let near = self.htb.host(NEAR).map_err(failed("find the near host"))?;
        let result = near.namespace.run(|| probe::measure(&config, &mut |event| trains.note(event)));
        let result = result.map_err(|error| failed("enter the near host")(error.into()))?;
        let cross = cross.as_ref().map_or(Ok(Rate::ZERO), |cross| self.htb.cross_rate(cross));
        let cross = cross.map_err(failed("count the cross traffic"))?;
        let truth = self.htb.available(cross, trains.packet_bytes().unwrap_or(self.mtu.into()));
        let report = result.map_err(|error| error.to_string());
        let report = report.and_then(|report| report.up.ok_or_else(|| "the report lacks the direction".into()));
        Ok(FastLinkRow::new(point, self.carried, truth, report))
    }
}

fn carrier(transport: Transport) -> Result<train::Transport, RunError> {
    match transport {
        Transport::Udp => Ok(train::Transport::Udp),
        Transport::Rake => Ok(train::Transport::Rake),
        other => {
            let cause = anyhow!("a fast link has no transport `{other}`; choose udp or rake");
            Err(RunError { doing: "measure a fast link", cause })
        }
    }
}

fn failed(doing: &'static str) -> impl Fn(NetworkError) -> RunError {
    move |cause| RunError { doing, cause: cause.into() }
}
