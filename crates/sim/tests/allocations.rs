//! Once a network's buffers have grown to what its flows need, packets pass without an allocation.
use kumade_link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use kumade_sim::network::{FlowConfig, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

#[test]
fn nothing_is_allocated_per_packet() {
    let rate = Rate::from_mbit(100);
    let (queue_bytes, delay) = (rate.bytes_in(Span::from_millis(20)), Span::from_millis(10));
    let config = LinkConfig { rate: Some(rate), queue_bytes, delay, ..LinkConfig::default() };
    let mut network = Network::new(1);
    let out = network.add_link(config.clone(), None).unwrap();
    let back = network.add_link(config, None).unwrap();
    for (_, control) in CongestionControl::ALL {
        let source = TrafficSource::Tcp(TcpConfig::new(control));
        network.add_flow(FlowConfig { back: vec![back], ..FlowConfig::new(vec![out], source) }).unwrap();
    }
    let kind = CrossKind::Poisson { rate: Rate::from_mbit(5), sizes: SizeMix::imix() };
    let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 1 };
    network.add_flow(FlowConfig::new(vec![out], TrafficSource::Udp(cross))).unwrap();
    network.run_until(Time::ZERO + Span::from_secs(20));
    let before = network.event_count();
    let counted = allocation_counter::measure(|| network.run_until(Time::ZERO + Span::from_secs(40)));
    let events = network.event_count() - before;
    println!("{} allocations in {events} events", counted.count_total);
    assert!(events > 500_000 && counted.count_total < 100, "{} in {events}", counted.count_total);
}
