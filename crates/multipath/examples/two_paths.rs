//! One flow over two paths as one: packets of a file leave by the path on which each arrives first, and come out in order. The paths
//! are emulated links under a virtual clock: `cargo run -p kumade-multipath --example two_paths`.

use kumade_link::queue::Label;
use kumade_link::{Link, LinkConfig};
use kumade_multipath::{
    ArrivedData, Bond, BondConfig, PathConfig, PathId, PathPolicy, PathReceiver, PathReport, Resequencer,
    ResequencerConfig, TrafficClass, Transmission,
};
use kumade_units::{ConfigError, Rate, Span, Time};
use std::error::Error;

/// IP bytes of each packet, and what encryption and outer headers add.
const PACKET_BYTES: u32 = 1432;
const OVERHEAD_BYTES: u32 = 68;
const REPORT_BYTES: u32 = 120;
/// So many packets always wait, as of a sender that has enough to send.
const BACKLOG: usize = 40;
const DURATION: Span = Span::from_secs(10);

/// A path there and back, and what the far end counts on it.
struct Path {
    id: PathId,
    there: Link<Transmission<u64>>,
    back: Link<PathReport>,
    receiver: PathReceiver,
    arrived_packets: u64,
}

impl Path {
    fn new(id: PathId, rate: Rate, delay: Span) -> Result<Self, ConfigError> {
        let config = LinkConfig { rate: Some(rate), delay, queue_bytes: 300_000, ..LinkConfig::default() };
        Ok(Path {
            id,
            there: Link::new(config.clone().validate()?),
            back: Link::new(config.validate()?),
            receiver: PathReceiver::new(),
            arrived_packets: 0,
        })
    }

    fn next_event(&self) -> Option<Time> {
        [self.there.next_event(), self.back.next_event(), self.receiver.deadline()].into_iter().flatten().min()
    }
}

/// Both ends: what the near one sends, and what the far one has delivered.
struct Ends {
    bond: Bond<u64>,
    paths: Vec<Path>,
    resequencer: Resequencer<u64>,
    offered: u64,
    delivered: Vec<u64>,
}

impl Ends {
    fn new(rates_and_delays: &[(Rate, Span)]) -> Result<Self, Box<dyn Error>> {
        let mut paths = Vec::new();
        for (number, (rate, delay)) in (0..).zip(rates_and_delays) {
            paths.push(Path::new(PathId::new(number).ok_or("too many paths")?, *rate, *delay)?);
        }
        let known = |(rate, _): &(Rate, Span)| PathConfig {
            rate: Some(*rate),
            overhead_bytes: OVERHEAD_BYTES,
            ..PathConfig::default()
        };
        let config = BondConfig {
            policy: PathPolicy::EarliestArrival,
            queue: BondConfig::managed_queue(),
            paths: rates_and_delays.iter().map(known).collect(),
            seed: 1,
        };
        let (bond, resequencer) = (Bond::new(&config, Time::ZERO)?, Resequencer::new(ResequencerConfig::default()));
        Ok(Ends { bond, paths, resequencer, offered: 0, delivered: Vec::new() })
    }

    /// What waits leaves by the path that the bond names.
    fn send(&mut self, now: Time) {
        while self.bond.queued_packets() < BACKLOG {
            let label = Label { size: PACKET_BYTES, flow: 1, host: 1, ..Label::default() };
            self.bond.enqueue(self.offered, label, TrafficClass::Ordered, now);
            self.offered += 1;
        }
        while let Some(sent) = self.bond.next_transmission(now) {
            let size = sent.packet.as_ref().map_or(0, |_| PACKET_BYTES) + OVERHEAD_BYTES;
            // What the path's queue has no room for is lost, as on any path.
            let _ = self.paths[sent.path.index()].there.offer(sent, size, now);
        }
    }

    /// What arrives is counted for the reports, and put in order.
    fn receive(&mut self, now: Time) {
        for path in &mut self.paths {
            path.there.advance(now);
            while let Some(delivery) = path.there.pop_due(now) {
                let Transmission { counter, requests_report, packet, .. } = delivery.packet;
                path.receiver.receive(counter, OVERHEAD_BYTES + PACKET_BYTES, requests_report, now);
                let Some(packet) = packet else {
                    self.resequencer.datagram_passed(path.id, counter, now, &mut self.delivered);
                    continue;
                };
                path.arrived_packets += 1;
                let predecessors = packet.predecessors(path.id);
                let arrival =
                    ArrivedData { path: path.id, counter, header: packet.header, predecessors, bytes: PACKET_BYTES };
                self.resequencer.receive(arrival, packet.content, now, &mut self.delivered);
            }
            if let Some(report) = path.receiver.poll(now) {
                let _ = path.back.offer(report, REPORT_BYTES, now);
            }
            path.back.advance(now);
            while let Some(delivery) = path.back.pop_due(now) {
                self.bond.receive_report(path.id, &delivery.packet, now);
            }
        }
        self.resequencer.expire(now, &mut self.delivered);
    }

    fn next_event(&self) -> Option<Time> {
        let links = self.paths.iter().filter_map(Path::next_event);
        links.chain(self.bond.deadline()).chain(self.resequencer.deadline()).min()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut ends =
        Ends::new(&[(Rate::from_mbit(20), Span::from_millis(10)), (Rate::from_mbit(10), Span::from_millis(30))])?;
    let mut now = Time::ZERO;
    while now < Time::ZERO + DURATION {
        ends.send(now);
        now = ends.next_event().unwrap_or(Time::MAX).max(now + Span::from_nanos(1));
        ends.receive(now);
    }
    for path in &ends.paths {
        println!("{}: {}", path.id, mean_rate(path.arrived_packets));
    }
    let order = if ends.delivered.is_sorted() { "in order" } else { "not in order" };
    println!("delivered {order}: {}", mean_rate(ends.delivered.len() as u64));
    Ok(())
}

fn mean_rate(packets: u64) -> Rate {
    Rate::from_bytes_over(packets * u64::from(PACKET_BYTES), DURATION)
}
