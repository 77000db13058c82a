use super::gateways::RunningGateways;
use super::observation::MultipathObservation;
use super::row::MultipathRow;
use super::scenario::{MultipathCase, MultipathExperiment, MultipathPoint, Workload};
use super::{blocks, numbered_packets, transfer, udp_flood};
use crate::error::RunError;
use crate::host_settings;
use crate::study::{MAX_LATENESS, RunOutcome};
use anyhow::Context;
use kumade_netns_testbed::{PathLinks, Sites, run_ip};

/// One run between hosts and gateways in namespaces, with the kernel's TCP and the real planes.
///
/// # Errors
/// The system refuses something.
pub(super) fn run(
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
) -> Result<RunOutcome<MultipathRow>, RunError> {
    let sites = build(experiment, point).map_err(RunError::during("build the sites"))?;
    let gateways = RunningGateways::start(&sites, point, experiment.workload.saved_header_bytes());
    let gateways = gateways.map_err(RunError::during("start the gateways"))?;
    let observed = observe(&sites, experiment, point, gateways.overhead_bytes());
    let (observed, missed) = observed.map_err(RunError::during("send the traffic"))?;
    let lateness = observed.lateness_p99.unwrap_or_default();
    let row = MultipathRow::new(point, experiment.workload, observed);
    Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_LATENESS || missed > 0 })
}

fn build(experiment: &MultipathExperiment, point: &MultipathPoint<'_>) -> anyhow::Result<Sites> {
    let case = point.case;
    let sites = match experiment.workload {
        Workload::Flood { .. } => Sites::with_veth_paths(case.paths.len())?,
        Workload::Transfer | Workload::Blocks | Workload::Numbered { .. } => {
            Sites::with_emulated_paths(path_links(point))?
        }
    };
    // So large that the window, where one is set, is what limits.
    let buffer = case.window_bytes.map_or(host_settings::WINDOW_BYTES, |window| window * 4);
    host_settings::set_tcp_buffers(&sites.a, host_settings::WINDOW_BYTES)?;
    host_settings::set_tcp_buffers(&sites.b, buffer)?;
    case.stack.apply_to_sites(&sites)?;
    for host in [&sites.a, &sites.b] {
        host_settings::write_sysctls(&host.namespace, &case.host_rto.namespace_settings())?;
    }
    limit_window(&sites, case).context("limit the receive window")?;
    Ok(sites)
}

fn path_links(point: &MultipathPoint<'_>) -> Vec<PathLinks> {
    let paths = point.case.paths.iter().enumerate();
    paths.map(|(place, path)| path.new_links(u64::from(point.run) * 100 + place as u64)).collect()
}

/// The kernel (6.18) keeps to the scale of windows that it chooses by the route's, of which it advertises the greatest, and not to the route's
/// window itself (`findings/route-window.sh`): one byte less than a power of two is the greatest of a scale.
fn limit_window(sites: &Sites, case: &MultipathCase) -> anyhow::Result<()> {
    let Some(window) = case.window_bytes else { return Ok(()) };
    let window = (window - 1).to_string();
    run_ip(&sites.b.namespace, &["route", "change", "default", "via", "10.2.0.1", "window", &window])?;
    Ok(())
}

/// What was observed, and how many packets the lab has missed.
fn observe(
    sites: &Sites,
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
    overhead: u32,
) -> anyhow::Result<(MultipathObservation, u64)> {
    let (observed, unseen) = match experiment.workload {
        Workload::Transfer => transfer::run(sites, experiment, point, overhead)?,
        Workload::Blocks => blocks::run(sites, experiment, point)?,
        Workload::Numbered { .. } => numbered_packets::run(sites, experiment, point, overhead)?,
        Workload::Flood { .. } => return Ok((udp_flood::run(sites, experiment, overhead)?, 0)),
    };
    Ok((observed, unseen + sites.missed_packets()?))
}
