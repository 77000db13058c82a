//! Keeping one CPU free of all but one thread.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// One of the CPUs that the calling thread may use, reserved: while this lives, neither that thread nor any that it starts
/// runs on it, but for a thread that is [pinned](ReservedCpu::pin) to it. Of a machine with one CPU nothing is reserved.
///
/// A thread that spins and one that must wake up at once then never share a CPU, which the scheduler would only notice
/// after milliseconds.
#[derive(Debug)]
pub struct CpuReservation {
    previous_affinity: Option<CpuSet>,
    cpu: ReservedCpu,
}

/// The CPU that was reserved, if there is one.
#[derive(Debug, Clone, Copy)]
pub struct ReservedCpu(Option<usize>);

impl CpuReservation {
    /// Reserves the last CPU. Where the system refuses that, nothing is reserved.
    pub fn reserve_last() -> Self {
        let nothing = CpuReservation { previous_affinity: None, cpu: ReservedCpu(None) };
        let Ok(before) = sched_getaffinity(Pid::from_raw(0)) else { return nothing };
        let allowed: Vec<usize> = (0..CpuSet::count()).filter(|&n| before.is_set(n).unwrap_or(false)).collect();
        let Some((&last, others)) = allowed.split_last().filter(|(_, others)| !others.is_empty()) else {
            return nothing;
        };
        if set_affinity(others).is_err() {
            return nothing;
        }
        CpuReservation { previous_affinity: Some(before), cpu: ReservedCpu(Some(last)) }
    }

    /// The CPU, for the thread that is to run on it.
    pub fn cpu(&self) -> ReservedCpu {
        self.cpu
    }
}

impl Drop for CpuReservation {
    fn drop(&mut self) {
        if let Some(before) = &self.previous_affinity {
            // Where this fails, the thread runs on fewer CPUs than it might.
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}

impl ReservedCpu {
    /// Keeps the calling thread on this CPU, and on no other, from now on.
    pub fn pin(self) {
        if let Some(cpu) = self.0 {
            let _ = set_affinity(&[cpu]);
        }
    }
}

fn set_affinity(cpus: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|&n| set.set(n))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_keep_away_until_it_is_given_back() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
            let reservation = CpuReservation::reserve_last();
            if let ReservedCpu(Some(cpu)) = reservation.cpu() {
                assert!(!sched_getaffinity(Pid::from_raw(0)).unwrap().is_set(cpu).unwrap());
                let occupant = std::thread::spawn(move || {
                    reservation.cpu().pin();
                    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
                    ((0..CpuSet::count()).filter(|&n| set.is_set(n).unwrap()).collect::<Vec<_>>(), reservation)
                });
                let (set, reservation) = occupant.join().unwrap();
                assert_eq!(set, [cpu]);
                drop(reservation);
            }
            assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
