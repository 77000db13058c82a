//! A process that runs a command for each message.
//!
//! A monitor that is confined runs nothing. So the process is started before, with the rights that the monitor was started with, and
//! runs this one command alone. It ends when its input is closed: with the monitor, however that ends.

use super::command::run_command;
use kumade_alerts::Failure;
use kumade_units::Span;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// The process, which is told one message after the other.
#[derive(Debug, Clone)]
pub struct CommandProcess(Arc<Mutex<Pipes>>);

#[derive(Debug)]
struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// It ends by itself once its input is closed.
    _process: Child,
}

impl CommandProcess {
    /// Starts this program, which has to call [`run_for_each_line`].
    pub(super) fn start(mut program: Command) -> io::Result<Self> {
        // In a process group of its own, it outlives Ctrl-C until it has told the last alert.
        let mut process = program.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let pipes = Pipes { input, output: BufReader::new(output), _process: process };
        Ok(CommandProcess(Arc::new(Mutex::new(pipes))))
    }

    pub(super) fn run(&self, message: &str) -> Result<(), Failure> {
        let mut pipes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |reason: String| Failure { reason, is_refusal: false };
        let mut answer = String::new();
        // A message is one line: JSON without line breaks.
        let answered = writeln!(pipes.input, "{message}").and_then(|()| pipes.output.read_line(&mut answer));
        match answered {
            Ok(0) => Err(failed("is no longer run: its process has ended".to_owned())),
            Ok(_) if answer.trim_end().is_empty() => Ok(()),
            Ok(_) => Err(failed(answer.trim_end().to_owned())),
            Err(error) => Err(failed(format!("is no longer run: {error}"))),
        }
    }
}

/// Runs a command for each line of standard input, which it is given, and prints a line on what came of it: empty where it has succeeded.
///
/// # Errors
/// Nobody reads what it prints.
pub fn run_for_each_line(arguments: &[String], timeout: Span) -> io::Result<()> {
    for line in io::stdin().lines() {
        let outcome = run_command(arguments, &line?, timeout);
        let reason = outcome.map_or_else(|failure| failure.reason.replace('\n', " "), |()| String::new());
        let mut output = io::stdout();
        writeln!(output, "{reason}")?;
        output.flush()?;
    }
    Ok(())
}
