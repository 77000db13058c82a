//! `kumade lab` as people use it.

use assert_cmd::Command;
use kumade_netns_testbed::TEST_DEADLINE;
use std::fs;
use std::path::{Path, PathBuf};

fn kumade(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("kumade").unwrap().args(args).timeout(TEST_DEADLINE).assert()
}

fn stdout(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
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

#[test]
fn list_names_each_experiment_its_figure_and_its_question() {
    let text = stdout(&kumade(&["lab", "list"]).success());
    let scenarios = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/scenarios")).unwrap();
    let is_scenario = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let count = scenarios.map(|entry| entry.unwrap().path()).filter(is_scenario).count();
    assert_eq!(text.lines().count(), count, "{text}");
    for (name, about) in [
        ("rake-accuracy", "Fig. 7, 8"),
        ("rake-firewall", "Fig. 1, 4"),
        ("rake-cwnd", "Fig. 5"),
        ("tester-range", "Table 1"),
        ("tester-time", "Tables 2, 3, 6"),
        ("tester-pathload", "Table 5, Fig. 4"),
        ("tester-capacity", "behind a token bucket"),
        ("method-comparison", "on which path"),
        ("fair-wired", "Fig. 1, 2"),
        ("fair-campus", "Fig. 4, 5"),
        ("fair-wifi", "Fig. 7, 8"),
        ("fair-mix", "table 2"),
        ("fair-attack", "follows no rules"),
        ("fair-search", "does each discipline hold worst"),
        ("fair-latency", "sparse packets and short transfers"),
        ("fair-l4s", "an L4S sender (Prague)"),
        ("multipath-tcp", "Fig. 4"),
        ("multipath-unequal", "Fig. 5"),
        ("multipath-udp", "Table 1"),
        ("multipath-reorder", "Fig. 6"),
        ("multipath-auto", "best fixed ratio"),
        ("nat-session", "Fig. 3"),
        ("path-atlas", "wrong with confidence"),
        ("fast-links", "where is the machine itself the limit"),
        ("path-treatment", "do paths do to packets"),
        ("kernel-paths", "kernel's own shapers"),
        ("monitor-mesh", "between four sites"),
    ] {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name)).expect(name);
        assert!(line.contains(about), "{line}");
    }
    let line = |name: &str| text.lines().find(|line| line.split(' ').next() == Some(name)).expect(name);
    assert!(line("tunnel-rto").contains("  virtual  as-published  rows 1 to "), "{}", line("tunnel-rto"));
    assert!(line("fair-mix").contains("  rows 0 to 15  ") && !line("fair-mix").contains("as-published"));
    assert!(!line("kernel-paths").contains("virtual"), "{}", line("kernel-paths"));
}

#[test]
fn an_experiment_runs_as_published_into_a_directory_of_its_own() {
    let directory = empty_directory("lab-as-published");
    let run = |name: &str| {
        let mut command = Command::cargo_bin("kumade").unwrap();
        command.args(["lab", "run", name, "--as-published", "--virtual", "--runs", "1", "--duration", "1s"]);
        command.current_dir(&directory).timeout(TEST_DEADLINE).assert()
    };
    let text = stdout(&run("tunnel-trace").success());
    assert!(text.contains("What the paper states") && text.contains("loss alone makes no lasting collapse"), "{text}");
    assert!(directory.join("reports/tunnel-trace-as-published/trace.csv").exists());
    let refused = run("fair-latency").code(2);
    assert!(stderr(&refused).contains("leave --as-published out"), "{}", stderr(&refused));
}

#[test]
fn disciplines_are_compared_in_no_time_and_in_a_document_of_the_published_schema() {
    let out = empty_directory("lab-fairness");
    let args = ["lab", "run", "fair-wired", "--virtual", "--runs", "1", "--delay", "4ms", "--duration", "1s", "--json"];
    let more = ["--discipline", "codel,fair-share:target=5ms", "--out", out.to_str().unwrap()];
    let assert = kumade(&[&args[..], &more].concat()).success();
    assert!(stderr(&assert).contains("2 runs of 6 s each in virtual time"), "{}", stderr(&assert));
    let document: serde_json::Value = serde_json::from_str(&stdout(&assert)).unwrap();
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.lab.fairness.1.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
    assert_eq!(document["rows"][1]["discipline"], "fair-share:target=5ms");
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("<svg"));
    let written = out.join("report.json");
    let text = stdout(&kumade(&["lab", "compare", written.to_str().unwrap(), out.to_str().unwrap()]).success());
    assert!(text.contains("0.0 % of a group's goodput, 0.000 of the index"), "{text}");
}

