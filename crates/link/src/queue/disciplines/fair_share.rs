use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::flow_rates::{FlowRate, FlowRates};
use crate::queue::packet::{Dropped, Limit, Queued};
use crate::queue::parameter::{ECN_HELP, NUMBER, Parameter, SWITCH, TIME};
use units::{ConfigError, Span, Time};

/// The settings of [`FairShare`]; the default suits paths of the Internet at any rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairShareConfig {
    /// The queueing delay to hold while flows send more than the link carries. As long as the link does not
    /// fall idle and few packets pay, they wait less, down to a tenth of this; up to four times this where a packet of
    /// each flow takes longer to send.
    pub target: Span,
    /// Over how long a time flows are compared: some round-trip times.
    pub window: Span,
    /// How many flows are remembered, in 32 bytes each. Where there are more, those that send least are forgotten.
    pub flows: u32,
    /// Mark packets that can be marked instead of dropping them, unless their flow sends far too much.
    pub ecn: bool,
}

/// This project's own discipline: one queue, in which each flow is charged for what it sends above the fair share. When
/// the charge reaches the size of a packet, one packet of the flow is dropped or marked: the flow pays with it.
///
/// It keeps AFD's law, to drop the ratio `1 − share / own` of a flow, but not what makes AFD depend on the rate or on
/// chance:
///
/// - Flows are measured exactly, over a time window, in a table of bounded size; a sample of packets cannot distinguish
///   twenty similar flows.
/// - Charges instead of random draws space a flow's drops evenly, so that a congestion window rarely loses several.
/// - The share follows the *delay* of the queue in relative steps, whatever the link's rate is or becomes. It stays near
///   or above a lower bound of what is fair: the link's rate over the number of flows, both as measured. Else a start of many
///   connections, whose packets keep coming for a round trip after the first drops, would press it far too low.
/// - Where more waits than leaves in half a window, a flow pays with its packet that leaves next, so that senders learn at
///   once of a link that has become slow.
/// - The target delay falls as long as the link is busy and few packets pay. So delay-based senders (Vegas) get their
///   share too: they see a queue only as long as the reaction of loss-based flows needs.
///
/// A flow that sends less than the share never pays, whatever other flows do. The discipline cannot help where the share falls below a packet
/// per window, where more heavy flows begin at once than the table holds, or against a sender that spreads its packets
/// over many flows; and on fast and long paths even the least delay of one common queue slows Vegas down. Short flows get
/// no head start, as a queue of their own gives them; a few large flows of very different kinds (one CUBIC and one
/// Vegas) stay unequal; one NewReno alone leaves a tenth of the link empty, as the queue is too short for half its window
/// to keep it busy; and bursts at the link's full rate cost some of it, since the share takes a while to rise again.
#[derive(Debug)]
pub struct FairShare<P> {
    config: FairShareConfig,
    buffer: Buffer<P>,
    rates: FlowRates,
    /// How many bytes of a window a flow may send.
    share: f64,
    /// The maximum that a flow has recently sent within a window; a share above it has no meaning.
    peak: f64,
    /// The link's rate as last seen while packets waited, in bytes per window.
    capacity: f64,
    /// Bytes that have left since the last update.
    served: f64,
    last_update: Option<Time>,
    /// Packets of known flows, and those of them with which their flows paid, lately.
    arrived: f64,
    paid: f64,
    /// The delay at the last update, in targets.
    last_delay: f64,
    /// The delay aimed at, in targets.
    aim: f64,
    /// Whether a packet has left since then without having waited; none where none has left.
    idled: Option<bool>,
}

