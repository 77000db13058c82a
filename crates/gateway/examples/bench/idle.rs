//! What ends take of a host while no packets come: CPU time and wake-ups of all their threads, and memory; and how long a packet
//! takes there and back then. All run at the same time, each in networks of its own, so that what else the machine does strikes all
//! alike.

use crate::lines::{self, Lines, PORT};
use crate::outcome::Outcome;
use crate::process::{peak_bytes_of, resident_bytes_of, scheduled_of};
use crate::speed::{Process, start_openvpn, start_wireguard};
use crate::stream::Stream;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// After the last packet.
const SETTLE_TIME: Duration = Duration::from_secs(10);
const MEASUREMENT_TIME: Duration = Duration::from_secs(30);
/// Echoes: one in each interval, which is longer than a processor stays awake.
const ECHOES: usize = 40;
const ECHO_INTERVAL: &str = "0.1";
/// What memory is measured under, then.
const FLOWS: usize = 10;
const LOAD_TIME: Duration = Duration::from_secs(5);
/// Until both ends have met.
const PATIENCE: Duration = Duration::from_secs(20);

/// What runs, and the processes of one kind; the first host has packets for 10.2.0.2 if it is a tunnel.
struct Candidate {
    name: &'static str,
    lines: Lines,
    processes: Vec<Process>,
    is_tunnel: bool,
}

