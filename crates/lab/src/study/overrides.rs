use crate::accuracy::keywords::{BottleneckKind, CrossKind, CrossSource, Transport};
use crate::fairness::DisciplineChoice;
use crate::multipath::Plane;
use kumade_estimate::MethodSettings;
use kumade_sim::atlas::PathKind;
use kumade_units::{Direction, Rate, Span};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Parts of a scenario given on the command line; what is absent or empty leaves the file's as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overrides {
    /// What implements the bottleneck.
    pub bottleneck: Option<BottleneckKind>,
    /// The bottleneck's rate; levels of cross traffic that are not given themselves keep their share of it. Additional
    /// paths that have a bottleneck of their own are left out.
    pub rate: Option<Rate>,
    /// Levels of cross traffic. Additional paths that have their own are left out.
    pub cross: Vec<Rate>,
    /// How the cross traffic's packets follow each other.
    pub cross_kind: Option<CrossKind>,
    /// Whether cross traffic is computed or sent.
    pub cross_source: Option<CrossSource>,
    /// What to measure over.
    pub transports: Vec<Transport>,
    /// The estimators.
    pub methods: Vec<MethodSettings>,
    /// The directions measured.
    pub directions: Vec<Direction>,
    /// How often each point is measured.
    pub runs: Option<u32>,
    /// Queue disciplines to compare.
    pub disciplines: Vec<DisciplineChoice>,
    /// Added round-trip delays.
    pub delays: Vec<Span>,
    /// Rows of a table of mixes; or cases of several paths or of NAT sessions, counted from 1.
    pub rows: Vec<u32>,
    /// Planes to compare on several paths.
    pub planes: Vec<Plane>,
    /// How long shares, or goodput, are measured.
    pub duration: Option<Span>,
    /// How long connections run before.
    pub warm_up: Option<Span>,
    /// How long NAT sessions may be idle.
    pub idle: Option<Span>,
    /// Kinds of paths of the atlas.
    pub kinds: Vec<PathKind>,
    /// What draws the first of the paths.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Whether it is run as it was published: over all points of its paper, whose statements are judged.
    pub as_published: bool,
}

impl Overrides {
    /// An option given that is not among these, as the command line calls it.
    pub(crate) fn unsupported_option(&self, supported: &[&str]) -> Option<&'static str> {
        self.given_options().into_iter().map(|(option, _)| option).find(|option| !supported.contains(option))
    }

    /// The options that replace parts of a scenario, as the command line calls them, each with its value; `--bottleneck`, which says where it
    /// is run, is none of these.
    pub(crate) fn given_options(&self) -> Vec<(&'static str, String)> {
        let options = [
            ("--cross", list(&self.cross)),
            ("--cross-kind", list(&self.cross_kind)),
            ("--cross-source", list(&self.cross_source)),
            ("--transport", list(&self.transports)),
            ("--method", list(&self.methods)),
            ("--direction", list(&self.directions)),
            ("--discipline", list(&self.disciplines)),
            ("--delay", list(&self.delays)),
            ("--plane", list(&self.planes)),
            ("--idle", list(&self.idle)),
            ("--kind", list(&self.kinds)),
            ("--rate", list(&self.rate)),
            ("--row", list(&self.rows)),
            ("--runs", list(&self.runs)),
            ("--duration", list(&self.duration)),
            ("--warm-up", list(&self.warm_up)),
            ("--seed", list(&self.seed)),
        ];
        options.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

fn list<'v, T: Display + 'v>(values: impl IntoIterator<Item = &'v T>) -> String {
    values.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Replaces a list by one that was given.
pub(crate) fn replace_list<T: Clone>(part: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *part = given.to_vec();
    }
}

/// Leaves the cases of these numbers, counted from 1; all where there are none.
///
/// # Errors
/// Names the number of which there is no case.
pub(crate) fn choose_cases<T>(cases: &mut Vec<T>, numbers: &[u32]) -> Result<(), String> {
    if let Some(missing) = numbers.iter().find(|number| !(1..=cases.len()).contains(&(**number as usize))) {
        return Err(format!("it has no case {missing}; they are counted from 1 to {}", cases.len()));
    }
    let mut number = 0;
    cases.retain(|_| {
        number += 1;
        numbers.is_empty() || numbers.contains(&number)
    });
    Ok(())
}
