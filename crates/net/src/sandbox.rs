//! Confining a process that has started to what it still does, so that whoever takes it over can do little more.
//!
//! Both confinements hold for good, and for all that is started from then on.

use crate::bpf;
use crate::setup::SetupError;
use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, make_bitflags,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What kernels of that version know; older ones do what they can.
const KNOWN_ACCESSES: ABI = ABI::V6;
/// Where whoever moves packets writes: TUN devices, settings of the network (which take CAP_NET_ADMIN), and the terminal.
const WRITABLE_PLACES: [&str; 4] = ["/dev/net/tun", "/proc/sys/net", "/dev/null", "/dev/tty"];

/// Denies the calling thread, and the threads that it starts from now on, all files that are not open yet but to read those at or
/// below `readable`, TCP connections to others, new TCP ports but those among `ports` (0 for one of the system's choice), and signals to other processes (Landlock). False where the kernel has no Landlock; an older one may
/// deny files alone.
///
/// # Errors
/// The system refuses.
pub fn deny_files_and_connections(readable: &[PathBuf], ports: &[RangeInclusive<u16>]) -> Result<bool, SetupError> {
    let restrict = || {
        let mut ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN_ACCESSES))?
            .handle_access(AccessNet::from_all(KNOWN_ACCESSES))?
            .scope(Scope::from_all(KNOWN_ACCESSES))?
            .create()?;
        // What is not there needs no rule.
        for place in readable.iter().filter_map(|place| PathFd::new(place).ok()) {
            ruleset = ruleset.add_rule(PathBeneath::new(&place, AccessFs::ReadFile))?;
            // A file of /proc that nobody has open may be another one the next time, which no rule is about.
            std::mem::forget(place);
        }
        for port in ports.iter().cloned().flatten() {
            ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
        }
        ruleset.restrict_self()
    };
    Ok(restrict().map_err(landlock_refusal)?.ruleset != RulesetStatus::NotEnforced)
}

/// Denies the calling thread, and the threads that it starts from now on, to change files (also devices and settings of the
/// kernel) but those below `directories` and those that it takes to move packets, and denies programs, and signals to other
/// processes (Landlock). Files can be read. False where the kernel has no Landlock.
///
/// # Errors
/// The system refuses.
pub fn deny_writes_outside(directories: &[PathBuf]) -> Result<bool, SetupError> {
    let writes = AccessFs::from_write(KNOWN_ACCESSES);
    let on_files = AccessFs::from_file(KNOWN_ACCESSES);
    // Nobody who trusts these directories finds a link there that leads out of them, nor a device.
    let written_below = make_bitflags!(AccessFs::{
        WriteFile | Truncate | IoctlDev | MakeReg | MakeSock | RemoveFile
    });
    let restrict = || {
        let mut ruleset =
            Ruleset::default().handle_access(writes | AccessFs::Execute)?.scope(Scope::Signal)?.create()?;
        let places = WRITABLE_PLACES.iter().map(Path::new).chain(directories.iter().map(PathBuf::as_path));
        // What is not there needs no rule.
        for place in places.filter_map(|place| PathFd::new(place).ok()) {
            let allowed = if is_directory(&place) { written_below } else { written_below & on_files };
            ruleset = ruleset.add_rule(PathBeneath::new(&place, allowed))?;
            // A directory of /proc that nobody has open may be another one the next time, which no rule is about.
            std::mem::forget(place);
        }
        ruleset.restrict_self()
    };
    Ok(restrict().map_err(landlock_refusal)?.ruleset != RulesetStatus::NotEnforced)
}

