//! The kinds of experiments, and how the file of one is read.

use super::as_published::{SECTION, STATEMENTS, apply_section, has_section};
use super::expansion::{check_labels, expand_elements};
use super::refusal::Refusal;
use crate::accuracy::{AccuracyExperiment, BottleneckKind};
use crate::atlas::PathAtlas;
use crate::contention::ContentionExperiment;
use crate::error::{RecordError, ScenarioError};
use crate::fairness::FairnessExperiment;
#[cfg(target_os = "linux")]
use crate::fast_links::FastLinksExperiment;
#[cfg(target_os = "linux")]
use crate::kernel_paths::KernelPaths;
#[cfg(target_os = "linux")]
use crate::monitor_mesh::MonitorMeshExperiment;
#[cfg(target_os = "linux")]
use crate::multipath::MultipathExperiment;
#[cfg(target_os = "linux")]
use crate::nat_session::NatSessionExperiment;
use crate::nearest_name::{advice_for, nearest_choice, nearest_of};
use crate::path_treatment::PathTreatmentExperiment;
use crate::study::{AnyScenario, Experiment, FindFile, Overrides, RunRecord, Scenario, ScenarioSource};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::DeTable;

/// A new kind is a line here. A file that does not name its kind is of the first that has this key.
const KINDS: &[Kind] = &[
    Kind::for_scenario::<ContentionExperiment>("contention"),
    Kind::for_scenario::<FairnessExperiment>("disciplines"),
    #[cfg(target_os = "linux")]
    Kind::for_scenario::<MultipathExperiment>("planes"),
    #[cfg(target_os = "linux")]
    Kind::for_scenario::<NatSessionExperiment>("idle"),
    #[cfg(target_os = "linux")]
    Kind::for_scenario::<KernelPaths>("seed"),
    Kind::for_scenario::<PathAtlas>("kinds"),
    #[cfg(target_os = "linux")]
    Kind::for_scenario::<FastLinksExperiment>("mtus"),
    #[cfg(target_os = "linux")]
    Kind::for_scenario::<MonitorMeshExperiment>("sites"),
    Kind::for_scenario::<PathTreatmentExperiment>("link"),
    Kind::for_scenario::<AccuracyExperiment>("name"),
];

/// A kind of experiment.
pub(super) struct Kind {
    name: &'static str,
    guessed_by: &'static str,
    read: fn(Document<'_>, &Overrides, FindFile<'_>) -> ReadResult,
}

/// What names the kind in a file.
const KIND_KEY: &str = "kind";

type Document<'a> = Spanned<DeTable<'a>>;
type ReadResult = Result<Box<dyn AnyScenario>, Refusal>;

impl Kind {
    /// Of files that are read so.
    pub(super) const fn for_scenario<S: Scenario + AnyScenario>(guessed_by: &'static str) -> Self {
        Kind { name: S::KIND, guessed_by, read: read::<S> }
    }
}

fn read<S: Scenario + AnyScenario>(document: Document<'_>, given: &Overrides, beside: FindFile<'_>) -> ReadResult {
    let file = S::File::deserialize(toml::Deserializer::from(document)).map_err(Refusal::Malformed)?;
    if let Some(option) = given.unsupported_option(S::OPTIONS) {
        return Err(Refusal::Invalid(format!("{option} does not apply to {}, and this is one", S::ABOUT)));
    }
    Ok(Box::new(S::from_file(file, given, beside).map_err(Refusal::Invalid)?))
}

impl Experiment {
    /// Reads and validates a scenario file of any kind, with parts replaced. `origin` names the text in an error, and
    /// `table` finds the text of a table of mixes.
    ///
    /// # Errors
    /// Names the line, the option that has no meaning here, or what in the scenario contradicts itself.
    pub fn from_toml(
        text: &str,
        origin: &str,
        table: &dyn Fn(&str) -> Result<String, ScenarioError>,
        overrides: &Overrides,
    ) -> Result<Self, ScenarioError> {
        read_scenario(KINDS, text, origin, &|name| table(name).map_err(|error| error.to_string()), overrides)
    }
}

/// The finished runs in these directories, all of one experiment, and that experiment, to make its report.
///
/// # Errors
/// They are of different experiments or settings or of another version of this program, a directory has none, or the system refuses
/// something.
pub fn read_runs(directories: &[PathBuf]) -> Result<(Experiment, RunRecord), RecordError> {
    read_runs_of(KINDS, directories)
}

/// The same of an experiment of one of these kinds.
pub(super) fn read_runs_of(kinds: &[Kind], directories: &[PathBuf]) -> Result<(Experiment, RunRecord), RecordError> {
    let record = RunRecord::read(directories)?;
    let ScenarioSource { text, beside, overrides } = &record.head().source;
    let find = |name: &str| beside.get(name).cloned().ok_or_else(|| format!("{name} is not recorded"));
    let experiment = read_scenario(kinds, text, "the recorded scenario", &find, overrides)?;
    Ok((experiment, record))
}

