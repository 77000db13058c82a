use crate::dataplane::config::RemoteConfig;
use crate::dataplane::packet_buffer::PacketForm;
use crate::{PathId, PathSet, SharedPaths, TrafficClass};
use kumade_link::Label;
use kumade_noise_session::{PeerId, Route, Session};
use std::net::IpAddr;

/// How many shards a node can have: with the number of a path, theirs makes one of a session
/// ([`Session::take_paths`]), of which the endpoint keeps the last for itself.
pub const MAX_SHARDS: usize = 8;

/// What one shard of a node tells another, between two packets.
#[derive(Debug)]
pub struct ShardMessage(pub(crate) ShardMessageContent);

#[derive(Debug)]
pub(crate) enum ShardMessageContent {
    /// From the first one: a handshake has made a session, of which this is the other's part.
    Established {
        peer: PeerId,
        session: Session,
        /// The peer's life.
        instance: u64,
        /// What the shards have in common from then on, if it is another life than before.
        paths: SharedPaths,
    },
    /// From the first one: there are these peers from then on.
    Reconfigured {
        seed: ShardSeed,
        /// The paths that are others than before.
        changed: PathSet,
    },
    /// To the first one, of a peer.
    Handshake(PeerId, HandshakeTrigger),
    /// To the first one: a packet of a host that no path of the other carries to its peer.
    Packet { bytes: Vec<u8>, form: PacketForm, destination: IpAddr, label: Label, class: TrafficClass },
}

/// What whoever shakes hands has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeTrigger {
    /// A session is needed.
    SessionNeeded,
    DataSent,
    DataReceived,
    KeepaliveReceived,
}

/// What another shard of a node begins with: [`Node::from_seed`](crate::dataplane::Node::from_seed).
#[derive(Debug, Clone)]
pub struct ShardSeed {
    pub(crate) shard: usize,
    pub(crate) remotes: Vec<(RemoteConfig, PeerId, SharedPaths)>,
}

impl ShardSeed {
    /// With what the first shard begins with.
    pub(crate) fn new(shard: usize, remotes: impl Iterator<Item = (RemoteConfig, PeerId, SharedPaths)>) -> Self {
        let port = |route: &mut Route| route.address.set_port(route.address.port().wrapping_add(shard as u16));
        let remotes = remotes.map(|(mut config, peer, paths)| {
            config.routes.iter_mut().flatten().for_each(port);
            (config, peer, paths)
        });
        ShardSeed { shard, remotes: remotes.collect() }
    }

    /// Its number; that of the first shard is 0.
    pub fn shard(&self) -> usize {
        self.shard
    }
}

/// The number of a shard's path in a session.
pub(crate) fn session_path(shard: usize, path: PathId) -> u8 {
    (shard * PathId::MAX_PATHS) as u8 | path.number()
}

/// Which path of the shard has this number in a session, if any has.
pub(crate) fn shard_path(shard: usize, number: u8) -> Option<PathId> {
    PathId::new(number.checked_sub((shard * PathId::MAX_PATHS) as u8)?)
}

/// The numbers of a shard's paths in a session.
pub(crate) fn session_paths(shard: usize) -> std::ops::RangeInclusive<u8> {
    let first = (shard * PathId::MAX_PATHS) as u8;
    first..=first + (PathId::MAX_PATHS - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_noise_session::ENDPOINT_PATH;

    #[test]
    fn each_number_of_a_session_s_paths_is_one_shard_s_and_none_the_endpoint_s() {
        for (shard, path) in (0..MAX_SHARDS).flat_map(|shard| PathId::all().map(move |path| (shard, path))) {
            let number = session_path(shard, path);
            assert!(number != ENDPOINT_PATH && session_paths(shard).contains(&number));
            for other in 0..MAX_SHARDS {
                assert_eq!(shard_path(other, number), (other == shard).then_some(path), "{shard} {path} {other}");
            }
        }
    }
}
