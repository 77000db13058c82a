//! `kumade gateway` with the bonded plane: what it leaves in the system when it is killed, and which rights it takes.

use crate::privileges;

use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{eventually, in_namespaces, run_ip, wait_for_cables};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const CONFIG: &str = r#"
[gateway]
name = "site"
plane = "bonded"

[bonded]
key = "gateway.key"
addresses = ["10.8.0.1/24"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2", "fd09:1::2"]

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2"]

[[remote]]
name = "far"
networks = ["10.2.0.0/24", "fd02::/64"]
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
addresses = ["192.0.2.1", "192.0.2.2"]
"#;

const DIRECT: &str = r#"
[gateway]
name = "site"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2"]
rate = "8mbit"

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2"]

[[remote]]
name = "far"
networks = ["10.2.0.0/24"]
"#;

/// A host with two uplinks and a network of hosts, and a directory for its gateway.
struct Host {
    namespace: Namespace,
    directory: PathBuf,
}

impl Host {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let host = Host { namespace: Namespace::new().unwrap(), directory };
        for (name, v4, v6) in [
            ("lan", "10.1.0.1/24", "fd01::1/64"),
            ("path1", "10.9.1.1/24", "fd09:1::1/64"),
            ("path2", "10.9.2.1/24", "fd09:2::1/64"),
        ] {
            let far = format!("far-{name}");
            host.ip(&["link", "add", name, "type", "veth", "peer", "name", &far]);
            host.namespace.run(|| [name, &far].map(|name| interface::set_up(name).unwrap())).unwrap();
            host.ip(&["addr", "add", v4, "dev", name]);
            host.ip(&["-6", "addr", "add", v6, "dev", name, "nodad"]);
        }
        wait_for_cables([&host.namespace]).unwrap();
        for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            host.namespace.run(|| fs::write(format!("/proc/sys/net/{name}"), "1")).unwrap().unwrap();
        }
        fs::write(host.directory.join("bonded.toml"), CONFIG).unwrap();
        let threads = CONFIG.replace("[bonded]\n", "[bonded]\nthreads = 3\n");
        fs::write(host.directory.join("threads.toml"), threads).unwrap();
        fs::write(host.directory.join("direct.toml"), DIRECT).unwrap();
        let key = Command::new(program()).args(["key", "private"]).output().unwrap();
        fs::write(host.directory.join("gateway.key"), key.stdout).unwrap();
        fs::set_permissions(host.directory.join("gateway.key"), Permissions::from_mode(0o600)).unwrap();
        host
    }

    fn ip(&self, arguments: &[&str]) -> String {
        run_ip(&self.namespace, arguments).unwrap()
    }

    /// Interfaces, rules and routes, but for routes to this host's own addresses, which the kernel adds in its own time.
    fn network(&self) -> String {
        let links: String = self.ip(&["-br", "link"]).lines().map(|line| format!("{}\n", &line[..16])).collect();
        let rules = ["-4", "-6"].map(|family| self.ip(&[family, "rule"])).concat();
        let routes = ["-4", "-6"].map(|family| self.ip(&[family, "route", "show", "table", "all"])).concat();
        let routes: String = routes.split_inclusive('\n').filter(|line| !line.contains(" table local ")).collect();
        links + &rules + &routes
    }

    fn command(&self, wrapper: &[&str], program: &str, config: &str) -> Command {
        let words = [wrapper, &[program, "gateway", "--config", config]].concat();
        let mut command = self.namespace.command(words[0]);
        command.args(&words[1..]).env("XDG_RUNTIME_DIR", &self.directory).current_dir(&self.directory);
        command.stderr(Stdio::piped());
        command
    }

    /// The records of changes that were not undone.
    fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.join("kumade")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn program() -> String {
    assert_cmd::cargo::cargo_bin("kumade").display().to_string()
}

/// Waits for the line that says that it runs, and ends it. Returns all that it has said.
fn started_and_ended(mut child: Child, while_running: impl FnOnce()) -> String {
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    while !line.contains("Ctrl-C ends it") {
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {line}");
    }
    while_running();
    let ended = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let status = child.wait().unwrap();
    said.read_to_string(&mut line).unwrap();
    assert!(ended.is_ok() && status.success(), "{line}");
    line
}

