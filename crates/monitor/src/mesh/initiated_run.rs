//! The end of a measurement that begins it.

use super::frame::RunGrant;
use kumade_client::{EndedMeasurement, HostClaimConfig, IfHeld, MeasureConfig, PresharedKey, RunningMeasurement};
use kumade_net::clock;
use kumade_net::interface::Family;
use kumade_planner::Token;
use kumade_units::{Span, Time};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

/// A run that this end begins: first the other end has to have its grant, too.
#[derive(Debug)]
pub(super) struct InitiatedRun {
    pub(super) token: Token,
    pub(super) granted: RunGrant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Asks the other end until it answers, or this is dropped.
    Asking {
        answered: Receiver<()>,
        _stop: StopAsking,
    },
    Measuring {
        began: Time,
        utc: Time,
        measurement: RunningMeasurement,
    },
}

#[derive(Debug)]
struct StopAsking(Arc<AtomicBool>);

impl Drop for StopAsking {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A measurement that has ended.
pub(super) struct EndedRun {
    pub(super) granted: RunGrant,
    /// By `clock::monotonic`.
    pub(super) began: Time,
    /// When it began, by the clock of the day.
    pub(super) utc: Time,
    pub(super) measurement: EndedMeasurement,
}

/// Between two questions whether the other end answers.
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// A server that is there answers sooner.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// The other end has no other client meanwhile.
const MAX_SERVER_WAIT: Span = Span::from_secs(5);

impl InitiatedRun {
    /// Asks the other end, until this is dropped.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn start(granted: RunGrant) -> io::Result<Self> {
        let (answer, answered) = mpsc::channel();
        let stop = StopAsking(Arc::new(AtomicBool::new(false)));
        let (stopped, host, port) = (stop.0.clone(), granted.host.clone(), granted.port);
        let family = granted.path.family();
        let ask = move || {
            let is_answered = || {
                let is_of_path =
                    |address: &SocketAddr| family.is_none_or(|family| family == Family::from_address(address.ip()));
                let addresses = (host.as_str(), port).to_socket_addrs();
                addresses.is_ok_and(|all| {
                    all.filter(is_of_path).any(|address| TcpStream::connect_timeout(&address, ASK_TIMEOUT).is_ok())
                })
            };
            while !stopped.load(Ordering::Relaxed) {
                if is_answered() {
                    // Nobody waits any more where the grant is void.
                    let _ = answer.send(());
                    return;
                }
                thread::sleep(ASK_INTERVAL);
            }
        };
        thread::Builder::new().name("ask".into()).spawn(ask)?;
        Ok(InitiatedRun { token: granted.grant.token, granted, stage: Stage::Asking { answered, _stop: stop } })
    }

    /// Whether the other end answers and the measurement may begin.
    pub(super) fn is_ready(&self) -> bool {
        matches!(&self.stage, Stage::Asking { answered, .. } if answered.try_recv() != Err(TryRecvError::Empty))
    }

    /// Measures; it has to end within this, and waits for others at this host as long as half of it.
    ///
    /// # Errors
    /// The key is none, or the system has no thread.
    pub(super) fn measure(&mut self, within: Span, if_held: IfHeld) -> Result<(), String> {
        let RunGrant { host, port, key, .. } = &self.granted;
        let mut config = MeasureConfig::new(host.clone(), *port);
        config.family = match self.granted.path.family() {
            None => kumade_client::Family::Any,
            Some(Family::V4) => kumade_client::Family::V4,
            Some(Family::V6) => kumade_client::Family::V6,
        };
        config.key = Some(PresharedKey::parse(key).map_err(|error| error.to_string())?);
        config.max_server_wait = MAX_SERVER_WAIT;
        config.host_claim = Some(HostClaimConfig { max_wait: within / 2, if_held });
        config.deadline = Some(within);
        let measurement = RunningMeasurement::start(config).map_err(|error| error.to_string())?;
        self.stage = Stage::Measuring { began: clock::monotonic(), utc: clock::realtime(), measurement };
        Ok(())
    }

    /// Whether there is an end to take.
    pub(super) fn is_finished(&self) -> bool {
        matches!(&self.stage, Stage::Measuring { measurement, .. } if measurement.is_finished())
    }

    /// What came of it, once it has begun; waits until it has ended.
    pub(super) fn finish(self) -> Option<EndedRun> {
        let InitiatedRun { granted, stage, .. } = self;
        let Stage::Measuring { began, utc, measurement } = stage else { return None };
        measurement.cancel();
        Some(EndedRun { granted, began, utc, measurement: measurement.finish() })
    }
}
