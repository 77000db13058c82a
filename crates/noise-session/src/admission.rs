//! Which handshake messages are worth computing on: each costs the host two to four multiplications on the curve, some
//! 200 µs, and anyone who knows its public key can send them (WireGuard §5.3).
//!
//! What is limited is the computation on messages that are no peer's: a peer's own message costs nothing here. Up to a rate
//! all are computed on. Beyond it, a sender has to show first that it receives at its address: it gets a cookie, and sends its
//! message again; or it has a TCP connection. Among those who have shown it, the network (IPv4 /24, IPv6 /48) that has
//! sent most in vain lately is refused first, so that one that is quiet is always heard, however many addresses and messages
//! others have; an address at which a peer has authenticated counts by itself, and is heard before all networks. Cookies are
//! limited by the address that asks; where addresses are forged by the thousand, those at which a peer is expected still get
//! theirs. Memory is constant.

use crate::limits::COOKIE_LIFETIME;
use crate::mac::{Cookie, has_valid_mac2, keyed_hash};
use crate::policy::HandshakePolicy;
use kumade_units::{Span, Time, TokenBucket, TokenRate};
use rand_core::CryptoRng;
use std::net::{IpAddr, SocketAddr};
use zeroize::Zeroizing;

/// Buckets among which the sources of those that ask for cookies are divided; two that share one share its rate.
const REPLY_BUCKETS: usize = 4096;
/// A message that is no peer's, or is refused, counts against its network for so long. The initiations of a peer are further apart
/// but for its first ones; and who sends as rarely as a peer has to have over a thousand networks to fill the rate.
const PENALTY_PER_MESSAGE: Span = Span::from_secs(5);
/// No network has more against it: two minutes after an attack it is as any other.
const MAX_PENALTIES: i64 = 24;
/// Rows of the table of penalties, and columns that networks have in each. A network is kept out by others' penalties if it shares
/// its column with one of them in each row: of 250 networks that attack, by a chance of one in 70 000. Hosts where a peer is expected
/// have as many columns of their own: however many networks attack, their penalties never count against a peer's address.
const PENALTY_ROWS: usize = 4;
const PENALTY_COLUMNS: u16 = 4096;

/// What to do about a handshake message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionDecision {
    /// Compute on it, and have it [charged](Admission::charge) if it is no peer's.
    Compute(Admitted),
    /// Answer with this cookie.
    AskForCookie(Cookie),
    Drop,
}

/// What a message is charged to that turns out to be no peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admitted {
    Unproven,
    Proven(PenaltyCells),
}

/// Where the table has the penalty of a network or an address, by row.
pub(crate) type PenaltyCells = [u16; PENALTY_ROWS];

/// Where a message comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageSource {
    pub(crate) address: SocketAddr,
    /// It is known to receive there, by a TCP connection.
    pub(crate) is_proven: bool,
    /// A peer may be there.
    pub(crate) is_expected: bool,
}

/// One IPv4 address, mapped into IPv6, or one /64 of IPv6: what one host can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPrefix([u8; 16]);

#[derive(Debug)]
pub(crate) struct Admission {
    /// Cookies are made of it.
    secret: Zeroizing<[u8; 32]>,
    secret_until: Time,
    /// Says which place in the tables a source has.
    table_key: Zeroizing<[u8; 32]>,
    rate: TokenRate,
    unproven_bucket: TokenBucket,
    proven_bucket: TokenBucket,
    /// When there is nothing any more against the networks that share a cell, for each row.
    penalties_end: Box<[Time]>,
    reply_rate: TokenRate,
    reply_bucket: TokenBucket,
    expected_reply_bucket: TokenBucket,
    reply_rate_per_source: TokenRate,
    reply_buckets_by_source: Box<[TokenBucket]>,
}

impl HostPrefix {
    pub(crate) fn containing(ip: IpAddr) -> Self {
        HostPrefix(masked(ip, 32, 64))
    }
}

impl Admission {
    pub(crate) fn new(policy: &HandshakePolicy, random: &mut dyn CryptoRng) -> Self {
        let mut table_key = Zeroizing::new([0; 32]);
        random.fill_bytes(&mut *table_key);
        Admission {
            secret: Zeroizing::new([0; 32]),
            secret_until: Time::from_nanos(i64::MIN),
            table_key,
            rate: tenth_at_once(policy.handshakes_per_second),
            unproven_bucket: TokenBucket::FULL,
            proven_bucket: TokenBucket::FULL,
            penalties_end: vec![Time::from_nanos(i64::MIN); PENALTY_ROWS * 2 * usize::from(PENALTY_COLUMNS)].into(),
            reply_rate: tenth_at_once(policy.cookie_replies_per_second),
            reply_bucket: TokenBucket::FULL,
            expected_reply_bucket: TokenBucket::FULL,
            reply_rate_per_source: tenth_at_once(policy.cookie_replies_per_second_and_source),
            reply_buckets_by_source: vec![TokenBucket::FULL; REPLY_BUCKETS].into(),
        }
    }

