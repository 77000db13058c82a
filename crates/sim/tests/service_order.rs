//! Whether flows have queues of their own, over many connections: paths of the atlas that were refused, or measured wrong with confidence,
//! before a train told in which order connections are served. They are of the seeds that tune, and what is wrong prints its seed.

use kumade_estimate::MethodSettings;
use kumade_probe_train::Transport;
use kumade_sim::atlas::{DrawnPath, PathKind, PathResult, Seeds};

fn measured(kind: PathKind, number: u32) -> (PathResult, String) {
    let path = DrawnPath::new(kind, Seeds::Tuning.seed(number));
    let measured = path.measure(Transport::Rake, &MethodSettings::default()).unwrap();
    let words = format!("{kind} {number}, seed {}: {}, truth {:?}", path.seed, measured.report, measured.truth);
    (PathResult::evaluate(&path, &measured), words)
}

/// Packets wait for hosts, for a second link, or on a link that few trains found idle.
#[test]
fn one_queue_in_which_packets_wait_for_other_reasons_gives_a_value() {
    let paths = [
        (PathKind::Proxy, 1),
        (PathKind::Proxy, 5),
        (PathKind::Batching, 12),
        (PathKind::Jitter, 14),
        (PathKind::TightLink, 0),
        (PathKind::LongDelay, 12),
        (PathKind::SlowLink, 44),
    ];
    for (kind, number) in paths {
        let (verdict, words) = measured(kind, number);
        assert!(verdict.estimate_error.is_some_and(|judgement| judgement.covers_truth), "{words}");
    }
}

/// Nothing waited in the short trains, or the bursts showed half the rate, or the packets of flows in turn came in clumps, or so late
/// behind those of other hosts that they were taken for lost.
#[test]
fn what_many_flows_get_of_queues_of_their_own_is_not_taken_for_available() {
    for (kind, number) in [
        (PathKind::FairShare, 81),
        (PathKind::FairShare, 303),
        (PathKind::FairShare, 385),
        (PathKind::FairShare, 567),
        (PathKind::FqCoDel, 301),
        (PathKind::HostFair, 761),
        (PathKind::HostFair, 1323),
        (PathKind::HostFair, 1651),
    ] {
        let (verdict, words) = measured(kind, number);
        assert_eq!(verdict.fault, None, "{words}");
    }
}

/// An idle link's rate is known no better than the link's.
#[test]
fn idle_links_whose_flows_have_queues_of_their_own_are_told_as_exactly_as_their_rate() {
    for (kind, number) in [(PathKind::FqCoDel, 21), (PathKind::FairShare, 82), (PathKind::HostFair, 19)] {
        let (verdict, words) = measured(kind, number);
        assert!(
            verdict.estimate_error.is_some_and(|judgement| judgement.covers_truth && judgement.width_ratio < 0.2),
            "{words}"
        );
    }
}
