//! The example that runs the programs of other methods' authors, with stand-ins for these: shell scripts that look where they run and
//! say what the programs say.

#[path = "../examples/published_programs/programs.rs"]
mod programs;

use kumade_link::LinkConfig;
use kumade_netns_testbed::{Host, Network, NetworkSpec, TEST_DEADLINE, in_namespaces};
use kumade_units::Span;
use programs::{PROGRAMS, Program, ProgramEstimate};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A directory with these scripts. Each waits for what the body says, and runs on the host with this address.
fn scripts(name: &str, scripts: &[(&str, &Host, &str)]) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("published-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    for (file, host, body) in scripts {
        let path = directory.join(file);
        let place = format!("grep -q {} /proc/net/fib_trie || {{ echo on the wrong host; exit 1; }}", host.v4);
        fs::write(&path, format!("#!/bin/sh\n{place}\n{body}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn on_a_network(test: &str, body: impl FnOnce(&Host, &Host)) {
    in_namespaces(test, || {
        let link = LinkConfig { delay: Span::from_millis(1), ..LinkConfig::default() };
        let network = Network::build(NetworkSpec::host_pair(link)).unwrap();
        body(network.host("a").unwrap(), network.host("b").unwrap());
    });
}

fn named(name: &str) -> &'static Program {
    PROGRAMS.iter().find(|program| program.name == name).unwrap()
}

const SERVE: &str = "exec sleep 1000";

#[test]
fn what_each_program_says_is_read_and_its_servers_end() {
    on_a_network("what_each_program_says_is_read_and_its_servers_end", |near, far| {
        let run = |name: &str, files: &[(&str, &Host, &str)]| {
            let (program, directory) = (named(name), scripts(name, files));
            assert_eq!(program.missing_file(&directory), None);
            program.run(&directory, near, far, TEST_DEADLINE).unwrap()
        };
        let found = |method, low, high| ProgramEstimate { method, low, high };
        let line = "echo 'Receiving Fleet 0, Rate 20.00Mbps'; echo 'Available bandwidth range : 33.21 - 35.43 (Mbps)'";
        let rcv = format!("[ \"$*\" = '-s {}' ] || exit 1; {line}", near.v4);
        let pathload = run("pathload", &[("pathload_snd", near, SERVE), ("pathload_rcv", far, &rcv)]);
        assert_eq!(pathload, [found("pathload", 33.21, 35.43)]);
        let client = format!(
            "[ \"$*\" = '-S {} -R {} -t 30' ] || exit 1; printf '1.5 90\\n2.5 90\\n3.5 30\\n4.5 32\\n' > near_far.instbw",
            near.v4, far.v4
        );
        let files = [("pathchirp_snd", near, SERVE), ("pathchirp_rcv", far, SERVE), ("pathchirp_run", near, &*client)];
        assert_eq!(run("pathchirp", &files), [found("pathchirp", 31.0, 31.0)]);
        let client = format!(
            "[ \"$*\" = {} ] || exit 1; echo; echo 'PTR:  30.112 Mpbs (suggested)'; echo 'IGI:  29.847 Mpbs'",
            far.v4
        );
        let igi = run("igi", &[("ptr-server", far, SERVE), ("ptr-client", near, &client)]);
        assert_eq!(igi, [found("igi", 29.847, 29.847), found("ptr", 30.112, 30.112)]);
    });
}

#[test]
fn a_bound_is_a_bound() {
    on_a_network("a_bound_is_a_bound", |near, far| {
        for (said, low, high) in
            [("is at least 95.00 (Mbps)", 95.0, f64::INFINITY), ("is at most 3.50 (Mbps)", 0.0, 3.5)]
        {
            let rcv = format!("echo 'Available bandwidth {said}'");
            let directory = scripts("bound", &[("pathload_snd", near, SERVE), ("pathload_rcv", far, &rcv)]);
            let found = named("pathload").run(&directory, near, far, TEST_DEADLINE).unwrap();
            assert_eq!((found[0].low, found[0].high), (low, high));
        }
    });
}

#[test]
fn a_program_that_is_missing_fails_or_hangs_is_told_of() {
    on_a_network("a_program_that_is_missing_fails_or_hangs_is_told_of", |near, far| {
        let failing = "echo 'Make sure that pathload_snd runs at sender'; exit 1";
        for (body, limit, part) in [
            (failing, TEST_DEADLINE, "Make sure that pathload_snd runs"),
            (SERVE, Span::from_millis(100).to_duration(), "took longer"),
        ] {
            let directory = scripts("failing", &[("pathload_snd", near, SERVE), ("pathload_rcv", far, body)]);
            let error = named("pathload").run(&directory, near, far, limit).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
        let directory = scripts("missing", &[("pathload_snd", near, SERVE)]);
        assert!(named("pathload").missing_file(&directory).unwrap().ends_with("pathload_rcv"));
    });
}

#[test]
fn each_program_has_a_source_and_methods_of_this_project_beside_it() {
    for Program { name, source, methods, .. } in &PROGRAMS {
        assert!(source.starts_with("http"), "{name}");
        for method in *methods {
            assert!(method.parse::<kumade_estimate::MethodSettings>().is_ok(), "{method}");
        }
    }
}
