//! `kumade link`: an emulated or fair link between two interfaces, and how to change it while it runs.

mod options;
mod show;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use emulator::control::{LinkProtocol, Reply, Request};
use emulator::prometheus;
use emulator::report::Document;
use emulator::schedule::{self, Schedule};
use emulator::session::{Session, SessionError};
use emulator::settings::{Change, Settings};
use emulator::{EmulatorError, PortSpec};
use options::SettingOptions;
use service::{ClaimError, ControlError, Exporter, Registry, RuntimeDir, check_name, signals};
use show::{Output, View};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use units::{Span, parse};

/// Exit status for what makes no sense to ask for.
const USAGE: u8 = 2;
/// What a link is called unless its user says.
const UNNAMED: &str = "link";
/// How soon a signal or a vanished interface is noticed.
const NOTICE: Duration = Duration::from_millis(50);

/// Emulate a link between two interfaces, or share one fairly
#[derive(Debug, Args)]
pub struct LinkArgs {
    #[command(subcommand)]
    command: LinkCommand,
}

#[derive(Debug, Subcommand)]
enum LinkCommand {
    Start(Box<StartArgs>),
    Set(Box<SetArgs>),
    Show(ShowArgs),
}

/// Join two interfaces by a link until Ctrl-C
///
/// The interfaces are left as they were found. A direction is called `up` from the first interface to the second and
/// `down` back. Settings are for both; --up and --down name some for one of them, such as
/// --up 'rate 10mbit loss 1%', in the words of the other options.
///
/// Example: kumade link start eth1 eth2 --rate 100mbit --delay 20ms --queue fair-share
#[derive(Debug, Args)]
struct StartArgs {
    /// The first interface
    first: String,
    /// The second
    second: String,
    /// Make two TUN devices of these names instead of joining interfaces that there are. Then give them addresses and
    /// routes, or move one to another namespace by `ip link set dev NAME netns …`. Needs no root within `unshare -rn`
    #[arg(long)]
    tun: bool,
    /// What the link is called by `kumade link set` and `show`
    #[arg(long, default_value = UNNAMED, value_parser = link_name)]
    name: String,
    /// Change settings at given times: a file of lines such as `10s rate 5mbit` or `20s up loss 1%`; a last line such as
    /// `30s repeat` begins it anew
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// How often statistics are shown
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "1s")]
    every: Span,
    /// Print one JSON document (kumade.link/1) at the end
    #[arg(long, conflicts_with = "json_stream")]
    json: bool,
    /// Print a JSON document (kumade.link/1) a line for each interval, and one for all at the end
    #[arg(long)]
    json_stream: bool,
    /// Offer metrics to Prometheus at this port, to this host alone unless an address stands before it
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    prometheus: Option<SocketAddr>,
    #[command(flatten)]
    settings: SettingOptions,
}

/// Change settings of a running link; settings that are not named are unchanged
///
/// Example: kumade link set --rate 5mbit --down 'loss 1%'
#[derive(Debug, Args)]
struct SetArgs {
    /// Which link
    #[arg(long, default_value = UNNAMED, value_parser = link_name)]
    name: String,
    #[command(flatten)]
    settings: SettingOptions,
}

/// Show the settings of a running link and what has passed since its start
#[derive(Debug, Args)]
struct ShowArgs {
    /// Which link
    #[arg(long, default_value = UNNAMED, value_parser = link_name)]
    name: String,
    /// Print a JSON document (kumade.link/1)
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: LinkArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        LinkCommand::Start(args) => start(&args),
        LinkCommand::Set(args) => set(&args),
        LinkCommand::Show(args) => show(&args),
    }
}