#[test]
fn whenever_it_is_killed_the_next_start_leaves_nothing_of_it() {
    in_namespaces("whenever_it_is_killed_the_next_start_leaves_nothing_of_it", || {
        let host = Host::new("bonded-killed");
        let before = host.network();
        for number in 0..20 {
            let config = if number % 2 == 0 { "bonded.toml" } else { "threads.toml" };
            let mut child = host.command(&[], &program(), config).spawn().unwrap();
            // A start takes some 30 ms: half of them fall into it.
            thread::sleep(Duration::from_millis(number * 17 % 60));
            child.kill().unwrap();
            child.wait().unwrap();
            // The device goes with the process, and all routes through it.
            assert!(eventually(|| !host.ip(&["-br", "link"]).contains("kumade0")));
        }
        let child = host.command(&[], &program(), "bonded.toml").spawn().unwrap();
        let line = started_and_ended(child, || {
            let during = host.network();
            for part in ["kumade0", "fwmark 0x6b42 lookup 27458", "10.2.0.0/24 dev kumade0", "fd02::/64 dev kumade0"] {
                assert_eq!(during.matches(part).count().min(1), 1, "{part}: {during}");
            }
            assert_eq!(during.matches("lookup 2745").count(), 3, "{during}");
        });
        assert!(line.contains("2 paths carry the tunnel kumade0"), "{line}");
        assert_eq!(host.network(), before);
        assert_eq!(host.records(), Vec::<PathBuf>::new());
    });
}

#[test]
fn a_gateway_runs_with_what_it_needs_alone() {
    in_namespaces("a_gateway_runs_with_what_it_needs_alone", || {
        let host = Host::new("gateway-confined");
        let before = host.network();
        for config in ["bonded.toml", "threads.toml", "direct.toml"] {
            let child = host.command(&[], &program(), config).spawn().unwrap();
            let process = child.id();
            let is_confined = || privileges::of(process) == privileges::confined();
            let while_running = || assert!(eventually(is_confined), "{config}: {:?}", privileges::of(process));
            let said = started_and_ended(child, while_running);
            assert!(said.contains("Landlock") && !said.contains("warning"), "{said}");
            // It has put all back nevertheless.
            assert_eq!((host.network(), host.records()), (before.clone(), Vec::new()));
        }
        let child = host.command(&[], &program(), "bonded.toml").arg("--keep-privileges").spawn().unwrap();
        let process = child.id();
        started_and_ended(child, || assert!(privileges::are_kept(process)));
    });
}

#[test]
fn a_gateway_that_is_killed_after_a_reload_leaves_nothing_to_the_next_start() {
    in_namespaces("a_gateway_that_is_killed_after_a_reload_leaves_nothing_to_the_next_start", || {
        let host = Host::new("bonded-reloaded");
        let before = host.network();
        fs::write(host.directory.join("site.toml"), CONFIG).unwrap();
        let mut child = host.command(&[], &program(), "site.toml").spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut wait_for = |text: &str| {
            let mut line = String::new();
            while !line.contains(text) {
                assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {line}");
            }
        };
        wait_for("confined:");
        let table = |number: &str| host.ip(&["route", "show", "table", number]);
        assert!(table("27458").contains("via 10.9.2.2 dev path2"), "{}", table("27458"));
        let next_hop = CONFIG.replace("10.9.2.2", "10.9.2.3");
        fs::write(host.directory.join("site.toml"), &next_hop).unwrap();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGHUP).unwrap();
        wait_for("changed: path two: IPv4 gateway: 10.9.2.3 in place of 10.9.2.2");
        assert!(table("27458").contains("via 10.9.2.3 dev path2"), "{}", table("27458"));
        let start = CONFIG.find("[[path]]\nname = \"two\"").unwrap();
        let end = CONFIG.find("[[remote]]").unwrap();
        let one_path = [&CONFIG[..start], &CONFIG[end..]].concat().replace(", \"192.0.2.2\"", "");
        fs::write(host.directory.join("site.toml"), one_path).unwrap();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGHUP).unwrap();
        wait_for("changed: path two: removed");
        assert!(!host.network().contains("27458") && table("27457").contains("via 10.9.1.2"), "{}", host.network());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(eventually(|| !host.ip(&["-br", "link"]).contains("kumade0")));
        started_and_ended(host.command(&[], &program(), "bonded.toml").spawn().unwrap(), || {});
        assert_eq!((host.network(), host.records()), (before, Vec::new()));
    });
}

