use crate::accuracy::BottleneckKind;
use crate::accuracy::{Carrier, CrossKind, FirewallRule, Method, Point, Scenario, Transport};
use crate::fairness::DisciplineChoice;
use std::ops::RangeInclusive;
use thiserror::Error;
use units::Direction;
use units::{Rate, Span};

/// Parts of a scenario given on the command line; none leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// Who shapes the bottleneck.
    pub bottleneck: Option<BottleneckKind>,
    /// The bottleneck's rate; levels of cross traffic that are not given themselves keep their share of it. Further paths
    /// that have a bottleneck of their own are left out.
    pub rate: Option<Rate>,
    /// Levels of cross traffic. Further paths that have their own are left out.
    pub cross: Vec<Rate>,
    /// How the cross traffic's packets follow each other.
    pub cross_kind: Option<CrossKind>,
    /// Whether cross traffic is computed or sent.
    pub cross_by: Option<Carrier>,
    /// What to measure over.
    pub transports: Vec<Transport>,
    /// The estimators.
    pub methods: Vec<Method>,
    /// Which ways.
    pub directions: Vec<Direction>,
    /// How often each point is measured.
    pub runs: Option<u32>,
    /// Queue disciplines to compare.
    pub disciplines: Vec<DisciplineChoice>,
    /// Added round-trip delays.
    pub delays: Vec<Span>,
    /// Rows of a table of mixes.
    pub rows: Vec<u32>,
    /// How long shares are measured.
    pub duration: Option<Span>,
    /// How long connections run before.
    pub warm_up: Option<Span>,
}

/// Why there is no such experiment, or why it can't be run.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// No experiment of that name comes with this program.
    #[error("there is no experiment `{name}`; `kumade lab list` shows the names, a scenario file's ends in .toml")]
    Unknown {
        /// As given.
        name: String,
    },
    /// A file that is not there, or not readable.
    #[error("cannot read the scenario file {path}: {cause}")]
    Unreadable {
        /// As given.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A file that is not a scenario.
    #[error("{origin} is not a scenario: {cause}")]
    Malformed {
        /// The file or the built-in experiment.
        origin: String,
        /// Where and why.
        cause: Box<toml::de::Error>,
    },
    /// A scenario that cannot be run.
    #[error("{name} cannot be run: {reason}")]
    Senseless {
        /// The scenario's.
        name: String,
        /// What is wrong and what to change.
        reason: String,
    },
}

/// What keeps an experiment's memory and time within what a machine has.
pub(crate) const MAX_RUNS: u32 = 10_000;
pub(crate) const MIN_RATE: Rate = Rate::from_bits_per_second(100_000);
pub(crate) const MAX_RATE: Rate = Rate::from_mbit(10_000);
pub(crate) const MAX_DELAY: Span = Span::from_secs(2);
const PACKET_BYTES: RangeInclusive<u32> = 64..=1500;
const MAX_CROSS_PACKETS_PER_SECOND: f64 = 1e6;

impl Overrides {
    /// An option given that only measurements have, as the command line calls it.
    pub(crate) fn of_measurements(&self) -> Option<&'static str> {
        let given = [
            ("--cross", !self.cross.is_empty()),
            ("--cross-kind", self.cross_kind.is_some()),
            ("--cross-by", self.cross_by.is_some()),
            ("--transport", !self.transports.is_empty()),
            ("--method", !self.methods.is_empty()),
            ("--direction", !self.directions.is_empty()),
        ];
        given.into_iter().find_map(|(option, given)| given.then_some(option))
    }

    /// An option given that only experiments on fairness have.
    fn of_fairness(&self) -> Option<&'static str> {
        let given = [
            ("--discipline", !self.disciplines.is_empty()),
            ("--delay", !self.delays.is_empty()),
            ("--row", !self.rows.is_empty()),
            ("--duration", self.duration.is_some()),
            ("--warm-up", self.warm_up.is_some()),
        ];
        given.into_iter().find_map(|(option, given)| given.then_some(option))
    }
}

