//! Two sites, each with a host behind a gateway, joined by several paths.
//!
//! ```text
//! host a ══ left gateway ── path 1 ── right gateway ══ host b
//!                        ── path 2 ──
//! ```
//!
//! A path is an emulated link in either direction, or a veth pair where the gateways' own speed is in question. Cables to
//! the hosts are veth pairs. What the gateways do is up to programs that run in their namespaces: without them, packets
//! take the first path.

mod layout;
mod links;
mod shard;

pub use links::PathLinks;

use crate::directed_link::Lateness;
use crate::network::{Host, NetworkError};
use kumade_link::Counters;
use kumade_net::SetupError;
use kumade_net::cpu::CpuReservation;
use kumade_net::low_latency::raise_priority;
use kumade_net::namespace::Namespace;
use kumade_packet_loop::PacketThread;
use kumade_units::Time;
use shard::{PathShard, SitesShard};
use std::io;
use std::net::Ipv4Addr;

/// Two sites. Dropping this ends everything in it.
#[derive(Debug)]
pub struct Sites {
    /// The host of the left site, 10.1.0.2.
    pub a: Host,
    /// Its gateway.
    pub left: Namespace,
    /// The gateway of the right site.
    pub right: Namespace,
    /// Its host, 10.2.0.2.
    pub b: Host,
    paths: usize,
    /// None where the paths are veth pairs.
    emulation: Option<PathEmulation>,
}

#[derive(Debug)]
struct PathEmulation {
    thread: PacketThread<SitesShard>,
    /// The packet thread's own CPU: no program at the sites is to keep it waiting.
    _cpu: CpuReservation,
}

impl Sites {
    /// The interface between host and gateway, at both of them.
    pub const LAN: &'static str = layout::LAN_INTERFACE;

    /// Joins the sites by emulated paths, and sets the packets moving. Hosts and gateways exchange packets as long as the
    /// paths' MTU, as over real cables. As long as this lives, the calling thread and those that it starts keep off one CPU,
    /// which is left to the packets.
    ///
    /// # Errors
    /// A link is impossible, or the system refuses a namespace, a device or a thread; iproute2 is missing.
    pub fn with_emulated_paths(paths: Vec<PathLinks>) -> Result<Self, NetworkError> {
        let sites = Sites::with_hosts(paths.len(), true)?;
        let mut ends = Vec::new();
        for (place, links) in paths.into_iter().enumerate() {
            let device = |gateway: &Namespace| gateway.run(|| layout::path_device(place))?;
            ends.push((links, [device(&sites.left)?, device(&sites.right)?]));
        }
        let reservation = CpuReservation::reserve_last();
        let cpu = reservation.cpu();
        let thread = PacketThread::start("testnet", move || {
            cpu.pin();
            raise_priority();
            let paths = ends.into_iter().map(|(links, ends)| PathShard::new(links, ends));
            Ok::<_, NetworkError>(SitesShard::new(paths.collect::<Result<_, _>>()?))
        })?;
        sites.configure_paths()?;
        Ok(Sites { emulation: Some(PathEmulation { thread, _cpu: reservation }), ..sites })
    }

    /// Joins the sites by so many veth pairs, with the kernel's offloads on.
    ///
    /// # Errors
    /// The system refuses a namespace or a device, or iproute2 is missing.
    pub fn with_veth_paths(paths: usize) -> Result<Self, NetworkError> {
        let sites = Sites::with_hosts(paths, false)?;
        (0..paths).try_for_each(|place| {
            layout::create_veth(&sites.left, &sites.right, &Sites::path_interface(place), false)
        })?;
        sites.configure_paths()?;
        Ok(sites)
    }

    fn with_hosts(paths: usize, packets_as_on_the_wire: bool) -> Result<Self, NetworkError> {
        let host = |name: &str, site: u8| {
            let namespace = Namespace::new()?;
            Ok::<_, SetupError>(Host {
                name: name.into(),
                v4: Ipv4Addr::new(10, site, 0, 2),
                second_v4: None,
                v6: None,
                namespace,
            })
        };
        let (a, b) = (host("a", 1)?, host("b", 2)?);
        let sites = Sites { a, left: Namespace::new()?, right: Namespace::new()?, b, paths, emulation: None };
        for (host, gateway, site) in [(&sites.a, &sites.left, 1), (&sites.b, &sites.right, 2)] {
            layout::build_site(&host.namespace, gateway, site, paths, packets_as_on_the_wire)?;
        }
        Ok(sites)
    }

    fn configure_paths(&self) -> Result<(), NetworkError> {
        layout::configure_paths(&self.left, &self.right, self.paths)?;
        Ok(())
    }

    /// The interface of a path at both gateways, by the path's place.
    pub fn path_interface(place: usize) -> String {
        layout::path_name(place)
    }

    /// The address of the left (1) or right (2) gateway on a path.
    pub fn gateway_address(place: usize, end: u8) -> Ipv4Addr {
        layout::gateway_address(place, end)
    }

    /// The address of a host whose packets take that path, whatever the gateways do: of the left (1) or right (2) one.
    pub fn host_address_on_path(place: usize, site: u8) -> Ipv4Addr {
        layout::address_on(place, site)
    }

    /// Lets the hosts' Multipath TCP (RFC 8684) use all paths: `a` opens subflows from its address on each.
    ///
    /// # Errors
    /// The kernel has no Multipath TCP, or iproute2 does not know it.
    pub fn enable_mptcp(&self) -> Result<(), SetupError> {
        layout::enable_mptcp(&self.a.namespace, &self.b.namespace, self.paths)
    }

    /// Cuts a path, or mends it: as long as it is cut, nothing passes, and what is under way is lost. Its interfaces stay up,
    /// as behind a provider's modem.
    ///
    /// # Errors
    /// The packet thread has ended, or the paths are cables.
    pub fn set_cut(&self, place: usize, is_cut: bool) -> Result<(), NetworkError> {
        self.run_on_packet_thread(move |shard| shard.set_cut(place, is_cut))
    }

    /// How late the packets that were due from `from` to `to` were written, on the path and in the direction where that was
    /// worst.
    ///
    /// # Errors
    /// As for [`Sites::set_cut`].
    pub fn lateness(&self, from: Time, to: Time) -> Result<Lateness, NetworkError> {
        self.run_on_packet_thread(move |shard| shard.lateness(from, to))
    }

    /// What the links have done, by path: up and down.
    ///
    /// # Errors
    /// As for [`Sites::set_cut`].
    pub fn link_counters(&self) -> Result<Vec<[Counters; 2]>, NetworkError> {
        self.run_on_packet_thread(|shard| shard.counters())
    }

    /// Packets that were never seen, because the packet thread was too slow.
    ///
    /// # Errors
    /// As for [`Sites::set_cut`].
    pub fn missed_packets(&self) -> Result<u64, NetworkError> {
        self.run_on_packet_thread(SitesShard::missed_packets)
    }

    fn run_on_packet_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SitesShard) -> T + Send + 'static,
    ) -> Result<T, NetworkError> {
        let no_emulation =
            || NetworkError::Setup(SetupError::new("ask about emulated paths", io::ErrorKind::Unsupported));
        let PathEmulation { thread, .. } = self.emulation.as_ref().ok_or_else(no_emulation)?;
        let current = move |shard: &mut SitesShard| {
            shard.catch_up();
            work(shard)
        };
        thread.run_on_thread(current).map_err(|_| NetworkError::Stopped)
    }
}
