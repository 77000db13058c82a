use super::codel::{self, CoDelConfig, CoDelState, PacketSource};
use crate::Label;
use crate::ledger::DropCause;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{Divide, DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{NUMBER_FORMAT, Parameter, SIZE_FORMAT, SMALL_SIZE_FORMAT, SWITCH_FORMAT};
use crate::queue::slab::{PacketSlab, SlabList};
use crate::random::mix_bits;
use crate::sparse_table::SparseTable;
use kumade_units::{ConfigError, Span, Time};
use std::collections::VecDeque;

/// The settings of [`FqCoDel`]; the default is that of RFC 8290.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCoDelConfig {
    /// The CoDel of each queue.
    pub codel: CoDelConfig,
    /// How many bytes a queue may send before the next one's turn.
    pub quantum: u32,
    /// Among how many queues flows are spread. Flows that fall on the same one share it.
    pub flows: u32,
    /// Whether hosts take turns, and the flows of each take turns in its own.
    pub isolates_hosts: bool,
    /// How many bytes of packets can be queued, in addition to the queue's limit.
    pub memory: u64,
}

/// FQ-CoDel (RFC 8290): queues for flows take turns, those that have just begun to send come first, and each is kept
/// short by a CoDel of its own. What exceeds the limit or the memory is dropped from the front of the longest queue.
///
/// With [`isolates_hosts`](FqCoDelConfig::isolates_hosts) the hosts take turns by the same rule, so that one with many flows gets no more than one with
/// few: host fairness, as CAKE has it (Høiland-Jørgensen, Täht and Morton 2018, section III-B).
#[derive(Debug)]
pub struct FqCoDel<P> {
    config: FqCoDelConfig,
    limit: QueueLimit,
    slab: PacketSlab<P>,
    flow_queues: SparseTable<FlowQueue>,
    /// One for all, unless hosts take turns.
    hosts: Vec<HostQueues>,
    /// Of the hosts.
    host_round_robin: DeficitRoundRobin,
    seed: u64,
}

/// Members that wait for their turns, new ones before old ones. Each stands in at most one of the two lists, and once.
#[derive(Debug, Default)]
struct DeficitRoundRobin {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

/// What a member may send.
#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    /// How many bytes it may still send in this turn; negative when it has sent more.
    deficit: i64,
    is_listed: bool,
}

/// The lanes of a host.
#[derive(Debug, Default)]
struct HostQueues {
    round_robin: DeficitRoundRobin,
    credit: Credit,
}

/// One of the queues.
#[derive(Debug)]
struct FlowQueue {
    chain: SlabList,
    controller: CoDelState,
    credit: Credit,
}

/// A lane's packets, as its CoDel takes them.
struct FlowQueueSource<'a, 'd, P> {
    slab: &'a mut PacketSlab<P>,
    chain: &'a mut SlabList,
    divide: &'a mut Divide<'d, P>,
}

/// Linux drops at most so many packets of an overflowing queue at a time; to find the longest is what costs.
const MAX_DROP_BATCH_PACKETS: usize = 64;
/// No IP packet is larger; whatever claims to be may not send the turns round for ever.
const MAX_PACKET_BYTES: u32 = 65_535;
/// Among so many places hosts are spread. Those that fall on the same one share its turns.
const HOST_SLOTS: u32 = 1024;

impl Default for FqCoDelConfig {
    fn default() -> Self {
        let codel = CoDelConfig { ecn: true, ..CoDelConfig::default() };
        FqCoDelConfig { codel, quantum: 1514, flows: 1024, isolates_hosts: false, memory: 32 << 20 }
    }
}

impl AsMut<CoDelConfig> for FqCoDelConfig {
    fn as_mut(&mut self) -> &mut CoDelConfig {
        &mut self.codel
    }
}

