//! Whether the report of runs is the same, to the byte, however they were made: at once, after an interruption, or in parts.

use super::dummy::KINDS;
use super::kinds::{read_runs_of, read_scenario};
use crate::error::RecordError;
use crate::report::ReportDocument;
use crate::study::{Experiment, Overrides, Progress, Shard};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const FILE: &str = "kind = \"latenesses\"\nname = \"late\"\ntitle = \"How late?\"\nruns = 10\nlatenesses = []\n";

/// A directory of this test alone, removed with it.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("kumade-lab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        TestDirectory(directory)
    }

    fn record_file(&self) -> PathBuf {
        self.0.join("runs.jsonl")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn experiment(text: &str) -> Experiment {
    let no_file = |_: &str| unreachable!("it names none");
    read_scenario(&KINDS, text, "own.toml", &no_file, &Overrides::default()).unwrap()
}

fn virtual_file() -> String {
    format!("{FILE}virtual = true\n")
}

/// What all files of a report have.
fn contents(report: &dyn ReportDocument) -> [String; 4] {
    [report.to_json().unwrap(), report.to_csv().unwrap(), report.to_html().unwrap(), report.to_text()]
}

/// The report, and the labels of the runs that were made for it, of which there are so many at most.
fn run_some(
    experiment: &Experiment,
    directory: &Path,
    shard: Option<Shard>,
    most: usize,
) -> ([String; 4], Vec<String>) {
    let mut record = experiment.open_record(directory, shard).unwrap();
    let (mut made, asked) = (Vec::new(), AtomicUsize::new(0));
    let mut watch = |progress: Progress<'_>| {
        if let Progress::Done(label, _) = progress {
            made.push(label.to_owned());
        }
    };
    // It is asked before each run.
    let stop = || asked.fetch_add(1, Ordering::Relaxed) >= most;
    let (report, _) = experiment.run(&mut record, &mut watch, &stop).unwrap();
    (contents(report.as_ref()), made)
}

fn run_part(experiment: &Experiment, directory: &Path, part: &str) -> Vec<String> {
    run_some(experiment, directory, Some(part.parse().unwrap()), usize::MAX).1
}

fn merged(directories: &[&TestDirectory]) -> Result<[String; 4], String> {
    let directories: Vec<_> = directories.iter().map(|directory| directory.0.clone()).collect();
    let (experiment, mut record) = read_runs_of(&KINDS, &directories).map_err(|error| error.to_string())?;
    let merged = experiment.run(&mut record, &mut |_| (), &|| false);
    merged.map(|(report, _)| contents(report.as_ref())).map_err(|error| error.to_string())
}

#[test]
fn the_report_of_parts_as_published_takes_the_place_of_no_other() {
    let directory = TestDirectory::new("published-parts");
    let text = format!("{}[as-published]\nruns = 2\n", virtual_file());
    let options = Overrides { as_published: true, ..Overrides::default() };
    let published = read_scenario(&KINDS, &text, "own.toml", &|_: &str| unreachable!(), &options).unwrap();
    run_part(&published, &directory.0, "0/1");
    let (merged, _) = read_runs_of(&KINDS, std::slice::from_ref(&directory.0)).unwrap();
    assert_eq!(merged.report_name(), "late-as-published");
    assert_eq!([published.report_name(), experiment(&text).report_name()], ["late-as-published", "late"]);
}

#[test]
fn parts_in_one_directory_or_in_several_come_to_the_report_of_one_run() {
    let experiment = experiment(&virtual_file());
    let (whole, _) = run_some(&experiment, &TestDirectory::new("whole").0, None, usize::MAX);
    let one = TestDirectory::new("parts");
    for part in ["1/3", "2/3", "0/3"] {
        run_part(&experiment, &one.0, part);
    }
    assert_eq!(merged(&[&one]).unwrap(), whole);
    let several = ["0/3", "1/3", "2/3"].map(|part| (part, TestDirectory::new(&part.replace('/', "-"))));
    for (part, directory) in &several {
        run_part(&experiment, &directory.0, part);
    }
    assert_eq!(merged(&[&several[2].1, &several[0].1, &several[1].1]).unwrap(), whole);
    // The same run twice is the same.
    assert_eq!(merged(&[&one, &several[0].1]).unwrap(), whole);
}

#[test]
fn parts_without_runs_are_no_gap() {
    let experiment = experiment(&virtual_file().replace("runs = 10", "runs = 2"));
    let parts: Vec<_> = (0..4).map(|number| TestDirectory::new(&format!("small-{number}"))).collect();
    for (number, directory) in parts.iter().enumerate() {
        run_part(&experiment, &directory.0, &format!("{number}/4"));
    }
    let (whole, _) = run_some(&experiment, &TestDirectory::new("small").0, None, usize::MAX);
    assert_eq!(merged(&parts.iter().collect::<Vec<_>>()).unwrap(), whole);
}

