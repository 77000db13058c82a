//! Network namespaces that nothing but a file descriptor holds: when the process ends, however it ends, they are gone.

mod identity;

pub use identity::{NamespaceId, Presence};

use crate::interface;
use crate::setup::SetupError;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

/// A network namespace with its loopback up. Clones name the same one; it ends with the last clone, once no thread,
/// process or socket is left in it.
#[derive(Debug, Clone)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Makes an empty one.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN (see [`enter_user_namespace_if_needed`]), or out of descriptors or namespaces.
    pub fn new() -> Result<Self, SetupError> {
        let maker = thread::Builder::new().name("netns".into()).spawn(create_namespace);
        let maker = maker.map_err(|error| SetupError::new("start a thread for a network namespace", error))?;
        let fd = maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Namespace { fd: Arc::new(fd) })
    }

    /// Runs `work` inside, on a thread of its own, and waits for it. Sockets opened there stay in the namespace and
    /// may be used anywhere. A panic inside goes on outside.
    ///
    /// # Errors
    /// Where the thread cannot start or enter.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SetupError> {
        thread::scope(|scope| {
            let inside = thread::Builder::new().name("in-netns".into()).spawn_scoped(scope, || {
                self.enter()?;
                Ok(work())
            });
            let inside = inside.map_err(|error| SetupError::new("start a thread in a network namespace", error))?;
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts `work` inside, on a thread called `name`; returns once the thread is in the namespace.
    ///
    /// # Errors
    /// Where the thread cannot start or enter.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<T>, SetupError> {
        // A thread starts in the namespace of the thread that starts it.
        let start = self.run(|| thread::Builder::new().name(name.into()).spawn(work))?;
        start.map_err(|error| SetupError::new(format!("start the thread {name}"), error))
    }

    /// A command that will run inside, and dies with the *thread* that starts it (so start it from one that lives as
    /// long as it should).
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let fd = Arc::clone(&self.fd);
        let parent = nix::unistd::getpid();
        let mut command = Command::new(program);
        let enter = move || {
            setns(fd.as_fd(), CloneFlags::CLONE_NEWNET)?;
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the signal was asked for.
            if nix::unistd::getppid() != parent { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        };
        // SAFETY: between fork and exec the closure only makes system calls; it neither allocates nor locks.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Ends the processes inside, but this one: those that a command has left behind would keep the namespace. Those that end
    /// at the same time, or belong to another user, are passed over.
    pub fn kill_processes(&self) {
        let Ok(Ok(inside)) = self.run(identity::current_inode) else { return };
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_inside =
            |number: &i32| fs::metadata(format!("/proc/{number}/ns/net")).is_ok_and(|data| data.ino() == inside);
        for number in numbers.filter(|number| *number != nix::unistd::getpid().as_raw()).filter(is_inside) {
            let _ = kill(Pid::from_raw(number), Signal::SIGKILL);
        }
    }

    /// A path to it, for commands that take one; good while this value lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", nix::unistd::getpid(), self.fd.as_raw_fd())
    }

    fn enter(&self) -> Result<(), SetupError> {
        setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET)
            .map_err(|error| SetupError::new("enter a network namespace", error))
    }
}

/// Whether this process may make namespaces and devices as it is.
pub fn can_build_networks() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    effective & (NET_ADMIN | SYS_ADMIN) == NET_ADMIN | SYS_ADMIN
}

/// Where the caller is not allowed to make network namespaces, enters a user namespace of its own in which it is.
/// Call it at the very start of the program, before any thread exists.
///
/// # Errors
/// Where the system forbids user namespaces, with what to try.
pub fn enter_user_namespace_if_needed() -> Result<(), SetupError> {
    if can_build_networks() {
        return Ok(());
    }
    enter_user_namespace().map_err(|error| {
        let hint = match error.raw_os_error() {
            Some(libc::EINVAL) => "this must be done before the program starts its first thread",
            _ => USER_NAMESPACE_HINT,
        };
        SetupError::new("enter a user namespace", error).with_hint(hint)
    })?;
    // Some systems (AppArmor) allow the namespace but grant nothing inside it.
    Namespace::new().map(drop).map_err(|error| error.with_hint(USER_NAMESPACE_HINT))
}

/// Makes `command` run as root of a user namespace of its own: for programs that can't do it themselves because they
/// already have threads, such as tests.
pub fn in_user_namespace(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec the child is alone, so that the allocations of `enter_user_namespace` could only
    // hang on a lock of the allocator, which glibc and musl reinitialise at fork.
    unsafe { command.pre_exec(enter_user_namespace) }
}

const USER_NAMESPACE_HINT: &str = "run it as root, or allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1` \
    (Debian), `sysctl kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu), `sysctl user.max_user_namespaces=10000` \
    (Red Hat); in a container, `--privileged`";

fn enter_user_namespace() -> io::Result<()> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    // Without this the kernel refuses a group map to the unprivileged: user_namespaces(7).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

fn create_namespace() -> Result<OwnedFd, SetupError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
        SetupError::new("make a network namespace", error).with_hint("it takes root or a user namespace")
    })?;
    disable_ipv6_autoconfiguration();
    interface::set_up("lo")?;
    let file = File::open("/proc/thread-self/ns/net");
    file.map(OwnedFd::from).map_err(|error| SetupError::new("open /proc/thread-self/ns/net", error))
}

/// No link-local addresses and no solicitations: the hosts of a measuring network send what they are told to.
/// A system that keeps /proc/sys read-only only gets a few more packets.
fn disable_ipv6_autoconfiguration() {
    for (name, value) in
        [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0"), ("accept_dad", "0")]
    {
        if let Err(error) = fs::write(format!("/proc/sys/net/ipv6/conf/default/{name}"), value) {
            tracing::debug!("IPv6 {name} stays as it is: {error}");
        }
    }
}
