//! `kumade tunnel --dscp`: what the packets between the ends show, seen on the wire, and that those inside are as they were.

use crate::tunnel_ends;

use kumade_net::capture::Capture;
use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, in_namespaces};
use nix::sys::signal::Signal;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Ipv4Tos;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use tunnel_ends::{Keys, end_with, hosts, lines, wait_for};

const UDP: u8 = 17;
const TCP: u8 = 6;
/// Of the datagrams inside with each octet, so that those of one that come late are not taken for those of another: longer than all
/// that the ends say themselves but probes of the MTU, which are longer.
const PAYLOAD_BYTES: [usize; 3] = [600, 800, 1000];
/// What headers outside and inside add at most.
const HEADER_BYTES: usize = 200;

/// DSCP and ECN of packets, as in their headers: expedited forwarding, a class selector with ECT(0), none with ECT(1).
const INNER_OCTETS: [u8; 3] = [46 << 2, 1 << 5 | 0b10, 0b01];

/// The octet of the next packet that came of this protocol and with so many bytes in it.
fn captured_octet(capture: &mut Capture, protocol: u8, payload: usize) -> Option<u8> {
    let read = |_, packet: &[u8]| {
        let bytes = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        (packet[0] >> 4 == 4 && packet[9] == protocol && (payload..payload + HEADER_BYTES).contains(&bytes))
            .then_some(packet[1])
    };
    while let Some(found) = capture.next(read) {
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Sends datagrams through a tunnel with these options until one has come: what it shows outside, and what inside.
fn octets(test: &str, options: &[&str], protocol: u8) -> Vec<(u8, u8)> {
    let (hosts, keys) = (hosts(), Keys::new(test));
    let start = |number: u8| {
        let address = format!("10.77.0.{number}/24");
        let mut end = keys.end(&hosts, number, &[&["--address", address.as_str()], options].concat()).spawn().unwrap();
        let said = lines(&mut end);
        (end, said)
    };
    let mut ends = [2, 1].map(start);
    ends.iter().for_each(|(_, said)| drop(wait_for(said, ": connected")));
    let listener = hosts.right.run(|| UdpSocket::bind("10.77.0.2:9").unwrap()).unwrap();
    let found = INNER_OCTETS.into_iter().zip(PAYLOAD_BYTES).map(|(inner, payload)| {
        let open = |device: &str| hosts.right.run(|| Capture::incoming(device).unwrap()).unwrap();
        let (mut outside, mut inside) = (open(VethHosts::DEVICE), open("kumade0"));
        let socket = hosts.left.run(|| UdpSocket::bind("10.77.0.1:0").unwrap()).unwrap();
        setsockopt(&socket, Ipv4Tos, &inner.into()).unwrap();
        let (began, mut found) = (Instant::now(), (None, None));
        while found.0.is_none() || found.1.is_none() {
            assert!(began.elapsed() < TEST_DEADLINE, "{found:?}");
            socket.send_to(&vec![0; payload], listener.local_addr().unwrap()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            found.0 = found.0.or_else(|| captured_octet(&mut outside, protocol, payload));
            found.1 = found.1.or_else(|| captured_octet(&mut inside, UDP, payload));
        }
        (found.0.unwrap(), found.1.unwrap())
    });
    let found = found.collect();
    assert!(ends.iter_mut().all(|(end, _)| end_with(end, Signal::SIGTERM)));
    found
}

#[test]
fn the_dscp_inside_is_shown_outside_where_that_is_asked_for_and_ecn_always() {
    in_namespaces("the_dscp_inside_is_shown_outside_where_that_is_asked_for_and_ecn_always", || {
        let datagrams = |options: &[&str]| octets("dscp", &[&["--carrier", "udp"], options].concat(), UDP);
        let expect = |outer: [u8; 3]| outer.into_iter().zip(INNER_OCTETS).collect::<Vec<_>>();
        assert_eq!(datagrams(&[]), expect(INNER_OCTETS.map(|octet| octet & 0b11)), "nobody learns of it");
        assert_eq!(datagrams(&["--dscp", "inherit"]), expect(INNER_OCTETS));
        assert_eq!(datagrams(&["--dscp", "af11"]), expect(INNER_OCTETS.map(|octet| 10 << 2 | octet & 0b11)));
    });
}

/// A segment may be of several packets: their DSCP is not shown.
#[test]
fn connections_have_the_dscp_that_is_given_for_all() {
    in_namespaces("connections_have_the_dscp_that_is_given_for_all", || {
        for (dscp, outer) in [("inherit", 0), ("cs1", 8 << 2)] {
            let found = octets("dscp-tcp", &["--carrier", "tcp", "--dscp", dscp], TCP);
            assert!(found.iter().all(|(shown, _)| shown & !0b11 == outer), "{dscp}: {found:?}");
            assert_eq!(found.iter().map(|(_, inside)| *inside).collect::<Vec<_>>(), INNER_OCTETS);
        }
    });
}
