//! Whose turn it is. Measurements run one after the other, so that they don't disturb each other; nobody may keep the
//! others waiting.
//!
//! **Contract.** Pure: report what clients do by [`enter_queue`](TurnQueue::enter_queue), [`leave_queue`](TurnQueue::leave_queue) and
//! [`set_working`](TurnQueue::set_working), with the time, which never goes back. After each, [`holder`](TurnQueue::holder) says
//! whose turn it is; if [`turn_end`](TurnQueue::turn_end) has passed, that client is to be made to leave, for the reason it states.
//!
//! Turns go round by [`Network`]: next comes the first client of the network that has lately had least, so that one which
//! has had nothing goes before all that have, however many clients and addresses these have.

use kumade_daemon::Network;
use kumade_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// A turn ends this long after the last train (or the last opening of a transport).
pub(super) const IDLE_TIMEOUT: Span = Span::from_secs(5);
/// Whatever the path, so that nobody is kept waiting by a client that acknowledges late.
const MAX_IDLE_TIMEOUT: Span = Span::from_secs(20);
/// While clients of several networks wait, they share this time: a turn lasts as long as it leaves for each,
const CONTENDED_TIME: Span = Span::from_secs(30);
/// but no less than this.
pub(super) const MIN_TURN: Span = Span::from_secs(10);
/// How long a network that has had a turn comes after those that have not, as a multiple of that turn's time. With more
/// networks than this in turn, what each has had is forgotten before its next turn.
const CHARGE_FACTOR: i64 = 32;
/// Maximum of that time.
const MAX_CHARGE_TIME: Span = Span::from_secs(600);
/// A turn counts as no shorter than this: one that is given back at once costs the others time, too.
const MIN_CHARGE: Span = Span::from_secs(1);
/// What each further client of a network that waits counts, as if the network had had turns not long ago,
const CHARGE_PER_WAITING_CLIENT: Span = Span::from_secs(10);
/// up to this many.
const MAX_CHARGED_WAITING_CLIENTS: usize = 6;
/// Maximum number of networks whose turns are remembered.
const MAX_NETWORKS: usize = 1024;

/// Why a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnEnd {
    /// It has lasted as long as a turn may.
    Limit(Span),
    /// No train for so long.
    Idle(Span),
    /// Others wait, and it has had its share of the time, which is this.
    Contended(Span),
}

impl fmt::Display for TurnEnd {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TurnEnd::Limit(limit) => write!(f, "the time limit of the turn, {limit}, is exceeded"),
            TurnEnd::Idle(limit) => write!(f, "no packet train for {limit}"),
            TurnEnd::Contended(share) => {
                write!(
                    f,
                    "other clients wait, so the time limit of the turn is {share}: use a smaller budget, or try later"
                )
            }
        }
    }
}

/// The client whose turn it is, and those that wait for theirs.
#[derive(Debug)]
pub(super) struct TurnQueue {
    /// Maximum time of a turn.
    limit: Span,
    holder: Option<TurnHolder>,
    /// Never an empty queue.
    waiting: BTreeMap<Network, VecDeque<WaitingClient>>,
    /// Until when a network comes after those that have had nothing.
    charged_until: BTreeMap<Network, Time>,
    /// Number of clients that have entered.
    entered_count: u64,
}

#[derive(Debug, Clone, Copy)]
struct TurnHolder {
    id: u64,
    network: Network,
    began: Time,
    /// Since when it has sent no train; none while one is on its way.
    idle_since: Option<Time>,
    idle_limit: Span,
}

#[derive(Debug, Clone, Copy)]
struct WaitingClient {
    id: u64,
    since: Time,
    /// In the order of entering.
    entry_number: u64,
}

/// The expected order of turns: by how many of its own network go first, what its network has had, and when it entered.
type QueueRank = (usize, Time, u64);

impl TurnQueue {
    /// Turns of at most `limit`.
    pub(super) fn new(limit: Span) -> Self {
        TurnQueue { limit, holder: None, waiting: BTreeMap::new(), charged_until: BTreeMap::new(), entered_count: 0 }
    }

    /// Queues client `id`, unless it is queued already. If nobody else is, its turn begins.
    pub(super) fn enter_queue(&mut self, id: u64, network: Network, now: Time) {
        if self.position(id, now).is_some() {
            return;
        }
        self.entered_count += 1;
        let entry = WaitingClient { id, since: now, entry_number: self.entered_count };
        self.waiting.entry(network).or_default().push_back(entry);
        self.begin_next(now);
    }

    /// Gives up the turn, whereupon the next begins, or the place in the queue.
    pub(super) fn leave_queue(&mut self, id: u64, now: Time) {
        if let Some(holder) = self.holder.take_if(|holder| holder.id == id) {
            self.charge_network(holder.network, now - holder.began, now);
            self.begin_next(now);
        } else {
            self.waiting.retain(|_, queue| {
                queue.retain(|entry| entry.id != id);
                !queue.is_empty()
            });
        }
    }

