//! What must hold whatever a scenario file says: for the fuzzer, and for the test that replays its finds.

#[path = "../../../../fuzz/edited.rs"]
mod edited;

use edited::edited;
use kumade_lab::{Experiment, Overrides};

/// Of each kind of experiment.
const SCENARIOS: [&str; 11] = [
    include_str!("../../scenarios/rake-accuracy.toml"),
    include_str!("../../scenarios/rake-firewall.toml"),
    include_str!("../../scenarios/fair-mix.toml"),
    include_str!("../../scenarios/fair-wifi.toml"),
    include_str!("../../scenarios/fair-attack.toml"),
    include_str!("../../scenarios/fair-search.toml"),
    include_str!("../../scenarios/multipath-tcp.toml"),
    include_str!("../../scenarios/tunnel-trace.toml"),
    include_str!("../../scenarios/nat-session.toml"),
    include_str!("../../scenarios/path-atlas.toml"),
    include_str!("../../scenarios/fast-links.toml"),
];
const TABLE: &str = include_str!("../../scenarios/fair-mix.csv");

/// The scenario that the first byte names, edited by the rest; and the table of mixes that it may name, by every other byte.
pub fn scenarios(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = edited(SCENARIOS[usize::from(*first) % SCENARIOS.len()], rest);
    let table = |_: &str| if first & 0x80 == 0 { Ok(TABLE.to_owned()) } else { Ok(edited(TABLE, rest)) };
    match Experiment::from_toml(&text, "own.toml", &table, &Overrides::default()) {
        Ok(experiment) => assert!(!experiment.head().name.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
