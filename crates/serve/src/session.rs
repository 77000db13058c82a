//! One client's session, on its own thread.

use crate::shared::{Membership, Shared};
use crate::turn::{Refusal, Turn};
use crate::udp::canonical;
use net::clock;
use net::readiness::{Event, Readiness};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use transport::{Control, ControlError, within};
use units::{Span, Time};
use wire::{ClientMessage, ServerMessage, ServerSession};

/// Maximum time without a message from the client.
const SILENCE_TIMEOUT: Span = Span::from_secs(10);
/// Maximum time in which a client neither measures nor queues.
const IDLE_TIMEOUT: Span = Span::from_secs(30);
/// Interval between reports of a queued client's position.
const PLACE_INTERVAL: Span = Span::from_secs(1);
/// Maximum number of messages of a client outside its turn.
const MAX_MESSAGES_OUTSIDE_TURN: u32 = 10_000;

const CONTROL: u32 = 0;
const WAKER: u32 = 1;

/// Serves the client until it leaves, its connection fails, or a request is refused.
pub(super) fn run(shared: &Shared, member: Membership, stream: TcpStream) {
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "a disconnected client".to_owned(), |address| canonical(address).to_string());
    tracing::info!("{peer}: connected");
    match Session::open(shared, member, stream).and_then(Session::serve) {
        Ok(()) | Err(Ending::Control(ControlError::Closed)) => tracing::info!("{peer}: left"),
        Err(Ending::Control(error)) => tracing::info!("{peer}: disconnected: {error}"),
        Err(Ending::Refused(why)) => tracing::info!("{peer}: refused: {why}"),
    }
}

enum Ending {
    Control(ControlError),
    Refused(String),
}

struct Session<'s> {
    shared: &'s Shared,
    control: Control<ClientMessage, ServerMessage>,
    readiness: Readiness,
    member: Membership,
    state: State,
    outside: u32,
}

enum State {
    /// Neither measuring nor queued, which is limited in time.
    Idle {
        until: Time,
    },
    /// In the queue: the position reported last, and when to report it again.
    Queued {
        told: usize,
        again: Time,
    },
    Turn(Box<Turn>),
}

impl State {
    fn idle() -> Self {
        State::Idle { until: within(IDLE_TIMEOUT) }
    }
}

impl<'s> Session<'s> {
    fn open(shared: &'s Shared, member: Membership, stream: TcpStream) -> Result<Self, Ending> {
        let mut control = Control::begin(stream, ServerSession::server(shared.config.key.as_ref()))?;
        control.open(within(SILENCE_TIMEOUT))?;
        control.send(&ServerMessage::Welcome { token: member.token, limits: shared.config.limits })?;
        let readiness = Readiness::new().map_err(ControlError::Io)?;
        readiness.add_reader(control.stream(), CONTROL).map_err(ControlError::Io)?;
        readiness.add_reader(&*member.waker, WAKER).map_err(ControlError::Io)?;
        Ok(Session { shared, control, readiness, member, state: State::idle(), outside: 0 })
    }

    fn serve(mut self) -> Result<(), Ending> {
        let result = self.answer_all();
        if let Err(Ending::Refused(why)) = &result {
            // The client may be gone already.
            let _ = self.control.send(&ServerMessage::Refused(why.clone()));
        }
        result
    }

