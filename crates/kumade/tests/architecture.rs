//! Keeps the promises of ARCHITECTURE.md: who may use whom, where `unsafe` and the clock may stand, and that the map
//! names every crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate, from the words that all use to the front, with those that it may use. It may use crates of earlier lines
/// only; an edge that is not obvious has its reason beside it.
const EDGES: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("packet", &[]),
    ("probe-train", &["units"]),
    ("estimate", &["probe-train", "units"]),
    ("evidence", &["probe-train", "units"]),
    // The ECN field of the packets that a queue may mark.
    ("link", &["packet", "units"]),
    ("middlebox", &["packet", "units"]),
    ("sketch", &["units"]),
    ("planner", &["units"]),
    ("alerts", &["units"]),
    ("noise-session", &["units"]),
    // Packets wait in a queue discipline until a path has room; a measured rate has its interval; NAT sessions are of flows; what
    // travels between hosts is sealed.
    ("multipath", &["link", "noise-session", "packet", "probe-train", "units"]),
    // Client and server may share a key. STAMP tells of DSCP and ECN.
    ("wire", &["noise-session", "packet", "probe-train", "units"]),
    ("measurement", &["estimate", "packet", "probe-train", "units"]),
    // Virtual paths carry the trains of a whole measurement, and those of a method alone. Two sites are joined by the
    // gateways' own code, which asks what packets are. Posteriors are compared with today's rules on the same trains.
    ("sim", &["estimate", "evidence", "link", "measurement", "multipath", "packet", "probe-train", "units"]),
    // Packet sockets and TUN devices know the headers' lengths and checksums.
    ("net", &["packet", "units"]),
    // What routers quote of its packets.
    ("transport", &["net", "packet", "probe-train", "units", "wire"]),
    // The label that a link wants of each packet: flow and ECN.
    ("packet-loop", &["link", "net", "packet", "units"]),
    ("daemon", &["net", "units"]),
    ("files", &[]),
    ("archive", &["files", "sketch", "units"]),
    // TCP connections of a tunnel that carry no packets.
    ("relay", &["net", "packet-loop", "noise-session", "daemon", "units"]),
    // What a gateway and a tunnel do, over sockets.
    ("overlay-io", &["multipath", "net", "packet", "packet-loop", "noise-session", "daemon", "units"]),
    // Its reference clock speaks NTP.
    ("netns-testbed", &["link", "middlebox", "net", "packet", "packet-loop", "units", "wire"]),
    // The STAMP client fits the clocks itself (`kumade_estimate::delay`), and its packets have a DSCP and ECN.
    ("client", &["estimate", "measurement", "net", "packet", "probe-train", "transport", "units", "wire"]),
    // Who gives way where there is not room for all; of whose wrong keys is told. A STAMP answer has the DSCP and ECN that are asked for.
    ("serve", &["net", "daemon", "noise-session", "packet", "probe-train", "transport", "units", "wire"]),
    // Light probes speak STAMP; what is measured is what `client` measures, and loss has its interval as there. An agent of a mesh answers
    // as `serve` does.
    (
        "monitor",
        &[
            "alerts",
            "archive",
            "client",
            "daemon",
            "estimate",
            "files",
            "net",
            "noise-session",
            "planner",
            "serve",
            "sketch",
            "units",
            "wire",
        ],
    ),
    ("emulator", &["files", "link", "middlebox", "net", "packet", "packet-loop", "daemon", "units"]),
    ("tunnel", &["overlay-io", "multipath", "net", "relay", "packet-loop", "noise-session", "daemon", "units"]),
    // It measures its paths, and answers the measurements of other gateways.
    (
        "gateway",
        &[
            "overlay-io",
            "multipath",
            "net",
            "packet",
            "client",
            "packet-loop",
            "noise-session",
            "serve",
            "daemon",
            "probe-train",
            "units",
        ],
    ),
    // The one program that uses another: its experiments on several paths are run between the gateways that users run.
    (
        "lab",
        &[
            "overlay-io",
            "estimate",
            "files",
            "gateway",
            "link",
            "measurement",
            "middlebox",
            "multipath",
            "net",
            "packet",
            "client",
            "noise-session",
            "serve",
            "daemon",
            "sim",
            "netns-testbed",
            "probe-train",
            "tunnel",
            "units",
        ],
    ),
    // Besides the programs: what their options are made of.
    (
        "kumade",
        &[
            "overlay-io",
            "emulator",
            "estimate",
            "files",
            "gateway",
            "lab",
            "link",
            "measurement",
            "monitor",
            "net",
            "client",
            "noise-session",
            "serve",
            "daemon",
            "probe-train",
            "tunnel",
            "units",
        ],
    ),
];

