//! The promises of docs/security.md each name the test that holds them; that test exists.

use std::fs;
use std::path::Path;

/// The names in backquotes that are names of tests.
fn named(document: &str) -> Vec<&str> {
    let rows = document.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.split('|').nth(2));
    let quoted = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.filter(|name| name.contains('_')).collect()
}

fn sources(directory: &Path, text: &mut String) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, text);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            *text += &fs::read_to_string(entry).unwrap();
        }
    }
}

#[test]
fn the_tests_of_the_promises_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut code = String::new();
    sources(&root.join("crates"), &mut code);
    let names = named(&document);
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !is_a_test(name, &code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Whether there is a function of this name that is marked as a test.
fn is_a_test(name: &str, code: &str) -> bool {
    let marks_end = |before: &str| before.rfind(['}', ';']).map_or(0, |end| end + 1);
    code.match_indices(&format!("fn {name}(")).any(|(at, _)| code[marks_end(&code[..at])..at].contains("#[test]"))
}
