//! The built-in experiments: a new one is a file in `scenarios/` and a line in this list.

use crate::accuracy::BottleneckKind;
use crate::error::ScenarioError;
use crate::nearest_name::nearest_of;
use crate::study::{Experiment, Overrides};
use std::ops::RangeInclusive;
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
    "fair-cellular",
    "fair-parameters",
    "fair-parameters-wifi",
    "fair-mix",
    "fair-attack",
    "fair-search",
    "fair-latency",
    "fair-l4s",
    "multipath-tcp",
    "multipath-unequal",
    "tunnel-carriers",
    "tunnel-rto",
    "tunnel-rto-both",
    "tunnel-adaptive",
    "tunnel-trace",
    "block-size",
    "multipath-udp",
    "multipath-reorder",
    "multipath-auto",
    "nat-session",
    "path-atlas",
    "path-treatment",
    "kernel-paths",
    "fast-links",
    "monitor-mesh",
];

/// Tables of mixes that they name.
const BUILT_IN_TABLES: [(&str, &str); 1] = [("fair-mix.csv", include_str!("../../scenarios/fair-mix.csv"))];

/// The built-in experiments; most of them repeat published ones.
///
/// # Errors
/// Where a built-in file is not a valid scenario, which a test rules out.
pub fn experiments() -> Result<Vec<Experiment>, ScenarioError> {
    let loaded = BUILT_IN.iter().map(|built_in| load_built_in(built_in, &Overrides::default()));
    // Elsewhere, some kinds are not there.
    let is_here =
        |loaded: &Result<_, _>| cfg!(target_os = "linux") || !matches!(loaded, Err(ScenarioError::UnknownKind { .. }));
    loaded.filter(is_here).collect()
}

/// A built-in experiment, and what the command line can choose of it.
#[derive(Debug)]
pub struct CatalogueEntry {
    /// The experiment.
    pub experiment: Experiment,
    /// Whether it runs in virtual time as it is.
    pub runs_virtually: bool,
    /// The numbers of its rows, or cases, where these can be chosen.
    pub rows: Option<RangeInclusive<u32>>,
}

/// The built-in experiments with what can be chosen of them.
///
/// # Errors
/// As for [`experiments`].
pub fn catalogue() -> Result<Vec<CatalogueEntry>, ScenarioError> {
    let entry = |experiment: Experiment| {
        let name = experiment.head().name;
        let is_valid = |with: Overrides| load_named(name, &with).is_ok();
        let has_row = |row: &u32| {
            let with_row = |overrides| Overrides { rows: vec![*row], ..overrides };
            // Some run in virtual time alone.
            is_valid(with_row(Overrides::default())) || is_valid(with_row(virtual_alone()))
        };
        // Rows of tables are counted from 0, cases from 1.
        let first = [0, 1].into_iter().find(has_row);
        let rows = first.and_then(|first| Some(first..=(first..).take_while(has_row).last()?));
        CatalogueEntry { runs_virtually: is_valid(virtual_alone()), rows, experiment }
    };
    Ok(experiments()?.into_iter().map(entry).collect())
}

/// The built-in scenario file of that experiment, or the table of that name, which such a file names.
///
/// # Errors
/// There is none.
pub fn built_in_file(name: &str) -> Result<&'static str, ScenarioError> {
    let file = BUILT_IN.iter().chain(&BUILT_IN_TABLES).find(|(known, _)| *known == name);
    file.map(|(_, text)| *text).ok_or_else(|| unknown(name))
}

/// The tables that a built-in scenario file names.
pub fn tables_named_in(text: &str) -> Vec<&'static str> {
    BUILT_IN_TABLES.iter().map(|(name, _)| *name).filter(|name| text.contains(&format!("\"{name}\""))).collect()
}

/// The experiments that can be run as they were published.
pub(super) fn publishable_names() -> Vec<&'static str> {
    BUILT_IN.iter().filter(|(_, text)| text.contains("\n[as-published]\n")).map(|(name, _)| *name).collect()
}

fn virtual_alone() -> Overrides {
    Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() }
}

fn unknown(name: &str) -> ScenarioError {
    let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let nearest =
        nearest_of(name, &names).map_or_else(String::new, |nearest| format!("perhaps you mean `{nearest}`; "));
    ScenarioError::Unknown { name: name.to_owned(), nearest }
}

