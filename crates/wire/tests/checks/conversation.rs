//! Both ends of a control connection, with somebody between them.

use kumade_probe_train::{Mark, MarkedTrain, PortProtocol, Segment, Train};
use kumade_units::{Direction, Span, Time};
use kumade_wire::{
    AdmissionDecision, ClientMessage, ClientSession, Departure, Message, Preamble, PresharedKey, ServerMessage,
    ServerSession, Session, Version, decide_admission,
};
use std::collections::VecDeque;

/// The first byte says whether there is a key; of the rest, each three bytes are a step: an end says something, bytes pass in
/// some piece, or somebody alters, drops or repeats some that are on their way. What an end hears is what the other one said, in
/// order, from the first message on; also if it was altered, where there is a key.
pub fn conversation(data: &[u8]) {
    let Some((&mode, steps)) = data.split_first() else { return };
    let key = (mode % 2 == 1).then(|| PresharedKey::from_bytes([7; 32]));
    let mut ends = ConversationEnds::new(key);
    for step in steps.chunks_exact(3) {
        ends.run_step(step[0], step[1], step[2]);
    }
    ends.pass_all();
    for (said, heard, altered) in [
        (bytes(&ends.client.sent), bytes(&ends.server_received), ends.up.is_altered),
        (bytes(&ends.server_sent), bytes(&ends.client.received), ends.down.is_altered),
    ] {
        // Without a key, what is altered is believed; with one, whatever an altered greeting leads to is not.
        let counts = ends.key.is_some() || !(ends.up.is_altered || ends.down.is_altered);
        assert!(!counts || said.starts_with(&heard), "altered: {altered}, said {said:?}, heard {heard:?}");
        let passed = !(ends.up.is_altered || ends.down.is_altered);
        assert!(!passed || said == heard, "said {said:?}, heard {heard:?}");
    }
}

/// Bytes on their way in one direction.
#[derive(Default)]
struct Line {
    bytes: VecDeque<u8>,
    is_altered: bool,
}

impl Line {
    fn take(&mut self, count: usize) -> Vec<u8> {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count).collect()
    }

    fn alter(&mut self, place: u8, how: u8) {
        let at = usize::from(place) % self.bytes.len().max(1);
        let Some(byte) = self.bytes.get(at).copied() else { return };
        self.is_altered = true;
        match how % 4 {
            0 => drop(self.bytes.remove(at)),
            1 => self.bytes.insert(at, byte),
            _ => self.bytes[at] ^= how,
        }
    }
}

struct Client {
    session: ClientSession,
    sent: Vec<ClientMessage>,
    received: Vec<ServerMessage>,
}

struct ConversationEnds {
    key: Option<PresharedKey>,
    client: Client,
    /// None until the client's preamble is there.
    server: Option<ServerSession>,
    /// What has come before that.
    bytes_before_session: Vec<u8>,
    is_refused: bool,
    server_sent: Vec<ServerMessage>,
    server_received: Vec<ClientMessage>,
    up: Line,
    down: Line,
}

impl ConversationEnds {
    fn new(key: Option<PresharedKey>) -> Self {
        let session = ClientSession::client(key.as_ref(), Version::NEWEST);
        let client = Client { session, sent: Vec::new(), received: Vec::new() };
        let mut ends = ConversationEnds {
            key,
            client,
            server: None,
            bytes_before_session: Vec::new(),
            is_refused: false,
            server_sent: Vec::new(),
            server_received: Vec::new(),
            up: Line::default(),
            down: Line::default(),
        };
        ends.collect();
        ends
    }

    fn run_step(&mut self, step: u8, first: u8, second: u8) {
        match step % 8 {
            0 | 1 => send_message(&mut self.client.session, client_message(first, second), &mut self.client.sent),
            2 => {
                if let Some(server) = &mut self.server {
                    send_message(server, server_message(first, second), &mut self.server_sent);
                }
            }
            3 | 4 => self.pass_up(usize::from(first) + 1),
            5 => self.pass_down(usize::from(first) + 1),
            6 => self.up.alter(first, second),
            _ => self.down.alter(first, second),
        }
        self.collect();
    }

    fn pass_all(&mut self) {
        while !(self.up.bytes.is_empty() && self.down.bytes.is_empty()) {
            self.pass_up(usize::MAX);
            self.pass_down(usize::MAX);
            self.collect();
        }
    }

    fn collect(&mut self) {
        self.up.bytes.extend(self.client.session.take_outgoing());
        if let Some(server) = &mut self.server {
            self.down.bytes.extend(server.take_outgoing());
        }
    }

