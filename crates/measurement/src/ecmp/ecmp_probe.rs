//! Which connections have which least delay.

use super::EcmpLink;
use kumade_probe_train::{Segment, Train, TrainRecord};
use kumade_units::Span;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Connections that are looked at first, how often, and how often where the path is busy.
const FIRST_CONNECTIONS: usize = 24;
const FIRST_ROUNDS: u32 = 2;
const MAX_FIRST_ROUNDS: u32 = 6;
/// It is busy if a smaller part of them has shown a least delay twice.
const MIN_CONSISTENT_SHARE: f64 = 0.6;
/// Where these differ, all are looked at, at least so often …
const MIN_ROUNDS: u32 = 4;
/// … and at most, until this part of them has shown a least delay twice.
const MAX_ROUNDS: u32 = 16;
const SUFFICIENT_CONSISTENT_SHARE: f64 = 0.95;

/// A connection has shown its least delay twice if these differ by no more.
const MAX_DELAY_DIFFERENCE: Span = Span::from_micros(50);
/// Links less than this apart are not told from one.
const MIN_DELAY_GAP: Span = Span::from_micros(100);
/// A group has at least so many connections, …
const MIN_GROUP_CONNECTIONS: usize = 2;
/// … and this part of all whose delay is known.
const MIN_GROUP_PART: f64 = 0.03;
/// Groups alternate along the connections' numbers as by chance, but for so many standard deviations.
const MAX_STANDARD_DEVIATIONS: f64 = 3.0;

/// Small packets are sent so far apart on average, and at random: traffic that keeps step with them would tell connections apart.
const MEAN_INTERVAL: Span = Span::from_millis(3);
const PACKET_BYTES: u32 = 64;

/// A search for links side by side: send [`next_train`](Self::next_train), then [`record_train`](Self::record_train) what became of it.
#[derive(Debug)]
pub(crate) struct EcmpProbe {
    /// Connections in all.
    connections: usize,
    /// Of each that is looked at, the least delay in even and in odd rounds, beyond the least of each round.
    min_delays: Vec<[Option<Span>; 2]>,
    rounds: u32,
    random: Pcg64Mcg,
}

/// How a search goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EcmpProbeResult {
    /// It needs another train.
    Unfinished,
    /// The links found: two and more, the fastest first; or none.
    Links(Vec<EcmpLink>),
}

