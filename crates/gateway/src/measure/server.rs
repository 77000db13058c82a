use kumade_noise_session::PresharedKey;
use kumade_serve::{ServeError, Server, ServerConfig};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use thiserror::Error;

/// Answers measurements of other gateways, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct MeasurementServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Why measurements cannot be answered.
#[derive(Debug, Error)]
pub enum MeasurementServerError {
    /// The port cannot be had.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// No thread can be made.
    #[error("cannot start a thread that answers measurements: {0}")]
    Thread(io::Error),
}

impl MeasurementServer {
    /// Listens on a port of all addresses, IPv6 and IPv4. With a key, only who has it is answered.
    ///
    /// # Errors
    /// The port is taken, or needs privileges.
    pub fn start(port: u16, key: Option<PresharedKey>) -> Result<Self, MeasurementServerError> {
        let listen = Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        let server = Server::bind(ServerConfig { listen, key, ..ServerConfig::default() })?;
        let (address, stop) = (server.local_addr(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let run = move || {
            if let Err(error) = server.run(&stopped) {
                tracing::warn!("measurements are no longer answered: {error}");
            }
        };
        let thread =
            thread::Builder::new().name("measurements".into()).spawn(run).map_err(MeasurementServerError::Thread)?;
        Ok(MeasurementServer { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MeasurementServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // One that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
