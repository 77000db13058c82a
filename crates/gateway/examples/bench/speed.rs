//! TCP connections through each tunnel, encrypted, over lines without shaping: what they carry, and the CPU time that both ends of the
//! tunnel take for it. Rounds take turns, so that what else the machine does strikes all alike.

use crate::lines::{Lines, TUNNEL_MTU};
use crate::outcome::{Outcome, mean, minimum};
use crate::process::{scheduled_of, scheduled_of_threads};
use crate::stream::Stream;
use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::run_ip;
use kumade_overlay_io::BondedPlane;
use kumade_units::Rate;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What the first seconds of connections are compared with the rest of.
const START_TIME: Duration = Duration::from_secs(2);
const MEASUREMENT_TIME: Duration = Duration::from_secs(8);

/// What carries the packets of 10.2.0.1 and 10.2.0.2; it ends when this is dropped.
#[allow(dead_code, reason = "held until the measurement ends")]
pub enum Tunnel {
    Bonded([BondedPlane; 2]),
    Processes([Process; 2]),
    Kernel,
}

/// Ends when it is dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type OpenTunnel = fn(&Lines) -> Outcome<Tunnel>;

/// What is measured, by name, and what it is to be as a multiple of the reference, if anything.
type Candidate = (&'static str, OpenTunnel, Option<f64>);

const GATEWAYS: [Candidate; 5] = [
    ("wireguard-go", |lines| open_wireguard_go(lines), None),
    ("no tunnel, the kernel alone", |lines| open_plain(lines), None),
    ("WireGuard of the kernel", |lines| open_kernel_wireguard(lines), None),
    ("kumade, one path", |lines| Ok(Tunnel::Bonded(lines.bond(1)?)), Some(3.0)),
    ("kumade, two paths", |lines| Ok(Tunnel::Bonded(lines.bond(2)?)), Some(3.0)),
];
const TUNNELS: [Candidate; 4] = [
    ("OpenVPN over TCP", |lines| open_openvpn(lines), None),
    ("no tunnel, the kernel alone", |lines| open_plain(lines), None),
    ("kumade, one connection", |lines| Ok(Tunnel::Bonded(lines.tunnel(1)?)), Some(2.5)),
    ("kumade, 16 connections", |lines| Ok(Tunnel::Bonded(lines.tunnel(16)?)), None),
];

/// What is sent at once.
struct Load {
    name: &'static str,
    connections: usize,
    /// Of each connection.
    limit: Option<Rate>,
    /// CPU time for each byte is to be so much of the reference's at most.
    max_cpu_ratio: f64,
}

const LOADS: [Load; 3] = [
    Load { name: "one TCP connection", connections: 1, limit: None, max_cpu_ratio: 0.35 },
    Load { name: "ten TCP connections", connections: 10, limit: None, max_cpu_ratio: 0.35 },
    Load {
        name: "one TCP connection of 200 Mbit/s",
        connections: 1,
        limit: Some(Rate::from_mbit(200)),
        max_cpu_ratio: 0.6,
    },
];

/// What a load comes to through a tunnel.
struct Sample {
    gigabits_per_second: f64,
    /// The rate of the first seconds as a part of that of the others.
    start_ratio: f64,
    /// Of both ends; none where they are the kernel's.
    cpu_seconds_per_gigabyte: Option<f64>,
}

/// The bonded plane over UDP; only candidates whose names have this in them, and the reference.
pub fn gateways(repeats: usize, named: &str) {
    LOADS.iter().for_each(|load| compare(&GATEWAYS, load, repeats, named));
}

/// The same over TCP connections.
pub fn tunnels(repeats: usize, named: &str) {
    LOADS.iter().for_each(|load| compare(&TUNNELS, load, repeats, named));
}

/// The first one is the reference.
fn compare(candidates: &[Candidate], load: &Load, repeats: usize, named: &str) {
    println!("{} (cubic) for {MEASUREMENT_TIME:?}, lines of 1500 bytes without shaping, {repeats} rounds:", load.name);
    let wanted = candidates.iter().enumerate().filter(|(place, (name, ..))| *place == 0 || name.contains(named));
    let candidates: Vec<_> = wanted.map(|(_, candidate)| candidate).collect();
    let mut samples: Vec<Vec<Sample>> = candidates.iter().map(|_| Vec::new()).collect();
    let mut absent = vec![None; candidates.len()];
    for _ in 0..repeats {
        for (place, (_, open, _)) in candidates.iter().enumerate() {
            match measure_once(*open, load) {
                Ok(sample) => samples[place].push(sample),
                Err(error) => absent[place] = Some(error.to_string()),
            }
        }
    }
    for (place, (name, _, target)) in candidates.iter().enumerate() {
        let beside = || describe_ratios(&samples[place], &samples[0], load, *target);
        match &absent[place] {
            Some(reason) => println!("  {name:<30} not measured: {reason}"),
            None => {
                println!("  {name:<30} {}{}", describe(&samples[place]), if place > 0 { beside() } else { "".into() })
            }
        }
    }
}

fn describe(samples: &[Sample]) -> String {
    let values = |value: fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<_>>();
    let rates = values(|sample| sample.gigabits_per_second);
    let starts = values(|sample| sample.start_ratio);
    let cpu: Option<Vec<_>> = samples.iter().map(|sample| sample.cpu_seconds_per_gigabyte).collect();
    let cpu = cpu.map_or_else(|| "–".into(), |cpu| format!("{:.2}", mean(&cpu)));
    format!(
        "mean {:5.2} Gbit/s, least {:5.2}; first {START_TIME:?}: {:.2} of the rest; CPU {cpu} s/GB",
        mean(&rates),
        minimum(&rates),
        mean(&starts),
    )
}

/// What it carries and takes as a multiple of what the reference does in the same round.
fn describe_ratios(own: &[Sample], reference: &[Sample], load: &Load, target: Option<f64>) -> String {
    if own.len() != reference.len() || own.is_empty() {
        return String::new();
    }
    let pairs = || own.iter().zip(reference);
    let rates: Vec<_> = pairs().map(|(own, other)| own.gigabits_per_second / other.gigabits_per_second).collect();
    let cpu = pairs().filter_map(|(own, other)| Some(own.cpu_seconds_per_gigabyte? / other.cpu_seconds_per_gigabyte?));
    let cpu: Vec<_> = cpu.collect();
    let verdict = |is_met| if is_met { "met" } else { "missed" };
    let mut text = format!("; {:.2} times the rate", mean(&rates));
    if let Some(target) = target.filter(|_| load.limit.is_none()) {
        text += &format!(" (target {target}: {})", verdict(mean(&rates) >= target));
    }
    if let (Some(_), false) = (target, cpu.is_empty()) {
        let (ratio, most) = (mean(&cpu), load.max_cpu_ratio);
        text += &format!(", {ratio:.2} times the CPU (target {most}: {})", verdict(ratio <= most));
    }
    text
}

fn measure_once(open: OpenTunnel, load: &Load) -> Outcome<Sample> {
    let lines = Lines::new(2)?;
    let tunnel = open(&lines)?;
    let cpu_before = tunnel.cpu_time()?;
    let start = || Stream::start(&lines.hosts[0], &lines.hosts[1], "10.2.0.2", load.limit);
    let streams = (0..load.connections).map(|_| start()).collect::<Outcome<Vec<_>>>()?;
    let received = || streams.iter().map(Stream::received_bytes).sum::<u64>() as f64;
    let begin = Instant::now();
    thread::sleep(START_TIME);
    let (first_bytes, first_time) = (received(), begin.elapsed().as_secs_f64());
    thread::sleep(MEASUREMENT_TIME.saturating_sub(begin.elapsed()));
    let (bytes, time) = (received(), begin.elapsed().as_secs_f64());
    let cpu = tunnel.cpu_time()?.zip(cpu_before).map(|(after, before)| (after - before).as_secs_f64());
    Ok(Sample {
        gigabits_per_second: bytes * 8e-9 / time,
        start_ratio: first_bytes / first_time / ((bytes - first_bytes) / (time - first_time)),
        cpu_seconds_per_gigabyte: cpu.map(|cpu| cpu / (bytes / 1e9)),
    })
}

impl Tunnel {
    /// What its ends have taken so far; none of the kernel's.
    fn cpu_time(&self) -> Outcome<Option<Duration>> {
        match self {
            Tunnel::Bonded(_) => scheduled_of_threads("gateway").map(Some),
            Tunnel::Processes(processes) => {
                let times = processes.iter().map(|process| Ok(scheduled_of(process.0.id())?.0));
                times.sum::<Outcome<Duration>>().map(Some)
            }
            Tunnel::Kernel => Ok(None),
        }
    }
}

pub fn open_plain(lines: &Lines) -> Outcome<Tunnel> {
    for (own, host) in lines.hosts.iter().enumerate() {
        host.run(|| interface::add_address("lo", format!("10.2.0.{}/32", own + 1).parse().expect("an address")))??;
        run_ip(host, &["route", "add", &format!("10.2.0.{}", 2 - own), "via", &format!("10.1.1.{}", 2 - own)])?;
    }
    Ok(Tunnel::Kernel)
}

fn open_kernel_wireguard(lines: &Lines) -> Outcome<Tunnel> {
    for host in &lines.hosts {
        run_ip(host, &["link", "add", "wg", "type", "wireguard"])
            .map_err(|error| format!("this kernel has none ({error})"))?;
    }
    configure_wireguard(lines, ["wg", "wg"])?;
    Ok(Tunnel::Kernel)
}

fn open_wireguard_go(lines: &Lines) -> Outcome<Tunnel> {
    // Their control sockets are in one directory.
    Ok(Tunnel::Processes(start_wireguard(lines, "wireguard-go", ["kumade-wg1", "kumade-wg2"])?))
}

/// Both ends of a WireGuard in user space, by this program, which makes devices of these names.
pub fn start_wireguard(lines: &Lines, program: &str, names: [&str; 2]) -> Outcome<[Process; 2]> {
    let start = |host: &Namespace, name: &str| -> Outcome<Process> {
        let mut command = host.command(program);
        command.args(["--foreground", name]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|_| format!("no program {program}"))?;
        Ok(Process(child))
    };
    let socket = |name: &str| format!("/var/run/wireguard/{name}.sock");
    // One that was killed has left it.
    names.iter().for_each(|name| drop(std::fs::remove_file(socket(name))));
    let processes = [start(&lines.hosts[0], names[0])?, start(&lines.hosts[1], names[1])?];
    for name in names {
        let socket = socket(name);
        let end = Instant::now() + Duration::from_secs(10);
        while !Path::new(&socket).exists() {
            if Instant::now() > end {
                return Err(format!("{program} makes no {socket}").into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    configure_wireguard(lines, names)?;
    Ok(processes)
}

fn open_openvpn(lines: &Lines) -> Outcome<Tunnel> {
    Ok(Tunnel::Processes(start_openvpn(lines)?))
}

/// Both ends of an OpenVPN over TCP.
pub fn start_openvpn(lines: &Lines) -> Outcome<[Process; 2]> {
    let key = std::env::temp_dir().join(format!("kumade-bench-{}.key", std::process::id()));
    let key = key.display();
    run_with_input(Command::new("openvpn").args(["--genkey", "secret", &key.to_string()]), "")?;
    let start = |own: usize, proto: &str, far: &str| -> Outcome<Process> {
        // Newer versions want to be told that a shared key will do, which older ones do not know.
        let words = format!(
            "--setenv opt allow-deprecated-insecure-static-crypto --dev wg --dev-type tun --secret {key} --cipher AES-256-CBC \
             --verb 0 --proto {proto} {far} --ifconfig 10.2.0.{} 10.2.0.{}",
            own + 1,
            2 - own
        );
        let mut command = lines.hosts[own].command("openvpn");
        command.args(words.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Process(command.spawn()?))
    };
    let server = start(1, "tcp-server", "--lport 7281")?;
    thread::sleep(Duration::from_millis(500));
    let processes = [start(0, "tcp-client", "--nobind --remote 10.1.1.2 7281")?, server];
    let end = Instant::now() + Duration::from_secs(20);
    while run_ip(&lines.hosts[0], &["-4", "addr", "show", "dev", "wg", "to", "10.2.0.1"]).is_err() {
        if Instant::now() > end {
            return Err("OpenVPN makes no device".into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(key.to_string())?;
    Ok(processes)
}

/// The devices of this name get keys, addresses and routes.
fn configure_wireguard(lines: &Lines, names: [&str; 2]) -> Outcome<()> {
    let keys = [wg_key()?, wg_key()?];
    for own in 0..2 {
        let (host, name) = (&lines.hosts[own], names[own]);
        let (far, port) = (format!("10.1.1.{}:7280", 2 - own), "7280");
        let allowed = format!("10.2.0.{}/32", 2 - own);
        let mut wg = host.command("wg");
        wg.args(["set", name, "listen-port", port, "private-key", "/dev/stdin", "peer", &keys[1 - own].1]);
        wg.args(["allowed-ips", &allowed, "endpoint", &far]);
        run_with_input(&mut wg, &keys[own].0)?;
        run_ip(host, &["addr", "add", &format!("10.2.0.{}/32", own + 1), "dev", name])?;
        run_ip(host, &["link", "set", name, "mtu", &TUNNEL_MTU.to_string(), "up"])?;
        run_ip(host, &["route", "add", &allowed, "dev", name])?;
    }
    Ok(())
}

/// A private and a public key.
fn wg_key() -> Outcome<(String, String)> {
    let private = run_with_input(Command::new("wg").arg("genkey"), "")?;
    let public = run_with_input(Command::new("wg").arg("pubkey"), &private)?;
    Ok((private, public))
}

/// What a program prints that is given this to read.
fn run_with_input(command: &mut Command, input: &str) -> Outcome<String> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|_| "no such program: apt install wireguard-tools openvpn")?;
    child.stdin.take().expect("a pipe").write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
