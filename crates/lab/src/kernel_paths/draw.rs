//! The path of a seed, in the words of `tc` and `nft`.

use super::scenario::KernelPathKind;
use kumade_link::{CrossConfig, CrossKind, PeriodLengths, SizeMix, TokenBucket};
use kumade_netns_testbed::{
    RouterSide, drop_commands, htb_burst_bytes, htb_class_command, htb_commands, policer_commands, shaper_root,
    tbf_command,
};
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What programs of a machine that does other work, too, send and receive in time, in bit/s.
const RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (6e6, 100e6);
/// The same of a link that becomes up to four times as fast, or has one before or behind it for which programs send traffic.
const SLOW_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (6e6, 25e6);
/// How many times as fast the tight link is as the narrow one.
const TIGHT_RATE_RATIO_RANGE: (f64, f64) = (2.0, 4.0);
/// How many times as fast a link becomes.
const LATER_RATE_RATIO_RANGE: (f64, f64) = (1.5, 4.0);
/// The line behind a large bucket: faster than what is behind a shaper. Only as much as the bucket holds has to be sent in time.
const LINE_RATE: Rate = Rate::from_mbit(200);
/// TBF loses what passes the line while it is served late: on a busy machine, a quarter of a millisecond.
const PEAK_BUCKET_BYTES: u64 = 9000;
/// A second of it, which nftables adds to its bucket, is less than a measurement sends.
const POLICED_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (2e6, 6e6);
const PACKET_BYTES: u32 = 1500;
/// In its Ethernet frame: buckets are of these.
const FRAME_BYTES: f64 = 1514.0;
/// Buckets of HTB, whose own default at these rates is a few packets, and of TBF, which is to pass some at a time.
const HTB_BUCKET_RANGE_PACKETS: (f64, f64) = (2.0, 6.0);
const TBF_BUCKET_RANGE_PACKETS: (f64, f64) = (4.0, 12.0);
/// Buckets that trains empty, …
const BUCKET_RANGE_BYTES: (f64, f64) = (30e3, 300e3);
const POLICER_BUCKET_RANGE_BYTES: (f64, f64) = (10e3, 100e3);
/// … and one that holds more than a measurement sends.
const UNSENT_BUCKET_RANGE_BYTES: (f64, f64) = (3e6, 6e6);
/// Of queues that hold a train, as home routers have, …
const QUEUE_RANGE_SECONDS: (f64, f64) = (0.05, 0.2);
/// … 40 packets at least, and of queues that do not.
const MIN_QUEUE_BYTES: u64 = 60_000;
const SHORT_QUEUE_RANGE_PACKETS: (f64, f64) = (4.0, 20.0);
/// What netem adds on a path within a continent, and loses.
const NETEM_DELAY_RANGE_MILLISECONDS: (f64, f64) = (5.0, 40.0);
const NETEM_LOSS_RANGE_PERCENT: (f64, f64) = (0.0, 1.0);
/// What is lost before HTB.
const LOSS_RANGE_PER_TEN_THOUSAND: (f64, f64) = (20.0, 200.0);
/// What the tight link leaves of the narrow one's rate, and what traffic that is sent at times takes meanwhile, as parts of it.
const PART_RANGE: (f64, f64) = (0.3, 0.7);
/// What bursts take on average.
const BURST_PART_RANGE: (f64, f64) = (0.15, 0.6);
const PACKETS_PER_BURST: f64 = 40.0;
/// Of traffic that is sent at times, as a flow of a method for adaptive video.
const ON_OFF_PERIODS: [Span; 2] = [Span::from_millis(1600), Span::from_millis(2400)];
/// Leaves of HTB among which flows are divided by their ports.
const LEAVES: u64 = 16;
/// When the rate changes, from the beginning of a measurement on, in seconds: the method's trains take about a second of the 3 to 5.
const RATE_CHANGE_RANGE_SECONDS: (f64, f64) = (0.3, 2.0);

