//! The path of a seed, in the words of `tc` and `nft`.

use super::scenario::KernelPathKind;
use kumade_link::{CrossConfig, CrossKind, PeriodLengths, SizeMix};
use kumade_netns_testbed::RouterSide;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What programs of a machine that does other work, too, send and receive in time, in bit/s.
const RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (6e6, 100e6);
/// Of a narrow link that is not the tight one, …
const NARROW_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (6e6, 30e6);
/// … which is so many times as fast: programs send its cross traffic, too.
const TIGHT_RATE_RATIO_RANGE: (f64, f64) = (2.0, 4.0);
/// The line behind a large bucket.
const LINE_RATE: Rate = Rate::from_mbit(200);
/// TBF loses what passes the line while it is served late: on a busy machine, a quarter of a millisecond.
const PEAK_BUCKET_BYTES: u64 = 9000;
/// A second of it, which nftables adds to its bucket, is less than a measurement sends.
const POLICED_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (2e6, 6e6);
const PACKET_BYTES: u32 = 1500;
/// Leaves of HTB among which flows are divided by their ports.
const LEAVES: u32 = 16;
/// When the rate changes, from the beginning of a measurement on, in seconds: the method's trains take about a second of the 3 to 5.
const RATE_CHANGE_RANGE_SECONDS: (f64, f64) = (0.3, 2.0);

/// A path up from `a` to `b`.
#[derive(Debug, Clone)]
pub(super) struct KernelPath {
    /// The shapers in the order of the way up; one or two.
    pub(super) hops: Vec<KernelHop>,
    /// The rate that the first one has so long after the beginning of a measurement.
    pub(super) later_rate: Option<(Span, Rate)>,
    /// Whether flows have queues of their own.
    pub(super) has_flow_queueing: bool,
    /// Whether it passes bursts at another rate than the sustained one.
    pub(super) has_bucket: bool,
}

/// A shaper at a router.
#[derive(Debug, Clone)]
pub(super) struct KernelHop {
    /// What it sustains, counted in IP packets.
    pub(super) rate: Rate,
    /// What the router is told.
    pub(super) commands: Vec<String>,
    /// What else is sent through it.
    pub(super) cross: Vec<CrossConfig>,
}

/// What is drawn from.
struct Draw {
    rng: Pcg64Mcg,
    seed: u64,
}

impl KernelPath {
    /// Always the same of a kind and a seed.
    pub(super) fn new(kind: KernelPathKind, seed: u64) -> Self {
        use KernelPathKind::{
            Bursts, FqCodel, HtbBucket, HtbInTurn, OnOff, Policer, RateStep, Sfq, Tbf, TbfBucket, TbfUnsent, TightLink,
        };
        // Paths of two kinds have nothing in common.
        let mut draw = Draw { rng: Pcg64Mcg::seed_from_u64(seed ^ ((kind as u64 + 1) << 48)), seed };
        let rate = draw.rate(match kind {
            Policer => POLICED_RATE_RANGE_BITS_PER_SECOND,
            TightLink => NARROW_RATE_RANGE_BITS_PER_SECOND,
            _ => RATE_RANGE_BITS_PER_SECOND,
        });
        let mut first = KernelHop { rate, commands: draw.commands(kind, rate), cross: Vec::new() };
        let mut path = KernelPath {
            hops: Vec::new(),
            later_rate: (kind == RateStep).then(|| {
                let (least, most) = RATE_CHANGE_RANGE_SECONDS;
                (Span::from_secs_f64(draw.between(least, most)), Rate::from_f64(rate.as_f64() * draw.between(1.5, 4.0)))
            }),
            has_flow_queueing: [HtbInTurn, FqCodel, Sfq].contains(&kind),
            has_bucket: [HtbBucket, Policer, Tbf, TbfBucket, TbfUnsent].contains(&kind),
        };
        match kind {
            TightLink => {
                let tight =
                    Rate::from_f64(rate.as_f64() * draw.between(TIGHT_RATE_RATIO_RANGE.0, TIGHT_RATE_RATIO_RANGE.1));
                let left = rate.as_f64() * draw.between(0.3, 0.7);
                let cross = draw.traffic(Rate::from_f64(tight.as_f64() - left), tight);
                let commands = draw.commands(kind, tight);
                path.hops = vec![first, KernelHop { rate: tight, commands, cross: vec![cross] }];
                if draw.between(0.0, 1.0) < 0.5 {
                    path.hops.reverse();
                }
                return path.renamed();
            }
            // Quiet.
            TbfUnsent => {}
            OnOff => {
                let part = draw.between(0.3, 0.7);
                first.cross = vec![draw.on_off(rate, part, Span::from_millis(1600), Span::from_millis(2400))];
            }
            Bursts => first.cross = vec![draw.bursts(rate, 40.0)],
            _ => {
                // One path in four is quiet.
                let part = (draw.between(0.0, 1.0) - 0.25).max(0.0);
                let flows = if part > 0.0 { draw.between(1.0, 4.0) as u32 } else { 0 };
                let each = Rate::from_f64(rate.as_f64() * part / f64::from(flows.max(1)));
                first.cross = (0..flows).map(|_| draw.traffic(each, rate)).collect();
            }
        }
        path.hops.push(first);
        path.renamed()
    }

