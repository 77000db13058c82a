use crate::bonded_status::BondedStatus;
use crate::config::{BondedConfig, DatagramConfig};
use crate::error::BondedError;
use crate::shard::BondedShard;
use crate::shard_link::{ShardLink, shard_links};
use kumade_daemon::ActivityWatch;
use kumade_multipath::dataplane::NodeNotice;
use kumade_multipath::{PathId, PathSet};
use kumade_net::clock;
use kumade_packet_loop::{PacketThread, ThreadEnded};
use kumade_units::Rate;

/// Packets for remote networks go through tunnels, until this is dropped. Then the TUN device vanishes, and with it its
/// routes and addresses.
#[derive(Debug)]
pub struct BondedPlane {
    config: Box<BondedConfig>,
    activity: ActivityWatch,
    /// The first one shakes hands. If one ends, all are to.
    threads: Vec<PacketThread<BondedShard>>,
}

impl BondedPlane {
    /// Opens the device and the sockets, and begins handshakes, after removing the routes that a killed gateway has left in
    /// this namespace. `activity` is told of notices, of other outer transports and of packets.
    ///
    /// # Errors
    /// The system refuses a device, a socket or a route, or two remote sites share a key or a network.
    pub fn start(config: BondedConfig, activity: ActivityWatch) -> Result<Self, BondedError> {
        let mut links = shard_links(config.thread_count())?.into_iter();
        let mut plane =
            BondedPlane { config: Box::new(config.clone()), activity: activity.clone(), threads: Vec::new() };
        if let Some(link) = links.next() {
            let config = config.clone();
            plane.threads.push(PacketThread::start("gateway", move || BondedShard::new(config, link, activity))?);
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
        let activity = self.activity.clone();
        let build = move || BondedShard::from_shard_parts(config, seed, queue, link, activity);
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

    /// A measurement says what a path to a remote site carries; both by their places.
    ///
    /// # Errors
    /// It has ended.
    pub fn suggest_rate(&self, remote: usize, path: usize, measured: Rate) -> Result<(), ThreadEnded> {
        self.threads[0]
            .run_on_thread(move |shard| shard.node_mut().suggest_rate(remote, path, measured, clock::monotonic()))
    }

    /// Takes over a configuration with other far ends, networks, paths by datagrams, policy, flows that prefer speed to order, tuning of
    /// connections, addresses or MTU of the device, while packets pass: what is as it was carries on. A far end is the same while its keys are; a path is, by its
    /// place, while its binding, its next hop and the far end's address on it are. All else must be as it was. Returns what is to
    /// be known of the far ends that there were, as [`take_notices`](Self::take_notices).
    ///
    /// # Errors
    /// The system refuses a socket, a route or an address, or two far ends share a key or a network: then it is as before. Or the
    /// plane has ended.
    pub fn reconfigure(&mut self, config: BondedConfig) -> Result<Vec<NodeNotice>, BondedError> {
        let notices = self.take_notices()?;
        let before = std::mem::replace(&mut *self.config, config);
        let outcome = self.apply_config(changed_paths(&before, &self.config));
        if outcome.is_err() && self.is_running() {
            let refused = std::mem::replace(&mut *self.config, before);
            if let Err(error) = self.apply_config(changed_paths(&refused, &self.config)) {
                tracing::error!("cannot go back to the configuration before: {error}");
            }
        }
        outcome.map(|()| notices)
    }

    fn apply_config(&self, changed: PathSet) -> Result<(), BondedError> {
        // The first one is last: it tells the others of far ends, once nothing can be refused any more.
        for thread in self.threads.iter().rev() {
            let config = (*self.config).clone();
            thread.run_on_thread(move |shard| shard.reconfigure(&config, changed))??;
        }
        Ok(())
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

/// The paths by datagrams that both configurations have, and that leave otherwise by one than by the other.
fn changed_paths(before: &BondedConfig, after: &BondedConfig) -> PathSet {
    let (Some(old), Some(new)) = (before.transports.datagrams(), after.transports.datagrams()) else {
        return PathSet::default();
    };
    let place = |datagrams: &DatagramConfig, config: &BondedConfig, path: usize| {
        let (binding, _) = datagrams.paths.get(path)?.clone();
        let routes: Vec<_> =
            datagrams.routes.iter().filter(|route| Some(route.number) == binding.mark).cloned().collect();
        Some((binding, routes, config.path_family(datagrams, path)))
    };
    PathSet::from_paths(PathId::all().filter(|path| {
        let [old, new] = [(old, before), (new, after)].map(|(datagrams, of)| place(datagrams, of, path.index()));
        old.is_some() && new.is_some() && old != new
    }))
}
