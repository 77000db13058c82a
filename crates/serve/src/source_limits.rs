//! Rate limits of a reflector for each source, and sequence numbers for each session.

use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Maximum rate of replies to one source, per second.
const MAX_REPLIES_PER_SECOND: i64 = 2_000;
/// Maximum rate of replies to one source: 2 Mbit/s of IP packets, as the time that a byte takes.
const TIME_PER_BYTE: Span = Span::from_micros(4);
/// Burst of the rate limits, as a time at these rates.
const MAX_BURST_TIME: Span = Span::from_millis(250);
/// Number of rates that are limited. Sources share one by a secret hash: of 100 000 packets a second from forged sources, one
/// or two count for any other source, which may have 2000.
const RATE_LIMITER_COUNT: usize = 1 << 16;
/// Maximum number of sessions. If there are more, new ones are answered as by a stateless reflector (RFC 8762, 4.3), so that
/// one source can't lock out others.
const MAX_SESSIONS: usize = 4_096;
/// Number of sessions of short packets that are remembered, by a secret hash: where two share a place, each is a new one there, and is answered.
const SHORT_SESSIONS: usize = 4_096;
/// Idle time after which a session expires.
const SESSION_TIMEOUT: Span = Span::from_secs(60);
/// Idle time after which a test packet with sequence number zero begins a new session; before, it is a duplicate or
/// reordered. A short one does with any number, once in [`SESSION_TIMEOUT`].
const RESTART_AFTER: Span = Span::from_secs(1);
/// Interval between searches for expired sessions.
const SWEEP_INTERVAL: Span = Span::from_secs(1);

/// Bounded tables of sources and sessions.
#[derive(Debug)]
pub(super) struct SourceLimits {
    /// Theoretical time of the next reply at the maximum rate (GCRA), by the hash of IPv4 address or IPv6 /64.
    next_reply_times: Box<[Time]>,
    hash: RandomState,
    sessions: BTreeMap<SessionKey, ReflectorSession>,
    /// The last one in each place.
    short_sessions: Box<[Option<ShortSession>]>,
    last_sweep: Time,
}

/// Where its packets come from, and its number.
type SessionKey = (SocketAddr, u16);

/// A session of short packets.
#[derive(Debug, Clone, Copy)]
struct ShortSession {
    key: SessionKey,
    /// The number of the last packet that was answered, and when that was.
    last_sequence: u32,
    last_received: Time,
    /// From when on a number that is not higher may begin it anew: its sender was started again, or another one has forged a great number.
    restart_from: Time,
}

impl ShortSession {
    fn new(key: SessionKey, sequence: u32, now: Time) -> Self {
        ShortSession { key, last_sequence: sequence, last_received: now, restart_from: now }
    }

    fn is_expired(&self, now: Time) -> bool {
        now - self.last_received >= SESSION_TIMEOUT
    }

    /// Whether a packet with this number is answered.
    fn admit(&mut self, sequence: u32, now: Time) -> bool {
        if sequence <= self.last_sequence {
            if now - self.last_received <= RESTART_AFTER || now < self.restart_from {
                return false;
            }
            self.restart_from = now + SESSION_TIMEOUT;
        }
        (self.last_sequence, self.last_received) = (sequence, now);
        true
    }
}

/// Which test packet it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestPacketId {
    pub(super) session: u16,
    pub(super) sequence: u32,
    /// Whether it is so short that its answer has room for one sequence number alone, and may not be known as an answer.
    pub(super) is_short: bool,
    /// When its answer leaves, by the reflector's clock.
    pub(super) reflected: Time,
}

/// A test packet that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Admission {
    /// The answer's number.
    pub(super) sequence: u32,
    /// How many of its session were answered, this one included; zero where the session is not remembered.
    pub(super) reply_count: u32,
    /// Number of the answer before this one, and when it left; none where there is none, or the session is not remembered.
    pub(super) last_reply: Option<(u32, Time)>,
}

