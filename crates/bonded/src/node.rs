use crate::config::{BondedConfig, BondedRemote, CarrierConfig, ConnectionConfig};
use crate::datagrams::{interface_mtus, outer_bytes};
use crate::error::BondedError;
use dataplane::{Node, NodeConfig, RemoteConfig};
use multipath::{BondConfig, FlowControl, PathConfig, ResequencerConfig};
use net::clock;
use rand::SeedableRng;
use rand::rngs::StdRng;
use runtime::{Buffer, BufferPool};
use secure::{Policy, Route};

/// What lies between the device and the carriers; its first shard.
pub(crate) fn node(config: &BondedConfig, pool: BufferPool) -> Result<Node<Buffer>, BondedError> {
    // Streams pass packets of every length.
    let interface_mtus = match &config.carriers {
        CarrierConfig::Datagrams(datagrams) => interface_mtus(datagrams)?,
        CarrierConfig::Connections(_) => Vec::new(),
    };
    let paths = paths(config);
    let is_managed = match &config.carriers {
        CarrierConfig::Datagrams(_) => true,
        CarrierConfig::Connections(connections) => connections.tuning.aqm,
    };
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
    match &config.carriers {
        CarrierConfig::Datagrams(datagrams) => {
            let path = |(path, (_, rate)): (usize, &(_, _))| PathConfig {
                rate: *rate,
                overhead_bytes: outer_bytes(config.family(datagrams, path)) + dataplane::OVERHEAD,
                ..PathConfig::default()
            };
            datagrams.paths.iter().enumerate().map(path).collect()
        }
        CarrierConfig::Connections(ConnectionConfig { tuning, .. }) => {
            let overhead_bytes = secure::stream::PREFIX as u32 + dataplane::OVERHEAD;
            let flow_control = FlowControl::Backpressure;
            let adaptation = tuning.adaptation;
            vec![PathConfig { overhead_bytes, flow_control, adaptation, ..PathConfig::default() }; config.paths()]
        }
    }
}

fn routes(remote: &BondedRemote, paths: usize) -> Vec<Option<Route>> {
    let address = |path: usize| remote.addresses.get(path).copied().flatten();
    (0..paths).map(|path| address(path).map(|address| Route { path: path as u8, address })).collect()
}
