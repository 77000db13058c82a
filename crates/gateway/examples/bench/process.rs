//! What this process takes: all that takes part.

use crate::outcome::Outcome;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Resident memory.
pub fn resident_bytes() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// CPU time of all threads, in user and kernel mode, relative to the time that passes.
pub fn cpu_share(time: Duration) -> Outcome<f64> {
    let (before, start) = (cpu_time()?, Instant::now());
    thread::sleep(time);
    Ok((cpu_time()? - before).as_secs_f64() / start.elapsed().as_secs_f64())
}

fn cpu_time() -> Outcome<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = |value: TimeVal| Duration::new(value.tv_sec() as u64, value.tv_usec() as u32 * 1000);
    Ok(time(usage.user_time()) + time(usage.system_time()))
}
