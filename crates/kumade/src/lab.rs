//! `kumade lab`: lists, runs and compares experiments.

mod mesh;
mod progress;

use crate::choice;
use crate::output::{StandardOutput, note};
use anyhow::Context;
use clap::{Args, Subcommand};
use kumade_estimate::MethodSettings;
use kumade_lab::accuracy::{
    self, AccuracyExperiment, AccuracyProgress, BottleneckKind, CrossKind, CrossSource, RealTime, Report, Testbed,
    Transport, VirtualTime,
};
use kumade_lab::atlas::{self, AtlasProgress, ExcludedPath, PathAtlas, PathAtlasReport, PathKind};
use kumade_lab::contention::{self, ContentionExperiment, ContentionProgress, ContentionReport};
use kumade_lab::fairness::{self, DisciplineChoice, FairnessExperiment, FairnessProgress, FairnessReport};
use kumade_lab::fast_links::{self, FastLinksExperiment, FastLinksProgress, FastLinksReport};
use kumade_lab::multipath::{self, MultipathExperiment, MultipathProgress, MultipathReport, Plane};
use kumade_lab::nat_session::{self, NatProgress, NatSessionExperiment, NatSessionReport};
use kumade_lab::{Experiment, Overrides, ReportDocument};
use kumade_units::Direction;
use kumade_units::{Rate, Span, parse};
use progress::{ReportWithRuns, progress_bar};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status of an invalid request.
const USAGE_STATUS: u8 = 2;
/// Exit status of a failure.
const FAILURE_STATUS: i32 = 1;

/// Run experiments on accuracy, fairness, several paths and NAT sessions, most of them published ones, on an emulated network
/// on this machine
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List the built-in experiments: name, published figure, title
    List,
    /// Run experiments and compare the results with the published ones
    Run(Box<RunArgs>),
    /// Compare two reports on fairness, such as one in virtual and one in real time
    Compare(CompareArgs),
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// First report.json (kumade.lab.fairness/1)
    one: PathBuf,
    /// Second report.json, of the same experiment
    other: PathBuf,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Built-in experiments (see `kumade lab list`) or scenario files (*.toml)
    #[arg(required = true, value_name = "NAME", value_parser = choice::experiment_parser())]
    names: Vec<String>,
    /// Print one JSON document (kumade.lab/1, or kumade.lab.fairness/1, kumade.lab.contention/1, kumade.lab.multipath/1, kumade.lab.nat-session/1, kumade.lab.path-atlas/1, kumade.lab.fast-links/1, kumade.lab.monitor-mesh/1) per
    /// experiment instead of tables
    #[arg(long)]
    json: bool,
    /// Directory for the reports [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Short for --bottleneck virtual: run in virtual time, with the simulator's network and TCP
    #[arg(long = "virtual", conflicts_with = "bottleneck")]
    virtual_time: bool,
    /// Implementation of the bottleneck: `emulated` (a link emulated by this program), `htb` (the kernel's HTB; requires
    /// root and tc), or `virtual` (the emulated link in virtual time: no network is built, a run takes milliseconds, and
    /// results are reproducible)
    #[arg(long, value_name = "KIND")]
    bottleneck: Option<BottleneckKind>,
    /// Rate of the bottleneck; cross traffic is scaled with it unless --cross is given
    #[arg(long, value_parser = parse::rate)]
    rate: Option<Rate>,
    /// Accuracy: mean rates of cross traffic, such as 0mbit,2mbit,4mbit
    #[arg(long, value_name = "RATES", value_parser = parse::rate, value_delimiter = ',')]
    cross: Vec<Rate>,
    /// Accuracy: arrival process of cross traffic: constant, jittered (by up to 5 % of each interval), poisson, on-off, or
    /// tcp (one greedy connection, limited to each rate)
    #[arg(long, value_name = "KIND")]
    cross_kind: Option<CrossKind>,
    /// Accuracy: whether cross traffic is computed within the emulated `link` or sent as `packets`; `htb` and `tcp`
    /// require packets
    #[arg(long, value_name = "SOURCE")]
    cross_source: Option<CrossSource>,
    /// Accuracy: transports of the trains: udp, rake, single, auto
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    transport: Vec<Transport>,
    /// Accuracy: methods, each with parameters that differ from their defaults, such as
    /// primed,linear-scan:interval=1ms
    #[arg(long, value_name = "LIST", value_parser = choice::method_parser(), value_delimiter = ',')]
    method: Vec<MethodSettings>,
    /// Accuracy: directions to measure: up, down
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    direction: Vec<Direction>,
    /// Number of measurements of each point
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// Fairness, contention: queue disciplines to compare, each with the parameters that differ from its defaults (see `kumade link
    /// start --help`), such as codel,fair-share:target=5ms:window=300ms
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choice::discipline_parser())]
    discipline: Vec<DisciplineChoice>,
    /// Fairness: delays added to the round trip, such as 1ms,128ms
    #[arg(long, value_name = "LIST", value_parser = parse::span, value_delimiter = ',')]
    delay: Vec<Span>,
    /// Fairness: rows of a table of mixes, such as 0,6,12; contention, several paths, NAT sessions: cases, counted
    /// from 1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    row: Vec<u32>,
    /// Several paths: planes to compare in all cases
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choice::plane_parser())]
    plane: Vec<Plane>,
    /// Fairness, contention, several paths: time over which goodput is measured; monitored mesh: how long it runs
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    duration: Option<Span>,
    /// Fairness, contention, several paths: time that connections run before their goodput is measured
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    warm_up: Option<Span>,
    /// NAT sessions: time without a packet after which they end, at least 3s
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    idle: Option<Span>,
    /// Paths of many kinds: the kinds to measure, such as fifo,policer
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = choice::path_kind_parser())]
    kind: Vec<PathKind>,
    /// Monitored mesh: serve the monitor's page at this address of this host until Ctrl-C, and write no report [default:
    /// 127.0.0.1:7280]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:7280")]
    serve: Option<SocketAddr>,
}

