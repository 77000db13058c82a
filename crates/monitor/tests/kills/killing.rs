//! Kills what it has drawn at times that it has drawn.

use super::mesh::{AGENTS, Mesh, Victim};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

/// Between two kills at most, in seconds. A coordinator that was killed leads again after 15 to 25 s where it might be on another host.
const MAX_WAIT: f64 = 6.0;
const MAX_WAIT_TO_LEAD: f64 = 30.0;
/// Until it is started again at most: at times, another one is killed meanwhile.
const MAX_PAUSE: f64 = 1.0;
/// How often a second one is killed before the first one is started again.
const PAIR_RATIO: f64 = 0.15;
/// How often what has ended by itself is started again.
const TEND_INTERVAL: Duration = Duration::from_millis(200);

/// Kills so many times, and says how often what.
pub fn kill_at_random(mesh: &mut Mesh, kills: u32, seed: u64) -> BTreeMap<&'static str, u32> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut counts = BTreeMap::new();
    let mut left = kills;
    while left > 0 {
        let mut victims = vec![draw_victim(mesh, &mut random)];
        if left > 1 && random.random_bool(PAIR_RATIO) {
            victims.push(draw_victim(mesh, &mut random));
            victims.dedup();
        }
        for victim in &victims {
            mesh.kill(*victim);
            let name = match victim {
                Victim::Agent(_) => "agent",
                Victim::Coordinator => "coordinator",
                Victim::Database => "database",
            };
            *counts.entry(name).or_default() += 1;
        }
        left -= victims.len() as u32;
        sleep(Duration::from_secs_f64(random.random_range(0.0..MAX_PAUSE)));
        victims.iter().for_each(|victim| mesh.restart(*victim));
        let is_long = victims.contains(&Victim::Coordinator) && mesh.server.is_some();
        let wait = random.random_range(0.0..if is_long { MAX_WAIT_TO_LEAD } else { MAX_WAIT });
        pass_time(mesh, Duration::from_secs_f64(wait));
        if (kills - left) % 20 < victims.len() as u32 {
            eprintln!("  {} of {kills} kills", kills - left);
        }
    }
    counts
}

/// Agents, coordinator and database alike.
fn draw_victim(mesh: &Mesh, random: &mut StdRng) -> Victim {
    match random.random_range(0..if mesh.server.is_some() { 3 } else { 2 }) {
        0 => Victim::Agent(AGENTS[random.random_range(0..AGENTS.len())].0),
        1 => Victim::Coordinator,
        _ => Victim::Database,
    }
}

fn pass_time(mesh: &mut Mesh, time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        let step = left.min(TEND_INTERVAL);
        sleep(step);
        left -= step;
        mesh.tend();
    }
}
