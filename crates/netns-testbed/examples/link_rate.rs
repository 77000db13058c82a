//! What the lab's own link carries on this machine: one greedy CUBIC connection over links of rising rates.
//!
//! `cargo run --release -p kumade-netns-testbed --example link_rate`, as root, on an idle machine.

use kumade_link::LinkConfig;
use kumade_net::clock;
use kumade_netns_testbed::{Network, NetworkError, NetworkSpec, Traffic};
use kumade_units::{Direction, Rate, Span};
use std::thread;
use std::time::Duration;

const SETTLING: Duration = Duration::from_secs(1);
const COUNTING: Duration = Duration::from_secs(3);

fn main() -> Result<(), NetworkError> {
    println!("link, Mbit/s   carried, Mbit/s   late at most, us   missed packets");
    for mbit in [250, 500, 1000, 1500, 2000, 3000, 10_000] {
        let rate = Rate::from_mbit(mbit);
        let queue_bytes = rate.bytes_in(Span::from_millis(10));
        let link = LinkConfig { rate: Some(rate), queue_bytes, delay: Span::from_micros(500), ..LinkConfig::default() };
        let network = Network::build(NetworkSpec::host_pair(link))?;
        let traffic = Traffic::tcp(network.host("a")?, network.host("b")?, "cubic", None)?;
        thread::sleep(SETTLING);
        let (before, began) = (network.drops(Direction::Up)?, clock::realtime());
        thread::sleep(COUNTING);
        let (after, ended) = (network.drops(Direction::Up)?, clock::realtime());
        let bytes = after.packets.forwarded.bytes - before.packets.forwarded.bytes;
        let carried = Rate::from_bytes_over(bytes, ended - began).as_f64() / 1e6;
        let late = network.lateness(Direction::Up, began, ended)?.max.as_secs_f64() * 1e6;
        println!("{mbit:>12}   {carried:>15.0}   {late:>16.0}   {:>14}", after.missed - before.missed);
        drop(traffic);
    }
    Ok(())
}
