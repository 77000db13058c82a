//! What an emulated link between two veth pairs reaches on this machine, beside its targets: `cargo run --release -p
//! emulator --example link_speed`, on a machine that does nothing else; it takes three minutes. `-- rate`, `-- delay`,
//! `-- packets`, `-- tcp` or `-- links` measures only that, and `-- rate 100` or `-- tcp 1000` only that rate.
//!
//! Rates and gaps are those of the receiving kernel's stamps; a delay is counted from just before the sending system
//! call to the receiving kernel's stamp, so that it holds what both veth pairs take, too.

use kumade_emulator::statistics::DropCause;
use kumade_emulator::{DirectionConfig, Engine, EngineConfig, PortSpec};
use kumade_link::LinkConfig;
use kumade_link::queue::{Discipline, QueueConfig, QueueLimit};
use kumade_net::clock;
use kumade_net::namespace::Namespace;
use kumade_net::packet_socket::{OutgoingFrame, Receiver, Sender};
use kumade_netns_testbed::VethHosts;
use kumade_units::{Rate, Span, Time};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Ethernet and what tells the packets apart from others: an IPv4 header without more.
const HEADER: [u8; 34] =
    [2, 8, 8, 8, 8, 8, 2, 7, 7, 7, 7, 7, 8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 253, 0, 0, 10, 79, 0, 1, 10, 79, 0, 2];

fn main() {
    kumade_net::namespace::enter_user_namespace_if_needed().expect("namespaces");
    let wanted = env::args().nth(1);
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    if is_wanted("rate") {
        let only = env::args().nth(2).map(|mbit| mbit.parse().expect("a rate in Mbit/s"));
        only.map_or(vec![1, 10, 50, 100, 200, 500], |mbit| vec![mbit]).into_iter().for_each(rate);
    }
    if is_wanted("delay") {
        [10, 50].into_iter().for_each(delay);
    }
    if is_wanted("packets") {
        packets();
    }
    if is_wanted("links") {
        links();
    }
    if is_wanted("tcp") {
        let only = env::args().nth(2).map(|mbit| mbit.parse().expect("a rate in Mbit/s"));
        only.map_or(vec![10_000, 1000], |mbit| vec![mbit]).into_iter().for_each(tcp);
    }
}

/// Sends more than the link carries, and looks at what comes out.
fn rate(mbit: u64) {
    let rate = Rate::from_mbit(mbit);
    let link = LinkConfig { rate: Some(rate), delay: Span::from_millis(1), ..LinkConfig::default() };
    let (hosts, engine) = emulated(link);
    let mut receiver = hosts.right.run(|| Receiver::open(VethHosts::DEVICE).expect("a receiver")).expect("a namespace");
    let mut sender = hosts.left.run(|| Sender::open(VethHosts::DEVICE).expect("a sender")).expect("a namespace");
    let packet = packet(1500);
    // Five seconds, and at the slowest rates enough packets, after those with which the queue fills.
    let count = (mbit * 1_000_000 * 5 / 12_000).max(1000) as usize;
    let filling = 3000;
    let is_done = &AtomicBool::new(false);
    let (begun, before) = (clock::monotonic(), engine_cpu());
    let stamps = thread::scope(|scope| {
        scope.spawn(move || {
            // A tenth more than the link carries, and much at once, so that the queue never runs empty.
            let interval = rate.time_for(1500).as_nanos() * 10 / 11;
            let (begun, mut sent) = (clock::realtime(), 0);
            while !is_done.load(Ordering::Relaxed) {
                let due = (clock::realtime() - begun).as_nanos() / interval + filling;
                while sent < due {
                    sender.send(&[OutgoingFrame::new(&packet[..14], &packet[14..])], |_, error| panic!("{error}"));
                    sent += 1;
                }
                thread::sleep(Duration::from_micros(200));
            }
        });
        let mut stamps = Vec::with_capacity(count + 1);
        while stamps.len() <= count {
            if !receiver.next(|arrived| stamps.extend(ours(arrived.frame).then_some(arrived.stamp))) {
                thread::sleep(Duration::from_micros(500));
            }
        }
        is_done.store(true, Ordering::Relaxed);
        stamps
    });
    let used = (engine_cpu() - before).as_secs_f64() / (clock::monotonic() - begun).as_secs_f64() * 100.0;
    let off = rate_error(&stamps, rate.time_for(1500)) * 100.0;
    let mut gaps: Vec<_> = stamps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let ideal = rate.time_for(1500).as_nanos() as f64;
    let p99 = quantile(&gaps, 99).as_nanos() as f64 / ideal;
    let cpu_target = if mbit == 100 { format!(" (target 25: {})", met(used <= 25.0)) } else { String::new() };
    // 141 µs between packets that are to be 120 µs apart.
    let gaps_target = if mbit == 100 { format!(" (target 1.175: {})", met(p99 <= 1.175)) } else { String::new() };
    println!(
        "rate {mbit} Mbit/s: {off:+.4} % (target 0.05: {}), gaps p50 {:.3} p99 {p99:.3} of ideal{gaps_target}; {used:.0} % \
         of a core{cpu_target}; {}, {} not seen",
        met(off.abs() <= 0.05),
        quantile(&gaps, 50).as_nanos() as f64 / ideal,
        late(&engine),
        receiver.dropped_frames()
    );
}