/// With the program at this path.
pub fn measure(program: &str) -> Outcome<()> {
    let program = fs::canonicalize(program)?;
    let directory = std::env::temp_dir().join(format!("kumade-idle-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let bench = IdleBench { program, directory };
    let outcome = bench.run();
    let _ = fs::remove_dir_all(&bench.directory);
    outcome
}

struct IdleBench {
    program: PathBuf,
    directory: PathBuf,
}

impl IdleBench {
    fn run(&self) -> Outcome<()> {
        let mut candidates = Vec::new();
        let mut add = |name: &'static str, is_tunnel, opened: Outcome<(Lines, Vec<Process>)>| match opened {
            Ok((lines, processes)) => candidates.push(Candidate { name, lines, processes, is_tunnel }),
            Err(error) => println!("{name}: not measured: {error}"),
        };
        add("wireguard-go", true, open_wireguard("wireguard-go", ["kumade-wg1", "kumade-wg2"]));
        add("boringtun", true, open_wireguard("boringtun-cli", ["kumade-bt1", "kumade-bt2"]));
        add("OpenVPN over TCP", true, open_openvpn());
        for (name, carrier) in [("tunnel, udp", "udp"), ("tunnel, tcp", "tcp"), ("tunnel, rake", "rake")] {
            add(name, true, self.open_tunnel(carrier));
        }
        add("tunnel, auto", true, self.open_tunnel("auto"));
        add("gateway, 1 path", true, self.open_gateway(1));
        add("gateway, 3 paths", true, self.open_gateway(3));
        add("link", false, self.open_link());
        add("serve --stamp", false, self.open_server());
        candidates.iter().filter(|candidate| candidate.is_tunnel).try_for_each(wait_for_echo)?;
        thread::sleep(SETTLE_TIME);
        let before: Vec<_> = candidates.iter().map(Candidate::scheduled).collect::<Outcome<_>>()?;
        thread::sleep(MEASUREMENT_TIME);
        let after: Vec<_> = candidates.iter().map(Candidate::scheduled).collect::<Outcome<_>>()?;
        println!("idle for {SETTLE_TIME:?}, then for {MEASUREMENT_TIME:?}; of each end, both where there are two:");
        println!("{:<18} {:>16} {:>16} {:>14} {:>10}", "", "CPU, ms/s", "wake-ups/s", "resident, MB", "RTT, µs");
        for (candidate, (before, after)) in candidates.iter().zip(before.iter().zip(&after)) {
            println!("{:<18} {}", candidate.name, candidate.describe(before, after)?);
        }
        println!("the most memory so far, MB, after {FLOWS} TCP connections for {LOAD_TIME:?}, in turn:");
        for candidate in candidates.iter().filter(|candidate| candidate.is_tunnel) {
            println!("{:<18} {:>14}", candidate.name, candidate.loaded_memory()?);
        }
        Ok(())
    }

    fn open_tunnel(&self, carrier: &str) -> Outcome<(Lines, Vec<Process>)> {
        let lines = Lines::new(1)?;
        let key = |own: usize| Lines::keys()[own].public_key();
        let (port, address) = (PORT.to_string(), format!("10.1.1.2:{PORT}"));
        let ends = [
            vec!["connect".to_owned(), address, "--peer".into(), key(1).to_string()],
            vec!["listen".to_owned(), port, "--peer".into(), format!("{}=10.2.0.1", key(0))],
        ];
        let mut processes = Vec::new();
        for (own, end) in ends.into_iter().enumerate().rev() {
            let mut arguments = vec!["tunnel".to_owned()];
            arguments.extend(end);
            let own_key = self.write_key(own)?;
            let address = format!("10.2.0.{}/24", own + 1);
            let options = ["--carrier", carrier, "--key", &own_key, "--address", &address, "--name", carrier];
            arguments.extend(options.map(str::to_owned));
            processes.insert(0, self.start(&lines, own, &format!("tunnel-{carrier}-{own}"), &arguments)?);
        }
        Ok((lines, processes))
    }

    fn open_gateway(&self, paths: usize) -> Outcome<(Lines, Vec<Process>)> {
        let lines = Lines::new(paths)?;
        let mut processes = Vec::new();
        for own in 0..2 {
            // The sites' hosts are the gateways.
            lines.hosts[own].run(|| {
                let address = format!("10.2.0.{}/32", own + 1).parse().expect("an address");
                kumade_net::interface::set_up("lo").and_then(|()| kumade_net::interface::add_address("lo", address))
            })??;
            let file = self.directory.join(format!("gateway-{paths}-{own}.toml"));
            fs::write(&file, self.gateway_file(own, paths)?)?;
            let arguments = ["gateway", "--config", &file.display().to_string()].map(str::to_owned);
            processes.push(self.start(&lines, own, &format!("gateway-{paths}-{own}"), &arguments)?);
        }
        Ok((lines, processes))
    }

    fn gateway_file(&self, own: usize, paths: usize) -> Outcome<String> {
        let key = self.write_key(own)?;
        let mut text =
            format!("[gateway]\nname = \"g\"\nplane = \"bonded\"\n[bonded]\nkey = \"{key}\"\nport = {PORT}\n");
        for line in 1..=paths {
            writeln!(text, "[[path]]\nname = \"path-{line}\"\ninterface = \"{}\"", lines::name(line))?;
        }
        let (far, far_key) = (2 - own, Lines::keys()[1 - own].public_key());
        let addresses: Vec<_> = (1..=paths).map(|line| format!("\"10.1.{line}.{far}\"")).collect();
        let addresses = addresses.join(", ");
        writeln!(
            text,
            "[[remote]]\nname = \"far\"\nnetworks = [\"10.2.0.{far}/32\"]\npublic-key = \"{far_key}\"\naddresses = [{addresses}]"
        )?;
        Ok(text)
    }

    fn open_link(&self) -> Outcome<(Lines, Vec<Process>)> {
        let lines = Lines::new(2)?;
        let arguments = ["link", "start", &lines::name(1), &lines::name(2), "--rate", "10mbit"].map(str::to_owned);
        let process = self.start(&lines, 0, "link", &arguments)?;
        Ok((lines, vec![process]))
    }

    fn open_server(&self) -> Outcome<(Lines, Vec<Process>)> {
        let lines = Lines::new(1)?;
        let process = self.start(&lines, 0, "serve", &["serve", "--stamp"].map(str::to_owned))?;
        Ok((lines, vec![process]))
    }

    /// Returns where it is.
    fn write_key(&self, own: usize) -> Outcome<String> {
        let path = self.directory.join(format!("{own}.key"));
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
        writeln!(file, "{}", Lines::keys()[own].to_hex().as_str())?;
        Ok(path.display().to_string())
    }

    /// With a directory of its own, in which others of its name are not seen.
    fn start(&self, lines: &Lines, host: usize, name: &str, arguments: &[String]) -> Outcome<Process> {
        let directory = self.directory.join(name);
        fs::create_dir(&directory)?;
        let log = fs::File::create(Path::new(&directory).join("log"))?;
        let mut command = lines.hosts[host].command(&self.program);
        command.args(arguments).env("XDG_RUNTIME_DIR", &directory);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Process(command.spawn()?))
    }
}

