mod directed_link;
mod shard;

use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::port::{Port, PortSpec};
use crate::statistics::DirectionStatistics;
use kumade_daemon::EndNotice;
use kumade_packet_loop::PacketThread;
use shard::EmulatorShard;
use std::sync::{Arc, OnceLock};

/// A running link between two ports. It ends when it is [stopped](Engine::stop) or dropped, or when an interface vanishes.
#[derive(Debug)]
pub struct Engine {
    thread: PacketThread<EmulatorShard>,
    /// What the packet thread leaves when it ends.
    final_statistics: Arc<OnceLock<[DirectionStatistics; 2]>>,
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
        let [first, second] = &ports;
        if first.name() == second.name() {
            return Err(EmulatorError::SameInterface(first.name().into()));
        }
        if std::mem::discriminant(first) != std::mem::discriminant(second) {
            return Err(EmulatorError::MixedPortKinds);
        }
        Self::join_ports([Port::open(first)?, Port::open(second)?], directions, end_notice)
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
        let last = Arc::new(OnceLock::new());
        let left = Arc::clone(&last);
        let thread = PacketThread::start("emulator", move || EmulatorShard::new(ports, directions, left, end_notice))?;
        Ok(Engine { thread, final_statistics: last })
    }

    /// Changes one direction (0 or 1) while it runs.
    ///
    /// # Errors
    /// The link has ended.
    pub fn set_direction(&self, direction: usize, config: DirectionConfig) -> Result<(), EmulatorError> {
        self.thread
            .run_on_thread(move |shard| shard.set_direction(direction, config))
            .unwrap_or(Err(EmulatorError::LinkEnded))
    }

    /// What both directions have done so far, also after the end.
    pub fn statistics(&self) -> [DirectionStatistics; 2] {
        // This thread allocates the memory, so that the packet thread only copies.
        let mut statistics: Box<[DirectionStatistics; 2]> = Box::default();
        let copied = self.thread.run_on_thread(move |shard| {
            shard.copy_statistics(&mut statistics);
            statistics
        });
        copied.map_or_else(|_| self.final_statistics.get().cloned().unwrap_or_default(), |statistics| *statistics)
    }

    /// Whether packets still pass.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Waits until the link ends, and its interfaces are as they were found. Of several calls the first has the outcome,
    /// others get `Ok`.
    ///
    /// # Errors
    /// Why it ended, where nobody stopped it.
    pub fn wait(&self) -> Result<(), EmulatorError> {
        self.thread.wait()
    }

    /// Ends the link, and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    pub fn stop(&self) -> Result<(), EmulatorError> {
        self.thread.stop()
    }
}
