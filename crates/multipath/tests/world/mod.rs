//! Two gateways joined by several paths, under a virtual clock: the real [`Bond`] on one side, the real
//! [`PathReceiver`]s on the other, emulated links between them.
#![allow(dead_code, reason = "each test uses its part")]

use kumade_link::queue::{CoDelConfig, Ecn, FqCoDelConfig, QueueConfig, QueueLimit};
use kumade_link::{CrossConfig, CrossKind, CrossTraffic, Label, Link, LinkConfig, Loss};
use kumade_multipath::{
    Bond, BondConfig, FirstSegment, PathConfig, PathEvent, PathId, PathPolicy, PathReceiver, PathReport, PathState,
    TrafficClass,
};
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A path as it is.
#[derive(Debug, Clone, Copy)]
pub struct PathSpec {
    pub mbit: f64,
    /// Of one direction.
    pub delay: Span,
    pub loss: f64,
    /// The provider's buffer.
    pub buffer: u64,
    /// What the gateway is told of its rate.
    pub told: Option<f64>,
    pub jitter: Span,
}

pub const OVERHEAD: u32 = 68;

pub fn path(mbit: f64, millis: f64) -> PathSpec {
    let buffer = (mbit * 1e6 / 8.0 * 0.2) as u64 + 30_000;
    let delay = Span::from_secs_f64(millis / 1e3);
    PathSpec { mbit, delay, loss: 0.0, buffer, told: Some(mbit), jitter: Span::ZERO }
}

/// What sends.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// Full packets, so that some always wait.
    Bulk,
    /// Packets of a size at intervals.
    Paced { size: u32, interval: Span },
    /// So many bytes at once.
    Burst { bytes: u64 },
}

#[derive(Debug, Clone, Copy)]
pub struct Flow {
    pub source: Source,
    pub class: TrafficClass,
    pub start: Time,
    pub stop: Time,
}

#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    pub time: Time,
    pub flow: usize,
    pub path: PathId,
    pub bytes: u32,
    pub delay: Span,
    pub number: u64,
}

#[derive(Debug, Clone)]
struct Packet {
    flow: usize,
    number: u64,
    size: u32,
    /// It stands for so many of this size.
    count: u16,
    offered: Time,
}

#[derive(Debug, Clone)]
struct Wire {
    counter: u64,
    bytes: u32,
    answer: bool,
    packet: Option<Packet>,
}

struct Way {
    forward: Link<Wire>,
    config: LinkConfig,
    back: Link<PathReport>,
    receiver: PathReceiver,
    cut: bool,
}

struct Running {
    flow: Flow,
    next: Time,
    number: u64,
}

/// The far end's clock differs by this.
const CLOCK_OFFSET: Span = Span::from_secs(-1_000_000);
/// Packets that a bulk source keeps waiting.
const BACKLOG: usize = 40;

pub struct World {
    bond: Bond<Packet>,
    ways: Vec<Way>,
    flows: Vec<Running>,
    pub now: Time,
    pub arrived: Vec<Arrived>,
    pub events: Vec<(Time, PathEvent)>,
    pub probes: u64,
    bulk_turn: usize,
    /// Bulk sources offer so many packets as one.
    pub packets_at_once: u16,
    /// Times at which packets left by a path, and how many did at each.
    pub departures: Vec<(PathId, Time, u32)>,
    sender: Option<Scheduling>,
    deliveries: Option<Scheduling>,
}

/// A thread is kept from running now and then, after it has run.
struct Scheduling {
    /// How often that happens, of all times that it has run, …
    probability: f64,
    /// … and for how long at most.
    max: Span,
    random: Pcg64Mcg,
    runs_at: Time,
}

impl Scheduling {
    fn new(probability: f64, max: Span, seed: u64, now: Time) -> Self {
        Scheduling { probability, max, random: Pcg64Mcg::seed_from_u64(seed), runs_at: now }
    }

    /// Whether it runs now.
    fn runs(&mut self, now: Time) -> bool {
        let runs = now >= self.runs_at;
        if runs && self.random.random_bool(self.probability) {
            self.runs_at = now + Span::from_nanos(self.random.random_range(0..self.max.as_nanos()));
        }
        runs
    }
}

