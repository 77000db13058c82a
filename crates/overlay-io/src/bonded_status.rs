use kumade_multipath::dataplane::{NodeStatistics, RemoteStatus};

/// What a bonded plane has done, and what it knows of the gateways of other sites.
#[derive(Debug, Clone)]
pub struct BondedStatus {
    /// What was delivered and refused.
    pub node: NodeStatistics,
    /// Datagrams and packets that the system did not take.
    pub refused_packets: u64,
    /// How many threads carry packets.
    pub threads: usize,
    /// The gateways of other sites, in their order.
    pub remotes: Vec<RemoteStatus>,
}

impl BondedStatus {
    /// Counts what another shard has done.
    pub(crate) fn merge(&mut self, other: &BondedStatus) {
        self.node.merge(&other.node);
        self.refused_packets += other.refused_packets;
        self.threads += other.threads;
        self.remotes.iter_mut().zip(&other.remotes).for_each(|(remote, other)| remote.merge(other));
    }
}
