//! One scenario for several paths and kinds of cross traffic.

use crate::accuracy::path::{Bottleneck, BottleneckKind, Later};
use crate::accuracy::scenario::{Cross, CrossKind, Method, Scenario, rates};
use serde::Deserialize;
use units::Rate;

/// What is varied besides the levels of cross traffic: every combination is a scenario of its own, one behind the other.
/// What is not named stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sweep {
    /// Rates of the bottleneck, up; levels of cross traffic keep their share of it.
    #[serde(deserialize_with = "rates")]
    pub rates: Vec<Rate>,
    /// Rates of the bottleneck, down.
    #[serde(deserialize_with = "rates")]
    pub down_rates: Vec<Rate>,
    /// How cross traffic comes. What none is equals what none is: only the first kind is measured without any. Under a
    /// virtual clock there is no TCP, which is left out there.
    pub kinds: Vec<CrossKind>,
    /// The last exponents of `pathtester-classic`; other methods are measured with the first one only.
    pub last_iunits: Vec<u32>,
}

/// A further path on which the same is measured. What is not named is as on the first one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// The link that limits it. Who shapes it is the first one's.
    pub bottleneck: Option<Bottleneck>,
    /// A faster link behind it.
    pub later: Option<Later>,
    /// What else is on the bottleneck.
    pub cross: Option<Cross>,
    /// What is varied there.
    pub sweep: Option<Sweep>,
}

impl Scenario {
    /// The scenarios that this one stands for, without a sweep and further paths of their own, in the order of running.
    pub fn variants(&self) -> Vec<Scenario> {
        let mut first = self.clone();
        let also = std::mem::take(&mut first.also);
        let mut variants = first.swept();
        variants.extend(also.into_iter().flat_map(|also| first.on(also).swept()));
        variants
    }

    /// The same on another path.
    fn on(&self, path: Also) -> Scenario {
        let mut other = self.clone();
        if let Some(bottleneck) = path.bottleneck {
            other.bottleneck = Bottleneck { kind: self.bottleneck.kind, ..bottleneck };
        }
        other.later = path.later.or(other.later);
        other.cross = path.cross.unwrap_or(other.cross);
        other.sweep = path.sweep.unwrap_or(other.sweep);
        other
    }

    fn swept(&self) -> Vec<Scenario> {
        let mut single = self.clone();
        let Sweep { rates, down_rates, mut kinds, last_iunits } = std::mem::take(&mut single.sweep);
        if self.leaves_tcp_out() {
            kinds.retain(|kind| *kind != CrossKind::Tcp);
        }
        let mut variants = vec![single];
        vary(&mut variants, &rates, |scenario, &rate, _| scenario.scale_to(rate));
        vary(&mut variants, &down_rates, |scenario, &rate, _| scenario.bottleneck.down_rate = Some(rate));
        vary(&mut variants, &kinds, |scenario, &kind, first| {
            scenario.cross.kind = kind;
            scenario.cross.levels.retain(|level| first || *level > Rate::ZERO);
        });
        vary(&mut variants, &last_iunits, |scenario, &last, first| {
            scenario.last_iunit = last;
            scenario.methods.retain(|method| first || *method == Method::PathTesterClassic);
        });
        variants
    }

    /// Whether cross traffic by TCP is among what is varied, and cannot be had.
    pub fn leaves_tcp_out(&self) -> bool {
        let kinds = &self.sweep.kinds;
        self.bottleneck.kind == BottleneckKind::Virtual && kinds.len() > 1 && kinds.contains(&CrossKind::Tcp)
    }

    /// How many runs all variants have.
    pub fn runs_in_all(&self) -> usize {
        self.variants().iter().map(|variant| variant.points().len()).sum()
    }

    /// Sets the bottleneck's rate; levels of cross traffic keep their share of it.
    pub(crate) fn scale_to(&mut self, rate: Rate) {
        let before = self.bottleneck.rate.as_f64();
        let elsewhere = self.also.iter_mut().filter(|path| path.bottleneck.is_none());
        let crosses = elsewhere.filter_map(|path| path.cross.as_mut()).chain([&mut self.cross]);
        for level in crosses.flat_map(|cross| &mut cross.levels) {
            *level = Rate::from_f64(level.as_f64() * rate.as_f64() / before);
        }
        self.bottleneck.rate = rate;
    }

