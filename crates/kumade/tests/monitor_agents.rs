//! Agents of `kumade monitor` from end to end: both IP versions, the coordinator's own host, several coordinators, budgets and faults.

use crate::mesh_hosts;

use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use mesh_hosts::{COORDINATOR, Mesh, agent, end_with, now_seconds};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::process::Child;

fn find<'v>(all: &'v [Value], id: &str) -> &'v Value {
    all.iter().find(|one| one["id"] == id).unwrap_or(&Value::Null)
}

fn is_answered(pair: &Value) -> bool {
    ["up", "lossy"].iter().any(|word| pair["state"]["word"] == *word)
}

fn texts(value: &Value) -> String {
    value.to_string()
}

#[test]
fn the_ip_versions_of_two_agents_are_two_paths_and_one_that_is_missing_is_named() {
    in_namespaces("the_ip_versions_of_two_agents_are_two_paths_and_one_that_is_missing_is_named", || {
        let mesh = Mesh::new("monitor_families");
        for number in [2, 5] {
            let address = format!("fd80::{number}/64");
            run_ip(mesh.host(number), &["addr", "add", &address, "dev", "host", "nodad"]).unwrap();
        }
        let both = |number| format!("address = [\"10.80.0.{number}\", \"fd80::{number}\"]\n");
        let agents = [
            agent(2, "berlin", &both(2)),
            agent(3, "paris", "address = \"10.80.0.3\"\n"),
            // It says that it has both, and its host has no address of IPv6.
            agent(4, "rome", "family = \"both\"\n"),
            agent(5, "oslo", &both(5)),
        ];
        mesh.write_coordinator(&agents.concat());
        let file = mesh.file("1.toml");
        let text = fs::read_to_string(&file).unwrap();
        mesh.write("1.toml", &text.replace("70s", "150s"));
        let checked = mesh.kumade(COORDINATOR, &["monitor", "check", file.to_str().unwrap()]).output().unwrap();
        let checked = String::from_utf8(checked.stdout).unwrap();
        assert!(checked.contains("berlin:paris (IPv6): cannot be measured: the second end has no IPv6"), "{checked}");

        let mut coordinator = mesh.start(COORDINATOR);
        let mut agents: Vec<Child> = (2..=5).map(|number| mesh.start(number)).collect();
        let between = |one: &str, other: &str, version: &str| {
            let ids = [format!("{one}:{other} ({version})"), format!("{other}:{one} ({version})")];
            let pairs = mesh.pairs();
            pairs.into_iter().find(|pair| ids.iter().any(|id| pair["id"] == **id)).unwrap_or_default()
        };
        for version in ["IPv4", "IPv6"] {
            assert!(eventually(|| is_answered(&between("berlin", "oslo", version))), "{version}\n{}", mesh.logs());
        }
        assert!(between("berlin", "oslo", "IPv4")["address"].as_str().unwrap().starts_with("10.80.0."));
        assert!(between("berlin", "oslo", "IPv6")["address"].as_str().unwrap().starts_with("fd80::"));
        // What one end lacks by its file, and what its host lacks.
        let status = mesh.status();
        let unmeasured = status["unmeasured"].as_array().unwrap();
        assert_eq!(unmeasured.len(), 3, "{unmeasured:?}");
        assert!(unmeasured.iter().all(|pair| pair["pair"].as_str().unwrap().contains("paris")), "{unmeasured:?}");
        assert!(eventually(|| is_answered(&between("rome", "berlin", "IPv4"))), "{}", mesh.logs());
        let cause = || texts(&between("rome", "berlin", "IPv6")["state"]["detail"]);
        assert!(eventually(|| cause().contains("No probe can be sent")), "{}\n{}", cause(), mesh.logs());

        // Each has rows of its own in the archive.
        let start = now_seconds() - 600.0;
        for version in ["IPv4", "IPv6"] {
            let id = between("berlin", "oslo", version)["id"].as_str().unwrap().to_owned();
            assert!(eventually(|| mesh.archived(&id, start, now_seconds()) > 0), "{id}\n{}", mesh.logs());
        }
        let is_of_6 = |run: &Value| run["ip_version"] == 6 && texts(&run["pair"]).contains("oslo");
        let is_measured = || eventually(|| mesh.runs().iter().any(is_of_6));
        assert!(is_measured() || is_measured(), "{:?}\n{}", mesh.runs(), mesh.logs());
        assert!(mesh.runs().iter().all(|run| run["ip_version"] == 4 || !texts(&run["pair"]).contains("paris")));
        agents.iter_mut().for_each(|agent| end_with(agent, Signal::SIGTERM));
        end_with(&mut coordinator, Signal::SIGTERM);
    });
}

