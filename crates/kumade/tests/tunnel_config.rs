//! `kumade tunnel --config` and `kumade tunnel check`: a file, which is read again while the tunnel runs.

use crate::tunnel_ends;

use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tunnel_ends::{Keys, end_with, hosts, lines, program, wait_for};

/// A configuration file beside the keys.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn new(keys: &Keys, name: &str) -> Self {
        ConfigFile(keys.file(1).with_file_name(name))
    }

    fn write(&self, text: &str) {
        fs::write(&self.0, text).unwrap();
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

fn reload(end: &Child) {
    // The child has not been waited for, so its number is its own.
    kill(Pid::from_raw(end.id().cast_signed()), Signal::SIGHUP).unwrap();
}

fn document(keys: &Keys, name: &str) -> Value {
    let status = program()
        .args(["tunnel", "status", name, "--json"])
        .env("XDG_RUNTIME_DIR", keys.file(1).parent().unwrap())
        .output()
        .unwrap();
    serde_json::from_slice(&status.stdout).unwrap_or_default()
}

/// How often either end has lost the other one, or the path to it.
fn failures(keys: &Keys) -> u64 {
    let of_end = |name| {
        let document = document(keys, name);
        let tunnel = &document["peers"][0]["packets"]["tunnel"];
        let paths = tunnel["paths"].as_array().cloned().unwrap_or_default();
        let counts = paths.iter().map(|path| &path["failures"]).chain([&tunnel["losses"]]);
        counts.filter_map(Value::as_u64).sum::<u64>()
    };
    // Of the one that connects, as its device.
    ["far", "kumade0"].map(of_end).iter().sum()
}

/// Bytes that one host sends to the other on one connection, in order and without an end.
struct Transfer {
    received_bytes: Arc<AtomicU64>,
    is_ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    /// To a listener at the right host, by this address seen from the left one.
    fn begin(hosts: &VethHosts, listener: TcpListener, to: &str) -> Self {
        let (received_bytes, is_ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut near = hosts.left.run(|| TcpStream::connect(to).unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        let ended = Arc::clone(&is_ended);
        let sender = thread::spawn(move || {
            let mut sent = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                let block: Vec<u8> = (sent..sent + 1000).map(|place| (place % 251) as u8).collect();
                near.write_all(&block).unwrap();
                sent += 1000;
                thread::sleep(Duration::from_millis(1));
            }
        });
        let (received, ended) = (Arc::clone(&received_bytes), Arc::clone(&is_ended));
        let receiver = thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let count = match far.read(&mut buffer) {
                    Ok(count) => count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nothing comes any more"),
                    Err(error) => panic!("the connection is gone: {error}"),
                };
                if count == 0 {
                    assert!(ended.load(Ordering::Relaxed), "it ended");
                    return;
                }
                let before = received.load(Ordering::Relaxed);
                assert!((before..).zip(&buffer[..count]).all(|(place, byte)| *byte == (place % 251) as u8));
                received.store(before + count as u64, Ordering::Relaxed);
            }
        });
        Transfer { received_bytes, is_ended, threads: vec![sender, receiver] }
    }

    /// Waits until what is sent from now on arrives.
    fn wait_for_progress(&self) {
        let before = self.received_bytes.load(Ordering::Relaxed);
        assert!(eventually(|| self.received_bytes.load(Ordering::Relaxed) > before + 20_000));
    }

    fn end(self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn peer_text(name: &str, key: &str, networks: &str) -> String {
    format!("[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nnetworks = [{networks}]\n")
}

fn wait_for_reload(end: &Child, said: &Receiver<String>, outcome: &str) -> String {
    reload(end);
    wait_for(said, outcome)
}

/// Less than keys are used for.
const KEY_TIME: Duration = Duration::from_secs(110);

const UNCHANGED: &str = "the configuration stays as it was";

/// Peers come and go, networks change, and files with faults change nothing, while another peer's transfer goes on.
fn changes_others_while_a_transfer_goes_on(test: &str, carrier: &str) {
    in_namespaces(test, || {
        let (hosts, keys, others) = (hosts(), Keys::new(test), Keys::new(&format!("{test}-other")));
        let config = ConfigFile::new(&keys, "far.toml");
        let tunnel = |more: &str| {
            let key = keys.file(2);
            format!(
                "[tunnel]\nname = \"far\"\nkey = \"{}\"\naddresses = [\"10.77.0.2/24\", \"10.78.0.2/24\"]\ncarrier = \"{carrier}\"\n{more}\n",
                key.display()
            )
        };
        let listen = tunnel("listen = \"443\"");
        let stays = |networks| peer_text("stays", &keys.public(1), networks);
        let comes = peer_text("comes", &others.public(1), "\"10.78.0.1\"");
        config.write(&format!("{listen}{}", stays("\"10.77.0.1\"")));
        let mut far = keys.plain_command(&hosts.right, &["--config", config.name()]);
        let mut far = far.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let said = lines(&mut far);
        wait_for(&said, "confined");
        let begun = Instant::now();
        let mut near = keys.end(&hosts, 1, &["--address", "10.77.0.1/24", "--carrier", carrier]).spawn().unwrap();
        let near_said = lines(&mut near);
        wait_for(&near_said, ": connected");
        let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:9").unwrap()).unwrap();
        let transfer = Transfer::begin(&hosts, listener, "10.77.0.2:9");
        transfer.wait_for_progress();
        // With `auto`, both ends may have begun handshakes.
        let mut before = Value::Null;
        let is_told = || {
            before = document(&keys, "far")["peers"][0].take();
            before["packets"]["received"]["bytes"].as_u64().is_some_and(|received| received > 20_000)
        };
        assert!(eventually(is_told), "{before}");
        let failures_before = failures(&keys);

        // A peer comes, before the one that stays.
        config.write(&format!("{listen}{comes}{}", stays("\"10.77.0.1\"")));
        wait_for_reload(&far, &said, &format!("changed: peer comes ({}): added", others.public(1)));
        let other_key = others.public(2);
        let far_key = keys.public(2);
        assert_ne!(other_key, far_key);
        let connect =
            ["connect", "10.79.0.2:443", "--device", "kumade1", "--address", "10.78.0.1/24", "--carrier", carrier];
        let connect = [&connect[..], &["--peer", &far_key]].concat();
        let mut another = others.command(&hosts.left, 1, &connect).spawn().unwrap();
        wait_for(&lines(&mut another), ": connected");
        wait_for(&said, "comes: connected");
        transfer.wait_for_progress();

        // A network comes.
        config.write(&format!("{listen}{comes}{}", stays("\"10.77.0.1\", \"10.88.0.0/24\"")));
        wait_for_reload(&far, &said, "changed: peer stays: network 10.88.0.0/24: added");
        let routes = || run_ip(&hosts.right, &["route"]).unwrap();
        assert!(routes().contains("10.88.0.0/24 dev kumade0"), "{}", routes());

        // What cannot be changes nothing.
        for (text, reason) in [
            (
                format!("{}{comes}{}", tunnel("listen = \"444\""), stays("\"10.77.0.1\"")),
                "`listen` in [tunnel] cannot change while",
            ),
            (
                format!("{listen}device = \"other\"\n{}", stays("\"10.77.0.1\"")),
                "`device` in [tunnel] cannot change while",
            ),
            (format!("{listen}nonsense = 1\n{}", stays("\"10.77.0.1\"")), "far.toml:7: unknown field `nonsense`"),
            (format!("{listen}{}", stays("\"10.77.0.0.1\"")), "far.toml:10:"),
            (
                format!("{listen}{comes}{}", stays("\"10.78.0.1\"")),
                "far.toml:14: two peers have the network 10.78.0.1/32",
            ),
            (listen.clone(), "no peer"),
        ] {
            config.write(&text);
            let line = wait_for_reload(&far, &said, UNCHANGED);
            assert!(line.contains(" ERROR ") && line.contains(reason), "{reason}: {line}");
        }
        assert!(routes().contains("10.88.0.0/24 dev kumade0"), "{}", routes());
        fs::remove_file(&config.0).unwrap();
        assert!(wait_for_reload(&far, &said, UNCHANGED).contains("cannot read the configuration"));

        // The peer and the network go.
        config.write(&format!("{listen}{}", stays("\"10.77.0.1\"")));
        wait_for_reload(&far, &said, &format!("changed: peer comes ({}): removed", others.public(1)));
        wait_for(&said, "changed: peer stays: network 10.88.0.0/24: removed");
        assert!(!routes().contains("10.88.0.0/24"), "{}", routes());
        transfer.wait_for_progress();
        // All of it over the session and the paths of the beginning.
        let bytes = transfer.received_bytes.load(Ordering::Relaxed);
        let mut peer = Value::Null;
        let is_told = || {
            let peers = document(&keys, "far")["peers"].take();
            peer = peers[0].clone();
            peers.as_array().is_some_and(|peers| peers.len() == 1)
                && peer["packets"]["received"]["bytes"].as_u64().is_some_and(|received| received > bytes)
                && peer["packets"]["tunnel"]["connected"] == true
        };
        assert!(eventually(is_told), "{peer}");
        assert_eq!(peer["name"], "stays", "{peer}");
        let tunnels = [&before, &peer].map(|peer| &peer["packets"]["tunnel"]);
        let changes = |count: &str| tunnels.map(|tunnel| tunnel[count].as_u64().unwrap());
        assert_eq!(changes("restarts")[0], changes("restarts")[1], "{tunnels:?}");
        // A busy machine may lose the path for a moment, and where all of this takes long, keys come of age: then there are others.
        let is_due = || failures(&keys) != failures_before || begun.elapsed() > KEY_TIME;
        assert!(changes("key_changes")[0] == changes("key_changes")[1] || eventually(is_due), "{tunnels:?}");
        transfer.end();
        for end in [&mut another, &mut near, &mut far] {
            end_with(end, Signal::SIGTERM);
        }
    });
}

#[test]
fn datagrams_go_on_while_others_come_and_go() {
    changes_others_while_a_transfer_goes_on("datagrams_go_on_while_others_come_and_go", "udp");
}

#[test]
fn connections_go_on_while_others_come_and_go() {
    changes_others_while_a_transfer_goes_on("connections_go_on_while_others_come_and_go", "rake");
}

#[test]
fn either_goes_on_while_others_come_and_go() {
    changes_others_while_a_transfer_goes_on("either_goes_on_while_others_come_and_go", "auto");
}

/// Forwardings come and go, and what may be reached, while a stream goes on.
#[test]
fn streams_go_on_while_forwardings_come_and_go() {
    const TEST: &str = "streams_go_on_while_forwardings_come_and_go";
    in_namespaces(TEST, || {
        let (hosts, keys) = (hosts(), Keys::new(TEST));
        let [near, far] = ["near.toml", "far.toml"].map(|name| ConfigFile::new(&keys, name));
        let far_text = |allowed: &str| {
            format!("[tunnel]\nlisten = \"443\"\nallow = [{allowed}]\n[[peer]]\npublic-key = \"{}\"\n", keys.public(1))
        };
        let near_text = |forwards: &str| {
            format!(
                "[tunnel]\nconnect = \"10.79.0.2:443\"\nforwards = [{forwards}]\n[[peer]]\npublic-key = \"{}\"\n",
                keys.public(2)
            )
        };
        far.write(&far_text("\"127.0.0.1:9\", \"127.0.0.1:10\""));
        near.write(&near_text("\"1009:127.0.0.1:9\", \"2010:127.0.0.1:10\""));
        let mut ends = [(&hosts.right, 2, &far), (&hosts.left, 1, &near)].map(|(inside, number, config)| {
            let mut end = keys.command(inside, number, &["--config", config.name()]).spawn().unwrap();
            let said = lines(&mut end);
            wait_for(&said, "confined");
            (end, said)
        });
        let listen = |address: &str| hosts.right.run(|| TcpListener::bind(address).unwrap()).unwrap();
        let connect = |address: &str| hosts.left.run(|| TcpStream::connect(address)).unwrap();
        let transfer = Transfer::begin(&hosts, listen("127.0.0.1:9"), "127.0.0.1:1009");
        transfer.wait_for_progress();
        let ten = listen("127.0.0.1:10");
        let mut stream = connect("127.0.0.1:2010").unwrap();
        stream.write_all(b"?").unwrap();
        let mut target = ten.accept().unwrap().0;
        target.read_exact(&mut [0]).unwrap();

        // It may be reached no longer, and something else may.
        far.write(&far_text("\"127.0.0.1:9\", \"127.0.0.1:11\""));
        wait_for_reload(&ends[0].0, &ends[0].1, "changed: allowed target 127.0.0.1:11: added");
        for end in [&mut stream, &mut target] {
            end.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
            match end.read(&mut [0]) {
                Ok(count) => assert_eq!(count, 0, "nobody has sent it anything"),
                Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "it goes on"),
            }
        }
        near.write(&near_text("\"2011:127.0.0.1:11\", \"1009:127.0.0.1:9\""));
        wait_for_reload(&ends[1].0, &ends[1].1, "changed: forwarding 127.0.0.1:2011:127.0.0.1:11: added");
        assert_eq!(connect("127.0.0.1:2010").unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let eleven = listen("127.0.0.1:11");
        let mut stream = connect("127.0.0.1:2011").unwrap();
        stream.write_all(b"!").unwrap();
        eleven.accept().unwrap().0.read_exact(&mut [0]).unwrap();
        transfer.wait_for_progress();

        // A port that is taken is refused, and those of before stay.
        let _taken = hosts.left.run(|| TcpListener::bind("127.0.0.1:3000").unwrap()).unwrap();
        near.write(&near_text("\"3000:127.0.0.1:11\""));
        let line = wait_for_reload(&ends[1].0, &ends[1].1, UNCHANGED);
        assert!(line.contains("127.0.0.1:3000"), "{line}");
        connect("127.0.0.1:2011").unwrap();
        transfer.wait_for_progress();
        transfer.end();
        ends.iter_mut().for_each(|(end, _)| assert!(end_with(end, Signal::SIGTERM)));
    });
}

#[test]
fn the_manuals_file_is_a_tunnels() {
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tunnel.md")).unwrap();
    let example = manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let keys = Keys::new("the_manuals_file_is_a_tunnels");
    let config = ConfigFile::new(&keys, "tunnel.toml");
    config.write(&example.replace("/etc/kumade/tunnel.key", keys.file(1).to_str().unwrap()));
    let checked = program().args(["tunnel", "check", config.name()]).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    // The others are comments there.
    let others =
        ["preshared-key", "carrier", "mtu", "congestion-control", "prometheus", "on-event", "allow", "connections"];
    let more = ["forwards", "relay-from", "min-rto", "max-rto", "send-buffer", "unsent", "delay-short-segments"];
    assert!(others.iter().chain(&more).all(|key| example.contains(&format!("{key} = "))));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What `check` says is what a start says, and neither leaves anything behind.
#[test]
fn check_refuses_what_a_start_refuses_with_the_line() {
    const TEST: &str = "check_refuses_what_a_start_refuses_with_the_line";
    in_namespaces(TEST, || {
        let (hosts, keys) = (hosts(), Keys::new(TEST));
        let config = ConfigFile::new(&keys, "tunnel.toml");
        let call = |arguments: &[&str]| -> Output { keys.command(&hosts.left, 1, arguments).output().unwrap() };
        let peer = keys.public(2);
        let own = keys.public(1);
        let file = |tunnel: &str, peers: &str| format!("[tunnel]\n{tunnel}\n{peers}");
        let one = |networks: &str| peer_text("far", &peer, networks);
        let usual = "listen = \"443\"\naddresses = [\"10.77.0.1/24\"]";
        let refused = [
            (file(usual, &peer_text("far", &own, "\"10.77.0.2\"")), 2, "toml:6: ", "this end's own public key"),
            (file(usual, ""), 2, "toml:2: ", "no peer"),
            (file(usual, &one("")), 2, "toml:6: ", "as its `networks`"),
            (file(usual, &format!("{0}{0}", one("\"10.77.0.2\""))), 2, "toml:9: ", "two peers are called `far`"),
            (file("addresses = [\"10.77.0.1\"]\nlisten = \"443\"", &one("")), 2, "toml:2: ", "write 10.77.0.1/24"),
            (file("listen = \"host:443\"", &one("")), 2, "toml:2: ", "write it like 7274"),
            (
                file("listen = \"443\"\nforwards = [\"1:a:1\"]", &one("")),
                2,
                "toml:3: ",
                "`forwards` is for an end with `connect`",
            ),
            (file("listen = \"443\"\nconnect = \"a\"", &one("")), 2, "toml:3: ", "an end does one of them"),
            (file("device = \"a\"", &one("")), 2, "toml:1: ", "neither `listen` nor `connect`"),
            (file("listen = \"443\"", &one("")), 2, "toml:2: ", "nothing to carry"),
            (
                file("connect = \"10.79.0.2\"\nconnections = 17\naddresses = [\"10.77.0.1/24\"]", &one("")),
                2,
                "toml:3: ",
                "1 to 16",
            ),
            (file(&format!("{usual}\nmtu = 100"), &one("")), 2, "toml:4: ", "from 1280 to 9000"),
            (
                file(&format!("{usual}\ndevice = \"a name\""), &one("\"10.77.0.2\"")),
                2,
                "toml:4: ",
                "no name of a device",
            ),
            (file(&format!("{usual}\ncarrier = \"pigeon\""), &one("")), 2, "toml:4: ", "`auto`, `udp`, `tcp`"),
            (
                file(usual, &format!("{}[tuning]\nmin-rto = \"3s\"\n", one("\"10.77.0.2\""))),
                2,
                "toml:9: ",
                "minimum retransmission timeout",
            ),
            (
                file("listen = \"443\"\naddresses = [\"10.79.0.77/24\"]", &one("\"10.79.0.3\"")),
                1,
                "toml:3: ",
                "is of the network of host",
            ),
            (
                file(&format!("{usual}\ncongestion-control = \"none\""), &one("\"10.77.0.2\"")),
                1,
                "toml:4: ",
                "tcp_available_congestion_control",
            ),
            (
                file("listen = \"192.0.2.1:443\"\naddresses = [\"10.77.0.1/24\"]", &one("\"10.77.0.2\"")),
                1,
                "toml:2: ",
                "no address of this host",
            ),
        ];
        for (content, status, line, reason) in &refused {
            config.write(content);
            for arguments in [&["check", config.name()][..], &["--config", config.name()]] {
                let output = call(arguments);
                let said = text(&output.stderr);
                assert_eq!(output.status.code(), Some(*status), "{content}{said}");
                assert!(said.contains(line) && said.contains(reason), "{reason}:\n{content}{said}");
                assert!(output.stdout.is_empty());
            }
        }
        let good = file(usual, &one("\"10.77.0.2\", \"10.9.0.0/16\""));
        config.write(&good);
        hosts.left.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "0").unwrap()).unwrap();
        let output = call(&["check", config.name()]);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("warning: ") && said.contains("ip_forward=1"), "{said}");
        let plan = text(&output.stdout);
        for part in [&own, "# peer far: 10.77.0.2/32, 10.9.0.0/16", "ip route add 10.9.0.0/16 dev kumade0"] {
            assert!(plan.contains(part), "{part}: {plan}");
        }
        hosts.left.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap()).unwrap();
        assert_eq!(text(&call(&["check", config.name()]).stderr), "");
        // Without the key that stands on the command line.
        let plain = keys.plain_command(&hosts.left, &["check", config.name()]).output().unwrap();
        assert!(text(&plain.stderr).contains("toml:2: no `key` in [tunnel]"), "{}", text(&plain.stderr));
        let mut absent = keys.plain_command(&hosts.left, &["check", config.name(), "--key", "absent.key"]);
        let absent = absent.output().unwrap();
        assert_eq!(absent.status.code(), Some(1));
        assert!(text(&absent.stderr).contains("cannot read the key file absent.key"), "{}", text(&absent.stderr));
        assert!(!tunnel_ends::has_device(&hosts.left));
        assert_eq!(call(&["check", "absent.toml"]).status.code(), Some(1));
    });
}