    /// The cross traffic of this and of further paths.
    pub(crate) fn crosses(&mut self) -> impl Iterator<Item = &mut Cross> {
        self.also.iter_mut().filter_map(|path| path.cross.as_mut()).chain([&mut self.cross])
    }

    /// What is varied on this and on further paths.
    pub(crate) fn sweeps(&mut self) -> impl Iterator<Item = &mut Sweep> {
        self.also.iter_mut().filter_map(|path| path.sweep.as_mut()).chain([&mut self.sweep])
    }
}

/// Each of `variants` with each of `values`; `set` is told whether it is the first of these.
fn vary<T>(variants: &mut Vec<Scenario>, values: &[T], set: impl Fn(&mut Scenario, &T, bool)) {
    if values.is_empty() {
        return;
    }
    let with = |variant: &Scenario, index: usize, value: &T| {
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

    fn swept(text: &str) -> Scenario {
        let accuracy = include_str!("../../scenarios/rake-accuracy.toml");
        Scenario::from_toml(&format!("{accuracy}\n[sweep]\n{text}"), "own.toml").unwrap()
    }

    #[test]
    fn levels_keep_their_share_of_each_rate_and_none_is_measured_once() {
        let variants = swept("rates = [\"1mbit\", \"500mbit\"]\nkinds = [\"constant\", \"tcp\"]").variants();
        assert_eq!(variants.len(), 4);
        assert!(variants.iter().all(|variant| variant.sweep == Sweep::default()));
        assert_eq!(variants[2].cross.levels[9], Rate::from_mbit(450));
        assert_eq!(variants.iter().map(|v| v.cross.levels.len()).collect::<Vec<_>>(), [10, 9, 10, 9]);
    }

    #[test]
    fn only_the_scanning_method_is_measured_with_each_range() {
        let mut scenario = swept("last_iunits = [15, 16]");
        scenario.methods = vec![Method::Primed, Method::PathTesterClassic];
        let methods: Vec<_> = scenario.variants().into_iter().map(|v| (v.last_iunit, v.methods.len())).collect();
        assert_eq!(methods, [(15, 2), (16, 1)]);
        assert_eq!(scenario.runs_in_all(), 10 * 2 * 5 * 3);
    }

    #[test]
    fn a_virtual_path_has_no_tcp() {
        let mut scenario = swept("kinds = [\"poisson\", \"tcp\"]");
        assert_eq!((scenario.variants().len(), scenario.leaves_tcp_out()), (2, false));
        scenario.bottleneck.kind = BottleneckKind::Virtual;
        assert!(scenario.leaves_tcp_out());
        assert_eq!(scenario.variants().len(), 1);
    }

    #[test]
    fn further_paths_differ_in_what_they_name() {
        let text = "rates = [\"10mbit\", \"100mbit\"]
            [[also]]
            later = { faster = 4, delay = \"1ms\", queue = \"64kb\", kind = \"poisson\", load = \"50%\" }
            [[also]]
            bottleneck = { rate = \"10mbit\", burst = \"10000\", peak_rate = \"1gbit\", delay = \"5ms\", queue = \"64kb\" }
            cross = { kind = \"constant\", levels = [\"0mbit\"] }
            sweep = {}";
        let variants = swept(text).variants();
        let later: Vec<_> = variants.iter().map(|v| v.later.map(|later| later.cross(v.bottleneck.rate))).collect();
        assert_eq!(later, [None, None, Some(Rate::from_mbit(20)), Some(Rate::from_mbit(200)), None]);
        assert_eq!(variants.iter().map(|v| v.cross.levels.len()).collect::<Vec<_>>(), [10, 10, 10, 10, 1]);
        let shaper = variants[4].bottleneck.shaper().unwrap();
        assert_eq!((shaper.burst_bytes, shaper.peak_rate), (10_000, Rate::from_mbit(1000)));
        assert!(variants.iter().all(|variant| variant.also.is_empty()));
    }

    #[test]
    fn a_variant_that_cannot_be_run_is_refused() {
        let text = "rates = [\"1mbit\", \"9\"]";
        let accuracy = include_str!("../../scenarios/rake-accuracy.toml");
        let error = Scenario::from_toml(&format!("{accuracy}\n[sweep]\n{text}"), "own.toml").unwrap_err();
        assert!(error.to_string().contains("choose 100 kbit/s"), "{error}");
    }
}
