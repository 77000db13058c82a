use super::config::{OVERHEAD, PathModel};
use super::packet::{Content, Packet, Wire};
use link::Label;
use multipath::Transmission;
use multipath::{Arrival, Bond, BondConfig, Class, DelayRange, PathChoice, PathConfig, PathEvent, PathId};
use multipath::{
    PathReceiver, PathSet, PathStatus, Resequencer, ResequencerConfig, ResequencerStatistics, SharedPaths,
};
use units::{ConfigError, Span, Time};

/// A gateway of the bonded plane, without keys: they add bytes, but change no order and no time. Each of its shards stands for
/// a thread, and has the flows that its number falls to.
#[derive(Debug)]
pub(super) struct Bonded(Vec<Shard>);

#[derive(Debug)]
struct Shard {
    number: usize,
    bond: Bond<Packet>,
    resequencer: Resequencer<Packet>,
    receivers: Vec<PathReceiver>,
    /// Paths that have failed; nothing waits for what comes over them either.
    down: Vec<PathId>,
    /// One-way delays of what came: the least, and the longest of late.
    delays: Vec<Option<DelayRange>>,
}

const REPORT_BYTES: u32 = 20 + 8 + 32 + 37;
const PROBE_BYTES: u32 = 32;

impl Bonded {
    pub(super) fn new(choice: &PathChoice, paths: &[PathModel], shards: usize, seed: u64) -> Result<Self, ConfigError> {
        let config = |path: &PathModel| PathConfig {
            rate: path.known_rate,
            max_rate: None,
            overhead_bytes: OVERHEAD,
            ..PathConfig::default()
        };
        let bond = BondConfig {
            choice: choice.clone(),
            queue: BondConfig::managed_queue(),
            paths: paths.iter().map(config).collect(),
            seed,
        };
        let shared = SharedPaths::new(&bond.paths, shards, Time::ZERO);
        (0..shards).map(|number| Shard::new(number, &bond, &shared)).collect::<Result<_, _>>().map(Bonded)
    }

    /// As its first shard sees it.
    pub(super) fn path_status(&self, path: usize) -> Option<PathStatus> {
        self.0[0].bond.status(PathId::all().nth(path)?)
    }

    pub(super) fn long_flow_paths(&self) -> PathSet {
        self.0[0].bond.long_flow_paths()
    }

    pub(super) fn resequencing(&self) -> ResequencerStatistics {
        *self.0[0].resequencer.statistics()
    }

    /// A packet of a host.
    pub(super) fn offer(&mut self, packet: Packet, label: Label, class: Class, now: Time) {
        let shard = packet.flow as usize % self.0.len();
        self.0[shard].bond.offer(packet, label, class, now);
    }

    /// Appends what is to be sent now.
    pub(super) fn send(&mut self, now: Time, out: &mut Vec<(PathId, Wire)>) {
        self.0.iter_mut().for_each(|shard| shard.send(now, out));
    }

    /// A datagram has arrived. Appends what is delivered now.
    pub(super) fn receive(&mut self, path: PathId, wire: Wire, now: Time, out: &mut Vec<Packet>) {
        self.0[wire.shard].receive(path, wire, now, out);
    }

    /// Ends what waits for paths that have failed, and for too long. Appends what is delivered now.
    pub(super) fn expire(&mut self, now: Time, out: &mut Vec<Packet>) {
        self.0.iter_mut().for_each(|shard| shard.expire(now, out));
    }

    pub(super) fn next_time(&self, now: Time) -> Option<Time> {
        self.0.iter().filter_map(|shard| shard.next_time(now)).min()
    }
}

impl Shard {
    fn new(number: usize, bond: &BondConfig, shared: &SharedPaths) -> Result<Self, ConfigError> {
        let config = ResequencerConfig { max_packets: 1 << 16, max_bytes: 1 << 27, ..ResequencerConfig::default() };
        let paths = bond.paths.len();
        Ok(Shard {
            number,
            bond: Bond::sharing(bond, shared, number, Time::ZERO)?,
            resequencer: Resequencer::new(config),
            receivers: vec![PathReceiver::new(); paths],
            down: Vec::new(),
            delays: vec![None; paths],
        })
    }

    /// Appends what is to be sent now.
    fn send(&mut self, now: Time, out: &mut Vec<(PathId, Wire)>) {
        while let Some(transmission) = self.bond.next(now) {
            out.push((transmission.path, wire(self.number, transmission, now)));
        }
        while let Some(event) = self.bond.poll_event() {
            if let PathEvent::Down(path) = event {
                self.down.push(path);
            }
        }
        for (path, receiver) in PathId::all().zip(&mut self.receivers) {
            if let Some(report) = receiver.poll(now) {
                let content = Content::Report(report);
                let shard = self.number;
                out.push((path, Wire { shard, counter: 0, sent: now, bytes: REPORT_BYTES, answer: false, content }));
            }
        }
    }

    /// A datagram has arrived. Appends what is delivered now.
    fn receive(&mut self, path: PathId, wire: Wire, now: Time, out: &mut Vec<Packet>) {
        let Wire { counter, sent, bytes, answer, content, .. } = wire;
        self.note_delay(path, now - sent);
        if !matches!(content, Content::Report(_)) {
            self.receivers[path.index()].receive(counter, bytes, answer, now);
        }
        match content {
            Content::Numbered(header, predecessors, packet) => {
                let arrival = Arrival { path, counter, header, predecessors, bytes };
                self.resequencer.receive(arrival, packet, now, out);
            }
            Content::Probe => self.resequencer.passed(path, counter, now, out),
            Content::Report(report) => {
                self.bond.report(path, &report, now);
            }
            Content::Plain(packet) => out.push(packet),
        }
    }

    fn note_delay(&mut self, path: PathId, delay: Span) {
        let known = self.delays[path.index()].get_or_insert(DelayRange { least: delay, most: delay });
        *known = DelayRange { least: known.least.min(delay), most: delay.max(known.most - (known.most - delay) / 256) };
        self.resequencer.set_delay(path, Some(*known));
    }

    /// Ends what waits for paths that have failed, and for too long. Appends what is delivered now.
    fn expire(&mut self, now: Time, out: &mut Vec<Packet>) {
        for path in std::mem::take(&mut self.down) {
            self.resequencer.path_down(path, now, out);
        }
        self.resequencer.expire(now, out);
    }

    fn next_time(&self, now: Time) -> Option<Time> {
        let receivers = self.receivers.iter().filter_map(PathReceiver::deadline);
        let bond = self.bond.deadline().map(|time| time.max(now + Span::from_nanos(1)));
        receivers.chain(bond).chain(self.resequencer.deadline()).min()
    }
}

fn wire(shard: usize, transmission: Transmission<Packet>, sent: Time) -> Wire {
    let Transmission { path, counter, answer, packet } = transmission;
    let Some(packet) = packet else {
        return Wire { shard, counter, sent, bytes: PROBE_BYTES + OVERHEAD, answer, content: Content::Probe };
    };
    let content = Packet { marked: packet.content.marked || packet.marked, ..packet.content };
    let bytes = content.size + OVERHEAD;
    let content = Content::Numbered(packet.header, packet.predecessors(path).collect(), content);
    Wire { shard, counter, sent, bytes, answer, content }
}
