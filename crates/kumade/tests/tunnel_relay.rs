//! `kumade tunnel` with `--forward`: TCP connections carried without packets, as people use it.

use crate::tunnel_ends;

use kumade_net::capture::Capture;
use kumade_net::namespace::Namespace;
use kumade_net::nftables::{InstalledTable, Table};
use kumade_netns_testbed::{VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Child;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;
use tunnel_ends::{Keys, end_with, has_device, hosts, lines, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);
const TARGET: &str = "127.0.0.1:9";

fn connect(inside: &Namespace, port: u16) -> TcpStream {
    let stream = inside.run(|| TcpStream::connect(("127.0.0.1", port)).unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn is_reset(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0; 100]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Whether a connection to this address is reset as soon as it is there, which may be before `connect` has returned.
fn is_reset_at_once(inside: &Namespace, address: &str) -> bool {
    match inside.run(|| TcpStream::connect(address)).unwrap() {
        Ok(mut stream) => {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            is_reset(&mut stream)
        }
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A program behind the far end answers what it is sent, once that has ended. Nobody between the hosts can read it. Returns
/// who has connected to it.
fn exchange(hosts: &VethHosts, listener: &TcpListener, mut stream: TcpStream) -> SocketAddr {
    const TEXT: &[u8] = b"what nobody on the way is to read ";
    let text = TEXT.repeat(10_000);
    let mut captures = [&hosts.left, &hosts.right].map(|host| host.run(|| Capture::outgoing("host").unwrap()).unwrap());
    let source = thread::scope(|scope| {
        let target = scope.spawn(|| {
            let (mut stream, source) = listener.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            stream.write_all(&received).unwrap();
            source
        });
        stream.write_all(&text).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(received == text);
        target.join().unwrap()
    });
    for capture in &mut captures {
        let is_readable = |packet: &[u8]| packet.windows(TEXT.len()).any(|part| part == TEXT);
        let seen: Vec<_> = std::iter::from_fn(|| capture.next(|_, packet| is_readable(packet))).collect();
        assert!(!seen.is_empty() && !seen.contains(&true));
    }
    source
}

/// Both ends and what they say; the left one forwards ports 1001 to the target and 1002 to what is not allowed.
struct Ends {
    children: [Child; 2],
    lines: [Receiver<String>; 2],
}

impl Ends {
    fn start(keys: &Keys, hosts: &VethHosts, listening: &[&str], connecting: &[&str]) -> Self {
        let forwards = ["--forward", "1001:127.0.0.1:9", "--forward", "1002:127.0.0.1:10"];
        let far = [&["--allow", TARGET][..], listening].concat();
        let near = [&forwards[..], connecting].concat();
        let mut far = keys.end(hosts, 2, &far).spawn().unwrap();
        let far_lines = lines(&mut far);
        wait_for(&far_lines, "Ctrl-C");
        let mut near = keys.end(hosts, 1, &near).spawn().unwrap();
        let near_lines = lines(&mut near);
        wait_for(&near_lines, "Ctrl-C");
        Ends { children: [near, far], lines: [near_lines, far_lines] }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn ports_are_forwarded_without_a_device_and_end_with_either_end() {
    in_namespaces("ports_are_forwarded_without_a_device_and_end_with_either_end", || {
        let (hosts, keys) = (hosts(), Keys::new("tunnel-forward"));
        let mut ends = Ends::start(&keys, &hosts, &[], &[]);
        let listener = hosts.right.run(|| TcpListener::bind(TARGET).unwrap()).unwrap();
        exchange(&hosts, &listener, connect(&hosts.left, 1001));
        assert!(!has_device(&hosts.left) && !has_device(&hosts.right));

        assert!(is_reset_at_once(&hosts.left, "127.0.0.1:1002"));
        let [near, far] = &ends.lines;
        for (line, who) in [(wait_for(near, "allow"), "127.0.0.1:10"), (wait_for(far, "allow"), &keys.public(1)[..8])] {
            assert!(line.contains(who) && line.contains("--allow 127.0.0.1:10"), "{line}");
        }

        let mut program = connect(&hosts.left, 1001);
        let mut reached = listener.accept().unwrap().0;
        reached.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(!end_with(&mut ends.children[1], Signal::SIGKILL));
        assert!(is_reset(&mut program) && is_reset(&mut reached));
        assert!(is_reset_at_once(&hosts.left, "127.0.0.1:1001"));
        wait_for(&ends.lines[0], "a connection to 10.79.0.2:443");
        assert!(end_with(&mut ends.children[0], Signal::SIGTERM));
        assert!(hosts.left.run(|| TcpStream::connect("127.0.0.1:1001").is_err()).unwrap());
    });
}

#[test]
fn connections_from_an_address_that_has_gone_are_reset_and_new_ones_carried() {
    in_namespaces("connections_from_an_address_that_has_gone_are_reset_and_new_ones_carried", || {
        let (hosts, keys) = (hosts(), Keys::new("tunnel-forward-moves"));
        let mut ends = Ends::start(&keys, &hosts, &[], &[]);
        let listener = hosts.right.run(|| TcpListener::bind(TARGET).unwrap()).unwrap();
        let mut program = connect(&hosts.left, 1001);
        let _reached = listener.accept().unwrap();
        run_ip(&hosts.left, &["addr", "del", "10.79.0.1/24", "dev", VethHosts::DEVICE]).unwrap();
        run_ip(&hosts.left, &["addr", "add", "10.79.0.5/24", "dev", VethHosts::DEVICE]).unwrap();
        assert!(is_reset(&mut program));
        exchange(&hosts, &listener, connect(&hosts.left, 1001));
        ends.children.iter_mut().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
    });
}

/// Its stream was reset before (issue 40, "What it must show").
#[test]
fn a_connection_outlives_an_interface_that_goes_and_comes_back_with_its_address() {
    in_namespaces("a_connection_outlives_an_interface_that_goes_and_comes_back_with_its_address", || {
        let (hosts, keys) = (hosts(), Keys::new("tunnel-forward-comes-back"));
        let mut ends = Ends::start(&keys, &hosts, &[], &[]);
        let listener = hosts.right.run(|| TcpListener::bind(TARGET).unwrap()).unwrap();
        let mut program = connect(&hosts.left, 1001);
        let mut reached = listener.accept().unwrap().0;
        let on_the_left = |command: &[&str]| run_ip(&hosts.left, command).unwrap();
        on_the_left(&["addr", "del", "10.79.0.1/24", "dev", VethHosts::DEVICE]);
        // Several looks at whether the address is there.
        std::thread::sleep(std::time::Duration::from_secs(1));
        on_the_left(&["addr", "add", "10.79.0.1/24", "dev", VethHosts::DEVICE]);
        program.write_all(b"still there").unwrap();
        let mut received = [0; 11];
        reached.set_read_timeout(Some(PATIENCE)).unwrap();
        reached.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"still there");
        ends.children.iter_mut().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
    });
}

#[test]
fn ports_are_forwarded_beside_packets_over_the_same_port() {
    in_namespaces("ports_are_forwarded_beside_packets_over_the_same_port", || {
        let (hosts, keys) = (hosts(), Keys::new("tunnel-forward-beside"));
        for carrier in ["rake", "udp"] {
            let address = |number| ["--carrier", carrier, "--address", ["10.77.0.1/24", "10.77.0.2/24"][number]];
            let mut ends = Ends::start(&keys, &hosts, &address(1), &address(0));
            ends.lines.iter().for_each(|lines| drop(wait_for(lines, ": connected")));
            let listener = hosts.right.run(|| TcpListener::bind(TARGET).unwrap()).unwrap();
            exchange(&hosts, &listener, connect(&hosts.left, 1001));
            // Packets pass, too.
            let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:9").unwrap()).unwrap();
            let _stream = hosts.left.run(|| TcpStream::connect("10.77.0.2:9").unwrap()).unwrap();
            listener.accept().unwrap();
            ends.children.iter_mut().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
            assert!(eventually(|| !has_device(&hosts.left)));
        }
    });
}

#[test]
fn a_far_end_with_another_key_is_named() {
    in_namespaces("a_far_end_with_another_key_is_named", || {
        let (hosts, keys, others) = (hosts(), Keys::new("tunnel-forward-key"), Keys::new("tunnel-forward-other-key"));
        let mut far = others.end(&hosts, 2, &["--allow", TARGET]).spawn().unwrap();
        wait_for(&lines(&mut far), "Ctrl-C");
        let mut near = keys.end(&hosts, 1, &["--forward", "1001:127.0.0.1:9"]).spawn().unwrap();
        let near_lines = lines(&mut near);
        wait_for(&near_lines, "Ctrl-C");
        assert!(is_reset_at_once(&hosts.left, "127.0.0.1:1001"));
        let line = wait_for(&near_lines, "a connection to 10.79.0.2:443");
        assert!(line.contains("no answer"), "{line}");
        [near, far].iter_mut().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
    });
}

/// To an address, from within a host.
fn reach(inside: &Namespace, address: &str) -> TcpStream {
    let stream = inside.run(|| TcpStream::connect(address).unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn has_rules(inside: &Namespace) -> bool {
    let table = Table { name: "kumade-relay-kumade0".into(), counters: vec![], flow_lists: vec![], chains: vec![] };
    inside.run(|| InstalledTable::install(&table).is_err()).unwrap()
}

#[test]
fn connections_are_relayed_unasked_and_other_packets_carried() {
    in_namespaces("connections_are_relayed_unasked_and_other_packets_carried", || {
        let (hosts, keys) = (hosts(), Keys::new("tunnel-relay"));
        let listening = ["--carrier", "relay", "--address", "10.77.0.2/24", "--address", "fd77::2/64"];
        let connecting = ["--carrier", "relay", "--address", "10.77.0.1/24", "--address", "fd77::1/64"];
        let connecting = [&connecting[..], &["--relay-from", "10.79.0.9/32"]].concat();
        let mut ends = Ends::start(&keys, &hosts, &listening, &connecting);
        ends.lines.iter().for_each(|lines| drop(wait_for(lines, ": connected")));
        for address in ["10.77.0.2:9", "[fd77::2]:9"] {
            let listener = hosts.right.run(|| TcpListener::bind(address).unwrap()).unwrap();
            let source = exchange(&hosts, &listener, reach(&hosts.left, address));
            assert_eq!(source.ip(), listener.local_addr().unwrap().ip(), "from the far end");
        }
        // A host that the near end forwards for.
        run_ip(&hosts.middle, &["addr", "add", "10.79.0.9/24", "dev", "bridge"]).unwrap();
        run_ip(&hosts.middle, &["route", "add", "10.77.0.0/24", "via", "10.79.0.1"]).unwrap();
        hosts.left.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap()).unwrap();
        let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:9").unwrap()).unwrap();
        let mut behind = reach(&hosts.middle, "10.77.0.2:9");
        let (mut stream, source) = listener.accept().unwrap();
        assert_eq!(source.ip().to_string(), "10.77.0.2");
        behind.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        // Datagrams, and connections from the far end, are packets as they were.
        let datagrams = hosts.right.run(|| UdpSocket::bind("10.77.0.2:9").unwrap()).unwrap();
        let sender = hosts.left.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        datagrams.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut source = None;
        assert!(eventually(|| {
            sender.send_to(b"x", "10.77.0.2:9").unwrap();
            source = datagrams.recv_from(&mut [0]).ok();
            source.is_some()
        }));
        assert_eq!(source.unwrap().1.ip().to_string(), "10.77.0.1");
        let listener = hosts.left.run(|| TcpListener::bind("10.77.0.1:9").unwrap()).unwrap();
        let _stream = reach(&hosts.right, "10.77.0.1:9");
        assert_eq!(listener.accept().unwrap().1.ip().to_string(), "10.77.0.2");
        // What the far end does not allow is no other host's.
        assert!(is_reset_at_once(&hosts.left, "10.77.0.3:9"));
        wait_for(&ends.lines[1], "--allow 10.77.0.3:9");

        assert!(has_rules(&hosts.left) && !has_rules(&hosts.right));
        assert!(!end_with(&mut ends.children[0], Signal::SIGKILL));
        assert!(eventually(|| !has_rules(&hosts.left) && !has_device(&hosts.left)));
        assert!(is_reset(&mut behind));
        assert!(end_with(&mut ends.children[1], Signal::SIGTERM));
        wait_for(&ends.lines[1], "3 relayed connections");
    });
}
