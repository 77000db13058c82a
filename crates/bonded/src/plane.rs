use crate::config::BondedConfig;
use crate::error::BondedError;
use crate::shard::BondedShard;
use crate::status::BondedStatus;
use net::clock;
use runtime::{Ended, PacketThread};
use units::Rate;

/// Packets for remote networks go through tunnels, until this is dropped. Then the TUN device vanishes, and with it its
/// routes and addresses.
#[derive(Debug)]
pub struct BondedPlane {
    thread: PacketThread<BondedShard>,
}

impl BondedPlane {
    /// Opens the device and the sockets, and begins handshakes, after removing the routes that a killed gateway has left in
    /// this namespace.
    ///
    /// # Errors
    /// The system refuses a device, a socket or a route, or two remote sites share a key or a network.
    pub fn start(config: BondedConfig) -> Result<Self, BondedError> {
        Ok(BondedPlane { thread: PacketThread::start("gateway", move || BondedShard::new(config))? })
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn status(&self) -> Result<BondedStatus, Ended> {
        self.thread.ask(|shard| shard.status())
    }

    /// A measurement says what a path to a remote site carries; both by their places.
    ///
    /// # Errors
    /// It has ended.
    pub fn suggest_rate(&self, remote: usize, path: usize, measured: Rate) -> Result<(), Ended> {
        self.thread.ask(move |shard| shard.node_mut().suggest_rate(remote, path, measured, clock::monotonic()))
    }

    /// Whether packets still pass.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Ends it, and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    pub fn stop(&self) -> Result<(), BondedError> {
        self.thread.stop()
    }
}
