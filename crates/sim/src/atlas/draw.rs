//! The path of a seed.

use super::cellular;
use super::kind::PathKind;
use crate::elastic::ElasticFlow;
use crate::path::{PathHop, Stamping, VirtualPath};
use crate::proxy::{HEADER_BYTES, Proxy};
use crate::tcp::congestion::CongestionControl;
use kumade_link::queue::{DisciplineSettings, QueueConfig, QueueLimit};
use kumade_link::{
    CrossConfig, CrossKind, LinkConfig, Loss, Medium, PeriodLengths, RateSchedule, Reordering, SizeMix, TokenBucket,
    Wireless,
};
use kumade_units::{ConfigError, Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A path of the atlas.
#[derive(Debug, Clone)]
pub struct DrawnPath {
    /// What is special about it.
    pub kind: PathKind,
    /// It was drawn from this.
    pub seed: u64,
    /// Its links in the direction that is measured.
    pub hops: Vec<PathHop>,
    /// Whether they are side by side, and each flow takes one of them.
    pub has_ecmp_links: bool,
    /// What it carries in the long run without cross traffic.
    pub sustained_rate: Rate,
    /// What cross traffic leaves less than that on average: its mean rate, where the path is one link.
    pub cross_rate: Rate,
    /// Flows of cross traffic.
    pub cross_flows: u32,
    /// TCP connections, where these are the cross traffic.
    pub elastic_flows: Vec<ElasticFlow>,
    /// Whether each flow has a queue of its own.
    pub has_flow_queueing: bool,
    /// The policer or the shaper on it.
    pub token_bucket: Option<TokenBucket>,
    /// The largest packet that passes, where that is special.
    pub mtu: Option<u32>,
    /// What ends TCP connections behind the first link.
    pub proxy: Option<Proxy>,
    /// Errors of the hosts' stamps.
    pub stamping: Stamping,
}

/// Slower and faster bottlenecks are not drawn, in bit/s.
const RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (2e6, 300e6);
/// But for slow links.
const SLOW_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (64e3, 2e6);
/// And fast ones.
const FAST_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (1e9, 100e9);
/// And those beside senders that send in bursts, …
const BURSTY_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (20e6, 5e9);
/// … of so many bytes, …
const CROSS_BURST_RANGE_BYTES: (f64, f64) = (6e3, 64e3);
/// … of which the queue holds a few.
const MIN_BURSTY_QUEUE_BYTES: u64 = 300_000;
/// Of paths whose MTU is special, in bytes: the least that every host accepts, and that of jumbo frames.
const MTU_RANGE_BYTES: (f64, f64) = (576.0, 9000.0);
/// Of cross traffic.
const PACKET_SIZE_RANGE_BYTES: (f64, f64) = (64.0, 1500.0);
/// By which part the intervals of jittered cross traffic differ from equal ones at most.
const CROSS_TRAFFIC_JITTER_FRACTION: f64 = 0.05;
/// TCP connections have found their rates.
const ELASTIC_WARM_UP: Span = Span::from_secs(8);
/// Of links behind a proxy, in bit/s.
const MAX_FAR_BITS_PER_SECOND: f64 = 1e9;
/// Of delays that vary, in seconds, …
const JITTER_RANGE_SECONDS: (f64, f64) = (0.5e-3, 10e-3);
/// … and of a receiver's batches.
const BATCHING_RANGE_SECONDS: (f64, f64) = (20e-6, 500e-6);
/// What a path may be that has something else at its end.
const COMBINED_KINDS: [PathKind; 9] = [
    PathKind::Policer,
    PathKind::Shaper,
    PathKind::FqCoDel,
    PathKind::CoDel,
    PathKind::FairShare,
    PathKind::ShortQueue,
    PathKind::TightLink,
    PathKind::LoadBalanced,
    PathKind::Elastic,
];
/// Of one sender that pauses: how long it sends, and how long it does not, in seconds.
const PAUSE_RANGE_SECONDS: (f64, f64) = (0.2, 3.0);
/// When the rate of a link changes, in seconds after a measurement has begun, whose method's trains take about a second of the first two or three, …
const RATE_STEP_RANGE_SECONDS: (f64, f64) = (0.2, 3.0);
/// … and by which factor.
const RATE_STEP_RATIO_RANGE: (f64, f64) = (1.5, 4.0);
/// A path is as old when a measurement begins.
const WARM_UP: Span = Span::from_millis(500);
/// Of cellular links.
const CELLULAR_RATE_RANGE_BITS_PER_SECOND: (f64, f64) = (2e6, 60e6);

impl DrawnPath {
    /// The path of this kind and seed: always the same.
    pub fn new(kind: PathKind, seed: u64) -> Self {
        // Paths of two kinds have nothing in common.
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ ((kind as u64 + 1) << 48));
        match kind {
            PathKind::Combined => Self::draw_combined(seed, &mut random),
            _ => Self::draw_kind(kind, seed, &mut random),
        }
    }

    fn draw_combined(seed: u64, random: &mut Pcg64Mcg) -> Self {
        let kind = COMBINED_KINDS[random.random_range(0..COMBINED_KINDS.len())];
        let mut path = DrawnPath { kind: PathKind::Combined, ..Self::draw_kind(kind, seed, random) };
        let last = path.hops.len() - 1;
        let ends = if path.has_ecmp_links { 0.. } else { last.. };
        match random.random_range(0..4) {
            0 => {
                path.stamping.batching =
                    Span::from_secs_f64(draw_logarithmic(random, BATCHING_RANGE_SECONDS.0, BATCHING_RANGE_SECONDS.1))
            }
            1 => {
                let loss = Loss::Independent(draw_logarithmic(random, 0.001, 0.01));
                path.hops[ends].iter_mut().for_each(|hop| hop.link.loss = loss);
            }
            2 if path.elastic_flows.is_empty() && !path.has_ecmp_links => {
                let rate = Rate::from_f64((path.fastest_rate().as_f64() * random.random_range(1.5..5.0)).min(1e9));
                let jitter =
                    Span::from_secs_f64(draw_logarithmic(random, JITTER_RANGE_SECONDS.0, JITTER_RANGE_SECONDS.1));
                let delay = Span::from_micros(random.random_range(500..10_000));
                let jitter = jitter.into();
                let link =
                    LinkConfig { rate: Some(rate), delay, jitter, seed: random.random(), ..LinkConfig::default() };
                path.hops.insert(0, PathHop { link, queue: None, cross: Vec::new() });
            }
            _ => {
                let jitter =
                    Span::from_secs_f64(draw_logarithmic(random, JITTER_RANGE_SECONDS.0, JITTER_RANGE_SECONDS.1));
                path.hops[ends].iter_mut().for_each(|hop| hop.link.jitter = jitter.into());
            }
        }
        path
    }

    /// Of its links.
    fn fastest_rate(&self) -> Rate {
        self.hops.iter().filter_map(|hop| hop.link.rate).max().unwrap_or(self.sustained_rate)
    }

    fn draw_kind(kind: PathKind, seed: u64, random: &mut Pcg64Mcg) -> Self {
        let (slowest, fastest) = match kind {
            PathKind::SlowLink => SLOW_RATE_RANGE_BITS_PER_SECOND,
            PathKind::FastLink => FAST_RATE_RANGE_BITS_PER_SECOND,
            PathKind::BurstyCross => BURSTY_RATE_RANGE_BITS_PER_SECOND,
            _ => RATE_RANGE_BITS_PER_SECOND,
        };
        let rate = Rate::from_f64(draw_logarithmic(random, slowest, fastest).round());
        let mut path = DrawnPath {
            kind,
            seed,
            hops: Vec::new(),
            has_ecmp_links: kind == PathKind::LoadBalanced,
            sustained_rate: rate,
            cross_rate: Rate::ZERO,
            cross_flows: 0,
            elastic_flows: Vec::new(),
            has_flow_queueing: matches!(kind, PathKind::FqCoDel | PathKind::FairShare | PathKind::HostFair),
            token_bucket: None,
            mtu: None,
            proxy: None,
            stamping: Stamping::default(),
        };
        let link = LinkConfig {
            rate: Some(rate),
            queue_bytes: rate.bytes_in(Span::from_millis(random.random_range(20..200))).max(60_000),
            delay: Span::from_micros(random.random_range(500..25_000)),
            seed: random.random(),
            ..LinkConfig::default()
        };
        let link = path.add_special_property(link, random);
        let queue = discipline_of_kind(kind).map(|name| queue_config(name, rate, link.queue_bytes));
        let cross = if kind == PathKind::Elastic {
            path.elastic_flows = draw_elastic_flows(&link, random);
            path.cross_flows = path.elastic_flows.len() as u32;
            Vec::new()
        } else {
            path.draw_cross_traffic(random)
        };
        path.hops = match kind {
            PathKind::TightLink => path.draw_links_in_series(&link, random),
            PathKind::LoadBalanced => path.draw_ecmp_links(&link, random),
            PathKind::Proxy => path.draw_links_around_proxy(PathHop { link, queue, cross }, random),
            _ => vec![PathHop { link, queue, cross }],
        };
        path
    }

    /// The path, idle so far, with its cross traffic.
    ///
    /// # Errors
    /// A setting is out of range, which no path of the atlas has.
    pub fn build(&self) -> Result<VirtualPath, ConfigError> {
        if let (false, [hop]) = (self.elastic_flows.is_empty(), &self.hops[..]) {
            let mut path = VirtualPath::with_elastic_flows(&hop.link, &self.elastic_flows, self.stamping, self.seed)?;
            path.wait(ELASTIC_WARM_UP);
            return Ok(path);
        }
        let build = if self.has_ecmp_links { VirtualPath::over_ecmp_links } else { VirtualPath::new };
        let path = build(&self.hops, self.stamping, self.seed)?;
        let path = self.mtu.into_iter().fold(path, VirtualPath::with_mtu);
        let mut path = self.proxy.into_iter().fold(path, VirtualPath::with_proxy);
        path.wait(WARM_UP);
        Ok(path)
    }

    /// The links of the way back, the far end's first: fast and idle, and together as long as the way out. It is one, or one on either
    /// side of a proxy.
    pub fn return_links(&self) -> Vec<LinkConfig> {
        let link = |delay| LinkConfig { rate: Some(Rate::from_mbit(1000)), delay, ..LinkConfig::default() };
        let delays = self.hops.iter().rev().map(|hop| hop.link.delay);
        match self.proxy {
            Some(_) => delays.map(link).collect(),
            None => vec![link(delays.fold(Span::ZERO, |sum, delay| sum + delay))],
        }
    }

    /// The way back, idle so far.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_return_path(&self) -> Result<VirtualPath, ConfigError> {
        let hop = |link| PathHop { link, queue: None, cross: Vec::new() };
        let hops: Vec<PathHop> = self.return_links().into_iter().map(hop).collect();
        let path = VirtualPath::new(&hops, Stamping::default(), self.seed)?;
        let mut path = self.proxy.map(Proxy::reversed).into_iter().fold(path, VirtualPath::with_proxy);
        path.wait(WARM_UP);
        Ok(path)
    }

    fn add_special_property(&mut self, link: LinkConfig, random: &mut Pcg64Mcg) -> LinkConfig {
        let rate = self.sustained_rate;
        match self.kind {
            PathKind::Fifo
            | PathKind::FqCoDel
            | PathKind::CoDel
            | PathKind::Red
            | PathKind::FairShare
            | PathKind::TightLink
            | PathKind::LoadBalanced
            | PathKind::Elastic
            | PathKind::Pie
            | PathKind::HostFair
            | PathKind::PacketMix
            | PathKind::JitteredCross
            | PathKind::FastLink
            | PathKind::Proxy
            | PathKind::OnOff
            | PathKind::Combined => link,
            PathKind::RateStep => draw_rate_step(link, rate, random),
            PathKind::BurstyCross => LinkConfig { queue_bytes: link.queue_bytes.max(MIN_BURSTY_QUEUE_BYTES), ..link },
            PathKind::Mtu => {
                self.mtu = Some(draw_logarithmic(random, MTU_RANGE_BYTES.0, MTU_RANGE_BYTES.1) as u32);
                link
            }
            PathKind::Batching => {
                self.stamping.batching =
                    Span::from_secs_f64(draw_logarithmic(random, BATCHING_RANGE_SECONDS.0, BATCHING_RANGE_SECONDS.1));
                link
            }
            PathKind::Policer => {
                let policer = TokenBucket { rate, burst_bytes: draw_logarithmic(random, 10e3, 1e6) as u64 };
                self.token_bucket = Some(policer);
                LinkConfig { rate: Some(draw_faster_rate(random, rate)), policer: Some(policer), ..link }
            }
            PathKind::Shaper => {
                let bucket = TokenBucket { rate, burst_bytes: draw_logarithmic(random, 20e3, 1e6) as u64 };
                self.token_bucket = Some(bucket);
                LinkConfig {
                    rate: Some(draw_faster_rate(random, rate)),
                    medium: Some(Medium::TokenBucket(bucket)),
                    ..link
                }
            }
            PathKind::SmallBucket => {
                let bucket = TokenBucket { rate, burst_bytes: random.random_range(2 * 1500..4 * 1500) };
                self.token_bucket = Some(bucket);
                let line = Rate::from_f64((rate.as_f64() * draw_logarithmic(random, 2.0, 50.0)).round());
                LinkConfig { rate: Some(line), medium: Some(Medium::TokenBucket(bucket)), ..link }
            }
            PathKind::Jitter => LinkConfig {
                jitter: Span::from_secs_f64(draw_logarithmic(random, JITTER_RANGE_SECONDS.0, JITTER_RANGE_SECONDS.1))
                    .into(),
                ..link
            },
            PathKind::Wifi => self.draw_wireless(link, random),
            PathKind::Cellular => {
                self.sustained_rate = Rate::from_f64(
                    draw_logarithmic(
                        random,
                        CELLULAR_RATE_RANGE_BITS_PER_SECOND.0,
                        CELLULAR_RATE_RANGE_BITS_PER_SECOND.1,
                    )
                    .round(),
                );
                let medium = cellular::draw_trace(self.sustained_rate, random).ok().map(Medium::Trace);
                LinkConfig { queue_bytes: link.queue_bytes.max(400_000), medium, ..link }
            }
            PathKind::SlowLink => LinkConfig { queue_bytes: link.queue_bytes.max(60_000), ..link },
            PathKind::LongDelay => LinkConfig { delay: Span::from_millis(random.random_range(100..600)), ..link },
            PathKind::Reordering => {
                let extra = Span::from_secs_f64(draw_logarithmic(random, 0.2e-3, 5e-3));
                LinkConfig {
                    reordering: Reordering { probability: draw_logarithmic(random, 0.001, 0.05), extra },
                    ..link
                }
            }
            PathKind::Duplication => LinkConfig { duplication: draw_logarithmic(random, 0.001, 0.05), ..link },
            PathKind::ShortQueue => LinkConfig { queue_bytes: random.random_range(2..=10) * 1500, ..link },
            PathKind::Loss => {
                let ratio = draw_logarithmic(random, 0.001, 0.05);
                let in_bursts = Loss::bursts(ratio, random.random_range(1.5..6.0));
                let loss = in_bursts.ok().filter(|_| random.random_bool(0.3)).unwrap_or(Loss::Independent(ratio));
                LinkConfig { loss, ..link }
            }
        }
    }

    /// A wireless last hop whose aggregates are as small as those of old stations, or as large as those of newer ones.
    fn draw_wireless(&mut self, link: LinkConfig, random: &mut Pcg64Mcg) -> LinkConfig {
        let slowest = random.random_range(0..=7);
        let fastest = (slowest + random.random_range(0..=3)).min(9);
        let medium = Wireless { slowest, fastest, packets: random.random_range(5..=36), ..Wireless::default() };
        // About what it carries, at the scheme in the middle.
        let bytes = u64::from(medium.packets) * 1500;
        let physical = Wireless::physical_rate(slowest.midpoint(fastest));
        let backoff = Span::from_micros(9) * i64::from(medium.backoff_slots) / 2;
        self.sustained_rate = Rate::from_bytes_over(bytes, physical.time_for(bytes) + medium.overhead + backoff);
        let queue_bytes = self.sustained_rate.bytes_in(Span::from_millis(100)).max(400_000);
        LinkConfig { queue_bytes, medium: Some(Medium::Wireless(medium)), ..link }
    }

    /// A narrow link, a faster one of which less is left, and perhaps a third, in any order.
    fn draw_links_in_series(&mut self, narrow: &LinkConfig, random: &mut Pcg64Mcg) -> Vec<PathHop> {
        let rate = self.sustained_rate.as_f64();
        let left = rate * random.random_range(0.1..0.9);
        self.cross_rate = Rate::from_f64((rate - left).round());
        self.cross_flows = 1;
        let poisson = random.random_bool(0.5);
        // Of the others, at least a little more is left than of the tight link.
        let slack = |random: &mut Pcg64Mcg, rate: f64| {
            if random.random_bool(0.5) { rate } else { random.random_range((left * 1.15).min(rate * 0.999)..rate) }
        };
        let tight = rate * draw_logarithmic(random, 1.25, 10.0);
        let mut links = vec![(rate, slack(random, rate)), (tight, left)];
        if random.random_bool(0.3) {
            let third = rate * draw_logarithmic(random, 1.2, 10.0);
            links.push((third, slack(random, third)));
        }
        let first = random.random_range(0..links.len());
        links.swap(0, first);
        links.into_iter().map(|(rate, left)| loaded_hop(narrow, (rate, left), poisson, random)).collect()
    }

    /// Two to eight links of one rate or, less often, of different ones; 0.2 to 10 ms of delay lie between them, and each has its
    /// own cross traffic.
    fn draw_ecmp_links(&mut self, like: &LinkConfig, random: &mut Pcg64Mcg) -> Vec<PathHop> {
        let members = if random.random_bool(0.5) { 2 } else { random.random_range(3..=8) };
        let furthest = draw_logarithmic(random, 0.2e-3 * f64::from(members - 1), 10e-3);
        // Of what is not needed to keep any two 0.2 ms apart.
        let spare = (furthest - 0.2e-3 * f64::from(members - 1)).max(0.0);
        let mut places: Vec<f64> = (1..members).map(|_| random.random_range(0.0..1.0)).collect();
        places.sort_by(f64::total_cmp);
        let alike = random.random_bool(0.7);
        let member = |number: u32| {
            let place = if number == 0 { 0.0 } else { places[number as usize - 1] };
            let later = Span::from_secs_f64(0.2e-3 * f64::from(number) + spare * place);
            let rate = self.sustained_rate.as_f64() * if alike { 1.0 } else { random.random_range(0.5..1.0) };
            let load = if random.random_bool(0.3) { 0.0 } else { random.random_range(0.05..0.8) };
            let poisson = random.random_bool(0.5);
            let hop = loaded_hop(like, (rate, rate * (1.0 - load)), poisson, random);
            PathHop { link: LinkConfig { delay: like.delay + later, ..hop.link }, ..hop }
        };
        (0..members).map(member).collect()
    }

    /// Behind this link a proxy, and another link: mostly a faster one with little load, and sometimes one that carries less than this
    /// one has left. Either way the narrow link is the tight one.
    fn draw_links_around_proxy(&mut self, mut near: PathHop, random: &mut Pcg64Mcg) -> Vec<PathHop> {
        let (near_rate, near_left) =
            (self.sustained_rate.as_f64(), self.sustained_rate.as_f64() - self.cross_rate.as_f64());
        let far_is_tight = random.random_bool(0.3);
        let rate = match far_is_tight {
            true => near_left * random.random_range(0.2..0.85),
            false => (near_rate * draw_logarithmic(random, 1.5, 10.0)).min(MAX_FAR_BITS_PER_SECOND),
        };
        let load = match random.random_bool(0.5) {
            true => 0.0,
            false => random.random_range(0.05..if far_is_tight { 0.8 } else { 0.2 }),
        };
        let left = rate * (1.0 - load);
        let poisson = random.random_bool(0.5);
        let mut far = loaded_hop(&near.link, (rate, left), poisson, random);
        self.proxy = Some(draw_proxy(random));
        if random.random_bool(0.3) {
            let lossy = if random.random_bool(0.5) { &mut near.link } else { &mut far.link };
            lossy.loss = Loss::Independent(draw_logarithmic(random, 0.0005, 0.01));
        }
        self.sustained_rate = Rate::from_f64(near_rate.min(rate).round());
        self.cross_rate = Rate::from_f64((self.sustained_rate.as_f64() - near_left.min(left)).max(0.0).round());
        vec![near, far]
    }

    fn draw_cross_traffic(&mut self, random: &mut Pcg64Mcg) -> Vec<CrossConfig> {
        // The rate of a wireless link takes its course from the first packet on.
        let is_idle = random.random_bool(0.15) && self.kind != PathKind::Wifi;
        let load = if is_idle { 0.0 } else { random.random_range(0.05..0.8) };
        let flows = if self.has_flow_queueing { random.random_range(1..=4) } else { 1 };
        let poisson = random.random_bool(0.5);
        let sizes = if random.random_bool(0.5) { SizeMix::imix() } else { SizeMix::fixed(1500) };
        self.cross_rate = Rate::from_f64((self.sustained_rate.as_f64() * load).round());
        self.cross_flows = if load > 0.0 { flows } else { 0 };
        let rate = Rate::from_f64(self.cross_rate.as_f64() / f64::from(flows));
        let (sizes, size) = match (self.kind, self.mtu) {
            (PathKind::PacketMix, _) => draw_size_mix(random),
            (PathKind::FastLink, _) => {
                let size = if random.random_bool(0.5) { 1500 } else { 9000 };
                (SizeMix::fixed(size), size)
            }
            (_, Some(mtu)) => (SizeMix::fixed(mtu), mtu),
            _ => (sizes, 1500),
        };
        let kind = match poisson {
            _ if self.kind == PathKind::JitteredCross => {
                CrossKind::Jittered { rate, size, jitter: CROSS_TRAFFIC_JITTER_FRACTION }
            }
            _ if self.kind == PathKind::SmallBucket && random.random_bool(0.5) => millisecond_bursts(rate),
            _ if self.kind == PathKind::BurstyCross => self.burst_traffic(rate, random),
            _ if self.kind == PathKind::OnOff => self.pausing_traffic(random),
            true => CrossKind::Poisson { rate, sizes },
            false => CrossKind::Constant { rate, size },
        };
        let one = |_| CrossConfig {
            kind: kind.clone(),
            start: Time::ZERO,
            phase: random.random_range(0.0..1.0),
            seed: random.random(),
        };
        (0..self.cross_flows).map(one).collect()
    }

    /// Of one sender, at its rate while it sends.
    fn pausing_traffic(&mut self, random: &mut Pcg64Mcg) -> CrossKind {
        let rate = Rate::from_f64((self.sustained_rate.as_f64() * random.random_range(0.2..0.8)).round());
        let [on, off] =
            [0, 1].map(|_| Span::from_secs_f64(draw_logarithmic(random, PAUSE_RANGE_SECONDS.0, PAUSE_RANGE_SECONDS.1)));
        let sending_part = on.as_secs_f64() / (on + off).as_secs_f64();
        if self.cross_flows > 0 {
            self.cross_rate = Rate::from_f64((rate.as_f64() * sending_part).round());
        }
        CrossKind::OnOff { rate, size: 1500, on, off, periods: PeriodLengths::Fixed }
    }

    /// Cross traffic of this rate in bursts.
    fn burst_traffic(&self, rate: Rate, random: &mut Pcg64Mcg) -> CrossKind {
        let line = Rate::from_f64(self.sustained_rate.as_f64() * 10.0);
        let bytes = draw_logarithmic(random, CROSS_BURST_RANGE_BYTES.0, CROSS_BURST_RANGE_BYTES.1) as u64;
        let (on, period) = (line.time_for(bytes), rate.time_for(bytes));
        let periods = if random.random_bool(0.5) { PeriodLengths::Fixed } else { PeriodLengths::Exponential };
        CrossKind::OnOff { rate: line, size: 1500, on, off: period - on, periods }
    }
}

