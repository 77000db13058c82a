//! `kumade link start`: runs a link, or all links of a file.

use super::options::SettingOptions;
use super::view::{LinkOutput, LinkView};
use crate::confinement::Confinement;
use crate::descriptors::raise_descriptor_limit;
use crate::live::screen::Screen;
use crate::output::note;
use crate::running::{LINK, parse_name, read_config_text, registry, serve_metrics};
use crate::usage::usage_error;
use anyhow::Context;
use clap::Args;
use kumade_daemon::signals::DaemonSignals;
use kumade_daemon::{ActivityWatch, ControlServer, metrics_address};
use kumade_emulator::control::LinkProtocol;
use kumade_emulator::links_file::parse_links;
use kumade_emulator::prometheus;
use kumade_emulator::schedule::{self, Schedule};
use kumade_emulator::session::{LinkSession, SessionConfig};
use kumade_emulator::settings::{Settings, SettingsChange};
use kumade_emulator::{EmulatorError, PortSpec};
use kumade_units::{Span, parse};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Bridge two interfaces by an emulated link, until Ctrl-C
///
/// The interfaces' configuration is restored at the end. Direction `up` is from the first interface to the second, `down`
/// the reverse. Settings apply to both directions; --up and --down override them for one direction, with the names of the
/// other options, such as --up 'rate 10mbit loss 1%'.
///
/// Example: kumade link start eth1 eth2 --rate 100mbit --delay 20ms --queue fair-share
#[derive(Debug, Args)]
pub struct StartArgs {
    /// First interface
    #[arg(required_unless_present = "config")]
    first: Option<String>,
    /// Second interface
    #[arg(required_unless_present = "config")]
    second: Option<String>,
    /// Run all links of this file in one process instead: TOML with a section [[link]] for each, with `interfaces` (or `tun`) such
    /// as ["eth1", "eth2"] and, where wanted, `name`, `settings` such as "rate 10mbit up loss 1%", `schedule`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["first", "tun", "schedule"])]
    config: Option<PathBuf>,
    /// Create two TUN devices with these names instead of using existing interfaces. Then assign addresses and routes, or
    /// move one to another namespace with `ip link set dev NAME netns …`. Needs no root within `unshare -rn`
    #[arg(long)]
    tun: bool,
    /// Name of the link, for `kumade link set` and `kumade link show`; links of a file that have none are NAME-1, NAME-2, …
    #[arg(long, default_value = LINK.usual_name, value_parser = parse_name)]
    name: String,
    /// Change settings at given times: a file with lines such as `10s rate 5mbit` or `20s up loss 1%`; a last line such as
    /// `30s repeat` starts it again
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Interval of statistics: of the live view on a terminal, and of lines elsewhere
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "1s")]
    every: Span,
    /// Print one JSON document (kumade.link/1) for each link at the end
    #[arg(long, conflicts_with = "json_stream")]
    json: bool,
    /// Print one line of JSON (kumade.link/1) for each interval of each link, and one with the totals of each at the end
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

/// A link that is to run.
struct PlannedLink {
    config: SessionConfig,
    schedule: Schedule,
}

/// A link that has not ended, as far as is known.
struct RunningLink {
    session: Arc<LinkSession>,
    schedule: Schedule,
    control: ControlServer,
}

/// Runs the command.
///
/// # Errors
/// If a link can't be started. Invalid settings give exit status 2.
pub fn run(args: &StartArgs) -> anyhow::Result<ExitCode> {
    if args.every < Span::from_millis(10) {
        return Ok(usage_error(&"--every must be at least 10ms"));
    }
    let planned = match plan_links(args)? {
        Ok(planned) => planned,
        Err(reason) => return Ok(usage_error(&reason)),
    };
    for PlannedLink { config, .. } in &planned {
        let whose = if planned.len() > 1 { format!(" for {}", config.name) } else { String::new() };
        config.settings.warnings().iter().for_each(|warning| note!("warning{whose}: {warning}"));
    }
    if planned.len() > 1 {
        raise_descriptor_limit();
    }
    let signals = DaemonSignals::register(false).context("cannot listen for Ctrl-C")?;
    let activity = ActivityWatch::new(signals.waker());
    let links = registry::<LinkProtocol>();
    let claim = |link: &PlannedLink| links.lock_name(&link.config.name).map_err(|error| LINK.explain(error));
    let claims: Vec<_> = planned.iter().map(claim).collect::<anyhow::Result<_>>()?;
    // Asked before the confinement, which denies that.
    let has_screen = planned.len() == 1 && Screen::is_available();
    let metrics_port = args.prometheus.map(|address| address.port());
    let confinement = (!args.keep_privileges).then(|| Confinement::to_network(metrics_port));
    let (configs, schedules): (Vec<_>, Vec<_>) = planned.into_iter().map(|link| (link.config, link.schedule)).unzip();
    let sessions = match LinkSession::start_all(configs.clone(), || activity.end_notice()) {
        Ok(sessions) => sessions.into_iter().map(Arc::new).collect::<Vec<_>>(),
        Err(error @ EmulatorError::SameInterface(_)) => return Ok(usage_error(&error)),
        Err(error) => return Err(error.into()),
    };
    let mut running = Vec::with_capacity(sessions.len());
    for ((session, claim), schedule) in sessions.iter().zip(claims).zip(schedules) {
        let answering = Arc::clone(session);
        let control = claim.serve(move |request| answering.handle_request(&request))?;
        running.push(RunningLink { session: Arc::clone(session), schedule, control });
    }
    let counting = sessions.clone();
    let metrics = move || {
        let links = counting.iter().map(|session| (session.total(), session.is_running()));
        prometheus::encode_metrics(&links.collect::<Vec<_>>())
    };
    let exporter = args.prometheus.map(|address| serve_metrics(address, metrics)).transpose()?;
    confinement.into_iter().for_each(Confinement::finish);
    tell_started(&configs);
    let mut view = LinkView::new(args.output(), sessions.len(), has_screen)?;
    let watched = follow_links(&mut running, args.every, &signals, &mut view);
    // All at once, and each, whatever becomes of another.
    sessions.iter().for_each(|session| session.request_end());
    let mut ended = Ok(());
    for link in running {
        ended = ended.and(end_link(link));
    }
    drop(exporter);
    view.finish(&sessions.iter().map(|session| session.total()).collect::<Vec<_>>())?;
    watched.and(ended)?;
    Ok(ExitCode::SUCCESS)
}