    /// With the routers' own interfaces in place of that word.
    fn renamed(mut self) -> Self {
        for (hop, side) in self.hops.iter_mut().zip(RouterSide::BOTH) {
            hop.commands.iter_mut().for_each(|command| *command = command.replace("DEVICE", side.up_interface()));
        }
        self
    }

    /// What has the first shaper's rate change, and after which time.
    pub(super) fn rate_change(&self) -> Option<(Span, String)> {
        let (delay, rate) = self.later_rate?;
        let command = htb_class("change", "1:1", "1:", rate, bucket_below_packet(rate));
        Some((delay, command.replace("DEVICE", RouterSide::Left.up_interface())))
    }
}

impl Draw {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.rng.random_range(low..high)
    }

    /// Evenly over orders of magnitude.
    fn rate(&mut self, (low, high): (f64, f64)) -> Rate {
        Rate::from_f64(self.between(low.ln(), high.ln()).exp())
    }

    fn cross(&mut self, kind: CrossKind) -> CrossConfig {
        self.seed = self.seed.wrapping_add(1);
        CrossConfig { kind, start: Time::ZERO, phase: self.between(0.0, 1.0), seed: self.seed }
    }

    /// At this mean rate before a link of the other.
    fn traffic(&mut self, rate: Rate, link: Rate) -> CrossConfig {
        let jittered = CrossKind::Jittered { rate, size: PACKET_BYTES, jitter: 0.05 };
        match self.between(0.0, 4.0) as u32 {
            0 => self.cross(jittered),
            1 => self.cross(CrossKind::Poisson { rate, sizes: SizeMix::fixed(PACKET_BYTES) }),
            2 => self
                .cross(CrossKind::Poisson { rate, sizes: SizeMix::weighted([(100, 1), (576, 1), (PACKET_BYTES, 2)]) }),
            _ => {
                let part = rate.as_f64() / link.as_f64();
                let on = link.time_for(u64::from(PACKET_BYTES) * 10);
                self.on_off(
                    link,
                    part.max(0.01),
                    on,
                    Span::from_secs_f64(on.as_secs_f64() * (1.0 / part.max(0.01) - 1.0)),
                )
            }
        }
    }

    fn on_off(&mut self, link: Rate, part: f64, on: Span, off: Span) -> CrossConfig {
        let periods = if on > Span::from_millis(500) { PeriodLengths::Fixed } else { PeriodLengths::Exponential };
        let rate = if on > Span::from_millis(500) { Rate::from_f64(link.as_f64() * part) } else { link };
        self.cross(CrossKind::OnOff { rate, size: PACKET_BYTES, on, off, periods })
    }

    /// So many packets at a time, twice as fast as the link.
    fn bursts(&mut self, link: Rate, packets: f64) -> CrossConfig {
        let (fast, part) = (Rate::from_f64(link.as_f64() * 2.0), self.between(0.15, 0.6));
        let on = fast.time_for((f64::from(PACKET_BYTES) * packets) as u64);
        let off = Span::from_secs_f64(on.as_secs_f64() * (2.0 / part - 1.0));
        self.cross(CrossKind::OnOff { rate: fast, size: PACKET_BYTES, on, off, periods: PeriodLengths::Fixed })
    }

    fn commands(&mut self, kind: KernelPathKind, rate: Rate) -> Vec<String> {
        use KernelPathKind as Kind;
        let queue = rate.bytes_in(Span::from_secs_f64(self.between(0.05, 0.2))).max(60_000);
        let fifo = format!("bfifo limit {queue}");
        let (small, bits) = (bucket_below_packet(rate), rate.bits_per_second());
        let tbf = |burst: u64, line: &str| {
            vec![format!(
                "tc qdisc add dev DEVICE root handle 1: stab overhead -14 tbf rate {bits}bit burst {burst} {line} limit {}",
                queue + burst
            )]
        };
        let line = format!("peakrate {}bit mtu {PEAK_BUCKET_BYTES}", LINE_RATE.bits_per_second());
        match kind {
            Kind::HtbBucket => htb(rate, (1514.0 * self.between(2.0, 6.0)) as u64, &fifo),
            Kind::HtbInTurn => htb_in_turn(rate, small, &fifo),
            Kind::ShortQueue => htb(rate, small, &format!("pfifo limit {}", self.between(4.0, 20.0) as u32)),
            Kind::FqCodel => htb(rate, small, "fq_codel"),
            Kind::Sfq => htb(rate, small, "sfq"),
            Kind::Netem => {
                let (delay, loss) = (self.between(5.0, 40.0), self.between(0.0, 1.0));
                htb(rate, small, &format!("netem delay {delay:.1}ms loss {loss:.2}% limit 2000"))
            }
            Kind::Tbf => tbf((1514.0 * self.between(4.0, 12.0)) as u64, ""),
            Kind::TbfBucket => tbf(self.between(30e3, 300e3) as u64, &line),
            Kind::TbfUnsent => tbf(self.between(3e6, 6e6) as u64, &line),
            Kind::Policer => {
                let over = format!(
                    "limit rate over {} bytes/second burst {} bytes",
                    bits / 8,
                    self.between(10e3, 100e3) as u64
                );
                [htb(LINE_RATE, bucket_below_packet(LINE_RATE), &fifo), drops(&over)].concat()
            }
            Kind::Loss => {
                let lost = format!("ip saddr 10.78.1.2 numgen random mod 10000 < {}", self.between(20.0, 200.0) as u32);
                [htb(rate, small, &fifo), drops(&lost)].concat()
            }
            Kind::Htb | Kind::OnOff | Kind::Bursts | Kind::RateStep | Kind::TightLink => htb(rate, small, &fifo),
        }
    }
}

