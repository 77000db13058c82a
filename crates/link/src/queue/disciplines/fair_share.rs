mod l4s;
mod queue_state;

use crate::ledger::DropCause;
use crate::queue::calendar::{Calendar, ServiceRound, TakenPacket};
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::flow_codel::{FlowCoDel, SHORTEST_GAP_DIVISOR};
use crate::queue::flow_table::FlowTable;
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{ECN_HELP, NUMBER_FORMAT, Parameter, SWITCH_FORMAT, TIME_FORMAT};
use crate::queue::recurring_event::RecurringEvent;
use kumade_units::{ConfigError, Span, Time};
use queue_state::{FULL_PACKET_BYTES, QueueState};

/// The settings of [`FairShare`]; the default suits paths of the Internet at any rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairShareConfig {
    /// The queueing delay that each flow may keep of its own; up to five times as much where the link would else fall idle.
    pub target: Span,
    /// For how long at most a flow may keep more than that before it pays, if it has kept none for long; others may for a
    /// fifth of this, which should be the longest round-trip time.
    pub window: Span,
    /// How many flows are told apart, in 60 bytes each: of those that have something waiting.
    pub flows: u32,
    /// Mark packets that can be marked instead of dropping them.
    pub ecn: bool,
    /// Treat packets that are ECT(1) as those of senders that expect frequent marks (RFC 9331); else as ECT(0).
    pub l4s: bool,
}

/// This project's own discipline: fair queueing (SCFQ, Golestani 1994; AFQ, Sharma et al. 2018) with an AQM for each flow, in
/// one queue. What it does:
///
/// 1. A common clock counts the bytes that a flow which always has something waiting has been served. Each flow is charged
///    for its packets on that clock, from where it stands or, after a pause, from the present on.
/// 2. Packets leave in rounds of 1514 bytes of the clock, whatever their flow; one queue holds them, sorted by round. There is
///    no queue for each flow, only its charge and what its AQM remembers, 60 bytes in a table of bounded size.
/// 3. A packet of a flow that has nothing waiting and has used no more than its share leaves before those of rounds.
/// 4. A flow whose own delay stays above the target pays: with packets that leave, so that its sender learns of it soon, by
///    CoDel's law with an interval that suits its path ([`FairShareConfig::window`]); with packets that arrive, where it does not
///    react to four of these, to marks neither. Flows begin to pay one after the other, so that they do not slow down together;
///    if the link falls idle all the same while they send, the target rises for all, up to five times, until they are gone.
/// 5. On a link that has become slow, packets that have waited for five targets are dropped instead of sent.
/// 6. What exceeds the limit is dropped from the last round: of those who are furthest ahead of the others.
/// 7. Packets that are ECT(1), of senders that expect frequent marks (L4S, RFC 9331), leave first even if their flow is ahead of its share,
///    by what the link serves in two targets at most, of which they are charged each byte. They are marked by two ramps: by what they
///    waited themselves, from 0.8 ms or two packets' time on; and, while another flow waits for its round, by how far their flow is ahead.
///    So its sender keeps to its share because of marks, not of a queue. One that does not answer waits in rounds like all others, and
///    pays with drops (4). The packets that leave first are the queue of low latency, those of rounds the one of bulk.
///
/// What it guarantees: no flow gets more than its share while others have something waiting, in whatever pulses it sends, but for
/// a packet each time that it begins; a flow that sends less waits for others' packets in transmission and that of as many other
/// sparse flows, and loses nothing; nobody's delay depends on how others fill the queue, so that delay-based senders get
/// their share too. Per packet, it takes the time of some memory accesses, and it allocates nothing.
///
/// What it can't: a sender that spreads its packets over many flows gets the share of each, as with any discipline that knows flows
/// by their ports; ever new flows, of which each packet would leave first, get half of the link and of the queue at most. Where
/// more flows wait than the table has room for, or several in one of its sets of eight, some of them share a charge. Far more
/// flows than the link carries packets in a round-trip time wait a round each, whatever the target. One NewReno alone on a path
/// of 100 ms and more leaves some percent of the link empty until the target has risen.
///
/// Figures (`kumade lab run fair-attack --virtual` and `fair-latency`: 100 Mbit/s, 20 ms, beside 4 CUBIC connections): UDP in pulses of
/// 7 ms at 1 Gbit/s gets 1.00 times an equal share, and in 50 random patterns no more; sparse packets wait for 0.06 ms at the median
/// and 0.13 ms at the 99th percentile (FQ-CoDel: 0.08 and 0.32). Where the rate falls to a tenth, that percentile of all
/// packets is 46 ms (169), for which 4.6 % are dropped (2.3 %). Of 200 patterns that a search tries for the most that a sender can get
/// and as many for the least that it can leave to others (`fair-search`), the worst gets 1.00 times an equal share, and takes nothing from
/// the others (FQ-CoDel: 1.01, and 10 %, by leaving the link idle).
/// Jain's index of 2500 and 10 000 flows that offer unequal rates is 0.998 and 0.991 (a test below). Through a link, a packet of one of
/// 20 000 flows takes about 100 ns, of one of 20 flows 70 (FQ-CoDel: 80 and 68; the example `packets_per_second`).
#[derive(Debug)]
pub struct FairShare<P> {
    config: FairShareConfig,
    limit: QueueLimit,
    calendar: Calendar<P>,
    flows: FlowTable<FlowState>,
    /// What the AQM of the flow at each place remembers, where [`FlowState::aqm`] says so. Apart, since few packets need it.
    codel_states: Vec<FlowCoDel>,
    /// What a flow that always had something waiting has been served so far, in bytes.
    clock: u64,
    /// The greatest [`FlowState::finish`] and [`FlowState::position`].
    latest_finish: u64,
    /// Whether the last packet was one of those that leave first.
    last_was_served_first: bool,
    /// Packets of L4S senders that are marked.
    l4s_marks: RecurringEvent,
    queue_state: QueueState,
}