fn tell_started(links: &[SessionConfig]) {
    match links {
        [SessionConfig { name, ports: [first, second], .. }] => {
            let name = if name == LINK.usual_name { String::new() } else { format!(" --name {name}") };
            let (first, second) = (first.name(), second.name());
            note!("{first} and {second} are bridged; `kumade link set{name}` changes the link, Ctrl-C stops it");
        }
        links => note!(
            "the interfaces of {} links are bridged; `kumade link list` lists them, `kumade link show --live --name NAME` shows one, \
             Ctrl-C stops them",
            links.len()
        ),
    }
}

/// Follows the schedules and shows statistics until a signal comes or all links have ended.
///
/// # Errors
/// That of the first link that has ended by itself, once all have; or the output can't be written.
fn follow_links(
    running: &mut Vec<RunningLink>,
    every: Span,
    signals: &DaemonSignals,
    view: &mut LinkView,
) -> anyhow::Result<()> {
    let (began, mut next_view, mut outcome) = (Instant::now(), every, Ok(()));
    loop {
        let ended: Vec<_> = running.extract_if(.., |link| !link.session.is_running()).collect();
        let is_last = running.is_empty();
        for link in ended {
            let name = link.session.name().to_owned();
            let ended = end_link(link);
            match &ended {
                _ if is_last => {}
                Ok(()) => note!("the link {name} has ended; the others go on"),
                Err(error) => note!("{name}: {error}; the others go on"),
            }
            outcome = outcome.and(ended);
        }
        if is_last || signals.is_end_requested() {
            return outcome;
        }
        let elapsed = Span::from(began.elapsed());
        for RunningLink { session, schedule, .. } in &mut *running {
            while let Some(change) = schedule.take_due(elapsed) {
                apply_change(session, &change, view);
            }
        }
        if elapsed >= next_view {
            for RunningLink { session, .. } in &*running {
                view.show_interval(session.take_interval(), || session.total())?;
            }
            // Intervals missed during a slow output are skipped.
            next_view = elapsed - Span::from_nanos((elapsed - next_view).as_nanos() % every.as_nanos()) + every;
        }
        let changes = running.iter().filter_map(|link| link.schedule.next_change_time());
        let next = changes.fold(next_view, Span::min);
        if view.wait(began + next.to_duration(), signals)? {
            return outcome;
        }
    }
}

/// Ends a link, if it has not ended.
fn end_link(link: RunningLink) -> anyhow::Result<()> {
    let ended = link.session.stop();
    // Who has asked for the end waits until nobody answers.
    drop(link.control);
    Ok(ended?)
}

/// Applies a change of the schedule, which may conflict with settings that were changed by `kumade link set`.
fn apply_change(session: &LinkSession, change: &SettingsChange, view: &mut LinkView) {
    if let Err(error) = session.change(change) {
        view.warn(format!("skipped a change of the schedule: {error}"));
    }
}

/// What is to run. The inner error is for what the user has written.
fn plan_links(args: &StartArgs) -> anyhow::Result<Result<Vec<PlannedLink>, String>> {
    let change = match args.settings.settings_change() {
        Ok(change) => change,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Some(file) = &args.config else {
        let ports = [&args.first, &args.second].map(|name| port_spec(name.as_deref().unwrap_or_default(), args.tun));
        let settings = match Settings::new(&change) {
            Ok(settings) => settings,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let config = SessionConfig { name: args.name.clone(), ports, settings };
        let here = std::env::current_dir().unwrap_or_default();
        return Ok(plan_link(config, args.schedule.as_deref(), &here)?.map(|link| vec![link]));
    };
    if !change.is_empty() {
        return Ok(Err(
            "with --config, the settings of a link stand in its section: `settings = \"rate 10mbit\"`".into()
        ));
    }
    let (origin, text) = read_config_text(file)?;
    let directory = std::path::absolute(file)?.parent().map(Path::to_owned).unwrap_or_default();
    match parse_links(&text, &origin, &args.name, &directory) {
        Ok(links) => {
            links.into_iter().map(|link| plan_link(link.config, link.schedule.as_deref(), &directory)).collect()
        }
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// A link with its schedule, in which names of files are relative to `directory`. The inner error is for the schedule's content.
fn plan_link(
    config: SessionConfig,
    schedule: Option<&Path>,
    directory: &Path,
) -> anyhow::Result<Result<PlannedLink, String>> {
    let Some(path) = schedule else { return Ok(Ok(PlannedLink { config, schedule: Schedule::default() })) };
    let name = path.display();
    let text = schedule::read_file(path).with_context(|| format!("cannot read the schedule {name}"))?;
    let parsed = Schedule::parse(&text, directory, &config.settings);
    let parsed = parsed.map_err(|error| format!("the schedule {name}, {error}"));
    Ok(parsed.map(|schedule| PlannedLink { config, schedule }))
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
