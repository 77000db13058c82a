//! A network of real hosts around one emulated bottleneck, in real time.
//!
//! Each host is a network namespace with the kernel's own TCP and UDP and one TUN device. A single thread moves the
//! packets: it reads them with the kernel's stamp of their sending ([`kumade_net::capture`]), offers them to the [`kumade_link::Link`] of
//! their direction in the order of these stamps, and writes each to its receiver's device when it is due.
//!
//! ```text
//! measuring host ── middlebox ──┬──── up ───▶ right hosts
//! other left hosts ─────────────┘ ◀── down ──
//! ```
//!
//! Either direction may have a downstream hop behind the bottleneck.
//!
//! How late the thread reads does not matter as long as it is less than the link's delay, which therefore has a
//! [minimum](NetworkSpec::MIN_DELAY). How late it writes does: the [`Lateness`] of a run says whether to trust it.

mod access;
mod error;
mod host;
mod shard;
mod spec;
mod verify;

pub use error::NetworkError;
pub use host::Host;
pub use shard::PacketDrops;
pub use spec::{AccessSpec, HostSpec, NetworkSpec};
pub use verify::VerifiedLink;
pub(crate) use verify::verify_between;

use crate::device::Device;
use crate::directed_link::{Lateness, ORDERING_DELAY, WaitHistogram};
use crate::iproute2::run_ip;
use kumade_link::{CrossConfig, CrossTraffic, Link, LinkConfig};
use kumade_middlebox::{Middlebox, MiddleboxConfig};
use kumade_net::clock;
use kumade_net::cpu::CpuReservation;
use kumade_net::low_latency::raise_priority;
use kumade_net::namespace::Namespace;
use kumade_packet_loop::{Buffer, PacketThread};
use kumade_units::{Direction, Rate, Span, Time};
use shard::{Attachment, NetworkShard};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::thread;

/// Of the hashes and ports of a network's middlebox: its hosts are not hostile, and runs can be compared.
const MIDDLEBOX_SEED: u128 = 0;

/// A running network. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Host>,
    spec: NetworkSpec,
    thread: PacketThread<NetworkShard>,
    /// The packet thread's own CPU: no program on a host is to keep it waiting.
    _cpu: CpuReservation,
}

impl Network {
    /// Builds hosts and links and sets the packets moving. As long as the network lives, the calling thread and those
    /// that it starts keep off one CPU, which is left to the packets.
    ///
    /// # Errors
    /// The specification is impossible, or the system refuses a namespace, a device or a thread.
    pub fn build(spec: NetworkSpec) -> Result<Self, NetworkError> {
        spec.check()?;
        let (mut hosts, mut attachments) = (Vec::new(), Vec::new());
        for host in spec.left.iter().chain(&spec.right) {
            let (host, attachment) = build_host(host)?;
            hosts.push(host);
            attachments.push(attachment);
        }
        let reservation = CpuReservation::reserve_last();
        let (cpu, network) = (reservation.cpu(), spec.clone());
        let thread = PacketThread::start("testnet", move || {
            cpu.pin();
            raise_priority();
            NetworkShard::new(attachments, &network)
        })?;
        Ok(Network { hosts, spec, thread, _cpu: reservation })
    }

