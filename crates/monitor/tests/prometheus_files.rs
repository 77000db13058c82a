//! The dashboard and the alert rules that are shipped fit what the program exports.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words.filter(|word| word.starts_with("kumade_monitor_")).collect()
}

/// A test of the program holds what it exports to this.
fn exported() -> String {
    let snapshot = "src/snapshots/kumade_monitor__status__tests__metrics.snap";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(snapshot)).unwrap();
    text.lines().filter(|line| line.starts_with("# TYPE ")).collect()
}

#[test]
fn each_metric_of_the_shipped_files_is_exported() {
    let exported = exported();
    let exported = metrics(&exported);
    for name in ["prometheus/kumade-monitor.rules.yml", "grafana/kumade-monitor.json"] {
        let text = fs::read_to_string(packaged(name)).unwrap();
        let used = metrics(&text);
        assert!(used.len() >= 5, "{name}: {used:?}");
        let unknown: Vec<_> = used.difference(&exported).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

/// A value of ten minutes ago would be absent otherwise.
#[test]
fn each_question_of_the_shipped_files_looks_back() {
    let rules = fs::read_to_string(packaged("prometheus/kumade-monitor.rules.yml")).unwrap();
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(packaged("grafana/kumade-monitor.json")).unwrap()).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut expressions: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(expressions.len() >= 10);
    expressions.extend(rules.lines().filter(|line| line.contains("kumade_monitor_")));
    for expression in expressions {
        let names = expression.matches("kumade_monitor_").count();
        assert_eq!(expression.matches("_over_time(").count(), names, "{expression}");
    }
}

#[test]
fn promtool_accepts_the_rules() {
    let rules = packaged("prometheus/kumade-monitor.rules.yml");
    let Ok(output) = Command::new("promtool").args(["check", "rules"]).arg(&rules).output() else {
        println!("passed over: promtool is missing");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
