//! The light probes of one target, without sockets: what is on its way, what has come back, what is lost.

use kumade_sketch::LostIn;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// What became of a light probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeResult {
    /// Counted from one in each session.
    pub sequence: u64,
    /// When it was sent, by the monotonic clock.
    pub sent: Time,
    /// What came back. Where nothing did in time it counts as lost, in the direction that the far end's numbers tell.
    pub reply: Result<ProbeReply, LostIn>,
}

/// What came back of a light probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeReply {
    /// Without the time that the far end took to answer.
    pub round_trip: Span,
    /// One-way delays, where both clocks are known.
    pub one_way: Option<OneWayDelays>,
    /// It came later than [`ReplyLimits::late_after`].
    pub is_late: bool,
}

/// One-way delays by the clocks of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWayDelays {
    /// To the far end.
    pub up: Span,
    /// Back from it.
    pub down: Span,
    /// How far either may be from the truth, as both clocks together.
    pub error: Span,
}

/// How long replies are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Replies that take longer count as late.
    pub late_after: Span,
    /// Probes without a reply for so long count as lost.
    pub lost_after: Span,
}

impl Default for ReplyLimits {
    /// One second is what most applications wait for; four are more than a link with a full buffer takes as a rule, and are soon enough
    /// for an alert.
    fn default() -> Self {
        ReplyLimits { late_after: Span::from_secs(1), lost_after: Span::from_secs(4) }
    }
}

/// A reply with its stamps. Those of this host are by its clock of the day, those of the far end by that one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampedReply {
    /// Of the probe that it answers.
    pub sequence: u64,
    /// When it came.
    pub arrived: Stamps,
    /// When the far end received the probe and sent its reply; none where it does not tell.
    pub far: Option<FarStamps>,
}

/// A time by the kernel, and by the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamps {
    /// By the kernel, where it has said so.
    pub kernel: Option<Time>,
    /// By the program.
    pub user: Time,
}

/// The number and the stamps of a STAMP reflector (RFC 8762 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarStamps {
    /// The reply's own number. A stateful reflector counts its replies, a stateless one repeats the probe's number.
    pub number: u32,
    /// When the probe came.
    pub received: Time,
    /// When the reply left.
    pub reflected: Time,
    /// How far its clock and this host's may be from the truth together; none where either does not follow UTC.
    pub clock_error: Option<Span>,
}

/// Probes that have been answered of late, whose further replies are duplicates. More are kept where they tell in which direction
/// others were lost.
const KEPT_ANSWERED: usize = 64;
/// A stateful reflector counts from zero. Where it and the session began with the same number, a reply that repeats the probe's number
/// would not tell it from a stateless one until a probe were lost.
const FIRST_SEQUENCE: u64 = 1;

/// The probes of one target.
#[derive(Debug)]
pub struct ProbeSession {
    limits: ReplyLimits,
    next_sequence: u64,
    waiting: BTreeMap<u64, WaitingProbe>,
    /// With the numbers of the replies.
    answered: BTreeMap<u64, Option<u32>>,
    /// Whether the reflector has shown to count its replies.
    is_far_stateful: bool,
    duplicates: u64,
    results: Vec<ProbeResult>,
    /// Probes before this one have been told of if they were overdue.
    next_overdue: u64,
}

#[derive(Debug, Clone, Copy)]
struct WaitingProbe {
    sent: Time,
    stamps: Stamps,
}

impl ProbeSession {
    /// Without probes so far.
    pub fn new(limits: ReplyLimits) -> Self {
        ProbeSession {
            limits,
            next_sequence: FIRST_SEQUENCE,
            waiting: BTreeMap::new(),
            answered: BTreeMap::new(),
            is_far_stateful: false,
            duplicates: 0,
            results: Vec::new(),
            next_overdue: 0,
        }
    }

