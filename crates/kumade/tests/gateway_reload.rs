//! `kumade gateway --config FILE` that reads its file again by SIGHUP, while a transfer passes.

use crate::privileges;

use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces, run_ip, wait_for_cables};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A namespace, and a directory for its gateway.
struct Site {
    namespace: Namespace,
    directory: PathBuf,
}

impl Site {
    fn new(test: &str, number: usize) -> Self {
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{number}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Site { namespace: Namespace::new().unwrap(), directory }
    }

    fn ip(&self, arguments: &str) -> String {
        run_ip(&self.namespace, &arguments.split(' ').collect::<Vec<_>>()).unwrap()
    }

    /// A link with another site, with these addresses.
    fn join(&self, other: &Site, name: &str, addresses: [&str; 2]) {
        let far = other.namespace.path();
        self.ip(&format!("link add {name} type veth peer name {name} netns {far}"));
        for (site, address) in [self, other].into_iter().zip(addresses) {
            site.namespace.run(|| interface::set_up(name)).unwrap().unwrap();
            site.ip(&format!("addr add {address} dev {name}"));
        }
        wait_for_cables([&self.namespace, &other.namespace]).unwrap();
    }

    fn public_key(&self) -> String {
        let file = self.directory.join("gateway.key");
        let private = ["key", "private", "--output", file.to_str().unwrap()];
        assert!(Command::new(program()).args(private).status().unwrap().success());
        let file = fs::File::open(file).unwrap();
        let public = Command::new(program()).args(["key", "public"]).stdin(file).output().unwrap();
        String::from_utf8(public.stdout).unwrap().trim().to_owned()
    }

    fn gateway(&self, arguments: &[&str]) -> Command {
        let mut command = self.namespace.command(program());
        command.arg("gateway").args(arguments).env("XDG_RUNTIME_DIR", &self.directory).current_dir(&self.directory);
        command
    }

    fn start(&self, config: &str) -> Gateway<'_> {
        fs::write(self.directory.join("site.toml"), config).unwrap();
        let mut child = self.gateway(&["--config", "site.toml"]).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (lines, log) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&said));
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| *log.lock().unwrap() += &(line + "\n")));
        let gateway = Gateway { site: self, child, said };
        assert!(eventually(|| gateway.said().contains("Ctrl-C ends it")), "{}", gateway.said());
        gateway
    }

    fn status(&self) -> Value {
        let output = self.gateway(&["status", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin("kumade")
}

struct Gateway<'s> {
    site: &'s Site,
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Gateway<'_> {
    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Has it read this in place of its file. Waits until it has said each of the lines.
    fn reload(&self, config: &str, lines: &[&str]) {
        let before = self.said().len();
        fs::write(self.site.directory.join("site.toml"), config).unwrap();
        self.send(Signal::SIGHUP);
        let is_said = || lines.iter().all(|line| self.said()[before..].contains(line));
        assert!(eventually(is_said), "{lines:?}: {}", &self.said()[before..]);
    }

    fn end(mut self) -> String {
        self.send(Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        let said = self.said();
        assert!(status.success(), "{said}");
        said
    }
}

impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP connection that passes all the time.
struct Transfer {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    ends: Vec<JoinHandle<()>>,
}

impl Transfer {
    /// From one site to another one's address.
    fn start(from: &Site, to: &Site, address: &str) -> Self {
        let listener = to.namespace.run(|| TcpListener::bind((address, 9)).unwrap()).unwrap();
        let connect = || TcpStream::connect_timeout(&listener.local_addr().unwrap(), TEST_DEADLINE).unwrap();
        let mut near = from.namespace.run(connect).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        near.set_write_timeout(Some(TEST_DEADLINE)).unwrap();
        let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stopped) = (Arc::clone(&received), Arc::clone(&stop));
        let send = thread::spawn(move || {
            let mut number = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                let block: Vec<u8> = (0..1024).flat_map(|at| (number + at).to_be_bytes()).collect();
                near.write_all(&block).unwrap();
                number += 1024;
                thread::sleep(Duration::from_millis(2));
            }
        });
        let receive = thread::spawn(move || {
            let mut number = [0; 8];
            let mut expected = 0_u64;
            while far.read_exact(&mut number).is_ok() {
                assert_eq!(u64::from_be_bytes(number), expected);
                expected += 1;
                count.store(expected * 8, Ordering::Relaxed);
            }
        });
        Transfer { received, stop, ends: vec![send, receive] }
    }

    /// Whether it goes on.
    fn goes_on(&self) -> bool {
        let before = self.received.load(Ordering::Relaxed);
        eventually(|| self.received.load(Ordering::Relaxed) > before + 100_000)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ends.into_iter().for_each(|end| end.join().unwrap());
    }
}

