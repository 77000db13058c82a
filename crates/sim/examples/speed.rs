//! How many packet events a second the virtual network computes: 64 flows over one gigabit, for ten virtual seconds.
//!
//! `cargo run --release -p kumade-sim --example speed`
use kumade_sim::network::{FlowConfig, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use std::time::Instant;

fn main() {
    for (_, control) in CongestionControl::ALL {
        let (events, seconds, used) = run(control);
        let millions = events as f64 / seconds / 1e6;
        println!(
            "{control:9} {millions:5.2} million events a second, {seconds:.2} s, link used to {:.1} %",
            used * 100.0
        );
    }
}

fn run(control: CongestionControl) -> (u64, f64, f64) {
    let rate = Rate::from_mbit(1000);
    let mut network = Network::new(1);
    let link = kumade_link::LinkConfig {
        rate: Some(rate),
        queue_bytes: rate.bytes_in(Span::from_millis(20)),
        delay: Span::from_millis(5),
        ..kumade_link::LinkConfig::default()
    };
    let link = network.add_link(link, None).expect("the link is possible");
    for flow in 0..64 {
        let delay = Span::from_millis(5) + Span::from_micros(100) * flow;
        let source = TrafficSource::Tcp(TcpConfig::new(control));
        let config = FlowConfig { delay_out: delay, delay_back: delay, ..FlowConfig::new(vec![link], source) };
        network.add_flow(config).expect("the flow is possible");
    }
    let seconds = 10;
    // An example may look at the clock; what it measures may not.
    #[allow(clippy::disallowed_methods)]
    let begun = Instant::now();
    network.run_until(Time::ZERO + Span::from_secs(seconds));
    let took = begun.elapsed().as_secs_f64();
    let forwarded = network.ledger(link).packet_counters().forwarded.bytes;
    (network.event_count(), took, forwarded as f64 / rate.bytes_in(Span::from_secs(seconds)) as f64)
}
