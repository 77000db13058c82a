//! What a node takes for peers that it knows and that send nothing.

use allocation_counter::measure;
use kumade_multipath::dataplane::{Node, NodeConfig, RemoteConfig};
use kumade_multipath::{BondConfig, HeaderCompression, PathConfig, PathId, PathPolicy, ResequencerConfig};
use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey};
use kumade_units::Time;
use rand::SeedableRng;
use rand::rngs::StdRng;

const PEERS: u8 = 100;
/// A thousand peers are to fit into 100 MB, with their sessions, their status, and the program itself.
const MAX_BYTES_PER_PEER: i64 = 64 << 10;

fn remote(number: u8, random: &mut StdRng) -> RemoteConfig {
    RemoteConfig {
        key: PrivateKey::generate(random).public_key(),
        psk: PresharedKey::default(),
        networks: vec![format!("10.0.0.{number}/32").parse().unwrap()],
        // As an end has that listens: the peer may come by any of them.
        routes: vec![None; PathId::MAX_PATHS],
        interface_mtus: vec![Some(1500); PathId::MAX_PATHS],
        max_packet_bytes: 1500,
        bond: BondConfig {
            policy: PathPolicy::LeastSent,
            queue: BondConfig::managed_queue(),
            paths: vec![PathConfig::default(); PathId::MAX_PATHS],
            seed: number.into(),
        },
        resequencer: ResequencerConfig::default(),
    }
}

#[test]
fn a_peer_that_sends_nothing_takes_little_memory_whatever_paths_it_may_use() {
    let mut random = StdRng::seed_from_u64(1);
    let config = NodeConfig {
        identity: PrivateKey::generate(&mut random),
        policy: HandshakePolicy::default(),
        header_compression: HeaderCompression::default(),
        remotes: (0..PEERS).map(|number| remote(number, &mut random)).collect(),
    };
    let mut node = None;
    let used = measure(|| {
        let buffers = Box::new(|bytes| Box::new(Vec::with_capacity(bytes)));
        node = Node::<Box<Vec<u8>>>::new(config, Box::new(random), buffers, Time::ZERO).ok();
    });
    assert!(node.is_some());
    let per_peer = used.bytes_current / i64::from(PEERS);
    assert!(per_peer < MAX_BYTES_PER_PEER, "{per_peer} bytes");
}
