use kumade_units::{Rate, Span, Time};

/// The longest packet that a path passes, found out by probes that are padded to a length and answered: Datagram
/// Packetization Layer Path MTU Discovery (RFC 8899). Lengths are those of IP packets on the path with all their headers.
///
/// **Rule.** When a path begins to answer, what passed before is probed, at first what its interface takes. Until that is
/// answered or overdue, the path is not used; then what is known to pass is used, [`PathMtuDiscovery::BASE_BYTES`] at least, and longer
/// packets are searched for, several lengths at a time: first those that are common, then others between what passed
/// and what did not, until no more than 8 bytes lie between. A length does not pass where three probes are not answered. Found,
/// it is confirmed every 2 s while long packets leave, and at once when those that left were lost and short ones were not
/// ([`PathMtuDiscovery::confirm`]); where that fails, all begins anew from the base. Whether more
/// passes is asked again after 10 min. Reports of routers are not trusted and not needed.
///
/// *Why several at a time.* A length that does not pass costs three times an answer's patience, some 0.5 s. One after the other
/// they took 3 s and more, in which TCP connections of hosts back off twice; now hosts are told after some 0.2 s which of the common
/// lengths passes ([`PathMtuDiscovery::is_settled`]), and all is known after a second.
///
/// A path that does not even pass the base is not used, and is probed again a second later.
///
/// **Loop contract.** Tell it what happens to the path; send what [`PathMtuDiscovery::poll`] returns at once; call that again at
/// [`PathMtuDiscovery::deadline`].
#[derive(Debug, Clone)]
pub struct PathMtuDiscovery {
    /// What the interface takes.
    max_bytes: u32,
    phase: DiscoveryPhase,
    /// The longest that passes, as far as is known; 0 where not even the base does.
    confirmed_bytes: u32,
    /// The shortest that does not pass.
    failed_bytes: u32,
    /// What passed before, if that has not been found out otherwise.
    previous_bytes: Option<u32>,
    /// What a search has found last: what passes, to within the distances of common lengths at least.
    last_found_bytes: Option<u32>,
    round: Option<ProbeRound>,
    /// When to probe where no round is open.
    next_probe: Time,
    next_number: u32,
    /// How often less was found to pass than before.
    reductions: u32,
    /// A packet longer than the base has left since the last confirmation was asked for.
    is_confirmation_needed: bool,
}

/// A probe to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuProbe {
    /// The answer names it.
    pub number: u32,
    /// The length of the IP packet that carries it.
    pub bytes: u32,
}

/// RFC 8899 §5.2, with its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiscoveryPhase {
    /// Disabled: the path does not answer.
    Disabled,
    /// Whether what passed before still does; the path is not used yet.
    Resuming,
    /// Base, and Error where it does not pass.
    Base,
    /// Searching.
    Search,
    /// Search Complete, until more is to be tried.
    SearchComplete { raise_at: Option<Time> },
}

/// Lengths that are being probed together.
#[derive(Debug, Clone)]
struct ProbeRound {
    /// Those that are not answered, in ascending order …
    sizes: Vec<u32>,
    /// … and how many of them have been probed in this turn.
    probed_sizes: usize,
    turns: u32,
    /// All its probes.
    probes: Vec<MtuProbe>,
    /// When the answers to this turn are overdue, or, while what passed is confirmed with single probes, when to send the next.
    answer_deadline: Time,
}

/// Ethernet, and what it leaves behind PPPoE (RFC 2516), IPv6 in IPv4, and other encapsulations; FDDI; jumbo frames.
const COMMON_MTUS: [u32; 10] = [1280, 1400, 1420, 1440, 1460, 1480, 1492, 1500, 4352, 9000];
const SEARCH_RESOLUTION_BYTES: u32 = 8;
/// An interval without common lengths is divided into so many parts.
const SEARCH_PARTS: u32 = 8;
/// What the rate of the path adds to the patience, at most: below 50 kbit/s lengths are not told apart.
const MAX_ROUND_TRANSMISSION_TIME: Span = Span::from_secs(2);
/// MAX_PROBES of RFC 8899 §5.1.2.
const MAX_PROBES: u32 = 3;
/// PMTU_RAISE_TIMER of RFC 8899 §5.1.1.
const PMTU_RAISE_TIMER: Span = Span::from_secs(600);
/// CONFIRMATION_TIMER of RFC 8899 §5.1.1.
const CONFIRMATION_TIMER: Span = Span::from_secs(2);
/// Lost packets call for no more confirmations than this: those of a path that is congested cost it little.
const MIN_CONFIRMATION_INTERVAL: Span = Span::from_millis(250);
const BASE_RETRY_INTERVAL: Span = Span::from_secs(1);

