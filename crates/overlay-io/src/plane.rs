use crate::config::BondedConfig;
use crate::error::BondedError;
use crate::shard::BondedShard;
use crate::shard_link::{ShardLink, shard_links};
use crate::status::BondedStatus;
use kumade_dataplane::NodeNotice;
use kumade_net::clock;
use kumade_packet_loop::{PacketThread, ThreadEnded};
use kumade_units::Rate;

/// Packets for remote networks go through tunnels, until this is dropped. Then the TUN device vanishes, and with it its
/// routes and addresses.
#[derive(Debug)]
pub struct BondedPlane {
    /// The first one shakes hands. If one ends, all are to.
    threads: Vec<PacketThread<BondedShard>>,
}

impl BondedPlane {
    /// Opens the device and the sockets, and begins handshakes, after removing the routes that a killed gateway has left in
    /// this namespace.
    ///
    /// # Errors
    /// The system refuses a device, a socket or a route, or two remote sites share a key or a network.
    pub fn start(config: BondedConfig) -> Result<Self, BondedError> {
        let mut links = shard_links(config.thread_count())?.into_iter();
        let mut plane = BondedPlane { threads: Vec::new() };
        if let Some(link) = links.next() {
            let config = config.clone();
            plane.threads.push(PacketThread::start("gateway", move || BondedShard::new(config, link))?);
        }
        // The last one's queue comes first.
        for link in links.rev() {
            plane.add_thread(config.clone(), link)?;
        }
        Ok(plane)
    }

    fn add_thread(&mut self, config: BondedConfig, link: ShardLink) -> Result<(), BondedError> {
        let Ok(Some((seed, queue))) = self.threads[0].run_on_thread(BondedShard::next_shard_parts) else {
            // It says why.
            return self.stop();
        };
        let name = format!("gateway-{}", seed.shard());
        let build = move || BondedShard::from_shard_parts(config, seed, queue, link);
        self.threads.push(PacketThread::start(&name, build)?);
        Ok(())
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn status(&self) -> Result<BondedStatus, ThreadEnded> {
        let mut parts = self.threads.iter().map(|thread| thread.run_on_thread(|shard| shard.status()));
        let mut status = parts.next().unwrap_or(Err(ThreadEnded))?;
        for part in parts {
            status.merge(&part?);
        }
        Ok(status)
    }

    /// What an administrator has to know of handshakes, peers and paths, since this was last asked; of what is not asked for, the
    /// last 256.
    ///
    /// # Errors
    /// It has ended.
    pub fn take_notices(&self) -> Result<Vec<NodeNotice>, ThreadEnded> {
        self.threads[0].run_on_thread(BondedShard::take_notices)
    }

    /// Has the remotes, networks, routes, addresses, MTU and tuning of these settings from now on; all else is to be as in `before`,
    /// with which it runs. A remote whose keys stay keeps its session and its paths, and loses no packet. Returns the notices
    /// before, whose remotes are those of before.
    ///
    /// # Errors
    /// The system refuses a route or an address, two remotes share a network, or it has ended. The settings before are in force then.
    pub fn update(&self, config: BondedConfig, before: BondedConfig) -> Result<Vec<NodeNotice>, BondedError> {
        let mut notices = Vec::new();
        for thread in &self.threads {
            let (config, before) = (config.clone(), before.clone());
            notices.extend(thread.run_on_thread(move |shard| shard.update(&config, &before))??);
        }
        Ok(notices)
    }

    /// A measurement says what a path to a remote site carries; both by their places.
    ///
    /// # Errors
    /// It has ended.
    pub fn suggest_rate(&self, remote: usize, path: usize, measured: Rate) -> Result<(), ThreadEnded> {
        self.threads[0]
            .run_on_thread(move |shard| shard.node_mut().suggest_rate(remote, path, measured, clock::monotonic()))
    }

    /// Whether packets still pass.
    pub fn is_running(&self) -> bool {
        self.threads.iter().all(PacketThread::is_running)
    }

    /// Ends it, and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    pub fn stop(&self) -> Result<(), BondedError> {
        let stopped: Vec<_> = self.threads.iter().map(PacketThread::stop).collect();
        stopped.into_iter().collect()
    }
}
