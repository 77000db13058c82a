use super::frame::{Frame, Pool};
use super::lane::{Lane, times};
use super::{DirectionConfig, Shared};
use crate::statistics::{DropCause, Recorder};
use crate::{BridgeError, Port};
use link::Delivery;
use net::deadline::{Prompt, Watch};
use net::packet_socket::BATCH;
use net::{SetupError, clock};
use std::io::Read;
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use units::{Span, Time};

/// Taken of each side before looking at what is due: packets, or what is divided into packets.
const TAKEN: usize = 64;
/// How often the state of the interfaces is looked at, if nothing tells of it.
const CHECK: Span = Span::from_millis(100);

/// The flow of packets that say nothing of theirs.
const UNKNOWN: u64 = 0;

/// What another thread wants of the packet thread.
pub(super) struct Change {
    pub(super) direction: usize,
    pub(super) config: DirectionConfig,
}

/// All that the packet thread owns.
pub(super) struct Core {
    /// Direction 0 leads from the first to the second, direction 1 back.
    ports: [Port; 2],
    lanes: [Lane; 2],
    shared: Arc<Shared>,
    inbox: Receiver<Change>,
    bell: UnixStream,
    watch: Watch,
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
        shared: Arc<Shared>,
        inbox: Receiver<Change>,
        bell: UnixStream,
    ) -> Result<Self, BridgeError> {
        let sources = ports.iter().map(Port::source).chain([bell.as_fd()]);
        let watch = Watch::new(sources).map_err(|error| SetupError::new("watch the interfaces", error))?;
        let [there, back] = directions;
        let lanes = [Lane::new(there)?, Lane::new(back)?];
        let (pool, batch, checked) = (Pool::default(), Vec::with_capacity(BATCH), clock::realtime());
        let (answers, missed) = (Vec::new(), [0; 2]);
        Ok(Core { ports, lanes, shared, inbox, bell, watch, pool, batch, answers, checked, missed })
    }

    /// Moves packets until it is told to stop, or cannot go on.
    pub(super) fn run(mut self) -> Result<(), BridgeError> {
        let _prompt = Prompt::new();
        let shared = Arc::clone(&self.shared);
        loop {
            let mut recorders = shared.recorders.lock().unwrap_or_else(PoisonError::into_inner);
            let mut taken = [0; 2];
            for direction in [0, 1] {
                taken[direction] = self.collect(direction, &mut recorders[direction])?;
            }
            if !self.serve_requests(&mut recorders)? {
                return Ok(());
            }
            let mut is_idle = taken == [0; 2];
            for direction in [0, 1] {
                // As much as was taken, and more, so that nothing piles up.
                for _ in 0..=taken[direction].div_ceil(BATCH) {
                    let written = self.deliver(direction, &mut recorders[direction]);
                    is_idle &= written == 0;
                    if written < BATCH {
                        break;
                    }
                }
            }
            self.check(is_idle, &mut recorders)?;
            drop(recorders);
            let soon = self.checked + CHECK;
            let next = self.lanes.iter().filter_map(Lane::next_event).fold(soon, Time::min);
            self.watch.wait(next, || self.ports.iter().any(Port::is_ready));
        }
    }

    /// Does what other threads ask for; false once nobody wants the bridge any more.
    fn serve_requests(&mut self, recorders: &mut [Recorder; 2]) -> Result<bool, BridgeError> {
        loop {
            match self.inbox.try_recv() {
                Ok(Change { direction, config }) => {
                    self.lanes[direction].set(config, clock::realtime(), &mut recorders[direction])?;
                }
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// Takes what has arrived for one direction, and serves its link up to there. Says how many packets that were.
    fn collect(&mut self, direction: usize, recorder: &mut Recorder) -> Result<usize, BridgeError> {
        let Core { ports, lanes, pool, answers, .. } = self;
        let (lane, port) = (&mut lanes[direction], &mut ports[direction]);
        // All that arrives before this is found, unless there is too much of it for one turn.
        let now = clock::realtime();
        let (mut taken, mut last) = (0, now);
        let mut take = |stamp: Time, arrived: Result<Frame, u32>| {
            (taken, last) = (taken + 1, stamp);
            match arrived {
                Ok(frame) => {
                    let link = frame.link;
                    if let Some(answer) = lane.offer(frame, stamp, recorder) {
                        let mut reply = pool.frame(link.reversed());
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
        let mut turns = 0..TAKEN;
        while turns.next().is_some() && port.receive(pool, &mut take)? {}
        // An answer that finds no room is lost, as any packet may be.
        port.send(answers.iter(), |_, _| {});
        answers.clear();
        lane.advance(if turns.is_empty() { last.min(now) } else { now }, recorder);
        Ok(taken)
    }

    /// Writes a batch of what is due of one direction. Says how many packets that were.
    fn deliver(&mut self, direction: usize, recorder: &mut Recorder) -> usize {
        let now = clock::realtime();
        let lane = &mut self.lanes[direction];
        while self.batch.len() < BATCH
            && let Some(delivery) = lane.pop_due(now, recorder)
        {
            self.batch.push(delivery);
        }
        let mut refused: [Option<DropCause>; BATCH] = [None; BATCH];
        let frames = self.batch.iter().map(|delivery| &delivery.packet);
        self.ports[1 - direction].send(frames, |place, cause| refused[place] = Some(cause));
        let written = self.batch.len();
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

    /// Looks whether the interfaces are still there: where the wait ended for no packet, and now and then.
    fn check(&mut self, is_idle: bool, recorders: &mut [Recorder; 2]) -> Result<(), BridgeError> {
        let now = clock::realtime();
        if !is_idle && now - self.checked < CHECK {
            return Ok(());
        }
        self.checked = now;
        // Rung perhaps for something that was seen before it rang.
        let _ = self.bell.read(&mut [0; 64]);
        self.ports.iter().try_for_each(Port::check)?;
        for ((port, missed), recorder) in self.ports.iter_mut().zip(&mut self.missed).zip(recorders) {
            let before = mem::replace(missed, port.missed());
            for _ in before..*missed {
                recorder.offered(UNKNOWN, 0);
                recorder.dropped(UNKNOWN, 0, DropCause::Overload);
            }
        }
        Ok(())
    }
}
