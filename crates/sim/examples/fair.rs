//! How fair a queue discipline is, in a few seconds: attacks by pulses, sparse flows, drops, mixes of controls, many flows.
//!
//! `cargo run --release -p sim --example fair -- DISCIPLINE [ROWS]`, such as `-- fair-share:target=5ms pulses,sparse`. The
//! seeds are for tuning; what judges a discipline is `kumade lab run fair-attack` and `fair-latency`.
use link::queue::{Discipline, DisciplineSettings, Ecn, Limit, QueueConfig, QueueDiscipline, Queued};
use link::{CrossConfig, CrossKind, Fate, LinkConfig, Medium, Periods, RateSchedule, Recording, SizeMix};
use sim::network::{FlowConfig, FlowId, LinkId, Network, Source, TcpConfig};
use sim::tcp::congestion::Control;
use std::time::Instant;
use units::{Rate, Span, Time};

/// A row of the table: its name, and what prints it.
type Row = (&'static str, fn(&Discipline));

const ROWS: &[Row] = &[
    ("pulses", pulses),
    ("beside", pulses_below_the_share),
    ("sparse", sparse_probe),
    ("short", short_flows),
    ("drops", needless_drops),
    ("ect", ignored_marks),
    ("vegas", vegas_and_cubic),
    ("many", many_flows),
    ("manytcp", many_connections),
    ("cut", rate_cut),
    ("few", few_flows),
    ("wired", wired),
    ("mixes", slow_mixes),
    ("fastmixes", fast_mixes),
    ("cost", cost),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let text = args.next().unwrap_or_else(|| "fair-share".to_owned());
    let settings: DisciplineSettings = text.parse().expect("a discipline with its parameters");
    let wanted = args.next().unwrap_or_else(|| "all".to_owned());
    println!("{text}");
    for (name, row) in ROWS {
        if wanted == "all" || wanted.split(',').any(|part| part == *name) {
            // An example may look at the clock; what it measures may not.
            #[allow(clippy::disallowed_methods)]
            let begun = Instant::now();
            row(&settings.discipline(Some(Rate::from_mbit(100))));
            println!("    {name}: {:.1} s", begun.elapsed().as_secs_f64());
        }
    }
}

const MBIT: Rate = Rate::from_mbit(100);

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

fn millis(millis: f64) -> Span {
    Span::from_secs_f64(millis * 1e-3)
}

/// One bottleneck and the flows over it.
struct World {
    network: Network,
    link: LinkId,
    rate: Rate,
    delay: Span,
    flows: Vec<FlowId>,
}

impl World {
    fn new(discipline: &Discipline, rate: Rate, round_trip: Span, limit: Limit, seed: u64) -> Self {
        let medium = None;
        Self::over(
            discipline,
            LinkConfig { rate: Some(rate), medium, ..LinkConfig::default() },
            round_trip,
            limit,
            seed,
        )
    }

    fn over(discipline: &Discipline, config: LinkConfig, round_trip: Span, limit: Limit, seed: u64) -> Self {
        let mut network = Network::new(seed);
        let delay = round_trip / 2;
        let rate = config.rate.unwrap_or(MBIT);
        let queue = QueueConfig { limit, discipline: discipline.clone() };
        let link = network.add_link(LinkConfig { delay, ..config }, Some(queue)).unwrap();
        World { network, link, rate, delay, flows: Vec::new() }
    }

    fn add(&mut self, config: FlowConfig) -> FlowId {
        let id = self.network.add_flow(config).unwrap();
        self.flows.push(id);
        id
    }

    fn tcp(&mut self, count: usize, control: Control, leaf: Span, ecn: bool) {
        for _ in 0..count {
            let tcp = TcpConfig {
                ecn,
                access_rate: Some(Rate::from_bits_per_second(self.rate.bits_per_second() * 10)),
                ..TcpConfig::new(control)
            };
            let config = self.flow(Source::Tcp(tcp), leaf);
            self.add(config);
        }
    }

    fn flow(&self, source: Source, leaf: Span) -> FlowConfig {
        FlowConfig {
            delay_out: leaf,
            delay_back: self.delay + leaf,
            jitter: self.rate.time_for(1800),
            start_jitter: millis(100.0),
            ..FlowConfig::new(vec![self.link], source)
        }
    }

    fn udp(&mut self, kind: CrossKind, ecn: bool) -> FlowId {
        let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 7 + self.flows.len() as u64 };
        let config = FlowConfig { ect: ecn, ..FlowConfig::new(vec![self.link], Source::Udp(cross)) };
        self.add(config)
    }

    /// Mbit/s that each flow got between two moments.
    fn run(&mut self, from: f64, to: f64) -> Vec<f64> {
        let read = |network: &Network| -> Vec<u64> {
            self.flows.iter().map(|flow| network.flow(*flow).goodput_bytes).collect()
        };
        self.network.run_until(at(from));
        let before = read(&self.network);
        self.network.run_until(at(to));
        read(&self.network).iter().zip(&before).map(|(b, a)| (b - a) as f64 * 8e-6 / (to - from)).collect()
    }
}

