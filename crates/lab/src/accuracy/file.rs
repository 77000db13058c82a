use super::path_checks;
use super::sweep::{AdditionalPath, Sweep, scale_bottleneck};
use crate::accuracy::AccuracyExperiment;
use crate::accuracy::firewall::FirewallRule;
use crate::accuracy::full_measurement::AccuracyLimits;
use crate::accuracy::keywords::{BottleneckKind, Transport};
use crate::accuracy::path::{Bottleneck, DownstreamHop};
use crate::accuracy::published::PublishedResult;
use crate::accuracy::scenario::{AccuracyScenario, CrossTraffic};
use crate::paper::Paper;
use crate::study::checks::check_name;
use crate::study::{FindFile, Head, Overrides, Scenario, replace_list};
use kumade_estimate::MethodSettings;
use kumade_units::{Direction, Rate};
use serde::Deserialize;

/// A scenario file about accuracy, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccuracyFile {
    name: String,
    title: String,
    transports: Vec<Transport>,
    methods: Vec<MethodSettings>,
    #[serde(default = "default_directions")]
    directions: Vec<Direction>,
    runs: u32,
    #[serde(default)]
    full: bool,
    /// What is varied besides the levels of cross traffic.
    #[serde(default)]
    sweep: Sweep,
    #[serde(default)]
    timeline: bool,
    paper: Option<Paper>,
    #[serde(default)]
    published: Vec<PublishedResult>,
    #[serde(default)]
    limits: AccuracyLimits,
    bottleneck: Bottleneck,
    downstream_hop: Option<DownstreamHop>,
    cross: CrossTraffic,
    /// Further paths on which the same is measured.
    #[serde(default)]
    additional_paths: Vec<AdditionalPath>,
    #[serde(default)]
    firewall: Vec<FirewallRule>,
}

impl Scenario for AccuracyExperiment {
    const KIND: &'static str = "accuracy";
    const ABOUT: &'static str = "experiments on accuracy";
    const OPTIONS: &'static [&'static str] =
        &["--cross", "--cross-kind", "--cross-source", "--transport", "--method", "--direction", "--rate", "--runs"];
    type File = AccuracyFile;

    fn from_file(file: AccuracyFile, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.into_experiment(given)
    }

    fn head(&self) -> Head<'_> {
        let is_virtual = self.base_scenario.bottleneck.kind == BottleneckKind::Virtual;
        Head { name: &self.name, title: &self.title, paper: self.paper.as_ref(), is_virtual }
    }
}

impl AccuracyFile {
    /// The experiment that it describes, with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result contradicts itself.
    fn into_experiment(mut self, overrides: &Overrides) -> Result<AccuracyExperiment, String> {
        self.apply_overrides(overrides);
        self.check_lists()?;
        let stated = self.stated_scenario();
        let scenarios = self.expand_scenarios(&stated);
        scenarios.iter().try_for_each(path_checks::check)?;
        Ok(AccuracyExperiment {
            excludes_tcp: self.sweep.excludes_tcp(&self.bottleneck),
            name: self.name,
            title: self.title,
            paper: self.paper,
            published: self.published,
            limits: self.limits,
            base_scenario: stated,
            scenarios,
        })
    }

    fn apply_overrides(&mut self, given: &Overrides) {
        let (rate, kind) = (self.bottleneck.rate, self.cross.kind);
        if let Some(rate) = given.rate {
            self.additional_paths.retain(|path| path.bottleneck.is_none());
            self.scale_to(rate);
            self.sweeps_mut().for_each(|sweep| sweep.rates.clear());
        }
        if let Some(kind) = given.cross_kind {
            self.cross_traffic_mut().for_each(|cross| cross.kind = kind);
            self.sweeps_mut().for_each(|sweep| sweep.kinds.clear());
        }
        if !given.cross.is_empty() {
            self.additional_paths.retain(|path| path.cross.is_none());
        }
        self.cross_traffic_mut().for_each(|cross| cross.source = given.cross_source.or(cross.source));
        self.bottleneck.kind = given.bottleneck.unwrap_or(self.bottleneck.kind);
        self.runs = given.runs.unwrap_or(self.runs);
        replace_list(&mut self.cross.levels, &given.cross);
        replace_list(&mut self.transports, &given.transports);
        replace_list(&mut self.methods, &given.methods);
        replace_list(&mut self.directions, &given.directions);
        if (self.bottleneck.rate, self.cross.kind) != (rate, kind) {
            // They are about another path.
            self.published.clear();
        }
    }