/// Only reports on fairness could be compared, and others were told that a field is unknown.
#[test]
fn reports_of_any_kind_are_compared_by_their_directories() {
    let run = |runs: &str| {
        let out = empty_directory(&format!("lab-compared-{runs}"));
        let args = ["lab", "run", "rake-firewall", "--virtual", "--runs", runs, "--out", out.to_str().unwrap()];
        kumade(&args).success();
        out
    };
    let (one, two) = (run("1"), run("2"));
    let compare =
        |one: &Path, other: &Path| kumade(&["lab", "compare", one.to_str().unwrap(), other.to_str().unwrap()]);
    let text = stdout(&compare(&one, &two).success());
    assert!(text.contains("2 rows of both are the same") && text.contains("0 of the first, 2 of the second"), "{text}");
    let fairness = empty_directory("lab-compared-fairness");
    fs::write(fairness.join("report.json"), "{\"schema\": \"kumade.lab.fairness/1\", \"experiment\": \"x\"}").unwrap();
    let text = stderr(&compare(&one, &fairness).code(1));
    assert!(
        text.contains("report.json is of kumade.lab/1, and ") && text.contains("is of kumade.lab.fairness/1"),
        "{text}"
    );
    let text = stderr(&compare(&one, &empty_directory("lab-compared-none")).code(1));
    assert!(text.contains("cannot read") && text.contains("lab-compared-none/report.json"), "{text}");
}

#[test]
fn a_built_in_file_is_shown_and_runs_as_a_copy() {
    let out = empty_directory("lab-shown");
    let shown = kumade(&["lab", "show", "fair-mix"]).success();
    assert!(stderr(&shown).contains("kumade lab show fair-mix.csv > fair-mix.csv"), "{}", stderr(&shown));
    fs::write(out.join("copy.toml"), stdout(&shown)).unwrap();
    let copy = out.join("copy.toml");
    let args =
        ["lab", "run", copy.to_str().unwrap(), "--virtual", "--row", "0", "--runs", "1", "--duration", "1s", "--out"];
    let run = || kumade(&[&args[..], &[out.to_str().unwrap()]].concat());
    let missing = stderr(&run().code(2));
    assert!(missing.contains("fair-mix.csv, which ") && missing.contains("copy.toml names"), "{missing}");
    fs::write(out.join("fair-mix.csv"), stdout(&kumade(&["lab", "show", "fair-mix.csv"]).success())).unwrap();
    run().success();
    let unknown = stderr(&kumade(&["lab", "show", "fair-mxi"]).code(2));
    assert!(unknown.contains("perhaps you mean `fair-mix`"), "{unknown}");
}

