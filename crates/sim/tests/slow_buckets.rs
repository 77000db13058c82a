//! Full measurements of idle links of 1 Mbit/s and less behind a token bucket of a few packets, as the kernel's `htb rate 1mbit burst 3200`.
//! Within the budget there are too few bursts to see whether others' packets are there all the time.

use kumade_estimate::MethodSettings;
use kumade_link::{LinkConfig, Medium, TokenBucket};
use kumade_probe_train::Transport;
use kumade_sim::PathHop;
use kumade_sim::atlas::{DrawnPath, PathKind, PathResult, Seeds};
use kumade_units::{Rate, Span};

fn slow_bucket(rate: Rate, burst_bytes: u64, number: u32) -> DrawnPath {
    let drawn = DrawnPath::new(PathKind::SmallBucket, Seeds::Tuning.seed(number));
    let bucket = TokenBucket { rate, burst_bytes };
    let link = LinkConfig {
        rate: Some(Rate::from_mbit(1000)),
        medium: Some(Medium::TokenBucket(bucket)),
        queue_bytes: 262_144,
        delay: Span::from_micros(50),
        seed: drawn.seed,
        ..LinkConfig::default()
    };
    let hops = vec![PathHop { link, queue: None, cross: Vec::new() }];
    let (cross_rate, cross_flows, token_bucket) = (Rate::ZERO, 0, Some(bucket));
    DrawnPath { hops, sustained_rate: rate, cross_rate, cross_flows, token_bucket, ..drawn }
}

/// "At most 1.09 Mbit/s, flows have queues of their own" was said of a plain link.
#[test]
fn an_idle_link_of_1_mbit_behind_a_small_bucket_has_a_value() {
    for transport in [Transport::Udp, Transport::Rake] {
        for (mbit, burst_bytes, number) in [(1, 3200, 0), (1, 4600, 0), (1, 4600, 1), (2, 4600, 0)] {
            let path = slow_bucket(Rate::from_mbit(mbit), burst_bytes, number);
            let measured = path.measure(transport, &MethodSettings::default()).unwrap();
            let (report, verdict) = (&measured.report, PathResult::evaluate(&path, &measured));
            let is_told = verdict.estimate_error.is_some_and(|error| error.covers_truth && error.width_ratio < 0.1);
            assert!(is_told, "{mbit} Mbit/s, {burst_bytes} bytes over {transport}: {report}");
        }
    }
}
