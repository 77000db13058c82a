//! What tests in real time share: where they run, and how long they wait.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

/// How long a test waits for something that must happen. Far longer than it takes on a busy machine, so that only what
/// never happens exceeds it.
pub const TEST_DEADLINE: Duration = Duration::from_secs(120);

/// Whether `condition` holds at last, asked every few milliseconds until [`TEST_DEADLINE`].
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + TEST_DEADLINE;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `body` where it may build networks: here for root, else in a copy of this test in a user namespace. One at a
/// time: the machine has few cores, and the network runs in real time.
pub fn in_namespaces(test: &str, body: impl FnOnce()) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if net::namespace::may_build_networks() {
        return body();
    }
    const COPY: &str = "KUMADE_TEST_IN_USER_NAMESPACE";
    assert!(env::var_os(COPY).is_none(), "this system's user namespaces grant nothing: run the tests as root");
    let mut copy = Command::new(env::current_exe().expect("the path of this test"));
    copy.args([test, "--exact", "--nocapture"]).env(COPY, "1");
    let status = net::namespace::in_user_namespace(&mut copy).status();
    let status = status.expect("user namespaces are forbidden here: allow them, or run the tests as root");
    assert!(status.success(), "{test} failed in its user namespace");
}
