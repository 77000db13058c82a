//! Faults: interfaces that cannot be used, that vanish, and an emulator that is killed.

use crate::common;

use common::{config, emulate};
use kumade_emulator::statistics::DropCause;
use kumade_emulator::{EmulatorError, Engine, EngineConfig, PortSpec};
use kumade_link::{LinkConfig, Loss};
use kumade_net::namespace::NamespaceId;
use kumade_net::offloads::{OffloadControl, Offloads};
use kumade_netns_testbed::{VethHosts, eventually, in_namespaces, run_ip};
use kumade_units::Rate;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, process, thread};

/// Tells a copy of this test to emulate a link between these interfaces until its input ends.
const COPY: &str = "KUMADE_TEST_EMULATOR";
const PORTS: [&str; 2] = ["one", "two"];

#[test]
fn an_interface_that_vanishes_ends_the_link_and_the_other_is_as_it_was() {
    in_namespaces("an_interface_that_vanishes_ends_the_link_and_the_other_is_as_it_was", || {
        let hosts = VethHosts::new(1500).unwrap();
        let before = with_receive_offload(&hosts);
        assert_ne!(before, before.without_receive_offloads(), "there is something to switch off");
        let engine = emulate(&hosts, [config(), config()]);
        assert_eq!(offloads(&hosts), before.without_receive_offloads());
        run_ip(&hosts.right, &["link", "del", VethHosts::DEVICE]).unwrap();
        let error = engine.wait().unwrap_err();
        assert!(matches!(&error, EmulatorError::InterfaceVanished(name) if name == "two"), "{error}");
        assert!(error.to_string().contains("its interface two has vanished"), "{error}");
        assert_eq!(offloads(&hosts), before);
    });
}

#[test]
fn links_of_a_thread_end_each_by_itself() {
    in_namespaces("links_of_a_thread_end_each_by_itself", || {
        let hosts = VethHosts::new(1500).unwrap();
        let pairs = [["one", "two"], ["three", "five"], ["six", "eight"]];
        for [first, second] in [["three", "four"], ["five", "seven"], ["six", "nine"], ["eight", "ten"]] {
            run_ip(&hosts.middle, &["link", "add", first, "type", "veth", "peer", "name", second]).unwrap();
        }
        let link = |names: [&str; 2]| EngineConfig {
            ports: names.map(|name| PortSpec::Interface(name.into())),
            directions: [config(), config()],
            end_notice: Default::default(),
        };
        let start = || Engine::start_all(pairs.map(link).into());
        let mut engines = hosts.middle.run(start).unwrap().unwrap();
        assert_eq!(packet_threads(), 1);
        assert_eq!(offloads(&hosts), offloads(&hosts).without_receive_offloads());
        run_ip(&hosts.middle, &["link", "del", "seven"]).unwrap();
        let error = engines[1].wait().unwrap_err();
        assert!(matches!(&error, EmulatorError::InterfaceVanished(name) if name == "five"), "{error}");
        engines[2].stop().unwrap();
        assert!(matches!(engines[2].set_direction(0, config()), Err(EmulatorError::LinkEnded)));
        assert_eq!(engines.iter().map(Engine::is_running).collect::<Vec<_>>(), [true, false, false]);
        engines.truncate(1);

        let idle = engines[0].changes();
        let [receiver, sender] = [(&hosts.right, "10.79.0.2:0"), (&hosts.left, "10.79.0.1:0")]
            .map(|(host, address)| host.run(|| UdpSocket::bind(address).unwrap()).unwrap());
        receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        assert!(eventually(|| {
            sender.send_to(b"still here", receiver.local_addr().unwrap()).unwrap();
            receiver.recv(&mut [0; 100]).is_ok_and(|length| length == 10)
        }));
        assert!(eventually(|| engines[0].changes() > idle));
        assert!(engines[0].statistics()[0].counts.delivered.packets > 0);
        // What comes in and is lost later, without anything that is sent, is a change as well.
        let all_lost =
            LinkConfig { rate: Some(Rate::from_mbit(1)), loss: Loss::Independent(1.0), ..LinkConfig::default() };
        engines[0].set_direction(0, common::with_link(all_lost)).unwrap();
        for _ in 0..20 {
            sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        let mut lost_by_changes = BTreeMap::new();
        assert!(eventually(|| {
            let changes = engines[0].changes();
            let lost = engines[0].statistics()[0].counts.dropped_for(DropCause::EmulatedLoss).packets;
            if engines[0].changes() == changes {
                assert_eq!(*lost_by_changes.entry(changes).or_insert(lost), lost, "nothing was said to have changed");
            }
            lost >= 20
        }));
        drop(engines);
        assert_eq!(packet_threads(), 0);
    });
}

/// Those of links in this process, which runs nothing else.
fn packet_threads() -> usize {
    let names =
        fs::read_dir("/proc/self/task").unwrap().map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "emulator")).count()
}

