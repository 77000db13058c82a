//! The loop's contract with its shards and with other threads.

use kumade_net::{SetupError, clock};
use kumade_packet_loop::flow::shard_of;
use kumade_packet_loop::{BufferPool, FlowHasher, PacketThread, Shard, ThreadEnded, WakeReason};
use kumade_units::{Span, Time};
use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Keeps what arrives. Its buffers belong to one thread, as those of every shard may.
struct Collector {
    socket: UdpSocket,
    pool: BufferPool,
    packets: Vec<kumade_packet_loop::Buffer>,
    turns: u64,
    wakes: u64,
    /// How many packets the turns that have ended found. Who reads it wakes nobody.
    count: Arc<AtomicUsize>,
    fails_at: Option<Time>,
    is_dropped: Arc<AtomicBool>,
}

impl Collector {
    fn new(socket: UdpSocket) -> Self {
        socket.set_nonblocking(true).unwrap();
        let (pool, packets) = (BufferPool::default(), Vec::new());
        let (count, is_dropped) = (Arc::default(), Arc::default());
        Collector { socket, pool, packets, turns: 0, wakes: 0, count, fails_at: None, is_dropped }
    }
}

impl Shard for Collector {
    type Error = SetupError;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    fn process(&mut self, wake: WakeReason) -> Result<Time, SetupError> {
        self.turns += 1;
        self.wakes += u64::from(wake == WakeReason::Readable);
        let mut bytes = [0; 100];
        while let Ok(length) = self.socket.recv(&mut bytes) {
            self.packets.push(self.pool.copy_from(&bytes[..length]));
        }
        self.count.store(self.packets.len(), Ordering::SeqCst);
        match self.fails_at {
            Some(at) if clock::monotonic() >= at => Err(SetupError::new("go on", io::Error::other("it was enough"))),
            at => Ok(at.unwrap_or(clock::monotonic() + Span::from_secs(3600))),
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::SeqCst);
    }
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(120) {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn packets_and_requests_wake_a_thread_that_would_sleep_for_an_hour() {
    let (input, output) = (socket(), socket());
    let address = input.local_addr().unwrap();
    let count = Arc::<AtomicUsize>::default();
    let counted = count.clone();
    let build = move || {
        let mut shard = Collector::new(input);
        shard.count = counted;
        Ok(shard)
    };
    let thread = PacketThread::start("collector", build).unwrap();
    // Each is sent when the turn that found the last one has ended, and nothing but packets wakes the thread: all but the first, which the turn at
    // the start may find, need a wake-up.
    for sent in 1..=10 {
        output.send_to(b"packet", address).unwrap();
        assert!(eventually(|| count.load(Ordering::SeqCst) == sent));
    }
    let (turns, wakes) = thread.run_on_thread(|shard| (shard.turns, shard.wakes)).unwrap();
    assert!((9..=turns).contains(&wakes), "{wakes} of {turns}");
    assert!(thread.is_running());
    thread.stop().unwrap();
    assert!(!thread.is_running());
    assert_eq!(thread.run_on_thread(|shard| shard.turns), Err(ThreadEnded));
}

#[test]
fn an_idle_thread_sleeps() {
    let thread = PacketThread::start("idle", || Ok(Collector::new(socket()))).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    // The first turn, and at most one for each of the requests.
    assert!(thread.run_on_thread(|shard| shard.turns).unwrap() <= 2);
}

#[test]
fn a_failed_turn_ends_the_thread_at_its_deadline_and_drops_the_shard() {
    let (begun, is_dropped) = (clock::monotonic(), Arc::<AtomicBool>::default());
    let at = begun + Span::from_millis(20);
    let dropped = Arc::clone(&is_dropped);
    let build = move || {
        let mut shard = Collector::new(socket());
        (shard.fails_at, shard.is_dropped) = (Some(at), dropped);
        Ok(shard)
    };
    let error = PacketThread::start("failing", build).unwrap().wait().unwrap_err();
    assert_eq!(error.to_string(), "cannot go on: it was enough");
    assert!(clock::monotonic() >= at && is_dropped.load(Ordering::SeqCst));
}

#[test]
fn a_shard_that_cannot_be_built_is_an_error_of_the_start() {
    let refused = || Err(SetupError::new("build", io::Error::other("no devices")));
    let error = PacketThread::<Collector>::start("unbuilt", refused).unwrap_err();
    assert_eq!(error.to_string(), "cannot build: no devices");
}

#[test]
fn dropping_the_handle_ends_the_thread() {
    let is_dropped = Arc::<AtomicBool>::default();
    let dropped = Arc::clone(&is_dropped);
    let build = move || {
        let mut shard = Collector::new(socket());
        shard.is_dropped = dropped;
        Ok(shard)
    };
    drop(PacketThread::start("dropped", build).unwrap());
    assert!(is_dropped.load(Ordering::SeqCst));
}

/// Three shards, and a sender that gives each flow's packets to the flow's own shard: no flow is seen by two.
#[test]
fn a_flow_stays_with_its_shard() {
    let inputs: Vec<_> = (0..3).map(|_| socket()).collect();
    let addresses: Vec<_> = inputs.iter().map(|input| input.local_addr().unwrap()).collect();
    let start = |input| PacketThread::start("shard", move || Ok(Collector::new(input))).unwrap();
    let threads: Vec<_> = inputs.into_iter().map(start).collect();
    let (flows, output) = (FlowHasher::new(), socket());
    for flow in (0..60_u8).chain(0..60) {
        output.send_to(&[flow], addresses[shard_of(flows.hash_flow(flow), threads.len())]).unwrap();
    }
    let seen = |thread: &PacketThread<Collector>| {
        thread.run_on_thread(|shard| shard.packets.iter().map(|packet| packet[0]).collect::<Vec<_>>()).unwrap()
    };
    assert!(eventually(|| threads.iter().map(|thread| seen(thread).len()).sum::<usize>() == 120));
    let distinct: Vec<BTreeSet<u8>> = threads.iter().map(|thread| seen(thread).into_iter().collect()).collect();
    assert_eq!(distinct.iter().map(BTreeSet::len).sum::<usize>(), 60, "{distinct:?}");
}
