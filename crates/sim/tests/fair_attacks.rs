//! What the fair share holds against those who attack it or do not fit it, each a fault of an earlier release: pulses, sparse
//! flows, needless drops, marks that are ignored, delay-based senders, a link that becomes slow.
use kumade_link::queue::{Discipline, Ecn, FairShareConfig, QueueConfig, QueueLimit};
use kumade_link::{
    CrossConfig, CrossKind, LinkConfig, Medium, PacketOutcome, PeriodLengths, RateSchedule, Recording, SizeMix,
};
use kumade_sim::network::{FlowConfig, FlowId, LinkId, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

const RATE: Rate = Rate::from_mbit(100);
const ROUND_TRIP: Span = Span::from_millis(20);
/// A fair share with ECN before a link of 100 Mbit/s, and flows with round trips of 20 ms over it.
struct Bottleneck {
    network: Network,
    link: LinkId,
    flows: Vec<FlowId>,
}

impl Bottleneck {
    fn new() -> Self {
        Bottleneck::over(LinkConfig { rate: Some(RATE), ..LinkConfig::default() })
    }

    fn over(config: LinkConfig) -> Self {
        let mut network = Network::new(7);
        let discipline = Discipline::FairShare(FairShareConfig { ecn: true, ..FairShareConfig::default() });
        let queue = QueueConfig { limit: QueueLimit::Packets(1000), discipline };
        let link = network.add_link(LinkConfig { delay: ROUND_TRIP / 2, ..config }, Some(queue)).unwrap();
        Bottleneck { network, link, flows: Vec::new() }
    }

    fn add(&mut self, config: FlowConfig) -> FlowId {
        let flow = self.network.add_flow(config).unwrap();
        self.flows.push(flow);
        flow
    }

    fn tcp(mut self, controls: &[CongestionControl]) -> Self {
        for control in controls {
            let source = TrafficSource::Tcp(TcpConfig::new(*control));
            self.add(FlowConfig {
                delay_back: ROUND_TRIP / 2,
                jitter: RATE.time_for(1500),
                start_jitter: Span::from_millis(100),
                ..FlowConfig::new(vec![self.link], source)
            });
        }
        self
    }

    fn udp(&mut self, kind: CrossKind) -> FlowId {
        self.udp_with_ecn(kind, Ecn::Ect0)
    }

    fn udp_with_ecn(&mut self, kind: CrossKind, ecn: Ecn) -> FlowId {
        let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 3 };
        self.add(FlowConfig { ecn, ..FlowConfig::new(vec![self.link], TrafficSource::Udp(cross)) })
    }

    /// Mbit/s of payload that each flow gets between two seconds.
    fn goodput(&mut self, from: i64, to: i64) -> Vec<f64> {
        let read = |network: &Network| self.flows.iter().map(|flow| network.flow(*flow).goodput_bytes).collect();
        self.network.run_until(at(from));
        let before: Vec<u64> = read(&self.network);
        self.network.run_until(at(to));
        let after: Vec<u64> = read(&self.network);
        let mbit = |(after, before): (&u64, &u64)| (after - before) as f64 * 8e-6 / (to - from) as f64;
        after.iter().zip(&before).map(mbit).collect()
    }

    /// Delays that the queue added to the flow's packets, sorted, in milliseconds.
    fn added(&self, flow: FlowId) -> Vec<f64> {
        let entries = self.network.ledger(self.link).entries().filter(|entry| entry.flow == flow.label());
        let mut added: Vec<f64> = entries
            .filter_map(|entry| match entry.outcome {
                PacketOutcome::Departed(left) => {
                    Some((left - entry.arrival - RATE.time_for(entry.size.into())).as_secs_f64() * 1e3)
                }
                _ => None,
            })
            .collect();
        added.sort_by(f64::total_cmp);
        added
    }
}

