use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that removes a directory once this one has ended before its time: a second Ctrl-C, or a kill, runs nothing of it any more.
/// Dropped, it leaves the directory to its owner.
#[derive(Debug)]
pub(super) struct DirectoryWatch(Option<Child>);

/// Standard input ends with the process that holds the other end of the pipe. Programs that are ended with it may still write for a moment.
const REMOVE_AT_THE_END: &str = "cat >/dev/null; rm -rf \"$0\" || { sleep 1; rm -rf \"$0\"; }";

impl DirectoryWatch {
    /// In a process group of its own, which the terminal's Ctrl-C does not reach. Without a shell, the next run removes what an earlier one has
    /// left.
    pub(super) fn start(directory: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(REMOVE_AT_THE_END).arg(directory).current_dir("/").process_group(0);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started =
            shell.spawn().inspect_err(|error| tracing::debug!("no shell watches {}: {error}", directory.display()));
        DirectoryWatch(started.ok())
    }
}

impl Drop for DirectoryWatch {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // Before its input ends.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