/// A path up from `a` to `b`.
#[derive(Debug, Clone)]
pub(super) struct KernelPath {
    /// The shapers in the order of the way up; one or two.
    pub(super) hops: Vec<KernelHop>,
    /// The rate that the first one has so long after the beginning of a measurement.
    pub(super) later_rate: Option<(Span, Rate)>,
    /// Whether each flow has a queue of its own. Of leaves that flows are hashed to, two may share one.
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
struct Draw(Pcg64Mcg);

impl KernelPath {
    /// Always the same of a kind and a seed.
    pub(super) fn new(kind: KernelPathKind, seed: u64) -> Self {
        use KernelPathKind::{
            Bursts, FqCodel, HtbBucket, OnOff, Policer, RateStep, Sfq, Tbf, TbfBucket, TbfUnsent, TightLink,
        };
        // A kind draws by its place in the enum, so that two of them have nothing in common.
        let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed ^ ((kind as u64 + 1) << 40)));
        let rate = draw.rate(match kind {
            Policer => POLICED_RATE_RANGE_BITS_PER_SECOND,
            TightLink | RateStep => SLOW_RATE_RANGE_BITS_PER_SECOND,
            _ => RATE_RANGE_BITS_PER_SECOND,
        });
        let mut first = KernelHop { rate, commands: draw.commands(kind, rate), cross: Vec::new() };
        let mut path = KernelPath {
            hops: Vec::new(),
            later_rate: (kind == RateStep).then(|| {
                let delay = Span::from_secs_f64(draw.between(RATE_CHANGE_RANGE_SECONDS));
                (delay, Rate::from_f64(rate.as_f64() * draw.between(LATER_RATE_RATIO_RANGE)))
            }),
            has_flow_queueing: [FqCodel, Sfq].contains(&kind),
            has_bucket: [HtbBucket, Policer, Tbf, TbfBucket, TbfUnsent].contains(&kind),
        };
        match kind {
            TightLink => {
                let tight = Rate::from_f64(rate.as_f64() * draw.between(TIGHT_RATE_RATIO_RANGE));
                let left = rate.as_f64() * draw.between(PART_RANGE);
                let cross = draw.traffic(Rate::from_f64(tight.as_f64() - left), tight);
                let commands = draw.commands(kind, tight);
                path.hops = vec![first, KernelHop { rate: tight, commands, cross: vec![cross] }];
                if draw.between((0.0, 1.0)) < 0.5 {
                    path.hops.reverse();
                }
                return path.renamed();
            }
            // Quiet.
            TbfUnsent => {}
            OnOff => {
                let sent = Rate::from_f64(rate.as_f64() * draw.between(PART_RANGE));
                first.cross = vec![draw.on_off(sent, ON_OFF_PERIODS, PeriodLengths::Fixed)];
            }
            Bursts => first.cross = vec![draw.bursts(rate)],
            _ => {
                // One path in four is quiet.
                let part = (draw.between((0.0, 1.0)) - 0.25).max(0.0);
                let flows = if part > 0.0 { draw.between((1.0, 4.0)) as u32 } else { 0 };
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
        let device = RouterSide::Left.up_interface();
        Some((delay, htb_class_command("change", device, ["1:", "1:1"], [rate; 2], htb_burst_bytes(rate))))
    }
}

impl Draw {
    fn between(&mut self, (low, high): (f64, f64)) -> f64 {
        self.0.random_range(low..high)
    }

    /// Evenly over orders of magnitude.
    fn rate(&mut self, (low, high): (f64, f64)) -> Rate {
        Rate::from_f64(self.between((low.ln(), high.ln())).exp())
    }

    fn cross(&mut self, kind: CrossKind) -> CrossConfig {
        CrossConfig { kind, start: Time::ZERO, phase: self.between((0.0, 1.0)), seed: self.0.random() }
    }

    /// At this mean rate before a link of the other.
    fn traffic(&mut self, rate: Rate, link: Rate) -> CrossConfig {
        let poisson = |sizes| CrossKind::Poisson { rate, sizes };
        match self.between((0.0, 4.0)) as u32 {
            0 => self.cross(CrossKind::Jittered { rate, size: PACKET_BYTES, jitter: 0.05 }),
            1 => self.cross(poisson(SizeMix::fixed(PACKET_BYTES))),
            2 => self.cross(poisson(SizeMix::weighted([(100, 1), (576, 1), (PACKET_BYTES, 2)]))),
            _ => {
                let part = (rate.as_f64() / link.as_f64()).max(0.01);
                let on = link.time_for(u64::from(PACKET_BYTES) * 10);
                let off = Span::from_secs_f64(on.as_secs_f64() * (1.0 / part - 1.0));
                self.on_off(link, [on, off], PeriodLengths::Exponential)
            }
        }
    }

    fn on_off(&mut self, rate: Rate, [on, off]: [Span; 2], periods: PeriodLengths) -> CrossConfig {
        self.cross(CrossKind::OnOff { rate, size: PACKET_BYTES, on, off, periods })
    }

    /// Twice as fast as the link.
    fn bursts(&mut self, link: Rate) -> CrossConfig {
        let (fast, part) = (Rate::from_f64(link.as_f64() * 2.0), self.between(BURST_PART_RANGE));
        let on = fast.time_for((f64::from(PACKET_BYTES) * PACKETS_PER_BURST) as u64);
        let off = Span::from_secs_f64(on.as_secs_f64() * (2.0 / part - 1.0));
        self.on_off(fast, [on, off], PeriodLengths::Fixed)
    }

