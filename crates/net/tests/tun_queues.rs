//! TUN devices with segmentation offload: what a host sends through one comes out of another as it was.

use ipnet::IpNet;
use kumade_net::interface::{self, Family};
use kumade_net::namespace::Namespace;
use kumade_net::tun::{TunPackets, TunQueue};
use kumade_net::udp::{BatchReceiver, BatchSocket, SendRefusal, send_burst};
use kumade_net::{SocketBinding, clock, readiness};
use kumade_netns_testbed::{eventually, in_namespaces};
use kumade_packet::offload::PARTIAL_CHECKSUM;
use kumade_packet::{Ecn, checksum};
use kumade_units::Span;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MTU: usize = 1400;
const HEADROOM: usize = 32;
const QUEUES: usize = 2;
/// Without a packet for so long, something has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts, each with a device of two queues, and a thread that carries packets from either to the other.
struct Pair {
    hosts: [Namespace; 2],
    queues: [Vec<TunQueue>; 2],
}

/// What the thread has seen of one direction.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    reads: usize,
    packets: usize,
    partial: usize,
}

impl Pair {
    fn new() -> Self {
        let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap()];
        let device = |index: usize| hosts[index].run(|| device(index + 1)).unwrap();
        let queues = [device(0), device(1)];
        Pair { hosts, queues }
    }

    /// Carries packets until `work` is done.
    fn carry(self, work: impl FnOnce(&[Namespace; 2])) -> [Seen; 2] {
        let (Pair { hosts, mut queues }, is_done) = (self, AtomicBool::new(false));
        thread::scope(|scope| {
            let is_done = &is_done;
            let carrier = scope.spawn(move || {
                let mut seen = [Seen::default(); 2];
                while !is_done.load(Ordering::Relaxed) {
                    let [left, right] = &mut queues;
                    let carried = pass(left, right, &mut seen[0]) + pass(right, left, &mut seen[1]);
                    if carried == 0 {
                        thread::yield_now();
                    }
                }
                seen
            });
            let end = SetOnDrop(is_done);
            work(&hosts);
            drop(end);
            carrier.join().unwrap()
        })
    }
}

/// Also where a test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn device(host: usize) -> Vec<TunQueue> {
    let mut queues = TunQueue::open("tun7", MTU as u16, QUEUES).unwrap();
    for network in [format!("10.98.0.{host}/24"), format!("fd98::{host}/64")] {
        let network: IpNet = network.parse().unwrap();
        interface::add_address("tun7", network).unwrap();
        assert!(eventually(|| reaches_itself(network.addr()).unwrap_or(false)));
    }
    // What was sent before an address was in use has left by the device.
    for queue in &mut queues {
        while queue.read(0).is_ok() {}
    }
    queues
}

fn reaches_itself(host: IpAddr) -> io::Result<bool> {
    let socket = UdpSocket::bind((host, 0))?;
    socket.send_to(b"hello", socket.local_addr()?)?;
    readiness::wait_readable(&socket, clock::monotonic() + Span::from_millis(10))
}

/// What is written, and whether its transport checksum is partial.
struct Carried {
    packet: Vec<u8>,
    is_partial: bool,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.packet
    }
}

