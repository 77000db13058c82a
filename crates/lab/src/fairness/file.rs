use super::mixes;
use crate::accuracy::keywords::BottleneckKind;
use crate::fairness::{
    AccessHop, ConnectionGroup, DisciplineChoice, FairnessCase, FairnessExperiment, LinkContext, SharedLink,
    SharedNetwork,
};
use crate::paper::Paper;
use crate::study::checks::{check_delay, check_name, check_rate, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, replace_list};
use crate::values::{rates, span, spans};
use kumade_link::queue::QueueConfig;
use kumade_sim::network::FlowId;
use kumade_units::{Rate, Span};
use serde::Deserialize;
use std::ops::RangeInclusive;

const MAX_CONNECTIONS: u32 = 1000;
const MAX_DURATION: Span = Span::from_secs(3600);
const MIN_DURATION: Span = Span::from_millis(100);
const MAX_CASES: usize = 1000;
const SEGMENT_BYTES: RangeInclusive<u32> = 100..=9000;
const SEGMENTS_PER_ACK: RangeInclusive<u32> = 1..=100;
/// A hop's queue must hold a packet.
const MIN_HOP_QUEUE_BYTES: u64 = 1500;

/// A scenario file about fairness, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FairnessFile {
    name: String,
    title: String,
    disciplines: Vec<DisciplineChoice>,
    runs: u32,
    #[serde(deserialize_with = "span")]
    duration: Span,
    #[serde(deserialize_with = "span", default)]
    warm_up: Span,
    #[serde(rename = "virtual", default)]
    virtual_time: bool,
    #[serde(default = "default_segment_bytes")]
    segment_bytes: u32,
    #[serde(default = "default_segments_per_ack")]
    segments_per_ack: u32,
    paper: Option<Paper>,
    /// The link for which all connections compete.
    bottleneck: Option<SharedLink>,
    /// The connections, by what they have in common.
    #[serde(default)]
    groups: Vec<ConnectionGroup>,
    /// Delays added to the round trip of all connections: each is one case.
    #[serde(default, deserialize_with = "spans")]
    delays: Vec<Span>,
    /// Rates of the bottleneck in place of its own: each, with each delay, is one case.
    #[serde(default, deserialize_with = "rates")]
    rates: Vec<Rate>,
    /// A table of mixes in place of bottleneck, groups and delays: each of its rows is one case. See
    /// [`mixes`].
    mixes: Option<String>,
}

impl Scenario for FairnessExperiment {
    const KIND: &'static str = "fairness";
    const ABOUT: &'static str = "experiments on fairness";
    const OPTIONS: &'static [&'static str] =
        &["--discipline", "--delay", "--rate", "--row", "--runs", "--duration", "--warm-up"];
    type File = FairnessFile;

    fn from_file(file: FairnessFile, given: &Overrides, beside: FindFile<'_>) -> Result<Self, String> {
        file.into_experiment(given, beside)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: self.paper.as_ref(), is_virtual: self.virtual_time }
    }
}

impl FairnessFile {
    /// The experiment that it describes, with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result contradicts itself.
    fn into_experiment(mut self, overrides: &Overrides, beside: FindFile<'_>) -> Result<FairnessExperiment, String> {
        let text = self.mixes.as_deref().map(beside).transpose()?;
        self.apply_overrides(overrides)?;
        self.check_extent()?;
        let (shared, mut cases) = self.read_network(text.as_deref(), &overrides.rows)?;
        check_cases(&cases)?;
        if !self.virtual_time {
            self.check_kernel()?;
        }
        cases.iter_mut().try_for_each(|case| set_queues(case, &self.disciplines))?;
        Ok(FairnessExperiment {
            name: self.name,
            title: self.title,
            paper: self.paper,
            disciplines: self.disciplines,
            cases,
            shared,
            runs: self.runs,
            duration: self.duration,
            warm_up: self.warm_up,
            virtual_time: self.virtual_time,
            segment_bytes: self.segment_bytes,
            segments_per_ack: self.segments_per_ack,
        })
    }

    fn apply_overrides(&mut self, given: &Overrides) -> Result<(), String> {
        reject_if(given.bottleneck == Some(BottleneckKind::Htb), || {
            "disciplines cannot be compared at the kernel's HTB; leave --bottleneck out".into()
        })?;
        self.virtual_time = given.bottleneck.map_or(self.virtual_time, |kind| kind == BottleneckKind::Virtual);
        match (&mut self.bottleneck, given.rate) {
            (_, None) => {}
            (Some(bottleneck), Some(rate)) => {
                bottleneck.rate = rate;
                self.rates.clear();
            }
            (None, Some(_)) => return Err("its table of mixes states the rates; leave --rate out".into()),
        }
        reject_if(self.mixes.is_some() && !given.delays.is_empty(), || {
            "its table of mixes states the delays; leave --delay out".into()
        })?;
        self.runs = given.runs.unwrap_or(self.runs);
        self.duration = given.duration.unwrap_or(self.duration);
        self.warm_up = given.warm_up.unwrap_or(self.warm_up);
        replace_list(&mut self.disciplines, &given.disciplines);
        replace_list(&mut self.delays, &given.delays);
        Ok(())
    }

