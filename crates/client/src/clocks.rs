//! The maximum error of this host's clock, from the kernel and NTP servers.

use crate::cancel::StopCondition;
use crate::error::Error;
use crate::family::Family;
use crate::resolve::resolve;
use kumade_measurement::Clocks;
use kumade_measurement::report::Warning;
use kumade_net::SocketBinding;
use kumade_net::clock;
use kumade_net::platform::datagram;
use kumade_net::platform::readiness;
use kumade_probe_train::ClockError;
use kumade_transport::{MAX_STAMP_SCATTER, deadline_after, measure_stamp_scatter};
use kumade_units::{Span, Time};
use kumade_wire::ntp;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Requests to an NTP server: the one with the shortest round trip gives the tightest bound.
const REQUESTS_PER_SERVER: usize = 4;
/// Timeout of all of them together.
const NTP_TIMEOUT: Span = Span::from_secs(1);

/// Maximum age of a clock error that is used without asking again: it grows by at most 0.5 ms in that time.
const MAX_READING_AGE: Span = Span::from_secs(1);

/// An NTP server that is asked for the error of this host's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NtpServer {
    /// A name or an address.
    pub host: String,
    /// UDP port; [`NtpServer::PORT`] by default.
    pub port: u16,
}

impl NtpServer {
    /// The port of NTP (123).
    pub const PORT: u16 = ntp::PORT;
}

/// The error of this host's clock, and whether NTP servers can be asked again.
#[derive(Debug, Default)]
pub(crate) struct HostClocks {
    /// Without the peer's clock.
    pub(crate) clocks: Clocks,
    is_any_unreachable: bool,
}

/// By how much the stamps of this host scatter; the most where that can't be measured.
pub(crate) fn stamp_scatter() -> Span {
    let scatter = measure_stamp_scatter().unwrap_or_else(|error| {
        tracing::warn!("by how much the time stamps of this host scatter is not known ({error}): the most is assumed");
        MAX_STAMP_SCATTER
    });
    tracing::debug!("stamps of this host scatter by {scatter}");
    scatter
}

/// Asks this host's kernel, and the NTP servers that are given.
pub(crate) fn read_host_clocks(servers: &[NtpServer], limit: &StopCondition) -> Result<HostClocks, Error> {
    let mut known = HostClocks::default();
    let mut answers = Vec::new();
    for server in servers {
        let answer = known.query_server(server, limit)?;
        answers.extend(answer.map(|error| (error, clock::realtime())));
    }
    let now = clock::realtime();
    let kernel = clock::maximum_error().map(ClockError::within_error);
    let sources: Vec<ClockError> =
        kernel.into_iter().chain(answers.into_iter().map(|(error, at)| error.aged(now - at))).collect();
    known.clocks.measured_at = now;
    known.clocks.near = ClockError::agreed_error(&sources);
    if known.clocks.near.is_none() && !sources.is_empty() {
        known.clocks.warnings.push(Warning::ClockSourcesDisagree);
        known.clocks.near = ClockError::union(&sources);
    }
    Ok(known)
}

impl HostClocks {
    /// Asks again if the errors are older than [`MAX_READING_AGE`], unless a server has not answered.
    pub(crate) fn refreshed(self, servers: &[NtpServer], limit: &StopCondition) -> Result<Self, Error> {
        let is_fresh = (Span::ZERO..MAX_READING_AGE).contains(&(clock::realtime() - self.clocks.measured_at));
        if is_fresh || self.is_any_unreachable { Ok(self) } else { read_host_clocks(servers, limit) }
    }

    /// The clock error by the server; adds a warning if it gives none.
    fn query_server(
        &mut self,
        NtpServer { host, port }: &NtpServer,
        limit: &StopCondition,
    ) -> Result<Option<ClockError>, Error> {
        match query_any(&resolve(host, *port, Family::Any, limit)?) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => {
                self.is_any_unreachable = true;
                self.clocks.warnings.push(Warning::NtpServerUnusable(host.clone(), error.to_string()));
                Ok(None)
            }
        }
    }
}

/// What the first of an NTP server's addresses says that answers.
fn query_any(addresses: &[SocketAddr]) -> io::Result<ClockError> {
    let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        outcome = query_address(*address);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// This host's clock error by all answers of an NTP server together.
fn query_address(address: SocketAddr) -> io::Result<ClockError> {
    let socket = datagram::connect(&[address], &SocketBinding::default())?;
    let deadline = deadline_after(NTP_TIMEOUT);
    let mut known: Option<(ClockError, Time)> = None;
    for _ in 0..REQUESTS_PER_SERVER {
        let answer = match query_once(&socket, deadline) {
            Ok(answer) => answer,
            // One answer suffices.
            Err(_) if known.is_some() => break,
            Err(error) => return Err(error),
        };
        let now = clock::realtime();
        let together = known.map_or(Some(answer), |(so_far, at)| so_far.aged(now - at).intersect(answer));
        known = Some((together.ok_or_else(|| io::Error::other("its answers contradict each other"))?, now));
    }
    known.map(|(error, _)| error).ok_or_else(|| io::ErrorKind::TimedOut.into())
}

fn query_once(socket: &UdpSocket, deadline: Time) -> io::Result<ClockError> {
    let mut stamp = [0; 8];
    getrandom::fill(&mut stamp).map_err(io::Error::other)?;
    let asked = clock::realtime();
    socket.send(&ntp::encode_request(stamp))?;
    let mut buffer = [0; 512];
    while clock::monotonic() < deadline && readiness::wait_readable(socket, deadline)? {
        let answer = datagram::receive(socket, &mut buffer)?;
        let heard = answer.stamp.unwrap_or_else(clock::realtime);
        match ntp::clock_error(&buffer[..answer.len], stamp, asked, heard) {
            Err(ntp::NtpError::UnrelatedPacket) => {}
            known => return known.map_err(io::Error::other),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"))
}