/// The experiment of that name, or the scenario in that file where the name ends in `.toml`, with parts replaced.
///
/// # Errors
/// Where there is no such name or file, where the file goes wrong, or what in the result contradicts itself.
pub fn load(name: &str, overrides: &Overrides) -> Result<Experiment, ScenarioError> {
    load_named(name, overrides).map_err(|error| match error {
        ScenarioError::Invalid { name: of, reason } => {
            let advice = virtual_time_advice(&|overrides| load_named(name, overrides), overrides).unwrap_or_default();
            ScenarioError::Invalid { name: of, reason: reason + &advice }
        }
        other => other,
    })
}

/// What runs in virtual time instead of an experiment that is refused for that alone: some of its cases, or others.
fn virtual_time_advice(
    load: &dyn Fn(&Overrides) -> Result<Experiment, ScenarioError>,
    overrides: &Overrides,
) -> Option<String> {
    let in_virtual_time = Some(BottleneckKind::Virtual);
    let real_time = Overrides { bottleneck: None, ..overrides.clone() };
    if overrides.bottleneck != in_virtual_time || load(&real_time).is_err() {
        return None;
    }
    let with_row = |overrides: &Overrides, row| Overrides { rows: vec![row], ..overrides.clone() };
    let rows = (1..).take_while(|row| load(&with_row(&real_time, *row)).is_ok());
    let rows = rows.filter(|row| load(&with_row(overrides, *row)).is_ok());
    let rows = rows.map(|row| row.to_string()).collect::<Vec<_>>().join(",");
    if overrides.rows.is_empty() && !rows.is_empty() {
        return Some(format!(". Some of its cases run in virtual time: add --row {rows}"));
    }
    let runs = |built_in: &&(&str, &str)| load_built_in(built_in, &virtual_alone()).is_ok();
    let others: Vec<_> = BUILT_IN.iter().filter(runs).map(|(name, _)| *name).collect();
    Some(format!(". These run in virtual time: {}", others.join(", ")))
}

fn load_named(name: &str, overrides: &Overrides) -> Result<Experiment, ScenarioError> {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "toml") {
        let beside = |table: &str| read_table(&path.with_file_name(table), table, name);
        return Experiment::from_toml(&read_scenario_file(path)?, name, &beside, overrides);
    }
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
    load_built_in(built_in.ok_or_else(|| unknown(name))?, overrides)
}

fn load_built_in((name, text): &(&str, &str), overrides: &Overrides) -> Result<Experiment, ScenarioError> {
    let table = |table: &str| {
        let found = BUILT_IN_TABLES.iter().find(|(known, _)| *known == table);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| unknown(table))
    };
    Experiment::from_toml(text, &format!("the built-in experiment {name}"), &table, overrides)
}

fn read_scenario_file(path: &Path) -> Result<String, ScenarioError> {
    kumade_files::read_text(path).map_err(|cause| ScenarioError::Unreadable { path: path.display().to_string(), cause })
}

