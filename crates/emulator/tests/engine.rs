//! Emulated links between the interfaces and TUN devices of real hosts: their packets arrive unchanged.

use crate::common;

use common::{config, emulate, with, with_link};
use kumade_emulator::{Engine, Port, PortSpec};
use kumade_link::LinkConfig;
use kumade_middlebox::{FilterRule, PacketMatch, RefusalKind};
use kumade_net::namespace::Namespace;
use kumade_net::packet_socket::Receiver;
use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, in_namespaces, run_ip};
use kumade_units::{Rate, Span};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// TCP checks every byte; the senders leave checksums and segmentation to a network card, whose part the emulator plays.
#[test]
fn tcp_passes_unharmed_with_the_senders_offloads_on() {
    in_namespaces("tcp_passes_unharmed_with_the_senders_offloads_on", || {
        let hosts = VethHosts::new(1500).unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        for address in ["10.79.0.2:0", "[fd79::2]:0"] {
            transfer(&hosts.left, &hosts.right, address);
        }
        engine.stop().unwrap();
        let [there, back] = engine.statistics();
        assert!(there.counts.delivered.bytes > 6_000_000 && back.counts.delivered.packets > 0);
        assert!(there.flows.iter().any(|flow| flow.key.is_some_and(|key| key.destination.port() != 0)));
    });
}

/// Packets of a fast link cost what fewer, large ones do; those of a slow one keep their own times.
#[test]
fn segments_that_are_due_together_arrive_as_one_packet() {
    in_namespaces("segments_that_are_due_together_arrive_as_one_packet", || {
        for (mbit, is_joined) in [(10_000, true), (100, false)] {
            let hosts = VethHosts::new(1500).unwrap();
            let link = LinkConfig { rate: Some(Rate::from_mbit(mbit)), ..LinkConfig::default() };
            let engine = emulate(&hosts, [with_link(link), config()]);
            let mut receiver = hosts.right.run(|| Receiver::open(VethHosts::DEVICE).unwrap()).unwrap();
            for address in ["10.79.0.2:0", "[fd79::2]:0"] {
                transfer(&hosts.left, &hosts.right, address);
                let mut large = 0;
                while receiver.next(|arrived| large += u32::from(arrived.offload.segment_bytes.is_some())) {}
                assert_eq!(large > 0, is_joined, "{large} at {mbit} Mbit/s to {address}");
            }
            engine.stop().unwrap();
            let [there, _] = engine.statistics();
            let counts = there.counts;
            assert!(counts.delivered.packets > 4000, "segments are counted: {:?}", counts.delivered);
        }
    });
}

#[test]
fn two_tun_devices_in_namespaces_of_their_own_are_joined() {
    in_namespaces("two_tun_devices_in_namespaces_of_their_own_are_joined", || {
        let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let ports = [&left, &right]
            .map(|host| host.run(|| Port::open(&PortSpec::Tun { name: "end".into() }).unwrap()).unwrap());
        for (host, own) in [(&left, "10.79.0.1/24"), (&right, "10.79.0.2/24")] {
            run_ip(host, &["addr", "add", own, "dev", "end"]).unwrap();
        }
        let _engine = Engine::join_ports(ports, [config(), config()], Default::default()).unwrap();
        transfer(&left, &right, "10.79.0.2:0");
    });
}

#[test]
fn nothing_comes_before_its_delay_nor_faster_than_its_rate() {
    in_namespaces("nothing_comes_before_its_delay_nor_faster_than_its_rate", || {
        let hosts = VethHosts::new(1500).unwrap();
        let slow = LinkConfig { rate: Some(Rate::from_mbit(1)), delay: Span::from_millis(20), ..LinkConfig::default() };
        let engine = emulate(&hosts, [with_link(slow), config()]);
        let (sender, receiver) = sockets(&hosts);
        // Finds the neighbour.
        exchange(&sender, &receiver);
        let begun = Instant::now();
        // Of 20 packets of 1000 bytes, each takes 8 ms.
        (0..20).for_each(|_| assert_eq!(sender.send(&[0; 972]).unwrap(), 972));
        (0..20).for_each(|_| assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 972));
        assert!(begun.elapsed() >= Duration::from_millis(180), "{:?}", begun.elapsed());
        let [there, _] = engine.statistics();
        assert!(there.sojourn.quantile(1.0).unwrap() >= Span::from_millis(178), "{there:?}");
    });
}

#[test]
fn settings_change_while_packets_are_on_their_way() {
    in_namespaces("settings_change_while_packets_are_on_their_way", || {
        let hosts = VethHosts::new(1500).unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        let (sender, receiver) = sockets(&hosts);
        exchange(&sender, &receiver);
        let delayed = LinkConfig { delay: Span::from_millis(100), ..LinkConfig::default() };
        engine.set_direction(0, with_link(delayed)).unwrap();
        // The packet thread answers requests in their order: with this answer, the change is made.
        engine.statistics();
        let begun = Instant::now();
        exchange(&sender, &receiver);
        assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
        engine.stop().unwrap();
        assert!(engine.set_direction(0, config()).is_err() && !engine.is_running());
    });
}

