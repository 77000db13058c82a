//! What the direct plane and its address translation cost beside the kernel's plain forwarding: by the fast path, and by packet
//! rules. Rounds take turns, each in namespaces of its own: policy routes slow the kernel's forwarding down, also once they are gone.
//!
//! A thread that sends datagrams carries them itself all the way to the receiving socket, which nobody reads: its CPU time is that of
//! the packets, whatever else the machine does.

use crate::lines::connect_by_veth;
use crate::outcome::Outcome;
use crate::process::cpu_time;
use crate::stream::Stream;
use kumade_daemon::RuntimeDir;
use kumade_gateway::GatewayConfig;
use kumade_gateway::direct::DirectPlane;
use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_net::udp::send_burst;
use kumade_netns_testbed::{eventually, run_ip};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

const DATAGRAM_BYTES: u16 = 1000;
/// With one system call.
const BURST_DATAGRAMS: usize = 32;
const DATAGRAMS: usize = 200_000;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASUREMENT_TIME: Duration = Duration::from_secs(2);
/// Of a full segment of TCP, by which its CPU time is counted.
const SEGMENT_BYTES: f64 = 1448.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forwarding {
    Plain,
    /// Divided at the first gateway.
    Divided,
    /// Also translated there, and back at the second.
    Translated,
}

/// Name, what gateways do, and whether the fast path is kept from them.
const CANDIDATES: [(&str, Forwarding, bool); 5] = [
    ("plain forwarding", Forwarding::Plain, false),
    ("direct, fast path", Forwarding::Divided, false),
    ("NAT, fast path", Forwarding::Translated, false),
    ("direct, packet rules", Forwarding::Divided, true),
    ("NAT, packet rules", Forwarding::Translated, true),
];
/// Of datagrams: CPU time of each, and how many there are in a second; of TCP: CPU time of a segment, and payload.
const FIGURES: [&str; 4] = ["UDP ns", "packets/s", "TCP ns", "Mbit/s"];

type Figures = [f64; 4];

pub fn measure(rounds: usize) -> Outcome<()> {
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); CANDIDATES.len()];
    for _ in 0..rounds {
        for ((name, forwarding, by_rules), figures) in CANDIDATES.iter().zip(&mut figures) {
            figures.push(measure_once(*forwarding, *by_rules).map_err(|error| format!("{name}: {error}"))?);
        }
    }
    println!(
        "UDP of {DATAGRAM_BYTES} bytes, CPU time of a packet from socket to socket; one TCP connection (cubic), CPU time of the process for \
         {SEGMENT_BYTES} bytes; medians of {rounds} rounds in turn, and the least:"
    );
    println!("  {:<22}{}", "", FIGURES.map(|name| format!("{name:>12}{:>8}", "least")).concat());
    for ((name, ..), figures) in CANDIDATES.iter().zip(&figures) {
        let columns = (0..FIGURES.len()).map(|figure| {
            let values = || figures.iter().map(|figures| figures[figure]);
            format!("{:>12.0}{:>8.0}", median(values()), values().fold(f64::INFINITY, f64::min))
        });
        println!("  {name:<22}{}", columns.collect::<String>());
    }
    for (own, reference) in [(1, 0), (2, 1), (3, 0), (4, 3)] {
        let ratio = |figure: usize| {
            let pairs = figures[reference].iter().zip(&figures[own]);
            median(pairs.map(|(reference, own)| reference[figure] / own[figure]))
        };
        println!(
            "  {} carries {:.3} (UDP) and {:.3} (TCP) of {} with the same CPU time",
            CANDIDATES[own].0,
            ratio(0),
            ratio(2),
            CANDIDATES[reference].0
        );
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure_once(forwarding: Forwarding, by_rules: bool) -> Outcome<Figures> {
    let sites = Sites::new()?;
    let directory = std::env::temp_dir().join(format!("kumade-bench-{}", std::process::id()));
    if by_rules {
        // Filters that could be there keep packets from the fast path, and cost nothing.
        for gateway in [&sites.left, &sites.right] {
            let status = gateway.command("tc").args(["qdisc", "add", "dev", LAN, "clsact"]).status()?;
            status.success().then_some(()).ok_or("tc fails")?;
        }
    }
    let mut planes = Vec::new();
    let start = |gateway: &Namespace, number: u8| -> Outcome<DirectPlane> {
        let interfaces = [LAN, "path1", "path2"].map(String::from);
        let text = configuration(number, forwarding == Forwarding::Translated);
        let config = GatewayConfig::from_toml(&text, "the benchmark's configuration", &interfaces)?;
        let runtime = directory.join(number.to_string());
        fs::create_dir_all(&runtime)?;
        let plane = gateway.run(|| DirectPlane::start(&config, RuntimeDir::from_path(runtime)))??;
        match plane.uses_fast_path() {
            used if used == by_rules => Err(format!("fast path: {used}").into()),
            _ => Ok(plane),
        }
    };
    if forwarding != Forwarding::Plain {
        planes.push((&sites.left, start(&sites.left, 1)?));
    }
    if forwarding == Forwarding::Translated {
        planes.push((&sites.right, start(&sites.right, 2)?));
    }
    let outcome = measure_tcp(&sites).and_then(|[segment, goodput]| {
        let [cpu, rate] = measure_udp(&sites)?;
        Ok([cpu, rate, segment, goodput])
    });
    for (gateway, plane) in planes {
        // It takes its rules away in its own namespace.
        let _ = gateway.run(|| drop(plane));
    }
    let _ = fs::remove_dir_all(directory);
    outcome
}

fn measure_tcp(sites: &Sites) -> Outcome<[f64; 2]> {
    let stream = Stream::start(&sites.a, &sites.b, "10.2.0.2", None)?;
    thread::sleep(WARM_UP);
    let (before, start) = (cpu_time()?, Instant::now());
    let goodput = stream.goodput(MEASUREMENT_TIME);
    let segments = goodput / 8.0 * start.elapsed().as_secs_f64() / SEGMENT_BYTES;
    Ok([(cpu_time()? - before).as_nanos() as f64 / segments, goodput / 1e6])
}

fn measure_udp(sites: &Sites) -> Outcome<[f64; 2]> {
    let far = sites.b.run(|| UdpSocket::bind("10.2.0.2:9"))??;
    let near = sites.a.run(|| UdpSocket::bind("10.1.0.2:5000"))??;
    near.connect(far.local_addr()?)?;
    let before = sites.b.run(received_datagrams)??;
    let send = || -> Outcome<[f64; 2]> {
        let mut cpu = CpuSet::new();
        cpu.set(sched_getcpu()?)?;
        sched_setaffinity(Pid::from_raw(0), &cpu)?;
        let burst = vec![7; usize::from(DATAGRAM_BYTES) * BURST_DATAGRAMS];
        let (begun, start) = (clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?, Instant::now());
        for _ in 0..DATAGRAMS / BURST_DATAGRAMS {
            send_burst(&near, &burst, DATAGRAM_BYTES, &mut false)?;
        }
        let elapsed = start.elapsed().as_secs_f64();
        let cpu = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)? - begun);
        Ok([cpu.as_nanos() as f64 / DATAGRAMS as f64, DATAGRAMS as f64 / elapsed])
    };
    // On a thread of its own, which stays on its processor.
    let figures = thread::scope(|scope| scope.spawn(|| send().map_err(|error| error.to_string())).join());
    let figures = figures.map_err(|_| "the sender has failed")??;
    let received = sites.b.run(received_datagrams)?? - before;
    match received as f64 >= 0.99 * DATAGRAMS as f64 {
        true => Ok(figures),
        false => Err(format!("only {received} of {DATAGRAMS} datagrams have arrived").into()),
    }
}