/// By what part the rate is too high. Lateness passes and does not add up, so that the most punctual packets tell: one of
/// the first tenth, one of the last.
fn rate_error(stamps: &[Time], interval: Span) -> f64 {
    let behind = |place: usize| stamps[place] - stamps[0] - interval * place as i64;
    let (count, tenth) = (stamps.len(), stamps.len() / 10);
    let most_punctual = |places: Range<usize>| places.min_by_key(|place| behind(*place)).expect("there are stamps");
    let (first, last) = (most_punctual(0..tenth), most_punctual(count - tenth..count));
    let ideal = interval * (last - first) as i64;
    ideal.as_secs_f64() / (stamps[last] - stamps[first]).as_secs_f64() - 1.0
}

/// Sends 1000 packets a second, each with the time of its sending.
fn delay(millis: i64) {
    let delay = Span::from_millis(millis);
    let (hosts, engine) = emulated(LinkConfig { delay, ..LinkConfig::default() });
    let mut receiver = hosts.right.run(|| Receiver::open(VethHosts::DEVICE).expect("a receiver")).expect("a namespace");
    let mut sender = hosts.left.run(|| Sender::open(VethHosts::DEVICE).expect("a sender")).expect("a namespace");
    let mut added = Vec::new();
    let mut packet = packet(200);
    for _ in 0..5000 {
        packet[34..42].copy_from_slice(&clock::realtime().as_nanos().to_ne_bytes());
        sender.send(&[OutgoingFrame::new(&packet[..14], &packet[14..])], |_, error| panic!("{error}"));
        thread::sleep(Duration::from_micros(940));
        while receiver.next(|arrived| {
            if let Some(sent) = ours(arrived.frame).then(|| arrived.frame[34..].first_chunk::<8>()).flatten() {
                added.push(arrived.stamp - Time::from_nanos(i64::from_ne_bytes(*sent)) - delay);
            }
        }) {}
    }
    added.sort_unstable();
    let (p50, p99) = (quantile(&added, 50), quantile(&added, 99));
    let is_met = added[0] >= Span::ZERO && p50 <= Span::from_micros(15) && p99 <= Span::from_micros(100);
    println!(
        "delay {millis} ms: added p0 {} p50 {p50} p99 {p99} max {} (target 0, 15 and 100 µs: {}); {}",
        added[0],
        quantile(&added, 100),
        met(is_met),
        late(&engine)
    );
}

