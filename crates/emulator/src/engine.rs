mod directed_link;
mod duplex_link;
mod link_state;
mod shard;

use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::port::{Port, PortSpec};
use crate::statistics::DirectionStatistics;
use kumade_daemon::EndNotice;
use kumade_packet_loop::PacketThread;
use link_state::{EndRecord, EndedWithThread, LinkState};
use shard::{EmulatorShard, LinkParts, ring_packets};
use std::mem::discriminant;
use std::sync::Arc;

/// A running link between two ports. It ends when it is [stopped](Engine::stop) or dropped, or when an interface vanishes. Several may
/// share a [thread](Engine::start_all).
#[derive(Debug)]
pub struct Engine {
    thread: Arc<PacketThread<EmulatorShard>>,
    /// Among those of its thread.
    number: usize,
    state: Arc<LinkState>,
}

/// What [`Engine::start_all`] is told of a link.
#[derive(Debug)]
pub struct EngineConfig {
    /// Between what.
    pub ports: [PortSpec; 2],
    /// Direction 0 leads from the first port to the second, direction 1 back.
    pub directions: [DirectionConfig; 2],
    /// Tells that it has ended.
    pub end_notice: EndNotice,
}

impl Engine {
    /// Joins two ports of the calling thread's network namespace: direction 0 leads from the first to the second,
    /// direction 1 back. `end_notice` tells that it has ended.
    ///
    /// # Errors
    /// A port cannot be opened, or the two cannot be joined.
    pub fn start(
        ports: [PortSpec; 2],
        directions: [DirectionConfig; 2],
        end_notice: EndNotice,
    ) -> Result<Self, EmulatorError> {
        Self::start_all(vec![EngineConfig { ports, directions, end_notice }]).map(the_only)
    }

    /// Joins two ports of the same kind that are open already, perhaps in different namespaces.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn join_ports(
        ports: [Port; 2],
        directions: [DirectionConfig; 2],
        end_notice: EndNotice,
    ) -> Result<Self, EmulatorError> {
        Self::start_thread(vec![(ports, directions, end_notice)]).map(the_only)
    }

    /// Starts links between ports of the calling thread's network namespace that share one packet thread, in this order. Each ends by
    /// itself. The more there are, the fewer packets can wait at each port before they are taken: at 9 or more links fewer than 1024, at 33 or more 256.
    ///
    /// # Errors
    /// As [`start`](Self::start), for any of them; then none runs.
    pub fn start_all(links: Vec<EngineConfig>) -> Result<Vec<Self>, EmulatorError> {
        links.iter().try_for_each(|link| check_ports(&link.ports))?;
        let room = ring_packets(links.len());
        let open = |EngineConfig { ports: [first, second], directions, end_notice }| {
            let ports = [Port::with_room_for(&first, room)?, Port::with_room_for(&second, room)?];
            Ok((ports, directions, end_notice))
        };
        Self::start_thread(links.into_iter().map(open).collect::<Result<_, EmulatorError>>()?)
    }

    fn start_thread(links: Vec<([Port; 2], [DirectionConfig; 2], EndNotice)>) -> Result<Vec<Self>, EmulatorError> {
        let states: Vec<Arc<LinkState>> = links.iter().map(|_| Arc::default()).collect();
        let parts = links.into_iter().zip(&states).map(|((ports, directions, notice), state)| LinkParts {
            ports,
            directions,
            end: EndRecord::new(Arc::clone(state), notice),
        });
        let parts: Vec<_> = parts.collect();
        let thread = Arc::new(PacketThread::start("emulator", move || EmulatorShard::new(parts))?);
        let engine = |(number, state)| Engine { thread: Arc::clone(&thread), number, state };
        Ok(states.into_iter().enumerate().map(engine).collect())
    }

    /// Changes one direction (0 or 1) while it runs.
    ///
    /// # Errors
    /// The link has ended.
    pub fn set_direction(&self, direction: usize, config: DirectionConfig) -> Result<(), EmulatorError> {
        let number = self.number;
        self.thread
            .run_on_thread(move |shard| shard.set_direction(number, direction, config))
            .unwrap_or(Err(EmulatorError::LinkEnded))
    }

    /// What both directions have done so far, also after the end.
    pub fn statistics(&self) -> [DirectionStatistics; 2] {
        // This thread allocates the memory, so that the packet thread only copies.
        let (number, mut statistics) = (self.number, Box::<[DirectionStatistics; 2]>::default());
        let copied = self.thread.run_on_thread(move |shard| {
            let is_running = shard.copy_statistics(number, &mut statistics);
            (statistics, is_running)
        });
        match copied {
            Ok((statistics, true)) => *statistics,
            _ => self.state.statistics().unwrap_or_default(),
        }
    }

    /// Whether packets still pass.
    pub fn is_running(&self) -> bool {
        !self.state.has_ended()
    }

    /// Waits until the link ends, and its interfaces are as they were found. Of several calls the first has the outcome,
    /// others get `Ok`.
    ///
    /// # Errors
    /// Why it ended, where nobody stopped it.
    ///
    /// # Panics
    /// If its thread did.
    pub fn wait(&self) -> Result<(), EmulatorError> {
        match self.state.wait() {
            Ok(outcome) => outcome,
            // It tells the first why; it was not stopped for the others, either.
            Err(EndedWithThread) => self.thread.wait().and(Err(EmulatorError::LinkEnded)),
        }
    }

    /// Ends the link, and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn stop(&self) -> Result<(), EmulatorError> {
        self.request_end();
        self.wait()
    }

    /// Grows whenever something happens on the link: while it stays, the [`statistics`](Self::statistics) do too. Asks nobody.
    pub fn changes(&self) -> u64 {
        self.state.changes()
    }

    /// Ends the link without waiting for that.
    pub fn request_end(&self) {
        let number = self.number;
        // A thread that has ended has no link any more.
        let _ = self.thread.post(move |shard| shard.end_link(number));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.request_end();
        // A panic has been printed, and another one here might abort the process.
        if let Ok(Err(error)) = self.state.wait() {
            tracing::warn!("{error}");
        }
    }
}

/// Of what was started for one.
fn the_only(mut engines: Vec<Engine>) -> Engine {
    engines.swap_remove(0)
}

/// Whether these two can be joined.
fn check_ports([first, second]: &[PortSpec; 2]) -> Result<(), EmulatorError> {
    if first.name() == second.name() {
        return Err(EmulatorError::SameInterface(first.name().into()));
    }
    if discriminant(first) != discriminant(second) {
        return Err(EmulatorError::MixedPortKinds);
    }
    Ok(())
}
