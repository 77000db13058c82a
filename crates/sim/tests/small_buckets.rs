//! Paths of the atlas behind a token bucket of a few packets, as the kernel's HTB has by default: of the seeds that tune, and what is
//! wrong prints its seed. The first packets of every train passed at once, which was taken for a faster link that flows share in turn.

use kumade_estimate::MethodSettings;
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Transport;
use kumade_sim::atlas::{DrawnPath, PathKind, PathResult, Seeds};

/// The verdict, and for where it is wrong what was found, in words.
fn measured(number: u32, transport: Transport) -> (DrawnPath, DirectionReport, PathResult, String) {
    let path = DrawnPath::new(PathKind::SmallBucket, Seeds::Tuning.seed(number));
    let measured = path.measure(transport, &MethodSettings::default()).unwrap();
    let words =
        format!("{number} over {transport}, seed {}: {}, truth {:?}", path.seed, measured.report, measured.truth);
    let verdict = PathResult::evaluate(&path, &measured);
    (path, measured.report, verdict, words)
}

#[test]
fn an_idle_one_is_measured_like_any_idle_link_and_its_capacity_as_well() {
    let (mut runs, mut told) = (0, 0);
    // A line that is hardly faster may as well be one that two or three flows share.
    let is_idle = |number: &u32| {
        let path = DrawnPath::new(PathKind::SmallBucket, Seeds::Tuning.seed(*number));
        let line = path.hops[0].link.rate.unwrap().as_f64();
        path.cross_flows == 0 && line > 5.0 * path.sustained_rate.as_f64()
    };
    for number in (0..60).filter(is_idle) {
        for transport in [Transport::Udp, Transport::Rake] {
            let (path, report, verdict, words) = measured(number, transport);
            assert!(
                verdict.estimate_error.is_some_and(|judgement| judgement.covers_truth && judgement.width_ratio < 0.1),
                "{words}"
            );
            runs += 1;
            let capacity = report.capacity.and_then(|capacity| capacity.bottleneck_bits_per_second);
            // On slow links, the time does not suffice for all bursts.
            let Some(rate) = capacity.map(|capacity| capacity.value.as_f64()) else { continue };
            assert!((rate / path.sustained_rate.as_f64() - 1.0).abs() < 0.02, "capacity {rate}: {words}");
            told += 1;
        }
    }
    assert!(told * 10 >= runs * 9, "{told} of {runs} capacities");
}

#[test]
fn one_that_others_use_is_not_taken_for_a_faster_link() {
    for number in [24, 72] {
        let (_, _, verdict, words) = measured(number, Transport::Udp);
        assert_eq!(verdict.fault, None, "{words}");
    }
}
