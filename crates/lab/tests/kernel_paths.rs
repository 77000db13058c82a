//! A path of the kernel's shapers, measured: there is a value, a bound, or a reason why there is neither, and the same seed draws it again.

use kumade_lab::accuracy::Transport;
use kumade_lab::kernel_paths::KernelPaths;
use kumade_lab::{Overrides, load, run};
use kumade_netns_testbed::in_namespaces;

#[test]
fn a_path_of_the_kernels_shapers_has_a_row_or_is_left_out_with_a_reason() {
    in_namespaces("a_path_of_the_kernels_shapers_has_a_row_or_is_left_out_with_a_reason", || {
        let given = Overrides {
            runs: Some(1),
            rows: vec![3],
            seed: Some(5),
            transports: vec![Transport::Udp],
            ..Overrides::default()
        };
        let experiment = load("kernel-paths", &given).unwrap().into_scenario::<KernelPaths>().unwrap();
        let outcome = match run(&experiment, &mut |_| (), &|| false) {
            Ok(outcome) => outcome,
            Err(error) => return println!("passed over: {error}"),
        };
        assert!(outcome.excluded.iter().all(|left_out| !left_out.reason.is_empty()));
        for row in &outcome.rows {
            let bound = row.at_least_bits_per_second.or(row.at_most_bits_per_second);
            assert!(row.available_bits_per_second.is_some() || bound.is_some() || row.reason.is_some(), "{row:?}");
            assert!(row.truth_bits_per_second <= row.rates_bits_per_second[0] && row.seed == 5, "{row:?}");
        }
        assert_eq!(outcome.rows.len() + outcome.excluded.len(), 1);
    });
}
