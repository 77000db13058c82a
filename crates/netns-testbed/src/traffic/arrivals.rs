use super::numbered;
use super::threads::Threads;
use crate::network::{Host, NetworkError};
use kumade_net::capture::Capture;
use kumade_net::namespace::Namespace;
use kumade_packet::{Headers, PacketEnd, Transport};
use kumade_units::Time;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often the ring is emptied; it holds 4096 packets.
const RING_POLL_INTERVAL: Duration = Duration::from_millis(5);
const UDP_HEADER_BYTES: usize = 8;

/// A record of the packets that arrive at a host, or leave it, with data in them, one by one, by the kernel's stamps.
#[derive(Debug)]
pub struct ArrivalRecorder {
    record: Arc<Mutex<ArrivalRecord>>,
    _threads: Threads,
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedPacket {
    /// When: [`kumade_net::clock::realtime`].
    pub stamp: Time,
    /// The length of the IP packet in bytes.
    pub bytes: u32,
    /// What it carries.
    pub content: PacketContent,
}

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketContent {
    /// Bytes of a TCP connection.
    Segment {
        /// The sender's port.
        port: u16,
        /// The sequence number of the first byte.
        sequence: u32,
        /// How many bytes.
        payload: u32,
    },
    /// One of [`NumberedPackets`](super::NumberedPackets).
    Numbered {
        /// The receiver's port.
        port: u16,
        /// Its number, from 0 on.
        number: u64,
        /// When it was sent: [`kumade_net::clock::realtime`].
        sent: Time,
    },
}

#[derive(Debug)]
struct ArrivalRecord {
    capture: Capture,
    packets: Vec<RecordedPacket>,
}

impl ArrivalRecorder {
    /// Begins to record what arrives at the host by that interface.
    ///
    /// # Errors
    /// Where the system refuses to show the host's packets.
    pub fn start(host: &Host, interface: &str) -> Result<Self, NetworkError> {
        let capture = host.namespace.run(|| Capture::incoming(interface))??;
        Self::record(capture, &host.namespace)
    }

    /// Begins to record what leaves a host or a gateway by that interface.
    ///
    /// # Errors
    /// As for [`ArrivalRecorder::start`].
    pub fn record_leaving(inside: &Namespace, interface: &str) -> Result<Self, NetworkError> {
        let capture = inside.run(|| Capture::outgoing(interface))??;
        Self::record(capture, inside)
    }

    fn record(capture: Capture, inside: &Namespace) -> Result<Self, NetworkError> {
        let record = Arc::new(Mutex::new(ArrivalRecord { capture, packets: Vec::new() }));
        let (own, mut threads) = (Arc::clone(&record), Threads::default());
        threads.start(inside, "arrivals", move |stop| {
            while !stop.load(Ordering::Relaxed) {
                own.lock().unwrap_or_else(PoisonError::into_inner).collect();
                thread::sleep(RING_POLL_INTERVAL);
            }
        })?;
        Ok(ArrivalRecorder { record, _threads: threads })
    }

    /// What has arrived, or left, since the last call, in order, and how many packets since the start could not be recorded.
    pub fn take_packets(&self) -> (Vec<RecordedPacket>, u64) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.collect();
        (mem::take(&mut record.packets), record.capture.dropped_packets())
    }
}

impl ArrivalRecord {
    fn collect(&mut self) {
        while let Some(received) = self.capture.next(parse_packet) {
            self.packets.extend(received);
        }
    }
}

/// None where there is no data in it that is counted here.
fn parse_packet(stamp: Time, packet: &[u8]) -> Option<RecordedPacket> {
    let headers = Headers::parse(packet).ok()?;
    let content = match headers.transport? {
        Transport::Tcp(tcp) if tcp.payload_len > 0 => {
            let port = headers.port(PacketEnd::Source)?;
            PacketContent::Segment { port, sequence: tcp.sequence, payload: tcp.payload_len as u32 }
        }
        Transport::Udp(_) => {
            let (number, sent) = numbered::parse_number(packet.get(headers.transport_offset + UDP_HEADER_BYTES..)?)?;
            PacketContent::Numbered { port: headers.port(PacketEnd::Destination)?, number, sent }
        }
        _ => return None,
    };
    Some(RecordedPacket { stamp, bytes: headers.total_len as u32, content })
}
