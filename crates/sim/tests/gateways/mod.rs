//! Two gateways with several paths between them, and TCP connections through both: real code at each end, under a
//! virtual clock.

use link::queue::Ecn;
use link::{Label, Link, LinkConfig, Loss};
use multipath::message::DataHeader;
use multipath::{Arrival, Bond, BondConfig, Class, PathChoice, PathConfig, PathEvent, PathId, PathReceiver};
use multipath::{DelayRange, Predecessor, Report, Resequencer, ResequencerConfig, Sequencer, Transmission};
use sim::tcp::congestion::Control;
use sim::tcp::{Acknowledgement, Data, Receiver, Sender, SenderConfig};
use units::{Rate, Span, Time};

/// A path as it is, in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathSpec {
    pub mbit: f64,
    pub delay: Span,
    pub loss: f64,
}

/// Bytes of a connection's packets, with headers.
const SEGMENT: u32 = 1428;
const HEADERS: u32 = 52;
/// IPv4 and UDP headers, those of a sealed datagram, those of a data message, and one predecessor.
const OVERHEAD: u32 = 20 + 8 + 32 + 12 + 4;
const REPORT_BYTES: u32 = 20 + 8 + 32 + 37;

#[derive(Debug, Clone, Copy)]
enum Body {
    Data(Data),
    Acknowledgement(Acknowledgement),
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: usize,
    size: u32,
    body: Body,
}

#[derive(Debug, Clone)]
enum Content {
    Packet(DataHeader, Vec<Predecessor>, Packet),
    Probe,
    Report(Report),
}

#[derive(Debug, Clone)]
struct Wire {
    counter: u64,
    sent: Time,
    bytes: u32,
    answer: bool,
    content: Content,
}

struct Gateway {
    bond: Bond<Packet>,
    sequencer: Sequencer,
    resequencer: Resequencer<Packet>,
    receivers: Vec<PathReceiver>,
    /// What goes out.
    links: Vec<Link<Wire>>,
    /// Paths that have failed; nothing waits for what comes over them either.
    down: Vec<PathId>,
    /// One-way delays of what came: the least, and the longest of late.
    delays: Vec<Option<DelayRange>>,
}

struct Connection {
    sender: Sender,
    receiver: Receiver,
    highest: u32,
}

pub struct Gateways {
    sides: [Gateway; 2],
    connections: Vec<Connection>,
    cut: Vec<bool>,
    pub now: Time,
    /// Segments delivered after one that was sent later and first.
    pub out_of_order: u64,
    /// When something was delivered to a receiver in order.
    pub progress: Vec<Time>,
}