fn jain(got: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = (got.iter().sum(), got.iter().map(|x| x * x).sum());
    sum * sum / squares / got.len() as f64
}

fn on_off(mbit: u64, on: f64, off: f64, periods: Periods) -> CrossKind {
    CrossKind::OnOff { rate: Rate::from_mbit(mbit), size: 1500, on: millis(on), off: millis(off), periods }
}

fn usual() -> Limit {
    Limit::Packets(1000)
}

fn pulses(discipline: &Discipline) {
    let mut patterns = vec![
        (1000, 7.0, 66.7, Periods::Fixed),
        (1000, 25.0, 225.0, Periods::Fixed),
        (1000, 1.0, 10.0, Periods::Fixed),
        (1000, 100.0, 900.0, Periods::Fixed),
        (1000, 500.0, 500.0, Periods::Fixed),
        (1000, 2.0, 200.0, Periods::Fixed),
        (200, 50.0, 50.0, Periods::Fixed),
        (200, 500.0, 2000.0, Periods::Fixed),
        (100, 200.0, 400.0, Periods::Fixed),
        (40, 300.0, 300.0, Periods::Fixed),
        (100, 1000.0, 0.001, Periods::Fixed),
        (1000, 1000.0, 0.001, Periods::Fixed),
    ];
    for index in 0..14u64 {
        let draw = |n: u64, low: f64, high: f64| {
            let x = ((index * 7919 + n * 104_729 + 12345) % 1009) as f64 / 1009.0;
            low * (high / low).powf(x)
        };
        patterns.push((draw(1, 60.0, 1000.0) as u64, draw(2, 0.5, 500.0), draw(3, 2.0, 1000.0), Periods::Exponential));
    }
    let mut worst = (0.0, String::new());
    for (rate, on, off, periods) in patterns {
        let mut world = World::new(discipline, MBIT, millis(20.0), usual(), 101);
        world.tcp(4, Control::Cubic, Span::from_nanos(1), false);
        world.udp(on_off(rate, on, off, periods), false);
        let got = world.run(3.0, 23.0);
        let share = got.iter().sum::<f64>() / 5.0;
        let times = got[4] / 19.6;
        let text = format!(
            "{times:.2} x, TCP {:5.1}, mean share {share:.1}  {rate} Mbit/s {on:.1}/{off:.1} ms {periods:?}",
            got[..4].iter().sum::<f64>()
        );
        println!("  pulses {text}");
        if times > worst.0 {
            worst = (times, text);
        }
    }
    println!("  worst  {}", worst.1);
}

fn pulses_below_the_share(discipline: &Discipline) {
    for (rate, on, off) in [(1000, 1.0, 61.5), (1000, 3.0, 184.5), (100, 10.0, 52.5)] {
        let mut world = World::new(discipline, MBIT, millis(20.0), usual(), 102);
        world.tcp(4, Control::Cubic, Span::from_nanos(1), false);
        world.udp(on_off(rate, on, off, Periods::Fixed), false);
        let got = world.run(3.0, 33.0);
        let tcp: f64 = got[..4].iter().sum();
        let possible = 100.0 * 1448.0 / 1500.0 - 16.0;
        println!("  {rate} {on}/{off} ms: pulses {:.1} of 16, TCP {tcp:.1} of {possible:.1} Mbit/s", got[4]);
    }
}

/// One-way delays added to a flow's packets at the bottleneck, sorted, in milliseconds; and its losses.
fn added(world: &World, flow: FlowId, from: Time) -> (Vec<f64>, usize) {
    let (mut delays, mut lost) = (Vec::new(), 0);
    for entry in world.network.ledger(world.link).entries() {
        if entry.flow != flow.label() || entry.arrival < from {
            continue;
        }
        match entry.fate {
            Fate::Departed(left) => {
                delays.push((left - entry.arrival - world.rate.time_for(entry.size.into())).as_secs_f64() * 1e3);
            }
            _ => lost += 1,
        }
    }
    delays.sort_by(f64::total_cmp);
    (delays, lost)
}