/// Three sizes, each as often as chance will have it, and one of them all.
fn draw_size_mix(random: &mut Pcg64Mcg) -> (SizeMix, u32) {
    let (least, most) = PACKET_SIZE_RANGE_BYTES;
    let between = draw_logarithmic(random, least, most) as u32;
    let sizes = [least as u32, between, most as u32].map(|size| (size, random.random_range(1..=10)));
    (SizeMix::weighted(sizes), between)
}

/// As a program sends that looks at the clock once a millisecond: in bursts at the rate of its host's line.
fn millisecond_bursts(rate: Rate) -> CrossKind {
    let (line, size) = (Rate::from_mbit(1000), 1500);
    let period = Span::from_millis(1).max(rate.time_for(size));
    let on = Span::from_secs_f64(period.as_secs_f64() * rate.as_f64() / line.as_f64()).max(line.time_for(size));
    CrossKind::OnOff { rate: line, size: size as u32, on, off: period - on, periods: PeriodLengths::Fixed }
}

/// Behind half of the proxies, headers are longer or shorter: there is IPv6 in place of IPv4, or there are no timestamps.
fn draw_proxy(random: &mut Pcg64Mcg) -> Proxy {
    let wake_up = Span::from_secs_f64(draw_logarithmic(random, 20e-6, 500e-6));
    let behind = if random.random_bool(0.5) { HEADER_BYTES } else { [40, 60, 72][random.random_range(0..3)] };
    let headers = if random.random_bool(0.5) { [HEADER_BYTES, behind] } else { [behind, HEADER_BYTES] };
    Proxy { max_wake_up_delay: wake_up, send_cost: Stamping::default().send_cost, header_bytes: headers }
}

