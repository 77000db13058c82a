//! Two sites joined by several paths, and flows from hosts of one to hosts of the other.
//!
//! [`Sites`] runs the real code of both gateways ([`kumade_multipath`]) over [`kumade_link`]s under a virtual clock: what a flow gets of
//! a single path, of packets divided in a ratio without more ([`Plane::Direct`]), and of paths that are paced, chosen
//! among and put back in order ([`Plane::Bonded`]). Both directions of a path are alike. Configure the paths, add
//! [flows](FlowConfig), schedule [changes](Sites::schedule), and [measure](Sites::measure) an interval:
//!
//! ```
//! use kumade_sim::network::TcpConfig;
//! use kumade_sim::sites::{FlowConfig, PathModel, Plane, Sites, SitesConfig};
//! use kumade_sim::tcp::congestion::CongestionControl;
//! use kumade_units::{Rate, Span, Time};
//!
//! let paths = vec![
//!     PathModel::new(Rate::from_mbit(8), Span::from_millis(10)),
//!     PathModel::new(Rate::from_mbit(8), Span::from_millis(35)),
//! ];
//! let config = SitesConfig { paths, plane: Plane::default(), seed: 1 };
//! let tcp = TcpConfig { segment_bytes: 1394, ..TcpConfig::new(CongestionControl::Cubic) };
//! let max = config.max_goodput(&tcp);
//! let mut sites = Sites::new(&config)?;
//! let flow = sites.add_flow(FlowConfig::tcp(tcp))?;
//! let at = |seconds| Time::ZERO + Span::from_secs(seconds);
//! let report = &sites.measure(at(5), at(15))[flow];
//! assert!(report.goodput().as_f64() > 0.95 * max && report.out_of_order == 0);
//! # Ok::<(), kumade_units::ConfigError>(())
//! ```
//!
//! All random numbers follow from the seed, and the same calls give the same run again.

mod arrivals;
mod bonded;
mod change;
mod config;
mod delays;
mod direct;
mod flow;
mod packet;
mod report;
mod shard;
mod trace;
mod tunnel;
mod tunnel_connection;

pub use change::PathChange;
pub use config::{FlowConfig, PathModel, Plane, SitesConfig, TunnelModel};
pub use delays::DelayHistogram;
pub use report::FlowReport;
pub use trace::{SegmentSender, SentSegment};

use bonded::BondedGateway;
use direct::DirectGateway;
use flow::SiteFlow;
use kumade_link::{Delivery, Link, LinkConfig};
use kumade_multipath::{PathId, PathSet, PathStatus, ResequencerStatistics};
use kumade_units::{ConfigError, Time};
use packet::{OuterPacket, PacketBatch, SitePacket};
use shard::SimulatedShard;
use std::collections::VecDeque;
use trace::SegmentRecorder;
use tunnel::{FIRST_PATH, TunnelEnd};

/// Two sites, the paths between them and their flows. Data goes from the first site to the second.
#[derive(Debug)]
pub struct Sites {
    sides: [SiteSide; 2],
    flows: Vec<SiteFlow>,
    /// Nothing leaves a path that is cut, nor does what was on it arrive.
    cut_paths: Vec<bool>,
    changes: VecDeque<(Time, usize, PathChange)>,
    recorder: Option<SegmentRecorder>,
    now: Time,
}

/// A gateway and the direction of the paths that begins at it.
#[derive(Debug)]
struct SiteSide {
    gateway: GatewayModel,
    links: Vec<Link<OuterPacket>>,
    /// What the gateway sends, until it is on its way; empty between calls.
    outgoing: Vec<(PathId, OuterPacket)>,
}

#[derive(Debug)]
enum GatewayModel {
    Direct(DirectGateway),
    Bonded(BondedGateway),
    Tunnel(Box<TunnelEnd>),
}

impl Sites {
    /// Sites without flows at time zero.
    ///
    /// # Errors
    /// A setting of a path, or of the sharing, is out of range.
    pub fn new(config: &SitesConfig) -> Result<Self, ConfigError> {
        Sites::with_shards(config, 1)
    }

    /// The same, of which each gateway of the bonded plane has so many shards, at least one. Flow number *n* is that of shard
    /// *n* modulo their number at both sites.
    ///
    /// # Errors
    /// As [`Sites::new`].
    pub fn with_shards(config: &SitesConfig, shards: usize) -> Result<Self, ConfigError> {
        let side = |side| SiteSide::new(config, shards.max(1), side);
        Ok(Sites {
            sides: [side(0)?, side(1)?],
            flows: Vec::new(),
            cut_paths: vec![false; config.paths.len()],
            changes: VecDeque::new(),
            recorder: None,
            now: Time::ZERO,
        })
    }

    /// Adds a flow and returns its place in the reports.
    ///
    /// # Errors
    /// [`CrossTraffic`](kumade_link::CrossTraffic) refuses a setting.
    pub fn add_flow(&mut self, config: FlowConfig) -> Result<usize, ConfigError> {
        let index = self.flows.len();
        self.flows.push(SiteFlow::new(config, index as u32, self.cut_paths.len(), self.now)?);
        Ok(index)
    }

