//! The programs of the methods' authors beside this project's methods after the same papers, in turns, on the kernel's HTB:
//!
//! `cargo run --release -p kumade-lab --example published_programs -- [pathload=DIR] [pathchirp=DIR] [igi=DIR] [rate=100mbit]
//! [cross=30mbit] [runs=5]`
//!
//! Each directory holds the program's executables. Those of which none is given are passed over, and it is said where they come from.
//! The cross traffic is of 1500 bytes at intervals that vary by 5 %: a strict period flatters methods whose trains are periodic. Run
//! it as root on an idle machine.

mod programs;

use anyhow::{Context, anyhow, ensure};
use kumade_client::{Directions, MeasureConfig, MeasurementPlan};
use kumade_estimate::MethodSettings;
use kumade_link::{CrossConfig, CrossKind};
use kumade_measurement::TransportChoice;
use kumade_net::clock;
use kumade_netns_testbed::{HtbNetwork, Traffic};
use kumade_probe_train::Transport;
use kumade_serve::{Server, ServerConfig};
use kumade_units::{Direction, Rate, Span, Time, parse};
use programs::{PROGRAMS, Program, ProgramEstimate};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pathload gives up after a minute; pathChirp measures for half of one.
const MAX_RUN_TIME: Duration = Duration::from_secs(120);
/// The queue of the bottleneck.
const QUEUE_DELAY: Span = Span::from_millis(100);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("published_programs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let given = parse_arguments()?;
    let word = |name: &str, default: &str| given.get(name).map_or(default, String::as_str).to_owned();
    let (rate, cross) = (parse::rate(&word("rate", "100mbit"))?, parse::rate(&word("cross", "30mbit"))?);
    let runs: u32 = word("runs", "5").parse().context("runs is a number")?;
    ensure!(cross < rate, "cross traffic of {cross} leaves nothing of {rate}");
    kumade_net::namespace::enter_user_namespace_if_needed()?;
    let network = HtbNetwork::build(rate, rate.bytes_in(QUEUE_DELAY))?;
    let kind = CrossKind::Jittered { rate: cross, size: 1500, jitter: 0.05 };
    let pattern = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 1 };
    let _traffic = Traffic::udp(network.host("c")?, network.host("d")?, &pattern)?;
    let serving = RunningServer::start(&network)?;
    println!("HTB of {rate}, cross traffic of {cross}; Mbit/s: available, and what was");
    for program in &PROGRAMS {
        compare_program(program, given.get(program.name).map(Path::new), runs, &network, &serving)?;
    }
    serving.stop();
    Ok(())
}

/// Pairs of a name and what is given for it.
fn parse_arguments() -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |text: String| {
        let known = PROGRAMS.iter().map(|program| program.name).chain(["rate", "cross", "runs"]);
        let pair = text.split_once('=').filter(|(name, _)| known.clone().any(|known| known == *name));
        let names = known.clone().collect::<Vec<_>>().join(", ");
        let (name, value) = pair.ok_or_else(|| anyhow!("`{text}` is not NAME=VALUE with a name of {names}"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    std::env::args().skip(1).map(pair).collect()
}

/// One program and this project's methods, in turns.
fn compare_program(
    program: &Program,
    directory: Option<&Path>,
    runs: u32,
    network: &HtbNetwork,
    serving: &RunningServer,
) -> anyhow::Result<()> {
    let missing = directory.map(|directory| program.missing_file(directory));
    match &missing {
        None => println!("{0}: not run; give {0}=DIR, built from {1}", program.name, program.source),
        Some(Some(file)) => {
            println!("{}: not run, {} is missing; see {}", program.name, file.display(), program.source)
        }
        Some(None) => {}
    }
    for _ in 0..runs {
        if let (Some(directory), Some(None)) = (directory, &missing) {
            let begun = clock::realtime();
            let found = program.run(directory, network.host("a")?, network.host("b")?, MAX_RUN_TIME);
            let truth = network.available_bandwidth(Direction::Up, begun, clock::realtime())?.as_f64() / 1e6;
            match found {
                Ok(found) => found
                    .iter()
                    .for_each(|found| print_estimate(&format!("{}'s {}", program.name, found.method), found, truth)),
                Err(error) => println!("{:<24} no value: {error:#}", format!("{}'s own", program.name)),
            }
        }
        for method in program.methods {
            serving.measure(method, network)?;
        }
    }
    Ok(())
}

fn print_estimate(who: &str, found: &ProgramEstimate, truth: f64) {
    println!("{who:<24} {:8.2} … {:8.2}, {truth:8.2}", found.low, found.high);
}

/// `kumade serve` at the far end.
struct RunningServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl RunningServer {
    fn start(network: &HtbNetwork) -> anyhow::Result<Self> {
        let host = network.host("b")?;
        let listen = Some(SocketAddr::from((IpAddr::V4(host.v4), kumade_serve::DEFAULT_PORT)));
        let server = host.namespace.run(|| Server::bind(ServerConfig { listen, ..ServerConfig::default() }))??;
        let (address, stop) = (server.local_addr(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = host.namespace.spawn("serve", move || {
            if let Err(error) = server.run(&stopped) {
                eprintln!("the server has ended: {error}");
            }
        })?;
        Ok(RunningServer { address, stop, thread })
    }

    /// By a method of this project over UDP, as `kumade measure` does without its own capacity phase.
    fn measure(&self, method: &'static str, network: &HtbNetwork) -> anyhow::Result<()> {
        let settings: MethodSettings = method.parse().map_err(|error| anyhow!("{method}: {error}"))?;
        let plan = MeasurementPlan {
            directions: Directions::Up,
            transport: TransportChoice::Fixed(Transport::Udp),
            method: settings,
            capacity: false,
            idle_delay: false,
            ..MeasurementPlan::default()
        };
        let config = MeasureConfig { plan, ..MeasureConfig::new(self.address.ip().to_string(), self.address.port()) };
        let begun = clock::realtime();
        let result = network.host("a")?.namespace.run(|| kumade_client::measure(&config, &mut |_| ()))?;
        let truth = network.available_bandwidth(Direction::Up, begun, clock::realtime())?.as_f64() / 1e6;
        let report = result.map(|report| report.up);
        let estimate = report.as_ref().ok().and_then(|up| up.as_ref()?.available_bits_per_second);
        match (estimate, report) {
            (Some(found), _) => {
                let [low, high] = [found.low, found.high].map(|rate: Rate| rate.as_f64() / 1e6);
                print_estimate(&format!("kumade's {method}"), &ProgramEstimate { method, low, high }, truth);
            }
            (None, Ok(Some(up))) => println!("{:<24} {up}", format!("kumade's {method}")),
            (None, Ok(None)) => println!("{:<24} no value", format!("kumade's {method}")),
            (None, Err(error)) => println!("{:<24} no value: {error}", format!("kumade's {method}")),
        }
        Ok(())
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic in it has been printed.
        let _ = self.thread.join();
    }
}
