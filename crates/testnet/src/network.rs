//! A network of real hosts around one emulated bottleneck, in real time.
//!
//! Each host is a network namespace with the kernel's own TCP and UDP and one TUN device. A single thread moves the
//! packets: it reads them with the kernel's stamp of their sending ([`net::capture`]), offers them to the [`link::Link`] of
//! their direction in the order of these stamps, and writes each to its receiver's device when it is due.
//!
//! ```text
//! measuring host ── middlebox ──┬──── up ───▶ right hosts
//! other left hosts ─────────────┘ ◀── down ──
//! ```
//!
//! Either way may have a second link behind the bottleneck.
//!
//! How late the thread reads does not matter as long as it is less than the link's delay, which is why that has a
//! [least value](NetworkSpec::MIN_DELAY). How late it writes does: the [`Lateness`] of a run says whether to trust it.

mod access;
mod core;
mod directed_link;
mod verify;

use self::access::Access;
use self::core::{Core, Port};
use link::queue::QueueConfig;
use link::{Counters, CrossConfig, CrossTraffic, Link, LinkConfig};
use middlebox::{Middlebox, MiddleboxConfig};
use net::capture::Capture;
use net::cpu::CpuReservation;
use net::namespace::Namespace;
use net::tun::Tun;
use net::{SetupError, clock};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use thiserror::Error;
use units::Direction;
use units::{Rate, Span, Time};

pub use self::core::MEMORY as RECORD_LENGTH;
pub use access::AccessSpec;
pub use directed_link::{Lateness, Waits};
pub use verify::Verified;
use verify::lasting_rate;
pub(crate) use verify::verify_between;

/// A run in which the emulated link was late by more than this shows the machine's behaviour, not the link's.
pub const STALL: Span = Span::from_micros(300);

/// A host to be built.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSpec {
    /// What [`Network::host`] finds it by.
    pub name: String,
    /// Its IPv4 address; all others are reached through its one device.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, if it has one.
    pub v6: Option<Ipv6Addr>,
    /// Links between a left host and the bottleneck, the first one first. The right ones have none.
    pub access: Vec<AccessSpec>,
}

/// A network to be built: hosts left and right of one bottleneck.
#[derive(Debug, Clone)]
pub struct NetworkSpec {
    /// At least one. The first one measures: packets of the others count as cross traffic.
    pub left: Vec<HostSpec>,
    /// At least one; the first one is measured against.
    pub right: Vec<HostSpec>,
    /// The link from left to right.
    pub up: LinkConfig,
    /// What waits for it, in place of tail drop; flows are told apart by addresses, protocol and ports.
    pub up_queue: Option<QueueConfig>,
    /// A link behind that one; tail drop waits for it.
    pub up_later: Option<LinkConfig>,
    /// The link from right to left.
    pub down: LinkConfig,
    /// A link behind that one.
    pub down_later: Option<LinkConfig>,
}

impl NetworkSpec {
    /// The least delay of a link: packets are held back so that they can be ordered by their stamps, and are read with
    /// what lateness the scheduler has.
    pub const MIN_DELAY: Span = Span::from_micros(200);

    /// One host on each side, `a` and `b`, with the same link both ways.
    pub fn pair(link: LinkConfig) -> Self {
        NetworkSpec {
            left: vec![HostSpec::numbered("a", 1)],
            right: vec![HostSpec::numbered("b", 2)],
            up: link.clone(),
            up_queue: None,
            up_later: None,
            down: link,
            down_later: None,
        }
    }

    /// The links of one direction, in the order in which packets pass them: the bottleneck, and the hop behind it.
    fn links(&self, direction: Direction) -> impl Iterator<Item = &LinkConfig> {
        let (link, later) = match direction {
            Direction::Up => (&self.up, &self.up_later),
            Direction::Down => (&self.down, &self.down_later),
        };
        std::iter::once(link).chain(later)
    }

    fn check(&self) -> Result<(), NetworkError> {
        let refuse = |why: String| Err(NetworkError::Spec(why));
        if self.left.is_empty() || self.right.is_empty() {
            return refuse("each side needs a host".into());
        }
        let hosts: Vec<_> = self.left.iter().chain(&self.right).collect();
        for (index, host) in hosts.iter().enumerate() {
            let twin = hosts[..index].iter().find(|other| {
                other.name == host.name || other.v4 == host.v4 || host.v6.is_some() && other.v6 == host.v6
            });
            if let Some(twin) = twin {
                return refuse(format!("the hosts {} and {} share a name or an address", twin.name, host.name));
            }
        }
        if let Some(host) = self.right.iter().find(|host| !host.access.is_empty()) {
            return refuse(format!("{} stands on the right, where no host has links of its own", host.name));
        }
        let ways = [(Direction::Up, "up"), (Direction::Down, "down")];
        for (link, name) in ways.into_iter().flat_map(|(way, name)| self.links(way).map(move |link| (link, name))) {
            if link.delay < Self::MIN_DELAY {
                return refuse(format!("the delay {name} is {}, give it at least {}", link.delay, Self::MIN_DELAY));
            }
        }
        Ok(())
    }
}