/// Sends as much as goes, and counts what comes out.
fn packets() {
    let shaped = LinkConfig { rate: Some(Rate::from_mbit(900)), delay: Span::from_millis(1), ..LinkConfig::default() };
    let (hosts, engine) = emulated(shaped);
    let mut sender = hosts.left.run(|| Sender::open(VethHosts::DEVICE).expect("a sender")).expect("a namespace");
    // 64 bytes with the frame's check sequence, which veth has not.
    let packet = packet(46);
    let seconds = 4;
    let is_done = &AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        scope.spawn(move || {
            let batch = [OutgoingFrame::new(&packet[..14], &packet[14..]); kumade_net::packet_socket::MAX_BATCH_FRAMES];
            while !is_done.load(Ordering::Relaxed) {
                sender.send(&batch, |_, _| {});
            }
        });
        thread::sleep(Duration::from_millis(500));
        let before = received(&hosts);
        thread::sleep(Duration::from_secs(seconds));
        let after = received(&hosts);
        is_done.store(true, Ordering::Relaxed);
        after - before
    });
    let [there, _] = engine.statistics();
    let rate = counted / seconds;
    println!(
        "packets of 64 bytes: {rate} a second through (target 200000: {}); {} of {} dropped; {}",
        met(rate >= 200_000),
        there.counts.total_dropped().packets,
        there.counts.offered.packets,
        late(&engine)
    );
}

/// A hundred links of 10 Mbit/s in one thread: full, and idle.
fn links() {
    const COUNT: usize = 100;
    const LENGTH: Span = Span::from_secs(10);
    let rate = Rate::from_mbit(10);
    let (hosts, engines) = many_links(COUNT, &LinkConfig { rate: Some(rate), ..LinkConfig::default() });
    let open = |number: usize| hosts.left.run(|| Sender::open(&format!("left{number}")).expect("a sender"));
    let mut senders: Vec<_> = (0..COUNT).map(|number| open(number).expect("a namespace")).collect();
    thread::sleep(Duration::from_secs(2));
    let (switches, begun) = (engine_switches(), Instant::now());
    thread::sleep(Duration::from_secs(10));
    let wake_ups = (engine_switches() - switches) as f64 / begun.elapsed().as_secs_f64();
    let packet = packet(1500);
    // A little less than the links carry.
    let interval = rate.time_for(1500).as_nanos() * 100 / 98 / COUNT as i64;
    let (begun, cpu, mut sent) = (clock::monotonic(), engine_cpu(), 0_usize);
    while clock::monotonic() - begun < LENGTH {
        let due = ((clock::monotonic() - begun).as_nanos() / interval) as usize;
        while sent < due {
            let frame = [OutgoingFrame::new(&packet[..14], &packet[14..])];
            senders[sent % COUNT].send(&frame, |_, error| panic!("{error}"));
            sent += 1;
        }
        thread::sleep(Duration::from_micros(100));
    }
    let used = (engine_cpu() - cpu).as_secs_f64() / (clock::monotonic() - begun).as_secs_f64() * 100.0;
    thread::sleep(Duration::from_millis(500));
    let statistics: Vec<_> = engines.iter().map(|engine| engine.statistics()[0].clone()).collect();
    let delivered: u64 = statistics.iter().map(|there| there.counts.delivered.packets).sum();
    // What a host says of itself unasked may come besides.
    let lost = (sent as u64).saturating_sub(delivered)
        + statistics.iter().map(|there| there.counts.total_dropped().packets).sum::<u64>();
    let memory = resident_megabytes();
    println!(
        "{COUNT} links of 10 Mbit/s: {:.0} Mbit/s in all, {used:.0} % of a core (target 100: {}), {lost} of {sent} lost (target 0: {}), \
         {memory} MB resident (target 300: {}); idle {wake_ups:.1} wake-ups a second (target 5: {}); of all links the latest: {}",
        delivered as f64 * 12_000.0 / LENGTH.as_secs_f64() / 1e6,
        met(used <= 100.0),
        met(lost == 0),
        met(memory <= 300),
        met(wake_ups <= 5.0),
        engines.iter().max_by_key(|engine| lateness_p99(engine)).map(late).unwrap_or_default()
    );
}