#[derive(Debug)]
struct ReflectorSession {
    reply_count: u32,
    last_reply: Option<(u32, Time)>,
    last_received: Time,
}

impl Default for SourceLimits {
    fn default() -> Self {
        SourceLimits {
            next_reply_times: vec![Time::ZERO; RATE_LIMITER_COUNT].into(),
            hash: RandomState::new(),
            sessions: BTreeMap::new(),
            short_sessions: vec![None; SHORT_SESSIONS].into(),
            last_sweep: Time::ZERO,
        }
    }
}

impl SourceLimits {
    /// The reply to this test packet of `bytes` (IP), counted from zero in its session; none if the source exceeds its rate.
    ///
    /// The reply to a short one has the sender's number (RFC 8762, 4.3: a stateless reflector), and there is none unless that is
    /// higher than those before it, or begins anew: two reflectors that took each other's short answers for questions would repeat a
    /// number for ever.
    pub(super) fn admit_packet(
        &mut self,
        from: SocketAddr,
        bytes: usize,
        test: TestPacketId,
        now: Time,
    ) -> Option<Admission> {
        let TestPacketId { session, sequence, is_short, reflected } = test;
        let stateless = Admission { sequence, ..Admission::default() };
        if now - self.last_sweep > SWEEP_INTERVAL {
            self.last_sweep = now;
            self.sessions.retain(|_, session| now - session.last_received < SESSION_TIMEOUT);
        }
        let site = source_prefix(from.ip().to_canonical());
        let due = &mut self.next_reply_times[self.hash.hash_one(site) as usize % RATE_LIMITER_COUNT];
        if *due - now > MAX_BURST_TIME {
            return None;
        }
        *due = (*due).max(now) + (Span::from_secs(1) / MAX_REPLIES_PER_SECOND).max(TIME_PER_BYTE * bytes as i64);
        let key = (from, session);
        if is_short {
            let place = self.hash.hash_one(key) as usize % SHORT_SESSIONS;
            let place = &mut self.short_sessions[place];
            return match place.as_mut().filter(|known| known.key == key && !known.is_expired(now)) {
                Some(known) => known.admit(sequence, now).then_some(stateless),
                None => {
                    *place = Some(ShortSession::new(key, sequence, now));
                    Some(stateless)
                }
            };
        }
        if self.sessions.len() >= MAX_SESSIONS && !self.sessions.contains_key(&key) {
            return Some(stateless);
        }
        let begun = ReflectorSession { reply_count: 0, last_reply: None, last_received: now };
        let session = self.sessions.entry(key).or_insert(begun);
        if sequence == 0 && now - session.last_received > RESTART_AFTER {
            (session.reply_count, session.last_reply) = (0, None);
        }
        session.last_received = now;
        let sequence = session.reply_count;
        session.reply_count = session.reply_count.wrapping_add(1);
        let last_reply = session.last_reply.replace((sequence, reflected));
        Some(Admission { sequence, reply_count: session.reply_count, last_reply })
    }
}

