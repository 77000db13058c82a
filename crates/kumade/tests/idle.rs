//! Idle connections at the server. In a program of its own, since it uses up nearly all descriptors that a process may
//! have by default.

use crate::server;

use assert_cmd::Command;
use kumade_netns_testbed::TEST_DEADLINE;
use serde_json::Value;
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
        let args = ["measure", &server.address, "--json", "--transport", transport, "--method", "linear-scan"];
        let output = Command::cargo_bin("kumade").unwrap().args(args).timeout(TEST_DEADLINE).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        for found in [&document["up"], &document["down"]] {
            // A busy machine may spoil the only train, and the reason then says so.
            assert!(found["packets_sent"].as_u64() > Some(0) && found["transport"] == transport, "{document}");
        }
    }
}
