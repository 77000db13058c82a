//! An agent's connection to its coordinator.

use super::frame_stream::FrameStream;
use kumade_net::clock;
use kumade_noise_session::channel::StreamInitiator;
use kumade_noise_session::stream::RecordReader;
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey};
use kumade_units::Span;
use rand::rngs::StdRng;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Whom to connect to.
#[derive(Debug, Clone)]
pub(super) struct Coordinator {
    /// Names or addresses, of which one leads.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) key: PublicKey,
}

/// For each address, and for the handshake: some retransmissions.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects, on a thread of its own.
///
/// # Errors
/// The system has no thread for it.
pub(super) fn dial(
    identity: PrivateKey,
    coordinator: Coordinator,
    mut random: StdRng,
) -> io::Result<Receiver<Result<FrameStream, String>>> {
    let (answer, result) = mpsc::channel();
    let work = move || {
        let connected = connect(&identity, &coordinator, &mut random);
        // Nobody waits any more where the agent has ended.
        let _ = answer.send(connected);
    };
    thread::Builder::new().name("dial".into()).spawn(work)?;
    Ok(result)
}

/// Tries all addresses of all hosts in turn: names are looked up each time, and one that stands by accepts nobody.
fn connect(identity: &PrivateKey, coordinator: &Coordinator, random: &mut StdRng) -> Result<FrameStream, String> {
    let mut failures: Vec<String> = Vec::new();
    for (host, port) in &coordinator.hosts {
        let addresses: Vec<SocketAddr> = match (host.as_str(), *port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                failures.push(format!("cannot look up the coordinator {host}: {error}"));
                continue;
            }
        };
        for address in addresses {
            let connected = TcpStream::connect_timeout(&address, TIMEOUT)
                .map_err(|error| format!("cannot connect to the coordinator at {address}: {error}"));
            match connected.and_then(|stream| shake_hands(stream, identity.clone(), coordinator.key, address, random)) {
                Ok(frames) => return Ok(frames),
                Err(failure) => failures.push(failure),
            }
        }
    }
    if failures.is_empty() { Err("the coordinator has no address".to_owned()) } else { Err(failures.join("; ")) }
}

fn shake_hands(
    mut stream: TcpStream,
    identity: PrivateKey,
    key: PublicKey,
    address: SocketAddr,
    random: &mut StdRng,
) -> Result<FrameStream, String> {
    let own = identity.public_key();
    let refused = |reason: String| {
        format!(
            "the coordinator at {address} does not accept this agent: {reason}; check that its file has the public key {own}, and this \
             one that of the coordinator"
        )
    };
    let failed = |error: io::Error| refused(error.to_string());
    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
    let mut initiator = StreamInitiator::new(identity, key, PresharedKey::default());
    let mut reader = RecordReader::new();
    // A clock that is behind is told of by the first answer, and then the second is the response.
    for _ in 0..2 {
        let (pending, initiation) =
            initiator.begin(clock::realtime(), random).map_err(|error| refused(error.to_string()))?;
        stream.write_all(&initiation).map_err(failed)?;
        let answer = read_record(&mut stream, &mut reader).map_err(failed)?;
        if initiator.learn_timestamp(&pending, &answer).is_some() {
            continue;
        }
        let channel = pending.finish(&answer).map_err(|error| refused(error.to_string()))?;
        return FrameStream::new(stream, channel, reader, clock::monotonic()).map_err(failed);
    }
    Err(refused("its answers make no sense".to_owned()))
}

fn read_record(stream: &mut TcpStream, reader: &mut RecordReader) -> io::Result<Vec<u8>> {
    let deadline = clock::monotonic() + Span::from_secs(10);
    loop {
        if let Some(record) = reader.next_record().map_err(io::Error::other)? {
            return Ok(record.to_vec());
        }
        if clock::monotonic() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(reader.free_space())? {
            0 => return Err(io::Error::other("it closes the connection")),
            count => reader.add_filled(count),
        }
    }
}
