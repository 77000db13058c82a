//! Giving up what a program needed only to start.

use crate::setup::SetupError;
use std::io;

/// To bind ports below [`FIRST_UNPRIVILEGED_PORT`]: capabilities(7).
pub const NET_BIND_SERVICE: u32 = 10;
/// To configure interfaces and routes.
pub const NET_ADMIN: u32 = 12;
/// To use packet sockets, and to bind sockets to interfaces.
pub const NET_RAW: u32 = 13;
/// To enter namespaces, among much else.
pub const SYS_ADMIN: u32 = 21;
/// To load BPF programs that may look at the kernel's memory, among other observation.
pub const PERFMON: u32 = 38;
/// To load BPF programs.
pub const BPF: u32 = 39;
/// Where the system is not configured otherwise.
pub const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// The version of the structures below, in linux/capability.h.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    process: i32,
}

/// 32 capabilities of each set; two of these make 64.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up all capabilities but `kept`, if it has these, of the calling thread and of all threads that it starts from now on; and no program that
/// they execute gets more than they have (PR_SET_NO_NEW_PRIVS).
///
/// # Errors
/// The system refuses.
pub fn drop_capabilities_except(kept: &[u32]) -> Result<(), SetupError> {
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |error: io::Error| SetupError::new(doing, error)
    };
    nix::sys::prctl::set_no_new_privs().map_err(|error| failed("refuse new privileges")(error.into()))?;
    let held = get_capabilities().map_err(failed("read the capabilities"))?;
    let left = [0, 1].map(|half| {
        let kept = kept.iter().filter(|capability| **capability / 32 == half);
        let kept = held[half as usize].permitted & kept.fold(0, |bits, capability| bits | 1 << (capability % 32));
        CapabilitySets { effective: kept, permitted: kept, inheritable: 0 }
    });
    // A confined service may have none to give up, and be forbidden to try.
    if held == left { Ok(()) } else { set_capabilities(&left).map_err(failed("give up capabilities")) }
}

/// Gives up these capabilities, if it has them, of the calling thread, of the threads that it starts from now on, and of programs that
/// they execute, unless these are root's.
///
/// # Errors
/// The system refuses.
pub fn drop_capabilities(dropped: &[u32]) -> Result<(), SetupError> {
    let drop = || {
        let held = get_capabilities()?;
        let left = [0, 1].map(|half| {
            let dropped = dropped.iter().filter(|capability| **capability / 32 == half);
            let kept = !dropped.fold(0, |bits, capability| bits | 1 << (capability % 32));
            let CapabilitySets { effective, permitted, inheritable } = held[half as usize];
            // The ambient set has nothing that one of the latter two lacks.
            CapabilitySets { effective: effective & kept, permitted: permitted & kept, inheritable: inheritable & kept }
        });
        if held == left { Ok(()) } else { set_capabilities(&left) }
    };
    drop().map_err(|error| SetupError::new("give up capabilities", error))
}

/// Whether the calling thread has this capability, in its user namespace.
pub fn has_capability(capability: u32) -> bool {
    get_capabilities().is_ok_and(|held| held[capability as usize / 32].effective & 1 << (capability % 32) != 0)
}

/// From now on, no core dump is made of this process, and other processes of its user cannot look into its memory.
///
/// # Errors
/// The system refuses.
pub fn hide_memory() -> Result<(), SetupError> {
    nix::sys::prctl::set_dumpable(false).map_err(|error| SetupError::new("forbid core dumps", error))
}

/// From now on, files and directories that this process makes are its user's alone (umask 077).
pub fn hide_files() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
}

fn capability_header() -> CapabilityHeader {
    CapabilityHeader { version: VERSION_3, process: 0 }
}

/// Of the calling thread.
fn get_capabilities() -> io::Result<[CapabilitySets; 2]> {
    let (mut header, mut data) = (capability_header(), [CapabilitySets::default(); 2]);
    // SAFETY: capget(2) of this version writes two of these structures, and both live across the call.
    let outcome = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    if outcome == 0 { Ok(data) } else { Err(io::Error::last_os_error()) }
}

/// Of the calling thread.
fn set_capabilities(data: &[CapabilitySets; 2]) -> io::Result<()> {
    let mut header = capability_header();
    // SAFETY: capset(2) of this version reads two of these structures, and both live across the call.
    let outcome = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of this thread's status, such as `CapEff`: proc_pid_status(5).
    fn status(field: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        line.trim().to_owned()
    }

    /// In a process of its own: others go on as they are.
    #[test]
    fn a_process_whose_memory_is_hidden_leaves_no_core_dump() {
        const TEST: &str = "privileges::tests::a_process_whose_memory_is_hidden_leaves_no_core_dump";
        const COPY: &str = "KUMADE_TEST_HIDDEN_MEMORY";
        if std::env::var_os(COPY).is_some() {
            assert!(nix::sys::prctl::get_dumpable().unwrap());
            hide_memory().unwrap();
            assert!(!nix::sys::prctl::get_dumpable().unwrap());
            // It still sees itself.
            return assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() > 0);
        }
        let mut copy = std::process::Command::new(std::env::current_exe().unwrap());
        assert!(copy.args([TEST, "--exact"]).env(COPY, "1").output().unwrap().status.success());
    }

    #[test]
    fn what_is_given_up_is_gone_for_good_in_this_thread_and_its_threads() {
        let give_up = || {
            let had = u64::from_str_radix(&status("CapPrm"), 16).unwrap();
            drop_capabilities_except(&[NET_BIND_SERVICE]).unwrap();
            let kept = format!("{:016x}", had & 1 << NET_BIND_SERVICE);
            let see = move || ["CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs"].map(status);
            assert_eq!(see()[..3], [kept.clone(), kept, format!("{:016x}", 0)]);
            assert_eq!(see()[4], "1");
            assert_eq!(std::thread::spawn(see).join().unwrap(), see());
            drop_capabilities_except(&[]).unwrap();
            assert_eq!(status("CapEff"), format!("{:016x}", 0));
        };
        // On a thread of its own: others go on with what they have.
        let before = status("CapEff");
        std::thread::spawn(give_up).join().unwrap();
        assert_eq!(status("CapEff"), before);
    }
}