impl DisciplineConfig for FqCoDelConfig {
    const NAME: &'static str = "fq-codel";
    const SUMMARY: &'static str = "FQ-CoDel: a queue with a CoDel for each flow, served in turns (RFC 8290)";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "fq-codel:target=50us:interval=200us:quantum=300:flows=3:ecn=off",
        "fq-codel:target=50us:interval=200us:mtu=1000:law=newton:ecn=on:memory=8kb",
        "fq-codel:target=50us:interval=200us:quantum=300:hosts=on",
    ];
    /// As in Linux.
    const DEFAULT_LIMIT: QueueLimit = QueueLimit::Packets(10_240);
    type Queue<P> = FqCoDel<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let quantum = "bytes that a queue may send before the next one's turn";
        let hosts = "hosts (source addresses) take turns, and the flows of each in its own";
        let own = [
            Parameter::new("quantum", SMALL_SIZE_FORMAT, quantum, |config: &mut Self| &mut config.quantum),
            Parameter::new("flows", NUMBER_FORMAT, "number of queues", |config: &mut Self| &mut config.flows),
            Parameter::new("hosts", SWITCH_FORMAT, hosts, |config: &mut Self| &mut config.isolates_hosts),
            Parameter::new(
                "memory",
                SIZE_FORMAT,
                "bytes of packets that can be queued, whatever the limit",
                |config: &mut Self| &mut config.memory,
            ),
        ];
        codel::parameters().into_iter().chain(own).collect()
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.codel.check()?;
        let error = ConfigError::for_part("FQ-CoDel queue");
        if self.quantum < 256 {
            let remedy = "give at least 256 bytes; the largest packet is usual";
            return Err(error("quantum", format!("{} bytes", self.quantum), "for which turns are too many", remedy));
        }
        if !(1..=65_536).contains(&self.flows) {
            let remedy = "give 1 to 65536; 1024 is usual";
            return Err(error("number of queues", self.flows.to_string(), "out of range", remedy));
        }
        if self.memory < 2000 {
            let remedy = "give at least 2000 bytes; 32 MB are usual";
            return Err(error("memory", format!("{} bytes", self.memory), "which holds no packet", remedy));
        }
        Ok(())
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> FqCoDel<P> {
        let hosts = if self.isolates_hosts {
            (0..HOST_SLOTS).map(|_| HostQueues::default()).collect()
        } else {
            vec![HostQueues::default()]
        };
        FqCoDel {
            config: *self,
            limit,
            slab: PacketSlab::new(),
            flow_queues: SparseTable::new(self.flows as usize, FlowQueue::new),
            hosts,
            host_round_robin: DeficitRoundRobin::default(),
            seed,
        }
    }
}

impl<P> FqCoDel<P> {
    /// Has the CoDel of each queue take other times from now on: the senders' round trips have turned out to be other ones.
    pub fn set_times(&mut self, target: Span, interval: Span) {
        self.config.codel = CoDelConfig { target, interval, ..self.config.codel };
    }

    fn flow_queue_of(&self, flow: u64) -> usize {
        (mix_bits(flow ^ self.seed) % u64::from(self.config.flows)) as usize
    }

    fn host_slot(&self, host: u64) -> u32 {
        (mix_bits(host ^ self.seed) % self.hosts.len() as u64) as u32
    }

    fn exceeds_limit(&self) -> bool {
        if self.slab.bytes() > self.config.memory {
            return true;
        }
        match self.limit {
            QueueLimit::Bytes(limit) => self.slab.bytes() > limit,
            QueueLimit::Packets(limit) => self.slab.packets() as u64 > limit,
        }
    }

    /// As [`QueueDiscipline::dequeue`], where packets may stand for several: what is served, dropped or marked is the first part of one, and
    /// the rest of it stays where it is.
    pub fn dequeue_divided(
        &mut self,
        now: Time,
        divide: &mut Divide<'_, P>,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Option<QueuedPacket<P>> {
        loop {
            let (place, is_new) = self.host_round_robin.next()?;
            if self.hosts[place].credit.is_spent() {
                self.hosts[place].credit.grant(self.config.quantum);
                self.host_round_robin.end_turn(is_new, true);
                continue;
            }
            if let Some(packet) = self.dequeue_from(place, now, divide, drops) {
                self.hosts[place].credit.spend(packet.size);
                return Some(packet);
            }
            self.hosts[place].credit.is_listed = self.host_round_robin.end_empty_turn(is_new);
        }
    }

    /// The packet behind one with this label, which was dequeued just before, if it came with that; CoDel has decided with the first one.
    /// The flow has sent `burst_bytes` in its turn then: as much as has all flows send `max_bytes` in a round of turns, or a quantum each. What is
    /// beyond its quantum, it does not send in later turns; one that has just begun to send gets a quantum only (RFC 8290 §4.2).
    pub fn dequeue_following(
        &mut self,
        (label, arrival): (&Label, Time),
        (burst_bytes, max_bytes): (u64, u64),
        divide: &mut Divide<'_, P>,
    ) -> Option<QueuedPacket<P>> {
        let (index, place) = (self.flow_queue_of(label.flow), self.host_slot(label.host));
        let (lane, host) = (self.flow_queues.get_mut(index), &mut self.hosts[place as usize]);
        let may_go_on = |list: &DeficitRoundRobin, member, credit: Credit| {
            !credit.is_spent() || (list.new.front() != Some(&member) && burst_bytes * list.members() <= max_bytes)
        };
        let is_hosts_turn = !self.config.isolates_hosts || may_go_on(&self.host_round_robin, place, host.credit);
        if !is_hosts_turn || !may_go_on(&host.round_robin, index as u32, lane.credit) {
            return None;
        }
        self.slab.first(&lane.chain).filter(|next| next.flow == label.flow && next.arrival == arrival)?;
        let packet = self.slab.pop_divided(&mut lane.chain, divide)?;
        lane.credit.spend(packet.size);
        host.credit.spend(packet.size);
        Some(packet)
    }