fn quantiles(delays: &[f64]) -> String {
    let of = |part: f64| {
        delays.get(((delays.len() as f64 * part) as usize).min(delays.len().max(1) - 1)).unwrap_or(&f64::NAN)
    };
    format!("p50 {:.2} p95 {:.2} p99 {:.2} max {:.2} ms", of(0.5), of(0.95), of(0.99), of(1.0))
}

fn sparse_probe(discipline: &Discipline) {
    for (count, control) in [(4, Control::Cubic), (16, Control::Cubic), (1, Control::Bbr)] {
        let mut world = World::new(discipline, MBIT, millis(20.0), usual(), 103);
        world.network.ledger_mut(world.link).record(Recording::All);
        world.tcp(count, control, Span::from_nanos(1), false);
        let kind = CrossKind::Poisson { rate: Rate::from_f64(160_000.0), sizes: SizeMix::fixed(200) };
        let probe = world.udp(kind, false);
        let got = world.run(3.0, 23.0);
        let (delays, lost) = added(&world, probe, at(3.0));
        let bulk = added(&world, world.flows[0], at(3.0)).0;
        let tcp: f64 = got[..count].iter().sum();
        println!(
            "  sparse beside {count} {control}: {}, lost {lost} of {}; bulk {}; TCP {tcp:.1}",
            quantiles(&delays),
            delays.len(),
            quantiles(&bulk)
        );
    }
}

