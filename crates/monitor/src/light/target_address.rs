//! The address of a target: looked up until the name has one, and again when it does not answer.

use kumade_net::interface::Family;
use kumade_net::{ResolvedHost, ScopedAddress};
use kumade_units::{Span, Time};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

/// A target by its name.
#[derive(Debug)]
pub(super) struct TargetAddress {
    host: String,
    port: u16,
    family: Option<Family>,
    state: LookUp,
}

#[derive(Debug)]
enum LookUp {
    /// Not before then.
    Due(Time),
    Running(Receiver<Result<ResolvedHost, String>>),
    Found(ResolvedHost),
}

/// Between look-ups of a name that leads nowhere.
const RETRY_INTERVAL: Span = Span::from_secs(10);

impl TargetAddress {
    pub(super) fn new(host: &str, port: u16, family: Option<Family>) -> Self {
        // What is an address needs nobody's answer.
        let known =
            ScopedAddress::parse_with_port(host).ok().map(|(address, _)| LookUp::Found(address.with_port(port).into()));
        let mut target = TargetAddress { host: host.to_owned(), port, family, state: LookUp::Due(Time::ZERO) };
        target.state = known.unwrap_or_else(|| target.start_look_up(Time::ZERO));
        target
    }

    /// The address to use now; none where it is not known yet, with the reason where a look-up has just failed.
    pub(super) fn resolve(&mut self, now: Time) -> Result<Option<SocketAddr>, String> {
        match &self.state {
            LookUp::Found(host) => return Ok(Some(host.address())),
            LookUp::Due(time) if now < *time => {}
            LookUp::Due(_) => self.state = self.start_look_up(now),
            LookUp::Running(answer) => match answer.try_recv() {
                Ok(Ok(host)) => {
                    let address = host.address();
                    self.state = LookUp::Found(host);
                    return Ok(Some(address));
                }
                Ok(Err(reason)) => {
                    self.state = LookUp::Due(now + RETRY_INTERVAL);
                    return Err(reason);
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.state = LookUp::Due(now + RETRY_INTERVAL),
            },
        }
        Ok(None)
    }

    /// It has answered there, or has not for some time.
    pub(super) fn record(&self, address: SocketAddr, has_answered: bool, now: Time) {
        match &self.state {
            LookUp::Found(host) if has_answered => host.record_answer(address),
            LookUp::Found(host) => host.record_failure(address, now),
            _ => {}
        }
    }

    fn start_look_up(&self, now: Time) -> LookUp {
        let (host, port, family) = (self.host.clone(), self.port, self.family);
        let (answer, result) = mpsc::channel();
        let look_up = move || {
            let found = ResolvedHost::resolve(&host, port, family);
            // Nobody waits any more where the target has been removed.
            let _ = answer.send(found.map_err(|error| format!("cannot look up {host}: {error}")));
        };
        match thread::Builder::new().name("resolver".into()).spawn(look_up) {
            Ok(_) => LookUp::Running(result),
            Err(_) => LookUp::Due(now + RETRY_INTERVAL),
        }
    }
}
