mod cobalt;
mod isolation;
mod layout;
mod tin;

pub use isolation::Isolation;
pub use layout::TinLayout;

use crate::framing::Framing;
use crate::ledger::DropCause;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{GivenParameters, Parameter, ParameterFormat, TIME_FORMAT, parse_choice};
use crate::queue::slab::PacketSlab;
use crate::random::random_stream;
use isolation::ISOLATIONS;
use kumade_units::{ConfigError, Rate, Span, Time};
use layout::LAYOUTS;
use rand_pcg::Pcg64Mcg;
use tin::{Tin, TinConfig};

/// The settings of [`Cake`]; the default is that of `tc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CakeConfig {
    /// Into which tins packets are sorted by their DSCP.
    pub tins: TinLayout,
    /// What has a queue of its own, and between whom turns are fair.
    pub isolation: Isolation,
    /// About the longest round-trip time of the flows: CoDel's interval, and twenty times its target.
    pub rtt: Span,
    /// The rate of the link, of which the tins have their shares; without one, they take turns.
    pub rate: Option<Rate>,
    /// What the link adds to each packet: turns and shares count it.
    pub framing: Framing,
}

/// CAKE (Høiland-Jørgensen, Täht and Morton 2018; tc-cake(8)): tins by DSCP with a share of the rate each, in each a queue for
/// every flow found by a set-associative hash, deficit round-robin with precedence for sparse flows (DRR++), the quantum of a flow
/// divided by how many flows its host has, and COBALT (CoDel and BLUE) on each queue. What exceeds the limit is dropped
/// from the front of the longest queue.
///
/// The link is the shaper: its rate and its [`Framing`] are CAKE's `bandwidth`, `overhead`, `mpu`, `atm` and `ptm`. The ACK filter, `wash`,
/// `ingress` and `nat` are left out.
#[derive(Debug)]
pub struct Cake<P> {
    config: CakeConfig,
    limit: QueueLimit,
    slab: PacketSlab<P>,
    tins: Vec<Tin>,
    /// Whose turn it is where no rate is known.
    current: usize,
    rng: Pcg64Mcg,
}

impl Default for CakeConfig {
    fn default() -> Self {
        CakeConfig {
            tins: TinLayout::Diffserv3,
            isolation: Isolation::TripleIsolate,
            rtt: Span::from_millis(100),
            rate: None,
            framing: Framing::default(),
        }
    }
}

const LAYOUT_FORMAT: ParameterFormat<TinLayout> = ParameterFormat {
    placeholder: "LAYOUT",
    read: |text| parse_choice(text, LAYOUTS),
    show: |layout| show_choice(*layout, &LAYOUTS),
};
const ISOLATION_FORMAT: ParameterFormat<Isolation> = ParameterFormat {
    placeholder: "BY",
    read: |text| parse_choice(text, ISOLATIONS),
    show: |isolation| show_choice(*isolation, &ISOLATIONS),
};

fn show_choice<T: PartialEq>(value: T, choices: &[(&str, T)]) -> String {
    choices.iter().find(|(_, choice)| *choice == value).map_or_else(String::new, |(name, _)| (*name).to_owned())
}

