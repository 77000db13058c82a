use crate::message::ConnectRefusal;
use crate::target::Target;
use kumade_noise_session::{HandshakeNotice, PublicKey};
use kumade_units::{Span, Time};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Why a connection was not carried: for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayReport {
    /// At the far end: a peer asked for what it may not reach.
    NotAllowed {
        /// Who.
        peer: PublicKey,
        /// What.
        target: Target,
    },
    /// At the far end: streams of a peer were reset, since more bytes of its streams were held that nobody took than a peer may
    /// have.
    TooMuchHeld {
        /// Who.
        peer: PublicKey,
        /// How many.
        streams: usize,
    },
    /// Further reports of the last minute, which are not made: who causes them is not to fill memory, a log or the terminal.
    LeftOut {
        /// At the far end: about whom.
        peer: Option<PublicKey>,
        /// How many.
        count: u64,
    },
    /// At the far end: a host has a wrong key. Few are told of.
    Handshake(HandshakeNotice),
    /// At the near end: the far end could not or would not connect.
    Refused {
        /// Where to.
        target: Target,
        /// Why not.
        refusal: ConnectRefusal,
    },
    /// At the near end: there is no connection to the far end.
    Unreachable {
        /// Where it should listen.
        address: SocketAddr,
        /// Why.
        cause: String,
    },
}

/// What one end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelayStatus {
    /// Connections that are carried now.
    pub connections: usize,
    /// Connections that were opened in all.
    pub opened: u64,
    /// Connections that were not carried: to what is not allowed, or not reached.
    pub refused: u64,
    /// Bytes of connections that have gone to the other end.
    pub sent_bytes: u64,
    /// Bytes of connections that have come from there.
    pub received_bytes: u64,
}

impl RelayReport {
    fn peer(&self) -> Option<PublicKey> {
        match self {
            RelayReport::NotAllowed { peer, .. } | RelayReport::TooMuchHeld { peer, .. } => Some(*peer),
            RelayReport::LeftOut { peer, .. } => *peer,
            RelayReport::Handshake(_) | RelayReport::Refused { .. } | RelayReport::Unreachable { .. } => None,
        }
    }
}

/// Reports that nobody has read yet. Of each peer some in a minute, and then how many there were besides.
#[derive(Debug, Default)]
pub(crate) struct ReportQueue {
    waiting: VecDeque<RelayReport>,
    minutes: BTreeMap<Option<PublicKey>, ReportedMinute>,
}

/// Since the first report of a peer.
#[derive(Debug)]
struct ReportedMinute {
    since: Time,
    reported: usize,
    last: RelayReport,
    left_out: u64,
}

/// Enough to see what is wrong.
const MAX_REPORTS_PER_MINUTE: usize = 10;
const MINUTE: Span = Span::from_secs(60);

impl ReportQueue {
    /// The same report again, one after the other, counts as left out.
    pub(crate) fn push(&mut self, report: RelayReport, now: Time) {
        self.end_minutes(now);
        let minute = self.minutes.entry(report.peer());
        match minute {
            Entry::Vacant(vacant) => {
                vacant.insert(ReportedMinute { since: now, reported: 1, last: report.clone(), left_out: 0 });
            }
            Entry::Occupied(mut occupied) => {
                let minute = occupied.get_mut();
                if minute.reported >= MAX_REPORTS_PER_MINUTE || minute.last == report {
                    minute.left_out += 1;
                    return;
                }
                minute.reported += 1;
                minute.last = report.clone();
            }
        }
        self.waiting.push_back(report);
    }

    pub(crate) fn take(&mut self, now: Time) -> Vec<RelayReport> {
        self.end_minutes(now);
        self.waiting.drain(..).collect()
    }

    /// Counts what is left out of minutes that are over. Returns whether any wait.
    pub(crate) fn advance(&mut self, now: Time) -> bool {
        self.end_minutes(now);
        !self.waiting.is_empty()
    }

    /// When there is one that tells how many were left out.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let minutes = self.minutes.values().filter(|minute| minute.left_out > 0);
        minutes.map(|minute| minute.since + MINUTE).min()
    }

    fn end_minutes(&mut self, now: Time) {
        let ReportQueue { waiting, minutes } = self;
        minutes.retain(|peer, minute| {
            let is_over = now - minute.since >= MINUTE;
            if is_over && minute.left_out > 0 {
                waiting.push_back(RelayReport::LeftOut { peer: *peer, count: minute.left_out });
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_allowed(peer: u8, port: u64) -> RelayReport {
        let target = format!("10.0.0.1:{}", port + 1).parse().unwrap();
        RelayReport::NotAllowed { peer: PublicKey::from_bytes([peer; 32]), target }
    }

    #[test]
    fn a_peer_makes_few_reports_and_what_is_left_out_is_counted() {
        let mut queue = ReportQueue::default();
        let mut reports = Vec::new();
        // 5000 in five minutes, which are read each second.
        for second in 0..300_u64 {
            let now = Time::ZERO + Span::from_secs(second as i64);
            (0..17).for_each(|number| queue.push(not_allowed(1, second * 17 + number), now));
            reports.extend(queue.take(now));
        }
        reports.extend(queue.take(Time::ZERO + Span::from_secs(300)));
        assert_eq!(reports.len(), 5 * (MAX_REPORTS_PER_MINUTE + 1));
        let counts = reports.iter().map(|report| match report {
            RelayReport::LeftOut { count, .. } => *count,
            _ => 1,
        });
        assert_eq!(counts.sum::<u64>(), 300 * 17);
    }

    #[test]
    fn no_peer_takes_the_reports_of_another() {
        let mut queue = ReportQueue::default();
        (0..1000).for_each(|number| queue.push(not_allowed(1, number), Time::ZERO));
        queue.push(not_allowed(2, 7), Time::ZERO);
        assert_eq!(queue.take(Time::ZERO).last(), Some(&not_allowed(2, 7)));
    }

    #[test]
    fn the_same_one_again_is_left_out() {
        let mut queue = ReportQueue::default();
        (0..50).for_each(|_| queue.push(not_allowed(1, 7), Time::ZERO));
        assert_eq!(queue.take(Time::ZERO), [not_allowed(1, 7)]);
        assert_eq!(queue.deadline(), Some(Time::ZERO + MINUTE));
        assert!(!queue.advance(Time::ZERO + MINUTE - Span::from_nanos(1)) && queue.advance(Time::ZERO + MINUTE));
        let left_out = RelayReport::LeftOut { peer: Some(PublicKey::from_bytes([1; 32])), count: 49 };
        assert_eq!(queue.take(Time::ZERO + MINUTE), [left_out]);
        assert_eq!(queue.take(Time::ZERO + MINUTE * 2), []);
    }
}