/// Each queue of one device feeds the same of the other; every second read in packets that stand for segments, and of the others every second one in
/// packets with partial checksums.
fn pass(from: &mut [TunQueue], to: &mut [TunQueue], seen: &mut Seen) -> usize {
    let mut carried = 0;
    for (from, to) in from.iter_mut().zip(to) {
        let mut batch = Vec::new();
        while batch.len() < 64 {
            match from.read(HEADROOM) {
                Ok(packets) if seen.reads % 2 == 1 => {
                    write(to, &batch);
                    carried += batch.len() + pass_large(packets, to);
                    batch.clear();
                    seen.reads += 1;
                }
                Ok(mut packets) => {
                    let is_partial = seen.reads.is_multiple_of(4) && packets.leave_checksums_partial();
                    let mut packet = Vec::new();
                    while packets.write_next(&mut packet) {
                        batch.push(Carried { packet: packet.split_off(HEADROOM), is_partial });
                        seen.partial += usize::from(is_partial);
                    }
                    seen.reads += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        write(to, &batch);
        carried += batch.len();
    }
    seen.packets += carried;
    carried
}

fn write(to: &mut TunQueue, batch: &[Carried]) {
    for Carried { packet, is_partial } in batch {
        assert!(packet.len() <= MTU, "{}", packet.len());
        // A partial one may be right by chance.
        assert!(*is_partial || checksum::is_valid(packet).unwrap());
    }
    to.write_batch(
        batch,
        |packet| packet.is_partial,
        |index, error| panic!("packet {index} of {}: {error}", batch.len()),
    );
}

fn pass_large(mut packets: TunPackets<'_>, to: &mut TunQueue) -> usize {
    let (mut packet, mut carried) = (Vec::new(), 0);
    while let Some(segment_bytes) = packets.write_next_large(9000, &mut packet) {
        let packet = &mut packet[HEADROOM..];
        match segment_bytes {
            Some(segment_bytes) => to.write_large(packet, segment_bytes).unwrap(),
            None => write(to, &[Carried { packet: packet.to_vec(), is_partial: false }]),
        }
        carried += packet.len().div_ceil(MTU);
    }
    carried
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251 + at / 65_521) as u8).collect()
}

#[test]
fn what_tcp_sends_in_large_packets_comes_out_as_it_was() {
    in_namespaces("what_tcp_sends_in_large_packets_comes_out_as_it_was", || {
        const BYTES: usize = 8 << 20;
        for far in ["10.98.0.2:0", "[fd98::2]:0"] {
            let [there, back] = Pair::new().carry(|[left, right]| {
                let listener = right.run(|| TcpListener::bind(far).unwrap()).unwrap();
                let at = listener.local_addr().unwrap();
                let mut near = left.run(|| TcpStream::connect(at).unwrap()).unwrap();
                let mut far = listener.accept().unwrap().0;
                // Where the one that carries packets has failed, none come any more.
                near.set_write_timeout(Some(PATIENCE)).unwrap();
                far.set_read_timeout(Some(PATIENCE)).unwrap();
                let sender = thread::spawn(move || near.write_all(&pattern(BYTES)).map(|()| near));
                let mut received = vec![0; BYTES];
                far.read_exact(&mut received).unwrap();
                assert!(received == pattern(BYTES), "bytes differ");
                drop(sender.join().unwrap().unwrap());
            });
            assert!(there.packets > there.reads, "the host segments nothing itself: {there:?}");
            assert!(there.partial > 100, "{there:?}");
            assert!(back.packets > 0);
        }
    });
}

#[test]
fn datagrams_pass_in_order_whether_sent_together_or_one_by_one() {
    in_namespaces("datagrams_pass_in_order_whether_sent_together_or_one_by_one", || {
        for (family, far) in [(Family::V4, "10.98.0.2"), (Family::V6, "fd98::2")] {
            Pair::new().carry(|hosts| {
                let open = || BatchSocket::bind(&SocketBinding::default(), family, 0).unwrap();
                let [left, right] = hosts.each_ref().map(|host| host.run(open).unwrap());
                let to = SocketAddr::new(far.parse().unwrap(), right.local_addr().unwrap().port());
                let sent: Vec<_> = (0..60_u8).map(|number| vec![number; 1000 - usize::from(number / 20)]).collect();
                let mut receiver = BatchReceiver::new(&right);
                for _ in 0..20 {
                    let done = left.send(to, Ecn::Ect0, &sent, |index, error| panic!("{index}: {error:?}"));
                    assert_eq!(done, sent.len());
                    assert_eq!(received(&mut receiver, sent.len()), sent);
                }
            });
        }
    });
}

fn received(receiver: &mut BatchReceiver, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        assert!(readiness::wait_readable(receiver, clock::monotonic() + Span::from_secs(60)).unwrap());
        let read = |received: kumade_net::udp::ReceivedDatagrams<'_>| {
            assert_eq!(received.ecn, Ecn::Ect0);
            all.extend(received.datagrams().map(|datagram| datagram.to_vec()));
        };
        receiver.receive(read).unwrap();
    }
    all
}