    /// Sets the bottleneck's rate; levels of cross traffic keep their share of it.
    fn scale_to(&mut self, rate: Rate) {
        let crosses = self.additional_paths.iter_mut().filter_map(|path| path.cross.as_mut()).chain([&mut self.cross]);
        scale_bottleneck(&mut self.bottleneck, crosses, rate);
    }

    fn cross_traffic_mut(&mut self) -> impl Iterator<Item = &mut CrossTraffic> {
        self.additional_paths.iter_mut().filter_map(|path| path.cross.as_mut()).chain([&mut self.cross])
    }

    fn sweeps_mut(&mut self) -> impl Iterator<Item = &mut Sweep> {
        self.additional_paths.iter_mut().filter_map(|path| path.sweep.as_mut()).chain([&mut self.sweep])
    }

    fn check_lists(&self) -> Result<(), String> {
        check_name(&self.name)?;
        let lists = [
            ("transports", self.transports.len()),
            ("methods", self.methods.len()),
            ("directions", self.directions.len()),
            ("cross.levels", self.cross.levels.len()),
            ("runs", self.runs as usize),
        ];
        if let Some((list, _)) = lists.iter().find(|(_, len)| *len == 0) {
            return Err(format!("with no {list} there is nothing to do; name at least one"));
        }
        Ok(())
    }

    /// Every path with everything that is varied, in the order of running.
    fn expand_scenarios(&self, stated: &AccuracyScenario) -> Vec<AccuracyScenario> {
        let mut scenarios = self.sweep.expand(stated);
        for path in &self.additional_paths {
            scenarios.extend(path.sweep.as_ref().unwrap_or(&self.sweep).expand(&path.on_path_of(stated)));
        }
        scenarios
    }

    /// The first path, before anything is varied.
    fn stated_scenario(&self) -> AccuracyScenario {
        AccuracyScenario {
            transports: self.transports.clone(),
            methods: self.methods.clone(),
            directions: self.directions.clone(),
            runs: self.runs,
            makes_full_measurement: self.full,
            keeps_timeline: self.timeline,
            bottleneck: self.bottleneck.clone(),
            downstream_hop: self.downstream_hop,
            cross: self.cross.clone(),
            firewall: self.firewall.clone(),
        }
    }
}

