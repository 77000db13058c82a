//! Confining a process that has started to what it still does, so that whoever takes it over can do little more.
//!
//! Both confinements hold for good, and for all that is started from then on.

use crate::setup::SetupError;
use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;

/// Denies the calling thread, and the threads that it starts from now on, all files that are not open yet, TCP connections to
/// others, new TCP ports, and signals to other processes (Landlock). False where the kernel has no Landlock; an older one may
/// deny files alone.
///
/// # Errors
/// The system refuses.
pub fn deny_files_and_connections() -> Result<bool, SetupError> {
    // What kernels of that version know; older ones do what they can.
    let known = ABI::V6;
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(known))?
            .handle_access(AccessNet::from_all(known))?
            .scope(Scope::from_all(known))?
            .create()?
            .restrict_self()
    };
    let status =
        restrict().map_err(|error| SetupError::new("confine this process by Landlock", io::Error::other(error)))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Denies all threads of this process the system calls that no program here makes once it has started (seccomp, EPERM):
/// executing programs, looking into other processes, mounting, namespaces, kernel modules, BPF and the like.
///
/// # Errors
/// The system refuses.
pub fn deny_unneeded_calls() -> Result<(), SetupError> {
    let refused =
        |error: seccompiler::Error| SetupError::new("confine this process by seccomp", io::Error::other(error));
    seccompiler::apply_filter_all_threads(&build_filter().map_err(refused)?).map_err(refused)
}

fn build_filter() -> Result<BpfProgram, seccompiler::Error> {
    let needed: BTreeMap<_, _> = ALLOWED_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(needed, denied, SeccompAction::Allow, ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// What sockets, waiting, files, memory, threads and their end take.
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
    libc::SYS_socket,
    libc::SYS_socketpair,
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
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_pread64,
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
    libc::SYS_clone,
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
    libc::SYS_prlimit64,
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
    // What newer architectures have no more.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
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
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
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
            let has_landlock = deny_files_and_connections().unwrap();
            let file = File::open("/proc/self/status").map_err(|error| error.kind());
            let inherited = thread::spawn(move || TcpStream::connect(address).map(drop).map_err(|error| error.kind()));
            assert!(open.metadata().unwrap().is_file());
            UdpSocket::bind("127.0.0.1:0").unwrap();
            has_landlock.then(|| (file.map(drop), inherited.join().unwrap()))
        });
        let denied = Err(io::ErrorKind::PermissionDenied);
        // A kernel without it denies nothing, and one before Linux 6.7 files alone.
        assert!(confined.is_none_or(|(file, connected)| file == denied && (connected == denied || connected.is_ok())));
        drop(listener);
        assert!(File::open("/proc/self/status").is_ok());
    }

    #[test]
    fn a_confined_thread_starts_threads_but_no_program() {
        let (program, thread) = on_a_thread(|| {
            seccompiler::apply_filter(&build_filter().unwrap()).unwrap();
            let program = Command::new("/bin/true").status().map(drop).map_err(|error| error.kind());
            (program, thread::spawn(|| 7).join().unwrap())
        });
        assert_eq!((program, thread), (Err(io::ErrorKind::PermissionDenied), 7));
    }
}
