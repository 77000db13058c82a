use super::DirectionConfig;
use super::clock::Clock;
use super::directed_link::{DirectedLink, times};
use super::frame::{Frame, Pool};
use crate::statistics::{DirectionStatistics, DropCause, Recorder};
use crate::{EmulatorError, Port};
use link::Delivery;
use net::SetupError;
use net::low_latency::{LowLatencyGuard, Watch};
use net::packet_socket::BATCH;
use std::cell::Cell;
use std::io::Read;
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use units::{Span, Time};

/// Packets that are taken of each side before looking at what is due, and what comes together with the last of them.
const TAKEN: usize = 64;
/// How often the state of the interfaces is looked at, if nothing tells of it.
const CHECK: Span = Span::from_millis(100);

/// The flow of packets that say nothing of theirs.
const UNKNOWN: u64 = 0;

/// What another thread wants of the packet thread.
pub(super) enum Request {
    /// To go on with other settings.
    Set { direction: usize, config: Box<DirectionConfig> },
    /// To copy what has been seen so far, and to send it back.
    Count { into: Box<[DirectionStatistics; 2]>, back: SyncSender<Box<[DirectionStatistics; 2]>> },
}

/// All that the packet thread owns.
pub(super) struct Core {
    /// Direction 0 leads from the first to the second, direction 1 back.
    ports: [Port; 2],
    lanes: [DirectedLink; 2],
    recorders: [Recorder; 2],
    inbox: Receiver<Request>,
    bell: UnixStream,
    watch: Watch,
    clock: Clock,
    pool: Pool,
    /// Used again and again.
    batch: Vec<Delivery<Frame>>,
    /// Used again and again, too: what rules answer.
    answers: Vec<Frame>,
    checked: Time,
    /// Packets that each port has missed so far.
    missed: [u64; 2],
}

impl Core {
    pub(super) fn new(
        ports: [Port; 2],
        directions: [DirectionConfig; 2],
        inbox: Receiver<Request>,
        bell: UnixStream,
    ) -> Result<Self, EmulatorError> {
        let sources = ports.iter().map(Port::source).chain([bell.as_fd()]);
        let watch = Watch::new(sources).map_err(|error| SetupError::new("watch the interfaces", error))?;
        let [there, back] = directions;
        let clock = Clock::new();
        let checked = clock.now();
        let lanes = [DirectedLink::new(there, checked)?, DirectedLink::new(back, checked)?];
        let (pool, batch) = (Pool::default(), Vec::with_capacity(BATCH));
        let (answers, missed) = (Vec::new(), [0; 2]);
        let recorders = Default::default();
        Ok(Core { ports, lanes, recorders, inbox, bell, watch, clock, pool, batch, answers, checked, missed })
    }

    /// Moves packets until it is told to stop, or cannot go on; leaves behind what it has seen.
    pub(super) fn run(mut self, left: &OnceLock<[DirectionStatistics; 2]>) -> Result<(), EmulatorError> {
        let _low_latency = LowLatencyGuard::new();
        let outcome = self.move_packets();
        let _ = left.set(self.recorders.each_ref().map(Recorder::snapshot));
        outcome
    }

    fn move_packets(&mut self) -> Result<(), EmulatorError> {
        let mut is_woken = false;
        while self.serve_requests(is_woken)? {
            let taken = [self.collect(0)?, self.collect(1)?];
            for direction in [0, 1] {
                // As much as was taken, and more, so that nothing piles up.
                for _ in 0..=taken[direction].div_ceil(BATCH) {
                    if self.deliver(direction) < BATCH {
                        break;
                    }
                }
            }
            // Something else than packets has ended the wait, or none has come for a while.
            if is_woken && taken == [0; 2] || self.clock.now() - self.checked >= CHECK {
                self.check()?;
            }
            let soon = self.checked + CHECK;
            let next = self.lanes.iter().filter_map(DirectedLink::next_event).fold(soon, Time::min);
            // The clock may be set back while this waits for it.
            let is_ready = || self.ports.iter().any(Port::is_ready) || self.clock.now() >= next;
            is_woken = self.watch.wait(self.clock.shown(next), is_ready);
        }
        Ok(())
    }

