//! What measurements say of paths that treat packets, on the lab's network and before the kernel's own routers. A busy machine may leave
//! them not sure; nothing that they say is wrong.

use kumade_lab::accuracy::BottleneckKind;
use kumade_lab::path_treatment::{PathTreatmentExperiment, Verdict};
use kumade_lab::{Outcome, Overrides, RunError, Study, load};
use kumade_netns_testbed::in_namespaces;

/// The built-in experiment with these cases alone.
fn experiment(bottleneck: BottleneckKind, labels: &[&str]) -> PathTreatmentExperiment {
    let overrides = Overrides { bottleneck: Some(bottleneck), runs: Some(1), ..Overrides::default() };
    let mut experiment =
        load("path-treatment", &overrides).unwrap().into_scenario::<PathTreatmentExperiment>().unwrap();
    experiment.cases.retain(|case| labels.contains(&&*case.label));
    assert!(experiment.cases.len() >= labels.len(), "{:?}", experiment.cases);
    experiment
}

fn run(experiment: &PathTreatmentExperiment) -> Result<Outcome<<PathTreatmentExperiment as Study>::Row>, RunError> {
    kumade_lab::run(experiment, &mut |_| (), &|| false)
}

fn assert_none_wrong(outcome: &Outcome<<PathTreatmentExperiment as Study>::Row>) {
    for row in &outcome.rows {
        assert!(row.verdict != Verdict::Wrong, "{row:?}");
        assert!(row.reason.is_some() || row.right > 0, "{row:?}");
    }
}

#[test]
fn what_is_said_of_treated_paths_is_not_wrong() {
    in_namespaces("what_is_said_of_treated_paths_is_not_wrong", || {
        let labels = [
            "untouched, loss of 5%",
            "NAT, mapping endpoint-independent, filtering address-dependent, loss of 2%",
            "NAT, mapping address-dependent, filtering endpoint-independent",
            "SYN with ECN dropped up",
            "MTU of 1400 down",
        ];
        let experiment = experiment(BottleneckKind::Emulated, &labels);
        let outcome = run(&experiment).unwrap();
        assert_eq!((outcome.rows.len(), outcome.excluded.len()), (experiment.cases.len(), 0));
        assert_none_wrong(&outcome);
    });
}

#[test]
fn what_is_said_of_the_kernels_treatment_is_not_wrong_and_what_it_lacks_is_left_out() {
    in_namespaces("what_is_said_of_the_kernels_treatment_is_not_wrong_and_what_it_lacks_is_left_out", || {
        let labels = [
            "ECN bleached up",
            "NAT, mapping endpoint-independent, filtering address-and-port-dependent",
            "NAT, mapping address-and-port-dependent, filtering address-and-port-dependent",
            "MSS clamped down",
            "MTU of 1400 up",
        ];
        let experiment = experiment(BottleneckKind::Htb, &labels);
        match run(&experiment) {
            Ok(outcome) => assert_none_wrong(&outcome),
            Err(error) => return println!("passed over: {error}"),
        }
        let lacking = self::experiment(
            BottleneckKind::Htb,
            &[
                "sequence numbers shifted up",
                "untouched, loss of 1%",
                "NAT, mapping address-dependent, filtering endpoint-independent",
            ],
        );
        let outcome = run(&lacking).unwrap();
        assert!(outcome.rows.is_empty());
        let reasons: Vec<_> = outcome.excluded.iter().map(|left_out| &*left_out.reason).collect();
        assert!(reasons.iter().any(|reason| reason.contains("sequence numbers")), "{reasons:?}");
        assert!(reasons.iter().any(|reason| reason.contains("lose nothing")), "{reasons:?}");
        assert!(reasons.iter().any(|reason| reason.contains("no such mapping")), "{reasons:?}");
    });
}
