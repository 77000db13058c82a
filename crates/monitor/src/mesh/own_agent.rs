//! The agent of the coordinator's own host: on a thread of the same process, over the same path as all others.

use super::agent::MeshAgentRun;
use crate::config::{AgentConfig, MeshConfig};
use crate::monitor_error::MonitorError;
use kumade_daemon::ActivityWatch;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Measures until it is dropped.
#[derive(Debug)]
pub(crate) struct OwnAgent {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Where it keeps what is not delivered, below the archive's directory.
const DIRECTORY: &str = "agent";

/// What the agent of the coordinator's own host is told; none where it is no site. `listen` is where the coordinator listens.
pub(crate) fn own_agent_config(mesh: &MeshConfig, archive: &Path, listen: SocketAddr) -> Option<AgentConfig> {
    let own = mesh.own_agent?;
    let host = if listen.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listen.ip() };
    Some(AgentConfig {
        archive: archive.join(DIRECTORY),
        identity: mesh.identity.clone(),
        coordinators: vec![(host.to_string(), listen.port())],
        coordinator_key: mesh.identity.public_key(),
        port: own.port,
        stamp_port: own.stamp_port,
        bytes_per_day: own.bytes_per_day,
    })
}

impl OwnAgent {
    /// Its directory is there. Where it ends by itself, `ended` is told.
    ///
    /// # Errors
    /// The directory cannot be used, or the system has no thread.
    pub(crate) fn start(config: AgentConfig, ended: &ActivityWatch) -> Result<Self, MonitorError> {
        let agent = MeshAgentRun::open(config)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let end_notice = ended.end_notice();
        let work = move || {
            let _end_notice = end_notice;
            if let Err(error) = agent.run(&stopped) {
                tracing::error!("the agent of this host: {error}");
            }
        };
        let thread = thread::Builder::new().name("agent".into()).spawn(work).map_err(MonitorError::System)?;
        Ok(OwnAgent { stop, thread: Some(thread) })
    }
}

impl Drop for OwnAgent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic there has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}
