//! Which handshake messages are worth computing on: each costs the host two to four multiplications on the curve, some
//! 200 µs, and anyone who knows its public key can send them (WireGuard §5.3).
//!
//! Up to a rate all are. Beyond it, a sender has to show first that it receives at its address: it gets a cookie, and
//! sends its message again. Those who have shown it are limited by their address, and so are cookies by the address that
//! asks; where addresses are forged by the thousand, those at which a peer is expected still get theirs. Memory is
//! constant.

use crate::limits::COOKIE_LIFETIME;
use crate::mac::{Cookie, has_valid_mac2, keyed_hash};
use crate::policy::HandshakePolicy;
use kumade_units::{Span, Time};
use rand_core::CryptoRng;
use std::net::{IpAddr, SocketAddr};
use zeroize::Zeroizing;

/// Buckets among which the sources are divided; two that share one share its rate.
const SOURCE_BUCKETS: usize = 4096;

/// What to do about a handshake message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionDecision {
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
    without_cookie_rate: TokenRate,
    without_cookie_bucket: TokenBucket,
    /// Messages with one.
    with_cookie_bucket: TokenBucket,
    reply_rate: TokenRate,
    reply_bucket: TokenBucket,
    expected_reply_bucket: TokenBucket,
    per_source_rate: TokenRate,
    /// By source: messages with a cookie, and replies.
    sources: Box<[SourceBuckets]>,
}

#[derive(Debug, Clone, Copy)]
struct SourceBuckets {
    with_cookie: TokenBucket,
    replies: TokenBucket,
}

/// A rate, and how much may come at once.
#[derive(Debug, Clone, Copy)]
struct TokenRate {
    interval: Span,
    tolerance: Span,
}

/// A token bucket, represented by the instant at which it will be full again (generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    full_at: Time,
}

impl Admission {
    pub(crate) fn new(policy: &HandshakePolicy) -> Self {
        Admission {
            secret: Zeroizing::new([0; 32]),
            secret_until: Time::from_nanos(i64::MIN),
            without_cookie_rate: TokenRate::new(policy.handshakes_per_second),
            without_cookie_bucket: TokenBucket::FULL,
            with_cookie_bucket: TokenBucket::FULL,
            reply_rate: TokenRate::new(policy.cookie_replies_per_second),
            reply_bucket: TokenBucket::FULL,
            expected_reply_bucket: TokenBucket::FULL,
            per_source_rate: TokenRate::new(policy.handshakes_per_second_and_source),
            sources: vec![SourceBuckets { with_cookie: TokenBucket::FULL, replies: TokenBucket::FULL }; SOURCE_BUCKETS]
                .into(),
        }
    }

    /// Decides about a message whose `mac1` is valid. `is_expected` says that a peer may be at this address.
    pub(crate) fn decide(
        &mut self,
        message: &[u8],
        from: SocketAddr,
        is_expected: bool,
        now: Time,
        random: &mut dyn CryptoRng,
    ) -> AdmissionDecision {
        self.renew_secret(now, random);
        let cookie = self.cookie_for(from);
        if has_valid_mac2(message, &cookie) {
            self.decide_for_proven_source(from, now)
        } else if self.without_cookie_bucket.take(self.without_cookie_rate, now) {
            AdmissionDecision::Compute
        } else if self.can_reply(from, is_expected, now) {
            AdmissionDecision::AskForCookie(cookie)
        } else {
            AdmissionDecision::Drop
        }
    }

    fn decide_for_proven_source(&mut self, from: SocketAddr, now: Time) -> AdmissionDecision {
        let source = self.bucket_index(from);
        let has_share = self.sources[source].with_cookie.take(self.per_source_rate, now);
        if has_share && self.with_cookie_bucket.take(self.without_cookie_rate, now) {
            AdmissionDecision::Compute
        } else {
            AdmissionDecision::Drop
        }
    }

    fn can_reply(&mut self, from: SocketAddr, is_expected: bool, now: Time) -> bool {
        if is_expected {
            return self.expected_reply_bucket.take(self.reply_rate, now);
        }
        let source = self.bucket_index(from);
        self.sources[source].replies.take(self.per_source_rate, now) && self.reply_bucket.take(self.reply_rate, now)
    }

    fn renew_secret(&mut self, now: Time, random: &mut dyn CryptoRng) {
        if now >= self.secret_until {
            random.fill_bytes(&mut *self.secret);
            self.secret_until = now + COOKIE_LIFETIME;
        }
    }

    fn cookie_for(&self, from: SocketAddr) -> Cookie {
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&octets(from.ip()));
        bytes[16..].copy_from_slice(&from.port().to_be_bytes());
        keyed_hash(&self.secret, &bytes)
    }

    /// The bucket of an address: of one IPv4 address, or of one /64 of IPv6.
    fn bucket_index(&self, from: SocketAddr) -> usize {
        let ip = octets(from.ip());
        let prefix = if from.ip().to_canonical().is_ipv4() { &ip[..] } else { &ip[..8] };
        let hash = keyed_hash(&self.secret, prefix);
        usize::from(u16::from_le_bytes([hash[0], hash[1]])) % SOURCE_BUCKETS
    }
}

impl TokenRate {
    /// A tenth of a second's worth, and one at least, may come at once.
    fn new(per_second: u32) -> Self {
        let interval = Span::from_secs(1) / i64::from(per_second.max(1));
        TokenRate { interval, tolerance: interval * i64::from(per_second / 10) }
    }
}

impl TokenBucket {
    const FULL: TokenBucket = TokenBucket { full_at: Time::from_nanos(i64::MIN) };

