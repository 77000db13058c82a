//! `kumade tunnel` that takes all traffic of a host, as people use it.

use crate::tunnel_ends;

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::time::Duration;
use tunnel_ends::{Keys, end_with, lines, wait_for};

/// A host, a router beside it, and behind that the listening end with networks that the router does not know:
///
/// ```text
/// left 10.79.0.1 ── 10.79.0.9 router 198.51.100.9 ── 198.51.100.2 right 203.0.113.1
/// ```
fn network() -> VethHosts {
    let hosts = VethHosts::new(1500).unwrap();
    let [one, two] = VethHosts::MIDDLE_INTERFACES;
    let at = |inside: &Namespace, device: &str, addresses: &[&str]| {
        for address in addresses {
            run_ip(inside, &["addr", "add", address, "dev", device, "nodad"]).unwrap();
        }
    };
    let via = |inside: &Namespace, routers: [&str; 2]| {
        for router in routers {
            run_ip(inside, &["route", "add", "default", "via", router]).unwrap();
        }
    };
    // A router asks for its neighbours from its link-local address.
    at(&hosts.middle, one, &["10.79.0.9/24", "fd79::9/64", "fe80::1/64"]);
    at(&hosts.middle, two, &ROUTER_TO_RIGHT);
    run_ip(&hosts.right, &["addr", "flush", "dev", VethHosts::DEVICE, "scope", "global"]).unwrap();
    at(&hosts.right, VethHosts::DEVICE, &["198.51.100.2/24", "fd98::2/64"]);
    at(&hosts.right, "lo", &["203.0.113.1/24", "fd20::1/64"]);
    run_ip(&hosts.right, &["link", "set", "lo", "up"]).unwrap();
    via(&hosts.left, ["10.79.0.9", "fd79::9"]);
    via(&hosts.right, ["198.51.100.9", "fd98::9"]);
    set(&hosts.middle, "ipv4/ip_forward", "1");
    set(&hosts.middle, "ipv6/conf/all/forwarding", "1");
    // Answers of the far end must not come from where other packets would not go.
    set(&hosts.left, "ipv4/conf/all/rp_filter", "1");
    hosts
}

const ROUTER_TO_RIGHT: [&str; 3] = ["198.51.100.9/24", "fd98::9/64", "fe80::2/64"];

fn set(inside: &Namespace, name: &str, value: &str) {
    inside.run(|| fs::write(format!("/proc/sys/net/{name}"), value).unwrap()).unwrap();
}

/// All rules and routes of a host, but for those of interfaces' addresses, which the kernel takes its time with.
fn routing(inside: &Namespace) -> String {
    let lists = [&["-4", "rule"][..], &["-6", "rule"], &["-4", "route", "show", "table", "all"]];
    let main = [&["-6", "route"][..]];
    let lists = lists.into_iter().chain(main);
    lists.map(|list| run_ip(inside, list).unwrap()).collect()
}

const NETWORKS: [&str; 4] = ["--network", "0.0.0.0/0", "--network", "::/0"];

fn listen(keys: &Keys, hosts: &VethHosts, more: &[&str]) -> Child {
    let peer = format!("{}=10.77.0.1,fd77::1", keys.public(1));
    let own = ["listen", "443", "--peer", &peer, "--address", "10.77.0.2/24", "--address", "fd77::2/64"];
    let mut child = keys.command(&hosts.right, 2, &[&own, more].concat()).spawn().unwrap();
    wait_for(&lines(&mut child), "Ctrl-C");
    child
}

/// Returns once it is connected.
fn connect(keys: &Keys, hosts: &VethHosts, far: &str, more: &[&str]) -> Child {
    let peer = keys.public(2);
    let own = ["connect", far, "--peer", &peer, "--address", "10.77.0.1/24", "--address", "fd77::1/64"];
    let mut child = keys.command(&hosts.left, 1, &[&own, &NETWORKS[..], more].concat()).spawn().unwrap();
    wait_for(&lines(&mut child), ": connected");
    child
}

