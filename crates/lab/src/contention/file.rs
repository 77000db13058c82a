use crate::accuracy::BottleneckKind;
use crate::atlas::SeedChoice;
use crate::contention::{
    Attack, ContentionCase, ContentionExperiment, Probes, PulseTraffic, SearchSettings, ShortFlows,
};
use crate::fairness::{ConnectionGroup, DisciplineChoice, SharedLink};
use crate::study::checks::{check_delay, check_name, check_rate, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, choose_cases, replace_list};
use crate::values::{optional_rate, optional_size, optional_span, span};
use kumade_link::queue::Ecn;
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span};
use serde::Deserialize;

const MAX_CONNECTIONS: u32 = 1000;
const MAX_DURATION: Span = Span::from_secs(3600);
const MIN_DURATION: Span = Span::from_millis(100);
const MIN_INTERVAL: Span = Span::from_micros(100);
const MAX_EVALUATIONS: u32 = 100_000;

/// A scenario file on contention, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentionFile {
    name: String,
    title: String,
    disciplines: Vec<DisciplineChoice>,
    runs: u32,
    seeds: SeedChoice,
    #[serde(deserialize_with = "span")]
    warm_up: Span,
    #[serde(deserialize_with = "span")]
    duration: Span,
    bottleneck: SharedLink,
    probes: Option<Probes>,
    short_flows: Option<ShortFlows>,
    search: Option<SearchSettings>,
    /// What runs in real time; without it, all runs are in virtual time.
    real_time: Option<RealTimeSection>,
    contention: Vec<CaseSection>,
}

/// What of the file runs in real time: it takes long, and not all is possible there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RealTimeSection {
    /// Cases, counted from 1.
    cases: Vec<u32>,
    disciplines: Vec<DisciplineChoice>,
    runs: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseSection {
    label: String,
    bulk: Vec<ConnectionGroup>,
    attack: Option<AttackSection>,
    #[serde(deserialize_with = "optional_rate", default)]
    rate_change: Option<Rate>,
    /// In place of those of the file.
    #[serde(default)]
    disciplines: Vec<DisciplineChoice>,
    /// In place of those of the file.
    runs: Option<u32>,
}

/// UDP at a rate, in pulses where there are on and off periods; or drawn; or a TCP connection.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttackSection {
    #[serde(deserialize_with = "optional_rate", default)]
    rate: Option<Rate>,
    #[serde(deserialize_with = "optional_span", default)]
    on: Option<Span>,
    #[serde(deserialize_with = "optional_span", default)]
    off: Option<Span>,
    #[serde(deserialize_with = "optional_size", default)]
    packet: Option<u64>,
    #[serde(rename = "random", default)]
    random_periods: bool,
    /// Whether the packets are ECT(0), or ECT(1) where they claim to be of an L4S sender.
    #[serde(default)]
    ect: bool,
    #[serde(default)]
    l4s: bool,
    #[serde(rename = "drawn", default)]
    random_pulses: bool,
    /// Of a TCP connection that conceals marks.
    #[serde(default)]
    conceals_marks: Option<String>,
}

impl Scenario for ContentionExperiment {
    const KIND: &'static str = "contention";
    const ABOUT: &'static str = "experiments on contention";
    const OPTIONS: &'static [&'static str] = &["--discipline", "--rate", "--row", "--runs", "--duration", "--warm-up"];
    type File = ContentionFile;

    fn from_file(file: ContentionFile, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.into_experiment(given)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: None, is_virtual: self.virtual_time }
    }
}

impl ContentionFile {
    /// The experiment that it describes, with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result is wrong.
    fn into_experiment(mut self, overrides: &Overrides) -> Result<ContentionExperiment, String> {
        let real_time = self.real_time.take().filter(|_| overrides.bottleneck != Some(BottleneckKind::Virtual));
        let virtual_time = real_time.is_none();
        reject_if(virtual_time && overrides.bottleneck.is_some_and(|kind| kind != BottleneckKind::Virtual), || {
            "it runs in virtual time only; leave --bottleneck out".into()
        })?;
        let rows = real_time.map_or(Vec::new(), |part| self.restrict_to_real_time(part));
        self.apply_overrides(overrides)?;
        let rows = if overrides.rows.is_empty() { &rows } else { &overrides.rows };
        choose_cases(&mut self.contention, rows)?;
        self.check()?;
        if !virtual_time {
            self.contention.iter().try_for_each(CaseSection::check_real_time)?;
        }
        let (disciplines, runs) = (&self.disciplines, self.runs);
        let cases = self.contention.iter().map(|case| case.to_case(disciplines, runs));
        let cases = cases.collect::<Result<Vec<_>, _>>()?;
        Ok(ContentionExperiment {
            name: self.name,
            title: self.title,
            bottleneck: self.bottleneck,
            cases,
            probes: self.probes,
            short_flows: self.short_flows,
            seeds: self.seeds,
            duration: self.duration,
            warm_up: self.warm_up,
            virtual_time,
            search: self.search,
        })
    }

    /// Takes what runs in real time in place of the rest; returns the cases.
    fn restrict_to_real_time(&mut self, part: RealTimeSection) -> Vec<u32> {
        (self.disciplines, self.runs) = (part.disciplines, part.runs);
        for case in &mut self.contention {
            case.disciplines.clear();
            case.runs = None;
        }
        part.cases
    }

