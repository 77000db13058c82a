//! What the commonest command lines print, right ones and wrong ones: `docs/transcript.md` is made by this test. Figures are
//! left out, since they differ from machine to machine.

use crate::server;

use server::{CLOSED, Serving};
use std::fmt::Write;
use std::process::Command;

const TRANSCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/transcript.md");

/// How much of an output is stable.
#[derive(Clone, Copy)]
enum Shown {
    /// All of it.
    All,
    /// The first lines.
    Head(usize),
    /// Of each line, what stands before two spaces: the labels of a table.
    Labels,
    /// Each line up to this text, which ends it.
    UpTo(&'static str),
}

/// Command lines with HOST for a server, CLOSED for a port on which nothing listens, and KEY for a file.
const COMMANDS: &[(&str, &str, Shown)] = &[
    ("What is there?", "kumade", Shown::Head(14)),
    ("The options of iperf3 are not those of kumade.", "kumade -c HOST", Shown::All),
    ("Several of them.", "kumade measure -c HOST -u -t 10 -R", Shown::All),
    ("A limit of traffic.", "kumade measure HOST --budget 20MB", Shown::All),
    ("How fast is the path?", "kumade measure HOST", Shown::Labels),
    ("One direction.", "kumade measure HOST --direction down", Shown::Labels),
    ("Delay and loss to a STAMP reflector.", "kumade measure --stamp STAMP", Shown::Labels),
    ("For programs.", "kumade measure HOST --direction up --json", Shown::UpTo("\"kumade.measure/1\"")),
    ("For tables.", "kumade measure HOST --direction up --csv", Shown::UpTo("direction,")),
    ("No server.", "kumade measure CLOSED", Shown::All),
    ("No server, for programs.", "kumade measure CLOSED --json", Shown::UpTo("\"kumade.measure/1\"")),
    ("No such host.", "kumade measure no-such-host.invalid", Shown::UpTo("no-such-host.invalid: ")),
    ("No such method.", "kumade measure HOST --method dice", Shown::All),
    ("Too small a budget.", "kumade measure ::1 --budget-bytes 10b", Shown::All),
    ("A number without a unit.", "kumade measure ::1 --budget-time 10", Shown::All),
    ("A rate without a unit.", "kumade link start eth1 eth2 --rate 20", Shown::All),
    ("A queue's limit without a unit.", "kumade link start eth1 eth2 --limit 100", Shown::All),
    ("A misspelt setting.", "kumade link start eth1 eth2 --up 'rat 20mbit'", Shown::UpTo("`rate`")),
    ("A misspelt option.", "kumade link start eth1 eth2 --dealy 20ms", Shown::All),
    // What follows depends on the links that run beside this test.
    ("No link of that name is running.", "kumade link show --name uplink-2", Shown::UpTo("runs here")),
    ("What can be repeated of the papers?", "kumade lab list | head -4", Shown::Labels),
    ("No such experiment.", "kumade lab run rake-firewal", Shown::UpTo("`rake-firewal`")),
    ("A key for a gateway or a tunnel.", "kumade key new KEY", Shown::UpTo("")),
    ("The same name again.", "kumade key new KEY", Shown::All),
    ("An address that is none.", "kumade serve --listen nowhere", Shown::All),
    ("A shell that is none.", "kumade completions tcsh", Shown::All),
];

/// Findings of the review by a new user, among them all wrong command lines that it names. Set `UPDATE_TRANSCRIPT` to write the
/// file anew after a deliberate change.
#[test]
fn the_commonest_command_lines_print_what_the_transcript_says() {
    let server = Serving::with_reflector();
    let directory = concat!(env!("CARGO_TARGET_TMPDIR"), "/transcript");
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory).unwrap();
    let key = format!("{directory}/gateway.key");
    let names = [
        ("HOST", server.address.as_str(), "far.example.net"),
        ("STAMP", server.reflector.as_deref().unwrap(), "router.example"),
        ("CLOSED", CLOSED, "192.0.2.9:7272"),
        ("KEY", &key, "gateway.key"),
    ];
    let mut text =
        "# What kumade prints\n\nMade by `crates/kumade/tests/transcript.rs`. Figures and what else differs from \
        machine to machine are replaced by `…`.\n"
            .to_owned();
    for (what, line, shown) in COMMANDS {
        let real = names.iter().fold((*line).to_owned(), |line, (name, real, _)| line.replace(name, real));
        let said = names.iter().fold((*line).to_owned(), |line, (name, _, said)| line.replace(name, said));
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{real} 2>&1")]).env("PATH", path()).env("XDG_RUNTIME_DIR", directory);
        let output = shell.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed = names.iter().fold(printed, |text, (_, real, said)| text.replace(real, said));
        // On a busy machine a measurement may have no result.
        let code = match shown {
            Shown::Labels if said.contains("measure") => String::new(),
            _ if said.contains("--direction up") => String::new(),
            _ => format!("\nExit status {}.\n", output.status.code().unwrap()),
        };
        write!(text, "\n{what}\n\n```console\n$ {said}\n{}```\n{code}", kept(&printed, *shown)).unwrap();
    }
    if std::env::var_os("UPDATE_TRANSCRIPT").is_some() {
        std::fs::write(TRANSCRIPT, &text).unwrap();
    }
    let published = std::fs::read_to_string(TRANSCRIPT).unwrap_or_default();
    assert!(published == text, "run the test again with UPDATE_TRANSCRIPT=1 if this was meant to change:\n{text}");
}

/// So that `kumade` is the one of this build.
fn path() -> String {
    let program = assert_cmd::cargo::cargo_bin("kumade");
    format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap())
}

/// The lines of an output that are the same everywhere.
fn kept(printed: &str, shown: Shown) -> String {
    let lines = |kept: &mut dyn Iterator<Item = String>| kept.map(|line| line.trim_end().to_owned() + "\n").collect();
    let mut all = printed.lines().map(str::to_owned);
    match shown {
        Shown::All => lines(&mut all),
        Shown::Head(count) => lines(&mut all.take(count)) + if printed.lines().count() > count { "…\n" } else { "" },
        Shown::UpTo(end) => lines(&mut all.map(|line| match line.find(end) {
            Some(at) => line[..at + end.len()].to_owned() + " …",
            None => "…".to_owned(),
        })),
        Shown::Labels => {
            // The table ends before the sentence, which depends on the figures.
            let table = all.take_while(|line| !line.is_empty());
            let label = |line: String| match line.split("  ").next().unwrap_or_default() {
                "" => line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  "),
                label => format!("{label}  …"),
            };
            // Cells that go on in the next line have no label, and headings have no figures.
            let mut lines_with_labels = table.enumerate().filter(|(i, line)| *i == 0 || !line.starts_with(' '));
            lines(&mut lines_with_labels.by_ref().map(|(_, line)| label(line)))
        }
    }
}
