//! How many false alerts a thousand paths have in a virtual year of random losses, bursts and pauses:
//! `cargo run --release -p kumade-alerts --example virtual_year -- [SECONDS BETWEEN PROBES [DAYS [SEED]]]`.

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use kumade_alerts::{NoticeKind, Rule};
use simulation::Network;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<f64>().expect("numbers"));
    let mut next = |default: f64| arguments.next().unwrap_or(default);
    let network = Network {
        interval: next(1.0),
        days: next(365.0),
        seed: next(1.0) as u64,
        pairs: 1000,
        loss: 0.01,
        bursts: 1.0,
        common_bursts: 0.2,
        pauses: 0.2,
        seen_after: 1.0,
        outages: Vec::new(),
        has_ticks: false,
    };
    let told = network.run(Rule::defaults());
    let raised = told.notices.iter().filter(|(_, notice)| notice.kind == NoticeKind::Raised);
    println!(
        "seed {}: {:.2e} probes, {} lost, {} false alerts",
        network.seed,
        told.probes,
        told.lost,
        raised.clone().count()
    );
    raised.for_each(|(time, notice)| println!("{time:.0} s: {}", notice.alert.text));
}
