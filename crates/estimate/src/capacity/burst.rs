//! The record of one burst.

use super::shape::{BurstShape, MIN_BITS_PER_SECOND, WAKE_UP_PACKETS};
use crate::stats::median;
use kumade_probe_train::{PacketRecord, TrainRecord};
use kumade_units::{Span, Time};

/// The first packet that has both stamps: what all times are counted from, so that seconds are exact enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct StampEpoch {
    sent: Time,
    delay: Span,
}

/// A burst of which all packets arrived in order. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BurstSample {
    pub(super) shape: BurstShape,
    /// When the first packet left, after the epoch.
    pub(super) sent: f64,
    /// From the first sending to the first arrival, up to a constant.
    pub(super) first_packet_delay: f64,
    /// From the first sending to the arrival from which dispersion counts, up to the same constant.
    pub(super) dispersion_start: f64,
    /// From the first sending to the last arrival, up to the same constant.
    pub(super) last_packet_delay: f64,
    /// From the sending of the packet from which dispersion counts to the last.
    pub(super) input_dispersion: f64,
    /// Bits of all packets behind that one.
    pub(super) bits: f64,
    /// Their number.
    pub(super) gap_count: u32,
    /// The shortest time between two arrivals that count.
    pub(super) shortest_gap: f64,
    /// By how much these times differ.
    pub(super) unevenness: f64,
}

impl StampEpoch {
    pub(super) fn from_record(record: &TrainRecord) -> Option<Self> {
        record.packets.iter().find_map(|p| Some(StampEpoch { sent: p.sent?, delay: p.received? - p.sent? }))
    }

    pub(super) fn delay(&self) -> Span {
        self.delay
    }
}

impl BurstSample {
    /// None where a packet is missing or out of order. Dispersion counts from the packet at the place `first_paced` at the earliest.
    pub(super) fn from_packets(
        shape: BurstShape,
        packets: &[PacketRecord],
        epoch: StampEpoch,
        first_paced: usize,
    ) -> Option<Self> {
        let stamps: Option<Vec<(Time, Time)>> = packets.iter().map(|p| Some((p.sent?, p.received?))).collect();
        let stamps = stamps.filter(|stamps| stamps.len() == shape.packets as usize)?;
        let from = usize::from(shape.packets >= WAKE_UP_PACKETS).max(first_paced);
        let (Some(&(sent, head)), Some(&(sent_first, received))) = (stamps.first(), stamps.get(from)) else {
            return None;
        };
        let &(sent_last, received_last) = stamps.last().filter(|_| from + 1 < stamps.len())?;
        let in_order = stamps.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let gaps: Vec<f64> = stamps.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_secs_f64()).collect();
        let counted = || gaps[from..].iter().copied();
        let (shortest_gap, longest_gap) = (counted().fold(f64::INFINITY, f64::min), counted().fold(0.0, f64::max));
        in_order.then(|| BurstSample {
            shape,
            sent: (sent - epoch.sent).as_secs_f64(),
            first_packet_delay: ((head - sent) - epoch.delay).as_secs_f64(),
            dispersion_start: ((received - sent) - epoch.delay).as_secs_f64(),
            last_packet_delay: ((received_last - sent) - epoch.delay).as_secs_f64(),
            input_dispersion: (sent_last - sent_first).as_secs_f64(),
            bits: packets[from + 1..].iter().map(|p| f64::from(p.size) * 8.0).sum(),
            gap_count: (stamps.len() - from - 1) as u32,
            shortest_gap,
            unevenness: longest_gap - shortest_gap,
        })
    }

    /// From the arrival from which it counts to the last.
    pub(super) fn dispersion(&self) -> f64 {
        self.last_packet_delay - self.dispersion_start
    }
}

/// The time between packets sent back to back, in seconds.
pub(super) fn sending_seconds_per_bit(packets: &[PacketRecord]) -> f64 {
    let sent: Vec<Time> = packets.iter().filter_map(|packet| packet.sent).collect();
    let gaps: Vec<f64> = sent.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    median(&gaps).unwrap_or(0.0).max(0.0)
}

/// The rate at which packets arrived, in bit/s: at most the capacity, or the peak rate of a shaper. Packets that arrived
/// all at once show only that the path is fast.
pub(super) fn scouted_rate(packets: &[PacketRecord]) -> Option<f64> {
    const FAST_BITS_PER_SECOND: f64 = 1e9;
    let arrived: Vec<(Time, u32)> = packets.iter().filter_map(|p| Some((p.received?, p.size))).collect();
    let [(first, _), rest @ ..] = &arrived[..] else { return None };
    let last = rest.iter().map(|(at, _)| *at).max()?;
    let bits: f64 = rest.iter().map(|(_, size)| f64::from(*size) * 8.0).sum();
    let took = (last - *first).as_secs_f64();
    Some(if took > 0.0 { (bits / took).clamp(MIN_BITS_PER_SECOND, FAST_BITS_PER_SECOND) } else { FAST_BITS_PER_SECOND })
}
