//! Who asks a reflector, how often, and how often in each session.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use units::{Span, Time};

/// Answers to one source a second …
const RATE: i64 = 2_000;
/// … and at once, after a pause.
const BURST: Span = Span::from_millis(250);
/// Sources, and sessions, that are kept in mind. Beyond that, new sources go unanswered until old ones are forgotten,
/// which is soon; new sessions are answered without counting (RFC 8762, 4.3: a stateless reflector), or one source could
/// keep the others out.
const MOST: usize = 4_096;
/// Silence after which a session is forgotten …
const FORGET: Span = Span::from_secs(60);
/// … or begun anew by a probe with the first number: sooner, that is a copy, or a probe that others have overtaken.
const PAUSE: Span = Span::from_secs(1);
/// How often to look for what can be forgotten.
const SWEEP: Span = Span::from_millis(50);

/// Bounded memory of sources and sessions.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// When the next answer is due, were they evenly spaced: by address, or network of 64 bits.
    due: BTreeMap<IpAddr, Time>,
    sessions: BTreeMap<(SocketAddr, u16), Session>,
    swept: Time,
}

#[derive(Debug)]
struct Session {
    answers: u32,
    heard: Time,
}

impl Sources {
    /// The number of the answer to this probe, counted from zero in the session of this sender; none where it has had its
    /// share.
    pub(super) fn admit(&mut self, from: SocketAddr, session: u16, sequence: u32, now: Time) -> Option<u32> {
        if now - self.swept > SWEEP {
            self.swept = now;
            // One that nothing is held against is like one that was never heard of.
            self.due.retain(|_, due| *due > now);
            self.sessions.retain(|_, session| now - session.heard < FORGET);
        }
        let site = site(from.ip().to_canonical());
        if self.due.len() >= MOST && !self.due.contains_key(&site) {
            return None;
        }
        let due = self.due.entry(site).or_insert(now);
        if *due - now > BURST {
            return None;
        }
        *due = (*due).max(now) + Span::from_secs(1) / RATE;
        let key = (from, session);
        if self.sessions.len() >= MOST && !self.sessions.contains_key(&key) {
            return Some(sequence);
        }
        let session = self.sessions.entry(key).or_insert(Session { answers: 0, heard: now });
        if sequence == 0 && now - session.heard > PAUSE {
            session.answers = 0;
        }
        session.heard = now;
        session.answers = session.answers.wrapping_add(1);
        Some(session.answers.wrapping_sub(1))
    }
}

/// An IPv4 address, or the network of an IPv6 address: its owner has all of it.
fn site(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_source_gets_its_rate_and_no_more_whatever_its_ports() {
        let mut sources = Sources::default();
        let answered = (0..10_000u16).filter(|&i| {
            let from = SocketAddr::new("2001:db8::1".parse().unwrap(), 1 + i % 100);
            sources.admit(from, 0, 1, at(i64::from(i) / 10)).is_some()
        });
        let answered = answered.count();
        assert!((2_000..2_600).contains(&answered), "{answered} of 10000 in one second");
        let other: SocketAddr = "192.0.2.1:5".parse().unwrap();
        assert!(sources.admit(other, 0, 1, at(1000)).is_some(), "others are not concerned");
    }

    #[test]
    fn sessions_count_their_answers_and_memory_is_bounded() {
        let mut sources = Sources::default();
        let from: SocketAddr = "192.0.2.1:5".parse().unwrap();
        assert_eq!(
            (0..3).map(|i| sources.admit(from, 7, i * 2, at(0))).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(sources.admit(from, 8, 5, at(0)), Some(0), "another session");
        assert_eq!(sources.admit(from, 7, 0, at(900)), Some(3), "a copy of the first probe");
        assert_eq!(sources.admit(from, 7, 0, at(2000)), Some(0), "begun anew");
        for i in 0..3 * MOST as u32 {
            sources.admit((std::net::Ipv4Addr::from(i), 5).into(), 0, 1, at(2001));
        }
        assert!(sources.due.len() <= MOST && sources.sessions.len() <= MOST);
        assert_eq!(sources.admit(([198, 51, 100, 1], 5).into(), 0, 1, at(2002)), None);
        assert!(sources.admit(([198, 51, 100, 1], 5).into(), 0, 1, at(2100)).is_some(), "the others are forgotten");
    }

    #[test]
    fn one_source_cannot_keep_others_out_by_filling_the_memory_with_sessions() {
        let mut sources = Sources::default();
        for port in 0..20_000u16 {
            sources.admit((std::net::Ipv4Addr::LOCALHOST, port).into(), 0, 7, at(i64::from(port)));
        }
        let other: SocketAddr = "192.0.2.1:5".parse().unwrap();
        assert_eq!(sources.admit(other, 0, 7, at(20_000)), Some(7), "answered, and not counted");
    }
}
