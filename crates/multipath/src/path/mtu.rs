use kumade_units::{Span, Time};

/// The longest packet that a path passes, found out by probes that are padded to a length and answered: Datagram
/// Packetization Layer Path MTU Discovery (RFC 8899). Lengths are those of IP packets on the path with all their headers.
///
/// **Rule.** When a path begins to answer, what passed before is probed, at first what its interface takes. Until that is
/// answered or overdue, the path is not used; then what is known to pass is used, [`PathMtu::BASE`] at least, and longer
/// packets are searched for: the lengths that are common first, from the shortest on, then the middle between what passed
/// and what did not, until less than 8 bytes lie between. A length does not pass where three probes are not answered. Found,
/// it is confirmed every 2 s while long packets leave; where that fails, all begins anew from the base. Whether more
/// passes is asked again after 10 min. Reports of routers are not trusted and not needed.
///
/// A path that does not even pass the base is not used, and is probed again a second later.
///
/// **Loop contract.** Tell it what happens to the path; send what [`PathMtu::poll`] returns at once; call that again at
/// [`PathMtu::deadline`].
#[derive(Debug, Clone)]
pub struct PathMtu {
    /// What the interface takes.
    max: u32,
    phase: Phase,
    /// The longest that passes, as far as is known; 0 where not even the base does.
    confirmed: u32,
    /// The shortest that does not pass.
    failed: u32,
    /// What passed before, if that has not been found out otherwise.
    earlier: Option<u32>,
    /// What the last search that was completed has found.
    found: Option<u32>,
    open: Option<Open>,
    /// When to probe where nothing is open.
    due: Time,
    next_number: u32,
    /// A packet longer than the base has left since the last confirmation was asked for.
    is_used: bool,
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
enum Phase {
    /// Disabled: the path does not answer.
    Down,
    /// Whether what passed before still does; the path is not used yet.
    Resuming,
    /// Base, and Error where it does not pass.
    Base,
    /// Searching.
    Search,
    /// Search Complete, until more is to be tried.
    Complete { raise_at: Option<Time> },
}

/// A length that is being probed.
#[derive(Debug, Clone, Copy)]
struct Open {
    bytes: u32,
    /// The numbers of its probes begin with this …
    first: u32,
    /// … and are so many.
    tries: u32,
    overdue: Time,
}

/// Ethernet, and what it leaves behind PPPoE (RFC 2516), IPv6 in IPv4, and other encapsulations; FDDI; jumbo frames.
const COMMON: [u32; 10] = [1280, 1400, 1420, 1440, 1460, 1480, 1492, 1500, 4352, 9000];
const RESOLUTION: u32 = 8;
/// MAX_PROBES of RFC 8899 §5.1.2.
const MAX_TRIES: u32 = 3;
/// PMTU_RAISE_TIMER of RFC 8899 §5.1.1.
const RAISE_AFTER: Span = Span::from_secs(600);
/// CONFIRMATION_TIMER of RFC 8899 §5.1.1.
const CONFIRM_AFTER: Span = Span::from_secs(2);
const RETRY_BASE_AFTER: Span = Span::from_secs(1);

impl PathMtu {
    /// What every path is expected to pass (BASE_PLPMTU, RFC 8899 §5.1.2), in bytes.
    pub const BASE: u32 = 1200;
    /// Longer packets are not tried, in bytes.
    pub const MAX: u32 = 9000;

    /// Of a path that does not answer yet. `interface_mtu` is the length of the longest packet that its interface takes.
    pub fn new(interface_mtu: u32, now: Time) -> Self {
        let max = interface_mtu.clamp(Self::BASE, Self::MAX);
        PathMtu {
            max,
            phase: Phase::Down,
            confirmed: 0,
            failed: max + 1,
            earlier: None,
            found: None,
            open: None,
            due: now,
            next_number: 0,
            is_used: false,
        }
    }

    /// The longest packet that may be sent now; none where none is known to pass.
    pub fn limit(&self) -> Option<u32> {
        let is_known = !matches!(self.phase, Phase::Down | Phase::Resuming);
        (is_known && self.confirmed > 0).then_some(self.confirmed)
    }

