//! `kumade lab`: lists, shows, runs and compares experiments.

mod end_requests;
#[cfg(target_os = "linux")]
mod mesh;
mod progress;

use crate::choice;
use crate::output::{StandardOutput, note};
use clap::{Args, Subcommand};
use end_requests::EndRequests;
use kumade_estimate::MethodSettings;
use kumade_lab::accuracy::{BottleneckKind, CrossKind, CrossSource, Transport};
use kumade_lab::atlas::PathKind;
use kumade_lab::fairness::DisciplineChoice;
use kumade_lab::multipath::Plane;
use kumade_lab::{CatalogueEntry, Experiment, Overrides, ReportDocument, RunRecord, Shard};
use kumade_units::{Direction, Rate, Span, parse};
use progress::{progress_bar, show_progress};
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Exit status of an invalid request.
const USAGE_STATUS: u8 = 2;
/// Where the report of an interrupted experiment is, in the directory of the whole one's.
const INTERRUPTED_DIRECTORY: &str = "interrupted";

/// Run experiments on accuracy, fairness, several paths and NAT sessions, most of them published ones, on an emulated network
/// on this machine
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List the built-in experiments: name, whether they have --virtual and --as-published, the numbers that --row chooses from, published
    /// figure, title
    List,
    /// Print the scenario file of a built-in experiment, or a table that such a file names: to copy and to change
    Show(ShowArgs),
    /// Run experiments and compare the results with the published ones
    ///
    /// On Linux, Ctrl-C ends an experiment after the run that has begun, with a report in the directory `interrupted`; once more ends it at once.
    /// The same command goes on with the other runs.
    Run(Box<RunArgs>),
    /// Put runs together that several machines have made with `lab run --shard`: the report is that of one machine
    Merge(MergeArgs),
    /// Compare two reports of one experiment, such as one in virtual and one in real time: what differs, and by how much
    Compare(CompareArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Built-in experiment (see `kumade lab list`), or a table such as fair-mix.csv
    name: String,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// Directory of the first report, or its report.json
    one: PathBuf,
    /// Directory or report.json of the second one, of the same experiment
    other: PathBuf,
}

#[derive(Debug, Args)]
struct MergeArgs {
    /// Directories that `lab run --shard` was given with --out
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// Directory for the report [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Built-in experiments (see `kumade lab list`) or scenario files (*.toml)
    #[arg(required = true, value_name = "NAME", value_parser = choice::experiment_parser())]
    names: Vec<String>,
    /// Print one JSON document (kumade.lab/1, or kumade.lab.fairness/1, kumade.lab.contention/1, kumade.lab.multipath/1, kumade.lab.nat-session/1, kumade.lab.path-atlas/1, kumade.lab.fast-links/1, kumade.lab.path-treatment/1, kumade.lab.kernel-paths/1, kumade.lab.monitor-mesh/1) per
    /// experiment instead of tables
    #[arg(long)]
    json: bool,
    /// Directory for the reports [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make one part of the runs, such as 3/64 (counted from 0/64 to 63/64), and no report: `kumade lab merge` makes it of all parts
    #[arg(long, value_name = "PART", conflicts_with_all = ["json", "serve"])]
    shard: Option<Shard>,
    /// Run over all points of the paper that the experiment repeats, and judge what that states (see `kumade lab list` for the paper). Other
    /// options still replace parts. The report goes to reports/NAME-as-published by default
    #[arg(long)]
    as_published: bool,
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
    /// Fairness: rows of a table of mixes, counted from 0, such as 0,6,12; contention, several paths, NAT sessions, treatment by paths:
    /// cases, counted from 1; kernel's shapers: kinds, counted from 1 (see `kumade lab list`)
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
    /// Kernel's shapers: draws the first path of each kind; with --row, the number of a kind, and --runs 1 it is measured again
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
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
        LabCommand::Show(args) => show_file(&args.name),
        LabCommand::Run(args) => run_experiments(&args),
        LabCommand::Merge(args) => merge_runs(&args),
        LabCommand::Compare(args) => compare_reports(&args),
    }
}