    /// The host of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| NetworkError::NoHost(name.into()))
    }

    /// The specification from which it was built.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Replaces the computed cross traffic of one direction; packets of the former that are queued are still served.
    /// Sources start now, whatever their `start` says.
    ///
    /// # Errors
    /// A source's settings are impossible.
    pub fn set_cross_traffic(&self, direction: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError> {
        let sources = sources_starting_now(sources)?;
        self.run_on_packet_thread(move |shard| replace_cross_traffic(shard.link(direction).bottleneck_mut(), sources))
    }

    /// As [`Network::set_cross_traffic`], on that direction's downstream hop.
    ///
    /// # Errors
    /// A source's settings are impossible, or there is no such hop.
    pub fn set_downstream_cross_traffic(
        &self,
        direction: Direction,
        sources: &[CrossConfig],
    ) -> Result<(), NetworkError> {
        let sources = sources_starting_now(sources)?;
        let is_none = sources.is_empty();
        let found = self.run_on_packet_thread(move |shard| {
            shard.link(direction).downstream_hop_mut().map(|hop| replace_cross_traffic(hop, sources)).is_some()
        })?;
        let missing = || Err(NetworkError::Spec("cross traffic on a downstream hop needs such a hop".into()));
        if found || is_none { Ok(()) } else { missing() }
    }

    /// Puts a middlebox in front of the measuring host (the first on the left; other hosts' packets do not pass it), in
    /// place of the present one. None lets everything pass.
    ///
    /// # Errors
    /// A rule is impossible.
    pub fn set_middlebox(&self, config: Option<MiddleboxConfig>) -> Result<(), NetworkError> {
        let middlebox = config.map(|config| Middlebox::new(config, MIDDLEBOX_SEED)).transpose()?;
        self.run_on_packet_thread(move |shard| shard.middlebox = middlebox)
    }

    /// The bandwidth that was available from `from` to `to` ([`clock::realtime`]): the minimum over the links of each one's
    /// sustained rate, less the cross traffic that arrived at it within that time: the computed one, and packets of other
    /// hosts than the two that measure.
    ///
    /// # Errors
    /// That time is no longer (or not yet) on record, or a link has no rate.
    pub fn available_bandwidth(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        let no_rate = || NetworkError::Spec("the available bandwidth of a link without a rate is not known".into());
        let rate = self.bottleneck(direction).sustained_rate().ok_or_else(no_rate)?;
        let cross = self.cross_rate(direction, from, to)?;
        let available = Rate::from_f64(rate.as_f64() - cross.as_f64());
        let Some(hop) = self.spec.links(direction).nth(1) else { return Ok(available) };
        let rate = hop.sustained_rate().ok_or_else(no_rate)?;
        let bytes =
            self.run_on_packet_thread(move |shard| shard.link(direction).downstream_cross_bytes_between(from, to))?;
        let cross = Rate::from_bytes_over(bytes.ok_or(NetworkError::NoRecord(to - from))?, to - from);
        Ok(available.min(Rate::from_f64(rate.as_f64() - cross.as_f64())))
    }

    /// The rate of the cross traffic that arrived at the bottleneck from `from` to `to`.
    ///
    /// # Errors
    /// That time is no longer (or not yet) on record.
    pub fn cross_rate(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        let settled = to + ORDERING_DELAY + Span::from_millis(1) - clock::realtime();
        thread::sleep(settled.min(Span::from_secs(1)).to_duration());
        let bytes = self.run_on_packet_thread(move |shard| shard.link(direction).cross_bytes_between(from, to))?;
        bytes.map(|bytes| Rate::from_bytes_over(bytes, to - from)).ok_or(NetworkError::NoRecord(to - from))
    }

    /// How late the packets that were due from `from` to `to` were written, and read.
    ///
    /// # Errors
    /// The packet thread has ended.
    pub fn lateness(&self, direction: Direction, from: Time, to: Time) -> Result<Lateness, NetworkError> {
        self.run_on_packet_thread(move |shard| shard.link(direction).lateness(from, to))
    }

    /// Packets forwarded and dropped so far.
    ///
    /// # Errors
    /// The packet thread has ended.
    pub fn drops(&self, direction: Direction) -> Result<PacketDrops, NetworkError> {
        self.run_on_packet_thread(move |shard| shard.drops(direction))
    }

    /// How long packets waited at the bottleneck since the last call, or since the beginning, by the address that they came from.
    ///
    /// # Errors
    /// The packet thread has ended.
    pub fn take_waits(&self, direction: Direction) -> Result<BTreeMap<IpAddr, WaitHistogram>, NetworkError> {
        self.run_on_packet_thread(move |shard| shard.link(direction).take_waits())
    }

    /// The settings of one direction's bottleneck.
    pub fn bottleneck(&self, direction: Direction) -> &LinkConfig {
        match direction {
            Direction::Up => &self.spec.up,
            Direction::Down => &self.spec.down,
        }
    }

    /// Checks with real packets, stamped by the kernel at both hosts, that the links have the rate, the delay and the
    /// loss that were configured. Meanwhile there is no middlebox. Computed cross traffic of that direction ends: set it
    /// afterwards.
    ///
    /// # Errors
    /// [`NetworkError::NotAsSet`] with what was found; or probe packets cannot be sent.
    pub fn verify(&self, direction: Direction) -> Result<VerifiedLink, NetworkError> {
        self.set_cross_traffic(direction, &[])?;
        self.set_downstream_cross_traffic(direction, &[])?;
        let middlebox = self.run_on_packet_thread(|shard| shard.middlebox.take())?;
        let (left, right) = (&self.hosts[0], &self.hosts[self.spec.left.len()]);
        let (sender, receiver) = match direction {
            Direction::Up => (left, right),
            Direction::Down => (right, left),
        };
        let links: Vec<_> = self.spec.links(direction).collect();
        let outcome = verify_between(sender, receiver, &links, direction, Span::ZERO);
        self.run_on_packet_thread(|shard| shard.middlebox = middlebox)?;
        outcome
    }

    /// Has the packet thread do this, once it has processed all packets so far.
    fn run_on_packet_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut NetworkShard) -> T + Send + 'static,
    ) -> Result<T, NetworkError> {
        let current = move |shard: &mut NetworkShard| {
            shard.catch_up();
            work(shard)
        };
        self.thread.run_on_thread(current).map_err(|_| NetworkError::Stopped)
    }
}

fn sources_starting_now(sources: &[CrossConfig]) -> Result<Vec<CrossTraffic>, NetworkError> {
    let start = clock::realtime();
    let sources = sources.iter().map(|source| CrossTraffic::new(CrossConfig { start, ..source.clone() }));
    Ok(sources.collect::<Result<_, _>>()?)
}

fn replace_cross_traffic(link: &mut Link<Buffer>, sources: Vec<CrossTraffic>) {
    link.stop_cross_traffic();
    sources.into_iter().for_each(|source| link.add_cross_traffic(source));
}

fn build_host(spec: &HostSpec) -> Result<(Host, Attachment), NetworkError> {
    let namespace = Namespace::new()?;
    let device = namespace.run(|| Device::new(Host::DEVICE, Some(spec.v4), spec.v6))??;
    if let Some(second) = spec.second_v4 {
        run_ip(&namespace, &["addr", "add", &format!("{second}/32"), "dev", Host::DEVICE])?;
    }
    let v4 = [Some(spec.v4), spec.second_v4].into_iter().flatten().map(IpAddr::V4);
    let addresses = v4.chain(spec.v6.map(IpAddr::V6)).collect();
    let host = Host { name: spec.name.clone(), v4: spec.v4, second_v4: spec.second_v4, v6: spec.v6, namespace };
    Ok((host, Attachment { device, addresses, ect: spec.ect, access: spec.access.clone() }))
}
