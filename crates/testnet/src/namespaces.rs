//! What the tests in namespaces share.

use std::env;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

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
