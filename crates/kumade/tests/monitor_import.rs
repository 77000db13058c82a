//! `kumade monitor import` from end to end.

use assert_cmd::Command;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

const TEMPLATE: &str = r#"{
  "addresses": { "here": { "address": "127.0.0.1" }, "there": { "address": "ps.example.org" } },
  "groups": { "both": { "type": "mesh", "addresses": [{ "name": "here" }, { "name": "there" }] } },
  "tests": { "rate": { "type": "throughput", "spec": { "duration": "PT20S" } } },
  "schedules": { "often": { "repeat": "PT4H" } },
  "tasks": { "rates": { "group": "both", "test": "rate", "schedule": "often" } }
}"#;

fn kumade(arguments: &[&str]) -> Output {
    Command::cargo_bin("kumade").unwrap().arg("monitor").args(arguments).output().unwrap()
}

#[test]
fn a_template_becomes_a_configuration_that_can_be_checked() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("import-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let [template, config] = ["template.json", "monitor.toml"].map(|name| directory.join(name));
    let [template_name, config_name] = [&template, &config].map(|path| path.to_str().unwrap());
    fs::write(&template, TEMPLATE).unwrap();

    let printed = kumade(&["import", "psconfig", template_name, "--from", "here"]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let said = String::from_utf8(printed.stderr).unwrap();
    assert!(said.contains("left out: tests.rate.spec.duration: "), "{said}");
    assert!(String::from_utf8_lossy(&printed.stdout).contains("# tests.rate.spec.duration: "));
    fs::write(&config, printed.stdout).unwrap();
    let checked = kumade(&["check", config_name]);
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.status.success() && text.contains("there: ps.example.org"), "{text}");

    let printed = kumade(&["import", "psconfig", template_name, "--mesh"]);
    let said = String::from_utf8(printed.stderr).unwrap();
    assert!(printed.status.success() && said.contains("left out: tests.rate.spec.duration: "), "{said}");
    let mesh = String::from_utf8(printed.stdout).unwrap();
    assert!(mesh.contains("role = \"coordinator\"") && mesh.matches("[[agent]]").count() == 2, "{mesh}");
    let key = directory.join("own.key");
    fs::write(&key, "07".repeat(32)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&config, mesh.replace("/etc/kumade/monitor.key", key.to_str().unwrap())).unwrap();
    let checked = kumade(&["check", config_name]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(said.contains("a public key is 64"), "what is to be filled in is named: {said}");

    let unknown = kumade(&["import", "psconfig", template_name, "--from", "nowhere"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(said.contains("template.json: there is no address `nowhere`; there are here, there"), "{said}");
    fs::write(&template, TEMPLATE.replace("PT4H", "often")).unwrap();
    let wrong = kumade(&["import", "psconfig", template_name, "--from", "here"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said.contains("template.json: schedules.often.repeat: "), "{said}");
    fs::remove_dir_all(directory).unwrap();
}
