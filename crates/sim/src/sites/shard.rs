use super::packet::{OuterContent, OuterPacket, PacketBatch};
use kumade_link::Label;
use kumade_multipath::{
    ArrivedData, Bond, BondConfig, DelayRange, MissingDatagrams, OuterTransport, PathEvent, PathId, PathReceiver,
    PathSet, PathStatus, Resequencer, ResequencerConfig, ResequencerStatistics, SharedPaths, TrafficClass,
    Transmission,
};
use kumade_units::{ConfigError, Span, Time};

/// What one thread of a gateway does between hosts and paths, without keys: they add bytes, but change no order and no time.
#[derive(Debug)]
pub(super) struct SimulatedShard {
    number: usize,
    bond: Bond<PacketBatch>,
    resequencer: Resequencer<PacketBatch>,
    receivers: Vec<PathReceiver>,
    missing: MissingDatagrams,
    is_stream: bool,
    /// Paths that have failed; nothing waits for what comes over them either.
    failed_paths: Vec<PathId>,
    delay_source: DelaySource,
    /// Bytes before a sealed datagram.
    outer_bytes: u32,
    /// It is not asked again for what is due earlier than this after the last time.
    batch_interval: Span,
    /// Something has happened since it was last asked what is to be sent; otherwise it is asked at a time, as threads are woken.
    is_awake: bool,
    next_time: Option<Time>,
}

/// What the resequencer is told of the delays of paths.
#[derive(Debug)]
enum DelaySource {
    /// One-way delays of what came: the least, and the longest of late.
    OneWay(Vec<Option<DelayRange>>),
    /// So many round trips at most, as far as reports tell.
    RoundTrips(i64),
}

/// A sealed datagram besides its message, which has no packet: its header and tag.
const SEALED_BYTES: u32 = 16 + 16;
const REPORT_MESSAGE_BYTES: u32 = 37;
const PROBE_BYTES: u32 = 32;
/// With one counter.
const MISSING_MESSAGE_BYTES: u32 = 10;
/// What is lost is repeated, once that is noticed.
const RETRANSMISSION_ROUND_TRIPS: i64 = 3;

/// Bytes that a packet is longer by on its path, if so many stand before the sealed datagram.
pub(super) const fn overhead_bytes(outer_bytes: u32) -> u32 {
    outer_bytes + kumade_multipath::dataplane::OVERHEAD_BYTES
}

impl SimulatedShard {
    /// Shard number `number` over datagrams or connections, as the paths' flow control says. What is due within `batch_interval`
    /// leaves together.
    pub(super) fn new(
        number: usize,
        config: &BondConfig,
        shared: &SharedPaths,
        outer_bytes: u32,
        batch_interval: Span,
    ) -> Result<Self, ConfigError> {
        let mut bond = Bond::for_shard(config, shared, number, Time::ZERO)?;
        bond.set_merge(PacketBatch::merge);
        bond.set_payload_reader(PacketBatch::payload);
        let paths = config.paths.len();
        let is_repeated = config.paths.iter().any(|path| path.transport == OuterTransport::Tcp);
        let many = ResequencerConfig { max_packets: 1 << 16, max_bytes: 1 << 27, ..ResequencerConfig::default() };
        let (resequencer, delays) = match is_repeated {
            true => (ResequencerConfig::default(), DelaySource::RoundTrips(RETRANSMISSION_ROUND_TRIPS)),
            false => (many, DelaySource::OneWay(vec![None; paths])),
        };
        Ok(SimulatedShard {
            number,
            bond,
            resequencer: Resequencer::new(resequencer),
            receivers: vec![PathReceiver::new(); paths],
            missing: MissingDatagrams::new(),
            is_stream: is_repeated,
            failed_paths: Vec::new(),
            delay_source: delays,
            outer_bytes,
            batch_interval,
            is_awake: true,
            next_time: None,
        })
    }

    pub(super) fn bond(&self) -> &Bond<PacketBatch> {
        &self.bond
    }