/// Two hosts, and so many links between them in one thread, each with two interfaces of its own.
fn many_links(count: usize, link: &LinkConfig) -> (VethHosts, Vec<Engine>) {
    let hosts = VethHosts::new(1500).expect("hosts");
    for (host, side) in [(&hosts.left, "left"), (&hosts.right, "right")] {
        let path = hosts.middle.path();
        let mut batch = String::new();
        for number in 0..count {
            batch += &format!("link add {side}{number} type veth peer name {side}{number} netns {path}\n");
            batch += &format!("link set {side}{number} up\n");
        }
        ip_batch(host, &batch);
        ip_batch(&hosts.middle, &(0..count).map(|number| format!("link set {side}{number} up\n")).collect::<String>());
    }
    let queue = QueueConfig { limit: QueueLimit::Packets(1000), discipline: Discipline::default() };
    let direction = |link| DirectionConfig::new(link, queue.clone(), Vec::new()).expect("possible settings");
    let config = |number: usize| EngineConfig {
        ports: ["left", "right"].map(|side| PortSpec::Interface(format!("{side}{number}"))),
        directions: [direction(link.clone()), direction(LinkConfig::default())],
        end_notice: Default::default(),
    };
    let start = || Engine::start_all((0..count).map(config).collect());
    let engines = hosts.middle.run(start).expect("a namespace").expect("links");
    (hosts, engines)
}

fn ip_batch(host: &Namespace, lines: &str) {
    let mut ip = host.command("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("iproute2");
    ip.stdin.take().expect("its input").write_all(lines.as_bytes()).expect("its input");
    assert!(ip.wait().expect("iproute2").success(), "{lines}");
}

/// How often the engine's thread has waited for something.
fn engine_switches() -> u64 {
    let status = engine_tasks().map(|task| fs::read_to_string(task.join("status")).unwrap_or_default());
    let voluntary = status.filter_map(|text| {
        text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse::<u64>().ok()
    });
    voluntary.sum()
}

/// What this process, the sender included, has in memory.
fn resident_megabytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a count") / 1000
}

/// One TCP connection through the link, and through the kernel's HTB, at the same rate, in turn.
fn tcp(mbit: u64) {
    let link = LinkConfig { rate: Some(Rate::from_mbit(mbit)), ..LinkConfig::default() };
    let runs = [0; 3].map(|_| {
        let (hosts, engine) = emulated(link.clone());
        let (begun, before) = (clock::monotonic(), engine_cpu());
        let through_link = tcp_rate(&hosts);
        let used = (engine_cpu() - before).as_secs_f64() / (clock::monotonic() - begun).as_secs_f64() * 100.0;
        drop(engine);
        let through_htb = tcp_rate(&shaped_by_htb(mbit));
        println!(
            "TCP at {mbit} Mbit/s: {through_link:.0} Mbit/s through the link, {used:.0} % of a core; {through_htb:.0} through HTB"
        );
        (through_link / through_htb, used)
    });
    let mut ratios = runs.map(|(ratio, _)| ratio);
    ratios.sort_unstable_by(f64::total_cmp);
    println!(
        "TCP at {mbit} Mbit/s: {:.2} × HTB, the median of three (target 0.8: {})",
        ratios[1],
        met(ratios[1] >= 0.8)
    );
}

/// What one TCP connection delivers within four seconds, in Mbit/s, after one second.
fn tcp_rate(hosts: &VethHosts) -> f64 {
    const WARM_UP: Duration = Duration::from_secs(1);
    const LENGTH: Duration = Duration::from_secs(4);
    let listener = hosts.right.run(|| TcpListener::bind("10.79.0.2:0").expect("a listener")).expect("a namespace");
    let address = listener.local_addr().expect("an address");
    let mut stream = hosts.left.run(|| TcpStream::connect(address).expect("a connection")).expect("a namespace");
    let mut receiver = listener.accept().expect("a connection").0;
    let sending = thread::spawn(move || while stream.write_all(&[0; 1 << 16]).is_ok() {});
    let (mut buffer, mut bytes, begun) = (vec![0; 1 << 18], 0, Instant::now());
    while begun.elapsed() < WARM_UP + LENGTH {
        let read = receiver.read(&mut buffer).expect("bytes");
        bytes += if begun.elapsed() >= WARM_UP { read } else { 0 };
    }
    drop(receiver);
    sending.join().expect("a sender");
    bytes as f64 * 8.0 / LENGTH.as_secs_f64() / 1e6
}

