use dataplane::{NodeStatistics, RemoteStatus};

/// What a bonded plane has done, and what it knows of the gateways of other sites.
#[derive(Debug, Clone)]
pub struct BondedStatus {
    /// What was delivered and refused.
    pub node: NodeStatistics,
    /// Datagrams and packets that the system did not take.
    pub refused: u64,
    /// The gateways of other sites, in their order.
    pub remotes: Vec<RemoteStatus>,
}
