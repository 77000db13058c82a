use super::config::{OUTER_BYTES, OVERHEAD_BYTES, PathModel};
use super::packet::{OuterContent, OuterPacket, PacketBatch};
use super::shard::SimulatedShard;
use kumade_link::Label;
use kumade_multipath::{BondConfig, PathConfig, PathId, PathPolicy, SharedPaths, TrafficClass};
use kumade_units::{ConfigError, Span, Time};

/// A gateway of the bonded plane. Each of its shards stands for a thread, and has the flows that its number falls to.
#[derive(Debug)]
pub(super) struct BondedGateway(Vec<SimulatedShard>);

impl BondedGateway {
    pub(super) fn new(policy: &PathPolicy, paths: &[PathModel], shards: usize, seed: u64) -> Result<Self, ConfigError> {
        let config = |path: &PathModel| PathConfig {
            rate: path.configured_rate,
            max_rate: None,
            overhead_bytes: OVERHEAD_BYTES,
            ..PathConfig::default()
        };
        let bond = BondConfig {
            policy: policy.clone(),
            queue: BondConfig::managed_queue(),
            paths: paths.iter().map(config).collect(),
            seed,
        };
        let shared = SharedPaths::new(&bond.paths, shards, Time::ZERO);
        (0..shards)
            .map(|number| SimulatedShard::new(number, &bond, &shared, OUTER_BYTES, Span::from_nanos(1)))
            .collect::<Result<_, _>>()
            .map(BondedGateway)
    }

    pub(super) fn first_shard(&self) -> &SimulatedShard {
        &self.0[0]
    }

    /// Packets of a host that travel as one.
    pub(super) fn offer(&mut self, packets: PacketBatch, label: Label, class: TrafficClass, now: Time) {
        let shard = packets.flow() as usize % self.0.len();
        self.0[shard].offer(packets, label, class, now);
    }

    /// Appends what is to be sent now.
    pub(super) fn send(&mut self, now: Time, out: &mut Vec<(PathId, OuterPacket)>) {
        self.0.iter_mut().for_each(|shard| shard.send(now, out));
    }

    /// A datagram has arrived. Appends what is delivered now.
    pub(super) fn receive(&mut self, path: PathId, wire: OuterPacket, now: Time, out: &mut Vec<PacketBatch>) {
        match wire.content {
            OuterContent::Plain(packet) => out.push(PacketBatch::single(packet)),
            _ => self.0[wire.shard].receive(path, wire, now, out),
        }
    }

    /// Ends what waits for paths that have failed, and for too long. Appends what is delivered now.
    pub(super) fn expire(&mut self, now: Time, out: &mut Vec<PacketBatch>) {
        self.0.iter_mut().for_each(|shard| shard.expire(now, out));
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.0.iter().filter_map(SimulatedShard::next_time).min()
    }
}