    pub(super) fn bond_mut(&mut self) -> &mut Bond<PacketBatch> {
        self.is_awake = true;
        &mut self.bond
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

    /// Packets of a host that travel as one.
    pub(super) fn offer(&mut self, packets: PacketBatch, label: Label, class: TrafficClass, now: Time) {
        self.bond_mut().enqueue(packets, label, class, now);
    }

    /// Appends what is to be sent now.
    pub(super) fn send(&mut self, now: Time, out: &mut Vec<(PathId, OuterPacket)>) {
        if !self.is_due(now) {
            return;
        }
        self.is_awake = false;
        while let Some(transmission) =
            self.bond.next_shortened(now, &mut |packet, _, _| packet.content.compressed_bytes())
        {
            out.push((transmission.path, self.to_outer_packet(transmission, now)));
        }
        while let Some(event) = self.bond.poll_event() {
            if let PathEvent::Down(path) = event {
                self.failed_paths.push(path);
            }
        }
        for (path, receiver) in PathId::all().zip(&mut self.receivers) {
            if let Some(report) = receiver.poll(now) {
                let content = OuterContent::Report(report);
                let bytes = self.outer_bytes + SEALED_BYTES + REPORT_MESSAGE_BYTES;
                let shard = self.number;
                out.push((path, OuterPacket { shard, counter: 0, sent: now, bytes, is_answer: false, content }));
            }
        }
        while let Some((path, missing)) = self.missing.poll(|| self.bond.fastest_paths(), now) {
            let bytes = self.outer_bytes + SEALED_BYTES + MISSING_MESSAGE_BYTES;
            let (shard, content) = (self.number, OuterContent::Missing(missing));
            out.push((path, OuterPacket { shard, counter: 0, sent: now, bytes, is_answer: false, content }));
        }
        self.next_time = self.deadline().map(|time| time.max(now + self.batch_interval));
    }

    fn is_due(&self, now: Time) -> bool {
        self.is_awake || self.next_time.is_some_and(|time| time <= now)
    }

    /// A datagram has arrived. Appends what is delivered now.
    pub(super) fn receive(&mut self, path: PathId, wire: OuterPacket, now: Time, out: &mut Vec<PacketBatch>) {
        let OuterPacket { counter, sent, bytes, is_answer: answer, content, .. } = wire;
        self.is_awake = true;
        self.record_delay(path, now - sent);
        if !matches!(content, OuterContent::Report(_) | OuterContent::Missing(_)) {
            self.receivers[path.index()].receive(counter, bytes, answer, now);
            if !self.is_stream && self.missing.receive(path, counter, now) {
                self.resequencer.record_missing(now);
            }
        }
        match content {
            OuterContent::Numbered(header, predecessors, packet) => {
                let arrival = ArrivedData { path, counter, header, predecessors, bytes };
                self.resequencer.receive(arrival, packet, now, out);
            }
            OuterContent::Probe => self.resequencer.datagram_passed(path, counter, now, out),
            OuterContent::Report(report) => {
                self.bond.receive_report(path, &report, now);
                self.record_round_trip(path);
                self.resequencer.set_repair_wait(self.bond.repair_wait());
            }
            OuterContent::Missing(missing) => self.bond.receive_missing(missing.path, missing.counters, now),
            OuterContent::Plain(packet) => out.push(PacketBatch::single(packet)),
            // It belongs to the connection.
            OuterContent::Segment(..) => {}
        }
    }

    fn record_delay(&mut self, path: PathId, delay: Span) {
        let DelaySource::OneWay(delays) = &mut self.delay_source else { return };
        let known = delays[path.index()].get_or_insert(DelayRange { min: delay, max: delay });
        *known = DelayRange { min: known.min.min(delay), max: delay.max(known.max - (known.max - delay) / 256) };
        self.resequencer.set_delay(path, Some(*known));
    }

    fn record_round_trip(&mut self, path: PathId) {
        let DelaySource::RoundTrips(count) = self.delay_source else { return };
        let round_trip = self.bond.status(path).and_then(|status| status.round_trip);
        let range = round_trip.map(|round_trip| DelayRange { min: Span::ZERO, max: round_trip * count });
        self.resequencer.set_delay(path, range);
    }

    /// Ends what waits for paths that have failed, and for too long. Appends what is delivered now.
    pub(super) fn expire(&mut self, now: Time, out: &mut Vec<PacketBatch>) {
        if !self.is_due(now) {
            return;
        }
        for path in std::mem::take(&mut self.failed_paths) {
            self.resequencer.path_down(path, now, out);
        }
        self.resequencer.expire(now, out);
    }

    /// When it is to be asked again, as long as nothing happens.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.next_time
    }

    fn deadline(&self) -> Option<Time> {
        let receivers = self.receivers.iter().filter_map(PathReceiver::deadline).chain(self.missing.deadline());
        receivers.chain(self.bond.deadline()).chain(self.resequencer.deadline()).min()
    }

    fn to_outer_packet(&self, transmission: Transmission<PacketBatch>, sent: Time) -> OuterPacket {
        let Transmission { path, counter, requests_report: answer, packet } = transmission;
        let (shard, overhead) = (self.number, overhead_bytes(self.outer_bytes));
        let Some(packet) = packet else {
            return OuterPacket {
                shard,
                counter,
                sent,
                bytes: self.outer_bytes + SEALED_BYTES + PROBE_BYTES,
                is_answer: answer,
                content: OuterContent::Probe,
            };
        };
        let bytes = packet.content.bytes() + overhead - packet.content.compressed_bytes();
        let predecessors = packet.predecessors(path).collect();
        let content = packet.content.with_ecn_mark(packet.is_ecn_marked);
        let content = OuterContent::Numbered(packet.header, predecessors, content);
        OuterPacket { shard, counter, sent, bytes, is_answer: answer, content }
    }
}
