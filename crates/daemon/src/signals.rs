//! The signals that ask a process to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that becomes true once the process is asked to end: by Ctrl-C (SIGINT), by SIGTERM, or because its terminal has
/// gone (SIGHUP), unless it was started to ignore that, as nohup(1) does.
///
/// # Errors
/// The system refuses a handler.
pub fn termination_flag() -> io::Result<Arc<AtomicBool>> {
    register_handlers(None)
}

/// As [`termination_flag`]; a second signal ends the process at once, with this exit status.
///
/// # Errors
/// The system refuses a handler.
pub fn termination_flag_or_exit(status: i32) -> io::Result<Arc<AtomicBool>> {
    register_handlers(Some(status))
}

fn register_handlers(second: Option<i32>) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        if let Some(status) = second {
            // Handlers run in the order of their registration: this one sees the flag as the signals before have left it.
            flag::register_conditional_shutdown(signal, status, Arc::clone(&stop))?;
        }
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether this process was started to ignore the signal: proc(5).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask >> (signal - 1) & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_signal_sets_the_flag() {
        let stop = termination_flag().unwrap();
        assert!(!stop.load(Ordering::SeqCst));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(stop.load(Ordering::SeqCst));
    }
}
