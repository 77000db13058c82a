use crate::config::RelayConfig;
use crate::report::{RelayReport, RelayStatus};
use crate::shard::{PreparedUpdate, RelayShard};
use kumade_daemon::ActivityWatch;
use kumade_net::SetupError;
use kumade_packet_loop::{PacketThread, ThreadEnded};
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use thiserror::Error;

/// One end of relayed connections, until this is dropped: a thread. The connections that it carries are reset then.
#[derive(Debug)]
pub struct Relay {
    thread: Arc<PacketThread<RelayShard>>,
}

/// What a running end is to become.
pub struct RelayUpdate(PreparedUpdate);

/// Why an end does not become what it is to.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RelayUpdateError {
    /// The system refuses something.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It has ended.
    #[error(transparent)]
    Ended(#[from] ThreadEnded),
}

impl fmt::Debug for RelayUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayUpdate").finish_non_exhaustive()
    }
}

impl Relay {
    /// Opens the local ports. `activity` is told of reports and of streams that move.
    ///
    /// # Errors
    /// The system refuses one of them, or a thread.
    pub fn start(config: RelayConfig, activity: ActivityWatch) -> Result<Self, SetupError> {
        let thread = PacketThread::start("relay", move || RelayShard::new(config, activity))?;
        Ok(Relay { thread: Arc::new(thread) })
    }

    /// Opens what it takes to become as these settings say, and changes nothing yet: for [`finish_update`](Self::finish_update). Role,
    /// far host, the far end's port and this end's key are to be as they were.
    ///
    /// # Errors
    /// The system refuses a local port, or it has ended.
    pub fn prepare_update(&self, config: RelayConfig) -> Result<RelayUpdate, RelayUpdateError> {
        Ok(RelayUpdate(self.thread.run_on_thread(|shard| shard.prepare_update(config))??))
    }

    /// Becomes as the settings say. Streams of peers that stay go on, but for those to what may be reached no longer; ports of
    /// forwardings that stay are not closed.
    ///
    /// # Errors
    /// The system refuses to lead connections to it, and it goes on as before; or it has ended.
    pub fn finish_update(&self, RelayUpdate(prepared): RelayUpdate) -> Result<(), RelayUpdateError> {
        Ok(self.thread.run_on_thread(|shard| shard.finish_update(prepared))??)
    }

    /// Where it listens, in the order of the forwardings.
    ///
    /// # Errors
    /// It has ended.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, ThreadEnded> {
        self.thread.run_on_thread(|shard| shard.addresses())
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn status(&self) -> Result<RelayStatus, ThreadEnded> {
        self.thread.run_on_thread(|shard| shard.status())
    }

    /// Why connections were not carried, since this was last asked.
    ///
    /// # Errors
    /// It has ended.
    pub fn take_reports(&self) -> Result<Vec<RelayReport>, ThreadEnded> {
        self.thread.run_on_thread(RelayShard::take_reports)
    }

    /// What takes over connections that another part of the program has accepted, each with the record that came first, an
    /// initiation ([`kumade_noise_session::channel::is_initiation`]). It does not wait.
    pub fn acceptor(&self) -> impl Fn(TcpStream, Vec<u8>) + Send + Sync + 'static {
        let thread = Arc::downgrade(&self.thread);
        move |stream, initiation| {
            if let Some(thread) = thread.upgrade() {
                // Where it has ended, the connection does, too.
                let _ = thread.post(move |shard| shard.take_over(stream, &initiation));
            }
        }
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Ends it, and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    pub fn stop(&self) -> Result<(), SetupError> {
        self.thread.stop()
    }
}
