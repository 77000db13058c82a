//! The end of measurements that answers: STAMP all day, trains only while a grant is held.

use super::train_budget::TrainBudget;
use kumade_client::PresharedKey;
use kumade_planner::Token;
use kumade_serve::{Reflector, ReflectorConfig, Server, ServerConfig};
use kumade_units::Span;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Work on a thread of its own. Dropping it ends it, and waits until it has ended: some 100 ms.
#[derive(Debug)]
struct Stoppable {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stoppable {
    fn start(name: &str, work: impl FnOnce(&AtomicBool) + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || work(&stopped))?;
        Ok(Stoppable { stop, thread: Some(thread) })
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A panic there has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Answers the light probes of others.
#[derive(Debug)]
pub(super) struct RunningReflector(#[expect(dead_code, reason = "it is there to be dropped")] Stoppable);

impl RunningReflector {
    /// # Errors
    /// The port is in use, or takes privileges.
    pub(super) fn start(port: u16, key: PresharedKey) -> Result<Self, String> {
        let listen = Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        let reflector = Reflector::bind(&ReflectorConfig { listen, key: Some(key), ..ReflectorConfig::default() })
            .map_err(|error| format!("{error}; choose another port with stamp-port = PORT in [monitor]"))?;
        let work = move |stop: &AtomicBool| {
            if let Err(error) = reflector.run(stop) {
                tracing::error!("the STAMP reflector: {error}");
            }
        };
        Stoppable::start("stamp", work).map(RunningReflector).map_err(|error| error.to_string())
    }
}

/// Answers the measurement of one grant: whoever has its key, as long as this lives.
#[derive(Debug)]
pub(super) struct AnsweredRun {
    /// Of its grant.
    pub(super) token: Token,
    _server: Stoppable,
}

impl AnsweredRun {
    /// It is to be dropped in time: then nothing is answered any more.
    ///
    /// # Errors
    /// The port is in use, or takes privileges.
    pub(super) fn start(
        token: Token,
        port: u16,
        key: PresharedKey,
        within: Span,
        budget: &TrainBudget,
    ) -> Result<Self, String> {
        let mut config = ServerConfig {
            listen: Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
            clients: vec![budget.client(key)],
            usage: Some(budget.usage()),
            ..ServerConfig::default()
        };
        config.limits.turn = config.limits.turn.min(within);
        let server = Server::bind(config)
            .map_err(|error| format!("{error}; choose another port with port = PORT in [monitor]"))?;
        let work = move |stop: &AtomicBool| {
            if let Err(error) = server.run(stop) {
                tracing::error!("the server of measurements: {error}");
            }
        };
        let server = Stoppable::start("serve", work).map_err(|error| error.to_string())?;
        Ok(AnsweredRun { token, _server: server })
    }
}