    /// Drops up to half of the longest queue, but a bounded number of packets, from its front.
    fn drop_from_longest(&mut self, drops: &mut Vec<DroppedPacket<P>>) {
        let Some(longest) = self.flow_queues.iter_mut().max_by_key(|lane| lane.chain.bytes()) else { return };
        let enough = longest.chain.bytes() / 2;
        for _ in 0..MAX_DROP_BATCH_PACKETS {
            let Some(packet) = self.slab.pop(&mut longest.chain) else { return };
            drops.push(DroppedPacket { packet, cause: DropCause::QueueFull });
            if longest.chain.bytes() <= enough {
                return;
            }
        }
    }

    /// The next packet of the host's lanes, in their turns.
    fn dequeue_from(
        &mut self,
        host: usize,
        now: Time,
        divide: &mut Divide<'_, P>,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Option<QueuedPacket<P>> {
        let turns = &mut self.hosts[host].round_robin;
        loop {
            let (index, is_new) = turns.next()?;
            let lane = self.flow_queues.get_mut(index);
            if lane.credit.is_spent() {
                lane.credit.grant(self.config.quantum);
                turns.end_turn(is_new, true);
                continue;
            }
            let mut source = FlowQueueSource { slab: &mut self.slab, chain: &mut lane.chain, divide };
            if let Some(packet) = lane.controller.dequeue(&self.config.codel, now, &mut source, |_| true, drops) {
                lane.credit.spend(packet.size);
                return Some(packet);
            }
            lane.credit.is_listed = turns.end_empty_turn(is_new);
        }
    }
}

impl DeficitRoundRobin {
    fn members(&self) -> u64 {
        (self.new.len() + self.old.len()) as u64
    }

    /// Whose turn it is, and whether it is a new one.
    fn next(&self) -> Option<(usize, bool)> {
        let new = self.new.front().map(|member| (*member as usize, true));
        new.or_else(|| self.old.front().map(|member| (*member as usize, false)))
    }

    /// Ends this turn; the member waits for another one if it `returns`.
    fn end_turn(&mut self, is_new: bool, returns: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        let member = list.pop_front();
        self.old.extend(member.filter(|_| returns));
    }

    /// Ends the turn of a member that has nothing to send. Returns whether it stays on the list: a new one waits for one round among
    /// the old ones, lest it be new again and again.
    fn end_empty_turn(&mut self, is_new: bool) -> bool {
        let stays = is_new && !self.old.is_empty();
        self.end_turn(is_new, stays);
        stays
    }
}

impl FlowQueue {
    fn new() -> Self {
        FlowQueue { chain: SlabList::default(), controller: CoDelState::new(), credit: Credit::default() }
    }
}

impl Credit {
    /// That of a new member.
    fn new(quantum: u32) -> Self {
        Credit { deficit: i64::from(quantum), is_listed: true }
    }

    fn is_spent(self) -> bool {
        self.deficit <= 0
    }

    fn grant(&mut self, quantum: u32) {
        self.deficit += i64::from(quantum);
    }

    fn spend(&mut self, size: u32) {
        self.deficit -= i64::from(size.min(MAX_PACKET_BYTES));
    }
}

impl<P> QueueDiscipline<P> for FqCoDel<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        let (index, place) = (self.flow_queue_of(packet.flow), self.host_slot(packet.host));
        let (lane, quantum) = (self.flow_queues.get_mut(index), self.config.quantum);
        self.slab.push(&mut lane.chain, packet);
        if !lane.credit.is_listed {
            lane.credit = Credit::new(quantum);
            let host = &mut self.hosts[place as usize];
            host.round_robin.new.push_back(index as u32);
            if !host.credit.is_listed {
                host.credit = Credit::new(quantum);
                self.host_round_robin.new.push_back(place);
            }
        }
        while self.exceeds_limit() {
            self.drop_from_longest(drops);
        }
        // Drops are from the front: the arriving packet is gone only with all of its queue.
        if self.flow_queues.get_mut(index).chain.packets() == 0 { Err(DropCause::QueueFull) } else { Ok(()) }
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.dequeue_divided(now, &mut |_| None, drops)
    }

    fn packets(&self) -> usize {
        self.slab.packets()
    }

    fn bytes(&self) -> u64 {
        self.slab.bytes()
    }
}

