//! What the lab can run: scenario files, read and validated.

mod accuracy;
mod fairness;
pub mod mixes;
mod sweep;

pub(crate) use accuracy::{MAX_DELAY, MAX_RATE, MAX_RUNS, MIN_RATE, too_many_packets};
pub use accuracy::{Overrides, ScenarioError};
pub use sweep::{Also, Sweep};

use crate::accuracy::Scenario;
use crate::fairness::Fairness;
use serde::Deserialize;
use std::path::Path;

/// What the lab can run. A file that names queue disciplines is about fairness, any other about a measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Experiment {
    /// Estimates beside the truth.
    Measurement(Box<Scenario>),
    /// Shares that TCP connections get.
    Fairness(Box<Fairness>),
}

const BUILT_IN: [&str; 12] = [
    include_str!("../../scenarios/rake-accuracy.toml"),
    include_str!("../../scenarios/rake-firewall.toml"),
    include_str!("../../scenarios/rake-cwnd.toml"),
    include_str!("../../scenarios/tester-range.toml"),
    include_str!("../../scenarios/tester-time.toml"),
    include_str!("../../scenarios/tester-pathload.toml"),
    include_str!("../../scenarios/tester-capacity.toml"),
    include_str!("../../scenarios/method-comparison.toml"),
    include_str!("../../scenarios/fair-wired.toml"),
    include_str!("../../scenarios/fair-campus.toml"),
    include_str!("../../scenarios/fair-wifi.toml"),
    include_str!("../../scenarios/fair-mix.toml"),
];
const BUILT_IN_TABLES: [(&str, &str); 1] = [("fair-mix.csv", include_str!("../../scenarios/fair-mix.csv"))];

/// The papers' experiments, which come with this program.
///
/// # Errors
/// Where a file built into the program is no scenario, which a test rules out.
pub fn experiments() -> Result<Vec<Experiment>, ScenarioError> {
    let table = |name: &str| {
        let found = BUILT_IN_TABLES.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| ScenarioError::Unknown { name: name.to_owned() })
    };
    BUILT_IN.iter().map(|text| Experiment::from_toml(text, "an experiment of this program", &table)).collect()
}

/// The experiment of that name, or the scenario in that file where the name ends in `.toml`.
///
/// # Errors
/// Says what to call instead, or where the file goes wrong.
pub fn load(name: &str) -> Result<Experiment, ScenarioError> {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "toml") {
        let beside = |table: &str| read(&path.with_file_name(table));
        return Experiment::from_toml(&read(path)?, name, &beside);
    }
    let unknown = || ScenarioError::Unknown { name: name.to_owned() };
    experiments()?.into_iter().find(|experiment| experiment.name() == name).ok_or_else(unknown)
}

impl Experiment {
    /// Reads either kind from TOML; `origin` names the text in an error, and `table` finds the text of a table of mixes.
    ///
    /// # Errors
    /// Names the line, or what in the scenario contradicts itself.
    pub fn from_toml(
        text: &str,
        origin: &str,
        table: &dyn Fn(&str) -> Result<String, ScenarioError>,
    ) -> Result<Self, ScenarioError> {
        #[derive(Deserialize)]
        struct Kind {
            disciplines: Option<toml::Value>,
        }
        match toml::from_str(text) {
            Ok(Kind { disciplines: Some(_) }) => Fairness::from_toml(text, origin, table).map(fairness),
            _ => Scenario::from_toml(text, origin).map(measurement),
        }
    }

    /// This experiment with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result contradicts itself.
    pub fn overridden(self, with: &Overrides) -> Result<Self, ScenarioError> {
        match self {
            Experiment::Measurement(scenario) => scenario.overridden(with).map(measurement),
            Experiment::Fairness(scenario) => scenario.overridden(with).map(fairness),
        }
    }

    /// How people and issues call it; also the name of the report's directory.
    pub fn name(&self) -> &str {
        match self {
            Experiment::Measurement(scenario) => &scenario.name,
            Experiment::Fairness(scenario) => &scenario.name,
        }
    }

    /// The question in one line.
    pub fn title(&self) -> &str {
        match self {
            Experiment::Measurement(scenario) => &scenario.title,
            Experiment::Fairness(scenario) => &scenario.title,
        }
    }

    /// The system of the published experiment that this one repeats, and its figures.
    pub fn published_as(&self) -> Option<(&str, &str)> {
        match self {
            Experiment::Measurement(scenario) => scenario.paper.as_ref().map(|paper| (&*paper.system, &*paper.figure)),
            Experiment::Fairness(scenario) => scenario.paper.as_ref().map(|paper| (&*paper.system, &*paper.figure)),
        }
    }

    /// Whether a network of hosts must be built for it.
    pub fn is_virtual(&self) -> bool {
        match self {
            Experiment::Measurement(scenario) => scenario.bottleneck.kind == crate::BottleneckKind::Virtual,
            Experiment::Fairness(scenario) => scenario.virtual_time,
        }
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        match self {
            Experiment::Measurement(scenario) => scenario.runs_in_all(),
            Experiment::Fairness(scenario) => scenario.points(&scenario.cases()).len(),
        }
    }

    /// As an experiment with measurements, if it is one.
    pub fn measurement(self) -> Option<Scenario> {
        match self {
            Experiment::Measurement(scenario) => Some(*scenario),
            Experiment::Fairness(_) => None,
        }
    }

    /// As an experiment on fairness, if it is one.
    pub fn fairness(self) -> Option<Fairness> {
        match self {
            Experiment::Fairness(scenario) => Some(*scenario),
            Experiment::Measurement(_) => None,
        }
    }
}

fn measurement(scenario: Scenario) -> Experiment {
    Experiment::Measurement(Box::new(scenario))
}

fn fairness(scenario: Fairness) -> Experiment {
    Experiment::Fairness(Box::new(scenario))
}

fn read(path: &Path) -> Result<String, ScenarioError> {
    std::fs::read_to_string(path).map_err(|cause| ScenarioError::Unreadable { path: path.display().to_string(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_experiments_are_built_in() {
        let names: Vec<_> = experiments().unwrap().into_iter().map(|e| e.name().to_owned()).collect();
        let (measurements, fair) = names.split_at(8);
        assert_eq!(measurements[..3], ["rake-accuracy", "rake-firewall", "rake-cwnd"]);
        assert_eq!(measurements[3..6], ["tester-range", "tester-time", "tester-pathload"]);
        assert_eq!(measurements[6..], ["tester-capacity", "method-comparison"]);
        assert_eq!(fair, ["fair-wired", "fair-campus", "fair-wifi", "fair-mix"]);
    }

    #[test]
    fn an_unknown_name_or_file_is_told_with_what_to_do() {
        let error = load("rake-acuracy").unwrap_err().to_string();
        assert!(error.contains("kumade lab list"), "{error}");
        let error = load("missing.toml").unwrap_err().to_string();
        assert!(error.contains("missing.toml"), "{error}");
    }

    #[test]
    fn options_of_the_other_kind_are_refused() {
        let refused = |name: &str, with: Overrides, option: &str| {
            let error = load(name).unwrap().overridden(&with).unwrap_err().to_string();
            assert!(error.contains(option) && error.contains("means nothing"), "{error}");
        };
        refused("rake-cwnd", Overrides { rows: vec![1], ..Overrides::default() }, "--row");
        refused("fair-wired", Overrides { cross: vec![units::Rate::ZERO], ..Overrides::default() }, "--cross");
    }
}
