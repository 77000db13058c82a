//! `kumade tunnel`, as people use it: two keys, two processes.

use crate::privileges;
use crate::tunnel_ends;

use kumade_netns_testbed::{VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use tunnel_ends::{Keys, end_with, has_device, hosts, lines, program, wait_for};

/// One end, with a device.
fn end(keys: &Keys, hosts: &VethHosts, number: u8, more: &[&str]) -> Command {
    let address = format!("10.77.0.{number}/24");
    keys.end(hosts, number, &[&["--address", address.as_str()], more].concat())
}

fn wait_until_connected(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with(": connected")), "it ended");
    // The rest is read, too, or the program would block or fail.
    thread::spawn(move || lines.for_each(drop));
}

fn transfer(hosts: &VethHosts) {
    let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:0").unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let data: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = hosts.left.run(|| TcpStream::connect(address).unwrap()).unwrap();
            stream.write_all(&data).unwrap();
        });
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        assert!(received == data);
    });
}

fn joins_two_hosts_until_one_ends(test: &str, more: &[&str]) {
    in_namespaces(test, || {
        let (hosts, keys) = (hosts(), Keys::new(test));
        let mut ends = [2, 1].map(|number| end(&keys, &hosts, number, more).spawn().unwrap());
        ends.iter_mut().for_each(wait_until_connected);
        transfer(&hosts);
        // By a signal that lets it clean up, and by one that does not.
        let signals = [Signal::SIGTERM, Signal::SIGKILL];
        for ((inside, end), signal) in [&hosts.right, &hosts.left].into_iter().zip(&mut ends).zip(signals) {
            assert!(has_device(inside));
            assert_eq!(end_with(end, signal), signal == Signal::SIGTERM);
            assert!(eventually(|| !has_device(inside)));
        }
    });
}

#[test]
fn what_passes_joins_two_hosts_until_one_ends() {
    joins_two_hosts_until_one_ends("what_passes_joins_two_hosts_until_one_ends", &[]);
}

/// And to bind to port 443, where it listens there.
#[test]
fn an_end_runs_with_what_it_needs_alone() {
    in_namespaces("an_end_runs_with_what_it_needs_alone", || {
        const NET_BIND_SERVICE: u64 = 1 << 10;
        let (hosts, keys) = (hosts(), Keys::new("an_end_runs_with_what_it_needs_alone"));
        let mut ends = [2, 1].map(|number| end(&keys, &hosts, number, &[]).spawn().unwrap());
        ends.iter_mut().for_each(wait_until_connected);
        let listens = [(privileges::NETWORK | NET_BIND_SERVICE, "2".to_owned())].into();
        for (end, expected) in ends.iter().zip([listens, privileges::confined()]) {
            assert_eq!(privileges::of(end.id()), expected);
        }
        transfer(&hosts);
        assert!(ends.iter_mut().all(|end| end_with(end, Signal::SIGTERM)));
        let mut keeping = end(&keys, &hosts, 2, &["--keep-privileges"]).spawn().unwrap();
        wait_for(&lines(&mut keeping), "waiting at");
        assert!(privileges::are_kept(keeping.id()));
        end_with(&mut keeping, Signal::SIGTERM);
    });
}

/// With `net.ipv6.bindv6only = 1`, TCP connections over IPv4 once did not reach it.
#[test]
fn an_end_that_listens_everywhere_hears_ipv4_whatever_the_system_does() {
    in_namespaces("an_end_that_listens_everywhere_hears_ipv4_whatever_the_system_does", || {
        let keys = Keys::new("an_end_that_listens_everywhere_hears_ipv4_whatever_the_system_does");
        let hosts = hosts();
        hosts.right.run(|| fs::write("/proc/sys/net/ipv6/bindv6only", "1").unwrap()).unwrap();
        let mut ends = [2, 1].map(|number| end(&keys, &hosts, number, &["--carrier", "tcp"]).spawn().unwrap());
        ends.iter_mut().for_each(wait_until_connected);
        transfer(&hosts);
        assert!(ends.iter_mut().all(|end| end_with(end, Signal::SIGTERM)));
    });
}

#[test]
fn an_end_connects_to_an_address_of_its_link() {
    in_namespaces("an_end_connects_to_an_address_of_its_link", || {
        let (hosts, keys) = (hosts(), Keys::new("an_end_connects_to_an_address_of_its_link"));
        run_ip(&hosts.left, &["-6", "addr", "add", "fe80::1/64", "dev", VethHosts::DEVICE, "nodad"]).unwrap();
        run_ip(&hosts.right, &["-6", "addr", "add", "fe80::2/64", "dev", VethHosts::DEVICE, "nodad"]).unwrap();
        let to = format!("[fe80::2%{}]:443", VethHosts::DEVICE);
        for carrier in ["udp", "tcp"] {
            let connects =
                ["connect", &to, "--peer", &keys.public(2), "--address", "10.77.0.1/24", "--carrier", carrier];
            let mut ends = [end(&keys, &hosts, 2, &[]), keys.command(&hosts.left, 1, &connects)];
            let mut ends = ends.each_mut().map(|end| end.spawn().unwrap());
            ends.iter_mut().for_each(wait_until_connected);
            transfer(&hosts);
            assert!(ends.iter_mut().all(|end| end_with(end, Signal::SIGTERM)));
        }
    });
}

