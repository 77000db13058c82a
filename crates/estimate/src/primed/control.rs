//! Which train to send next.

use super::reading::Reading;
use super::{Knowledge, Primed};
use crate::stats::{median, quantile};
use crate::{Segment, Train, TrainRecord};
use units::{Rate, Span};

/// What kind of train is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A few small packets back to back: the order of magnitude.
    Scout,
    /// A prime of so many packets, then the body.
    Primed { prime: u32 },
}

/// The next train.
pub(super) fn plan(method: &mut Primed) -> (Shape, Train) {
    let Some(scouted) = method.scouted else {
        let first_size = 300.min(method.config.max_packet);
        let scout = Segment { count: 5, interval: Span::ZERO, first_size, size_step: 0 };
        return (Shape::Scout, Train { segments: vec![scout] });
    };
    let capacity = method.knowledge.capacity.unwrap_or(scouted);
    // The rate varies a little from train to train, so that none keeps step with periodic traffic.
    let rate = aim(&method.knowledge, scouted) * (1.01 + 0.06 * method.random());
    primed_train(rate, capacity, method.config.max_packet)
}

/// The rate that keeps the queue from running empty in nearly all trains without filling it: what most of the latest
/// readings had to give, and a margin as long as there are few.
pub(super) fn aim(knowledge: &Knowledge, scouted: f64) -> f64 {
    let Some(capacity) = knowledge.capacity else { return scouted };
    let latest: Vec<Reading> = knowledge.readings.iter().rev().take(10).copied().collect();
    let rates: Vec<f64> =
        latest.iter().map(|r| if r.emptied { r.rate.max(r.available) * 1.6 } else { r.available }).collect();
    let Some(high) = quantile(&rates, 0.8) else { return scouted };
    let margin = capacity * 0.08 / (rates.len() * rates.len()) as f64;
    (high.max(0.0) + margin).min(capacity)
}

fn primed_train(rate: f64, capacity: f64, max_packet: u32) -> (Shape, Train) {
    // Packets so large that headers and stamps weigh little, but at least one every 6 ms.
    let size = (rate * 0.006 / 8.0).clamp(300.0, f64::from(max_packet).max(300.0)).min(f64::from(max_packet)) as u32;
    let packet_bits = f64::from(size) * 8.0;
    let body = (rate * 0.008 / packet_bits).clamp(40.0, 120.0) as u32;
    // Up to 16 packets, but not more than 20 ms of queue.
    let prime = (capacity * 0.020 / packet_bits).clamp(4.0, 16.0) as u32;
    let interval = Span::from_secs_f64(packet_bits / rate);
    let segment = |count, interval| Segment { count, interval, first_size: size, size_step: 0 };
    let train = Train { segments: vec![segment(prime - 1, Span::ZERO), segment(body + 1, interval)] };
    (Shape::Primed { prime }, train)
}

/// How long the queue takes to drain after the last train, and a random while more.
pub(super) fn wait(method: &mut Primed) -> Span {
    let Some(last) = method.knowledge.readings.last().copied() else { return Span::from_millis(10) };
    let capacity = method.knowledge.capacity.unwrap_or(last.available);
    let drain = last.backlog / last.available.max(capacity * 0.02);
    let random = method.random();
    Span::from_secs_f64((drain * 1.1 + 0.5 * random * last.duration.min(0.02)).min(2.0))
}

/// The rate at which the scout came out: at most the capacity, at least the available bandwidth, roughly.
pub(super) fn scouted_rate(record: &TrainRecord) -> Option<f64> {
    let received: Vec<_> = record.packets.iter().filter_map(|p| Some((p.received?, p.size))).collect();
    let rates: Vec<f64> = received
        .windows(2)
        .map(|w| Rate::from_bytes_over(u64::from(w[1].1), (w[1].0 - w[0].0).max(Span::from_nanos(100))).as_f64())
        .collect();
    median(&rates)
}
