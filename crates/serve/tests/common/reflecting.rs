//! A STAMP reflector, and measurements to it.

use kumade_client::{StampConfig, measure_stamp};
use kumade_measurement::report::DelayReport;
use kumade_serve::{HostClock, Reflector, ReflectorConfig};
use kumade_units::Span;
use kumade_wire::PresharedKey;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A reflector on a free loopback port; stops when dropped.
pub struct Reflecting {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reflecting {
    pub fn start(ip: &str, clock: HostClock) -> Self {
        Self::with_key(ip, clock, None)
    }

    pub fn with_key(ip: &str, clock: HostClock, key: Option<PresharedKey>) -> Self {
        Self::with_config(ReflectorConfig { clock, key, ..ReflectorConfig::default() }, ip)
    }

    /// At this address, whatever the configuration says.
    pub fn with_config(config: ReflectorConfig, ip: &str) -> Self {
        let listen = Some(SocketAddr::new(ip.parse().unwrap(), 0));
        let reflector = Reflector::bind(&ReflectorConfig { listen, ..config }).unwrap();
        let address = reflector.local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || reflector.run(&flag).unwrap()));
        Reflecting { address, stop, thread }
    }
}

impl Drop for Reflecting {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

pub fn quick(address: SocketAddr) -> StampConfig {
    let config = StampConfig::new(address.ip().to_string(), address.port());
    // Probes that are not lost are waited for, however late a busy machine brings them.
    StampConfig { count: 100, interval: Span::from_millis(3), late_after: Span::from_secs(60), ..config }
}

pub fn delay_to(config: &StampConfig) -> DelayReport {
    measure_stamp(config).unwrap().delay.unwrap()
}