    fn answer_all(&mut self) -> Result<(), Ending> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            self.check_stopping()?;
            for event in events.drain(..) {
                match event.number {
                    // The counter only wakes: its value means nothing.
                    WAKER => drop(self.member.waker.read()),
                    _ => self.control.read_once()?,
                }
            }
            self.move_up()?;
            let deadline = self.check_timeouts()?;
            // One message at a time, so that timeouts are checked in between.
            match self.control.try_receive()? {
                Some(message) => self.answer(message)?,
                None => self.readiness.wait(&mut events, deadline).map_err(ControlError::Io)?,
            }
        }
    }

    fn check_stopping(&self) -> Result<(), Ending> {
        let stopping = self.shared.stopping.load(Ordering::SeqCst);
        if stopping { Err(Ending::Refused("the server is being stopped".into())) } else { Ok(()) }
    }

    /// Checks the timeouts; returns the time of the next check.
    fn check_timeouts(&self) -> Result<Time, Ending> {
        let now = clock::monotonic();
        let silent = self.control.last_heard() + SILENCE_TIMEOUT;
        if now >= silent {
            return Err(Ending::Refused(format!("no message for {SILENCE_TIMEOUT}")));
        }
        match &self.state {
            State::Idle { until } if now >= *until => {
                Err(Ending::Refused(format!("no measurement for {IDLE_TIMEOUT}")))
            }
            State::Idle { until } => Ok(silent.min(*until)),
            State::Queued { again, .. } => Ok(silent.min(*again)),
            State::Turn(turn) if now >= turn.until() => {
                Err(Ending::Refused("the time limit of the turn is exceeded".into()))
            }
            State::Turn(turn) => Ok(silent.min(turn.until())),
        }
    }

    /// Reports a queued client's position, and begins its turn once it is first.
    fn move_up(&mut self) -> Result<(), Ending> {
        let State::Queued { told, again } = self.state else { return Ok(()) };
        match self.member.place() {
            Some(0) => {
                let turn = Turn::begin(&self.member, self.control.stream(), &self.shared.config);
                self.state = State::Turn(Box::new(turn.map_err(ControlError::Io)?));
                self.control.send(&ServerMessage::Turn)?;
            }
            Some(place) if place != told || clock::monotonic() >= again => {
                self.state = State::Queued { told: place, again: within(PLACE_INTERVAL) };
                self.control.send(&ServerMessage::Place(place as u32))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, message: ClientMessage) -> Result<(), Ending> {
        if !matches!(self.state, State::Turn(_)) {
            self.outside += 1;
            if self.outside > MAX_MESSAGES_OUTSIDE_TURN {
                return Err(Ending::Refused("too many messages".into()));
            }
        }
        match message {
            ClientMessage::Ping => self.control.send(&ServerMessage::Pong)?,
            ClientMessage::AskClock => {
                let maximum_error = self.shared.config.clock.maximum_error();
                self.control.send(&ServerMessage::Clock { maximum_error })?;
            }
            ClientMessage::Enter => {
                if matches!(self.state, State::Idle { .. }) {
                    self.member.enter();
                    self.state = State::Queued { told: usize::MAX, again: clock::monotonic() };
                }
            }
            ClientMessage::Leave => {
                self.state = State::idle();
                self.member.leave();
            }
            work => self.work(work)?,
        }
        Ok(())
    }

    /// Answers a message that is allowed only during the client's turn.
    fn work(&mut self, message: ClientMessage) -> Result<(), Ending> {
        let State::Turn(turn) = &mut self.state else {
            return Err(Ending::Refused("it is not your turn".into()));
        };
        let answer = match message {
            ClientMessage::ProveUdp(nonce) => {
                let local = self.control.stream().local_addr().map_err(ControlError::Io)?;
                turn.prove_udp(&self.member, local, nonce)
            }
            ClientMessage::AwaitConnections { transport, first, expected, wait } => {
                turn.await_connections(transport, first, expected, wait)
            }
            ClientMessage::Receive { number, train, timeout } => turn.receive(number, &train, timeout),
            ClientMessage::Send { number, train } => turn.send(number, &train),
            ClientMessage::Ping | ClientMessage::AskClock | ClientMessage::Enter | ClientMessage::Leave => {
                return Ok(());
            }
        }?;
        // Stopping the server aborts the train: that is not a failure of the path.
        self.check_stopping()?;
        // The client sends no messages during a long train.
        self.control.touch();
        Ok(self.control.send(&answer)?)
    }
}

impl From<ControlError> for Ending {
    fn from(error: ControlError) -> Self {
        Ending::Control(error)
    }
}

impl From<Refusal> for Ending {
    fn from(Refusal(why): Refusal) -> Self {
        Ending::Refused(why)
    }
}