impl PathMtuDiscovery {
    /// What every path is expected to pass (BASE_PLPMTU, RFC 8899 §5.1.2), in bytes.
    pub const BASE_BYTES: u32 = 1200;
    /// Longer packets are not tried, in bytes.
    pub const MAX_BYTES: u32 = 9000;

    /// Of a path that does not answer yet. `interface_mtu` is the length of the longest packet that its interface takes.
    pub fn new(interface_mtu: u32, now: Time) -> Self {
        let max = interface_mtu.clamp(Self::BASE_BYTES, Self::MAX_BYTES);
        PathMtuDiscovery {
            max_bytes: max,
            phase: DiscoveryPhase::Disabled,
            confirmed_bytes: 0,
            failed_bytes: max + 1,
            previous_bytes: None,
            last_found_bytes: None,
            round: None,
            next_probe: now,
            next_number: 0,
            reductions: 0,
            is_confirmation_needed: false,
        }
    }

    /// The longest packet that may be sent now; none where none is known to pass.
    pub fn limit_bytes(&self) -> Option<u32> {
        let is_known = !matches!(self.phase, DiscoveryPhase::Disabled | DiscoveryPhase::Resuming);
        (is_known && self.confirmed_bytes > 0).then_some(self.confirmed_bytes)
    }

    /// The longest packet that is expected to pass once nothing more is being found out: what was found last, and before
    /// that what the interface takes.
    pub fn expected_bytes(&self) -> u32 {
        self.last_found_bytes.unwrap_or(self.max_bytes)
    }

    /// Whether it is known what passes, to within the distances of common lengths at least: the answers to a search's first
    /// probes are in or overdue.
    pub fn is_settled(&self) -> bool {
        match self.phase {
            DiscoveryPhase::SearchComplete { .. } => true,
            DiscoveryPhase::Search => self.last_found_bytes.is_some_and(|found| found <= self.confirmed_bytes),
            _ => false,
        }
    }

    /// How often less was found to pass than before.
    pub fn reductions(&self) -> u32 {
        self.reductions
    }

    /// The path answers.
    pub fn path_up(&mut self, now: Time) {
        if self.phase == DiscoveryPhase::Disabled {
            (self.phase, self.confirmed_bytes, self.failed_bytes) = (DiscoveryPhase::Resuming, 0, self.max_bytes + 1);
            (self.previous_bytes, self.round, self.next_probe) = (Some(self.expected_bytes()), None, now);
        }
    }

    /// The path does not answer. It may be another one when it does again.
    pub fn path_down(&mut self) {
        (self.phase, self.round) = (DiscoveryPhase::Disabled, None);
    }

    /// A packet has left.
    pub fn packet_sent(&mut self, bytes: u32) {
        self.is_confirmation_needed |= bytes > Self::BASE_BYTES;
    }

    /// Long packets were lost, and short ones behind them arrived: what passed is confirmed at once.
    pub fn confirm(&mut self, now: Time) {
        if let (DiscoveryPhase::SearchComplete { .. }, None) = (self.phase, &self.round) {
            let earliest = self.next_probe - (CONFIRMATION_TIMER - MIN_CONFIRMATION_INTERVAL);
            (self.is_confirmation_needed, self.next_probe) = (true, self.next_probe.min(now.max(earliest)));
        }
    }