    /// The number of the next probe.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The next probe has been sent: `now` by the monotonic clock, `user` by the clock of the day.
    pub fn probe_sent(&mut self, now: Time, user: Time) {
        self.waiting.insert(self.next_sequence, WaitingProbe { sent: now, stamps: Stamps { kernel: None, user } });
        self.next_sequence += 1;
    }

    /// The kernel tells when a probe left.
    pub fn probe_stamped(&mut self, sequence: u64, stamp: Time) {
        if let Some(probe) = self.waiting.get_mut(&sequence) {
            probe.stamps.kernel.get_or_insert(stamp);
        }
    }

    /// Whether any probe is waited for.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When a probe was sent, as it says itself; none where it is not waited for.
    pub fn sent_stamp(&self, sequence: u64) -> Option<Time> {
        self.waiting.get(&sequence).map(|probe| probe.stamps.user)
    }

    /// A reply came. One to a probe that is not waited for changes nothing but the count of duplicates.
    pub fn reply_received(&mut self, reply: &StampedReply) {
        let Some(probe) = self.waiting.remove(&reply.sequence) else {
            self.duplicates += u64::from(self.answered.contains_key(&reply.sequence));
            return;
        };
        let number = reply.far.map(|far| far.number);
        self.is_far_stateful |= number.is_some_and(|number| number != reply.sequence as u32);
        self.answered.insert(reply.sequence, number);
        self.forget_answered();
        let outcome = probe.outcome(reply, self.limits.late_after);
        self.results.push(ProbeResult { sequence: reply.sequence, sent: probe.sent, reply: Ok(outcome) });
    }

    /// Those remain of which further replies may come, and the last one before the probes that are waited for.
    fn forget_answered(&mut self) {
        let waiting = self.waiting.first_key_value().map_or(u64::MAX, |(sequence, _)| *sequence);
        while self.answered.len() > KEPT_ANSWERED && self.answered.keys().nth(1).is_some_and(|second| *second < waiting)
        {
            self.answered.pop_first();
        }
    }

    /// Counts probes as lost that have waited for too long; `now` by the monotonic clock.
    pub fn expire(&mut self, now: Time) {
        while let Some(first) = self.waiting.first_entry()
            && now - first.get().sent >= self.limits.lost_after
        {
            let (sequence, probe) = first.remove_entry();
            self.results.push(ProbeResult { sequence, sent: probe.sent, reply: Err(self.lost_in(sequence)) });
        }
    }

    /// In which direction a probe was lost: between two replies, a reflector that counts has sent as many as its numbers say, and what
    /// is missing of these was lost on the way back. Of several that were lost one after the other, it is known how many were lost in
    /// each direction, and not which: the first ones are taken for those that were lost on the way back.
    fn lost_in(&self, sequence: u64) -> LostIn {
        let before = self.answered.range(..sequence).next_back();
        let after = self.answered.range(sequence..).next();
        let (Some((before, Some(from))), Some((after, Some(to))), true) = (before, after, self.is_far_stateful) else {
            return LostIn::EitherWay;
        };
        let lost = after - before - 1;
        match u64::from(to.wrapping_sub(*from).wrapping_sub(1)) {
            // Probes have overtaken each other, or the reflector has begun anew.
            sent if sent > lost => LostIn::EitherWay,
            sent if sequence - before <= sent => LostIn::Down,
            _ => LostIn::Up,
        }
    }