    fn check_extent(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_runs(self.runs)?;
        reject_if(self.runs == 0 || self.disciplines.is_empty(), || {
            "with no runs or no disciplines there is nothing to do; ask for at least one".into()
        })?;
        reject_if(self.duration < MIN_DURATION || self.warm_up < Span::ZERO, || {
            format!("a duration of {} after {}; measure at least {MIN_DURATION}", self.duration, self.warm_up)
        })?;
        let each = self.duration + self.warm_up;
        reject_if(each > MAX_DURATION, || format!("runs of {each}; the maximum is {MAX_DURATION}"))?;
        reject_if(
            !SEGMENT_BYTES.contains(&self.segment_bytes) || !SEGMENTS_PER_ACK.contains(&self.segments_per_ack),
            || "choose segments of 100 to 9000 bytes, and 1 to 100 segments per acknowledgement".into(),
        )?;
        let twice = |(index, name): &(usize, &DisciplineChoice)| self.disciplines[..*index].contains(name);
        let twice = self.disciplines.iter().enumerate().find(twice);
        twice.map_or(Ok(()), |(_, discipline)| Err(format!("{discipline} is named twice")))
    }

    /// The cases, and what they have in common: from the file itself, or from the table of mixes.
    fn read_network(
        &self,
        table: Option<&str>,
        rows: &[u32],
    ) -> Result<(Option<SharedNetwork>, Vec<FairnessCase>), String> {
        match (&self.bottleneck, table) {
            (Some(bottleneck), None) => {
                reject_if(self.groups.is_empty() || self.delays.is_empty() || self.delays.len() > MAX_CASES, || {
                    format!("give at least one group, and 1 to {MAX_CASES} delays")
                })?;
                reject_if(self.rates.len() * self.delays.len() > MAX_CASES, || {
                    format!("rates and delays make more than {MAX_CASES} cases; give fewer")
                })?;
                reject_if(!rows.is_empty(), || "it has no table of mixes; leave --row out".into())?;
                check_delay("the bottleneck's delay", bottleneck.delay)?;
                self.delays.iter().try_for_each(|delay| check_delay("an added delay", *delay))?;
                let shared = SharedNetwork { bottleneck: bottleneck.clone(), groups: self.groups.clone() };
                let cases = self.swept_cases(&shared);
                Ok((Some(shared), cases))
            }
            (None, Some(table)) => {
                reject_if(!self.groups.is_empty() || !self.delays.is_empty() || !self.rates.is_empty(), || {
                    "its table of mixes states groups and delays; leave them out".into()
                })?;
                Ok((None, read_mixes(self.mixes.as_deref().unwrap_or_default(), table, rows)?))
            }
            _ => Err("give either a bottleneck, with groups and delays, or a table of mixes".into()),
        }
    }

    /// A case for each delay; for each rate and delay where there are several rates, which names both.
    fn swept_cases(&self, shared: &SharedNetwork) -> Vec<FairnessCase> {
        let case = |rate: Rate, added: Span| {
            let case = shared.with_rate(rate).case_with_delay(added);
            FairnessCase { label: format!("{rate}, {added}"), ..case }
        };
        if self.rates.is_empty() {
            return self.delays.iter().map(|added| shared.case_with_delay(*added)).collect();
        }
        self.rates.iter().flat_map(|rate| self.delays.iter().map(|added| case(*rate, *added))).collect()
    }

    /// What only a virtual network has.
    fn check_kernel(&self) -> Result<(), String> {
        let try_virtual = "run it with --virtual";
        let is_static = |discipline: &DisciplineChoice| discipline.name() == DisciplineChoice::STATIC_FAIR_CODEL;
        reject_if(self.disciplines.iter().any(is_static), || {
            // In real time, ports are not known before the connections are open.
            format!("{} must know the heavy flows in advance; {try_virtual}", DisciplineChoice::STATIC_FAIR_CODEL)
        })
    }
}

