//! A server of this library on a free loopback port, and a client that sends arbitrary messages.

pub mod recorder;
pub mod reflecting;

pub use kumade_netns_testbed::TEST_DEADLINE as DEADLINE;

use kumade_client::MeasureConfig;
use kumade_serve::{ClientReplacer, Server, ServerConfig};
use kumade_wire::{ClientMessage, ClientSession, PresharedKey, ServerMessage, Token, Version};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Stops, and waits for its threads, when dropped.
pub struct RunningServer {
    pub address: SocketAddr,
    pub clients: ClientReplacer,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    pub fn start(config: ServerConfig) -> Self {
        let listen = config.listen.or(Some(SocketAddr::from(([127, 0, 0, 1], 0))));
        let server = Server::bind(ServerConfig { listen, ..config }).unwrap();
        let (address, clients) = (server.local_addr(), server.client_replacer());
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&flag).unwrap());
        RunningServer { address, clients, stop, thread: Some(thread) }
    }

    /// Measures this server, everything chosen by kumade.
    pub fn measuring(&self) -> MeasureConfig {
        measuring(self.address)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

pub fn measuring(address: SocketAddr) -> MeasureConfig {
    let mut config = MeasureConfig::new(address.ip().to_string(), address.port());
    config.plan.capacity = false;
    config
}

/// A control connection driven by hand.
pub struct RawClient {
    stream: TcpStream,
    session: ClientSession,
}

impl RawClient {
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address, ([127, 0, 0, 1], 0).into()).unwrap()
    }

    /// From a source address of its own; fails where the server or the system has no room.
    pub fn try_connect(address: SocketAddr, source: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&source.into())?;
        socket.connect(&address.into())?;
        let stream = TcpStream::from(socket);
        Self::begin(stream, None, Version::NEWEST)
    }

    fn begin(stream: TcpStream, key: Option<&PresharedKey>, version: Version) -> io::Result<Self> {
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut session = ClientSession::client(key, version);
        (&stream).write_all(&session.take_outgoing())?;
        Ok(RawClient { stream, session })
    }

    /// A message that has arrived, without waiting; an error text as for [`receive`](Self::receive).
    pub fn try_receive(&mut self) -> Result<Option<ServerMessage>, String> {
        self.stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        match (&self.stream).read(&mut buffer) {
            Ok(0) => return Err("closed".into()),
            Ok(count) => self.session.feed(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string()),
        }
        self.session.receive().map_err(|error| error.to_string())
    }

    /// Sends a message; errors don't matter.
    pub fn send_ignoring_errors(&mut self, message: &ClientMessage) {
        if self.session.send(message).is_ok() {
            let _ = (&self.stream).write_all(&self.session.take_outgoing());
        }
    }

    pub fn send(&mut self, message: &ClientMessage) {
        self.send_all(std::slice::from_ref(message));
    }

    /// In one packet.
    pub fn send_all(&mut self, messages: &[ClientMessage]) {
        messages.iter().for_each(|message| self.session.send(message).unwrap());
        let bytes = self.session.take_outgoing();
        (&self.stream).write_all(&bytes).unwrap();
    }

    /// The next message; an error text where the connection or the session ends.
    pub fn receive(&mut self) -> Result<ServerMessage, String> {
        loop {
            match self.session.receive() {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => return Err(error.to_string()),
            }
            // Of a handshake, what is to be sent next.
            (&self.stream).write_all(&self.session.take_outgoing()).map_err(|error| error.to_string())?;
            let mut buffer = [0; 4096];
            match (&self.stream).read(&mut buffer).map_err(|error| error.to_string())? {
                0 => return Err("closed".into()),
                count => self.session.feed(&buffer[..count]),
            }
        }
    }

    /// Connects and waits for the turn.
    pub fn with_turn(address: SocketAddr) -> Self {
        Self::with_turn_and_token(address).0
    }

    /// As [`with_turn`](Self::with_turn); also tells what probe connections and UDP requests have to show.
    pub fn with_turn_and_token(address: SocketAddr) -> (Self, Token) {
        Self::connect(address).wait_for_turn()
    }

    /// As [`with_turn`](Self::with_turn), in a version of the protocol.
    pub fn with_turn_in_version(address: SocketAddr, version: Version) -> Self {
        Self::begin(TcpStream::connect(address).unwrap(), None, version).unwrap().wait_for_turn().0
    }

    /// The same with a key.
    pub fn with_key_and_turn(address: SocketAddr, key: &PresharedKey) -> (Self, Token) {
        Self::begin(TcpStream::connect(address).unwrap(), Some(key), Version::NEWEST).unwrap().wait_for_turn()
    }

    pub fn wait_for_turn(mut self) -> (Self, Token) {
        let Ok(ServerMessage::Welcome { token, .. }) = self.receive() else { panic!("no welcome") };
        self.send(&ClientMessage::EnterQueue);
        assert_eq!(self.receive(), Ok(ServerMessage::TurnBegins));
        (self, token)
    }
}