impl<P> PacketSource<P> for FlowQueueSource<'_, '_, P> {
    fn pop(&mut self) -> Option<QueuedPacket<P>> {
        self.slab.pop_divided(self.chain, self.divide)
    }

    fn bytes(&self) -> u64 {
        self.chain.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::Ecn;

    fn queue(limit: QueueLimit) -> FqCoDel<u32> {
        FqCoDelConfig { quantum: 1500, ..FqCoDelConfig::default() }.new_queue(limit, 1)
    }

    fn fill(queue: &mut FqCoDel<u32>, flow: u64, count: u32) -> usize {
        let mut drops = Vec::new();
        for content in 0..count {
            let _ = queue.enqueue(QueuedPacket::new(content, 1500, flow, Time::ZERO), &mut drops);
        }
        drops.len()
    }

    fn served(queue: &mut FqCoDel<u32>, count: usize) -> Vec<u64> {
        (0..count).filter_map(|_| queue.dequeue(Time::ZERO, &mut Vec::new())).map(|packet| packet.flow).collect()
    }

    #[test]
    fn flows_take_turns_and_who_begins_comes_first() {
        let mut queue = queue(QueueLimit::Packets(1000));
        fill(&mut queue, 1, 10);
        fill(&mut queue, 2, 10);
        assert_eq!(served(&mut queue, 6), [1, 2, 1, 2, 1, 2]);
        fill(&mut queue, 3, 1);
        assert_eq!(served(&mut queue, 5), [3, 1, 2, 1, 2]);
    }

    #[test]
    fn a_flow_of_small_packets_sends_as_many_bytes() {
        let mut queue = queue(QueueLimit::Packets(1000));
        fill(&mut queue, 1, 10);
        for content in 0..100 {
            queue.enqueue(QueuedPacket::new(content, 150, 2, Time::ZERO), &mut Vec::new()).unwrap();
        }
        let flows = served(&mut queue, 55);
        assert_eq!(flows.iter().filter(|flow| **flow == 1).count(), 5);
    }

    /// The part of what is served that goes to a host with one flow beside one with `flows`, all of which always have packets.
    fn part_of_one_flow(hosts: bool, flows: u64) -> f64 {
        let config = FqCoDelConfig { isolates_hosts: hosts, flows: 65_536, ..FqCoDelConfig::default() };
        let mut queue: FqCoDel<u32> = config.new_queue(QueueLimit::Packets(u64::MAX), 1);
        let offer = |queue: &mut FqCoDel<u32>, flow: u64| {
            let packet = QueuedPacket { host: flow.min(1), ..QueuedPacket::new(0, 1500, flow, Time::ZERO) };
            queue.enqueue(packet, &mut Vec::new()).unwrap();
        };
        (0..=flows).for_each(|flow| (0..3).for_each(|_| offer(&mut queue, flow)));
        let served = (0..10_000).map(|_| {
            let flow = queue.dequeue(Time::ZERO, &mut Vec::new()).unwrap().flow;
            offer(&mut queue, flow);
            u32::from(flow == 0)
        });
        f64::from(served.sum::<u32>()) / 10_000.0
    }

    #[test]
    fn a_host_with_many_flows_gets_no_more_than_one_with_one_if_hosts_take_turns() {
        for flows in [1, 3, 40, 300] {
            let (by_flow, by_host) = (part_of_one_flow(false, flows), part_of_one_flow(true, flows));
            assert!((by_flow * (flows + 1) as f64 - 1.0).abs() < 0.05, "{flows}: {by_flow}");
            assert!((by_host - 0.5).abs() < 0.01, "{flows}: {by_host}");
        }
    }

    /// Takes one of so many hundred bytes off a packet, whose content is how many there are.
    fn take_one(packet: &mut QueuedPacket<u32>) -> Option<QueuedPacket<u32>> {
        let rest = packet.content.checked_sub(1).filter(|rest| *rest > 0)?;
        (packet.content, packet.size) = (rest, 100 * rest);
        Some(QueuedPacket { content: 1, size: 100, ..packet.clone() })
    }

    #[test]
    fn of_a_packet_that_stands_for_several_a_new_flow_sends_a_quantum_and_others_take_turns_by_bytes() {
        let config = FqCoDelConfig { quantum: 300, ..FqCoDelConfig::default() };
        let mut queue: FqCoDel<u32> = config.new_queue(QueueLimit::Packets(100), 1);
        let offer = |queue: &mut FqCoDel<u32>, flow, parts| {
            queue.enqueue(QueuedPacket::new(parts, 100 * parts, flow, Time::ZERO), &mut Vec::new()).unwrap();
        };
        let serve = |queue: &mut FqCoDel<u32>, most: u64| {
            let first = queue.dequeue_divided(Time::ZERO, &mut take_one, &mut Vec::new())?;
            let came = (&first.label(), first.arrival);
            let following =
                |before: u64| queue.dequeue_following(came, (100 * (before + 1), 100 * most), &mut take_one);
            Some((first.flow, 1 + (1..).map_while(following).count()))
        };
        offer(&mut queue, 1, 20);
        assert_eq!(serve(&mut queue, 8), Some((1, 3)), "it has just begun");
        assert_eq!(serve(&mut queue, 8), Some((1, 8)), "it is alone");
        offer(&mut queue, 2, 20);
        assert_eq!(serve(&mut queue, 8), Some((2, 3)), "who begins comes first");
        assert_eq!(
            [1, 2, 3].map(|_| serve(&mut queue, 8).unwrap()),
            [(2, 4), (2, 4), (1, 4)],
            "by what they have sent"
        );
        assert_eq!(serve(&mut queue, 2), Some((2, 1)), "what it has sent before is taken from it");
        offer(&mut queue, 3, 2);
        assert_eq!(serve(&mut queue, 8), Some((3, 2)));
        assert_eq!((queue.bytes(), queue.packets()), (1300, 2));
        assert_eq!(std::iter::from_fn(|| serve(&mut queue, 8)).map(|(_, parts)| parts).sum::<usize>(), 13);
        assert_eq!((queue.bytes(), queue.packets()), (0, 0));
    }

    #[test]
    fn codel_drops_or_marks_one_part_of_a_packet_that_stands_for_several() {
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let mut queue: FqCoDel<u32> = FqCoDelConfig::default().new_queue(QueueLimit::Packets(100), 1);
            let packet = QueuedPacket { ecn, ..QueuedPacket::new(600, 60_000, 1, Time::ZERO) };
            queue.enqueue(packet, &mut Vec::new()).unwrap();
            let mut drops = Vec::new();
            let mut serve = |millis: i64| {
                let now = Time::ZERO + Span::from_millis(millis);
                queue.dequeue_divided(now, &mut take_one, &mut drops).unwrap()
            };
            let served = [10, 111].map(&mut serve);
            assert_eq!(served.each_ref().map(|part| part.size), [100, 100]);
            let is_marked = ecn == Ecn::Ect0;
            assert_eq!(served.map(|part| part.marked), [false, is_marked]);
            assert_eq!(
                drops.iter().map(|drop| drop.packet.size).collect::<Vec<_>>(),
                vec![100; usize::from(!is_marked)]
            );
            assert_eq!(queue.bytes(), 60_000 - if is_marked { 200 } else { 300 });
        }
    }