pub fn id(number: u8) -> PathId {
    PathId::new(number).unwrap()
}

pub fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

/// FQ-CoDel for flows of long round trips.
pub fn queue() -> QueueConfig {
    let codel =
        CoDelConfig { target: Span::from_millis(20), interval: Span::from_millis(200), ..CoDelConfig::default() };
    let discipline = FqCoDelConfig { codel, ..FqCoDelConfig::default() };
    QueueConfig { limit: QueueLimit::Bytes(4_000_000), discipline: discipline.into() }
}

impl World {
    pub fn new(choice: PathPolicy, specs: &[PathSpec], seed: u64) -> Self {
        let told = |spec: &PathSpec| PathConfig {
            rate: spec.told.map(|mbit| Rate::from_f64(mbit * 1e6)),
            max_rate: None,
            overhead_bytes: OVERHEAD,
            ..PathConfig::default()
        };
        let paths = specs.iter().map(told).collect();
        let config = BondConfig { policy: choice, queue: queue(), paths, seed };
        let ways = (0u64..).zip(specs).map(|(n, spec)| Way::new(spec, seed.wrapping_mul(77) + 2 * n)).collect();
        World {
            bond: Bond::new(&config, Time::ZERO).unwrap(),
            ways,
            flows: Vec::new(),
            now: Time::ZERO,
            arrived: Vec::new(),
            events: Vec::new(),
            probes: 0,
            bulk_turn: 0,
            packets_at_once: 1,
            departures: Vec::new(),
            sender: None,
            deliveries: None,
        }
    }

    /// After this part of the times that it has run, the sender's thread does not run for up to `max`.
    pub fn delay_sender(&mut self, probability: f64, max: Span, seed: u64) {
        self.sender = Some(Scheduling::new(probability, max, seed, self.now));
    }

    /// The same of what delivers packets at the ends of all links: those that were due arrive together.
    pub fn delay_deliveries(&mut self, probability: f64, max: Span, seed: u64) {
        self.deliveries = Some(Scheduling::new(probability, max, seed, self.now));
    }

    pub fn add(&mut self, source: Source, class: TrafficClass, start: Time, stop: Time) -> usize {
        let flow = Flow { source, class, start, stop };
        self.flows.push(Running { flow, next: start, number: 0 });
        self.flows.len() - 1
    }

    pub fn bulk(&mut self) -> usize {
        self.add(Source::Bulk, TrafficClass::Ordered, Time::ZERO, Time::MAX)
    }

    pub fn cut(&mut self, path: usize, cut: bool) {
        self.ways[path].cut = cut;
    }

    /// Sets the rate of a path.
    pub fn set_rate(&mut self, path: usize, mbit: f64) {
        let way = &mut self.ways[path];
        way.config.rate = Some(Rate::from_f64(mbit * 1e6));
        way.forward.reconfigure(way.config.clone().validate().unwrap(), self.now);
    }

    pub fn set_delay(&mut self, path: usize, delay: Span) {
        let way = &mut self.ways[path];
        way.config.delay = delay;
        way.forward.reconfigure(way.config.clone().validate().unwrap(), self.now);
    }

    pub fn cross(&mut self, path: usize, kind: CrossKind) {
        let config = CrossConfig { kind, start: self.now, phase: 0.3, seed: 5 };
        self.ways[path].forward.add_cross_traffic(CrossTraffic::new(config).unwrap());
    }

    pub fn stop_cross(&mut self, path: usize) {
        self.ways[path].forward.stop_cross_traffic();
    }

    pub fn status(&self, path: u8) -> kumade_multipath::PathStatus {
        self.bond.status(id(path)).unwrap()
    }

    pub fn is_up(&self, path: u8) -> bool {
        self.status(path).state == PathState::Up
    }

    pub fn bond(&mut self) -> &mut Bond<impl Clone> {
        &mut self.bond
    }

    pub fn run_until(&mut self, end: Time) {
        loop {
            self.sources();
            self.send();
            let Some(next) = self.next_time().filter(|next| *next <= end) else { break };
            assert!(next >= self.now, "{next:?} is before {:?}", self.now);
            self.now = next.max(self.now);
            self.links();
        }
        self.now = end;
    }