/// TCP drops segments with a bit inverted, sends them again, and what arrives is what was sent.
#[test]
fn what_is_corrupted_is_dropped_by_the_receiver() {
    in_namespaces("what_is_corrupted_is_dropped_by_the_receiver", || {
        let hosts = VethHosts::new(1500).unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        // ARP has no checksum.
        let (sender, receiver) = sockets(&hosts);
        exchange(&sender, &receiver);
        engine.set_direction(0, with_link(LinkConfig { corruption: 1.0, ..LinkConfig::default() })).unwrap();
        engine.statistics();
        (0..50).for_each(|_| assert_eq!(sender.send(&[1; 100]).unwrap(), 100));
        let begun = Instant::now();
        while engine.statistics()[0].counts.corrupted.packets < 50 {
            assert!(begun.elapsed() < TEST_DEADLINE);
            thread::sleep(Duration::from_millis(1));
        }
        engine.set_direction(0, with_link(LinkConfig { corruption: 0.01, ..LinkConfig::default() })).unwrap();
        engine.statistics();
        receiver.set_nonblocking(true).unwrap();
        assert_eq!(receiver.recv(&mut [0; 200]).unwrap_err().kind(), ErrorKind::WouldBlock);
        transfer(&hosts.left, &hosts.right, "10.79.0.2:0");
        engine.stop().unwrap();
        assert!(engine.statistics()[0].counts.corrupted.packets > 50);
    });
}

#[test]
fn an_idle_link_sleeps_also_after_it_was_changed() {
    in_namespaces("an_idle_link_sleeps_also_after_it_was_changed", || {
        let hosts = VethHosts::new(1500).unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        let (sender, receiver) = sockets(&hosts);
        for _ in 0..200 {
            engine.set_direction(0, config()).unwrap();
            exchange(&sender, &receiver);
        }
        let before = ticks_of_the_packet_thread();
        thread::sleep(Duration::from_secs(1));
        // Of a hundred in a second. Time on a processor counts, which other programs' load does not add to.
        let used = ticks_of_the_packet_thread() - before;
        assert!(used <= 20, "{used} ticks");
    });
}

#[test]
fn what_a_rule_refuses_is_answered_and_neighbours_are_still_found() {
    in_namespaces("what_a_rule_refuses_is_answered_and_neighbours_are_still_found", || {
        let hosts = VethHosts::new(1500).unwrap();
        let matching = PacketMatch { protocol: Some(kumade_packet::protocol::UDP), destination_port: None };
        let refuse = FilterRule::Refuse { matching, refusal: RefusalKind::Reject };
        let engine = emulate(&hosts, [with(LinkConfig::default(), vec![refuse]), config()]);
        let (sender, _receiver) = sockets(&hosts);
        sender.send(b"is this allowed?").unwrap();
        assert_eq!(sender.recv(&mut [0; 100]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        transfer(&hosts.left, &hosts.right, "10.79.0.2:0");
        let [there, _] = engine.statistics();
        assert_eq!(there.counts.dropped_for(kumade_emulator::statistics::DropCause::FilteredByRule).packets, 1);
    });
}

/// A UDP socket on the left, connected to one on the right. Neither waits for ever.
fn sockets(hosts: &VethHosts) -> (UdpSocket, UdpSocket) {
    let receiver = hosts.right.run(|| UdpSocket::bind("10.79.0.2:0").unwrap()).unwrap();
    let sender = hosts.left.run(|| UdpSocket::bind("10.79.0.1:0").unwrap()).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    for socket in [&sender, &receiver] {
        socket.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    }
    (sender, receiver)
}

/// What the thread has used of a processor so far.
fn ticks_of_the_packet_thread() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let read = |name: &str, task: &PathBuf| fs::read_to_string(task.join(name)).unwrap_or_default();
    let of = tasks.into_iter().find(|task| read("comm", task).trim() == "emulator").expect("its thread");
    let status = read("stat", &of);
    let fields = status.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// One packet from here to there.
fn exchange(sender: &UdpSocket, receiver: &UdpSocket) {
    sender.send(b"one").unwrap();
    receiver.recv(&mut [0; 100]).unwrap();
}

/// Some megabytes over TCP, whole and in order.
fn transfer(left: &Namespace, right: &Namespace, address: &str) {
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let listener = right.run(|| TcpListener::bind(address).unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        received
    });
    let mut stream = left.run(|| TcpStream::connect_timeout(&to, TEST_DEADLINE).unwrap()).unwrap();
    stream.write_all(&sent).unwrap();
    drop(stream);
    assert!(reader.join().unwrap() == sent);
}
