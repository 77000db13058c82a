//! What stands in a table is known everywhere. The feature `dummy` adds a queue discipline to the table of disciplines
//! and a method to the table of methods, each by a file and a line; the program built with it must know them wherever
//! disciplines and methods are named.

use assert_cmd::Command;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// The program with the dummies. It is an example, so that the program that other tests run stays as it is.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut cargo = std::process::Command::new(env!("CARGO"));
    // What cargo tells this test of its crate would make build scripts run again that look at it, and with them everything
    // that uses them; and once more when the next tests are built.
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_the_crate(name)) {
        cargo.env_remove(name);
    }
    let output = cargo
        .args(["build", "--offline", "--workspace", "--example", "kumade-dummy", "--features", "kumade/dummy"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo build");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/examples/kumade-dummy")
});

fn is_of_the_crate(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "OUT_DIR" || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CFG_"].iter().any(|prefix| name.starts_with(prefix))
}

fn kumade(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(&*PROGRAM).args(args).timeout(Duration::from_secs(120)).assert()
}

fn stdout(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

#[test]
fn help_and_completions_name_the_discipline_and_its_parameter() {
    for args in [["link", "start", "--help"], ["link", "set", "--help"], ["lab", "run", "--help"]] {
        let text = stdout(&kumade(&args).success());
        assert!(text.contains("dummy:") && text.contains("a test of the table of disciplines"), "{args:?}: {text}");
        assert_eq!(text.contains("--drop-every <N>"), args[0] == "link", "{args:?}: {text}");
        assert_eq!(text.contains("dummy: drop one of this many packets"), args[0] == "link", "{args:?}: {text}");
    }
    let completions = stdout(&kumade(&["completions", "zsh"]).success());
    assert!(completions.matches("dummy\\:").count() >= 3, "{completions}");
}

#[test]
fn errors_name_the_discipline_among_those_to_choose_from() {
    for args in [
        &["link", "start", "a", "b", "--queue", "coddle"][..],
        &["link", "start", "a", "b", "--up", "queue coddle"],
        &["lab", "run", "fair-wired", "--discipline", "coddle"],
    ] {
        let text = stderr(&kumade(args).code(2));
        assert!(text.contains("dualpi2, dummy"), "{args:?}: {text}");
    }
    let text = stderr(&kumade(&["link", "start", "a", "b", "--queue", "dummy", "--target", "5ms"]).code(2));
    assert!(text.contains("the queue discipline dummy has no parameter `target`: it has drop-every"), "{text}");
}

#[test]
fn a_link_takes_the_discipline_and_its_parameter() {
    // The settings are read before the interfaces are looked for.
    for settings in [&["--queue", "dummy", "--drop-every", "10"][..], &["--up", "queue dummy drop-every 10"]] {
        let text = stderr(&kumade(&[&["link", "start", "nowhere0", "nowhere1"], settings].concat()).failure());
        assert!(text.contains("nowhere0"), "{text}");
    }
    // A change is parsed before the running link is asked for.
    let text =
        stderr(&kumade(&["link", "set", "--name", "nowhere", "--queue", "dummy", "--drop-every", "10"]).failure());
    assert!(text.contains("nowhere"), "{text}");
}

#[test]
fn the_lab_compares_the_discipline_with_others() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tables-lab");
    let _ = fs::remove_dir_all(&out);
    let args = ["lab", "run", "fair-wired", "--virtual", "--runs", "1", "--delay", "4ms", "--duration", "1s", "--json"];
    let more = ["--discipline", "tail-drop,dummy:drop-every=50", "--out", out.to_str().unwrap()];
    let document: serde_json::Value =
        serde_json::from_str(&stdout(&kumade(&[&args[..], &more].concat()).success())).unwrap();
    let rows = [&document["rows"][0], &document["rows"][1]];
    assert_eq!(rows.map(|row| row["discipline"].as_str().unwrap()), ["tail-drop", "dummy:drop-every=50"]);
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.lab.fairness.1.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("dummy:drop-every=50"));
}

#[test]
fn help_and_completions_name_the_method_and_its_parameter() {
    for args in [["measure", "--help", "--no-capacity"], ["lab", "run", "--help"]] {
        let text = stdout(&kumade(&args).success());
        // Help breaks its lines anywhere.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("a test of the table of methods; packets=N: packets in the train"), "{args:?}: {text}");
    }
    let completions = stdout(&kumade(&["completions", "zsh"]).success());
    assert!(completions.matches("dummy\\:\"one back-to-back train").count() >= 2, "{completions}");
}

#[test]
fn errors_name_the_method_among_those_to_choose_from() {
    for args in [&["measure", "host", "--method", "dice"][..], &["lab", "run", "rake-accuracy", "--method", "dice"]] {
        let text = stderr(&kumade(args).code(2));
        assert!(text.contains("pathchirp, igi, ptr, dummy"), "{args:?}: {text}");
    }
    for (method, said) in [("dummy:size=1", "it has packets"), ("dummy:packets=1", "dummy: give 2 to 100 packets")] {
        let text = stderr(&kumade(&["measure", "host", "--method", method]).code(2));
        assert!(text.contains(said), "{method}: {text}");
    }
}

#[test]
fn the_lab_measures_by_the_method() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tables-lab-method");
    let _ = fs::remove_dir_all(&out);
    let args = ["lab", "run", "rake-accuracy", "--virtual", "--runs", "1", "--cross", "30mbit", "--transport", "udp"];
    let more = ["--method", "primed,dummy:packets=20", "--json", "--out", out.to_str().unwrap()];
    let document: serde_json::Value =
        serde_json::from_str(&stdout(&kumade(&[&args[..], &more].concat()).success())).unwrap();
    let rows = [&document["rows"][0], &document["rows"][1]];
    assert_eq!(rows.map(|row| row["method"].as_str().unwrap()), ["primed", "dummy:packets=20"]);
    assert!(rows[1]["packets_sent"] == 20 && rows[1]["available_bits_per_second"]["value"].is_u64(), "{}", rows[1]);
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.lab.1.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("dummy:packets=20"));
}