#[test]
fn the_coordinators_own_host_is_a_site_and_agents_find_another_coordinator() {
    in_namespaces("the_coordinators_own_host_is_a_site_and_agents_find_another_coordinator", || {
        let mesh = Mesh::new("monitor_own_host");
        let own = "[[agent]]\nid = \"home\"\nthis-host = true\nstamp-port = 8620\naddress = \"10.80.0.1\"\n";
        let address = |number| format!("address = \"10.80.0.{number}\"\n");
        let agents = [own, &agent(2, "berlin", &address(2)), &agent(3, "paris", &address(3))].concat();
        mesh.write_coordinator(&agents);
        // The first one of them is not there yet.
        [2, 3].iter().for_each(|number| mesh.write_agent(*number, &[5, COORDINATOR]));
        let mut coordinator = mesh.start(COORDINATOR);
        let mut agents: Vec<Child> = [2, 3].map(|number| mesh.start(number)).into();
        let are_answered = || mesh.pairs().len() == 3 && mesh.pairs().iter().all(is_answered);
        assert!(eventually(are_answered), "{:?}\n{}", mesh.pairs(), mesh.logs());
        let status = mesh.status();
        let home = find(status["agents"].as_array().unwrap(), "home");
        assert_eq!((&home["is_connected"], &home["address"]), (&Value::Bool(true), &"127.0.0.1".into()), "{home}");
        // It measures as any other one, over the same path: its results are in the archive.
        let is_of_home = |run: &Value| texts(&run["pair"]).contains("home") && !run["started"].is_null();
        assert!(eventually(|| mesh.runs().iter().any(is_of_home)), "{:?}\n{}", mesh.runs(), mesh.logs());

        // Another host takes over.
        end_with(&mut coordinator, Signal::SIGTERM);
        let mut other = mesh.start_with(5, "1.toml");
        let connected = || {
            let status = mesh.document_at(5, "/api/v1/status");
            let agents = status["agents"].as_array().cloned().unwrap_or_default();
            ["berlin", "paris"].iter().all(|id| find(&agents, id)["is_connected"] == true)
        };
        assert!(eventually(connected), "{}", mesh.logs());
        let has_said = || mesh.log(2).contains("connected to the coordinator at 10.80.0.5:7281");
        assert!(eventually(has_said), "{}", mesh.logs());
        agents.iter_mut().for_each(|agent| end_with(agent, Signal::SIGTERM));
        end_with(&mut other, Signal::SIGTERM);
    });
}

/// A mesh whose agents all probe and measure to the first one, as nobody reaches the others.
fn write_mesh_towards_berlin(mesh: &Mesh) {
    let agents = [agent(2, "berlin", "address = \"10.80.0.2\"\n"), agent(3, "paris", ""), agent(4, "rome", "")];
    mesh.write_coordinator(&agents.concat());
}

/// The coordinator, and the three agents.
fn start_mesh(mesh: &Mesh) -> (Child, Vec<Child>) {
    (mesh.start(COORDINATOR), (2..=4).map(|number| mesh.start(number)).collect())
}

/// Has the coordinator's file end like this.
fn append_to_coordinator(mesh: &Mesh, section: &str) {
    let text = fs::read_to_string(mesh.file("1.toml")).unwrap();
    mesh.write("1.toml", &(text + section));
}

const SILENT_AGENTS_ARE_NO_ALERT: &str = "[[alert]]\non = \"agent-silent\"\nenabled = false\n";

fn standing_alerts(mesh: &Mesh) -> Vec<Value> {
    mesh.status()["alerts"]["standing"].as_array().cloned().unwrap_or_default()
}

fn has_event(mesh: &Mesh, part: &str) -> bool {
    eventually(|| texts(&mesh.document("/api/v1/events")).contains(part))
}

