use super::{STOP_POLL_INTERVAL, Traffic, TrafficSink};
use crate::network::{Host, NetworkError};
use kumade_link::{CrossConfig, CrossTraffic};
use kumade_net::SetupError;
use kumade_net::low_latency::raise_priority;
use kumade_net::pacing::Pacer;
use kumade_units::{Span, Time};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// IPv4 and UDP.
const IPV4_UDP_HEADER_BYTES: u32 = 28;
/// A sender that is further behind its plan than this leaves out what it missed, in place of a burst.
const MAX_SENDER_LAG: Span = Span::from_millis(5);

impl Traffic {
    /// Begins to send UDP over IPv4 in a pattern, whatever the pattern's `start` says; sizes are of IP packets, and 28
    /// bytes at least. The sender sleeps between packets and spins only shortly before each.
    ///
    /// # Errors
    /// Where the pattern makes no sense or the system refuses a socket or thread.
    pub fn udp(from: &Host, to: &Host, pattern: &CrossConfig) -> Result<Self, NetworkError> {
        let failed = |error| SetupError::new(format!("send UDP from {} to {}", from.name, to.name), error);
        let source = CrossTraffic::new(CrossConfig { start: Time::ZERO, ..pattern.clone() })?;
        let address = (to.v4, 0);
        let sink = to.namespace.run(|| UdpSocket::bind(address))?.map_err(failed)?;
        sink.set_read_timeout(Some(STOP_POLL_INTERVAL)).map_err(failed)?;
        let address = (from.v4, 0);
        let socket = from.namespace.run(|| UdpSocket::bind(address))?.map_err(failed)?;
        socket.connect(sink.local_addr().map_err(failed)?).map_err(failed)?;
        let traffic = Traffic::count_arrivals(sink, &to.namespace)?;
        let sent = Arc::clone(&traffic.sent);
        traffic.run_source(&from.namespace, move |stop| send(&socket, source, &sent, stop))
    }
}

impl TrafficSink for UdpSocket {
    fn read_bytes(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.recv(buffer).map(|payload| payload + IPV4_UDP_HEADER_BYTES as usize)
    }
}

fn send(socket: &UdpSocket, source: CrossTraffic, sent: &AtomicU64, stop: &AtomicBool) {
    // A probing sender that spins would hold it up while a train passes.
    raise_priority();
    let payload = [0; u16::MAX as usize];
    let pacer = Pacer::starting_in(Span::from_millis(1));
    for packet in source {
        let offset = packet.time - Time::ZERO;
        while pacer.remaining(offset) > Span::from_millis(100) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(STOP_POLL_INTERVAL);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if pacer.remaining(offset) < -MAX_SENDER_LAG {
            continue;
        }
        pacer.wait_until(offset);
        let size = packet.size.saturating_sub(IPV4_UDP_HEADER_BYTES) as usize;
        // An error, such as a full buffer, is a packet that was not sent.
        if let Ok(payload) = socket.send(&payload[..size.min(payload.len())]) {
            sent.fetch_add(payload as u64 + u64::from(IPV4_UDP_HEADER_BYTES), Ordering::Relaxed);
        }
    }
}
