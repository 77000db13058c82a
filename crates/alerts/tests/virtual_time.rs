//! What is alerted on in virtual time, and how soon. Each run prints its seed.

use crate::simulation::{Network, Told};
use kumade_alerts::{Cause, NoticeKind, Rule};

const INTERVAL: f64 = 1.0;

fn network(seed: u64, pairs: usize) -> Network {
    Network {
        seed,
        pairs,
        interval: INTERVAL,
        days: 0.02,
        loss: 0.01,
        bursts: 10.0,
        common_bursts: 10.0,
        pauses: 0.0,
        seen_after: 1.0,
        outages: Vec::new(),
        has_ticks: true,
    }
}

fn told(told: &Told, kind: NoticeKind) -> Vec<(f64, &Cause, usize)> {
    let of_kind = told.notices.iter().filter(|(_, notice)| notice.kind == kind);
    of_kind.map(|(time, notice)| (*time, &notice.alert.cause, notice.alert.pairs.len())).collect()
}

/// A probe in two minutes, for the time that a test may take; `examples/virtual_year.rs` has denser ones.
#[test]
fn a_thousand_pairs_with_one_percent_of_loss_and_bursts_have_no_false_alert() {
    let network = Network {
        interval: 120.0,
        days: 365.0,
        bursts: 1.0,
        common_bursts: 0.2,
        pauses: 0.2,
        has_ticks: false,
        ..network(2026, 1000)
    };
    println!("seed {}", network.seed);
    let told = network.run(Rule::defaults());
    println!("{:.1e} probes, {} lost, {} notices", told.probes, told.lost, told.notices.len());
    let raised = self::told(&told, NoticeKind::Raised);
    assert!(raised.len() <= 1, "{raised:?}");
}

#[test]
fn an_uplink_that_fails_is_one_alert_within_three_intervals_and_five_seconds() {
    let (mut slowest, mut changed) = (0.0_f64, 0);
    for seed in 0..200 {
        let pairs = 2 + (seed as usize * 7) % 60;
        let network =
            Network { outages: vec![(600.0, 1200.0, None)], bursts: 0.0, common_bursts: 0.0, ..network(seed, pairs) };
        let told = network.run(Rule::defaults());
        let raised = self::told(&told, NoticeKind::Raised);
        changed += self::told(&told, NoticeKind::Changed).len();
        assert_eq!(raised.len(), 1, "seed {seed}, {pairs} pairs: {:?}", told.notices);
        let ended = self::told(&told, NoticeKind::Resolved);
        assert_eq!(ended.len(), 1, "seed {seed}, {pairs} pairs: {:?}", told.notices);
        assert!(
            matches!(ended[0].1, Cause::Shared(_)) && ended[0].2 * 10 >= pairs * 9,
            "seed {seed}: {ended:?} of {pairs}"
        );
        assert!(ended[0].0 > 1200.0 && ended[0].0 < 1200.0 + 30.0, "seed {seed}: {ended:?}");
        slowest = slowest.max(raised[0].0 - 600.0);
    }
    println!("slowest: {slowest} s, changed: {changed}");
    assert!(slowest <= 3.0 * INTERVAL + 5.0 && changed == 0);
}

#[test]
fn a_single_pair_that_fails_is_one_alert() {
    let mut delays: Vec<f64> = Vec::new();
    for seed in 0..200 {
        let network = Network {
            outages: vec![(600.0, 1200.0, Some(3))],
            bursts: 0.0,
            common_bursts: 0.0,
            ..network(seed, 2 + (seed as usize * 7) % 60)
        };
        let network = Network { pairs: network.pairs.max(4), ..network };
        let told = network.run(Rule::defaults());
        let raised = self::told(&told, NoticeKind::Raised);
        assert_eq!(raised.len(), 1, "seed {seed}: {:?}", told.notices);
        assert_eq!(raised[0].1, &Cause::Pair("pair 3".to_owned()), "seed {seed}");
        assert_eq!(self::told(&told, NoticeKind::Resolved).len(), 1, "seed {seed}: {:?}", told.notices);
        delays.push(raised[0].0 - 600.0);
    }
    delays.sort_by(f64::total_cmp);
    println!("median {}, 95 % {}, slowest {}", delays[100], delays[190], delays[199]);
    assert!(delays[199] <= 8.0 * INTERVAL);
}