    /// The probe that is to be sent now, on a path of this rate. Once it has left, its answer is overdue after `patience`.
    pub fn poll(&mut self, now: Time, patience: Span, rate: Rate) -> Option<MtuProbe> {
        if self.deadline()? > now {
            return None;
        }
        let mut round = match self.round.take() {
            Some(mut round) if round.probed_sizes == round.sizes.len() => {
                if round.turns >= max_turns(self.phase) {
                    self.size_failed(round.sizes[0], now);
                    return self.poll(now, patience, rate);
                }
                if self.phase == DiscoveryPhase::Search {
                    self.record_found();
                }
                (round.turns, round.probed_sizes) = (round.turns + 1, 0);
                round
            }
            Some(round) => round,
            None => {
                let sizes = self.next_sizes(now);
                if sizes.is_empty() {
                    return None;
                }
                ProbeRound { sizes, probed_sizes: 0, turns: 1, probes: Vec::new(), answer_deadline: now }
            }
        };
        let probe = MtuProbe { number: self.next_number, bytes: round.sizes[round.probed_sizes] };
        self.next_number = self.next_number.wrapping_add(1);
        round.probes.push(probe);
        round.probed_sizes += 1;
        let turn_bytes = round.sizes.iter().map(|bytes| u64::from(*bytes)).sum();
        let is_confirming = matches!(self.phase, DiscoveryPhase::SearchComplete { .. });
        round.answer_deadline = if is_confirming && round.turns < MAX_PROBES {
            now + patience / i64::from(MAX_PROBES)
        } else {
            now + patience + rate.time_for(turn_bytes).min(MAX_ROUND_TRANSMISSION_TIME)
        };
        self.round = Some(round);
        Some(probe)
    }

    /// When to poll.
    pub fn deadline(&self) -> Option<Time> {
        match (&self.round, self.phase) {
            // At once.
            (Some(round), _) if round.probed_sizes < round.sizes.len() => Some(Time::ZERO),
            (Some(round), _) => Some(round.answer_deadline),
            (None, DiscoveryPhase::Disabled) => None,
            (None, DiscoveryPhase::SearchComplete { raise_at }) => {
                self.is_confirmation_needed.then_some(self.next_probe).into_iter().chain(raise_at).min()
            }
            (None, _) => Some(self.next_probe),
        }
    }

    /// The far end has received the probe of this number.
    pub fn probe_answered(&mut self, number: u32, now: Time) {
        let Some(round) = &mut self.round else { return };
        let Some(bytes) = round.probes.iter().find(|probe| probe.number == number).map(|probe| probe.bytes) else {
            return;
        };
        let answered = round.sizes.partition_point(|size| *size <= bytes);
        round.sizes.drain(..answered);
        round.probed_sizes = round.probed_sizes.saturating_sub(answered);
        if round.sizes.is_empty() {
            self.round = None;
        }
        self.confirmed_bytes = self.confirmed_bytes.max(bytes);
        self.next_probe = now;
        match self.phase {
            DiscoveryPhase::Resuming if self.last_found_bytes == Some(bytes) => self.complete_search(now),
            DiscoveryPhase::SearchComplete { .. } => self.next_probe = now + CONFIRMATION_TIMER,
            _ => self.phase = DiscoveryPhase::Search,
        }
    }

    /// This host's kernel has refused to send a packet of this length: the MTU of the interface is less by now.
    pub fn size_refused(&mut self, bytes: u32, now: Time) {
        if bytes <= Self::BASE_BYTES || self.phase == DiscoveryPhase::Disabled {
            return;
        }
        self.failed_bytes = self.failed_bytes.min(bytes);
        if self.round.as_ref().is_some_and(|round| round.sizes[0] >= bytes) {
            self.round = None;
            if !matches!(self.phase, DiscoveryPhase::SearchComplete { .. }) {
                self.size_failed(bytes, now);
            }
        } else if let Some(round) = &mut self.round {
            // Nothing is longer than what is refused.
            round.sizes.truncate(round.sizes.partition_point(|size| *size < bytes));
            round.probed_sizes = round.probed_sizes.min(round.sizes.len());
        }
        if self.confirmed_bytes >= bytes {
            self.restart(None, now);
        }
    }

    /// The next lengths to be probed, if any are due; in ascending order.
    fn next_sizes(&mut self, now: Time) -> Vec<u32> {
        match self.phase {
            DiscoveryPhase::Disabled => Vec::new(),
            DiscoveryPhase::Resuming => vec![self.previous_bytes.unwrap_or(self.max_bytes)],
            DiscoveryPhase::Base => vec![Self::BASE_BYTES],
            DiscoveryPhase::Search => {
                let candidates = self.next_candidates();
                if candidates.is_empty() {
                    self.complete_search(now);
                }
                candidates
            }
            DiscoveryPhase::SearchComplete { raise_at } if raise_at.is_some_and(|at| at <= now) => {
                (self.phase, self.failed_bytes) = (DiscoveryPhase::Search, self.max_bytes + 1);
                self.next_candidates()
            }
            DiscoveryPhase::SearchComplete { .. } => {
                self.is_confirmation_needed = false;
                vec![self.confirmed_bytes]
            }
        }
    }

