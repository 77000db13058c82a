//! Changes to the system are undone once, and only where their process is dead.

use serde::{Deserialize, Serialize};
use service::{Claim, ClaimError, Journal, Leftover, Reach, RuntimeDir};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs, io};

/// A file that was created.
#[derive(Debug, Serialize, Deserialize)]
struct Created {
    file: PathBuf,
    is_elsewhere: bool,
}

impl Leftover for Created {
    const KIND: &'static str = "created";
    type Error = io::Error;

    fn reach(&self) -> Reach {
        match (self.is_elsewhere, self.file.exists()) {
            (true, _) => Reach::Elsewhere,
            (false, true) => Reach::Here,
            (false, false) => Reach::Gone,
        }
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
    Journal::new(RuntimeDir::only(directory.join("run")))
}

fn create(directory: &Path) {
    let _claim = Claim::new(&RuntimeDir::only(directory.join("run")), "resource").unwrap();
    let file = directory.join("file");
    let _record = journal(directory).record(&Created { file: file.clone(), is_elsewhere: false }).unwrap();
    fs::write(file, "").unwrap();
    eprintln!("created");
    let _ = io::stdin().read(&mut [0]);
}

fn start(directory: &Path, test: &str) -> Child {
    let mut copy = Command::new(env::current_exe().unwrap());
    copy.args([test, "--exact", "--nocapture"]).env(COPY, directory);
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
    let (run, file) = (RuntimeDir::only(directory.join("run")), directory.join("file"));
    let mut child = start(&directory, test);
    journal(&directory).recover::<Created>();
    assert!(file.exists(), "its process lives");
    let error = Claim::new(&run, "resource").unwrap_err();
    assert!(matches!(&error, ClaimError::Taken { process, .. } if *process == child.id().to_string()), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(Claim::new(&run, "resource").unwrap());
    assert_eq!((file.exists(), records(&directory)), (true, 1));
    journal(&directory).recover::<Created>();
    assert_eq!((file.exists(), records(&directory)), (false, 0));
}

#[test]
fn a_record_that_is_dropped_leaves_nothing() {
    let directory = directory("dropped-journal");
    let record = |elsewhere| Created { file: directory.join("file"), is_elsewhere: elsewhere };
    let (first, second) =
        (journal(&directory).record(&record(false)).unwrap(), journal(&directory).record(&record(true)));
    assert_eq!(records(&directory), 2);
    drop((first, second));
    assert_eq!(records(&directory), 0);
}

#[test]
fn records_of_other_places_stay_and_those_of_vanished_things_go() {
    let directory = directory("places-journal");
    let journal = journal(&directory);
    drop(journal.record(&Created { file: directory.join("file"), is_elsewhere: false }).unwrap());
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let left = |name: &str, boot: &str, file: &str, is_elsewhere: bool| {
        let leftover = format!(r#"{{"file":"{}","is_elsewhere":{is_elsewhere}}}"#, directory.join(file).display());
        let entry = format!(r#"{{"boot":"{}","process":1,"leftover":{leftover}}}"#, boot.trim());
        fs::write(directory.join("run").join(name), entry).unwrap();
    };
    fs::write(directory.join("there"), "").unwrap();
    left("created-1-0.json", &boot, "there", true);
    left("created-1-1.json", &boot, "vanished", false);
    left("created-1-2.json", "an earlier one", "there", false);
    // Killed while it wrote, before it made the change; and a file of another kind.
    fs::write(directory.join("run/created-1-3.json"), "{\"boot\":").unwrap();
    fs::write(directory.join("run/other-1-0.json"), "{}").unwrap();
    journal.recover::<Created>();
    let mut names: Vec<_> =
        fs::read_dir(directory.join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["created-1-0.json", "other-1-0.json"]);
    assert!(directory.join("there").exists());
}
