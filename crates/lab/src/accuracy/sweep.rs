//! One scenario file for several paths and kinds of cross traffic.

use crate::accuracy::keywords::{BottleneckKind, CrossKind};
use crate::accuracy::path::{Bottleneck, DownstreamHop};
use crate::accuracy::scenario::{AccuracyScenario, CrossTraffic};
use crate::values::rates;
use kumade_units::Rate;
use serde::Deserialize;

/// What is varied besides the levels of cross traffic: every combination is a scenario of its own, one after the other.
/// What is not named stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sweep {
    /// Rates of the bottleneck, up; levels of cross traffic keep their share of it.
    #[serde(deserialize_with = "rates")]
    pub(super) rates: Vec<Rate>,
    /// Rates of the bottleneck, down.
    #[serde(deserialize_with = "rates")]
    pub(super) down_rates: Vec<Rate>,
    /// How cross traffic comes. No traffic of any kind is the same: only the first kind is measured at level zero. In
    /// virtual time there is no TCP, which is left out there.
    pub(super) kinds: Vec<CrossKind>,
}

/// A further path on which the same is measured. What is not named is as on the first one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdditionalPath {
    /// The link that limits it. What implements it is the same as on the first path.
    pub(super) bottleneck: Option<Bottleneck>,
    /// A faster link behind it.
    pub(super) downstream_hop: Option<DownstreamHop>,
    /// Other traffic on the bottleneck.
    pub(super) cross: Option<CrossTraffic>,
    /// What is varied there.
    pub(super) sweep: Option<Sweep>,
}

impl AdditionalPath {
    /// What is measured on the first path, on this one.
    pub(super) fn on_path_of(&self, first: &AccuracyScenario) -> AccuracyScenario {
        let kind = first.bottleneck.kind;
        let own = |bottleneck: &Bottleneck| Bottleneck { kind, ..bottleneck.clone() };
        AccuracyScenario {
            bottleneck: self.bottleneck.as_ref().map_or_else(|| first.bottleneck.clone(), own),
            downstream_hop: self.downstream_hop.or(first.downstream_hop),
            cross: self.cross.as_ref().unwrap_or(&first.cross).clone(),
            ..first.clone()
        }
    }
}

impl Sweep {
    /// Every combination of what is varied, from that scenario.
    pub(super) fn expand(&self, scenario: &AccuracyScenario) -> Vec<AccuracyScenario> {
        let mut kinds = self.kinds.clone();
        if self.excludes_tcp(&scenario.bottleneck) {
            kinds.retain(|kind| *kind != CrossKind::Tcp);
        }
        let mut variants = vec![scenario.clone()];
        vary_parameter(&mut variants, &self.rates, |scenario, &rate, _| {
            scale_bottleneck(&mut scenario.bottleneck, [&mut scenario.cross], rate);
        });
        vary_parameter(&mut variants, &self.down_rates, |scenario, &rate, _| {
            scenario.bottleneck.down_rate = Some(rate)
        });
        vary_parameter(&mut variants, &kinds, |scenario, &kind, first| {
            scenario.cross.kind = kind;
            scenario.cross.levels.retain(|level| first || *level > Rate::ZERO);
        });
        variants
    }

    /// Whether cross traffic by TCP is among what is varied, and does not exist on that bottleneck.
    pub(super) fn excludes_tcp(&self, bottleneck: &Bottleneck) -> bool {
        bottleneck.kind == BottleneckKind::Virtual && self.kinds.len() > 1 && self.kinds.contains(&CrossKind::Tcp)
    }
}

/// Sets the bottleneck's rate; levels of cross traffic keep their share of it.
pub(super) fn scale_bottleneck<'a>(
    bottleneck: &mut Bottleneck,
    crosses: impl IntoIterator<Item = &'a mut CrossTraffic>,
    rate: Rate,
) {
    for level in crosses.into_iter().flat_map(|cross| &mut cross.levels) {
        *level = Rate::from_f64(level.as_f64() * rate.as_f64() / bottleneck.rate.as_f64());
    }
    bottleneck.rate = rate;
}

