use crate::config::{BondedConfig, BondedRemote};
use crate::datagrams::{self, outer_bytes};
use crate::error::BondedError;
use kumade_dataplane::{Node, NodeConfig, RemoteConfig};
use kumade_multipath::{BondConfig, FlowControl, PathConfig, ResequencerConfig};
use kumade_net::{SetupError, clock};
use kumade_noise_session::{Policy, Route};
use kumade_packet_loop::{Buffer, BufferPool};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// What lies between the device and the carriers; its first shard.
pub(crate) fn node(config: &BondedConfig, pool: BufferPool) -> Result<Node<Buffer>, BondedError> {
    let paths = paths(config);
    let interface_mtus = interface_mtus(config, paths.len())?;
    let is_managed = config.carriers.connections().is_none_or(|connections| connections.tuning.aqm);
    let remotes = config.remotes.iter().enumerate().map(|(number, remote)| RemoteConfig {
        key: remote.key,
        psk: remote.psk.clone(),
        networks: remote.networks.clone(),
        routes: routes(remote, paths.len()),
        interface_mtus: interface_mtus.clone(),
        max_packet: config.mtu.map_or(u32::MAX, u32::from),
        bond: BondConfig {
            choice: config.choice.clone(),
            queue: if is_managed { BondConfig::managed_queue() } else { BondConfig::unmanaged_queue() },
            paths: paths.clone(),
            seed: number as u64,
        },
        resequencer: ResequencerConfig::default(),
    });
    let node = NodeConfig { identity: config.identity.clone(), policy: Policy::default(), remotes: remotes.collect() };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(BondedError::Random)?;
    let random = Box::new(StdRng::from_seed(seed));
    let buffers = Box::new(move |bytes| pool.with_capacity(bytes));
    Ok(Node::first_of(config.threads(), node, random, buffers, clock::monotonic())?)
}

fn paths(config: &BondedConfig) -> Vec<PathConfig> {
    let tuning = config.carriers.connections().map(|connections| connections.tuning).unwrap_or_default();
    let adaptation = tuning.adaptation;
    let mut paths = Vec::new();
    if let Some(datagrams) = config.carriers.datagrams() {
        let path = |(path, (_, rate)): (usize, &(_, _))| PathConfig {
            rate: *rate,
            overhead_bytes: outer_bytes(config.family(datagrams, path)) + kumade_dataplane::OVERHEAD,
            adaptation,
            ..PathConfig::default()
        };
        paths.extend(datagrams.paths.iter().enumerate().map(path));
    }
    let overhead_bytes = kumade_noise_session::stream::PREFIX as u32 + kumade_dataplane::OVERHEAD;
    let flow_control = FlowControl::Backpressure;
    paths.resize(config.paths(), PathConfig { overhead_bytes, flow_control, adaptation, ..PathConfig::default() });
    paths
}

/// The MTUs of the interfaces of so many paths. Streams pass packets of every length. To an end that listens, each path may
/// come either way.
fn interface_mtus(config: &BondedConfig, paths: usize) -> Result<Vec<Option<u32>>, SetupError> {
    let Some(datagrams) = config.carriers.datagrams() else { return Ok(Vec::new()) };
    let mtus = datagrams::interface_mtus(datagrams)?;
    let mut mtus: Vec<_> = mtus.into_iter().map(Some).collect();
    mtus.resize(paths, None);
    Ok(mtus)
}

fn routes(remote: &BondedRemote, paths: usize) -> Vec<Option<Route>> {
    let address = |path: usize| remote.addresses.get(path).copied().flatten();
    (0..paths).map(|path| address(path).map(|address| Route { path: path as u8, address })).collect()
}