    fn commands(&mut self, kind: KernelPathKind, rate: Rate) -> Vec<String> {
        use KernelPathKind as Kind;
        let queue = rate.bytes_in(Span::from_secs_f64(self.between(QUEUE_RANGE_SECONDS))).max(MIN_QUEUE_BYTES);
        let (fifo, small, root) = (format!("bfifo limit {queue}"), htb_burst_bytes(rate), shaper_root("DEVICE"));
        let htb = |rate, burst, leaf: &str| htb_commands("DEVICE", &root, rate, burst, leaf);
        let tbf = |burst_bytes: f64, line| {
            let bucket = TokenBucket { rate, burst_bytes: burst_bytes as u64 };
            vec![tbf_command(&root, bucket, line, queue + bucket.burst_bytes)]
        };
        let line = Some((LINE_RATE, PEAK_BUCKET_BYTES));
        match kind {
            Kind::HtbBucket => htb(rate, (FRAME_BYTES * self.between(HTB_BUCKET_RANGE_PACKETS)) as u64, &fifo),
            Kind::HtbInTurn => htb_in_turn(rate, small, &fifo),
            Kind::ShortQueue => {
                htb(rate, small, &format!("pfifo limit {}", self.between(SHORT_QUEUE_RANGE_PACKETS) as u32))
            }
            Kind::FqCodel => htb(rate, small, "fq_codel"),
            Kind::Sfq => htb(rate, small, "sfq"),
            Kind::Netem => {
                let delay = self.between(NETEM_DELAY_RANGE_MILLISECONDS);
                let loss = self.between(NETEM_LOSS_RANGE_PERCENT);
                htb(rate, small, &format!("netem delay {delay:.1}ms loss {loss:.2}% limit 2000"))
            }
            Kind::Tbf => tbf(FRAME_BYTES * self.between(TBF_BUCKET_RANGE_PACKETS), None),
            Kind::TbfBucket => tbf(self.between(BUCKET_RANGE_BYTES), line),
            Kind::TbfUnsent => tbf(self.between(UNSENT_BUCKET_RANGE_BYTES), line),
            Kind::Policer => {
                let burst_bytes = self.between(POLICER_BUCKET_RANGE_BYTES) as u64;
                let policer = policer_commands("DEVICE", TokenBucket { rate, burst_bytes });
                [htb(LINE_RATE, htb_burst_bytes(LINE_RATE), &fifo), policer].concat()
            }
            Kind::Loss => {
                // The router's interface to `a` bears its name.
                let part = self.between(LOSS_RANGE_PER_TEN_THOUSAND) as u32;
                let lost = drop_commands("DEVICE", &format!("iifname a numgen random mod 10000 < {part}"));
                [htb(rate, small, &fifo), lost].concat()
            }
            Kind::Htb | Kind::OnOff | Kind::Bursts | Kind::RateStep | Kind::TightLink => htb(rate, small, &fifo),
        }
    }
}

/// Leaves that may each have all, and take turns.
fn htb_in_turn(rate: Rate, burst: u64, leaf: &str) -> Vec<String> {
    let filter = "tc filter add dev DEVICE parent 1: protocol ip prio 1";
    let class = |ids: [&str; 2], least| htb_class_command("add", "DEVICE", ids, [least, rate], burst);
    let mut commands = vec![format!("{} htb default 1", shaper_root("DEVICE")), class(["1:", "1:ffff"], rate)];
    commands.push(format!("{filter} handle 2: u32 divisor {LEAVES}"));
    // The last bits of the source port, behind an IPv4 header without options.
    commands
        .push(format!("{filter} u32 ht 800:: match u32 0 0 hashkey mask 0x{:08x} at 20 link 2:", (LEAVES - 1) << 16));
    let least = Rate::from_bits_per_second(rate.bits_per_second() / (LEAVES * 2));
    for leaf_number in 0..LEAVES {
        let id = format!("1:{:x}", leaf_number + 1);
        commands.push(class(["1:ffff", &id], least));
        commands.push(format!("tc qdisc add dev DEVICE parent {id} {leaf}"));
        commands.push(format!("{filter} u32 ht 2:{leaf_number:x}: match u32 0 0 flowid {id}"));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use KernelPathKind as Kind;

    #[test]
    fn a_seed_draws_the_same_path_of_a_kind_again_and_others_of_other_kinds() {
        let kinds = [
            [Kind::Htb, Kind::HtbBucket, Kind::HtbInTurn, Kind::ShortQueue, Kind::Loss, Kind::OnOff],
            [Kind::Bursts, Kind::RateStep, Kind::TightLink, Kind::Tbf, Kind::TbfBucket, Kind::TbfUnsent],
        ];
        let rest = [Kind::Policer, Kind::FqCodel, Kind::Sfq, Kind::Netem];
        let drawn = |kind, seed| format!("{:?}", KernelPath::new(kind, seed));
        let mut seen = std::collections::BTreeSet::new();
        for kind in kinds.into_iter().flatten().chain(rest) {
            for seed in 0..4 {
                assert_eq!(drawn(kind, seed), drawn(kind, seed), "{kind:?}, seed {seed}");
                let path = KernelPath::new(kind, seed);
                assert!(seen.insert(format!("{:?}", path.hops)), "{kind:?}, seed {seed}: drawn before");
                assert!(path.hops.iter().flat_map(|hop| &hop.commands).all(|command| !command.contains("DEVICE")));
            }
        }
    }
}
