use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{
    ECN_HELP, Parameter, ParameterFormat, SMALL_SIZE_FORMAT, SWITCH_FORMAT, TIME_FORMAT, parse_choice,
};
use kumade_units::{ConfigError, Span, Time};

/// How CoDel spaces its drops: the k-th comes about `interval / √k` after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlLaw {
    /// By the square root itself, as RFC 8289 writes it: 100, 71, 58, 50, 45 ms …
    Exact,
    /// By one Newton step per drop towards 1/√k in 16 bits, on a clock that ticks every 1024 ns, as Linux and ns-3 do:
    /// 100, 50, 57, 49, 44 ms …
    Newton,
}

/// The settings of [`CoDel`]; the default is that of RFC 8289.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelConfig {
    /// A standing queue that delays packets less than this is good: 5 ms unless the link is very slow.
    pub target: Span,
    /// How long the delay may stay above `target`: about the longest round-trip time of the flows.
    pub interval: Span,
    /// The largest packet in bytes. While no more than this waits behind a packet, it is not dropped.
    pub mtu: u32,
    /// How drops follow each other.
    pub law: ControlLaw,
    /// Mark packets that can be marked instead of dropping them.
    pub ecn: bool,
}

/// Controlled Delay (RFC 8289): drops at the head of the queue, ever more often while the delay of every packet within
/// an interval was above the target.
#[derive(Debug)]
pub struct CoDel<P> {
    config: CoDelConfig,
    buffer: Buffer<P>,
    controller: CoDelState,
}

/// What CoDel takes packets from.
pub(super) trait PacketSource<P> {
    /// The packet that has waited longest.
    fn pop(&mut self) -> Option<QueuedPacket<P>>;
    /// Bytes that wait.
    fn bytes(&self) -> u64;
}

/// The state of CoDel for one queue, apart from the queue.
#[derive(Debug)]
pub(super) struct CoDelState {
    /// When the delay will have been above the target for an interval; `None` while it is below.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since dropping began, …
    count: u32,
    /// … and the value at which it last began.
    last_count: u32,
    /// 1/√count in units of 2⁻¹⁶, for [`ControlLaw::Newton`].
    inverse_root: u16,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        let (target, interval) = (Span::from_millis(5), Span::from_millis(100));
        CoDelConfig { target, interval, mtu: 1500, law: ControlLaw::Exact, ecn: false }
    }
}

impl ControlLaw {
    /// The nanoseconds as far as this law's clock tells them apart.
    fn clock_ticks(self, nanos: i64) -> i64 {
        match self {
            ControlLaw::Exact => nanos,
            ControlLaw::Newton => nanos & !1023,
        }
    }
}

impl AsMut<CoDelConfig> for CoDelConfig {
    fn as_mut(&mut self) -> &mut CoDelConfig {
        self
    }
}

impl DisciplineConfig for CoDelConfig {
    const NAME: &'static str = "codel";
    const SUMMARY: &'static str = "CoDel: bounds the standing queue's delay by drops at the head (RFC 8289)";
    const TEST_SETTINGS: &'static [&'static str] =
        &["codel:target=50us:interval=200us", "codel:target=50us:interval=200us:mtu=1000:law=newton:ecn=on"];
    type Queue<P> = CoDel<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        parameters()
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("CoDel queue");
        if self.target < Span::ZERO {
            let problem = "which is negative";
            return Err(error("target", self.target.to_string(), problem, "give 0 or more; 5 ms is usual"));
        }
        // Far below any path's round trip yet above the tick of the coarser law, and far beyond any round trip.
        if self.interval < Span::from_micros(10) || self.interval > Span::from_secs(3600) {
            let remedy = "give 10 us to an hour; the longest round-trip time of the flows is usual";
            return Err(error("interval", self.interval.to_string(), "to which no sender can react", remedy));
        }
        Ok(())
    }

    fn new_queue<P>(&self, limit: QueueLimit, _seed: u64) -> CoDel<P> {
        CoDel { config: *self, buffer: Buffer::new(limit), controller: CoDelState::new() }
    }
}

/// The parameters of CoDel, for every discipline that contains one.
pub(super) fn parameters<C: DisciplineConfig + AsMut<CoDelConfig>>() -> Vec<Parameter<C>> {
    const CONTROL_LAW_FORMAT: ParameterFormat<ControlLaw> = ParameterFormat {
        placeholder: "exact|newton",
        read: |text| parse_choice(text, [("exact", ControlLaw::Exact), ("newton", ControlLaw::Newton)]),
        show: |law| if *law == ControlLaw::Exact { "exact".to_owned() } else { "newton".to_owned() },
    };
    let interval = "how long the delay must stay above the target before the first drop";
    let mtu = "largest packet: nothing is dropped while no more than this is queued";
    let law = "spacing of drops: exact (RFC 8289) or newton (the approximation of Linux)";
    vec![
        Parameter::new("target", TIME_FORMAT, "acceptable delay of a standing queue", |config: &mut C| {
            &mut config.as_mut().target
        }),
        Parameter::new("interval", TIME_FORMAT, interval, |config: &mut C| &mut config.as_mut().interval),
        Parameter::new("mtu", SMALL_SIZE_FORMAT, mtu, |config: &mut C| &mut config.as_mut().mtu),
        Parameter::new("law", CONTROL_LAW_FORMAT, law, |config: &mut C| &mut config.as_mut().law),
        Parameter::new("ecn", SWITCH_FORMAT, ECN_HELP, |config: &mut C| &mut config.as_mut().ecn),
    ]
}

