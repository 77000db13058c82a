//! TCP connections that fill the path, and the round trips of messages on the control connection before and meanwhile.

use crate::error::Error;
use crate::open;
use crate::peer::Peer;
use kumade_measurement::{LoadRecord, LoadRequest};
use kumade_net::{Binding, clock};
use kumade_transport::{ControlError, LoadRole, TcpLoad, within};
use kumade_units::{Direction, Span, Time};
use kumade_wire::{ClientMessage, ServerMessage, Version};
use std::collections::VecDeque;
use std::net::TcpStream;

/// Interval of the messages.
const PING_INTERVAL: Span = Span::from_millis(50);
/// How long to time them before the load.
const IDLE_TIME: Span = Span::from_secs(1);
/// How long to wait for the last answers: slow lines have queues of many seconds.
const LAST_ANSWERS_TIMEOUT: Span = Span::from_secs(15);
const DOING: &str = "filling the path";

/// Carries out a load.
///
/// # Errors
/// If the server can't, or the control connection fails.
pub(crate) fn carry(peer: &mut Peer, binding: &Binding, request: &LoadRequest) -> Result<LoadRecord, Error> {
    if peer.version() < Version::LOAD {
        return Err(Error::CannotLoad { address: peer.address, version: peer.version() });
    }
    peer.settle()?;
    peer.expect_queue(true, DOING)?;
    let mut idle = Pings::new(peer);
    idle.send_until(within(IDLE_TIME))?;
    let idle = idle.finish(false)?.0;
    let streams = open(peer, binding, request)?;
    let connections = streams.len() as u32;
    let role = if request.direction == Direction::Up { LoadRole::Send } else { LoadRole::Receive };
    let address = peer.address;
    let began = clock::monotonic();
    let load = TcpLoad::begin(streams, role, request.duration, u64::MAX).map_err(|cause| Error::Transport {
        address,
        cause: kumade_transport::Error::Io { operation: "fill the path to", peer: address, cause },
    })?;
    let mut pings = Pings::new(peer);
    pings.send_until(load.until())?;
    let received = load.end();
    let (loaded, received_there) = pings.finish(true)?;
    peer.expect_queue(false, DOING)?;
    Ok(LoadRecord {
        connections,
        idle: idle.into_iter().map(|(_, round_trip)| round_trip).collect(),
        loaded: loaded.into_iter().map(|(sent, round_trip)| (sent - began, round_trip)).collect(),
        bytes: if request.direction == Direction::Up { received_there } else { received },
        interval: TcpLoad::COUNT_INTERVAL,
    })
}

/// Opens the connections, and has the server begin.
fn open(peer: &mut Peer, binding: &Binding, request: &LoadRequest) -> Result<Vec<TcpStream>, Error> {
    let &LoadRequest { direction, connections, first, duration } = request;
    let opened = open::connections(peer, binding, (connections, first), Span::ZERO)?;
    let streams: Vec<_> = opened.streams.into_iter().map(|(_, stream)| stream).collect();
    let (expected, wait) = (streams.len() as u32, peer.round_trip + open::PREAMBLE_TIMEOUT);
    // This end is the first to stop, by resetting the connections.
    let duration = duration + peer.round_trip * 2;
    let question = ClientMessage::Load { direction, first, expected, wait, duration };
    match peer.ask(&question, wait + open::ANSWER_TIMEOUT, DOING)? {
        ServerMessage::LoadBegins { connections } if connections > 0 => Ok(streams),
        ServerMessage::LoadBegins { .. } => {
            let why = "they were refused, or closed after opening".to_owned();
            let (address, requested) = (peer.address, request.connections);
            Err(Error::TooFewConnections { address, opened: 0, requested, needed: 1, why })
        }
        _ => Err(peer.unexpected(DOING)),
    }
}

/// When a message was sent, and its round trip.
type Answered = (Time, Span);

/// Messages that are answered at once, sent at regular times whether those before have been answered or not.
struct Pings<'p> {
    peer: &'p mut Peer,
    /// When those that have not been answered were sent.
    awaited: VecDeque<Time>,
    /// The others.
    answered: Vec<Answered>,
    /// The server's record of the load, once it has ended.
    ended: Option<Vec<u64>>,
}

impl<'p> Pings<'p> {
    fn new(peer: &'p mut Peer) -> Self {
        Pings { peer, awaited: VecDeque::new(), answered: Vec::new(), ended: None }
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
                self.peer.tell(&ClientMessage::Ping, DOING)?;
                self.awaited.push_back(now);
                next += PING_INTERVAL;
            }
            self.hear(next.min(until))?;
        }
    }

    /// Takes one message, if it comes by then.
    fn hear(&mut self, until: Time) -> Result<(), Error> {
        match self.peer.hear_any(until, DOING)? {
            None => {}
            Some(ServerMessage::Pong) => {
                let now = clock::monotonic();
                self.answered.extend(self.awaited.pop_front().map(|sent| (sent, now - sent)));
            }
            Some(ServerMessage::LoadEnded { bytes }) => self.ended = Some(bytes),
            Some(_) => return Err(self.peer.unexpected(DOING)),
        }
        Ok(())
    }

    /// Waits for the answers that are still to come, and for the end of the load, if there is one. Returns them, with the times for
    /// which those that did not come were waited, and the server's record of the load.
    fn finish(mut self, has_load: bool) -> Result<(Vec<Answered>, Vec<u64>), Error> {
        let end = within(LAST_ANSWERS_TIMEOUT);
        while (!self.awaited.is_empty() || (has_load && self.ended.is_none())) && clock::monotonic() < end {
            self.hear(end)?;
        }
        if has_load && self.ended.is_none() {
            return Err(Error::lost(self.peer.address, DOING)(ControlError::TimedOut));
        }
        let now = clock::monotonic();
        self.answered.extend(self.awaited.drain(..).map(|sent| (sent, now - sent)));
        Ok((self.answered, self.ended.unwrap_or_default()))
    }
}