/// How often the share is adjusted, and what of the peak and of the counts of packets remains each time.
const UPDATE: Span = Span::from_millis(5);
const DECAY: f64 = 0.99;
/// How strongly the share follows the delay's change since the last update, in targets, and its distance from what is
/// aimed at, as a part of that. The second must be far weaker: flows take some round trips to follow, and a share that
/// goes on falling meanwhile makes many of them halve at once, after which long paths stay part empty for seconds.
const GAINS: (f64, f64) = (0.3, 0.0005);
/// With fewer packets than this in the share, the second gain is greater in proportion, up to this factor: the fewer
/// packets a flow has in flight, the more of them it must lose to slow down by as much.
const FULL_GAIN_PACKETS: f64 = 200.0;
const MAX_GAIN_FACTOR: f64 = 8.0;
/// How much the share rises at each update if a packet found the queue empty: what the link does not use is lost.
const IDLE_INCREASE: f64 = 0.04;
/// How much the delay aimed at rises at each update if a packet found the queue empty or little delay costs too many
/// packets (this part of them); how much it falls at each other update, and to what part of the target.
const AIM_INCREASE: f64 = 0.05;
const MAX_PAID_RATIO: f64 = 0.03;
const AIM_DECREASE: f64 = 0.0005;
const MIN_AIM: f64 = 0.1;
/// Where one packet of each flow takes longer than the target, the aim rises to that time, up to this many targets: with
/// less than a packet in the queue, a flow can only wait for its timer.
const MAX_AIM: f64 = 4.0;
/// The share never falls below a packet, else nobody could send; nor below this part of the rate over the number of
/// flows: a little less than all of it, so that a queue can be drained.
const MIN_SHARE_BYTES: f64 = 1500.0;
const MIN_SHARE_RATIO: f64 = 0.9;
/// How much that ratio decreases per target of delay above this many: a link that has become slow must drain its queue.
const DRAIN: f64 = 0.05;
const DRAIN_ABOVE: f64 = 5.0;
/// Where more waits than leaves in this part of a window, which is longer than most starts of connections make it, a flow
/// pays with its own packet among so many that leave next.
const FRONT_DROP_WINDOWS: f64 = 0.5;
const FRONT_PACKETS: usize = 64;
/// The least target in bytes, some packets: on a slow link the usual one would be a part of a packet's time.
const MIN_TARGET_BYTES: f64 = 6000.0;

impl Default for FairShareConfig {
    fn default() -> Self {
        FairShareConfig { target: Span::from_millis(10), window: Span::from_millis(500), flows: 4096, ecn: false }
    }
}

impl DisciplineConfig for FairShareConfig {
    const NAME: &'static str = "fair-share";
    const SUMMARY: &'static str =
        "this project's own: one queue whose flows are charged for what they send beyond the fair share";
    const TRIALS: &'static [&'static str] =
        &["fair-share:target=50us:window=500us:flows=8", "fair-share:target=50us:window=500us:flows=8:ecn=on"];
    type Queue<P> = FairShare<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        vec![
            Parameter::new("target", TIME, "queueing delay to hold under overload", |config: &mut Self| {
                &mut config.target
            }),
            Parameter::new("window", TIME, "time over which flows are compared", |config: &mut Self| {
                &mut config.window
            }),
            Parameter::new("flows", NUMBER, "number of flows remembered", |config: &mut Self| &mut config.flows),
            Parameter::new("ecn", SWITCH, ECN_HELP, |config: &mut Self| &mut config.ecn),
        ]
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::of("fair-share queue");
        for (name, span) in [("target", self.target), ("window", self.window)] {
            if span < Span::from_micros(10) {
                let remedy = "give at least 10 us; 10 ms of target and 500 ms of window are usual";
                return Err(error(name, span.to_string(), "in which nothing can be measured", remedy));
            }
        }
        if !(8..=1 << 20).contains(&self.flows) {
            let remedy = "give 8 to 1048576; 4096 is usual";
            return Err(error("number of flows", self.flows.to_string(), "out of range", remedy));
        }
        Ok(())
    }

    fn queue<P>(&self, limit: Limit, seed: u64) -> FairShare<P> {
        FairShare {
            config: *self,
            buffer: Buffer::new(limit),
            rates: FlowRates::new(self.flows, self.window, seed),
            // None is known before there is a queue.
            share: f64::MAX,
            peak: MIN_SHARE_BYTES,
            capacity: 0.0,
            served: 0.0,
            arrived: 0.0,
            paid: 0.0,
            last_update: None,
            last_delay: 0.0,
            aim: MIN_AIM,
            idled: None,
        }
    }
}

