use super::draw::{DrawSection, DrawnPair};
use crate::accuracy::keywords::BottleneckKind;
use crate::multipath::{
    BlockSweep, Comparison, Contender, HostRto, MultipathCase, MultipathExperiment, PathOutage, PathSettings,
    PathShares, Plane, PublishedGoodput, TcpStack, Tuning, Workload,
};
use crate::paper::Paper;
use crate::study::checks::{check_delay, check_name, check_rate, check_runs, reject_if};
use crate::study::{FindFile, Head, Overrides, Scenario, choose_cases, replace_list};
use crate::values::{optional_size, ratio, span};
use kumade_units::{Span, parse};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const VALID_PATH_COUNTS: RangeInclusive<usize> = 1..=8;
const MAX_DURATION: Span = Span::from_secs(3600);
const MIN_DURATION: Span = Span::from_millis(100);
/// Of numbered packets: their number and time must fit, and no packet be fragmented inside a tunnel.
const PAYLOAD_BYTES: RangeInclusive<u32> = 16..=1300;
const NUMBERED_PACKETS: RangeInclusive<u64> = 10..=10_000_000;
const WINDOW_BYTES: RangeInclusive<u64> = 64 << 10..=16 << 20;
/// Lengths of writes, and how many.
const BLOCK_BYTES: RangeInclusive<u32> = 1..=65_536;
const MAX_BLOCK_LENGTHS: usize = 2000;
const VALID_MIN_RTO: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(60);
const VALID_MAX_RTO: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(120);
const BUFFER_BYTES: RangeInclusive<u64> = 4096..=1 << 30;

/// A scenario file on several paths, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultipathFile {
    name: String,
    title: String,
    #[serde(default)]
    workload: WorkloadName,
    /// What is compared in each case that names nothing else.
    planes: Vec<Plane>,
    /// With which ratios, where a plane takes one and the case names nothing else.
    #[serde(default)]
    ratios: Vec<PathShares>,
    runs: u32,
    #[serde(deserialize_with = "span", default)]
    duration: Span,
    #[serde(deserialize_with = "span", default)]
    warm_up: Span,
    #[serde(rename = "virtual", default)]
    virtual_time: bool,
    /// Of numbered packets: how many.
    #[serde(default = "default_packet_count")]
    packets: u64,
    /// Of UDP packets: their payload in bytes.
    #[serde(default = "default_packet_bytes")]
    payload: u32,
    /// Of numbered packets: their rate, relative to the sum of the paths' rates.
    #[serde(deserialize_with = "ratio", default = "default_max_ratio")]
    load: f64,
    paper: Option<Paper>,
    /// What is set on a tunnel's connections, each a contender for each plane that it names.
    #[serde(default)]
    tunings: Vec<Tuning>,
    #[serde(default)]
    blocks: BlockSweep,
    #[serde(default)]
    comparisons: Vec<Comparison>,
    /// Pairs of paths drawn at random, each a case after the others.
    draw: Option<DrawSection>,
    #[serde(default)]
    cases: Vec<CaseSection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WorkloadName {
    #[default]
    Transfer,
    Blocks,
    Numbered,
    Flood,
}

/// `[[cases]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseSection {
    label: String,
    paths: Vec<PathSettings>,
    planes: Option<Vec<Plane>>,
    ratios: Option<Vec<PathShares>>,
    #[serde(deserialize_with = "optional_size", default)]
    window: Option<u64>,
    cut: Option<PathOutage>,
    #[serde(default)]
    sparse: bool,
    #[serde(default)]
    echo: bool,
    #[serde(default)]
    trace: bool,
    #[serde(default)]
    stack: TcpStack,
    #[serde(default)]
    host_rto: HostRto,
    #[serde(default)]
    published: Vec<PublishedGoodput>,
    /// By plane, such as `{ bonded = "97%" }`.
    #[serde(default)]
    required: BTreeMap<String, String>,
}

