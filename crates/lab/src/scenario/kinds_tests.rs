//! Whether the one way to read scenario files, to run what they describe and to report it does for a new kind.

use super::dummy::{KINDS, LateReport, LateRow, Latenesses};
use super::kinds::read_scenario;
use crate::accuracy::BottleneckKind;
use crate::error::ScenarioError;
use crate::report::ReportDocument;
use crate::study::{Experiment, Overrides, Progress, Study, run};
use std::sync::atomic::{AtomicUsize, Ordering};

const FILE: &str = "kind = \"latenesses\"\nname = \"late\"\ntitle = \"How late?\"\nruns = 6\n";

fn read(text: &str) -> Result<Experiment, ScenarioError> {
    let no_file = |_: &str| unreachable!("it names none");
    read_scenario(&KINDS, text, "own.toml", &no_file, &Overrides::default())
}

fn late_by(latenesses: &str) -> Latenesses {
    read(&format!("{FILE}latenesses = [{latenesses}]\n")).unwrap().into_scenario().unwrap()
}

fn repetitions(rows: &[LateRow]) -> Vec<(u32, bool)> {
    rows.iter().map(|row| (row.repeats, row.disturbed)).collect()
}

#[test]
fn a_new_kind_is_a_file_of_150_lines_and_a_line_in_a_table() {
    assert!(include_str!("dummy.rs").lines().count() <= 150);
    let experiment = read(&format!("{FILE}latenesses = []\n")).unwrap();
    assert_eq!((experiment.head().name, experiment.run_count(), experiment.warning()), ("late", 6, None));
    let (report, runs) = experiment.run(&mut experiment.new_record(), &mut |_| (), &|| false).unwrap();
    assert_eq!(runs, 6);
    let json = report.to_json().unwrap();
    assert_eq!(LateReport::from_json(&json).unwrap().to_json().unwrap(), json);
    assert_eq!(
        report.to_csv().unwrap().lines().take(2).collect::<Vec<_>>(),
        ["run,late_seconds,repeats,disturbed", "1,0,0,false"]
    );
    assert!(report.to_text().contains("late: How late?") && report.to_html().unwrap().contains("Late, s"));
}

#[test]
fn a_misspelt_kind_or_key_is_refused_with_the_nearest_and_its_line() {
    let refused = |from: &str, to: &str| read(&FILE.replace(from, to)).unwrap_err().to_string();
    let kind = refused("latenesses", "lateneses");
    assert_eq!(
        kind,
        "own.toml, line 1: there is no kind of experiment `lateneses`; perhaps you mean `latenesses`; the kinds are latenesses"
    );
    let key = refused("runs =", "rnus =");
    assert!(key.contains("own.toml") && key.contains("line 4") && key.contains("perhaps you mean `runs`"), "{key}");
}

/// Keys that are taken out before a file is read were not in the list of keys, so that the error led away from the right one.
#[test]
fn keys_that_all_kinds_have_are_offered_too() {
    let refused = |text: &str| read(text).unwrap_err().to_string();
    let kind = refused(&FILE.replace("kind =", "kidn =").replace("runs", "latenesses = []\nruns"));
    assert!(kind.contains("also `kind`, `as-published`; perhaps you mean `kind`"), "{kind}");
    let section = refused(&format!("{FILE}latenesses = []\n[as-publised]\nruns = 1\n"));
    assert!(section.contains("perhaps you mean `as-published`"), "{section}");
    // It is read, although it is not chosen.
    let published = format!("{FILE}latenesses = []\n[as-published]\nruns = 1\n");
    assert!(read(&published).unwrap().is_publishable());
    let statement = refused(&format!("{published}[[as-published.statement]]\nsays = \"so\"\n"));
    assert!(statement.contains("also `statements`; perhaps you mean `statements`"), "{statement}");
    let column =
        refused(&format!("{published}[[as-published.statements]]\nsays = \"so\"\nfigure = \"late_secnds\"\nmin = 1\n"));
    assert!(column.contains("perhaps you mean `late_seconds`"), "{column}");
    // In other sections they have no meaning.
    let attack = ATTACK.replace("\n[bottleneck]\n", "\n[bottleneck]\nruns = 3\n");
    let elsewhere = read_contention(&attack, None).unwrap_err().to_string();
    assert!(elsewhere.contains("unknown field `runs`") && !elsewhere.contains("also `kind`"), "{elsewhere}");
}

const ATTACK: &str = include_str!("../../scenarios/fair-attack.toml");

fn read_contention(text: &str, bottleneck: Option<BottleneckKind>) -> Result<Experiment, ScenarioError> {
    let no_table = |_: &str| unreachable!("it names none");
    Experiment::from_toml(text, "own.toml", &no_table, &Overrides { bottleneck, ..Overrides::default() })
}