    /// Lengths between what passes and what does not; none where they are close enough.
    fn next_candidates(&mut self) -> Vec<u32> {
        let (confirmed, failed) = (self.confirmed_bytes, self.failed_bytes);
        let is_untried = failed > self.max_bytes;
        let others = self.previous_bytes.take().into_iter().chain(is_untried.then_some(self.max_bytes));
        let mut sizes: Vec<u32> =
            COMMON_MTUS.into_iter().chain(others).filter(|bytes| (confirmed + 1..failed).contains(bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() && failed - confirmed > SEARCH_RESOLUTION_BYTES {
            let part = (failed - confirmed).div_ceil(SEARCH_PARTS);
            sizes.extend((confirmed..failed).step_by(part as usize).skip(1));
        }
        sizes
    }

    fn size_failed(&mut self, bytes: u32, now: Time) {
        self.next_probe = now;
        match self.phase {
            DiscoveryPhase::Disabled => {}
            DiscoveryPhase::Resuming => (self.phase, self.confirmed_bytes) = (DiscoveryPhase::Base, Self::BASE_BYTES),
            DiscoveryPhase::Base => (self.confirmed_bytes, self.next_probe) = (0, now + BASE_RETRY_INTERVAL),
            DiscoveryPhase::Search => self.failed_bytes = self.failed_bytes.min(bytes),
            // If the probes were lost by chance, it is found to pass at once.
            DiscoveryPhase::SearchComplete { .. } => self.restart(Some(bytes), now),
        }
    }

    /// What passed does not any more, or seems not to.
    fn restart(&mut self, previous: Option<u32>, now: Time) {
        if previous.is_some() {
            self.failed_bytes = self.max_bytes + 1;
        }
        (self.phase, self.confirmed_bytes, self.previous_bytes) = (DiscoveryPhase::Base, Self::BASE_BYTES, previous);
        (self.round, self.next_probe) = (None, now);
    }

    fn complete_search(&mut self, now: Time) {
        let raise_at = (self.confirmed_bytes < self.max_bytes).then_some(now + PMTU_RAISE_TIMER);
        self.phase = DiscoveryPhase::SearchComplete { raise_at };
        self.record_found();
        self.next_probe = now + CONFIRMATION_TIMER;
    }

    /// What has passed by now is what is to be expected.
    fn record_found(&mut self) {
        let before = self.last_found_bytes.replace(self.confirmed_bytes);
        if before.is_some_and(|before| before > self.confirmed_bytes) {
            self.reductions = self.reductions.wrapping_add(1);
        }
    }
}

/// How often the lengths of a round are probed.
fn max_turns(phase: DiscoveryPhase) -> u32 {
    if phase == DiscoveryPhase::Resuming { 1 } else { MAX_PROBES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const ROUND_TRIP: Span = Span::from_millis(20);
    const PATIENCE: Span = Span::from_millis(100);
    const RATE: Rate = Rate::from_mbit(100);

    /// A path that passes packets up to a length, and loses some of them.
    struct Path {
        mtu: u32,
        loss: f64,
        now: Time,
        discovery: PathMtuDiscovery,
        random: Pcg64Mcg,
        answers: Vec<(Time, u32)>,
        probes: Vec<u32>,
    }

    impl Path {
        fn new(interface_mtu: u32, mtu: u32, loss: f64, seed: u64) -> Self {
            let now = Time::ZERO;
            let mut discovery = PathMtuDiscovery::new(interface_mtu, now);
            discovery.path_up(now);
            let random = Pcg64Mcg::seed_from_u64(seed);
            Path { mtu, loss, now, discovery, random, answers: vec![], probes: vec![] }
        }

        /// For so long, full packets leave all the time.
        fn run(&mut self, span: Span) {
            let end = self.now + span;
            loop {
                while let Some(probe) = self.discovery.poll(self.now, PATIENCE, RATE) {
                    self.probes.push(probe.bytes);
                    if probe.bytes <= self.mtu && !self.random.random_bool(self.loss) {
                        self.answers.push((self.now + ROUND_TRIP, probe.number));
                    }
                }
                if let Some(limit) = self.discovery.limit_bytes() {
                    self.discovery.packet_sent(limit);
                }
                let next = self.answers.iter().map(|(at, _)| *at).chain(self.discovery.deadline()).min();
                let Some(next) = next.filter(|next| *next <= end) else {
                    self.now = end;
                    return;
                };
                self.now = next;
                let is_due = |answer: &mut (Time, u32)| answer.0 <= next;
                for (_, number) in self.answers.extract_if(.., is_due) {
                    self.discovery.probe_answered(number, next);
                }
            }
        }

        fn discover_mtu(&self) -> u32 {
            assert!(self.discovery.is_settled());
            self.discovery.limit_bytes().unwrap()
        }
    }

    #[test]
    fn what_the_interface_takes_is_known_after_one_round_trip() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(ROUND_TRIP - Span::from_nanos(1));
        assert_eq!(path.discovery.limit_bytes(), None);
        path.run(Span::from_millis(1));
        assert_eq!((path.discover_mtu(), path.probes.as_slice()), (1500, &[1500][..]));
    }

    #[test]
    fn a_path_below_its_interface_is_used_from_the_base_on_and_searched() {
        let mut path = Path::new(1500, 1492, 0.0, 0);
        path.run(PATIENCE + ROUND_TRIP);
        assert_eq!(path.discovery.limit_bytes(), Some(1200), "after one probe that was not answered");
        path.run(Span::from_secs(1));
        assert_eq!(path.discover_mtu(), 1492);
        assert_eq!(path.probes, [1500, 1200, 1280, 1400, 1420, 1440, 1460, 1480, 1492, 1500, 1500, 1500]);
    }

    #[test]
    fn a_path_that_shrinks_under_traffic_is_noticed_and_one_that_grows_is_tried_again() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(Span::from_secs(5));
        path.mtu = 1300;
        path.run(CONFIRMATION_TIMER + PATIENCE * 3);
        assert!(path.discovery.limit_bytes().is_some_and(|limit| limit <= 1300));
        path.run(Span::from_secs(3));
        assert!((1293..=1300).contains(&path.discover_mtu()), "{}", path.discover_mtu());
        path.mtu = 1500;
        path.run(PMTU_RAISE_TIMER);
        assert_eq!(path.discover_mtu(), 1500);
    }

    /// One length after the other took three seconds, in which a TCP connection backs off twice (issue 40, 7).
    #[test]
    fn what_passes_of_the_common_lengths_is_known_at_once_and_all_after_a_second() {
        for (mtu, common) in [(1300, 1280), (1492, 1492), (1419, 1400), (1280, 1280)] {
            let mut path = Path::new(1500, 1500, 0.0, 0);
            path.run(Span::from_secs(1));
            path.mtu = mtu;
            path.discovery.confirm(path.now);
            path.run(PATIENCE * 2 + ROUND_TRIP);
            assert_eq!((path.discovery.is_settled(), path.discovery.reductions()), (false, 0));
            path.run(PATIENCE);
            assert_eq!((path.discovery.is_settled(), path.discovery.expected_bytes()), (true, common), "{mtu}");
            assert_eq!(path.discovery.reductions(), 1);
            path.run(PATIENCE * 9);
            assert!(path.discover_mtu() <= mtu && path.discover_mtu() + SEARCH_RESOLUTION_BYTES > mtu, "{mtu}");
            assert_eq!(path.discovery.reductions(), 1);
        }
    }

    #[test]
    fn a_path_whose_probes_were_lost_by_chance_is_soon_what_it_was() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(Span::from_secs(1));
        path.loss = 1.0;
        path.discovery.confirm(path.now);
        path.run(PATIENCE * 2);
        path.loss = 0.0;
        assert_eq!(path.discovery.limit_bytes(), Some(1200));
        path.run(PATIENCE * 2);
        assert_eq!((path.discover_mtu(), path.discovery.reductions()), (1500, 0));
    }

