use kumade_net::clock;
use kumade_units::Span;
use kumade_wire::stamp::ClockFormat;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// An NTP server of stratum 1 on a loopback address of the calling thread's namespace, whose clock is ahead of this host's.
/// It answers until it is dropped.
#[derive(Debug)]
pub struct ReferenceClock {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often the thread looks whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl ReferenceClock {
    /// Starts it with a clock this far ahead.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn start(ahead: Span) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        let (address, stop) = (socket.local_addr()?, Arc::<AtomicBool>::default());
        let stopped = Arc::clone(&stop);
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                // Nothing came, or it went astray.
                let _ = answer_one(&socket, ahead);
            }
        };
        let thread = thread::Builder::new().name("ntp".into()).spawn(work)?;
        Ok(ReferenceClock { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ReferenceClock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// RFC 5905, figure 8: the originate stamp is the request's transmit stamp.
fn answer_one(socket: &UdpSocket, ahead: Span) -> io::Result<()> {
    const ORIGINATE_OFFSET: usize = 24;
    const RECEIVE_OFFSET: usize = 32;
    const TRANSMIT_OFFSET: usize = 40;
    let mut packet = [0; 48];
    let (_, from) = socket.recv_from(&mut packet)?;
    let now = || ClockFormat::Ntp.encode(clock::realtime() + ahead);
    packet.copy_within(TRANSMIT_OFFSET.., ORIGINATE_OFFSET);
    packet[RECEIVE_OFFSET..TRANSMIT_OFFSET].copy_from_slice(&now());
    // Version 4, mode 4: server; stratum 1.
    (packet[0], packet[1]) = ((4 << 3) | 4, 1);
    packet[TRANSMIT_OFFSET..].copy_from_slice(&now());
    socket.send_to(&packet, from).map(drop)
}