/// What is known of a flow. All that it has sent is on the common clock, which stands still for no flow: who has sent
/// less than the clock says is forgiven, and gains nothing.
///
/// It takes half a line of a processor's cache.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
struct FlowState {
    /// Where the service of all that it has waiting ends.
    finish: u64,
    /// Where its last packet waits: later than its finish says where packets before it have been dropped.
    position: u64,
    /// What it has waiting.
    bytes: u32,
    /// How many packets it has to pay with before they are queued.
    pending_drops: u32,
    /// What of that is to leave before rounds.
    first_bytes: u32,
    /// Whether it has sent packets that are ECT(1).
    is_l4s: bool,
    aqm: FlowAqm,
}

/// Whether the own delay of a flow is above the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FlowAqm {
    /// It never was: its AQM remembers nothing.
    #[default]
    Unused,
    Below,
    Above,
}

/// What a flow is served in one round.
const ROUND_BYTES: u64 = FULL_PACKET_BYTES;
/// Further ahead than this many rounds, packets wait in order of arrival.
const MAX_ROUNDS: u64 = 16_384;
/// Packets that are to leave first and have waited for this part of the target are overdue.
const OVERDUE_TARGET_DIVISOR: i64 = 4;
/// Of senders that expect frequent marks, packets that have waited for as long as so many full packets take.
const L4S_OVERDUE_PACKETS: i64 = 3;
/// A flow with no more than this left does not pay: with less than a packet in the queue it could only wait for its timer.
const MAX_SPARED_BACKLOG_BYTES: u32 = 1514;
/// Flows begin to pay an interval apart, so that they do not all slow down at once where one that does so makes room for the others;
/// unless a flow's delay is this many times what it may be.
const UNSPACED_SIGNAL_TARGETS: f64 = 3.0;
/// So many packets in a row a flow pays with as they leave, of which its sender soon hears. Who goes on all the same does not
/// listen, and pays with packets that arrive: those that wait have their turns, in which others would be served.
const MAX_PENDING_DROPS: u32 = 4;
/// No IP packet is larger; whatever claims to be may not stop the clock.
const MAX_PACKET_BYTES: u32 = 65_535;
/// A packet that has waited for so many targets is late. It is dropped where the link has become slow.
const MAX_DELAY_TARGETS: i64 = 5;
/// Flows that had to pay at most so many windows ago are those that may leave the link idle for that.
const RECENT_WINDOWS: i64 = 4;
impl Default for FairShareConfig {
    fn default() -> Self {
        FairShareConfig {
            target: Span::from_millis(10),
            window: Span::from_secs(1),
            flows: 16_384,
            ecn: false,
            l4s: true,
        }
    }
}

