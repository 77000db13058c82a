//! A server of this library on a free loopback port.

use measure::{MeasureConfig, Server, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Stops, and waits for its threads, when dropped.
pub struct Running {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(config: ServerConfig) -> Self {
        let listen = config.listen.or(Some(SocketAddr::from(([127, 0, 0, 1], 0))));
        let server = Server::bind(ServerConfig { listen, ..config }).unwrap();
        let address = server.local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&flag).unwrap());
        Running { address, stop, thread: Some(thread) }
    }

    /// Measures this server, everything chosen by kumade.
    pub fn measuring(&self) -> MeasureConfig {
        MeasureConfig::new(self.address.ip().to_string(), self.address.port())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}