impl EcmpProbe {
    /// Of so many connections; `seed` draws the intervals.
    pub(crate) fn new(connections: u32, seed: u64) -> Self {
        let connections = connections as usize;
        let floors = vec![[None; 2]; connections.min(FIRST_CONNECTIONS)];
        EcmpProbe { connections, min_delays: floors, rounds: 0, random: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// One small packet on each connection.
    pub(crate) fn next_train(&mut self) -> Train {
        let segment = |random: &mut Pcg64Mcg| {
            let interval = Span::from_secs_f64(MEAN_INTERVAL.as_secs_f64() * random.random_range(0.5..1.5));
            Segment { count: 1, interval, first_size: PACKET_BYTES, size_step: 0 }
        };
        Train { segments: (0..self.min_delays.len()).map(|_| segment(&mut self.random)).collect() }
    }

    /// Takes in what became of the train.
    pub(crate) fn record_train(&mut self, record: &TrainRecord) -> EcmpProbeResult {
        let half = self.rounds as usize % 2;
        self.rounds += 1;
        let delay = |packet: &kumade_probe_train::PacketRecord| Some(packet.received? - packet.sent?);
        // The clocks drift from round to round.
        let Some(least) = record.packets.iter().filter_map(delay).min() else {
            return EcmpProbeResult::Links(Vec::new());
        };
        for (floors, packet) in self.min_delays.iter_mut().zip(&record.packets) {
            let beyond = delay(packet).map(|delay| delay - least);
            floors[half] = floors[half].into_iter().chain(beyond).min();
        }
        self.detect_links()
    }

    fn detect_links(&mut self) -> EcmpProbeResult {
        let is_first = self.min_delays.len() < self.connections && self.min_delays.len() == FIRST_CONNECTIONS;
        let consistent =
            self.min_delays.iter().filter_map(consistent_delay).count() as f64 / self.min_delays.len().max(1) as f64;
        let (least, most, enough) = match is_first {
            true => (FIRST_ROUNDS, MAX_FIRST_ROUNDS, MIN_CONSISTENT_SHARE),
            false => (MIN_ROUNDS, MAX_ROUNDS, SUFFICIENT_CONSISTENT_SHARE),
        };
        let groups = group_by_delay(&self.min_delays);
        let is_clear = consistent >= enough || is_first && groups.len() > 1;
        if self.rounds % 2 == 1 || self.rounds < least || self.rounds < most && !is_clear {
            return EcmpProbeResult::Unfinished;
        }
        if is_first && groups.len() > 1 {
            self.min_delays = vec![[None; 2]; self.connections];
            self.rounds = 0;
            return EcmpProbeResult::Unfinished;
        }
        let member = |group: &DelayGroup| {
            let takes_it = |number: usize| group.connection_numbers.contains(&number);
            EcmpLink { connections: (0..self.connections).map(takes_it).collect(), extra_delay: group.delay }
        };
        EcmpProbeResult::Links(if groups.len() < 2 { Vec::new() } else { groups.iter().map(member).collect() })
    }
}

/// Connections of one least delay.
#[derive(Debug)]
struct DelayGroup {
    connection_numbers: Vec<usize>,
    delay: Span,
}

/// The groups that connections fall into; none where they do not alternate as by chance.
fn group_by_delay(floors: &[[Option<Span>; 2]]) -> Vec<DelayGroup> {
    let known = floors.iter().enumerate();
    let mut known: Vec<(Span, usize)> =
        known.filter_map(|(number, halves)| Some((consistent_delay(halves)?, number))).collect();
    known.sort_unstable();
    let least = MIN_GROUP_CONNECTIONS.max((known.len() as f64 * MIN_GROUP_PART).ceil() as usize);
    let parts = known.chunk_by(|one, next| next.0 - one.0 < MIN_DELAY_GAP).filter(|part| part.len() >= least);
    let groups: Vec<DelayGroup> = parts
        .map(|part| DelayGroup {
            connection_numbers: part.iter().map(|(_, number)| *number).collect(),
            delay: part[0].0,
        })
        .collect();
    if groups_alternate(&groups) { groups } else { Vec::new() }
}

/// The least delay of a connection that has shown it twice.
fn consistent_delay(halves: &[Option<Span>; 2]) -> Option<Span> {
    let (one, other) = (halves[0]?, halves[1]?);
    ((one - other).max(other - one) <= MAX_DELAY_DIFFERENCE).then(|| one.min(other))
}

/// Whether the fastest group and the others alternate along the connections' numbers as often as by chance (Wald and Wolfowitz: On
/// a Test Whether Two Samples are from the Same Population, 1940): not so where a queue grows from packet to packet.
fn groups_alternate(groups: &[DelayGroup]) -> bool {
    let Some((first, others)) = groups.split_first() else { return false };
    let mut order: Vec<(usize, bool)> = first.connection_numbers.iter().map(|number| (*number, true)).collect();
    order.extend(others.iter().flat_map(|group| group.connection_numbers.iter().map(|number| (*number, false))));
    order.sort_unstable();
    let runs = 1 + order.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let (one, all) = (first.connection_numbers.len() as f64, order.len() as f64);
    let expected = 1.0 + 2.0 * one * (all - one) / all;
    let variance = (expected - 1.0) * (expected - 2.0) / (all - 1.0).max(1.0);
    !others.is_empty() && runs as f64 > (expected - MAX_STANDARD_DEVIATIONS * variance.max(0.0).sqrt()).max(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::PacketRecord;
    use kumade_units::Time;

    /// The links found where each connection's packet takes so long, given round and number.
    fn detect_links_with(delay: impl Fn(u32, usize) -> Span) -> Vec<EcmpLink> {
        let mut sounding = EcmpProbe::new(120, 1);
        for round in 0..100 {
            let train = sounding.next_train();
            let packet = |(number, planned): (usize, kumade_probe_train::PlannedPacket)| {
                let sent = Time::ZERO + Span::from_secs(i64::from(round)) + planned.offset;
                PacketRecord {
                    size: 64,
                    sent: Some(sent),
                    submitted: None,
                    received: Some(sent + delay(round, number)),
                }
            };
            let packets = train.packets().enumerate().map(packet).collect();
            if let EcmpProbeResult::Links(members) = sounding.record_train(&TrainRecord { packets }) {
                return members;
            }
        }
        panic!("it does not end");
    }

    /// About random, from 0 to 1, and always the same.
    fn random(seed: u64) -> f64 {
        Pcg64Mcg::seed_from_u64(seed).random_range(0.0..1.0)
    }

    #[test]
    fn connections_of_several_links_are_told_apart_by_their_least_delays() {
        let link = |number: usize| (random(number as u64) * 3.0) as i64;
        let waits = |round: u32, number: usize| {
            let busy = random(1_000_000 + u64::from(round) * 1000 + number as u64);
            if busy < 0.4 { Span::from_secs_f64(busy * 0.003) } else { Span::ZERO }
        };
        let members = detect_links_with(|round, number| Span::from_micros(500 * link(number)) + waits(round, number));
        assert_eq!(members.len(), 3);
        for (place, member) in members.iter().enumerate() {
            assert!(member.connection_count() > 20, "{member:?}");
            let of_link = |number: usize| link(number) == place as i64;
            assert!((0..120).filter(|number| member.connections[*number]).all(of_link));
        }
    }

    #[test]
    fn one_link_is_not_taken_for_several() {
        let waits = |round: u32, number: usize| random(u64::from(round) * 1000 + number as u64);
        let busy = |round, number| Span::from_secs_f64((waits(round, number) * 0.004 - 0.002).max(0.0));
        assert_eq!(detect_links_with(busy), []);
        assert_eq!(detect_links_with(|round, number| Span::from_secs_f64(waits(round, number) * 0.005)), []);
        // Small packets that queue behind each other on a slow link.
        assert_eq!(detect_links_with(|_, number| Span::from_millis(6) * number as i64), []);
        assert_eq!(detect_links_with(|_, number| Span::from_millis(if number < 10 { 0 } else { 5 })), []);
    }
}