/// With the feature it depends on the kernel.
#[cfg(not(feature = "bpf"))]
#[test]
fn without_compound_in_the_kernel_the_virtual_run_is_offered() {
    let out = empty_directory("lab-no-compound");
    let args = ["lab", "run", "fair-wired", "--runs", "1", "--delay", "1ms", "--out", out.to_str().unwrap()];
    let text = stderr(&kumade(&args).code(1));
    assert!(text.contains("run this with --virtual") && text.contains("feature"), "{text}");
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_built() {
    for (args, said) in [
        (vec!["lab", "run", "rake-acuracy"], "perhaps you mean `rake-accuracy`; `kumade lab list` shows the names"),
        (vec!["lab", "run", "rake-accuracy", "--method", "pathlod"], "perhaps you mean `pathload`"),
        (vec!["lab", "run", "nowhere.toml"], "nowhere.toml"),
        (vec!["lab", "run", "rake-cwnd", "--cross", "200mbit"], "leaves nothing of a bottleneck"),
        (vec!["lab", "run", "rake-cwnd", "--runs", "0"], "with no runs there is nothing to do"),
        (vec!["lab", "run", "rake-cwnd", "--rate", "10furlongs"], "the unit is unknown; the units are bit/s"),
        (vec!["lab", "run", "rake-cwnd", "--transport", "pigeon"], "choose one of auto, udp, rake, single"),
        (vec!["lab", "run", "rake-cwnd", "--cross-kind", "bursty"], "constant, jittered, poisson, on-off, tcp"),
        (
            vec!["lab", "run", "rake-cwnd", "--cross-kind", "tcp", "--cross-source", "link"],
            "cannot be computed in the link",
        ),
        (vec!["lab", "run", "rake-cwnd", "--rate", "999gbit"], "choose 100 kbit/s to 10 Gbit/s"),
        (
            vec!["lab", "run", "rake-cwnd", "--discipline", "codel"],
            "--discipline does not apply to experiments on accuracy",
        ),
        (vec!["lab", "run", "fair-wired", "--method", "primed"], "--method does not apply to experiments on fairness"),
        (vec!["lab", "run", "fair-wired", "--discipline", "coddle"], "choose one of tail-drop, codel"),
        (vec!["lab", "run", "fair-wired", "--bottleneck", "htb"], "disciplines cannot be compared"),
        (vec!["lab", "run", "fair-mix", "--row", "16"], "has no row 16"),
        (vec!["lab", "run", "multipath-tcp", "--row", "16"], "has no case 16"),
        (vec!["lab", "run", "multipath-tcp", "--plane", "bond"], "choose one of single, direct"),
        (vec!["lab", "run", "fair-wired", "--plane", "bonded"], "--plane does not apply to experiments on fairness"),
        (vec!["lab", "run", "nat-session", "--idle", "1s"], "an idle time of 1 s; choose 3 s to"),
        (vec!["lab", "run", "multipath-tcp", "--idle", "5s"], "--idle does not apply to experiments on several paths"),
        (vec!["lab", "run", "path-atlas", "--kind", "tunnel"], "`tunnel` is not a kind of path"),
        (vec!["lab", "run", "path-atlas", "--kind", "wifi,elastic"], "choose others, or run them with --virtual"),
        (vec!["lab", "run", "rake-cwnd", "--kind", "fifo"], "--kind does not apply to experiments on accuracy"),
        (vec!["lab", "run", "fair-wired", "--kind", "fifo"], "--kind does not apply to experiments on fairness"),
        (vec!["lab", "run"], "NAME"),
    ] {
        let assert = kumade(&args).code(2);
        assert!(stderr(&assert).contains(said), "{args:?}: {}", stderr(&assert));
        assert_eq!(stdout(&assert), "", "{args:?}");
    }
}

#[test]
fn where_no_report_can_be_written_nothing_is_run() {
    let assert = kumade(&["lab", "run", "rake-cwnd", "--out", "/proc/nowhere"]).code(1);
    assert!(stderr(&assert).contains("choose another directory with --out"), "{}", stderr(&assert));
    assert_eq!(stdout(&assert), "");
}

/// What an experiment prints. None where the lab refuses to run it, since other programs load this machine so much that
/// its network does not keep time: then it says so, and prints no figures.
fn printed_in_real_time(args: &[&str]) -> Option<String> {
    let assert = kumade(args);
    if assert.get_output().status.success() {
        return Some(stdout(&assert));
    }
    let said = stderr(&assert.code(1));
    assert!(
        said.contains("differs from its configuration") && said.contains("if other programs load this machine"),
        "{said}"
    );
    None
}

/// Fails unless this is a document of the published schema, and the written reports tell the same.
fn check_reports(printed: &str, out: &Path) -> serde_json::Value {
    let document: serde_json::Value = serde_json::from_str(printed).unwrap();
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.lab.1.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
    assert_eq!(
        (document["schema"].as_str(), document["experiment"].as_str()),
        (Some("kumade.lab/1"), Some("rake-firewall"))
    );
    let written: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(written, document);
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("<svg"));
    assert_eq!(fs::read_to_string(out.join("report.csv")).unwrap().lines().count(), 3);
    document
}

