use super::plane::DirectPlane;
use super::session_node::SessionNode;
use super::session_shard::{FLOW_POLL_INTERVAL, SessionShard, SessionsError, next_counter_read};
use super::session_status::SessionsStatus;
use crate::config::SessionsConfig;
use kumade_net::clock;
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_packet_loop::{PacketThread, ThreadEnded};
use kumade_units::{Span, Time};
use std::sync::Arc;

/// NAT sessions with the gateways of remote sites, until this is dropped: flows that begin to pass are agreed upon, divided,
/// and left again once they are idle. Ends before its [`DirectPlane`] is dropped.
#[derive(Debug)]
pub struct SessionPlane {
    thread: PacketThread<SessionShard>,
}

impl SessionPlane {
    /// While flows pass undivided, they are looked for this often, and less often where that takes more than a tenth of the time; else as soon
    /// as one begins, but not within this after the last look. Where the kernel does not tell of new flows, this often at all times.
    pub const FLOW_POLL_INTERVAL: Span = FLOW_POLL_INTERVAL;

    /// When the kernel's counters are read next, where sessions end after being idle for so long: a sixteenth of that later, and
    /// not more than five seconds; or at `next_idle`, when a session may be idle.
    pub fn next_counter_read(idle: Span, next_idle: Option<Time>, now: Time) -> Time {
        next_counter_read(idle, next_idle, now)
    }

    /// Opens a socket on each path and begins handshakes, in the namespace of the calling thread. `psks` are those of all
    /// remotes, in their order; the default one where a remote has none.
    ///
    /// # Errors
    /// The system refuses a socket, or two remote sites have one key.
    pub fn start(
        plane: &DirectPlane,
        sessions: &SessionsConfig,
        identity: PrivateKey,
        psks: Vec<PresharedKey>,
    ) -> Result<Self, SessionsError> {
        let (config, lists, sessions) = (plane.config().clone(), plane.flow_lists(), sessions.clone());
        let logs_new_flows = plane.logs_new_flows();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(SessionsError::Random)?;
        let build = move || {
            let of = (Arc::clone(&config), sessions.clone());
            let node = SessionNode::new(of, lists, (identity, &psks), seed, clock::monotonic())?;
            SessionShard::new(&config, &sessions, node, logs_new_flows)
        };
        Ok(SessionPlane { thread: PacketThread::start("sessions", build)? })
    }

    /// The sessions that there are, with their timers. Counters are a sixteenth of the idle time old at most, and not more
    /// than five seconds.
    ///
    /// # Errors
    /// It has ended.
    pub fn status(&self) -> Result<SessionsStatus, ThreadEnded> {
        self.thread.run_on_thread(|shard| shard.node().status(clock::monotonic()))
    }

    /// Whether each remote gateway answers, with its site's name: cheaper than [`status`](Self::status).
    ///
    /// # Errors
    /// It has ended.
    pub fn reachable_peers(&self) -> Result<Vec<(String, bool)>, ThreadEnded> {
        self.thread.run_on_thread(|shard| shard.node().reachable_peers())
    }

    /// Whether sessions are still followed.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Ends all sessions, and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    pub fn stop(&self) -> Result<(), SessionsError> {
        self.thread.stop()
    }
}