    #[test]
    fn where_the_interface_takes_the_base_only_nothing_is_left_to_be_found() {
        let mut path = Path::new(PathMtuDiscovery::BASE_BYTES, 1500, 0.0, 0);
        path.run(PMTU_RAISE_TIMER);
        assert_eq!((path.discover_mtu(), path.probes.as_slice()), (1200, &[1200][..]));
        assert_eq!(path.discovery.deadline(), None);
    }

    #[test]
    fn a_path_that_comes_back_resumes_and_is_searched_where_it_has_changed() {
        let mut path = Path::new(1500, 1400, 0.0, 0);
        path.run(Span::from_secs(5));
        path.discovery.path_down();
        assert_eq!((path.discovery.limit_bytes(), path.discovery.deadline()), (None, None));
        path.discovery.path_up(path.now);
        path.probes.clear();
        path.run(ROUND_TRIP);
        assert_eq!((path.discover_mtu(), path.probes.as_slice()), (1400, &[1400][..]));
        path.discovery.path_down();
        path.mtu = 1280;
        path.discovery.path_up(path.now);
        path.run(Span::from_secs(5));
        assert_eq!(path.discover_mtu(), 1280);
    }

    #[test]
    fn nothing_is_used_of_a_path_that_does_not_pass_the_base() {
        let mut path = Path::new(1500, 1000, 0.0, 0);
        path.run(Span::from_secs(10));
        assert_eq!(path.discovery.limit_bytes(), None);
        path.mtu = 1450;
        path.run(Span::from_secs(5));
        assert!((1443..=1450).contains(&path.discover_mtu()));
    }

