//! Connections that carry records both ways, over wires that lose and reorder.

use kumade_sim::network::TcpConfig;
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_sim::tcp::{LossDetection, Receiver, RecoveryConfig, Sender, SenderConfig, TcpConnection, TcpSegment};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn end(detection: LossDetection) -> TcpConnection<u32> {
    let recovery = RecoveryConfig { detection, ..RecoveryConfig::default() };
    let packet_bytes = TcpConfig::new(CongestionControl::Cubic).packet_bytes();
    let config = SenderConfig { packet_bytes, segments: 0, receive_window: 1 << 16, recovery };
    let sender = Sender::new(config, CongestionControl::Cubic.build(packet_bytes));
    TcpConnection::new(sender, Receiver::new(2).with_recovery(&recovery), 1448)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Every record of both ends arrives once and in order, whatever is lost of the first segments.
    #[test]
    fn every_record_arrives_once_and_in_order(
        records in prop::collection::vec((0..2_usize, 1..9000_u32, 0..30_i64), 1..60),
        losses in prop::collection::vec(any::<u8>(), 400),
        has_sack in any::<bool>(),
    ) {
        let detection = if has_sack { LossDetection::RackTlp } else { LossDetection::NewReno };
        let mut ends = [end(detection), end(detection)];
        let mut moving: BTreeMap<(Time, u64), (usize, TcpSegment<u32>)> = BTreeMap::new();
        let (mut now, mut sent, mut arrived) = (Time::ZERO, 0, [Vec::new(), Vec::new()]);
        let mut writes: Vec<_> = records.iter().copied().rev().collect();
        let mut write_at = now;
        for _ in 0..100_000 {
            while write_at <= now && let Some((from, bytes, pause)) = writes.pop() {
                ends[from].write(writes.len() as u32, bytes);
                write_at = now + Span::from_millis(pause);
            }
            for (from, end) in ends.iter_mut().enumerate() {
                while let Some(segment) = end.poll_send(now) {
                    sent += 1;
                    let fate = losses.get(sent as usize).copied().unwrap_or(255);
                    // One in ten is lost, and some are late.
                    let delay = Span::from_millis(10) + Span::from_micros(i64::from(fate % 16) * 300);
                    if fate >= 25 {
                        moving.insert((now + delay, sent), (1 - from, segment));
                    }
                }
            }
            let timers = ends.iter().filter_map(TcpConnection::next_time);
            let write = (!writes.is_empty()).then_some(write_at);
            let Some(next) = timers.chain(write).chain(moving.keys().map(|(time, _)| *time)).min() else { break };
            now = next.max(now);
            while let Some(entry) = moving.first_entry().filter(|entry| entry.key().0 <= now) {
                let (to, segment) = entry.remove();
                ends[to].receive(segment, now, &mut arrived[to]);
            }
            ends.iter_mut().for_each(|end| end.on_time(now));
        }
        for (to, arrived) in arrived.iter().enumerate() {
            let written = (0..records.len()).filter(|place| records[*place].0 == 1 - to);
            let expected: Vec<_> = written.map(|place| (records.len() - 1 - place) as u32).collect();
            prop_assert_eq!(arrived, &expected);
        }
        let bytes = |from| records.iter().filter(|record| record.0 == from).map(|record| u64::from(record.1)).sum::<u64>();
        for (from, end) in ends.iter().enumerate() {
            let state = end.sender_state();
            prop_assert_eq!((state.acknowledged_bytes, state.unsent_bytes), (bytes(from), 0));
        }
    }
}