    /// The longest packet that is expected to pass once nothing more is being found out: what was found last, and before
    /// that what the interface takes.
    pub fn expected(&self) -> u32 {
        self.found.unwrap_or(self.max)
    }

    /// Whether nothing is being found out.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Complete { .. })
    }

    /// The path answers.
    pub fn up(&mut self, now: Time) {
        if self.phase == Phase::Down {
            (self.phase, self.confirmed, self.failed) = (Phase::Resuming, 0, self.max + 1);
            (self.earlier, self.open, self.due) = (Some(self.expected()), None, now);
        }
    }

    /// The path does not answer. It may be another one when it does again.
    pub fn down(&mut self) {
        (self.phase, self.open) = (Phase::Down, None);
    }

    /// A packet has left.
    pub fn sent(&mut self, bytes: u32) {
        self.is_used |= bytes > Self::BASE;
    }

    /// The probe that is to be sent now. Its answer is overdue after `patience`.
    pub fn poll(&mut self, now: Time, patience: Span) -> Option<MtuProbe> {
        if self.deadline()? > now {
            return None;
        }
        if let Some(open) = self.open.take_if(|open| open.tries >= max_tries(self.phase)) {
            self.does_not_pass(open.bytes, now);
        }
        let (bytes, first, tries) = match self.open {
            Some(Open { bytes, first, tries, .. }) => (bytes, first, tries),
            None => (self.wanted(now)?, self.next_number, 0),
        };
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.open = Some(Open { bytes, first, tries: tries + 1, overdue: now + patience });
        Some(MtuProbe { number, bytes })
    }

    /// When to poll.
    pub fn deadline(&self) -> Option<Time> {
        match (self.open, self.phase) {
            (Some(open), _) => Some(open.overdue),
            (None, Phase::Down) => None,
            (None, Phase::Complete { raise_at }) => self.is_used.then_some(self.due).into_iter().chain(raise_at).min(),
            (None, _) => Some(self.due),
        }
    }

    /// The far end has received the probe of this number.
    pub fn answered(&mut self, number: u32, now: Time) {
        let is_open = |open: &mut Open| number.wrapping_sub(open.first) < open.tries;
        let Some(Open { bytes, .. }) = self.open.take_if(is_open) else { return };
        self.confirmed = bytes;
        self.due = now;
        match self.phase {
            Phase::Resuming if self.found == Some(bytes) => self.complete(now),
            Phase::Complete { .. } => self.due = now + CONFIRM_AFTER,
            _ => self.phase = Phase::Search,
        }
    }

    /// This host's kernel has refused to send a packet of this length: the MTU of the interface is less by now.
    pub fn refused(&mut self, bytes: u32, now: Time) {
        if bytes <= Self::BASE || self.phase == Phase::Down {
            return;
        }
        self.failed = self.failed.min(bytes);
        if let Some(open) = self.open.take_if(|open| open.bytes >= bytes) {
            self.does_not_pass(open.bytes, now);
        }
        if self.confirmed >= bytes {
            self.begin_anew(now);
        }
    }

    /// The next length to be probed, if one is due.
    fn wanted(&mut self, now: Time) -> Option<u32> {
        match self.phase {
            Phase::Down => None,
            Phase::Resuming => Some(self.earlier.unwrap_or(self.max)),
            Phase::Base => Some(Self::BASE),
            Phase::Search => self.candidate().or_else(|| {
                self.complete(now);
                None
            }),
            Phase::Complete { raise_at } if raise_at.is_some_and(|at| at <= now) => {
                (self.phase, self.failed) = (Phase::Search, self.max + 1);
                self.candidate()
            }
            Phase::Complete { .. } => {
                self.is_used = false;
                Some(self.confirmed)
            }
        }
    }

    /// A length between what passes and what does not; none where they are close enough.
    fn candidate(&mut self) -> Option<u32> {
        let is_open = |bytes: &u32| (self.confirmed + 1..self.failed).contains(bytes);
        if let Some(earlier) = self.earlier.take().filter(is_open) {
            return Some(earlier);
        }
        if self.failed > self.max {
            return Some(self.max).filter(is_open);
        }
        let middle = (self.confirmed + self.failed) / 2;
        let common = COMMON.into_iter().find(is_open);
        common.or((self.failed - self.confirmed > RESOLUTION).then_some(middle))
    }