impl DisciplineConfig for CakeConfig {
    const NAME: &'static str = "cake";
    const SUMMARY: &'static str = "CAKE: tins by DSCP, fair between hosts and flows, COBALT on each queue (tc-cake(8))";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "cake:rtt=200us:tins=besteffort:isolation=flows",
        "cake:rtt=200us:tins=diffserv4:isolation=triple-isolate",
        "cake:rtt=200us:tins=diffserv3:isolation=dual-srchost",
        "cake:isolation=flowblind",
    ];
    /// The least that Linux takes.
    const DEFAULT_LIMIT: QueueLimit = QueueLimit::Bytes(4 << 20);
    type Queue<P> = Cake<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let tins = "tins by DSCP: besteffort, diffserv3 (bulk, best effort, voice) or diffserv4 (also video)";
        let isolation =
            "fairness: flowblind, srchost, dsthost, hosts, flows, dual-srchost, dual-dsthost or triple-isolate";
        let rtt = "about the longest round-trip time of the flows";
        vec![
            Parameter::new("tins", LAYOUT_FORMAT, tins, |config: &mut Self| &mut config.tins),
            Parameter::new("isolation", ISOLATION_FORMAT, isolation, |config: &mut Self| &mut config.isolation),
            Parameter::new("rtt", TIME_FORMAT, rtt, |config: &mut Self| &mut config.rtt),
        ]
    }

    fn adapt_to_rate(&mut self, rate: Option<Rate>, _given: &GivenParameters) {
        self.rate = rate;
    }

    fn adapt_to_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.rtt < Span::from_micros(10) || self.rtt > Span::from_secs(3600) {
            let remedy = "give 10 us to an hour; 100 ms is usual";
            return Err(ConfigError::for_part("CAKE queue")("rtt", self.rtt.to_string(), "which no path has", remedy));
        }
        self.framing.check()
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> Cake<P> {
        let CakeConfig { isolation, rtt, rate, framing, .. } = *self;
        let tin = |(share, number)| Tin::new(TinConfig { share, isolation, rtt, rate, framing }, seed ^ number);
        let tins = self.tins.shares().iter().copied().zip(0..).map(tin).collect();
        let rng = random_stream(seed, 0x6361_6b65);
        Cake { config: *self, limit, slab: PacketSlab::new(), tins, current: 0, rng }
    }
}

impl<P> Cake<P> {
    fn exceeds_limit(&self) -> bool {
        match self.limit {
            QueueLimit::Bytes(limit) => self.slab.bytes() > limit,
            QueueLimit::Packets(limit) => self.slab.packets() as u64 > limit,
        }
    }

    /// Drops the first packet of the longest queue.
    fn drop_from_longest(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) {
        let longest = self.tins.iter_mut().filter_map(|tin| tin.longest().map(|(bytes, place)| (bytes, place, tin)));
        let Some((_, place, tin)) = longest.max_by_key(|(bytes, ..)| *bytes) else { return };
        if let Some(packet) = tin.drop_first(place, now, &mut self.slab) {
            drops.push(DroppedPacket { packet, cause: DropCause::QueueFull });
        }
    }

    /// The tin that sends next: with a rate, the last one that is within its share, or else the one that will be first; without,
    /// in turns.
    fn choose_tin(&mut self, now: Time) -> Option<usize> {
        if self.config.rate.is_some() {
            let mut chosen: Option<(Span, usize)> = None;
            for (index, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.has_flows()) {
                let wait = tin.next_time() - now;
                if wait <= Span::ZERO || chosen.is_none_or(|(least, _)| wait <= least) {
                    chosen = Some((wait, index));
                }
            }
            return chosen.map(|(_, index)| index);
        }
        if !self.tins.iter().any(Tin::has_flows) {
            return None;
        }
        while !self.tins[self.current].takes_turn() {
            self.current = (self.current + 1) % self.tins.len();
        }
        Some(self.current)
    }
}

impl<P> QueueDiscipline<P> for Cake<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        let now = packet.arrival;
        if self.slab.packets() == 0 {
            // In Linux, the dequeue that found nothing has done so.
            self.tins.iter_mut().for_each(|tin| tin.forget_empty_flows(now));
        }
        let index = self.config.tins.tin(packet.dscp.number());
        let place = self.tins[index].enqueue(packet, &mut self.slab);
        while self.exceeds_limit() {
            self.drop_from_longest(now, drops);
        }
        // Drops are from the front: the arriving packet is gone only with all of its queue.
        if self.tins[index].is_empty(place) { Err(DropCause::QueueFull) } else { Ok(()) }
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        loop {
            let index = self.choose_tin(now)?;
            let tin = &mut self.tins[index];
            if let Some(packet) = tin.dequeue(now, &mut self.slab, &mut self.rng, drops) {
                return Some(packet);
            }
        }
    }

    fn packets(&self) -> usize {
        self.slab.packets()
    }

    fn bytes(&self) -> u64 {
        self.slab.bytes()
    }
}

#[cfg(test)]
mod tests;