    fn apply_overrides(&mut self, given: &Overrides) -> Result<(), String> {
        reject_if(given.bottleneck == Some(BottleneckKind::Htb), || {
            "disciplines cannot be compared at the kernel's HTB; leave --bottleneck out".into()
        })?;
        self.bottleneck.rate = given.rate.unwrap_or(self.bottleneck.rate);
        self.runs = given.runs.unwrap_or(self.runs);
        self.duration = given.duration.unwrap_or(self.duration);
        self.warm_up = given.warm_up.unwrap_or(self.warm_up);
        replace_list(&mut self.disciplines, &given.disciplines);
        for case in &mut self.contention {
            case.runs = given.runs.or(case.runs);
            if !given.disciplines.is_empty() {
                case.disciplines.clear();
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        reject_if(self.disciplines.is_empty() || self.contention.is_empty(), || {
            "with no disciplines or cases there is nothing to do; ask for at least one".into()
        })?;
        reject_if(self.duration < MIN_DURATION || self.warm_up < Span::ZERO, || {
            format!("a duration of {} after {}; measure at least {MIN_DURATION}", self.duration, self.warm_up)
        })?;
        let each = self.duration + self.warm_up;
        reject_if(each > MAX_DURATION, || format!("runs of {each}; the maximum is {MAX_DURATION}"))?;
        check_rate("a bottleneck", self.bottleneck.rate)?;
        check_delay("a bottleneck's delay", self.bottleneck.delay)?;
        let intervals = self.probes.iter().map(|probes| probes.interval);
        let mut intervals = intervals.chain(self.short_flows.iter().map(|flows| flows.interval));
        reject_if(intervals.any(|interval| interval < MIN_INTERVAL), || {
            format!("probes or short flows that often; choose intervals of at least {MIN_INTERVAL}")
        })?;
        let is_packet = |probes: Probes| (28..=65_535).contains(&probes.packet);
        reject_if(!self.probes.is_none_or(is_packet), || {
            "probes that are no IP packets; choose 28 to 65535 bytes".into()
        })?;
        reject_if(self.short_flows.is_some_and(|flows| flows.bytes == 0), || {
            "short flows of no bytes; leave them out".into()
        })?;
        reject_if(self.search.is_some_and(|search| !(1..=MAX_EVALUATIONS).contains(&search.evaluations)), || {
            format!("a search of that many patterns; choose 1 to {MAX_EVALUATIONS}")
        })?;
        self.contention.iter().try_for_each(CaseSection::check)
    }
}

impl CaseSection {
    fn check(&self) -> Result<(), String> {
        let label = &self.label;
        let connections: u64 = self.bulk.iter().map(|group| u64::from(group.connections)).sum();
        reject_if(!(1..=u64::from(MAX_CONNECTIONS)).contains(&connections), || {
            format!("{label}: {connections} bulk transfers; choose 1 to {MAX_CONNECTIONS}")
        })?;
        reject_if(self.bulk.iter().any(|group| !group.hops.is_empty() || group.source_rate.is_some()), || {
            format!("{label}: hops and source rates; leave them out, bulk transfers have none here")
        })?;
        self.bulk.iter().try_for_each(|group| check_delay("a group's delay", group.delay))?;
        self.rate_change.map_or(Ok(()), |rate| check_rate("a bottleneck", rate))
    }

    fn check_real_time(&self) -> Result<(), String> {
        let is_simple =
            self.attack.as_ref().is_none_or(|attack| attack.conceals_marks.is_none() && !attack.ect && !attack.l4s);
        reject_if(!is_simple || self.rate_change.is_some(), || {
            format!("{}: this runs in virtual time only; add --virtual, or choose other cases", self.label)
        })
    }

    /// With what the file says for all cases.
    fn to_case(&self, disciplines: &[DisciplineChoice], runs: u32) -> Result<ContentionCase, String> {
        let runs = self.runs.unwrap_or(runs);
        check_runs(runs)?;
        reject_if(runs == 0, || format!("{}: no runs; ask for at least one", self.label))?;
        let attack = self.attack.as_ref().map(AttackSection::to_attack).transpose();
        Ok(ContentionCase {
            label: self.label.clone(),
            bulk: self.bulk.clone(),
            attack: attack.map_err(|why| format!("{}: {why}", self.label))?,
            rate_change: self.rate_change,
            disciplines: if self.disciplines.is_empty() { disciplines } else { &self.disciplines }.to_vec(),
            runs,
        })
    }
}

impl AttackSection {
    fn to_attack(&self) -> Result<Attack, String> {
        match (&self.conceals_marks, self.random_pulses, self.rate) {
            (Some(control), false, None) => {
                let control: CongestionControl = control.parse().map_err(|error| format!("{error}"))?;
                Ok(Attack::ConcealsMarks(control))
            }
            (None, true, None) => Ok(Attack::RandomPulses),
            (None, false, Some(rate)) => self.to_pulses(rate).map(Attack::Pulses),
            _ => Err("an attack has a rate, or is drawn, or conceals the marks of a congestion control".into()),
        }
    }

    fn to_pulses(&self, rate: Rate) -> Result<PulseTraffic, String> {
        check_rate("an attack", rate)?;
        reject_if(self.on.is_some() != self.off.is_some(), || "give both of on and off, or none".into())?;
        let (on, off) = (self.on.unwrap_or(Span::from_secs(1)), self.off.unwrap_or_default());
        reject_if(on <= Span::ZERO || off < Span::ZERO, || format!("{on} on, {off} off; choose more than 0"))?;
        let packet_bytes = self.packet.unwrap_or(1500);
        reject_if(!(28..=65_535).contains(&packet_bytes), || {
            format!("packets of {packet_bytes} bytes; choose 28 to 65535")
        })?;
        Ok(PulseTraffic {
            rate,
            on,
            off,
            packet_bytes: packet_bytes as u32,
            has_random_periods: self.random_periods,
            ecn: match (self.ect, self.l4s) {
                (_, true) => Ecn::Ect1,
                (true, false) => Ecn::Ect0,
                (false, false) => Ecn::NotEct,
            },
        })
    }
}
