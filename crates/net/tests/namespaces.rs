//! Namespaces, devices in them and the stamps of what leaves: beliefs about the kernel that the lab rests on.

use ipnet::IpNet;
use kumade_net::capture::Capture;
use kumade_net::clock;
use kumade_net::interface::{self, disable_offloads};
use kumade_net::namespace::Namespace;
use kumade_net::tun::Tun;
use kumade_net::{ScopedAddress, SocketBinding};
use kumade_netns_testbed::{in_namespaces, run_ip};
use kumade_units::Time;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc;
use std::thread;

const V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);

fn interfaces() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    table.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

#[test]
fn threads_and_commands_run_inside_and_sockets_stay_there() {
    in_namespaces("threads_and_commands_run_inside_and_sockets_stay_there", || {
        let namespace = Namespace::new().unwrap();
        let _tun = namespace.run(|| Tun::new("tun7", 1500, Some(V4), Some(V6))).unwrap().unwrap();
        assert!(namespace.run(interfaces).unwrap().contains(&"tun7".into()));
        assert!(namespace.spawn("looks", interfaces).unwrap().join().unwrap().contains(&"tun7".into()));
        assert!(!interfaces().contains(&"tun7".into()));
        let output = namespace.command("cat").arg("/proc/self/net/dev").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("tun7"));
        let inside = namespace.run(|| UdpSocket::bind((V6, 0))).unwrap().unwrap();
        assert_eq!(inside.local_addr().unwrap().ip(), V6, "usable at once: no duplicate address detection");
        assert!(UdpSocket::bind((V4, 0)).is_err());
    });
}

#[test]
fn a_command_dies_with_the_thread_that_started_it() {
    in_namespaces("a_command_dies_with_the_thread_that_started_it", || {
        let namespace = Namespace::new().unwrap();
        let (children, started) = mpsc::channel();
        let starter = thread::spawn(move || children.send(namespace.command("sleep").arg("1000").spawn()).unwrap());
        let mut child = started.recv().unwrap().unwrap();
        starter.join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    });
}

#[test]
fn a_tap_shows_whole_packets_with_the_moment_of_their_sending() {
    in_namespaces("a_tap_shows_whole_packets_with_the_moment_of_their_sending", || {
        let namespace = Namespace::new().unwrap();
        let open = || {
            let tun = Tun::new("tun7", 1500, Some(V4), None).unwrap();
            (tun, Capture::outgoing("tun7").unwrap(), UdpSocket::bind((V4, 0)).unwrap())
        };
        let (tun, mut capture, socket) = namespace.run(open).unwrap();
        // The host has multicasts of its own to send, by IPv6.
        let is_ours = |(_, packet): &(Time, Vec<u8>)| packet[0] >> 4 == 4;
        for number in 0..10_000u32 {
            let before = clock::realtime();
            socket.send_to(&[&number.to_be_bytes()[..], &[0; 996]].concat(), "10.99.0.2:9").unwrap();
            let after = clock::realtime();
            let mut captured =
                std::iter::from_fn(|| capture.next(|stamp, packet| (stamp, packet.to_vec()))).filter(is_ours);
            let (stamp, packet) = captured.next().unwrap();
            assert!(before <= stamp && stamp <= after, "{before:?} {stamp:?} {after:?}");
            assert_eq!((packet.len(), &packet[28..32]), (1028, &number.to_be_bytes()[..]));
            // For the device to take the next ones.
            assert_eq!(tun.read(&mut [0; 1]).unwrap(), 1);
        }
        assert!(
            std::iter::from_fn(|| capture.next(|stamp, packet| (stamp, packet.to_vec()))).all(|one| !is_ours(&one))
        );
        assert_eq!(capture.dropped_packets(), 0);
    });
}

#[test]
fn errors_name_what_could_not_be_done() {
    for error in [interface::set_up("nowhere").unwrap_err(), disable_offloads("nowhere").unwrap_err()] {
        assert!(error.to_string().contains("find the interface nowhere"), "{error}");
    }
}

/// An alternative name of more than 15 letters was refused before (issue 40, 24).
#[test]
fn an_interface_is_found_by_its_alternative_names_whatever_their_length() {
    in_namespaces("an_interface_is_found_by_its_alternative_names_whatever_their_length", || {
        let namespace = Namespace::new().unwrap();
        let _tun = namespace.run(|| Tun::new("tun7", 1500, Some(V4), Some(V6))).unwrap().unwrap();
        let (long, short) = ("uplink-of-the-provider-one", "uplink1");
        for name in [long, short] {
            run_ip(&namespace, &["link", "property", "add", "dev", "tun7", "altname", name]).unwrap();
        }
        let found = move || {
            for name in ["tun7", long, short] {
                assert_eq!(interface::kernel_name(name).unwrap(), "tun7");
                assert_eq!((interface::mtu(name).unwrap(), interface::exists(name)), (1500, true));
                let binding = SocketBinding { interface: Some(name.to_owned()), ..SocketBinding::default() };
                assert_eq!(binding.source_towards("10.99.0.2:9".parse().unwrap()), Some(V4.into()));
                format!("fe80::1%{name}").parse::<ScopedAddress>().unwrap();
            }
            // Neither the beginning of a name nor one that nothing has, nor one that nothing can have.
            for name in ["uplink-of-the-p", "uplink-of-the-provider-two", &"x".repeat(300), ""] {
                assert!(interface::kernel_name(name).is_err(), "{name}");
                let binding = SocketBinding { interface: Some(name.to_owned()), ..SocketBinding::default() };
                assert!(name.is_empty() || binding.connect_udp("10.99.0.2:9".parse().unwrap()).is_err(), "{name}");
            }
        };
        namespace.run(found).unwrap();
    });
}

/// A bare "Permission denied" before (issue 40, 24).
#[test]
fn where_ipv6_is_switched_off_it_is_said_and_how_to_switch_it_on() {
    in_namespaces("where_ipv6_is_switched_off_it_is_said_and_how_to_switch_it_on", || {
        let namespace = Namespace::new().unwrap();
        let refuse = || {
            let _tun = Tun::new("tun7", 1500, Some(V4), None).unwrap();
            fs::write("/proc/sys/net/ipv6/conf/tun7/disable_ipv6", "1").unwrap();
            let network: IpNet = "fd99::1/64".parse().unwrap();
            [
                interface::add_address("tun7", network).unwrap_err(),
                interface::add_route("tun7", network.trunc()).unwrap_err(),
            ]
        };
        for error in namespace.run(refuse).unwrap() {
            let error = error.to_string();
            assert!(error.contains("sysctl -w net/ipv6/conf/tun7/disable_ipv6=0"), "{error}");
        }
    });
}