impl Scenario {
    /// Reads a scenario from TOML; `origin` names the text in an error.
    ///
    /// # Errors
    /// Names the line, or what in the scenario contradicts itself.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ScenarioError> {
        let scenario: Scenario = toml::from_str(text)
            .map_err(|cause| ScenarioError::Malformed { origin: origin.to_owned(), cause: Box::new(cause) })?;
        scenario.check()?;
        Ok(scenario)
    }

    /// This scenario with parts replaced.
    ///
    /// # Errors
    /// Names what in the result contradicts itself.
    pub fn overridden(mut self, with: &Overrides) -> Result<Self, ScenarioError> {
        if let Some(option) = with.of_fairness() {
            let reason =
                format!("{option} means nothing to it: it is about measurements, which no discipline shares out");
            return Err(ScenarioError::Senseless { name: self.name, reason });
        }
        let (rate, kind) = (self.bottleneck.rate, self.cross.kind);
        if let Some(rate) = with.rate {
            self.also.retain(|path| path.bottleneck.is_none());
            self.scale_to(rate);
            self.sweeps().for_each(|sweep| sweep.rates.clear());
        }
        if let Some(kind) = with.cross_kind {
            self.crosses().for_each(|cross| cross.kind = kind);
            self.sweeps().for_each(|sweep| sweep.kinds.clear());
        }
        if !with.cross.is_empty() {
            self.also.retain(|path| path.cross.is_none());
        }
        self.crosses().for_each(|cross| cross.by = with.cross_by.or(cross.by));
        self.bottleneck.kind = with.bottleneck.unwrap_or(self.bottleneck.kind);
        self.runs = with.runs.unwrap_or(self.runs);
        replace(&mut self.cross.levels, &with.cross);
        replace(&mut self.transports, &with.transports);
        replace(&mut self.methods, &with.methods);
        replace(&mut self.directions, &with.directions);
        if let Some(paper) = self.paper.as_mut().filter(|_| (self.bottleneck.rate, self.cross.kind) != (rate, kind)) {
            // They belong to another path.
            paper.published.clear();
        }
        self.check()?;
        Ok(self)
    }

    /// Every measurement in the order of running. Runs come outermost, so that a disturbance of some minutes spoils
    /// one run of many points and not all runs of one.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for run in 1..=self.runs {
            for &cross in &self.cross.levels {
                for &transport in &self.transports {
                    for &method in &self.methods {
                        for &direction in &self.directions {
                            points.push(Point { cross, transport, method, direction, run });
                        }
                    }
                }
            }
        }
        points
    }

    /// The rules that are in force while `transport` is measured.
    pub fn firewall_for(&self, transport: Transport) -> impl Iterator<Item = &FirewallRule> {
        self.firewall.iter().filter(move |r| r.transports.is_empty() || r.transports.contains(&transport))
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let variants = self.variants();
        let wrong = wrong_name(&self.name)
            .or_else(|| self.wrong_lists())
            .or_else(|| variants.iter().find_map(Scenario::wrong_path))
            .or_else(|| variants.iter().find_map(Scenario::wrong_cross));
        match wrong {
            Some(reason) => Err(ScenarioError::Senseless { name: self.name.clone(), reason }),
            None => Ok(()),
        }
    }

    fn wrong_lists(&self) -> Option<String> {
        let lists = [
            ("transports", self.transports.len()),
            ("methods", self.methods.len()),
            ("directions", self.directions.len()),
            ("cross.levels", self.cross.levels.len()),
            ("runs", self.runs as usize),
        ];
        if let Some((list, _)) = lists.iter().find(|(_, len)| *len == 0) {
            return Some(format!("with no {list} there is nothing to do; name at least one"));
        }
        let most = estimate::PathTesterClassicConfig::MAX_IUNIT;
        if self.last_iunit > most {
            return Some(format!("waits up to 2^{} µs; 2^{most} are the most", self.last_iunit));
        }
        (self.runs > MAX_RUNS).then(|| format!("{} runs of each point; {MAX_RUNS} are the most", self.runs))
    }

    fn wrong_cross(&self) -> Option<String> {
        let cross = &self.cross;
        let rate = self.directions.iter().map(|direction| self.bottleneck.rate_of(*direction)).min()?;
        if cross.by == Some(Carrier::Link) && self.needs_packets() {
            return Some(
                "cross traffic by TCP or before HTB cannot be computed in the link; have it sent as packets".into(),
            );
        }
        let size = cross.packet_bytes;
        if !PACKET_BYTES.contains(&size) {
            return Some(format!("cross packets of {size} bytes; choose 64 to 1500"));
        }
        if cross.kind == CrossKind::Tcp {
            return None;
        }
        let most = *cross.levels.iter().max()?;
        if most >= rate {
            return Some(format!("cross traffic of {most} leaves nothing of a bottleneck of {rate}; choose less"));
        }
        too_many_packets(most, size)
    }
}

