//! A fast path between real hosts, measured as `kumade measure` does against `kumade serve`.

use super::row::FastLinkRow;
use super::scenario::{FastLinkPath, FastLinkPoint, FastLinksExperiment};
use crate::accuracy::BottleneckKind;
use crate::error::RunError;
use crate::running_server::RunningServer;
use crate::study::RunOutcome;
use crate::upward_measurement::UpwardMeasurement;
use kumade_measurement::Event;
use kumade_netns_testbed::{FastFabric, FastHtb, FastNetwork, NetworkError};
use kumade_units::{Rate, Span};
use std::collections::BTreeMap;

const NEAR_HOST: &str = "a";
const FAR_HOST: &str = "b";

/// Where the emulated link delivers more than one packet of twenty later than this, it is this machine that trains see. On two quiet cores, it is
/// 4 – 25 µs over UDP, up to 5 Gbit/s; over connections, where each packet passes the receiver by itself, mostly 50 – 440 µs.
const MAX_LATENESS: Span = Span::from_micros(40);

/// A network with a server in it.
struct FastLinkTestbed<F> {
    server: RunningServer,
    network: F,
    /// Of all devices, in bytes.
    mtu: u16,
    /// What this machine carries there.
    machine_rate: Rate,
}

/// The packets of a measurement's trains.
#[derive(Debug, Default)]
struct TrainPackets {
    bytes_by_size: BTreeMap<u32, u64>,
}

impl TrainPackets {
    fn record_event(&mut self, event: &Event) {
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

impl<F: FastFabric> FastLinkTestbed<F> {
    /// Starts a server in this network, whose devices have this MTU, and looks at what this machine carries on it.
    ///
    /// # Errors
    /// The system refuses something.
    fn new(network: F, mtu: u16) -> Result<Self, RunError> {
        let carried = network.measure_max_rate().map_err(RunError::during("count what the network carries"))?;
        let serving = RunningServer::start(network.host(FAR_HOST).map_err(RunError::during("find the far host"))?)?;
        Ok(FastLinkTestbed { server: serving, network, mtu, machine_rate: carried })
    }

    /// Measures once. That the path cannot be measured is a result. The lateness is what 95 of 100 packets did not exceed.
    ///
    /// # Errors
    /// The system refuses something.
    fn measure(&self, point: &FastLinkPoint) -> Result<RunOutcome<FastLinkRow>, RunError> {
        let cross = (point.cross > Rate::ZERO).then(|| self.network.start_cross_traffic(point.cross)).transpose();
        let cross = cross.map_err(RunError::during("send the cross traffic"))?;
        let mut trains = TrainPackets::default();
        let near = self.network.host(NEAR_HOST).map_err(RunError::during("find the near host"))?;
        let how = (point.transport.full_measurement_transport()?, point.run.into());
        let measured = UpwardMeasurement::make(near, &self.server, how, &mut |event| trains.record_event(event))?;
        let (began, ended) = measured.whole;
        let late = self.network.lateness(began, ended).map_err(RunError::during("read how late the link was"))?;
        let cross = cross.map_or(Ok(Rate::ZERO), |cross| self.network.stop_cross_traffic(cross));
        let cross = cross.map_err(RunError::during("count the cross traffic"))?;
        let truth = self.network.available_bandwidth(cross, trains.packet_bytes().unwrap_or(self.mtu.into()));
        let row = FastLinkRow::new(point, self.machine_rate, truth, measured.report);
        Ok(RunOutcome { row, lateness: late.p95, disturbed: late.p95 > MAX_LATENESS })
    }
}

/// Measures once on a network that has been built. That the path cannot be measured is a result.
pub type MeasureOnPath = Box<dyn Fn(&FastLinkPoint) -> Result<RunOutcome<FastLinkRow>, RunError>>;

/// Builds the network: of this program's own link, or of the kernel's HTB.
///
/// # Errors
/// The system refuses something, or lacks HTB.
pub(super) fn build_path(experiment: &FastLinksExperiment, path: FastLinkPath) -> Result<MeasureOnPath, RunError> {
    let FastLinkPath { rate, mtu } = path;
    let queue = rate.bytes_in(experiment.queue);
    match experiment.bottleneck {
        BottleneckKind::Htb => serve_on(FastHtb::build(rate, queue, mtu), mtu),
        _ => serve_on(FastNetwork::build(rate, queue, mtu), mtu),
    }
}

fn serve_on<F: FastFabric + 'static>(network: Result<F, NetworkError>, mtu: u16) -> Result<MeasureOnPath, RunError> {
    let testbed = FastLinkTestbed::new(network.map_err(RunError::during("build the network"))?, mtu)?;
    Ok(Box::new(move |point| testbed.measure(point)))
}