impl<P> QueueDiscipline<P> for CoDel<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        self.buffer.push(packet, drops)
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.controller.dequeue(&self.config, now, &mut self.buffer, |_| true, drops)
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

impl<P> PacketSource<P> for Buffer<P> {
    fn pop(&mut self) -> Option<QueuedPacket<P>> {
        Buffer::pop(self)
    }

    fn bytes(&self) -> u64 {
        Buffer::bytes(self)
    }
}

impl CoDelState {
    pub(super) fn new() -> Self {
        CoDelState {
            first_above: None,
            dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            inverse_root: u16::MAX,
        }
    }

    /// The next packet to serve. One that CoDel would drop is dropped, or marked, only if `takes` agrees; else it is
    /// served, and the drop stays due until a packet takes it.
    pub(super) fn dequeue<P>(
        &mut self,
        config: &CoDelConfig,
        now: Time,
        source: &mut impl PacketSource<P>,
        mut takes: impl FnMut(&QueuedPacket<P>) -> bool,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Option<QueuedPacket<P>> {
        let mut packet = self.pop(source)?;
        let above = self.is_above_target(config, now, &packet, source.bytes());
        if !self.dropping {
            if above && takes(&packet) {
                let packet = self.drop_or_mark(config, packet, source, drops);
                if let Some(packet) = packet.as_ref().filter(|packet| !packet.marked) {
                    self.is_above_target(config, now, packet, source.bytes());
                }
                self.enter_dropping(config, now);
                return packet;
            }
            return Some(packet);
        }
        self.dropping = above;
        while self.dropping && now >= self.drop_next && takes(&packet) {
            self.count = self.count.saturating_add(1);
            self.newton_step();
            packet = self.drop_or_mark(config, packet, source, drops)?;
            self.dropping = packet.marked || self.is_above_target(config, now, &packet, source.bytes());
            if self.dropping {
                self.drop_next += self.drop_interval(config);
            }
            if packet.marked {
                break;
            }
        }
        Some(packet)
    }

    /// An empty queue ends dropping and the memory of a long delay.
    fn pop<P>(&mut self, source: &mut impl PacketSource<P>) -> Option<QueuedPacket<P>> {
        let packet = source.pop();
        if packet.is_none() {
            self.first_above = None;
            self.dropping = false;
        }
        packet
    }

    /// The packet itself, marked, or the one that follows it.
    fn drop_or_mark<P>(
        &mut self,
        config: &CoDelConfig,
        mut packet: QueuedPacket<P>,
        source: &mut impl PacketSource<P>,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Option<QueuedPacket<P>> {
        if config.ecn && packet.mark() {
            return Some(packet);
        }
        drops.push(DroppedPacket { packet, cause: DropCause::Aqm });
        self.pop(source)
    }

    /// Whether the delay has been above the target for an interval, this packet's included.
    fn is_above_target<P>(&mut self, config: &CoDelConfig, now: Time, packet: &QueuedPacket<P>, left: u64) -> bool {
        let law = config.law;
        let sojourn = law.clock_ticks((now - packet.arrival).as_nanos());
        if sojourn < law.clock_ticks(config.target.as_nanos()) || left <= u64::from(config.mtu) {
            self.first_above = None;
            return false;
        }
        let now = law.clock_ticks(now.as_nanos());
        let Some(first_above) = self.first_above else {
            self.first_above = Some(Time::from_nanos(now + law.clock_ticks(config.interval.as_nanos())));
            return false;
        };
        match law {
            ControlLaw::Exact => now >= first_above.as_nanos(),
            ControlLaw::Newton => now > first_above.as_nanos(),
        }
    }

    /// Begins to drop, at the pace of the last time if that was a short while ago.
    fn enter_dropping(&mut self, config: &CoDelConfig, now: Time) {
        let grown = self.count - self.last_count;
        let recent = (now - self.drop_next).as_nanos() < config.interval.as_nanos().saturating_mul(16);
        if grown > 1 && recent {
            self.count = grown;
            self.newton_step();
        } else {
            self.count = 1;
            self.inverse_root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = Time::from_nanos(config.law.clock_ticks(now.as_nanos())) + self.drop_interval(config);
        self.dropping = true;
    }

    /// The time between this drop and the next.
    fn drop_interval(&self, config: &CoDelConfig) -> Span {
        let interval = config.interval.as_nanos();
        let nanos = match config.law {
            // The machine's square root is exact to the last bit (IEEE 754), thus the same everywhere.
            ControlLaw::Exact => (interval as f64 / f64::from(self.count).sqrt()) as i64,
            ControlLaw::Newton => ((i128::from(interval >> 10) * i128::from(self.inverse_root)) >> 16 << 10) as i64,
        };
        // A gap of nothing would drop the whole queue at once.
        Span::from_nanos(nanos.max(1))
    }

    /// x ← x · (3 − count · x²) / 2, in the fixed-point arithmetic of Linux.
    fn newton_step(&mut self) {
        let root = u64::from(self.inverse_root) << 16;
        let square = (root * root) >> 32;
        let value = (3u64 << 32).saturating_sub(u64::from(self.count) * square) >> 2;
        self.inverse_root = ((value * root) >> 31 >> 16) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::Ecn;

    fn config(law: ControlLaw) -> CoDelConfig {
        CoDelConfig { law, ..CoDelConfig::default() }
    }

    fn millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn filled(config: CoDelConfig, capable: bool) -> CoDel<usize> {
        let mut queue = config.new_queue(QueueLimit::Packets(500), 0);
        for packet in 0..20 {
            let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
            queue
                .enqueue(QueuedPacket { ecn, ..QueuedPacket::new(packet, 1000, 0, millis(0)) }, &mut Vec::new())
                .unwrap();
        }
        queue
    }

    /// Drops so far and packets left after each dequeue of ns-3's test (`codel-queue-disc-test-suite.cc`, test 5).
    fn ns3_basic_drop(law: ControlLaw) -> Vec<(usize, usize)> {
        let (mut queue, mut drops) = (filled(config(law), false), Vec::new());
        [10, 210, 210, 420]
            .map(|at| {
                queue.dequeue(millis(at), &mut drops).unwrap();
                (drops.len(), queue.packets())
            })
            .to_vec()
    }

    #[test]
    fn drops_are_those_of_the_ns3_test() {
        assert_eq!(ns3_basic_drop(ControlLaw::Newton), [(0, 19), (1, 17), (1, 16), (4, 12)]);
        // By the square root the second gap is 71 ms instead of 50, so that one drop fewer is due by then.
        assert_eq!(ns3_basic_drop(ControlLaw::Exact), [(0, 19), (1, 17), (1, 16), (3, 13)]);
    }

    /// The milliseconds of all drops within 5 s, where a packet is served each millisecond and `load` times as many
    /// arrive.
    fn drops_under(load: f64, law: ControlLaw) -> Vec<i64> {
        let mut queue = config(law).new_queue(QueueLimit::Packets(u64::MAX), 0);
        let (mut drops, mut times, mut arrived) = (Vec::new(), Vec::new(), 0u32);
        for service in 1..5000 {
            let arrivals = std::iter::from_fn(|| {
                let arrival = Time::from_nanos((f64::from(arrived) * 1e6 / load) as i64);
                arrived += 1;
                Some(arrival)
            });
            for arrival in arrivals.take_while(|arrival| *arrival <= millis(service)) {
                queue.enqueue(QueuedPacket::new((), 1000, 0, arrival), &mut Vec::new()).unwrap();
            }
            arrived -= 1;
            queue.dequeue(millis(service), &mut drops);
            times.extend(drops.drain(..).map(|_| service));
        }
        times
    }

    #[test]
    fn drops_under_steady_overload_are_those_of_the_reference() {
        let by = |law| [1.05, 1.2, 2.0].map(|load| drops_under(load, law).len());
        assert_eq!(by(ControlLaw::Newton), [240, 636, 641]);
        assert_eq!(by(ControlLaw::Exact), [240, 630, 634]);
    }

    #[test]
    fn gaps_between_drops_follow_the_law() {
        let gaps = |law| -> Vec<_> { drops_under(2.0, law).windows(2).take(5).map(|two| two[1] - two[0]).collect() };
        assert_eq!(gaps(ControlLaw::Exact), [100, 71, 58, 50, 45]);
        assert_eq!(gaps(ControlLaw::Newton), [100, 50, 57, 49, 44]);
    }

    #[test]
    fn what_can_be_marked_is_not_dropped() {
        let (mut queue, mut drops) =
            (filled(CoDelConfig { ecn: true, ..config(ControlLaw::Newton) }, true), Vec::new());
        let marked: Vec<_> =
            [10, 210, 210, 420].map(|at| queue.dequeue(millis(at), &mut drops).unwrap().marked).to_vec();
        assert_eq!(marked, [false, true, false, true]);
        assert_eq!((drops.len(), queue.packets()), (0, 16));
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let good = CoDelConfig::default();
        for (config, part) in [
            (CoDelConfig { target: Span::from_millis(-1), ..good }, "target is -1 ms"),
            (CoDelConfig { interval: Span::ZERO, ..good }, "interval is 0"),
            (CoDelConfig { interval: Span::MAX, ..good }, "to which no sender can react"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(good.check(), Ok(()));
    }

    #[test]
    fn one_packet_behind_is_no_standing_queue() {
        let (mut queue, mut drops) = (filled(config(ControlLaw::Exact), false), Vec::new());
        let last = (0..20)
            .map(|step| queue.dequeue(millis(1000 + 200 * step), &mut drops))
            .fold(0, |n, p| n + usize::from(p.is_some()));
        assert_eq!(last + drops.len(), 20);
        assert!(drops.iter().all(|dropped| dropped.packet.content < 18), "{drops:?}");
    }
}