impl DisciplineConfig for FairShareConfig {
    const NAME: &'static str = "fair-share";
    const SUMMARY: &'static str =
        "this project's own: one queue, from which flows are served in rounds and each keeps its own delay short";
    const TEST_SETTINGS: &'static [&'static str] =
        &["fair-share:target=50us:window=500us:flows=8", "fair-share:target=50us:window=500us:flows=8:ecn=on:l4s=off"];
    /// Flows keep their own delays short; room is for many of them.
    const DEFAULT_LIMIT: QueueLimit = QueueLimit::Packets(10_240);
    type Queue<P> = FairShare<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        vec![
            Parameter::new(
                "target",
                TIME_FORMAT,
                "queueing delay that each flow may keep of its own",
                |config: &mut Self| &mut config.target,
            ),
            Parameter::new(
                "window",
                TIME_FORMAT,
                "maximum time for which a flow may keep more; five round-trip times",
                |config: &mut Self| &mut config.window,
            ),
            Parameter::new("flows", NUMBER_FORMAT, "number of flows told apart", |config: &mut Self| &mut config.flows),
            Parameter::new("ecn", SWITCH_FORMAT, ECN_HELP, |config: &mut Self| &mut config.ecn),
            Parameter::new(
                "l4s",
                SWITCH_FORMAT,
                "mark packets of ECT(1) early and often, and serve their flows first",
                |config: &mut Self| &mut config.l4s,
            ),
        ]
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("fair-share queue");
        for (name, span) in [("target", self.target), ("window", self.window)] {
            // Far below any path's round trip, and far beyond.
            if !(Span::from_micros(10)..=Span::from_secs(3600)).contains(&span) {
                let remedy = "give 10 us to an hour; 10 ms of target and 1 s of window are usual";
                return Err(error(name, span.to_string(), "in which nobody can react", remedy));
            }
        }
        if !(8..=1 << 20).contains(&self.flows) {
            let remedy = "give 8 to 1048576; 16384 is usual";
            return Err(error("number of flows", self.flows.to_string(), "out of range", remedy));
        }
        Ok(())
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> FairShare<P> {
        let rounds = match limit {
            QueueLimit::Bytes(bytes) => bytes / ROUND_BYTES,
            QueueLimit::Packets(packets) => packets,
        };
        let flows = FlowTable::new(self.flows, seed);
        FairShare {
            config: *self,
            limit,
            calendar: Calendar::new(rounds.min(MAX_ROUNDS) as usize),
            codel_states: vec![FlowCoDel::default(); flows.slot_count()],
            flows,
            clock: 0,
            latest_finish: 0,
            last_was_served_first: false,
            l4s_marks: RecurringEvent::default(),
            queue_state: QueueState::new(),
        }
    }
}

/// What happens to a packet.
#[derive(Debug, Clone, Copy)]
enum AqmDecision {
    Served,
    /// It is marked, or dropped where it can't be.
    Marked,
    Dropped,
}

impl<P> FairShare<P> {
    fn exceeds_limit(&self) -> bool {
        match self.limit {
            QueueLimit::Bytes(limit) => self.calendar.bytes() > limit,
            QueueLimit::Packets(limit) => self.calendar.packets() as u64 > limit,
        }
    }

    /// The packet whose turn it is. Those that leave first do so at once; where they are so many that they wait, as the
    /// first packets of ever new flows do, every other packet is one of a round.
    fn next(&mut self, now: Time) -> Option<TakenPacket<P>> {
        let taken = if self.serves_round_next(now) { self.calendar.pop_round() } else { None };
        let taken = taken.or_else(|| self.calendar.pop())?;
        self.last_was_served_first = taken.round == ServiceRound::Immediate;
        if self.last_was_served_first {
            self.flows.get(taken.owner).first_bytes -= charged_bytes(taken.packet.size);
        }
        // With nothing left, nobody has anything to pay for.
        if self.calendar.packets() == 0 {
            self.clock = self.latest_finish;
            self.calendar.skip_to(self.clock / ROUND_BYTES);
        } else {
            self.clock = self.clock.max(self.calendar.current_round() * ROUND_BYTES);
        }
        Some(taken)
    }

    /// Whether a packet of a round leaves though others are to leave first. It does not overtake one of its own flow.
    fn serves_round_next(&mut self, now: Time) -> bool {
        let Some((arrival, first)) = self.calendar.next_immediate().filter(|_| self.last_was_served_first) else {
            return false;
        };
        let least = self.config.target / OVERDUE_TARGET_DIVISOR;
        // Who is ahead of its share by a few packets that take long is not yet in others' way.
        let is_l4s = self.flows.get(first).is_l4s;
        let overdue = if is_l4s { least.max(self.queue_state.packet_time() * L4S_OVERDUE_PACKETS) } else { least };
        now - arrival >= overdue
            && self.calendar.next_owner().is_some_and(|owner| self.flows.get(owner).first_bytes == 0)
    }

