//! Measures with several builds of `kumade` in turn over the same links by the kernel's HTB, and compares what they say with what was left
//! there while trains for the available bandwidth were sent: `clients RUNS SEED up|down poisson|jittered NAME=COMMAND...`, such as
//! `clients 40 7 up poisson native=target/release/kumade 'wine=crates/kumade/tests/wine/run kumade.exe'` with `WINEPREFIX` set. The first
//! one answers as well (`kumade serve`). Beside other work, it all goes first in a session of a weight of its own:
//! `setsid -w sh -c 'echo -20 > /proc/self/autogroup; clients …'`. Each run is told as it ends; the table comes last.

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
    use kumade_netns_testbed::{ExperimentNetwork, Host, HtbNetwork, Traffic};
    use kumade_units::{Direction, Rate, Span, Time};
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::env;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, ChildStdout, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    const RATES: [Rate; 2] = [Rate::from_mbit(20), Rate::from_mbit(100)];
    /// Percent of the rate that cross traffic takes, in turn, in packets of 1500 bytes.
    const CROSS_PERCENT: [u64; 5] = [0, 20, 40, 60, 80];
    const TRANSPORTS: [&str; 2] = ["udp", "rake"];
    /// Of jittered cross traffic, intervals differ from the mean by up to this part.
    const JITTER: f64 = 0.5;
    /// As the atlas of the lab counts it, an interval is wrong if it misses the truth by more than this part of it, …
    const MAX_MISS_RATIO: f64 = 0.05;
    /// … which counts as this part of the link at least.
    const MIN_TRUTH_RATIO: f64 = 0.01;
    /// Until cross traffic has reached the link.
    const WARM_UP: Duration = Duration::from_millis(100);
    /// A client that takes longer hangs, and is ended: a measurement takes a few seconds.
    const MAX_RUN_SECONDS: u64 = 120;

    /// What a client said of a link over a transport.
    #[derive(Default)]
    struct Results {
        /// Parts of what was left: how far the value was above it.
        errors: Vec<f64>,
        runs: usize,
        covered: usize,
        wrong: usize,
        reasons: BTreeMap<String, usize>,
    }

    /// One run.
    struct Run {
        truth: Rate,
        /// Value, and the ends of its interval; or why there is none.
        said: Result<[f64; 3], String>,
    }

    struct Client {
        name: String,
        command: Vec<String>,
    }

    pub fn main() {
        let mut arguments = env::args().skip(1);
        let mut number = |what| arguments.next().and_then(|number| number.parse().ok()).expect(what);
        let (runs, seed): (u64, u64) = (number("the number of runs"), number("the seed of cross traffic"));
        let direction: Direction = arguments.next().expect("a direction").parse().expect("up or down");
        let is_poisson = match arguments.next().as_deref() {
            Some("poisson") => true,
            Some("jittered") => false,
            _ => panic!("poisson or jittered"),
        };
        let read = |client: String| {
            let (name, command) = client.split_once('=').expect("NAME=COMMAND");
            Client { name: name.to_owned(), command: command.split(' ').map(str::to_owned).collect() }
        };
        let clients: Vec<Client> = arguments.map(read).collect();
        kumade_net::namespace::enter_user_namespace_if_needed().expect("networks can be built");
        let mut results = BTreeMap::new();
        let began = Instant::now();
        for rate in RATES {
            let network = HtbNetwork::build(rate, rate.bits_per_second() / 80).expect("HTB");
            let server = start_server(&network, &clients[0].command[0]);
            for number in 0..runs {
                let cross = CROSS_PERCENT[(number % CROSS_PERCENT.len() as u64) as usize];
                let traffic = start_traffic(&network, direction, cross_config(rate, cross, is_poisson, seed + number));
                thread::sleep(WARM_UP);
                for (transport, client) in TRANSPORTS.iter().flat_map(|it| clients.iter().map(move |who| (it, who))) {
                    let run = measure(&network, direction, &client.command, transport);
                    eprint!("{:4.0} s, {rate}, run {} of {runs}, ", began.elapsed().as_secs_f64(), number + 1);
                    eprintln!("cross traffic {cross} %, {transport}, {}: {run}", client.name);
                    let entry =
                        results.entry((rate, *transport, client.name.as_str())).or_insert_with(Results::default);
                    entry.add(rate, run);
                }
                drop(traffic);
            }
            network.host("b").expect("a host").namespace.kill_processes();
            drop(server);
        }
        let cross = if is_poisson { "Poisson" } else { "jittered" };
        let what = format!("{runs} runs of each, {direction}, {cross} cross traffic, seeds from {seed}");
        print(&what, &clients[0].name, &results);
    }

    fn start_server(network: &HtbNetwork, program: &str) -> Child {
        let mut serve = network.host("b").expect("a host").namespace.command(program);
        let mut child = serve.args(["serve"]).stderr(Stdio::piped()).spawn().expect("a server");
        let lines = BufReader::new(child.stderr.take().expect("its messages")).lines();
        let mut lines = lines.map_while(Result::ok);
        lines.find(|line| line.contains("listening on")).expect("it listens");
        thread::spawn(move || lines.for_each(drop));
        child
    }

    /// None where it takes nothing.
    fn cross_config(link: Rate, percent: u64, is_poisson: bool, seed: u64) -> Option<CrossConfig> {
        let rate = Rate::from_bits_per_second(link.bits_per_second() * percent / 100);
        let kind = match is_poisson {
            true => CrossKind::Poisson { rate, sizes: SizeMix::fixed(1500) },
            false => CrossKind::Jittered { rate, size: 1500, jitter: JITTER },
        };
        (percent > 0).then_some(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed })
    }

    fn start_traffic(network: &HtbNetwork, direction: Direction, config: Option<CrossConfig>) -> Option<Traffic> {
        let names = if direction == Direction::Up { ["c", "d"] } else { ["d", "c"] };
        let [from, to] = names.map(|name| network.host(name).expect("a host"));
        config.map(|config| Traffic::udp(from, to, &config).expect("cross traffic"))
    }

    /// The truth is of the time that the value is an average over, which the report counts from the first packet of the trains for it; that is told of as
    /// it arrives. Where there is no value, it is of the time until the direction is done.
    fn measure(network: &HtbNetwork, direction: Direction, command: &[String], transport: &str) -> Run {
        let server = network.host("b").expect("a host").v4.to_string();
        let host = network.host("a").expect("a host");
        let mut client = host.namespace.command(&command[0]);
        client.args(&command[1..]).args(["measure", &server, "--json-stream"]);
        let way = direction.to_string();
        client.args(["--direction", &way, "--transport", transport]);
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let began = clock::realtime();
        let mut child = client.spawn().expect("a client");
        let lines = read_lines(child.stdout.take().expect("its output"));
        let deadline = Instant::now() + Duration::from_secs(MAX_RUN_SECONDS);
        let (mut first, mut to, mut window) = (None, None, None);
        let mut said = Err(format!("no report within {MAX_RUN_SECONDS} s"));
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((at, line)) if line["event"] == "train" => first = first.or(Some(at)),
                Ok((at, line)) if line["event"] == "done" => to = Some(at),
                Ok((_, line)) if line["event"] == "report" => {
                    said = read_estimate(&line["report"][&way]);
                    window = read_window(&line["report"][&way]);
                }
                Ok((_, line)) if line["event"] == "error" => said = Err(line["error"]["message"].to_string()),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        end(host, &mut child, deadline);
        let from = first.unwrap_or(began);
        let to = to.unwrap_or_else(clock::realtime);
        let (from, to) = window.map_or((from, to), |(start, length)| (from + start, from + start + length));
        Run { truth: network.true_available_bandwidth(direction, from, to).expect("what was left"), said }
    }

    /// Each line of JSON, and when it came.
    fn read_lines(output: ChildStdout) -> mpsc::Receiver<(Time, Value)> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send((clock::realtime(), serde_json::from_str(&line).unwrap_or_default()));
            }
        });
        receiver
    }

    /// Waits for the end of a client; one that hangs is ended, with all that it has started.
    fn end(host: &Host, child: &mut Child, deadline: Instant) {
        while child.try_wait().expect("a client").is_none() {
            if Instant::now() >= deadline {
                host.namespace.kill_processes();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn read_estimate(direction: &Value) -> Result<[f64; 3], String> {
        let estimate = &direction["available_bits_per_second"];
        match ["value", "low", "high"].map(|key| estimate[key].as_f64()) {
            [Some(value), Some(low), Some(high)] => Ok([value, low, high]),
            _ => Err(direction["reason"].as_str().unwrap_or("neither a value nor a reason").into()),
        }
    }

    /// When it begins after the first train's first packet, and how long it lasts; none without a value.
    fn read_window(direction: &Value) -> Option<(Span, Span)> {
        let span = |key| direction[key].as_f64().map(Span::from_secs_f64);
        Some((span("window_start_seconds")?, span("window_seconds")?))
    }

    impl std::fmt::Display for Run {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let truth = self.truth.as_f64() / 1e6;
            match &self.said {
                Ok(said) => {
                    let [value, low, high] = said.map(|rate| rate / 1e6);
                    write!(f, "{value:.2} Mbit/s ({low:.2} to {high:.2}), truth {truth:.2}")
                }
                Err(reason) => write!(f, "no value ({reason}), truth {truth:.2} Mbit/s"),
            }
        }
    }

    impl Results {
        fn add(&mut self, rate: Rate, run: Run) {
            self.runs += 1;
            match run.said {
                Ok([value, low, high]) => {
                    let truth = run.truth.as_f64();
                    let margin = MAX_MISS_RATIO * truth.max(MIN_TRUTH_RATIO * rate.as_f64());
                    self.errors.push((value - truth) / truth);
                    self.covered += usize::from((low..=high).contains(&truth));
                    self.wrong += usize::from(truth < low - margin || truth > high + margin);
                }
                Err(reason) => *self.reasons.entry(reason).or_default() += 1,
            }
        }

        /// Of the errors without their signs: median, mean, worst; and the mean with signs. In percent.
        fn errors_percent(&self) -> [f64; 4] {
            let mut sizes: Vec<f64> = self.errors.iter().map(|error| error.abs() * 100.0).collect();
            sizes.sort_by(f64::total_cmp);
            let mean = |sum: f64| sum / sizes.len() as f64;
            let median = sizes.get(sizes.len() / 2).copied().unwrap_or(f64::NAN);
            let worst = sizes.last().copied().unwrap_or(f64::NAN);
            [median, mean(sizes.iter().sum()), worst, mean(self.errors.iter().sum::<f64>() * 100.0)]
        }
    }

    fn print(what: &str, first: &str, results: &BTreeMap<(Rate, &str, &str), Results>) {
        println!("{what}: {CROSS_PERCENT:?} % of the link in turn; errors are percent of what was left.\n");
        println!(
            "| HTB | transport | client | values | wrong | covered | median | mean | worst | bias | median by first |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
        for ((rate, transport, name), found) in results {
            let [median, mean, worst, bias] = found.errors_percent();
            let percent = |part: usize, all: usize| part as f64 * 100.0 / all as f64;
            let of_first = median / results[&(*rate, *transport, first)].errors_percent()[0];
            println!(
                "| {rate} | {transport} | {name} | {} ({:.0} %) | {} | {} ({:.0} %) | {median:.2} | {mean:.2} | {worst:.2} | {bias:+.2} | {of_first:.2} |",
                found.errors.len(),
                percent(found.errors.len(), found.runs),
                found.wrong,
                found.covered,
                percent(found.covered, found.errors.len()),
            );
        }
        for ((rate, transport, name), found) in results {
            found
                .reasons
                .iter()
                .for_each(|(reason, count)| println!("{rate}, {transport}, {name}: {count} × {reason}"));
        }
    }
}
