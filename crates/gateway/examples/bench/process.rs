//! What a process takes; where it is this one, all that takes part.

use crate::outcome::Outcome;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::{SysconfVar, sysconf};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Resident memory.
pub fn resident_bytes() -> Outcome<u64> {
    read_size_bytes("/proc/self/status", "VmRSS:")
}

/// Resident memory of another process.
pub fn resident_bytes_of(process: u32) -> Outcome<u64> {
    read_size_bytes(&format!("/proc/{process}/status"), "VmRSS:")
}

/// The most that it had so far.
pub fn peak_bytes_of(process: u32) -> Outcome<u64> {
    read_size_bytes(&format!("/proc/{process}/status"), "VmHWM:")
}

/// CPU time of all threads of another process, in user and kernel mode.
pub fn cpu_time_of(process: u32) -> Outcome<Duration> {
    let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.ok_or("no clock ticks")? as f64;
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name, which may contain anything: state, parent …; utime and stime are the fields 14 and 15 of proc(5).
    let (_, fields) = text.rsplit_once(')').ok_or("no name in stat")?;
    let ticks: f64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks / ticks_per_second))
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

/// CPU time of all threads, in user and kernel mode.
pub fn cpu_time() -> Outcome<Duration> {
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

/// CPU time of all threads of another process that live, to the nanosecond, and how often they have given up the processor to wait.
pub fn scheduled_of(process: u32) -> Outcome<(Duration, u64)> {
    let (mut time, mut waits) = (Duration::ZERO, 0);
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let task = task?.path().display().to_string();
        time += scheduled_time(&task)?;
        let status = fs::read_to_string(format!("{task}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits += line.ok_or("no switches in status")?.trim().parse::<u64>()?;
    }
    Ok((time, waits))
}

/// CPU time of the threads of this process that have this name and live, to the nanosecond.
pub fn scheduled_of_threads(name: &str) -> Outcome<Duration> {
    let mut time = Duration::ZERO;
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path().display().to_string();
        // Others may end meanwhile.
        if fs::read_to_string(format!("{task}/comm")).is_ok_and(|own| own.trim_end() == name) {
            time += scheduled_time(&task)?;
        }
    }
    Ok(time)
}

/// Of the thread with this directory in /proc.
fn scheduled_time(task: &str) -> Outcome<Duration> {
    // Time on a processor, time in its queue, and time slices (Documentation/scheduler/sched-stats.rst).
    let text = fs::read_to_string(format!("{task}/schedstat"))?;
    Ok(Duration::from_nanos(text.split_whitespace().next().ok_or("no time in schedstat")?.parse()?))
}