fn compare_reports(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let text = kumade_lab::compare_reports(&args.one, &args.other)?;
    StandardOutput.write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn list_experiments() -> anyhow::Result<ExitCode> {
    let mut out = StandardOutput;
    for CatalogueEntry { experiment, runs_virtually, rows } in kumade_lab::catalogue()? {
        let head = experiment.head();
        let paper = head.paper.map_or(String::new(), |paper| format!("{}, {}", paper.system, paper.figure));
        let clock = if runs_virtually { "virtual" } else { "" };
        let published = if experiment.is_publishable() { "as-published" } else { "" };
        let rows = rows.filter(|rows| rows.start() < rows.end());
        let rows = rows.map_or(String::new(), |rows| format!("rows {} to {}", rows.start(), rows.end()));
        writeln!(out, "{:<20}  {clock:<7}  {published:<12}  {rows:<12}  {paper:<40}  {}", head.name, head.title)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_file(name: &str) -> anyhow::Result<ExitCode> {
    let text = match kumade_lab::built_in_file(name) {
        Ok(text) => text,
        Err(error) => {
            note!("kumade: {error}");
            return Ok(ExitCode::from(USAGE_STATUS));
        }
    };
    StandardOutput.write_all(text.as_bytes())?;
    for table in kumade_lab::tables_named_in(text) {
        note!("it names {table}, which a copy needs beside it: kumade lab show {table} > {table}");
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
    if let Some(whole) = experiments.iter().find(|experiment| args.shard.is_some() && !experiment.is_divisible()) {
        note!("kumade: {} cannot be divided: run it without --shard", whole.head().name);
        return Ok(ExitCode::from(USAGE_STATUS));
    }
    experiments.iter().filter_map(Experiment::warning).for_each(|warning| note!("warning: {warning}"));
    #[cfg(not(target_os = "linux"))]
    if args.serve.is_some() {
        anyhow::bail!("`--serve` takes Linux: this system runs experiments in virtual time, without a page");
    }
    #[cfg(not(target_os = "linux"))]
    let end_requests = EndRequests::none();
    #[cfg(target_os = "linux")]
    let end_requests = {
        let page = args.serve.map(|address| mesh::open_page(address, &experiments)).transpose()?;
        if experiments.iter().any(|experiment| !experiment.head().is_virtual) {
            kumade_net::namespace::enter_user_namespace_if_needed()?;
        }
        let end_requests = anyhow::Context::context(EndRequests::listen(), "cannot listen for Ctrl-C")?;
        if let Some((mesh, page)) = page {
            // It is ended as it is meant to be.
            return mesh::serve_mesh(mesh, page, end_requests.stop_flag()).map(|()| ExitCode::SUCCESS);
        }
        end_requests
    };
    let mut records = Vec::new();
    for experiment in &experiments {
        let directory = args.report_directory(experiment);
        kumade_lab::prepare_directory(&directory)?;
        records.push(experiment.open_record(&directory, args.shard)?);
    }
    for (index, (experiment, record)) in experiments.iter().zip(records).enumerate() {
        let is_last = index + 1 == experiments.len();
        run_experiment(experiment, record, args, &end_requests, is_last)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the runs that the record lacks, and the report, unless these are a part of all.
fn run_experiment(
    experiment: &Experiment,
    mut record: RunRecord,
    args: &RunArgs,
    end_requests: &EndRequests,
    is_last: bool,
) -> anyhow::Result<()> {
    let name = experiment.head().name;
    let runs = args.shard.map_or(experiment.run_count(), |shard| shard.run_count(experiment.run_count()));
    note!("{name}: {}", experiment.expected_time());
    if record.row_count() > 0 {
        note!("{name}: {} of {runs} runs are there already", record.row_count());
    }
    let bar = progress_bar(experiment, runs)?;
    end_requests.set_current(experiment, &bar);
    let is_stopped = || end_requests.stop_flag().load(Ordering::Relaxed);
    let (report, measured) =
        experiment.run(&mut record, &mut |progress| show_progress(&bar, name, progress), &is_stopped)?;
    bar.finish_and_clear();
    let is_interrupted = report.interruption().is_some();
    // What is one run, or depends on a search that was not finished, leaves nothing to go on with.
    let rest = if record.row_count() > 0 { "; the same command goes on with the others" } else { "" };
    // An empty report must not replace an earlier one.
    let printed = match args.shard {
        Some(shard) => {
            let path = record.path().unwrap_or(Path::new("")).display();
            note!(
                "{name}: {measured} runs of part {shard} are in {path}; kumade lab merge makes the report of all parts"
            );
            Ok(())
        }
        None if measured > 0 => output_report(report.as_ref(), args.json, &args.report_directory(experiment))?,
        None => Ok(()),
    };
    if args.shard.is_none() && !is_interrupted {
        record.remove()?;
    }
    if is_interrupted {
        anyhow::bail!("stopped after {measured} of {runs} runs of {name}{rest}");
    }
    if is_stopped() && !is_last {
        anyhow::bail!("stopped after {name}, which has all its runs; those behind it were not run");
    }
    Ok(printed?)
}

fn merge_runs(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let (experiment, mut record) = kumade_lab::read_runs(&args.directories)?;
    let (report, _) = experiment.run(&mut record, &mut |_| (), &|| false)?;
    let directory = args.out.clone().unwrap_or_else(|| default_directory(&experiment));
    output_report(report.as_ref(), args.json, &directory)??;
    Ok(ExitCode::SUCCESS)
}

/// Prints the report, and writes its files. That of an interrupted experiment takes the place of no whole one. The inner result is that of
/// printing.
fn output_report(report: &dyn ReportDocument, as_json: bool, directory: &Path) -> anyhow::Result<io::Result<()>> {
    let text = if as_json { report.to_json()? + "\n" } else { report.to_text() };
    // Neither a full disk nor a closed output loses the results for the other.
    let printed = StandardOutput.write_all(text.as_bytes());
    let partial = directory.join(INTERRUPTED_DIRECTORY);
    let is_whole = report.interruption().is_none();
    for path in report.write_files(if is_whole { directory } else { &partial })? {
        note!("wrote {}", path.display());
        if let (true, Some(name)) = (is_whole, path.file_name()) {
            // What it replaces, if it is there.
            let _ = fs::remove_file(partial.join(name));
        }
    }
    if is_whole {
        let _ = fs::remove_dir(partial);
    }
    Ok(printed)
}

fn default_directory(experiment: &Experiment) -> PathBuf {
    PathBuf::from("reports").join(experiment.report_name())
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
            seed: self.seed,
            as_published: self.as_published,
        }
    }

    /// The report directory of an experiment.
    fn report_directory(&self, experiment: &Experiment) -> PathBuf {
        match &self.out {
            None => default_directory(experiment),
            Some(out) if self.names.len() == 1 => out.clone(),
            Some(out) => out.join(experiment.head().name),
        }
    }
}