pub(crate) fn too_many_packets(rate: Rate, size: u32) -> Option<String> {
    let packets = rate.as_f64() / 8.0 / f64::from(size);
    (packets > MAX_CROSS_PACKETS_PER_SECOND)
        .then(|| format!("cross traffic of {rate} in packets of {size} bytes is more than a million packets a second"))
}

pub(crate) fn wrong_name(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let wrong = name.is_empty() || !name.chars().all(plain);
    wrong.then(|| "its name may have letters, digits, `-` and `_` only, as it becomes a directory's".into())
}

pub(crate) fn replace<T: Clone>(part: &mut Vec<T>, with: &[T]) {
    if !with.is_empty() {
        *part = with.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCURACY: &str = include_str!("../../scenarios/rake-accuracy.toml");

    fn accuracy() -> Scenario {
        named("rake-accuracy")
    }

    fn named(name: &str) -> Scenario {
        crate::load(name).unwrap().measurement().unwrap()
    }

    #[test]
    fn rake_accuracy_is_the_papers_set_up() {
        // "c を 0 Mbps から 90 Mbps まで 10 Mbps 刻み", five runs each, a hub of 100 Mbit/s (PathRakeTCP, 5.1).
        let scenario = accuracy();
        let levels: Vec<_> = (0..10).map(|c| Rate::from_mbit(c * 10)).collect();
        assert_eq!((scenario.cross.levels, scenario.runs), (levels, 5));
        assert_eq!(scenario.bottleneck.rate, Rate::from_mbit(100));
        let published = scenario.paper.unwrap().published;
        let errors: Vec<_> = published.iter().filter_map(|p| Some(p.mean_absolute_error?.bits_per_second())).collect();
        assert_eq!(errors, [15_600_000, 18_200_000]);
    }

    #[test]
    fn the_testers_experiments_are_the_papers_set_ups() {
        // Table 5: "Out 方向のボトルネック回線速度を 5Mbps", cross traffic of 0, 0.5, 1.5 and 3.0 Mbit/s.
        let pathload = named("tester-pathload");
        assert_eq!(pathload.bottleneck.rate, Rate::from_mbit(5));
        let levels: Vec<_> = [0, 500, 1500, 3000].map(|kbit| Rate::from_bits_per_second(kbit * 1000)).to_vec();
        assert_eq!((&pathload.cross.levels, pathload.paper.unwrap().published.len()), (&levels, 8));
        // Table 1: 100 kbit/s out, all else 100 Mbit/s; iunit 0–15 to 0–20.
        let range = named("tester-range");
        let rates = [Direction::Up, Direction::Down].map(|direction| range.bottleneck.rate_of(direction));
        assert_eq!(rates, [Rate::from_bits_per_second(100_000), Rate::from_mbit(100)]);
        assert_eq!(range.sweep.last_iunits, [15, 16, 17, 18, 19, 20]);
        // Tables 2, 3 and 6: ADSL, 1 Mbit/s up, 24 and 12 down.
        let down: Vec<_> = named("tester-time").variants().into_iter().filter_map(|v| v.bottleneck.down_rate).collect();
        assert_eq!(down, [Rate::from_mbit(24), Rate::from_mbit(12)]);
        let rates = named("method-comparison").sweep.rates;
        assert_eq!((rates.first(), rates.last()), (Some(&Rate::from_mbit(1)), Some(&Rate::from_mbit(500))));
    }

    #[test]
    fn udp_is_rejected_only_where_it_is_not_what_is_measured() {
        let scenario = accuracy();
        assert_eq!(scenario.firewall_for(Transport::Rake).count(), 1);
        assert_eq!(scenario.firewall_for(Transport::Udp).count(), 0);
        assert_eq!(named("rake-firewall").firewall_for(Transport::Udp).count(), 1);
    }

    #[test]
    fn every_combination_is_run_and_runs_are_outermost() {
        let points = accuracy().points();
        assert_eq!(points.len(), 10 * 2 * 2 * 5);
        assert!(points.windows(2).all(|pair| pair[0].run <= pair[1].run));
    }

    #[test]
    fn another_rate_keeps_the_share_of_cross_traffic() {
        let with = Overrides { rate: Some(Rate::from_mbit(5)), ..Overrides::default() };
        let scenario = accuracy().overridden(&with).unwrap();
        assert_eq!(scenario.cross.levels[9], Rate::from_bits_per_second(4_500_000));
        let with = Overrides { cross: vec![Rate::from_mbit(2)], ..with };
        assert_eq!(accuracy().overridden(&with).unwrap().cross.levels, [Rate::from_mbit(2)]);
    }

    #[test]
    fn published_figures_are_not_set_beside_another_path() {
        let published = |with: Overrides| accuracy().overridden(&with).unwrap().paper.unwrap().published.len();
        assert_eq!(published(Overrides { runs: Some(1), cross: vec![Rate::ZERO], ..Default::default() }), 2);
        assert_eq!(published(Overrides { rate: Some(Rate::from_mbit(5)), ..Default::default() }), 0);
        assert_eq!(published(Overrides { cross_kind: Some(CrossKind::Poisson), ..Default::default() }), 0);
    }

    #[test]
    fn tcp_is_sent_and_may_be_given_all_there_is() {
        let tcp =
            Overrides { cross_kind: Some(CrossKind::Tcp), cross: vec![Rate::from_mbit(200)], ..Default::default() };
        assert_eq!(accuracy().overridden(&tcp).unwrap().cross_by(), Carrier::Packets);
        let computed = Overrides { cross_by: Some(Carrier::Link), ..tcp };
        let error = accuracy().overridden(&computed).unwrap_err().to_string();
        assert!(error.contains("cannot be computed in the link"), "{error}");
        let htb = Overrides { bottleneck: Some(BottleneckKind::Htb), ..Default::default() };
        assert_eq!(accuracy().overridden(&htb).unwrap().cross_by(), Carrier::Packets);
        assert_eq!(accuracy().cross_by(), Carrier::Link);
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let refused = |with: Overrides, part: &str| {
            let error = accuracy().overridden(&with).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(Overrides { cross: vec![Rate::from_mbit(100)], ..Default::default() }, "leaves nothing");
        refused(Overrides { runs: Some(0), ..Default::default() }, "no runs");
        refused(
            Overrides { rate: Some(Rate::from_bits_per_second(9)), ..Default::default() },
            "choose 100 kbit/s to 10 Gbit/s",
        );
        refused(
            Overrides { rate: Some(Rate::from_mbit(20_000)), ..Default::default() },
            "choose 100 kbit/s to 10 Gbit/s",
        );
        refused(Overrides { runs: Some(u32::MAX), ..Default::default() }, "10000 are the most");
    }

    #[test]
    fn a_part_given_leaves_out_the_paths_that_have_their_own() {
        let capacity = named("tester-capacity");
        let paths = |with: Overrides| capacity.clone().overridden(&with).unwrap().also.len();
        let all = paths(Overrides::default());
        assert_eq!(all, 3, "a later hop under constant and Poisson traffic, a token bucket");
        assert_eq!(paths(Overrides { rate: Some(Rate::from_mbit(5)), ..Overrides::default() }), 2);
        assert_eq!(paths(Overrides { cross: vec![Rate::ZERO], ..Overrides::default() }), 0);
        let poisson = Overrides { cross_kind: Some(CrossKind::Poisson), ..Overrides::default() };
        let variants = capacity.overridden(&poisson).unwrap().variants();
        assert!(variants.iter().all(|variant| variant.cross.kind == CrossKind::Poisson), "{variants:?}");
        assert_eq!(variants.len(), 3 * 3 + 1);
    }

    #[test]
    fn a_file_with_a_misspelt_key_names_the_line() {
        let text = ACCURACY.replace("[cross]", "[crosstraffic]");
        let error = Scenario::from_toml(&text, "own.toml").unwrap_err().to_string();
        assert!(error.contains("own.toml") && error.contains("crosstraffic"), "{error}");
        let text = ACCURACY.replace("rate = \"100mbit\"", "rate = \"quick\"");
        let error = Scenario::from_toml(&text, "own.toml").unwrap_err().to_string();
        assert!(error.contains("`quick` is not a rate"), "{error}");
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_reports_directory() {
        let text = ACCURACY.replace("name = \"rake-accuracy\"", "name = \"../elsewhere\"");
        assert!(matches!(Scenario::from_toml(&text, "own.toml"), Err(ScenarioError::Senseless { .. })));
    }
}
