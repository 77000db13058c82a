//! Kills agents, their coordinator and the database at random moments, and compares what was acknowledged to agents with what the archive has.
//! With PostgreSQL another coordinator stands by, and the first one is killed once before: it says how long it takes until agents deliver to
//! the other one.
//!
//! `cargo run --release -p kumade-monitor --example kills -- [sqlite|postgres] [--kills N] [--seed N]`, as root or in a user namespace

#[path = "../tests/kills/killing.rs"]
mod killing;
#[path = "../tests/kills/ledger.rs"]
mod ledger;
#[path = "../tests/kills/mesh.rs"]
mod mesh;
#[path = "../tests/kills/process.rs"]
mod process;
#[path = "../../archive/tests/archive/server.rs"]
mod server;
#[path = "../tests/kills/switch.rs"]
mod switch;
#[path = "../tests/kills/takeover.rs"]
mod takeover;

use kumade_net::namespace::{self, Namespace};
use mesh::{Mesh, Victim};
use server::Server;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

const KILLS: u64 = 200;
/// The first argument of a process of the mesh.
const PROCESS: &str = "process";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, file] = &arguments[..]
        && first == PROCESS
    {
        return match process::run_process(Path::new(file)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    namespace::enter_user_namespace_if_needed().expect("run it as root, or where user namespaces are allowed");
    let option = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)?.parse().ok()
    };
    let kills = option("--kills").unwrap_or(KILLS);
    let seed = option("--seed").unwrap_or_else(|| getrandom::u64().expect("the system gives random numbers"));
    let engines = ["sqlite", "postgres"];
    let named = |engine: &str| arguments.iter().any(|argument| argument == engine);
    let all = !engines.iter().any(|engine| named(engine));
    let mut faults = 0;
    for engine in engines.into_iter().filter(|engine| all || named(engine)) {
        faults += check(engine, kills as u32, seed);
    }
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the number of faults.
fn check(engine: &str, kills: u32, seed: u64) -> usize {
    let server = if engine == "postgres" {
        // It has said why there is none.
        let Some(server) = Server::start() else { return 0 };
        Some(server)
    } else {
        None
    };
    println!("{engine}: {kills} kills, seed {seed}");
    let begin = Instant::now();
    let mut mesh = Mesh::new(engine, start, server);
    if mesh.server.is_some() {
        let took = takeover::kill_leader(&mut mesh);
        println!("  agents deliver to another coordinator {:.1} s after the first was killed", took.as_secs_f64());
        mesh.restart(Victim::Coordinator);
    }
    let counts = killing::kill_at_random(&mut mesh, kills, seed);
    mesh.finish();
    let found = ledger::compare(&mesh);
    let (seconds, restarts) = (begin.elapsed().as_secs(), mesh.restarts);
    println!(
        "  killed {counts:?} in {seconds} s; {restarts} processes ended by themselves and were started again\n{found}"
    );
    found.faults.len()
}

fn start(host: &Namespace, file: &Path) -> Command {
    let mut command = host.command(std::env::current_exe().expect("the path of this program"));
    command.arg(PROCESS).arg(file);
    command
}
