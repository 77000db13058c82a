//! Two gateways with two paths between them that divide packets in a fixed ratio, with the ways to restore their order
//! that are compared.

mod simple;

use kumade_multipath::message::DataHeader;
use kumade_multipath::{ArrivedData, DelayRange, PathId, Predecessor, Resequencer, ResequencerConfig, Sequencer};
use kumade_sim::network::{Datagram, Gateways};
use kumade_units::{Span, Time};
use simple::Simple;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// How the second gateway restores the order of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Not at all.
    None,
    /// What is missing is waited for until a timer expires.
    Timer,
    /// What is missing is waited for until each path has delivered a later packet of the bucket.
    Minimum,
    /// That of [`Resequencer`].
    Exact,
}

/// IPv4 and UDP headers, those of a sealed datagram (16 octets and a tag of 16), and those of a data message.
const OVERHEAD: u32 = 20 + 8 + 32 + 12;
/// Of each predecessor.
const PREDECESSOR: u32 = 4;

impl Rule {
    /// Bytes in addition to each packet, with two paths.
    pub fn overhead(self) -> u32 {
        if self == Rule::None { 0 } else { OVERHEAD + PREDECESSOR }
    }
}

/// What became of packets.
#[derive(Debug, Default)]
pub struct Record {
    pub flows: BTreeMap<u64, FlowRecord>,
}

/// What became of the packets of a flow.
#[derive(Debug, Default)]
pub struct FlowRecord {
    /// Packets delivered after one that was sent later.
    pub out_of_order: u64,
    /// How long each packet waited at the second gateway.
    pub waits: Vec<Span>,
    highest: u32,
}

#[derive(Debug)]
pub struct Bonded {
    rule: Rule,
    weights: [i64; 2],
    credit: [i64; 2],
    sequencer: Sequencer,
    counters: [u64; 2],
    /// What is on each path.
    flight: [VecDeque<InFlight>; 2],
    /// The least so far, and the longest of late, sinking slowly.
    delays: [Option<DelayRange>; 2],
    exact: Resequencer<Delivered>,
    simple: Simple<Delivered>,
    record: Rc<RefCell<Record>>,
}

#[derive(Debug)]
struct InFlight {
    sent: Time,
    arrival: ArrivedData<Vec<Predecessor>>,
}

#[derive(Debug, Clone, Copy)]
struct Delivered {
    datagram: Datagram,
    number: u32,
    arrived: Time,
}

fn path(index: usize) -> PathId {
    PathId::all().nth(index).expect("a path")
}

impl Bonded {
    pub fn new(rule: Rule, weights: [i64; 2], record: Rc<RefCell<Record>>) -> Self {
        let config = ResequencerConfig { max_packets: 1 << 16, max_bytes: 1 << 27, ..ResequencerConfig::default() };
        Bonded {
            rule,
            weights,
            credit: [0; 2],
            sequencer: Sequencer::new(),
            counters: [0; 2],
            flight: Default::default(),
            delays: [None; 2],
            exact: Resequencer::new(config),
            simple: Simple::new(rule == Rule::Minimum, config.wait_margin, config.max_wait),
            record,
        }
    }

    /// Smooth weighted round robin: in each round each path as often as its weight says, spread evenly.
    fn choose(&mut self) -> usize {
        for (credit, weight) in self.credit.iter_mut().zip(self.weights) {
            *credit += weight;
        }
        let chosen = usize::from(self.credit[1] > self.credit[0]);
        self.credit[chosen] -= self.weights.iter().sum::<i64>();
        chosen
    }

    fn note_delay(&mut self, index: usize, delay: Span) {
        let before = self.delays[index].unwrap_or(DelayRange { min: delay, max: delay });
        let most = delay.max(before.max - (before.max - delay) / 256);
        let range = DelayRange { min: delay.min(before.min), max: most };
        self.delays[index] = Some(range);
        self.exact.set_delay(path(index), Some(range));
        self.simple.set_delay(index, range);
    }

    fn deliver(&mut self, delivered: &[Delivered], now: Time, out: &mut Vec<Datagram>) {
        let mut record = self.record.borrow_mut();
        for Delivered { datagram, number, arrived } in delivered {
            let flow = record.flows.entry(datagram.flow()).or_default();
            flow.out_of_order += u64::from(*number < flow.highest);
            flow.highest = *number.max(&flow.highest);
            flow.waits.push(now - *arrived);
            out.push(*datagram);
        }
    }
}

impl Gateways for Bonded {
    fn send(&mut self, mut datagram: Datagram, now: Time, out: &mut Vec<(usize, Datagram)>) {
        let index = self.choose();
        let counter = self.counters[index];
        self.counters[index] += 1;
        let bucket = (datagram.flow() % 1024) as u16;
        let assignment = self.sequencer.assign(bucket, [(path(index), counter)]);
        let header = DataHeader { bucket, number: assignment.number, ..DataHeader::default() };
        let predecessors: Vec<_> = assignment.predecessors(path(index)).collect();
        datagram.tag = counter;
        if self.rule != Rule::None {
            datagram.overhead_bytes = OVERHEAD + PREDECESSOR * predecessors.len() as u32;
        }
        let bytes = datagram.bytes();
        let arrival = ArrivedData { path: path(index), counter, header, predecessors, bytes };
        self.flight[index].push_back(InFlight { sent: now, arrival });
        out.push((index, datagram));
    }

    fn receive(&mut self, index: usize, datagram: Datagram, now: Time, out: &mut Vec<Datagram>) {
        let flight = &mut self.flight[index];
        while flight.front().is_some_and(|lost| lost.arrival.counter < datagram.tag) {
            flight.pop_front();
        }
        let InFlight { sent, arrival } = flight.pop_front().expect("what arrives was sent");
        self.note_delay(index, now - sent);
        let number = arrival.header.number;
        let arrived = Delivered { datagram, number, arrived: now };
        let mut delivered = Vec::new();
        match self.rule {
            Rule::None => delivered.push(arrived),
            Rule::Exact => self.exact.receive(arrival, arrived, now, &mut delivered),
            _ => self.simple.receive(index, arrival.header.bucket, number, arrived, now, &mut delivered),
        }
        self.deliver(&delivered, now, out);
    }

    fn next_time(&self) -> Option<Time> {
        if self.rule == Rule::Exact { self.exact.deadline() } else { self.simple.deadline() }
    }

    fn on_time(&mut self, now: Time, out: &mut Vec<Datagram>) {
        let mut delivered = Vec::new();
        match self.rule {
            Rule::Exact => self.exact.expire(now, &mut delivered),
            _ => self.simple.expire(now, &mut delivered),
        }
        self.deliver(&delivered, now, out);
    }
}