/// A second key that has changed in its file makes new sessions, over connections and datagrams, and with streams.
#[test]
fn another_second_key_is_taken_over() {
    const TEST: &str = "another_second_key_is_taken_over";
    in_namespaces(TEST, || {
        let (hosts, keys) = (hosts(), Keys::new(TEST));
        let [near, far, second] = ["near.toml", "far.toml", "second.key"].map(|name| ConfigFile::new(&keys, name));
        let make_second = || {
            let _ = fs::remove_file(&second.0);
            assert!(program().args(["key", "preshared", "--output", second.name()]).status().unwrap().success());
        };
        for carrier in ["udp", "relay"] {
            make_second();
            let write = |config: &ConfigFile, role: &str, number: u8| {
                let own = format!("addresses = [\"10.77.0.{number}/24\"]\ncarrier = \"{carrier}\"");
                let second = format!("preshared-key = \"{}\"", second.name());
                let peer = peer_text("other", &keys.public(3 - number), &format!("\"10.77.0.{}\"", 3 - number));
                config.write(&format!("[tunnel]\n{role}\n{own}\n{second}\n{peer}"));
            };
            write(&far, "listen = \"443\"", 2);
            write(&near, "connect = \"10.79.0.2:443\"", 1);
            let mut ends = [(&hosts.right, 2, &far), (&hosts.left, 1, &near)].map(|(inside, number, config)| {
                let mut end = keys.command(inside, number, &["--config", config.name()]).spawn().unwrap();
                let said = lines(&mut end);
                wait_for(&said, "confined");
                (end, said)
            });
            ends.iter().for_each(|(_, said)| drop(wait_for(said, "other: connected")));
            make_second();
            for (end, said) in &ends {
                wait_for_reload(end, said, "changed: preshared-key: another key in its file");
            }
            ends.iter().for_each(|(_, said)| drop(wait_for(said, "other: connected")));
            let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:9").unwrap()).unwrap();
            let transfer = Transfer::begin(&hosts, listener, "10.77.0.2:9");
            transfer.wait_for_progress();
            transfer.end();
            ends.iter_mut().for_each(|(end, _)| assert!(end_with(end, Signal::SIGTERM)));
        }
    });
}