    fn next_time(&self) -> Option<Time> {
        let runs_at = |thread: &Option<Scheduling>| thread.as_ref().map_or(self.now, |thread| thread.runs_at);
        let delivered = |way: &Way| way.forward.next_event().map(|time| time.max(runs_at(&self.deliveries)));
        let links = self.ways.iter().flat_map(|way| [delivered(way), way.back.next_event(), way.report_time()]);
        let flows = self.flows.iter().map(|running| running.next_time());
        let bond = self.bond.deadline().map(|time| time.max(runs_at(&self.sender)));
        links.chain(flows).flatten().chain(bond.map(|time| time.max(self.now + Span::from_nanos(1)))).min()
    }

    fn sources(&mut self) {
        for (index, running) in self.flows.iter_mut().enumerate() {
            while let Some(size) = running.poll(self.now) {
                let packet = Packet { flow: index, number: running.number, size, count: 1, offered: self.now };
                running.number += 1;
                self.bond.enqueue(packet, label(index, size), running.flow.class, self.now);
            }
        }
        let bulk: Vec<usize> = (0..self.flows.len()).filter(|index| self.flows[*index].is_bulk(self.now)).collect();
        while !bulk.is_empty() && self.bond.queued_packets() < BACKLOG * bulk.len() {
            self.bulk_turn += 1;
            let index = bulk[self.bulk_turn % bulk.len()];
            let running = &mut self.flows[index];
            let count = self.packets_at_once;
            let packet = Packet { flow: index, number: running.number, size: 1432, count, offered: self.now };
            running.number += u64::from(count);
            let label = label(index, 1432 * u32::from(count));
            self.bond.enqueue_large(packet, (count, 1432), label, running.flow.class, self.now);
        }
    }

    fn send(&mut self) {
        if self.sender.as_mut().is_some_and(|sender| !sender.runs(self.now)) {
            return;
        }
        loop {
            while let Some(sent) = self.bond.next_divided(self.now, &mut |_, _, _| 0, &mut take_first) {
                if sent.packet.is_some() {
                    match self.departures.last_mut().filter(|(path, time, _)| (*path, *time) == (sent.path, self.now)) {
                        Some((.., packets)) => *packets += 1,
                        None => self.departures.push((sent.path, self.now, 1)),
                    }
                }
                let size = sent.packet.as_ref().map_or(32, |packet| packet.content.size);
                self.probes += u64::from(sent.packet.is_none());
                let bytes = size + OVERHEAD;
                let wire = Wire {
                    counter: sent.counter,
                    bytes,
                    answer: sent.requests_report,
                    packet: sent.packet.map(|packet| packet.content),
                };
                let way = &mut self.ways[sent.path.index()];
                if !way.cut {
                    let _ = way.forward.offer(wire, bytes, self.now);
                }
            }
            while let Some(event) = self.bond.poll_event() {
                self.events.push((self.now, event));
            }
            let before = self.bond.queued_packets();
            self.sources();
            if self.bond.queued_packets() == before {
                return;
            }
        }
    }

    fn links(&mut self) {
        let delivers = self.deliveries.as_mut().is_none_or(|deliveries| deliveries.runs(self.now));
        for (index, way) in self.ways.iter_mut().enumerate() {
            let path = id(index as u8);
            way.forward.advance(self.now);
            while let Some(delivery) = delivers.then(|| way.forward.pop_due(self.now)).flatten() {
                let Wire { counter, bytes, answer, packet } = delivery.packet;
                if way.cut {
                    continue;
                }
                way.receiver.receive(counter, bytes, answer, self.now + CLOCK_OFFSET);
                if let Some(packet) = packet {
                    let delay = self.now - packet.offered;
                    let Packet { flow, number, size, .. } = packet;
                    self.arrived.push(Arrived { time: self.now, flow, path, bytes: size + OVERHEAD, delay, number });
                }
            }
            if let Some(report) = way.receiver.poll(self.now + CLOCK_OFFSET)
                && !way.cut
            {
                let _ = way.back.offer(report, 120, self.now);
            }
            way.back.advance(self.now);
            while let Some(delivery) = way.back.pop_due(self.now) {
                if !way.cut {
                    self.bond.receive_report(path, &delivery.packet, self.now);
                }
            }
        }
    }