#[test]
fn a_budget_and_a_taken_port_are_told() {
    in_namespaces("a_budget_and_a_taken_port_are_told", || {
        let mesh = Mesh::new("monitor_budgets");
        write_mesh_towards_berlin(&mesh);
        // Less than a measurement takes.
        let text = fs::read_to_string(mesh.file("2.toml")).unwrap();
        mesh.write("2.toml", &text.replace("stamp-port", "bytes-per-day = \"100kB\"\nstamp-port"));
        let taken = mesh.host(2).run(|| UdpSocket::bind(("::", 8620))).unwrap().unwrap();
        let (mut coordinator, mut agents) = start_mesh(&mesh);
        let berlin = || find(mesh.status()["agents"].as_array().unwrap_or(&Vec::new()), "berlin").clone();
        assert!(eventually(|| texts(&berlin()["faults"]).contains("cannot answer light probes")), "{}", mesh.logs());
        let is_explained = |pair: &Value| texts(&pair["state"]["detail"]).contains("cannot answer light probes");
        assert!(eventually(|| mesh.pairs().iter().any(is_explained)), "{:?}", mesh.pairs());
        assert!(has_event(&mesh, "berlin: cannot answer light probes"));
        // The port is free: it is tried again.
        drop(taken);
        assert!(eventually(|| berlin()["faults"] == Value::Array(Vec::new())), "{}\n{}", berlin(), mesh.logs());
        assert!(eventually(|| mesh.pairs().len() == 2 && mesh.pairs().iter().all(is_answered)), "{}", mesh.logs());

        let is_refused = |run: &Value| texts(&run["error"]).contains("refused the measurement");
        assert!(eventually(|| mesh.runs().iter().any(is_refused)), "{:?}\n{}", mesh.runs(), mesh.logs());
        let used = || berlin()["used_bytes"].as_u64().unwrap_or(0);
        assert!(eventually(|| used() > 0), "{}", berlin());
        assert!(used() <= 100_000 && berlin()["bytes_per_day"] == 100_000, "{}", berlin());
        // A restart gives nothing back.
        let before = used();
        end_with(&mut agents[0], Signal::SIGTERM);
        assert!(eventually(|| berlin()["is_connected"] == false), "{}", berlin());
        agents[0] = mesh.start(2);
        assert!(eventually(|| berlin()["is_connected"] == true && used() >= before), "{}", berlin());
        agents.iter_mut().for_each(|agent| end_with(agent, Signal::SIGTERM));
        end_with(&mut coordinator, Signal::SIGTERM);
    });
}

#[test]
fn a_silent_agent_is_one_alert_until_it_is_to_be_none() {
    in_namespaces("a_silent_agent_is_one_alert_until_it_is_to_be_none", || {
        let mesh = Mesh::new("monitor_silent");
        write_mesh_towards_berlin(&mesh);
        let (mut coordinator, mut agents) = start_mesh(&mesh);
        assert!(eventually(|| mesh.pairs().len() == 2 && mesh.pairs().iter().all(is_answered)), "{}", mesh.logs());
        assert!(eventually(|| standing_alerts(&mesh).is_empty()), "{}", mesh.status());
        // Nobody probes rome, so that nobody else tells of it.
        end_with(&mut agents[2], Signal::SIGKILL);
        // A busy machine may leave other paths without data for a moment.
        let is_one = || {
            let standing = standing_alerts(&mesh);
            let [alert] = &standing[..] else { return false };
            alert["condition"] == "agent-silent" && texts(&alert["text"]).contains("rome: the agent is silent")
        };
        assert!(eventually(is_one), "{:?}\n{}", standing_alerts(&mesh), mesh.logs());
        // A reload with other alerts: it stands for nothing any more.
        append_to_coordinator(&mesh, SILENT_AGENTS_ARE_NO_ALERT);
        kill(Pid::from_raw(coordinator.id() as i32), Signal::SIGHUP).unwrap();
        let is_gone = || standing_alerts(&mesh).iter().all(|alert| alert["condition"] != "agent-silent");
        assert!(eventually(is_gone), "{:?}\n{}", standing_alerts(&mesh), mesh.logs());
        assert!(has_event(&mesh, "alerts, who is told, or when nobody is"));
        agents[..2].iter_mut().for_each(|agent| end_with(agent, Signal::SIGTERM));
        end_with(&mut coordinator, Signal::SIGTERM);
    });
}

#[test]
fn where_a_silent_agent_is_no_alert_its_paths_tell_what_is_missing() {
    in_namespaces("where_a_silent_agent_is_no_alert_its_paths_tell_what_is_missing", || {
        let mesh = Mesh::new("monitor_missing");
        write_mesh_towards_berlin(&mesh);
        append_to_coordinator(&mesh, SILENT_AGENTS_ARE_NO_ALERT);
        let (mut coordinator, mut agents) = start_mesh(&mesh);
        assert!(eventually(|| mesh.pairs().len() == 2 && mesh.pairs().iter().all(is_answered)), "{}", mesh.logs());
        end_with(&mut agents[2], Signal::SIGKILL);
        let is_no_data = |alert: &Value| alert["condition"] == "no-data" && texts(&alert["pairs"]).contains("rome");
        let is_told = || standing_alerts(&mesh).iter().any(is_no_data);
        assert!(eventually(is_told), "{:?}\n{}", standing_alerts(&mesh), mesh.logs());
        agents[..2].iter_mut().for_each(|agent| end_with(agent, Signal::SIGTERM));
        end_with(&mut coordinator, Signal::SIGTERM);
    });
}