    /// Decides about a message with a place for a cookie, whose `mac1` is valid.
    pub(crate) fn decide(
        &mut self,
        message: &[u8],
        source: MessageSource,
        now: Time,
        random: &mut dyn CryptoRng,
    ) -> AdmissionDecision {
        self.renew_secret(now, random);
        let cookie = self.cookie_for(source.address);
        if source.is_proven || has_valid_mac2(message, &cookie) {
            let admitted = self.admit_proven(source.address.ip(), source.is_expected, now);
            admitted.map_or(AdmissionDecision::Drop, AdmissionDecision::Compute)
        } else if self.unproven_bucket.missing(now) <= self.rate.tolerance() {
            AdmissionDecision::Compute(Admitted::Unproven)
        } else if self.can_reply(source, now) {
            AdmissionDecision::AskForCookie(cookie)
        } else {
            AdmissionDecision::Drop
        }
    }

    /// Whether a message of who receives at its address is to be computed on.
    pub(crate) fn admit_proven(&mut self, ip: IpAddr, is_expected: bool, now: Time) -> Option<Admitted> {
        let cells = self.penalty_cells(ip, is_expected);
        let penalties = self.count_penalties(cells, now);
        // The more there is against it, the less it may be ahead of the rate; what all others may is left to a peer's address.
        let tolerance = self.rate.tolerance() * if is_expected { 2 } else { 1 };
        let tolerance = tolerance * (MAX_PENALTIES - penalties) / MAX_PENALTIES;
        if self.proven_bucket.missing(now) <= tolerance {
            return Some(Admitted::Proven(cells));
        }
        self.add_penalty(cells, now);
        None
    }

    /// What was computed on is no peer's, or one too many of a peer.
    pub(crate) fn charge(&mut self, admitted: Admitted, now: Time) {
        match admitted {
            Admitted::Unproven => self.unproven_bucket.charge(self.rate.interval(), now),
            Admitted::Proven(cells) => {
                self.proven_bucket.charge(self.rate.interval(), now);
                self.add_penalty(cells, now);
            }
        }
    }