/// A file was refused for a section of the other clock, with advice that had been taken.
#[test]
fn a_section_as_published_is_refused_for_what_is_wrong_with_it_alone() {
    let with_section = |section: &str| format!("{ATTACK}\n[as-published]\n{section}\n");
    let virtual_alone = "real_time = { cases = [11], disciplines = [\"tail-drop\"], runs = 1 }";
    for bottleneck in [None, Some(BottleneckKind::Virtual)] {
        assert!(read_contention(&with_section(virtual_alone), bottleneck).unwrap().is_publishable());
        let wrong = read_contention(&with_section("duration = \"1ms\""), bottleneck).unwrap_err().to_string();
        assert!(wrong.contains("[as-published]: a duration of 1 ms"), "{wrong}");
    }
    let value = read(&FILE.replace("runs = 6", "runs = 6\nlatenesses = []\nas-published = 1")).unwrap_err().to_string();
    assert!(value.contains("is to be a section [as-published]") && !value.contains("leave --as-published"), "{value}");
}

#[test]
fn a_value_of_the_wrong_type_is_told_what_to_write() {
    let refused =
        |from: &str, to: &str| read(&format!("{FILE}latenesses = []\n").replace(from, to)).unwrap_err().to_string();
    let number = refused("runs = 6", "runs = \"6\"");
    assert!(number.contains("write the number without quotes"), "{number}");
    let text = refused("latenesses = []", "latenesses = [10]");
    assert!(text.contains("expected a time in quotes, such as \"20ms\""), "{text}");
    let list = refused("latenesses = []", "latenesses = \"10ms\"");
    assert!(list.contains("expected a list, each element a time in quotes"), "{list}");
}

#[test]
fn a_file_without_its_kind_is_taken_as_the_guess_with_a_warning() {
    let experiment = read(&FILE.replace("kind = \"latenesses\"\n", "latenesses = []\n")).unwrap();
    let warning = experiment.warning().unwrap();
    assert!(warning.contains("add kind = \"latenesses\""), "{warning}");
}

#[test]
fn a_quiet_machine_runs_each_point_once() {
    let outcome = run(&late_by(""), &mut |_| (), &|| false).unwrap();
    assert_eq!(repetitions(&outcome.rows), [(0, false); 6]);
}

#[test]
fn a_disturbed_run_is_repeated_and_counted() {
    let outcome = run(&late_by("\"0s\", \"1ms\", \"1ms\""), &mut |_| (), &|| false).unwrap();
    assert_eq!(repetitions(&outcome.rows)[..3], [(0, false), (2, false), (0, false)]);
}

#[test]
fn a_machine_that_disturbs_every_run_does_not_stop_the_experiment() {
    let outcome = run(&late_by(&"\"1ms\",".repeat(100)), &mut |_| (), &|| false).unwrap();
    assert_eq!(repetitions(&outcome.rows), [(2, true); 6]);
}

#[test]
fn a_stop_waits_for_no_repetition_and_keeps_what_is_measured() {
    let (disturbed, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut watch = |progress: Progress<'_>| match progress {
        Progress::Repeating { .. } => drop(disturbed.fetch_add(1, Ordering::Relaxed)),
        Progress::Done(_, runs) => drop(done.fetch_add(runs, Ordering::Relaxed)),
        _ => {}
    };
    let late = late_by(&"\"1ms\",".repeat(100));
    let outcome = run(&late, &mut watch, &|| disturbed.load(Ordering::Relaxed) > 0).unwrap();
    assert_eq!(repetitions(&outcome.rows), [(1, true)]);
    done.store(0, Ordering::Relaxed);
    let outcome = run(&late_by(""), &mut watch, &|| disturbed.load(Ordering::Relaxed) > 1).unwrap();
    assert_eq!((outcome.rows.len(), done.load(Ordering::Relaxed)), (6, 6));
}

#[test]
fn what_this_machine_lacks_is_left_out_and_what_fails_ends_it() {
    let outcome = run(&Latenesses { missing_run: Some(2), ..late_by("") }, &mut |_| (), &|| false).unwrap();
    assert_eq!(outcome.rows.iter().map(|row| row.run).collect::<Vec<_>>(), [1, 3, 4, 5, 6]);
    assert_eq!(outcome.excluded[0].kind, "run 2");
    let failing = Latenesses { failing_run: Some(2), ..late_by("") };
    assert_eq!(run(&failing, &mut |_| (), &|| false).unwrap_err().to_string(), "cannot run: as told");
    let none = Latenesses { runs: 1, missing_run: Some(1), ..late_by("") };
    assert_eq!(none.points().len(), 1);
    assert!(run(&none, &mut |_| (), &|| false).unwrap().rows.is_empty());
}
