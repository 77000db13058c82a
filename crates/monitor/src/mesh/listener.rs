//! The coordinator's thread that accepts agents, and passes what they say.

use super::frame::{AgentFrame, CoordinatorFrame};
use super::frame_stream::{ConnectionEnd, FrameStream};
use kumade_daemon::{FairAdmission, Network};
use kumade_net::clock;
use kumade_net::listener::is_out_of_resources;
use kumade_net::readiness::{EpollSet, Event};
use kumade_net::waker::{WakeReceiver, Waker, new_waker};
use kumade_noise_session::channel::{StreamAcceptor, StreamAnswer};
use kumade_noise_session::stream::RecordReader;
use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey, PublicKey, RefusedDatagram};
use kumade_units::{Span, Time};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the recorder is told of agents, which have their places in the configuration.
#[derive(Debug)]
pub(crate) enum MeshReport {
    /// An agent has connected, and said its first frame.
    Connected {
        agent: usize,
        /// From where.
        address: SocketAddr,
        /// [`VERSION`](super::frame::VERSION) of the agent.
        version: u32,
    },
    /// It has said something.
    Frame { agent: usize, frame: AgentFrame, held: HeldBytes },
    /// Its connection has ended.
    Disconnected { agent: usize, reason: String },
    /// A stranger was refused.
    Refused { text: String },
}

/// Counts what the recorder has not taken yet, as long as it lives.
#[derive(Debug)]
pub(crate) struct HeldBytes(Arc<AtomicUsize>, usize);

impl HeldBytes {
    fn new(counter: &Arc<AtomicUsize>, bytes: usize) -> Self {
        counter.fetch_add(bytes, Ordering::Relaxed);
        HeldBytes(counter.clone(), bytes)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// What the recorder has the thread do.
#[derive(Debug)]
pub(crate) enum MeshCommand {
    /// Send to an agent, if it is connected.
    Send { agent: usize, frame: CoordinatorFrame },
    /// End an agent's connection.
    Disconnect { agent: usize, reason: String },
}

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct AgentListener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    commands: MeshCommands,
    address: SocketAddr,
}

/// Takes commands for the thread of an [`AgentListener`].
#[derive(Debug, Clone)]
pub(crate) struct MeshCommands {
    sender: Sender<MeshCommand>,
    waker: Arc<Waker>,
}

impl MeshCommands {
    /// And what the commands come out of, which is readable when there are some.
    pub(crate) fn new() -> io::Result<(Self, Receiver<MeshCommand>, WakeReceiver)> {
        let (sender, inbox) = mpsc::channel();
        let (waker, wake_receiver) = new_waker()?;
        Ok((MeshCommands { sender, waker: Arc::new(waker) }, inbox, wake_receiver))
    }

