//! `kumade link`: emulates a link between two interfaces, and changes it while it runs.

mod live;
mod options;
mod show;
mod view;

use crate::confinement::Confinement;
use crate::live::screen::Screen;
use crate::output::{StandardOutput, note};
use crate::running::{LINK, parse_name, registry, serve_metrics};
use crate::usage::usage_error;
use anyhow::Context;
use clap::{Args, Subcommand};
use kumade_daemon::signals::DaemonSignals;
use kumade_daemon::{ActivityWatch, metrics_address};
use kumade_emulator::control::{LinkProtocol, Reply, Request};
use kumade_emulator::prometheus;
use kumade_emulator::schedule::{self, Schedule};
use kumade_emulator::session::LinkSession;
use kumade_emulator::settings::{Settings, SettingsChange};
use kumade_emulator::{EmulatorError, PortSpec};
use kumade_units::{Span, parse};
use options::SettingOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use view::{LinkOutput, LinkView};

/// Between two looks at whether a link that was asked to stop has.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Restoring two interfaces takes milliseconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Emulate a link between two interfaces (rate, delay, loss, queue discipline), or manage a bottleneck's queue fairly
#[derive(Debug, Args)]
pub struct LinkArgs {
    #[command(subcommand)]
    command: LinkCommand,
}

#[derive(Debug, Subcommand)]
enum LinkCommand {
    Start(Box<StartArgs>),
    Set(Box<SetArgs>),
    Show(show::ShowArgs),
    /// List the running links of this user: name, interfaces, settings
    List,
    Stop(StopArgs),
}

/// Bridge two interfaces by an emulated link, until Ctrl-C
///
/// The interfaces' configuration is restored at the end. Direction `up` is from the first interface to the second, `down`
/// the reverse. Settings apply to both directions; --up and --down override them for one direction, with the names of the
/// other options, such as --up 'rate 10mbit loss 1%'.
///
/// Example: kumade link start eth1 eth2 --rate 100mbit --delay 20ms --queue fair-share
#[derive(Debug, Args)]
struct StartArgs {
    /// First interface
    first: String,
    /// Second interface
    second: String,
    /// Create two TUN devices with these names instead of using existing interfaces. Then assign addresses and routes, or
    /// move one to another namespace with `ip link set dev NAME netns …`. Needs no root within `unshare -rn`
    #[arg(long)]
    tun: bool,
    /// Name of the link, for `kumade link set` and `kumade link show`
    #[arg(long, default_value = LINK.usual_name, value_parser = parse_name)]
    name: String,
    /// Change settings at given times: a file with lines such as `10s rate 5mbit` or `20s up loss 1%`; a last line such as
    /// `30s repeat` starts it again
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Interval of statistics: of the live view on a terminal, and of lines elsewhere
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "1s")]
    every: Span,
    /// Print one JSON document (kumade.link/1) at the end
    #[arg(long, conflicts_with = "json_stream")]
    json: bool,
    /// Print one line of JSON (kumade.link/1) for each interval, and one with totals at the end
    #[arg(long)]
    json_stream: bool,
    /// Serve Prometheus metrics on this port; without an address, on the loopback interface only
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    prometheus: Option<SocketAddr>,
    /// Keep capabilities, writes and system calls that the link does not need
    #[arg(long)]
    keep_privileges: bool,
    #[command(flatten)]
    settings: SettingOptions,
}

/// Change settings of a running link; settings that are not named are unchanged
///
/// Example: kumade link set --rate 5mbit --down 'loss 1%'
#[derive(Debug, Args)]
struct SetArgs {
    /// Name of the link
    #[arg(long, default_value = LINK.usual_name, value_parser = parse_name)]
    name: String,
    #[command(flatten)]
    settings: SettingOptions,
}

/// End a running link, as Ctrl-C does, and wait until its interfaces are as they were
///
/// Example: kumade link stop
#[derive(Debug, Args)]
struct StopArgs {
    /// Name of the link
    #[arg(long, default_value = LINK.usual_name, value_parser = parse_name)]
    name: String,
}

/// Runs the command.
///
/// # Errors
/// If the link can't be started or reached, or its answer is not understood. Invalid settings give exit status 2.
pub fn run(args: LinkArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        LinkCommand::Start(args) => start_link(&args),
        LinkCommand::Set(args) => send_settings(&args),
        LinkCommand::Show(args) => show::run(&args),
        LinkCommand::List => show::list_links(),
        LinkCommand::Stop(args) => stop_link(&args.name),
    }
}

