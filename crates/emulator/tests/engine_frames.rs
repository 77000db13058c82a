//! Frames of every kind: what is forwarded comes out as it went in.

use crate::common;

use common::{config, emulate};
use kumade_net::packet_socket::{OutgoingFrame, Receiver, Sender};
use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, in_namespaces, run_ip};
use kumade_packet::ethertype::{IPV4, IPV6, MPLS, PPPOE_SESSION, PROVIDER_VLAN, VLAN};
use std::thread;
use std::time::{Duration, Instant};

/// Tells our frames from what the hosts' kernels say.
const SOURCE: [u8; 6] = [2, 7, 7, 7, 7, 7];
const DESTINATION: [u8; 6] = [2, 8, 8, 8, 8, 8];
/// For experiments (IEEE 802).
const EXPERIMENT: u16 = 0x88b5;
const JUMBO: u16 = 9000;

#[test]
fn frames_of_every_kind_come_out_as_they_went_in() {
    in_namespaces("frames_of_every_kind_come_out_as_they_went_in", || {
        let hosts = VethHosts::new(JUMBO).unwrap();
        let mut receiver = hosts.right.run(|| Receiver::open(VethHosts::DEVICE).unwrap()).unwrap();
        let mut sender = hosts.left.run(|| Sender::open(VethHosts::DEVICE).unwrap()).unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        let frames = frames();
        let outgoing = frames.iter().map(|frame| OutgoingFrame::new(&frame[..14], &frame[14..]));
        sender.send(&outgoing.collect::<Vec<_>>(), |place, error| panic!("frame {place} was not sent: {error}"));
        let received = collect(&mut receiver, frames.len());
        for (place, frame) in frames.iter().enumerate() {
            assert_eq!(received.get(place), Some(frame), "frame {place}");
        }
        engine.stop().unwrap();
        let [there, _] = engine.statistics();
        assert_eq!(there.counts.total_dropped().packets, 0);
    });
}

/// A frame that is longer than the other side takes is dropped and counted, and the next one passes.
#[test]
fn what_is_too_long_for_the_other_side_is_counted() {
    in_namespaces("what_is_too_long_for_the_other_side_is_counted", || {
        let hosts = VethHosts::new(JUMBO).unwrap();
        run_ip(&hosts.middle, &["link", "set", "two", "mtu", "1500"]).unwrap();
        let mut receiver = hosts.right.run(|| Receiver::open(VethHosts::DEVICE).unwrap()).unwrap();
        let mut sender = hosts.left.run(|| Sender::open(VethHosts::DEVICE).unwrap()).unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        let (long, short) = (frame(&[EXPERIMENT], &[1; 5000]), frame(&[EXPERIMENT], &[2; 500]));
        sender.send(&[&long, &short].map(|frame| OutgoingFrame::new(frame, &[])), |place, error| {
            panic!("frame {place} was not sent: {error}")
        });
        assert_eq!(collect(&mut receiver, 1), [short]);
        engine.stop().unwrap();
        let [there, _] = engine.statistics();
        assert_eq!(there.counts.dropped_for(kumade_emulator::statistics::DropCause::TooLarge).packets, 1);
    });
}

fn frames() -> Vec<Vec<u8>> {
    let udp = [0x9c, 0x40, 0x14, 0x51, 0, 8, 0, 0];
    let v4 = |flags: [u8; 2], length: u16| {
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, flags[0], flags[1], 64, 17, 0, 0, 10, 79, 0, 1, 10, 79, 0, 2];
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet
    };
    let v6 = |next: u8, rest: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
        packet.extend([[0xfd; 16], [0xfe; 16]].concat());
        packet.extend(rest);
        packet
    };
    vec![
        frame(&[IPV4], &[&v4([0, 0], 28)[..], &udp].concat()),
        // Tags: one, which the kernel takes out and the emulator puts back, and two.
        frame(&[VLAN, IPV4], &[&v4([0, 0], 28)[..], &udp].concat()),
        frame(&[PROVIDER_VLAN, VLAN, IPV4], &[&v4([0, 0], 28)[..], &udp].concat()),
        frame(&[VLAN, EXPERIMENT], &[9; 100]),
        // A PPPoE session with IP, and with its own control protocol; MPLS with IP, and with something else.
        frame(&[VLAN, PPPOE_SESSION], &[&[0x11, 0, 0, 7, 0, 30, 0, 0x21][..], &v4([0, 0], 28), &udp].concat()),
        frame(&[PPPOE_SESSION], &[&[0x11, 0, 0, 7, 0, 49, 0x57][..], &v6(17, &udp)].concat()),
        frame(&[PPPOE_SESSION], &[0x11, 0, 0, 7, 0, 10, 0xc0, 0x21, 9, 1, 0, 8, 1, 2, 3, 4]),
        frame(&[MPLS], &[&[0, 1, 0, 64, 0, 2, 1, 64][..], &v6(17, &udp)].concat()),
        frame(&[MPLS], &[&[0, 1, 1, 64][..], &[0x45; 100]].concat()),
        // Something else than IP, hardly anything, and nothing.
        frame(&[EXPERIMENT], &[1; 1400]),
        frame(&[EXPERIMENT], &[1]),
        frame(&[EXPERIMENT], &[]),
        // Something else that looks like a short IP packet, with more behind it.
        frame(&[EXPERIMENT], &[&v4([0, 0], 28)[..], &udp, &[5; 30]].concat()),
        // Fragments, the first and another.
        frame(&[IPV4], &[&v4([0x20, 0], 28)[..], &udp].concat()),
        frame(&[IPV4], &[&v4([0, 9], 28)[..], &udp].concat()),
        // Extension headers, endless ones, and one that leads out of the packet.
        frame(&[IPV6], &v6(0, &[&[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0][..], &udp].concat())),
        frame(&[IPV6], &v6(0, &[0; 80])),
        frame(&[IPV6], &v6(43, &[17, 255, 0, 0, 0, 0, 0, 0])),
        // Lengths that promise too much, and headers cut short.
        frame(&[IPV4], &[&v4([0, 0], 9999)[..], &udp].concat()),
        frame(&[IPV4], &v4([0, 0], 28)[..7]),
        frame(&[IPV6], &[0x60]),
        frame(&[IPV4], &[0xff; 64]),
        // Jumbo.
        frame(&[EXPERIMENT], &[3; JUMBO as usize]),
        frame(&[VLAN, EXPERIMENT], &[4; 6000]),
    ]
}

/// An Ethernet frame with these types one after another, the tags with a number.
fn frame(types: &[u16], payload: &[u8]) -> Vec<u8> {
    let mut bytes = [DESTINATION, SOURCE].concat();
    for (place, kind) in types.iter().enumerate() {
        if place > 0 {
            bytes.extend([0, 5 + place as u8]);
        }
        bytes.extend(kind.to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// So many of our frames, or fewer where no more come until the deadline.
fn collect(receiver: &mut Receiver, count: usize) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    let begun = Instant::now();
    while received.len() < count && begun.elapsed() < TEST_DEADLINE {
        let any = receiver.next(|arrived| {
            let (addresses, rest) = arrived.frame.split_at(12);
            if addresses[6..] == SOURCE {
                let tag: &[u8] = arrived.vlan_tag.as_ref().map_or(&[], |tag| tag);
                received.push([addresses, tag, rest].concat());
            }
        });
        if !any {
            thread::sleep(Duration::from_millis(1));
        }
    }
    received
}