/// The rows of a table of mixes that are asked for; all where none are.
fn read_mixes(file: &str, table: &str, rows: &[u32]) -> Result<Vec<FairnessCase>, String> {
    let mut cases = mixes::parse_mixes(table).map_err(|why| format!("{file}: {why}"))?;
    reject_if(cases.is_empty() || cases.len() > MAX_CASES, || {
        format!("its table of mixes has {} rows; give 1 to {MAX_CASES}", cases.len())
    })?;
    let labels: Vec<_> = rows.iter().map(|row| format!("row {row}:")).collect();
    let is_called = |case: &FairnessCase, label: &String| case.label.starts_with(label);
    if let Some(row) = rows
        .iter()
        .zip(&labels)
        .find_map(|(row, label)| cases.iter().all(|case| !is_called(case, label)).then_some(row))
    {
        let number = |case: Option<&FairnessCase>| {
            let (row, _) = case?.label.split_once(':')?;
            Some(row.trim_start_matches("row ").to_owned())
        };
        let (first, last) = (number(cases.first()), number(cases.last()));
        return Err(format!(
            "it has no row {row}; rows are {} to {}",
            first.unwrap_or_default(),
            last.unwrap_or_default()
        ));
    }
    cases.retain(|case| labels.is_empty() || labels.iter().any(|label| is_called(case, label)));
    Ok(cases)
}

fn check_cases(cases: &[FairnessCase]) -> Result<(), String> {
    for case in cases {
        check_rate("a bottleneck", case.rate)?;
        check_delay("a bottleneck's delay", case.delay)?;
        case.groups.iter().try_for_each(check_group)?;
        let connections = case.groups.iter().map(|group| u64::from(group.connections)).sum::<u64>();
        reject_if(connections > MAX_CONNECTIONS.into(), || {
            format!("{connections} connections at once; the maximum is {MAX_CONNECTIONS}")
        })?;
    }
    Ok(())
}

fn check_group(group: &ConnectionGroup) -> Result<(), String> {
    reject_if(group.connections == 0, || format!("a group of no {} connections; leave it out", group.control))?;
    group.source_rate.map_or(Ok(()), |rate| check_rate("a sender's link", rate))?;
    check_delay("a group's delay", group.delay)?;
    group.hops.iter().try_for_each(check_hop)
}

fn check_hop(hop: &AccessHop) -> Result<(), String> {
    let media = [hop.rate.is_some(), hop.wireless, hop.cellular];
    reject_if(media.into_iter().filter(|is_so| *is_so).count() != 1, || {
        "a hop either has a rate, or is wireless, or cellular".into()
    })?;
    hop.rate.map_or(Ok(()), |rate| check_rate("a hop", rate))?;
    check_delay("a hop's delay", hop.delay)?;
    reject_if(hop.queue < MIN_HOP_QUEUE_BYTES, || format!("a hop whose queue of {} bytes holds no packet", hop.queue))?;
    reject_if(hop.background.is_some_and(|cross| hop.rate.is_none_or(|rate| cross >= rate)), || {
        "background traffic that fills a hop, or on one without a rate of its own; choose less, or leave it out".into()
    })
}

/// The queue of each discipline before this case's bottleneck. The flows of the first group are the heavy ones that the
/// static discipline knows.
fn set_queues(case: &mut FairnessCase, disciplines: &[DisciplineChoice]) -> Result<(), String> {
    let first = case.groups.first().map_or(0, |group| group.connections);
    let heavy: Vec<_> = (0..first).map(|flow| FlowId::from_index(flow).label()).collect();
    let around = LinkContext { rate: case.rate, heavy_flows: &heavy };
    for discipline in disciplines {
        let queue = QueueConfig { limit: case.limit, discipline: discipline.build(around) };
        queue.check().map_err(|why| format!("{discipline} at {}: {why}", case.label))?;
        case.queues.push(queue);
    }
    Ok(())
}

/// On Ethernet, with TCP time stamps.
const fn default_segment_bytes() -> u32 {
    1448
}

