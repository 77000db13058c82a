//! `kumade gateway` as people use it: what it prints, and what it leaves in the system, however it ends.

use crate::gateways::{Host, gateway};
use kumade_net::gro::GroLimits;
use kumade_net::nftables::{InstalledTable, Table};
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::Instant;

const CONFIG: &str = r#"
[gateway]
name = "site"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24", "fd01::/64"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2", "fd09:1::2"]
weight = 16

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2", "fd09:2::2"]
weight = 3

[[remote]]
name = "far"
networks = ["10.2.0.0/24", "fd02::/64"]

[[translation]]
network = "10.1.0.0/24"
alias = "192.0.2.0/24"
path = "two"
"#;

impl Host {
    fn with_site(test: &str) -> Self {
        let host = Host::new(test);
        fs::write(host.directory.join("site.toml"), CONFIG).unwrap();
        host
    }

    /// Whether packets are marked: a table belongs to its process, and no other can have one of that name.
    fn has_rules(&self) -> bool {
        let table = Table { name: "kumade".into(), counters: vec![], flow_lists: vec![], chains: vec![] };
        self.namespace.run(|| InstalledTable::install(&table).is_err()).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        gateway(&self.namespace, &self.directory, arguments)
    }

    fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns once packets are divided.
    fn start(&self, arguments: &[&str]) -> Running {
        let mut child = self.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        // What a killed one has left is undone first.
        while line.contains(" INFO undid a change ") {
            line.clear();
            said.read_line(&mut line).unwrap();
        }
        assert!(line.contains("packets are divided among 2 paths"), "{line}");
        Running { child, _said: said }
    }
}

struct Running {
    child: Child,
    _said: BufReader<ChildStderr>,
}