    fn does_not_pass(&mut self, bytes: u32, now: Time) {
        self.due = now;
        match self.phase {
            Phase::Down => {}
            Phase::Resuming => (self.phase, self.confirmed) = (Phase::Base, Self::BASE),
            Phase::Base => (self.confirmed, self.due) = (0, now + RETRY_BASE_AFTER),
            Phase::Search => self.failed = self.failed.min(bytes),
            Phase::Complete { .. } => {
                self.failed = bytes;
                self.begin_anew(now);
            }
        }
    }

    /// What passed does not any more.
    fn begin_anew(&mut self, now: Time) {
        (self.phase, self.confirmed, self.earlier) = (Phase::Base, Self::BASE, None);
        (self.open, self.due) = (None, now);
    }

    fn complete(&mut self, now: Time) {
        let raise_at = (self.confirmed < self.max).then_some(now + RAISE_AFTER);
        (self.phase, self.found) = (Phase::Complete { raise_at }, Some(self.confirmed));
        self.due = now + CONFIRM_AFTER;
    }
}

fn max_tries(phase: Phase) -> u32 {
    if phase == Phase::Resuming { 1 } else { MAX_TRIES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const ROUND_TRIP: Span = Span::from_millis(20);
    const PATIENCE: Span = Span::from_millis(100);

    /// A path that passes packets up to a length, and loses some of them.
    struct Path {
        mtu: u32,
        loss: f64,
        now: Time,
        discovery: PathMtu,
        random: Pcg64Mcg,
        answers: Vec<(Time, u32)>,
        probes: Vec<u32>,
    }

    impl Path {
        fn new(interface_mtu: u32, mtu: u32, loss: f64, seed: u64) -> Self {
            let now = Time::ZERO;
            let mut discovery = PathMtu::new(interface_mtu, now);
            discovery.up(now);
            let random = Pcg64Mcg::seed_from_u64(seed);
            Path { mtu, loss, now, discovery, random, answers: vec![], probes: vec![] }
        }

        /// For so long, full packets leave all the time.
        fn run(&mut self, span: Span) {
            let end = self.now + span;
            loop {
                while let Some(probe) = self.discovery.poll(self.now, PATIENCE) {
                    self.probes.push(probe.bytes);
                    if probe.bytes <= self.mtu && !self.random.random_bool(self.loss) {
                        self.answers.push((self.now + ROUND_TRIP, probe.number));
                    }
                }
                if let Some(limit) = self.discovery.limit() {
                    self.discovery.sent(limit);
                }
                let next = self.answers.iter().map(|(at, _)| *at).chain(self.discovery.deadline()).min();
                let Some(next) = next.filter(|next| *next <= end) else {
                    self.now = end;
                    return;
                };
                self.now = next;
                let is_due = |answer: &mut (Time, u32)| answer.0 <= next;
                for (_, number) in self.answers.extract_if(.., is_due) {
                    self.discovery.answered(number, next);
                }
            }
        }

        fn found(&self) -> u32 {
            assert!(self.discovery.is_settled());
            self.discovery.limit().unwrap()
        }
    }

    #[test]
    fn what_the_interface_takes_is_known_after_one_round_trip() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(ROUND_TRIP - Span::from_nanos(1));
        assert_eq!(path.discovery.limit(), None);
        path.run(Span::from_millis(1));
        assert_eq!((path.found(), path.probes.as_slice()), (1500, &[1500][..]));
    }

    #[test]
    fn a_path_below_its_interface_is_used_from_the_base_on_and_searched() {
        let mut path = Path::new(1500, 1492, 0.0, 0);
        path.run(PATIENCE + ROUND_TRIP);
        assert_eq!(path.discovery.limit(), Some(1200), "after one probe that was not answered");
        path.run(Span::from_secs(1));
        assert_eq!(path.found(), 1492);
        assert_eq!(path.probes, [1500, 1200, 1500, 1500, 1500, 1280, 1400, 1420, 1440, 1460, 1480, 1492]);
    }

    #[test]
    fn a_path_that_shrinks_under_traffic_is_noticed_and_one_that_grows_is_tried_again() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(Span::from_secs(5));
        path.mtu = 1300;
        path.run(CONFIRM_AFTER + PATIENCE * 3);
        assert!(path.discovery.limit().is_some_and(|limit| limit <= 1300));
        path.run(Span::from_secs(3));
        assert!((1293..=1300).contains(&path.found()), "{}", path.found());
        path.mtu = 1500;
        path.run(RAISE_AFTER);
        assert_eq!(path.found(), 1500);
    }

    #[test]
    fn where_the_interface_takes_the_base_only_nothing_is_left_to_be_found() {
        let mut path = Path::new(PathMtu::BASE, 1500, 0.0, 0);
        path.run(RAISE_AFTER);
        assert_eq!((path.found(), path.probes.as_slice()), (1200, &[1200][..]));
        assert_eq!(path.discovery.deadline(), None);
    }

    #[test]
    fn a_path_that_comes_back_resumes_and_is_searched_where_it_has_changed() {
        let mut path = Path::new(1500, 1400, 0.0, 0);
        path.run(Span::from_secs(5));
        path.discovery.down();
        assert_eq!((path.discovery.limit(), path.discovery.deadline()), (None, None));
        path.discovery.up(path.now);
        path.probes.clear();
        path.run(ROUND_TRIP);
        assert_eq!((path.found(), path.probes.as_slice()), (1400, &[1400][..]));
        path.discovery.down();
        path.mtu = 1280;
        path.discovery.up(path.now);
        path.run(Span::from_secs(5));
        assert_eq!(path.found(), 1280);
    }

    #[test]
    fn nothing_is_used_of_a_path_that_does_not_pass_the_base() {
        let mut path = Path::new(1500, 1000, 0.0, 0);
        path.run(Span::from_secs(10));
        assert_eq!(path.discovery.limit(), None);
        path.mtu = 1450;
        path.run(Span::from_secs(5));
        assert!((1443..=1450).contains(&path.found()));
    }

    #[test]
    fn what_this_hosts_kernel_refuses_is_not_tried_again() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(Span::from_secs(1));
        path.discovery.refused(1500, path.now);
        assert_eq!(path.discovery.limit(), Some(1200));
        path.mtu = 1450;
        path.probes.clear();
        path.run(Span::from_secs(3));
        assert!((1443..=1450).contains(&path.found()));
        assert!(!path.probes.contains(&1500));
    }

    #[test]
    fn an_answer_to_nothing_that_was_asked_means_nothing() {
        let mut discovery = PathMtu::new(1500, Time::ZERO);
        discovery.up(Time::ZERO);
        let probe = discovery.poll(Time::ZERO, PATIENCE).unwrap();
        for number in [probe.number.wrapping_sub(1), probe.number + 1, u32::MAX / 2] {
            discovery.answered(number, Time::ZERO);
            assert_eq!(discovery.limit(), None);
        }
        discovery.answered(probe.number, Time::ZERO);
        assert_eq!(discovery.limit(), Some(1500));
    }

    #[test]
    fn a_path_in_use_costs_a_packet_each_two_seconds_and_an_idle_one_nothing() {
        let mut path = Path::new(1500, 1500, 0.0, 0);
        path.run(Span::from_secs(1001));
        assert!((450..=501).contains(&path.probes.len()), "{}", path.probes.len());
        let mut discovery = PathMtu::new(1500, Time::ZERO);
        discovery.up(Time::ZERO);
        let probe = discovery.poll(Time::ZERO, PATIENCE).unwrap();
        discovery.answered(probe.number, Time::ZERO);
        discovery.poll(Time::ZERO, PATIENCE);
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
                path.run(RAISE_AFTER + Span::from_secs(60));
                let most = mtu.min(interface).min(PathMtu::MAX);
                let found = path.found();
                prop_assert!(found <= most && (found + RESOLUTION > most), "{} of {}", found, most);
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
            prop_assert!(path.discovery.limit().is_none_or(|limit| limit <= mtu));
            path.mtu = later;
            // A search may be under way: it ends, and then what was found is confirmed.
            path.run(Span::from_secs(20));
            prop_assert!(path.discovery.limit().is_none_or(|limit| limit <= later));
            path.loss = 0.0;
            path.run(RAISE_AFTER + Span::from_secs(60));
            prop_assert!(path.found() <= later && path.found() + RESOLUTION > later);
        }
    }
}