/// What the tests of any crate may use besides: networks, and a server to measure against.
const FOR_TESTS: [&str; 2] = ["netns-testbed", "serve"];

/// Crates without clock, socket, thread and global randomness.
const PURE: [&str; 15] = [
    "units",
    "packet",
    "probe-train",
    "estimate",
    "evidence",
    "link",
    "middlebox",
    "multipath",
    "sketch",
    "planner",
    "alerts",
    "noise-session",
    "wire",
    "measurement",
    "sim",
];

/// The one crate that may say `unsafe`.
const UNSAFE: &str = "net";

#[test]
fn a_crate_uses_only_what_it_may() {
    for (name, Uses { code, tests }) in workspace_dependencies() {
        let place = EDGES.iter().position(|(of, _)| *of == name);
        let place = place.unwrap_or_else(|| panic!("`{name}` is not in the list of edges: add it"));
        let allowed = EDGES[place].1;
        for used in &code {
            assert!(allowed.contains(&used.as_str()), "`{name}` may not use `{used}`: see ARCHITECTURE.md");
        }
        for edge in allowed {
            assert!(code.iter().any(|used| used == edge), "`{name}` no longer uses `{edge}`: take the edge out");
        }
        for used in &tests {
            let earlier = EDGES[..place].iter().any(|(of, _)| of == used);
            assert!(earlier || FOR_TESTS.contains(&used.as_str()), "the tests of `{name}` may not use `{used}`");
        }
    }
}

#[test]
fn edges_lead_to_earlier_crates_only() {
    for (place, (name, uses)) in EDGES.iter().enumerate() {
        for used in *uses {
            assert!(EDGES[..place].iter().any(|(earlier, _)| earlier == used), "`{name}` stands before `{used}`");
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
    let mut existing: Vec<_> = workspace_dependencies().into_keys().collect();
    named.sort();
    existing.sort();
    assert_eq!(named, existing, "the map of ARCHITECTURE.md against crates/");
}

/// Registries show it. The example is a test of the crate.
#[test]
fn each_published_crate_has_a_readme_whose_example_is_compiled() {
    for name in workspace_dependencies().into_keys() {
        let directory = root().join("crates").join(&name);
        let read = |file: &str| fs::read_to_string(directory.join(file)).unwrap_or_default();
        if read("Cargo.toml").contains("publish.workspace") {
            continue;
        }
        let readme = read("README.md");
        assert!(readme.starts_with(&format!("# kumade-{name}\n")) && readme.contains("```rust\n"), "README of {name}");
        assert!(read("src/lib.rs").contains("include_str!(\"../README.md\")"), "{name} does not test its README");
    }
}

/// A crate says that it has no examples, so that no time goes into looking for them; then it must not have any that nobody runs.
#[test]
fn all_examples_in_documentation_are_run() {
    for name in workspace_dependencies().into_keys() {
        let directory = root().join("crates").join(&name);
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let has_examples = rust_files(&directory.join("src")).iter().any(|file| {
            let text = fs::read_to_string(file).unwrap();
            text.contains("include_str!(\"../README.md\")") || has_example(&text)
        });
        assert!(!has_examples || !manifest.contains("doctest = false"), "{name} has examples that are not run");
    }
}

/// Whether a block of code begins in the documentation that isn't text.
fn has_example(text: &str) -> bool {
    let documentation = text.lines().map(str::trim_start).filter_map(|line| {
        let content = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        content.trim_start().strip_prefix("```")
    });
    // Each second one ends a block.
    documentation.step_by(2).any(|language| language != "text")
}

#[test]
fn examples_are_told_from_text() {
    assert!(has_example("/// ```\n/// let one = 1;\n/// ```\n"));
    assert!(has_example("//! ```text\n//! one\n//! ```\n    /// ```no_run\n    /// ```\n"));
    assert!(!has_example("//! ```text\n//! one\n//! ```\nlet fence = \"```\";\n"));
}

/// Programs are linked one by one and run one after the other. What is no module of its crate's one would never run.
#[test]
fn the_tests_of_a_crate_are_one_program_that_has_all_of_them() {
    for tests in fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("tests")) {
        let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let files = fs::read_dir(&tests).into_iter().flatten().map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<_>, Vec<_>) = files.partition(|path| path.is_dir());
        let programs = folders.iter().filter(|folder| folder.join("main.rs").exists()).count();
        let files: Vec<_> = files.iter().filter(|path| path.extension().is_some_and(|it| it == "rs")).collect();
        match fs::read_to_string(tests.join("main.rs")) {
            Ok(main) => {
                // What shares something with all of its process is a program of its own, and listed.
                let manifest = fs::read_to_string(tests.with_file_name("Cargo.toml")).unwrap();
                let is_missing = |name: &String| {
                    !main.lines().any(|line| line == format!("mod {name};"))
                        && !manifest.contains(&format!("path = \"tests/{name}.rs\""))
                };
                let folders = folders.iter().filter(|folder| folder.join("mod.rs").exists());
                let missing: Vec<_> = files.into_iter().chain(folders).map(name).filter(is_missing).collect();
                assert!(missing.is_empty() && programs == 0, "{}: {missing:?}", tests.display());
            }
            Err(_) => assert!(files.len() + programs <= 1, "{}: several programs", tests.display()),
        }
    }
}