/// Connections of one congestion control over a link: greedy ones, or ones whose windows together take a part of it.
fn draw_elastic_flows(link: &LinkConfig, random: &mut Pcg64Mcg) -> Vec<ElasticFlow> {
    let count = [1, 4, 16][random.random_range(0..3)];
    let control = if random.random_bool(0.5) { CongestionControl::Cubic } else { CongestionControl::Bbr };
    let taken = random.random_bool(0.4).then(|| random.random_range(0.2..0.8) / f64::from(count));
    let flow = |_| {
        let delay_back = link.delay + Span::from_micros(random.random_range(0..30_000));
        let window = |taken: f64| {
            let bytes = link.rate.unwrap_or_default().bytes_in(link.delay + delay_back) as f64 * taken;
            (bytes as u64).max(2 * 1448)
        };
        ElasticFlow { control, delay_back, receive_window: taken.map(window) }
    };
    (0..count).map(flow).collect()
}

/// A link of this rate, of which so much is left, and otherwise like that one.
fn loaded_hop(like: &LinkConfig, (rate, left): (f64, f64), poisson: bool, random: &mut Pcg64Mcg) -> PathHop {
    let link = LinkConfig {
        rate: Some(Rate::from_f64(rate.round())),
        queue_bytes: like.queue_bytes.max(400_000),
        delay: Span::from_micros(random.random_range(500..10_000)),
        seed: random.random(),
        ..like.clone()
    };
    let cross = Rate::from_f64((rate - left).round());
    let kind = match poisson {
        true => CrossKind::Poisson { rate: cross, sizes: SizeMix::fixed(1500) },
        false => CrossKind::Constant { rate: cross, size: 1500 },
    };
    let phase = random.random_range(0.0..1.0);
    let cross = (rate > left).then(|| CrossConfig { kind, start: Time::ZERO, phase, seed: random.random() });
    PathHop { link, queue: None, cross: cross.into_iter().collect() }
}