/// An IPv4 address, or the /64 of an IPv6 address.
fn source_prefix(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_at_millis(millis: i64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn admit(sources: &mut SourceLimits, from: SocketAddr, session: u16, sequence: u32, now: Time) -> Option<u32> {
        sources.admit_packet(from, 72, test_packet(session, sequence), now).map(|admission| admission.sequence)
    }

    fn test_packet(session: u16, sequence: u32) -> TestPacketId {
        TestPacketId { session, sequence, is_short: false, reflected: Time::ZERO }
    }

    #[test]
    fn large_packets_come_back_at_two_megabits_a_second() {
        let mut sources = SourceLimits::default();
        let test = test_packet(0, 1);
        let count = |from: &str, sources: &mut SourceLimits| {
            let from = SocketAddr::new(from.parse().unwrap(), 5);
            (0..10_000).filter(|i| sources.admit_packet(from, 1500, test, time_at_millis(*i)).is_some()).count()
        };
        for source in ["192.0.2.1", "192.0.2.2"] {
            let bits = 8 * 1500 * count(source, &mut sources);
            assert!((19_900_000..20_600_000).contains(&bits), "{bits} in ten seconds");
        }
    }

    #[test]
    fn a_source_gets_its_rate_and_no_more_whatever_its_ports() {
        let mut sources = SourceLimits::default();
        let answered = (0..10_000u16).filter(|&i| {
            let from = SocketAddr::new("2001:db8::1".parse().unwrap(), 1 + i % 100);
            admit(&mut sources, from, 0, 1, time_at_millis(i64::from(i) / 10)).is_some()
        });
        let answered = answered.count();
        assert!((2_000..2_600).contains(&answered), "{answered} of 10000 in one second");
        let other: SocketAddr = "192.0.2.1:5".parse().unwrap();
        assert!(admit(&mut sources, other, 0, 1, time_at_millis(1000)).is_some(), "other sources are not affected");
    }

    #[test]
    fn short_packets_are_answered_by_their_number_while_it_rises() {
        let mut sources = SourceLimits::default();
        let from: SocketAddr = "192.0.2.1:5".parse().unwrap();
        let mut answer = |sequence, seconds: i64| {
            let test = TestPacketId { is_short: true, ..test_packet(0, sequence) };
            sources.admit_packet(from, 42, test, time_at_millis(1000 * seconds)).map(|admission| admission.sequence)
        };
        assert_eq!([5, 6, 9].map(|sequence| answer(sequence, 0)), [Some(5), Some(6), Some(9)]);
        assert_eq!([9, 6, 0].map(|sequence| answer(sequence, 1)), [None; 3], "copies, or another reflector's answers");
        assert_eq!(
            [(0, 2), (0, 2), (1, 3)].map(|(sequence, seconds)| answer(sequence, seconds)),
            [Some(0), None, Some(1)]
        );
        assert_eq!(
            [(1, 6), (0, 61)].map(|(sequence, seconds)| answer(sequence, seconds)),
            [None, None],
            "once in a minute"
        );
        assert_eq!(answer(0, 63), Some(0), "after a minute without an answer");
    }

    /// Once, one packet with the highest number silenced its source for a minute, also before that had sent any.
    #[test]
    fn a_forged_number_silences_short_packets_for_a_second() {
        for forged_before in [0, 100] {
            let mut sources = SourceLimits::default();
            let from: SocketAddr = "192.0.2.1:5".parse().unwrap();
            let mut answer = |sequence: u32, millis| {
                let test = TestPacketId { is_short: true, ..test_packet(0, sequence) };
                sources.admit_packet(from, 42, test, time_at_millis(millis)).is_some()
            };
            let mut answered = 0;
            for sequence in 0..200 {
                let millis = 100 * i64::from(sequence);
                if sequence == forged_before {
                    assert!(answer(u32::MAX, millis));
                }
                answered += u32::from(answer(sequence, millis));
            }
            assert_eq!(answered, 189, "of ten packets a second");
        }
    }

    /// The round trip between them is longer than a silence after which a number begins anew.
    #[test]
    fn what_comes_back_after_seconds_is_answered_once_more_at_most() {
        let mut sources = SourceLimits::default();
        let other: SocketAddr = "192.0.2.1:862".parse().unwrap();
        let test = TestPacketId { is_short: true, ..test_packet(0, 7) };
        let comes_back = (0..)
            .step_by(3)
            .take_while(|&seconds| sources.admit_packet(other, 42, test, time_at_millis(1000 * seconds)).is_some());
        assert_eq!(comes_back.count(), 2);
    }

    /// Whoever fills the tables: each is answered once, and again by a higher number.
    #[test]
    fn many_sessions_keep_no_short_packet_from_its_answer() {
        let mut sources = SourceLimits::default();
        for number in 0..3 * MAX_SESSIONS as u32 {
            let filler: SocketAddr = (std::net::Ipv4Addr::from(number), 5).into();
            for is_short in [false, true] {
                sources.admit_packet(filler, 72, TestPacketId { is_short, ..test_packet(0, 1) }, time_at_millis(0));
            }
        }
        let from: SocketAddr = "192.0.2.1:5".parse().unwrap();
        let mut answer = |sequence| {
            let test = TestPacketId { is_short: true, ..test_packet(0, sequence) };
            sources.admit_packet(from, 42, test, time_at_millis(1)).map(|admission| admission.sequence)
        };
        assert_eq!([5, 6, 6].map(&mut answer), [Some(5), Some(6), None]);
    }

    #[test]
    fn sessions_count_their_answers_and_memory_is_bounded() {
        let mut sources = SourceLimits::default();
        let from: SocketAddr = "192.0.2.1:5".parse().unwrap();
        assert_eq!(
            (0..3).map(|i| admit(&mut sources, from, 7, i * 2, time_at_millis(0))).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(admit(&mut sources, from, 8, 5, time_at_millis(0)), Some(0), "another session");
        assert_eq!(admit(&mut sources, from, 7, 0, time_at_millis(900)), Some(3), "a copy of the first probe");
        assert_eq!(admit(&mut sources, from, 7, 0, time_at_millis(2000)), Some(0), "begun anew");
        for i in 0..3 * MAX_SESSIONS as u32 {
            admit(&mut sources, (std::net::Ipv4Addr::from(i), 5).into(), 0, 1, time_at_millis(2001));
        }
        assert!(sources.next_reply_times.len() == RATE_LIMITER_COUNT && sources.sessions.len() <= MAX_SESSIONS);
    }

    #[test]
    fn each_answer_knows_the_one_before_it_in_its_session() {
        let mut sources = SourceLimits::default();
        let from: SocketAddr = "192.0.2.1:5".parse().unwrap();
        let mut answer = |sequence, millis| {
            let test = TestPacketId { reflected: time_at_millis(millis + 1), ..test_packet(0, sequence) };
            sources.admit_packet(from, 72, test, time_at_millis(millis)).unwrap()
        };
        let admission = |sequence, last_reply| Admission { sequence, reply_count: sequence + 1, last_reply };
        assert_eq!(answer(0, 0), admission(0, None));
        assert_eq!(answer(2, 20), admission(1, Some((0, time_at_millis(1)))));
        assert_eq!(answer(3, 30), admission(2, Some((1, time_at_millis(21)))));
        assert_eq!(answer(0, 3000), admission(0, None), "begun anew");
    }

    /// One packet in ten microseconds, each from another address, and a source that sends as it may.
    #[test]
    fn forged_sources_take_nothing_from_another_one() {
        let mut sources = SourceLimits::default();
        let other: SocketAddr = "192.0.2.1:5".parse().unwrap();
        let mut answered = 0;
        for step in 0..200_000_u32 {
            let now = Time::from_nanos(i64::from(step) * 10_000);
            admit(&mut sources, (std::net::Ipv4Addr::from(0x0a00_0000 + step), 5).into(), 0, 1, now);
            if step.is_multiple_of(1_000) {
                answered += u32::from(admit(&mut sources, other, 0, step, now).is_some());
            }
        }
        assert_eq!(answered, 200);
    }

    #[test]
    fn one_source_cannot_keep_others_out_by_filling_the_memory_with_sessions() {
        let mut sources = SourceLimits::default();
        for port in 0..20_000u16 {
            admit(&mut sources, (std::net::Ipv4Addr::LOCALHOST, port).into(), 0, 7, time_at_millis(i64::from(port)));
        }
        let other: SocketAddr = "192.0.2.1:5".parse().unwrap();
        assert_eq!(admit(&mut sources, other, 0, 7, time_at_millis(20_000)), Some(7), "answered, and not counted");
    }
}