fn short_flows(discipline: &Discipline) {
    for bytes in [10_000, 100_000] {
        let mut world = World::new(discipline, MBIT, millis(20.0), usual(), 104);
        world.tcp(4, Control::Cubic, Span::from_nanos(1), false);
        for index in 0..200 {
            let tcp = TcpConfig {
                bytes: Some(bytes),
                access_rate: Some(Rate::from_mbit(1000)),
                ..TcpConfig::new(Control::Cubic)
            };
            let start = at(3.0 + 0.1 * f64::from(index));
            let config = FlowConfig { start, ..world.flow(Source::Tcp(tcp), Span::from_nanos(1)) };
            world.add(config);
        }
        world.run(3.0, 30.0);
        let mut times: Vec<f64> = world.flows[4..]
            .iter()
            .map(|flow| {
                let counters = world.network.flow(*flow);
                (counters.finished.unwrap_or(at(30.0)) - counters.started.unwrap()).as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        println!("  {bytes} B flows: mean {mean:.1} ms, {}", quantiles(&times));
    }
}

fn needless_drops(discipline: &Discipline) {
    let sets: [&[(usize, Control)]; 5] = [
        &[(2, Control::Bbr)],
        &[(1, Control::Cubic), (1, Control::Bbr)],
        &[(4, Control::Bbr)],
        &[(4, Control::Cubic)],
        &[(16, Control::NewReno)],
    ];
    for set in sets {
        let mut world = World::new(discipline, MBIT, millis(20.0), usual(), 105);
        set.iter().for_each(|(count, control)| world.tcp(*count, *control, Span::from_nanos(1), false));
        world.network.run_until(at(3.0));
        let before = *world.network.ledger(world.link).packets();
        let got = world.run(3.0, 33.0);
        let after = *world.network.ledger(world.link).packets();
        let lost = |c: &link::Counters| c.managed.packets + c.queue_full.packets;
        let part = (lost(&after) - lost(&before)) as f64 / (after.offered.packets - before.offered.packets) as f64;
        let sum: f64 = got.iter().sum();
        let queue = world.network.sojourn(world.link);
        println!(
            "  drops {set:?}: {:.2} %, {sum:.1} Mbit/s, Jain {:.3}, queue p50 {:.1} ms p99 {:.1}",
            part * 100.0,
            jain(&got),
            queue.quantile(0.5).as_secs_f64() * 1e3,
            queue.quantile(0.99).as_secs_f64() * 1e3
        );
    }
}

fn ignored_marks(discipline: &Discipline) {
    for (rate, tcp_ecn) in [(60, false), (100, false), (100, true), (1000, false)] {
        let mut world = World::new(discipline, MBIT, millis(20.0), usual(), 106);
        world.tcp(1, Control::Cubic, Span::from_nanos(1), tcp_ecn);
        world.udp(CrossKind::Constant { rate: Rate::from_mbit(rate), size: 1500 }, true);
        let got = world.run(3.0, 23.0);
        println!("  ECT(0) at {rate} Mbit/s that ignores marks {:.1}, CUBIC (ECN {tcp_ecn}) {:.1}", got[1], got[0]);
    }
}

fn vegas_and_cubic(discipline: &Discipline) {
    for (vegas, cubic, round_trip) in [(1, 1, 20.0), (1, 1, 5.0), (1, 1, 60.0), (4, 1, 20.0), (1, 4, 20.0)] {
        let indices: Vec<f64> = (0..2)
            .map(|seed| {
                let mut world = World::new(discipline, MBIT, millis(round_trip), usual(), 107 + seed);
                world.tcp(vegas, Control::Vegas, Span::from_nanos(1), false);
                world.tcp(cubic, Control::Cubic, Span::from_nanos(1), false);
                let got = world.run(5.0, 45.0);
                print!("  [{:.1} {:.1}]", got[0], got[vegas]);
                jain(&got)
            })
            .collect();
        println!("  {vegas} Vegas + {cubic} CUBIC at {round_trip} ms: {indices:.3?}");
    }
}

fn many_flows(discipline: &Discipline) {
    for (count, limit) in [(2500, 10_240), (10_000, 10_240), (10_000, 40_000)] {
        let rate = Rate::from_mbit(1000);
        let mut world = World::new(discipline, rate, millis(20.0), Limit::Packets(limit), 108);
        for index in 0..count {
            // 1.5 times and up to 6 times the share.
            let times = [1.5, 2.0, 3.0, 6.0][index % 4];
            let each = Rate::from_f64(rate.as_f64() / count as f64 * times);
            world.udp(CrossKind::Poisson { rate: each, sizes: SizeMix::fixed(1000) }, false);
        }
        let got = world.run(2.0, 12.0);
        let group = |of: usize| got.iter().skip(of).step_by(4).sum::<f64>() * 4.0 / rate.as_f64() * 1e6;
        println!(
            "  {count} UDP flows, {limit} packets: Jain {:.3}, {:.0} Mbit/s, shares of who offers 1.5, 2, 3, 6: {:.2?}",
            jain(&got),
            got.iter().sum::<f64>(),
            [0, 1, 2, 3].map(group)
        );
    }
}

fn many_connections(discipline: &Discipline) {
    for (count, mbit, limit) in [(2500, 1000, 10_240), (10_000, 1000, 10_240)] {
        let rate = Rate::from_mbit(mbit);
        let mut world = World::new(discipline, rate, millis(20.0), Limit::Packets(limit), 109);
        world.tcp(count, Control::Cubic, Span::from_nanos(1), false);
        let got = world.run(3.0, 23.0);
        let queue = world.network.sojourn(world.link);
        println!(
            "  {count} CUBIC, {limit} packets: Jain {:.3}, {:.0} Mbit/s, queue p50 {:.0} ms",
            jain(&got),
            got.iter().sum::<f64>(),
            queue.quantile(0.5).as_secs_f64() * 1e3
        );
    }
}

fn rate_cut(discipline: &Discipline) {
    for (count, low, limit) in [(4, 10, 1000), (10, 10, 1000), (1, 10, 10_000)] {
        let steps = [(Span::ZERO, MBIT), (Span::from_secs(10), Rate::from_mbit(low)), (Span::from_secs(20), MBIT)];
        let medium = Some(Medium::Schedule(RateSchedule::new(&steps).unwrap()));
        let config = LinkConfig { rate: None, medium, ..LinkConfig::default() };
        let mut world = World::over(discipline, config, millis(20.0), Limit::Packets(limit), 110);
        world.tcp(count, Control::Cubic, Span::from_nanos(1), false);
        world.network.ledger_mut(world.link).record(Recording::All);
        world.network.run_until(at(22.0));
        let (mut delays, mut silent) = (Vec::new(), 0.0f64);
        let mut last: Vec<Time> = vec![at(10.0); count];
        let mut bytes = [0u64; 13];
        for entry in world.network.ledger(world.link).entries() {
            let Fate::Departed(left) = entry.fate else { continue };
            if left < at(10.0) {
                continue;
            }
            bytes[((left - at(10.0)).as_secs_f64() as usize).min(12)] += u64::from(entry.size);
            if left > at(20.0) {
                continue;
            }
            delays.push((left, (left - entry.arrival).as_secs_f64() * 1e3));
            let flow = (entry.flow / 2) as usize;
            silent = silent.max((left - last[flow]).as_secs_f64());
            last[flow] = left;
        }
        delays.sort_by_key(|(left, _)| *left);
        let longest = delays.iter().map(|(_, delay)| *delay).fold(0.0, f64::max);
        let over = |bound: f64| {
            delays
                .iter()
                .filter(|(_, delay)| *delay > bound)
                .map(|(left, _)| (*left - at(10.0)).as_secs_f64())
                .fold(0.0, f64::max)
        };
        let mut all: Vec<f64> = delays.iter().map(|(_, delay)| *delay).collect();
        all.sort_by(f64::total_cmp);
        println!(
            "  cut to {low} with {count}: longest {longest:.0} ms (last above 50 ms at {:.2} s), {}, longest silence of a flow {silent:.2} s; MB in s 0, 1, 10, 11: {:.2} {:.2} {:.1} {:.1}",
            over(50.0),
            quantiles(&all),
            bytes[0] as f64 / 1e6,
            bytes[1] as f64 / 1e6,
            bytes[10] as f64 / 1e6,
            bytes[11] as f64 / 1e6
        );
    }
}

fn few_flows(discipline: &Discipline) {
    for (count, control, round_trip) in [
        (1, Control::Cubic, 20.0),
        (1, Control::NewReno, 20.0),
        (4, Control::NewReno, 20.0),
        (1, Control::Cubic, 100.0),
        (17, Control::NewReno, 200.0),
        (2, Control::Cubic, 100.0),
    ] {
        let mut world = World::new(discipline, MBIT, millis(round_trip), usual(), 111);
        world.tcp(count, control, Span::from_nanos(1), false);
        let got = world.run(5.0, 45.0);
        let queue = world.network.sojourn(world.link);
        println!(
            "  {count} {control} at {round_trip} ms: {:.1} %, Jain {:.3}, queue p50 {:.1} p99 {:.1} ms",
            got.iter().sum::<f64>() / 96.53 * 100.0,
            jain(&got),
            queue.quantile(0.5).as_secs_f64() * 1e3,
            queue.quantile(0.99).as_secs_f64() * 1e3
        );
    }
}

fn wired(discipline: &Discipline) {
    for round_trip in [1.4, 8.4, 64.4, 128.4] {
        let mut all = Vec::new();
        let mut used = 0.0;
        for seed in 112..114 {
            let limit = Limit::Bytes(MBIT.bytes_in(millis(round_trip)).max(150_000));
            let mut world = World::new(discipline, MBIT, millis(round_trip), limit, seed);
            world.tcp(10, Control::Cubic, Span::from_nanos(1), false);
            world.tcp(10, Control::Compound, Span::from_nanos(1), false);
            let got = world.run(5.0, 20.0);
            used += got.iter().sum::<f64>() / 96.53 * 50.0;
            all.push(jain(&got));
        }
        println!("  10 CUBIC + 10 Compound at {round_trip} ms: {all:.4?}, {used:.1} %");
    }
}

/// Rate in Mbit/s, one-way delay in ms, buffer in packets, and number, control and delay of leaf links of each group.
type Mix = (u32, u64, f64, u64, &'static [(usize, Control, f64)]);

const MIXES: &[Mix] = &[
    (0, 100, 10.0, 250, &[(2, Control::NewReno, 0.2), (8, Control::NewReno, 2.0)]),
    (1, 100, 10.0, 350, &[(8, Control::Cubic, 0.1), (2, Control::Cubic, 5.0)]),
    (2, 100, 10.0, 500, &[(2, Control::Vegas, 0.1), (8, Control::Vegas, 10.0)]),
    (3, 100, 90.0, 1700, &[(16, Control::NewReno, 5.0), (1, Control::Cubic, 5.0)]),
    (4, 100, 40.0, 850, &[(16, Control::NewReno, 5.0), (1, Control::Cubic, 5.0)]),
    (5, 100, 20.0, 420, &[(16, Control::NewReno, 2.5), (1, Control::Cubic, 2.5)]),
    (6, 100, 4.0, 85, &[(16, Control::Vegas, 0.5), (1, Control::Cubic, 0.5)]),
    (7, 100, 40.0, 850, &[(16, Control::Vegas, 5.0), (1, Control::NewReno, 5.0)]),
    (8, 100, 29.0, 500, &[(8, Control::Vegas, 0.5), (8, Control::NewReno, 0.5), (1, Control::Cubic, 0.5)]),
    (9, 1000, 2.0, 420, &[(32, Control::NewReno, 0.25), (32, Control::Cubic, 0.25)]),
    (10, 1000, 45.0, 8500, &[(32, Control::NewReno, 2.5), (32, Control::Cubic, 2.5)]),
    (11, 1000, 20.0, 4200, &[(64, Control::NewReno, 2.5), (1, Control::Bbr, 2.5)]),
    (12, 1000, 4.5, 850, &[(128, Control::Vegas, 0.25), (1, Control::Cubic, 0.25)]),
    (13, 1000, 4.5, 850, &[(64, Control::Vegas, 0.25), (1, Control::NewReno, 0.25)]),
    (14, 1000, 4.5, 850, &[(128, Control::Vegas, 0.25), (1, Control::Bbr, 0.25)]),
    (15, 1000, 45.0, 8500, &[(4, Control::Bic, 2.5), (32, Control::Cubic, 2.5)]),
];

fn mix(discipline: &Discipline, (row, mbit, delay, buffer, groups): &Mix, seconds: f64, seeds: u64) -> f64 {
    let mut indices = Vec::new();
    let (mut used, mut last) = (0.0, Vec::new());
    for seed in 0..seeds {
        let rate = Rate::from_mbit(*mbit);
        let mut world = World::new(
            discipline,
            rate,
            millis(2.0 * delay),
            Limit::Packets(*buffer),
            200 + seed * 17 + u64::from(*row),
        );
        for (count, control, leaf) in *groups {
            for _ in 0..*count {
                let tcp = TcpConfig {
                    segment_bytes: 1440,
                    acknowledge_every: 1,
                    access_rate: Some(rate),
                    ..TcpConfig::new(*control)
                };
                let config = world.flow(Source::Tcp(tcp), millis(2.0 * leaf));
                world.add(config);
            }
        }
        let got = world.run(0.0, seconds);
        used += got.iter().sum::<f64>() / seeds as f64;
        indices.push(jain(&got));
        last = got;
    }
    let mut from = 0;
    let means: Vec<String> = groups
        .iter()
        .map(|(count, control, _)| {
            let part = &last[from..from + count];
            from += count;
            format!("{control} {:.2}", part.iter().sum::<f64>() / *count as f64)
        })
        .collect();
    let mean = indices.iter().sum::<f64>() / indices.len() as f64;
    println!(
        "  row {row:2}: mean {mean:.4} least {:.4}, {used:.0} Mbit/s; {}",
        indices.iter().copied().fold(1.0, f64::min),
        means.join(", ")
    );
    mean
}

fn slow_mixes(discipline: &Discipline) {
    let means: Vec<f64> = MIXES[..9].iter().map(|row| mix(discipline, row, 100.0, 2)).collect();
    println!("  rows 0-8: mean {:.4}", means.iter().sum::<f64>() / means.len() as f64);
}

fn fast_mixes(discipline: &Discipline) {
    let means: Vec<f64> = MIXES[9..].iter().map(|row| mix(discipline, row, 100.0, 1)).collect();
    println!("  rows 9-15: mean {:.4}", means.iter().sum::<f64>() / means.len() as f64);
}

/// Nanoseconds for a packet in and out, of so many flows in turn, with a queue that stays about as long.
fn cost(discipline: &Discipline) {
    for flows in [10u64, 1000, 20_000] {
        let queue = QueueConfig { limit: Limit::Packets(10_240), discipline: discipline.clone() };
        let mut queue = link::queue::Queue::new(&queue.validate().unwrap(), 1);
        let mut drops = Vec::with_capacity(1000);
        let (count, mut state) = (4_000_000u64, 1u64);
        #[allow(clippy::disallowed_methods)]
        let begun = Instant::now();
        for packet in 0..count {
            // 12 us a packet at 1 Gbit/s; a tenth more comes than leaves.
            let now = Time::from_nanos(packet as i64 * 10_909);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let arriving = Queued { ecn: Ecn::NotEct, ..Queued::new(0u64, 1500, (state >> 33) % flows, now) };
            let _ = queue.enqueue(arriving, &mut drops);
            if packet % 11 != 0 {
                queue.dequeue(now, &mut drops);
            }
            drops.clear();
        }
        println!(
            "  {flows} flows: {:.0} ns a packet, {} wait",
            begun.elapsed().as_nanos() as f64 / count as f64,
            queue.packets()
        );
    }
}
