//! The recorder stands in the way of every packet: it may not allocate.

use kumade_emulator::statistics::{Delays, DirectionStatistics, DropCause, Recorder};
use kumade_units::Span;

/// Packets of some heavy flows, and of many that are seen once.
fn record(recorder: &mut Recorder, packets: u64) {
    for packet in 0..packets {
        let flow = if packet % 3 == 0 { packet % 60 } else { packet.wrapping_mul(0x9e37_79b9) };
        let nanos = |most: u64| Span::from_nanos((packet.wrapping_mul(7919) % most) as i64);
        recorder.record_offered(flow, 1500);
        match packet % 50 {
            0 => recorder.record_dropped(flow, 1500, DropCause::QueueFull),
            1 => recorder.record_marked(flow, 1500),
            _ => {
                let sojourn = nanos(1_000_000_000);
                recorder.record_delivered(
                    flow,
                    1500,
                    Delays { queueing: sojourn, sojourn, lateness: nanos(1_000_000) },
                );
            }
        }
    }
}

#[test]
fn recording_allocates_nothing() {
    let mut recorder = Recorder::new();
    let mut copy = DirectionStatistics::default();
    let counted = allocation_counter::measure(|| {
        record(&mut recorder, 100_000);
        recorder.record_missed(7);
        recorder.copy_to(&mut copy);
    });
    assert_eq!(counted.count_total, 0);
    assert_eq!((copy.counts.offered.packets, copy.counts.dropped_for(DropCause::Overload).packets), (100_007, 7));
    assert_eq!(copy.sojourn.count(), recorder.snapshot().counts.delivered.packets);
}
