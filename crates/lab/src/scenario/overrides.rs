use crate::accuracy::keywords::{BottleneckKind, CrossKind, CrossSource, Transport};
use crate::fairness::DisciplineChoice;
use crate::multipath::Plane;
use kumade_estimate::MethodSettings;
use kumade_sim::atlas::PathKind;
use kumade_units::{Direction, Rate, Span};

/// Parts of a scenario given on the command line; what is absent or empty leaves the file's as it is.
#[derive(Debug, Clone, Default, PartialEq)]
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
}

impl Overrides {
    /// An option given that only experiments on accuracy have, as the command line calls it.
    pub(super) fn accuracy_only_option(&self) -> Option<&'static str> {
        let given = [
            ("--cross", !self.cross.is_empty()),
            ("--cross-kind", self.cross_kind.is_some()),
            ("--cross-source", self.cross_source.is_some()),
            ("--transport", !self.transports.is_empty()),
            ("--method", !self.methods.is_empty()),
            ("--direction", !self.directions.is_empty()),
        ];
        first_given(&given)
    }

    /// An option given that experiments on accuracy do not have.
    pub(super) fn option_unsupported_by_accuracy(&self) -> Option<&'static str> {
        let given = [
            ("--row", !self.rows.is_empty()),
            ("--duration", self.duration.is_some()),
            ("--warm-up", self.warm_up.is_some()),
        ];
        let others =
            self.disciplines_only_option().or(self.several_paths_only_option()).or(self.sessions_only_option());
        others.or(self.atlas_only_option()).or(first_given(&given))
    }

    /// An option given that experiments on paths of many kinds do not have.
    pub(super) fn option_unsupported_by_atlas(&self) -> Option<&'static str> {
        let others =
            self.disciplines_only_option().or(self.one_rate_only_option()).or(self.several_paths_only_option());
        others.or(self.sessions_only_option()).or(self.chosen_measurements_only_option())
    }

    /// An option given that experiments do not have which make full measurements of their own paths.
    fn chosen_measurements_only_option(&self) -> Option<&'static str> {
        let given = [
            ("--cross", !self.cross.is_empty()),
            ("--cross-kind", self.cross_kind.is_some()),
            ("--cross-source", self.cross_source.is_some()),
            ("--method", !self.methods.is_empty()),
            ("--direction", !self.directions.is_empty()),
            ("--row", !self.rows.is_empty()),
            ("--duration", self.duration.is_some()),
            ("--warm-up", self.warm_up.is_some()),
        ];
        first_given(&given)
    }

    /// An option given that experiments on fast links do not have.
    pub(super) fn option_unsupported_by_fast_links(&self) -> Option<&'static str> {
        let others =
            self.disciplines_only_option().or(self.several_paths_only_option()).or(self.sessions_only_option());
        others.or(self.atlas_only_option()).or(self.chosen_measurements_only_option())
    }

    /// An option given that a monitored mesh does not have: all but how long it runs.
    pub(super) fn option_unsupported_by_monitor_mesh(&self) -> Option<&'static str> {
        let given =
            [("--row", !self.rows.is_empty()), ("--runs", self.runs.is_some()), ("--warm-up", self.warm_up.is_some())];
        let others = self.accuracy_only_option().or(self.disciplines_only_option()).or(self.one_rate_only_option());
        let others = others.or(self.several_paths_only_option()).or(self.sessions_only_option());
        others.or(self.atlas_only_option()).or(first_given(&given))
    }

    /// An option given that experiments on NAT sessions do not have.
    pub(super) fn option_unsupported_by_sessions(&self) -> Option<&'static str> {
        let given = [("--duration", self.duration.is_some()), ("--warm-up", self.warm_up.is_some())];
        let others = self.accuracy_only_option().or(self.disciplines_only_option()).or(self.one_rate_only_option());
        others.or(self.several_paths_only_option()).or(self.atlas_only_option()).or(first_given(&given))
    }

    /// An option given that only experiments on NAT sessions have.
    pub(super) fn sessions_only_option(&self) -> Option<&'static str> {
        first_given(&[("--idle", self.idle.is_some())])
    }

    /// An option given that only experiments on paths of many kinds have.
    pub(super) fn atlas_only_option(&self) -> Option<&'static str> {
        first_given(&[("--kind", !self.kinds.is_empty())])
    }

    /// An option given that only experiments with one bottleneck and its queue have.
    pub(super) fn disciplines_only_option(&self) -> Option<&'static str> {
        first_given(&[("--discipline", !self.disciplines.is_empty()), ("--delay", !self.delays.is_empty())])
    }

    /// An option given that only experiments with one bottleneck have.
    pub(super) fn one_rate_only_option(&self) -> Option<&'static str> {
        first_given(&[("--rate", self.rate.is_some())])
    }

    /// An option given that only experiments on several paths have.
    pub(super) fn several_paths_only_option(&self) -> Option<&'static str> {
        first_given(&[("--plane", !self.planes.is_empty())])
    }
}

fn first_given(given: &[(&'static str, bool)]) -> Option<&'static str> {
    given.iter().find_map(|(option, given)| given.then_some(*option))
}

/// Replaces a list by one that was given.
pub(super) fn replace_list<T: Clone>(part: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *part = given.to_vec();
    }
}

/// Leaves the cases of these numbers, counted from 1; all where there are none.
///
/// # Errors
/// Names the number of which there is no case.
pub(super) fn choose_cases<T>(cases: &mut Vec<T>, numbers: &[u32]) -> Result<(), String> {
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