/// Each of `variants` with each of `values`; the last argument of `set` is whether it is the first of these.
fn vary_parameter<T>(
    variants: &mut Vec<AccuracyScenario>,
    values: &[T],
    set: impl Fn(&mut AccuracyScenario, &T, bool),
) {
    if values.is_empty() {
        return;
    }
    let with = |variant: &AccuracyScenario, index: usize, value: &T| {
        let mut variant = variant.clone();
        set(&mut variant, value, index == 0);
        variant
    };
    let all = variants.iter().flat_map(|variant| values.iter().enumerate().map(|(i, value)| with(variant, i, value)));
    *variants = all.collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::AccuracyExperiment;
    use crate::error::ScenarioError;
    use crate::study::{Experiment, Overrides};

    fn read(text: &str, overrides: &Overrides) -> Result<AccuracyExperiment, ScenarioError> {
        let accuracy = include_str!("../../scenarios/rake-accuracy.toml");
        let no_table = |_: &str| unreachable!("it names none");
        let text = format!("{accuracy}\n[sweep]\n{text}");
        Experiment::from_toml(&text, "own.toml", &no_table, overrides)
            .map(|read| read.into_scenario::<AccuracyExperiment>().unwrap())
    }

    fn swept(text: &str) -> AccuracyExperiment {
        read(text, &Overrides::default()).unwrap()
    }

    #[test]
    fn levels_keep_their_share_of_each_rate_and_none_is_measured_once() {
        let scenarios = swept("rates = [\"1mbit\", \"500mbit\"]\nkinds = [\"constant\", \"tcp\"]").scenarios;
        assert_eq!(scenarios.len(), 4);
        assert_eq!(scenarios[2].cross.levels[9], Rate::from_mbit(450));
        assert_eq!(scenarios.iter().map(|s| s.cross.levels.len()).collect::<Vec<_>>(), [10, 9, 10, 9]);
    }

    #[test]
    fn a_virtual_path_has_no_tcp() {
        let text = "kinds = [\"poisson\", \"tcp\"]";
        let real = swept(text);
        assert_eq!((real.scenarios.len(), real.excludes_tcp), (2, false));
        let with = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        let virtual_time = read(text, &with).unwrap();
        assert_eq!((virtual_time.scenarios.len(), virtual_time.excludes_tcp), (1, true));
    }

    #[test]
    fn additional_paths_differ_in_what_they_name() {
        let text = "rates = [\"10mbit\", \"100mbit\"]
            [[additional_paths]]
            downstream_hop = { rate_ratio = 4, delay = \"1ms\", queue = \"64kb\", kind = \"poisson\", load = \"50%\" }
            [[additional_paths]]
            bottleneck = { rate = \"10mbit\", burst = \"10000b\", peak_rate = \"1gbit\", delay = \"5ms\", queue = \"64kb\" }
            cross = { kind = \"constant\", levels = [\"0mbit\"] }
            sweep = {}";
        let scenarios = swept(text).scenarios;
        let hops: Vec<_> =
            scenarios.iter().map(|s| s.downstream_hop.map(|hop| hop.cross_traffic_rate(s.bottleneck.rate))).collect();
        assert_eq!(hops, [None, None, Some(Rate::from_mbit(20)), Some(Rate::from_mbit(200)), None]);
        assert_eq!(scenarios.iter().map(|s| s.cross.levels.len()).collect::<Vec<_>>(), [10, 10, 10, 10, 1]);
        let shaper = scenarios[4].bottleneck.shaper().unwrap();
        assert_eq!((shaper.burst_bytes, shaper.peak_rate), (10_000, Rate::from_mbit(1000)));
    }

    #[test]
    fn a_variant_that_cannot_be_run_is_refused() {
        let error = read("rates = [\"1mbit\", \"9bit\"]", &Overrides::default()).unwrap_err();
        assert!(error.to_string().contains("choose 100 kbit/s"), "{error}");
    }
}