impl Candidate {
    /// Of each process, while connections send as much as they can.
    fn loaded_memory(&self) -> Outcome<String> {
        let [from, to] = &self.lines.hosts;
        let start = |_| Stream::start(from, to, "10.2.0.2", None);
        let streams = (0..FLOWS).map(start).collect::<Outcome<Vec<_>>>()?;
        thread::sleep(LOAD_TIME);
        let peaks = self.processes.iter().map(|process| peak_bytes_of(process.0.id()));
        let peaks = peaks.map(|bytes| Ok(format!("{:.1}", bytes? as f64 / 1e6))).collect::<Outcome<Vec<_>>>()?;
        drop(streams);
        Ok(peaks.join(" "))
    }

    /// CPU time and wake-ups of each process so far.
    fn scheduled(&self) -> Outcome<Vec<(Duration, u64)>> {
        self.processes.iter().map(|process| scheduled_of(process.0.id())).collect()
    }

    fn describe(&self, before: &[(Duration, u64)], after: &[(Duration, u64)]) -> Outcome<String> {
        let seconds = MEASUREMENT_TIME.as_secs_f64();
        let join = |values: Vec<String>| values.join(" ");
        let pairs = || before.iter().zip(after);
        let cpu = pairs().map(|(before, after)| format!("{:.3}", (after.0 - before.0).as_secs_f64() * 1e3 / seconds));
        let woken = pairs().map(|(before, after)| format!("{:.2}", (after.1 - before.1) as f64 / seconds));
        let resident = self.processes.iter().map(|process| resident_bytes_of(process.0.id()));
        let resident = resident.map(|bytes| Ok(format!("{:.1}", bytes? as f64 / 1e6))).collect::<Outcome<_>>()?;
        let round_trip = if self.is_tunnel {
            format!("{:.0}", median_round_trip(self)?.as_nanos() as f64 / 1e3)
        } else {
            "–".into()
        };
        Ok(format!(
            "{:>16} {:>16} {:>14} {:>10}",
            join(cpu.collect()),
            join(woken.collect()),
            join(resident),
            round_trip
        ))
    }
}

fn open_wireguard(program: &str, names: [&str; 2]) -> Outcome<(Lines, Vec<Process>)> {
    let lines = Lines::new(1)?;
    let processes = start_wireguard(&lines, program, names)?;
    Ok((lines, processes.into()))
}

fn open_openvpn() -> Outcome<(Lines, Vec<Process>)> {
    let lines = Lines::new(1)?;
    let processes = start_openvpn(&lines)?;
    Ok((lines, processes.into()))
}

fn wait_for_echo(candidate: &Candidate) -> Outcome<()> {
    let end = Instant::now() + PATIENCE;
    while ping(candidate, "1", "1")?.is_empty() {
        if Instant::now() > end {
            return Err(format!("{}: nothing passes", candidate.name).into());
        }
    }
    Ok(())
}

fn median_round_trip(candidate: &Candidate) -> Outcome<Duration> {
    let mut times = ping(candidate, &ECHOES.to_string(), ECHO_INTERVAL)?;
    times.sort();
    times.get(times.len() / 2).copied().ok_or_else(|| format!("{}: nothing passes any more", candidate.name).into())
}

/// The round trips of so many echoes from one host to the other.
fn ping(candidate: &Candidate, count: &str, interval: &str) -> Outcome<Vec<Duration>> {
    let mut command = candidate.lines.hosts[0].command("ping");
    let output = command.args(["-c", count, "-i", interval, "-W", "1", "-I", "10.2.0.1", "10.2.0.2"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text.split("time=").skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    Ok(times.map(|millis| Duration::from_secs_f64(millis / 1e3)).collect())
}
