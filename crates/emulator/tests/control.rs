//! The control socket with real clients, kind and unkind.

use emulator::control::{Control, ControlError, Place, Reply, Request};
use emulator::settings::{Change, Settings};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    directory
}

fn serve(place: &Place, name: &str) -> Result<Control, ControlError> {
    place.claim(name)?.serve(handler())
}

/// Applies changes, as a bridge does.
fn handler() -> impl FnMut(Request) -> Reply {
    let mut settings: [Settings; 2] = Default::default();
    move |request| match request {
        Request::Show => Reply::Shown { document: "x".repeat(1000).into() },
        Request::Set { change } => match change.apply(&settings) {
            Ok(changed) => {
                settings = changed;
                Reply::Done { settings: settings.each_ref().map(Settings::to_string) }
            }
            Err(error) => Reply::Refused { reason: error.to_string() },
        },
    }
}

fn set(words: &str) -> Request {
    Request::Set { change: Change::parse(words).unwrap() }
}

#[test]
fn a_bridge_is_asked_and_changed_by_its_name() {
    let place = Place::only(directory("asked"));
    let control = serve(&place, "one").unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(control.socket()), mode(control.socket().parent().unwrap())), (0o600, 0o700));
    let done = Reply::Done { settings: ["rate 5mbit".to_owned(), "as it is".to_owned()] };
    assert_eq!(place.ask("one", &set("up rate 5mbit")).unwrap(), done);
    let refused = place.ask("one", &set("loss 150%")).unwrap();
    assert!(matches!(&refused, Reply::Refused { reason } if reason.contains("more than the whole")), "{refused:?}");
    assert!(matches!(place.ask("one", &Request::Show).unwrap(), Reply::Shown { .. }));
    let text = place.ask("two", &Request::Show).unwrap_err().to_string();
    assert_eq!(text, "no link called `two` runs here; there is one: choose it by --name");
}

#[test]
fn a_name_has_one_owner_and_is_free_again_afterwards() {
    let path = directory("owned");
    let place = Place::only(&path);
    let first = serve(&place, "same").unwrap();
    let error = serve(&place, "same").unwrap_err();
    let taken = format!("a link called `same` runs already (process {})", std::process::id());
    assert!(error.to_string().contains(&taken), "{error}");
    assert!(place.ask("same", &set("rate 1mbit")).is_ok(), "the first is unharmed");
    drop(first);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing is left");
    drop(serve(&place, "same").unwrap());
}

#[test]
fn what_the_dead_left_behind_hinders_nobody() {
    let path = directory("dead");
    fs::create_dir_all(&path).unwrap();
    // As after SIGKILL: the socket and the lock's file are there, the lock isn't.
    drop(UnixListener::bind(path.join("late.sock")).unwrap());
    fs::write(path.join("late.lock"), "99999999").unwrap();
    let place = Place::only(&path);
    assert!(matches!(place.ask("late", &Request::Show), Err(ControlError::NotRunning { .. })));
    let _control = serve(&place, "late").unwrap();
    assert!(place.ask("late", &Request::Show).is_ok());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let place = Place::only(directory("names"));
    for name in ["", "../up", "a/b", "a b", &"x".repeat(65), "ä"] {
        assert!(matches!(serve(&place, name), Err(ControlError::Name(_))), "{name}");
        assert!(matches!(place.ask(name, &Request::Show), Err(ControlError::Name(_))), "{name}");
    }
}

#[test]
fn a_directory_of_others_is_passed_over() {
    let path = directory("others");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "a file, not a directory").unwrap();
    let text = serve(&Place::only(&path), "x").unwrap_err().to_string();
    assert!(text.contains("XDG_RUNTIME_DIR"), "{text}");
    let text = Place::only(&path).ask("x", &Request::Show).unwrap_err().to_string();
    assert!(text.contains("or ask as the user of"), "{text}");
    fs::remove_file(&path).unwrap();
}

#[test]
fn unkind_clients_cost_little_and_hinder_nobody_for_long() {
    let place = Place::only(directory("unkind"));
    let control = serve(&place, "u").unwrap();
    let connect = || UnixStream::connect(control.socket()).unwrap();
    let say = |text: &[u8]| {
        let mut stream = connect();
        let mut answer = String::new();
        stream.write_all(text).and_then(|()| stream.read_to_string(&mut answer)).map(|_| answer).unwrap_or_default()
    };
    for text in ["{}\n", "[1,2\n", "{\"request\":\"eat\"}\n", "{\"request\":\"set\",\"change\":[[1]]}\n"] {
        let answer = say(text.as_bytes());
        assert!(answer.contains("\"refused\"") && answer.contains("cannot be read"), "{text} {answer}");
    }
    let nested = "[".repeat(1_000_000) + "\n";
    assert!(say(nested.as_bytes()).contains("refused"));
    assert_eq!(say(b"\xff\xfe\n"), "");
    assert_eq!(say(&vec![b' '; 5 << 20]), "", "a line without end");
    // One that says nothing at all, one that goes at once.
    let silent = connect();
    drop(connect());
    let began = Instant::now();
    let mut waited = place.ask("u", &set("rate 1mbit"));
    while waited.is_err() && began.elapsed() < Duration::from_secs(20) {
        waited = place.ask("u", &set("rate 1mbit"));
    }
    assert!(waited.is_ok(), "{waited:?}");
    drop(silent);
}