    fn pass_up(&mut self, count: usize) {
        let bytes = self.up.take(count);
        match &mut self.server {
            Some(server) => receive_messages(server, &bytes, &mut self.server_received),
            None => self.open(&bytes),
        }
    }

    fn pass_down(&mut self, count: usize) {
        let bytes = self.down.take(count);
        receive_messages(&mut self.client.session, &bytes, &mut self.client.received);
    }

    /// As a server does with a new connection.
    fn open(&mut self, bytes: &[u8]) {
        self.bytes_before_session.extend(bytes);
        let Some((preamble, rest)) = self.bytes_before_session.split_first_chunk::<{ Preamble::SIZE }>() else {
            return;
        };
        let control = match Preamble::decode(preamble) {
            Ok((Preamble::Control { encrypted }, version)) => {
                let verdict = decide_admission(encrypted, self.key.is_some(), true);
                (verdict == AdmissionDecision::Accepted).then_some(version)
            }
            _ => None,
        };
        let Some(version) = control.filter(|_| !self.is_refused) else {
            self.is_refused = true;
            return;
        };
        let mut server = ServerSession::server(self.key.as_ref(), version);
        receive_messages(&mut server, rest, &mut self.server_received);
        self.server = Some(server);
    }
}

fn receive_messages<In: Message, Out: Message>(session: &mut Session<In, Out>, bytes: &[u8], heard: &mut Vec<In>) {
    session.feed(bytes);
    // After an error, the session is over, and says so again.
    while let Ok(Some(message)) = session.receive() {
        heard.push(message);
    }
}

fn send_message<In: Message, Out: Message>(session: &mut Session<In, Out>, message: Out, said: &mut Vec<Out>) {
    if session.send(&message).is_ok() {
        said.push(message);
    }
}

fn bytes<M: Message>(messages: &[M]) -> Vec<Vec<u8>> {
    let encoded = |message: &M| {
        let mut bytes = Vec::new();
        kumade_wire::encode(message, &mut bytes).expect("it was sent");
        bytes
    };
    messages.iter().map(encoded).collect()
}

fn client_message(kind: u8, number: u8) -> ClientMessage {
    let number = u32::from(number);
    let segment = Segment { count: number, interval: Span::from_micros(100), first_size: 1500, size_step: -1 };
    let train = Train { segments: vec![segment; number as usize % 8] };
    match kind % 10 {
        0 => ClientMessage::Ping,
        1 => ClientMessage::EnterQueue,
        2 => ClientMessage::EndTurn,
        3 => ClientMessage::ProveUdp([number as u8; 16]),
        4 => ClientMessage::Receive { number, train, timeout: Span::from_secs(1) },
        5 => ClientMessage::Send { number, train },
        7 => ClientMessage::AskPathView { destination: ([192, 0, 2, 1], number as u16).into() },
        9 => ClientMessage::OpenPorts { ports: vec![(PortProtocol::Udp, number as u16); number as usize] },
        8 => ClientMessage::SendMarked { number, train: marked_train(number) },
        _ => ClientMessage::Load {
            direction: if number % 2 == 0 { Direction::Up } else { Direction::Down },
            first: number as u16,
            expected: number,
            wait: Span::from_secs(1),
            duration: Span::from_millis(number.into()),
        },
    }
}

fn marked_train(number: u32) -> MarkedTrain {
    let mark = Mark { ds_field: number as u8, hop_limit: None };
    MarkedTrain { interval: Span::from_millis(1), marks: vec![mark; number as usize] }
}

fn server_message(kind: u8, number: u8) -> ServerMessage {
    let number = u32::from(number);
    let departure = |index| Departure { index, size: 1500, sent: Some(Time::from_nanos(i64::from(index))) };
    match kind % 9 {
        0 => ServerMessage::Pong,
        1 => ServerMessage::QueuePosition(number),
        2 => ServerMessage::TurnBegins,
        3 => ServerMessage::Refused("no".repeat(number as usize)),
        4 => ServerMessage::Sent { number, departures: (0..number * 8).map(departure).collect(), kernel_stamps: true },
        5 => ServerMessage::Clock { maximum_error: None },
        6 => ServerMessage::LoadBegins { connections: number },
        7 => ServerMessage::SentMarked { number, sent: (0..number).collect() },
        _ => ServerMessage::LoadEnded { bytes: (0..u64::from(number)).collect() },
    }
}
