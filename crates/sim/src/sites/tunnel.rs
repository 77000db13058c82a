use super::config::TunnelModel;
use super::packet::{OuterContent, OuterPacket, PacketBatch};
use super::shard::{SimulatedShard, overhead_bytes};
use super::tunnel_connection::TunnelConnection;
use crate::tcp::{TcpConnection, TcpSegment};
use kumade_link::Label;
use kumade_multipath::{BondConfig, OuterTransport, PathConfig, PathId, PathPolicy, SharedPaths, TrafficClass};
use kumade_units::{ConfigError, Span, Time};

/// A gateway whose paths are TCP connections over the first path of the sites.
#[derive(Debug)]
pub(super) struct TunnelEnd {
    shard: SimulatedShard,
    connections: Vec<TunnelConnection>,
    /// Bytes of IP and TCP headers.
    header_bytes: u32,
    /// What the shard sends, and what connections hand on; empty between calls.
    sent: Vec<(PathId, OuterPacket)>,
    received: Vec<OuterPacket>,
}

/// All connections go over it.
pub(super) const FIRST_PATH: PathId = PathId::new(0).expect("there is one");
/// The length of a record, before it.
const PREFIX_BYTES: u32 = 2;
/// A packet may leave later than its path has room by this: several that leave together cost little more than one.
const BATCH_INTERVAL: Span = Span::from_micros(150);

impl TunnelEnd {
    pub(super) fn new(model: &TunnelModel, seed: u64) -> Result<Self, ConfigError> {
        let path = PathConfig {
            overhead_bytes: overhead_bytes(PREFIX_BYTES),
            transport: OuterTransport::Tcp,
            tuning: model.tuning,
            ..PathConfig::default()
        };
        let bond = BondConfig {
            policy: PathPolicy::LeastSent,
            queue: if model.has_aqm { BondConfig::managed_queue() } else { BondConfig::unmanaged_queue() },
            paths: vec![path; model.connections],
            seed,
        };
        let shared = SharedPaths::new(&bond.paths, 1, Time::ZERO);
        let carrier = || {
            let connection =
                TcpConnection::new(model.tcp.new_sender(), model.tcp.new_receiver(), model.tcp.segment_bytes);
            TunnelConnection::new(connection, model.unsent_bytes)
        };
        Ok(TunnelEnd {
            shard: SimulatedShard::new(0, &bond, &shared, PREFIX_BYTES, BATCH_INTERVAL)?,
            connections: (0..model.connections).map(|_| carrier()).collect(),
            header_bytes: model.tcp.header_bytes,
            sent: Vec::new(),
            received: Vec::new(),
        })
    }

    pub(super) fn shard(&self) -> &SimulatedShard {
        &self.shard
    }

    pub(super) fn offer(&mut self, packets: PacketBatch, label: Label, class: TrafficClass, now: Time) {
        self.shard.offer(packets, label, class, now);
    }

    /// Appends what is to be sent now.
    pub(super) fn send(&mut self, now: Time, out: &mut Vec<(PathId, OuterPacket)>) {
        for (path, carrier) in PathId::all().zip(&mut self.connections) {
            carrier.on_time(now);
            if let Some(state) = carrier.sample_delivery(now) {
                self.shard.bond_mut().update_transport(path, state, now);
            }
        }
        self.shard.send(now, &mut self.sent);
        for (path, wire) in self.sent.drain(..) {
            self.connections[path.index()].push(wire);
        }
        for (connection, carrier) in PathId::all().zip(&mut self.connections) {
            let segments = std::iter::from_fn(|| carrier.poll_send(now));
            let wires = segments.map(|segment| to_outer_packet(connection, segment, self.header_bytes, now));
            out.extend(wires.map(|wire| (FIRST_PATH, wire)));
        }
    }

    /// A segment of a connection has arrived. Appends what is delivered now.
    pub(super) fn receive(&mut self, wire: OuterPacket, now: Time, out: &mut Vec<PacketBatch>) {
        let (connection, segment) = match wire.content {
            OuterContent::Segment(connection, segment) => (connection, segment),
            OuterContent::Plain(packet) => return out.push(PacketBatch::single(packet)),
            OuterContent::Numbered(..) | OuterContent::Probe | OuterContent::Report(_) | OuterContent::Missing(_) => {
                return;
            }
        };
        self.connections[connection.index()].receive(*segment, now, &mut self.received);
        for datagram in self.received.drain(..) {
            self.shard.receive(connection, datagram, now, out);
        }
    }

    /// Appends what has waited for too long.
    pub(super) fn expire(&mut self, now: Time, out: &mut Vec<PacketBatch>) {
        self.shard.expire(now, out);
    }

    pub(super) fn next_time(&self, now: Time) -> Option<Time> {
        let is_awaited = self.shard.bond().queued_packets() > 0;
        let carriers = self.connections.iter().filter_map(|carrier| carrier.next_time(is_awaited));
        carriers.map(|time| time.max(now + Span::from_nanos(1))).chain(self.shard.next_time()).min()
    }
}

fn to_outer_packet(connection: PathId, segment: TcpSegment<OuterPacket>, header_bytes: u32, sent: Time) -> OuterPacket {
    let bytes = header_bytes + segment.payload_bytes;
    let content = OuterContent::Segment(connection, Box::new(segment));
    OuterPacket { shard: 0, counter: 0, sent, bytes, is_answer: false, content }
}