pub fn at(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

/// What paths can carry of connections at most, in payload bits per second.
pub fn most(paths: &[PathSpec]) -> f64 {
    let sum: f64 = paths.iter().map(|path| path.mbit * 1e6).sum();
    sum * f64::from(SEGMENT - HEADERS) / f64::from(SEGMENT + OVERHEAD)
}

impl Gateway {
    fn new(choice: &PathChoice, paths: &[PathSpec], seed: u64) -> Self {
        let longest = paths.iter().map(|path| path.delay * 2).max().unwrap_or_default();
        let config = |path: &PathSpec| PathConfig {
            rate: Some(Rate::from_f64(path.mbit * 1e6)),
            max_rate: None,
            overhead_bytes: OVERHEAD,
        };
        let bond = BondConfig {
            choice: choice.clone(),
            queue: BondConfig::queue_for(longest),
            paths: paths.iter().map(config).collect(),
            seed,
        };
        let link = |(number, path): (u64, &PathSpec)| {
            let rate = Rate::from_f64(path.mbit * 1e6);
            let queue_bytes = rate.bytes_in(path.delay * 2).max(100_000);
            let (rate, loss) = (Some(rate), Loss::Independent(path.loss));
            let seed = seed.wrapping_mul(31) + number;
            Link::new(
                LinkConfig { rate, delay: path.delay, queue_bytes, loss, seed, ..LinkConfig::default() }
                    .validate()
                    .unwrap(),
            )
        };
        let config = ResequencerConfig { max_packets: 1 << 16, max_bytes: 1 << 27, ..ResequencerConfig::default() };
        Gateway {
            bond: Bond::new(&bond, Time::ZERO).unwrap(),
            sequencer: Sequencer::new(),
            resequencer: Resequencer::new(config),
            receivers: paths.iter().map(|_| PathReceiver::new()).collect(),
            links: (0..).zip(paths).map(link).collect(),
            down: Vec::new(),
            delays: vec![None; paths.len()],
        }
    }

    fn offer(&mut self, packet: Packet, now: Time) {
        let label = Label { size: packet.size, flow: 17 + packet.flow as u64 * 7919, ecn: Ecn::NotEct };
        self.bond.offer(packet, label, Class::Ordered, now);
    }

    /// Sends what is to be sent now.
    fn send(&mut self, cut: &[bool], now: Time) {
        while let Some(transmission) = self.bond.next(now) {
            let path = transmission.path;
            let wire = self.wire(transmission, now);
            self.put(path, wire, cut, now);
        }
        while let Some(event) = self.bond.poll_event() {
            if let PathEvent::Down(path) = event {
                self.sequencer.path_down(path);
                self.down.push(path);
            }
        }
        for (index, path) in PathId::all().take(self.links.len()).enumerate() {
            if let Some(report) = self.receivers[index].poll(now) {
                let wire = Wire {
                    counter: 0,
                    sent: now,
                    bytes: REPORT_BYTES,
                    answer: false,
                    content: Content::Report(report),
                };
                self.put(path, wire, cut, now);
            }
        }
    }

    fn put(&mut self, path: PathId, wire: Wire, cut: &[bool], now: Time) {
        let bytes = wire.bytes;
        if !cut[path.index()] {
            let _ = self.links[path.index()].offer(wire, bytes, now);
        }
    }

    fn wire(&mut self, transmission: Transmission<Packet>, sent: Time) -> Wire {
        let Transmission { path, counter, answer, packet } = transmission;
        let Some(packet) = packet.map(|packet| packet.content) else {
            return Wire { counter, sent, bytes: 32 + OVERHEAD, answer, content: Content::Probe };
        };
        let bucket = packet.flow as u16;
        let assignment = self.sequencer.assign(bucket, &[(path, counter)]);
        let header = DataHeader { bucket, number: assignment.number, ..DataHeader::default() };
        let content = Content::Packet(header, assignment.predecessors(path).collect(), packet);
        Wire { counter, sent, bytes: packet.size + OVERHEAD, answer, content }
    }

    fn receive(&mut self, path: PathId, wire: Wire, now: Time, out: &mut Vec<Packet>) {
        let Wire { counter, sent, bytes, answer, content } = wire;
        let delay = now - sent;
        let known = self.delays[path.index()].get_or_insert(DelayRange { least: delay, most: delay });
        *known = DelayRange { least: known.least.min(delay), most: delay.max(known.most - (known.most - delay) / 256) };
        self.resequencer.set_delay(path, Some(*known));
        if !matches!(content, Content::Report(_)) {
            self.receivers[path.index()].receive(counter, bytes, answer, now);
        }
        match content {
            Content::Packet(header, predecessors, packet) => {
                let arrival = Arrival { path, counter, header, predecessors, bytes };
                self.resequencer.receive(arrival, packet, now, out);
            }
            Content::Probe => self.resequencer.passed(path, counter, now, out),
            Content::Report(report) => {
                self.bond.report(path, &report, now);
                self.sequencer.reported(path, report.highest);
            }
        }
    }

    fn next_time(&self, now: Time) -> Option<Time> {
        let links = self.links.iter().filter_map(Link::next_event);
        let receivers = self.receivers.iter().filter_map(PathReceiver::deadline);
        let bond = self.bond.deadline().map(|time| time.max(now + Span::from_nanos(1)));
        links.chain(receivers).chain(bond).chain(self.resequencer.deadline()).min()
    }
}

impl Gateways {
    pub fn new(choice: &PathChoice, paths: &[PathSpec], seed: u64) -> Self {
        Gateways {
            sides: [0, 1].map(|side| Gateway::new(choice, paths, seed * 2 + side)),
            connections: Vec::new(),
            cut: vec![false; paths.len()],
            now: Time::ZERO,
            out_of_order: 0,
            progress: Vec::new(),
        }
    }

    pub fn connect(&mut self, control: Control) {
        let segments = u32::MAX - 1;
        let config = SenderConfig { packet_bytes: SEGMENT, segments, receive_window: 1 << 20 };
        let sender = Sender::new(config, control.build(SEGMENT));
        self.connections.push(Connection { sender, receiver: Receiver::new(2), highest: 0 });
    }

    pub fn cut(&mut self, path: usize, cut: bool) {
        self.cut[path] = cut;
    }

    /// Payload bytes that have arrived in order.
    pub fn goodput(&self) -> u64 {
        let of = |connection: &Connection| u64::from(connection.receiver.in_order()) * u64::from(SEGMENT - HEADERS);
        self.connections.iter().map(of).sum()
    }

    pub fn run_until(&mut self, end: Time) {
        loop {
            self.hosts();
            self.sides.iter_mut().for_each(|side| side.send(&self.cut, self.now));
            let Some(next) = self.next_time().filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            self.links();
        }
        self.now = end;
    }

    fn next_time(&self) -> Option<Time> {
        let hosts = self
            .connections
            .iter()
            .flat_map(|connection| [connection.sender.next_time(), connection.receiver.next_time()]);
        let sides = self.sides.iter().map(|side| side.next_time(self.now));
        hosts.chain(sides).flatten().min()
    }

    fn hosts(&mut self) {
        for (flow, connection) in self.connections.iter_mut().enumerate() {
            connection.sender.on_time(self.now);
            while let Some(data) = connection.sender.poll_send(self.now) {
                self.sides[0].offer(Packet { flow, size: SEGMENT, body: Body::Data(data) }, self.now);
            }
            if let Some(acknowledgement) = connection.receiver.on_time(self.now) {
                let body = Body::Acknowledgement(acknowledgement);
                self.sides[1].offer(Packet { flow, size: HEADERS, body }, self.now);
            }
        }
    }

    fn links(&mut self) {
        let now = self.now;
        for side in 0..2 {
            let mut out = Vec::new();
            for path in PathId::all().take(self.cut.len()) {
                self.sides[side].links[path.index()].advance(now);
                while let Some(delivery) = self.sides[side].links[path.index()].pop_due(now) {
                    if !self.cut[path.index()] {
                        self.sides[1 - side].receive(path, delivery.packet, now, &mut out);
                    }
                }
            }
            let receiving = &mut self.sides[1 - side];
            for path in std::mem::take(&mut receiving.down) {
                receiving.resequencer.path_down(path, now, &mut out);
            }
            receiving.resequencer.expire(now, &mut out);
            out.into_iter().for_each(|packet| self.arrive(&packet, now));
        }
    }

    fn arrive(&mut self, packet: &Packet, now: Time) {
        let Packet { flow, body, .. } = *packet;
        let connection = &mut self.connections[flow];
        match body {
            Body::Acknowledgement(acknowledgement) => connection.sender.acknowledge(&acknowledgement, now),
            Body::Data(data) => {
                self.out_of_order += u64::from(!data.again && data.number < connection.highest);
                connection.highest = connection.highest.max(data.number);
                let before = connection.receiver.in_order();
                let answer = connection.receiver.receive(&data, false, now);
                if connection.receiver.in_order() > before {
                    self.progress.push(now);
                }
                if let Some(acknowledgement) = answer {
                    let body = Body::Acknowledgement(acknowledgement);
                    self.sides[1].offer(Packet { flow, size: HEADERS, body }, now);
                }
            }
        }
    }
}
