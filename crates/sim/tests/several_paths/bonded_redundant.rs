//! Copies of every packet on each path: what is lost on one comes by the other, and in order.

use kumade_multipath::{PathPolicy, TrafficClass};
use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, FlowReport, PathChange, PathModel, Plane, Sites, SitesConfig};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

fn at(secs: i64) -> Time {
    Time::ZERO + Span::from_secs(secs)
}

fn path(mbit: u64, millis: i64, loss: f64) -> PathModel {
    PathModel { loss, ..PathModel::new(Rate::from_mbit(mbit), Span::from_millis(millis)) }
}

fn sites(paths: Vec<PathModel>, flow: FlowConfig) -> (Sites, f64) {
    let config = SitesConfig { paths, plane: Plane::Bonded { choice: PathPolicy::Redundant }, seed: 1 };
    let mut sites = Sites::new(&config).unwrap();
    sites.add_flow(flow).unwrap();
    (sites, config.paths[0].rate.as_f64())
}

fn tcp() -> FlowConfig {
    FlowConfig::tcp(TcpConfig { segment_bytes: 1394, ..TcpConfig::new(CongestionControl::Cubic) })
}

#[test]
fn a_connection_notices_neither_loss_nor_the_difference_of_the_paths() {
    for (one, other) in [((20, 5), (20, 30)), ((20, 30), (20, 5)), ((20, 5), (20, 5)), ((20, 5), (2, 30))] {
        let paths = vec![path(one.0, one.1, 0.003), path(other.0, other.1, 0.003)];
        let (mut sites, rate) = sites(paths, tcp());
        let report: FlowReport = sites.measure(at(5), at(25)).remove(0);
        let share = report.goodput().as_f64() / (rate * 1394.0 / 1500.0);
        let resequencing = sites.resequencing().unwrap();
        println!("{one:?} {other:?}: {share:.3}, {:?}, {resequencing:?}", report.tcp);
        assert_eq!(report.out_of_order, 0, "{one:?} {other:?}");
        if one.0 == other.0 {
            // One of a hundred thousand is lost on both; what is retransmitted besides, the gateway's queue has dropped.
            assert!(share > 0.95 && resequencing.lost < 5, "{one:?} {other:?}: {share}, {resequencing:?}");
        }
    }
}

#[test]
fn a_path_that_is_cut_is_not_missed() {
    let (mut sites, _) = sites(vec![path(20, 5, 0.0), path(20, 30, 0.0)], FlowConfig::udp(Rate::from_mbit(4), 500));
    sites.schedule(at(3), 0, PathChange::Cut);
    sites.schedule(at(6), 0, PathChange::Restore);
    let report = sites.measure(at(1), at(12)).remove(0);
    assert_eq!((report.out_of_order, report.duplicates), (0, 0));
    assert_eq!(report.delivered_packets, report.sent_packets);
    assert!(report.longest_stall < Span::from_millis(150), "{}", report.longest_stall);
}

#[test]
fn a_flow_that_prefers_speed_gets_the_first_copy_at_once() {
    let flow = FlowConfig { class: TrafficClass::Unordered, ..FlowConfig::udp(Rate::from_mbit(4), 500) };
    let (mut sites, _) = sites(vec![path(20, 5, 0.02), path(20, 30, 0.02)], flow);
    let report = sites.measure(at(1), at(21)).remove(0);
    let median = report.delays.quantile(0.9).unwrap();
    assert!(median < Span::from_millis(7), "{median}");
    assert!(report.out_of_order > 200 && report.duplicates == 0, "{report:?}");
}
