use super::threads::Threads;
use crate::network::{Host, NetworkError};
use kumade_net::pacing::Pacer;
use kumade_net::{SetupError, clock};
use kumade_units::{Span, Time};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number and sending time.
const MIN_PAYLOAD_BYTES: usize = 16;
/// A sender that is further behind its plan than this goes on from there, in place of a burst.
const MAX_SENDER_LAG: Span = Span::from_millis(20);

/// UDP packets of one length, each with its number and the time of its sending, at equal intervals until they are all sent
/// or this is dropped.
#[derive(Debug)]
pub struct NumberedPackets {
    sent: Arc<AtomicU64>,
    port: u16,
    // Of the receiver, which reads nothing: see `Arrivals`.
    _sink: UdpSocket,
    threads: Threads,
}

impl NumberedPackets {
    /// Begins to send `count` packets with so many bytes of payload (16 at least) from `from` to an address of `to`; as fast
    /// as the system takes them where `interval` is zero.
    ///
    /// # Errors
    /// Where the system refuses a socket or a thread.
    pub fn send(
        from: &Host,
        (to, address): (&Host, Ipv4Addr),
        payload: usize,
        interval: Span,
        count: u64,
    ) -> Result<Self, NetworkError> {
        let failed = |error| SetupError::new(format!("send UDP from {} to {}", from.name, to.name), error);
        let sink = to.namespace.run(|| UdpSocket::bind((address, 0)))?.map_err(failed)?;
        let own = (from.v4, 0);
        let socket = from.namespace.run(|| UdpSocket::bind(own))?.map_err(failed)?;
        let there = sink.local_addr().map_err(failed)?;
        socket.connect(there).map_err(failed)?;
        let (sent, mut threads) = (Arc::<AtomicU64>::default(), Threads::default());
        let counter = Arc::clone(&sent);
        threads.start(&from.namespace, "numbered", move |stop| {
            send_numbered(&socket, payload.max(MIN_PAYLOAD_BYTES), interval, count, (&counter, stop));
        })?;
        Ok(NumberedPackets { sent, port: there.port(), _sink: sink, threads })
    }

    /// How many have been sent so far.
    pub fn sent_packets(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether packets are still to be sent.
    pub fn is_running(&self) -> bool {
        self.threads.is_running()
    }

    /// The receiver's port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn send_numbered(
    socket: &UdpSocket,
    payload: usize,
    interval: Span,
    count: u64,
    (sent, stop): (&AtomicU64, &AtomicBool),
) {
    let mut packet = vec![0; payload];
    let pacer = Pacer::starting_in(Span::from_millis(1));
    let mut due = Span::ZERO;
    for number in 0..count {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if interval > Span::ZERO {
            due = due.max(-(pacer.remaining(Span::ZERO) + MAX_SENDER_LAG));
            pacer.wait_until(due);
            due += interval;
        }
        packet[..8].copy_from_slice(&number.to_be_bytes());
        packet[8..MIN_PAYLOAD_BYTES].copy_from_slice(&clock::realtime().as_nanos().to_be_bytes());
        // An error, such as a full buffer, is a packet that was not sent.
        if socket.send(&packet).is_ok() {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Number and sending time in the payload of such a packet.
pub(super) fn parse_number(payload: &[u8]) -> Option<(u64, Time)> {
    let number = u64::from_be_bytes(*payload.first_chunk()?);
    let sent = i64::from_be_bytes(*payload.get(8..)?.first_chunk()?);
    Some((number, Time::from_nanos(sent)))
}