fn at(seconds: i64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn on_off(mbit: u64, on: f64, off: f64, periods: PeriodLengths) -> CrossKind {
    let [on, off] = [on, off].map(|millis| Span::from_secs_f64(millis * 1e-3));
    CrossKind::OnOff { rate: Rate::from_mbit(mbit), size: 1500, on, off, periods }
}

/// A share that followed the queue's slope gave pulses up to 3.7 times the share.
#[test]
fn pulses_get_no_more_than_a_share() {
    for (rate, on, off, periods) in [
        (1000, 7.0, 66.7, PeriodLengths::Fixed),
        (1000, 25.0, 225.0, PeriodLengths::Fixed),
        (1000, 1.0, 10.0, PeriodLengths::Fixed),
        (1000, 500.0, 500.0, PeriodLengths::Fixed),
        (900, 100.0, 60.0, PeriodLengths::Exponential),
    ] {
        let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic; 4]);
        bottleneck.udp(on_off(rate, on, off, periods));
        let got = bottleneck.goodput(1, 6);
        assert!(got[4] <= 1.2 * 20.0, "{rate} Mbit/s, {on}/{off} ms: {:.1} Mbit/s", got[4]);
        assert!(got.iter().sum::<f64>() > 92.0, "{got:.1?}");
    }
}

/// To be marked instead of dropped, and to be served first, is of no use to who does not answer marks.
#[test]
fn who_claims_to_be_l4s_gets_no_more_than_a_share() {
    let constant = |mbit| CrossKind::Constant { rate: Rate::from_mbit(mbit), size: 1500 };
    for kind in [
        constant(30),
        constant(100),
        constant(1000),
        on_off(1000, 7.0, 66.7, PeriodLengths::Fixed),
        on_off(1000, 1.0, 10.0, PeriodLengths::Fixed),
        on_off(200, 40.0, 80.0, PeriodLengths::Fixed),
        on_off(900, 100.0, 60.0, PeriodLengths::Exponential),
    ] {
        let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic; 4]);
        bottleneck.udp_with_ecn(kind.clone(), Ecn::Ect1);
        let got = bottleneck.goodput(1, 11);
        assert!(got[4] <= 1.03 * 20.0, "{kind:?}: {got:.1?}");
        assert!(got.iter().sum::<f64>() > 92.0, "{kind:?}: {got:.1?}");
    }
}

#[test]
fn l4s_flows_and_sparse_ones_do_not_wait_for_who_claims_to_be_one() {
    for rate in [100, 1000] {
        let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic, CongestionControl::Prague]);
        bottleneck.network.ledger_mut(bottleneck.link).record(Recording::All);
        bottleneck.udp_with_ecn(CrossKind::Constant { rate: Rate::from_mbit(rate), size: 1500 }, Ecn::Ect1);
        let probe = bottleneck.udp(CrossKind::Poisson { rate: Rate::from_f64(320e3), sizes: SizeMix::fixed(200) });
        let got = bottleneck.goodput(5, 15);
        let share = 100.0 / 3.0;
        assert!(got[1] > 0.8 * share && got[2] < 1.05 * share, "{rate} Mbit/s: {got:.1?}");
        for flow in [bottleneck.flows[1], probe] {
            let added = bottleneck.added(flow);
            let p99 = added[added.len() * 99 / 100];
            assert!(p99 <= 1.0, "{rate} Mbit/s: {p99:.2} ms");
        }
    }
}

#[test]
fn an_l4s_sender_that_conceals_its_marks_gets_about_a_share() {
    let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic]);
    let tcp = TcpConfig { conceals_marks: true, ..TcpConfig::new(CongestionControl::Prague) };
    let config = FlowConfig::new(vec![bottleneck.link], TrafficSource::Tcp(tcp));
    bottleneck.add(FlowConfig { delay_back: ROUND_TRIP / 2, jitter: RATE.time_for(1500), ..config });
    let got = bottleneck.goodput(2, 12);
    assert!(got[1] <= 1.05 * 50.0, "{got:.1?}");
}

/// They once cost the others a quarter of what they could have.
#[test]
fn pulses_below_the_share_lose_nothing_and_cost_no_more_than_they_carry() {
    let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic; 4]);
    bottleneck.udp(on_off(1000, 1.0, 61.5, PeriodLengths::Fixed));
    let got = bottleneck.goodput(1, 6);
    let rest = 100.0 * 1448.0 / 1500.0 - 16.0;
    assert!(got[4] > 15.0 && got[..4].iter().sum::<f64>() > 0.97 * rest, "{got:.1?}");
}

#[test]
fn sparse_flows_do_not_wait_for_bulk() {
    let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic; 4]);
    bottleneck.network.ledger_mut(bottleneck.link).record(Recording::All);
    let probe = bottleneck.udp(CrossKind::Poisson { rate: Rate::from_f64(320e3), sizes: SizeMix::fixed(200) });
    let sent = bottleneck.goodput(0, 6)[4];
    let added = bottleneck.added(probe);
    let (median, p99) = (added[added.len() / 2], added[added.len() * 99 / 100]);
    assert!(sent > 0.2 && median <= 0.5 && p99 <= 2.0, "{median:.2} {p99:.2} ms");
}

