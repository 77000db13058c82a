//! What a program that serves others gives up once it needs it no more, and says so.

use crate::output::note;
use kumade_daemon::{Journal, RuntimeDir};
use kumade_net::SetupError;
use kumade_net::privileges::{self, FIRST_UNPRIVILEGED_PORT, NET_ADMIN, NET_BIND_SERVICE, NET_RAW};
use kumade_net::sandbox;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What has been given up, in words.
#[derive(Debug, Default)]
pub(crate) struct Confinement {
    restrictions: Vec<String>,
    has_fast_path: bool,
}

const NO_LANDLOCK: &str = "no Landlock in this kernel";

/// A capability with its name: capabilities(7).
pub(crate) type Capability = (u32, &'static str);

impl Confinement {
    /// Gives up all that moving packets does not take: capabilities but those to have interfaces, routes and rules, to restore them at
    /// the end, and to bind to these ports; writes but those of control sockets and records; of this thread and of those that it
    /// starts from now on.
    pub(crate) fn to_network(ports: impl IntoIterator<Item = u16>) -> Self {
        let mut confinement = Confinement::default();
        let directory = RuntimeDir::standard("kumade");
        Journal::new(directory.clone()).forget_gone_namespaces();
        let mut kept = vec![(NET_ADMIN, "CAP_NET_ADMIN"), (NET_RAW, "CAP_NET_RAW")];
        kept.extend(port_capability(ports));
        confinement.drop_capabilities(&kept);
        confinement.deny_writes_outside(directory.create_writable());
        confinement
    }

    /// Gives up all that monitoring does not take: capabilities but those for ICMP echo, and to bind to these ports; writes but those of the
    /// archive and of control sockets; of this thread and of those that it starts from now on.
    pub(crate) fn to_monitor(ports: impl IntoIterator<Item = u16>, archive: Option<&Path>) -> Self {
        let mut confinement = Confinement::default();
        let kept: Vec<_> = [(NET_RAW, "CAP_NET_RAW")].into_iter().chain(port_capability(ports)).collect();
        confinement.drop_capabilities(&kept);
        let mut writable = RuntimeDir::standard("kumade").create_writable();
        writable.extend(archive.map(Path::to_owned));
        confinement.deny_writes_outside(writable);
        confinement
    }

    fn deny_writes_outside(&mut self, writable: Vec<PathBuf>) {
        let names: Vec<_> = writable.iter().map(|directory| directory.display().to_string()).collect();
        self.record_restriction(sandbox::deny_writes_outside(&writable).map(|confined| match confined {
            true => format!("no writes but in {} and for networks (Landlock)", names.join(", ")),
            false => NO_LANDLOCK.to_owned(),
        }));
    }

    /// All capabilities but these, of this thread and of those that it starts from now on.
    pub(crate) fn drop_capabilities(&mut self, kept: &[Capability]) {
        let (numbers, names): (Vec<_>, Vec<_>) = kept.iter().copied().unzip();
        let words = if names.is_empty() { "no capabilities".to_owned() } else { format!("only {}", names.join(", ")) };
        self.record_restriction(privileges::drop_capabilities_except(&numbers).map(|()| words));
    }

    /// Files and connections, of this thread and of those that it starts from now on; files in `readable` can be read, and TCP ports in `ports`
    /// (0: one of the system's choice) be listened at.
    pub(crate) fn deny_files_and_connections(&mut self, readable: &[PathBuf], ports: &[RangeInclusive<u16>]) {
        // A process that has a terminal is asked by the same signal to read its configuration and to end.
        let own_terminal = (!readable.is_empty()).then(|| PathBuf::from("/proc/self/stat"));
        let places: Vec<_> = readable.iter().cloned().chain(own_terminal).collect();
        let names: Vec<_> = readable.iter().map(|place| place.display().to_string()).collect();
        self.record_restriction(sandbox::deny_files_and_connections(&places, ports).map(|confined| match confined {
            true if names.is_empty() => "no files or outgoing connections (Landlock)".to_owned(),
            true => format!("no files but to read those in {}, no outgoing connections (Landlock)", names.join(", ")),
            false => NO_LANDLOCK.to_owned(),
        }));
    }

    /// Whether it goes on with a fast path that it has loaded.
    pub(crate) fn with_fast_path(self, has_fast_path: bool) -> Self {
        Confinement { has_fast_path, ..self }
    }

    /// Once all threads have been started: their system calls that are not needed; and says what was given up.
    pub(crate) fn finish(mut self) {
        self.restrict_system_calls();
        self.finish_with_local_sockets();
    }

    /// As [`finish`](Self::finish), where local sockets are connected to later: that takes a system call that is denied otherwise.
    pub(crate) fn finish_with_local_sockets(self) {
        note!("confined: {}", self.restrictions.join("; "));
    }

    fn restrict_system_calls(&mut self) {
        self.record_restriction(
            sandbox::deny_unneeded_calls(self.has_fast_path).map(|()| "no unneeded system calls (seccomp)".to_owned()),
        );
    }

    fn record_restriction(&mut self, outcome: Result<String, SetupError>) {
        match outcome {
            Ok(words) => self.restrictions.push(words),
            Err(error) => note!("warning: {error}; --keep-privileges does without"),
        }
    }
}

/// What it takes to bind to these ports; zero stands for any port.
pub(crate) fn port_capability(ports: impl IntoIterator<Item = u16>) -> Option<Capability> {
    let is_privileged = ports.into_iter().any(|port| (1..FIRST_UNPRIVILEGED_PORT).contains(&port));
    is_privileged.then_some((NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"))
}