fn start(args: &StartArgs) -> anyhow::Result<ExitCode> {
    if args.every < Span::from_millis(10) {
        return Ok(usage("--every below 10ms shows nothing to anybody"));
    }
    let settings = match args.settings.change().and_then(|change| change.apply(&Default::default())) {
        Ok(settings) => settings,
        Err(error) => return Ok(usage(&error.to_string())),
    };
    let mut schedule = match read_schedule(args, &settings)? {
        Ok(schedule) => schedule,
        Err(reason) => return Ok(usage(&reason)),
    };
    let stop = signals::termination().context("cannot listen for Ctrl-C")?;
    let claim = links().claim(&args.name).map_err(explained)?;
    let ports = [&args.first, &args.second].map(|name| port(name, args.tun));
    let session = match Session::start(&args.name, ports, settings) {
        Ok(session) => Arc::new(session),
        Err(SessionError::Setting(error)) => return Ok(usage(&error.to_string())),
        Err(SessionError::Engine(error @ EmulatorError::Same(_))) => return Ok(usage(&error.to_string())),
        Err(SessionError::Engine(error)) => return Err(error.into()),
    };
    let answering = Arc::clone(&session);
    let control = claim.serve(move |request| answering.answer(&request))?;
    let counting = Arc::clone(&session);
    let exporter = args
        .prometheus
        .map(|address| Exporter::start(address, move || prometheus::metrics(&counting.total())))
        .transpose()?;
    if let Some(exporter) = &exporter {
        eprintln!("metrics: http://{}/metrics", exporter.address());
    }
    let name = if args.name == UNNAMED { String::new() } else { format!(" --name {}", args.name) };
    eprintln!(
        "{} and {} are joined; `kumade link set{name}` changes the link, Ctrl-C ends it",
        args.first, args.second
    );
    let mut view = View::new(args.output());
    let watched = watch(&session, &mut schedule, args.every, &stop, &mut view);
    drop((control, exporter));
    let ended = session.stop();
    view.end(&session.total())?;
    watched?;
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Follows the schedule and shows statistics until a signal comes or the link ends.
fn watch(
    session: &Session,
    schedule: &mut Schedule,
    every: Span,
    stop: &AtomicBool,
    view: &mut View,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut next_view = every;
    while session.is_running() && !stop.load(Ordering::Relaxed) {
        let elapsed = Span::from(began.elapsed());
        while let Some(change) = schedule.take_due(elapsed) {
            follow(session, &change);
        }
        if elapsed >= next_view {
            view.interval(&session.interval())?;
            // A view that took long is not made up for.
            next_view = elapsed - Span::from_nanos((elapsed - next_view).as_nanos() % every.as_nanos()) + every;
        }
        let next = schedule.next_at().map_or(next_view, |at| at.min(next_view));
        thread::sleep((next - Span::from(began.elapsed())).to_duration().min(NOTICE));
    }
    Ok(())
}

/// What was changed from outside may not go together with what the schedule wants.
fn follow(session: &Session, change: &Change) {
    if let Err(error) = session.change(change) {
        tracing::warn!("a change of the schedule is left out: {error}");
    }
}

fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let change = match args.settings.change() {
        Ok(change) if change.is_empty() => {
            return Ok(usage("nothing to set; name a setting, such as --rate 5mbit; --help lists them"));
        }
        Ok(change) => change,
        Err(error) => return Ok(usage(&error.to_string())),
    };
    match links().ask(&args.name, &Request::Set { change }).map_err(explained)? {
        Reply::Done { settings: [up, down] } => {
            writeln!(std::io::stdout(), "up: {up}\ndown: {down}")?;
            Ok(ExitCode::SUCCESS)
        }
        Reply::Refused { reason } => Ok(usage(&reason)),
        Reply::Shown { .. } => anyhow::bail!("the link answers something else; is it another version of kumade?"),
    }
}

fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    match links().ask(&args.name, &Request::Show).map_err(explained)? {
        Reply::Shown { document } if args.json => writeln!(std::io::stdout(), "{document}")?,
        Reply::Shown { document } => {
            let document: Document =
                serde_json::from_value(document).context("the link's answer is not of this version of kumade")?;
            writeln!(std::io::stdout(), "{document}")?;
        }
        Reply::Refused { reason } => anyhow::bail!("{reason}"),
        Reply::Done { .. } => anyhow::bail!("the link answers something else; is it another version of kumade?"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The inner error is for what the file says.
fn read_schedule(args: &StartArgs, settings: &[Settings; 2]) -> anyhow::Result<Result<Schedule, String>> {
    let Some(path) = &args.schedule else { return Ok(Ok(Schedule::default())) };
    let name = path.display();
    let text = schedule::read(path).with_context(|| format!("cannot read the schedule {name}"))?;
    Ok(Schedule::parse(&text, settings).map_err(|error| format!("the schedule {name}, {error}")))
}

/// The links of this user that run here.
fn links() -> Registry<LinkProtocol> {
    Registry::new(RuntimeDir::standard("kumade"))
}

/// With the options that help.
fn explained(error: ControlError) -> anyhow::Error {
    match &error {
        ControlError::Taken { .. } => anyhow!("{error} by --name"),
        ControlError::NotRunning { running, .. } if running.is_empty() => {
            anyhow!("{error}; start one by `kumade link start`")
        }
        ControlError::NotRunning { .. } => anyhow!("{error}; choose one by --name"),
        _ => error.into(),
    }
}

fn port(name: &str, tun: bool) -> PortSpec {
    if tun { PortSpec::Tun { name: name.to_owned() } } else { PortSpec::Interface(name.to_owned()) }
}

fn link_name(text: &str) -> Result<String, ClaimError> {
    check_name(text).map(|()| text.to_owned())
}

/// Reads `9272` or `192.0.2.1:9272`.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let local = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.or_else(|_| text.parse()).map_err(|_| "it is neither a port nor an address with a port".to_owned())
}

fn usage(reason: &str) -> ExitCode {
    eprintln!("kumade: {reason}");
    ExitCode::from(USAGE)
}

impl StartArgs {
    fn output(&self) -> Output {
        match (self.json, self.json_stream) {
            (true, _) => Output::Document,
            (_, true) => Output::Stream,
            _ => Output::People,
        }
    }
}
