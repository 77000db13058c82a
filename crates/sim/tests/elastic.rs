//! Measurements beside TCP connections that react to them.

use estimate::MethodSettings;
use sim::atlas::{DrawnPath, PathKind, Seeds};
use train::Transport;

/// What is free beside greedy connections is what they give up to the trains themselves. A few trains took that for available, with
/// an interval that excluded the truth.
#[test]
fn where_connections_fill_the_link_only_the_most_that_may_be_left_is_told() {
    for number in [110, 129, 139, 176] {
        let path = DrawnPath::new(PathKind::Elastic, Seeds::Tuning.seed(number));
        let measured = path.measure(Transport::Udp, &MethodSettings::default()).unwrap();
        let (report, truth) = (measured.report, measured.truth.available);
        println!("seed {}: {truth} of {} left; {report}", path.seed, path.sustained);
        assert_eq!(report.available_bits_per_second, None, "{:?}", report.reason);
        assert!(report.reason.unwrap().contains("nearly full"));
        assert!(report.at_most_bits_per_second.is_some_and(|most| most >= truth));
    }
}
