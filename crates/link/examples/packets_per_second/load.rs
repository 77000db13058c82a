//! A load for every kind of link, for what it costs in time and memory.

use link::queue::{DISCIPLINES, Discipline, DisciplineSettings, Ecn, Limit, QueueConfig, TailDropConfig};
use link::{Label, Link, LinkConfig, Loss, Medium, RateSchedule, Reordering, Trace, Wireless};
use units::{Rate, Span, Time};

const RATE: Rate = Rate::from_mbit(1000);
const FLOWS: u64 = 20;

/// Twenty flows that send a tenth more than the link carries, some more than others.
pub struct Load {
    pub name: &'static str,
    link: Link<u64>,
    sent: u64,
}

impl Load {
    fn new(name: &'static str, config: LinkConfig, discipline: Discipline) -> Self {
        let queue = QueueConfig { limit: Limit::Bytes(1_000_000), discipline };
        let config = config.validate().expect("a link that can be");
        let queue = queue.validate().expect("a queue that can be");
        Load { name, link: Link::with_queue(config, &queue), sent: 0 }
    }

    /// Sends so many packets more, and returns how many came out meanwhile.
    pub fn carry(&mut self, packets: u64) -> u64 {
        let gap = RATE.time_for(1500) * 10 / 11;
        let mut delivered = 0;
        for packet in self.sent..self.sent + packets {
            let now = Time::ZERO + gap * packet as i64;
            let label = Label { size: 1500, flow: packet * packet % FLOWS, ecn: Ecn::NotEct };
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

/// Each discipline on a link of constant rate, then each medium and the impairments before tail drop.
pub fn loads() -> Vec<Load> {
    let wire = LinkConfig { rate: Some(RATE), delay: Span::from_millis(5), ..LinkConfig::default() };
    let media = media().map(|(name, medium)| (name, LinkConfig { medium: Some(medium), ..wire.clone() }));
    let impaired = LinkConfig {
        jitter: Span::from_micros(500),
        loss: Loss::bursts(0.01, 3.0).expect("bursts that can be"),
        reordering: Reordering { probability: 0.05, extra: Span::from_millis(1) },
        duplication: 0.01,
        ..wire.clone()
    };
    let disciplines = DISCIPLINES.iter().map(|info| {
        let settings = DisciplineSettings::new(info.name).expect("a discipline of the table");
        Load::new(info.name, wire.clone(), settings.discipline(Some(RATE)))
    });
    let others = media.into_iter().chain([("all impairments", impaired)]);
    let others = others.map(|(name, config)| Load::new(name, config, TailDropConfig.into()));
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