/// What a bonded gateway's file may differ in.
struct Bonded<'c> {
    number: usize,
    far_key: &'c str,
    threads: usize,
    paths: usize,
    /// Of the path with the same number.
    weights: [u32; 3],
    more: &'c str,
    networks: &'c [&'c str],
    remotes: &'c str,
}

impl Bonded<'_> {
    fn config(&self) -> String {
        let Bonded { number: own, far_key, threads, paths, weights, more, networks, remotes } = self;
        let far = 3 - own;
        let path = |path: usize| {
            let weight = weights[path - 1];
            format!("[[path]]\nname = \"path{path}\"\ninterface = \"path{path}\"\nweight = {weight}\n")
        };
        let listed = |texts: Vec<String>| texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ");
        let own_networks = vec![format!("10.8.0.{far}/32")];
        let networks = own_networks.into_iter().chain(networks.iter().map(ToString::to_string)).collect();
        let addresses = (1..=*paths).map(|path| format!("10.9.{path}.{far}")).collect();
        format!(
            "[gateway]\nname = \"site\"\nplane = \"bonded\"\n\
             [bonded]\nkey = \"gateway.key\"\ndevice = \"tunnel\"\naddresses = [\"10.8.0.{own}/32\"]\n\
             threads = {threads}\n{more}\n{}\
             [[remote]]\nname = \"far\"\nnetworks = [{}]\npublic-key = \"{far_key}\"\naddresses = [{}]\n{remotes}\n",
            (1..=*paths).map(path).collect::<String>(),
            listed(networks),
            listed(addresses)
        )
    }
}

/// Whether a gateway has lost the other one, or a path to it.
fn has_failed(site: &Site) -> bool {
    let tunnel = site.status()["remotes"][0]["tunnel"].clone();
    let paths = tunnel["paths"].as_array().cloned().unwrap_or_default();
    let counts = paths.iter().map(|path| &path["failures"]).chain([&tunnel["losses"]]);
    counts.filter_map(Value::as_u64).sum::<u64>() > 0
}

/// Less than keys are used for.
const KEY_TIME: Duration = Duration::from_secs(110);

const THIRD_REMOTE: &str = "[[remote]]\nname = \"third\"\nnetworks = [\"10.30.0.0/24\"]\n\
    public-key = \"85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f\"\n";

