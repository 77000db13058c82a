//! A command that is run when a peer or a path changes.
//!
//! The process that carries packets is confined, and runs nothing. So a helper process is started before, with the rights that the
//! program was started with, and is sent each event through a pipe. It runs one command at a time. What waits meanwhile is as much as
//! the pipe takes, and it ends when the pipe is closed: with the process that carries packets, however that ends.

use anyhow::Context;
use clap::Args;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The name of the helper's command, which is none of the users'.
pub(crate) const HELPER_COMMAND: &str = "run-on-events";
/// A command that takes longer is ended: later events wait for it.
const MAX_COMMAND_TIME: Duration = Duration::from_secs(30);
/// Maximum time until the end of a command, or of the process that carries packets, is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Between the fields of an event: in no name.
const SEPARATOR: char = '\t';

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    PeerConnected,
    PeerLost,
    PeerRestarted,
    PathFailed,
    PathReturned,
}

/// The command of the helper process.
#[derive(Debug, Args)]
pub struct HelperArgs {
    /// For each event
    command: String,
}

/// The helper process, until this is dropped.
#[derive(Debug)]
pub(crate) struct EventHook {
    /// None once the helper is gone.
    events: Option<ChildStdin>,
    helper: Child,
    lost_events: u64,
}

impl EventHook {
    /// Starts the helper: to be called before the process is confined.
    ///
    /// # Errors
    /// The system starts no process.
    pub(crate) fn start(command: &str) -> anyhow::Result<Self> {
        let mut helper = Command::new("/proc/self/exe");
        // In a process group of its own, it outlives Ctrl-C until it is told the last events.
        helper.args([HELPER_COMMAND, "--", command]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut start = || -> io::Result<EventHook> {
            let mut helper = helper.spawn()?;
            let events = helper.stdin.take();
            if let Some(events) = &events {
                // A helper that is busy does not hold up the log.
                fcntl(events, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            }
            Ok(EventHook { events, helper, lost_events: 0 })
        };
        start().context("cannot start the process that runs the command of --on-event")
    }

    /// Has the command run for an event. One for which there is no room is left out, and that is said.
    pub(crate) fn send(&mut self, kind: EventKind, peer: &str, path: &str) {
        let Some(events) = &mut self.events else { return };
        // Shorter than PIPE_BUF: it is taken whole or not at all.
        match events.write(format!("{kind}{SEPARATOR}{peer}{SEPARATOR}{path}\n").as_bytes()) {
            Ok(_) if self.lost_events > 0 => {
                tracing::warn!(
                    "the command of --on-event was not run for {} events: it takes too long",
                    self.lost_events
                );
                self.lost_events = 0;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.lost_events += 1,
            Err(error) => {
                tracing::warn!("the command of --on-event is no longer run: {error}");
                self.events = None;
            }
        }
    }
}

impl Drop for EventHook {
    fn drop(&mut self) {
        self.events = None;
        self.helper.wait().ok();
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventKind::PeerConnected => "peer-connected",
            EventKind::PeerLost => "peer-lost",
            EventKind::PeerRestarted => "peer-restarted",
            EventKind::PathFailed => "path-failed",
            EventKind::PathReturned => "path-returned",
        })
    }
}

/// The helper process: runs the command for each event, until there are no more.
pub(crate) fn run_helper(HelperArgs { command }: &HelperArgs) -> ExitCode {
    let mut lines = BufReader::new(io::stdin()).lines();
    while let Some(Ok(line)) = lines.next() {
        let mut fields = line.split(SEPARATOR);
        let mut next = || fields.next().unwrap_or_default().to_owned();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).env("KUMADE_EVENT", next()).env("KUMADE_PEER", next()).env("KUMADE_PATH", next());
        shell.stdin(Stdio::null()).process_group(0);
        match shell.spawn() {
            Ok(child) => wait_for_command(child),
            Err(error) => tracing::warn!("cannot run the command of --on-event: {error}"),
        }
        if is_input_closed() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Waits until a command has ended, or ends it: after its time, or with the process that carries packets.
fn wait_for_command(mut child: Child) {
    let deadline = Instant::now() + MAX_COMMAND_TIME;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return,
            Ok(Some(status)) => return tracing::warn!("the command of --on-event has failed: {status}"),
            Ok(None) if Instant::now() >= deadline => {
                tracing::warn!("the command of --on-event was ended: it took {} s", MAX_COMMAND_TIME.as_secs());
                break;
            }
            Ok(None) if is_input_closed() => break,
            Ok(None) => thread::sleep(POLL_INTERVAL),
            Err(_) => break,
        }
    }
    // The child has not been waited for, so its number is its own, and its group's.
    killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL).ok();
    child.wait().ok();
}

/// Whether nobody can send events any longer, whatever still waits to be read.
fn is_input_closed() -> bool {
    let input = io::stdin();
    let mut input = [PollFd::new(input.as_fd(), PollFlags::empty())];
    poll(&mut input, PollTimeout::ZERO).is_ok()
        && input[0].revents().is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
}
