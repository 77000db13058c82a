//! Once its buffers have grown to the load, a resequencer allocates nothing per packet, and keeps no more memory.

use kumade_multipath::message::DataHeader;
use kumade_multipath::{ArrivedData, PathId, Resequencer, ResequencerConfig, Sequencer};
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// Two paths by turns, the second 400 packets late; one packet in a hundred is lost.
struct Traffic {
    sequencer: Sequencer,
    resequencer: Resequencer<u64>,
    late: VecDeque<(DataHeader, PathId, u64, Option<kumade_multipath::Predecessor>)>,
    sent: u64,
    out: Vec<u64>,
    delivered: u64,
}

impl Traffic {
    fn step(&mut self) {
        let (path, counter) = (PathId::new((self.sent % 2) as u8).unwrap(), self.sent / 2);
        let bucket = (self.sent / 2 % 7) as u16;
        let assignment = self.sequencer.assign(bucket, [(path, counter)]);
        let header = DataHeader { bucket, number: assignment.number, ..DataHeader::default() };
        let datagram = (header, path, counter, assignment.predecessors(path).next());
        self.sent += 1;
        match path.number() {
            0 => self.arrive(datagram),
            _ => self.late.push_back(datagram),
        }
        if self.late.len() > 400
            && let Some(datagram) = self.late.pop_front()
        {
            self.arrive(datagram);
        }
    }

    fn arrive(
        &mut self,
        (header, path, counter, predecessors): (DataHeader, PathId, u64, Option<kumade_multipath::Predecessor>),
    ) {
        if counter % 100 == 99 {
            return;
        }
        let now = Time::ZERO + Span::from_micros(self.sent as i64);
        self.resequencer.expire(now, &mut self.out);
        let arrival = ArrivedData { path, counter, header, predecessors, bytes: 1500 };
        self.resequencer.receive(arrival, counter, now, &mut self.out);
        self.delivered += self.out.drain(..).count() as u64;
    }
}

#[test]
fn nothing_is_allocated_per_packet() {
    let mut traffic = Traffic {
        sequencer: Sequencer::new(),
        resequencer: Resequencer::new(ResequencerConfig::default()),
        late: VecDeque::new(),
        sent: 0,
        out: Vec::new(),
        delivered: 0,
    };
    (0..10_000).for_each(|_| traffic.step());
    let before = traffic.delivered;
    let counted = allocation_counter::measure(|| (0..100_000).for_each(|_| traffic.step()));
    assert!(traffic.delivered - before > 98_000, "{}", traffic.delivered - before);
    assert_eq!((counted.count_total, counted.bytes_current), (0, 0));
    let statistics = traffic.resequencer.statistics();
    assert_eq!((statistics.late, statistics.duplicates, statistics.expired, statistics.evicted), (0, 0, 0, 0));
}