/// Logarithmically.
fn draw_logarithmic(random: &mut Pcg64Mcg, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.random_range(0.0..1.0))
}

/// The same link at `rate` up to some time in a measurement, and faster or slower from then on.
fn draw_rate_step(link: LinkConfig, rate: Rate, random: &mut Pcg64Mcg) -> LinkConfig {
    let ratio = draw_logarithmic(random, RATE_STEP_RATIO_RANGE.0, RATE_STEP_RATIO_RANGE.1);
    let ratio = if random.random_bool(0.5) { ratio } else { 1.0 / ratio };
    let after =
        WARM_UP + Span::from_secs_f64(random.random_range(RATE_STEP_RANGE_SECONDS.0..RATE_STEP_RANGE_SECONDS.1));
    let later = Rate::from_f64((rate.as_f64() * ratio).round());
    let schedule = RateSchedule::new(&[(Span::ZERO, rate), (after, later)]).ok();
    LinkConfig { medium: schedule.map(Medium::Schedule), ..link }
}

/// The line behind a token bucket.
fn draw_faster_rate(random: &mut Pcg64Mcg, rate: Rate) -> Rate {
    Rate::from_f64((rate.as_f64() * draw_logarithmic(random, 2.0, 20.0)).min(1e9).round())
}

fn discipline_of_kind(kind: PathKind) -> Option<&'static str> {
    match kind {
        PathKind::FqCoDel => Some("fq-codel"),
        PathKind::CoDel => Some("codel"),
        PathKind::Red => Some("red"),
        PathKind::FairShare => Some("fair-share"),
        PathKind::Pie => Some("pie"),
        PathKind::HostFair => Some("fq-codel:hosts=on"),
        _ => None,
    }
}