    /// Bits per second of IP packets on the paths that arrived between two times, of one flow or all.
    pub fn rate(&self, flow: Option<usize>, from: Time, to: Time) -> f64 {
        let of = |arrived: &&Arrived| {
            flow.is_none_or(|flow| arrived.flow == flow) && arrived.time > from && arrived.time <= to
        };
        let bytes: u64 = self.arrived.iter().filter(of).map(|arrived| u64::from(arrived.bytes)).sum();
        bytes as f64 * 8.0 / (to - from).as_secs_f64()
    }

    pub fn path_rate(&self, path: u8, from: Time, to: Time) -> f64 {
        let of = |arrived: &&Arrived| arrived.path == id(path) && arrived.time > from && arrived.time <= to;
        let bytes: u64 = self.arrived.iter().filter(of).map(|arrived| u64::from(arrived.bytes)).sum();
        bytes as f64 * 8.0 / (to - from).as_secs_f64()
    }

    /// A quantile of the delays of a flow's packets from their offer to their arrival.
    pub fn delay(&self, flow: usize, quantile: f64, from: Time) -> Span {
        let mut delays: Vec<Span> = self
            .arrived
            .iter()
            .filter(|arrived| arrived.flow == flow && arrived.time > from)
            .map(|a| a.delay)
            .collect();
        delays.sort();
        delays[((delays.len() - 1) as f64 * quantile) as usize]
    }

    /// The longest time in which nothing arrived.
    pub fn longest_gap(&self, from: Time, to: Time) -> Span {
        let times = self.arrived.iter().map(|arrived| arrived.time).filter(|time| *time > from && *time <= to);
        let times: Vec<Time> = std::iter::once(from).chain(times).chain([to]).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

impl Way {
    fn new(spec: &PathSpec, seed: u64) -> Self {
        let config = LinkConfig {
            rate: Some(Rate::from_f64(spec.mbit * 1e6)),
            delay: spec.delay,
            loss: Loss::Independent(spec.loss),
            queue_bytes: spec.buffer,
            jitter: spec.jitter.into(),
            seed,
            ..LinkConfig::default()
        };
        let forward = Link::new(config.clone().validate().unwrap());
        let back = Link::new(LinkConfig { seed: seed + 1, ..config.clone() }.validate().unwrap());
        Way { forward, back, config, receiver: PathReceiver::new(), cut: false }
    }
}

impl Way {
    fn report_time(&self) -> Option<Time> {
        self.receiver.deadline().map(|deadline| deadline - CLOCK_OFFSET)
    }
}

impl Running {
    fn is_bulk(&self, now: Time) -> bool {
        matches!(self.flow.source, Source::Bulk) && now >= self.flow.start && now < self.flow.stop
    }

    fn next_time(&self) -> Option<Time> {
        let more = match self.flow.source {
            Source::Bulk => self.next < Time::MAX,
            Source::Paced { .. } => true,
            Source::Burst { bytes } => self.number * 1432 < bytes,
        };
        (more && self.next < self.flow.stop).then_some(self.next)
    }

    fn poll(&mut self, now: Time) -> Option<u32> {
        self.next_time().filter(|next| *next <= now)?;
        match self.flow.source {
            Source::Bulk => {
                self.next = Time::MAX;
                None
            }
            Source::Paced { size, interval } => {
                self.next += interval;
                Some(size)
            }
            Source::Burst { .. } => Some(1432),
        }
    }
}

fn take_first(packet: &mut Packet) -> Option<FirstSegment<Packet>> {
    let left = packet.count.checked_sub(1).filter(|left| *left > 0)?;
    let first = Packet { count: 1, ..packet.clone() };
    (packet.number, packet.count) = (packet.number + 1, left);
    Some(FirstSegment { packet: first, bytes: packet.size, left_bytes: packet.size * u32::from(left) })
}

fn label(flow: usize, size: u32) -> Label {
    let flow = 1000 + flow as u64 * 7919;
    Label { size, flow, host: flow, ecn: Ecn::NotEct, ..Label::default() }
}
