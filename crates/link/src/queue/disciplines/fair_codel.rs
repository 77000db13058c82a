use super::codel::{self, CoDelConfig, CoDelState};
use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::heavy_flows::{self, DropPreference, HeavyFlowDetector, HeavyFlows};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::Parameter;
use kumade_units::{ConfigError, Time};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The settings of [`FairCoDel`]; [`FlowHistory`](crate::queue::FlowHistory) and [`DropPreference`] say how those of the default were found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FairCoDelConfig {
    /// The CoDel beneath.
    pub codel: CoDelConfig,
    /// Which flows are dropped by preference, …
    pub heavy: HeavyFlows,
    /// … and how strongly.
    pub preference: DropPreference,
}

/// CoDel that drops by preference from the flow that uses most bandwidth (Hanai, Yamaguchi, Kobayashi 2016).
///
/// When CoDel would drop the packet at the head of the queue, it is dropped with the probability that the
/// [`DropPreference`] gives its flow. A packet that is spared is served, and the drop stays due: the next packets are asked
/// in turn until one takes it. So CoDel's pace is kept while heavy flows have packets in the queue, and only who is hit
/// changes. Where the probability for other flows is 0 and no heavy flow sends, nothing is dropped before the limit. (Were the
/// drop to lapse instead, CoDel would lose its grip: at 64 ms of added delay packets then wait 12 ms instead of 7.)
///
/// One flow at a time is all that it punishes, and for as long as the last choice holds, even if that flow has long made
/// way: that limits it at small delays. [`FairShare`](super::FairShare) charges every flow for its own excess instead.
#[derive(Debug)]
pub struct FairCoDel<P> {
    config: CoDelConfig,
    buffer: Buffer<P>,
    controller: CoDelState,
    detector: HeavyFlowDetector,
    rng: Pcg64Mcg,
}

impl AsMut<CoDelConfig> for FairCoDelConfig {
    fn as_mut(&mut self) -> &mut CoDelConfig {
        &mut self.codel
    }
}

impl AsMut<HeavyFlows> for FairCoDelConfig {
    fn as_mut(&mut self) -> &mut HeavyFlows {
        &mut self.heavy
    }
}

impl AsMut<DropPreference> for FairCoDelConfig {
    fn as_mut(&mut self) -> &mut DropPreference {
        &mut self.preference
    }
}

impl DisciplineConfig for FairCoDelConfig {
    const NAME: &'static str = "fair-codel";
    const SUMMARY: &'static str = "CoDel that drops by preference from the flow that sends most";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "fair-codel:target=50us:interval=200us:heavy-flows=7,9",
        "fair-codel:target=50us:interval=200us:mtu=1000:law=newton:ecn=on:rec-int=2:hist-len=20:stat-int=5:preference=100%/10%",
    ];
    type Queue<P> = FairCoDel<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        codel::parameters().into_iter().chain(heavy_flows::parameters()).collect()
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.codel.check()?;
        heavy_flows::check(&self.heavy, self.preference)
    }

    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> FairCoDel<P> {
        FairCoDel {
            config: self.codel,
            buffer: Buffer::new(limit),
            controller: CoDelState::new(),
            detector: HeavyFlowDetector::new(&self.heavy, self.preference, seed),
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }
}

impl<P> QueueDiscipline<P> for FairCoDel<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        self.detector.observe(packet.flow);
        self.buffer.push(packet, drops)
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        let FairCoDel { config, buffer, controller, detector, rng } = self;
        controller.dequeue(config, now, buffer, |packet| detector.drops_by_preference(packet.flow, rng), drops)
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    /// Drops of flows 0 and 1 within 5 s where each sends a packet per millisecond and one in all is served.
    fn drops(preference: DropPreference) -> [usize; 2] {
        let config = FairCoDelConfig { codel: CoDelConfig::default(), heavy: HeavyFlows::Known(vec![1]), preference };
        let mut queue = config.new_queue(QueueLimit::Packets(u64::MAX), 1);
        let mut drops = Vec::new();
        for milli in 1..5000 {
            let now = Time::ZERO + Span::from_millis(milli);
            for flow in 0..2 {
                queue.enqueue(QueuedPacket::new((), 1000, flow, now), &mut drops).unwrap();
            }
            queue.dequeue(now, &mut drops);
        }
        [0, 1].map(|flow| drops.iter().filter(|dropped| dropped.packet.flow == flow).count())
    }

    #[test]
    fn who_is_dropped_changes_and_how_much_does_not() {
        let equal = drops(DropPreference { heavy: 1.0, other: 1.0 });
        let total = |drops: [usize; 2]| drops[0] + drops[1];
        assert!(equal[0] > 250 && equal[1] > 250, "{equal:?}");
        let strict = drops(DropPreference { heavy: 1.0, other: 0.0 });
        assert_eq!(strict[0], 0);
        assert!(strict[1].abs_diff(total(equal)) <= 5, "{strict:?} {equal:?}");
        let gentle = drops(DropPreference { heavy: 1.0, other: 0.1 });
        assert!(gentle[0] * 5 < gentle[1] && total(gentle).abs_diff(total(equal)) <= 5, "{gentle:?}");
    }
}