impl Scenario for MultipathExperiment {
    const KIND: &'static str = "multipath";
    const ABOUT: &'static str = "experiments on several paths";
    const OPTIONS: &'static [&'static str] = &["--plane", "--row", "--runs", "--duration", "--warm-up"];
    type File = MultipathFile;

    fn from_file(file: MultipathFile, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.into_experiment(given)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: self.paper.as_ref(), is_virtual: self.virtual_time }
    }
}

impl MultipathFile {
    /// The experiment that it describes, with parts replaced.
    ///
    /// # Errors
    /// Names the option that has no meaning here, or what in the result contradicts itself.
    fn into_experiment(mut self, overrides: &Overrides) -> Result<MultipathExperiment, String> {
        self.draw_cases()?;
        self.apply_overrides(overrides)?;
        self.check_extent()?;
        self.tunings.iter().try_for_each(check_tuning)?;
        let workload = self.workload();
        let cases: Result<Vec<_>, _> = self.cases.iter().map(|case| self.to_case(case)).collect();
        let cases = cases?;
        cases.iter().try_for_each(|case| check_case(case, self.duration))?;
        Ok(MultipathExperiment {
            name: self.name,
            title: self.title,
            paper: self.paper,
            workload,
            cases,
            runs: self.runs,
            duration: self.duration,
            warm_up: self.warm_up,
            blocks: self.blocks,
            comparisons: self.comparisons,
            virtual_time: self.virtual_time,
        })
    }

    fn draw_cases(&mut self) -> Result<(), String> {
        let Some(draw) = &self.draw else { return Ok(()) };
        draw.check()?;
        let case = |DrawnPair { label, paths, ratios }: DrawnPair| CaseSection {
            label,
            paths,
            ratios: Some(ratios),
            ..CaseSection::default()
        };
        self.cases.extend(draw.draw_pairs().into_iter().map(case));
        Ok(())
    }

    fn apply_overrides(&mut self, given: &Overrides) -> Result<(), String> {
        reject_if(given.bottleneck == Some(BottleneckKind::Htb), || {
            "several paths cannot be the kernel's HTB; leave --bottleneck out".into()
        })?;
        self.virtual_time |= given.bottleneck == Some(BottleneckKind::Virtual);
        self.runs = given.runs.unwrap_or(self.runs);
        self.duration = given.duration.unwrap_or(self.duration);
        self.warm_up = given.warm_up.unwrap_or(self.warm_up);
        if !given.planes.is_empty() {
            self.cases.iter_mut().for_each(|case| case.planes = None);
        }
        replace_list(&mut self.planes, &given.planes);
        choose_cases(&mut self.cases, &given.rows)
    }

    fn check_extent(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_runs(self.runs)?;
        reject_if(self.runs == 0 || self.cases.is_empty() || self.planes.is_empty(), || {
            "with no runs, no cases or no planes there is nothing to do; ask for at least one".into()
        })?;
        let is_timed = self.workload != WorkloadName::Numbered;
        reject_if(is_timed && self.duration < MIN_DURATION || self.warm_up < Span::ZERO, || {
            format!("a duration of {} after {}; measure at least {MIN_DURATION}", self.duration, self.warm_up)
        })?;
        let each = self.duration + self.warm_up;
        reject_if(each > MAX_DURATION, || format!("runs of {each}; the maximum is {MAX_DURATION}"))?;
        reject_if(!PAYLOAD_BYTES.contains(&self.payload) || !NUMBERED_PACKETS.contains(&self.packets), || {
            "choose payloads of 16 to 1300 bytes, and 10 to 10000000 packets".into()
        })?;
        reject_if(!(self.load > 0.0 && self.load <= 2.0), || "choose a load above 0 %, and up to 200 %".into())?;
        self.check_blocks()?;
        reject_if(self.virtual_time && self.workload == WorkloadName::Blocks, || {
            "what writes of a host cost has no meaning in virtual time; run it in real time".into()
        })?;
        reject_if(self.virtual_time && self.workload == WorkloadName::Flood, || {
            "how much the kernel forwards has no meaning in virtual time; run it in real time".into()
        })
    }

