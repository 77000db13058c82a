use crate::directed_link::Lateness;
use crate::fast_fabric::{CROSS_TRAFFIC_WARM_UP, FastFabric, OVERLOAD_RATIO, count_rate};
use crate::kernel_link::{ETHERNET_HEADER_BYTES, change_htb_command, offload_htb_commands};
use crate::network::{Host, NetworkError};
use crate::routed_hosts::{LineSettings, attach_host, enable_forwarding, line_end, run_command};
use crate::traffic::{UdpBursts, received_packets, sent_packets};
use kumade_net::clock;
use kumade_net::namespace::Namespace;
use kumade_units::{Rate, Span, Time};
use std::net::Ipv4Addr;
use std::thread;

/// The kernel's HTB as a bottleneck of gigabits per second on the way up: an outside reference for fast paths.
///
/// ```text
/// a, c ── router ══ HTB up ══▶ b
///                ◀─────────────
/// ```
///
/// What a socket sends at once passes every line, the router and HTB as one packet of the kernel, as it leaves hosts whose
/// interfaces segment it: two cores then carry rates at which they could not forward the single packets of Ethernet. `c` sends
/// cross traffic, which another HTB paces and which ends behind the bottleneck. There is no added delay, and the way down is as
/// fast as the machine.
#[derive(Debug)]
pub struct FastHtb {
    hosts: Vec<Host>,
    /// Dropping it would take its lines away.
    _router: Namespace,
    rate: Rate,
    mtu: u16,
}

/// Cross traffic, until dropped.
#[derive(Debug)]
pub struct BurstCrossTraffic {
    bursts: UdpBursts,
    sent_at_start: (u64, Time),
}

/// Where cross traffic goes: `b` drops what is for others.
const DISCARD_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 78, 9, 9);
/// More than the buffers of the sockets before it hold, in bytes.
const CROSS_QUEUE_BYTES: u64 = 64_000_000;
/// Cross traffic makes up for so long: while hosts send trains, its shaper is served late.
const MAX_CROSS_CATCH_UP: Span = Span::from_millis(2);
impl FastHtb {
    /// Builds it with lines of this MTU in bytes.
    ///
    /// # Errors
    /// The system refuses a namespace or device; [`NetworkError::NoShaper`] where this machine lacks iproute2 or HTB.
    pub fn build(rate: Rate, queue_bytes: u64, mtu: u16) -> Result<Self, NetworkError> {
        let router = Namespace::new()?;
        router.run(enable_forwarding)??;
        let lines = LineSettings { mtu, offloads: true };
        let mut hosts = Vec::new();
        for (line, name) in [(1, "a"), (2, "b"), (3, "c")] {
            hosts.push(attach_host(line, name, &router, lines)?);
        }
        run_command(
            &router,
            &["ip", "route", "add", &DISCARD_ADDRESS.to_string(), "via", &line_end(2, 2).v4.to_string()],
        )?;
        let shapers = [
            (&router, offload_htb_commands("b", rate, queue_bytes, mtu)),
            (&hosts[2].namespace, offload_htb_commands(Host::DEVICE, rate, CROSS_QUEUE_BYTES, mtu)),
        ];
        for (namespace, commands) in &shapers {
            for command in commands {
                run_tc(namespace, command)?;
            }
        }
        Ok(FastHtb { hosts, _router: router, rate, mtu })
    }

    /// What has passed the shaper of the cross traffic, and when that was.
    fn cross_packets(&self) -> Result<(u64, Time), NetworkError> {
        Ok((sent_packets(self.host("c")?, Host::DEVICE)?, clock::monotonic()))
    }
}

impl FastFabric for FastHtb {
    type CrossTraffic = BurstCrossTraffic;

    fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| NetworkError::NoHost(name.into()))
    }

    fn start_cross_traffic(&self, rate: Rate) -> Result<BurstCrossTraffic, NetworkError> {
        let sender = self.host("c")?;
        run_tc(&sender.namespace, &change_htb_command(Host::DEVICE, rate, self.mtu, MAX_CROSS_CATCH_UP))?;
        let bursts = UdpBursts::send(sender, DISCARD_ADDRESS, self.mtu.into())?;
        thread::sleep(CROSS_TRAFFIC_WARM_UP.to_duration());
        Ok(BurstCrossTraffic { bursts, sent_at_start: self.cross_packets()? })
    }

    fn stop_cross_traffic(&self, cross: BurstCrossTraffic) -> Result<Rate, NetworkError> {
        let ((before, began), (after, ended)) = (cross.sent_at_start, self.cross_packets()?);
        Ok(Rate::from_bytes_over((after - before) * u64::from(cross.bursts.burst_bytes()), ended - began))
    }

    fn measure_max_rate(&self) -> Result<Rate, NetworkError> {
        let cross = self.start_cross_traffic(Rate::from_f64(self.rate.as_f64() * OVERLOAD_RATIO))?;
        let (receiver, burst_bytes) = (self.host("b")?, u64::from(cross.bursts.burst_bytes()));
        count_rate(|| Ok((received_packets(receiver, Host::DEVICE)? * burst_bytes, clock::monotonic())))
    }

    fn lateness(&self, _: Time, _: Time) -> Result<Lateness, NetworkError> {
        Ok(Lateness::default())
    }

    /// HTB counts Ethernet headers, too, so that to smaller packets than the largest it leaves a little less.
    fn available_bandwidth(&self, cross: Rate, packet_bytes: u32) -> Rate {
        let part_of_frame = |bytes: u32| f64::from(bytes) / (f64::from(bytes) + ETHERNET_HEADER_BYTES as f64);
        let (largest, own) = (part_of_frame(self.mtu.into()), part_of_frame(packet_bytes));
        Rate::from_f64((self.rate.as_f64() - cross.as_f64()) / largest * own)
    }
}

fn run_tc(inside: &Namespace, command: &str) -> Result<(), NetworkError> {
    run_command(inside, &command.split_whitespace().collect::<Vec<_>>()).map_err(NetworkError::NoShaper)
}