impl HostSpec {
    /// A host with the addresses 10.77.0.`number` and fd77::`number`.
    pub fn numbered(name: &str, number: u8) -> Self {
        let v6 = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number.into());
        HostSpec { name: name.into(), v4: Ipv4Addr::new(10, 77, 0, number), v6: Some(v6), access: Vec::new() }
    }
}

/// A host as built.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// Where its programs run.
    pub namespace: Namespace,
}

impl Host {
    /// The name of every host's device.
    pub const DEVICE: &'static str = "kumade0";
}

/// What went wrong with the lab's network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// A description that no network can have.
    #[error("cannot build the lab's network: {0}")]
    Spec(String),
    /// A link's setting that makes no sense.
    #[error(transparent)]
    Link(#[from] units::ConfigError),
    /// The system refused.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No host has that name.
    #[error("the lab's network has no host called {0}")]
    NoHost(String),
    /// The packet thread is gone.
    #[error("the lab's packet thread has ended; this is a fault of the lab: see its panic message above")]
    Stopped,
    /// The truth was asked for a time that is not on record.
    #[error(
        "the lab has no record of all of the {0} asked about: ask within a minute and a half, about a time that has passed"
    )]
    NoRecord(Span),
    /// What was built is not what was asked for.
    #[error(
        "the lab's network is not as set: {direction}, {found}, set were {set}; if other programs load this machine, end them"
    )]
    NotAsSet {
        /// Which link.
        direction: Direction,
        /// What was measured.
        found: String,
        /// What was set.
        set: String,
    },
}

/// What became of the packets of one direction that did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drops {
    /// By the link, and its other counts: packets of hosts.
    pub packets: Counters,
    /// By the link: computed cross traffic.
    pub cross: Counters,
    /// By the middlebox, with or without an answer.
    pub refused: u64,
    /// To an address that no host on the other side has.
    pub unroutable: u64,
    /// Never seen, because the packet thread was too slow. Should be zero.
    pub missed: u64,
}

/// A running network. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Host>,
    spec: NetworkSpec,
    requests: Option<mpsc::Sender<Request>>,
    doorbell: UnixStream,
    thread: Option<JoinHandle<()>>,
    /// The packet thread's own: no program on a host is to keep it waiting.
    _processor: CpuReservation,
}

type Request = Box<dyn FnOnce(&mut Core) + Send>;

impl Network {
    /// Builds hosts and links and sets the packets moving. As long as the network lives, the calling thread and those
    /// that it starts keep off one processor, which is left to the packets.
    ///
    /// # Errors
    /// Where the description makes no sense or the system refuses a namespace or device.
    pub fn build(spec: NetworkSpec) -> Result<Self, NetworkError> {
        spec.check()?;
        let mut hosts = Vec::new();
        let mut ports = Vec::new();
        for host in spec.left.iter().chain(&spec.right) {
            let (host, port) = build_host(host)?;
            hosts.push(host);
            ports.push(port);
        }
        let (requests, inbox) = mpsc::channel();
        let broken = |error| SetupError::new("make the packet thread's doorbell", error);
        let (doorbell, bell) = UnixStream::pair().map_err(broken)?;
        bell.set_nonblocking(true).map_err(broken)?;
        doorbell.set_nonblocking(true).map_err(broken)?;
        let core = Core::new(ports, &spec, inbox, bell)?;
        let aside = CpuReservation::last();
        let processor = aside.processor();
        let thread = thread::Builder::new().name("lab-packets".into()).spawn(move || {
            processor.pin();
            core.run();
        });
        let thread = thread.map_err(|error| SetupError::new("start the packet thread", error))?;
        Ok(Network { hosts, spec, requests: Some(requests), doorbell, thread: Some(thread), _processor: aside })
    }