/// As a PPP connection does, or a modem that is plugged in again.
#[test]
fn a_path_follows_an_interface_that_is_deleted_and_made_again() {
    in_namespaces("a_path_follows_an_interface_that_is_deleted_and_made_again", || {
        let host = Host::new("bonded-interface");
        for config in ["bonded.toml", "threads.toml"] {
            let child = host.command(&[], &program(), config).spawn().unwrap();
            let said = started_and_ended(child, || {
                host.ip(&["link", "del", "path2"]);
                host.ip(&["link", "add", "path2", "type", "veth", "peer", "name", "far-path2"]);
                for name in ["path2", "far-path2"] {
                    host.namespace.run(|| interface::set_up(name).unwrap()).unwrap();
                }
                host.ip(&["addr", "add", "10.9.2.1/24", "dev", "path2"]);
                // The kernel looks for the next hop once the gateway sends by it.
                let is_used = || host.ip(&["neigh", "show", "dev", "path2"]).contains("10.9.2.2");
                assert!(eventually(is_used));
            });
            assert!(said.contains("path2 is a new interface"), "{said}");
        }
    });
}

#[test]
fn check_and_start_refuse_what_cannot_work_and_say_what_may_not() {
    in_namespaces("check_and_start_refuse_what_cannot_work_and_say_what_may_not", || {
        let host = Host::new("gateway-refused");
        let key = fs::File::open(host.directory.join("gateway.key")).unwrap();
        let own = Command::new(program()).args(["key", "public"]).stdin(key).output().unwrap();
        let own = String::from_utf8(own.stdout).unwrap().trim().to_owned();
        let other = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f";
        let check = |config: &str| {
            let arguments = ["gateway", "check", config];
            let output =
                host.namespace.command(program()).args(arguments).current_dir(&host.directory).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        for (name, from, to, said) in [
            ("own.toml", other, own.as_str(), "is this gateway's own public key"),
            ("off.toml", "10.9.2.2", "192.0.2.254", "is not on the link of path2"),
        ] {
            fs::write(host.directory.join(name), CONFIG.replace(from, to)).unwrap();
            let (status, checked) = check(name);
            let started = host.command(&[], &program(), name).output().unwrap();
            let started_text = String::from_utf8(started.stderr).unwrap();
            assert_eq!((status, started.status.code()), (Some(1), Some(1)), "{checked}{started_text}");
            assert!(checked.contains(said) && started_text.contains(said), "{checked}{started_text}");
        }
        assert_eq!(check("bonded.toml"), (Some(0), String::new()));
        host.namespace.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "0")).unwrap().unwrap();
        let (status, warned) = check("bonded.toml");
        assert!(status == Some(0) && warned.contains("warning: this host does not forward IPv4 packets"), "{warned}");
        assert!(warned.contains("sysctl -w net.ipv4.ip_forward=1"), "{warned}");
    });
}

/// As the unit in docs/gateway.md has it.
#[test]
fn two_capabilities_are_all_that_either_plane_takes() {
    in_namespaces("two_capabilities_are_all_that_either_plane_takes", || {
        let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
        let may_change_user = fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295");
        let is_open_to_all =
            fs::metadata("/dev/net/tun").is_ok_and(|device| device.permissions().mode() & 0o006 == 0o006);
        let (Some(setpriv), true, true) = (setpriv, may_change_user, is_open_to_all) else {
            eprintln!("not tested: it takes root, setpriv(1), and a /dev/net/tun that is open to all");
            return;
        };
        let host = Host::new("bonded-rights");
        const NOBODY: u32 = 65534;
        // Where it was built, not everyone may read.
        let copy = host.directory.join("program").display().to_string();
        fs::copy(program(), &copy).unwrap();
        for path in ["", "gateway.key"] {
            chown(host.directory.join(path), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let before = host.network();
        const SETS: [&str; 3] = ["--inh-caps", "--ambient-caps", "--bounding-set"];
        let sets = SETS.map(|set| format!("{set}=-all,+net_admin,+net_raw"));
        let wrapper = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
        let wrapper = [&wrapper[..], &sets.each_ref().map(String::as_str)].concat();
        for (config, running) in [
            ("bonded.toml", "2 paths carry the tunnel"),
            ("threads.toml", "2 paths carry the tunnel"),
            ("direct.toml", "divided among 2 paths"),
        ] {
            let child = host.command(&wrapper, &copy, config).spawn().unwrap();
            let line = started_and_ended(child, || {
                let owner = fs::metadata(host.directory.join("kumade")).unwrap();
                assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), NOBODY);
            });
            assert!(line.contains(running), "{line}");
            assert_eq!(host.network(), before);
        }
    });
}
