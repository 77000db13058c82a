//! The fast path of `kumade gateway`, which is loaded before the program gives up what that takes.

use crate::gateways::{Host, gateway};
use kumade_net::fast_path::FastPath;
use kumade_net::nftables::{Chain, Hook, InstalledTable, Rule, Statement, Table};
use kumade_netns_testbed::in_namespaces;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
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