/// By this namespace's sockets, also those for which there was no room.
fn received_datagrams() -> std::io::Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(|line| line.split(' '));
    let (names, values) = (lines.next().into_iter().flatten(), lines.next().into_iter().flatten());
    let counted = names.zip(values).filter(|(name, _)| ["InDatagrams", "RcvbufErrors"].contains(name));
    Ok(counted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
}

/// Both paths carry half of the packets.
fn configuration(own: u8, is_translated: bool) -> String {
    let far = 3 - own;
    let path = |number: u8| {
        format!(
            "[[path]]\nname = \"path{number}\"\ninterface = \"path{number}\"\ngateways = [\"10.9.{number}.{far}\"]\n"
        )
    };
    let translation = |number: u8| {
        format!(
            "[[translation]]\nnetwork = \"10.1.0.0/24\"\nalias = \"198.51.10{number}.0/24\"\npath = \"path{number}\"\n"
        )
    };
    let translations = if is_translated { [1, 2].map(translation).concat() } else { String::new() };
    format!(
        "[gateway]\nname = \"site{own}\"\n[[local]]\ninterface = \"{LAN}\"\nnetworks = [\"10.{own}.0.0/24\"]\n{}\
         [[remote]]\nname = \"site{far}\"\nnetworks = [\"10.{far}.0.0/24\"]\n{translations}",
        [1, 2].map(path).concat(),
    )
}

const LAN: &str = "lan";

/// Hosts 10.1.0.2 and 10.2.0.2 behind gateways that are joined by two cables, 10.9.1.0/24 and 10.9.2.0/24, without policy routes.
struct Sites {
    a: Namespace,
    left: Namespace,
    right: Namespace,
    b: Namespace,
}

impl Sites {
    fn new() -> Outcome<Self> {
        let sites =
            Sites { a: Namespace::new()?, left: Namespace::new()?, right: Namespace::new()?, b: Namespace::new()? };
        for (host, gateway, site) in [(&sites.a, &sites.left, 1), (&sites.b, &sites.right, 2)] {
            connect_by_veth((host, LAN), (gateway, LAN))?;
            for (inside, end) in [(host, 2), (gateway, 1)] {
                run_ip(inside, &["addr", "add", &format!("10.{site}.0.{end}/24"), "dev", LAN])?;
            }
            run_ip(host, &["route", "add", "default", "via", &format!("10.{site}.0.1")])?;
            gateway.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
        }
        for path in ["path1", "path2"] {
            connect_by_veth((&sites.left, path), (&sites.right, path))?;
            for (gateway, end) in [(&sites.left, 1), (&sites.right, 2)] {
                let network = path.replace("path", "10.9.");
                run_ip(gateway, &["addr", "add", &format!("{network}.{end}/24"), "dev", path])?;
            }
        }
        for (gateway, far) in [(&sites.left, 2), (&sites.right, 1)] {
            let next_hop = format!("10.9.1.{far}");
            run_ip(gateway, &["route", "add", &format!("10.{far}.0.0/24"), "via", &next_hop])?;
        }
        let is_up = || {
            [&sites.left, &sites.right].iter().all(|gateway| {
                gateway.run(|| [LAN, "path1", "path2"].iter().all(|name| interface::is_running(name))).unwrap_or(false)
            })
        };
        if eventually(is_up) { Ok(sites) } else { Err("the cables do not come up".into()) }
    }
}