/// Two hosts, and a bridge between them that the kernel's HTB shapes on the way to the right.
fn shaped_by_htb(mbit: u64) -> VethHosts {
    let hosts = VethHosts::new(1500).expect("hosts");
    let [one, two] = VethHosts::MIDDLE_INTERFACES;
    let commands = [
        "ip link add name bridge type bridge".to_owned(),
        format!("ip link set {one} master bridge"),
        format!("ip link set {two} master bridge"),
        "ip link set bridge up".into(),
        format!("tc qdisc add dev {two} root handle 1: htb default 1"),
        format!("tc class add dev {two} parent 1: classid 1:1 htb rate {mbit}mbit quantum 60000"),
        format!("tc qdisc add dev {two} parent 1:1 pfifo limit 10000"),
    ];
    for command in commands {
        let mut words = command.split_whitespace();
        let program = words.next().expect("a program");
        let status = hosts.middle.command(program).args(words).status().expect("iproute2");
        assert!(status.success(), "{command}");
    }
    hosts
}

/// Two hosts, and the link between them; the way back changes nothing.
fn emulated(link: LinkConfig) -> (VethHosts, Engine) {
    let hosts = VethHosts::new(1500).expect("hosts");
    let queue = QueueConfig { limit: QueueLimit::Packets(10_000), discipline: Discipline::default() };
    let direction = |link| DirectionConfig::new(link, queue.clone(), Vec::new()).expect("possible settings");
    let ports = VethHosts::MIDDLE_INTERFACES.map(|name| PortSpec::Interface(name.into()));
    let start = || Engine::start(ports, [direction(link), direction(LinkConfig::default())], Default::default());
    let engine = hosts.middle.run(start).expect("a namespace").expect("a link");
    (hosts, engine)
}

/// An Ethernet frame with so many bytes of IP.
fn packet(length: u16) -> Vec<u8> {
    let mut frame = HEADER.to_vec();
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame.resize(14 + usize::from(length), 0);
    frame
}

fn ours(frame: &[u8]) -> bool {
    frame.get(..14) == Some(&HEADER[..14])
}

/// Packets that the right host's interface has taken.
fn received(hosts: &VethHosts) -> u64 {
    let table = hosts.right.run(|| fs::read_to_string("/proc/thread-self/net/dev").expect("the table"));
    let table = table.expect("a namespace");
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(VethHosts::DEVICE)?.strip_prefix(':'))
        .expect("the interface");
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("a count")
}

fn quantile(sorted: &[Span], percent: usize) -> Span {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

/// The time that the engine's thread has had on a processor.
fn engine_cpu() -> Span {
    let read = |task: PathBuf| fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let nanos = engine_tasks().filter_map(|task| read(task).split(' ').next()?.parse::<i64>().ok());
    Span::from_nanos(nanos.sum())
}

/// Where the system tells of the engine's thread.
fn engine_tasks() -> impl Iterator<Item = PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads").map(|task| task.expect("a thread").path());
    tasks.filter(|task| fs::read_to_string(task.join("comm")).unwrap_or_default().trim() == "emulator")
}

fn lateness_p99(engine: &Engine) -> Span {
    engine.statistics()[0].lateness.quantile(0.99).unwrap_or_default()
}

/// How late the emulator itself saw its packets written, and what it dropped for want of time.
fn late(engine: &Engine) -> String {
    let [there, _] = engine.statistics();
    let of = |part| there.lateness.quantile(part).unwrap_or_default();
    let overload = there.counts.dropped_for(DropCause::Overload).packets;
    format!("late p50 {} p99 {} max {}, overload {overload}", of(0.5), of(0.99), of(1.0))
}
