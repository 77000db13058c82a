/// A system call that can be made to fail.
#[derive(Debug)]
pub struct Call {
    /// As in section 2 of the manual.
    pub name: &'static str,
    pub(super) number: libc::c_long,
    /// One that the manual has for it, mostly for want of a resource.
    pub(super) error: i32,
    /// Whether a signal may interrupt it although it waits for nothing.
    pub is_interruptible: bool,
}

impl Call {
    /// Not counted: memory that is no file's is asked for by the same call.
    pub(super) fn is_exempt(&self, arguments: &[u64; 6]) -> bool {
        self.name == "mmap" && arguments[4] as i32 == -1
    }
}

const fn call(name: &'static str, number: libc::c_long, error: i32) -> Call {
    Call { name, number, error, is_interruptible: false }
}

const fn interruptible(name: &'static str, number: libc::c_long, error: i32) -> Call {
    Call { name, number, error, is_interruptible: true }
}

/// The calls that are counted, each with the error that it is made to fail with. Those that only give something back
/// (close, munmap) cannot be refused.
pub const CALLS: &[Call] = &[
    call("accept4", libc::SYS_accept4, libc::EMFILE),
    call("bind", libc::SYS_bind, libc::EADDRINUSE),
    call("clock_adjtime", libc::SYS_clock_adjtime, libc::EPERM),
    call("clone", libc::SYS_clone, libc::EAGAIN),
    call("clone3", libc::SYS_clone3, libc::EAGAIN),
    interruptible("clock_nanosleep", libc::SYS_clock_nanosleep, libc::EINTR),
    interruptible("connect", libc::SYS_connect, libc::ENETUNREACH),
    call("epoll_create1", libc::SYS_epoll_create1, libc::EMFILE),
    call("epoll_ctl", libc::SYS_epoll_ctl, libc::ENOSPC),
    interruptible("epoll_pwait", libc::SYS_epoll_pwait, libc::EINTR),
    call("eventfd2", libc::SYS_eventfd2, libc::EMFILE),
    call("execve", libc::SYS_execve, libc::ENOMEM),
    call("fchmod", libc::SYS_fchmod, libc::EPERM),
    call("fchmodat", libc::SYS_fchmodat, libc::EPERM),
    call("fcntl", libc::SYS_fcntl, libc::EMFILE),
    call("flock", libc::SYS_flock, libc::ENOLCK),
    interruptible("fsync", libc::SYS_fsync, libc::ENOSPC),
    call("ftruncate", libc::SYS_ftruncate, libc::ENOSPC),
    call("getdents64", libc::SYS_getdents64, libc::ENOMEM),
    call("getpeername", libc::SYS_getpeername, libc::ENOTCONN),
    call("getsockname", libc::SYS_getsockname, libc::ENOBUFS),
    call("getsockopt", libc::SYS_getsockopt, libc::ENOPROTOOPT),
    call("ioctl", libc::SYS_ioctl, libc::EPERM),
    call("listen", libc::SYS_listen, libc::EADDRINUSE),
    call("mkdirat", libc::SYS_mkdirat, libc::ENOSPC),
    call("mmap", libc::SYS_mmap, libc::ENOMEM),
    call("mount", libc::SYS_mount, libc::EPERM),
    call("openat", libc::SYS_openat, libc::EMFILE),
    call("pipe2", libc::SYS_pipe2, libc::EMFILE),
    interruptible("ppoll", libc::SYS_ppoll, libc::ENOMEM),
    call("prctl", libc::SYS_prctl, libc::EPERM),
    call("prlimit64", libc::SYS_prlimit64, libc::EPERM),
    interruptible("read", libc::SYS_read, libc::EIO),
    interruptible("recvfrom", libc::SYS_recvfrom, libc::ENOMEM),
    interruptible("recvmmsg", libc::SYS_recvmmsg, libc::ENOMEM),
    interruptible("recvmsg", libc::SYS_recvmsg, libc::ENOMEM),
    call("renameat", libc::SYS_renameat, libc::ENOSPC),
    call("renameat2", libc::SYS_renameat2, libc::ENOSPC),
    call("sched_setaffinity", libc::SYS_sched_setaffinity, libc::EPERM),
    call("sched_setattr", libc::SYS_sched_setattr, libc::EPERM),
    interruptible("sendmmsg", libc::SYS_sendmmsg, libc::ENOBUFS),
    interruptible("sendmsg", libc::SYS_sendmsg, libc::ENOBUFS),
    interruptible("sendto", libc::SYS_sendto, libc::ENOBUFS),
    call("setns", libc::SYS_setns, libc::EPERM),
    call("setsockopt", libc::SYS_setsockopt, libc::ENOBUFS),
    call("shutdown", libc::SYS_shutdown, libc::ENOTCONN),
    call("socket", libc::SYS_socket, libc::EMFILE),
    call("socketpair", libc::SYS_socketpair, libc::EMFILE),
    call("statx", libc::SYS_statx, libc::ENOMEM),
    call("timerfd_create", libc::SYS_timerfd_create, libc::EMFILE),
    call("unlinkat", libc::SYS_unlinkat, libc::EROFS),
    call("unshare", libc::SYS_unshare, libc::ENOSPC),
    interruptible("wait4", libc::SYS_wait4, libc::ECHILD),
    interruptible("write", libc::SYS_write, libc::ENOSPC),
    interruptible("writev", libc::SYS_writev, libc::ENOSPC),
    #[cfg(target_arch = "x86_64")]
    interruptible("epoll_wait", libc::SYS_epoll_wait, libc::EINTR),
    #[cfg(target_arch = "x86_64")]
    call("mkdir", libc::SYS_mkdir, libc::ENOSPC),
    #[cfg(target_arch = "x86_64")]
    interruptible("poll", libc::SYS_poll, libc::ENOMEM),
    #[cfg(target_arch = "x86_64")]
    call("rename", libc::SYS_rename, libc::ENOSPC),
    #[cfg(target_arch = "x86_64")]
    call("unlink", libc::SYS_unlink, libc::EROFS),
    #[cfg(target_arch = "x86_64")]
    call("rmdir", libc::SYS_rmdir, libc::EROFS),
    #[cfg(target_arch = "x86_64")]
    call("chmod", libc::SYS_chmod, libc::EPERM),
];