fn queue_config(discipline: &str, rate: Rate, bytes: u64) -> QueueConfig {
    let settings: DisciplineSettings = discipline.parse().unwrap_or_default();
    QueueConfig { limit: QueueLimit::Bytes(bytes.max(1_500_000)), discipline: settings.discipline(Some(rate)) }
}

#[cfg(test)]
mod tests {
    use super::super::Seeds;
    use super::*;
    use kumade_link::CrossTraffic;
    use kumade_link::queue::{Discipline, FqCoDelConfig, PieConfig};

    #[test]
    fn every_path_of_both_halves_can_be_built_and_is_the_same_again() {
        for kind in PathKind::ALL {
            for seed in [Seeds::Tuning, Seeds::Evaluation].iter().flat_map(|seeds| (0..50).map(|n| seeds.seed(n))) {
                let drawn = DrawnPath::new(kind, seed);
                drawn.build().unwrap_or_else(|error| panic!("{kind}, seed {seed}: {error}"));
                drawn.build_return_path().unwrap();
                let has_schedule = matches!(drawn.hops[0].link.medium, Some(Medium::Schedule(_)));
                assert!(has_schedule || kind != PathKind::RateStep, "seed {seed}");
                let is_idle = drawn.cross_rate == Rate::ZERO;
                assert!(is_idle == (drawn.cross_flows == 0) || kind != PathKind::OnOff, "seed {seed}");
                assert_eq!(format!("{drawn:?}"), format!("{:?}", DrawnPath::new(kind, seed)));
            }
        }
    }

