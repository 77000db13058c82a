//! The packets of one train of which it is known what became of them.

use kumade_probe_train::{PacketRecord, TrainRecord};
use kumade_units::Span;

/// Packets that arrive together are stamped in any order within this time.
const MAX_BATCH_GAP: Span = Span::from_micros(50);

/// One packet: when it left, and when it arrived, in seconds from the first one's of the train.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketTiming {
    /// Its place in the train.
    pub(crate) index: usize,
    pub(crate) sent: f64,
    /// None where it was lost, or reordered.
    pub(crate) in_order_arrival: Option<f64>,
    /// None only where it was lost.
    pub(crate) arrival: Option<f64>,
    pub(crate) bits: f64,
}

/// All packets that were sent and whose stamps are known.
pub(crate) fn packet_timings(record: &TrainRecord) -> Vec<PacketTiming> {
    let packets = &record.packets;
    let Some((sent, received)) = packets.iter().find_map(|packet| Some((packet.sent?, packet.received?))) else {
        return Vec::new();
    };
    let reordered = record.reordered_packets(MAX_BATCH_GAP);
    let passage = |(index, packet): (usize, &PacketRecord)| {
        let came = packet.received.map(|at| (at - received).as_secs_f64());
        Some(PacketTiming {
            index,
            sent: (packet.sent? - sent).as_secs_f64(),
            in_order_arrival: came.filter(|_| !reordered[index]),
            arrival: came,
            bits: f64::from(packet.size) * 8.0,
        })
    };
    packets.iter().enumerate().filter_map(passage).collect()
}
