//! What this process takes: all that takes part.

use crate::outcome::Outcome;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Resident memory.
pub fn resident_bytes() -> Outcome<u64> {
    read_size_bytes("/proc/self/status", "VmRSS:")
}

/// What the kernel takes for itself on the whole machine, with what other programs make it take.
pub fn slab_bytes() -> Outcome<u64> {
    read_size_bytes("/proc/meminfo", "Slab:")
}

/// CPU time of all threads, in user and kernel mode, relative to the time that passes: so many seconds, in each of which
/// `work` is done once.
pub fn cpu_share(seconds: u32, mut work: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let (before, start) = (cpu_time()?, Instant::now());
    for second in 1..=seconds {
        work()?;
        thread::sleep((Duration::from_secs(1) * second).saturating_sub(start.elapsed()));
    }
    Ok((cpu_time()? - before).as_secs_f64() / start.elapsed().as_secs_f64())
}

fn cpu_time() -> Outcome<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = |value: TimeVal| Duration::new(value.tv_sec() as u64, value.tv_usec() as u32 * 1000);
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// The value of a line such as `VmRSS: 1234 kB`, in bytes.
fn read_size_bytes(file: &str, name: &str) -> Outcome<u64> {
    let text = fs::read_to_string(file)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no {name} in {file}"))?;
    Ok(value.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
