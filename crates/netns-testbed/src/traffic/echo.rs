use super::threads::Threads;
use super::{STOP_POLL_INTERVAL, is_timeout};
use crate::network::{Host, NetworkError};
use kumade_net::pacing::Pacer;
use kumade_net::{SetupError, clock};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// UDP packets at equal intervals to a host that sends each back, and how long each was away, until this is dropped.
#[derive(Debug)]
pub struct UdpEcho {
    record: Arc<Mutex<EchoRecord>>,
    _threads: Threads,
}

/// What has become of the packets of an [`UdpEcho`] that were sent in a time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EchoedPackets {
    /// From the sending of each one that came back, to its return, in the order of sending.
    pub round_trips: Vec<Span>,
    /// How many did not come back so far.
    pub unanswered: u64,
}

#[derive(Debug, Default)]
struct EchoRecord {
    /// When each was sent.
    sent: BTreeMap<u64, Time>,
    /// Those that came back.
    answered: BTreeMap<u64, (Time, Span)>,
}

/// A sender that is further behind its plan than this goes on from there, in place of a burst.
const MAX_SENDER_LAG: Span = Span::from_millis(20);
const NUMBER_BYTES: usize = 8;

impl UdpEcho {
    /// Begins to send packets with so many bytes of payload (8 at least) from `from` to an address of `to`.
    ///
    /// # Errors
    /// Where the system refuses a socket or a thread.
    pub fn start(
        from: &Host,
        (to, address): (&Host, Ipv4Addr),
        payload: usize,
        interval: Span,
    ) -> Result<Self, NetworkError> {
        let failed = |error| SetupError::new(format!("send UDP from {} to {}", from.name, to.name), error);
        let far = to.namespace.run(|| UdpSocket::bind((address, 0)))?.map_err(failed)?;
        let own = (from.v4, 0);
        let near = from.namespace.run(|| UdpSocket::bind(own))?.map_err(failed)?;
        near.connect(far.local_addr().map_err(failed)?).map_err(failed)?;
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(STOP_POLL_INTERVAL)).map_err(failed)?;
        }
        let (record, mut threads) = (Arc::<Mutex<EchoRecord>>::default(), Threads::default());
        threads.start(&to.namespace, "echo", move |stop| send_back(&far, stop))?;
        let (receiver, own) = (near.try_clone().map_err(failed)?, Arc::clone(&record));
        threads.start(&from.namespace, "echo-sink", move |stop| receive(&receiver, &own, stop))?;
        let own = Arc::clone(&record);
        threads.start(&from.namespace, "echo-source", move |stop| {
            send(&near, payload.max(NUMBER_BYTES), interval, &own, stop);
        })?;
        Ok(UdpEcho { record, _threads: threads })
    }

    /// What has become of those that were sent from `from` on, and before `to`: [`kumade_net::clock::monotonic`].
    pub fn echoed_between(&self, from: Time, to: Time) -> EchoedPackets {
        let record = lock(&self.record);
        let within = |time: Time| from <= time && time < to;
        let answered = record.answered.values().filter(|(sent, _)| within(*sent)).map(|(_, took)| *took);
        let unanswered = record.sent.values().filter(|sent| within(**sent)).count() as u64;
        EchoedPackets { round_trips: answered.collect(), unanswered }
    }

    /// Forgets all that were sent so far.
    pub fn clear(&self) {
        mem::take(&mut *lock(&self.record));
    }
}

fn lock(record: &Mutex<EchoRecord>) -> std::sync::MutexGuard<'_, EchoRecord> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send_back(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            // What cannot be sent is a packet that was lost.
            Ok((length, from)) => drop(socket.send_to(&buffer[..length], from)),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return tracing::warn!("packets are no longer sent back: {error}"),
        }
    }
}

fn receive(socket: &UdpSocket, record: &Mutex<EchoRecord>, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv(&mut buffer) {
            Ok(NUMBER_BYTES..) => {
                let now = clock::monotonic();
                let number = buffer.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                let mut record = lock(record);
                if let Some(sent) = record.sent.remove(&number) {
                    record.answered.insert(number, (sent, now - sent));
                }
            }
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            // The far end may be out of reach for a time.
            Err(error) => tracing::debug!("waiting for what comes back: {error}"),
        }
    }
}

fn send(socket: &UdpSocket, payload: usize, interval: Span, record: &Mutex<EchoRecord>, stop: &AtomicBool) {
    let mut packet = vec![0; payload];
    let pacer = Pacer::starting_in(Span::from_millis(1));
    let mut due = Span::ZERO;
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        due = due.max(-(pacer.remaining(Span::ZERO) + MAX_SENDER_LAG));
        pacer.wait_until(due);
        due += interval;
        packet[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
        lock(record).sent.insert(number, clock::monotonic());
        // An error, such as a full buffer, is a packet that was lost.
        let _ = socket.send(&packet);
    }
}