    /// Does what other threads ask for; false once nobody wants the bridge any more.
    fn serve_requests(&mut self, is_woken: bool) -> Result<bool, EmulatorError> {
        if is_woken {
            // Before the inbox is looked at, so that no ring is silenced unheard; and whatever has woken the thread, so
            // that it does not go on ringing for what was seen already.
            let _ = self.bell.read(&mut [0; 64]);
        }
        loop {
            match self.inbox.try_recv() {
                Ok(Request::Set { direction, config }) => {
                    self.lanes[direction].set(*config, self.clock.now(), &mut self.recorders[direction])?;
                }
                Ok(Request::Count { mut into, back }) => {
                    for (recorder, into) in self.recorders.iter().zip(into.iter_mut()) {
                        recorder.copy_to(into);
                    }
                    // Who asked may have gone.
                    let _ = back.try_send(into);
                }
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// Takes what has arrived for one direction, and serves its link up to there. Says how many packets that were.
    fn collect(&mut self, direction: usize) -> Result<usize, EmulatorError> {
        let Core { ports, lanes, recorders, clock, pool, answers, .. } = self;
        let (lane, port, recorder) = (&mut lanes[direction], &mut ports[direction], &mut recorders[direction]);
        // All that arrives before this is found, unless there is too much of it for one turn.
        let now = clock.now();
        let (taken, last) = (Cell::new(0), Cell::new(now));
        let mut take = |stamp: Time, arrived: Result<Frame, u32>| {
            taken.set(taken.get() + 1);
            let stamp = clock.stamped(stamp, now);
            last.set(stamp);
            match arrived {
                Ok(frame) => {
                    let link = frame.link;
                    if let Some(answer) = lane.offer(frame, stamp, recorder) {
                        let mut reply = pool.frame(link.reversed(), answer.len());
                        reply.packet.extend_from_slice(&answer);
                        answers.push(reply);
                    }
                }
                Err(size) => {
                    recorder.offered(UNKNOWN, size);
                    recorder.dropped(UNKNOWN, size, DropCause::Malformed);
                }
            }
        };
        while taken.get() < TAKEN && port.receive(pool, &mut take)? {}
        // An answer that finds no room is lost, as any packet may be.
        port.send(answers.iter(), |_, _| {});
        answers.clear();
        let is_all = taken.get() < TAKEN;
        lane.advance(if is_all { now } else { last.get().min(now) }, recorder);
        Ok(taken.get())
    }

    /// Writes a batch of what is due of one direction. Says how many packets that were.
    fn deliver(&mut self, direction: usize) -> usize {
        let now = self.clock.now();
        let (lane, recorder) = (&mut self.lanes[direction], &mut self.recorders[direction]);
        while self.batch.len() < BATCH
            && let Some(delivery) = lane.pop_due(now, recorder)
        {
            self.batch.push(delivery);
        }
        let mut refused: [Option<DropCause>; BATCH] = [None; BATCH];
        let frames = self.batch.iter().map(|delivery| &delivery.packet);
        self.ports[1 - direction].send(frames, |place, cause| refused[place] = Some(cause));
        let written = self.batch.len();
        // Of the first ones rather too late: to a TUN device writing takes time.
        let now = if written > 0 { self.clock.now() } else { now };
        for (delivery, refused) in self.batch.drain(..).zip(refused) {
            let (flow, size) = (delivery.packet.flow, delivery.size);
            match refused {
                Some(cause) => recorder.dropped(flow, size, cause),
                None => {
                    let (sojourn, lateness) = times(&delivery, now);
                    recorder.delivered(flow, size, sojourn, lateness);
                }
            }
        }
        written
    }

    /// Looks whether the clock was set, whether the interfaces are still there, and what they have missed.
    fn check(&mut self) -> Result<(), EmulatorError> {
        self.clock.look();
        self.checked = self.clock.now();
        self.ports.iter().try_for_each(Port::check)?;
        for ((port, missed), recorder) in self.ports.iter_mut().zip(&mut self.missed).zip(&mut self.recorders) {
            let before = mem::replace(missed, port.missed());
            recorder.missed(*missed - before);
        }
        Ok(())
    }
}