    #[test]
    fn overflow_hits_the_longest_queue() {
        let mut queue = queue(QueueLimit::Packets(100));
        assert_eq!(fill(&mut queue, 1, 100), 0);
        // One packet too many costs half of the longest queue, and makes room for those that follow.
        assert_eq!(fill(&mut queue, 2, 20), 50);
        assert_eq!(queue.packets(), 70);
        assert_eq!(queue.dequeue(Time::ZERO, &mut Vec::new()).unwrap().content, 50, "the oldest went first");
    }

    #[test]
    fn its_memory_is_bounded_whatever_the_limit() {
        let config = FqCoDelConfig { memory: 60_000, ..FqCoDelConfig::default() };
        let mut queue = config.new_queue(QueueLimit::Packets(10_240), 1);
        fill(&mut queue, 1, 1000);
        assert!((30_000..=60_000).contains(&queue.bytes()), "{}", queue.bytes());
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let refused = |config: FqCoDelConfig| config.check().unwrap_err().to_string();
        let good = FqCoDelConfig::default();
        assert!(refused(FqCoDelConfig { quantum: 100, ..good }).contains("quantum is 100 bytes"));
        assert!(refused(FqCoDelConfig { memory: 0, ..good }).contains("memory is 0 bytes"));
        assert!(refused(FqCoDelConfig { flows: 0, ..good }).contains("number of queues is 0"));
        assert!(refused(FqCoDelConfig { flows: 1 << 20, ..good }).contains("out of range"));
    }
}