#[test]
fn a_bonded_gateway_takes_over_what_changes_while_a_transfer_passes() {
    in_namespaces("a_bonded_gateway_takes_over_what_changes_while_a_transfer_passes", || {
        let [left, right] = [1, 2].map(|number| Site::new("reload-bonded", number));
        for path in 1..=3 {
            let addresses = [1, 2].map(|number| format!("10.9.{path}.{number}/24"));
            left.join(&right, &format!("path{path}"), [&addresses[0], &addresses[1]]);
        }
        let keys = [&left, &right].map(Site::public_key);
        let before = left.ip("route");
        for threads in [1, 3] {
            let new = |number: usize| Bonded {
                number,
                far_key: &keys[2 - number],
                threads,
                paths: 2,
                weights: [1; 3],
                more: "",
                networks: &[],
                remotes: "",
            };
            let [one, two] = [new(1), new(2)].map(|config| config.config());
            let begun = Instant::now();
            let (near, far) = (left.start(&one), right.start(&two));
            assert!(eventually(|| near.said().contains("far: connected")), "{}", near.said());
            let transfer = Transfer::start(&left, &right, "10.8.0.2");
            assert!(transfer.goes_on());
            // Both ends may have begun handshakes.
            let mut keys_before = Value::Null;
            let is_told = || {
                let tunnel = left.status()["remotes"][0]["tunnel"].clone();
                keys_before = tunnel["key_changes"].clone();
                tunnel["paths"].as_array().is_some_and(|paths| paths.iter().all(|path| path["state"] == "up"))
            };
            assert!(eventually(is_told), "{}", left.status());
            near.reload(&one, &["site.toml: read again, nothing has changed"]);
            // A network.
            let config = Bonded { networks: &["10.20.0.0/16"], ..new(1) }.config();
            near.reload(&config, &["changed: remote far: network 10.20.0.0/16: added"]);
            assert!(left.ip("route").contains("10.20.0.0/16 dev tunnel"), "{}", left.ip("route"));
            assert!(transfer.goes_on());
            near.reload(&one, &["changed: remote far: network 10.20.0.0/16: removed"]);
            assert!(!left.ip("route").contains("10.20.0.0/16"), "{}", left.ip("route"));
            assert!(transfer.goes_on());
            // A path: at one end, then at the other one.
            let with_path = |number| Bonded { paths: 3, ..new(number) }.config();
            near.reload(&with_path(1), &["changed: path path3: added", "far: addresses: 10.9.1.2"]);
            assert!(transfer.goes_on());
            far.reload(&with_path(2), &["changed: path path3: added"]);
            let is_up = || left.status()["paths"][2]["up"] == Value::Bool(true);
            assert!(eventually(is_up), "{}", left.status());
            assert!(transfer.goes_on());
            // Weights.
            let weights = Bonded { paths: 3, weights: [1, 4, 2], more: "choice = \"ratio\"", ..new(1) }.config();
            let lines = ["path path2: weight: 4 in place of 1", "choice: ratio in place of earliest-arrival"];
            near.reload(&weights, &lines);
            assert!(transfer.goes_on());
            // A remote gateway.
            let remotes = THIRD_REMOTE;
            near.reload(&Bonded { paths: 3, remotes, ..new(1) }.config(), &["changed: remote third: added"]);
            assert!(left.ip("route").contains("10.30.0.0/24 dev tunnel"), "{}", left.ip("route"));
            assert_eq!(left.status()["remotes"].as_array().map(Vec::len), Some(2), "{}", left.status());
            assert!(transfer.goes_on());
            near.reload(&with_path(1), &["changed: remote third: removed"]);
            assert!(transfer.goes_on());
            // What cannot change, and what makes no sense, changes nothing.
            let wrong = "the configuration stays as it was";
            for (from, to, key) in [
                ("name = \"site\"", "name = \"other\"", "`name` in [gateway] cannot change"),
                ("[bonded]", "[bonded]\nport = 7000", "`port` in [bonded] cannot change"),
                ("device = \"tunnel\"", "device = \"other\"", "`device` in [bonded] cannot change"),
                ("10.8.0.2/32", "10.8.0.256/32", "is no network"),
                ("interface = \"path3\"", "interface = \"path4\"", "no interface `path4`"),
                // What the system refuses last, once all else has changed.
                ("addresses = [\"10.8.0.1/32\"]", "addresses = [\"10.8.0.1/32\", \"ff02::7/128\"]", "ff02::7"),
            ] {
                let config = Bonded { networks: &["10.20.0.0/16"], ..new(1) }.config();
                near.reload(&config.replace("path2", "path3").replacen(from, to, 1), &[wrong, key]);
                assert!(!left.ip("route").contains("10.20.0.0/16"), "{}", left.ip("route"));
                assert_eq!(left.status()["paths"].as_array().map(Vec::len), Some(3), "{}", left.status());
            }
            assert!(transfer.goes_on());
            // A path is no more.
            far.reload(&two, &["changed: path path3: removed"]);
            near.reload(&one, &["changed: path path3: removed"]);
            assert!(transfer.goes_on());
            // After all of it, both paths carry what they did.
            let tunnel = || left.status()["remotes"][0]["tunnel"].clone();
            let is_whole = || {
                let paths = tunnel()["paths"].as_array().cloned().unwrap_or_default();
                let is_up = |(path, number): (&Value, usize)| {
                    path["state"] == "up" && path["address"] == format!("10.9.{number}.2:7273")
                };
                paths.len() == 2 && paths.iter().zip(1..).all(is_up)
            };
            assert!(eventually(is_whole), "{}", tunnel());
            let tunnel = tunnel();
            assert_eq!(tunnel["restarts"], 0, "{tunnel}");
            // A busy machine may lose paths for a moment, and the peer with them; where all of this takes long, keys come of age.
            let are_kept = tunnel["losses"] == 0 && tunnel["key_changes"] == keys_before;
            let is_disturbed = || [&left, &right].into_iter().any(has_failed) || begun.elapsed() > KEY_TIME;
            assert!(are_kept || eventually(is_disturbed), "{tunnel}");
            let is_disturbed = is_disturbed();
            transfer.end();
            assert_eq!(privileges::of(near.child.id()), privileges::confined());
            let said = near.end();
            assert!(is_disturbed || !said.contains("lost") && !said.contains("not connected"), "{said}");
            far.end();
            assert_eq!(left.ip("route"), before);
        }
    });
}

/// What a direct gateway's file may differ in.
struct Direct<'c> {
    /// By the numbers of the paths.
    weights: &'c [u32],
    networks: &'c [&'c str],
    more: &'c str,
}

impl Direct<'_> {
    fn config(&self) -> String {
        let path = |(number, weight): (usize, &u32)| {
            format!(
                "[[path]]\nname = \"path{number}\"\ninterface = \"path{number}\"\ngateways = [\"10.9.{number}.2\"]\n\
                 weight = {weight}\n"
            )
        };
        let paths: String = (1..).zip(self.weights).map(path).collect();
        let networks: Vec<_> = self.networks.iter().map(|network| format!("\"{network}\"")).collect();
        format!(
            "[gateway]\nname = \"site\"\n[[local]]\ninterface = \"lan\"\nnetworks = [\"10.1.0.0/24\"]\n{paths}\
             [[remote]]\nname = \"far\"\nnetworks = [{}]\n{}",
            networks.join(", "),
            self.more
        )
    }
}

