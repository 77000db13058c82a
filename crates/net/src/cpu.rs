//! Keeping one processor free of all but one thread.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// One of the processors that the calling thread may use, set aside: neither that thread nor any that it starts while
/// this lives runs on it, but a thread that calls [`pin`](Self::pin) does, and on no other. Of a machine with one
/// processor nothing is set aside.
///
/// A thread that spins and one that must wake up at once then never share a processor, which the scheduler would only
/// notice after milliseconds.
#[derive(Debug)]
pub struct CpuReservation {
    before: Option<CpuSet>,
    processor: Processor,
}

/// The processor that was set aside.
#[derive(Debug, Clone, Copy)]
pub struct Processor(Option<usize>);

impl CpuReservation {
    /// Sets the last processor aside. What the system refuses is done without.
    pub fn last() -> Self {
        let nothing = CpuReservation { before: None, processor: Processor(None) };
        let Ok(before) = sched_getaffinity(Pid::from_raw(0)) else { return nothing };
        let allowed: Vec<usize> = (0..CpuSet::count()).filter(|&n| before.is_set(n).unwrap_or(false)).collect();
        let Some((&last, others)) = allowed.split_last().filter(|(_, others)| !others.is_empty()) else {
            return nothing;
        };
        if run_on(others).is_err() {
            return nothing;
        }
        CpuReservation { before: Some(before), processor: Processor(Some(last)) }
    }

    /// For the thread that is to have it.
    pub fn processor(&self) -> Processor {
        self.processor
    }
}

impl Drop for CpuReservation {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The thread only runs on fewer processors than it might.
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}

impl Processor {
    /// Moves the calling thread there for good.
    pub fn pin(self) {
        if let Some(processor) = self.0 {
            let _ = run_on(&[processor]);
        }
    }
}

fn run_on(processors: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    processors.iter().try_for_each(|&n| set.set(n))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_keep_away_until_it_is_given_back() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
            let aside = CpuReservation::last();
            if let Processor(Some(processor)) = aside.processor() {
                assert!(!sched_getaffinity(Pid::from_raw(0)).unwrap().is_set(processor).unwrap());
                let occupant = std::thread::spawn(move || {
                    aside.processor().pin();
                    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
                    ((0..CpuSet::count()).filter(|&n| set.is_set(n).unwrap()).collect::<Vec<_>>(), aside)
                });
                let (set, aside) = occupant.join().unwrap();
                assert_eq!(set, [processor]);
                drop(aside);
            }
            assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