#[test]
fn missing_runs_are_named_with_their_part() {
    let experiment = experiment(&virtual_file());
    let directory = TestDirectory::new("missing");
    run_part(&experiment, &directory.0, "0/3");
    run_part(&experiment, &directory.0, "2/3");
    let refused = merged(&[&directory]).unwrap_err();
    assert!(refused.contains("3 of 10 runs are missing: 1, 4, 7; they are those of --shard 1/3"), "{refused}");
    // The same directory, without --shard, makes those and no others.
    let (_, made) = run_some(&experiment, &directory.0, None, usize::MAX);
    assert_eq!(made.len(), 3);
    let none = TestDirectory::new("none");
    let refused = merged(&[&directory, &none]).unwrap_err();
    assert!(refused.contains("there are no finished runs in") && refused.contains("none"), "{refused}");
}

#[test]
fn an_interrupted_run_goes_on_where_it_ended_in_virtual_and_in_real_time() {
    for text in [virtual_file(), FILE.to_owned()] {
        let experiment = experiment(&text);
        let (interrupted, whole) = (TestDirectory::new("interrupted"), TestDirectory::new("uninterrupted"));
        let (_, first) = run_some(&experiment, &interrupted.0, None, 4);
        let (report, rest) = run_some(&experiment, &interrupted.0, None, usize::MAX);
        assert_eq!((first.len(), rest.len()), (4, 6), "{first:?}, then {rest:?}");
        let mut all = [first, rest].concat();
        all.sort();
        let (in_one_go, mut expected) = run_some(&experiment, &whole.0, None, usize::MAX);
        expected.sort();
        assert_eq!(all, expected);
        assert_eq!(report[1], in_one_go[1]);
    }
}

/// The report of an interrupted run looked like that of a whole one, and judged what a paper states.
#[test]
fn the_report_of_an_interrupted_run_says_so_and_judges_nothing() {
    let statement = "[[as-published.statements]]\nsays = \"so\"\nfigure = \"late_seconds\"\nmax = 0\n";
    let text = format!("{}[as-published]\nruns = 8\n{statement}", virtual_file());
    let options = Overrides { as_published: true, ..Overrides::default() };
    let published = read_scenario(&KINDS, &text, "own.toml", &|_: &str| unreachable!(), &options).unwrap();
    let directory = TestDirectory::new("says-so");
    let ([json, _, page, text], made) = run_some(&published, &directory.0, None, 3);
    let said = format!("{} of 8 runs, interrupted", made.len());
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["interrupted"], serde_json::json!({"runs": made.len(), "of_runs": 8}));
    assert_eq!(
        (&report["statements"][0]["holds"], &report["statements"][0]["reason"]),
        (&serde_json::Value::Null, &said.clone().into())
    );
    assert!(text.contains(&format!("{said}; 8 runs")) && text.contains(&format!("- {said}: all figures")), "{text}");
    assert!(text.contains("not judged: so"), "{text}");
    assert!(page.contains(&said), "{page}");
    let ([json, ..], _) = run_some(&published, &directory.0, None, usize::MAX);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["interrupted"], &report["statements"][0]["holds"]), (&serde_json::Value::Null, &true.into()));
}

/// Whether it ended early was told by the number of rows: a run that cannot be made here has none.
#[test]
fn a_stop_during_the_last_run_leaves_a_whole_report() {
    let lacking = experiment(&format!("{}missing_run = 2\n", FILE.replace("runs = 10", "runs = 3")));
    let directory = TestDirectory::new("last-run");
    for (asked, is_interrupted) in [(2, true), (3, false)] {
        let ([json, ..], _) = run_some(&lacking, &directory.0, None, asked);
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["interrupted"].is_object(), is_interrupted, "{json}");
        fs::remove_file(directory.record_file()).unwrap();
    }
}

/// What is published of runs of 100 s was judged by runs of 5 s.
#[test]
fn what_replaces_what_was_published_is_noted_and_other_points_are_not_judged() {
    let statement =
        "[[as-published.statements]]\nsays = \"so\"\nfigure = \"late_seconds\"\nmin = 1\nreason = \"because\"\n";
    let text = format!("{}[as-published]\nruns = 8\n{statement}", virtual_file());
    let options = Overrides { as_published: true, runs: Some(1), ..Overrides::default() };
    let published = read_scenario(&KINDS, &text, "own.toml", &|_: &str| unreachable!(), &options).unwrap();
    let ([json, _, _, text], _) = run_some(&published, &TestDirectory::new("replaced").0, None, usize::MAX);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["replaced_options"], serde_json::json!(["--runs 1"]));
    assert!(text.contains("does not hold: so") && !text.contains("because"), "{text}");
    assert!(text.contains("- not as the section [as-published] has it: --runs 1"), "{text}");
}

