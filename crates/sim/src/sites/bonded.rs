use super::config::{OVERHEAD, PathModel};
use super::packet::{Content, Packet, Wire};
use link::Label;
use multipath::Transmission;
use multipath::{Arrival, Bond, BondConfig, Class, DelayRange, PathChoice, PathConfig, PathEvent, PathId};
use multipath::{PathReceiver, PathSet, PathStatus, Resequencer, ResequencerConfig, ResequencerStatistics};
use units::{ConfigError, Span, Time};

/// A gateway of the bonded plane, without keys: they add bytes, but change no order and no time.
#[derive(Debug)]
pub(super) struct Bonded {
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
    pub(super) fn new(choice: &PathChoice, paths: &[PathModel], seed: u64) -> Result<Self, ConfigError> {
        let longest = paths.iter().map(|path| path.delay * 2).max().unwrap_or_default();
        let config = |path: &PathModel| PathConfig {
            rate: path.known_rate,
            max_rate: None,
            overhead_bytes: OVERHEAD,
            ..PathConfig::default()
        };
        let bond = BondConfig {
            choice: choice.clone(),
            queue: BondConfig::queue_for(longest),
            paths: paths.iter().map(config).collect(),
            seed,
        };
        let config = ResequencerConfig { max_packets: 1 << 16, max_bytes: 1 << 27, ..ResequencerConfig::default() };
        Ok(Bonded {
            bond: Bond::new(&bond, Time::ZERO)?,
            resequencer: Resequencer::new(config),
            receivers: paths.iter().map(|_| PathReceiver::new()).collect(),
            down: Vec::new(),
            delays: vec![None; paths.len()],
        })
    }

    pub(super) fn path_status(&self, path: usize) -> Option<PathStatus> {
        self.bond.status(PathId::all().nth(path)?)
    }

    pub(super) fn long_flow_paths(&self) -> PathSet {
        self.bond.long_flow_paths()
    }

    pub(super) fn resequencing(&self) -> ResequencerStatistics {
        *self.resequencer.statistics()
    }

    /// A packet of a host.
    pub(super) fn offer(&mut self, packet: Packet, label: Label, class: Class, now: Time) {
        self.bond.offer(packet, label, class, now);
    }

    /// Appends what is to be sent now.
    pub(super) fn send(&mut self, now: Time, out: &mut Vec<(PathId, Wire)>) {
        while let Some(transmission) = self.bond.next(now) {
            out.push((transmission.path, wire(transmission, now)));
        }
        while let Some(event) = self.bond.poll_event() {
            if let PathEvent::Down(path) = event {
                self.down.push(path);
            }
        }
        for (path, receiver) in PathId::all().zip(&mut self.receivers) {
            if let Some(report) = receiver.poll(now) {
                let content = Content::Report(report);
                out.push((path, Wire { counter: 0, sent: now, bytes: REPORT_BYTES, answer: false, content }));
            }
        }
    }

    /// A datagram has arrived. Appends what is delivered now.
    pub(super) fn receive(&mut self, path: PathId, wire: Wire, now: Time, out: &mut Vec<Packet>) {
        let Wire { counter, sent, bytes, answer, content } = wire;
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
    pub(super) fn expire(&mut self, now: Time, out: &mut Vec<Packet>) {
        for path in std::mem::take(&mut self.down) {
            self.resequencer.path_down(path, now, out);
        }
        self.resequencer.expire(now, out);
    }

    pub(super) fn next_time(&self, now: Time) -> Option<Time> {
        let receivers = self.receivers.iter().filter_map(PathReceiver::deadline);
        let bond = self.bond.deadline().map(|time| time.max(now + Span::from_nanos(1)));
        receivers.chain(bond).chain(self.resequencer.deadline()).min()
    }
}

fn wire(transmission: Transmission<Packet>, sent: Time) -> Wire {
    let Transmission { path, counter, answer, packet } = transmission;
    let Some(packet) = packet else {
        return Wire { counter, sent, bytes: PROBE_BYTES + OVERHEAD, answer, content: Content::Probe };
    };
    let content = Packet { marked: packet.content.marked || packet.marked, ..packet.content };
    let bytes = content.size + OVERHEAD;
    let content = Content::Numbered(packet.header, packet.predecessors(path).collect(), content);
    Wire { counter, sent, bytes, answer, content }
}
