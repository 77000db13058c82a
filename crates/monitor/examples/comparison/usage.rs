//! What a process and its children take.

use crate::Outcome;
use nix::unistd::{SysconfVar, sysconf};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Since the start of a process.
pub struct Usage {
    pub echo_requests: u64,
    /// User and system time, with that of children that have ended.
    cpu: Duration,
    written_bytes: u64,
    /// Now.
    memory_bytes: u64,
}

/// In a time.
pub struct Used {
    pub time: Duration,
    pub probes: u64,
    pub cpu: Duration,
    pub written_bytes: u64,
    /// At the end.
    pub memory_bytes: u64,
}

impl Usage {
    pub fn since(&self, before: &Usage, time: Duration) -> Used {
        Used {
            time,
            probes: self.echo_requests - before.echo_requests,
            cpu: self.cpu.saturating_sub(before.cpu),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            memory_bytes: self.memory_bytes,
        }
    }
}

/// Of a process and all its descendants.
pub fn usage_of(root: u32, echo_requests: u64) -> Outcome<Usage> {
    let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.ok_or("no clock ticks")? as f64;
    let processes = read_processes();
    if !processes.contains_key(&root) {
        return Err("it has ended by itself".into());
    }
    let (mut ticks, mut written_bytes, mut memory_bytes) = (0, 0, 0);
    for (number, process) in &processes {
        let mut ancestors = std::iter::successors(Some(*number), |number| Some(processes.get(number)?.parent));
        if !ancestors.any(|ancestor| ancestor == root) {
            continue;
        }
        ticks += process.ticks;
        written_bytes += read_number(&format!("/proc/{number}/io"), "write_bytes:");
        memory_bytes += 1024 * read_number(&format!("/proc/{number}/smaps_rollup"), "Pss:");
    }
    let cpu = Duration::from_secs_f64(ticks as f64 / ticks_per_second);
    Ok(Usage { echo_requests, cpu, written_bytes, memory_bytes })
}

struct Process {
    parent: u32,
    ticks: u64,
}

fn read_processes() -> BTreeMap<u32, Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One may end meanwhile.
    numbers.filter_map(|number| Some((number, read_process(number)?))).collect()
}

fn read_process(number: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // Behind the name, which may contain anything: state, parent …; the fields 14 to 17 of proc(5) are utime, stime, and those of children
    // that have ended.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Process { parent: fields.get(1)?.parse().ok()?, ticks })
}

/// Of a line such as `Pss: 1234 kB`; zero where there is none, such as of a process that has just ended.
fn read_number(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
