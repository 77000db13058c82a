//! TCP transfers that fill a path for some seconds: each connection always has something to send.

use crate::payload::incompressible;
use kumade_net::clock;
use kumade_net::platform::AsFd;
use kumade_net::platform::readiness::{Event, SocketSet};
use kumade_net::platform::tcp;
use kumade_units::{Span, Time};
use socket2::SockRef;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes that are given to a connection, or taken from it, at once.
const CHUNK_BYTES: usize = 128 << 10;

/// What an end does during a [`TcpLoad`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadRole {
    /// It sends as fast as TCP's congestion control allows.
    Send,
    /// It reads and discards what arrives.
    Receive,
}

/// One end of the transfers, on a thread of its own. Dropping it ends them.
#[derive(Debug)]
pub struct TcpLoad {
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<Vec<u64>>>,
    end_time: Time,
}

impl TcpLoad {
    /// Bytes are counted in intervals of this length.
    pub const COUNT_INTERVAL: Span = Span::from_millis(100);

    /// Begins, over these connections, for `duration` and for `max_bytes` at most, all connections together.
    ///
    /// # Errors
    /// If the process has no thread, memory or file descriptor left.
    pub fn begin(streams: Vec<TcpStream>, role: LoadRole, duration: Span, max_bytes: u64) -> io::Result<Self> {
        let began = clock::monotonic();
        let until = began + duration;
        let readiness = SocketSet::new()?;
        for (stream, number) in streams.iter().zip(0..) {
            stream.set_nonblocking(true)?;
            match role {
                LoadRole::Send => readiness.add_writer(stream, number)?,
                LoadRole::Receive => readiness.add_reader(stream, number)?,
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let transfers = Transfers {
            streams: streams.into_iter().map(Some).collect(),
            role,
            readiness,
            buffer: incompressible(CHUNK_BYTES),
            start_time: began,
            end_time: until,
            remaining_bytes: max_bytes,
            interval_bytes: Vec::new(),
            stop: Arc::clone(&stop),
        };
        let worker = thread::Builder::new().name("load".into()).spawn(move || transfers.run())?;
        Ok(TcpLoad { stop, worker: Some(worker), end_time: until })
    }

    /// When the time is over, on [`clock::monotonic`].
    pub fn end_time(&self) -> Time {
        self.end_time
    }

    /// Whether the transfers have ended: the time is over, the bytes are spent, or all connections are closed.
    pub fn has_ended(&self) -> bool {
        self.worker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the transfers, unless they have ended, by resetting the connections, so that what waits in buffers is not sent.
    /// Returns the bytes of each [`COUNT_INTERVAL`](Self::COUNT_INTERVAL) from the beginning to the last that has any.
    pub fn end(mut self) -> Vec<u64> {
        self.join()
    }

    fn join(&mut self) -> Vec<u64> {
        self.stop.store(true, Ordering::SeqCst);
        self.worker.take().and_then(|worker| worker.join().ok()).unwrap_or_default()
    }
}

impl Drop for TcpLoad {
    fn drop(&mut self) {
        self.join();
    }
}

struct Transfers {
    /// None once the connection is closed.
    streams: Vec<Option<TcpStream>>,
    role: LoadRole,
    readiness: SocketSet,
    buffer: Vec<u8>,
    start_time: Time,
    end_time: Time,
    /// Bytes that may still be transferred.
    remaining_bytes: u64,
    interval_bytes: Vec<u64>,
    stop: Arc<AtomicBool>,
}

impl Transfers {
    fn run(mut self) -> Vec<u64> {
        let mut events: Vec<Event> = Vec::new();
        while self.streams.iter().any(Option::is_some) && self.remaining_bytes > 0 && !self.stop.load(Ordering::SeqCst)
        {
            let now = clock::monotonic();
            let next = self.end_time.min(now + TcpLoad::COUNT_INTERVAL);
            let socket = |number: u32| Some(self.streams.get(number as usize)?.as_ref()?.as_fd());
            if now >= self.end_time || self.readiness.wait_open(socket, &mut events, next).is_err() {
                break;
            }
            let now = clock::monotonic();
            for event in &events {
                self.transfer(event.number as usize, now);
            }
        }
        for stream in self.streams.iter().flatten() {
            // If this fails, the connection is closed after what it still has to send.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
        self.interval_bytes
    }

    /// One piece on this connection, so that all have their turn.
    fn transfer(&mut self, number: usize, now: Time) {
        let Some(Some(stream)) = self.streams.get_mut(number) else { return };
        let size = self.remaining_bytes.min(CHUNK_BYTES as u64) as usize;
        let done = match self.role {
            LoadRole::Send => tcp::send(stream, &self.buffer[..size], false),
            LoadRole::Receive => stream.read(&mut self.buffer[..size]),
        };
        match done {
            Ok(count) if count > 0 => self.count_bytes(count as u64, now),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(_) | Err(_) => {
                let closed = self.streams[number].take();
                // Where it is not in the set, nothing of it is reported either.
                let _ = closed.map(|stream| self.readiness.remove(&stream));
            }
        }
    }

    fn count_bytes(&mut self, bytes: u64, now: Time) {
        self.remaining_bytes = self.remaining_bytes.saturating_sub(bytes);
        let place = ((now - self.start_time).max(Span::ZERO).as_nanos() / TcpLoad::COUNT_INTERVAL.as_nanos()) as usize;
        if self.interval_bytes.len() <= place {
            self.interval_bytes.resize(place + 1, 0);
        }
        self.interval_bytes[place] += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pairs(count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (0..count).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0)).unzip()
    }

    fn wait_for(load: &TcpLoad) {
        while !load.has_ended() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn both_ends_count_what_was_carried_up_to_the_limit() {
        const LIMIT: u64 = 3_000_001;
        let (near, far) = pairs(3);
        let time = Span::from_secs(60);
        let receiver = TcpLoad::begin(far, LoadRole::Receive, time, LIMIT).unwrap();
        let sender = TcpLoad::begin(near, LoadRole::Send, time, u64::MAX).unwrap();
        wait_for(&receiver);
        // The receiver's end resets the connections, which ends the sender's.
        wait_for(&sender);
        assert_eq!(receiver.end().iter().sum::<u64>(), LIMIT);
        assert!(sender.end().iter().sum::<u64>() >= LIMIT);
    }

    #[test]
    fn transfers_end_when_their_time_is_over_or_they_are_dropped() {
        let (near, far) = pairs(1);
        let receiver = TcpLoad::begin(far, LoadRole::Receive, Span::from_secs(600), u64::MAX).unwrap();
        let sender = TcpLoad::begin(near, LoadRole::Send, Span::from_millis(250), u64::MAX).unwrap();
        let until = sender.end_time();
        wait_for(&sender);
        assert!(clock::monotonic() >= until);
        assert!(sender.end().iter().sum::<u64>() > 0);
        wait_for(&receiver);
        let (near, _far) = pairs(1);
        drop(TcpLoad::begin(near, LoadRole::Receive, Span::from_secs(600), u64::MAX).unwrap());
    }
}
