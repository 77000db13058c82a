//! What each congestion controller does to a link of 100 Mbit/s and 20 ms with room for as much as is on the way.
use kumade_link::LinkConfig;
use kumade_sim::network::{FlowConfig, LinkId, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

const RATE: Rate = Rate::from_mbit(100);
const ROUND_TRIP: Span = Span::from_millis(20);
/// Payload is 1448 of 1500 bytes.
const MAX_GOODPUT_MBIT: f64 = 100.0 * 1448.0 / 1500.0;

struct RunFigures {
    /// Of each flow, in Mbit/s of payload.
    goodput: Vec<f64>,
    /// Mean time in the queue, in milliseconds.
    mean_queueing_millis: f64,
    /// Segments sent again, of those sent.
    retransmitted_ratio: f64,
}

fn add_flow(network: &mut Network, over: LinkId, control: CongestionControl) {
    let delay_back = ROUND_TRIP / 2;
    let (start_jitter, jitter) = (Span::from_millis(100), RATE.time_for(1500));
    let plain = FlowConfig::new(vec![over], TrafficSource::Tcp(TcpConfig::new(control)));
    network.add_flow(FlowConfig { delay_back, start_jitter, jitter, ..plain }).unwrap();
}

/// What `flows` of a controller do from the tenth second to the fortieth.
fn run(control: CongestionControl, flows: usize) -> RunFigures {
    let mut network = Network::new(1);
    let queue_bytes = RATE.bytes_in(ROUND_TRIP);
    let config = LinkConfig { rate: Some(RATE), queue_bytes, delay: ROUND_TRIP / 2, ..LinkConfig::default() };
    let link = network.add_link(config, None).unwrap();
    for _ in 0..flows {
        add_flow(&mut network, link, control);
    }
    network.run_until(Time::ZERO + Span::from_secs(10));
    let before: Vec<_> = network.flows().map(|flow| network.flow(flow)).collect();
    let sojourn = network.sojourn(link).clone();
    network.run_until(Time::ZERO + Span::from_secs(40));
    let after: Vec<_> = network.flows().map(|flow| network.flow(flow)).collect();
    let per_flow = after.iter().zip(&before);
    let goodput = per_flow.clone().map(|(now, then)| (now.goodput_bytes - then.goodput_bytes) as f64 * 8.0 / 30e6);
    let (sent, again) = per_flow.fold((0, 0), |(sent, again), (now, then)| {
        (
            sent + now.tcp.sent_segments - then.tcp.sent_segments,
            again + now.tcp.retransmissions - then.tcp.retransmissions,
        )
    });
    RunFigures {
        goodput: goodput.collect(),
        mean_queueing_millis: network.sojourn(link).since(&sojourn).mean().as_secs_f64() * 1e3,
        retransmitted_ratio: again as f64 / sent as f64,
    }
}

#[test]
fn alone_each_fills_the_link_and_keeps_the_queue_that_is_its_own() {
    for (control, queued) in [
        // From half of both to both: on average a quarter of the way and half of the queue.
        (CongestionControl::NewReno, 5.0..12.0),
        (CongestionControl::Bic, 12.0..19.0),
        (CongestionControl::Cubic, 10.0..18.0),
        (CongestionControl::Compound, 5.0..12.0),
        // Four of its segments, half a millisecond.
        (CongestionControl::Vegas, 0.1..1.0),
        (CongestionControl::Bbr, 0.1..4.0),
    ] {
        let seen = run(control, 1);
        // BBR paces a hundredth below what it finds, and empties the path for 200 ms every ten seconds.
        let least = if control == CongestionControl::Bbr { 0.96 } else { 0.99 };
        assert!(seen.goodput[0] > least * MAX_GOODPUT_MBIT, "{control}: {:?}", seen.goodput);
        assert!(queued.contains(&seen.mean_queueing_millis), "{control}: {} ms", seen.mean_queueing_millis);
        assert!(seen.retransmitted_ratio < 0.01, "{control}: {} sent again", seen.retransmitted_ratio);
    }
}

#[test]
fn two_of_a_kind_fill_the_link_and_neither_starves() {
    for (name, control) in CongestionControl::ALL {
        let seen = run(control, 2);
        let sum: f64 = seen.goodput.iter().sum();
        assert!(sum > 0.97 * MAX_GOODPUT_MBIT, "{name}: {:?}", seen.goodput);
        assert!(seen.goodput.iter().all(|got| *got > 0.25 * MAX_GOODPUT_MBIT), "{name}: {:?}", seen.goodput);
    }
}

#[test]
fn cubic_takes_most_from_vegas_and_leaves_it_to_bbr() {
    for (control, share) in [
        (CongestionControl::Vegas, 0.0..0.2),
        (CongestionControl::NewReno, 0.15..0.5),
        (CongestionControl::Bbr, 0.6..1.0),
    ] {
        let mut network = Network::new(1);
        let queue_bytes = RATE.bytes_in(ROUND_TRIP);
        let config = LinkConfig { rate: Some(RATE), queue_bytes, delay: ROUND_TRIP / 2, ..LinkConfig::default() };
        let link = network.add_link(config, None).unwrap();
        add_flow(&mut network, link, CongestionControl::Cubic);
        add_flow(&mut network, link, control);
        network.run_until(Time::ZERO + Span::from_secs(60));
        let got: Vec<_> = network.flows().map(|flow| network.flow(flow).goodput_bytes as f64).collect();
        let part = got[1] / (got[0] + got[1]);
        assert!(share.contains(&part), "{control}: {part}");
    }
}