impl<P> FairShare<P> {
    /// Adjusts the share if that is due: down while the delay grows or is above what is aimed at, else up.
    fn update(&mut self, now: Time) {
        let elapsed = now - *self.last_update.get_or_insert(now);
        if elapsed < UPDATE {
            return;
        }
        self.last_update = Some(now);
        let idle = self.idled.take().unwrap_or(self.buffer.len() == 0);
        self.learn_capacity(elapsed, !idle && self.buffer.len() > 0);
        let delay = if idle { 0.0 } else { self.waiting() };
        let too_many = self.paid > MAX_PAID_RATIO * self.arrived;
        let more_aim = if idle || too_many { AIM_INCREASE } else { -AIM_DECREASE };
        let more_share = if idle { IDLE_INCREASE } else { 0.0 };
        let gain_factor = (FULL_GAIN_PACKETS * MIN_SHARE_BYTES / self.share).clamp(1.0, MAX_GAIN_FACTOR);
        let change =
            1.0 + more_share - GAINS.0 * (delay - self.last_delay) - GAINS.1 * gain_factor * (delay / self.aim - 1.0);
        self.last_delay = delay;
        let flows = self.rates.active(now);
        let most_aim = flows as f64 * MIN_SHARE_BYTES / self.target_bytes();
        self.aim = (self.aim * (1.0 + more_aim)).clamp(MIN_AIM, most_aim.clamp(1.0, MAX_AIM));
        self.arrived *= DECAY;
        self.paid *= DECAY;
        self.peak = (self.peak * DECAY).max(MIN_SHARE_BYTES);
        let most = if self.capacity > 0.0 { self.peak * 1.5 } else { f64::MAX };
        let drain = (1.0 - DRAIN * (delay - DRAIN_ABOVE).max(0.0)).max(0.5);
        let least = (drain * self.sure_share(flows)).clamp(MIN_SHARE_BYTES, most);
        self.share = (self.share * change.clamp(0.5, 1.5)).clamp(least, most);
    }

    /// How long what waits now takes to leave, in targets. The delay of packets that leave tells how much waited when they
    /// came, which is too late to steer by once it is long.
    fn waiting(&self) -> f64 {
        if self.capacity > 0.0 { self.buffer.bytes() as f64 / self.target_bytes() } else { 0.0 }
    }

    /// What the link carries within the target.
    fn target_bytes(&self) -> f64 {
        let target = self.config.target.as_nanos() as f64 / self.config.window.as_nanos() as f64;
        (target * self.capacity).max(MIN_TARGET_BYTES)
    }

    /// Takes what has left within `elapsed` for the link's rate if it was `busy` throughout.
    fn learn_capacity(&mut self, elapsed: Span, busy: bool) {
        let windows = elapsed.as_nanos() as f64 / self.config.window.as_nanos() as f64;
        let served = std::mem::take(&mut self.served) / windows;
        if busy {
            let weight = if self.capacity > 0.0 { windows.min(1.0) } else { 1.0 };
            self.capacity += weight * (served - self.capacity);
        }
    }

    /// The flow's packet that leaves next, to pay with where the queue is that long. Senders hear of that one soon; of the
    /// packet that has just come only once all before it has drained, at a rate that they do not know of yet.
    fn take_next_of(&mut self, flow: u64) -> Option<Queued<P>> {
        if self.buffer.bytes() as f64 <= FRONT_DROP_WINDOWS * self.capacity {
            return None;
        }
        let mut next = 0..self.buffer.len().min(FRONT_PACKETS);
        next.find(|place| self.buffer.flow_at(*place) == Some(flow)).and_then(|place| self.buffer.remove(place))
    }

    /// The lower bound of the fair share, whatever other flows do; 0 if there may be more flows than the table holds.
    fn sure_share(&self, flows: usize) -> f64 {
        if flows < self.rates.most() { MIN_SHARE_RATIO * self.capacity / flows.max(1) as f64 } else { 0.0 }
    }
}

