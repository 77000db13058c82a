//! `kumade gateway` with the bonded plane, as people use it: two configuration files, two keys, two processes.

use crate::soak;

use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{eventually, in_namespaces, run_ip, wait_for_cables};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A gateway in a namespace of its own. Left is 1, right is 2.
struct Site {
    namespace: Namespace,
    directory: PathBuf,
    number: u8,
}

impl Site {
    fn new(test: &str, number: u8) -> Self {
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{number}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Site { namespace: Namespace::new().unwrap(), directory, number }
    }

    fn key(&self) -> String {
        let file = self.directory.join("gateway.key");
        let private = ["key", "private", "--output", file.to_str().unwrap()];
        assert!(program().args(private).status().unwrap().success());
        let public = program().args(["key", "public"]).stdin(fs::File::open(file).unwrap()).output().unwrap();
        String::from_utf8(public.stdout).unwrap().trim().to_owned()
    }

    fn write_config(&self, far_key: &str, threads: usize) {
        let (own, far) = (self.number, 3 - self.number);
        let key = self.directory.join("gateway.key");
        let path = |number: u8| format!("[[path]]\nname = \"path{number}\"\ninterface = \"path{number}\"\n");
        let text = format!(
            "[gateway]\nname = \"site{own}\"\nplane = \"bonded\"\nprometheus = \"9273\"\n\
             [bonded]\nkey = \"{}\"\ndevice = \"tunnel\"\naddresses = [\"10.8.0.{own}/32\"]\n\
             threads = {threads}\n{}{}\
             [[remote]]\nname = \"site{far}\"\nnetworks = [\"10.8.0.{far}/32\"]\npublic-key = \"{far_key}\"\n\
             addresses = [\"10.9.1.{far}\", \"10.9.2.{far}\"]\n",
            key.display(),
            path(1),
            path(2)
        );
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.directory.join("site.toml")
    }

    fn start(&self) -> Child {
        self.gateway(["--config", self.config().to_str().unwrap()]).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn gateway<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.namespace.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.arg("gateway").args(arguments).env("XDG_RUNTIME_DIR", &self.directory);
        command
    }

    fn status(&self, more: &[&str]) -> String {
        let output = self.gateway(["status"]).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Of the published schema.
    fn document(&self) -> Value {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.gateway.1.json");
        let schema = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let document = serde_json::from_str(&self.status(&["--json"])).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        document
    }

    fn metrics(&self) -> String {
        let mut metrics = String::new();
        let mut stream = self.namespace.run(|| TcpStream::connect("127.0.0.1:9273").unwrap()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        stream.read_to_string(&mut metrics).unwrap();
        metrics
    }

    fn socket(&self) -> UdpSocket {
        let bind = || UdpSocket::bind((format!("10.8.0.{}", self.number), 9)).unwrap();
        let socket = self.namespace.run(bind).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Two sites with two paths between them.
fn joined_sites(test: &str) -> [Site; 2] {
    let [left, right] = [1, 2].map(|number| Site::new(test, number));
    for path in ["path1", "path2"] {
        let far = right.namespace.path();
        run_ip(&left.namespace, &["link", "add", path, "type", "veth", "peer", "name", path, "netns", &far]).unwrap();
        for site in [&left, &right] {
            site.namespace.run(|| interface::set_up(path)).unwrap().unwrap();
            let address = format!("10.9.{}.{}/24", &path[4..], site.number);
            run_ip(&site.namespace, &["addr", "add", &address, "dev", path]).unwrap();
        }
    }
    wait_for_cables([&left.namespace, &right.namespace]).unwrap();
    [left, right]
}

fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("kumade"))
}

fn wait_until_connected(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with(": connected")), "it ended");
    // The rest is read, too, or the program would block or fail.
    std::thread::spawn(move || lines.for_each(drop));
}

/// Sends a packet through the tunnel; tells whether it comes.
fn arrives(from: &Site, to: &Site) -> impl FnMut() -> bool {
    let (near, far) = (from.socket(), to.socket());
    let mut buffer = [0; 8];
    move || near.send_to(b"question", "10.8.0.2:9").is_ok() && far.recv(&mut buffer).is_ok()
}

fn has_device(site: &Site) -> bool {
    run_ip(&site.namespace, &["-o", "link"]).unwrap().contains("tunnel")
}

