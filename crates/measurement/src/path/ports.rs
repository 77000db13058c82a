//! Which ports pass, of a list: what is tried, and what the outcomes mean.
//!
//! Each port is tried in rounds, beside others and beside the session's own port, in random order. What is answered once passes. A port
//! without an answer is tried again until chance does not explain that (Fisher's exact test against the tries of ports that pass).

use super::fisher::{LossCount, MAX_CHANCE, loss_p_value};
use super::icmp::icmp_name;
use crate::report::{PortOutcome, PortReport, PortsReport};
use kumade_probe_train::{HopAnswer, PortProtocol};
use kumade_units::Span;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Ports of both protocols that are open at the far end at once: as many as it allows.
const MAX_OPEN: usize = 64;
/// Tries of each port at least, so that there is a count, …
const MIN_TRIES: u32 = 3;
/// … and at most.
const MAX_TRIES: u32 = 12;
/// Tries of the session's own port in each round, for each protocol: five rounds then tell a port that is blocked (1 of 53 130).
const REFERENCE_TRIES: usize = 4;
/// A connection is taken not to open after this and a round trip: a SYN is sent again after 1 s (RFC 6298, 2).
const TCP_TIMEOUT: Span = Span::from_millis(1300);
/// A packet of UDP is taken to be lost after this and a round trip.
const UDP_TIMEOUT: Span = Span::from_millis(300);
/// From the beginning of one try to that of the next: a firewall that limits SYNs is to see no burst.
const TRY_INTERVAL: Span = Span::from_millis(2);
/// IP bytes of a packet that is tried, of its answer, and of a connection that is opened and closed, all at most.
const TRY_BYTES: u64 = 800;

/// A port that is tried.
pub type PortTarget = (PortProtocol, u16);

/// What is to be tried at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRound {
    /// The far end is to listen at these ports from this round on; empty for those of the round before.
    pub open: Vec<PortTarget>,
    /// What is tried, in this order; none for the session's own port. Ports at which the far end does not listen are left out.
    pub tries: Vec<(PortProtocol, Option<u16>)>,
    /// The number that packets of this round show.
    pub number: u32,
    /// From the beginning of each try to that of the next.
    pub interval: Span,
    /// How long to wait for UDP, and for TCP, from the last try on.
    pub timeouts: [Span; 2],
}

/// What has become of a round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortRoundRecord {
    /// At which ports the far end does not listen, and why.
    pub unopened: BTreeMap<PortTarget, UnopenedPort>,
    /// What has become of each try, in their order; none of those that were left out.
    pub tries: Vec<Option<PortTry>>,
}

/// Why the far end does not listen at a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnopenedPort {
    /// Another program has it.
    InUse,
    /// It does not allow it.
    NotAllowed,
    /// For this reason.
    Failed(String),
}

/// What has become of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortTry {
    /// Whether the far end has seen it.
    pub has_arrived: bool,
    /// What has come back.
    pub answer: PortTryAnswer,
}

/// What has come back to a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortTryAnswer {
    /// The far end's answer; of the session's own port, any.
    Right,
    /// Nothing in time.
    Nothing,
    /// A TCP segment with RST in place of an open connection.
    Reset,
    /// An ICMP error, where the kernel says which, and who sent it.
    Icmp {
        /// Who sent it.
        from: Option<IpAddr>,
        /// Whether it is ICMPv6.
        is_v6: bool,
        /// Its type.
        icmp_type: u8,
        /// Its code.
        icmp_code: u8,
    },
    /// An ICMP error for a connection, of which kernels do not say more.
    Unreachable,
    /// Something else: a connection that opens and does not answer as the far end does, or a packet that is not the far end's.
    Wrong,
}

/// What is known of a port.
#[derive(Debug, Clone, Default)]
struct PortTally {
    unopened: Option<UnopenedPort>,
    sent: u32,
    arrived: u32,
    answered: u32,
    refused: u32,
    wrong: u32,
    refusal: Option<String>,
}

/// A list of ports, and what is known of them.
#[derive(Debug)]
pub(crate) struct PortsProbe {
    tallies: BTreeMap<PortTarget, PortTally>,
    /// Those that have not been open yet, in their order.
    waiting: Vec<PortTarget>,
    open: Vec<PortTarget>,
    /// Tries of the session's own port.
    own: [LossCount; 2],
    pending: Option<PortRound>,
    round_trip: Span,
    rounds: u32,
    random: Pcg64Mcg,
}

impl PortsProbe {
    /// Of these ports, by UDP and by TCP.
    pub(crate) fn new(ports: &[u16], round_trip: Span, seed: u64) -> Self {
        let mut waiting: Vec<PortTarget> =
            ports.iter().flat_map(|port| PortProtocol::BOTH.map(|protocol| (protocol, *port))).collect();
        let tallies = waiting.iter().map(|target| (*target, PortTally::default())).collect();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        waiting.shuffle(&mut random);
        PortsProbe {
            tallies,
            waiting,
            open: Vec::new(),
            own: [LossCount::default(); 2],
            pending: None,
            round_trip,
            rounds: 0,
            random,
        }
    }

