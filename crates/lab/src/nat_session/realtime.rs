//! Runs between hosts and gateways in namespaces, over emulated paths. The statuses of both gateways are read again and again.

use super::gateways::NatGateways;
use super::row::NatSessionRow;
use super::scenario::{NatPoint, NatSessionExperiment, SessionGateway, host_address};
use super::session_observer::SessionObserver;
use super::udp_flows::UdpFlows;
use crate::error::RunError;
use crate::study::RunOutcome;
use kumade_net::clock;
use kumade_net::interface;
use kumade_net::nftables::InstalledTable;
use kumade_netns_testbed::{PathLinks, Sites};
use kumade_units::{Span, Time};
use std::thread;
use std::time::Duration;

/// Where the emulated links delivered more than one packet of a hundred later than this, sessions were late for that.
const MAX_LATENESS: Span = Span::from_millis(10);
/// How often the statuses are read: what is not told by them is known as exactly.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Builds the sites, starts the gateways, and runs `point`.
pub(super) fn run(
    experiment: &NatSessionExperiment,
    point: &NatPoint<'_>,
) -> Result<RunOutcome<NatSessionRow>, RunError> {
    let sites = build(experiment, point).map_err(RunError::during("build the sites"))?;
    let gateways = NatGateways::start(&sites, experiment);
    let mut gateways = gateways.map_err(RunError::during("start the gateways"))?;
    let observed = observe(&sites, &mut gateways, experiment, point);
    observed.map_err(RunError::during("observe the sessions"))
}

fn build(experiment: &NatSessionExperiment, point: &NatPoint<'_>) -> anyhow::Result<Sites> {
    let paths = experiment.paths.iter().enumerate();
    let links: Vec<PathLinks> =
        paths.map(|(place, path)| path.new_links(u64::from(point.run) * 100 + place as u64)).collect();
    let sites = Sites::with_emulated_paths(links)?;
    // What gateways see of several hosts is their addresses; one namespace has them all. The first is there.
    for place in 1..point.case.hosts {
        let address = format!("{}/24", host_address(place)).parse()?;
        sites.a.namespace.run(|| interface::add_address(Sites::LAN, address))??;
    }
    Ok(sites)
}

fn observe(
    sites: &Sites,
    gateways: &mut NatGateways<'_>,
    experiment: &NatSessionExperiment,
    point: &NatPoint<'_>,
) -> anyhow::Result<RunOutcome<NatSessionRow>> {
    let (flows, wall) = (UdpFlows::start(sites, experiment, point)?, clock::realtime());
    let (mut observer, mut events) = (SessionObserver::default(), GatewayEvents::default());
    let end = flows.start_time() + experiment.run_duration(point.case);
    while clock::monotonic() < end {
        events.apply_due(gateways, point, clock::monotonic() - flows.start_time())?;
        // What is seen was so at this time or earlier.
        observer.record_sender_sessions(&gateways.sessions(SessionGateway::Sending)?, clock::monotonic());
        observer.record_receiver_rules(&gateways.sessions(SessionGateway::Receiving)?, clock::monotonic());
        thread::sleep(POLL_INTERVAL);
    }
    let traffic = flows.stop()?;
    let lateness = sites.lateness(wall, clock::realtime())?.p99;
    let row = NatSessionRow {
        lateness_p99_seconds: Some(lateness.as_secs_f64()),
        ..NatSessionRow::new(experiment, point, &observer, &traffic, events.killed_at)
    };
    Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_LATENESS || sites.missed_packets()? > 0 })
}

/// What happens to the gateways and their messages, as far as it has.
#[derive(Default)]
struct GatewayEvents {
    message_drops: Option<InstalledTable>,
    killed_at: Option<Time>,
    is_restarted: bool,
}

impl GatewayEvents {
    /// Does what is due so long after the first packet.
    fn apply_due(&mut self, gateways: &mut NatGateways<'_>, point: &NatPoint<'_>, after: Span) -> anyhow::Result<()> {
        if let Some(lost) = point.case.message_loss {
            let is_losing = lost.drops_message(lost.from, after);
            match (is_losing, &self.message_drops) {
                (true, None) => self.message_drops = Some(gateways.drop_messages(lost.from)?),
                (false, Some(_)) => self.message_drops = None,
                _ => {}
            }
        }
        let Some(restart) = point.case.restart else { return Ok(()) };
        if self.killed_at.is_none() && after >= restart.after {
            self.killed_at = Some(clock::monotonic());
            gateways.kill(restart.gateway)?;
        }
        if !self.is_restarted && self.killed_at.is_some_and(|killed| clock::monotonic() - killed >= restart.down) {
            gateways.start_gateway(restart.gateway)?;
            self.is_restarted = true;
        }
        Ok(())
    }
}