    fn check_blocks(&self) -> Result<(), String> {
        let plan = self.blocks.block_settings();
        reject_if(self.blocks.ranges.iter().any(|range| range.step == 0 || range.to < range.from), || {
            "a range of lengths of blocks must go up, by a step of 1 byte at least".into()
        })?;
        reject_if((self.workload == WorkloadName::Blocks) == plan.is_empty(), || {
            "lengths of blocks belong to the workload `blocks`, which needs some".into()
        })?;
        reject_if(plan.len() > MAX_BLOCK_LENGTHS || plan.iter().any(|(bytes, _)| !BLOCK_BYTES.contains(bytes)), || {
            format!("choose at most {MAX_BLOCK_LENGTHS} lengths of blocks, of 1 to 65536 bytes")
        })
    }

    fn workload(&self) -> Workload {
        let MultipathFile { packets, payload, load, .. } = *self;
        match self.workload {
            WorkloadName::Transfer => Workload::Transfer,
            WorkloadName::Blocks => Workload::Blocks,
            WorkloadName::Numbered => Workload::Numbered { packets, payload, load },
            WorkloadName::Flood => Workload::Flood { payload },
        }
    }

    /// Those of `planes` that exist where the experiment is run.
    fn supported_planes(&self, planes: &[Plane]) -> Vec<Plane> {
        planes.iter().copied().filter(|plane| !self.virtual_time || plane.has_virtual_form()).collect()
    }

    fn case_tunings(&self, case: &str) -> Vec<Tuning> {
        let is_run = |tuning: &&Tuning| tuning.cases.is_empty() || tuning.cases.iter().any(|label| label == case);
        self.tunings.iter().filter(is_run).cloned().collect()
    }

    fn to_case(&self, section: &CaseSection) -> Result<MultipathCase, String> {
        let planes = section.planes.as_ref().unwrap_or(&self.planes);
        let equal = vec!["1"; section.paths.len()].join(":").parse().map_or_else(|_| Vec::new(), |equal| vec![equal]);
        let ratios = match (&section.ratios, self.ratios.is_empty()) {
            (Some(ratios), _) => ratios,
            (None, false) => &self.ratios,
            (None, true) => &equal,
        };
        let required = section.required.iter().map(|(plane, share)| {
            let share = parse::ratio(share).map_err(|error| error.to_string())?;
            Ok::<_, String>((plane.parse()?, share))
        });
        Ok(MultipathCase {
            label: section.label.clone(),
            paths: section.paths.clone(),
            contenders: Contender::all_contenders(
                &self.supported_planes(planes),
                ratios,
                &self.case_tunings(&section.label),
            ),
            window_bytes: section.window,
            outage: section.cut,
            sparse: section.sparse,
            echo: section.echo,
            trace: section.trace,
            stack: section.stack,
            host_rto: section.host_rto,
            published: section.published.clone(),
            required: required.collect::<Result<_, _>>()?,
        })
    }
}

fn check_case(case: &MultipathCase, duration: Span) -> Result<(), String> {
    let of = |reason: String| format!("{}: {reason}", case.label);
    let paths = case.paths.len();
    reject_if(!VALID_PATH_COUNTS.contains(&paths), || {
        of(format!("{paths} paths; choose 1 to {}", VALID_PATH_COUNTS.end()))
    })?;
    case.paths.iter().try_for_each(check_path).map_err(of)?;
    check_rto(case.host_rto).map_err(of)?;
    reject_if(case.contenders.is_empty(), || {
        of("none of its planes has a form in virtual time; leave --virtual out".into())
    })?;
    for contender in &case.contenders {
        let shares = contender.ratio.as_ref().map_or(paths, |ratio| ratio.shares().len());
        reject_if(shares != paths, || of(format!("{contender} is of {shares} paths, and there are {paths}")))?;
    }
    let twice =
        case.contenders.iter().enumerate().find(|(place, contender)| case.contenders[..*place].contains(contender));
    reject_if(twice.is_some(), || of(format!("{} is named twice", twice.map_or("", |(_, twice)| twice.plane.name()))))?;
    let is_kept = |window: u64| WINDOW_BYTES.contains(&window) && window.is_power_of_two();
    reject_if(case.window_bytes.is_some_and(|window| !is_kept(window)), || {
        of("choose a window of 64 kB to 16 MB that is a power of two: the kernel keeps to no others".into())
    })?;
    let Some(cut) = case.outage else { return Ok(()) };
    reject_if(!(1..=paths).contains(&cut.path) || !(Span::ZERO..duration).contains(&cut.after), || {
        of(format!("cutting path {} after {}; choose one of its {paths} paths, within {duration}", cut.path, cut.after))
    })?;
    let lasts = cut.duration.unwrap_or_default();
    reject_if(lasts < Span::ZERO || cut.after + lasts >= duration, || {
        of(format!("an outage of {lasts} after {}; it must end within {duration}", cut.after))
    })
}