#[test]
fn an_interface_that_is_switched_off_and_on_goes_on() {
    in_namespaces("an_interface_that_is_switched_off_and_on_goes_on", || {
        let hosts = VethHosts::new(1500).unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        for state in ["down", "up"] {
            run_ip(&hosts.middle, &["link", "set", "two", state]).unwrap();
            thread::sleep(Duration::from_millis(150));
            assert!(engine.is_running(), "{state}");
        }
        let receiver = hosts.right.run(|| UdpSocket::bind("10.79.0.2:0").unwrap()).unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let sender = hosts.left.run(|| UdpSocket::bind("10.79.0.1:0").unwrap()).unwrap();
        // How soon the kernel lets packets through again is its own business.
        assert!(eventually(|| {
            sender.send_to(b"back again", receiver.local_addr().unwrap()).unwrap();
            receiver.recv(&mut [0; 100]).is_ok_and(|length| length == 10)
        }));
    });
}

#[test]
fn a_killed_emulator_is_cleaned_up_by_the_next_and_a_living_one_keeps_its_interfaces() {
    const TEST: &str = "a_killed_emulator_is_cleaned_up_by_the_next_and_a_living_one_keeps_its_interfaces";
    if let Ok(names) = env::var(COPY) {
        return emulate_until_the_end(&names);
    }
    in_namespaces(TEST, || {
        let hosts = VethHosts::new(1500).unwrap();
        let notes = env::temp_dir().join(format!("kumade-emulator-test-{}", process::id()));
        fs::create_dir_all(&notes).unwrap();
        // Where each is told to keep its files makes no difference.
        let runs = Cell::new(0);
        let start = |ports: [&str; 2]| {
            let mut command = hosts.middle.command(env::current_exe().unwrap());
            let own = notes.join(runs.replace(runs.get() + 1).to_string());
            fs::create_dir(&own).unwrap();
            command
                .args([&format!("engine_faults::{TEST}"), "--exact", "--nocapture"])
                .env(COPY, ports.join(" "))
                .env("XDG_RUNTIME_DIR", own);
            started(&mut command)
        };
        let before = with_receive_offload(&hosts);
        let (mut first, said) = start(PORTS);
        assert_eq!(said, "running\n");
        assert_eq!(offloads(&hosts), before.without_receive_offloads());
        let (mut second, said) = start(PORTS);
        assert!(said.contains(&format!("the link of process {} has it", first.id())), "{said}");
        second.wait().unwrap();
        // SIGKILL: nothing is put back.
        let kill = |child: &mut Child| {
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(offloads(&hosts), before.without_receive_offloads());
        };
        kill(&mut first);
        // One for other interfaces puts them back as well.
        run_ip(&hosts.middle, &["link", "add", "three", "type", "veth", "peer", "name", "four"]).unwrap();
        let (mut elsewhere, said) = start(["three", "four"]);
        assert_eq!((said.as_str(), offloads(&hosts)), ("running\n", before));
        drop(elsewhere.stdin.take());
        assert!(elsewhere.wait().unwrap().success());
        let (mut killed, said) = start(PORTS);
        assert_eq!(said, "running\n");
        kill(&mut killed);
        let (mut third, said) = start(PORTS);
        assert_eq!(said, "running\n");
        assert_eq!(offloads(&hosts), before.without_receive_offloads());
        drop(third.stdin.take());
        assert!(third.wait().unwrap().success());
        assert_eq!(offloads(&hosts), before);
        let kept = |run: u32| fs::read_dir(notes.join(run.to_string()).join("kumade")).map_or(0, Iterator::count);
        assert_eq!((0..runs.get()).map(kept).sum::<usize>(), 0);
        fs::remove_dir_all(&notes).unwrap();
    });
}