    /// What all of it takes at most: tries, bytes, and time.
    pub(crate) fn max_cost(&self) -> (u32, u64, Span) {
        let targets = self.tallies.len();
        let batches = targets.div_ceil(MAX_OPEN) as u32;
        let tries = MAX_TRIES * (targets as u32 + batches * 2 * REFERENCE_TRIES as u32);
        let round = TCP_TIMEOUT + self.round_trip * 3;
        let time = round * i64::from(batches * MAX_TRIES) + TRY_INTERVAL * i64::from(tries);
        (tries, u64::from(tries) * TRY_BYTES, time)
    }

    /// What is to be tried next; none where all is known that can be.
    pub(crate) fn next_round(&mut self) -> Option<PortRound> {
        // A round whose record has not come has told nothing.
        self.pending = None;
        let mut left: Vec<PortTarget> =
            self.open.iter().copied().filter(|target| self.is_open_question(*target)).collect();
        let mut open = Vec::new();
        if left.is_empty() {
            open = self.waiting.split_off(self.waiting.len().saturating_sub(MAX_OPEN));
            self.open.clone_from(&open);
            left.clone_from(&open);
        }
        if left.is_empty() {
            return None;
        }
        let mut tries: Vec<_> = left.iter().map(|(protocol, port)| (*protocol, Some(*port))).collect();
        for protocol in PortProtocol::BOTH {
            let is_tried = left.iter().any(|(tried, _)| *tried == protocol);
            tries.extend(std::iter::repeat_n((protocol, None), if is_tried { REFERENCE_TRIES } else { 0 }));
        }
        tries.shuffle(&mut self.random);
        self.rounds += 1;
        let timeouts = [UDP_TIMEOUT, TCP_TIMEOUT].map(|timeout| timeout + self.round_trip);
        let round = PortRound { open, tries, number: self.rounds, interval: TRY_INTERVAL, timeouts };
        self.pending = Some(round.clone());
        Some(round)
    }

    /// Notes down what became of the round.
    pub(crate) fn record_round(&mut self, record: &PortRoundRecord) {
        let Some(round) = self.pending.take() else { return };
        for (target, why) in &record.unopened {
            if let Some(tally) = self.tallies.get_mut(target) {
                tally.unopened = Some(why.clone());
            }
        }
        for ((protocol, port), tried) in round.tries.iter().zip(&record.tries) {
            let Some(tried) = tried else { continue };
            match port {
                None => {
                    let own = &mut self.own[*protocol as usize];
                    own.sent += 1;
                    own.lost += u32::from(tried.answer != PortTryAnswer::Right);
                }
                Some(port) => {
                    if let Some(tally) = self.tallies.get_mut(&(*protocol, *port)) {
                        tally.record(tried);
                    }
                }
            }
        }
    }

    fn is_open_question(&self, target: PortTarget) -> bool {
        let Some(tally) = self.tallies.get(&target).filter(|tally| tally.unopened.is_none()) else { return false };
        let is_lost = tally.answered + tally.refused + tally.wrong == 0;
        tally.sent < MIN_TRIES || (is_lost && tally.sent < MAX_TRIES && self.may_be_chance(target.0, tally))
    }

    /// Whether chance may have it so that nothing of this port was answered.
    fn may_be_chance(&self, protocol: PortProtocol, tally: &PortTally) -> bool {
        let reference = self.reference(protocol);
        // Where nothing passes by this protocol, not even at the session's own port, that is no chance, but no fault of this port either.
        let is_blocked = reference.lost == reference.sent && tally.sent >= MAX_TRIES;
        !is_blocked && loss_p_value(tally.loss(), reference) > MAX_CHANCE
    }

    /// Tries of the session's own port, and of ports that pass, but for one each: that one had to be answered for the port to be among them.
    fn reference(&self, protocol: PortProtocol) -> LossCount {
        let passing = self.tallies.iter().filter(|((of, _), tally)| *of == protocol && tally.answered > 0);
        passing.fold(self.own[protocol as usize], |sum, (_, tally)| LossCount {
            sent: sum.sent + tally.sent - 1,
            lost: sum.lost + tally.loss().lost,
        })
    }

    /// What is known of all ports; `failure` is the reason why no more is.
    pub(crate) fn report(&self, failure: Option<String>) -> PortsReport {
        let report = |(target, tally): (&PortTarget, &PortTally)| self.report_port(*target, tally);
        let mut ports: Vec<PortReport> = self.tallies.iter().map(report).collect();
        ports.sort_by_key(|found| (found.port, found.protocol));
        PortsReport { ports, failure }
    }

