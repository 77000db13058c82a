//! Changes to the system are undone once, in the namespace where they were made, and only where their process is dead.

use kumade_daemon::{Journal, Leftover, NameLock, NameLockError, RuntimeDir};
use kumade_net::namespace::{Namespace, NamespaceId};
use kumade_net::privileges;
use kumade_netns_testbed::{eventually, in_namespaces};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs, io};

/// A file that was created.
#[derive(Debug, Serialize, Deserialize)]
struct Created {
    file: PathBuf,
}

impl Leftover for Created {
    const KIND: &'static str = "created";
    type Error = io::Error;

    fn exists(&self) -> bool {
        self.file.exists()
    }

    fn undo(&self) -> io::Result<()> {
        fs::remove_file(&self.file)
    }
}

/// Tells a copy of this test to create a file in this directory and to wait for the end of its input.
const COPY: &str = "KUMADE_TEST_JOURNAL";

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn records(directory: &Path) -> usize {
    fs::read_dir(directory.join("run")).map_or(0, Iterator::count)
}

fn journal(directory: &Path) -> Journal {
    Journal::new(RuntimeDir::from_path(directory.join("run")))
}

fn create(directory: &Path) {
    let _claim = NameLock::new(&RuntimeDir::from_path(directory.join("run")), "resource").unwrap();
    let file = directory.join("file");
    let _record = journal(directory).record(&Created { file: file.clone() }).unwrap();
    fs::write(file, "").unwrap();
    eprintln!("created");
    let _ = io::stdin().read(&mut [0]);
}

fn start(directory: &Path, test: &str) -> Child {
    let mut copy = Command::new(env::current_exe().unwrap());
    copy.args([&format!("journal::{test}"), "--exact", "--nocapture"]).env(COPY, directory);
    let mut child = copy.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "created\n");
    child
}

#[test]
fn a_killed_process_is_cleaned_up_after_and_a_living_one_is_left_alone() {
    if let Some(directory) = env::var_os(COPY) {
        return create(Path::new(&directory));
    }
    let test = "a_killed_process_is_cleaned_up_after_and_a_living_one_is_left_alone";
    let directory = directory("killed-journal");
    let (run, file) = (RuntimeDir::from_path(directory.join("run")), directory.join("file"));
    let mut child = start(&directory, test);
    journal(&directory).recover::<Created>();
    assert!(file.exists(), "its process lives");
    let error = NameLock::new(&run, "resource").unwrap_err();
    assert!(matches!(&error, NameLockError::Taken { process, .. } if *process == child.id().to_string()), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(NameLock::new(&run, "resource").unwrap());
    assert_eq!((file.exists(), records(&directory)), (true, 1));
    journal(&directory).recover::<Created>();
    assert_eq!((file.exists(), records(&directory)), (false, 0));
}

#[test]
fn a_record_that_is_dropped_leaves_nothing() {
    let directory = directory("dropped-journal");
    let created = Created { file: directory.join("file") };
    let (first, second) = (journal(&directory).record(&created).unwrap(), journal(&directory).record(&created));
    assert_eq!(records(&directory), 2);
    drop((first, second));
    assert_eq!(records(&directory), 0);
}

/// What a killed process of the calling thread's namespace would have written down.
fn written(directory: &Path, file: &str) -> String {
    let record = journal(directory).record(&Created { file: directory.join(file) }).unwrap();
    // Records that were left there before have other numbers.
    let own = format!("created-{}-", std::process::id());
    let mut entries = fs::read_dir(directory.join("run")).unwrap().map(Result::unwrap);
    let entry = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(&own)).unwrap();
    let text = fs::read_to_string(entry.path()).unwrap();
    drop(record);
    text
}

#[test]
fn what_makes_no_sense_and_records_of_vanished_things_go() {
    let directory = directory("things-journal");
    let (there, vanished) = (written(&directory, "there"), written(&directory, "vanished"));
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let left = |name: &str, text: &str| fs::write(directory.join("run").join(name), text).unwrap();
    fs::write(directory.join("there"), "").unwrap();
    left("created-1-1.json", &vanished);
    left("created-1-2.json", &there.replace(boot.trim(), "an earlier one"));
    // Killed while it wrote, before it made the change; and a file of another kind.
    left("created-1-3.json", "{\"boot\":");
    left("other-1-0.json", "{}");
    journal(&directory).recover::<Created>();
    let names: Vec<_> = fs::read_dir(directory.join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["other-1-0.json"]);
    assert!(directory.join("there").exists());
}