    /// The host of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| NetworkError::NoHost(name.into()))
    }

    /// What it was built from.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Replaces the computed cross traffic of one direction; what of the old waits in the queue is still served.
    /// Sources start now, whatever their `start` says.
    ///
    /// # Errors
    /// Where a source makes no sense.
    pub fn set_cross(&self, direction: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError> {
        let sources = starting_now(sources)?;
        self.ask(move |core| replace_cross(core.lane(direction).link_mut(), sources))
    }

    /// As [`Network::set_cross`], on the hop behind that direction's bottleneck.
    ///
    /// # Errors
    /// Where a source makes no sense, or there is one and no such hop.
    pub fn set_later_cross(&self, direction: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError> {
        let sources = starting_now(sources)?;
        let nothing_to_do = sources.is_empty();
        let found = self
            .ask(move |core| core.lane(direction).later_mut().map(|later| replace_cross(later, sources)).is_some())?;
        let missing = || Err(NetworkError::Spec("there is no hop behind this bottleneck to send traffic over".into()));
        if found || nothing_to_do { Ok(()) } else { missing() }
    }

    /// Puts a middlebox before the measuring host (the first on the left; the others' packets do not pass it), in place
    /// of the one that may be there. None lets everything pass.
    ///
    /// # Errors
    /// Where a rule makes no sense.
    pub fn set_middlebox(&self, config: Option<MiddleboxConfig>) -> Result<(), NetworkError> {
        let middlebox = config.map(Middlebox::new).transpose()?;
        self.ask(move |core| core.middlebox = middlebox)
    }

    /// The bandwidth that was available from `from` to `to` ([`clock::realtime`]): the least over the links of the rate
    /// that each has for long, less what arrived at it within that time, of computed cross traffic and of packets from
    /// other hosts than the two that measure.
    ///
    /// # Errors
    /// Where that is no longer (or not yet) on record, or the link has no rate.
    pub fn truth(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        let no_rate = || NetworkError::Spec("a link without a rate has no truth".into());
        let rate = lasting_rate(self.link(direction)).ok_or_else(no_rate)?;
        let cross = self.cross_rate(direction, from, to)?;
        let available = Rate::from_f64(rate.as_f64() - cross.as_f64());
        let Some(later) = self.spec.links(direction).nth(1) else { return Ok(available) };
        let rate = lasting_rate(later).ok_or_else(no_rate)?;
        let bytes = self.ask(move |core| core.lane(direction).later_cross_bytes_between(from, to))?;
        let cross = Rate::from_bytes_over(bytes.ok_or(NetworkError::NoRecord(to - from))?, to - from);
        Ok(available.min(Rate::from_f64(rate.as_f64() - cross.as_f64())))
    }

    /// What arrived at the link from `from` to `to` that does not belong to the two hosts that measure.
    ///
    /// # Errors
    /// Where that is no longer (or not yet) on record.
    pub fn cross_rate(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        let settled = to + core::HOLDBACK + Span::from_millis(1) - clock::realtime();
        thread::sleep(settled.min(Span::from_secs(1)).to_duration());
        let bytes = self.ask(move |core| core.lane(direction).cross_bytes_between(from, to))?;
        bytes.map(|bytes| Rate::from_bytes_over(bytes, to - from)).ok_or(NetworkError::NoRecord(to - from))
    }

    /// How late the packets that were due from `from` to `to` were written, and read.
    ///
    /// # Errors
    /// Where the packet thread has ended.
    pub fn lateness(&self, direction: Direction, from: Time, to: Time) -> Result<Lateness, NetworkError> {
        self.ask(move |core| core.lane(direction).lateness(from, to))
    }

    /// What was dropped so far, and what was not.
    ///
    /// # Errors
    /// Where the packet thread has ended.
    pub fn drops(&self, direction: Direction) -> Result<Drops, NetworkError> {
        self.ask(move |core| core.drops(direction))
    }

    /// How long packets waited at the link since the last call, or the beginning.
    ///
    /// # Errors
    /// Where the packet thread has ended.
    pub fn take_waits(&self, direction: Direction) -> Result<Waits, NetworkError> {
        self.ask(move |core| core.lane(direction).take_waits())
    }

    /// The settings of one direction's bottleneck.
    pub fn link(&self, direction: Direction) -> &LinkConfig {
        match direction {
            Direction::Up => &self.spec.up,
            Direction::Down => &self.spec.down,
        }
    }

    /// Has the packet thread do this between two packets.
    fn ask<T: Send + 'static>(&self, work: impl FnOnce(&mut Core) -> T + Send + 'static) -> Result<T, NetworkError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let request: Request = Box::new(move |core| drop(answer.send(work(core))));
        self.requests.as_ref().ok_or(NetworkError::Stopped)?.send(request).map_err(|_| NetworkError::Stopped)?;
        // A bell that is too full to ring has rung already.
        let _ = (&self.doorbell).write(&[1]);
        answered.recv().map_err(|_| NetworkError::Stopped)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Without a sender the thread ends; it owns the devices.
        self.requests = None;
        let _ = self.doorbell.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and a second one here would abort.
            let _ = thread.join();
        }
    }
}

fn starting_now(sources: &[CrossConfig]) -> Result<Vec<CrossTraffic>, NetworkError> {
    let start = clock::realtime();
    let sources = sources.iter().map(|source| CrossTraffic::new(CrossConfig { start, ..source.clone() }));
    Ok(sources.collect::<Result<_, _>>()?)
}

fn replace_cross(link: &mut Link<Vec<u8>>, sources: Vec<CrossTraffic>) {
    link.stop_cross();
    sources.into_iter().for_each(|source| link.add_cross(source));
}

fn build_host(spec: &HostSpec) -> Result<(Host, Port), NetworkError> {
    let namespace = Namespace::new()?;
    let (tun, capture) = namespace.run(|| {
        let tun = Tun::new(Host::DEVICE, core::MTU, Some(spec.v4), spec.v6)?;
        let capture = Capture::outgoing(Host::DEVICE)?;
        Ok::<_, SetupError>((tun, capture))
    })??;
    let addresses = std::iter::once(IpAddr::V4(spec.v4)).chain(spec.v6.map(IpAddr::V6)).collect();
    let host = Host { name: spec.name.clone(), v4: spec.v4, v6: spec.v6, namespace };
    let access = Access::new(&spec.access, clock::realtime())?;
    Ok((host, Port::new(tun, capture, addresses, access)))
}
