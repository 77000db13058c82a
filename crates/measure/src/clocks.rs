//! What is known of both ends' clocks.

use crate::client::{Error, Family, resolve};
use crate::control::within;
use estimate::delay::Reference;
use net::datagram;
use net::{clock, readiness};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use train::ClockError;
use units::{Span, Time};
use wire::ntp;

/// Questions to an NTP server: the quickest answer tells most.
const QUESTIONS: usize = 4;
/// What all of them may take together.
const PATIENCE: Span = Span::from_secs(1);

/// What is known is used as it is for so long: it has become worse by half a millisecond at most.
const FRESH: Span = Span::from_secs(1);

/// The clock of a host's stamps.
#[derive(Debug, Clone, Copy)]
pub enum HostClock {
    /// The system's.
    System,
    /// One that is wrong in a known way: what experiments on one host need.
    Simulated {
        /// By how much it is ahead of the system's at `since`.
        offset: Span,
        /// How much faster it runs, as a part.
        skew: f64,
        /// When it showed `offset`, by the system's.
        since: Time,
        /// By how much it says that it may be wrong; none for a clock that nobody keeps.
        maximum_error: Option<Span>,
    },
}

impl HostClock {
    /// What it shows when the system's shows `at`.
    pub(crate) fn show(&self, at: Time) -> Time {
        match *self {
            HostClock::System => at,
            HostClock::Simulated { offset, skew, since, .. } => {
                at + offset + Span::from_secs_f64((at - since).as_secs_f64() * skew)
            }
        }
    }

    /// By how much it may be wrong, by its own word.
    pub(crate) fn maximum_error(&self) -> Option<Span> {
        match *self {
            HostClock::System => clock::maximum_error(),
            HostClock::Simulated { maximum_error, .. } => maximum_error,
        }
    }
}

/// An NTP server to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NtpServer {
    /// A name or an address.
    pub host: String,
    /// 123 unless told otherwise.
    pub port: u16,
}

impl NtpServer {
    /// Where NTP servers answer.
    pub const PORT: u16 = ntp::PORT;
}

/// What is known of both clocks, and what a reader should know of that.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// When it was asked for, by this host's clock.
    at: Time,
    pub(crate) near: Option<ClockError>,
    pub(crate) far: Option<ClockError>,
    is_server_silent: bool,
    pub(crate) warnings: Vec<String>,
}

impl Known {
    /// Asks this host's kernel, and an NTP server if there is one to ask.
    pub(crate) fn of_this_host(server: Option<&NtpServer>) -> Result<Self, Error> {
        let mut known = Known::default();
        let asked = server.map(|server| known.ask(server)).transpose()?.flatten();
        let kernel = clock::maximum_error().map(ClockError::within);
        known.at = clock::realtime();
        known.near = match (kernel, asked) {
            (Some(kernel), Some(asked)) => Some(kernel.and(asked).unwrap_or_else(|| {
                let text = "the kernel's and the NTP server's word on this host's clock differ: took the server's";
                known.warnings.push(text.into());
                asked
            })),
            (kernel, asked) => kernel.or(asked),
        };
        Ok(known)
    }

    /// The same in a while: what has aged is asked for anew, but not of a server that told nothing.
    pub(crate) fn refreshed(self, server: Option<&NtpServer>) -> Result<Self, Error> {
        let is_fresh = (Span::ZERO..FRESH).contains(&(clock::realtime() - self.at));
        if is_fresh || self.is_server_silent { Ok(self) } else { Known::of_this_host(server) }
    }

    /// What the server tells; where it tells nothing, that is a warning.
    fn ask(&mut self, NtpServer { host, port }: &NtpServer) -> Result<Option<ClockError>, Error> {
        match ask(&resolve(host, *port, Family::Any)?) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => {
                self.is_server_silent = true;
                self.warnings.push(format!("the NTP server {host} tells nothing: {error}"));
                Ok(None)
            }
        }
    }

    /// What follows for the offset between both clocks at these moments.
    pub(crate) fn references(&self, moments: [Time; 2]) -> Vec<Reference> {
        let (Some(near), Some(far)) = (self.near, self.far) else { return Vec::new() };
        let reference = |at| {
            let age = at - self.at;
            Reference::between(at, near.aged(age), far.aged(age))
        };
        moments.into_iter().map(reference).collect()
    }

    /// By how much this host's clock may be wrong either way.
    pub(crate) fn near_error(&self) -> Option<Span> {
        self.near.map(|error| error.high.max(-error.low))
    }

    /// By how much the far clock may be.
    pub(crate) fn far_error(&self) -> Option<Span> {
        self.far.map(|error| error.high.max(-error.low))
    }
}

/// What an NTP server's answers tell together of this host's clock.
fn ask(addresses: &[SocketAddr]) -> io::Result<ClockError> {
    let socket = datagram::connect(addresses)?;
    let deadline = within(PATIENCE);
    let mut known: Option<(ClockError, Time)> = None;
    for _ in 0..QUESTIONS {
        let answer = match ask_once(&socket, deadline) {
            Ok(answer) => answer,
            // One answer suffices.
            Err(_) if known.is_some() => break,
            Err(error) => return Err(error),
        };
        let now = clock::realtime();
        let together = known.map_or(Some(answer), |(so_far, at)| so_far.aged(now - at).and(answer));
        known = Some((together.ok_or_else(|| io::Error::other("its answers contradict each other"))?, now));
    }
    known.map(|(error, _)| error).ok_or_else(|| io::ErrorKind::TimedOut.into())
}

fn ask_once(socket: &UdpSocket, deadline: Time) -> io::Result<ClockError> {
    let mut stamp = [0; 8];
    getrandom::fill(&mut stamp).map_err(io::Error::other)?;
    let asked = clock::realtime();
    socket.send(&ntp::question(stamp))?;
    let mut buffer = [0; 512];
    while clock::monotonic() < deadline && readiness::readable(socket, deadline)? {
        let answer = datagram::receive(socket, &mut buffer)?;
        let heard = answer.stamp.unwrap_or_else(clock::realtime);
        match ntp::clock_error(&buffer[..answer.len], stamp, asked, heard) {
            Err(ntp::NtpError::Foreign) => {}
            known => return known.map_err(io::Error::other),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"))
}
