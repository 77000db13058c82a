//! Groups of connections of the kernel's TCP at one emulated bottleneck.

use super::access_path;
use super::row::DropCounts;
use super::scenario::START_WINDOW;
use super::scenario::{AccessHop, ConnectionGroup, connections};
use crate::delay_quantiles::DelayQuantiles;
use crate::error::RunError;
use crate::host_settings;
use anyhow::Context;
use kumade_link::LinkConfig;
use kumade_link::queue::QueueConfig;
use kumade_net::congestion::LoadedController;
use kumade_net::interface::disable_offloads;
use kumade_net::{SetupError, clock};
use kumade_netns_testbed::{AccessSpec, Host, HostSpec, Network, NetworkError, NetworkSpec, Traffic, WaitHistogram};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{ConfigError, Direction, Rate, Span, Time};
use std::thread;

/// The kernel's TCP, with the congestion controls that an experiment needs loaded until this is dropped.
#[derive(Debug)]
pub struct KernelControllers {
    /// What was not built in.
    loaded_controls: Vec<(CongestionControl, LoadedController)>,
}

/// The link for which connections compete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BottleneckLink<'a> {
    pub(crate) rate: Rate,
    /// In either direction.
    pub(crate) delay: Span,
    pub(crate) queue: &'a QueueConfig,
    pub(crate) seed: u64,
}

/// Who receives from all.
pub(crate) const RECEIVER_HOST: &str = "receiver";
/// The rate of a link that is to be a delay only.
const UNLIMITED_RATE: Rate = Rate::from_mbit(100_000);
/// The queue of the down direction, which carries only acknowledgements.
const REVERSE_QUEUE_BYTES: u64 = 1 << 20;

impl KernelControllers {
    /// Loads the congestion controls that these groups need.
    ///
    /// # Errors
    /// Where one cannot be loaded, with what to do instead.
    pub(crate) fn load_controls<'a>(
        groups: impl Iterator<Item = &'a ConnectionGroup> + Clone,
    ) -> Result<Self, RunError> {
        let mut loaded = Vec::new();
        for control in [
            CongestionControl::Compound,
            CongestionControl::Bic,
            CongestionControl::Vegas,
            CongestionControl::Dctcp,
            CongestionControl::Prague,
        ] {
            if groups.clone().any(|group| group.control == control) {
                let load = load_control(control).with_context(|| {
                    format!(
                        "the simulator has {control} without the kernel's help: run this with --virtual, or only cases \
                         without {control} (--row)"
                    )
                });
                loaded.extend(load.map_err(RunError::during("prepare the kernel's TCP"))?);
            }
        }
        Ok(KernelControllers { loaded_controls: loaded })
    }

    /// Opens all connections of these groups, at times spread over [`START_WINDOW`] in an order that depends on the run.
    ///
    /// # Errors
    /// Where the system refuses something.
    pub(crate) fn open_connections(
        &self,
        groups: &[ConnectionGroup],
        run: u32,
        network: &Network,
    ) -> anyhow::Result<Vec<Traffic>> {
        let receiver = network.host(RECEIVER_HOST)?;
        let began = clock::monotonic();
        thread::scope(|scope| {
            let open = |(place, (index, group)): (usize, (usize, &ConnectionGroup))| {
                let (host, control) = (network.host(&sender_host_name(index)), self.kernel_control_name(group.control));
                // The golden ratio's multiples lie evenly between 0 and 1.
                let part = ((place as f64 + 1.0) * f64::from(run) * 0.618_033_988_749_895).fract();
                let moment = began + Span::from_secs_f64(START_WINDOW.as_secs_f64() * part);
                thread::Builder::new().spawn_scoped(scope, move || {
                    thread::sleep((moment - clock::monotonic()).to_duration());
                    Traffic::tcp(host?, receiver, control, None)
                })
            };
            let opening: Result<Vec<_>, _> = connections(groups).enumerate().map(open).collect();
            let opening = opening.context("start a thread for each connection")?;
            let opened = opening
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            opened.collect::<Result<Vec<_>, NetworkError>>().context("open the connections")
        })
    }

    /// Its name in the kernel.
    fn kernel_control_name(&self, control: CongestionControl) -> &'static str {
        let loaded =
            self.loaded_controls.iter().find(|(loaded, _)| *loaded == control).map(|(_, loaded)| loaded.name());
        loaded.unwrap_or(match control {
            CongestionControl::NewReno => "reno",
            CongestionControl::Bic => "bic",
            CongestionControl::Cubic => "cubic",
            CongestionControl::Compound => "compound",
            CongestionControl::Vegas => "vegas",
            CongestionControl::Bbr => "bbr",
            CongestionControl::Dctcp => "dctcp",
            CongestionControl::Prague => "prague",
        })
    }
}

/// None for those that are built into any kernel.
fn load_control(control: CongestionControl) -> Result<Option<(CongestionControl, LoadedController)>, SetupError> {
    let loaded = match control {
        CongestionControl::Compound => LoadedController::compound()?,
        CongestionControl::Bic => LoadedController::bic()?,
        CongestionControl::Vegas => LoadedController::vegas()?,
        CongestionControl::Dctcp => LoadedController::dctcp()?,
        CongestionControl::Prague => LoadedController::prague()?,
        CongestionControl::NewReno | CongestionControl::Cubic | CongestionControl::Bbr => return Ok(None),
    };
    Ok(Some((control, loaded)))
}

