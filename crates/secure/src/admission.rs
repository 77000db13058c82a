//! Which handshake messages are worth computing on: each costs the host two to four multiplications on the curve, some
//! 200 µs, and anyone who knows its public key can send them (WireGuard §5.3).
//!
//! Up to a rate all are. Beyond it, a sender has to show first that it receives at its address: it gets a cookie, and
//! sends its message again. Those who have shown it are limited by their address. Memory is constant.

use crate::limits::COOKIE_LIFETIME;
use crate::mac::{Cookie, has_valid_mac2, keyed};
use crate::policy::Policy;
use rand_core::CryptoRng;
use std::net::{IpAddr, SocketAddr};
use units::{Span, Time};
use zeroize::Zeroizing;

/// Buckets among which the sources are divided; two that share one share its rate.
const SOURCES: usize = 4096;

/// What to do about a handshake message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Compute,
    /// Answer with this cookie.
    AskForCookie(Cookie),
    Drop,
}

#[derive(Debug)]
pub(crate) struct Admission {
    /// Cookies are made of it.
    secret: Zeroizing<[u8; 32]>,
    secret_until: Time,
    /// Messages without a cookie.
    unproven: Rate,
    unproven_bucket: Bucket,
    /// Messages with one.
    proven_bucket: Bucket,
    replies: Rate,
    replies_bucket: Bucket,
    per_source: Rate,
    sources: Box<[Bucket]>,
}

/// A rate, and how much may come at once.
#[derive(Debug, Clone, Copy)]
struct Rate {
    interval: Span,
    tolerance: Span,
}

/// A token bucket, represented by the instant at which it will be full again (generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Clone, Copy)]
struct Bucket {
    full_at: Time,
}

impl Admission {
    pub(crate) fn new(policy: &Policy) -> Self {
        Admission {
            secret: Zeroizing::new([0; 32]),
            secret_until: Time::from_nanos(i64::MIN),
            unproven: Rate::new(policy.handshakes_per_second),
            unproven_bucket: Bucket::FULL,
            proven_bucket: Bucket::FULL,
            replies: Rate::new(policy.cookie_replies_per_second),
            replies_bucket: Bucket::FULL,
            per_source: Rate::new(policy.handshakes_per_second_and_source),
            sources: vec![Bucket::FULL; SOURCES].into(),
        }
    }

    /// Decides about a message whose `mac1` is valid.
    pub(crate) fn judge(&mut self, message: &[u8], from: SocketAddr, now: Time, random: &mut dyn CryptoRng) -> Verdict {
        self.renew_secret(now, random);
        let cookie = self.cookie_of(from);
        if has_valid_mac2(message, &cookie) {
            let source = self.source_of(from);
            let has_share = self.sources[source].take(self.per_source, now);
            let is_admitted = has_share && self.proven_bucket.take(self.unproven, now);
            return if is_admitted { Verdict::Compute } else { Verdict::Drop };
        }
        if self.unproven_bucket.take(self.unproven, now) {
            Verdict::Compute
        } else if self.replies_bucket.take(self.replies, now) {
            Verdict::AskForCookie(cookie)
        } else {
            Verdict::Drop
        }
    }

    fn renew_secret(&mut self, now: Time, random: &mut dyn CryptoRng) {
        if now >= self.secret_until {
            random.fill_bytes(&mut *self.secret);
            self.secret_until = now + COOKIE_LIFETIME;
        }
    }

    fn cookie_of(&self, from: SocketAddr) -> Cookie {
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&octets(from.ip()));
        bytes[16..].copy_from_slice(&from.port().to_be_bytes());
        keyed(&*self.secret, &bytes)
    }

    /// The bucket of an address: of one IPv4 address, or of one /64 of IPv6.
    fn source_of(&self, from: SocketAddr) -> usize {
        let ip = octets(from.ip());
        let prefix = if from.ip().to_canonical().is_ipv4() { &ip[..] } else { &ip[..8] };
        let hash = keyed(&*self.secret, prefix);
        usize::from(u16::from_le_bytes([hash[0], hash[1]])) % SOURCES
    }
}

impl Rate {
    /// A tenth of a second's worth, and one at least, may come at once.
    fn new(per_second: u32) -> Self {
        let interval = Span::from_secs(1) / i64::from(per_second.max(1));
        Rate { interval, tolerance: interval * i64::from(per_second / 10) }
    }
}

impl Bucket {
    const FULL: Bucket = Bucket { full_at: Time::from_nanos(i64::MIN) };

    /// Takes a token, if there is one.
    fn take(&mut self, rate: Rate, now: Time) -> bool {
        let has_token = self.full_at <= now + rate.tolerance;
        if has_token {
            self.full_at = self.full_at.max(now) + rate.interval;
        }
        has_token
    }
}

/// An address in 16 bytes, IPv4 mapped into IPv6.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PublicKey;
    use crate::mac::MacKeys;
    use crate::message::INITIATION;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn address(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], port))
    }

    fn admission() -> (Admission, StdRng) {
        let policy = Policy {
            handshakes_per_second: 50,
            handshakes_per_second_and_source: 10,
            cookie_replies_per_second: 1000,
            ..Policy::default()
        };
        (Admission::new(&policy), StdRng::seed_from_u64(1))
    }

    #[test]
    fn beyond_its_rate_a_host_asks_for_a_cookie_and_takes_what_carries_it() {
        let (mut admission, mut random) = admission();
        let keys = MacKeys::of(&PublicKey::from_bytes([9; 32]));
        let mut message = [0; INITIATION];
        keys.sign(&mut message, None);
        let mut computed = 0;
        let cookie = loop {
            match admission.judge(&message, address(1, 7), Time::ZERO, &mut random) {
                Verdict::Compute => computed += 1,
                Verdict::AskForCookie(cookie) => break cookie,
                Verdict::Drop => panic!("within the rate of replies"),
            }
        };
        assert_eq!(computed, 6);
        keys.sign(&mut message, Some(&cookie));
        let mut judge = |from| admission.judge(&message, from, Time::ZERO, &mut random);
        assert_eq!(judge(address(1, 7)), Verdict::Compute);
        assert!(matches!(judge(address(1, 8)), Verdict::AskForCookie(_)), "a cookie holds for one address");
        assert_eq!(judge(address(1, 7)), Verdict::Compute);
        assert_eq!(judge(address(1, 7)), Verdict::Drop, "each source has a rate of its own");
    }

    #[test]
    fn a_flood_costs_no_more_than_the_policy_says() {
        let (mut admission, mut random) = admission();
        let (mut computed, mut replied) = (0, 0);
        for packet in 0..100_000 {
            let now = Time::from_nanos(packet * 10_000);
            match admission.judge(&[1; INITIATION], address(packet as u8, packet as u16), now, &mut random) {
                Verdict::Compute => computed += 1,
                Verdict::AskForCookie(_) => replied += 1,
                Verdict::Drop => {}
            }
        }
        assert!((50..60).contains(&computed), "{computed} in one second");
        assert!((1000..=1110).contains(&replied), "{replied} in one second");
    }

    #[test]
    fn one_ipv6_host_cannot_be_many_sources() {
        let (admission, _) = admission();
        let source = |text: &str| admission.source_of(text.parse().unwrap());
        assert_eq!(source("[2001:db8::1]:5"), source("[2001:db8::ffff:2]:6"));
        assert_ne!(source("[2001:db8::1]:5"), source("[2001:db8:0:1::1]:5"));
        assert_ne!(source("192.0.2.1:5"), source("192.0.2.2:5"));
        assert_eq!(source("192.0.2.1:5"), source("[::ffff:192.0.2.1]:5"));
    }
}