#[test]
fn a_line_that_was_being_written_as_the_process_ended_does_not_count() {
    let experiment = experiment(FILE);
    let directory = TestDirectory::new("torn");
    run_some(&experiment, &directory.0, None, 2);
    let mut file = OpenOptions::new().append(true).open(directory.record_file()).unwrap();
    file.write_all(b"{\"run\":{\"index\":2,\"resu").unwrap();
    let (_, made) = run_some(&experiment, &directory.0, None, usize::MAX);
    assert_eq!(made.len(), 8);
    assert_eq!(fs::read_to_string(directory.record_file()).unwrap().lines().count(), 11);
    assert!(merged(&[&directory]).is_ok());
}

#[test]
fn runs_of_other_settings_are_refused_and_stay() {
    let directory = TestDirectory::new("mixed");
    run_some(&experiment(FILE), &directory.0, None, 2);
    let before = fs::read(directory.record_file()).unwrap();
    let refused = |text: &str| {
        let error = experiment(text).open_record(&directory.0, None).unwrap_err().to_string();
        assert!(error.contains("runs.jsonl") && error.contains("choose another directory"), "{error}");
        error
    };
    let other_text = refused(&FILE.replace("How", "Why so"));
    assert!(other_text.contains("of another text of the scenario file"), "{other_text}");
    let other_name = refused(&FILE.replace("\"late\"", "\"later\""));
    assert!(other_name.contains("of late, not of later"), "{other_name}");
    let fewer = Overrides { runs: Some(3), ..Overrides::default() };
    let no_file = |_: &str| unreachable!("it names none");
    let fewer = read_scenario(&KINDS, FILE, "own.toml", &no_file, &fewer).unwrap();
    let other_options = fewer.open_record(&directory.0, None).unwrap_err().to_string();
    assert!(other_options.contains("made with other options"), "{other_options}");
    assert_eq!(fs::read(directory.record_file()).unwrap(), before);
    let others = TestDirectory::new("mixed-others");
    run_part(&fewer, &others.0, "0/1");
    assert!(merged(&[&directory, &others]).unwrap_err().contains("made with other options"));
    // A version has its own figures.
    let version = env!("CARGO_PKG_VERSION");
    let earlier = String::from_utf8(before).unwrap().replace(&format!("\"{version}\""), "\"0.0.7\"");
    fs::write(directory.record_file(), earlier).unwrap();
    for error in [refused(FILE), merged(&[&directory]).unwrap_err()] {
        assert!(error.contains(&format!("of kumade 0.0.7, and this is {version}")), "{error}");
    }
}

#[test]
fn two_results_of_one_run_are_refused() {
    let (one, other) = (TestDirectory::new("one"), TestDirectory::new("other"));
    let experiment = experiment(&virtual_file());
    run_part(&experiment, &one.0, "0/1");
    run_part(&experiment, &other.0, "0/1");
    let file = other.0.join("runs-0-of-1.jsonl");
    let changed = fs::read_to_string(&file).unwrap().replacen("\"late_seconds\":0.0", "\"late_seconds\":0.5", 1);
    fs::write(&file, changed).unwrap();
    let refused = merged(&[&one, &other]).unwrap_err();
    assert!(refused.contains("is there twice, with different results"), "{refused}");
}

#[test]
fn two_processes_do_not_add_to_one_record() {
    let directory = TestDirectory::new("locked");
    let experiment = experiment(FILE);
    let held = experiment.open_record(&directory.0, None).unwrap();
    assert!(matches!(experiment.open_record(&directory.0, None), Err(RecordError::InUse { .. })));
    drop(held);
    assert!(!directory.record_file().exists(), "nothing was run");
}

#[test]
fn what_is_no_record_is_refused_with_its_line() {
    let directory = TestDirectory::new("malformed");
    for (text, line) in [("{\"answer\":42}\n", 1), ("{\"run\":{\"index\":0,\"result\":{\"row\":1}}}\n", 1)] {
        fs::write(directory.record_file(), text).unwrap();
        let error = experiment(FILE).open_record(&directory.0, None).unwrap_err().to_string();
        assert!(error.contains(&format!("runs.jsonl, line {line},")), "{error}");
        assert_eq!(merged(&[&directory]).unwrap_err(), error);
    }
}

#[test]
fn what_this_machine_lacked_is_tried_again_and_is_no_gap() {
    let directory = TestDirectory::new("lacking");
    let text = format!("{FILE}missing_run = 2\n");
    let experiment = experiment(&text);
    let (report, made) = run_some(&experiment, &directory.0, None, usize::MAX);
    assert_eq!(made.len(), 9);
    assert_eq!(merged(&[&directory]).unwrap()[1], report[1]);
}