fn default_directions() -> Vec<Direction> {
    vec![Direction::Up]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::keywords::{BottleneckKind, CrossKind, CrossSource};
    use crate::error::ScenarioError;
    use crate::scenario::load;
    use crate::study::Experiment;
    use kumade_estimate::PathTesterClassicConfig;

    const ACCURACY: &str = include_str!("../../scenarios/rake-accuracy.toml");

    fn overridden(name: &str, with: &Overrides) -> Result<AccuracyExperiment, ScenarioError> {
        load(name, with).map(|experiment| experiment.into_scenario::<AccuracyExperiment>().unwrap())
    }

    fn named(name: &str) -> AccuracyExperiment {
        overridden(name, &Overrides::default()).unwrap()
    }

    fn read(text: &str) -> Result<Experiment, ScenarioError> {
        Experiment::from_toml(text, "own.toml", &|_| unreachable!("it names none"), &Overrides::default())
    }

    #[test]
    fn rake_accuracy_is_the_papers_set_up() {
        // "c を 0 Mbps から 90 Mbps まで 10 Mbps 刻み", five runs each, a hub of 100 Mbit/s (PathRakeTCP, 5.1).
        let experiment = named("rake-accuracy");
        let [scenario] = &experiment.scenarios[..] else { panic!("{experiment:?}") };
        let levels: Vec<_> = (0..10).map(|c| Rate::from_mbit(c * 10)).collect();
        assert_eq!((&scenario.cross.levels, scenario.runs), (&levels, 5));
        assert_eq!(scenario.bottleneck.rate, Rate::from_mbit(100));
        let published = experiment.published.iter();
        let errors: Vec<_> = published.filter_map(|p| Some(p.mean_absolute_error?.bits_per_second())).collect();
        assert_eq!(errors, [15_600_000, 18_200_000]);
    }

    #[test]
    fn the_testers_experiments_are_the_papers_set_ups() {
        // Table 5: "Out 方向のボトルネック回線速度を 5Mbps", cross traffic of 0, 0.5, 1.5 and 3.0 Mbit/s.
        let pathload = named("tester-pathload");
        assert_eq!(pathload.base_scenario.bottleneck.rate, Rate::from_mbit(5));
        let levels: Vec<_> = [0, 500, 1500, 3000].map(|kbit| Rate::from_bits_per_second(kbit * 1000)).to_vec();
        assert_eq!((&pathload.scenarios[0].cross.levels, pathload.published.len()), (&levels, 8));
        // Table 1: 100 kbit/s out, all else 100 Mbit/s; iunit 0–15 to 0–20.
        let range = named("tester-range");
        let rates = Direction::BOTH.map(|direction| range.base_scenario.bottleneck.rate_in(direction));
        assert_eq!(rates, [Rate::from_bits_per_second(100_000), Rate::from_mbit(100)]);
        let classic = |method: &MethodSettings| Some(method.config::<PathTesterClassicConfig>()?.last_iunit);
        let ranges: Vec<_> = range.base_scenario.methods.iter().filter_map(classic).collect();
        assert_eq!(ranges, [15, 16, 17, 18, 19, 20]);
        // Tables 2, 3 and 6: ADSL, 1 Mbit/s up, 24 and 12 down.
        let down: Vec<_> = named("tester-time").scenarios.iter().filter_map(|s| s.bottleneck.down_rate).collect();
        assert_eq!(down, [Rate::from_mbit(24), Rate::from_mbit(12)]);
        let rates: Vec<_> = named("method-comparison").scenarios.iter().map(|s| s.bottleneck.rate).collect();
        assert_eq!((rates.first(), rates.last()), (Some(&Rate::from_mbit(1)), Some(&Rate::from_mbit(500))));
    }

    #[test]
    fn udp_is_rejected_only_where_it_is_not_what_is_measured() {
        let rules = |name: &str, transport| named(name).scenarios[0].firewall_for(transport).count();
        assert_eq!(rules("rake-accuracy", Transport::Rake), 1);
        assert_eq!(rules("rake-accuracy", Transport::Udp), 0);
        assert_eq!(rules("rake-firewall", Transport::Udp), 1);
    }

    #[test]
    fn every_combination_is_run_and_runs_are_outermost() {
        let points = named("rake-accuracy").scenarios[0].points();
        assert_eq!(points.len(), 10 * 2 * 2 * 5);
        assert!(points.windows(2).all(|pair| pair[0].run <= pair[1].run));
    }

    #[test]
    fn another_rate_keeps_the_share_of_cross_traffic() {
        let levels = |with: &Overrides| overridden("rake-accuracy", with).unwrap().scenarios[0].cross.levels.clone();
        let with = Overrides { rate: Some(Rate::from_mbit(5)), ..Overrides::default() };
        assert_eq!(levels(&with)[9], Rate::from_bits_per_second(4_500_000));
        let with = Overrides { cross: vec![Rate::from_mbit(2)], ..with };
        assert_eq!(levels(&with), [Rate::from_mbit(2)]);
    }

    #[test]
    fn published_figures_are_not_compared_with_another_path() {
        let published = |with: Overrides| overridden("rake-accuracy", &with).unwrap().published.len();
        assert_eq!(published(Overrides { runs: Some(1), cross: vec![Rate::ZERO], ..Default::default() }), 2);
        assert_eq!(published(Overrides { rate: Some(Rate::from_mbit(5)), ..Default::default() }), 0);
        assert_eq!(published(Overrides { cross_kind: Some(CrossKind::Poisson), ..Default::default() }), 0);
    }

    #[test]
    fn tcp_is_sent_and_may_exceed_the_bottleneck() {
        let cross_source =
            |with: &Overrides| overridden("rake-accuracy", with).map(|read| read.scenarios[0].cross_source());
        let tcp =
            Overrides { cross_kind: Some(CrossKind::Tcp), cross: vec![Rate::from_mbit(200)], ..Default::default() };
        assert_eq!(cross_source(&tcp).unwrap(), CrossSource::Packets);
        let error = cross_source(&Overrides { cross_source: Some(CrossSource::Link), ..tcp }).unwrap_err().to_string();
        assert!(error.contains("cannot be computed in the link"), "{error}");
        let htb = Overrides { bottleneck: Some(BottleneckKind::Htb), ..Default::default() };
        assert_eq!(cross_source(&htb).unwrap(), CrossSource::Packets);
        assert_eq!(cross_source(&Overrides::default()).unwrap(), CrossSource::Link);
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let refused = |with: Overrides, part: &str| {
            let error = overridden("rake-accuracy", &with).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let (slow, fast) = (Rate::from_bits_per_second(9), Rate::from_mbit(20_000));
        refused(Overrides { cross: vec![Rate::from_mbit(100)], ..Default::default() }, "leaves nothing");
        refused(Overrides { runs: Some(0), ..Default::default() }, "no runs");
        refused(Overrides { rate: Some(slow), ..Default::default() }, "choose 100 kbit/s to 10 Gbit/s");
        refused(Overrides { rate: Some(fast), ..Default::default() }, "choose 100 kbit/s to 10 Gbit/s");
        refused(Overrides { runs: Some(u32::MAX), ..Default::default() }, "the maximum is 10000");
        refused(Overrides { rows: vec![1], ..Default::default() }, "--row does not apply to experiments on accuracy");
    }

    #[test]
    fn a_part_given_leaves_out_the_paths_that_have_their_own() {
        let scenarios = |with: Overrides| overridden("tester-capacity", &with).unwrap().scenarios;
        let (kinds, rates) = (2, 3);
        let (plain, hops, bucket) = (kinds * rates, 2 * kinds * rates, 1);
        assert_eq!(scenarios(Overrides::default()).len(), plain + hops + bucket);
        let rate = Overrides { rate: Some(Rate::from_mbit(5)), ..Overrides::default() };
        assert_eq!(scenarios(rate).len(), kinds + 2 * kinds, "the token bucket has its own rate");
        let cross = Overrides { cross: vec![Rate::ZERO], ..Overrides::default() };
        assert_eq!(scenarios(cross).len(), plain, "all additional paths have their own cross traffic");
        let poisson = scenarios(Overrides { cross_kind: Some(CrossKind::Poisson), ..Overrides::default() });
        assert!(poisson.iter().all(|scenario| scenario.cross.kind == CrossKind::Poisson), "{poisson:?}");
        assert_eq!(poisson.len(), 3 * rates + bucket);
    }

    #[test]
    fn a_file_with_a_misspelt_key_names_the_line() {
        let error = read(&ACCURACY.replace("[cross]", "[crosstraffic]")).unwrap_err().to_string();
        assert!(error.contains("own.toml") && error.contains("crosstraffic"), "{error}");
        let error = read(&ACCURACY.replace("rate = \"100mbit\"", "rate = \"quick\"")).unwrap_err().to_string();
        assert!(error.contains("`quick` is not a rate") && error.contains("line "), "{error}");
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_reports_directory() {
        let text = ACCURACY.replace("name = \"rake-accuracy\"", "name = \"../elsewhere\"");
        assert!(matches!(read(&text), Err(ScenarioError::Invalid { .. })));
    }
}
