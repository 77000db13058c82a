//! One client's session, on its own thread.

use crate::opening::OpenClient;
use crate::shared::{Membership, Shared};
use crate::turn::{Refusal, Turn};
use crate::udp::canonical;
use kumade_net::clock;
use kumade_net::readiness::{Event, Readiness};
use kumade_transport::{Control, ControlError, within};
use kumade_units::{Span, Time};
use kumade_wire::{ClientMessage, ServerMessage, Version};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

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
pub(super) fn run(shared: &Shared, member: Membership, stream: TcpStream, client: OpenClient) {
    let peer = stream
        .peer_addr()
        .map_or_else(|_| "a disconnected client".to_owned(), |address| canonical(address).to_string());
    tracing::info!("{peer}: connected");
    let first = client.first;
    let session = Control::resume(stream, client.session).map_err(Ending::Control);
    let session = session.and_then(|control| Session::open(shared, member, control));
    match session.and_then(|session| session.serve(first)) {
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
    /// In the queue, and when to report the position again.
    Queued {
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
    fn open(
        shared: &'s Shared,
        member: Membership,
        control: Control<ClientMessage, ServerMessage>,
    ) -> Result<Self, Ending> {
        let readiness = Readiness::new().map_err(ControlError::Io)?;
        readiness.add_reader(control.stream(), CONTROL).map_err(ControlError::Io)?;
        readiness.add_reader(&*member.waker, WAKER).map_err(ControlError::Io)?;
        Ok(Session { shared, control, readiness, member, state: State::idle(), outside: 0 })
    }

    fn serve(mut self, first: ClientMessage) -> Result<(), Ending> {
        let result = self.answer(first).and_then(|()| self.answer_all());
        if let Err(Ending::Refused(why)) = &result {
            // A client that does not read must not hold up the others.
            self.member.leave();
            // The client may be gone already.
            let _ = self.control.send(&ServerMessage::Refused(why.clone()));
        }
        result
    }

    fn answer_all(&mut self) -> Result<(), Ending> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            self.check_ending()?;
            for event in events.drain(..) {
                match event.number {
                    // The counter only wakes: its value means nothing.
                    WAKER => drop(self.member.waker.read()),
                    _ => self.control.read_once()?,
                }
            }
            self.move_up()?;
            self.end_load()?;
            let deadline = self.check_timeouts()?;
            // One message at a time, so that timeouts are checked in between.
            match self.control.try_receive()? {
                Some(message) => self.answer(message)?,
                None => self.readiness.wait(&mut events, deadline).map_err(ControlError::Io)?,
            }
        }
    }

    /// Whether the session is to end: the server is being stopped, the turn has ended, or the client gives way to another.
    fn check_ending(&self) -> Result<(), Ending> {
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Err(Ending::Refused("the server is being stopped".into()));
        }
        self.member.ending().map_or(Ok(()), |why| Err(Ending::Refused(why)))
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
            State::Turn(turn) => Ok(turn.load_check().map_or(silent, |check| silent.min(check))),
        }
    }

    /// Reports a queued client's position, and begins its turn once it is first.
    fn move_up(&mut self) -> Result<(), Ending> {
        let State::Queued { again } = self.state else { return Ok(()) };
        match self.member.place() {
            Some(0) => {
                let turn = Turn::begin(&self.member, self.control.stream(), &self.shared.config);
                self.state = State::Turn(Box::new(turn.map_err(ControlError::Io)?));
                self.control.send(&ServerMessage::Turn)?;
            }
            Some(place) if clock::monotonic() >= again => {
                self.state = State::Queued { again: within(PLACE_INTERVAL) };
                self.control.send(&ServerMessage::Place(place as u32))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports what filled the path, once that has ended.
    fn end_load(&mut self) -> Result<(), Ending> {
        let State::Turn(turn) = &mut self.state else { return Ok(()) };
        let Some(ended) = turn.ended_load() else { return Ok(()) };
        self.member.report_working(false);
        self.control.expect_queue(false)?;
        Ok(self.control.send(&ended)?)
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
                    self.state = State::Queued { again: clock::monotonic() };
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
        if turn.is_loading() {
            return Err(Ending::Refused("the path is being filled".into()));
        }
        let member = &self.member;
        let local = self.control.stream().local_addr().map_err(ControlError::Io)?;
        let version = self.control.version();
        let one = |answer| vec![answer];
        let answers = member.working(|| match message {
            ClientMessage::ProveUdp(nonce) => turn.prove_udp(member, local, nonce).map(one),
            ClientMessage::AwaitConnections { transport, first, expected, wait, header } => {
                turn.await_connections(transport, (first, expected), wait, header).map(one)
            }
            ClientMessage::Receive { number, train, timeout } => turn.receive(number, &train, timeout).map(one),
            ClientMessage::Send { number, train } => turn.send(number, &train, version),
            ClientMessage::Load { .. } if version < Version::LOAD => {
                Err(Refusal("this version of the protocol has no load".into()))
            }
            ClientMessage::Load { direction, first, expected, wait, duration } => {
                turn.load(direction, (first, expected), wait, duration).map(one)
            }
            ClientMessage::Ping | ClientMessage::AskClock | ClientMessage::Enter | ClientMessage::Leave => {
                Ok(Vec::new())
            }
        })?;
        let is_loading = turn.is_loading();
        // The end of the session aborts the train: that is not a failure of the path.
        self.check_ending()?;
        // The client sends no messages during a long train.
        self.control.touch();
        if is_loading {
            self.member.report_working(true);
            self.control.expect_queue(true)?;
        }
        Ok(answers.iter().try_for_each(|answer| self.control.send(answer))?)
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
