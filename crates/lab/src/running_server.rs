use crate::error::RunError;
use kumade_netns_testbed::Host;
use kumade_serve::{ServeError, Server, ServerConfig};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// `kumade serve` on a host of a test network, until dropped.
#[derive(Debug)]
pub(crate) struct RunningServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl RunningServer {
    /// Starts it at the default port.
    ///
    /// # Errors
    /// Where the system refuses a socket or a thread.
    pub(crate) fn start(host: &Host) -> Result<Self, RunError> {
        Self::start_at(host, host.v4.into())
    }

    /// The same at this one of the host's addresses.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_at(host: &Host, address: IpAddr) -> Result<Self, RunError> {
        let failed = RunError::during("start the server");
        let server = bind_server(host, address).map_err(failed)?;
        let (address, stop) = (server.local_addr(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = host.namespace.spawn("lab-serve", move || server.run(&stopped));
        let thread = Some(thread.map_err(|error| failed(error.into()))?);
        Ok(RunningServer { address, stop, thread })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and a second one here would abort.
            let _ = thread.join();
        }
    }
}

fn bind_server(host: &Host, address: IpAddr) -> anyhow::Result<Server> {
    let listen = Some(SocketAddr::from((address, kumade_serve::DEFAULT_PORT)));
    let second_addresses = host.second_v4.map(IpAddr::V4).into_iter().collect();
    let config = ServerConfig { listen, second_addresses, ..ServerConfig::default() };
    Ok(host.namespace.run(|| Server::bind(config))??)
}