/// 64 µs of a link are closest to one.
fn bucket_below_packet(rate: Rate) -> u64 {
    rate.bytes_in(Span::from_micros(64)).max(800)
}

fn htb_root() -> String {
    "tc qdisc add dev DEVICE root handle 1: stab overhead -14 htb default 1".into()
}

fn htb_class(verb: &str, class: &str, parent: &str, rate: Rate, burst: u64) -> String {
    let rate = rate.bits_per_second();
    format!(
        "tc class {verb} dev DEVICE parent {parent} classid {class} htb rate {rate}bit ceil {rate}bit burst {burst} cburst {burst} quantum 1514"
    )
}

fn htb(rate: Rate, burst: u64, leaf: &str) -> Vec<String> {
    let leaf = format!("tc qdisc add dev DEVICE parent 1:1 {leaf}");
    vec![htb_root(), htb_class("add", "1:1", "1:", rate, burst), leaf]
}

/// Leaves that may each have all, and take turns.
fn htb_in_turn(rate: Rate, burst: u64, leaf: &str) -> Vec<String> {
    let filter = "tc filter add dev DEVICE parent 1: protocol ip prio 1";
    let all = rate.bits_per_second();
    let mut commands = vec![htb_root(), htb_class("add", "1:ffff", "1:", rate, burst)];
    commands.push(format!("{filter} handle 2: u32 divisor {LEAVES}"));
    // The last bits of the source port, behind an IPv4 header without options.
    commands
        .push(format!("{filter} u32 ht 800:: match u32 0 0 hashkey mask 0x{:08x} at 20 link 2:", (LEAVES - 1) << 16));
    for leaf_number in 0..LEAVES {
        let (class, least) = (format!("1:{:x}", leaf_number + 1), all / u64::from(LEAVES * 2));
        commands.push(format!(
            "tc class add dev DEVICE parent 1:ffff classid {class} htb rate {least}bit ceil {all}bit burst {burst} cburst {burst} quantum 1514"
        ));
        commands.push(format!("tc qdisc add dev DEVICE parent {class} {leaf}"));
        commands.push(format!("{filter} u32 ht 2:{leaf_number:x}: match u32 0 0 flowid {class}"));
    }
    commands
}

/// What the left router drops before its shaper.
fn drops(condition: &str) -> Vec<String> {
    vec![
        "nft add table inet kumade".into(),
        "nft add chain inet kumade before { type filter hook forward priority 0 ; }".into(),
        format!("nft add rule inet kumade before oifname {} {condition} drop", RouterSide::Left.up_interface()),
    ]
}