/// Runs the command. Call it before the program starts a thread: without root it enters a user namespace.
///
/// # Errors
/// If an experiment can't be prepared or run, or its report can't be written.
pub fn run(args: LabArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        LabCommand::List => list_experiments(),
        LabCommand::Run(args) => run_experiments(&args),
        LabCommand::Compare(args) => compare_reports(&args),
    }
}

fn compare_reports(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let read = |path: &PathBuf| {
        let text = kumade_daemon::read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
        FairnessReport::from_json(&text).with_context(|| format!("cannot compare {}", path.display()))
    };
    let text = fairness::compare(&read(&args.one)?, &read(&args.other)?);
    StandardOutput.write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn list_experiments() -> anyhow::Result<ExitCode> {
    let mut out = StandardOutput;
    for experiment in kumade_lab::experiments()? {
        let paper = experiment.paper().map_or(String::new(), |paper| format!("{}, {}", paper.system, paper.figure));
        writeln!(out, "{:<17}  {paper:<40}  {}", experiment.name(), experiment.title())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_experiments(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let overrides = args.overrides();
    let experiments: Result<Vec<_>, _> = args.names.iter().map(|name| kumade_lab::load(name, &overrides)).collect();
    let experiments = match experiments {
        Ok(experiments) => experiments,
        Err(error) => {
            note!("kumade: {error}");
            return Ok(ExitCode::from(USAGE_STATUS));
        }
    };
    let mut page = args.serve.map(|address| mesh::open_page(address, &experiments)).transpose()?;
    if experiments.iter().any(|experiment| !experiment.is_virtual()) {
        kumade_net::namespace::enter_user_namespace_if_needed()?;
    }
    // The first signal stops the experiment after the current run, with a report; the second ends the program at once.
    let stop = kumade_daemon::signals::termination_flag_or_exit(FAILURE_STATUS).context("cannot listen for Ctrl-C")?;
    for experiment in experiments.iter().filter(|_| page.is_none()) {
        kumade_lab::prepare_directory(&args.report_directory(experiment))?;
    }
    for (index, experiment) in experiments.iter().enumerate() {
        let (report, measured) = match experiment {
            Experiment::Accuracy(experiment) => run_accuracy(experiment, &stop)?,
            Experiment::Fairness(experiment) => run_fairness(experiment, &stop)?,
            Experiment::Contention(experiment) => run_contention(experiment, &stop)?,
            Experiment::Multipath(experiment) => run_multipath(experiment, &stop)?,
            Experiment::NatSessions(experiment) => run_nat_session(experiment, &stop)?,
            Experiment::PathAtlas(experiment) => run_atlas(experiment, &stop)?,
            Experiment::FastLinks(experiment) => run_fast_links(experiment, &stop)?,
            Experiment::MonitorMesh(experiment) => mesh::run_mesh(experiment, page.take(), &stop)?,
        };
        if args.serve.is_some() {
            // It was ended as it was meant to be.
            return Ok(ExitCode::SUCCESS);
        }
        // An empty report must not replace an earlier one.
        if measured > 0 {
            output_report(report.as_ref(), args, experiment)?;
        }
        let of = experiment.run_count();
        if stop.load(Ordering::Relaxed) && (measured < of || index + 1 < experiments.len()) {
            anyhow::bail!("stopped after {measured} of {of} runs of {}", experiment.name());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the report, and writes its files.
fn output_report(report: &dyn ReportDocument, args: &RunArgs, experiment: &Experiment) -> anyhow::Result<()> {
    let text = if args.json { report.to_json()? + "\n" } else { report.to_text() };
    // Neither a full disk nor a closed output loses the results for the other.
    let printed = StandardOutput.write_all(text.as_bytes());
    for path in report.write_files(&args.report_directory(experiment))? {
        note!("wrote {}", path.display());
    }
    Ok(printed?)
}

fn run_fairness(experiment: &FairnessExperiment, stop: &AtomicBool) -> anyhow::Result<ReportWithRuns> {
    let runs = experiment.points().len();
    note!("{}: {}", experiment.name, fairness::expected_time(experiment));
    let bar = progress_bar(&experiment.name)?;
    bar.set_length(runs as u64);
    let started = kumade_lab::now_utc();
    let mut show = |progress: FairnessProgress<'_>| match progress {
        FairnessProgress::Running(point) => {
            bar.set_message(format!("{}: {}, {}", experiment.name, point.discipline, point.case.label));
        }
        FairnessProgress::Repeating { lateness } => {
            bar.set_message(format!("{}: host scheduling delay of {lateness}, repeating the run", experiment.name));
        }
        FairnessProgress::Done(row) => {
            bar.set_message(format!("{}: {}, {}", experiment.name, row.discipline, row.case));
            bar.inc(1);
        }
    };
    let rows = fairness::run(experiment, &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let measured = rows.len();
    Ok((Box::new(FairnessReport::new(experiment, started, rows)), measured))
}

fn run_contention(experiment: &ContentionExperiment, stop: &AtomicBool) -> anyhow::Result<ReportWithRuns> {
    note!("{}: {}", experiment.name, contention::expected_time(experiment));
    let bar = progress_bar(&experiment.name)?;
    bar.set_length(experiment.run_count() as u64);
    let started = kumade_lab::now_utc();
    let mut show = |progress: ContentionProgress<'_>| match progress {
        ContentionProgress::Searched(tried, case) => {
            bar.set_message(format!("{}: found {}", experiment.name, case.label));
            bar.inc(u64::from(tried));
        }
        ContentionProgress::Running(point) => {
            bar.set_message(format!("{}: {}, {}", experiment.name, point.discipline, point.case.label));
        }
        ContentionProgress::Repeating { lateness } => {
            bar.set_message(format!("{}: host scheduling delay of {lateness}, repeating the run", experiment.name));
        }
        ContentionProgress::Done(row) => {
            bar.set_message(format!("{}: {}, {}", experiment.name, row.discipline, row.case));
            bar.inc(1);
        }
    };
    let outcome = contention::run(experiment, &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let judged = outcome.1.len();
    let measured = if judged > 0 { judged + experiment.search_run_count() } else { 0 };
    Ok((Box::new(ContentionReport::new(experiment, started, outcome)), measured))
}

fn run_multipath(experiment: &MultipathExperiment, stop: &AtomicBool) -> anyhow::Result<ReportWithRuns> {
    note!("{}: {}", experiment.name, multipath::expected_time(experiment));
    let bar = progress_bar(&experiment.name)?;
    bar.set_length(experiment.points().len() as u64);
    let started = kumade_lab::now_utc();
    let mut show = |progress: MultipathProgress<'_>| match progress {
        MultipathProgress::Running(point) => {
            bar.set_message(format!("{}: {}, {}", experiment.name, point.contender, point.case.label));
        }
        MultipathProgress::Repeating { lateness } => {
            bar.set_message(format!("{}: host scheduling delay of {lateness}, repeating the run", experiment.name));
        }
        MultipathProgress::Done(_) => bar.inc(1),
    };
    let mut testbed = multipath::new_testbed(experiment);
    let rows = multipath::run(experiment, testbed.as_mut(), &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let measured = rows.len();
    Ok((Box::new(MultipathReport::new(experiment, started, rows)), measured))
}

fn run_nat_session(experiment: &NatSessionExperiment, stop: &AtomicBool) -> anyhow::Result<ReportWithRuns> {
    note!("{}: {}", experiment.name, nat_session::expected_time(experiment));
    let bar = progress_bar(&experiment.name)?;
    bar.set_length(experiment.points().len() as u64);
    let started = kumade_lab::now_utc();
    let mut show = |progress: NatProgress<'_>| match progress {
        NatProgress::Running(point) => bar.set_message(format!("{}: {}", experiment.name, point.case.label)),
        NatProgress::Repeating { lateness } => {
            bar.set_message(format!("{}: host scheduling delay of {lateness}, repeating the run", experiment.name));
        }
        NatProgress::Done(_) => bar.inc(1),
    };
    let rows = nat_session::run(experiment, &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let measured = rows.len();
    Ok((Box::new(NatSessionReport::new(experiment, started, rows)), measured))
}

fn run_atlas(experiment: &PathAtlas, stop: &AtomicBool) -> anyhow::Result<ReportWithRuns> {
    note!("{}: {}", experiment.name, atlas::expected_time(experiment));
    let bar = progress_bar(&experiment.name)?;
    bar.set_length(experiment.points().len() as u64);
    let started = kumade_lab::now_utc();
    let mut show = |progress: AtlasProgress<'_>| match progress {
        AtlasProgress::Excluded(ExcludedPath { kind, reason }, runs) => {
            bar.suspend(|| note!("{}: {kind} is left out: {reason}", experiment.name));
            bar.inc(runs as u64);
        }
        AtlasProgress::Running(point) => {
            bar.set_message(format!("{}: {} over {}", experiment.name, point.kind, point.transport));
        }
        AtlasProgress::Repeating { lateness } => {
            bar.set_message(format!("{}: host scheduling delay of {lateness}, repeating the run", experiment.name));
        }
        AtlasProgress::Done(row) => {
            bar.set_message(format!("{}: {} over {}", experiment.name, row.kind, row.transport));
            bar.inc(1);
        }
    };
    let outcome = atlas::run(experiment, &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let measured = outcome.rows.len();
    if measured == 0 && !stop.load(Ordering::Relaxed) {
        anyhow::bail!(
            "none of the kinds of paths can be built here; choose others with --kind, or run them with --virtual"
        );
    }
    Ok((Box::new(PathAtlasReport::new(experiment, started, outcome)), measured))
}

fn run_fast_links(experiment: &FastLinksExperiment, stop: &AtomicBool) -> anyhow::Result<ReportWithRuns> {
    note!("{}: {}", experiment.name, fast_links::expected_time(experiment));
    let bar = progress_bar(&experiment.name)?;
    bar.set_length(experiment.measurement_count() as u64);
    let started = kumade_lab::now_utc();
    let mut show = |progress: FastLinksProgress<'_>| match progress {
        FastLinksProgress::Building(path) => {
            bar.set_message(format!("{}: building a link of {}, MTU {}", experiment.name, path.rate, path.mtu));
        }
        FastLinksProgress::Running(point) => {
            let (path, transport) = (point.path, point.transport);
            bar.set_message(format!("{}: {}, MTU {}, over {transport}", experiment.name, path.rate, path.mtu));
        }
        FastLinksProgress::Repeating { lateness } => {
            bar.set_message(format!("{}: host scheduling delay of {lateness}, repeating the run", experiment.name));
        }
        FastLinksProgress::Done(_) => bar.inc(1),
    };
    let rows = fast_links::run(experiment, &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let measured = rows.len();
    Ok((Box::new(FastLinksReport::new(experiment, started, rows)), measured))
}

fn run_accuracy(experiment: &AccuracyExperiment, stop: &AtomicBool) -> anyhow::Result<ReportWithRuns> {
    let bar = progress_bar(&experiment.name)?;
    let started = kumade_lab::now_utc();
    let first = experiment.scenarios.first().unwrap_or(&experiment.base_scenario);
    let mut testbed: Box<dyn Testbed> =
        if experiment.is_virtual() { Box::new(VirtualTime) } else { Box::new(RealTime::from_scenario(first)?) };
    note!("{}: {} runs", experiment.name, experiment.run_count());
    if experiment.excludes_tcp {
        note!("{}: skipped TCP cross traffic, which requires real time", experiment.name);
    }
    let mut show = |progress: AccuracyProgress<'_>| match progress {
        AccuracyProgress::Measuring { total: of, point, .. } => {
            bar.set_length(of as u64);
            let (transport, method) = (point.transport.word(), &point.method);
            bar.set_message(format!("{}: {transport} {method}, cross {}", experiment.name, point.cross));
        }
        AccuracyProgress::Repeating { lateness } => {
            bar.set_message(format!("{}: host scheduling delay of {lateness}, repeating the run", experiment.name));
        }
        AccuracyProgress::Measured(_) => bar.inc(1),
    };
    let rows = accuracy::run(experiment, testbed.as_mut(), &mut show, &|| stop.load(Ordering::Relaxed))?;
    bar.finish_and_clear();
    let measured = rows.len();
    Ok((Box::new(Report::new(experiment, started, rows)), measured))
}

impl RunArgs {
    fn overrides(&self) -> Overrides {
        Overrides {
            bottleneck: if self.virtual_time { Some(BottleneckKind::Virtual) } else { self.bottleneck },
            rate: self.rate,
            cross: self.cross.clone(),
            cross_kind: self.cross_kind,
            cross_source: self.cross_source,
            transports: self.transport.clone(),
            methods: self.method.clone(),
            directions: self.direction.clone(),
            runs: self.runs,
            disciplines: self.discipline.clone(),
            delays: self.delay.clone(),
            rows: self.row.clone(),
            planes: self.plane.clone(),
            duration: self.duration,
            warm_up: self.warm_up,
            idle: self.idle,
            kinds: self.kind.clone(),
        }
    }

    /// The report directory of an experiment.
    fn report_directory(&self, experiment: &Experiment) -> PathBuf {
        match &self.out {
            None => PathBuf::from("reports").join(experiment.name()),
            Some(out) if self.names.len() == 1 => out.clone(),
            Some(out) => out.join(experiment.name()),
        }
    }
}
