//! `kumade serve` with clients that have keys of their own: what they and the operator see.

use crate::server;

use assert_cmd::Command;
use kumade_netns_testbed::{TEST_DEADLINE, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use server::Serving;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn kumade(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("kumade").unwrap().args(args).timeout(TEST_DEADLINE).assert()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

/// A directory of a test's own, empty.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    path
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// The measurement of a confined server by a client with this key: a scan in one direction.
fn measure(server: &Serving, key: &Path, more: &[&str]) -> assert_cmd::assert::Assert {
    let key = key.to_str().unwrap();
    let scan =
        ["measure", &server.address, "--key", key, "--direction", "up", "--no-capacity", "--method", "linear-scan"];
    kumade(&[&scan[..], more].concat())
}

#[test]
fn clients_have_quotas_and_the_operator_has_a_log_of_them() {
    let directory = directory("clients");
    let path = |name: &str| directory.join(name);
    for name in ["campus.key", "stranger.key"] {
        kumade(&["key", "preshared", "--output", path(name).to_str().unwrap()]).success();
    }
    let clients = format!(
        "[[client]]\nname = \"campus\"\nkey = \"{}\"\nmeasurements-per-hour = 1\n\n[[client]]\nname = \"lab\"\ninline-key = \"{}\"\n",
        path("campus.key").display(),
        "5a".repeat(32)
    );
    write_private(&path("clients.toml"), &clients);
    write_private(&path("lab.key"), &"5a".repeat(32));
    let [file, log] = ["clients.toml", "access.jsonl"].map(|name| path(name).to_str().unwrap().to_owned());
    let server = Serving::start(&["--clients", &file, "--access-log", &log]);

    // A busy machine may spoil the only train, which fails without being refused.
    assert!(!stderr(&measure(&server, &path("campus.key"), &[])).contains("refused"));
    let refused = measure(&server, &path("campus.key"), &[]).code(1);
    let said = stderr(&refused);
    let why = "refused the measurement: the quota of the client campus, 1 measurement in an hour, is exceeded; come again in ";
    assert!(said.contains(why) && said.contains(", at 2"), "{said}");
    let document = measure(&server, &path("campus.key"), &["--json"]).code(1);
    let document: serde_json::Value = serde_json::from_slice(&document.get_output().stdout).unwrap();
    assert_eq!(document["error"]["kind"], "refused", "{document}");
    assert!(!stderr(&measure(&server, &path("lab.key"), &[])).contains("refused"));
    let said = stderr(&measure(&server, &path("stranger.key"), &[]).code(1));
    assert!(said.contains("the keys of client and server differ"), "{said}");

    let lines = || -> Vec<serde_json::Value> {
        let text = fs::read_to_string(&log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert!(eventually(|| lines().len() == 5), "{:?}", lines());
    let told: Vec<_> = lines().iter().map(|line| (line["client"].clone(), line["result"].clone())).collect();
    let count =
        |client: &str, result: &str| told.iter().filter(|line| **line == (client.into(), result.into())).count();
    assert_eq!(
        (count("campus", "complete"), count("campus", "refused"), count("lab", "complete")),
        (1, 2, 1),
        "{told:?}"
    );
    assert_eq!(lines().iter().filter(|line| line["event"] == "key-refused").count(), 1);
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o007, 0, "others can't read who measures");
}

#[test]
fn a_confined_server_reads_its_clients_again_at_sighup() {
    let directory = directory("clients-reloaded");
    let keys = directory.join("keys");
    fs::create_dir(&keys).unwrap();
    for name in ["a.key", "b.key"] {
        kumade(&["key", "preshared", "--output", keys.join(name).to_str().unwrap()]).success();
    }
    let file = directory.join("clients.toml");
    let client = |name: &str| format!("[[client]]\nname = \"{name}\"\nkey = \"{}/{name}.key\"\n", keys.display());
    write_private(&file, &client("a"));
    let server = Serving::start(&["--clients", file.to_str().unwrap()]);
    let is_served =
        |name: &str| !stderr(&measure(&server, &keys.join(name), &[])).contains("keys of client and server differ");
    let reload = || kill(Pid::from_raw(server.process().cast_signed()), Signal::SIGHUP).unwrap();
    assert!(is_served("a.key") && !is_served("b.key"));
    // As editors do: another file takes its place.
    write_private(&directory.join("new.toml"), &client("b"));
    fs::rename(directory.join("new.toml"), &file).unwrap();
    reload();
    assert!(eventually(|| is_served("b.key")));
    assert!(!is_served("a.key"));
    write_private(&file, "nonsense");
    reload();
    std::thread::sleep(Duration::from_millis(500));
    assert!(is_served("b.key"), "it goes on as before");
}

#[test]
fn a_file_of_clients_that_others_may_read_or_that_makes_no_sense_is_refused() {
    let directory = directory("clients-refused");
    let file = directory.join("clients.toml");
    let name = file.to_str().unwrap();
    let serve = |more: &[&str]| {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--clients", name];
        stderr(&kumade(&[&serve[..], more].concat()).failure())
    };
    let client = format!("[[client]]\nname = \"lab\"\ninline-key = \"{}\"\n", "5a".repeat(32));
    fs::write(&file, &client).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    assert!(serve(&[]).contains(&format!("can write, the file of clients {name}: run chmod 600 on it")));
    write_private(&file, &client.replace("inline-key", "key"));
    assert!(serve(&[]).contains("clients.toml:3: cannot read the key file 5a5a"));
    write_private(&file, &client);
    assert!(serve(&["--stamp", "0"]).contains("give it by --stamp-key FILE"));
    assert!(serve(&["--key", name]).contains("cannot be used with"));
    assert!(serve(&["--access-log", directory.to_str().unwrap()]).contains("cannot open the access log"));
}
