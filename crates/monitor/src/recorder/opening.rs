//! What the archive knows of a configuration's pairs.

use crate::config::{MeshAgent, MonitorConfig};
use crate::mesh::plan::run_id;
use crate::pair_recorder::PairRecorder;
use crate::schedule::own_run_id;
use kumade_archive::{AnyStore, Archive, ArchiveError, Family, HostId, NewHost, Run};
use kumade_net::interface;
use kumade_units::Time;
use std::cmp::Reverse;

/// Measurements by which the time of the next one is told.
const MAX_EARLIER_RUNS: u32 = 20;

/// The numbers of the hosts of a configuration, and its pairs.
pub(super) fn open_pairs(
    archive: &mut Archive<AnyStore>,
    config: &MonitorConfig,
    own_host: HostId,
    utc: Time,
) -> Result<(Vec<HostId>, Vec<PairRecorder>), ArchiveError> {
    let Some(mesh) = &config.mesh else {
        let hosts: Vec<_> =
            config.targets.iter().map(|target| new_host(&target.id, &target.name, &target.host)).collect();
        let hosts = archive.put_hosts(&hosts)?;
        let pairs = config.targets.iter().zip(&hosts);
        let pairs = pairs
            .map(|(target, host)| PairRecorder::new(target.clone(), (own_host, *host), Some(own_run_id(*host)), utc));
        return Ok((hosts.clone(), pairs.collect()));
    };
    let address = |agent: &MeshAgent| agent.address(None).map_or(String::new(), |(host, _)| host.clone());
    let addresses: Vec<_> = mesh.agents.iter().map(address).collect();
    let agents = mesh.agents.iter().zip(&addresses);
    let hosts: Vec<_> = agents.map(|(agent, address)| new_host(&agent.id, &agent.name, address)).collect();
    let hosts = archive.put_hosts(&hosts)?;
    let pairs = mesh.pairs.iter().zip(&config.targets).map(|(pair, target)| {
        let ends = (hosts[pair.source], hosts[pair.target]);
        PairRecorder::new(target.clone(), ends, run_id(ends.0, ends.1, pair.family), utc)
    });
    let pairs = pairs.collect();
    Ok((hosts, pairs))
}

fn new_host<'a>(stable_id: &'a str, name: &'a str, address: &'a str) -> NewHost<'a> {
    NewHost { stable_id, name, address, properties: "" }
}

/// Whether a path over a version of IP, or whichever there is, is a pair's of this one.
pub(crate) fn is_of(path: Option<interface::Family>, family: Family) -> bool {
    path.is_none_or(|path| (path == interface::Family::V4) == (family == Family::V4))
}

/// The last measurements of a pair by its IP version, or by either, the latest first.
pub(super) fn earlier_runs(archive: &mut Archive<AnyStore>, pair: &PairRecorder) -> Result<Vec<Run>, ArchiveError> {
    let known = archive.pairs().filter(|known| (known.source, known.target) == pair.ends());
    let pairs = known.filter(|known| is_of(pair.target.family, known.family)).map(|known| known.id);
    let mut runs = Vec::new();
    for pair in pairs.collect::<Vec<_>>() {
        runs.extend(archive.read().runs(pair, Time::ZERO..Time::MAX, MAX_EARLIER_RUNS)?);
    }
    runs.sort_by_key(|run| Reverse(run.started));
    runs.truncate(MAX_EARLIER_RUNS as usize);
    Ok(runs)
}