impl Running {
    fn end(mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_gateway_leaves_the_system_as_it_was_on_signals_and_after_a_kill_at_the_next_start() {
    in_namespaces("a_gateway_leaves_the_system_as_it_was_on_signals_and_after_a_kill_at_the_next_start", || {
        let host = Host::with_site("gateway-ends");
        let before = host.routing();
        let config = ["--config", "site.toml"];
        let running = host.start(&config);
        let during = host.routing();
        assert!(during.contains("fwmark 0x6b01 lookup 27393"), "{during}");
        assert!(host.has_rules());
        assert_eq!(running.end(Signal::SIGTERM).code(), Some(0));
        assert!(!host.has_rules());
        assert_eq!(host.routing(), before);

        let killed = host.start(&config);
        assert_eq!(killed.end(Signal::SIGKILL).code(), None);
        // The kernel takes the rules away with the process, so that no packet is marked any more; the routes stay.
        assert!(eventually(|| !host.has_rules()));
        assert_eq!(host.routing(), during);
        let again = host.start(&config);
        assert_eq!(host.routing(), during);
        assert_eq!(again.end(Signal::SIGINT).code(), Some(0));
        assert_eq!(host.routing(), before);
    });
}

#[test]
fn after_a_kill_another_configuration_starts_from_nothing() {
    in_namespaces("after_a_kill_another_configuration_starts_from_nothing", || {
        let host = Host::with_site("gateway-other");
        let before = host.routing();
        let limits = || host.namespace.run(|| GroLimits::read("lan")).unwrap().unwrap();
        let unlimited = limits();
        let with_rate = CONFIG.replace("weight = 3", "weight = 3\nrate = \"8mbit\"");
        fs::write(host.directory.join("rate.toml"), with_rate).unwrap();
        host.start(&["--config", "rate.toml"]).end(Signal::SIGKILL);
        assert_eq!(limits(), unlimited.capped_at(2000));
        let paths = ["--path", "path1@10.9.1.2", "--path", "path2:2@10.9.2.2", "--local", "lan"];
        let running = host.start(&paths);
        let during = host.routing();
        assert!(during.contains("default via 10.9.2.2 dev path2 table 27394"), "{during}");
        assert!(!during.contains("fd09:1::2"), "{during}");
        assert_eq!(limits(), unlimited);
        let second = host.call(&["--config", "site.toml"]);
        assert_eq!(second.status.code(), Some(1));
        assert!(text(&second.stderr).contains("has a gateway already (process "), "{}", text(&second.stderr));
        running.end(Signal::SIGTERM);
        assert_eq!(host.routing(), before);
    });
}

#[test]
fn check_prints_the_plan_and_faults_are_told_with_their_line() {
    in_namespaces("check_prints_the_plan_and_faults_are_told_with_their_line", || {
        let host = Host::with_site("gateway-check");
        let plan = host.call(&["check", "site.toml"]);
        let printed = text(&plan.stdout);
        assert_eq!((plan.status.code(), text(&plan.stderr).as_str()), (Some(0), ""));
        for part in [
            "# far: 10.2.0.0/24, fd02::/64 by one 16 : two 3",
            "ip -4 route add default via 10.9.2.2 dev path2 table 27394",
            "numgen inc mod 19 map { 0-15 : 27393, 16-18 : 27394 }",
            "ip saddr set ip saddr & 0.0.0.255 | 192.0.2.0",
        ] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        fs::write(host.directory.join("bad.toml"), CONFIG.replace("\"path2\"", "\"path9\"")).unwrap();
        for arguments in [&["check", "bad.toml"][..], &["--config", "bad.toml"]] {
            let refused = host.call(arguments);
            assert_eq!(refused.status.code(), Some(2));
            let said = text(&refused.stderr);
            assert!(
                said.starts_with("kumade: bad.toml:17: this host has no interface `path9`: there are lo, "),
                "{said}"
            );
        }
        assert_eq!(host.call(&["check", "absent.toml"]).status.code(), Some(1));
        fs::write(host.directory.join("off-link.toml"), CONFIG.replace("10.9.2.2", "10.8.2.2")).unwrap();
        for arguments in [&["check", "off-link.toml"][..], &["--config", "off-link.toml"]] {
            let refused = host.call(arguments);
            let said = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(1));
            assert!(said.contains("the next hop 10.8.2.2 of path `two` is not on the link of path2"), "{said}");
        }
        for arguments in [&[][..], &["--path", "path1"], &["--path", "path1:x", "--local", "lan"], &["--local", "lan"]]
        {
            assert_eq!(host.call(arguments).status.code(), Some(2), "{arguments:?}");
        }
        host.forward("0");
        let refused = host.call(&["--config", "site.toml"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("sysctl -w net.ipv4.ip_forward=1"), "{}", text(&refused.stderr));
        assert!(!host.has_rules());
        assert_eq!(host.call(&["check", "site.toml"]).status.code(), Some(1));
        host.forward("1");
        let set = |value| host.namespace.run(|| fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", value)).unwrap();
        set("1").unwrap();
        let warned = host.call(&["check", "site.toml"]);
        assert_eq!(warned.status.code(), Some(0));
        let said = text(&warned.stderr);
        assert!(said.contains("warning: net.ipv4.conf.all.rp_filter is 1 (strict): what arrives by path1"), "{said}");
    });
}

/// A terminal with a program on it.
struct OnTerminal {
    child: Child,
    terminal: File,
    shown: String,
}

impl OnTerminal {
    fn new(mut command: Command) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        // Else the program had the far end of its own terminal, which would never close.
        fcntl(&pair.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        OnTerminal { child, terminal: File::from(pair.master), shown: String::new() }
    }

    /// Reads what is shown until this is.
    fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + TEST_DEADLINE;
        while !self.shown.contains(text) {
            assert!(Instant::now() < deadline, "{text} in {}", self.shown);
            assert!(self.read(), "it ended: {}", self.shown);
        }
    }

    /// False once the program has ended.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let count = self.terminal.read(&mut buffer).unwrap_or(0);
        self.shown += &text(&buffer[..count]);
        count > 0
    }

    /// Its exit status, after the rest of what it shows.
    fn end(mut self) -> (Option<i32>, String) {
        while self.read() {}
        (self.child.wait().unwrap().code(), self.shown)
    }
}

/// What a program shows that leaves the terminal as it was: the other screen is gone, and the cursor visible.
fn is_restored(shown: &str) -> bool {
    let last = |code| shown.rfind(code);
    last("\u{1b}[?1049l") > last("\u{1b}[?1049h") && last("\u{1b}[?25h") > last("\u{1b}[?25l")
}

#[test]
fn the_status_of_the_direct_plane_is_told_and_shown_live() {
    in_namespaces("the_status_of_the_direct_plane_is_told_and_shown_live", || {
        let host = Host::with_site("gateway-status");
        let absent = host.call(&["status"]);
        assert_eq!(absent.status.code(), Some(1));
        let said = text(&absent.stderr);
        assert!(said.contains("no gateway called `gateway` runs here; start one with `kumade gateway"), "{said}");
        let running = host.start(&["--config", "site.toml"]);
        let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.gateway.1.json");
        let validator =
            jsonschema::validator_for(&serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap()).unwrap();
        // The only one that runs, by its name, and by that in its file.
        for arguments in [&["status", "--json"][..], &["status", "site", "--json"]] {
            let document: Value = serde_json::from_slice(&host.call(arguments).stdout).unwrap();
            assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
            assert_eq!(
                (&document["plane"], &document["remotes"][0]["paths"][0]["weight"]),
                (&"direct".into(), &16.into())
            );
            assert_eq!(document["paths"][1]["up"], true);
        }
        let table = text(&host.call(&["status", "--config", "site.toml"]).stdout);
        assert!(table.starts_with("site (direct), running for ") && table.contains("two   path2"), "{table}");
        let other = host.call(&["status", "other"]);
        let said = text(&other.stderr);
        assert!(said.contains("no gateway called `other` runs here; running: site; choose one"), "{said}");

        let blind = host.call(&["status", "--live"]);
        assert_eq!(blind.status.code(), Some(2));
        assert!(text(&blind.stderr).contains("--live needs a terminal"), "{}", text(&blind.stderr));
        let live = || {
            let mut live = OnTerminal::new(host.command(&["status", "--live"]));
            live.wait_for("two");
            live
        };
        // It is not told by a signal, since it does not control the terminal.
        let mut closed = live();
        drop(closed.terminal);
        let has_ended = eventually(|| closed.child.try_wait().unwrap().is_some());
        closed.child.kill().unwrap();
        assert!(has_ended, "it goes on without a terminal");
        let mut quit = live();
        quit.terminal.write_all(b"q").unwrap();
        let (status, shown) = quit.end();
        assert!(status == Some(0) && is_restored(&shown), "{status:?} {shown}");
        let mut stays = live();
        running.end(Signal::SIGTERM);
        // Of a line, only what changes is written.
        stays.wait_for("below");
        kill(Pid::from_raw(stays.child.id() as i32), Signal::SIGTERM).unwrap();
        let (status, shown) = stays.end();
        assert!(status == Some(0) && is_restored(&shown), "{status:?} {shown}");
    });
}