#[test]
fn what_a_killed_emulator_noted_is_forgotten_once_its_namespace_is_gone() {
    const TEST: &str = "what_a_killed_emulator_noted_is_forgotten_once_its_namespace_is_gone";
    if let Ok(names) = env::var(COPY) {
        return emulate_until_the_end(&names);
    }
    in_namespaces(TEST, || {
        let start = |hosts: &VethHosts| {
            let mut command = hosts.middle.command(env::current_exe().unwrap());
            let (child, said) = started(
                command.args([&format!("engine_faults::{TEST}"), "--exact", "--nocapture"]).env(COPY, PORTS.join(" ")),
            );
            assert_eq!(said, "running\n");
            child
        };
        let (gone, other) = (VethHosts::new(1500).unwrap(), VethHosts::new(1500).unwrap());
        let mut killed = start(&gone);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let noted = || notes_of(killed.id());
        assert_eq!(noted().len(), PORTS.len());
        if !gone.middle.run(|| NamespaceId::current().unwrap().can_be_known_gone()).unwrap() {
            return println!("this system does not tell of namespaces that are gone");
        }
        drop(gone);
        // The kernel takes namespaces down later.
        let is_forgotten = eventually(|| {
            let mut next = start(&other);
            drop(next.stdin.take());
            assert!(next.wait().unwrap().success());
            noted().is_empty()
        });
        assert!(is_forgotten, "{:?}", noted());
    });
}

/// What a process has written down of the offloads that it switched off.
fn notes_of(process: u32) -> Vec<PathBuf> {
    let below = |directory: &str| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let users = below("/run/user").map(|directory| directory.join("kumade"));
    let places =
        below("/run").chain(below("/tmp")).chain(users).filter(|place| place.to_string_lossy().contains("/kumade"));
    let paths = places.flat_map(|place| below(&place.to_string_lossy()).collect::<Vec<_>>());
    let is_its_own = |path: &PathBuf| path.to_string_lossy().contains(&format!("offloads-{process}-"));
    paths.filter(is_its_own).collect()
}

#[test]
fn an_interface_that_cannot_be_used_is_refused_with_the_reason() {
    in_namespaces("an_interface_that_cannot_be_used_is_refused_with_the_reason", || {
        let hosts = VethHosts::new(1500).unwrap();
        run_ip(&hosts.middle, &["link", "add", "other", "type", "veth", "peer", "name", "free"]).unwrap();
        run_ip(&hosts.middle, &["link", "add", "bundle", "type", "bridge"]).unwrap();
        run_ip(&hosts.middle, &["link", "set", "other", "master", "bundle"]).unwrap();
        let before = offloads(&hosts);
        let interface = |name: &str| PortSpec::Interface(name.into());
        let tun = || PortSpec::Tun { name: "end".into() };
        for (ports, reason) in [
            ([interface("one"), interface("nowhere")], "find the interface nowhere"),
            ([interface("one"), interface("one")], "to itself"),
            ([interface("one"), interface("lo")], "not an Ethernet interface"),
            ([interface("one"), interface("other")], "a port of a bridge"),
            ([interface("one"), tun()], "give two of a kind"),
        ] {
            let error = hosts
                .middle
                .run(|| Engine::start(ports, [config(), config()], Default::default()))
                .unwrap()
                .unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(offloads(&hosts), before);
        }
    });
}

fn emulate_until_the_end(names: &str) {
    let (first, second) = names.split_once(' ').unwrap();
    let ports = [first, second].map(|name| PortSpec::Interface(name.into()));
    match Engine::start(ports, [config(), config()], Default::default()) {
        Ok(engine) => {
            eprintln!("running");
            let _ = std::io::stdin().read(&mut [0]);
            engine.stop().unwrap();
        }
        Err(error) => eprintln!("{error}"),
    }
}

/// A child, and the first line that it says.
fn started(command: &mut Command) -> (Child, String) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    (child, said)
}

/// Switches on a receive offload that the emulator must switch off, as network cards have it.
fn with_receive_offload(hosts: &VethHosts) -> Offloads {
    let set = || OffloadControl::open("one").unwrap().set(Offloads::from_entries([("gro", 1)])).unwrap();
    hosts.middle.run(set).unwrap();
    offloads(hosts)
}

/// Of the interface whose peer stays.
fn offloads(hosts: &VethHosts) -> Offloads {
    hosts.middle.run(|| OffloadControl::open("one").unwrap().read().unwrap()).unwrap()
}
