//! `kumade lab run --shard` and `kumade lab merge`: what several machines make is what one makes, to the byte.

use assert_cmd::Command;
use kumade_netns_testbed::{TEST_DEADLINE, eventually};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Short experiments in virtual time, of each kind that has one, and one that judges what its paper states, with how many runs they are.
const EXPERIMENTS: &[(&[&str], usize)] = &[
    (
        &[
            "rake-accuracy",
            "--runs",
            "2",
            "--cross",
            "0mbit,30mbit",
            "--method",
            "primed,linear-scan",
            "--transport",
            "udp",
        ],
        8,
    ),
    (&["fair-wired", "--runs", "2", "--delay", "4ms", "--duration", "1s", "--discipline", "codel,fair-share"], 4),
    (&["fair-attack", "--row", "1", "--runs", "2", "--duration", "1s", "--discipline", "codel,fair-share"], 4),
    (&["multipath-unequal", "--row", "1,2", "--runs", "1", "--duration", "1s", "--warm-up", "1s"], 8),
    (&["tunnel-trace", "--as-published", "--runs", "1", "--duration", "3s"], 3),
    (&["nat-session", "--row", "1,2", "--runs", "2"], 4),
    (&["path-atlas", "--runs", "2", "--kind", "fifo,elastic"], 8),
];

fn kumade(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("kumade").unwrap().args(args).timeout(TEST_DEADLINE).assert()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

fn empty_directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn run(experiment: &[&str], more: &[&str], out: &Path) -> assert_cmd::assert::Assert {
    kumade(&[&["lab", "run", "--virtual"], experiment, more, &["--out", out.to_str().unwrap()]].concat())
}

fn merge(parts: &Path, out: &Path) -> assert_cmd::assert::Assert {
    kumade(&["lab", "merge", parts.to_str().unwrap(), "--out", out.to_str().unwrap()])
}

/// The name and contents of each file.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())).collect()
}

fn assert_same_files(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    assert!(one.contains_key("report.html") && one.contains_key("report.json") && one.contains_key("report.csv"));
    for (name, contents) in one {
        assert!(contents == other[&name], "{name} differs");
    }
}

/// A file of runs has a line for each, behind the first.
fn line_count(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn three_parts_of_each_kind_come_to_the_files_of_one_run() {
    for (experiment, runs) in EXPERIMENTS {
        let name = experiment[0];
        let [whole, parts, merged] =
            ["whole", "parts", "merged"].map(|what| empty_directory(&format!("shards-{name}-{what}")));
        let printed = run(experiment, &[], &whole).success();
        for part in ["2/3", "0/3", "1/3"] {
            let assert = run(experiment, &["--shard", part], &parts).success();
            assert!(assert.get_output().stdout.is_empty());
        }
        let assert = merge(&parts, &merged).success();
        assert_eq!(assert.get_output().stdout, printed.get_output().stdout, "{name}");
        assert_same_files(&whole, &merged);
        let lines: usize = files(&parts).values().map(|text| line_count(text) - 1).sum();
        assert_eq!(lines, *runs, "{name}");
    }
}

#[test]
fn a_missing_part_is_named_and_nothing_is_written() {
    let (experiment, _) = EXPERIMENTS[1];
    let [parts, merged] = ["missing-parts", "missing-merged"].map(empty_directory);
    for part in ["0/3", "2/3"] {
        run(experiment, &["--shard", part], &parts).success();
    }
    let said = stderr(&merge(&parts, &merged).code(1));
    assert!(said.contains("1 of 4 runs are missing: 1; they are those of --shard 1/3"), "{said}");
    assert!(files(&merged).is_empty());
    // What is there already is not run again, and what belongs to others is refused.
    let said = stderr(&run(experiment, &["--shard", "2/3"], &parts).success());
    assert!(said.contains("1 of 1 runs are there already"), "{said}");
    let said = stderr(&run(experiment, &["--warm-up", "1s"], &parts).code(1));
    assert!(said.contains("made with other options") && said.contains("runs-0-of-3.jsonl"), "{said}");
    assert!(stderr(&merge(&merged, &parts).code(1)).contains("there are no finished runs in"));
}

#[test]
fn a_killed_run_goes_on_where_it_ended() {
    let experiment = ["fair-wired", "--runs", "2", "--delay", "1ms,2ms,4ms,8ms"];
    let [whole, killed] = ["killed-whole", "killed"].map(empty_directory);
    run(&experiment, &[], &whole).success();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("kumade"))
        .args(["lab", "run", "--virtual"])
        .args(experiment)
        .arg("--out")
        .arg(&killed)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let record = killed.join("runs.jsonl");
    assert!(eventually(
        || child.try_wait().unwrap().is_some() || fs::read(&record).is_ok_and(|text| line_count(&text) > 2)
    ));
    child.kill().unwrap();
    child.wait().unwrap();
    // It may have been faster than this test.
    let made = fs::read(&record).map_or(0, |text| line_count(&text).saturating_sub(1));
    let said = stderr(&run(&experiment, &[], &killed).success());
    assert_eq!(said.contains(&format!("{made} of 32 runs are there already")), made > 0, "{said}");
    assert_same_files(&whole, &killed);
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let out = empty_directory("shards-refused");
    for (args, said) in [
        (vec!["fair-wired", "--virtual", "--shard", "3/3"], "counted from 0/3 to 2/3"),
        (vec!["fair-wired", "--virtual", "--shard", "3"], "such as 3/64"),
        (vec!["fair-search", "--virtual", "--shard", "0/3"], "fair-search cannot be divided"),
        (vec!["monitor-mesh", "--shard", "0/3"], "monitor-mesh cannot be divided"),
    ] {
        let text = stderr(&kumade(&[&["lab", "run", "--out", out.to_str().unwrap()], &args[..]].concat()).code(2));
        assert!(text.contains(said), "{args:?}: {text}");
    }
}

/// As docs/lab.md has it.
#[test]
fn gnu_parallel_makes_all_parts() {
    let version = std::process::Command::new("parallel").arg("--version").output();
    if !version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).starts_with("GNU parallel")) {
        eprintln!("passed over: GNU parallel is missing (Debian: apt-get install parallel)");
        return;
    }
    let (experiment, _) = EXPERIMENTS[0];
    let [whole, parts, merged] = ["parallel-whole", "parallel-parts", "parallel-merged"].map(empty_directory);
    run(experiment, &[], &whole).success();
    let program = assert_cmd::cargo::cargo_bin("kumade");
    let mut parallel = Command::new("parallel");
    // Of its own settings and its notice nothing comes into this test.
    parallel.env("HOME", &merged).env("PARALLEL_HOME", &merged).args(["--will-cite", "--jobs", "2"]).arg(program);
    parallel.args(["lab", "run", "--virtual"]).args(experiment).args(["--shard", "{}/3", "--out"]).arg(&parts);
    parallel.write_stdin("0\n1\n2\n").timeout(TEST_DEADLINE).assert().success();
    fs::remove_dir_all(&merged).unwrap();
    merge(&parts, &merged).success();
    assert_same_files(&whole, &merged);
}
