//! Agents, their coordinator and the database are killed: what was acknowledged to an agent is in the archive, once. With many kills:
//! `cargo run --release -p kumade-monitor --example kills`.

mod killing;
mod ledger;
mod mesh;
mod process;
#[path = "../../../archive/tests/archive/server.rs"]
mod server;
mod switch;
mod takeover;

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::in_namespaces;
use mesh::Mesh;
use server::Server;
use std::path::Path;
use std::process::Command;

/// Where the configuration of a process is that a test has started.
const CHILD_FILE: &str = "KUMADE_TEST_KILLS_FILE";
const KILLS: u32 = 3;

#[test]
#[ignore = "run by the others"]
fn process_that_is_killed() {
    let file = std::env::var_os(CHILD_FILE).expect("only run by other tests");
    process::run_process(Path::new(&file)).unwrap();
}

fn start(host: &Namespace, file: &Path) -> Command {
    let mut command = host.command(std::env::current_exe().unwrap());
    let arguments = ["--exact", "kills::process_that_is_killed", "--ignored", "--nocapture", "--test-threads=1"];
    command.args(arguments).env(CHILD_FILE, file);
    command
}

fn check(name: &str, server: Option<Server>) {
    let seed = std::process::id().into();
    let mut mesh = Mesh::new(name, start, server);
    let counts = killing::kill_at_random(&mut mesh, KILLS, seed);
    mesh.finish();
    let found = ledger::compare(&mesh);
    println!("{name}, seed {seed}: killed {counts:?}, {} ended by themselves\n{found}", mesh.restarts);
    assert!(found.faults.is_empty(), "seed {seed}: {found}");
    assert!(found.acknowledged > 0 && found.acknowledged <= found.archived && found.archived <= found.made, "{found}");
    assert!(found.probed.is_none_or(|probed| found.made <= probed), "{found}");
}

#[test]
fn what_was_acknowledged_is_in_a_file_once_whatever_is_killed() {
    in_namespaces("what_was_acknowledged_is_in_a_file_once_whatever_is_killed", || check("file", None));
}

#[test]
fn what_was_acknowledged_is_in_postgresql_once_whatever_is_killed() {
    in_namespaces("what_was_acknowledged_is_in_postgresql_once_whatever_is_killed", || {
        let Some(server) = Server::start() else { return };
        check("postgres", Some(server));
    });
}

#[test]
fn another_coordinator_follows_one_that_was_killed_and_nothing_acknowledged_is_lost() {
    let name = "another_coordinator_follows_one_that_was_killed_and_nothing_acknowledged_is_lost";
    in_namespaces(name, || {
        let Some(server) = Server::start() else { return };
        let mut mesh = Mesh::new("takeover", start, Some(server));
        let took = takeover::kill_leader(&mut mesh);
        println!("all agents deliver to the other coordinator after {:.1} s", took.as_secs_f64());
        mesh.finish();
        let found = ledger::compare(&mesh);
        println!("{found}");
        assert!(found.faults.is_empty() && found.acknowledged > 0, "{found}");
    });
}