    /// When [`expire`](Self::expire) has something to do next, by the monotonic clock.
    pub fn next_expiry(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|(_, probe)| probe.sent + self.limits.lost_after)
    }

    /// When probes were sent whose replies, if any come, are late; each is told of once. `now` by the monotonic clock.
    pub fn take_overdue(&mut self, now: Time) -> Vec<Time> {
        let late_after = self.limits.late_after;
        let waiting = self.waiting.range(self.next_overdue..);
        let overdue = waiting.take_while(|(_, probe)| now - probe.sent >= late_after);
        let overdue: Vec<(u64, Time)> = overdue.map(|(sequence, probe)| (*sequence, probe.sent)).collect();
        if let Some((last, _)) = overdue.last() {
            self.next_overdue = last + 1;
        }
        overdue.into_iter().map(|(_, sent)| sent).collect()
    }

    /// When [`take_overdue`](Self::take_overdue) has something to tell next, by the monotonic clock.
    pub fn next_overdue(&self) -> Option<Time> {
        self.waiting.range(self.next_overdue..).next().map(|(_, probe)| probe.sent + self.limits.late_after)
    }

    /// Takes what has become known of probes.
    pub fn take_results(&mut self) -> Vec<ProbeResult> {
        std::mem::take(&mut self.results)
    }

    /// Takes the number of replies beyond the first of each probe.
    pub fn take_duplicates(&mut self) -> u64 {
        std::mem::take(&mut self.duplicates)
    }
}