/// Without waiting, 10 kB take a round trip and the time of their packets.
#[test]
fn short_flows_finish_beside_bulk_as_if_alone() {
    let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic; 4]);
    for start in 10..50 {
        let tcp = TcpConfig { bytes: Some(10_000), ..TcpConfig::new(CongestionControl::Cubic) };
        let start = Time::ZERO + Span::from_millis(start * 100);
        let config = FlowConfig::new(vec![bottleneck.link], TrafficSource::Tcp(tcp));
        bottleneck.add(FlowConfig { start, delay_back: ROUND_TRIP / 2, ..config });
    }
    bottleneck.network.run_until(at(6));
    let times = bottleneck.flows[4..].iter().map(|flow| {
        let counters = bottleneck.network.flow(*flow);
        (counters.finished.unwrap() - counters.started.unwrap()).as_secs_f64() * 1e3
    });
    let mean = times.sum::<f64>() / 40.0;
    assert!(mean < 26.0, "{mean:.1} ms");
}

#[test]
fn nothing_is_dropped_needlessly_of_bbr() {
    for controls in [[CongestionControl::Bbr; 2], [CongestionControl::Cubic, CongestionControl::Bbr]] {
        let mut bottleneck = Bottleneck::new().tcp(&controls);
        bottleneck.network.run_until(at(2));
        let before = *bottleneck.network.ledger(bottleneck.link).packet_counters();
        bottleneck.network.run_until(at(12));
        let after = *bottleneck.network.ledger(bottleneck.link).packet_counters();
        let dropped =
            after.aqm_dropped.since(before.aqm_dropped).packets + after.queue_full.since(before.queue_full).packets;
        let part = dropped as f64 / after.offered.since(before.offered).packets as f64;
        assert!(part <= 0.005, "{controls:?}: {:.2} %", part * 100.0);
    }
}

#[test]
fn who_ignores_marks_gets_about_a_share() {
    for rate in [100, 1000] {
        let mut bottleneck = Bottleneck::new().tcp(&[CongestionControl::Cubic]);
        bottleneck.udp(CrossKind::Constant { rate: Rate::from_mbit(rate), size: 1500 });
        let got = bottleneck.goodput(1, 6);
        assert!((40.0..=55.0).contains(&got[0]) && (40.0..=55.0).contains(&got[1]), "{rate} Mbit/s: {got:.1?}");
    }
}

#[test]
fn one_vegas_holds_its_share_beside_one_cubic() {
    let got = Bottleneck::new().tcp(&[CongestionControl::Vegas, CongestionControl::Cubic]).goodput(2, 10);
    assert!(got[0] > 0.8 * got[1] && got[1] > 0.8 * got[0], "{got:.1?}");
}

#[test]
fn a_link_that_becomes_ten_times_slower_does_not_queue_for_long() {
    let steps = [(Span::ZERO, RATE), (Span::from_secs(4), Rate::from_mbit(10))];
    let medium = Some(Medium::Schedule(RateSchedule::new(&steps).unwrap()));
    let mut bottleneck =
        Bottleneck::over(LinkConfig { medium, ..LinkConfig::default() }).tcp(&[CongestionControl::Cubic; 4]);
    bottleneck.network.ledger_mut(bottleneck.link).record(Recording::All);
    bottleneck.network.run_until(at(8));
    let entries =
        bottleneck.network.ledger(bottleneck.link).entries().filter(|entry| entry.arrival > at(4) - ROUND_TRIP);
    let mut waited: Vec<f64> = entries
        .filter_map(|entry| match entry.outcome {
            PacketOutcome::Departed(left) => Some((left - entry.arrival).as_secs_f64() * 1e3),
            _ => None,
        })
        .collect();
    waited.sort_by(f64::total_cmp);
    let (p99, longest) = (waited[waited.len() * 99 / 100], waited[waited.len() - 1]);
    assert!(p99 <= 100.0 && longest <= 180.0, "{p99:.0} and {longest:.0} ms");
    assert!(waited.len() > 3000, "{} packets in 4 s", waited.len());
}
