use crate::{OuterTransport, PathStatus, ResequencerStatistics};
use kumade_noise_session::PublicKey;
use kumade_units::Time;
use std::net::SocketAddr;

/// What a node has done and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeStatistics {
    /// Packets of hosts to no network of a peer.
    pub unroutable_packets: u64,
    /// Datagrams that are not authentic, of no session, copies, or no message.
    pub refused_datagrams: u64,
    /// Handshake messages that were not taken.
    pub refused_handshakes: u64,
    /// Those of them whose sender has no key of a peer, or takes this host for another.
    pub wrong_key_handshakes: u64,
    /// Packets from a peer whose source is in no network of that peer.
    pub foreign_source_packets: u64,
    /// Packets of hosts that are too long for all paths.
    pub oversized_packets: u64,
    /// Packets that were delivered.
    pub delivered_packets: u64,
    /// Datagrams that were not sent, since the session has sealed one with their counters.
    pub unsealed_datagrams: u64,
}

/// What a node knows of a peer.
#[derive(Debug, Clone)]
pub struct RemoteStatus {
    /// Who.
    pub key: PublicKey,
    /// Whether there is a session, and the peer answers on a path.
    pub is_connected: bool,
    /// Since when; where it was lost, since it was heard last.
    pub state_since: Time,
    /// When anything authentic came from it last.
    pub last_heard: Option<Time>,
    /// How often it was lost: it had been connected, and answered on no path any longer.
    pub losses: u64,
    /// How often keys were agreed on.
    pub handshakes: u64,
    /// How often the peer has restarted. Both ends begin anew then, and with them what is counted of paths, queue and order.
    pub restarts: u64,
    /// Its paths.
    pub paths: Vec<RemotePath>,
    /// What carries packets to it now; `None` while no path is up.
    pub outer_transport: Option<OuterTransport>,
    /// The longest packet of hosts that all paths pass, as far as is known, in bytes; `None` where that is not discovered.
    pub mtu: Option<u32>,
    /// Packets that wait to be sent.
    pub queued_packets: usize,
    /// Packets that its queue discipline has dropped.
    pub dropped_packets: u64,
    /// Packets that were not sent, since TCP connections that carry still had their data.
    pub suppressed_retransmissions: u64,
    /// Packets that were repeated, since a path had lost them.
    pub repeated_packets: u64,
    /// Bytes by which packets to it were shorter, since their headers were compressed.
    pub saved_header_bytes: u64,
    /// Packets of it that were dropped, since their compressed headers are of none that are known here.
    pub undecompressed_packets: u64,
    /// What putting its packets in order came to.
    pub resequencing: ResequencerStatistics,
    /// Packets that wait for earlier ones.
    pub waiting_packets: usize,
    /// How many shards reach the peer by a path.
    pub reaching_shards: u32,
}

impl NodeStatistics {
    /// Counts what another shard has done.
    pub fn merge(&mut self, other: &NodeStatistics) {
        self.unroutable_packets += other.unroutable_packets;
        self.refused_datagrams += other.refused_datagrams;
        self.refused_handshakes += other.refused_handshakes;
        self.wrong_key_handshakes += other.wrong_key_handshakes;
        self.foreign_source_packets += other.foreign_source_packets;
        self.oversized_packets += other.oversized_packets;
        self.delivered_packets += other.delivered_packets;
        self.unsealed_datagrams += other.unsealed_datagrams;
    }
}

impl RemoteStatus {
    /// Counts what another shard has done. What can have one value only stays as it is.
    pub fn merge(&mut self, other: &RemoteStatus) {
        self.last_heard = self.last_heard.max(other.last_heard);
        self.queued_packets += other.queued_packets;
        self.dropped_packets += other.dropped_packets;
        self.suppressed_retransmissions += other.suppressed_retransmissions;
        self.repeated_packets += other.repeated_packets;
        self.saved_header_bytes += other.saved_header_bytes;
        self.undecompressed_packets += other.undecompressed_packets;
        self.resequencing.add_statistics(&other.resequencing);
        self.waiting_packets += other.waiting_packets;
        self.reaching_shards += other.reaching_shards;
        for (path, other) in self.paths.iter_mut().zip(&other.paths) {
            // The peer says what was delivered.
            let (status, more) = (&mut path.status, &other.status);
            status.sent_packets += more.sent_packets;
            status.sent_bytes += more.sent_bytes;
            status.lost_packets += more.lost_packets;
            status.delivered_packets = status.delivered_packets.saturating_add(more.delivered_packets);
            status.delivered_bytes = status.delivered_bytes.saturating_add(more.delivered_bytes);
            path.received_packets += other.received_packets;
            path.received_bytes += other.received_bytes;
        }
    }
}

/// What a node knows of a path to a peer.
#[derive(Debug, Clone, Copy)]
pub struct RemotePath {
    /// The peer's address on it; `None` until the peer writes first.
    pub address: Option<SocketAddr>,
    /// As this end sees it.
    pub status: PathStatus,
    /// Its MTU in bytes, with all headers on it; `None` while it is not known or not discovered.
    pub mtu: Option<u32>,
    /// Packets that came over it.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// How often it failed after it had carried packets, or its TCP connection ended.
    pub failures: u64,
}
