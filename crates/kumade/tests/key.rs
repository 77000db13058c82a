//! Keys as people make them.

use assert_cmd::Command;
use kumade_netns_testbed::TEST_DEADLINE;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn kumade(args: &[&str], input: &str) -> assert_cmd::assert::Assert {
    Command::cargo_bin("kumade").unwrap().args(args).write_stdin(input).timeout(TEST_DEADLINE).assert()
}

fn printed(args: &[&str], input: &str) -> String {
    String::from_utf8(kumade(args, input).success().get_output().stdout.clone()).unwrap()
}

#[test]
fn a_private_key_has_a_public_one() {
    let private = printed(&["key", "private"], "");
    assert!(private.len() == 65 && private.trim().chars().all(|digit| digit.is_ascii_hexdigit()), "{private}");
    assert_ne!(private, printed(&["key", "private"], ""));
    let public = printed(&["key", "public"], &private);
    assert_eq!(public, printed(&["key", "public"], &private));
    assert_ne!(public, private);
    let error = kumade(&["key", "public"], "no key").failure().get_output().stderr.clone();
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("64 hexadecimal digits") && error.contains("`kumade key private --output FILE`"), "{error}");
}

/// Finding 9 of the review by a new user: the example of the help caused the warning that others may read the key.
#[test]
fn a_new_key_is_in_a_file_of_its_own() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new.key");
    let _ = fs::remove_file(&path);
    let public = printed(&["key", "new", path.to_str().unwrap()], "");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(public, printed(&["key", "public"], &fs::read_to_string(&path).unwrap()));
}

#[test]
fn a_key_file_is_its_owners_alone_and_never_overwritten() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preshared.key");
    let _ = fs::remove_file(&path);
    let name = path.to_str().unwrap();
    assert_eq!(printed(&["key", "preshared", "--output", name], ""), "");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let first = fs::read_to_string(&path).unwrap();
    let error = kumade(&["key", "preshared", "--output", name], "").failure().get_output().stderr.clone();
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("preshared.key: the file exists") && error.contains("another name"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), first);
}

#[test]
fn a_token_is_shown_once_and_its_hash_is_what_the_file_of_a_monitor_takes() {
    let output = kumade(&["key", "token", "alice", "--class", "admin"], "").success().get_output().clone();
    let [section, told] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let token = told.trim().rsplit(' ').next().unwrap();
    assert!(token.len() == 64 && !section.contains(token), "{told}{section}");
    assert!(
        section.starts_with("[[access.token]]\nname = \"alice\"\nclass = \"admin\"\nhash = \"sha256:"),
        "{section}"
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("token.toml");
    fs::write(&path, format!("[[target]]\nhost = \"192.0.2.1\"\n{section}")).unwrap();
    let checked = printed(&["monitor", "check", path.to_str().unwrap()], "");
    assert!(checked.contains("for alice (admin)"), "{checked}");
    kumade(&["key", "token", "a\"b"], "").failure();
}
