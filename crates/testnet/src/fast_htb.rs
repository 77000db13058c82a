use crate::kernel_link::fast_commands;
use crate::network::{Host, NetworkError};
use crate::routed_hosts::{Lines, address, attach, call, forward};
use crate::traffic::{Bursts, received_packets};
use net::clock;
use net::namespace::Namespace;
use std::net::Ipv4Addr;
use std::thread;
use units::{Rate, Span, Time};

/// The kernel's HTB as a bottleneck of gigabits per second on the way up: an outside reference for fast paths.
///
/// ```text
/// a, c ── router ══ HTB up ══▶ b
///                ◀─────────────
/// ```
///
/// What a socket sends at once passes every line, the router and HTB as one packet of the kernel, as it leaves hosts whose
/// interfaces segment it: two cores then carry rates at which they could not forward the single packets of Ethernet. `c` sends
/// cross traffic, which ends behind the bottleneck. There is no added delay, and the way down is as fast as the machine.
#[derive(Debug)]
pub struct FastHtb {
    hosts: Vec<Host>,
    /// Dropping it would take its lines away.
    _router: Namespace,
    rate: Rate,
    mtu: u16,
}

/// Where cross traffic goes: `b` drops what is for others.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 78, 9, 9);
/// What is offered in order to see what passes, as a part of the rate.
const OVERLOAD: f64 = 1.1;
const SETTLING: Span = Span::from_millis(50);
const COUNTING: Span = Span::from_millis(300);

impl FastHtb {
    /// Builds it with lines of this MTU in bytes.
    ///
    /// # Errors
    /// The system refuses a namespace or device; [`NetworkError::NoShaper`] where this machine lacks iproute2 or HTB.
    pub fn build(rate: Rate, queue_bytes: u64, mtu: u16) -> Result<Self, NetworkError> {
        let router = Namespace::new()?;
        router.run(forward)??;
        let lines = Lines { mtu, offloads: true };
        let mut hosts = Vec::new();
        for (line, name) in [(1, "a"), (2, "b"), (3, "c")] {
            hosts.push(attach(line, name, &router, lines)?);
        }
        call(&router, &["ip", "route", "add", &NOBODY.to_string(), "via", &address(2, 2).v4.to_string()])?;
        for command in fast_commands("b", rate, queue_bytes, mtu) {
            call(&router, &command.split_whitespace().collect::<Vec<_>>()).map_err(NetworkError::NoShaper)?;
        }
        Ok(FastHtb { hosts, _router: router, rate, mtu })
    }

    /// The host of that name: `a` measures against `b`.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| NetworkError::NoHost(name.into()))
    }

    /// Begins to send cross traffic through the bottleneck.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn cross(&self, rate: Rate) -> Result<Bursts, NetworkError> {
        Bursts::send(self.host("c")?, NOBODY, rate, self.mtu.into())
    }

    /// What this machine carries of bursts that are sent at a tenth more than the rate: the rate, or less where the machine is too slow.
    /// Nothing else may be under way.
    ///
    /// # Errors
    /// The system refuses a socket, a thread or its counters.
    pub fn carried(&self) -> Result<Rate, NetworkError> {
        let bursts = self.cross(Rate::from_f64(self.rate.as_f64() * OVERLOAD))?;
        let receiver = self.host("b")?;
        let arrived = || Ok::<_, NetworkError>((received_packets(receiver, Host::DEVICE)?, clock::monotonic()));
        thread::sleep(SETTLING.to_duration());
        let (before, began) = arrived()?;
        thread::sleep(COUNTING.to_duration());
        let (after, ended) = arrived()?;
        Ok(Rate::from_bytes_over((after - before) * u64::from(bursts.burst_bytes()), ended - began))
    }

    /// The bandwidth that was available from `from` to `to` ([`clock::realtime`]): the rate less this cross traffic.
    pub fn truth(&self, cross: Option<&Bursts>, from: Time, to: Time) -> Rate {
        let bytes = cross.map_or(0, |cross| cross.bytes_between(from, to));
        Rate::from_f64(self.rate.as_f64() - Rate::from_bytes_over(bytes, to - from).as_f64())
    }
}
