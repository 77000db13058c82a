//! A command that is told of alerts.

use kumade_alerts::Failure;
use kumade_units::Span;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where programs are that it names without a path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Maximum time until its end is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs it, with the message on its standard input and nothing of this process's environment; waits for it, and ends it after its time.
pub(super) fn run_command(arguments: &[String], message: &str, timeout: Span) -> Result<(), Failure> {
    let failed = |reason: String| Failure { reason, is_refusal: false };
    let Some((program, arguments)) = arguments.split_first() else {
        return Err(failed("there is no command".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", PATH).current_dir("/");
    // Ended with all that it has started.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|error| failed(format!("cannot run {program}: {error}")))?;
    let input = child.stdin.take();
    thread::scope(|scope| {
        // It may read nothing, or not all; then it has ended, or is ended.
        scope.spawn(|| input.map(|mut input| input.write_all(message.as_bytes())));
        wait(&mut child, timeout)
    })
    .map_err(|reason| failed(format!("{program} {reason}")))
}

fn wait(child: &mut Child, timeout: Span) -> Result<(), String> {
    let deadline = Instant::now() + timeout.to_duration();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("has failed: {status}")),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                // It has not been waited for, so the number is its own, and its group's.
                killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL).ok();
                child.wait().ok();
                return Err(format!("was ended: it took more than {timeout}"));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str], message: &str, timeout: Span) -> Result<(), String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        run_command(&arguments, message, timeout).map_err(|failure| failure.reason)
    }

    #[test]
    fn it_has_the_message_and_no_environment_and_no_shell_reads_its_arguments() {
        let (long, minute) = (Span::from_secs(60), "m".repeat(1 << 20));
        let script =
            "test \"$(cat)\" = '{\"a\":1}' && test \"$1\" = '$(false);' && test -z \"$CARGO_MANIFEST_DIR$HOME\"";
        assert_eq!(run(&["sh", "-c", script, "sh", "$(false);"], "{\"a\":1}", long), Ok(()));
        assert_eq!(run(&["true"], &minute, long), Ok(()), "what nobody reads holds up nothing");
        assert!(run(&["/nowhere/none"], "", long).unwrap_err().contains("cannot run /nowhere/none"));
        assert!(run(&["false"], "", long).unwrap_err().contains("has failed"));
    }

    #[test]
    fn it_is_ended_after_its_time_with_all_that_it_has_started() {
        let error =
            run(&["sh", "-c", "sleep 600 & sleep 600"], &"m".repeat(1 << 20), Span::from_millis(300)).unwrap_err();
        assert!(error.contains("was ended"), "{error}");
    }
}