fn is_directory(file: &PathFd) -> bool {
    nix::sys::stat::fstat(file.as_fd()).is_ok_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

fn landlock_refusal(error: RulesetError) -> SetupError {
    SetupError::new("confine this process by Landlock", io::Error::other(error))
}

/// Denies all threads of this process the system calls that no program here makes once it has started (seccomp, EPERM):
/// executing programs and starting processes, looking into other processes, mounting, namespaces, kernel modules, loading BPF programs,
/// permissions of files, sockets of other families than those of networks, and the like. Of BPF, `has_fast_path` leaves what a
/// [fast path](crate::fast_path) takes that is loaded.
///
/// # Errors
/// The system refuses.
pub fn deny_unneeded_calls(has_fast_path: bool) -> Result<(), SetupError> {
    let refused =
        |error: seccompiler::Error| SetupError::new("confine this process by seccomp", io::Error::other(error));
    let apply =
        || build_filters(has_fast_path)?.iter().try_for_each(|filter| seccompiler::apply_filter_all_threads(filter));
    apply().map_err(refused)
}

/// Each call passes both.
fn build_filters(has_fast_path: bool) -> Result<[BpfProgram; 2], seccompiler::Error> {
    let unconditional = ALLOWED_CALLS.iter().map(|call| (*call, Vec::new()));
    let mut needed: BTreeMap<_, _> = unconditional.chain(conditional_calls()?).collect();
    if has_fast_path {
        needed.insert(libc::SYS_bpf, bpf_rules()?);
    }
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let allowed = SeccompFilter::new(needed, denied, SeccompAction::Allow, ARCH.try_into()?)?;
    // Its flags are in memory, where no filter reads them. C libraries take this answer for an older kernel's, and call clone.
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = [(libc::SYS_clone3, Vec::new())].into();
    let absent = SeccompFilter::new(clone3, SeccompAction::Allow, absent, ARCH.try_into()?)?;
    // The second one denies further filters.
    Ok([absent.try_into()?, allowed.try_into()?])
}

/// Calls that depend on their arguments: one of the rules has to hold, with all its conditions.
fn conditional_calls() -> Result<[(libc::c_long, Vec<SeccompRule>); 5], seccompiler::Error> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions);
    let families =
        SOCKET_FAMILIES.iter().map(|family| rule(vec![SeccompCondition::new(0, Dword, Eq, *family as u64)?]));
    let flags = (libc::CLONE_THREAD | NAMESPACE_FLAGS) as u64;
    let is_thread = SeccompCondition::new(0, Qword, MaskedEq(flags), libc::CLONE_THREAD as u64)?;
    let is_local = SeccompCondition::new(0, Dword, Eq, libc::AF_UNIX as u64)?;
    let is_stream = SeccompCondition::new(1, Dword, MaskedEq(SOCKET_TYPE_MASK), libc::SOCK_STREAM as u64)?;
    let is_own_process = SeccompCondition::new(0, Dword, Eq, 0)?;
    let types_nothing = TERMINAL_INPUT_REQUESTS.map(|code| SeccompCondition::new(1, Dword, Ne, code));
    Ok([
        (libc::SYS_clone, vec![rule(vec![is_thread])?]),
        (libc::SYS_socket, families.collect::<Result<_, _>>()?),
        // One end of a pair of datagram sockets could be connected to a service of the system.
        (libc::SYS_socketpair, vec![rule(vec![is_local, is_stream])?]),
        (libc::SYS_prlimit64, vec![rule(vec![is_own_process])?]),
        // To type for the user of the terminal.
        (libc::SYS_ioctl, vec![rule(types_nothing.into_iter().collect::<Result<_, _>>()?)?]),
    ])
}

/// These commands of bpf(2).
fn bpf_rules() -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let rule = |command: &libc::c_long| -> Result<SeccompRule, seccompiler::Error> {
        let is_it = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *command as u64)?;
        Ok(SeccompRule::new(vec![is_it])?)
    };
    BPF_COMMANDS.iter().map(rule).collect()
}