    #[test]
    fn what_this_hosts_kernel_refuses_is_not_tried_again() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(Span::from_secs(1));
        path.discovery.size_refused(1500, path.now);
        assert_eq!(path.discovery.limit_bytes(), Some(1200));
        path.mtu = 1450;
        path.probes.clear();
        path.run(Span::from_secs(3));
        assert!((1443..=1450).contains(&path.discover_mtu()));
        assert!(!path.probes.contains(&1500));
    }

    #[test]
    fn an_answer_to_nothing_that_was_asked_means_nothing() {
        let mut discovery = PathMtuDiscovery::new(1500, Time::ZERO);
        discovery.path_up(Time::ZERO);
        let probe = discovery.poll(Time::ZERO, PATIENCE, RATE).unwrap();
        for number in [probe.number.wrapping_sub(1), probe.number + 1, u32::MAX / 2] {
            discovery.probe_answered(number, Time::ZERO);
            assert_eq!(discovery.limit_bytes(), None);
        }
        discovery.probe_answered(probe.number, Time::ZERO);
        assert_eq!(discovery.limit_bytes(), Some(1500));
    }

    #[test]
    fn a_path_in_use_costs_a_packet_each_two_seconds_and_an_idle_one_nothing() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(Span::from_secs(1001));
        assert!((450..=501).contains(&path.probes.len()), "{}", path.probes.len());
        let mut discovery = PathMtuDiscovery::new(1500, Time::ZERO);
        discovery.path_up(Time::ZERO);
        let probe = discovery.poll(Time::ZERO, PATIENCE, RATE).unwrap();
        discovery.probe_answered(probe.number, Time::ZERO);
        discovery.poll(Time::ZERO, PATIENCE, RATE);
        assert_eq!(discovery.deadline(), None);
    }

    proptest! {
        #[test]
        fn without_loss_it_is_found_whatever_it_is_and_however_it_changes(
            interface in 1200u32..10_000,
            mtus in prop::collection::vec(1200u32..10_000, 1..5),
        ) {
            let mut path = Path::new(interface, mtus[0], 0.0, 0);
            for mtu in mtus {
                path.mtu = mtu;
                path.run(PMTU_RAISE_TIMER + Span::from_secs(60));
                let most = mtu.min(interface).min(PathMtuDiscovery::MAX_BYTES);
                let found = path.discover_mtu();
                prop_assert!(found <= most && (found + SEARCH_RESOLUTION_BYTES > most), "{} of {}", found, most);
            }
        }

        #[test]
        fn with_loss_nothing_longer_than_what_passes_is_used(
            seed: u64,
            loss in 0.0f64..0.3,
            mtu in 1200u32..1500,
            later in 1200u32..1500,
        ) {
            let mut path = Path::new(1500, mtu, loss, seed);
            path.run(Span::from_secs(20));
            prop_assert!(path.discovery.limit_bytes().is_none_or(|limit| limit <= mtu));
            path.mtu = later;
            // A search may be under way: it ends, and then what was found is confirmed.
            path.run(Span::from_secs(20));
            prop_assert!(path.discovery.limit_bytes().is_none_or(|limit| limit <= later));
            path.loss = 0.0;
            path.run(PMTU_RAISE_TIMER + Span::from_secs(60));
            prop_assert!(path.discover_mtu() <= later && path.discover_mtu() + SEARCH_RESOLUTION_BYTES > later);
        }
    }
}
