//! A link is asked and changed through its control socket.

use kumade_daemon::{Registry, RuntimeDir};
use kumade_emulator::control::{LinkProtocol, Reply, Request};
use kumade_emulator::settings::{Settings, SettingsChange};
use std::fs;
use std::path::PathBuf;

/// Applies changes, as a session does.
fn handler() -> impl FnMut(Request) -> Reply {
    let mut settings = Settings::new(&SettingsChange::default()).unwrap();
    move |request| match request {
        Request::Show | Request::Recent => Reply::Shown { document: "x".repeat(1000).into() },
        Request::Set { change } => match settings.change(&change) {
            Ok(changed) => {
                settings = changed;
                Reply::Done { settings: settings.to_texts() }
            }
            Err(error) => Reply::Refused { reason: error.to_string() },
        },
        Request::Stop => Reply::Done { settings: settings.to_texts() },
    }
}

fn set(words: &str) -> Request {
    Request::Set { change: SettingsChange::parse(words).unwrap() }
}

#[test]
fn a_link_is_asked_and_changed_by_its_name() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("asked");
    let _ = fs::remove_dir_all(&directory);
    let links = Registry::<LinkProtocol>::new(RuntimeDir::from_path(directory));
    let _server = links.lock_name("one").unwrap().serve(handler()).unwrap();
    let done = Reply::Done { settings: ["rate 5mbit".to_owned(), "no impairments".to_owned()] };
    assert_eq!(links.send_request("one", &set("up rate 5mbit")).unwrap(), done);
    let refused = links.send_request("one", &set("loss 150%")).unwrap();
    assert!(matches!(&refused, Reply::Refused { reason } if reason.contains("more than the whole")), "{refused:?}");
    assert!(matches!(links.send_request("one", &Request::Show).unwrap(), Reply::Shown { .. }));
}
