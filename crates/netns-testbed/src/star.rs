//! Hosts around one hub, each behind an emulated link of its own, in real time.
//!
//! ```text
//! host a ── up of a ──▶ hub ── down of b ──▶ host b
//! ```
//!
//! So each two hosts have a path, of two links. Like in a [`Network`](crate::Network), hosts are namespaces with one TUN device, and a
//! single thread moves the packets.

mod shard;

use crate::device::Device;
use crate::directed_link::{Lateness, ORDERING_DELAY};
use crate::network::{Host, HostSpec, NetworkError, NetworkSpec};
use kumade_link::{CrossConfig, CrossTraffic, LinkConfig};
use kumade_net::clock;
use kumade_net::cpu::CpuReservation;
use kumade_net::low_latency::raise_priority;
use kumade_net::namespace::Namespace;
use kumade_packet_loop::PacketThread;
use kumade_units::{Rate, Span, Time};
use shard::{StarPort, StarShard};
use std::net::IpAddr;
use std::thread;

/// A host of a star to be built.
#[derive(Debug, Clone, PartialEq)]
pub struct StarHostSpec {
    /// Its name and addresses; it has no access links but these:
    pub host: HostSpec,
    /// From it to the hub.
    pub up: LinkConfig,
    /// From the hub to it.
    pub down: LinkConfig,
    /// Computed traffic of others on the way to the hub, which begins with the network, whatever its `start` says.
    pub up_cross: Option<CrossConfig>,
    /// The same on the way from the hub.
    pub down_cross: Option<CrossConfig>,
}

/// A running star. Dropping it ends everything in it.
#[derive(Debug)]
pub struct StarNetwork {
    hosts: Vec<Host>,
    specs: Vec<StarHostSpec>,
    thread: PacketThread<StarShard>,
    /// The packet thread's own CPU: no program on a host is to keep it waiting.
    _cpu: CpuReservation,
}

impl StarNetwork {
    /// Builds hosts and links and sets the packets moving. As long as the network lives, the calling thread and those that it starts
    /// keep off one CPU, which is left to the packets.
    ///
    /// # Errors
    /// A link is impossible, or the system refuses a namespace, a device or a thread.
    pub fn build(specs: Vec<StarHostSpec>) -> Result<Self, NetworkError> {
        let links = specs.iter().flat_map(|spec| [&spec.up, &spec.down]);
        if let Some(link) = links.into_iter().find(|link| link.delay < NetworkSpec::MIN_DELAY) {
            let text = format!("the delay of a link is {}, give it at least {}", link.delay, NetworkSpec::MIN_DELAY);
            return Err(NetworkError::Spec(text));
        }
        let (mut hosts, mut devices) = (Vec::new(), Vec::new());
        for HostSpec { name, v4, v6, .. } in specs.iter().map(|spec| spec.host.clone()) {
            let namespace = Namespace::new()?;
            devices.push(namespace.run(|| Device::new(Host::DEVICE, Some(v4), v6))??);
            hosts.push(Host { name, v4, second_v4: None, v6, namespace });
        }
        let reservation = CpuReservation::reserve_last();
        let (cpu, settings) = (reservation.cpu(), specs.clone());
        let thread = PacketThread::start("testnet", move || {
            cpu.pin();
            raise_priority();
            let ports = settings.into_iter().zip(devices).map(|(spec, device)| star_port(&spec, device));
            Ok::<_, NetworkError>(StarShard::new(ports.collect::<Result<_, _>>()?))
        })?;
        Ok(StarNetwork { hosts, specs, thread, _cpu: reservation })
    }

    /// The host of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        Ok(&self.hosts[self.place(name)?])
    }

    /// The bandwidth that was available from one host to another from `from` to `to` ([`clock::realtime`]): the minimum over both links
    /// of the rate less the computed cross traffic.
    ///
    /// # Errors
    /// That time is no longer (or not yet) on record, a link has no rate, or there is no such host.
    pub fn available_bandwidth(&self, ends: [&str; 2], from: Time, to: Time) -> Result<Rate, NetworkError> {
        let (source, target) = (self.place(ends[0])?, self.place(ends[1])?);
        let settled = to + ORDERING_DELAY + Span::from_millis(1) - clock::realtime();
        thread::sleep(settled.clamp(Span::ZERO, Span::from_secs(1)).to_duration());
        let cross = self.run_on_packet_thread(move |shard| {
            let [up, down] = [&shard.ports[source].up, &shard.ports[target].down];
            [up, down].map(|link| link.cross_bytes_between(from, to))
        })?;
        let links = [&self.specs[source].up, &self.specs[target].down].into_iter().zip(cross);
        let available = links.map(|(link, cross)| {
            let no_rate = || NetworkError::Spec("the available bandwidth of a link without a rate is not known".into());
            let rate = link.sustained_rate().ok_or_else(no_rate)?;
            let cross = Rate::from_bytes_over(cross.ok_or(NetworkError::NoRecord(to - from))?, to - from);
            Ok(Rate::from_f64(rate.as_f64() - cross.as_f64()))
        });
        let available: Result<Vec<_>, NetworkError> = available.collect();
        Ok(available?.into_iter().min().unwrap_or_default())
    }

    /// How long a packet takes at least from one host to the other and back, without queues and its own transmission.
    ///
    /// # Errors
    /// There is no such host.
    pub fn base_round_trip(&self, ends: [&str; 2]) -> Result<Span, NetworkError> {
        let places = [self.place(ends[0])?, self.place(ends[1])?];
        let delays = places.map(|place| self.specs[place].up.delay + self.specs[place].down.delay);
        Ok(delays[0] + delays[1])
    }

    /// How late the packets that were due from `from` to `to` were written, on the link where that was worst.
    ///
    /// # Errors
    /// The packet thread has ended.
    pub fn lateness(&self, from: Time, to: Time) -> Result<Lateness, NetworkError> {
        self.run_on_packet_thread(move |shard| {
            let all = shard.ports.iter().map(|port| port.down.lateness(from, to));
            all.max_by_key(|lateness| lateness.p99).unwrap_or_default()
        })
    }

    fn place(&self, name: &str) -> Result<usize, NetworkError> {
        self.hosts.iter().position(|host| host.name == name).ok_or_else(|| NetworkError::NoHost(name.into()))
    }

    /// Has the packet thread do this, once it has processed all packets so far.
    fn run_on_packet_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StarShard) -> T + Send + 'static,
    ) -> Result<T, NetworkError> {
        let current = move |shard: &mut StarShard| {
            shard.catch_up();
            work(shard)
        };
        self.thread.run_on_thread(current).map_err(|_| NetworkError::Stopped)
    }
}

fn star_port(spec: &StarHostSpec, device: Device) -> Result<StarPort, NetworkError> {
    let HostSpec { v4, v6, .. } = &spec.host;
    let addresses = std::iter::once(IpAddr::V4(*v4)).chain(v6.map(IpAddr::V6)).collect();
    let mut port = StarPort::new(device, addresses, [spec.up.clone(), spec.down.clone()])?;
    let start = clock::realtime();
    for (link, cross) in [(&mut port.up, &spec.up_cross), (&mut port.down, &spec.down_cross)] {
        if let Some(cross) = cross {
            link.bottleneck_mut().add_cross_traffic(CrossTraffic::new(CrossConfig { start, ..cross.clone() })?);
        }
    }
    Ok(port)
}