/// The counters at one time.
pub(crate) struct CounterSnapshot {
    pub(crate) time: Time,
    /// Of each connection.
    pub(crate) delivered_bytes: Vec<u64>,
    pub(crate) forwarded_bytes: u64,
    pub(crate) drops: DropCounts,
    /// Queueing delay since the last one.
    pub(crate) queueing: Option<DelayQuantiles>,
    /// That of each group of connections, as its mean and its 99th percentile.
    pub(crate) group_queueing: Vec<Option<(f64, f64)>>,
    /// Packets that were lost because the lab read them too late.
    pub(crate) missed_packets: u64,
}

impl CounterSnapshot {
    /// Reads them.
    ///
    /// # Errors
    /// The network has ended.
    pub(crate) fn take(network: &Network, groups: usize, connections: &[Traffic]) -> Result<Self, NetworkError> {
        let drops = network.drops(Direction::Up)?;
        let back = network.drops(Direction::Down)?;
        let waits = network.take_waits(Direction::Up)?;
        let mut all = WaitHistogram::default();
        waits.values().for_each(|own| all.add(own));
        let group_waits = |group| -> Result<_, NetworkError> {
            let own = waits.get(&network.host(&sender_host_name(group))?.v4.into());
            Ok(own.map(|own| (own.mean().as_secs_f64(), own.quantile(0.99).as_secs_f64())))
        };
        Ok(CounterSnapshot {
            time: clock::realtime(),
            delivered_bytes: connections.iter().map(Traffic::received_bytes).collect(),
            forwarded_bytes: drops.packets.forwarded.bytes,
            drops: DropCounts::from_counters(&drops.packets),
            queueing: DelayQuantiles::from_quantiles(all.packets(), |part| all.quantile(part)),
            group_queueing: (0..groups).map(group_waits).collect::<Result<_, _>>()?,
            missed_packets: drops.missed + back.missed,
        })
    }
}

/// The host of a group's senders.
pub(crate) fn sender_host_name(group: usize) -> String {
    format!("senders-{group}")
}

/// A host for each group's senders, and those of these names, on one side of the bottleneck; the receiver on the other.
///
/// # Errors
/// Where the system refuses something.
pub(crate) fn build_network(
    bottleneck: BottleneckLink<'_>,
    groups: &[ConnectionGroup],
    others: &[&str],
) -> anyhow::Result<Network> {
    let BottleneckLink { rate, delay, queue, seed } = bottleneck;
    let link = LinkConfig { rate: Some(rate), delay, queue_bytes: REVERSE_QUEUE_BYTES, seed, ..LinkConfig::default() };
    let host = |(index, group): (usize, &ConnectionGroup)| {
        let access = |hop| {
            let (link, cross_traffic) = (access_path::hop_link(hop)?, access_path::background_traffic(hop));
            Ok::<_, ConfigError>(AccessSpec { link, cross_traffic })
        };
        let access = group_access_hop(group).iter().chain(&group.hops).map(access).collect::<Result<_, _>>()?;
        Ok::<_, ConfigError>(HostSpec {
            ect: group.ect(),
            access,
            ..HostSpec::with_number(&sender_host_name(index), index as u8 + 2)
        })
    };
    let other = |(index, name): (usize, &&str)| Ok(HostSpec::with_number(name, (groups.len() + index) as u8 + 2));
    let hosts = groups.iter().enumerate().map(host).chain(others.iter().enumerate().map(other));
    let network = Network::build(NetworkSpec {
        left: hosts.collect::<Result<_, _>>()?,
        right: vec![HostSpec::with_number(RECEIVER_HOST, 1)],
        up_queue: Some(queue.clone()),
        ..NetworkSpec::host_pair(link)
    })?;
    let spec = network.spec();
    for host in spec.left.iter().chain(&spec.right) {
        host_settings::set_tcp_buffers(network.host(&host.name)?, host_settings::WINDOW_BYTES)?;
    }
    // Segments of senders that live on marks leave one by one, as they are paced, and not in bursts of a millisecond.
    for (index, _) in groups.iter().enumerate().filter(|(_, group)| group.ect().is_some()) {
        network.host(&sender_host_name(index))?.namespace.run(|| disable_offloads(Host::DEVICE))??;
    }
    Ok(network)
}

/// The delay and the rate that a group's senders have of their own: a link that they share here, with the rate of all.
fn group_access_hop(group: &ConnectionGroup) -> Option<AccessHop> {
    let ConnectionGroup { delay, source_rate, connections, .. } = *group;
    if delay == Span::ZERO && source_rate.is_none() {
        return None;
    }
    let rate = source_rate.map(|rate| Rate::from_bits_per_second(rate.bits_per_second() * u64::from(connections)));
    let queue = host_settings::WINDOW_BYTES;
    Some(AccessHop {
        rate: rate.or(Some(UNLIMITED_RATE)),
        wireless: false,
        cellular: false,
        delay,
        queue,
        background: None,
    })
}
