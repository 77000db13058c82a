//! Measures with several builds of `kumade` in turn over the same links by the kernel's HTB, and compares what they say with what was left
//! there: `clients RUNS NAME=COMMAND...`, such as `clients 40 native=target/release/kumade 'wine=crates/kumade/tests/wine/run kumade.exe'`. The first
//! one answers as well (`kumade serve`). Beside other work, it all goes first in a session of a weight of its own:
//! `setsid -w sh -c 'echo -20 > /proc/self/autogroup; clients …'`.

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use kumade_link::{CrossConfig, CrossKind, SizeMix};
    use kumade_net::clock;
    use kumade_netns_testbed::{ExperimentNetwork, HtbNetwork, Traffic};
    use kumade_units::{Direction, Rate, Time};
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::env;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    const RATES: [Rate; 2] = [Rate::from_mbit(20), Rate::from_mbit(100)];
    /// Percent of the rate that cross traffic takes, in turn.
    const CROSS_PERCENT: [u64; 5] = [0, 20, 40, 60, 80];
    const TRANSPORTS: [&str; 2] = ["udp", "rake"];
    /// As the atlas of the lab counts it: a statement is wrong if its interval is away from the truth by more than this part of the link.
    const WRONG_FRACTION: f64 = 0.05;

    /// What a client said.
    #[derive(Default)]
    struct Results {
        /// Parts of what was left.
        errors: Vec<f64>,
        runs: usize,
        covered: usize,
        wrong: usize,
        reasons: BTreeMap<String, usize>,
    }

    pub fn main() {
        let mut arguments = env::args().skip(1);
        let runs: usize = arguments.next().and_then(|runs| runs.parse().ok()).expect("the number of runs");
        let clients: Vec<(String, Vec<String>)> = arguments
            .map(|client| {
                let (name, command) = client.split_once('=').expect("NAME=COMMAND");
                (name.to_owned(), command.split(' ').map(str::to_owned).collect())
            })
            .collect();
        kumade_net::namespace::enter_user_namespace_if_needed().expect("networks can be built");
        for rate in RATES {
            let mut results: BTreeMap<(&str, &str), Results> = BTreeMap::new();
            let network = HtbNetwork::build(rate, rate.bits_per_second() / 80).expect("HTB");
            let server = start_server(&network, &clients[0].1[0]);
            for number in 0..runs {
                let cross = CROSS_PERCENT[number % CROSS_PERCENT.len()];
                let traffic = start_traffic(&network, rate, cross, number as u64);
                thread::sleep(Duration::from_millis(100));
                for transport in TRANSPORTS {
                    for (name, command) in &clients {
                        let found = results.entry((transport, name)).or_default();
                        measure(&network, rate, command, transport, found);
                    }
                }
                drop(traffic);
            }
            network.host("b").expect("a host").namespace.kill_processes();
            drop(server);
            print(rate, &results);
        }
    }

    fn start_server(network: &HtbNetwork, program: &str) -> std::process::Child {
        let mut serve = network.host("b").expect("a host").namespace.command(program);
        let mut child = serve.args(["serve"]).stderr(Stdio::piped()).spawn().expect("a server");
        let lines = BufReader::new(child.stderr.take().expect("its messages")).lines();
        let mut lines = lines.map_while(Result::ok);
        lines.find(|line| line.contains("listening on")).expect("it listens");
        thread::spawn(move || lines.for_each(drop));
        child
    }

    fn start_traffic(network: &HtbNetwork, rate: Rate, percent: u64, seed: u64) -> Option<Traffic> {
        let cross = Rate::from_bits_per_second(rate.bits_per_second() * percent / 100);
        let kind = CrossKind::Poisson { rate: cross, sizes: SizeMix::fixed(1500) };
        let pattern = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed };
        let [from, to] = ["c", "d"].map(|name| network.host(name).expect("a host"));
        (percent > 0).then(|| Traffic::udp(from, to, &pattern).expect("cross traffic"))
    }

    fn measure(network: &HtbNetwork, rate: Rate, command: &[String], transport: &str, found: &mut Results) {
        let server = network.host("b").expect("a host").v4.to_string();
        let mut client: Command = network.host("a").expect("a host").namespace.command(&command[0]);
        client.args(&command[1..]).args(["measure", &server, "--json", "--direction", "up", "--transport", transport]);
        let began = clock::realtime();
        let output = client.stderr(Stdio::null()).output().expect("a client");
        let truth = network.true_available_bandwidth(Direction::Up, began, clock::realtime()).expect("what was left");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        found.runs += 1;
        let available = &report["up"]["available_bits_per_second"];
        let Some([value, low, high]) = read_estimate(available) else {
            let reason = report["up"]["reason"].as_str().or(report["error"]["message"].as_str()).unwrap_or("no report");
            *found.reasons.entry(reason.chars().take(100).collect()).or_default() += 1;
            return;
        };
        let truth = truth.as_f64();
        found.errors.push((value - truth).abs() / truth);
        found.covered += usize::from((low..=high).contains(&truth));
        let margin = WRONG_FRACTION * rate.as_f64();
        let is_wrong = truth < low - margin || truth > high + margin;
        if is_wrong {
            println!("wrong: {transport} {command:?}: {low:.0} {value:.0} {high:.0}, truth {truth:.0}");
        }
        found.wrong += usize::from(is_wrong);
    }

    fn read_estimate(estimate: &Value) -> Option<[f64; 3]> {
        let [value, low, high] = ["value", "low", "high"].map(|key| estimate[key].as_f64());
        Some([value?, low?, high?])
    }

    fn print(rate: Rate, results: &BTreeMap<(&str, &str), Results>) {
        println!("HTB {rate}, cross traffic 0 to 80 %:");
        for ((transport, name), found) in results {
            let mut errors = found.errors.clone();
            errors.sort_by(f64::total_cmp);
            let percent = |part: f64| part * 100.0;
            let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            println!(
                "  {transport:<5} {name:<9} {} of {} values, {} wrong, covered {}, error median {:.2} % mean {:.2} % worst {:.2} %",
                errors.len(),
                found.runs,
                found.wrong,
                found.covered,
                percent(median),
                percent(mean),
                percent(errors.last().copied().unwrap_or(f64::NAN)),
            );
            found.reasons.iter().for_each(|(reason, count)| println!("        {count} × {reason}"));
        }
    }
}
