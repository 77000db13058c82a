//! A round of tries of ports at which the far end listens for this host.

use crate::error::Error;
use crate::port_probe::{MAX_TAKEN_AT_ONCE, PortSession, answered_index};
use crate::server_connection::ServerConnection;
use kumade_measurement::{PortRound, PortRoundRecord, PortTarget, PortTry, PortTryAnswer, UnopenedPort};
use kumade_net::platform::{pacing, tcp};
use kumade_net::{IcmpError, SocketBinding, clock, next_icmp_error, report_icmp_errors};
use kumade_probe_train::PortProtocol;
use kumade_units::{Span, Time};
use kumade_wire::{
    ClientMessage, CredentialBearer, PortAnswer, PortArrival, PortStatus, ServerMessage, UdpAnswer, UdpRequest, Version,
};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

const OPERATION: &str = "looking at ports";
/// Timeout of the server's answer.
const ANSWER_TIMEOUT: Span = Span::from_secs(2);
/// Between two looks at the sockets.
const LOOK_INTERVAL: Span = Span::from_millis(3);

/// The sockets of the ports that are open at the far end.
#[derive(Default)]
pub(crate) struct PortTries {
    udp: BTreeMap<Option<u16>, UdpSocket>,
    unopened: BTreeMap<PortTarget, UnopenedPort>,
}

/// A try that is under way.
enum Attempt {
    /// By UDP, to this port.
    Packet(Option<u16>),
    /// A connection that is being opened.
    Connecting(tcp::PendingConnection),
    /// One that is open, and what has come on it.
    Open(TcpStream, Vec<u8>),
    Done(PortTryAnswer),
    /// Nothing was tried.
    LeftOut,
}

impl PortTries {
    /// Carries out a round. The inner error is the reason why that is not possible.
    ///
    /// # Errors
    /// Of the control connection.
    pub(crate) fn run_round(
        &mut self,
        peer: &mut ServerConnection,
        binding: &SocketBinding,
        round: &PortRound,
    ) -> Result<Result<PortRoundRecord, String>, Error> {
        if let Err(why) = peer.require_version(Version::PORTS, "further ports") {
            return Ok(Err(why));
        }
        if !round.open.is_empty() {
            self.open(peer, &round.open)?;
        }
        let session = PortSession::new(peer);
        let mut attempts = self.begin_attempts(peer, &session, binding, round);
        let began = clock::monotonic();
        let [udp, tcp] = round.timeouts.map(|timeout| began + timeout);
        loop {
            let now = clock::monotonic();
            let round = RoundContext { session: &session, round, deadlines: [udp, tcp], now };
            let is_over = self.advance_attempts(&mut attempts, &round);
            if is_over {
                break;
            }
            pacing::sleep_until(now + LOOK_INTERVAL);
        }
        let arrived = ask_arrivals(peer, round.number)?;
        let outcome = |(attempt, (protocol, port)): (&Attempt, &(PortProtocol, Option<u16>))| {
            let answer = match attempt {
                Attempt::Done(answer) => *answer,
                Attempt::LeftOut => return None,
                _ => PortTryAnswer::Nothing,
            };
            let has_arrived = port.is_some_and(|port| arrived.contains(&(*protocol, port)));
            Some(PortTry { has_arrived, answer })
        };
        let tries = attempts.iter().zip(&round.tries).map(outcome).collect();
        Ok(Ok(PortRoundRecord { unopened: self.unopened.clone(), tries }))
    }

    /// Has the far end listen at these ports.
    fn open(&mut self, peer: &mut ServerConnection, ports: &[PortTarget]) -> Result<(), Error> {
        self.udp.clear();
        self.unopened.clear();
        let question = ClientMessage::OpenPorts { ports: ports.to_vec() };
        let ServerMessage::PortsOpened { ports: opened, .. } = peer.request(&question, ANSWER_TIMEOUT, OPERATION)?
        else {
            return Err(peer.protocol_violation(OPERATION));
        };
        for target in ports {
            let found = opened.iter().find(|opened| (opened.protocol, opened.port) == *target);
            let why = match found.map(|opened| &opened.status) {
                Some(PortStatus::Listening) => continue,
                Some(PortStatus::InUse) => UnopenedPort::InUse,
                Some(PortStatus::NotAllowed) => UnopenedPort::NotAllowed,
                Some(PortStatus::TooMany) => UnopenedPort::Failed("the far end allows no more in a turn".to_owned()),
                Some(PortStatus::Failed(reason)) => UnopenedPort::Failed(peer.printable(reason)),
                None => UnopenedPort::Failed("the far end does not say".to_owned()),
            };
            self.unopened.insert(*target, why);
        }
        Ok(())
    }

