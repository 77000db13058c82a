//! What an agent keeps for its next process, besides what it has not delivered.

use super::frame::Assignment;
use kumade_units::Time;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the coordinator said last, for the time until it says something again.
const ASSIGNMENT_FILE: &str = "assignment.json";
/// When this agent was last known to run, in nanoseconds since 1970 (UTC).
const ALIVE_FILE: &str = "alive";

/// When the process before was last known to run.
pub(super) fn read_alive(archive: &Path) -> Option<Time> {
    let text = fs::read_to_string(archive.join(ALIVE_FILE)).ok()?;
    Some(Time::from_nanos(text.trim().parse().ok()?))
}

/// Notes that it runs.
pub(super) fn write_alive(archive: &Path, utc: Time) -> io::Result<()> {
    fs::write(archive.join(ALIVE_FILE), utc.as_nanos().to_string())
}

fn assignment_file(archive: &Path) -> PathBuf {
    archive.join(ASSIGNMENT_FILE)
}

/// What the coordinator said to the process before.
pub(super) fn read_assignment(archive: &Path) -> Option<Assignment> {
    serde_json::from_slice(&fs::read(assignment_file(archive)).ok()?).ok()
}

/// It has keys: only its user may read it.
pub(super) fn write_assignment(archive: &Path, assignment: &Assignment) -> io::Result<()> {
    let (file, new) = (assignment_file(archive), archive.join("assignment.new"));
    let bytes = serde_json::to_vec(assignment)?;
    // One that another process has left half.
    let _ = fs::remove_file(&new);
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?.write_all(&bytes)?;
    fs::rename(new, file)
}