    /// Reports that a train of the client with the turn begins, or that it has ended.
    pub(super) fn set_working(&mut self, id: u64, is_working: bool, now: Time) {
        if let Some(holder) = self.holder.as_mut().filter(|holder| holder.id == id) {
            holder.idle_since = (!is_working).then_some(now);
        }
    }

    /// How much longer than on a short path the client with the turn may be idle: round trips pass between two trains.
    pub(super) fn set_idle_allowance(&mut self, id: u64, allowance: Span) {
        if let Some(holder) = self.holder.as_mut().filter(|holder| holder.id == id) {
            holder.idle_limit = (IDLE_TIMEOUT + allowance).min(MAX_IDLE_TIMEOUT);
        }
    }

    /// The client whose turn it is.
    pub(super) fn holder(&self) -> Option<u64> {
        self.holder.map(|holder| holder.id)
    }

    /// The network of that client.
    pub(super) fn holder_network(&self) -> Option<Network> {
        self.holder.map(|holder| holder.network)
    }

    /// When the present turn ends as things stand, and why. It changes with what happens.
    pub(super) fn turn_end(&self) -> Option<(Time, TurnEnd)> {
        let holder = self.holder?;
        let limit = (holder.began + self.limit, TurnEnd::Limit(self.limit));
        let idle = holder.idle_since.map(|since| (since + holder.idle_limit, TurnEnd::Idle(holder.idle_limit)));
        let first = self.waiting.values().flatten().map(|entry| entry.since).min();
        let contended = first.map(|since| {
            let share = (CONTENDED_TIME / self.waiting.len() as i64).max(MIN_TURN);
            (holder.began.max(since) + share, TurnEnd::Contended(share))
        });
        [Some(limit), idle, contended].into_iter().flatten().min_by_key(|(time, _)| *time)
    }

    /// Number of clients that go before `id` as things stand; zero if it is its turn.
    pub(super) fn position(&self, id: u64, now: Time) -> Option<usize> {
        if self.holder() == Some(id) {
            return Some(0);
        }
        let ranks = || self.waiting.keys().flat_map(|&network| self.network_ranks(network, now));
        let (own, _) = ranks().find(|&(_, queued)| queued == id)?;
        Some(1 + ranks().filter(|(rank, _)| *rank < own).count())
    }

    /// The clients of one network that wait.
    fn network_ranks(&self, network: Network, now: Time) -> impl Iterator<Item = (QueueRank, u64)> {
        let round = usize::from(self.holder_network() == Some(network));
        let standing = self.priority_time(network, now);
        let waiting = self.waiting.get(&network).into_iter().flatten();
        waiting.enumerate().map(move |(behind, entry)| ((round + behind, standing, entry.entry_number), entry.id))
    }

    /// How much a network has lately had: the time from which it comes with those that have had nothing.
    pub(super) fn priority_time(&self, network: Network, now: Time) -> Time {
        let further = self.waiting.get(&network).map_or(0, |queue| queue.len().saturating_sub(1));
        let had = self.charged_until.get(&network).map_or(now, |&until| until.max(now));
        had + CHARGE_PER_WAITING_CLIENT * further.min(MAX_CHARGED_WAITING_CLIENTS) as i64
    }

