//! Attacks by TCP: connections that carry packets, and relayed streams.

use super::attack::TARGET_PORTS;
use super::listener::hostile_key;
use super::{Busy, is_over, listener_address};
use crate::lines::Lines;
use crate::outcome::Outcome;
use kumade_net::clock;
use kumade_net::cpu::ReservedCpu;
use kumade_net::namespace::Namespace;
use kumade_noise_session::channel::{Channel, StreamInitiator};
use kumade_noise_session::stream::{PREFIX_BYTES, RecordReader};
use kumade_noise_session::{PresharedKey, TAG_BYTES};
use kumade_relay::Message;
use rand::SeedableRng;
use rand::rngs::StdRng;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// A peer may have so many.
const STREAMS: usize = 1024;
const BUSY_STREAMS: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(5);
const CHUNK_BYTES: usize = 16_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StreamAttack {
    Carriers,
    Handshakes,
    Unread,
    Uploads,
    Downloads,
    LookUps,
    Refused,
}

impl StreamAttack {
    pub fn name(self) -> &'static str {
        match self {
            StreamAttack::Carriers => "connections that say nothing",
            StreamAttack::Handshakes => "handshakes of streams",
            StreamAttack::Unread => "1024 streams that are never read",
            StreamAttack::Uploads => "streams that send",
            StreamAttack::Downloads => "streams that receive",
            StreamAttack::LookUps => "look-ups of names",
            StreamAttack::Refused => "streams to forbidden targets",
        }
    }
}

pub fn run(attack: StreamAttack, number: usize, ends: &AtomicBool) {
    let random = StdRng::seed_from_u64(clock::monotonic().as_nanos() as u64);
    let initiator = StreamInitiator::new(hostile_key(number), Lines::keys()[1].public_key(), PresharedKey::default());
    let mut peer = HostileStreams { initiator, random };
    while !is_over(ends) {
        // What the listener ends is begun again.
        if peer.attack(attack, ends).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

struct HostileStreams {
    initiator: StreamInitiator,
    random: StdRng,
}

impl HostileStreams {
    fn attack(&mut self, attack: StreamAttack, ends: &AtomicBool) -> Outcome<()> {
        let [source, sink] = TARGET_PORTS;
        match attack {
            StreamAttack::Carriers => drop(TcpStream::connect_timeout(&listener_address(), TIMEOUT)?),
            StreamAttack::Handshakes => drop(self.begin()?),
            StreamAttack::LookUps => drop(self.open("names.example:80", false)?),
            StreamAttack::Refused => drop(self.open("10.1.1.1:1", true)?),
            StreamAttack::Unread => {
                let mut streams = Vec::new();
                while !is_over(ends) && streams.len() < STREAMS {
                    streams.push(self.open(&format!("10.1.1.1:{source}"), false)?);
                }
                while !is_over(ends) && !streams.iter().all(|(stream, _)| is_closed(stream)) {
                    streams.retain(|(stream, _)| !is_closed(stream));
                    while streams.len() < STREAMS && !is_over(ends) {
                        streams.push(self.open(&format!("10.1.1.1:{source}"), false)?);
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            }
            StreamAttack::Uploads => self.upload(&format!("10.1.1.1:{sink}"), ends)?,
            StreamAttack::Downloads => self.download(&format!("10.1.1.1:{source}"), ends)?,
        }
        Ok(())
    }

    fn upload(&mut self, target: &str, ends: &AtomicBool) -> Outcome<()> {
        let mut streams = (0..BUSY_STREAMS).map(|_| self.open(target, true)).collect::<Outcome<Vec<_>>>()?;
        let bytes = vec![7; CHUNK_BYTES];
        while !is_over(ends) {
            for (stream, channel) in &mut streams {
                send(stream, channel, &Message::Data(&bytes))?;
            }
        }
        Ok(())
    }

    fn download(&mut self, target: &str, ends: &AtomicBool) -> Outcome<()> {
        let streams = (0..BUSY_STREAMS).map(|_| self.open(target, true)).collect::<Outcome<Vec<_>>>()?;
        let mut buffer = vec![0; 1 << 18];
        for (stream, _) in &streams {
            stream.set_nonblocking(true)?;
        }
        while !is_over(ends) {
            for (mut stream, _) in streams.iter().map(|(stream, channel)| (stream, channel)) {
                match stream.read(&mut buffer) {
                    Ok(0) => return Err("ended".into()),
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Outcome<(TcpStream, Channel)> {
        let mut stream = TcpStream::connect_timeout(&listener_address(), TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        let (pending, initiation) = self.initiator.begin(clock::realtime(), &mut self.random)?;
        stream.write_all(&initiation)?;
        let mut reader = RecordReader::new();
        loop {
            let count = stream.read(reader.free_space())?;
            if count == 0 {
                return Err("ended".into());
            }
            reader.add_filled(count);
            if let Some(record) = reader.next_record()? {
                return Ok((stream, pending.finish(record)?));
            }
        }
    }

    /// A stream that asks for this target; connected, if that is waited for.
    fn open(&mut self, target: &str, waits: bool) -> Outcome<(TcpStream, Channel)> {
        let (mut stream, mut channel) = self.begin()?;
        send(&mut stream, &mut channel, &Message::Open(target.parse()?))?;
        if waits {
            let _ = stream.read(&mut [0; 64])?;
        }
        Ok((stream, channel))
    }
}

fn send(stream: &mut TcpStream, channel: &mut Channel, message: &Message<'_>) -> Outcome<()> {
    let text = message.encode();
    let mut record = vec![0; PREFIX_BYTES + text.len() + TAG_BYTES];
    record[PREFIX_BYTES..][..text.len()].copy_from_slice(&text);
    channel.seal(&mut record)?;
    Ok(stream.write_all(&record)?)
}

fn is_closed(stream: &TcpStream) -> bool {
    kumade_net::readiness::is_closed(stream).unwrap_or(true)
}

/// What streams lead to. It belongs to the hostile peer, and to its CPU.
pub struct Targets {
    _all: [Busy; 2],
}

impl Targets {
    pub fn start(host: &Namespace, cpu: ReservedCpu) -> Outcome<Self> {
        let start = |port: u16, serve: fn(&mut TcpStream, &mut [u8]) -> io::Result<usize>| {
            let listener = host.run(|| TcpListener::bind(("10.1.1.1", port)))??;
            listener.set_nonblocking(true)?;
            Busy::start(host, cpu, move |ends| serve_all(&listener, serve, ends))
        };
        let [source, sink] = TARGET_PORTS;
        let source = start(source, |stream, buffer| stream.write(buffer))?;
        Ok(Targets { _all: [source, start(sink, |stream, buffer| stream.read(buffer))?] })
    }
}

fn serve_all(listener: &TcpListener, serve: fn(&mut TcpStream, &mut [u8]) -> io::Result<usize>, ends: &AtomicBool) {
    let mut streams = Vec::new();
    let mut buffer = vec![7; 1 << 17];
    while !is_over(ends) {
        while let Ok((stream, _)) = listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                streams.push(stream);
            }
        }
        let mut has_served = false;
        streams.retain_mut(|stream| match serve(stream, &mut buffer) {
            Ok(0) => false,
            Ok(_) => {
                has_served = true;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        if !has_served {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