impl<P> QueueDiscipline<P> for FairShare<P> {
    fn enqueue(&mut self, mut packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        self.update(packet.arrival);
        if let Some(flow) = self.rates.arrival(packet.flow, packet.size, packet.arrival) {
            self.peak = self.peak.max(flow.bytes);
            // A sender that ignores its marks is dropped before it does harm.
            let markable = self.config.ecn && flow.bytes < 2.0 * self.share;
            let pays = flow.pays(self.share, packet.size);
            self.arrived += 1.0;
            self.paid += f64::from(u8::from(pays));
            if pays && !(markable && packet.mark()) {
                let Some(next) = self.take_next_of(packet.flow) else {
                    return packet.dropped(DropCause::Managed, drops);
                };
                drops.push(Dropped { packet: next, cause: DropCause::Managed });
            }
        }
        self.buffer.push(packet, drops)
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.update(now);
        let packet = self.buffer.pop()?;
        self.served += f64::from(packet.size);
        self.idled = Some(self.idled == Some(true) || packet.arrival == now);
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

impl FlowRate {
    /// Charges the flow for the part of the packet above the share, and returns whether it pays with it.
    fn pays(&mut self, share: f64, size: u32) -> bool {
        let size = f64::from(size);
        let excess = size * (1.0 - share / self.bytes).max(-1.0);
        // Who sends less works a charge off, and saves nothing up.
        self.charge = (self.charge + excess).max(0.0);
        let pays = self.charge >= size;
        if pays {
            self.charge -= size;
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Ecn;

    /// Offers packets of 1000 bytes, one each millisecond of ten flows in turn, to a link that serves one in
    /// `service` for 20 s. Flow 0 sends in addition `extra` packets in each turn. Returns the packets that each flow
    /// got through in the second half, and the delays there in milliseconds.
    fn run(service: i64, extra: usize, ecn: Ecn) -> ([usize; 10], Vec<f64>) {
        let config = FairShareConfig { ecn: true, ..FairShareConfig::default() };
        let mut queue = config.queue(Limit::Packets(2000), 1);
        let (mut passed, mut delays, mut drops) = ([0; 10], Vec::new(), Vec::new());
        for step in 0..200_000i64 {
            let now = Time::from_nanos(step * 100_000);
            let flow = step / 10 % 10;
            let count = if step % 10 != 0 {
                0
            } else if flow == 0 {
                1 + extra
            } else {
                1
            };
            for _ in 0..count {
                let packet = Queued { ecn, ..Queued::new((), 1000, flow as u64, now) };
                let _ = queue.enqueue(packet, &mut drops);
            }
            if step % service == 0
                && let Some(packet) = queue.dequeue(now, &mut drops)
                && step > 100_000
            {
                passed[packet.flow as usize] += 1;
                delays.push((now - packet.arrival).as_secs_f64() * 1e3);
            }
        }
        (passed, delays)
    }

    #[test]
    fn only_the_greedy_flow_pays_and_the_delay_is_held() {
        // 1900 packets/s are offered and 1250 served: nine flows of 100/s, and what is left for the tenth.
        let (passed, delays) = run(8, 9, Ecn::NotEct);
        assert!(passed[1..].iter().all(|packets| (995..=1005).contains(packets)), "{passed:?}");
        assert!((3300..3550).contains(&passed[0]), "{passed:?}");
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        // A third of all packets must go, whatever the delay: it is held at the target.
        assert!((5.0..11.0).contains(&mean), "{mean}");
    }

    #[test]
    fn nobody_pays_on_a_link_with_room() {
        let (passed, _) = run(5, 4, Ecn::NotEct);
        assert!((4980..=5010).contains(&passed[0]), "{passed:?}");
    }

    #[test]
    fn who_ignores_marks_is_dropped_all_the_same() {
        let (passed, _) = run(8, 20, Ecn::Ect0);
        assert!(passed[1..].iter().all(|packets| (900..=1005).contains(packets)), "{passed:?}");
    }

    #[test]
    fn on_a_link_that_has_become_slow_the_front_of_the_queue_pays() {
        let mut queue = FairShareConfig::default().queue(Limit::Packets(2000), 1);
        let (mut paid, mut paid_in_front) = (0, 0);
        for milli in 0..2000 {
            let now = Time::from_nanos(milli * 1_000_000);
            let mut drops = Vec::new();
            // Two senders who do not slow down offer a tenth more than the link carries; from 1 s on, eleven times as much.
            for _ in 0..1 + i64::from(milli % 10 == 0) {
                let _ = queue.enqueue(Queued::new((), 1000, milli as u64 % 2, now), &mut drops);
            }
            if milli < 1000 || milli % 10 == 0 {
                let _ = queue.dequeue(now, &mut drops);
            }
            paid += drops.len();
            paid_in_front += drops.iter().filter(|dropped| dropped.packet.arrival < now).count();
        }
        assert!(paid > 500 && paid_in_front * 3 > paid, "{paid_in_front} of {paid}");
    }

    #[test]
    fn a_flow_pays_for_its_excess_alone() {
        let mut rates = FlowRates::new(8, Span::from_secs(1), 1);
        let flow = rates.arrival(1, 1000, Time::ZERO).unwrap();
        flow.bytes = 10_000.0;
        let mut pay = |share| (0..1000).filter(|_| flow.pays(share, 1000)).count();
        assert_eq!(pay(10_000.0), 0);
        assert_eq!(pay(20_000.0), 0);
        assert_eq!(pay(7500.0), 250);
        assert_eq!(pay(2500.0), 750);
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let good = FairShareConfig::default();
        for (config, part) in [
            (FairShareConfig { target: Span::ZERO, ..good }, "target is 0"),
            (FairShareConfig { window: Span::from_nanos(-1), ..good }, "window is -1 ns"),
            (FairShareConfig { flows: 0, ..good }, "number of flows is 0"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
