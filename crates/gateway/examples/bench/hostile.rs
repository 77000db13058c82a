//! One authenticated peer of a tunnel that does what it likes, confined to one CPU: what it costs the end that listens, kernel
//! memory included, and what an honest peer loses, compared with a loop on that CPU that does nothing; and how long an honest
//! peer takes to connect beside eight of it.
//!
//! The listener, the honest peer, and its programs have the other CPUs.

mod attack;
mod datagrams;
mod listener;
mod streams;

use crate::lines::{Lines, PORT};
use crate::outcome::{Outcome, mean};
use crate::stream::Stream;
use attack::{Attack, Scene};
use kumade_net::cpu::{CpuReservation, ReservedCpu};
use kumade_net::namespace::Namespace;
use listener::{HONEST_ADDRESS, LISTENER_ADDRESS, TestDirectory};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Of the goodput beside the idle loop.
const MAX_GOODPUT_DROP_FRACTION: f64 = 0.2;
const MAX_COST_BYTES: u64 = 64_000_000;
const MAX_CONNECT_SECONDS: f64 = 3.0;
const HOSTILE_PEERS: usize = 8;
const CONNECT_TRIES: usize = 3;
/// Until a flow has found its rate, and until it has found it again.
const FIRST_WARM_UP: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(1000);
const MEASUREMENT_TIME: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(40);

/// With the program at this path; all attacks, or those whose name contains `wanted`, so many rounds each.
pub fn measure(program: &str, wanted: Option<&str>, rounds: usize) -> Outcome<()> {
    let reservation = CpuReservation::reserve_last();
    let mut lines = Lines::new(1)?;
    let attacker = lines.add_attacker()?;
    let directory = TestDirectory::new(program)?;
    println!(
        "a hostile peer on one CPU: TCP payload of an honest peer beside it, Mbit/s (to the listener, from it), and beside an idle \
         loop; what the listener takes more, MB; seconds until an honest peer is connected beside {HOSTILE_PEERS} of them"
    );
    let mut is_met = true;
    for attack in Attack::ALL.into_iter().filter(|attack| wanted.is_none_or(|wanted| attack.name().contains(wanted))) {
        let scene = Scene::new(attack, &lines.hosts[0], &attacker, reservation.cpu())?;
        is_met &= measure_attack(&scene, &lines, &directory, rounds)?;
    }
    println!("{}", if is_met { "all targets are met" } else { "a target is missed" });
    Ok(())
}

fn measure_attack(scene: &Scene<'_>, lines: &Lines, directory: &TestDirectory, rounds: usize) -> Outcome<bool> {
    let mut listener = directory.start_listener(&lines.hosts[1])?;
    let (mut honest, _) = directory.connect_honest(&lines.hosts[0], PATIENCE)?;
    let (near, far) = ((&lines.hosts[0], HONEST_ADDRESS), (&lines.hosts[1], LISTENER_ADDRESS));
    let mut drops = Vec::new();
    let mut text = String::new();
    let mut cost = 0;
    for (from, to) in [(near, far), (far, near)] {
        let stream = Stream::start(from.0, to.0, to.1, None)?;
        let mut rates = [Vec::new(), Vec::new()];
        let mut bytes = [0; 2];
        {
            let _busy = Busy::idle(scene.cpu);
            thread::sleep(FIRST_WARM_UP);
        }
        // With the idle loop first and last, so that what drifts counts on neither side.
        for phase in 0..=2 * rounds {
            let side = phase % 2;
            let _busy = if side == 1 { scene.start_peer(0)? } else { Busy::idle(scene.cpu) };
            thread::sleep(WARM_UP);
            for _ in 0..2 {
                rates[side].push(stream.goodput(MEASUREMENT_TIME / 2) / 1e6);
                bytes[side] = bytes[side].max(listener::held_bytes(&lines.hosts[1], &listener)?);
            }
        }
        cost = cost.max(bytes[1].saturating_sub(bytes[0]));
        drops.push(1.0 - mean(&rates[1]) / mean(&rates[0]));
        text += &format!(
            " {:6.0} of {:6.0} ({:3.0} %)",
            mean(&rates[1]),
            mean(&rates[0]),
            100.0 - drops[drops.len() - 1] * 100.0
        );
    }
    let seconds = connect_beside(scene, lines, directory, &mut honest)?;
    let worst = seconds.iter().copied().fold(0.0, f64::max);
    end(&mut honest)?;
    end(&mut listener)?;
    let is_met = drops.iter().all(|drop| *drop <= MAX_GOODPUT_DROP_FRACTION)
        && cost <= MAX_COST_BYTES
        && worst <= MAX_CONNECT_SECONDS;
    println!(
        "  {:<36}{text}, {:5.1} MB, {worst:4.1} s: {}",
        scene.attack.name(),
        cost as f64 / 1e6,
        if is_met { "met" } else { "missed" }
    );
    Ok(is_met)
}

/// How long an honest peer takes to connect, each time.
fn connect_beside(
    scene: &Scene<'_>,
    lines: &Lines,
    directory: &TestDirectory,
    honest: &mut Child,
) -> Outcome<Vec<f64>> {
    let mut seconds = Vec::new();
    let _all = (0..HOSTILE_PEERS).map(|number| scene.start_peer(number)).collect::<Outcome<Vec<_>>>()?;
    thread::sleep(WARM_UP);
    for _ in 0..CONNECT_TRIES {
        end(honest)?;
        let taken;
        (*honest, taken) = directory.connect_honest(&lines.hosts[0], PATIENCE)?;
        seconds.push(taken.as_secs_f64());
    }
    Ok(seconds)
}

fn end(process: &mut Child) -> Outcome<()> {
    process.kill()?;
    process.wait()?;
    Ok(())
}

/// A thread that is never idle, until dropped.
struct Busy {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn idle(cpu: ReservedCpu) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            cpu.pin();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy { ends, thread: Some(thread) }
    }

    /// In this host. What it works on is not `Send`, perhaps: it makes that itself.
    fn start(host: &Namespace, cpu: ReservedCpu, work: impl FnOnce(&AtomicBool) + Send + 'static) -> Outcome<Self> {
        let ends = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&ends);
        let thread = host.spawn("hostile", move || {
            cpu.pin();
            work(&stop);
        })?;
        Ok(Busy { ends, thread: Some(thread) })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Whether an attack is to end.
fn is_over(ends: &AtomicBool) -> bool {
    ends.load(Ordering::Relaxed)
}

fn listener_address() -> std::net::SocketAddr {
    ([10, 1, 2, 2], PORT).into()
}

/// Waits until something holds, for as long as is reasonable.
fn wait_until(mut condition: impl FnMut() -> Outcome<bool>, patience: Duration) -> Outcome<Duration> {
    let start = Instant::now();
    while !condition()? {
        if start.elapsed() > patience {
            return Err(format!("nothing has come of it in {} s", patience.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(start.elapsed())
}
