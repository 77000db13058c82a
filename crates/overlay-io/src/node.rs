use crate::config::{BondedConfig, BondedRemote};
use crate::datagrams::{self, outer_header_bytes};
use crate::error::BondedError;
use kumade_multipath::dataplane::{Node, NodeConfig, RemoteConfig};
use kumade_multipath::{BondConfig, HeaderCompression, OuterTransport, PathConfig, ResequencerConfig};
use kumade_net::clock;
use kumade_noise_session::{HandshakePolicy, Route};
use kumade_packet_loop::{Buffer, BufferPool};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// What lies between the device and the carriers; its first shard.
pub(crate) fn new_node(config: &BondedConfig, pool: BufferPool) -> Result<Node<Buffer>, BondedError> {
    let node = NodeConfig {
        identity: config.identity.clone(),
        policy: HandshakePolicy::default(),
        header_compression: HeaderCompression::default(),
        remotes: remote_configs(config),
    };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(BondedError::Random)?;
    let random = Box::new(StdRng::from_seed(seed));
    let buffers = Box::new(move |bytes| pool.with_capacity(bytes));
    Ok(Node::first_shard(config.thread_count(), node, random, buffers, clock::monotonic())?)
}

/// The far ends, as the node sees them.
pub(crate) fn remote_configs(config: &BondedConfig) -> Vec<RemoteConfig> {
    let paths = path_configs(config);
    let interface_mtus = interface_mtus(config, paths.len());
    let is_managed = config.transports.connections().is_none_or(|connections| connections.tuning.has_aqm);
    let remotes = config.remotes.iter().enumerate().map(|(number, remote)| RemoteConfig {
        key: remote.key,
        psk: remote.psk.clone(),
        networks: remote.networks.clone(),
        routes: remote_routes(remote, paths.len()),
        interface_mtus: interface_mtus.clone(),
        max_packet_bytes: config.mtu.map_or(u32::MAX, u32::from),
        bond: BondConfig {
            policy: config.policy.clone(),
            queue: if is_managed { BondConfig::managed_queue() } else { BondConfig::unmanaged_queue() },
            paths: paths.clone(),
            seed: number as u64,
        },
        resequencer: ResequencerConfig::default(),
    });
    remotes.collect()
}

fn path_configs(config: &BondedConfig) -> Vec<PathConfig> {
    let tuning = config.transports.connections().map(|connections| connections.tuning).unwrap_or_default();
    let adaptation = tuning.tcp_over_tcp;
    let mut paths = Vec::new();
    if let Some(datagrams) = config.transports.datagrams() {
        let path = |(path, (_, rate)): (usize, &(_, _))| PathConfig {
            rate: *rate,
            overhead_bytes: outer_header_bytes(config.path_family(datagrams, path))
                + kumade_multipath::dataplane::OVERHEAD_BYTES,
            tuning: adaptation,
            ..PathConfig::default()
        };
        paths.extend(datagrams.paths.iter().enumerate().map(path));
    }
    let overhead_bytes =
        kumade_noise_session::stream::PREFIX_BYTES as u32 + kumade_multipath::dataplane::OVERHEAD_BYTES;
    let transport = OuterTransport::Tcp;
    paths.resize(
        config.max_paths(),
        PathConfig { overhead_bytes, transport, tuning: adaptation, ..PathConfig::default() },
    );
    paths
}

/// The MTUs of the interfaces of so many paths. Streams pass packets of every length. To an end that listens, each path may
/// come either way.
fn interface_mtus(config: &BondedConfig, paths: usize) -> Vec<Option<u32>> {
    let Some(datagrams) = config.transports.datagrams() else { return Vec::new() };
    let mtus = datagrams::interface_mtus(datagrams);
    let mut mtus: Vec<_> = mtus.into_iter().map(Some).collect();
    mtus.resize(paths, None);
    mtus
}

fn remote_routes(remote: &BondedRemote, paths: usize) -> Vec<Option<Route>> {
    let address = |path: usize| remote.addresses.get(path).copied().flatten();
    (0..paths).map(|path| address(path).map(|address| Route { path: path as u8, address })).collect()
}
