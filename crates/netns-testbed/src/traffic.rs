//! Real traffic between two hosts: UDP in a pattern, numbered packets, and greedy TCP; and what counts it on its way.

mod arrivals;
mod blocks;
mod bursts;
mod counters;
mod echo;
mod meter;
mod numbered;
mod progress;
mod tcp;
mod threads;
mod udp;

pub use arrivals::{ArrivalRecorder, PacketContent, RecordedPacket};
pub use blocks::BlockWrites;
pub(crate) use bursts::UdpBursts;
pub(crate) use counters::sent_packets;
pub use counters::{received_packets, retransmitted_segments};
pub use echo::{EchoedPackets, UdpEcho};
pub use meter::DepartureMeter;
pub use numbered::NumberedPackets;
pub use tcp::TcpEnds;

use crate::network::NetworkError;
use kumade_net::SetupError;
use kumade_net::namespace::Namespace;
use kumade_units::Span;
use progress::Progress;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use threads::Threads;

/// How often a thread that waits looks whether it should end.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Packets from one host to another, until dropped.
#[derive(Debug)]
pub struct Traffic {
    received: Arc<Progress>,
    sent: Arc<AtomicU64>,
    threads: Threads,
}

impl Traffic {
    /// Bytes that have arrived at the other host so far: of IP packets for UDP, of payload for TCP.
    pub fn received_bytes(&self) -> u64 {
        self.received.bytes()
    }

    /// Bytes of IP packets that the other host's UDP has been given to send so far; 0 for TCP.
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The longest time without an arrival since the last call, or since the beginning; the present wait counts too.
    pub fn take_longest_gap(&self) -> Span {
        self.received.take_longest_gap()
    }

    /// Counts what arrives at `sink`, in the namespace `at`; [`run_source`](Self::run_source) does the rest.
    fn count_arrivals(sink: impl TrafficSink + Send + 'static, at: &Namespace) -> Result<Self, SetupError> {
        let (received, mut threads) = (Arc::<Progress>::default(), Threads::default());
        let counter = Arc::clone(&received);
        threads.start(at, "cross-sink", move |stop| count_received(&sink, &counter, stop))?;
        Ok(Traffic { received, sent: Arc::default(), threads })
    }

    /// Runs `source`, which sends, in the namespace `from`.
    fn run_source(
        mut self,
        from: &Namespace,
        source: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<Self, NetworkError> {
        self.threads.start(from, "cross-source", source)?;
        Ok(self)
    }
}

/// Where bytes end.
trait TrafficSink {
    /// Bytes of the next read, to be counted.
    fn read_bytes(&self, buffer: &mut [u8]) -> std::io::Result<usize>;
}

fn count_received(sink: &impl TrafficSink, received: &Progress, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match sink.read_bytes(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => received.add_bytes(bytes as u64),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return tracing::warn!("cross traffic no longer arrives: {error}"),
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