#[test]
fn two_sites_are_joined_until_one_ends() {
    in_namespaces("two_sites_are_joined_until_one_ends", || {
        let [left, right] = joined_sites("bonded");
        let keys = [left.key(), right.key()];
        left.write_config(&keys[1], 2);
        right.write_config(&keys[0], 2);
        let check = left.namespace.command(assert_cmd::cargo::cargo_bin("kumade"));
        let checked = { check }.args(["gateway", "check", left.config().to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8(checked.stdout).unwrap();
        assert!(said.contains(&keys[0]) && said.contains("ip route add 10.8.0.2/32 dev tunnel"), "{said}");

        let mut gateways = [&left, &right].map(Site::start);
        gateways.iter_mut().for_each(wait_until_connected);
        assert!(eventually(arrives(&left, &right)));
        assert!(eventually(|| left.document()["remotes"][0]["tunnel"]["threads"] == 2));

        // By a signal that lets it clean up, and by one that does not.
        let signals = [Signal::SIGTERM, Signal::SIGKILL];
        for ((site, gateway), signal) in [&left, &right].into_iter().zip(&mut gateways).zip(signals) {
            assert!(has_device(site));
            // The child has not been waited for, so its number is its own.
            kill(Pid::from_raw(gateway.id().cast_signed()), signal).unwrap();
            assert_eq!(gateway.wait().unwrap().success(), signal == Signal::SIGTERM);
            assert!(eventually(|| !has_device(site)));
        }
    });
}

#[test]
fn the_status_of_a_tunnel_is_told_as_table_document_and_metrics() {
    in_namespaces("the_status_of_a_tunnel_is_told_as_table_document_and_metrics", || {
        let [left, right] = joined_sites("bonded-status");
        let keys = [left.key(), right.key()];
        left.write_config(&keys[1], 1);
        right.write_config(&keys[0], 1);
        let mut gateways = [&left, &right].map(Site::start);
        gateways.iter_mut().for_each(wait_until_connected);
        assert!(eventually(arrives(&left, &right)));

        // The status is renewed once a second.
        let tunnel = |document: &Value| document["remotes"][0]["tunnel"].clone();
        assert!(eventually(|| {
            let tunnel = tunnel(&right.document());
            tunnel["connected"] == true && tunnel["resequencing"]["in_order_packets"].as_u64() > Some(0)
        }));
        let document = left.document();
        assert_eq!((&document["name"], &document["plane"]), (&"site1".into(), &"bonded".into()));
        let tunnel = tunnel(&document);
        assert_eq!(tunnel["public_key"], keys[1]);
        let names: Vec<_> = tunnel["paths"].as_array().unwrap().iter().map(|path| path["name"].clone()).collect();
        assert_eq!(names, ["path1", "path2"]);
        assert_eq!(tunnel["paths"][0]["address"], "10.9.1.2:7273");
        let named = left.status(&["--config", left.config().to_str().unwrap()]);
        for part in ["site1 (bonded), running for ", "site2: connected for ", "\n  path1 ", "resequencing: "] {
            assert!(named.contains(part), "{part}: {named}");
        }
        let metrics = left.metrics();
        let connected = "kumade_gateway_tunnel_connected{gateway=\"site1\",remote=\"site2\"} 1";
        let sent = "kumade_gateway_tunnel_path_sent_bytes_total{gateway=\"site1\",remote=\"site2\",path=\"path1\"}";
        assert!(metrics.contains(connected) && metrics.contains(sent), "{metrics}");

        for gateway in &mut gateways {
            // The child has not been waited for, so its number is its own.
            kill(Pid::from_raw(gateway.id().cast_signed()), Signal::SIGTERM).unwrap();
            assert!(gateway.wait().unwrap().success());
        }
        let gone = left.gateway(["status", "site1"]).output().unwrap();
        assert_eq!(gone.status.code(), Some(1));
        let said = String::from_utf8_lossy(&gone.stderr);
        assert!(said.contains("no gateway called `site1` runs here; start one with `kumade gateway"), "{said}");
    });
}

#[test]
fn two_sites_are_joined_without_files() {
    in_namespaces("two_sites_are_joined_without_files", || {
        let sites = joined_sites("bonded-options");
        let keys = sites.each_ref().map(Site::key);
        let start = |site: &Site| {
            let (own, far) = (site.number, 3 - site.number);
            let key = site.directory.join("gateway.key");
            let mut command = site.gateway(["--path", "path1", "--path", "path2", "--name"]);
            command.arg(format!("site{own}")).arg("--key").arg(key);
            command.args(["--remote", &format!("10.8.0.{far}/32"), "--peer", &keys[usize::from(far) - 1]]);
            for path in [1, 2] {
                command.args(["--peer-address", &format!("10.9.{path}.{far}")]);
            }
            command.stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut gateways = sites.each_ref().map(start);
        gateways.iter_mut().for_each(wait_until_connected);
        for site in &sites {
            let address = format!("10.8.0.{}/32", site.number);
            run_ip(&site.namespace, &["addr", "add", &address, "dev", "kumade0"]).unwrap();
        }
        assert!(eventually(arrives(&sites[0], &sites[1])));
        for gateway in &mut gateways {
            // The child has not been waited for, so its number is its own.
            kill(Pid::from_raw(gateway.id().cast_signed()), Signal::SIGTERM).unwrap();
            assert!(gateway.wait().unwrap().success());
        }
        let without_peer = sites[0].gateway(["--path", "path1", "--key", "gateway.key"]).output().unwrap();
        assert_eq!(without_peer.status.code(), Some(2));
        let no_key = ["--path", "path1", "--key", "gateway.key", "--remote", "10.8.0.2/32", "--peer", "none"];
        let refused = sites[0].gateway(no_key).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.starts_with("kumade: command line: "), "{said}");
    });
}

#[test]
#[ignore = "takes a minute: cargo test -p kumade --test tests bonded -- --ignored --nocapture"]
fn paths_that_flap_for_a_minute_and_a_kill_harm_nothing() {
    in_namespaces("paths_that_flap_for_a_minute_and_a_kill_harm_nothing", || {
        let sites = joined_sites("bonded-soak");
        let keys = sites.each_ref().map(Site::key);
        sites[0].write_config(&keys[1], 2);
        sites[1].write_config(&keys[0], 2);
        let mut gateways = sites.each_ref().map(Site::start);
        gateways.iter_mut().for_each(wait_until_connected);
        let [near, far] = sites.each_ref().map(Site::socket);
        soak::run(&near, &far, &sites[0].namespace, gateways.each_ref().map(Child::id));
        for _ in 0..2 {
            for gateway in &mut gateways {
                // SIGKILL.
                gateway.kill().unwrap();
                gateway.wait().unwrap();
            }
            assert!(sites.iter().all(|site| eventually(|| !has_device(site))));
            gateways = sites.each_ref().map(Site::start);
            gateways.iter_mut().for_each(wait_until_connected);
        }
        for gateway in &mut gateways {
            gateway.kill().unwrap();
            gateway.wait().unwrap();
        }
    });
}
