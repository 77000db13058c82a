//! What tests in real time share: where they run, and how long they wait.

use kumade_net::namespace::Namespace;
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
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

/// Listens at an address in a namespace where the test has listened before: a program that another test starts just then has the
/// earlier listener open for a moment.
///
/// # Panics
/// If that lasts until [`TEST_DEADLINE`], or the system refuses the address.
pub fn listen_again(inside: &Namespace, address: impl ToSocketAddrs + Sync) -> TcpListener {
    let mut listener = None;
    let listens = eventually(|| {
        listener = match inside.run(|| TcpListener::bind(&address)).expect("a thread of the namespace") {
            Ok(listener) => Some(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
            Err(error) => panic!("cannot listen: {error}"),
        };
        listener.is_some()
    });
    assert!(listens, "the address stays in use");
    listener.expect("it listens")
}

/// The file that the copy of a test in a user namespace makes when it begins.
const COPY_BEGAN_VARIABLE: &str = "KUMADE_TEST_IN_USER_NAMESPACE";

/// Runs `body` where it may build networks: here for root, else in a copy of this test in a user namespace. One at a
/// time: a program that another test starts just then would have this one's sockets and locks open for a moment.
pub fn in_namespaces(test: &str, body: impl FnOnce()) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let began = env::var_os(COPY_BEGAN_VARIABLE);
    if let Some(began) = &began {
        File::create(began).expect("a copy tells that it begins");
    }
    if kumade_net::namespace::can_build_networks() {
        return body();
    }
    assert!(began.is_none(), "this system's user namespaces grant nothing: run the tests as root");
    run_copy(test);
}

/// Runs a copy of this test in a user namespace, ignored or not.
fn run_copy(test: &str) {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let began = env::temp_dir().join(format!("kumade-test-{}-{number}", process::id()));
    let mut copy = Command::new(env::current_exe().expect("the path of this test"));
    copy.args([test, "--exact", "--nocapture", "--include-ignored"]).env(COPY_BEGAN_VARIABLE, &began);
    let status = kumade_net::namespace::in_user_namespace(&mut copy).status();
    let status = status.expect("user namespaces are forbidden here: allow them, or run the tests as root");
    // A name that is not the test's own runs nothing, and that succeeds.
    let has_run = fs::remove_file(&began).is_ok();
    assert!(status.success(), "{test} failed in its user namespace");
    assert!(has_run, "the copy of {test} did not run: is that the test's name?");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "what it does is done by the next one"]
    fn an_ignored_test() {
        in_namespaces("namespaces::tests::an_ignored_test", || ());
    }

    #[test]
    fn the_copy_of_an_ignored_test_runs() {
        run_copy("namespaces::tests::an_ignored_test");
    }

    #[test]
    #[should_panic(expected = "did not run")]
    fn a_copy_of_no_test_is_noticed() {
        run_copy("namespaces::tests::no_such_test");
    }
}