/// The table in that file, called so in the scenario file `named_by`.
fn read_table(path: &Path, name: &str, named_by: &str) -> Result<String, ScenarioError> {
    kumade_files::read_text(path).map_err(|cause| {
        let is_built_in = BUILT_IN_TABLES.iter().any(|(known, _)| *known == name);
        let advice = is_built_in.then(|| format!("; `kumade lab show {name}` prints the built-in one"));
        ScenarioError::UnreadableTable {
            path: path.display().to_string(),
            named_by: named_by.to_owned(),
            cause,
            advice: advice.unwrap_or_default(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_file_is_valid_and_named_as_the_experiment() {
        let names: Vec<_> = experiments().unwrap().into_iter().map(|e| e.head().name.to_owned()).collect();
        assert_eq!(names, BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    /// What has no form in virtual time was refused without a word on what has one.
    #[test]
    fn what_does_not_run_in_virtual_time_says_what_does() {
        let virtual_time = virtual_alone();
        for (name, _) in BUILT_IN {
            let Err(error) = load(name, &virtual_time).map_err(|error| error.to_string()) else { continue };
            let (_, others) = error.split_once("These run in virtual time: ").unwrap_or_else(|| panic!("{error}"));
            assert!(others.split(", ").all(|other| load(other, &virtual_time).is_ok()), "{error}");
            assert!(!others.split(", ").any(|other| other == *name), "{error}");
        }
        assert!(load("rake-cwnd", &virtual_time).unwrap_err().to_string().contains("--transport rake"));
        // What is wrong in real time, too, is another fault.
        let error = load("multipath-tcp", &Overrides { runs: Some(0), ..virtual_time.clone() }).unwrap_err();
        assert!(!error.to_string().contains("in virtual time"), "{error}");
        let case = |label: &str, plane: &str| {
            format!(
                "[[cases]]\nlabel = \"{label}\"\npaths = [{{ rate = \"20mbit\", delay = \"10ms\" }}]\nplanes = [\"{plane}\"]\n"
            )
        };
        let head = include_str!("../../scenarios/tunnel-trace.toml").split("[[tunings]]").next().unwrap();
        let two_cases = head.to_owned() + &case("another program's", "vtun") + &case("ours", "single");
        let no_table = |_: &str| unreachable!("it names none");
        let load_file = |with: &Overrides| Experiment::from_toml(&two_cases, "two cases", &no_table, with);
        let advice = virtual_time_advice(&load_file, &virtual_time).unwrap();
        assert!(advice.ends_with("add --row 2"), "{advice}");
    }

    fn as_published(name: &str) -> Experiment {
        load(name, &Overrides { as_published: true, ..Overrides::default() }).unwrap()
    }

    /// "Data Block Size", Table 1; "RTO", Table 2; Fig. 4 of the fifth paper with the rates of its section 2.2; Fig. 2 of the fourth.
    #[test]
    fn as_published_an_experiment_has_all_points_of_its_paper() {
        let points = [
            ("block-size", 4),
            ("tunnel-rto", 3 * 11 * (11 + 1)),
            ("tunnel-rto-both", 3 * 10 * (10 + 1)),
            ("multipath-tcp", 10 * 3 * 3 * 2 * 3),
            ("fair-wired", 5 * 7 * 3),
            ("fair-campus", 5 * 7 * 3),
        ];
        for (name, runs) in points {
            assert_eq!(as_published(name).run_count(), runs, "{name}");
        }
    }

    #[test]
    fn every_section_as_published_is_valid_and_states_what_is_judged() {
        let names = publishable_names();
        let counts: Vec<_> = names.iter().map(|name| as_published(name).statements().len()).collect();
        assert!(counts.len() >= 10 && counts.iter().all(|statements| *statements > 0), "{counts:?}");
        let options = Overrides { as_published: true, ..Overrides::default() };
        let error = load("monitor-mesh", &options).unwrap_err().to_string();
        assert!(
            error.contains("leave --as-published out. These have one: ") && error.contains("tunnel-rto"),
            "{error}"
        );
    }

    #[test]
    fn the_catalogue_says_what_can_be_chosen() {
        let catalogue = catalogue().unwrap();
        let entry = |name: &str| catalogue.iter().find(|entry| entry.experiment.head().name == name).unwrap();
        for (name, runs_virtually, rows, is_publishable) in [
            ("fair-mix", true, Some(0..=15), false),
            ("tunnel-rto", true, Some(1..=8), true),
            ("rake-accuracy", true, None, false),
            ("kernel-paths", false, Some(1..=16), false),
            ("fair-attack", true, Some(1..=20), false),
        ] {
            let entry = entry(name);
            let found = (entry.runs_virtually, entry.rows.clone(), entry.experiment.is_publishable());
            assert_eq!(found, (runs_virtually, rows, is_publishable), "{name}");
        }
    }

    /// A copy of an experiment beside which its table is missing was told that the scenario file is.
    #[test]
    fn built_in_files_are_shown_with_the_tables_that_they_name() {
        let mix = built_in_file("fair-mix").unwrap();
        assert_eq!(tables_named_in(mix), ["fair-mix.csv"]);
        assert!(built_in_file("fair-mix.csv").unwrap().lines().count() > 16);
        assert!(tables_named_in(built_in_file("fair-wired").unwrap()).is_empty());
        let copy = std::env::temp_dir().join(format!("kumade-copy-{}.toml", std::process::id()));
        std::fs::write(&copy, mix).unwrap();
        let error = load(copy.to_str().unwrap(), &Overrides::default()).unwrap_err().to_string();
        std::fs::remove_file(&copy).unwrap();
        let expected = format!("fair-mix.csv, which {} names: ", copy.display());
        assert!(
            error.contains(&expected) && error.ends_with("`kumade lab show fair-mix.csv` prints the built-in one"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_name_or_file_is_reported_with_what_to_do() {
        let error = |name: &str| load(name, &Overrides::default()).unwrap_err().to_string();
        let misspelt = error("rake-acuracy");
        assert!(misspelt.contains("perhaps you mean `rake-accuracy`; `kumade lab list` shows the names"), "{misspelt}");
        assert!(error("missing.toml").contains("missing.toml"), "{}", error("missing.toml"));
    }
}
