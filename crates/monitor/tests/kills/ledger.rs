//! What agents have measured and were acknowledged, against what the archive has.

use super::mesh::{ACKNOWLEDGED, AGENTS, Mesh};
use kumade_archive::{AnyStore, HostId, PostgresStore, ReadStore, Reader, SqliteStore};
use kumade_units::Time;
use std::collections::BTreeMap;
use std::fmt;

/// A batch, as the agent's log has it.
#[derive(Debug, Default)]
struct Batch {
    /// Results, by the peer's number.
    probes: Vec<(u32, u64)>,
    /// The peers of runs.
    runs: Vec<u32>,
    is_acknowledged: bool,
}

/// Instance and number.
type BatchKey = (u64, u64);

/// What was found, for all agents together.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Probes that were sent, by the kernel's counters; none where there are none.
    pub probed: Option<u64>,
    /// Results in batches that agents have made.
    pub made: u64,
    /// Of these, those in batches that were acknowledged.
    pub acknowledged: u64,
    /// In the archive.
    pub archived: u64,
    /// Runs that were acknowledged, and those in the archive.
    pub runs: (u64, u64),
    /// Acknowledged, and not in the archive; or there more or less often than delivered. In words.
    pub faults: Vec<String>,
}

/// Compares, once all processes have ended.
pub fn compare(mesh: &Mesh) -> Comparison {
    let store: AnyStore = match &mesh.server {
        Some((server, database)) => {
            let address = format!("host={} user=kumade dbname={database}", server.directory().display());
            PostgresStore::open_read_only(&address.parse().unwrap()).unwrap().into()
        }
        None => SqliteStore::open_read_only(&mesh.file("archive1/archive.db")).unwrap().into(),
    };
    let mut found =
        Comparison { probed: AGENTS.iter().map(|(agent, _)| mesh.probed(*agent)).sum(), ..Comparison::default() };
    let delivered = read_delivered(store.reader().unwrap());
    let mut reader = Reader::new(store);
    let hosts = reader.hosts().unwrap();
    let mut expected: BTreeMap<(HostId, HostId), (u64, u64)> = BTreeMap::new();
    for (place, id) in AGENTS {
        // One that was killed before it could deliver anything may not be known.
        let host = hosts.iter().find(|host| host.stable_id == id);
        for ((instance, sequence), batch) in read_batches(&mesh.log(place)) {
            let results: u64 = batch.probes.iter().map(|(_, count)| count).sum();
            found.made += results;
            let ranges = delivered.get(&format!("{id}/{instance:x}")).map_or(&[][..], Vec::as_slice);
            let is_delivered = ranges.iter().any(|(first, last)| (*first..=*last).contains(&sequence));
            if batch.is_acknowledged {
                found.acknowledged += results;
                found.runs.0 += batch.runs.len() as u64;
                if !is_delivered {
                    found.faults.push(format!("{id}: {instance:x}/{sequence} was acknowledged, and is not there"));
                }
            }
            if is_delivered {
                let source = host.expect("the archive knows who has delivered").id;
                for (peer, count) in batch.probes {
                    expected.entry((source, HostId(peer))).or_default().0 += count;
                }
                batch.runs.iter().for_each(|peer| expected.entry((source, HostId(*peer))).or_default().1 += 1);
            }
        }
    }
    for pair in reader.pairs().unwrap() {
        let (probes, runs) = expected.remove(&(pair.source, pair.target)).unwrap_or_default();
        let archived = reader.packets(pair.id, Time::ZERO..Time::from_nanos(1 << 62), usize::MAX).unwrap().len() as u64;
        let archived_runs = reader.runs(pair.id, Time::ZERO..Time::MAX, u32::MAX).unwrap().len() as u64;
        found.archived += archived;
        found.runs.1 += archived_runs;
        if (archived, archived_runs) != (probes, runs) {
            found.faults.push(format!(
                "pair {}: {archived} of {probes} results and {archived_runs} of {runs} runs that were delivered",
                pair.id.0
            ));
        }
    }
    found.faults.extend(expected.keys().map(|(source, peer)| format!("no pair {} to {}", source.0, peer.0)));
    found
}

/// Which numbers each instance has delivered, as ranges.
fn read_delivered(mut store: AnyStore) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut delivered: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for (instance, _, first, last) in store.delivered().unwrap() {
        delivered.entry(instance).or_default().push((first, last));
    }
    delivered
}

/// What a log tells of batches.
fn read_batches(log: &str) -> BTreeMap<BatchKey, Batch> {
    let mut batches: BTreeMap<BatchKey, Batch> = BTreeMap::new();
    for line in log.lines() {
        let (is_made, is_acknowledged) = (line.contains("made a batch"), line.contains(ACKNOWLEDGED));
        if !is_made && !is_acknowledged {
            continue;
        }
        let number = |name: &str| field(line, name).parse::<u64>().unwrap();
        let batch = batches.entry((number("instance="), number("sequence="))).or_default();
        batch.is_acknowledged |= is_acknowledged;
        if is_made {
            let probes = field(line, "probes=").replace('(', "[").replace(')', "]");
            batch.probes = serde_json::from_str(&probes).unwrap();
            batch.runs = serde_json::from_str(field(line, "runs=")).unwrap();
        }
    }
    batches
}

/// A number, or a list up to its last bracket.
fn field<'l>(line: &'l str, name: &str) -> &'l str {
    let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name} in {line}"));
    let end = if rest.starts_with('[') { rest.find(']').map(|end| end + 1) } else { rest.find(' ') };
    &rest[..end.unwrap_or(rest.len())]
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { probed, made, acknowledged, archived, runs, faults } = self;
        probed.iter().try_for_each(|probed| writeln!(formatter, "  probes sent             {probed:9}"))?;
        writeln!(formatter, "  results in batches      {made:9}")?;
        writeln!(formatter, "  results acknowledged    {acknowledged:9}")?;
        writeln!(formatter, "  results in the archive  {archived:9}")?;
        writeln!(formatter, "  runs acknowledged, and in the archive: {}, {}", runs.0, runs.1)?;
        faults.iter().try_for_each(|fault| writeln!(formatter, "  FAULT {fault}"))?;
        write!(formatter, "  {} faults", faults.len())
    }
}
