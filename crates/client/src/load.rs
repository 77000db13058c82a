//! TCP connections that fill the path, and the round trips of messages on the control connection before and meanwhile.

use crate::error::Error;
use crate::open;
use crate::server_connection::ServerConnection;
use kumade_measurement::{LoadRecord, LoadRequest};
use kumade_net::{SocketBinding, clock};
use kumade_transport::{ControlError, LoadRole, TcpLoad, deadline_after};
use kumade_units::{Direction, Span, Time};
use kumade_wire::{ClientMessage, ServerMessage, Version};
use std::collections::VecDeque;
use std::net::TcpStream;

/// Interval of the messages.
const PING_INTERVAL: Span = Span::from_millis(50);
/// How long to time them before the load.
const UNLOADED_PING_TIME: Span = Span::from_secs(1);
/// How long to wait for the last answers: slow lines have queues of many seconds.
const LAST_ANSWERS_TIMEOUT: Span = Span::from_secs(15);
const OPERATION: &str = "filling the path";

/// Carries out a load.
///
/// # Errors
/// If the server can't, or the control connection fails.
pub(crate) fn run_load(
    peer: &mut ServerConnection,
    binding: &SocketBinding,
    request: &LoadRequest,
) -> Result<LoadRecord, Error> {
    if peer.version() < Version::LOAD {
        return Err(Error::PathFillingUnsupported { address: peer.address, version: peer.version() });
    }
    peer.wait_for_drain()?;
    peer.set_path_loaded(true, OPERATION)?;
    let mut idle = Pings::new(peer);
    idle.send_until(deadline_after(UNLOADED_PING_TIME))?;
    let idle = idle.finish(false)?.0;
    let streams = open_streams(peer, binding, request)?;
    let connections = streams.len() as u32;
    let role = if request.direction == Direction::Up { LoadRole::Send } else { LoadRole::Receive };
    let address = peer.address;
    let began = clock::monotonic();
    let load = TcpLoad::begin(streams, role, request.duration, u64::MAX).map_err(|cause| Error::Transport {
        address,
        cause: kumade_transport::Error::Io { operation: "fill the path to", peer: address, cause },
    })?;
    let mut pings = Pings::new(peer);
    pings.send_until(load.end_time())?;
    let received = load.end();
    let (loaded, received_there) = pings.finish(true)?;
    peer.set_path_loaded(false, OPERATION)?;
    Ok(LoadRecord {
        connections,
        idle_round_trips: idle.into_iter().map(|(_, round_trip)| round_trip).collect(),
        loaded_round_trips: loaded.into_iter().map(|(sent, round_trip)| (sent - began, round_trip)).collect(),
        bytes_per_interval: if request.direction == Direction::Up { received_there } else { received },
        interval: TcpLoad::COUNT_INTERVAL,
    })
}

/// Opens the connections, and has the server begin.
fn open_streams(
    peer: &mut ServerConnection,
    binding: &SocketBinding,
    request: &LoadRequest,
) -> Result<Vec<TcpStream>, Error> {
    let &LoadRequest { direction, connections, first_connection: first, duration } = request;
    let opened = open::open_probe_connections(peer, binding, (connections, first), Span::ZERO)?;
    let streams: Vec<_> = opened.streams.into_iter().map(|(_, stream)| stream).collect();
    let (expected, wait) = (streams.len() as u32, peer.round_trip + open::PREAMBLE_TIMEOUT);
    // This end is the first to stop, by resetting the connections.
    let duration = duration + peer.round_trip * 2;
    let question = ClientMessage::Load { direction, first, expected, wait, duration };
    match peer.request(&question, wait + open::ANSWER_TIMEOUT, OPERATION)? {
        ServerMessage::LoadBegins { connections } if connections > 0 => Ok(streams),
        ServerMessage::LoadBegins { .. } => {
            let why = "they were refused, or closed after opening".to_owned();
            let (address, requested) = (peer.address, request.connections);
            Err(Error::TooFewConnections { address, opened: 0, requested, needed: 1, why })
        }
        _ => Err(peer.protocol_violation(OPERATION)),
    }
}

/// When a message was sent, and its round trip.
type PingSample = (Time, Span);

/// Messages that are answered at once, sent at regular times whether those before have been answered or not.
struct Pings<'p> {
    peer: &'p mut ServerConnection,
    /// When those that have not been answered were sent.
    outstanding: VecDeque<Time>,
    /// The others.
    samples: Vec<PingSample>,
    /// The server's record of the load, once it has ended.
    server_interval_bytes: Option<Vec<u64>>,
}

impl<'p> Pings<'p> {
    fn new(peer: &'p mut ServerConnection) -> Self {
        Pings { peer, outstanding: VecDeque::new(), samples: Vec::new(), server_interval_bytes: None }
    }

    /// Sends one at each interval until then, and takes the answers that come.
    fn send_until(&mut self, until: Time) -> Result<(), Error> {
        let mut next = clock::monotonic();
        loop {
            let now = clock::monotonic();
            if now >= until {
                return Ok(());
            }
            if now >= next {
                self.peer.send(&ClientMessage::Ping, OPERATION)?;
                self.outstanding.push_back(now);
                next += PING_INTERVAL;
            }
            self.receive_reply(next.min(until))?;
        }
    }

    /// Takes one message, if it comes by then.
    fn receive_reply(&mut self, until: Time) -> Result<(), Error> {
        match self.peer.receive_or_timeout(until, OPERATION)? {
            None => {}
            Some(ServerMessage::Pong) => {
                let now = clock::monotonic();
                self.samples.extend(self.outstanding.pop_front().map(|sent| (sent, now - sent)));
            }
            Some(ServerMessage::LoadEnded { bytes }) => self.server_interval_bytes = Some(bytes),
            Some(_) => return Err(self.peer.protocol_violation(OPERATION)),
        }
        Ok(())
    }

    /// Waits for the answers that are still to come, and for the end of the load, if there is one. Returns them, with the times for
    /// which those that did not come were waited, and the server's record of the load.
    fn finish(mut self, has_load: bool) -> Result<(Vec<PingSample>, Vec<u64>), Error> {
        let end = deadline_after(LAST_ANSWERS_TIMEOUT);
        while (!self.outstanding.is_empty() || (has_load && self.server_interval_bytes.is_none()))
            && clock::monotonic() < end
        {
            self.receive_reply(end)?;
        }
        if has_load && self.server_interval_bytes.is_none() {
            return Err(Error::connection_lost(self.peer.address, OPERATION)(ControlError::TimedOut));
        }
        let now = clock::monotonic();
        self.samples.extend(self.outstanding.drain(..).map(|sent| (sent, now - sent)));
        Ok((self.samples, self.server_interval_bytes.unwrap_or_default()))
    }
}