fn start_link(args: &StartArgs) -> anyhow::Result<ExitCode> {
    if args.every < Span::from_millis(10) {
        return Ok(usage_error(&"--every must be at least 10ms"));
    }
    let settings = match args.settings.settings_change().and_then(|change| Settings::new(&change)) {
        Ok(settings) => settings,
        Err(error) => return Ok(usage_error(&error)),
    };
    settings.warnings().iter().for_each(|warning| note!("warning: {warning}"));
    let mut schedule = match read_schedule(args, &settings)? {
        Ok(schedule) => schedule,
        Err(reason) => return Ok(usage_error(&reason)),
    };
    let signals = DaemonSignals::register(false).context("cannot listen for Ctrl-C")?;
    let activity = ActivityWatch::new(signals.waker());
    let claim = registry::<LinkProtocol>().lock_name(&args.name).map_err(|error| LINK.explain(error))?;
    let ports = [&args.first, &args.second].map(|name| port_spec(name, args.tun));
    // Asked before the confinement, which denies that.
    let has_screen = Screen::is_available();
    let metrics_port = args.prometheus.map(|address| address.port());
    let confinement = (!args.keep_privileges).then(|| Confinement::to_network(metrics_port));
    let session = match LinkSession::start(&args.name, ports, settings, activity.end_notice()) {
        Ok(session) => Arc::new(session),
        Err(error @ EmulatorError::SameInterface(_)) => return Ok(usage_error(&error)),
        Err(error) => return Err(error.into()),
    };
    let (answering, stopper) = (Arc::clone(&session), signals.stopper());
    let control = claim.serve(move |request| {
        if request == Request::Stop {
            stopper.request_end();
        }
        answering.handle_request(&request)
    })?;
    let counting = Arc::clone(&session);
    let serve = |address| serve_metrics(address, move || prometheus::encode_metrics(&counting.total()));
    let exporter = args.prometheus.map(serve).transpose()?;
    confinement.into_iter().for_each(Confinement::finish);
    let name = if args.name == LINK.usual_name { String::new() } else { format!(" --name {}", args.name) };
    note!("{} and {} are bridged; `kumade link set{name}` changes the link, Ctrl-C stops it", args.first, args.second);
    let mut view = LinkView::new(args.output(), has_screen)?;
    let watched = follow_session((&session, &activity), &mut schedule, args.every, &signals, &mut view);
    let ended = session.stop();
    // Who has asked for the end waits until nobody answers.
    drop((control, exporter));
    view.finish(&session.total())?;
    watched?;
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Follows the schedule and shows statistics until a signal comes or the link ends.
fn follow_session(
    (session, activity): (&LinkSession, &ActivityWatch),
    schedule: &mut Schedule,
    every: Span,
    signals: &DaemonSignals,
    view: &mut LinkView,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut next_view = every;
    while !activity.has_ended() && !signals.is_end_requested() {
        let elapsed = Span::from(began.elapsed());
        while let Some(change) = schedule.take_due(elapsed) {
            apply_change(session, &change, view);
        }
        if elapsed >= next_view {
            view.show_interval(session.take_interval(), || session.total())?;
            // Intervals missed during a slow output are skipped.
            next_view = elapsed - Span::from_nanos((elapsed - next_view).as_nanos() % every.as_nanos()) + every;
        }
        let next = schedule.next_change_time().map_or(next_view, |at| at.min(next_view));
        if view.wait(began + next.to_duration(), signals)? {
            break;
        }
    }
    Ok(())
}

/// Applies a change of the schedule, which may conflict with settings that were changed by `kumade link set`.
fn apply_change(session: &LinkSession, change: &SettingsChange, view: &mut LinkView) {
    if let Err(error) = session.change(change) {
        view.warn(format!("skipped a change of the schedule: {error}"));
    }
}

fn send_settings(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let change = match args.settings.settings_change() {
        Ok(change) if change.is_empty() => {
            return Ok(usage_error(&"no setting given: use for example --rate 5mbit; --help lists all settings"));
        }
        Ok(change) => change,
        Err(error) => return Ok(usage_error(&error)),
    };
    match registry::<LinkProtocol>()
        .send_request(&args.name, &Request::Set { change })
        .map_err(|error| LINK.explain(error))?
    {
        Reply::Done { settings: [up, down] } => {
            writeln!(StandardOutput, "up: {up}\ndown: {down}")?;
            Ok(ExitCode::SUCCESS)
        }
        Reply::Refused { reason } => Ok(usage_error(&reason)),
        Reply::Shown { .. } => anyhow::bail!("unexpected answer of the running link: use the same version of kumade"),
    }
}

/// Ends the link, and returns once it is gone.
fn stop_link(name: &str) -> anyhow::Result<ExitCode> {
    let links = registry::<LinkProtocol>();
    links.send_request(name, &Request::Stop).map_err(|error| LINK.explain(error))?;
    let deadline = Instant::now() + STOP_TIMEOUT;
    while links.running_names().iter().any(|running| running == name) {
        anyhow::ensure!(
            Instant::now() < deadline,
            "the link {name} has not ended within {STOP_TIMEOUT:?}: see its own messages"
        );
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(ExitCode::SUCCESS)
}

/// The inner error is for the file's content.
fn read_schedule(args: &StartArgs, settings: &Settings) -> anyhow::Result<Result<Schedule, String>> {
    let Some(path) = &args.schedule else { return Ok(Ok(Schedule::default())) };
    let name = path.display();
    let text = schedule::read_file(path).with_context(|| format!("cannot read the schedule {name}"))?;
    Ok(Schedule::parse(&text, settings).map_err(|error| format!("the schedule {name}, {error}")))
}

fn port_spec(name: &str, tun: bool) -> PortSpec {
    if tun { PortSpec::Tun { name: name.to_owned() } } else { PortSpec::Interface(name.to_owned()) }
}

impl StartArgs {
    fn output(&self) -> LinkOutput {
        match (self.json, self.json_stream) {
            (true, _) => LinkOutput::Document,
            (_, true) => LinkOutput::Stream,
            _ => LinkOutput::Text,
        }
    }
}