    #[test]
    fn disciplines_are_those_of_their_kinds() {
        let named = |kind| DrawnPath::new(kind, 1).hops.remove(0).queue.map(|queue| queue.discipline);
        assert_eq!(named(PathKind::Fifo), None);
        assert_eq!(named(PathKind::Pie), Some(Discipline::Pie(PieConfig::default())));
        let host_fair = FqCoDelConfig { isolates_hosts: true, ..FqCoDelConfig::default() };
        assert_eq!(named(PathKind::HostFair), Some(Discipline::FqCoDel(host_fair)));
    }

    #[test]
    fn packets_of_cross_traffic_are_as_large_as_the_mtu_and_no_larger() {
        for seed in (0..200).map(|number| Seeds::Tuning.seed(number)) {
            let path = DrawnPath::new(PathKind::Mtu, seed);
            let mtu = path.mtu.unwrap();
            assert!((576..=9000).contains(&mtu) && path.build().unwrap().mtu() == Some(mtu));
            for cross in &path.hops[0].cross {
                let largest = CrossTraffic::new(cross.clone()).unwrap().take(20).map(|packet| packet.size).max();
                assert_eq!(largest, Some(mtu));
            }
        }
    }

    #[test]
    fn beside_a_proxy_the_narrow_link_is_the_tight_one_on_either_side() {
        let paths: Vec<_> =
            (0..300).map(|number| DrawnPath::new(PathKind::Proxy, Seeds::Tuning.seed(number))).collect();
        let rates = |path: &DrawnPath| [0, 1].map(|place: usize| path.hops[place].link.rate.unwrap());
        let far_is_narrow = paths.iter().filter(|path| rates(path)[1] < rates(path)[0]).count();
        assert!((60..120).contains(&far_is_narrow), "{far_is_narrow}");
        for path in &paths {
            let mut built = path.build().unwrap();
            built.wait(Span::from_secs(2));
            built.run_until_quiet();
            let left = built.true_available_per_link(Time::ZERO + Span::from_millis(500), built.now());
            let narrow = usize::from(rates(path)[1] < rates(path)[0]);
            assert_eq!(path.sustained_rate, rates(path)[narrow], "seed {}", path.seed);
            assert!(left[narrow] < left[1 - narrow], "seed {}: {left:?}", path.seed);
        }
        let headers_differ =
            paths.iter().filter(|path| path.proxy.is_some_and(|it| it.header_bytes[0] != it.header_bytes[1]));
        assert!((100..200).contains(&headers_differ.count()));
    }

    #[test]
    fn seeds_that_tune_and_seeds_that_judge_draw_other_paths() {
        let rates = |seeds: Seeds| (0..50).map(move |n| DrawnPath::new(PathKind::Fifo, seeds.seed(n)).sustained_rate);
        assert!(rates(Seeds::Tuning).all(|rate| rates(Seeds::Evaluation).all(|other| other != rate)));
    }
}