    /// From now on notes the segments with data that leave the first site's hosts, and those of a tunnel that leave its gateway.
    pub fn record_segments(&mut self) {
        self.recorder.get_or_insert_default();
    }

    /// Those that have left since the last call, in the order of their leaving; a retransmission begins where its original did.
    pub fn take_segments(&mut self) -> Vec<SentSegment> {
        self.recorder.as_mut().map(SegmentRecorder::take_segments).unwrap_or_default()
    }

    /// Has a path change at a time; at once if that has passed. What would make it a path that [`Sites::new`] refuses
    /// changes nothing.
    ///
    /// # Panics
    /// There is no such path.
    pub fn schedule(&mut self, time: Time, path: usize, change: PathChange) {
        assert!(path < self.cut_paths.len(), "path {path} of {}", self.cut_paths.len());
        let place = self.changes.partition_point(|(earlier, ..)| *earlier <= time);
        self.changes.insert(place, (time, path, change));
    }

    /// Runs up to and including `from`, then up to and including `to`, and returns what each flow got in between, in the
    /// order of their addition.
    pub fn measure(&mut self, from: Time, to: Time) -> Vec<FlowReport> {
        self.run_until(from);
        self.flows.iter_mut().for_each(|flow| flow.begin_report(from));
        self.run_until(to);
        self.flows.iter().map(|flow| flow.report(to)).collect()
    }

    /// Runs up to and including `end`.
    pub fn run_until(&mut self, end: Time) {
        loop {
            self.run_hosts();
            self.run_gateways();
            let Some(next) = self.next_time().filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            self.apply_change();
            self.run_links();
        }
        self.now = end.max(self.now);
    }

    /// The virtual clock.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What the first site's gateway knows of a path; `None` where it does not measure any.
    pub fn path_status(&self, path: usize) -> Option<PathStatus> {
        self.sides[0].shard()?.path_status(path)
    }

    /// The paths that long flows from the first site use together now; `None` in the direct plane.
    pub fn long_flow_paths(&self) -> Option<PathSet> {
        self.sides[0].shard().map(SimulatedShard::long_flow_paths)
    }

    /// What (the first shard of) the second site's gateway did to restore the order; `None` in the direct plane.
    pub fn resequencing(&self) -> Option<ResequencerStatistics> {
        self.sides[1].shard().map(SimulatedShard::resequencing)
    }

    fn next_time(&self) -> Option<Time> {
        let hosts = self.flows.iter().flat_map(|flow| [flow.source_time(), flow.receiver_time()]);
        let sides = self.sides.iter().map(|side| side.next_time(self.now));
        let changes = self.changes.front().map(|(time, ..)| *time);
        hosts.chain(sides).flatten().chain(changes).min()
    }

    fn run_hosts(&mut self) {
        for flow in &mut self.flows {
            flow.on_source_time(self.now);
            while let Some(packet) = flow.poll_send(self.now) {
                if let Some(recorder) = &mut self.recorder {
                    recorder.record_packet(&packet, flow.header_bytes(), self.now);
                }
                self.sides[0].offer(packet, flow, self.now);
            }
            if let Some(packet) = flow.on_receiver_time(self.now) {
                self.sides[1].offer(packet, flow, self.now);
            }
        }
    }

    fn run_gateways(&mut self) {
        for (place, side) in self.sides.iter_mut().enumerate() {
            match &mut side.gateway {
                GatewayModel::Direct(_) => {}
                GatewayModel::Bonded(bonded) => bonded.send(self.now, &mut side.outgoing),
                GatewayModel::Tunnel(tunnel) => tunnel.send(self.now, &mut side.outgoing),
            }
            for (path, wire) in side.outgoing.drain(..) {
                if let Some(recorder) = self.recorder.as_mut().filter(|_| place == 0) {
                    recorder.record_outer_packet(&wire, self.now);
                }
                if !self.cut_paths[path.index()] {
                    let bytes = wire.bytes;
                    // What is dropped just does not come out.
                    let _ = side.links[path.index()].offer(wire, bytes, self.now);
                }
            }
        }
    }

    fn apply_change(&mut self) {
        while let Some(&(time, path, change)) = self.changes.front() {
            if time > self.now {
                return;
            }
            self.changes.pop_front();
            match change {
                PathChange::Cut => self.cut_paths[path] = true,
                PathChange::Restore => self.restore(path),
                PathChange::Rate(rate) => self.reconfigure(path, |config| config.rate = Some(rate)),
                PathChange::Delay(delay) => self.reconfigure(path, |config| config.delay = delay),
                PathChange::Loss(loss) => {
                    self.reconfigure(path, |config| config.loss = kumade_link::Loss::Independent(loss))
                }
            }
        }
    }

    fn restore(&mut self, path: usize) {
        self.cut_paths[path] = false;
        let delay = self.sides[0].links[path].config().delay;
        self.flows.iter_mut().for_each(|flow| flow.record_restoration(delay, self.now));
    }

