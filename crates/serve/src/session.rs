//! One client's session, on its own thread.

use crate::access_log::{MeasurementRecord, MeasurementResult};
use crate::client_table::ClientAccount;
use crate::idle_flows::{FlowsPlace, IdleFlows, MAX_FLOWS};
use crate::measurement_turn::MeasurementTurn;
use crate::path_view;
use crate::server_state::{ClientRegistration, ServerState};
use crate::turn_limits::Refusal;
use crate::turn_ports::TurnPorts;
use crate::udp::to_canonical_address;
use crate::unidentified_connection::IdentifiedClient;
use kumade_daemon::Network;
use kumade_net::clock;
use kumade_net::readiness::{EpollSet, Event};
use kumade_transport::{ControlConnection, ControlError, deadline_after};
use kumade_units::{Span, Time};
use kumade_wire::{ClientMessage, IdleFlow, PathView, ServerMessage, Version};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum time without a message from the client, on paths whose round trip is short,
const SILENCE_TIMEOUT: Span = Span::from_secs(10);
/// and on any path.
const MAX_SILENCE_TIMEOUT: Span = Span::from_secs(20);
/// Maximum time in which a client neither measures nor queues.
const IDLE_TIMEOUT: Span = Span::from_secs(30);
/// Interval between reports of a queued client's position.
const POSITION_INTERVAL: Span = Span::from_secs(1);
/// Maximum number of messages of a client outside its turn.
const MAX_MESSAGES_OUTSIDE_TURN: u32 = 10_000;

/// What a version of the protocol may lack.
const IDLE_FLOWS: &str = "idle flows";

const CONTROL_EVENT: u32 = 0;
const WAKER_EVENT: u32 = 1;
/// Something has come at a port of the turn.
const PORTS_EVENT: u32 = 2;

/// Serves the client until it leaves, its connection fails, or a request is refused.
pub(super) fn serve_session(
    shared: &ServerState,
    member: ClientRegistration,
    stream: TcpStream,
    client: IdentifiedClient,
) {
    let Ok(peer) = stream.peer_addr().map(to_canonical_address) else { return };
    tracing::debug!("{peer}: connected");
    let IdentifiedClient { session, account, first_message: first, .. } = client;
    let session = ControlConnection::resume(stream, session).map_err(SessionEnd::ConnectionFailed);
    let session = session.and_then(|control| Session::open(shared, member, control, peer, account));
    match session.and_then(|session| session.serve(first)) {
        Ok(()) => tracing::debug!("{peer}: left"),
        Err(SessionEnd::ConnectionFailed(error)) => tracing::debug!("{peer}: disconnected: {error}"),
        Err(SessionEnd::Refused(why)) => tracing::debug!("{peer}: refused: {why}"),
    }
}

enum SessionEnd {
    ConnectionFailed(ControlError),
    Refused(String),
}

struct Session<'s> {
    shared: &'s ServerState,
    control: ControlConnection<ClientMessage, ServerMessage>,
    readiness: EpollSet,
    registration: ClientRegistration,
    peer: SocketAddr,
    /// Of a client that has a key of its own.
    account: Option<Arc<ClientAccount>>,
    state: SessionState,
    messages_outside_turn: u32,
    /// That of the control connection as it arrived; empty where it was not kept.
    syn: Vec<u8>,
    /// Flows that are idle, beyond the turn.
    idle_flows: Option<IdleFlows>,
}

enum SessionState {
    /// Neither measuring nor queued, which is limited in time.
    Idle {
        deadline: Time,
    },
    /// In the queue, and when to report the position again.
    Queued {
        next_report: Time,
    },
    Turn(Box<MeasurementTurn>),
}

impl SessionState {
    /// The turn, in which the path is not being filled.
    fn unloaded_turn(&mut self) -> Result<&mut MeasurementTurn, SessionEnd> {
        match self {
            SessionState::Turn(turn) if turn.is_loading() => {
                Err(SessionEnd::Refused("the path is being filled".into()))
            }
            SessionState::Turn(turn) => Ok(turn),
            _ => Err(SessionEnd::Refused("it is not your turn".into())),
        }
    }

