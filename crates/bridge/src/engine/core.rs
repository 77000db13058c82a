use super::frame::{Frame, Pool};
use super::lane::{Lane, times};
use super::{DirectionConfig, Shared};
use crate::statistics::{DropCause, Recorder};
use crate::{BridgeError, Port};
use link::Delivery;
use net::deadline::{Prompt, Watch};
use net::{SetupError, clock};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use units::{Span, Time};

/// Taken of each side at most before looking at what is due.
const TAKEN: usize = 256;
/// Written at most to each side before looking for new packets again.
const WRITTEN: usize = 64;
/// How often the state of the interfaces is looked at, if nothing tells of it.
const CHECK: Span = Span::from_millis(100);

/// The flow of packets that say nothing of theirs.
const MALFORMED: u64 = 0;

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
    checked: Time,
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
        let (pool, batch, checked) = (Pool::default(), Vec::with_capacity(WRITTEN), clock::realtime());
        Ok(Core { ports, lanes, shared, inbox, bell, watch, pool, batch, checked })
    }

    /// Moves packets until it is told to stop, or cannot go on.
    pub(super) fn run(mut self) -> Result<(), BridgeError> {
        let _prompt = Prompt::new();
        let shared = Arc::clone(&self.shared);
        while self.serve_requests()? {
            let mut recorders = shared.recorders.lock().unwrap_or_else(PoisonError::into_inner);
            let mut is_idle = true;
            for direction in [0, 1] {
                is_idle &= !self.collect(direction, &mut recorders)?;
            }
            for direction in [0, 1] {
                is_idle &= !self.deliver(direction, &mut recorders[direction]);
            }
            drop(recorders);
            self.check(is_idle)?;
            let soon = self.checked + CHECK;
            let next = self.lanes.iter().filter_map(Lane::next_event).fold(soon, Time::min);
            self.watch.wait(next, || self.ports.iter().any(Port::is_ready));
        }
        Ok(())
    }

    /// Does what other threads ask for; false once nobody wants the bridge any more.
    fn serve_requests(&mut self) -> Result<bool, BridgeError> {
        loop {
            match self.inbox.try_recv() {
                Ok(Change { direction, config }) => {
                    let _ = self.bell.read(&mut [0; 64]);
                    self.lanes[direction].set(config)?;
                }
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// Takes what has arrived for one direction, and serves its link up to there. False where there was nothing.
    fn collect(&mut self, direction: usize, recorders: &mut [Recorder; 2]) -> Result<bool, BridgeError> {
        let Core { ports, lanes, pool, .. } = self;
        let (lane, recorder) = (&mut lanes[direction], &mut recorders[direction]);
        let port = &mut ports[direction];
        let mut horizon = clock::realtime();
        let mut answers = Vec::new();
        let mut last = horizon;
        let mut taken = 0;
        while taken < TAKEN
            && port.receive(pool, &mut |stamp, frame| {
                last = stamp;
                match frame {
                    Ok(frame) => {
                        let link = frame.link;
                        if let Some(answer) = lane.offer(frame, stamp, recorder) {
                            let mut reply = pool.frame(link.reversed());
                            reply.packet.extend_from_slice(&answer);
                            answers.push(reply);
                        }
                    }
                    Err(size) => {
                        recorder.offered(MALFORMED, size);
                        recorder.dropped(MALFORMED, size, DropCause::Malformed);
                    }
                }
            })?
        {
            taken += 1;
        }
        if taken == TAKEN {
            horizon = horizon.min(last);
        }
        // An answer that finds no room is lost as any packet may be.
        port.send(answers.iter(), |_, _| {});
        lane.advance(horizon, recorder);
        Ok(taken > 0)
    }

    /// Writes what is due of one direction; false where there was nothing.
    fn deliver(&mut self, direction: usize, recorder: &mut Recorder) -> bool {
        let now = clock::realtime();
        let lane = &mut self.lanes[direction];
        while self.batch.len() < WRITTEN
            && let Some(delivery) = lane.pop_due(now, recorder)
        {
            self.batch.push(delivery);
        }
        let mut refused: [Option<DropCause>; WRITTEN] = [None; WRITTEN];
        let frames = self.batch.iter().map(|delivery| &delivery.packet);
        self.ports[1 - direction].send(frames, |place, cause| refused[place] = Some(cause));
        let any = !self.batch.is_empty();
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
        any
    }

    /// Looks whether the interfaces are still there: where the wait ended for no packet, and now and then.
    fn check(&mut self, is_idle: bool) -> Result<(), BridgeError> {
        let now = clock::realtime();
        if is_idle || now - self.checked >= CHECK {
            self.checked = now;
            self.ports.iter().try_for_each(Port::check)?;
        }
        Ok(())
    }
}