    fn begin_attempts(
        &mut self,
        peer: &ServerConnection,
        session: &PortSession,
        binding: &SocketBinding,
        round: &PortRound,
    ) -> Vec<Attempt> {
        let request = UdpRequest { authenticator: peer.credential.authenticator_for(CredentialBearer::UdpRequest) };
        // Answers of the session's own port have no number: those of an earlier round, which came late, are forgotten.
        if let Some(own) = self.udp.get(&None) {
            let _ = (0..MAX_TAKEN_AT_ONCE).find(|_| own.recv(&mut [0; 64]).is_err());
        }
        let mut attempts = Vec::with_capacity(round.tries.len());
        for &(protocol, port) in &round.tries {
            if port.is_some_and(|port| self.unopened.contains_key(&(protocol, port))) {
                attempts.push(Attempt::LeftOut);
                continue;
            }
            let mut address = peer.address;
            address.set_port(port.unwrap_or(address.port()));
            let attempt = match protocol {
                PortProtocol::Udp => {
                    let payload = match port {
                        Some(port) => session.probe(PortProtocol::Udp, port, round.number),
                        None => request.encode(peer.version()),
                    };
                    self.send_packet(binding, address, port, &payload)
                }
                PortProtocol::Tcp => match tcp::PendingConnection::begin(address, binding) {
                    Ok(connecting) => Attempt::Connecting(connecting),
                    Err(error) => Attempt::Done(answer_of_error(&error)),
                },
            };
            attempts.push(attempt);
            pacing::sleep_until(clock::monotonic() + round.interval);
        }
        attempts
    }

    /// From one socket for each port, so that all packets of a port are one flow.
    fn send_packet(
        &mut self,
        binding: &SocketBinding,
        address: SocketAddr,
        port: Option<u16>,
        payload: &[u8],
    ) -> Attempt {
        let open = || {
            let socket = binding.connect_udp(address)?;
            socket.set_nonblocking(true)?;
            report_icmp_errors(&socket, true)?;
            Ok::<_, io::Error>(socket)
        };
        let socket = match self.udp.entry(port) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match open() {
                Ok(socket) => entry.insert(socket),
                Err(error) => return Attempt::Done(answer_of_error(&error)),
            },
        };
        // An error that waits is that of an earlier packet; what does not leave is lost, like any packet.
        let _ = socket.send(payload).or_else(|_| socket.send(payload));
        Attempt::Packet(port)
    }

    /// Looks what has come; whether nothing more is waited for.
    fn advance_attempts(&self, attempts: &mut [Attempt], context: &RoundContext<'_>) -> bool {
        let mut is_over = true;
        for (attempt, (protocol, port)) in attempts.iter_mut().zip(&context.round.tries) {
            let deadline = context.deadlines[*protocol as usize];
            let next = match attempt {
                Attempt::Packet(port) => self.udp.get(port).and_then(|socket| receive_answer(socket, *port, context)),
                Attempt::Connecting(connecting) => match connecting.wait(context.now) {
                    Ok(None) => None,
                    // The session's own port is known to be open by that.
                    Ok(Some(_)) if port.is_none() => Some(Attempt::Done(PortTryAnswer::Right)),
                    Ok(Some(stream)) => Some(ask(stream, port.unwrap_or(0), context)),
                    Err(error) => Some(Attempt::Done(answer_of_error(&error))),
                },
                Attempt::Open(stream, received) => {
                    let is_late = context.now >= deadline;
                    read_answer(stream, received, port.unwrap_or(0), context, is_late).map(Attempt::Done)
                }
                Attempt::Done(_) | Attempt::LeftOut => continue,
            };
            match next {
                Some(next) => *attempt = next,
                None if context.now >= deadline => *attempt = Attempt::Done(PortTryAnswer::Nothing),
                None => {}
            }
            is_over &= matches!(attempt, Attempt::Done(_));
        }
        is_over
    }
}