    fn report_port(&self, (protocol, port): PortTarget, tally: &PortTally) -> PortReport {
        let PortTally { sent, arrived, answered, .. } = *tally;
        let outcome = match &tally.unopened {
            Some(UnopenedPort::InUse) => PortOutcome::InUse,
            Some(UnopenedPort::NotAllowed) => PortOutcome::NotAllowed,
            Some(UnopenedPort::Failed(_)) => PortOutcome::NotOpened,
            None if sent == 0 => PortOutcome::NotTried,
            None if answered > 0 => PortOutcome::Passes,
            None if tally.wrong > 0 && arrived == 0 => PortOutcome::OtherAnswer,
            None if tally.refused > 0 => PortOutcome::Refused,
            None if self.may_be_chance(protocol, tally) && tally.wrong == 0 => PortOutcome::NotSure,
            None if arrived > 0 => PortOutcome::UpOnly,
            None => PortOutcome::NoAnswer,
        };
        let detail = match (&tally.unopened, outcome) {
            (Some(UnopenedPort::Failed(why)), _) => Some(why.clone()),
            (_, PortOutcome::Refused) => tally.refusal.clone(),
            _ => None,
        };
        PortReport { port, protocol, outcome, sent, arrived, answered, detail }
    }
}

impl PortTally {
    fn record(&mut self, tried: &PortTry) {
        self.sent += 1;
        self.arrived += u32::from(tried.has_arrived);
        match tried.answer {
            PortTryAnswer::Right => self.answered += 1,
            PortTryAnswer::Nothing => {}
            PortTryAnswer::Wrong => self.wrong += 1,
            PortTryAnswer::Reset => self.record_refusal("TCP reset".to_owned()),
            PortTryAnswer::Unreachable => self.record_refusal("ICMP".to_owned()),
            PortTryAnswer::Icmp { from, is_v6, icmp_type, icmp_code } => {
                let answer = HopAnswer {
                    index: 0,
                    from,
                    is_v6,
                    icmp_type,
                    icmp_code,
                    round_trip: Span::ZERO,
                    quoted_ds_field: None,
                };
                let by = from.map_or_else(String::new, |from| format!(" by {from}"));
                self.record_refusal(format!("{}{by}", icmp_name(&answer)));
            }
        }
    }

    fn record_refusal(&mut self, how: String) {
        self.refused += 1;
        self.refusal = Some(how);
    }