    /// What happens to the packet, which leaves now.
    fn aqm_decision(&mut self, taken: &TakenPacket<P>, now: Time) -> AqmDecision {
        let waited = now - taken.packet.arrival;
        let flow = self.flows.get(taken.owner);
        flow.bytes -= charged_bytes(taken.packet.size);
        let aim = self.config.target.as_nanos() as f64 * self.queue_state.target_scale;
        if flow.bytes <= MAX_SPARED_BACKLOG_BYTES || (waited.as_nanos() as f64) < aim {
            if flow.aqm == FlowAqm::Above {
                flow.aqm = FlowAqm::Below;
                self.codel_states[taken.owner as usize].below_target(now);
            }
            return AqmDecision::Served;
        }
        let delay = &mut self.codel_states[taken.owner as usize];
        if flow.aqm == FlowAqm::Unused {
            *delay = FlowCoDel::default();
        }
        flow.aqm = FlowAqm::Above;
        let just_begun = now - self.queue_state.last_signal_start < self.config.window / SHORTEST_GAP_DIVISOR;
        let spared = just_begun && (waited.as_nanos() as f64) < aim * UNSPACED_SIGNAL_TARGETS;
        let begins = delay.signal_count() == 0;
        let pays = delay.above_target(now, self.config.window, begins && spared);
        if pays && begins {
            self.queue_state.last_signal_start = now;
        }
        let late = waited >= self.config.target * MAX_DELAY_TARGETS && self.queue_state.is_slow();
        if !pays && !late {
            return AqmDecision::Served;
        }
        self.queue_state.last_drop = now;
        if late {
            return AqmDecision::Dropped;
        }
        if delay.signal_count() <= MAX_PENDING_DROPS {
            return AqmDecision::Marked;
        }
        flow.pending_drops = flow.pending_drops.saturating_add(1);
        AqmDecision::Served
    }

    fn is_l4s(&mut self, taken: &TakenPacket<P>) -> bool {
        self.config.l4s && l4s::is_l4s(&taken.packet, self.flows.get(taken.owner).is_l4s)
    }

    /// Whether a packet of a sender that expects frequent marks is marked as it leaves: for what it waited itself, and for what its flow
    /// has had beyond its share, if another waits for that.
    fn marks_l4s(&mut self, taken: &TakenPacket<P>, now: Time) -> bool {
        let others_wait = self.calendar.next_owner().is_some_and(|owner| owner != taken.owner);
        // Its own packet is not yet beyond it.
        let lead = self.flows.get(taken.owner).finish.saturating_sub(self.clock + u64::from(taken.packet.size));
        let waited = now - taken.packet.arrival;
        let packet_time = self.queue_state.packet_time().as_secs_f64();
        let scale = self.queue_state.l4s_lead_scale(self.config.target);
        self.l4s_marks.recurs(l4s::marking_probability(waited, packet_time, others_wait.then_some(lead), scale))
    }

    /// Whether any flow had to pay a short while ago.
    fn has_signalled_recently(&self, now: Time) -> bool {
        now - self.queue_state.last_drop < self.config.window * RECENT_WINDOWS
    }

    /// Whether the flow at this place had to.
    fn was_signalled_recently(&mut self, place: u32, now: Time) -> bool {
        self.has_signalled_recently(now)
            && self.flows.get(place).aqm != FlowAqm::Unused
            && self.codel_states[place as usize].was_signalled_since(now - self.config.window * RECENT_WINDOWS)
    }

    /// Drops packets of those that are furthest ahead until the rest fits, and tells whether the one at `arrived` is among them.
    fn drop_to_limit(&mut self, arrived: u32, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        let mut outcome = Ok(());
        while self.exceeds_limit() {
            let Some(TakenPacket { packet, owner, node_index: place, round: turn }) = self.calendar.remove_last()
            else {
                break;
            };
            let size = charged_bytes(packet.size);
            let flow = self.flows.get(owner);
            match turn {
                ServiceRound::Immediate => flow.first_bytes -= size,
                // It was the last of its flow, or waits beside it: what comes next takes its place.
                ServiceRound::Round(round) => flow.position = flow.position.min(round * ROUND_BYTES),
            }
            flow.finish -= u64::from(size);
            flow.bytes -= size;
            if place == arrived {
                outcome = Err(DropCause::QueueFull);
            }
            drops.push(DroppedPacket { packet, cause: DropCause::QueueFull });
        }
        outcome
    }
}

