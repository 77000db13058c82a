use super::path;
use super::row::{DropCounts, FairnessRow, Observed};
use super::scenario::{Case, Fairness, FairnessPoint, Group};
use crate::delays::Delays;
use crate::error::RunError;
use crate::hosts;
use anyhow::Context;
use link::LinkConfig;
use net::congestion::Loaded;
use net::{SetupError, clock};
use sim::tcp::congestion::Control;
use std::thread;
use testnet::Traffic;
use testnet::{AccessSpec, HostSpec, Network, NetworkError, NetworkSpec, Waits};
use units::Direction;
use units::{Span, Time};

/// The kernel's TCP, with the congestion controls that an experiment needs loaded until this is dropped.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What was not built in.
    loaded: Vec<(Control, Loaded)>,
}

/// One run, and how host scheduling delay disturbed it.
pub(super) struct Attempt {
    pub(super) row: FairnessRow,
    /// 99th percentile of the delay behind schedule of delivered packets.
    pub(super) lateness: Span,
    /// Packets that were lost because the lab read them too late.
    pub(super) missed: u64,
}

/// Connections are opened within so long, before they warm up.
pub(super) const START: Span = Span::from_secs(1);
const RECEIVER: &str = "receiver";
/// The queue of the down direction, which carries only acknowledgements.
const BACK_QUEUE_BYTES: u64 = 1 << 20;

impl Kernel {
    /// Loads the congestion controls that `experiment` needs.
    ///
    /// # Errors
    /// Where one cannot be loaded, with what to do instead.
    pub(super) fn prepare(experiment: &Fairness) -> Result<Self, RunError> {
        let mut loaded = Vec::new();
        for control in [Control::Compound, Control::Bic, Control::Vegas] {
            if experiment.cases.iter().flat_map(|case| &case.groups).any(|group| group.control == control) {
                let load = load(control).with_context(|| {
                    format!("the simulator has {control} without the kernel's help: run this with --virtual")
                });
                loaded.extend(load.map_err(|cause| RunError { doing: "prepare the kernel's TCP", cause })?);
            }
        }
        Ok(Kernel { loaded })
    }

    /// Builds the network of `point`, runs its connections, and removes it.
    ///
    /// # Errors
    /// Where the system refuses something.
    pub(super) fn run(&self, experiment: &Fairness, point: &FairnessPoint<'_>) -> Result<Attempt, RunError> {
        let network = build(point).map_err(|cause| RunError { doing: "build the network", cause })?;
        let observed = self.observe(experiment, point, &network);
        let (observed, missed) = observed.map_err(|cause| RunError { doing: "run the connections", cause })?;
        let lateness = observed.lateness_p99.unwrap_or_default();
        Ok(Attempt { row: FairnessRow::new(point, &observed), lateness, missed })
    }

    fn observe(
        &self,
        experiment: &Fairness,
        point: &FairnessPoint<'_>,
        network: &Network,
    ) -> anyhow::Result<(Observed, u64)> {
        let connections = self.connect(point, network)?;
        thread::sleep(experiment.warm_up.to_duration());
        let before = Look::at(network, &connections)?;
        thread::sleep(experiment.duration.to_duration());
        let after = Look::at(network, &connections)?;
        let lateness = network.lateness(Direction::Up, before.time, after.time)?;
        let delivered = after.delivered.iter().zip(&before.delivered).map(|(after, before)| after - before);
        let observed = Observed {
            delivered: delivered.collect(),
            duration: after.time - before.time,
            carried: after.carried - before.carried,
            queueing: delays(&after.waits),
            drops: after.drops.since(before.drops),
            lateness_p99: Some(lateness.p99),
        };
        Ok((observed, after.missed))
    }

