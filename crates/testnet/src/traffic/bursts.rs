use super::threads::Threads;
use crate::count::ByteCount;
use crate::directed_link::RECORD_LENGTH;
use crate::network::{Host, NetworkError};
use net::SetupError;
use net::clock;
use net::pace::{Pacer, sleep_until};
use net::udp::send_burst;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Rate, Span, Time};

/// IPv4 and UDP.
const HEADER_BYTES: u32 = 28;
/// From one burst to the next, unless more bytes would be in it than one packet of the kernel has, or none.
const PERIOD: Span = Span::from_micros(100);
const MAX_BURST_BYTES: u32 = 64_000;
/// `UDP_MAX_SEGMENTS`, before Linux 6.9.
const MAX_BURST_PACKETS: u32 = 64;
/// A sender that is further behind its plan than this leaves out what it missed.
const LOST: Span = Span::from_millis(5);
/// The port of the discard protocol (RFC 863).
const PORT: u16 = 9;

/// UDP over IPv4 at a constant mean rate, in bursts that the kernel segments (`UDP_SEGMENT`), until dropped. The sender sleeps from burst
/// to burst and never spins, so that bursts leave some tens of microseconds late.
#[derive(Debug)]
pub struct Bursts {
    sent: Arc<Mutex<ByteCount>>,
    burst_bytes: u32,
    _threads: Threads,
}

impl Bursts {
    /// Begins to send IP packets of so many bytes at this rate to an address, where nobody need listen.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn send(from: &Host, to: Ipv4Addr, rate: Rate, packet_bytes: u32) -> Result<Self, NetworkError> {
        let failed = |error| SetupError::new(format!("send UDP from {} to {to}", from.name), error);
        let own = (from.v4, 0);
        let socket = from.namespace.run(|| UdpSocket::bind(own))?.map_err(failed)?;
        socket.connect((to, PORT)).map_err(failed)?;
        let packets = packets_per_burst(rate, packet_bytes);
        let sent = Arc::<Mutex<ByteCount>>::default();
        let (count, mut threads) = (Arc::clone(&sent), Threads::default());
        threads.start(&from.namespace, "cross-bursts", move |stop| {
            transmit(&socket, rate, (packets, packet_bytes), &count, stop);
        })?;
        Ok(Bursts { sent, burst_bytes: packets * packet_bytes, _threads: threads })
    }

    /// IP bytes of a burst.
    pub fn burst_bytes(&self) -> u32 {
        self.burst_bytes
    }

    /// IP bytes that were sent from `from` to `to` ([`clock::realtime`]), if that was within the last minute and a half.
    pub fn bytes_between(&self, from: Time, to: Time) -> u64 {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).between(from, to)
    }
}

fn packets_per_burst(rate: Rate, packet_bytes: u32) -> u32 {
    let most = (MAX_BURST_BYTES / packet_bytes.max(1)).clamp(1, MAX_BURST_PACKETS);
    ((rate.bytes_in(PERIOD) / u64::from(packet_bytes.max(1))) as u32).clamp(1, most)
}

fn transmit(
    socket: &UdpSocket,
    rate: Rate,
    (packets, packet_bytes): (u32, u32),
    sent: &Mutex<ByteCount>,
    stop: &AtomicBool,
) {
    let payload = packet_bytes.saturating_sub(HEADER_BYTES);
    let burst = vec![0; (packets * payload) as usize];
    let bytes = u64::from(packets * packet_bytes);
    let period = rate.time_for(bytes);
    let pacer = Pacer::starting_in(Span::from_millis(1));
    let (mut due, mut segments) = (Span::ZERO, true);
    while !stop.load(Ordering::Relaxed) {
        due = due.max(-(pacer.remaining(Span::ZERO) + LOST));
        sleep_until(pacer.instant(due));
        due += period;
        let now = clock::realtime();
        // An error, such as a full buffer, is a burst that was not sent.
        if send_burst(socket, &burst, payload as u16, &mut segments).is_ok() {
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.note(now, bytes);
            sent.forget_before(now - RECORD_LENGTH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_its_rate_sends_in_a_period_within_what_the_kernel_segments() {
        let packets = |mbit, bytes| packets_per_burst(Rate::from_mbit(mbit), bytes);
        assert_eq!([1, 300, 3000, 12_000].map(|mbit| packets(mbit, 1500)), [1, 2, 25, 42]);
        assert_eq!([1, 300, 3000, 12_000].map(|mbit| packets(mbit, 9000)), [1, 1, 4, 7]);
        assert_eq!(packets(12_000, 64), 64);
    }
}
