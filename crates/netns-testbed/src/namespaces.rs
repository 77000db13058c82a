//! What tests in real time share: where they run, and how long they wait.

use std::fs::{self, File};
use std::panic::Location;
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

/// How long a test waits for something that must happen. Far longer than it takes on a busy machine, so that only what
/// never happens exceeds it.
pub const TEST_DEADLINE: Duration = Duration::from_secs(120);

/// A test that waits asks again after this part of the time for which it has waited: so soon that it goes on at once, and so seldom that
/// what it waits for has the processors.
const ASKING_PART: u32 = 20;
const MIN_ASKING_INTERVAL: Duration = Duration::from_millis(5);
const MAX_ASKING_INTERVAL: Duration = Duration::from_millis(200);

/// Waits that are longer stand in the output of a test, with their place: what makes a test slow is seen there (`--nocapture`).
const NOTABLE_WAIT: Duration = Duration::from_secs(2);

/// Whether `condition` holds at last, asked again and again until [`TEST_DEADLINE`].
#[track_caller]
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let (start, place) = (Instant::now(), Location::caller());
    loop {
        let holds = condition();
        let waited = start.elapsed();
        if holds || waited > TEST_DEADLINE {
            if waited > NOTABLE_WAIT {
                println!("{place}: waited for {:.1} s", waited.as_secs_f64());
            }
            return holds;
        }
        thread::sleep((waited / ASKING_PART).clamp(MIN_ASKING_INTERVAL, MAX_ASKING_INTERVAL));
    }
}

/// The file that the copy of a test makes when it begins.
const COPY_BEGAN_VARIABLE: &str = "KUMADE_TEST_COPY_BEGAN";

/// Runs `body` where it may build networks: in a copy of this test, a process of its own, in a user namespace if this user may not build
/// them. So tests run beside each other: a program that one starts never has another one's sockets and locks open for a moment.
pub fn in_namespaces(test: &str, body: impl FnOnce()) {
    let Some(began) = env::var_os(COPY_BEGAN_VARIABLE) else { return run_copy(test) };
    File::create(began).expect("a copy tells that it begins");
    assert!(
        kumade_net::namespace::can_build_networks(),
        "this system's user namespaces grant nothing: run the tests as root"
    );
    body();
}

/// Runs a copy of this test, ignored or not.
fn run_copy(test: &str) {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let began = env::temp_dir().join(format!("kumade-test-{}-{number}", process::id()));
    let program = env::current_exe().expect("the path of this test");
    let path = find_path(&program, test);
    let mut copy = Command::new(program);
    copy.args([&path, "--exact", "--nocapture", "--include-ignored"]).env(COPY_BEGAN_VARIABLE, &began);
    if !kumade_net::namespace::can_build_networks() {
        kumade_net::namespace::in_user_namespace(&mut copy);
    }
    let output = copy.output().expect("user namespaces are forbidden here: allow them, or run the tests as root");
    [output.stdout, output.stderr].iter().for_each(|text| print!("{}", String::from_utf8_lossy(text)));
    // One that calls this under the name of another test would run that one.
    let has_run = fs::remove_file(&began).is_ok();
    assert!(output.status.success(), "{test} failed: {}", output.status);
    assert!(has_run, "the copy of {test} did not run: is that the test's name?");
}

/// The name of a test of this program with those of its modules.
fn find_path(program: &Path, test: &str) -> String {
    let listed = Command::new(program).args(["--list", "--format", "terse", test]).output();
    let listed = String::from_utf8(listed.expect("this program lists its tests").stdout).expect("names of tests");
    let paths = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let is_named = |path: &&str| path.strip_suffix(test).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"));
    let paths: Vec<_> = paths.filter(is_named).collect();
    assert_eq!(paths.len(), 1, "tests called {test}: {paths:?}");
    paths[0].to_owned()
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
    #[should_panic(expected = "tests called")]
    fn a_copy_of_no_test_is_noticed() {
        run_copy("namespaces::tests::no_such_test");
    }
}