#[test]
fn a_direct_gateway_takes_over_what_changes_while_a_transfer_passes() {
    in_namespaces("a_direct_gateway_takes_over_what_changes_while_a_transfer_passes", || {
        let [host, gateway, far] = [1, 2, 3].map(|number| Site::new("reload-direct", number));
        host.join(&gateway, "lan", ["10.1.0.2/24", "10.1.0.1/24"]);
        for path in 1..=3 {
            let addresses = [1, 2].map(|number| format!("10.9.{path}.{number}/24"));
            gateway.join(&far, &format!("path{path}"), [&addresses[0], &addresses[1]]);
        }
        host.ip("route add default via 10.1.0.1");
        far.ip("route add 10.1.0.0/24 via 10.9.1.1");
        far.namespace.run(|| interface::set_up("lo")).unwrap().unwrap();
        far.ip("addr add 10.2.0.1/32 dev lo");
        far.ip("addr add 10.3.0.1/32 dev lo");
        gateway.namespace.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
        let network = || gateway.ip("rule") + &gateway.ip("route show table all");
        let before = network();
        let own = ["10.2.0.0/24"];
        let first = Direct { weights: &[1, 1], networks: &own, more: "" }.config();
        let running = gateway.start(&first);
        let transfer = Transfer::start(&host, &far, "10.2.0.1");
        assert!(transfer.goes_on());
        let sent = |path: usize| gateway.status()["paths"][path]["sent"]["packets"].as_u64().unwrap_or(0);
        let is_used = |path: usize| {
            let before = sent(path);
            eventually(|| sent(path) > before)
        };
        running.reload(&first, &["site.toml: read again, nothing has changed"]);
        // A network, with another transfer that it has divided.
        let networks = ["10.2.0.0/24", "10.3.0.0/24"];
        let config = Direct { weights: &[1, 1], networks: &networks, more: "" }.config();
        running.reload(&config, &["changed: remote far: network 10.3.0.0/24: added"]);
        let other = Transfer::start(&host, &far, "10.3.0.1");
        assert!(transfer.goes_on() && other.goes_on());
        other.end();
        running.reload(&first, &["changed: remote far: network 10.3.0.0/24: removed"]);
        assert!(transfer.goes_on());
        // A path; counts go on.
        let counted = sent(0);
        let config = Direct { weights: &[1, 1, 1], networks: &own, more: "" }.config();
        running.reload(&config, &["changed: path path3: added"]);
        assert!(is_used(2) && transfer.goes_on() && sent(0) > counted);
        // Weights: one of 0 takes nothing any more.
        let config = Direct { weights: &[0, 3, 1], networks: &own, more: "" }.config();
        running
            .reload(&config, &["changed: path path1: weight: 0 in place of 1", "path path2: weight: 3 in place of 1"]);
        assert!(is_used(1) && transfer.goes_on());
        // A remote, and one less path than before.
        let third = "[[remote]]\nname = \"third\"\nnetworks = [\"10.3.0.0/24\"]\npaths = [\"path2\"]\n";
        let config = Direct { weights: &[1, 3], networks: &own, more: third }.config();
        running.reload(&config, &["changed: remote third: added", "changed: path path3: removed"]);
        assert_eq!(gateway.status()["remotes"].as_array().map(Vec::len), Some(2), "{}", gateway.status());
        assert!(is_used(0) && transfer.goes_on());
        // What makes no sense, and what cannot be, changes nothing.
        for (from, to, key) in [
            ("name = \"site\"", "name = \"other\"", "`name` in [gateway] cannot change"),
            ("10.9.2.2", "192.0.2.1", "is not on the link of path2"),
            ("weight = 3", "weight = -3", "site.toml:"),
        ] {
            let config = Direct { weights: &[5, 3, 5], networks: &own, more: "" }.config().replacen(from, to, 1);
            running.reload(&config, &["the configuration stays as it was", key]);
            assert_eq!(gateway.status()["paths"].as_array().map(Vec::len), Some(2), "{}", gateway.status());
        }
        assert!(transfer.goes_on());
        running.reload(&first, &["changed: remote third: removed"]);
        assert!(is_used(1) && transfer.goes_on());
        transfer.end();
        let said = running.end();
        assert!(!said.contains("is down"), "{said}");
        assert_eq!(network(), before);
    });
}