/// The routes of a tunnel that takes all traffic come and go with its networks, but for the first of them, which takes a lock.
#[test]
fn a_tunnel_that_takes_all_traffic_changes_its_networks() {
    const TEST: &str = "a_tunnel_that_takes_all_traffic_changes_its_networks";
    in_namespaces(TEST, || {
        let (hosts, keys) = (hosts(), Keys::new(TEST));
        let config = ConfigFile::new(&keys, "near.toml");
        let content = |addresses: &str, networks: &str| {
            let connect = format!("[tunnel]\nconnect = \"10.79.0.2:443\"\naddresses = [{addresses}]\nmtu = 1400\n");
            format!("{connect}{}", peer_text("far", &keys.public(2), networks))
        };
        config.write(&content("\"10.77.0.1/24\"", "\"0.0.0.0/0\""));
        let mut far = keys.end(&hosts, 2, &["--address", "10.77.0.2/24"]).spawn().unwrap();
        wait_for(&lines(&mut far), "waiting at");
        let mut near = keys.command(&hosts.left, 1, &["--config", config.name()]).spawn().unwrap();
        let said = lines(&mut near);
        wait_for(&said, "far: connected");
        let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:9").unwrap()).unwrap();
        let transfer = Transfer::begin(&hosts, listener, "10.77.0.2:9");
        transfer.wait_for_progress();
        let ip = |arguments: &[&str]| run_ip(&hosts.left, arguments).unwrap();
        assert!(ip(&["rule"]).contains("27551") && !ip(&["-6", "rule"]).contains("27552"));
        let addresses = "\"10.77.0.1/24\", \"fd77::1/64\"";
        config.write(&content(addresses, "\"0.0.0.0/0\", \"::/0\", \"10.88.0.0/24\"").replace("1400", "1380"));
        wait_for_reload(&near, &said, "changed: mtu: 1380 in place of 1400");
        assert!(ip(&["rule"]).contains("27551") && ip(&["-6", "rule"]).contains("27552"));
        assert!(ip(&["route"]).contains("10.88.0.0/24 dev kumade0"));
        let device = ip(&["address", "show", "kumade0"]);
        assert!(device.contains("fd77::1/64") && device.contains("mtu 1380"), "{device}");
        config.write(&content("\"10.77.0.1/24\"", "\"0.0.0.0/0\""));
        wait_for_reload(&near, &said, "changed: mtu: 1400 in place of 1380");
        assert!(ip(&["rule"]).contains("27551") && !ip(&["-6", "rule"]).contains("27552"));
        let device = ip(&["address", "show", "kumade0"]);
        assert!(!device.contains("fd77::1/64") && device.contains("mtu 1400"), "{device}");
        transfer.wait_for_progress();
        // A network that somebody else routes is refused, and what came with it is taken back.
        ip(&["route", "add", "10.99.0.0/24", "dev", VethHosts::DEVICE]);
        config.write(&content(addresses, "\"0.0.0.0/0\", \"::/0\", \"10.88.0.0/24\", \"10.99.0.0/24\""));
        let line = wait_for_reload(&near, &said, UNCHANGED);
        assert!(line.contains("10.99.0.0/24"), "{line}");
        assert!(ip(&["rule"]).contains("27551") && !ip(&["-6", "rule"]).contains("27552"));
        assert!(
            !ip(&["route"]).contains("10.88.0.0/24") && !ip(&["address", "show", "kumade0"]).contains("fd77::1/64")
        );
        transfer.wait_for_progress();
        config.write(&content("\"10.77.0.1/24\"", "\"10.77.0.0/24\""));
        wait_for_reload(&near, &said, "changed: peer far: network 10.77.0.0/24: added");
        assert!(!ip(&["rule"]).contains("27551"));
        transfer.wait_for_progress();
        // One tunnel at a time has such routes: a running one cannot find out whether another has them.
        config.write(&content("\"10.77.0.1/24\"", "\"0.0.0.0/0\""));
        let line = wait_for_reload(&near, &said, UNCHANGED);
        assert!(line.contains("restart it for that"), "{line}");
        transfer.end();
        assert!(end_with(&mut near, Signal::SIGTERM));
        assert!(ip(&["-4", "rule"]).lines().count() <= 3 && !ip(&["route"]).contains("10.88"), "{}", ip(&["rule"]));
        end_with(&mut far, Signal::SIGTERM);
    });
}