#[test]
fn what_was_changed_in_a_namespace_is_undone_there_alone_and_forgotten_with_it() {
    in_namespaces("what_was_changed_in_a_namespace_is_undone_there_alone_and_forgotten_with_it", || {
        let directory = directory("places-journal");
        let (first, second) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let leave = |inside: &Namespace, number: u32| {
            let text = inside.run(|| written(&directory, "file")).unwrap();
            fs::write(directory.join(format!("run/created-{number}-0.json")), text).unwrap();
        };
        let recover_here = || journal(&directory).recover::<Created>();
        let left = || (directory.join("file").exists(), records(&directory));
        fs::write(directory.join("file"), "").unwrap();
        leave(&first, 1);
        leave(&second, 2);
        recover_here();
        assert_eq!(left(), (true, 2), "neither is of this namespace");
        let is_followed = second.run(|| NamespaceId::current().unwrap().can_be_known_gone()).unwrap();
        drop(second);
        // The kernel takes namespaces down later.
        let is_forgotten = eventually(|| {
            recover_here();
            left() == (true, 1)
        });
        assert!(is_forgotten || !is_followed, "{:?}", left());
        first.run(recover_here).unwrap();
        assert!(!directory.join("file").exists());
    });
}

/// A gateway that was killed in a namespace that `ip netns add` has made could not start again, once another one had run
/// elsewhere.
#[test]
fn a_record_of_a_namespace_that_must_not_be_entered_stays() {
    in_namespaces("a_record_of_a_namespace_that_must_not_be_entered_stays", || {
        let directory = directory("forbidden-journal");
        let (first, second) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let text = first.run(|| written(&directory, "file")).unwrap();
        fs::write(directory.join("run/created-1-0.json"), text).unwrap();
        fs::write(directory.join("file"), "").unwrap();
        let others = || {
            privileges::drop_capabilities_except(&[privileges::NET_ADMIN]).unwrap();
            journal(&directory).recover::<Created>();
            journal(&directory).forget_gone_namespaces();
            records(&directory)
        };
        assert_eq!(second.run(others).unwrap(), 1);
        first.run(|| journal(&directory).recover::<Created>()).unwrap();
        assert_eq!((directory.join("file").exists(), records(&directory)), (false, 0));
    });
}

#[test]
fn who_may_enter_namespaces_forgets_what_went_with_them_whatever_its_kind() {
    in_namespaces("who_may_enter_namespaces_forgets_what_went_with_them_whatever_its_kind", || {
        let directory = directory("forgotten-journal");
        let (first, second) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let leave = |inside: &Namespace, name: &str| {
            let text = inside.run(|| written(&directory, "file")).unwrap();
            fs::write(directory.join("run").join(name), text).unwrap();
        };
        leave(&first, "created-1-0.json");
        leave(&second, "created-2-0.json");
        leave(&second, "other-kind-2-0.json");
        fs::write(directory.join("run/made-by-somebody.json"), "{}").unwrap();
        let can_be_known = second.run(|| NamespaceId::current().unwrap().can_be_known_gone()).unwrap();
        drop(second);
        let is_forgotten = eventually(|| {
            journal(&directory).forget_gone_namespaces();
            records(&directory) == 2
        });
        assert!(is_forgotten || !can_be_known);
    });
}

#[test]
fn what_was_left_in_a_namespace_is_not_undone_in_a_later_one_of_the_same_inode() {
    let directory = directory("inode-journal");
    let mut record: serde_json::Value = serde_json::from_str(&written(&directory, "file")).unwrap();
    let Some(cookie) = record["namespace"]["cookie"].as_u64() else {
        return println!("this kernel numbers no namespaces");
    };
    record["namespace"]["cookie"] = (cookie + 1).into();
    fs::write(directory.join("run/created-1-0.json"), record.to_string()).unwrap();
    fs::write(directory.join("file"), "").unwrap();
    journal(&directory).recover::<Created>();
    assert_eq!((directory.join("file").exists(), records(&directory)), (true, 0));
}