/// Whether a connection from one host to another's address carries bytes both ways; returns the client's address as the
/// server sees it.
fn reach(from: &Namespace, to: &Namespace, address: &str) -> IpAddr {
    let address: SocketAddr = address.parse().unwrap();
    let listener = to.run(|| TcpListener::bind(address).unwrap()).unwrap();
    let mut stream = None;
    assert!(
        eventually(|| {
            let tried = from.run(|| TcpStream::connect_timeout(&address, Duration::from_secs(5))).unwrap();
            stream = tried.ok();
            stream.is_some()
        }),
        "no way to {address}"
    );
    let mut stream = stream.unwrap();
    let (mut accepted, source) = listener.accept().unwrap();
    stream.write_all(b"there").unwrap();
    accepted.read_exact(&mut [0; 5]).unwrap();
    accepted.write_all(b"back").unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    source.ip()
}

fn reaches(from: &Namespace, to: &Namespace, address: &str, source: &str) {
    assert_eq!(reach(from, to, address).to_string(), source, "to {address}");
}

/// Whether nothing of a connection to this address leaves, in the clear or otherwise.
fn is_refused(from: &Namespace, address: &str) -> bool {
    let address: SocketAddr = address.parse().unwrap();
    let tried = from.run(|| TcpStream::connect_timeout(&address, Duration::from_secs(2))).unwrap();
    tried.is_err_and(|error| matches!(error.kind(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable))
}

/// What is behind the tunnel, and what beside it.
fn all_but_neighbours_go_into_the_tunnel(hosts: &VethHosts) {
    reaches(&hosts.left, &hosts.right, "203.0.113.1:9", "10.77.0.1");
    reaches(&hosts.left, &hosts.right, "[fd20::1]:9", "fd77::1");
    // Also what has the address of the tunnel's far end, whoever said that it has.
    reaches(&hosts.left, &hosts.right, "198.51.100.2:9", "10.77.0.1");
    reaches(&hosts.left, &hosts.right, "[fd98::2]:9", "fd77::1");
    reaches(&hosts.left, &hosts.middle, "10.79.0.9:9", "10.79.0.1");
    reaches(&hosts.left, &hosts.middle, "[fd79::9]:9", "fd79::1");
}

/// As an administrator does it, or a network manager: the kernel drops routes and IPv6 addresses then.
fn take_the_device_down_and_up(hosts: &VethHosts) {
    run_ip(&hosts.left, &["link", "set", "kumade0", "down"]).unwrap();
    assert!(is_refused(&hosts.left, "198.51.100.9:9") && is_refused(&hosts.left, "[fd98::9]:9"));
    reaches(&hosts.left, &hosts.middle, "10.79.0.9:9", "10.79.0.1");
    run_ip(&hosts.left, &["link", "set", "kumade0", "up"]).unwrap();
    all_but_neighbours_go_into_the_tunnel(hosts);
}

/// The end that had it ended, and everything left in the clear, before (issue 40, 24).
fn delete_the_device(hosts: &VethHosts) {
    run_ip(&hosts.left, &["link", "del", "kumade0"]).unwrap();
    let leaked = hosts.left.run(|| {
        let address: SocketAddr = "198.51.100.9:9".parse().unwrap();
        TcpStream::connect_timeout(&address, Duration::from_millis(100))
            .is_ok_and(|stream| stream.local_addr().unwrap().ip().to_string() == "10.79.0.1")
    });
    assert!(!leaked.unwrap());
    all_but_neighbours_go_into_the_tunnel(hosts);
}

/// Neighbours that find out an address of this host in the tunnel have no answer from it.
fn neighbours_reach_no_address_of_the_tunnel(hosts: &VethHosts) {
    run_ip(&hosts.middle, &["route", "add", "10.77.0.1", "via", "10.79.0.1"]).unwrap();
    let address: SocketAddr = "10.77.0.1:9".parse().unwrap();
    let tried = hosts.middle.run(|| TcpStream::connect_timeout(&address, Duration::from_millis(500))).unwrap();
    assert_eq!(tried.unwrap_err().kind(), ErrorKind::TimedOut);
    run_ip(&hosts.middle, &["route", "del", "10.77.0.1"]).unwrap();
}

fn takes_all_traffic_and_gives_it_back(test: &str, far: &str, carrier: &str) {
    in_namespaces(test, || {
        let (hosts, keys) = (network(), Keys::new(test));
        let before = routing(&hosts.left);
        let mut right = listen(&keys, &hosts, &["--carrier", carrier]);
        let mut left = connect(&keys, &hosts, far, &["--carrier", carrier]);
        all_but_neighbours_go_into_the_tunnel(&hosts);
        neighbours_reach_no_address_of_the_tunnel(&hosts);
        take_the_device_down_and_up(&hosts);
        delete_the_device(&hosts);

        // The path is cut, and comes back.
        run_ip(&hosts.middle, &["link", "set", VethHosts::MIDDLE_INTERFACES[1], "down"]).unwrap();
        let lost = hosts
            .left
            .run(|| TcpStream::connect_timeout(&"203.0.113.1:9".parse().unwrap(), Duration::from_millis(300)).is_err());
        assert!(lost.unwrap());
        run_ip(&hosts.middle, &["link", "set", VethHosts::MIDDLE_INTERFACES[1], "up"]).unwrap();
        // The kernel drops IPv6 addresses with the link.
        for address in &ROUTER_TO_RIGHT[1..] {
            run_ip(&hosts.middle, &["addr", "replace", address, "dev", VethHosts::MIDDLE_INTERFACES[1], "nodad"])
                .unwrap();
        }
        all_but_neighbours_go_into_the_tunnel(&hosts);

        assert!(end_with(&mut left, Signal::SIGTERM));
        assert_eq!(routing(&hosts.left), before);

        // What a killed one leaves refuses what went into the tunnel, and goes with the next one or at a word.
        let mut left = connect(&keys, &hosts, far, &["--carrier", carrier]);
        assert!(!end_with(&mut left, Signal::SIGKILL));
        assert!(eventually(|| !tunnel_ends::has_device(&hosts.left)));
        assert!(is_refused(&hosts.left, "198.51.100.9:9") && is_refused(&hosts.left, "[fd98::9]:9"));
        let mut left = connect(&keys, &hosts, far, &["--carrier", carrier]);
        all_but_neighbours_go_into_the_tunnel(&hosts);
        assert!(!end_with(&mut left, Signal::SIGKILL));
        assert!(eventually(|| !tunnel_ends::has_device(&hosts.left)));
        assert!(keys.plain_command(&hosts.left, &["unblock"]).status().unwrap().success());
        assert_eq!(routing(&hosts.left), before);
        reaches(&hosts.left, &hosts.middle, "198.51.100.9:9", "10.79.0.1");
        assert!(end_with(&mut right, Signal::SIGTERM));
    });
}

#[test]
fn a_blocked_host_uses_its_tunnel_or_nothing() {
    let test = "a_blocked_host_uses_its_tunnel_or_nothing";
    in_namespaces(test, || {
        let (hosts, keys) = (network(), Keys::new(test));
        let before = routing(&hosts.left);
        let tunnel = |command: &str| assert!(keys.plain_command(&hosts.left, &[command]).status().unwrap().success());
        // Twice is once.
        ["block", "block"].into_iter().for_each(tunnel);
        let nothing_leaves = || {
            assert!(["198.51.100.9:9", "[fd98::9]:9"].into_iter().all(|address| is_refused(&hosts.left, address)));
            reaches(&hosts.left, &hosts.middle, "10.79.0.9:9", "10.79.0.1");
            // A resolver in the LAN would hear of all names.
            assert!(is_refused(&hosts.left, "10.79.0.9:53"));
        };
        nothing_leaves();
        let mut right = listen(&keys, &hosts, &[]);
        let mut left = connect(&keys, &hosts, "198.51.100.2:443", &[]);
        all_but_neighbours_go_into_the_tunnel(&hosts);
        reaches(&hosts.left, &hosts.right, "203.0.113.1:53", "10.77.0.1");
        assert!(end_with(&mut left, Signal::SIGTERM));
        nothing_leaves();
        let mut left = connect(&keys, &hosts, "198.51.100.2:443", &[]);
        assert!(!end_with(&mut left, Signal::SIGKILL));
        nothing_leaves();
        tunnel("unblock");
        assert_eq!(routing(&hosts.left), before);
        assert!(end_with(&mut right, Signal::SIGTERM));
    });
}

#[test]
fn many_connections_take_all_traffic() {
    takes_all_traffic_and_gives_it_back("many_connections_take_all_traffic", "198.51.100.2:443", "rake");
}

#[test]
fn what_passes_takes_all_traffic() {
    takes_all_traffic_and_gives_it_back("what_passes_takes_all_traffic", "198.51.100.2:443", "auto");
}

#[test]
fn datagrams_take_all_traffic() {
    takes_all_traffic_and_gives_it_back("datagrams_take_all_traffic", "198.51.100.2:443", "udp");
}

#[test]
fn connections_by_ipv6_take_all_traffic() {
    takes_all_traffic_and_gives_it_back("connections_by_ipv6_take_all_traffic", "[fd98::2]:443", "tcp");
}

#[test]
fn connections_into_the_tunnel_are_relayed_and_no_others() {
    let test = "connections_into_the_tunnel_are_relayed_and_no_others";
    in_namespaces(test, || {
        let (hosts, keys) = (network(), Keys::new(test));
        let before = routing(&hosts.left);
        // All networks do not mean the far host's own addresses, which are named.
        let networks = ["--allow", "0.0.0.0/0", "--allow", "::/0", "--allow", "203.0.113.1", "--allow", "fd20::1"];
        let allow = [&["--carrier", "relay"], &networks[..]].concat();
        let mut right = listen(&keys, &hosts, &allow);
        // Whoever else sends connections to this host is relayed only where that is wanted.
        run_ip(&hosts.middle, &["route", "add", "203.0.113.0/24", "via", "10.79.0.1"]).unwrap();
        let mut left = connect(&keys, &hosts, "198.51.100.2:443", &["--carrier", "relay"]);
        let stranger = || TcpStream::connect_timeout(&"203.0.113.1:9".parse().unwrap(), Duration::from_millis(500));
        reaches(&hosts.left, &hosts.right, "203.0.113.1:9", "203.0.113.1");
        assert!(hosts.middle.run(stranger).unwrap().is_err());
        assert!(end_with(&mut left, Signal::SIGTERM));
        let relay_from = ["--carrier", "relay", "--relay-from", "10.79.0.9/32"];
        let mut left = connect(&keys, &hosts, "198.51.100.2:443", &relay_from);
        reaches(&hosts.left, &hosts.right, "203.0.113.1:9", "203.0.113.1");
        reaches(&hosts.left, &hosts.right, "[fd20::1]:9", "fd20::1");
        // What lies behind the far end, as that reaches it.
        reaches(&hosts.left, &hosts.middle, "198.51.100.9:9", "198.51.100.2");
        reaches(&hosts.left, &hosts.middle, "10.79.0.9:9", "10.79.0.1");
        reaches(&hosts.left, &hosts.left, "127.0.0.1:9", "127.0.0.1");
        // A host that this one forwards for.
        set(&hosts.left, "ipv4/ip_forward", "1");
        reaches(&hosts.middle, &hosts.right, "203.0.113.1:9", "203.0.113.1");
        reaches(&hosts.middle, &hosts.left, "10.79.0.1:9", "10.79.0.9");
        assert!(end_with(&mut left, Signal::SIGTERM));
        assert_eq!(routing(&hosts.left), before);
        assert!(end_with(&mut right, Signal::SIGTERM));
    });
}

#[test]
fn one_tunnel_at_a_time_takes_all_traffic() {
    let test = "one_tunnel_at_a_time_takes_all_traffic";
    in_namespaces(test, || {
        let (hosts, keys) = (network(), Keys::new(test));
        let mut right = listen(&keys, &hosts, &[]);
        let mut left = connect(&keys, &hosts, "198.51.100.2:443", &[]);
        let during = routing(&hosts.left);
        let peer = keys.public(2);
        let second =
            ["connect", "198.51.100.2:443", "--peer", &peer, "--address", "10.78.0.1/24", "--device", "second"];
        let output = keys.command(&hosts.left, 1, &[&second, &NETWORKS[..]].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.contains("already (process"), "{said}");
        assert!(eventually(|| routing(&hosts.left) == during));
        [&mut left, &mut right].into_iter().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
    });
}