    /// Takes a token, if there is one.
    fn take(&mut self, rate: TokenRate, now: Time) -> bool {
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
    use crate::message::INITIATION_BYTES;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn address(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], port))
    }

    fn admission() -> (Admission, StdRng) {
        let policy = HandshakePolicy {
            handshakes_per_second: 50,
            handshakes_per_second_and_source: 10,
            cookie_replies_per_second: 1000,
            ..HandshakePolicy::default()
        };
        (Admission::new(&policy), StdRng::seed_from_u64(1))
    }

    #[test]
    fn beyond_its_rate_a_host_asks_for_a_cookie_and_takes_what_carries_it() {
        let (mut admission, mut random) = admission();
        let keys = MacKeys::for_receiver(&PublicKey::from_bytes([9; 32]));
        let mut message = [0; INITIATION_BYTES];
        keys.write_macs(&mut message, None);
        let mut computed = 0;
        let cookie = loop {
            match admission.decide(&message, address(1, 7), false, Time::ZERO, &mut random) {
                AdmissionDecision::Compute => computed += 1,
                AdmissionDecision::AskForCookie(cookie) => break cookie,
                AdmissionDecision::Drop => panic!("within the rate of replies"),
            }
        };
        assert_eq!(computed, 6);
        keys.write_macs(&mut message, Some(&cookie));
        let mut judge = |from| admission.decide(&message, from, false, Time::ZERO, &mut random);
        assert_eq!(judge(address(1, 7)), AdmissionDecision::Compute);
        assert!(matches!(judge(address(1, 8)), AdmissionDecision::AskForCookie(_)), "a cookie holds for one address");
        assert_eq!(judge(address(1, 7)), AdmissionDecision::Compute);
        assert_eq!(judge(address(1, 7)), AdmissionDecision::Drop, "each source has a rate of its own");
    }

    #[test]
    fn a_cookie_is_this_hosts_and_ends_with_its_lifetime() {
        let (mut admission, mut random) = admission();
        let keys = MacKeys::for_receiver(&PublicKey::from_bytes([9; 32]));
        admission.renew_secret(Time::ZERO, &mut random);
        let cookie = admission.cookie_for(address(1, 7));
        assert_ne!(*admission.secret, [0; 32]);
        let mut message = [0; INITIATION_BYTES];
        keys.write_macs(&mut message, Some(&cookie));
        let shortly_before = Time::ZERO + COOKIE_LIFETIME - Span::from_nanos(1);
        admission.renew_secret(shortly_before, &mut random);
        assert!(has_valid_mac2(&message, &admission.cookie_for(address(1, 7))));
        admission.renew_secret(shortly_before + Span::from_nanos(1), &mut random);
        assert!(!has_valid_mac2(&message, &admission.cookie_for(address(1, 7))));
    }

    #[test]
    fn sources_are_spread_over_all_buckets() {
        let (admission, _) = admission();
        let used: std::collections::BTreeSet<_> = (0..2000u16)
            .map(|number| admission.bucket_index(([10, 0, (number >> 8) as u8, number as u8], 9).into()))
            .collect();
        assert!(used.len() > 1000 && used.iter().all(|&source| source < SOURCE_BUCKETS), "{}", used.len());
    }

    /// A hundred thousand messages in one second: how many are computed on, and how many are answered.
    fn flood(admission: &mut Admission, sources: i64, is_expected: bool) -> (u32, u32) {
        let mut random = StdRng::seed_from_u64(2);
        let (mut computed, mut replied) = (0, 0);
        for packet in 0..100_000 {
            let now = Time::from_nanos(packet * 10_000);
            let bytes = ((packet % sources) as u32).to_be_bytes();
            let from = SocketAddr::from((bytes, 9));
            match admission.decide(&[1; INITIATION_BYTES], from, is_expected, now, &mut random) {
                AdmissionDecision::Compute => computed += 1,
                AdmissionDecision::AskForCookie(_) => replied += 1,
                AdmissionDecision::Drop => {}
            }
        }
        (computed, replied)
    }

    #[test]
    fn a_flood_costs_no_more_than_the_policy_says() {
        for (sources, replies) in [(100_000, 1000..1110), (1, 10..13)] {
            let (mut admission, mut random) = admission();
            let (computed, replied) = flood(&mut admission, sources, false);
            assert!((50..60).contains(&computed), "{computed} in one second");
            assert!(replies.contains(&replied), "{replied} in one second");
            // At an address where a peer is expected, nobody waits.
            let end = Time::ZERO + Span::from_millis(999);
            let verdict = admission.decide(&[1; INITIATION_BYTES], address(1, 1), true, end, &mut random);
            assert!(matches!(verdict, AdmissionDecision::AskForCookie(_)));
        }
        let (computed, replied) = flood(&mut admission().0, 1, true);
        assert!(computed < 60 && replied < 1110, "{computed}, {replied}");
    }

    #[test]
    fn one_ipv6_host_cannot_be_many_sources() {
        let (admission, _) = admission();
        let source = |text: &str| admission.bucket_index(text.parse().unwrap());
        assert_eq!(source("[2001:db8::1]:5"), source("[2001:db8::ffff:2]:6"));
        assert_ne!(source("[2001:db8::1]:5"), source("[2001:db8:0:1::1]:5"));
        assert_ne!(source("192.0.2.1:5"), source("192.0.2.2:5"));
        assert_eq!(source("192.0.2.1:5"), source("[::ffff:192.0.2.1]:5"));
    }
}