    fn loss(&self) -> LossCount {
        LossCount { sent: self.sent, lost: self.sent - self.answered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    const ROUND_TRIP: Span = Span::from_millis(20);

    /// What a path does to tries of a port.
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Passes,
        DroppedUp,
        DroppedDown,
        Answers(PortTryAnswer),
    }

    /// Looks at the ports by way of a path that loses this part of all packets either way; how many rounds that took.
    fn look(ports: &[u16], loss: f64, seed: u64, fate: impl Fn(PortTarget) -> Fate) -> (PortsReport, u32) {
        let mut probe = PortsProbe::new(ports, ROUND_TRIP, seed);
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
        let (max_tries, _, max_time) = probe.max_cost();
        let (mut rounds, mut tries, mut time) = (0, 0, Span::ZERO);
        while let Some(round) = probe.next_round() {
            rounds += 1;
            tries += round.tries.len() as u32;
            time += round.interval * round.tries.len() as i64 + round.timeouts[0].max(round.timeouts[1]);
            let results = round.tries.iter().map(|(protocol, port)| {
                let [up, down] = [(); 2].map(|()| random.random_bool(loss));
                let fate = port.map_or(Fate::Passes, |port| fate((*protocol, port)));
                let has_arrived = !up && matches!(fate, Fate::Passes | Fate::DroppedDown);
                let answer = match fate {
                    Fate::Answers(answer) if !up && !down => answer,
                    Fate::Passes if has_arrived && !down => PortTryAnswer::Right,
                    _ => PortTryAnswer::Nothing,
                };
                Some(PortTry { has_arrived, answer })
            });
            let record = PortRoundRecord { tries: results.collect(), ..PortRoundRecord::default() };
            probe.record_round(&record);
        }
        assert!(tries <= max_tries, "{tries} tries, {max_tries} announced");
        assert!(time <= max_time, "{time}, {max_time} announced");
        (probe.report(None), rounds)
    }

    fn outcome(report: &PortsReport, target: PortTarget) -> PortOutcome {
        report.ports.iter().find(|found| (found.protocol, found.port) == target).unwrap().outcome
    }

    #[test]
    fn each_fate_of_a_port_is_told() {
        let (udp, tcp) = (PortProtocol::Udp, PortProtocol::Tcp);
        let icmp = PortTryAnswer::Icmp { from: "192.0.2.1".parse().ok(), is_v6: false, icmp_type: 3, icmp_code: 13 };
        let fates = [
            ((udp, 53), Fate::DroppedUp, PortOutcome::NoAnswer),
            ((udp, 123), Fate::DroppedDown, PortOutcome::UpOnly),
            ((tcp, 25), Fate::Answers(PortTryAnswer::Reset), PortOutcome::Refused),
            ((udp, 25), Fate::Answers(icmp), PortOutcome::Refused),
            ((tcp, 80), Fate::Answers(PortTryAnswer::Wrong), PortOutcome::OtherAnswer),
            ((tcp, 123), Fate::DroppedUp, PortOutcome::NoAnswer),
        ];
        let fate = |target| fates.iter().find(|(of, ..)| *of == target).map_or(Fate::Passes, |(_, fate, _)| *fate);
        let (report, rounds) = look(&[25, 53, 80, 123], 0.0, 1, fate);
        for found in &report.ports {
            let target = (found.protocol, found.port);
            let expected =
                fates.iter().find(|(of, ..)| *of == target).map_or(PortOutcome::Passes, |(.., expected)| *expected);
            assert_eq!(found.outcome, expected, "{found:?}");
        }
        let detail = report.ports.iter().find(|found| (found.protocol, found.port) == (udp, 25)).unwrap();
        assert_eq!(detail.detail.as_deref(), Some("administratively prohibited by 192.0.2.1"));
        assert!(rounds <= 5, "{rounds} rounds");
    }

    /// Of 400 paths that lose up to 30 % either way, with printed seeds, none has a wrong statement.
    #[test]
    fn losses_by_chance_block_no_port() {
        let mut unsure = 0;
        for seed in 0..400 {
            let loss = f64::from(seed as u32 % 4) * 0.1;
            let blocked = (PortProtocol::Udp, 4500);
            let fate = |target| if target == blocked { Fate::DroppedUp } else { Fate::Passes };
            let (report, _) = look(&[53, 443, 4500], loss, seed, fate);
            for found in &report.ports {
                let target = (found.protocol, found.port);
                let expected = if target == blocked { PortOutcome::NoAnswer } else { PortOutcome::Passes };
                assert!([expected, PortOutcome::NotSure].contains(&found.outcome), "seed {seed}: {found:?}");
                unsure += usize::from(found.outcome == PortOutcome::NotSure);
            }
        }
        assert!(unsure < 400 * 6 / 10, "{unsure} of {} are not sure", 400 * 6);
    }

    #[test]
    fn where_nothing_passes_by_a_protocol_that_is_said_of_each_port() {
        let mut probe = PortsProbe::new(&[53], ROUND_TRIP, 1);
        while let Some(round) = probe.next_round() {
            let answer = |protocol| match protocol {
                PortProtocol::Udp => PortTryAnswer::Nothing,
                PortProtocol::Tcp => PortTryAnswer::Right,
            };
            let tries =
                round.tries.iter().map(|(protocol, _)| Some(PortTry { has_arrived: false, answer: answer(*protocol) }));
            probe.record_round(&PortRoundRecord { tries: tries.collect(), ..PortRoundRecord::default() });
        }
        assert_eq!(outcome(&probe.report(None), (PortProtocol::Udp, 53)), PortOutcome::NoAnswer);
    }

    #[test]
    fn ports_at_which_the_far_end_does_not_listen_are_not_tried_again() {
        let mut probe = PortsProbe::new(&[22, 80], ROUND_TRIP, 1);
        let round = probe.next_round().unwrap();
        assert_eq!(round.open.len(), 4);
        let why = |target: &PortTarget| if target.1 == 22 { UnopenedPort::InUse } else { UnopenedPort::NotAllowed };
        let unopened = round.open.iter().map(|target| (*target, why(target))).collect();
        probe.record_round(&PortRoundRecord { unopened, tries: vec![None; round.tries.len()] });
        assert_eq!(probe.next_round(), None);
        let report = probe.report(None);
        assert_eq!(outcome(&report, (PortProtocol::Tcp, 22)), PortOutcome::InUse);
        assert_eq!(outcome(&report, (PortProtocol::Udp, 80)), PortOutcome::NotAllowed);
    }

    #[test]
    fn a_long_list_is_looked_at_in_parts_and_what_was_not_tried_is_said() {
        let ports: Vec<u16> = (1000..1100).collect();
        let (report, rounds) = look(&ports, 0.0, 1, |_| Fate::Passes);
        assert_eq!((report.ports.len(), rounds), (200, 3 * 4));
        let probe = PortsProbe::new(&ports, ROUND_TRIP, 1);
        assert!(probe.report(None).ports.iter().all(|found| found.outcome == PortOutcome::NotTried));
    }
}
