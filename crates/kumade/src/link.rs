//! `kumade link`: emulates a link between two interfaces, and changes it while it runs.

mod live;
mod options;
mod show;
mod start;
mod view;

use crate::output::StandardOutput;
use crate::running::{LINK, parse_name, registry};
use crate::usage::usage_error;
use clap::{Args, Subcommand};
use kumade_emulator::control::{LinkProtocol, Reply, Request};
use options::SettingOptions;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    Start(Box<start::StartArgs>),
    Set(Box<SetArgs>),
    Show(show::ShowArgs),
    /// List the running links of this user: name, interfaces, settings
    List,
    Stop(StopArgs),
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
        LinkCommand::Start(args) => start::run(&args),
        LinkCommand::Set(args) => send_settings(&args),
        LinkCommand::Show(args) => show::run(&args),
        LinkCommand::List => show::list_links(),
        LinkCommand::Stop(args) => stop_link(&args.name),
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
