//! What must hold for any bytes that a peer may seal: for the fuzzer, and for the test that replays its finds.

use kumade_multipath::message::Message;
use kumade_multipath::{ArrivedData, PathId, Resequencer, ResequencerConfig};
use kumade_units::{Span, Time};
use std::collections::BTreeSet;

/// Datagrams that arrive one after the other, each behind its path, the step of its counter, the time since the one
/// before, and its length.
pub fn datagrams(mut data: &[u8]) {
    let config = ResequencerConfig { max_packets: 16, max_bytes: 1000, ..ResequencerConfig::default() };
    let mut receiver = Receiver { resequencer: Resequencer::new(config), delivered: BTreeSet::new() };
    let mut counters = [0u64; PathId::MAX_PATHS];
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    for id in 0u32.. {
        let Some(([path, step, gap, length], rest)) = data.split_first_chunk() else { break };
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        now += Span::from_micros(i64::from(*gap) * 100);
        receiver.resequencer.expire(now, &mut out);
        if let Some(path) = PathId::new(*path) {
            let counter = &mut counters[path.index()];
            // A replay window lets no counter pass twice, but lower ones.
            *counter = counter.saturating_add_signed((*step as i8).into()).max(1);
            receiver.datagram(path, *counter, id, bytes, now, &mut out);
        } else {
            let path = PathId::all().nth(usize::from(*path) % PathId::MAX_PATHS);
            path.into_iter().for_each(|path| receiver.resequencer.path_down(path, now, &mut out));
        }
        receiver.check(&mut out, config);
    }
    while let Some(deadline) = receiver.resequencer.deadline() {
        receiver.resequencer.expire(deadline, &mut out);
    }
    receiver.check(&mut out, config);
    assert_eq!(receiver.resequencer.waiting_totals(), (0, 0));
}

struct Receiver {
    resequencer: Resequencer<u32>,
    delivered: BTreeSet<u32>,
}

impl Receiver {
    fn datagram(&mut self, path: PathId, counter: u64, id: u32, bytes: &[u8], now: Time, out: &mut Vec<u32>) {
        let Ok(message) = Message::parse(bytes) else { return };
        let mut again = Vec::new();
        message.write(&mut again);
        assert_eq!(again, bytes, "one message, one spelling");
        if let Message::Data(data) = message {
            let bytes = data.packet.len() as u32;
            let arrival = ArrivedData { path, counter, header: data.header, predecessors: data.predecessors, bytes };
            self.resequencer.receive(arrival, id, now, out);
        } else {
            self.resequencer.datagram_passed(path, counter, now, out);
        }
    }

    fn check(&mut self, out: &mut Vec<u32>, config: ResequencerConfig) {
        for id in out.drain(..) {
            assert!(self.delivered.insert(id), "nothing is delivered twice: {id}");
        }
        let (packets, bytes) = self.resequencer.waiting_totals();
        assert!(packets <= config.max_packets && bytes <= config.max_bytes, "{packets} packets, {bytes} bytes");
    }
}
