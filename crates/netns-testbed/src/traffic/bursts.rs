use super::STOP_POLL_INTERVAL;
use super::threads::Threads;
use crate::network::{Host, NetworkError};
use kumade_net::SetupError;
use kumade_net::pacing::Pacer;
use kumade_net::udp::send_burst;
use kumade_units::{Rate, Span};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// IPv4 and UDP.
const IPV4_UDP_HEADER_BYTES: u32 = 28;
/// One packet of the kernel has no more.
const MAX_BURST_BYTES: u32 = 64_000;
/// `UDP_MAX_SEGMENTS`, before Linux 6.9.
const MAX_BURST_PACKETS: u32 = 64;
/// The send buffers of so many sockets keep a shaper busy for milliseconds.
const BURST_SOCKETS: usize = 8;
/// The port of the discard protocol (RFC 863).
const DISCARD_PORT: u16 = 9;

/// UDP over IPv4 in bursts that the kernel segments (`UDP_SEGMENT`), as many as a shaper on the sender's own interface lets pass, until
/// dropped. It is the kernel's timers that pace them: the thread has milliseconds to send more, and keeps nobody from a processor.
#[derive(Debug)]
pub struct UdpBursts {
    burst_bytes: u32,
    _threads: Threads,
}

impl UdpBursts {
    /// Begins to send IP packets of so many bytes to an address, where nobody need listen; as many at once as segmentation offload sends.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn send(from: &Host, to: Ipv4Addr, packet_bytes: u32) -> Result<Self, NetworkError> {
        UdpBursts::start(from, to, packet_bytes, None)
    }

    /// The same at this rate of IP packets, without a shaper: it is the thread that paces them.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn start_paced(from: &Host, to: Ipv4Addr, packet_bytes: u32, rate: Rate) -> Result<Self, NetworkError> {
        UdpBursts::start(from, to, packet_bytes, Some(rate))
    }

    fn start(from: &Host, to: Ipv4Addr, packet_bytes: u32, rate: Option<Rate>) -> Result<Self, NetworkError> {
        let failed = |error| SetupError::new(format!("send UDP from {} to {to}", from.name), error);
        let open = || {
            let socket = UdpSocket::bind((from.v4, 0))?;
            socket.set_write_timeout(Some(STOP_POLL_INTERVAL))?;
            socket.connect((to, DISCARD_PORT)).map(|()| socket)
        };
        let sockets = from.namespace.run(|| (0..BURST_SOCKETS).map(|_| open()).collect::<Result<Vec<_>, _>>())?;
        let sockets = sockets.map_err(failed)?;
        let packets = packets_per_burst(packet_bytes);
        let mut threads = Threads::default();
        threads.start(&from.namespace, "cross-bursts", move |stop| {
            let gap = rate.map(|rate| rate.time_for(u64::from(packets * packet_bytes)));
            send_bursts(&sockets, packets, packet_bytes, gap, stop);
        })?;
        Ok(UdpBursts { burst_bytes: packets * packet_bytes, _threads: threads })
    }

    /// IP bytes of a burst.
    pub fn burst_bytes(&self) -> u32 {
        self.burst_bytes
    }
}

fn packets_per_burst(packet_bytes: u32) -> u32 {
    (MAX_BURST_BYTES / packet_bytes.max(1)).clamp(1, MAX_BURST_PACKETS)
}

/// A socket whose buffer is full keeps the thread waiting, until some of what it sent has passed the shaper; and so does the gap from a burst to
/// the next one, where there is one.
fn send_bursts(sockets: &[UdpSocket], packets: u32, packet_bytes: u32, gap: Option<Span>, stop: &AtomicBool) {
    let payload = packet_bytes.saturating_sub(IPV4_UDP_HEADER_BYTES);
    let burst = vec![0; (packets * payload) as usize];
    let mut segments = true;
    let pacer = gap.map(|gap| (gap, Pacer::starting_in(gap)));
    for (socket, number) in sockets.iter().cycle().zip(0..) {
        if let Some((gap, pacer)) = &pacer {
            pacer.wait_until(*gap * number);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // An error is a burst that was not sent.
        let _ = send_burst(socket, &burst, payload as u16, &mut segments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_the_kernel_segments() {
        assert_eq!([64, 1500, 9000, 65_535].map(packets_per_burst), [64, 42, 7, 1]);
    }
}
