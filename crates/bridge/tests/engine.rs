//! Bridges between real interfaces, in namespaces of their own.

mod common;
#[path = "../../lab/tests/common/mod.rs"]
mod namespaces;

use common::{Hosts, config};
use namespaces::in_namespaces;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// TCP checks every byte; the senders leave checksums and division to a card that the bridge has to be.
#[test]
fn tcp_passes_unharmed_with_the_senders_offloads_on() {
    in_namespaces("tcp_passes_unharmed_with_the_senders_offloads_on", || {
        let hosts = Hosts::new(1500);
        let engine = hosts.bridge([config(), config()]);
        for address in ["10.79.0.2:0", "[fd79::2]:0"] {
            let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
            let listener = hosts.right.run(|| TcpListener::bind(address).unwrap()).unwrap();
            let to = listener.local_addr().unwrap();
            let reader = thread::spawn(move || {
                let mut received = Vec::new();
                listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
                received
            });
            let mut stream =
                hosts.left.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap()).unwrap();
            stream.write_all(&sent).unwrap();
            drop(stream);
            assert!(reader.join().unwrap() == sent);
        }
        engine.stop().unwrap();
        let [there, back] = engine.statistics();
        assert!(there.delivered.bytes > 6_000_000 && back.delivered.packets > 0, "{there:?}");
        assert!(there.flows.iter().any(|flow| flow.key.is_some_and(|key| key.destination.port() != 0)));
    });
}
