//! The fast path of `kumade gateway`, which is loaded before the program gives up what that takes.

use crate::gateways::{Host, gateway};
use crate::privileges;
use kumade_net::fast_path::FastPath;
use kumade_net::nftables::{Chain, Hook, InstalledTable, Rule, Statement, Table};
use kumade_netns_testbed::{eventually, in_namespaces};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Stdio;

const CONFIG: &str = r#"
[gateway]
name = "site"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2"]

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2"]

[[remote]]
name = "far"
networks = ["10.2.0.0/24"]
"#;

#[test]
fn a_confined_gateway_uses_the_fast_path_also_at_an_interface_that_is_made_again() {
    in_namespaces("a_confined_gateway_uses_the_fast_path_also_at_an_interface_that_is_made_again", || {
        if let Err(error) = FastPath::load(1) {
            return println!("passed over: {error}");
        }
        let host = Host::new("gateway-fast-path");
        fs::write(host.directory.join("site.toml"), CONFIG).unwrap();
        let mut command = gateway(&host.namespace, &host.directory, &["--config", "site.toml"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut next_about_fast_path = || {
            let mut line = String::new();
            while !line.contains("fast path") {
                line.clear();
                assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
            }
            line
        };
        let mut expect = |text: &str| {
            let line = next_about_fast_path();
            assert!(line.contains(text), "{line}");
        };
        expect("packets take the fast path");
        host.ip(&["link", "delete", "lan"]);
        host.ip(&["link", "add", "lan", "type", "veth", "peer", "name", "far"]);
        host.ip(&["link", "set", "lan", "up"]);
        let rules = vec![Rule(vec![Statement::InputInterface("nothing".into()), Statement::Drop])];
        let chains = vec![Chain { name: "all".into(), hook: Some(Hook::Postrouting(0)), rules }];
        let table = Table { name: "firewall".into(), counters: vec![], flow_lists: vec![], chains };
        let table = host.namespace.run(|| InstalledTable::install(&table)).unwrap().unwrap();
        expect("not by the fast path: this host has the table firewall of nftables");
        drop(table);
        expect("packets take the fast path");
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
    });
}

/// As the service has them: what loading the fast path takes is not for the command.
#[test]
fn commands_on_events_do_not_get_the_capabilities_of_the_fast_path() {
    in_namespaces("commands_on_events_do_not_get_the_capabilities_of_the_fast_path", || {
        let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
        let (Some(setpriv), Ok(_)) = (setpriv, FastPath::load(1)) else {
            return println!("passed over: it takes setpriv(1), and a kernel that lets a fast path in");
        };
        const NOBODY: u32 = 65534;
        let host = Host::new("gateway-commands");
        let command = "grep CapEff /proc/self/status > new && mv new seen";
        let config = CONFIG.replace("name = \"site\"", &format!("name = \"site\"\non-event = \"{command}\""));
        fs::write(host.directory.join("site.toml"), config).unwrap();
        chown(&host.directory, Some(NOBODY), Some(NOBODY)).unwrap();
        // Where it was built, not everyone may read.
        let copy = host.directory.join("program");
        fs::copy(assert_cmd::cargo::cargo_bin("kumade"), &copy).unwrap();
        let sets = ["--inh-caps", "--ambient-caps", "--bounding-set"];
        let mut gateway = host.namespace.command(setpriv);
        gateway.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
        gateway.args(sets.map(|set| format!("{set}=-all,+net_admin,+net_raw,+bpf,+perfmon")));
        gateway.arg(copy).args(["gateway", "--config", "site.toml"]);
        gateway.env("XDG_RUNTIME_DIR", &host.directory).current_dir(&host.directory);
        let mut child = gateway.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Where the kernel has the modules of the older iptables, only root sees whether they have tables: then, packets do not take it.
        assert!(lines.any(|line| line.unwrap().contains("fast path")));
        std::thread::spawn(move || lines.for_each(drop));
        host.ip(&["link", "set", "path1", "down"]);
        let seen = || fs::read_to_string(host.directory.join("seen")).unwrap_or_default();
        assert!(eventually(|| !seen().is_empty()));
        let (_, effective) =
            seen().split_once('\t').map(|(name, value)| (name.to_owned(), value.trim().to_owned())).unwrap();
        assert_eq!(u64::from_str_radix(&effective, 16).unwrap(), privileges::NETWORK);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
    });
}
