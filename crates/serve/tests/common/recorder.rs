//! Passes a client's connections and packets on to a server, and writes down what the two say to each other, unless it is
//! encrypted. On demand, it
//! refuses all versions of the protocol but one, as a server does that speaks no other.

use kumade_wire::{AdmissionDecision, MAGIC, Preamble, PreambleReply, Version};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

type Log = Arc<Mutex<String>>;

pub struct Recorder {
    pub address: SocketAddr,
    log: Log,
}

impl Recorder {
    /// Its threads end with the test program.
    pub fn start(server: SocketAddr, only: Option<Version>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log = Log::default();
        let datagrams = UdpSocket::bind(address).unwrap();
        pass_datagrams(datagrams, server, &log);
        let ours = Arc::clone(&log);
        thread::spawn(move || listener.incoming().for_each(|client| pass(client.unwrap(), server, only, &ours)));
        Recorder { address, log }
    }

    /// What has been said so far.
    pub fn text(&self) -> String {
        // The last message of a client is passed on after the client has gone.
        thread::sleep(Duration::from_millis(200));
        self.log.lock().unwrap().clone()
    }
}

fn note(log: &Log, who: &str, bytes: &[u8]) {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    log.lock().unwrap().push_str(&format!("{who} {digits}\n"));
}

fn pass(mut client: TcpStream, server: SocketAddr, only: Option<Version>, log: &Log) {
    let mut server = TcpStream::connect(server).unwrap();
    [&client, &server].into_iter().for_each(|stream| stream.set_nodelay(true).unwrap());
    let mut preamble = [0; Preamble::SIZE];
    client.read_exact(&mut preamble).unwrap();
    let (decoded, version) = Preamble::decode(&preamble).unwrap();
    if let Some(only) = only.filter(|&only| only != version) {
        return client.write_all(&PreambleReply(AdmissionDecision::UnsupportedVersion).encode(only)).unwrap();
    }
    let is_control = matches!(decoded, Preamble::Control { .. });
    let is_readable = matches!(decoded, Preamble::Control { encrypted: false });
    // Before anybody can say anything about it.
    note(log, if is_control { "client" } else { "probe" }, &preamble);
    server.write_all(&preamble).unwrap();
    let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let mut answer = [0; PreambleReply::SIZE];
    if is_control {
        (&from_server).read_exact(&mut answer).unwrap();
        note(log, "server", &answer);
        (&to_client).write_all(&answer).unwrap();
    }
    for (from, to, who) in [(client, server, "client"), (from_server, to_client, "server")] {
        let log = is_readable.then(|| Arc::clone(log));
        thread::spawn(move || {
            match log {
                Some(log) => pass_frames(&from, &to, &log, who),
                None => drop(std::io::copy(&mut &from, &mut &to)),
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

fn pass_frames(mut from: &TcpStream, mut to: &TcpStream, log: &Log, who: &str) {
    let mut prefix = [0; 4];
    while from.read_exact(&mut prefix).is_ok() {
        let mut frame = prefix.to_vec();
        frame.resize(4 + u32::from_be_bytes(prefix) as usize, 0);
        from.read_exact(&mut frame[4..]).unwrap();
        note(log, who, &frame);
        let _ = to.write_all(&frame);
    }
}

/// Only what opens UDP is written down, not the packets of trains.
fn pass_datagrams(outside: UdpSocket, server: SocketAddr, log: &Log) {
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    inside.connect(server).unwrap();
    let log = Arc::clone(log);
    thread::spawn(move || {
        let mut packet = [0; 1 << 16];
        let (_, client) = outside.peek_from(&mut packet).unwrap();
        outside.connect(client).unwrap();
        let (outside_too, inside_too, log_too) =
            (outside.try_clone().unwrap(), inside.try_clone().unwrap(), Arc::clone(&log));
        thread::spawn(move || copy_datagrams(&inside_too, &outside_too, &log_too, "nonce"));
        copy_datagrams(&outside, &inside, &log, "request");
    });
}

fn copy_datagrams(from: &UdpSocket, to: &UdpSocket, log: &Log, who: &str) {
    let mut packet = [0; 1 << 16];
    loop {
        let Ok(length) = from.recv(&mut packet) else { continue };
        if packet.starts_with(&MAGIC) {
            note(log, who, &packet[..length]);
        }
        let _ = to.send(&packet[..length]);
    }
}