const fn default_segments_per_ack() -> u32 {
    2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ScenarioError;
    use crate::report::{Condition, Divisor, Scalar};
    use crate::scenario::load;
    use crate::study::Study;
    use kumade_link::queue::QueueLimit;
    use kumade_sim::tcp::congestion::CongestionControl;
    use kumade_units::Rate;

    fn named(name: &str) -> FairnessExperiment {
        overridden(name, Overrides::default()).unwrap()
    }

    fn overridden(name: &str, with: Overrides) -> Result<FairnessExperiment, ScenarioError> {
        load(name, &with).map(|experiment| experiment.into_scenario::<FairnessExperiment>().unwrap())
    }

    #[test]
    fn fair_wired_is_the_papers_set_up_and_more() {
        // "10 接続の平均値", added delays of 1 to 64 ms (Fig. 2); here up to 128 ms.
        let experiment = named("fair-wired");
        let groups: Vec<_> = experiment.cases[0].groups.iter().map(|g| (g.connections, g.control)).collect();
        assert_eq!(groups, [(10, CongestionControl::Cubic), (10, CongestionControl::Compound)]);
        assert!(experiment.runs >= 5);
        assert_eq!(experiment.points().len(), 8 * 4 * experiment.runs as usize);
        let case = &experiment.cases[6];
        assert_eq!((&*case.label, case.delay), ("64 ms", Span::from_micros(32_200)));
    }

    #[test]
    fn the_queue_follows_the_round_trip_but_not_below_100_packets() {
        let limits: Vec<_> = named("fair-wired").cases.iter().map(|case| case.limit).collect();
        assert_eq!(limits[0], QueueLimit::Bytes(150_000));
        assert_eq!(limits[7], QueueLimit::Bytes(Rate::from_mbit(100).bytes_in(Span::from_micros(128_400))));
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let refused = |name: &str, with: Overrides, part: &str| {
            let error = overridden(name, with).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let usual = Overrides::default;
        refused("fair-wired", Overrides { runs: Some(0), ..usual() }, "no runs");
        refused("fair-wired", Overrides { duration: Some(Span::ZERO), ..usual() }, "at least 100 ms");
        refused("fair-wired", Overrides { delays: vec![Span::from_secs(3)], ..usual() }, "choose 0 to 2 s");
        refused("fair-wired", Overrides { rows: vec![0], ..usual() }, "leave --row out");
        refused("fair-mix", Overrides { rows: vec![16], ..usual() }, "has no row 16; rows are 0 to 15");
        refused("fair-mix", Overrides { delays: vec![Span::ZERO], ..usual() }, "table of mixes states the delays");
        refused(
            "fair-wired",
            Overrides { cross: vec![Rate::ZERO], ..usual() },
            "--cross does not apply to experiments on fairness",
        );
        let twice = vec!["codel".parse().unwrap(); 2];
        refused("fair-wired", Overrides { disciplines: twice, ..usual() }, "named twice");
        let nonsense = vec!["fair-codel:hist-len=0".parse().unwrap()];
        refused("fair-wired", Overrides { disciplines: nonsense, ..usual() }, "fair-codel:hist-len=0 at 1 ms");
    }

    #[test]
    fn some_are_run_in_virtual_time_unless_the_emulated_link_is_asked_for() {
        let emulated = Overrides { bottleneck: Some(BottleneckKind::Emulated), ..Overrides::default() };
        for (name, overrides) in [("fair-mix", Overrides { rows: vec![0], ..emulated.clone() }), ("fair-l4s", emulated)]
        {
            assert!(named(name).virtual_time);
            assert!(!overridden(name, overrides).unwrap().virtual_time);
        }
    }

    /// A misspelt case or discipline would leave a statement without a figure.
    #[test]
    fn statements_of_papers_are_about_cases_and_disciplines_that_are_run() {
        let options = Overrides { as_published: true, ..Overrides::default() };
        for name in
            ["fair-wired", "fair-campus", "fair-wifi", "fair-cellular", "fair-parameters", "fair-parameters-wifi"]
        {
            let (read, experiment) = (load(name, &options).unwrap(), overridden(name, options.clone()).unwrap());
            let disciplines: Vec<_> = experiment.disciplines.iter().map(DisciplineChoice::to_string).collect();
            let cases: Vec<_> = experiment.cases.iter().map(|case| case.label.clone()).collect();
            for statement in read.statements() {
                let others = statement.relative_to.iter().flat_map(|divisor| match divisor {
                    Divisor::Rows(rows) => rows.iter().collect::<Vec<_>>(),
                    Divisor::Number(_) => Vec::new(),
                });
                for (column, condition) in statement.rows.iter().chain(others) {
                    let known = if column == "case" { &cases } else { &disciplines };
                    let scalars = match condition {
                        Condition::One(scalar) => vec![scalar.clone()],
                        Condition::Any(scalars) => scalars.clone(),
                        Condition::Range(_) => Vec::new(),
                    };
                    for scalar in scalars {
                        let Scalar::Text(text) = scalar else { panic!("{name}: {column}") };
                        assert!(known.contains(&text), "{name}: {column} {text} of {known:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn some_rows_of_a_table_will_do() {
        let experiment = overridden("fair-mix", Overrides { rows: vec![12, 3], ..Overrides::default() }).unwrap();
        let labels = experiment.cases.iter().filter_map(|case| Some(case.label.split_once(':')?.0));
        assert_eq!(labels.collect::<Vec<_>>(), ["row 3", "row 12"]);
    }
}
