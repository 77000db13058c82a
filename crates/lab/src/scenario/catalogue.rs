//! The built-in experiments: a new one is a file in `scenarios/` and a line in this list.

use super::experiment::Experiment;
use super::overrides::Overrides;
use crate::error::ScenarioError;
use std::path::Path;

/// The name of each experiment, which is also its file's, with the file's text.
macro_rules! built_in {
    ($($name:literal,)+) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),+]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "rake-accuracy",
    "rake-firewall",
    "rake-cwnd",
    "tester-range",
    "tester-time",
    "tester-pathload",
    "tester-capacity",
    "method-comparison",
    "fair-wired",
    "fair-campus",
    "fair-wifi",
    "fair-mix",
    "fair-attack",
    "fair-search",
    "fair-latency",
    "multipath-tcp",
    "multipath-unequal",
    "tunnel-carriers",
    "tunnel-rto",
    "tunnel-adaptive",
    "tunnel-trace",
    "block-size",
    "multipath-udp",
    "multipath-reorder",
    "multipath-auto",
    "nat-session",
    "path-atlas",
    "fast-links",
];

/// Tables of mixes that they name.
const BUILT_IN_TABLES: [(&str, &str); 1] = [("fair-mix.csv", include_str!("../../scenarios/fair-mix.csv"))];

/// The built-in experiments; most of them repeat published ones.
///
/// # Errors
/// Where a built-in file is not a valid scenario, which a test rules out.
pub fn experiments() -> Result<Vec<Experiment>, ScenarioError> {
    BUILT_IN.iter().map(|built_in| load_built_in(built_in, &Overrides::default())).collect()
}

/// The experiment of that name, or the scenario in that file where the name ends in `.toml`, with parts replaced.
///
/// # Errors
/// Where there is no such name or file, where the file goes wrong, or what in the result contradicts itself.
pub fn load(name: &str, overrides: &Overrides) -> Result<Experiment, ScenarioError> {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "toml") {
        let beside = |table: &str| read_scenario_file(&path.with_file_name(table));
        return Experiment::from_toml(&read_scenario_file(path)?, name, &beside, overrides);
    }
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
    load_built_in(built_in.ok_or_else(|| ScenarioError::Unknown { name: name.to_owned() })?, overrides)
}

fn load_built_in((name, text): &(&str, &str), overrides: &Overrides) -> Result<Experiment, ScenarioError> {
    let table = |table: &str| {
        let found = BUILT_IN_TABLES.iter().find(|(known, _)| *known == table);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| ScenarioError::Unknown { name: table.to_owned() })
    };
    Experiment::from_toml(text, &format!("the built-in experiment {name}"), &table, overrides)
}

fn read_scenario_file(path: &Path) -> Result<String, ScenarioError> {
    kumade_daemon::read_text(path)
        .map_err(|cause| ScenarioError::Unreadable { path: path.display().to_string(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_file_is_valid_and_named_as_the_experiment() {
        let names: Vec<_> = experiments().unwrap().into_iter().map(|e| e.name().to_owned()).collect();
        assert_eq!(names, BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn an_unknown_name_or_file_is_reported_with_what_to_do() {
        let error = |name: &str| load(name, &Overrides::default()).unwrap_err().to_string();
        assert!(error("rake-acuracy").contains("kumade lab list"), "{}", error("rake-acuracy"));
        assert!(error("missing.toml").contains("missing.toml"), "{}", error("missing.toml"));
    }
}