impl WaitingProbe {
    fn outcome(&self, reply: &StampedReply, late_after: Span) -> ProbeReply {
        // The program sends just after its reading of the clock, and receives when it has time for it.
        let (sent, arrived) = match (self.stamps.kernel, reply.arrived.kernel) {
            (Some(sent), Some(arrived)) => (sent, arrived),
            (_, arrived) => (self.stamps.user, arrived.unwrap_or(reply.arrived.user)),
        };
        let whole = (arrived - sent).max(Span::ZERO);
        let far = reply.far.filter(|far| (Span::ZERO..=whole).contains(&(far.reflected - far.received)));
        let round_trip = far.map_or(whole, |far| whole - (far.reflected - far.received));
        let one_way = far.and_then(|far| {
            let error = far.clock_error?;
            Some(OneWayDelays { up: far.received - sent, down: arrived - far.reflected, error })
        });
        ProbeReply { round_trip, one_way, is_late: round_trip > late_after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn reply(sequence: u64, arrived: i64) -> StampedReply {
        StampedReply { sequence, arrived: Stamps { kernel: None, user: after(arrived) }, far: None }
    }

    fn session_with(sent: &[i64]) -> ProbeSession {
        let mut session = ProbeSession::new(ReplyLimits::default());
        sent.iter().for_each(|millis| session.probe_sent(after(*millis), after(*millis)));
        session
    }

    #[test]
    fn each_probe_has_one_result_whatever_comes() {
        let mut session = session_with(&[0, 1000, 2000]);
        session.reply_received(&reply(2, 1020));
        session.reply_received(&reply(2, 1021));
        session.reply_received(&reply(8, 1021));
        session.expire(after(3999));
        assert_eq!(session.take_results().len(), 1);
        assert_eq!(session.next_expiry(), Some(after(4000)));
        session.expire(after(4000));
        session.reply_received(&reply(1, 4001));
        session.reply_received(&reply(3, 4002));
        let results = session.take_results();
        assert_eq!((results[0].sequence, results[0].reply), (1, Err(LostIn::EitherWay)));
        assert!(results[1].reply.is_ok_and(|reply| reply.is_late && reply.round_trip == Span::from_millis(2002)));
        assert_eq!((results.len(), session.take_duplicates(), session.take_duplicates()), (2, 1, 0));
        assert_eq!(session.next_expiry(), None);
    }

    #[test]
    fn a_probe_without_a_reply_is_told_of_once_before_it_is_lost() {
        let mut session = session_with(&[0, 400, 2000]);
        session.reply_received(&reply(1, 20));
        assert_eq!((session.next_overdue(), session.take_overdue(after(1399))), (Some(after(1400)), vec![]));
        assert_eq!(session.take_overdue(after(1400)), [after(400)]);
        assert_eq!((session.next_overdue(), session.take_overdue(after(2999))), (Some(after(3000)), vec![]));
        session.expire(after(10_000));
        assert_eq!((session.next_overdue(), session.take_overdue(after(10_000))), (None, vec![]));
    }

    #[test]
    fn the_far_ends_time_is_no_part_of_the_round_trip() {
        let far = |received, reflected, error| {
            Some(FarStamps { number: 0, received: after(received), reflected: after(reflected), clock_error: error })
        };
        let mut session = session_with(&[0, 0, 0]);
        // Its clock is 500 ms ahead; it takes 30 ms.
        session.reply_received(&StampedReply { far: far(510, 540, None), ..reply(1, 50) });
        let error = Some(Span::from_millis(1));
        session.reply_received(&StampedReply { far: far(8, 38, error), ..reply(2, 50) });
        // Stamps that make no sense.
        session.reply_received(&StampedReply { far: far(540, 510, error), ..reply(3, 50) });
        let replies: Vec<_> = session.take_results().into_iter().filter_map(|result| result.reply.ok()).collect();
        assert_eq!((replies[0].round_trip, replies[0].one_way), (Span::from_millis(20), None));
        let one_way =
            OneWayDelays { up: Span::from_millis(8), down: Span::from_millis(12), error: Span::from_millis(1) };
        assert_eq!((replies[1].round_trip, replies[1].one_way), (Span::from_millis(20), Some(one_way)));
        assert_eq!((replies[2].round_trip, replies[2].one_way), (Span::from_millis(50), None));
    }

    #[test]
    fn the_kernel_tells_when_packets_left_and_came_where_it_can() {
        let mut session = session_with(&[0, 0]);
        session.probe_stamped(1, Time::ZERO + Span::from_micros(5));
        session.probe_stamped(9, Time::ZERO);
        let arrived = Stamps { kernel: Some(after(10)), user: after(11) };
        session.reply_received(&StampedReply { arrived, ..reply(1, 0) });
        session.reply_received(&StampedReply { arrived, ..reply(2, 0) });
        session.probe_sent(after(0), after(0));
        session.reply_received(&reply(3, 12));
        let trips: Vec<_> = session.take_results().iter().map(|result| result.reply.unwrap().round_trip).collect();
        assert_eq!(trips, [Span::from_micros(9995), Span::from_millis(10), Span::from_millis(12)]);
    }

    /// The replies of a reflector that counts, but for those of which the number is lost on the way back.
    fn directions(is_stateful: bool, answered: impl Fn(u64) -> bool, lost_down: impl Fn(u64) -> bool) -> Vec<LostIn> {
        let mut session = session_with(&[0; 12]);
        let mut number = 0;
        for sequence in 1..=12 {
            let is_sent = answered(sequence) || lost_down(sequence);
            let far = FarStamps {
                number: if is_stateful { number } else { sequence as u32 },
                received: after(1),
                reflected: after(1),
                clock_error: None,
            };
            number += u32::from(is_sent);
            if answered(sequence) {
                session.reply_received(&StampedReply { far: Some(far), ..reply(sequence, 2) });
            }
        }
        session.expire(after(4000));
        session.take_results().into_iter().filter_map(|result| result.reply.err()).collect()
    }

    #[test]
    fn the_reflectors_numbers_tell_in_which_direction_a_probe_was_lost() {
        let but = |lost: &'static [u64]| move |sequence: u64| !lost.contains(&sequence);
        let only = |lost: &'static [u64]| move |sequence: u64| lost.contains(&sequence);
        assert_eq!(directions(true, but(&[4, 8]), only(&[8])), [LostIn::Up, LostIn::Down]);
        // Of three in a row, one on the way back.
        let mixed = directions(true, but(&[4, 5, 6]), only(&[6]));
        assert_eq!(mixed.iter().filter(|lost| **lost == LostIn::Down).count(), 1);
        assert_eq!(mixed.iter().filter(|lost| **lost == LostIn::Up).count(), 2);
        // No reply has come since, or before.
        assert_eq!(directions(true, but(&[12]), only(&[])), [LostIn::EitherWay]);
        assert_eq!(directions(true, but(&[1]), only(&[])), [LostIn::EitherWay]);
        // It repeats what it gets.
        assert_eq!(directions(false, but(&[4]), only(&[])), [LostIn::EitherWay]);
    }
}