/// A packet of TCP or UDP to a far network, the next but so many of its flow, with options of IP or without.
fn far_packet(is_v4: bool, is_tcp: bool, has_options: bool, number: u16) -> Vec<u8> {
    let options = if has_options { 4 } else { 0 };
    let header = if is_v4 { 20 } else { 40 };
    let (protocol, transport) = if is_tcp { (6, 20) } else { (17, 8) };
    let (start, data) = (header + options, 600);
    let length = start + transport + data;
    let mut packet = vec![0; length];
    if is_v4 {
        (packet[0], packet[6], packet[8], packet[9]) = (0x45 + options as u8 / 4, 0x40, 64, protocol);
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        packet[12..20].copy_from_slice(&[10, 98, 0, 9, 10, 99, 0, 9]);
        // No operation.
        packet[20..start].fill(1);
    } else {
        (packet[0], packet[6], packet[7]) = (0x60, protocol, 64);
        packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        packet[8..24].copy_from_slice(&"fd98::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
        packet[24..40].copy_from_slice(&"fd99::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    packet[start..start + 4].copy_from_slice(&[7, u8::from(has_options), 0, 9]);
    if is_tcp {
        packet[start + 4..start + 8].copy_from_slice(&(u32::from(number) * data as u32).to_be_bytes());
        packet[start + 12..start + 16].copy_from_slice(&[0x50, 0x10, 1, 0]);
    } else {
        packet[start + 4..start + 6].copy_from_slice(&((transport + data) as u16).to_be_bytes());
    }
    packet[start + transport..].copy_from_slice(&pattern(data));
    checksum::set(&mut packet).unwrap();
    packet
}

/// A host that forwards them has no network card that would compute a checksum: the kernel does, wherever they leave.
#[test]
fn partial_checksums_are_completed_where_packets_are_forwarded() {
    in_namespaces("partial_checksums_are_completed_where_packets_are_forwarded", || {
        let work = || {
            let mut queue = device(1).remove(0);
            let plain = tun_rs::DeviceBuilder::new().name("tun8").mtu(MTU as u16).build_sync().unwrap();
            plain.set_nonblocking(true).unwrap();
            for network in ["10.99.0.1/24", "fd99::1/64"] {
                interface::add_address("tun8", network.parse().unwrap()).unwrap();
            }
            for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
            }
            for (is_v4, is_tcp, has_options) in [
                (true, true, false),
                (true, false, false),
                (true, false, true),
                (false, true, false),
                (false, false, false),
            ] {
                for count in [1, 3] {
                    let packets: Vec<_> =
                        (0..count).map(|number| far_packet(is_v4, is_tcp, has_options, number)).collect();
                    let expected = packets.iter().map(|packet| {
                        let mut forwarded = packet.clone();
                        forwarded[if is_v4 { 8 } else { 7 }] -= 1;
                        checksum::set(&mut forwarded).unwrap();
                        forwarded
                    });
                    let partial: Vec<_> = packets
                        .iter()
                        .map(|packet| {
                            let (mut packet, data) = (packet.clone(), 600);
                            let field = packet.len() - data - if is_tcp { 4 } else { 2 };
                            packet[field..field + 2].copy_from_slice(&PARTIAL_CHECKSUM);
                            Carried { packet, is_partial: true }
                        })
                        .collect();
                    write(&mut queue, &partial);
                    let (mut buffer, mut forwarded) = (vec![0; 2000], Vec::new());
                    let has_come = eventually(|| {
                        while let Ok(length) = plain.recv(&mut buffer) {
                            // The host has multicasts of its own to send.
                            let is_own =
                                if is_v4 { buffer[16..20] == [10, 99, 0, 9] } else { buffer[24..26] == [0xfd, 0x99] };
                            if is_own {
                                forwarded.push(buffer[..length].to_vec());
                            }
                        }
                        forwarded.len() >= usize::from(count)
                    });
                    assert!(has_come, "{is_v4} {is_tcp} {has_options}: {} of {count}", forwarded.len());
                    assert!(forwarded.into_iter().eq(expected), "{is_v4} {is_tcp} {has_options} {count}");
                }
            }
        };
        Namespace::new().unwrap().run(work).unwrap();
    });
}

#[test]
fn a_device_has_the_mtu_and_the_routes_that_it_is_given_and_vanishes_with_its_last_queue() {
    in_namespaces("a_device_has_the_mtu_and_the_routes_that_it_is_given_and_vanishes_with_its_last_queue", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let mut queues = device(1);
            interface::add_route("tun7", "10.97.0.0/16".parse().unwrap()).unwrap();
            interface::add_default_route("tun7", Family::V6).unwrap();
            interface::set_mtu("tun7", 1300).unwrap();
            for (family, far, headers) in [(Family::V4, "10.97.1.1:9", 28), (Family::V6, "[fd01::1]:9", 48)] {
                let socket = BatchSocket::bind(&SocketBinding::default(), family, 0).unwrap();
                let datagrams = [1300, 1301].map(|packet| vec![0; packet - headers]);
                let refused =
                    |index, refusal| assert!(index == 1 && matches!(refusal, SendRefusal::TooLong), "{refusal:?}");
                assert_eq!(socket.send(far.parse().unwrap(), Ecn::NotEct, &datagrams, refused), 2);
                let mut packet = Vec::new();
                // What was sent before to see whether an address is in use may still come.
                let mut is_there = |queue: &mut TunQueue| {
                    while queue.read(0).is_ok_and(|mut read| read.write_next(&mut packet)) {
                        if packet.len() == 1300 {
                            return true;
                        }
                    }
                    false
                };
                assert!(eventually(|| queues.iter_mut().any(&mut is_there)));
            }
            queues.pop();
            assert!(interface::exists("tun7"));
            drop(queues);
            assert!(eventually(|| !interface::exists("tun7")));
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn what_cannot_be_made_or_written_is_refused_with_the_reason() {
    in_namespaces("what_cannot_be_made_or_written_is_refused_with_the_reason", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let mut queues = TunQueue::open("tun7", 1500, 0).unwrap();
            assert_eq!(queues.len(), 1);
            let taken = TunQueue::open("tun7", 1500, 1).unwrap_err().to_string();
            assert!(
                taken.contains("make the TUN device tun7") && taken.contains("give the device another one"),
                "{taken}"
            );
            let odd = TunQueue::open("a/b", 1500, 1).unwrap_err().to_string();
            assert!(odd.contains("1 to 15 letters"), "{odd}");
            let many = TunQueue::open("tun8", 1500, 257).unwrap_err().to_string();
            assert!(many.contains("256 queues"), "{many}");
            assert!(eventually(|| !interface::exists("tun8")));
            let unknown = interface::add_address("nowhere", "10.0.0.1/8".parse().unwrap()).unwrap_err().to_string();
            assert!(unknown.contains("find the interface nowhere"), "{unknown}");

            let mut refused = Vec::new();
            queues[0].write_batch(&[[0x15; 12], [0x45; 12]], |_| false, |index, _| refused.push(index));
            assert_eq!(refused, [0], "the kernel looks at the version only");
            // None of them comes back; the host may have multicasts of its own to send.
            let mut packet = Vec::new();
            while let Ok(mut read) = queues[0].read(0) {
                assert!(read.write_next(&mut packet) && packet[0] >> 4 == 6, "{packet:?}");
            }
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn a_host_answers_through_the_queue_that_its_packets_come_by() {
    in_namespaces("a_host_answers_through_the_queue_that_its_packets_come_by", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let mut queues = device(1);
            let socket = UdpSocket::bind("10.98.0.1:700").unwrap();
            for round in 0..20 {
                let index = round % QUEUES;
                queues[index].write_batch(&[datagram(round as u8)], |_| false, |_, error| panic!("{error}"));
                let (_, from) = socket.recv_from(&mut [0; 9]).unwrap();
                socket.send_to(b"answer", from).unwrap();
                let mut answer = Vec::new();
                let has_come = eventually(|| {
                    let Ok(mut packets) = queues[index].read(0) else { return false };
                    assert!(packets.write_next(&mut answer) && !packets.write_next(&mut Vec::new()));
                    answer.ends_with(b"answer")
                });
                assert!(has_come, "by the same queue");
                assert_eq!(answer.len(), 28 + b"answer".len());
                assert!(checksum::is_valid(&answer).unwrap());
            }
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn a_stamped_queue_tells_when_packets_were_handed_over_also_of_those_read_later() {
    in_namespaces("a_stamped_queue_tells_when_packets_were_handed_over_also_of_those_read_later", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let mut queue = device(1).remove(0).with_handover_times("tun7").unwrap();
            let socket = UdpSocket::bind("10.98.0.1:0").unwrap();
            socket.connect("10.98.0.9:9").unwrap();
            let mut sendings = Vec::new();
            for (number, payload) in (0..6u8).zip([9, 5000, 9, 20_000, 1300, 9]) {
                let (before, payload) = (clock::realtime(), vec![number; payload]);
                send_burst(&socket, &payload, 1200, &mut true).unwrap();
                sendings.push((before, clock::realtime(), payload.len()));
                thread::sleep(Duration::from_millis(2));
            }
            assert!(queue.is_ready());
            let mut packet = Vec::new();
            for (before, after, payload) in sendings {
                let mut left = payload;
                while left > 0 {
                    let mut packets = queue.read(0).expect("it was sent");
                    let stamp = packets.handover_time().expect("a stamp");
                    while packets.write_next(&mut packet) {
                        // The host has multicasts of its own to send.
                        if packet[16..20] == [10, 98, 0, 9] {
                            assert!(before <= stamp && stamp <= after, "{before:?} {stamp:?} {after:?}");
                            left -= packet.len() - 28;
                        }
                    }
                }
            }
        };
        namespace.run(work).unwrap();
    });
}

/// From a port of its own to port 700.
fn datagram(port: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 98, 0, 2, 10, 98, 0, 1];
    packet.extend([3, port, 700_u16.to_be_bytes()[0], 700_u16.to_be_bytes()[1], 0, 12, 0, 0]);
    packet.extend(b"data");
    checksum::set(&mut packet).unwrap();
    packet
}