fn check_tuning(tuning: &Tuning) -> Result<(), String> {
    let of = |reason: String| format!("{}: {reason}", tuning.name);
    let other = tuning.planes.iter().find(|plane| plane.outer_transport().is_none());
    reject_if(tuning.planes.is_empty() || other.is_some(), || {
        of("it must name planes that are tunnels over TCP, and no others".into())
    })?;
    check_rto(HostRto { min: tuning.min_rto, max: tuning.max_rto }).map_err(of)?;
    let buffers = [tuning.send_buffer, tuning.unsent];
    reject_if(buffers.iter().flatten().any(|bytes| !BUFFER_BYTES.contains(bytes)), || {
        of("choose buffers of 4 kB to 1 GB".into())
    })
}

fn check_rto(rto: HostRto) -> Result<(), String> {
    reject_if(rto.min.is_some_and(|least| !VALID_MIN_RTO.contains(&least)), || {
        "choose a minimum retransmission timeout of 1 ms to 60 s".into()
    })?;
    reject_if(rto.max.is_some_and(|most| !VALID_MAX_RTO.contains(&most)), || {
        "choose a maximum retransmission timeout of 1 s to 120 s".into()
    })
}

pub(crate) fn check_path(path: &PathSettings) -> Result<(), String> {
    check_rate("a path", path.rate)?;
    check_delay("a path's delay", path.delay)?;
    reject_if(!(0.0..=0.5).contains(&path.loss), || "choose a loss of 0 to 50 %".into())
}

const fn default_packet_count() -> u64 {
    50_000
}

const fn default_packet_bytes() -> u32 {
    1000
}

