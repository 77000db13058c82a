//! Choosing the TCP congestion control of real sockets, and controllers that are loaded into the kernel.

use kumade_net::SetupError;
use kumade_net::congestion::{self, LoadedController};
use kumade_netns_testbed::eventually;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const BYTES: usize = 4_000_000;
const LOADED: &str = "the controller is loaded";

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
    carries_bytes_and_is_gone_afterwards(LoadedController::compound);
}

#[test]
fn loaded_bic_carries_bytes_and_is_gone_afterwards() {
    carries_bytes_and_is_gone_afterwards(LoadedController::bic);
}

#[test]
fn loaded_dctcp_carries_bytes_and_is_gone_afterwards() {
    carries_bytes_and_is_gone_afterwards(LoadedController::dctcp);
}

#[test]
fn loaded_prague_carries_bytes_and_is_gone_afterwards() {
    carries_bytes_and_is_gone_afterwards(LoadedController::prague);
}

#[test]
fn loaded_vegas_carries_bytes_and_is_gone_afterwards() {
    carries_bytes_and_is_gone_afterwards(LoadedController::vegas);
}

#[test]
fn nothing_is_left_by_a_killed_process() {
    const COPY: &str = "KUMADE_TEST_HOLDS_UNTIL_KILLED";
    if env::var_os(COPY).is_some() {
        let _loaded = LoadedController::vegas().unwrap();
        println!("{LOADED}");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let _turn = turn();
    let Some(loaded) = or_pass_over(LoadedController::vegas()) else { return };
    let name = loaded.name();
    drop(loaded);

    let mut copy = Command::new(env::current_exe().unwrap());
    copy.args(["nothing_is_left_by_a_killed_process", "--exact", "--nocapture"]).env(COPY, "1");
    let mut copy = copy.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(copy.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains(LOADED)));
    assert!(is_available(name));
    copy.kill().unwrap();
    copy.wait().unwrap();
    assert!(eventually(|| !is_available(name)), "unless another process holds it");
}

fn carries_bytes_and_is_gone_afterwards(load: fn() -> Result<LoadedController, SetupError>) {
    let _turn = turn();
    let (Some(first), Some(second)) = (or_pass_over(load()), or_pass_over(load())) else { return };
    let name = first.name();
    drop(first);
    assert!(is_available(name), "the second still holds it");

    let (sender, receiver) = connection(name);
    drop(second);
    assert!(eventually(|| !is_available(name)), "unless another process holds it");
    assert_eq!(congestion::get(&sender).unwrap(), name, "open connections keep it");
    transfer(sender, receiver);
}

/// One at a time: names are the whole system's.
fn turn() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a controller can't be had, a message says why.
fn or_pass_over(loaded: Result<LoadedController, SetupError>) -> Option<LoadedController> {
    loaded.inspect_err(|reason| eprintln!("passed over: {reason}")).ok()
}

fn is_available(name: &str) -> bool {
    congestion::available().unwrap().iter().any(|available| available == name)
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