/// Local sockets are not among them: services of the system do what a user's number entitles to, whatever its capabilities.
const SOCKET_FAMILIES: [libc::c_int; 4] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];
/// What the fast path of a gateway takes once it is loaded: entries of its maps, and its programs run at further interfaces, or no more.
const BPF_COMMANDS: [libc::c_long; 7] = [
    bpf::MAP_LOOKUP,
    bpf::MAP_UPDATE,
    bpf::MAP_DELETE,
    bpf::MAP_LOOKUP_BATCH,
    bpf::GET_INFORMATION,
    bpf::LINK_CREATE,
    bpf::LINK_DETACH,
];
/// Without SOCK_CLOEXEC and SOCK_NONBLOCK: socket(2).
const SOCKET_TYPE_MASK: u64 = 0xf;
/// TIOCSTI and TIOCLINUX, which put input into a terminal: ioctl_tty(2). (The C libraries give them different types.)
const TERMINAL_INPUT_REQUESTS: [u64; 2] = [0x5412, 0x541c];
/// Those of clone(2).
const NAMESPACE_FLAGS: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// What sockets, waiting, files, memory, threads and their end take, whatever the arguments.
const ALLOWED_CALLS: &[libc::c_long] = &[
    // Sockets.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Waiting, and clocks.
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    // Files.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mlock,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munmap,
    // Threads, and what they are told.
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_get_robust_list,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_prctl,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Signals, and the end.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    // As musl ends a process that aborts.
    libc::SYS_tkill,
    // What newer architectures have no more.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast_path::FastPath;
    use crate::host_claim::{HostClaim, HostClaimError};
    use crate::privileges::{NET_ADMIN, drop_capabilities_except};
    use std::fs::File;
    use std::fs::Permissions;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::process::Command;
    use std::thread;

    /// On a thread of its own: others go on as they are.
    fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(work).join().unwrap()
    }

    #[test]
    fn a_confined_thread_opens_no_files_and_no_connections_but_uses_what_it_has() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open = File::open("/proc/self/status").unwrap();
        let confined = on_a_thread(move || {
            let has_landlock = deny_files_and_connections(&[], &[0..=0]).unwrap();
            let file = File::open("/proc/self/status").map_err(|error| error.kind());
            let inherited = thread::spawn(move || TcpStream::connect(address).map(drop).map_err(|error| error.kind()));
            assert!(open.metadata().unwrap().is_file());
            UdpSocket::bind("127.0.0.1:0").unwrap();
            // A port of the system's choice is named.
            TcpListener::bind("127.0.0.1:0").unwrap();
            has_landlock.then(|| (file.map(drop), inherited.join().unwrap()))
        });
        let denied = Err(io::ErrorKind::PermissionDenied);
        // A kernel without it denies nothing, and one before Linux 6.7 files alone.
        assert!(confined.is_none_or(|(file, connected)| file == denied && (connected == denied || connected.is_ok())));
        drop(listener);
        assert!(File::open("/proc/self/status").is_ok());
    }

    #[test]
    fn a_confined_thread_reads_what_is_named_and_writes_nothing() {
        let directory = std::env::temp_dir().join(format!("kumade-readable-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (file, new) = (directory.join("file"), directory.join("new"));
        std::fs::write(&file, "text").unwrap();
        let readable = [directory.clone(), "/proc/self/stat".into()];
        let outcomes = on_a_thread(move || {
            let has_landlock = deny_files_and_connections(&readable, &[]).unwrap();
            let read = [&file, Path::new("/proc/self/stat"), Path::new("/proc/self/status")]
                .map(|path| kind(File::open(path)));
            let written =
                [std::fs::write(&file, "other"), std::fs::write(&new, ""), std::fs::remove_file(&file)].map(kind);
            has_landlock.then_some((read, written))
        });
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(outcomes.is_none_or(|outcomes| outcomes == ([Ok(()), Ok(()), DENIED], [DENIED; 3])), "{outcomes:?}");
    }

    fn apply_filters(has_fast_path: bool) {
        let filters = build_filters(has_fast_path).unwrap();
        filters.iter().for_each(|filter| seccompiler::apply_filter(filter).unwrap());
    }

    fn filtered<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        on_a_thread(|| {
            apply_filters(false);
            work()
        })
    }

    fn kind<T>(outcome: io::Result<T>) -> Result<(), io::ErrorKind> {
        outcome.map(drop).map_err(|error| error.kind())
    }

    const DENIED: Result<(), io::ErrorKind> = Err(io::ErrorKind::PermissionDenied);

    #[test]
    fn a_confined_thread_starts_threads_but_no_program() {
        let (program, thread) =
            filtered(|| (kind(Command::new("/bin/true").status()), thread::spawn(|| 7).join().unwrap()));
        assert_eq!((program, thread), (DENIED, 7));
    }

    /// A copy of the process that is made nevertheless ends at once.
    fn clone_error(flags: libc::c_int) -> Option<i32> {
        // SAFETY: without a stack of its own, and without CLONE_VM, the copy goes on with a copy of this one's memory as after
        // fork(2); it makes one system call, which ends it.
        let process = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
        if process == 0 {
            // SAFETY: it ends the copy without running anything of this process.
            unsafe { libc::_exit(0) };
        }
        (process < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap())
    }

    #[test]
    fn a_confined_thread_makes_no_namespace_and_no_process() {
        let (cloned, cloned3) = filtered(|| {
            let flags = [0, libc::CLONE_NEWUSER, libc::CLONE_NEWUSER | libc::CLONE_NEWNET, libc::CLONE_NEWNS];
            // SAFETY: without arguments, the kernel refuses it in any case.
            let cloned3 = unsafe { libc::syscall(libc::SYS_clone3, 0, 0) };
            let cloned3 = (cloned3, io::Error::last_os_error().raw_os_error());
            (flags.map(clone_error), cloned3)
        });
        assert_eq!(cloned, [Some(libc::EPERM); 4]);
        assert_eq!(cloned3, (-1, Some(libc::ENOSYS)));
    }

    #[test]
    fn a_confined_thread_reaches_no_service_of_the_system_and_opens_no_file_to_others() {
        let directory = tempdir("calls");
        let (socket, file) = (directory.join("socket"), directory.join("file"));
        let _service = UnixListener::bind(&socket).unwrap();
        std::fs::write(&file, "").unwrap();
        let seen = filtered(move || {
            let permissions = std::fs::set_permissions(&file, Permissions::from_mode(0o666));
            UnixStream::pair().unwrap();
            UdpSocket::bind("127.0.0.1:0").unwrap();
            // With musl, which asks by a local socket, it was denied.
            assert!(crate::index::index_of("lo").is_ok());
            // As gateways do; somebody else may have it.
            assert!(!matches!(HostClaim::try_new(), Err(HostClaimError::Io(_))));
            [kind(UnixStream::connect(&socket)), kind(UnixDatagram::pair()), kind(permissions)]
        });
        assert_eq!(seen, [DENIED; 3]);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_confined_thread_uses_the_fast_path_that_it_has_and_loads_no_other() {
        let load = || FastPath::load(1).map(drop).map_err(|error| error.io_error().kind());
        for has_capabilities in [true, false] {
            let loaded = FastPath::load(1);
            let (other, counts) = on_a_thread(move || {
                if !has_capabilities {
                    drop_capabilities_except(&[NET_ADMIN]).unwrap();
                }
                apply_filters(true);
                (load(), loaded.map(|loaded| loaded.path_count(0)))
            });
            assert_eq!(other, DENIED);
            // Without CAP_BPF, there is none to begin with.
            assert!(counts.is_err() || counts.is_ok_and(|counts| counts.is_ok()));
        }
        // Whoever has none makes no such call at all, not even one that would be refused for its arguments.
        let call = |command: libc::c_long| {
            // SAFETY: the kernel reads no attributes of no length.
            let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, 0, 0) };
            (outcome, io::Error::last_os_error().raw_os_error())
        };
        let denied = (-1, Some(libc::EPERM));
        assert_eq!(filtered(move || BPF_COMMANDS.map(call)), [denied; BPF_COMMANDS.len()]);
    }

    fn tempdir(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("kumade-sandbox-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn a_confined_thread_writes_where_it_may_alone() {
        let (own, other) = (tempdir("own"), tempdir("other"));
        let there = other.join("there");
        std::fs::write(&there, "as it was").unwrap();
        let (in_own, in_other) = ([own.join("new")], [other.join("new"), there.clone()]);
        let given = own.clone();
        let confined = on_a_thread(move || {
            let has_landlock = deny_writes_outside(&[given]).unwrap();
            assert_eq!(std::fs::read_to_string(&there).unwrap(), "as it was");
            let write = |path: &PathBuf| kind(std::fs::write(path, "new"));
            let pattern = kind(File::options().write(true).open("/proc/sys/kernel/core_pattern"));
            let links = kind(std::os::unix::fs::symlink("/etc/passwd", in_own[0].with_extension("link")));
            assert_eq!(links, if has_landlock { DENIED } else { Ok(()) });
            let written = (in_own.each_ref().map(write), in_other.each_ref().map(write), pattern);
            std::fs::remove_file(&in_own[0]).unwrap();
            let removed = kind(std::fs::remove_file(&in_other[1]));
            let inherited = thread::spawn(move || write(&in_other[0])).join().unwrap();
            has_landlock.then_some((written, removed, inherited))
        });
        // A kernel without it denies nothing.
        assert!(confined.is_none_or(|seen| seen == (([Ok(())], [DENIED; 2], DENIED), DENIED, DENIED)), "{confined:?}");
        [own, other].iter().for_each(|directory| std::fs::remove_dir_all(directory).unwrap());
    }
}