    /// Changes both directions of a path, unless it would be out of range then.
    fn reconfigure(&mut self, path: usize, change: impl Fn(&mut LinkConfig)) {
        for side in &mut self.sides {
            let link = &mut side.links[path];
            let mut config = link.config().clone();
            change(&mut config);
            if let Ok(config) = config.validate() {
                link.reconfigure(config, self.now);
            }
        }
    }

    fn run_links(&mut self) {
        for sending in 0..2 {
            let mut out = Vec::new();
            for path in PathId::all().take(self.cut_paths.len()) {
                self.sides[sending].links[path.index()].advance(self.now);
                while let Some(Delivery { packet, inverted_bit, .. }) =
                    self.sides[sending].links[path.index()].pop_due(self.now)
                {
                    // The checksum of one with an inverted bit fails where it arrives.
                    if !self.cut_paths[path.index()] && inverted_bit.is_none() {
                        self.arrive_by_path(1 - sending, path, packet, &mut out);
                    }
                }
            }
            match &mut self.sides[1 - sending].gateway {
                GatewayModel::Direct(_) => {}
                GatewayModel::Bonded(bonded) => bonded.expire(self.now, &mut out),
                GatewayModel::Tunnel(tunnel) => tunnel.expire(self.now, &mut out),
            }
            let packets: Vec<SitePacket> = out.into_iter().flat_map(|batch| batch.0).collect();
            let is_joined = matches!(self.sides[1 - sending].gateway, GatewayModel::Tunnel(_));
            packets
                .chunk_by(|one, next| is_joined && one.is_continued_by(next))
                .for_each(|run| self.deliver_to_hosts(run));
        }
    }

    fn arrive_by_path(&mut self, receiving: usize, path: PathId, wire: OuterPacket, out: &mut Vec<PacketBatch>) {
        if let Some(packet) = wire.content.packet().filter(|_| receiving == 1) {
            self.flows[packet.flow as usize].record_path_bytes(path, wire.bytes);
        }
        match &mut self.sides[receiving].gateway {
            GatewayModel::Bonded(bonded) => bonded.receive(path, wire, self.now, out),
            GatewayModel::Tunnel(tunnel) => tunnel.receive(wire, self.now, out),
            GatewayModel::Direct(_) => out.extend(wire.content.packet().map(|packet| PacketBatch::single(*packet))),
        }
    }

    /// Packets of a flow reach a host together: as the host sees it, as one.
    fn deliver_to_hosts(&mut self, packets: &[SitePacket]) {
        let Some(flow) = packets.first().map(|first| &mut self.flows[first.flow as usize]) else { return };
        for answer in flow.receive_batch(packets, self.now) {
            self.sides[1].offer(answer, flow, self.now);
        }
    }
}

impl SiteSide {
    fn new(config: &SitesConfig, shards: usize, side: u64) -> Result<Self, ConfigError> {
        let seed = config.seed.wrapping_mul(2).wrapping_add(side);
        let link = |(number, path): (u64, &PathModel)| path.new_link(seed.wrapping_mul(31).wrapping_add(number));
        let gateway = match &config.plane {
            Plane::Direct { shares, shares_back } => GatewayModel::Direct(DirectGateway::new(
                if side == 0 { shares } else { shares_back },
                config.paths.len(),
            )?),
            Plane::Bonded { choice } => GatewayModel::Bonded(BondedGateway::new(choice, &config.paths, shards, seed)?),
            Plane::Tunnel(model) => GatewayModel::Tunnel(Box::new(TunnelEnd::new(model, seed)?)),
        };
        let links = (0..).zip(&config.paths).map(link).collect::<Result<_, _>>()?;
        Ok(SiteSide { gateway, links, outgoing: Vec::new() })
    }

    /// The first one.
    fn shard(&self) -> Option<&SimulatedShard> {
        match &self.gateway {
            GatewayModel::Direct(_) => None,
            GatewayModel::Bonded(bonded) => Some(bonded.first_shard()),
            GatewayModel::Tunnel(tunnel) => Some(tunnel.shard()),
        }
    }

    fn offer(&mut self, packet: SitePacket, flow: &SiteFlow, now: Time) {
        let (label, class) = (flow.label(&packet), flow.traffic_class());
        match &mut self.gateway {
            GatewayModel::Bonded(_) | GatewayModel::Tunnel(_) if flow.bypasses_plane() => {
                self.outgoing.push((FIRST_PATH, OuterPacket::unencrypted(packet, now)))
            }
            GatewayModel::Direct(direct) => self.outgoing.push(direct.send(packet, now)),
            GatewayModel::Bonded(bonded) => bonded.offer(PacketBatch::single(packet), label, class, now),
            GatewayModel::Tunnel(tunnel) => tunnel.offer(PacketBatch::single(packet), label, class, now),
        }
    }

    fn next_time(&self, now: Time) -> Option<Time> {
        let gateway = match &self.gateway {
            GatewayModel::Direct(_) => None,
            GatewayModel::Bonded(bonded) => bonded.next_time(),
            GatewayModel::Tunnel(tunnel) => tunnel.next_time(now),
        };
        self.links.iter().filter_map(Link::next_event).chain(gateway).min()
    }
}