    /// Opens all connections, at times spread over [`START`] in an order that depends on the run.
    fn connect(&self, point: &FairnessPoint<'_>, network: &Network) -> anyhow::Result<Vec<Traffic>> {
        let receiver = network.host(RECEIVER)?;
        let began = clock::monotonic();
        thread::scope(|scope| {
            let open = |(place, (index, group)): (usize, (usize, &Group))| {
                let (host, control) = (network.host(&sender(index)), self.name(group.control));
                // The golden ratio's multiples lie evenly between 0 and 1.
                let part = ((place as f64 + 1.0) * f64::from(point.run) * 0.618_033_988_749_895).fract();
                let moment = began + Span::from_secs_f64(START.as_secs_f64() * part);
                thread::Builder::new().spawn_scoped(scope, move || {
                    thread::sleep((moment - clock::monotonic()).to_duration());
                    Traffic::tcp(host?, receiver, control, None)
                })
            };
            let opening: Result<Vec<_>, _> = point.case.connections().enumerate().map(open).collect();
            let opening = opening.context("start a thread for each connection")?;
            let opened = opening
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            opened.collect::<Result<Vec<_>, NetworkError>>().context("open the connections")
        })
    }

    /// Its name in the kernel.
    fn name(&self, control: Control) -> &'static str {
        let loaded = self.loaded.iter().find(|(loaded, _)| *loaded == control).map(|(_, loaded)| loaded.name());
        loaded.unwrap_or(match control {
            Control::NewReno => "reno",
            Control::Bic => "bic",
            Control::Cubic => "cubic",
            Control::Compound => "compound",
            Control::Vegas => "vegas",
            Control::Bbr => "bbr",
        })
    }
}

/// None for those that are built into any kernel.
fn load(control: Control) -> Result<Option<(Control, Loaded)>, SetupError> {
    let loaded = match control {
        Control::Compound => Loaded::compound()?,
        Control::Bic => Loaded::bic()?,
        Control::Vegas => Loaded::vegas()?,
        Control::NewReno | Control::Cubic | Control::Bbr => return Ok(None),
    };
    Ok(Some((control, loaded)))
}

/// The counters at one time.
struct Look {
    time: Time,
    delivered: Vec<u64>,
    carried: u64,
    drops: DropCounts,
    /// Since the last one.
    waits: Waits,
    missed: u64,
}

impl Look {
    fn at(network: &Network, connections: &[Traffic]) -> Result<Self, NetworkError> {
        let drops = network.drops(Direction::Up)?;
        let back = network.drops(Direction::Down)?;
        Ok(Look {
            time: clock::realtime(),
            delivered: connections.iter().map(Traffic::received_bytes).collect(),
            carried: drops.packets.forwarded.bytes,
            drops: DropCounts::of(&drops.packets),
            waits: network.take_waits(Direction::Up)?,
            missed: drops.missed + back.missed,
        })
    }
}

fn sender(group: usize) -> String {
    format!("senders-{group}")
}

fn build(point: &FairnessPoint<'_>) -> anyhow::Result<Network> {
    let Case { rate, delay, .. } = *point.case;
    let link = LinkConfig {
        rate: Some(rate),
        delay,
        queue_bytes: BACK_QUEUE_BYTES,
        seed: u64::from(point.run),
        ..LinkConfig::default()
    };
    let host = |(index, group): (usize, &Group)| {
        let access = |hop| AccessSpec { link: path::hop_link(hop), background: path::background(hop) };
        let access = group.hops.iter().map(access).collect();
        HostSpec { access, ..HostSpec::numbered(&sender(index), index as u8 + 2) }
    };
    let network = Network::build(NetworkSpec {
        left: point.case.groups.iter().enumerate().map(host).collect(),
        right: vec![HostSpec::numbered(RECEIVER, 1)],
        up_queue: Some(point.queue.clone()),
        ..NetworkSpec::pair(link)
    })?;
    let senders = (0..point.case.groups.len()).map(sender);
    for name in senders.chain([RECEIVER.to_owned()]) {
        hosts::prepare(network.host(&name)?, hosts::WINDOW_BYTES)?;
    }
    Ok(network)
}

fn delays(waits: &Waits) -> Option<Delays> {
    let at = |part| waits.quantile(part).as_secs_f64();
    (waits.packets() > 0).then(|| Delays { median_seconds: at(0.5), p95_seconds: at(0.95), p99_seconds: at(0.99) })
}
