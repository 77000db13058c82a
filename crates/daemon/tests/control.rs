//! The control socket with real clients, well-behaved and hostile.

use kumade_daemon::{ControlError, ControlServer, NameLockError, Protocol, Registry, RuntimeDir};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A service that adds numbers.
#[derive(Debug)]
struct Adder;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    Add(u32),
    Fill(usize),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Reply {
    Sum(u32),
    Text(String),
}

impl Protocol for Adder {
    const SERVICE: &'static str = "adder";
    const VERSION: u32 = 2;
    type Request = Request;
    type Reply = Reply;
}

/// The same in another version.
#[derive(Debug)]
struct OldAdder;

impl Protocol for OldAdder {
    const SERVICE: &'static str = "adder";
    const VERSION: u32 = 1;
    type Request = Request;
    type Reply = Reply;
}

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    let _ = fs::remove_file(&directory);
    directory
}

fn registry<P: Protocol>(directory: &Path) -> Registry<P> {
    Registry::new(RuntimeDir::from_path(directory))
}

fn serve(registry: &Registry<Adder>, name: &str) -> Result<ControlServer, ControlError> {
    let mut sum = 0;
    registry.lock_name(name)?.serve(move |request| match request {
        Request::Add(number) => {
            sum += number;
            Reply::Sum(sum)
        }
        Request::Fill(bytes) => Reply::Text("x".repeat(bytes)),
    })
}

#[test]
fn a_service_is_asked_by_its_name() {
    let registry = registry::<Adder>(&directory("asked"));
    let server = serve(&registry, "one").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(server.socket_path()), mode(server.socket_path().parent().unwrap())), (0o600, 0o700));
    assert_eq!(registry.send_request("one", &Request::Add(2)).unwrap(), Reply::Sum(2));
    assert_eq!(registry.send_request("one", &Request::Add(3)).unwrap(), Reply::Sum(5));
    let long = registry.send_request("one", &Request::Fill(1 << 20)).unwrap();
    assert!(matches!(long, Reply::Text(text) if text.len() == 1 << 20));
    let error = registry.send_request("two", &Request::Add(1)).unwrap_err().to_string();
    assert_eq!(error, "no adder called `two` runs here; running: one");
}

#[test]
fn a_name_has_one_owner_and_is_free_again_afterwards() {
    let path = directory("owned");
    let registry = registry::<Adder>(&path);
    let first = serve(&registry, "same").unwrap();
    let error = serve(&registry, "same").unwrap_err().to_string();
    assert!(error.contains(&format!("`same` runs already (process {})", std::process::id())), "{error}");
    assert!(registry.send_request("same", &Request::Add(1)).is_ok(), "the first is unharmed");
    drop(first);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing is left");
    drop(serve(&registry, "same").unwrap());
    drop(serve(&registry, &"x".repeat(64)).unwrap());
}

#[test]
fn a_directory_may_have_a_longer_name_than_the_address_of_a_socket() {
    let path = directory(&"long".repeat(30));
    let registry = registry::<Adder>(&path);
    let _server = serve(&registry, "one").unwrap();
    assert_eq!(registry.send_request("one", &Request::Add(2)).unwrap(), Reply::Sum(2));
    assert_eq!(registry.running_names(), ["one"]);
}

#[test]
fn files_of_a_killed_process_are_no_obstacle() {
    let path = directory("killed");
    fs::create_dir_all(&path).unwrap();
    // As after SIGKILL: the socket and the lock file exist, the lock does not.
    drop(UnixListener::bind(path.join("adder-late.sock")).unwrap());
    fs::write(path.join("adder-late.lock"), "99999999").unwrap();
    let registry = registry::<Adder>(&path);
    assert!(matches!(registry.send_request("late", &Request::Add(1)), Err(ControlError::NotRunning { .. })));
    assert!(registry.running_names().is_empty());
    let _server = serve(&registry, "late").unwrap();
    assert_eq!(
        (registry.send_request("late", &Request::Add(1)).unwrap(), registry.running_names()),
        (Reply::Sum(1), vec!["late".into()])
    );
}

#[test]
fn names_that_make_no_file_name_are_refused() {
    let registry = registry::<Adder>(&directory("names"));
    for name in ["", "../up", "a/b", "a b", &"x".repeat(65), "ä"] {
        assert!(matches!(serve(&registry, name), Err(ControlError::NameLock(NameLockError::InvalidName(_)))), "{name}");
        let asked = registry.send_request(name, &Request::Add(1));
        assert!(matches!(asked, Err(ControlError::NameLock(NameLockError::InvalidName(_)))), "{name}");
    }
}

#[test]
fn a_directory_that_is_not_the_users_is_not_used() {
    let path = directory("others");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "a file, not a directory").unwrap();
    let registry = registry::<Adder>(&path);
    let error = serve(&registry, "x").unwrap_err().to_string();
    assert!(error.contains("XDG_RUNTIME_DIR"), "{error}");
    let error = registry.send_request("x", &Request::Add(1)).unwrap_err().to_string();
    assert!(error.contains("are another user's"), "{error}");
    fs::remove_file(&path).unwrap();
}

#[test]
fn another_version_is_told_so() {
    let path = directory("version");
    let _server = serve(&registry(&path), "one").unwrap();
    let error = registry::<OldAdder>(&path).send_request("one", &Request::Add(1)).unwrap_err().to_string();
    assert_eq!(
        error,
        "the adder speaks adder-control/2 in place of adder-control/1: it runs another version of this program"
    );
}

#[test]
fn hostile_clients_cost_bounded_memory_and_time() {
    let registry = registry::<Adder>(&directory("hostile"));
    let server = serve(&registry, "h").unwrap();
    let connect = || UnixStream::connect(server.socket_path()).unwrap();
    let say = |text: &[u8]| {
        let mut stream = connect();
        let mut answer = String::new();
        stream.write_all(text).and_then(|()| stream.read_to_string(&mut answer)).map(|_| answer).unwrap_or_default()
    };
    for text in ["\n", "{}\n", "adder-control/1 {}\n", "adder-control/2 [1,2\n", "adder-control/2 {\"eat\":1}\n"] {
        let answer = say(text.as_bytes());
        assert!(answer.starts_with("adder-control/2 {\"error\":\"the request cannot be read"), "{text} {answer}");
    }
    let nested = format!("adder-control/2 {}\n", "[".repeat(1_000_000));
    assert!(say(nested.as_bytes()).contains("\"error\""));
    assert_eq!(say(b"\xff\xfe\n"), "");
    assert_eq!(say(&vec![b' '; 5 << 20]), "", "a line without end");
    // One that is silent, one that goes at once, and one that sends a byte now and then: none lasts for ever.
    let (silent, mut slow) = (connect(), connect());
    drop(connect());
    let dripping = thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) && slow.write_all(b"a").is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
        begun.elapsed()
    });
    let begun = Instant::now();
    let mut reply = registry.send_request("h", &Request::Add(1));
    while reply.is_err() && begun.elapsed() < Duration::from_secs(50) {
        reply = registry.send_request("h", &Request::Add(1));
    }
    assert!(reply.is_ok(), "{reply:?}");
    assert!(dripping.join().unwrap() < Duration::from_secs(60), "the slow client was never cut off");
    drop(silent);
}

#[test]
fn an_idle_service_ends_at_once() {
    let server = serve(&registry(&directory("ends")), "one").unwrap();
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(60));
}