    fn idle() -> Self {
        SessionState::Idle { deadline: deadline_after(IDLE_TIMEOUT) }
    }
}

impl<'s> Session<'s> {
    fn open(
        shared: &'s ServerState,
        member: ClientRegistration,
        control: ControlConnection<ClientMessage, ServerMessage>,
        peer: SocketAddr,
        account: Option<Arc<ClientAccount>>,
    ) -> Result<Self, SessionEnd> {
        let syn = path_view::take_saved_syn(control.stream());
        let readiness = EpollSet::new().map_err(ControlError::Io)?;
        readiness.add_reader(control.stream(), CONTROL_EVENT).map_err(ControlError::Io)?;
        readiness.add_reader(&*member.waker, WAKER_EVENT).map_err(ControlError::Io)?;
        Ok(Session {
            shared,
            control,
            readiness,
            registration: member,
            peer,
            account,
            state: SessionState::idle(),
            messages_outside_turn: 0,
            syn,
            idle_flows: None,
        })
    }

    fn serve(mut self, first: ClientMessage) -> Result<(), SessionEnd> {
        let result = self.handle_message(first).and_then(|()| self.handle_messages());
        match &result {
            Ok(()) => self.end_measurement(MeasurementResult::Complete, None),
            Err(SessionEnd::ConnectionFailed(ControlError::Closed)) => {
                self.end_measurement(MeasurementResult::Abandoned, None);
            }
            Err(SessionEnd::ConnectionFailed(error)) => {
                self.end_measurement(MeasurementResult::Failed, Some(error.to_string()));
            }
            Err(SessionEnd::Refused(why)) => self.end_measurement(MeasurementResult::Refused, Some(why.clone())),
        }
        if let Err(SessionEnd::Refused(why)) = &result {
            // A client that does not read must not hold up the others.
            self.registration.remove_client();
            // The client may be gone already.
            let _ = self.control.send(&ServerMessage::Refused(why.clone()));
        }
        result
    }

    /// Ends the turn, if there is one, and tells of it; also of a client that is refused before.
    fn end_measurement(&mut self, result: MeasurementResult, reason: Option<String>) {
        let mut record = match std::mem::replace(&mut self.state, SessionState::idle()) {
            SessionState::Turn(turn) => turn.end(),
            _ if result == MeasurementResult::Refused => self.new_record(),
            _ => return,
        };
        (record.result, record.reason) = (result, reason);
        self.shared.access_log.record_measurement(Network::containing(self.peer.ip()), record);
    }

    fn new_record(&self) -> MeasurementRecord {
        MeasurementRecord::new(self.account.as_ref().map(|account| account.name.as_str()), self.peer)
    }

