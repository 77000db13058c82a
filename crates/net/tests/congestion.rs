//! Choosing the TCP congestion control of real sockets, and controllers that are loaded into the kernel.

use net::SetupError;
use net::congestion::{self, Loaded};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const BYTES: usize = 4_000_000;

#[test]
fn a_socket_uses_what_it_is_told_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(congestion::available().unwrap().contains(&"reno".to_owned()));
    congestion::set(&listener, "reno").unwrap();
    assert_eq!(congestion::get(&listener).unwrap(), "reno");
}

#[test]
fn what_the_kernel_lacks_is_refused_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusal = congestion::set(&listener, "no_such").unwrap_err().to_string();
    assert!(refusal.contains("no_such") && refusal.contains("tcp_available_congestion_control"), "{refusal}");
}

#[test]
fn loaded_compound_carries_bytes_and_is_gone_afterwards() {
    carries_bytes_and_is_gone_afterwards(Loaded::compound);
}

#[test]
fn loaded_bic_carries_bytes_and_is_gone_afterwards() {
    carries_bytes_and_is_gone_afterwards(Loaded::bic);
}

#[test]
fn loaded_vegas_carries_bytes_and_is_gone_afterwards() {
    carries_bytes_and_is_gone_afterwards(Loaded::vegas);
}

/// Where it can't be had here, a message says why.
fn carries_bytes_and_is_gone_afterwards(load: fn() -> Result<Loaded, SetupError>) {
    let load = || load().inspect_err(|reason| eprintln!("passed over: {reason}")).ok();
    let (Some(first), Some(second)) = (load(), load()) else { return };
    let name = first.name();
    drop(first);
    assert!(congestion::available().unwrap().contains(&name.to_owned()), "the second still holds it");

    let (sender, receiver) = connection(name);
    drop(second);
    assert!(!congestion::available().unwrap().contains(&name.to_owned()), "unless another process holds it");
    assert_eq!(congestion::get(&sender).unwrap(), name, "open connections keep it");
    transfer(sender, receiver);
}

fn connection(congestion_control: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    congestion::set(&sender, congestion_control).unwrap();
    (sender, listener.accept().unwrap().0)
}

fn transfer(mut sender: TcpStream, mut receiver: TcpStream) {
    let sending = std::thread::spawn(move || sender.write_all(&vec![7; BYTES]).unwrap());
    let mut received = Vec::new();
    receiver.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    assert_eq!(received, vec![7; BYTES]);
}
