//! Idle connections at the server. In a program of its own, since it uses up nearly all descriptors that a process may
//! have by default.

mod server;

use assert_cmd::Command;
use kumade_netns_testbed::TEST_DEADLINE;
use server::Serving;
use std::net::TcpStream;

#[test]
fn a_thousand_idle_connections_hinder_nobody() {
    // One after the other, for the descriptors' sake. The second server has not nearly enough for all of them.
    for server in [|| Serving::start(&[]), || Serving::with_descriptors(512)] {
        hinder_nobody(&server());
    }
}

fn hinder_nobody(server: &Serving) {
    // As many as this process may hold, should that be fewer.
    let idle: Vec<_> = (0..1000).map_while(|_| TcpStream::connect(&server.address).ok()).collect();
    assert!(idle.len() >= 900, "only {} connections could be opened", idle.len());
    for transport in ["udp", "rake"] {
        let args = ["measure", &server.address, "--transport", transport, "--method", "linear-scan"];
        Command::cargo_bin("kumade").unwrap().args(args).timeout(TEST_DEADLINE).assert().success();
    }
}
