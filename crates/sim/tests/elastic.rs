//! Measurements beside TCP connections that react to them.

use kumade_estimate::{MethodSettings, Reason};
use kumade_link::LinkConfig;
use kumade_probe_train::Transport;
use kumade_sim::atlas::{DrawnPath, PathKind, PathResult, Seeds};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_sim::{ElasticFlow, FlowImpact, ImpactSummary, PathHop};
use kumade_units::{Rate, Span};

/// What is free beside greedy connections is what they give up to the trains themselves. A few trains took that for available, with
/// an interval that excluded the truth.
#[test]
fn where_connections_fill_the_link_only_the_most_that_may_be_left_is_told() {
    for number in [110, 129, 139, 176] {
        let path = DrawnPath::new(PathKind::Elastic, Seeds::Tuning.seed(number));
        let measured = path.measure(Transport::Udp, &MethodSettings::default()).unwrap();
        let (report, truth) = (measured.report, measured.truth.available);
        println!("seed {}: {truth} of {} left; {report}", path.seed, path.sustained_rate);
        assert_eq!(report.available_bits_per_second, None, "{:?}", report.reason);
        assert_eq!(report.reason, Some(Reason::NearlyFull));
        assert!(report.at_most_bits_per_second.is_some_and(|most| most >= truth));
    }
}

/// On slow links beside connections with small windows, few trains agreed on what these gave up to them, and 111 sparse packets take longer than
/// the look was: 0.2 of 3 Mbit/s were said where nothing was left, and a quarter too much elsewhere. Short queues were worse.
#[test]
fn few_trains_beside_connections_on_slow_links_are_not_believed_alone() {
    for number in [88, 115, 139, 312, 672, 858, 879] {
        let path = DrawnPath::new(PathKind::Elastic, Seeds::Tuning.seed(number));
        let measured = path.measure(Transport::Rake, &MethodSettings::default()).unwrap();
        println!("seed {}: {:?}; {}", path.seed, measured.truth, measured.report);
        assert_eq!(PathResult::evaluate(&path, &measured).fault, None);
    }
}

/// What a measurement takes from the one connection that fills a link of 10, 50 and 100 Mbit/s, with a round trip of 20 ms and 50 ms of
/// queue.
#[test]
fn one_greedy_connection_loses_little_to_a_measurement() {
    for (mbit, most_lost) in [(10, 0.05), (50, 0.05), (100, 0.03)] {
        for transport in [Transport::Udp, Transport::Rake] {
            let impacts: Vec<FlowImpact> =
                (1..=10).map(|seed| impact_on_one(Rate::from_mbit(mbit), transport, seed)).collect();
            let summary = ImpactSummary::from_impacts(&impacts).unwrap();
            println!("{mbit} Mbit/s over {transport:?}: {summary}");
            assert!(
                summary.mean.goodput_loss_ratio < most_lost
                    && summary.mean.added_queueing_delay < Span::from_millis(10)
            );
        }
    }
}

fn impact_on_one(rate: Rate, transport: Transport, seed: u64) -> FlowImpact {
    let delay = Span::from_millis(10);
    let queue_bytes = rate.bytes_in(Span::from_millis(50));
    let link = LinkConfig { rate: Some(rate), queue_bytes, delay, seed, ..LinkConfig::default() };
    let path = DrawnPath {
        hops: vec![PathHop { link, queue: None, cross: Vec::new() }],
        sustained_rate: rate,
        elastic_flows: vec![ElasticFlow { control: CongestionControl::Cubic, delay_back: delay, receive_window: None }],
        cross_flows: 1,
        ..DrawnPath::new(PathKind::Elastic, seed)
    };
    path.measure(transport, &MethodSettings::default()).unwrap().impact.unwrap()
}
