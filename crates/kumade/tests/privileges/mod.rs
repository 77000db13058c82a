//! What a process may do.

use std::collections::BTreeSet;
use std::fs;

/// CAP_NET_ADMIN and CAP_NET_RAW.
pub const NETWORK: u64 = 1 << 12 | 1 << 13;

/// The permitted capabilities of each thread of a process, and whether its system calls are filtered (`Seccomp`, 2 if they
/// are): proc_pid_status(5).
pub fn of(process: u32) -> BTreeSet<(u64, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // A thread may end meanwhile.
    let statuses = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let read = |status: String| {
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
        Some((u64::from_str_radix(&field("CapPrm:")?, 16).ok()?, field("Seccomp:")?))
    };
    statuses.filter_map(read).collect()
}

/// Network capabilities alone, and system calls filtered.
pub fn confined() -> BTreeSet<(u64, String)> {
    [(NETWORK, "2".to_owned())].into()
}

/// Whether no thread's system calls are filtered.
pub fn are_kept(process: u32) -> bool {
    of(process).iter().all(|(_, filter)| filter == "0")
}
