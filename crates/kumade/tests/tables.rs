//! What stands in a table is known everywhere: the program must know each queue discipline of [`DISCIPLINES`] and each method of
//! [`METHODS`], with its parameters, wherever disciplines and methods are named.

use assert_cmd::Command;
use kumade_estimate::METHODS;
use kumade_link::queue::DISCIPLINES;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

fn kumade(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_kumade")).args(args).timeout(Duration::from_secs(120)).assert()
}

fn stdout(args: &[&str]) -> String {
    String::from_utf8(kumade(args).success().get_output().stdout.clone()).unwrap()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

/// Help, whose lines break anywhere.
fn help(command: &[&str]) -> String {
    let text = stdout(&[command, &["--help"]].concat());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The rows of the document that an experiment of the lab prints, and its page.
fn lab(name: &str, schema: &str, args: &[&str]) -> (Vec<Value>, String) {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tables-{name}"));
    let _ = fs::remove_dir_all(&out);
    let run = ["lab", "run", name, "--virtual", "--runs", "1", "--json", "--out", out.to_str().unwrap()];
    let document: Value = serde_json::from_str(&stdout(&[&run[..], args].concat())).unwrap();
    let schema = format!("{}/../../schemas/{schema}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document));
    let rows = document["rows"].as_array().unwrap().clone();
    (rows, fs::read_to_string(out.join("report.html")).unwrap())
}

fn joined(names: impl Iterator<Item = &'static str>, separator: &str) -> String {
    names.collect::<Vec<_>>().join(separator)
}

#[test]
fn help_and_completions_name_each_discipline_and_its_parameters() {
    let completions = stdout(&["completions", "zsh"]);
    let texts = [["link", "start"], ["link", "set"], ["lab", "run"]].map(|command| (command, help(&command)));
    for discipline in DISCIPLINES {
        assert!(completions.matches(&format!("{}\\:", discipline.name)).count() >= 3, "{}", discipline.name);
        for (command, text) in &texts {
            assert!(text.contains(&format!("{}: {}", discipline.name, discipline.summary)), "{command:?}: {text}");
            for parameter in discipline.parameters().iter().filter(|_| command[0] == "link") {
                let option = format!("--{} <{}>", parameter.name, parameter.value);
                assert!(text.contains(&option), "{command:?}, {option}: {text}");
                assert!(text.contains(parameter.help), "{command:?}, {option}, {}: {text}", parameter.help);
            }
        }
    }
}

#[test]
fn errors_name_the_disciplines_to_choose_from_and_their_parameters() {
    let names = joined(DISCIPLINES.iter().map(|discipline| discipline.name), ", ");
    for args in [
        &["link", "start", "a", "b", "--queue", "coddle"][..],
        &["link", "start", "a", "b", "--up", "queue coddle"],
        &["lab", "run", "fair-wired", "--discipline", "coddle"],
    ] {
        let text = stderr(&kumade(args).code(2));
        assert!(text.contains(&names), "{args:?}: {text}");
    }
    let text = stderr(&kumade(&["link", "start", "a", "b", "--queue", "red", "--target", "5ms"]).code(2));
    assert!(text.contains("the queue discipline red has no parameter `target`: it has"), "{text}");
}

#[test]
fn a_link_takes_each_parameter_of_each_discipline() {
    for discipline in DISCIPLINES {
        for parameter in discipline.parameters() {
            let Some(default) = parameter.default.as_deref().filter(|default| !default.contains(' ')) else { continue };
            // The settings are read before the interfaces are looked for.
            let option = format!("--{}", parameter.name);
            let up = format!("queue {} {} {default}", discipline.name, parameter.name);
            for settings in [&["--queue", discipline.name, &option, default][..], &["--up", &up]] {
                let start = [&["link", "start", "nowhere0", "nowhere1"][..], settings].concat();
                let text = stderr(&kumade(&start).failure());
                assert!(text.contains("nowhere0"), "{settings:?}: {text}");
            }
            // A change is parsed before the running link is asked for.
            let set = ["link", "set", "--name", "nowhere", "--queue", discipline.name, &option, default];
            let text = stderr(&kumade(&set).failure());
            assert!(text.contains("nowhere"), "{set:?}: {text}");
        }
    }
}

#[test]
fn the_lab_compares_all_disciplines() {
    let mut given: Vec<&str> = DISCIPLINES.iter().map(|discipline| discipline.name).collect();
    given.push("red:gentle=off");
    let options = ["--delay", "4ms", "--duration", "1s", "--discipline"];
    let (rows, page) = lab("fair-wired", "kumade.lab.fairness.1", &[&options[..], &[&given.join(",")]].concat());
    assert_eq!(rows.iter().map(|row| row["discipline"].as_str().unwrap()).collect::<Vec<_>>(), given);
    assert!(given.iter().all(|name| page.contains(name)), "{given:?}");
}

#[test]
fn help_and_completions_name_each_method_and_its_parameters() {
    let completions = stdout(&["completions", "zsh"]);
    let texts = [["measure"].as_slice(), &["lab", "run"]].map(|command| (command, help(command)));
    for method in METHODS {
        assert!(completions.matches(&format!("{}\\:", method.name)).count() >= 2, "{}", method.name);
        for (command, text) in &texts {
            assert!(text.contains(method.summary), "{command:?}, {}: {text}", method.name);
            for parameter in method.parameters() {
                let parameter = format!("{}={}: {}", parameter.name, parameter.value, parameter.help);
                assert!(text.contains(&parameter), "{command:?}, {parameter}: {text}");
            }
        }
    }
}

#[test]
fn errors_name_the_methods_to_choose_from_and_their_parameters() {
    let names = joined(METHODS.iter().map(|method| method.name), ", ");
    for args in [&["measure", "host", "--method", "dice"][..], &["lab", "run", "rake-accuracy", "--method", "dice"]] {
        let text = stderr(&kumade(args).code(2));
        assert!(text.contains(&names), "{args:?}: {text}");
    }
    for method in METHODS {
        let wrong = format!("{}:size=1", method.name);
        let text = stderr(&kumade(&["measure", "host", "--method", &wrong]).code(2));
        assert!(method.parameters().iter().all(|parameter| text.contains(parameter.name)), "{wrong}: {text}");
    }
}

#[test]
fn the_lab_measures_by_all_methods() {
    let names = joined(METHODS.iter().map(|method| method.name), ",");
    let (rows, page) =
        lab("rake-accuracy", "kumade.lab.1", &["--cross", "30mbit", "--transport", "udp", "--method", &names]);
    let measured: Vec<_> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(measured, METHODS.iter().map(|method| method.name).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row["packets_sent"].as_u64().unwrap() > 0), "{rows:?}");
    assert!(METHODS.iter().all(|method| page.contains(method.name)));
}