impl<P> QueueDiscipline<P> for FairShare<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        let (clock, size) = (self.clock, charged_bytes(packet.size));
        let place = self.flows.slot_of(packet.flow, |flow| flow.is_idle(clock));
        let flow = self.flows.get(place);
        if flow.settle_pending_drop() {
            return packet.drop_into(DropCause::Aqm, drops);
        }
        let is_l4s = self.config.l4s && l4s::is_l4s(&packet, flow.is_l4s);
        flow.is_l4s |= is_l4s;
        let l4s_lead = is_l4s.then(|| self.queue_state.l4s_lead_scale(self.config.target));
        let turn = flow.charge_packet(size, clock, l4s_lead);
        self.latest_finish = self.latest_finish.max(flow.finish).max(flow.position);
        let arrived = self.calendar.push(turn, packet, place);
        self.drop_to_limit(arrived, drops)
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.queue_state.update_target_scale(now, self.config.target, self.config.window);
        loop {
            let mut taken = self.next(now)?;
            let served = match self.aqm_decision(&taken, now) {
                AqmDecision::Served => true,
                // Who expects frequent marks has had them, and pays for not answering.
                AqmDecision::Marked => self.config.ecn && !self.is_l4s(&taken) && taken.packet.mark(),
                AqmDecision::Dropped => false,
            };
            if served {
                let is_signalled = self.was_signalled_recently(taken.owner, now);
                self.queue_state.record_departure(taken.packet.size, is_signalled);
                if self.is_l4s(&taken) && self.marks_l4s(&taken, now) {
                    taken.packet.mark();
                }
                return Some(taken.packet);
            }
            // What is not served is not charged, else who has to lose much would get less than a share.
            self.flows.get(taken.owner).finish -= u64::from(charged_bytes(taken.packet.size));
            drops.push(DroppedPacket { packet: taken.packet, cause: DropCause::Aqm });
        }
    }

    fn pass_through(
        &mut self,
        packet: QueuedPacket<P>,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Result<QueuedPacket<P>, DropCause> {
        if !self.limit.has_room(0, 0, packet.size) {
            drops.push(DroppedPacket { packet, cause: DropCause::QueueFull });
            return Err(DropCause::QueueFull);
        }
        let now = packet.arrival;
        self.queue_state.was_idle = true;
        self.queue_state.update_target_scale(now, self.config.target, self.config.window);
        let owner = if self.has_signalled_recently(now) { self.flows.find(packet.flow) } else { None };
        let is_signalled = owner.is_some_and(|owner| self.was_signalled_recently(owner, now));
        self.queue_state.record_departure(packet.size, is_signalled);
        Ok(packet)
    }

    fn packets(&self) -> usize {
        self.calendar.packets()
    }

    fn bytes(&self) -> u64 {
        self.calendar.bytes()
    }
}

/// What a packet counts.
#[inline]
fn charged_bytes(size: u32) -> u32 {
    size.clamp(1, MAX_PACKET_BYTES)
}

impl FlowState {
    /// Whether it has nothing waiting, and has sent no more than the clock allows.
    fn is_idle(&self, clock: u64) -> bool {
        self.bytes == 0 && self.finish <= clock
    }

    /// Whether it pays with the packet that arrives.
    fn settle_pending_drop(&mut self) -> bool {
        if self.bytes <= MAX_SPARED_BACKLOG_BYTES {
            self.pending_drops = 0;
        }
        let settles = self.pending_drops > 0;
        self.pending_drops = self.pending_drops.saturating_sub(1);
        settles
    }

    /// Whether the next packet of a flow that is ahead of its share leaves first all the same, before none of its own.
    fn leaves_first_though_ahead(&self, size: u32, clock: u64, scale: u64) -> bool {
        let lead = self.finish.saturating_sub(clock) + u64::from(size);
        self.bytes == self.first_bytes
            && self.bytes + size <= l4s::MAX_WAITING_BYTES
            && lead <= l4s::max_lead_bytes(scale)
    }

    /// Charges the flow for a packet, and says when that is to leave.
    #[inline]
    fn charge_packet(&mut self, size: u32, clock: u64, l4s_lead: Option<u64>) -> ServiceRound {
        // An L4S flow has to its credit what it has left of its share lately.
        let credit = l4s_lead.map_or(0, l4s::credit_bytes);
        self.finish = self.finish.max(clock.saturating_sub(credit));
        let turn = if self.is_idle(clock)
            || l4s_lead.is_some_and(|scale| self.leaves_first_though_ahead(size, clock, scale))
        {
            self.position = clock;
            self.first_bytes += size;
            ServiceRound::Immediate
        } else {
            // Who has lost packets catches up, but only twice as fast, lest it come in bursts.
            self.position = self.finish.max(self.position + u64::from(size / 2)).max(clock);
            ServiceRound::Round(self.position / ROUND_BYTES)
        };
        self.finish += u64::from(size);
        self.bytes += size;
        turn
    }
}

#[cfg(test)]
mod tests;