/// Reads a file of one of these kinds, of which the last is that of files that give no hint.
pub(super) fn read_scenario(
    kinds: &[Kind],
    text: &str,
    origin: &str,
    beside: FindFile<'_>,
    overrides: &Overrides,
) -> Result<Experiment, ScenarioError> {
    let found = RefCell::new(BTreeMap::new());
    let beside =
        |name: &str| beside(name).inspect(|text| drop(found.borrow_mut().insert(name.to_owned(), text.clone())));
    let malformed = |mut cause: toml::de::Error| {
        cause.set_input(Some(text));
        let place = cause.span().unwrap_or_default().start;
        let advice = advice_on(cause.message(), text.get(..place).unwrap_or_default());
        ScenarioError::Malformed { origin: origin.to_owned(), cause: Box::new(cause), advice }
    };
    let mut document = DeTable::parse(text).map_err(malformed)?;
    let name = document.get_ref().get("name").and_then(|name| name.get_ref().as_str()).unwrap_or(origin).to_owned();
    let refused = |refusal| match refusal {
        Refusal::Malformed(cause) => malformed(cause),
        Refusal::Invalid(reason) => ScenarioError::Invalid { name: name.clone(), reason },
    };
    expand_elements(document.get_mut()).map_err(|reason| refused(Refusal::Invalid(reason)))?;
    let is_publishable = has_section(document.get_ref());
    let statements = apply_section(document.get_mut(), overrides.as_published).map_err(refused)?;
    check_labels(document.get_ref()).map_err(|reason| refused(Refusal::Invalid(reason)))?;
    let named = document.get_mut().remove(KIND_KEY);
    let named = named.map(|kind| (kind.get_ref().as_str().unwrap_or_default().to_owned(), kind.span().start));
    let guessed = || kinds.iter().find(|kind| document.get_ref().contains_key(kind.guessed_by));
    let kind = match &named {
        Some((named, _)) => kinds.iter().find(|kind| kind.name == *named),
        None => guessed().or(kinds.last()),
    };
    let Some(kind) = kind else {
        let (named, place) = named.unwrap_or_default();
        let line = text[..place].lines().count().max(1);
        return Err(unknown_kind(kinds, named, format!("{origin}, line {line}")));
    };
    let scenario = (kind.read)(document, overrides, &beside).map_err(refused)?;
    scenario.check_statements(&statements).map_err(|reason| refused(Refusal::Invalid(reason)))?;
    let is_virtual = scenario.head().is_virtual;
    let statements = statements.into_iter().map(|statement| statement.for_clock(is_virtual)).collect();
    if is_publishable && !overrides.as_published {
        // What is wrong with the section is told now, and not when it is first run. It may be for one of the clocks alone.
        let read_with = |bottleneck| {
            let as_published = Overrides { as_published: true, bottleneck, ..Overrides::default() };
            read_scenario(kinds, text, origin, &beside, &as_published)
        };
        let clocks = [overrides.bottleneck, None, Some(BottleneckKind::Virtual)];
        if clocks.into_iter().all(|clock| read_with(clock).is_err()) {
            read_with(overrides.bottleneck).map_err(|error| match error {
                ScenarioError::Invalid { name, reason } => {
                    ScenarioError::Invalid { name, reason: format!("[{SECTION}]: {reason}") }
                }
                other => other,
            })?;
        }
    }
    let warning = named.is_none().then(|| {
        format!(
            "{origin} does not say which kind of experiment it is: add kind = \"{}\" to it; later versions refuse it",
            kind.name
        )
    });
    let source = ScenarioSource { text: text.to_owned(), beside: found.take(), overrides: overrides.clone() };
    Ok(Experiment::new(scenario, source, warning, statements, is_publishable))
}

fn unknown_kind(kinds: &[Kind], kind: String, place: String) -> ScenarioError {
    let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    let advice = advice_for(&kind, &names, "kinds");
    // Others take gateways and links of Linux.
    let advice = if cfg!(target_os = "linux") { advice } else { format!("{advice}; on Linux there are more") };
    ScenarioError::UnknownKind { place, kind, advice }
}

/// What to write instead of what an error is about: the name most like a wrong one, of those that the error lists in backticks behind it and
/// of those that are taken out of a file before its kind is known; or a number. `before` is the text up to what it is about.
fn advice_on(message: &str, before: &str) -> String {
    let names: Vec<_> = message.split('`').skip(1).step_by(2).collect();
    if let (true, Some((wrong, valid))) = (message.starts_with("unknown "), names.split_first()) {
        let others = if message.starts_with("unknown field") { keys_taken_out(before) } else { &[] };
        let all: Vec<_> = valid.iter().chain(others).copied().collect();
        let also = (!others.is_empty()).then(|| format!("also `{}`", others.join("`, `")));
        let nearest = nearest_of(wrong, &all).map(|name| format!("perhaps you mean `{name}`"));
        let parts: Vec<_> = [also, nearest].into_iter().flatten().collect();
        return if parts.is_empty() { String::new() } else { parts.join("; ") + "\n" };
    }
    let is_number = |expected: &str| ["u8", "u16", "u32", "u64", "usize", "i64", "f64"].contains(&expected);
    match message.rsplit_once("expected ") {
        Some((found, expected)) if found.starts_with("invalid type: string") && is_number(expected) => {
            "write the number without quotes\n".to_owned()
        }
        _ => nearest_choice(message).map_or_else(String::new, |name| format!("perhaps you mean `{name}`\n")),
    }
}

/// The keys that may stand behind this text and that the type of no file has.
fn keys_taken_out(before: &str) -> &'static [&'static str] {
    // The last header, or the part of one before its last key: both name the table.
    let header = before.lines().rev().map(str::trim).find(|line| line.starts_with('['));
    match header.map_or("", |header| header.trim_matches(['[', ']', '.'])) {
        "" => &[KIND_KEY, SECTION],
        SECTION => &[STATEMENTS],
        _ => &[],
    }
}
