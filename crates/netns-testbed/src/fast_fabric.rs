use crate::directed_link::Lateness;
use crate::network::{Host, NetworkError};
use kumade_units::{Rate, Span, Time};
use std::thread;

/// A network with a bottleneck of gigabits per second on the way up, between hosts whose devices carry what is sent at once as one packet of the
/// kernel: the lab's own, or the kernel's HTB as a reference.
pub trait FastFabric {
    /// Cross traffic, until [`stop_cross_traffic`](Self::stop_cross_traffic).
    type CrossTraffic;

    /// The host of that name: `a` measures against `b`.
    ///
    /// # Errors
    /// There is none.
    fn host(&self, name: &str) -> Result<&Host, NetworkError>;

    /// Begins to send cross traffic through the bottleneck, 64 kB at once.
    ///
    /// # Errors
    /// The system refuses a socket, a thread or the rate.
    fn start_cross_traffic(&self, rate: Rate) -> Result<Self::CrossTraffic, NetworkError>;

    /// Ends this cross traffic, and gives its rate since it began, in IP packets.
    ///
    /// # Errors
    /// The system refuses its counters.
    fn stop_cross_traffic(&self, cross: Self::CrossTraffic) -> Result<Rate, NetworkError>;

    /// What this machine carries of bursts that are sent at a tenth more than the rate: the rate, or less where the machine is too slow.
    /// Nothing else may be under way.
    ///
    /// # Errors
    /// The system refuses a socket, a thread or its counters.
    fn measure_max_rate(&self) -> Result<Rate, NetworkError>;

    /// How late the emulation was from `from` to `to` ([`kumade_net::clock::realtime`]); all zero where the kernel does it.
    ///
    /// # Errors
    /// Where the emulation has ended.
    fn lateness(&self, from: Time, to: Time) -> Result<Lateness, NetworkError>;

    /// The bandwidth that such cross traffic leaves to IP packets of so many bytes.
    fn available_bandwidth(&self, cross: Rate, packet_bytes: u32) -> Rate;
}

/// What is offered in order to see what passes, as a part of the rate.
pub(crate) const OVERLOAD_RATIO: f64 = 1.1;
/// From when cross traffic begins until it is as set.
pub(crate) const CROSS_TRAFFIC_WARM_UP: Span = Span::from_millis(50);
/// For so long it is counted, so many times: the median counts, since other programs may keep the sender or the link from a processor meanwhile,
/// and what was kept passes later.
const COUNT_DURATION: Span = Span::from_millis(100);
const COUNT_REPEATS: usize = 3;

/// The rate at which a count of bytes grows, which comes with the instant of counting.
pub(crate) fn count_rate(count: impl Fn() -> Result<(u64, Time), NetworkError>) -> Result<Rate, NetworkError> {
    thread::sleep(CROSS_TRAFFIC_WARM_UP.to_duration());
    let (mut rates, mut before) = ([Rate::ZERO; COUNT_REPEATS], count()?);
    for rate in &mut rates {
        thread::sleep(COUNT_DURATION.to_duration());
        let after = count()?;
        *rate = Rate::from_bytes_over(after.0 - before.0, after.1 - before.1);
        before = after;
    }
    rates.sort_unstable();
    Ok(rates[COUNT_REPEATS / 2])
}
