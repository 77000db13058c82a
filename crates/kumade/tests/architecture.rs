//! Keeps the promises of ARCHITECTURE.md: who may use whom, where `unsafe` and the clock may stand, and that the map
//! names every crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The layers, from the words that all speak to the front. A crate may use those of the layers above its own.
const LAYERS: [&[&str]; 11] = [
    &["units"],
    &["packet", "train"],
    &["estimate", "link", "middlebox"],
    &["wire"],
    &["measurement"],
    &["sim"],
    &["net"],
    &["transport", "runtime", "service"],
    &["testnet", "probe"],
    &["serve", "emulator", "lab"],
    &["kumade"],
];

/// The one exception: the lab may use the other programs, as it runs them.
const LAB: &str = "lab";

/// What the tests of any crate may use.
const FOR_TESTS: [&str; 2] = ["testnet", "serve"];

/// Crates without clock, socket, thread and global randomness.
const PURE: [&str; 9] = ["units", "packet", "train", "estimate", "link", "middlebox", "wire", "measurement", "sim"];

/// The one crate that may say `unsafe`.
const UNSAFE: &str = "net";

#[test]
fn a_crate_uses_only_what_stands_above_it() {
    for (name, uses) in workspace_dependencies() {
        let own = layer(&name);
        for used in uses {
            let above = layer(&used) < own;
            let program_in_the_lab = name == LAB && layer(&used) == own;
            assert!(above || program_in_the_lab, "`{name}` may not use `{used}`: see ARCHITECTURE.md");
        }
    }
}

#[test]
fn the_map_names_every_crate_and_no_other() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let map = text.split("```").nth(1).expect("ARCHITECTURE.md begins with a map in a code block");
    // Each line: the layer, its crates and what they are, with wide gaps between.
    let cells = map.lines().filter_map(|line| line.split("  ").filter(|cell| !cell.is_empty()).nth(1));
    let mut named: Vec<_> = cells.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let mut layered: Vec<_> = LAYERS.concat().into_iter().map(str::to_owned).collect();
    let mut existing: Vec<_> = workspace_dependencies().into_keys().collect();
    named.sort();
    layered.sort();
    existing.sort();
    assert_eq!(named, existing, "the map of ARCHITECTURE.md against crates/");
    assert_eq!(layered, existing, "the layers of this test against crates/");
}

#[test]
fn pure_crates_forbid_unsafe_code_and_ban_the_clock() {
    for name in PURE {
        let library = fs::read_to_string(root().join("crates").join(name).join("src/lib.rs")).unwrap();
        assert!(library.contains("#![forbid(unsafe_code)]"), "`{name}` does not forbid unsafe code");
        let lints = fs::read_to_string(root().join("crates").join(name).join("clippy.toml"))
            .unwrap_or_else(|e| panic!("`{name}` has no clippy.toml: {e}"));
        for banned in [
            "std::time::Instant::now",
            "std::time::SystemTime::now",
            "std::thread::sleep",
            "std::collections::HashMap",
            "std::net::TcpStream",
            "std::net::UdpSocket",
        ] {
            assert!(lints.contains(&format!("\"{banned}\"")), "`{name}` does not ban {banned}");
        }
    }
}

#[test]
fn unsafe_stands_in_one_crate() {
    for name in workspace_dependencies().into_keys().filter(|name| name != UNSAFE) {
        for file in rust_files(&root().join("crates").join(&name).join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                assert!(!says_unsafe(line), "`unsafe` outside `{UNSAFE}`: {}:{}", file.display(), number + 1);
            }
        }
    }
}

#[test]
fn unsafe_is_told_from_words_that_contain_it() {
    assert!(says_unsafe("    let fd = unsafe { libc::socket(1, 2, 3) };"));
    assert!(says_unsafe("unsafe extern \"C\" {"));
    assert!(!says_unsafe("#![forbid(unsafe_code)]"));
    assert!(!says_unsafe("    // nothing unsafe here"));
}

/// Whether the keyword stands in the line's code.
fn says_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
}

/// What each crate of the workspace uses of it, in its code or its tests.
fn workspace_dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    let uses = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        let of_ours = dependencies.iter().filter(|d| d["path"].is_string());
        let for_tests = |d: &serde_json::Value| d["kind"] == "dev" && FOR_TESTS.iter().any(|name| d["name"] == *name);
        of_ours.filter(|d| !for_tests(d)).map(|d| text(&d["name"])).collect()
    };
    packages.iter().map(|package| (text(&package["name"]), uses(package))).collect()
}

fn layer(name: &str) -> usize {
    let found = LAYERS.iter().position(|layer| layer.contains(&name));
    found.unwrap_or_else(|| panic!("`{name}` is in no layer: put it into ARCHITECTURE.md and into this test"))
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