    /// Whether somebody is to be answered who may not receive at its address.
    pub(crate) fn can_reply(&mut self, source: MessageSource, now: Time) -> bool {
        if source.is_expected {
            return self.expected_reply_bucket.take(1.0, self.reply_rate, now);
        }
        let HostPrefix(prefix) = HostPrefix::containing(source.address.ip());
        let bucket = usize::from(self.table_places(b'r', &prefix)[0]) % REPLY_BUCKETS;
        self.reply_buckets_by_source[bucket].take(1.0, self.reply_rate_per_source, now)
            && self.reply_bucket.take(1.0, self.reply_rate, now)
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

    fn penalty_cells(&self, ip: IpAddr, is_expected: bool) -> PenaltyCells {
        if is_expected {
            let HostPrefix(prefix) = HostPrefix::containing(ip);
            self.table_places(b'h', &prefix).map(|place| PENALTY_COLUMNS + place % PENALTY_COLUMNS)
        } else {
            self.table_places(b'n', &masked(ip, 24, 48)).map(|place| place % PENALTY_COLUMNS)
        }
    }

    /// Random numbers that belong to a prefix.
    fn table_places(&self, kind: u8, prefix: &[u8; 16]) -> [u16; PENALTY_ROWS] {
        let mut bytes = [kind; 17];
        bytes[1..].copy_from_slice(prefix);
        let hash = keyed_hash(&self.table_key, &bytes);
        std::array::from_fn(|row| u16::from_le_bytes([hash[2 * row], hash[2 * row + 1]]))
    }

    /// How many messages count against the source with these cells: at most the fewest that any of them has.
    fn count_penalties(&self, cells: PenaltyCells, now: Time) -> i64 {
        let until = cell_indices(cells).map(|index| self.penalties_end[index]).min();
        until.map_or(0, |until| (until.max(now) - now).as_nanos() / PENALTY_PER_MESSAGE.as_nanos())
    }

    fn add_penalty(&mut self, cells: PenaltyCells, now: Time) {
        for index in cell_indices(cells) {
            let end = &mut self.penalties_end[index];
            *end = ((*end).max(now) + PENALTY_PER_MESSAGE).min(now + PENALTY_PER_MESSAGE * MAX_PENALTIES);
        }
    }
}

/// A tenth of a second's worth may come at once, besides one.
fn tenth_at_once(per_second: u32) -> TokenRate {
    TokenRate::new(per_second.max(1).into(), (per_second / 10 + 1).into())
}

fn cell_indices(cells: PenaltyCells) -> impl Iterator<Item = usize> {
    cells.into_iter().enumerate().map(|(row, cell)| row * 2 * usize::from(PENALTY_COLUMNS) + usize::from(cell))
}

/// An address in 16 bytes, IPv4 mapped into IPv6.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The first bits of an address, as many as its version has here.
fn masked(ip: IpAddr, v4_bits: u32, v6_bits: u32) -> [u8; 16] {
    let kept = if ip.to_canonical().is_ipv4() { 96 + v4_bits } else { v6_bits };
    (u128::from_be_bytes(octets(ip)) & u128::MAX << (128 - kept)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PublicKey;
    use crate::mac::MacKeys;
    use crate::message::INITIATION_BYTES;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeSet;

    fn address(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], port))
    }

    fn admission() -> (Admission, StdRng) {
        let policy = HandshakePolicy {
            handshakes_per_second: 50,
            cookie_replies_per_second: 1000,
            cookie_replies_per_second_and_source: 10,
            ..HandshakePolicy::default()
        };
        let mut random = StdRng::seed_from_u64(1);
        (Admission::new(&policy, &mut random), random)
    }

    fn source(address: SocketAddr) -> MessageSource {
        MessageSource { address, is_proven: false, is_expected: false }
    }

    /// Takes in a message that turns out to be no peer's.
    fn decide(
        admission: &mut Admission,
        message: &[u8],
        source: MessageSource,
        now: Time,
        random: &mut StdRng,
    ) -> AdmissionDecision {
        let decision = admission.decide(message, source, now, random);
        if let AdmissionDecision::Compute(admitted) = decision {
            admission.charge(admitted, now);
        }
        decision
    }

    #[test]
    fn beyond_its_rate_a_host_asks_for_a_cookie_and_takes_what_carries_it() {
        let (mut admission, mut random) = admission();
        let keys = MacKeys::for_receiver(&PublicKey::from_bytes([9; 32]));
        let mut message = [0; INITIATION_BYTES];
        keys.write_macs(&mut message, None);
        let mut computed = 0;
        let cookie = loop {
            match decide(&mut admission, &message, source(address(1, 7)), Time::ZERO, &mut random) {
                AdmissionDecision::Compute(_) => computed += 1,
                AdmissionDecision::AskForCookie(cookie) => break cookie,
                AdmissionDecision::Drop => panic!("within the rate of replies"),
            }
        };
        assert_eq!(computed, 6);
        keys.write_macs(&mut message, Some(&cookie));
        let mut judge = |from| decide(&mut admission, &message, source(from), Time::ZERO, &mut random);
        assert!(matches!(judge(address(1, 7)), AdmissionDecision::Compute(Admitted::Proven(_))));
        assert!(matches!(judge(address(1, 8)), AdmissionDecision::AskForCookie(_)), "a cookie holds for one address");
    }

    #[test]
    fn what_is_a_peers_costs_it_nothing() {
        let (mut admission, mut random) = admission();
        for is_proven in [false, true] {
            let source = MessageSource { is_proven, ..source(address(1, 7)) };
            for _ in 0..1000 {
                let decision = admission.decide(&[1; INITIATION_BYTES], source, Time::ZERO, &mut random);
                assert!(matches!(decision, AdmissionDecision::Compute(_)));
            }
        }
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
    fn sources_are_spread_over_all_cells_and_hosts_of_peers_share_none_with_networks() {
        let (admission, _) = admission();
        let used = |is_expected| -> BTreeSet<_> {
            let cells = |number: u16| {
                let address = IpAddr::from([10, (number >> 8) as u8, number as u8, 1]);
                cell_indices(admission.penalty_cells(address, is_expected))
            };
            (0..2000).flat_map(cells).collect()
        };
        let (networks, hosts) = (used(false), used(true));
        assert!(networks.len() > 4000 && hosts.len() > 4000, "{}, {}", networks.len(), hosts.len());
        assert!(networks.is_disjoint(&hosts));
        assert!(networks.union(&hosts).all(|&index| index < admission.penalties_end.len()));
    }

    /// A hundred thousand messages in one second: how many are computed on, and how many are answered.
    fn flood(admission: &mut Admission, sources: i64, is_expected: bool) -> (u32, u32) {
        let mut random = StdRng::seed_from_u64(2);
        let (mut computed, mut replied) = (0, 0);
        for packet in 0..100_000 {
            let now = Time::from_nanos(packet * 10_000);
            let bytes = ((packet % sources) as u32).to_be_bytes();
            let from = MessageSource { is_expected, ..source(SocketAddr::from((bytes, 9))) };
            match decide(admission, &[1; INITIATION_BYTES], from, now, &mut random) {
                AdmissionDecision::Compute(_) => computed += 1,
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
            let expected = MessageSource { is_expected: true, ..source(address(1, 1)) };
            let verdict = decide(&mut admission, &[1; INITIATION_BYTES], expected, end, &mut random);
            assert!(matches!(verdict, AdmissionDecision::AskForCookie(_)));
        }
        let (computed, replied) = flood(&mut admission().0, 1, true);
        assert!(computed < 60 && replied < 1110, "{computed}, {replied}");
    }

    #[test]
    fn one_site_cannot_be_many_networks() {
        let (admission, _) = admission();
        let network = |text: &str| admission.penalty_cells(text.parse().unwrap(), false);
        assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:ffff::2"));
        assert_ne!(network("2001:db8:1::1"), network("2001:db8:2::1"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.200"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        // Where a peer is expected, it is not answerable for its neighbours.
        let host = |text: &str| admission.penalty_cells(text.parse().unwrap(), true);
        assert_eq!(host("2001:db8:1:2::1"), host("2001:db8:1:2::2"));
        assert_ne!(host("2001:db8:1:2::1"), host("2001:db8:1:3::1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
        assert_ne!(host("192.0.2.1"), network("192.0.2.1"));
    }

    #[test]
    fn penalties_end_two_minutes_after_an_attack_however_long_it_was() {
        let (mut admission, _) = admission();
        let cells = admission.penalty_cells(address(1, 7).ip(), false);
        (0..10_000).for_each(|_| admission.add_penalty(cells, Time::ZERO));
        assert_eq!(admission.count_penalties(cells, Time::ZERO), MAX_PENALTIES);
        assert_eq!(admission.count_penalties(cells, Time::ZERO + PENALTY_PER_MESSAGE * MAX_PENALTIES), 0);
    }

    /// Who attacks with messages that prove their source, as networks and messages of each per second.
    #[derive(Debug, Clone)]
    struct Attack {
        networks: u32,
        sources_per_network: u32,
        messages_per_second: u32,
    }

    fn attack() -> impl Strategy<Value = Attack> {
        (1..250u32, 1..=254u32, 300..6000u32).prop_map(|(networks, sources_per_network, messages_per_second)| Attack {
            networks,
            sources_per_network,
            messages_per_second,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever others send that receive at their addresses, a peer of another network is computed on, at the latest, with the
        /// initiation that it sends after 1 s, and the cost stays what it is.
        #[test]
        fn a_quiet_network_is_heard_whatever_others_send(attack in attack(), seed: u64, begins in 0..20_000i64) {
            let mut random = StdRng::seed_from_u64(seed);
            let mut admission = Admission::new(&HandshakePolicy::default(), &mut random);
            let begins = Time::ZERO + Span::from_millis(begins);
            let mut initiations = [begins, begins + Span::from_secs(1)].into_iter().peekable();
            let (mut now, mut computed, mut heard) = (Time::ZERO, 0, false);
            while now < begins + Span::from_secs(2) {
                now += Span::from_nanos(random.random_range(0..2_000_000_000 / i64::from(attack.messages_per_second)));
                if initiations.next_if(|at| *at <= now).is_some() {
                    heard |= admission.admit_proven([198, 51, 100, 7].into(), false, now).is_some();
                }
                let network = random.random_range(0..attack.networks);
                let source = random.random_range(0..attack.sources_per_network) as u8;
                let from = IpAddr::from([10, (network >> 8) as u8, network as u8, source]);
                if let Some(admitted) = admission.admit_proven(from, false, now) {
                    admission.charge(admitted, now);
                    computed += 1;
                }
            }
            prop_assert!(heard);
            let seconds = (now - Time::ZERO).as_secs_f64();
            prop_assert!(f64::from(computed) <= 250.0 * seconds + 27.0, "{} in {} s", computed, seconds);
        }

        /// Where a peer has authenticated, it is heard at once, also beside attackers in its own network and in more networks than
        /// the rate has room for.
        #[test]
        fn a_known_address_is_heard_at_once(networks in 1..30_000u32, messages_per_second in 300..6000u32, seed: u64) {
            let mut random = StdRng::seed_from_u64(seed);
            let mut admission = Admission::new(&HandshakePolicy::default(), &mut random);
            for packet in 0..i64::from(messages_per_second) * 5 {
                let now = Time::from_nanos(packet * 1_000_000_000 / i64::from(messages_per_second));
                let network = random.random_range(0..networks);
                let from = IpAddr::from([10, (network >> 8) as u8, network as u8, 1]);
                if let Some(admitted) = admission.admit_proven(from, false, now) {
                    admission.charge(admitted, now);
                }
                prop_assert!(admission.admit_proven([10, 0, 0, 2].into(), true, now).is_some());
            }
        }
    }
}