/// That there is a value is asserted of the virtual run, which no other program disturbs.
#[test]
fn a_run_prints_one_document_of_the_published_schema_and_writes_its_reports() {
    let args = ["lab", "run", "rake-firewall", "--runs", "1", "--rate", "20mbit", "--cross", "4mbit", "--json"];
    let error = |document: &serde_json::Value, transport: &str| {
        document["summary"]["mean_absolute_error_bits_per_second"][transport]["primed"].clone()
    };
    let out = empty_directory("lab-run-virtual");
    let assert = kumade(&[&args[..], &["--virtual", "--out", out.to_str().unwrap()]].concat()).success();
    let document = check_reports(&stdout(&assert), &out);
    assert!(error(&document, "rake").is_number() && error(&document, "udp").is_null(), "{document}");
    let out = empty_directory("lab-run");
    if let Some(printed) = printed_in_real_time(&[&args[..], &["--out", out.to_str().unwrap()]].concat()) {
        let document = check_reports(&printed, &out);
        assert!(error(&document, "udp").is_null(), "{document}");
        let rake = document["rows"].as_array().unwrap().iter().find(|row| row["transport"] == "rake").unwrap();
        assert_eq!(rake["available_bits_per_second"].is_null(), rake["reason"].is_string(), "{rake}");
    }
}

#[test]
fn a_scenario_file_of_ones_own_runs_like_the_built_in_ones() {
    let out = empty_directory("lab-own");
    let file = out.join("own.toml");
    let text = r#"
        kind = "accuracy"
        name = "own"
        title = "A slow line"
        transports = ["auto"]
        methods = ["linear-scan"]
        directions = ["down"]
        runs = 1
        [bottleneck]
        rate = "20mbit"
        delay = "2ms"
        queue = "64kb"
        [cross]
        kind = "poisson"
        levels = ["5mbit"]
    "#;
    fs::write(&file, text).unwrap();
    let args = ["lab", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let simulated = stdout(&kumade(&[&args[..], &["--virtual"]].concat()).success());
    for text in [Some(simulated), printed_in_real_time(&args)].into_iter().flatten() {
        assert!(text.contains("own: A slow line") && text.contains("poisson cross traffic"), "{text}");
    }
}

/// Runs an experiment as somebody who is not root, in a user namespace in which `prepare`, a line of shell, has been
/// run; returns what it says as it fails.
fn said_without_privileges(prepare: &str) -> String {
    // Where the program is built, others may not look.
    let program = std::env::temp_dir().join(format!("kumade-{}", std::process::id()));
    // By another process: a program that is started here meanwhile would have the file open for writing, which cannot be executed then.
    Command::new("cp").arg(assert_cmd::cargo::cargo_bin("kumade")).arg(&program).assert().success();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"];
    let out = program.with_extension("reports");
    let script = format!("{prepare} \"$0\" lab run rake-firewall --out {}", out.display());
    let words: Vec<_> = nobody.iter().filter(|_| nix::unistd::geteuid().is_root()).chain(&inside).collect();
    let mut command = Command::new(words[0]);
    let assert = command.args(&words[1..]).arg(script).arg(&program).timeout(TEST_DEADLINE).assert();
    let text = stderr(&assert.code(1));
    fs::remove_file(program).unwrap();
    // It may have failed before it made this.
    let _ = fs::remove_dir(out);
    assert_eq!(text.lines().filter(|line| line.starts_with("kumade: ")).count(), 1, "{text}");
    text
}

#[test]
fn without_root_the_lab_says_what_it_may_not_use() {
    // Whose owner is not known in the namespace may be opened by nobody in it.
    let text = said_without_privileges("mount --bind /etc/shadow /dev/net/tun && exec");
    assert!(text.contains("/dev/net/tun is closed to you") && text.contains("chmod 666 /dev/net/tun"), "{text}");
    assert_eq!(text.matches("Permission denied").count(), 1, "{text}");
    let no_more = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all";
    let text = said_without_privileges(no_more);
    assert!(text.contains("cannot enter a user namespace") && text.contains("run it as root"), "{text}");
}
