//! What virtual paths do to packets with ECN codepoints and DSCPs, as a full measurement finds it, also beside losses.

use kumade_link::{LinkConfig, Loss};
use kumade_measurement::report::{DscpPattern, EcnGrade, PathReport, Treatment};
use kumade_measurement::{Measurement, MeasurementPlan};
use kumade_sim::{PathHop, Stamping, VirtualPath, VirtualPaths};
use kumade_units::{Rate, Span};

const DELAY: Span = Span::from_millis(15);

type MarkTreatment = fn(u8) -> Option<u8>;

fn measured(loss: f64, treatments: [MarkTreatment; 2], passes_udp: bool) -> PathReport {
    let link = LinkConfig {
        rate: Some(Rate::from_mbit(20)),
        delay: DELAY,
        queue_bytes: 100_000,
        loss: if loss > 0.0 { Loss::Independent(loss) } else { Loss::None },
        ..LinkConfig::default()
    };
    let hop = PathHop { link, queue: None, cross: Vec::new() };
    let path = |treat| {
        VirtualPath::new(std::slice::from_ref(&hop), Stamping::default(), 5).unwrap().with_mark_treatment(treat)
    };
    let mut paths = VirtualPaths { up: path(treatments[0]), down: path(treatments[1]), passes_udp };
    let plan = MeasurementPlan { path: true, trace: true, capacity: false, ..MeasurementPlan::default() };
    paths.measure(Measurement::new(plan, paths.session()), &mut |_| ()).unwrap().report.path.unwrap()
}

#[test]
fn a_path_that_passes_all_is_ready_for_l4s() {
    let report = measured(0.0, [Some, Some], true);
    assert_eq!(report.ecn_readiness.unwrap().grade, EcnGrade::L4s);
    assert_eq!([report.up.dscp_pattern, report.down.dscp_pattern], [Some(DscpPattern::AllKept); 2]);
}

#[test]
fn what_is_done_in_one_direction_is_told_beside_losses() {
    for loss in [0.05, 0.2] {
        let report =
            measured(loss, [|octet| Some(octet & 3), |octet| Some(octet).filter(|octet| octet & 3 != 1)], true);
        assert_eq!(report.ecn_readiness.unwrap().grade, EcnGrade::Classic);
        assert_eq!(report.up.dscp_pattern, Some(DscpPattern::AllBleached));
        let down = report.down.ecn.unwrap();
        let treatments: Vec<_> = down.iter().map(|mark| mark.treatment).collect();
        assert_eq!(treatments, [Treatment::Kept, Treatment::Kept, Treatment::Dropped, Treatment::Kept], "{loss}");
    }
}

#[test]
fn over_tcp_no_marks_are_seen() {
    let report = measured(0.0, [Some, Some], false);
    assert_eq!(report.ecn_readiness.unwrap().grade, EcnGrade::Unknown);
    assert!(report.not_known[0].contains("by UDP alone"), "{:?}", report.not_known);
}