#[test]
fn an_end_says_what_carries_and_takes_what_comes() {
    in_namespaces("an_end_says_what_carries_and_takes_what_comes", || {
        let (hosts, keys) = (hosts(), Keys::new("an_end_says_what_carries_and_takes_what_comes"));
        let mut listening = end(&keys, &hosts, 2, &[]).spawn().unwrap();
        let said = lines(&mut listening);
        for (carrier, name) in [("tcp", "TCP"), ("udp", "UDP"), ("rake", "TCP"), ("auto", "UDP")] {
            let mut connecting = end(&keys, &hosts, 1, &["--carrier", carrier]).spawn().unwrap();
            let connected = lines(&mut connecting);
            wait_for(&connected, &format!(": over {name}"));
            wait_for(&said, &format!(": over {name}"));
            transfer(&hosts);
            end_with(&mut connecting, Signal::SIGTERM);
        }
        end_with(&mut listening, Signal::SIGTERM);
    });
}

#[test]
fn many_connections_join_two_hosts_until_one_ends() {
    joins_two_hosts_until_one_ends("many_connections_join_two_hosts_until_one_ends", &["--carrier", "rake"]);
}

#[test]
fn one_connection_joins_two_hosts_until_one_ends() {
    joins_two_hosts_until_one_ends("one_connection_joins_two_hosts_until_one_ends", &["--carrier", "tcp"]);
}

#[test]
fn datagrams_join_two_hosts_until_one_ends() {
    joins_two_hosts_until_one_ends("datagrams_join_two_hosts_until_one_ends", &["--carrier", "udp"]);
}

#[test]
fn a_peer_that_is_none_is_named() {
    in_namespaces("a_peer_that_is_none_is_named", || {
        let (hosts, keys) = (hosts(), Keys::new("a_peer_that_is_none_is_named"));
        let listener = hosts.right.run(|| TcpListener::bind("10.79.0.2:443").unwrap()).unwrap();
        let mut end = end(&keys, &hosts, 1, &["--carrier", "tcp"]).spawn().unwrap();
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let mut lines = BufReader::new(end.stderr.take().unwrap()).lines();
        let said = lines.find_map(|line| line.ok().filter(|line| line.contains("HTTP/1.1"))).expect("a word");
        assert!(said.contains("10.79.0.2:443") && said.contains("not the peer"), "{said}");
        end_with(&mut end, Signal::SIGTERM);
    });
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_try() {
    let keys = Keys::new("tunnel-port");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, peer) = (taken.local_addr().unwrap().to_string(), keys.public(2));
    let arguments = ["tunnel", "listen", &address, "--peer", &peer, "--allow", "127.0.0.1:9", "--key"];
    let output = program().args(arguments).arg(keys.file(1)).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&address) && said.contains("choose another one"), "{said}");
}

/// Each end is told which key is wrong, with time and level.
#[test]
fn a_wrong_key_is_told_at_both_ends() {
    in_namespaces("a_wrong_key_is_told_at_both_ends", || {
        let (hosts, keys, others) = (hosts(), Keys::new("wrong-key"), Keys::new("wrong-key-others"));
        let expected = others.public(1);
        let peer = format!("{expected}=10.77.0.1");
        let listen = ["listen", "443", "--address", "10.77.0.2/24", "--peer", peer.as_str()];
        let mut far = keys.command(&hosts.right, 2, &listen).spawn().unwrap();
        let mut near = end(&keys, &hosts, 1, &[]).spawn().unwrap();
        let refused = wait_for(&lines(&mut far), "refused a handshake from 10.79.0.1:");
        for part in [" WARN ", keys.public(1).as_str(), expected.as_str()] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let unanswered = wait_for(&lines(&mut near), "has not answered");
        for part in [" WARN ", keys.public(1).as_str(), keys.public(2).as_str(), "10.79.0.2:443"] {
            assert!(unanswered.contains(part), "{part}: {unanswered}");
        }
        [&mut near, &mut far].into_iter().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
    });
}

#[test]
fn settings_that_cannot_be_are_refused_with_what_to_do() {
    let keys = Keys::new("tunnel-usage");
    let refused = |arguments: &[&str], said: &str| {
        let output = program().arg("tunnel").args(arguments).arg("--key").arg(keys.file(1)).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
    };
    let peer = keys.public(2);
    let connect = |more: &[&'static str]| {
        let arguments = ["connect", "192.0.2.1", "--peer", peer.as_str(), "--address", "10.77.0.1/24"];
        arguments.into_iter().chain(more.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
    };
    for (more, said) in [
        (&["--connections", "0"][..], "give 1 to 16"),
        (&["--mtu", "100"], "1280"),
        (&["--forward", "8080:80"], "write [ADDRESS:]PORT:HOST:PORT"),
    ] {
        let arguments = connect(more);
        refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), said);
    }
    refused(&["listen", "443", "--peer", "none", "--address", "10.77.0.1/24"], "like KEY=");
    refused(&["listen", "443", "--peer", "none", "--address", "10.77.0.1/24"], "`kumade key public` prints it");
    refused(&["listen", "443", "--peer", &peer, "--address", "10.77.0.1"], "write 10.77.0.1/24");
    refused(&["listen", "443", "--peer", &peer, "--address", "10.77.0.1/24"], "like KEY=10.77.0.2");
    let own = keys.public(1);
    refused(&["connect", "192.0.2.1", "--peer", &own, "--address", "10.77.0.1/24"], "this end's own public key");
    refused(&["listen", "443", "--peer", &peer], "(--allow)");
    refused(&["connect", "192.0.2.1", "--peer", &peer], "(--forward)");
    refused(&["listen", "443", "--peer", &peer, "--allow", "a b"], "HOST[:PORT]");
}
