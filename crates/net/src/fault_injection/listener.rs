use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Where the kernel asks about the calls of threads and of all that they start.
#[derive(Debug)]
pub(super) struct Listener {
    fd: OwnedFd,
}

/// A call that waits for an answer.
pub(super) struct Notification {
    raw: libc::seccomp_notif,
}

/// What becomes of the call.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallOutcome {
    /// The kernel makes it.
    Proceed,
    /// It is not made, and this is its error.
    Error(i32),
    /// It is not made, and this is its result.
    Return(i64),
}

impl Notification {
    pub(super) fn call(&self) -> libc::c_long {
        self.raw.data.nr.into()
    }

    pub(super) fn arguments(&self) -> &[u64; 6] {
        &self.raw.data.args
    }

    /// The number of its thread.
    pub(super) fn thread(&self) -> i32 {
        self.raw.pid as i32
    }
}

impl Listener {
    /// Has these calls of the calling thread, and of the threads and processes that it starts from now on, asked about.
    pub(super) fn install_on_this_thread(calls: impl Iterator<Item = libc::c_long>) -> io::Result<Self> {
        nix::sys::prctl::set_no_new_privs()?;
        let mut filter = build_filter(calls);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // A call that waits for an answer is not interrupted by signals, but is if its thread is killed.
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        // SAFETY: seccomp(2) reads the program, which lives across the call, and returns a descriptor that is nobody else's.
        let fd = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Listener { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }

    /// Waits for the next call; None once nobody is left who could make one.
    pub(super) fn next(&self) -> Option<Notification> {
        loop {
            let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
            let events = match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => fds[0].revents()?,
                Err(nix::Error::EINTR) => continue,
                Err(_) => return None,
            };
            if !events.contains(PollFlags::POLLIN) {
                return None;
            }
            // SAFETY: the structure holds integers only; the kernel wants it zeroed.
            let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the kernel writes the structure, which lives across the call.
            let outcome = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
            // Else the caller has been killed meanwhile.
            if outcome == 0 {
                return Some(Notification { raw });
            }
        }
    }

    /// The caller may have been killed meanwhile, which is no failure.
    pub(super) fn answer(&self, asked: &Notification, answer: CallOutcome) {
        let (val, error, flags) = match answer {
            CallOutcome::Proceed => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            CallOutcome::Error(error) => (0, -error, 0),
            CallOutcome::Return(value) => (value, 0, 0),
        };
        let mut response = libc::seccomp_notif_resp { id: asked.raw.id, val, error, flags };
        // SAFETY: the kernel reads the structure, which lives across the call.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
    }

    /// Whether the caller still waits: only then its number is not another's.
    pub(super) fn is_pending(&self, asked: &Notification) -> bool {
        let id = asked.raw.id;
        // SAFETY: the kernel reads the number, which lives across the call.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }
}

/// Asks about these calls, and lets all others pass: seccomp(2), BPF with one test and one answer for each.
fn build_filter(calls: impl Iterator<Item = libc::c_long>) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let answer = |action| statement(libc::BPF_RET | libc::BPF_K, action);
    let number = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0);
    let ask = calls.flat_map(|call| {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        [libc::sock_filter { code, jt: 0, jf: 1, k: call as u32 }, answer(libc::SECCOMP_RET_USER_NOTIF)]
    });
    [number].into_iter().chain(ask).chain([answer(libc::SECCOMP_RET_ALLOW)]).collect()
}