#[test]
fn pure_crates_forbid_unsafe_code_and_keep_one_list_of_what_is_banned() {
    let lints = fs::canonicalize(root().join("clippy-pure.toml")).unwrap();
    for name in PURE {
        let directory = root().join("crates").join(name);
        let library = fs::read_to_string(directory.join("src/lib.rs")).unwrap();
        assert!(library.contains("#![forbid(unsafe_code)]"), "`{name}` does not forbid unsafe code");
        let own = fs::canonicalize(directory.join("clippy.toml")).ok();
        assert_eq!(own.as_ref(), Some(&lints), "the clippy.toml of `{name}` is no link to clippy-pure.toml");
    }
}

#[test]
fn clock_threads_files_sockets_and_unseeded_randomness_are_banned() {
    let lints = fs::read_to_string(root().join("clippy-pure.toml")).unwrap();
    for banned in [
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::thread::sleep",
        "std::thread::spawn",
        "std::thread::scope",
        "std::thread::Builder",
        "std::fs::File",
        "std::fs::OpenOptions",
        "std::fs::read",
        "std::fs::read_to_string",
        "std::fs::write",
        "std::process::Command",
        "std::net::TcpListener",
        "std::net::TcpStream",
        "std::net::UdpSocket",
        "std::collections::HashMap",
        "std::hash::RandomState",
        "getrandom::fill",
        "getrandom::u64",
        "rand::rng",
    ] {
        assert!(lints.contains(&format!("\"{banned}\"")), "clippy-pure.toml does not ban {banned}");
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

/// CONTRIBUTING.md: a function is called by a verb with its object or by what it returns, and a limit `MAX_` or `MIN_`.
#[test]
fn functions_and_limits_have_names_that_a_search_finds() {
    let banned =
        ["fn of(", "fn of<", "fn judge(", "fn judge<", "fn at(", "fn at<", "const MOST_", "const LEAST_", "const FEW_"];
    for name in workspace_dependencies().into_keys() {
        for file in rust_files(&root().join("crates").join(&name).join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                let found = banned.iter().find(|name| code.contains(*name));
                assert!(found.is_none(), "{}:{}: {}", file.display(), number + 1, line.trim());
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

/// What a crate uses of the workspace.
struct Uses {
    code: Vec<String>,
    tests: Vec<String>,
}

/// By crate.
fn workspace_dependencies() -> BTreeMap<String, Uses> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // Every package has this prefix; the folders do without.
    let text = |value: &serde_json::Value| value.as_str().unwrap().trim_start_matches("kumade-").to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    let uses = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        let ours = dependencies.iter().filter(|d| d["path"].is_string());
        let (tests, code): (Vec<_>, Vec<_>) = ours.partition(|d| d["kind"] == "dev");
        let names = |list: Vec<&serde_json::Value>| list.into_iter().map(|d| text(&d["name"])).collect();
        Uses { code: names(code), tests: names(tests) }
    };
    packages.iter().map(|package| (text(&package["name"]), uses(package))).collect()
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