    fn handle_messages(&mut self) -> Result<(), SessionEnd> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            self.check_ending()?;
            let mut is_at_ports = false;
            for event in events.drain(..) {
                match event.number {
                    // The counter only wakes: its value means nothing.
                    WAKER_EVENT => drop(self.registration.waker.read()),
                    PORTS_EVENT => is_at_ports = true,
                    _ => self.control.read_once()?,
                }
            }
            // Once for all of them: each time, all sockets are looked at.
            if is_at_ports {
                self.advance_ports();
            }
            self.advance_in_queue()?;
            self.advance_idle_flows();
            self.report_ended_load()?;
            let deadline = self.check_timeouts()?;
            // One message at a time, so that timeouts are checked in between.
            match self.control.try_receive()? {
                Some(message) => self.handle_message(message)?,
                None => self.readiness.wait(&mut events, deadline).map_err(ControlError::Io)?,
            }
        }
    }

    /// Whether the session is to end: the server is being stopped, the turn has ended, or the client gives way to another.
    fn check_ending(&self) -> Result<(), SessionEnd> {
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Err(SessionEnd::Refused("the server is being stopped".into()));
        }
        self.registration.ending_reason().map_or(Ok(()), |why| Err(SessionEnd::Refused(why)))
    }

    /// Checks the timeouts; returns the time of the next check.
    fn check_timeouts(&self) -> Result<Time, SessionEnd> {
        let now = clock::monotonic();
        let timeout = (SILENCE_TIMEOUT + self.control.timeout_allowance()).min(MAX_SILENCE_TIMEOUT);
        let silent = self.control.last_received() + timeout;
        if now >= silent {
            return Err(SessionEnd::Refused(format!("no message for {timeout}")));
        }
        let flows = self.idle_flows.as_ref();
        let next = match &self.state {
            SessionState::Idle { deadline } => {
                // Longer while flows are kept.
                let until = flows.map_or(*deadline, |flows| flows.end_time().max(*deadline));
                if now >= until {
                    return Err(SessionEnd::Refused(format!("no measurement for {IDLE_TIMEOUT}")));
                }
                Some(until)
            }
            SessionState::Queued { next_report: again, .. } => Some(*again),
            SessionState::Turn(turn) => turn.next_load_check(),
        };
        Ok([next, flows.map(IdleFlows::next_time)].into_iter().flatten().fold(silent, Time::min))
    }

    /// Sends what is due, and gives up flows whose time is over, whatever the client does meanwhile.
    fn advance_idle_flows(&mut self) {
        let now = clock::monotonic();
        self.idle_flows.take_if(|flows| flows.advance(now).is_break());
    }

    /// Reports a queued client's position, and begins its turn once it is first.
    fn advance_in_queue(&mut self) -> Result<(), SessionEnd> {
        let SessionState::Queued { next_report: again } = self.state else { return Ok(()) };
        match self.registration.queue_position() {
            Some(0) => {
                let account = self.account.clone();
                account.as_ref().map_or(Ok(()), |account| account.begin_measurement()).map_err(SessionEnd::Refused)?;
                let (config, record) = (&self.shared.config, self.new_record());
                let control = self.control.stream();
                let turn = MeasurementTurn::begin(&self.registration, control, config, account, record);
                self.state = SessionState::Turn(Box::new(turn.map_err(ControlError::Io)?));
                self.registration.set_idle_allowance(self.control.timeout_allowance());
                self.control.send(&ServerMessage::TurnBegins)?;
            }
            Some(place) if clock::monotonic() >= again => {
                self.state = SessionState::Queued { next_report: deadline_after(POSITION_INTERVAL) };
                self.control.send(&ServerMessage::QueuePosition(place as u32))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports what filled the path, once that has ended.
    fn report_ended_load(&mut self) -> Result<(), SessionEnd> {
        let SessionState::Turn(turn) = &mut self.state else { return Ok(()) };
        let Some(ended) = turn.take_ended_load() else { return Ok(()) };
        self.registration.report_working(false);
        self.control.set_path_loaded(false)?;
        Ok(self.control.send(&ended)?)
    }

    fn advance_ports(&mut self) {
        if let SessionState::Turn(turn) = &mut self.state {
            turn.advance_ports((&self.readiness, PORTS_EVENT));
        }
    }

    fn handle_message(&mut self, message: ClientMessage) -> Result<(), SessionEnd> {
        if matches!(self.state, SessionState::Turn(_)) {
            // The path's queue may have grown since.
            self.registration.set_idle_allowance(self.control.timeout_allowance());
        } else {
            self.messages_outside_turn += 1;
            if self.messages_outside_turn > MAX_MESSAGES_OUTSIDE_TURN {
                return Err(SessionEnd::Refused("too many messages".into()));
            }
        }
        match message {
            ClientMessage::Ping => self.control.send(&ServerMessage::Pong)?,
            ClientMessage::AskClock => {
                let maximum_error = self.shared.config.clock.maximum_error();
                self.control.send(&ServerMessage::Clock { maximum_error })?;
            }
            ClientMessage::AskPathView { destination } => {
                self.check_version(Version::PATH, "view of the path")?;
                let udp = if let SessionState::Turn(turn) = &self.state { turn.udp_path_view() } else { None };
                let tcp = path_view::tcp_path_view(self.control.stream(), destination, &self.syn).ok();
                self.control.send(&ServerMessage::PathView(Box::new(PathView { tcp, udp })))?;
            }
            ClientMessage::EnterQueue => {
                if matches!(self.state, SessionState::Idle { .. }) {
                    if let Some(account) = &mut self.account {
                        // Clients may have been replaced since.
                        let current = self.shared.clients().find_account_named(&account.name);
                        *account = current.ok_or_else(|| {
                            SessionEnd::Refused(format!("the client {} is not served any more", account.name))
                        })?;
                        account.check_measurement().map_err(SessionEnd::Refused)?;
                    }
                    self.registration.enter_queue();
                    self.state = SessionState::Queued { next_report: clock::monotonic() };
                }
            }
            ClientMessage::EndTurn => {
                self.end_measurement(MeasurementResult::Complete, None);
                self.state = SessionState::idle();
                self.registration.remove_client();
            }
            ClientMessage::EndFlows => {
                self.check_version(Version::PORTS, IDLE_FLOWS)?;
                let flows = self.idle_flows.take();
                if flows.is_some() && matches!(self.state, SessionState::Idle { .. }) {
                    // It has waited for them.
                    self.state = SessionState::idle();
                }
                let [udp, tcp] = flows.map(IdleFlows::end).unwrap_or_default();
                self.control.send(&ServerMessage::FlowRecords { udp, tcp })?;
            }
            ClientMessage::HoldFlows { udp, tcp, wait } => self.hold_flows(&udp, &tcp, wait)?,
            work => self.handle_turn_message(work)?,
        }
        Ok(())
    }

    /// Whether the version that both ends speak has this.
    fn check_version(&self, since: Version, what: &str) -> Result<(), SessionEnd> {
        match self.control.version() < since {
            true => Err(SessionEnd::Refused(format!("this version of the protocol has no {what}"))),
            false => Ok(()),
        }
    }

    /// Keeps flows of the client from now on.
    fn hold_flows(
        &mut self,
        udp: &[([u8; 16], IdleFlow)],
        tcp: &[(u16, IdleFlow)],
        wait: Span,
    ) -> Result<(), SessionEnd> {
        self.check_version(Version::PORTS, IDLE_FLOWS)?;
        let turn = self.state.unloaded_turn()?;
        let max_idle = self.shared.config.max_flow_idle;
        if max_idle == Span::ZERO {
            return Err(SessionEnd::Refused("this server keeps no idle flows (`kumade serve --max-flow-idle`)".into()));
        }
        if udp.len() + tcp.len() > MAX_FLOWS {
            return Err(SessionEnd::Refused(format!("more idle flows than {MAX_FLOWS}, which is the limit")));
        }
        let mut times = udp.iter().map(|(_, flow)| flow.idle).chain(tcp.iter().map(|(_, flow)| flow.idle));
        if !times.all(|idle| (Span::ZERO..=max_idle).contains(&idle)) {
            return Err(SessionEnd::Refused(format!(
                "flows that are idle for longer than {max_idle}, which is the limit (`kumade serve --max-flow-idle`)"
            )));
        }
        // Those before make room.
        self.idle_flows = None;
        let local = self.control.stream().local_addr().map_err(ControlError::Io)?;
        let member = &self.registration;
        let flows = member.while_working(|| turn.take_flows(member, local, udp, tcp, wait));
        let is_open = [0, 1].map(|kind: usize| flows[kind].iter().map(|(socket, _)| socket.is_some()).collect());
        let [mut udp, mut tcp]: [Vec<bool>; 2] = is_open;
        // A client without a flow takes no place from others.
        if udp.iter().chain(&tcp).any(|is_open| *is_open) {
            let network = Network::containing(self.peer.ip());
            match FlowsPlace::take(&self.shared.idle_flow_networks, network) {
                Some(place) => {
                    let version = self.control.version();
                    self.idle_flows = Some(IdleFlows::begin(flows, member.credential, version, place));
                }
                None => {
                    tracing::debug!("{}: no idle flows, since others' take all places", self.peer);
                    udp.iter_mut().chain(&mut tcp).for_each(|is_held| *is_held = false);
                }
            }
        }
        Ok(self.control.send(&ServerMessage::FlowsHeld { udp, tcp })?)
    }

    /// Answers a message that is allowed only during the client's turn.
    fn handle_turn_message(&mut self, message: ClientMessage) -> Result<(), SessionEnd> {
        match &message {
            ClientMessage::Load { .. } => self.check_version(Version::LOAD, "load")?,
            ClientMessage::ReceiveMarked { .. } | ClientMessage::SendMarked { .. } | ClientMessage::AskSyns { .. } => {
                self.check_version(Version::PATH, "marked packets and SYNs")?;
            }
            ClientMessage::OpenPorts { .. } | ClientMessage::AskPortArrivals | ClientMessage::SendFromPort { .. } => {
                self.check_version(Version::PORTS, "further ports")?
            }
            ClientMessage::ReceiveDsFields { .. } | ClientMessage::SendDsFields { .. } => {
                self.check_version(Version::DS_FIELDS, "trains with a DSCP and ECN codepoint of each packet")?;
            }
            ClientMessage::TraceHops { .. } => self.check_version(Version::HOP_TRACES, "packets for routers")?,
            _ => {}
        }
        let turn = self.state.unloaded_turn()?;
        let member = &self.registration;
        let local = self.control.stream().local_addr().map_err(ControlError::Io)?;
        let version = self.control.version();
        let one = |answer| vec![answer];
        let (config, watch) = (&self.shared.config, (&self.readiness, PORTS_EVENT));
        let peer = self.peer;
        let answers = member.while_working(|| match message {
            ClientMessage::ProveUdp(nonce) => turn.prove_udp(member, local, nonce).map(one),
            ClientMessage::AwaitConnections { transport, first, expected, wait, header } => {
                turn.await_connections(transport, (first, expected), wait, header).map(one)
            }
            ClientMessage::Receive { number, train, timeout } => turn.receive(number, &train, timeout).map(one),
            ClientMessage::Send { number, train } => turn.send(number, &train, version),
            ClientMessage::ReceiveMarked { number, train, timeout } => {
                turn.receive_marked(number, &train, timeout).map(one)
            }
            ClientMessage::AskSyns { first, expected, wait } => turn.collect_syns(first, expected, wait).map(one),
            ClientMessage::SendMarked { number, train } => turn.send_marked(number, &train).map(one),
            ClientMessage::ReceiveDsFields { number, train, timeout } => {
                turn.receive_ds_fields(number, &train, timeout).map(one)
            }
            ClientMessage::SendDsFields { number, train } => turn.send_ds_fields(number, &train).map(one),
            ClientMessage::TraceHops { number, trace, flows } => {
                turn.trace_hops(member, local, number, &trace, &flows).map(one)
            }
            ClientMessage::Load { direction, first, expected, wait, duration } => {
                turn.begin_load(direction, (first, expected), wait, duration).map(one)
            }
            ClientMessage::OpenPorts { ports } => {
                let new = || TurnPorts::new([local, peer], config, member.credential, version);
                Ok(one(turn.open_ports(&ports, config, watch, new)))
            }
            ClientMessage::AskPortArrivals => Ok(one(turn.port_arrivals(watch))),
            ClientMessage::SendFromPort { nonce, port } => turn.send_from_port(member, nonce, port).map(one),
            ClientMessage::Ping
            | ClientMessage::AskClock
            | ClientMessage::AskPathView { .. }
            | ClientMessage::EnterQueue
            | ClientMessage::HoldFlows { .. }
            | ClientMessage::EndFlows
            | ClientMessage::EndTurn => Ok(Vec::new()),
        })?;
        let is_loading = turn.is_loading();
        // The end of the session aborts the train: that is not a failure of the path.
        self.check_ending()?;
        // The client sends no messages during a long train.
        self.control.mark_active();
        if is_loading {
            self.registration.report_working(true);
            self.control.set_path_loaded(true)?;
        }
        Ok(answers.iter().try_for_each(|answer| self.control.send(answer))?)
    }
}

impl From<ControlError> for SessionEnd {
    fn from(error: ControlError) -> Self {
        SessionEnd::ConnectionFailed(error)
    }
}

impl From<Refusal> for SessionEnd {
    fn from(Refusal(why): Refusal) -> Self {
        SessionEnd::Refused(why)
    }
}
