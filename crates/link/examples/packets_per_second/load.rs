//! A load for every kind of link, for what it costs in time and memory.

use kumade_link::queue::{DISCIPLINES, Discipline, DisciplineSettings, Ecn, QueueConfig, QueueLimit, TailDropConfig};
use kumade_link::{Label, Link, LinkConfig, Loss, Medium, RateSchedule, Reordering, Trace, Wireless};
use kumade_units::{Rate, Span, Time};

const RATE: Rate = Rate::from_mbit(1000);
const FEW: u64 = 20;
const MANY: u64 = 20_000;

/// Flows that send a tenth more than the link carries, each packet of any of them.
pub struct Load {
    pub name: String,
    flows: u64,
    link: Link<u64>,
    sent: u64,
    /// Of the generator that draws flows.
    state: u64,
}

impl Load {
    fn new(name: &str, config: LinkConfig, discipline: Discipline, flows: u64) -> Self {
        let limit = if flows > FEW { QueueLimit::Packets(10_240) } else { QueueLimit::Bytes(1_000_000) };
        let config = config.validate().expect("a link that can be");
        let queue = QueueConfig { limit, discipline }.validate().expect("a queue that can be");
        let name = format!("{name}, {flows} flows");
        Load { name, flows, link: Link::with_queue(config, &queue), sent: 0, state: 1 }
    }

    /// Sends so many packets more, and returns how many came out meanwhile.
    pub fn carry(&mut self, packets: u64) -> u64 {
        let gap = RATE.time_for(1500) * 10 / 11;
        let mut delivered = 0;
        for packet in self.sent..self.sent + packets {
            let now = Time::ZERO + gap * packet as i64;
            // Knuth's MMIX.
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let flow = (self.state >> 33) % self.flows;
            let label = Label { size: 1500, flow, host: flow, ecn: Ecn::NotEct, ..Label::default() };
            // What is dropped is part of the load.
            let _ = self.link.offer_labelled(packet, label, now);
            while self.link.pop_due(now).is_some() {
                delivered += 1;
            }
        }
        self.sent += packets;
        delivered
    }
}

/// Each discipline on a link of constant rate with few and with many flows, the fair share also with its largest table; then
/// each medium and the impairments before tail drop.
pub fn loads() -> Vec<Load> {
    let wire = LinkConfig { rate: Some(RATE), delay: Span::from_millis(5), ..LinkConfig::default() };
    let media = media().map(|(name, medium)| (name, LinkConfig { medium: Some(medium), ..wire.clone() }));
    let impaired = LinkConfig {
        jitter: Span::from_micros(500).into(),
        loss: Loss::bursts(0.01, 3.0).expect("bursts that can be"),
        reordering: Reordering { probability: 0.05, extra: Span::from_millis(1) },
        duplication: 0.01,
        ..wire.clone()
    };
    let largest = "fair-share:flows=1048576";
    let names = DISCIPLINES.iter().map(|info| info.name).chain([largest]);
    let disciplines = names.flat_map(|name| {
        let settings: DisciplineSettings = name.parse().expect("a discipline of the table");
        [FEW, MANY].map(|flows| Load::new(name, wire.clone(), settings.discipline(Some(RATE)), flows))
    });
    let others = media.into_iter().chain([("all impairments", impaired)]);
    let others = others.map(|(name, config)| Load::new(name, config, TailDropConfig.into(), FEW));
    disciplines.chain(others).collect()
}

fn media() -> [(&'static str, Medium); 3] {
    let steps = [(Span::ZERO, RATE), (Span::from_micros(700), Rate::from_mbit(500))];
    let schedule = RateSchedule::repeating(&steps, Span::from_millis(1)).expect("a schedule that can be");
    let trace: String = (1..=100).flat_map(|millis| std::iter::repeat_n(format!("{millis}\n"), 80)).collect();
    [
        ("schedule", Medium::Schedule(schedule)),
        ("trace", Medium::Trace(Trace::parse(&trace).expect("a trace"))),
        ("wireless", Medium::Wireless(Wireless::default())),
    ]
}