const fn default_max_ratio() -> f64 {
    0.8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ScenarioError;
    use crate::scenario::load;
    use crate::study::Experiment;
    use kumade_units::Rate;

    fn overridden(name: &str, with: Overrides) -> Result<MultipathExperiment, ScenarioError> {
        load(name, &with).map(|experiment| experiment.into_scenario::<MultipathExperiment>().unwrap())
    }

    fn named(name: &str) -> MultipathExperiment {
        overridden(name, Overrides::default()).unwrap()
    }

    #[test]
    fn the_papers_set_ups_are_among_the_cases() {
        // 2 × 8 Mbit/s at 0, 50 and 100 ms, windows ×1 and ×16 (Fig. 4).
        let tcp = named("multipath-tcp");
        let mbit8 = Rate::from_mbit(8);
        for delay in [0, 50, 100].map(Span::from_millis) {
            let equal = |path: &PathSettings| (path.rate, path.delay, path.loss) == (mbit8, delay, 0.0);
            assert!(tcp.cases.iter().any(|case| case.paths.len() == 2 && case.paths.iter().all(equal)), "{delay}");
        }
        let windows: Vec<_> = tcp.cases.iter().filter_map(|case| case.window_bytes).collect();
        assert!(windows.iter().any(|window| windows.contains(&(window * 16))), "{windows:?}");
        // 8 against 1.5 Mbit/s without delay, ratio 16:3 (Fig. 5).
        let unequal = named("multipath-unequal");
        let rates = [mbit8, Rate::from_bits_per_second(1_500_000)];
        let of_paper = unequal.cases.iter().find(|case| {
            case.paths.iter().map(|path| path.rate).eq(rates) && case.paths.iter().all(|path| path.delay == Span::ZERO)
        });
        let contenders: Vec<_> = of_paper.unwrap().contenders.iter().map(Contender::to_string).collect();
        assert!(
            ["direct 1:1", "direct 16:3"].iter().all(|of| contenders.contains(&(*of).to_owned())),
            "{contenders:?}"
        );
        let numbered = Workload::Numbered { packets: 50_000, payload: 1000, load: 0.8 };
        assert_eq!(named("multipath-reorder").workload, numbered);
        assert_eq!(named("multipath-udp").workload, Workload::Flood { payload: 1000 });
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let refused = |name: &str, with: Overrides, part: &str| {
            let error = overridden(name, with).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let usual = Overrides::default;
        let tcp = "multipath-tcp";
        refused(tcp, Overrides { runs: Some(0), ..usual() }, "no runs");
        refused(tcp, Overrides { duration: Some(Span::ZERO), ..usual() }, "at least 100 ms");
        refused(tcp, Overrides { rows: vec![99], ..usual() }, "it has no case 99");
        refused(tcp, Overrides { delays: vec![Span::ZERO], ..usual() }, "--delay does not apply");
        refused(tcp, Overrides { rate: Some(Rate::ZERO), ..usual() }, "--rate does not apply");
        refused(tcp, Overrides { cross: vec![Rate::ZERO], ..usual() }, "--cross does not apply");
        refused(tcp, Overrides { bottleneck: Some(BottleneckKind::Htb), ..usual() }, "cannot be the kernel's HTB");
        let virtual_time = Some(BottleneckKind::Virtual);
        refused("multipath-udp", Overrides { bottleneck: virtual_time, ..usual() }, "no meaning in virtual time");
        let mptcp = Overrides { planes: vec![Plane::Mptcp], bottleneck: virtual_time, ..usual() };
        refused(tcp, mptcp, "has a form in virtual time");
    }

    #[test]
    fn cases_that_contradict_themselves_are_refused_by_their_name() {
        let text = include_str!("../../scenarios/multipath-unequal.toml");
        let head = text.split("[[cases]]").next().unwrap();
        for (case, part) in [
            ("paths = []", "one: 0 paths"),
            ("paths = [{ rate = \"1mbit\", delay = \"9s\" }]", "one: a path's delay of 9 s"),
            ("paths = [{ rate = \"1bit\", delay = \"9ms\" }]", "one: a path of 1 bit/s"),
            ("paths = [{ rate = \"1mbit\", delay = \"9ms\", loss = \"60%\" }]", "a loss of 0 to 50 %"),
            ("paths = [{ rate = \"1mbit\", delay = \"9ms\" }]\nratios = [\"1:1\"]", "is of 2 paths, and there are 1"),
            ("paths = [{ rate = \"1mbit\", delay = \"9ms\" }]\ncut = { path = 2, after = \"1s\" }", "cutting path 2"),
            ("paths = [{ rate = \"1mbit\", delay = \"9ms\" }]\nwindow = \"1b\"", "a power of two"),
            ("paths = [{ rate = \"1mbit\", delay = \"9ms\" }]\nplanes = [\"direct\", \"direct\"]", "named twice"),
            ("paths = [{ rate = \"1mbit\", delay = \"9ms\" }]\nrequired = { bond = \"9%\" }", "`bond` is no plane"),
            ("paths = [{ rate = \"1mbit\", delay = \"9ms\" }]\nratios = [\"x\"]", "`x` is no ratio"),
        ] {
            let text = format!("{head}[[cases]]\nlabel = \"one\"\n{case}\n");
            let no_table = |_: &str| unreachable!("it names none");
            let read = Experiment::from_toml(&text, "own.toml", &no_table, &Overrides::default());
            let error = read.unwrap_err().to_string();
            assert!(error.contains(part), "{case}: {error}");
        }
    }

    #[test]
    fn some_cases_and_planes_will_do() {
        let with = Overrides { rows: vec![2], planes: vec![Plane::Bonded], ..Overrides::default() };
        let experiment = overridden("multipath-tcp", with).unwrap();
        let [case] = &experiment.cases[..] else { panic!("{} cases", experiment.cases.len()) };
        assert_eq!(case.contenders, [Contender::from_plane(Plane::Bonded)]);
        assert_eq!(case.paths[0].delay, Span::from_millis(50));
    }
}