/// What a round's tries have in common.
struct RoundContext<'r> {
    session: &'r PortSession,
    round: &'r PortRound,
    /// Of UDP and TCP.
    deadlines: [Time; 2],
    now: Time,
}

/// What has come for a packet by UDP.
fn receive_answer(socket: &UdpSocket, port: Option<u16>, context: &RoundContext<'_>) -> Option<Attempt> {
    let mut payload = [0; 64];
    let mut wrong = None;
    for _ in 0..MAX_TAKEN_AT_ONCE {
        let Ok(length) = socket.recv(&mut payload) else { break };
        let bytes = &payload[..length];
        let answered = match port {
            // One answer for each request: it has no number.
            None => UdpAnswer::decode(bytes).ok().map(|_| context.round.number),
            Some(port) => answered_index(context.session, PortProtocol::Udp, port, bytes),
        };
        match answered {
            Some(number) if number == context.round.number => return Some(Attempt::Done(PortTryAnswer::Right)),
            // Late ones of an earlier round.
            Some(_) => {}
            None => wrong = Some(Attempt::Done(PortTryAnswer::Wrong)),
        }
    }
    let error = next_icmp_error(socket, &mut payload).ok().flatten();
    let refused = error.map(|error| {
        let IcmpError { from, is_v6, icmp_type, icmp_code, .. } = error;
        Attempt::Done(PortTryAnswer::Icmp { from, is_v6, icmp_type, icmp_code })
    });
    wrong.or(refused)
}

/// Asks on a connection that has just opened.
fn ask(stream: TcpStream, port: u16, context: &RoundContext<'_>) -> Attempt {
    match (&stream).write_all(&context.session.probe(PortProtocol::Tcp, port, context.round.number)) {
        Ok(()) => Attempt::Open(stream, Vec::new()),
        Err(_) => Attempt::Done(PortTryAnswer::Wrong),
    }
}

/// What an open connection answers, once that is known; one that says nothing in time is not the far end's.
fn read_answer(
    stream: &TcpStream,
    received: &mut Vec<u8>,
    port: u16,
    context: &RoundContext<'_>,
    is_late: bool,
) -> Option<PortTryAnswer> {
    let mut bytes = [0; PortAnswer::SIZE];
    let room = PortAnswer::SIZE - received.len();
    let mut reader = stream;
    match reader.read(&mut bytes[..room]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return is_late.then_some(PortTryAnswer::Wrong),
        Ok(0) | Err(_) => return Some(PortTryAnswer::Wrong),
        Ok(length) => received.extend_from_slice(&bytes[..length]),
    }
    if received.len() < PortAnswer::SIZE {
        return None;
    }
    let is_right = answered_index(context.session, PortProtocol::Tcp, port, received) == Some(context.round.number);
    Some(if is_right { PortTryAnswer::Right } else { PortTryAnswer::Wrong })
}

/// What a connection's error says of who has refused it.
fn answer_of_error(error: &io::Error) -> PortTryAnswer {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => PortTryAnswer::Reset,
        io::ErrorKind::TimedOut => PortTryAnswer::Nothing,
        _ => PortTryAnswer::Unreachable,
    }
}

/// At which ports something of this round has arrived.
fn ask_arrivals(peer: &mut ServerConnection, number: u32) -> Result<BTreeSet<PortTarget>, Error> {
    match peer.request(&ClientMessage::AskPortArrivals, ANSWER_TIMEOUT, OPERATION)? {
        ServerMessage::PortArrivals { arrivals } => {
            let of_round = arrivals.iter().filter(|arrival: &&PortArrival| arrival.index == number);
            Ok(of_round.map(|arrival| (arrival.protocol, arrival.port)).collect())
        }
        _ => Err(peer.protocol_violation(OPERATION)),
    }
}
