use super::threads::Threads;
use crate::count::ByteCount;
use crate::directed_link::RECORD_LENGTH;
use crate::network::{Host, NetworkError};
use kumade_net::capture::Capture;
use kumade_net::clock;
use kumade_units::{Span, Time};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often the ring is emptied; it holds 4096 packets.
const RING_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longer than a packet takes from its stamp to the ring.
const MAX_CAPTURE_DELAY: Span = Span::from_millis(1);

/// Counts the IPv4 packets that leave a host, by the kernel's stamps of their leaving.
#[derive(Debug)]
pub struct DepartureMeter {
    record: Arc<Mutex<MeterRecord>>,
    _threads: Threads,
}

#[derive(Debug)]
struct MeterRecord {
    capture: Capture,
    started: Time,
    bytes: ByteCount,
}

impl DepartureMeter {
    /// Begins to count.
    ///
    /// # Errors
    /// Where the system refuses to show the host's packets.
    pub fn start(host: &Host) -> Result<Self, NetworkError> {
        let capture = host.namespace.run(|| Capture::outgoing(Host::DEVICE))??;
        let record = MeterRecord { capture, started: clock::realtime(), bytes: ByteCount::default() };
        let record = Arc::new(Mutex::new(record));
        let (own, mut threads) = (Arc::clone(&record), Threads::default());
        threads.start(&host.namespace, "meter", move |stop| {
            while !stop.load(Ordering::Relaxed) {
                own.lock().unwrap_or_else(PoisonError::into_inner).collect();
                thread::sleep(RING_POLL_INTERVAL);
            }
        })?;
        Ok(DepartureMeter { record, _threads: threads })
    }

    /// Bytes of the IP packets that left from `from` to `to` ([`clock::realtime`]).
    ///
    /// # Errors
    /// Where that is not (or no longer) on record.
    pub fn bytes_between(&self, from: Time, to: Time) -> Result<u64, NetworkError> {
        let settled = to + MAX_CAPTURE_DELAY - clock::realtime();
        thread::sleep(settled.min(Span::from_secs(1)).to_duration());
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.collect();
        let known = record.started.max(clock::realtime() - RECORD_LENGTH)..clock::realtime();
        if !known.contains(&from) || !known.contains(&to) || record.capture.dropped_packets() > 0 {
            return Err(NetworkError::NoRecord(to - from));
        }
        Ok(record.bytes.bytes_between(from, to))
    }
}

impl MeterRecord {
    fn collect(&mut self) {
        while let Some((stamp, bytes)) =
            self.capture.next(|stamp, packet| (stamp, packet.len() as u64 * u64::from(is_ipv4(packet))))
        {
            self.bytes.add_bytes(stamp, bytes);
        }
        self.bytes.forget_before(clock::realtime() - RECORD_LENGTH);
    }
}

fn is_ipv4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}