    fn begin_next(&mut self, now: Time) {
        if self.holder.is_some() {
            return;
        }
        let first = |(&network, queue): (&Network, &VecDeque<WaitingClient>)| {
            let entry = queue.front()?;
            Some((self.priority_time(network, now), entry.entry_number, network))
        };
        let Some((_, _, network)) = self.waiting.iter().filter_map(first).min() else { return };
        let Some(queue) = self.waiting.get_mut(&network) else { return };
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&network);
        }
        self.holder = next.map(|WaitingClient { id, .. }| TurnHolder {
            id,
            network,
            began: now,
            idle_since: Some(now),
            idle_limit: IDLE_TIMEOUT,
        });
    }

    fn charge_network(&mut self, network: Network, turn: Span, now: Time) {
        let had = self.charged_until.get(&network).map_or(now, |&until| until.max(now));
        let until = (had + turn.max(MIN_CHARGE) * CHARGE_FACTOR).min(now + MAX_CHARGE_TIME);
        self.charged_until.retain(|_, until| *until > now);
        self.charged_until.insert(network, until);
        if self.charged_until.len() > MAX_NETWORKS {
            let least =
                self.charged_until.iter().max_by_key(|(_, until)| Reverse(**until)).map(|(network, _)| *network);
            least.map(|network| self.charged_until.remove(&network));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    const LIMIT: Span = Span::from_secs(180);

    fn time_at_seconds(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn network(number: u8) -> Network {
        Network::containing(Ipv4Addr::new(10, 0, number, 1).into())
    }

    fn queue(entries: &[(u64, u8)]) -> TurnQueue {
        let mut queue = TurnQueue::new(LIMIT);
        entries.iter().for_each(|&(id, of)| queue.enter_queue(id, network(of), time_at_seconds(0)));
        queue
    }

    fn places(queue: &TurnQueue, ids: &[u64], now: Time) -> Vec<Option<usize>> {
        ids.iter().map(|&id| queue.position(id, now)).collect()
    }

    #[test]
    fn a_client_far_away_may_be_idle_for_longer_within_bounds() {
        let mut queue = queue(&[(1, 0), (2, 1)]);
        let idle = |queue: &TurnQueue| queue.turn_end().filter(|(_, why)| matches!(why, TurnEnd::Idle(_)));
        for (allowance, limit) in [(0, 5), (6, 11)] {
            queue.set_idle_allowance(1, Span::from_secs(allowance));
            // Of one that has no turn it says nothing.
            queue.set_idle_allowance(2, Span::from_secs(9));
            assert_eq!(idle(&queue), Some((time_at_seconds(limit), TurnEnd::Idle(Span::from_secs(limit)))));
        }
        queue.leave_queue(2, time_at_seconds(0));
        queue.set_idle_allowance(1, Span::from_secs(1000));
        assert_eq!(idle(&queue), Some((time_at_seconds(20), TurnEnd::Idle(MAX_IDLE_TIMEOUT))));
        // The next turn begins anew.
        queue.enter_queue(2, network(1), time_at_seconds(1));
        queue.leave_queue(1, time_at_seconds(1));
        assert_eq!(idle(&queue), Some((time_at_seconds(6), TurnEnd::Idle(IDLE_TIMEOUT))));
    }

    #[test]
    fn turns_of_one_network_go_in_the_order_of_entering() {
        let mut queue = queue(&[(7, 0), (3, 0), (5, 0), (3, 0)]);
        assert_eq!(places(&queue, &[7, 3, 5], time_at_seconds(0)), [Some(0), Some(1), Some(2)]);
        queue.leave_queue(3, time_at_seconds(1));
        queue.leave_queue(3, time_at_seconds(1));
        assert_eq!(places(&queue, &[7, 3, 5], time_at_seconds(1)), [Some(0), None, Some(1)]);
        queue.leave_queue(7, time_at_seconds(2));
        assert_eq!(places(&queue, &[7, 3, 5], time_at_seconds(2)), [None, None, Some(0)]);
    }

    #[test]
    fn networks_take_turns_whatever_the_number_of_their_clients() {
        let mut queue = queue(&[(1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 2)]);
        assert_eq!(places(&queue, &[1, 6, 4, 2, 5, 3], time_at_seconds(0)), [0, 1, 2, 3, 4, 5].map(Some));
        let order: Vec<_> = (0..6)
            .filter_map(|turn| {
                let holder = queue.holder()?;
                queue.leave_queue(holder, time_at_seconds(20 * (turn + 1)));
                Some(holder)
            })
            .collect();
        assert_eq!(order, [1, 6, 4, 2, 5, 3]);
    }

    #[test]
    fn a_turn_ends_by_its_limit_or_after_idleness_or_sooner_while_others_wait() {
        let mut queue = queue(&[(1, 0)]);
        assert_eq!(queue.turn_end(), Some((time_at_seconds(5), TurnEnd::Idle(IDLE_TIMEOUT))));
        queue.set_working(1, true, time_at_seconds(4));
        assert_eq!(queue.turn_end(), Some((time_at_seconds(180), TurnEnd::Limit(LIMIT))), "a train is on its way");
        queue.set_working(1, false, time_at_seconds(20));
        assert_eq!(queue.turn_end(), Some((time_at_seconds(25), TurnEnd::Idle(IDLE_TIMEOUT))));
        queue.set_working(1, true, time_at_seconds(25));
        let shared = |queue: &TurnQueue| queue.turn_end().unwrap();
        queue.enter_queue(2, network(1), time_at_seconds(100));
        assert_eq!(shared(&queue), (time_at_seconds(130), TurnEnd::Contended(Span::from_secs(30))));
        queue.enter_queue(3, network(2), time_at_seconds(101));
        queue.enter_queue(4, network(2), time_at_seconds(101));
        assert_eq!(shared(&queue), (time_at_seconds(115), TurnEnd::Contended(Span::from_secs(15))), "by network");
        for id in 5..50 {
            queue.enter_queue(id, network(id as u8), time_at_seconds(102));
        }
        assert_eq!(shared(&queue), (time_at_seconds(110), TurnEnd::Contended(MIN_TURN)), "but no less than that");
        queue.leave_queue(1, time_at_seconds(110));
        assert_eq!(queue.holder(), Some(2));
        queue.set_working(2, true, time_at_seconds(111));
        assert_eq!(shared(&queue).0, time_at_seconds(120));
    }

    #[test]
    fn what_networks_have_had_is_forgotten_and_bounded() {
        let mut queue = TurnQueue::new(LIMIT);
        for id in 0..5000u64 {
            let network = Network::containing(Ipv4Addr::from_bits((id as u32) << 8).into());
            queue.enter_queue(id, network, time_at_seconds(0));
            queue.leave_queue(id, time_at_seconds(0));
        }
        assert_eq!(queue.charged_until.len(), MAX_NETWORKS);
        queue.enter_queue(9000, network(1), time_at_seconds(1000));
        queue.leave_queue(9000, time_at_seconds(1001));
        assert_eq!(queue.charged_until.len(), 1);
    }

    /// A client of a network that attacks: it uses its turns to the end, and enters again at once.
    fn attack(networks: u8, clients: u64) -> TurnQueue {
        let mut queue = TurnQueue::new(LIMIT);
        for id in 0..clients {
            queue.enter_queue(id, network((id % u64::from(networks)) as u8), time_at_seconds(0));
        }
        queue
    }

    /// Lets the attackers go on until `until` has its turn, or for `turns`; returns the time.
    fn run(queue: &mut TurnQueue, mut now: Time, turns: usize, networks: u8, until: u64) -> Time {
        for _ in 0..turns {
            let Some(holder) = queue.holder().filter(|&holder| holder != until) else { break };
            queue.set_working(holder, true, now);
            now = queue.turn_end().unwrap().0;
            queue.leave_queue(holder, now);
            queue.enter_queue(holder, network((holder % u64::from(networks)) as u8), now);
        }
        now
    }

    const QUIET: u64 = 1_000_000;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However many networks attack, for however long: a client of a quiet network waits for the end of the present
        /// turn, and no longer.
        #[test]
        fn a_quiet_network_waits_for_one_turn_of_ten_seconds(
            networks in 3..=32u8, per_network in 2..=8u64, before in 0..100usize, waits in 0..10_000i64,
        ) {
            let mut queue = attack(networks, u64::from(networks) * per_network);
            let now = run(&mut queue, time_at_seconds(0), before, networks, QUIET) + Span::from_millis(waits);
            queue.enter_queue(QUIET, network(200), now);
            prop_assert_eq!(queue.position(QUIET, now), Some(1));
            let began = run(&mut queue, now, 1000, networks, QUIET);
            prop_assert_eq!(queue.holder(), Some(QUIET));
            prop_assert!(began - now <= MIN_TURN, "{}", began - now);
        }

        /// Networks with as many clients as addresses can't keep each other out, and each client has its turn.
        #[test]
        fn every_client_has_its_turn(networks in 1..=8u8, clients in 1..=40u64) {
            let mut queue = attack(networks, clients);
            let mut now = time_at_seconds(0);
            let mut had = BTreeSet::new();
            for _ in 0..4 * clients * u64::from(networks) {
                had.extend(queue.holder());
                now = run(&mut queue, now, 1, networks, QUIET);
            }
            prop_assert_eq!(had.len() as u64, clients);
        }

        /// Whatever clients do: as long as any is queued it is somebody's turn, the places are 0, 1, 2 … each once, and a
        /// turn that is used lasts ten seconds at least.
        #[test]
        fn places_are_a_queue(steps in prop::collection::vec((0..4u8, 0..12u64, 0..3000i64), 1..200)) {
            let mut queue = TurnQueue::new(LIMIT);
            let mut queued = BTreeSet::new();
            let mut now = time_at_seconds(0);
            let mut began = now;
            for (what, id, millis) in steps {
                now += Span::from_millis(millis);
                let holder = queue.holder();
                match what {
                    0 | 1 => { queue.enter_queue(id, network((id % 5) as u8), now); queued.insert(id); }
                    2 => { queue.leave_queue(id, now); queued.remove(&id); }
                    _ => queue.set_working(id, millis % 2 == 0, now),
                }
                if holder != queue.holder() {
                    began = now;
                }
                let mut places: Vec<_> = queued.iter().map(|&id| queue.position(id, now).unwrap()).collect();
                places.sort_unstable();
                prop_assert_eq!(places, (0..queued.len()).collect::<Vec<_>>());
                prop_assert_eq!(queue.holder().is_some(), !queued.is_empty());
                if let Some((end, why)) = queue.turn_end() {
                    prop_assert!(why == TurnEnd::Idle(IDLE_TIMEOUT) || end >= began + MIN_TURN);
                }
            }
        }
    }
}