    /// Has it done; not, where the thread has ended.
    pub(crate) fn send(&self, command: MeshCommand) {
        if self.sender.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

const LISTENER_EVENT: u32 = 0;
const COMMAND_EVENT: u32 = 1;
const FIRST_CONNECTION_NUMBER: u32 = 2;
/// Connections without a first frame so far.
const MAX_PENDING: usize = 256;
/// An agent's first frame has some 40, also of a later version a few more.
const MAX_HELLO_BYTES: usize = 1024;
/// Are accepted at once, before others are heard again.
const MAX_ACCEPTED: usize = 64;
/// Until descriptors are there again, where all belong to others.
const RESOURCES_WAIT: Duration = Duration::from_millis(20);
/// A handshake that takes longer, with the first frame, is given up, whatever has come of it.
const HANDSHAKE_TIMEOUT: Span = Span::from_secs(10);
/// An agent sends a heartbeat every five seconds.
const SILENCE_TIMEOUT: Span = Span::from_secs(30);
/// Bytes of frames that the recorder has not taken: then nobody is read any more until it has.
const MAX_HELD_BYTES: usize = 64 << 20;
/// Until the recorder is looked at again.
const BACKLOG_WAIT: Duration = Duration::from_millis(5);

impl AgentListener {
    /// Listens for these agents; `report` is called on its thread, and waits where the recorder is far behind.
    ///
    /// # Errors
    /// The address is in use, or not this host's.
    pub(crate) fn start(
        listen: SocketAddr,
        identity: PrivateKey,
        agents: Vec<PublicKey>,
        report: impl FnMut(MeshReport) + Send + 'static,
    ) -> io::Result<Self> {
        let socket =
            kumade_net::listener::bind(listen, socket2::Type::STREAM, |socket| socket.set_reuse_address(true))?;
        socket.set_nonblocking(true)?;
        socket.listen(128)?;
        let listener: TcpListener = socket.into();
        let address = listener.local_addr()?;
        let epoll = EpollSet::new()?;
        epoll.add_reader(&listener, LISTENER_EVENT)?;
        let mut random = StdRng::seed_from_u64(getrandom::u64().map_err(io::Error::other)?);
        let peers: Vec<_> = agents.iter().map(|key| (*key, PresharedKey::default())).collect();
        let acceptor = StreamAcceptor::new(identity, &HandshakePolicy::default(), peers, &mut random);
        let (commands, inbox, wake_receiver) = MeshCommands::new()?;
        epoll.add_reader(&wake_receiver, COMMAND_EVENT)?;
        let mut run = ListenerRun {
            listener,
            epoll,
            acceptor,
            random,
            agents,
            connections: BTreeMap::new(),
            pending: FairAdmission::default(),
            next_number: FIRST_CONNECTION_NUMBER,
            report: Box::new(report),
            commands: inbox,
            wake_receiver,
            held_bytes: Arc::new(AtomicUsize::new(0)),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Err(error) = run.advance() {
                    tracing::error!("cannot wait for agents: {error}");
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("agents".into()).spawn(work)?;
        Ok(AgentListener { stop, thread: Some(thread), commands, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes commands.
    pub(crate) fn commands(&self) -> MeshCommands {
        self.commands.clone()
    }
}

impl Drop for AgentListener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.commands.waker.wake();
        // A panic there has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}

struct ListenerRun {
    listener: TcpListener,
    epoll: EpollSet,
    acceptor: StreamAcceptor,
    random: StdRng,
    /// By place.
    agents: Vec<PublicKey>,
    connections: BTreeMap<u32, AgentConnection>,
    /// Those without a first frame, by network.
    pending: FairAdmission<u32>,
    next_number: u32,
    report: Box<dyn FnMut(MeshReport) + Send>,
    commands: Receiver<MeshCommand>,
    wake_receiver: WakeReceiver,
    held_bytes: Arc<AtomicUsize>,
}

struct AgentConnection {
    address: SocketAddr,
    /// When it was accepted; once its first frame has come, of the last thing that was heard.
    heard: Time,
    stage: Stage,
}

impl AgentConnection {
    /// When it is given up, if nothing is heard until then.
    fn silent_at(&self) -> Time {
        let is_known = matches!(self.stage, Stage::Open { has_said_hello: true, .. });
        self.heard + if is_known { SILENCE_TIMEOUT } else { HANDSHAKE_TIMEOUT }
    }
}

enum Stage {
    /// Nobody knows who it is.
    Handshake(TcpStream, RecordReader),
    /// The handshake is done. Until the first frame has come, it may be a copy of an old one.
    Open { frames: Box<FrameStream>, agent: usize, has_said_hello: bool },
}

impl ListenerRun {
    fn advance(&mut self) -> io::Result<()> {
        if self.held_bytes.load(Ordering::Relaxed) > MAX_HELD_BYTES {
            thread::sleep(BACKLOG_WAIT);
            return Ok(());
        }
        let mut events: Vec<Event> = Vec::new();
        let silence = self.connections.values().map(AgentConnection::silent_at).min();
        self.epoll.wait(&mut events, silence.unwrap_or(Time::MAX))?;
        for event in events {
            match event.number {
                LISTENER_EVENT => self.accept(),
                COMMAND_EVENT => self.wake_receiver.clear(),
                number => {
                    if let Err(end) = self.advance_connection(number) {
                        self.end(number, &end);
                    }
                }
            }
        }
        while let Ok(command) = self.commands.try_recv() {
            self.act(command);
        }
        self.end_silent();
        for notice in self.acceptor.take_notices() {
            (self.report)(MeshReport::Refused { text: notice.to_string() });
        }
        Ok(())
    }

    fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTED {
            match self.listener.accept() {
                Ok((stream, address)) => self.add_pending(stream, address),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_out_of_resources(&error) => {
                    tracing::warn!(
                        "cannot accept an agent's connection: {error}; one that has not said who it is gives way"
                    );
                    if !self.drop_pending() {
                        thread::sleep(RESOURCES_WAIT);
                        return;
                    }
                }
                Err(error) => tracing::debug!("cannot accept an agent's connection: {error}"),
            }
        }
    }

    fn add_pending(&mut self, stream: TcpStream, address: SocketAddr) {
        let number = self.next_number;
        self.next_number = self.next_number.checked_add(1).unwrap_or(FIRST_CONNECTION_NUMBER);
        let is_watched = stream.set_nonblocking(true).and_then(|()| self.epoll.add_reader(&stream, number));
        if is_watched.is_err() || self.connections.contains_key(&number) {
            return;
        }
        self.pending.insert(Network::containing(address.ip()), number);
        let stage = Stage::Handshake(stream, RecordReader::new());
        self.connections.insert(number, AgentConnection { address, heard: clock::monotonic(), stage });
        if self.pending.len() > MAX_PENDING {
            self.drop_pending();
        }
    }

    /// Ends the oldest connection without a first frame of the network that has most of them; false without any.
    fn drop_pending(&mut self) -> bool {
        let Some((network, &oldest)) = self.pending.next_to_give_way(1) else { return false };
        self.pending.remove(network, &oldest);
        self.connections.remove(&oldest);
        true
    }

    fn advance_connection(&mut self, number: u32) -> Result<(), ConnectionEnd> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let now = clock::monotonic();
        if let Stage::Handshake(stream, reader) = &mut connection.stage {
            let Some(initiation) = read_record(stream, reader)? else { return Ok(()) };
            self.shake_hands(number, &initiation, now)?;
        }
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let Stage::Open { frames, agent, has_said_hello } = &mut connection.stage else { return Ok(()) };
        frames.flush()?;
        let received = frames.receive::<AgentFrame>(&mut self.random)?;
        self.epoll.set_writable_reporting(frames.stream(), number, frames.has_outgoing())?;
        let (agent, mut said, address) = (*agent, *has_said_hello, connection.address);
        for (frame, bytes) in received {
            match frame {
                AgentFrame::Hello { version } if !said => {
                    said = true;
                    self.pending.remove(Network::containing(address.ip()), &number);
                    self.replace_older(agent, number);
                    (self.report)(MeshReport::Connected { agent, address, version });
                }
                _ if !said => return Err(ConnectionEnd::Malformed("no hello".to_owned())),
                frame => {
                    let held = HeldBytes::new(&self.held_bytes, bytes);
                    (self.report)(MeshReport::Frame { agent, frame, held });
                }
            }
        }
        if let Some(AgentConnection { stage: Stage::Open { has_said_hello, .. }, heard, .. }) =
            self.connections.get_mut(&number).filter(|_| said)
        {
            (*has_said_hello, *heard) = (true, now);
        }
        Ok(())
    }

    fn shake_hands(&mut self, number: u32, initiation: &[u8], now: Time) -> Result<(), ConnectionEnd> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let Stage::Handshake(stream, _) = &mut connection.stage else { return Ok(()) };
        let ip = connection.address.ip().to_canonical();
        let answer = self.acceptor.accept(initiation, ip, now, &mut self.random);
        let accepted = match answer.map_err(|refused: RefusedDatagram| ConnectionEnd::Malformed(refused.to_string()))? {
            StreamAnswer::Accepted(accepted) => accepted,
            StreamAnswer::Outdated(record) => return Ok(stream.write_all(&record)?),
        };
        stream.write_all(&accepted.response)?;
        let place = self.agents.iter().position(|key| *key == accepted.peer);
        let agent = place.ok_or_else(|| ConnectionEnd::Malformed("an unknown key".to_owned()))?;
        let Some(AgentConnection { address, heard, stage: Stage::Handshake(stream, reader) }) =
            self.connections.remove(&number)
        else {
            return Ok(());
        };
        let mut frames = Box::new(FrameStream::new(stream, accepted.channel, reader, now)?);
        frames.limit_first_frame(MAX_HELLO_BYTES);
        let stage = Stage::Open { frames, agent, has_said_hello: false };
        self.connections.insert(number, AgentConnection { address, heard, stage });
        Ok(())
    }

    /// An agent that connects again has lost the connection before.
    fn replace_older(&mut self, agent: usize, number: u32) {
        let older: Vec<_> = self.numbers(agent).filter(|other| *other != number).collect();
        for other in older {
            self.connections.remove(&other);
            let reason = "it has connected again".to_owned();
            (self.report)(MeshReport::Disconnected { agent, reason });
        }
    }

    /// Connections of an agent that have said their first frame.
    fn numbers(&self, agent: usize) -> impl Iterator<Item = u32> {
        self.connections.iter().filter_map(move |(number, connection)| match &connection.stage {
            Stage::Open { agent: other, has_said_hello: true, .. } if *other == agent => Some(*number),
            _ => None,
        })
    }

    fn act(&mut self, command: MeshCommand) {
        match command {
            MeshCommand::Send { agent, frame } => {
                let Some(number) = self.numbers(agent).next() else { return };
                let Some(AgentConnection { stage: Stage::Open { frames, .. }, .. }) = self.connections.get_mut(&number)
                else {
                    return;
                };
                let sent = frames.send(&frame).and_then(|()| {
                    Ok(self.epoll.set_writable_reporting(frames.stream(), number, frames.has_outgoing())?)
                });
                if let Err(end) = sent {
                    self.end(number, &end);
                }
            }
            MeshCommand::Disconnect { agent, reason } => {
                let numbers: Vec<_> = self.numbers(agent).collect();
                numbers.into_iter().for_each(|number| self.end(number, &ConnectionEnd::Malformed(reason.clone())));
            }
        }
    }

    fn end(&mut self, number: u32, end: &ConnectionEnd) {
        let Some(connection) = self.connections.remove(&number) else { return };
        match connection.stage {
            Stage::Open { agent, has_said_hello: true, .. } => {
                (self.report)(MeshReport::Disconnected { agent, reason: end.to_string() });
            }
            _ => {
                self.pending.remove(Network::containing(connection.address.ip()), &number);
                tracing::debug!("{}: {end}", connection.address);
            }
        }
    }

    fn end_silent(&mut self) {
        let now = clock::monotonic();
        let silent = self.connections.iter().filter(|(_, connection)| now >= connection.silent_at());
        for number in silent.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end(number, &ConnectionEnd::Silent);
        }
    }
}

/// The record of the handshake, once it is there as a whole.
fn read_record(stream: &mut TcpStream, reader: &mut RecordReader) -> Result<Option<Vec<u8>>, ConnectionEnd> {
    loop {
        if let Some(record) = reader.next_record()? {
            return Ok(Some(record.to_vec()));
        }
        match stream.read(reader.free_space()) {
            Ok(0) => return Err(ConnectionEnd::Closed),
            Ok(count) => reader.add_filled(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dial::{Coordinator, dial};
    use super::super::frame::VERSION;
    use super::*;
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A connection that says nothing after the handshake is ended, also where bytes of a record come that is never whole.
    #[test]
    fn a_connection_without_a_first_frame_is_ended() {
        let [identity, agent] = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let (sender, reports) = mpsc::channel();
        let report = move |report| _ = sender.send(report);
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = AgentListener::start(address, identity.clone(), vec![agent.public_key()], report).unwrap();
        let hosts = vec![("127.0.0.1".to_owned(), listener.address().port())];
        let connect = |seed| {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let coordinator = Coordinator { hosts: hosts.clone(), key: identity.public_key() };
                let dialed = dial(agent.clone(), coordinator, StdRng::seed_from_u64(seed)).unwrap().recv().unwrap();
                // A handshake soon after another one may be refused.
                match dialed {
                    Ok(frames) => return frames,
                    Err(reason) => assert!(Instant::now() < deadline, "{reason}"),
                }
                thread::sleep(Duration::from_millis(200));
            }
        };
        let mut random = StdRng::seed_from_u64(0);
        let mut known = connect(1);
        known.send(&AgentFrame::Hello { version: VERSION }).unwrap();
        known.flush().unwrap();
        assert!(matches!(reports.recv_timeout(PATIENCE), Ok(MeshReport::Connected { agent: 0, .. })));
        let mut silent = connect(2);
        let deadline = Instant::now() + PATIENCE;
        // The length of a record, and its first bytes: each is heard.
        let mut bytes = [0x40].into_iter().chain(std::iter::repeat(0));
        while silent.receive::<CoordinatorFrame>(&mut random).is_ok() {
            assert!(Instant::now() < deadline, "it is still open");
            // It may have been ended meanwhile.
            let _ = silent.stream().write(&[bytes.next().unwrap()]);
            thread::sleep(Duration::from_millis(500));
        }
        assert!(known.receive::<CoordinatorFrame>(&mut random).is_ok(), "one that has said who it is stays");
    }
}
