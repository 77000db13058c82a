//! `kumade gateway` with NAT sessions, as people use it: two configuration files, two keys, two processes.

#[path = "../../gateway/tests/counter/mod.rs"]
mod counter;
#[path = "../../gateway/tests/sites/mod.rs"]
#[expect(dead_code, reason = "it is another crate's, too")]
mod sites;

use crate::gateways::{gateway, make_key, metrics, new_directory, wait_until_connected};
use counter::Counter;
use kumade_net::namespace::Namespace;
use kumade_net::nftables::{InstalledTable, Statement, Table};
use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sites::Sites;
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A gateway. Left is 1, right is 2.
struct Site<'a> {
    namespace: &'a Namespace,
    directory: PathBuf,
    number: u8,
    /// Further lines of `[sessions]`.
    settings: &'static str,
}

const METRICS_PORT: u16 = 9273;

impl<'a> Site<'a> {
    /// Both, with keys and configuration files.
    fn pair(network: &'a Sites, test: &str, settings: &'static str) -> [Self; 2] {
        let sites = [(&network.left, 1), (&network.right, 2)].map(|(namespace, number)| {
            let directory = new_directory(&format!("{test}-{number}"));
            Site { namespace, directory, number, settings }
        });
        let keys = sites.each_ref().map(|site| make_key(&site.directory));
        sites[0].write_config(&keys[1]);
        sites[1].write_config(&keys[0]);
        sites
    }

    /// Hosts of the left share an address on the second path.
    fn write_config(&self, far_key: &str) {
        let (own, far) = (self.number, 3 - self.number);
        let path =
            |n: u8| format!("[[path]]\nname = \"path{n}\"\ninterface = \"path{n}\"\ngateways = [\"10.9.{n}.{far}\"]\n");
        let text = format!(
            "[gateway]\nname = \"site{own}\"\nprometheus = \"{METRICS_PORT}\"\n[sessions]\nkey = \"{}\"\n{}\
             [[local]]\ninterface = \"lan\"\nnetworks = [\"10.{own}.0.0/24\"]\n{}{}\
             [[remote]]\nname = \"site{far}\"\nnetworks = [\"10.{far}.0.0/24\"]\nsessions = true\n\
             public-key = \"{far_key}\"\naddresses = [\"10.9.1.{far}\", \"10.9.2.{far}\"]\n\
             [[translation]]\nnetwork = \"10.1.0.0/24\"\nalias = \"198.51.100.1\"\n{}",
            self.directory.join("gateway.key").display(),
            self.settings,
            path(1),
            path(2),
            if own == 1 { "path = \"path2\"\n" } else { "" }
        );
        fs::write(self.directory.join("site.toml"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        gateway(self.namespace, &self.directory, arguments)
    }

    /// What `kumade gateway status` prints of it.
    fn status(&self, arguments: &[&str]) -> String {
        let name = format!("site{}", self.number);
        let output = self.command(&[&["status", &name], arguments].concat()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn document(&self) -> Value {
        serde_json::from_str(&self.status(&["--json"])).unwrap()
    }

    /// The name of the other one.
    fn far(&self) -> String {
        format!("site{}", 3 - self.number)
    }

    fn start(&self) -> Child {
        self.command(&["--config", "site.toml"]).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn routing(&self) -> String {
        let listed = run_ip(self.namespace, &["rule"]).unwrap()
            + &run_ip(self.namespace, &["route", "show", "table", "all"]).unwrap();
        listed.split_inclusive('\n').filter(|line| !line.contains(" table local ")).collect()
    }

    /// A table belongs to its process, and no other can have one of that name.
    fn has_rules(&self) -> bool {
        let table = Table { name: "kumade".into(), counters: vec![], flow_lists: vec![], chains: vec![] };
        self.namespace.run(|| InstalledTable::install(&table).is_err()).unwrap()
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn end(mut child: Child, signal: Signal) -> Option<i32> {
    // The child has not been waited for, so its number is its own.
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    child.wait().unwrap().code()
}

#[test]
fn sessions_come_again_after_either_gateway_was_killed_and_nothing_is_left() {
    in_namespaces("sessions_come_again_after_either_gateway_was_killed_and_nothing_is_left", || {
        let network = Sites::new();
        let sites = Site::pair(&network, "sessions-killed", "");
        let before = sites.each_ref().map(Site::routing);
        let checked = sites[0].command(&["check", "site.toml"]).output().unwrap();
        let said = String::from_utf8(checked.stdout).unwrap();
        assert!(said.contains("# public key of this gateway: ") && said.contains("map out4-path2 "), "{said}");

        let far = network.b.run(|| UdpSocket::bind("10.2.0.2:9").unwrap()).unwrap();
        let near = network.a.run(|| UdpSocket::bind("10.1.0.2:5000").unwrap()).unwrap();
        far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let by_path2 =
            vec![Statement::InputInterface("path2".into()), Statement::Source("198.51.100.1/32".parse().unwrap())];
        let counter = Counter::new(&network.right, &[by_path2]);
        // Ten packets in a row arrive, all from the host's own address, and half of them by the second path.
        let are_divided = || {
            let earlier = counter.packets()[0];
            let mut arrive = (0..10).map(|_| {
                near.send_to(b"data", "10.2.0.2:9").unwrap();
                far.recv_from(&mut [0; 9]).is_ok_and(|(_, from)| from == "10.1.0.2:5000".parse().unwrap())
            });
            arrive.all(|arrives| arrives) && counter.packets()[0] == earlier + 5
        };
        let mut gateways = sites.each_ref().map(Site::start);
        gateways.iter_mut().for_each(wait_until_connected);
        assert!(eventually(are_divided));
        for (killed, site) in sites.iter().enumerate() {
            let [left, right] = gateways;
            let (gone, stays) = if killed == 0 { (left, right) } else { (right, left) };
            assert_eq!(end(gone, Signal::SIGKILL), None);
            assert!(eventually(|| !site.has_rules()));
            let mut again = site.start();
            wait_until_connected(&mut again);
            gateways = if killed == 0 { [again, stays] } else { [stays, again] };
            assert!(eventually(are_divided));
        }
        for (site, gateway) in sites.iter().zip(gateways) {
            assert_eq!(end(gateway, Signal::SIGTERM), Some(0));
            assert!(!site.has_rules());
        }
        assert_eq!(sites.each_ref().map(Site::routing), before);
    });
}

/// The published schema holds the document of a real gateway to what it says.
fn assert_valid(document: &Value) {
    let schema = include_str!("../../../schemas/kumade.gateway.1.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    assert!(validator.is_valid(document), "{:?}", validator.iter_errors(document).collect::<Vec<_>>());
}

#[test]
fn the_status_of_real_gateways_has_the_phases_timers_and_counters_of_their_sessions() {
    in_namespaces("the_status_of_real_gateways_has_the_phases_timers_and_counters_of_their_sessions", || {
        let network = Sites::new();
        let sites = Site::pair(&network, "sessions-status", "idle = \"4s\"\n");
        let mut gateways = sites.each_ref().map(Site::start);
        gateways.iter_mut().for_each(wait_until_connected);
        let near = network.a.run(|| UdpSocket::bind("10.1.0.2:5000").unwrap()).unwrap();
        let far = network.b.run(|| UdpSocket::bind("10.2.0.2:9").unwrap()).unwrap();
        // What the session of this flow is at either gateway, as long as packets pass.
        let session = |site: &Site<'_>, role: &str| {
            near.send_to(b"data", "10.2.0.2:9").unwrap();
            let document = site.document();
            assert_valid(&document);
            let of_flow = |one: &&Value| one["flow"] == "udp 10.1.0.2:5000 > 10.2.0.2:9" && one["role"] == role;
            document["sessions"].as_array().unwrap().iter().find(of_flow).cloned()
        };
        for (site, role) in sites.iter().zip(["divides", "restores"]) {
            let is_used = |one: &Value| one["phase"] == "active" && one["traffic"]["packets"].as_u64() > Some(2);
            assert!(eventually(|| session(site, role).as_ref().is_some_and(is_used)), "{}", site.document());
            let session = session(site, role).unwrap();
            assert_eq!(
                (&session["remote"], &session["aliases"][0]),
                (&site.far().into(), &"198.51.100.1 > 10.2.0.2".into())
            );
            let (idle, timer) =
                (session["idle_seconds"].as_f64().unwrap(), session["deadline_seconds"].as_f64().unwrap());
            // Idle for four seconds, or not mentioned for two minutes.
            let longest = if role == "divides" { 4.0 } else { 120.0 };
            assert!(idle >= 0.0 && timer >= 0.0 && timer <= longest, "{session}");
            assert!(session["duration_seconds"].as_f64().unwrap() >= idle, "{session}");
        }
        assert!(sites[0].status(&[]).contains("udp 10.1.0.2:5000 > 10.2.0.2:9"));
        // It ends when nothing passes any more, and is counted.
        let ends = |site: &Site<'_>| site.document()["session_count"] == 0;
        assert!(eventually(|| sites.iter().all(ends)), "{}", sites[0].document());
        let [sending, receiving] = sites.each_ref().map(|site| site.document()["remotes"][0]["sessions"].clone());
        assert!(sending["connected"] == true && sending["reachable"] == true, "{sending}");
        let counters = &sending["counters"];
        assert!(["begun", "accepted", "idle"].iter().all(|name| counters[name].as_u64() >= Some(1)), "{sending}");
        assert!(receiving["counters"]["granted"].as_u64() >= Some(1), "{receiving}");
        let metrics = metrics(sites[0].namespace);
        let counted =
            format!("kumade_gateway_sessions_idle_total{{gateway=\"site1\",remote=\"site2\"}} {}", counters["idle"]);
        assert!(metrics.contains(&counted) && metrics.contains("phase=\"active\"} 0"), "{metrics}");
        drop(far);
        gateways.into_iter().for_each(|gateway| assert_eq!(end(gateway, Signal::SIGTERM), Some(0)));
    });
}
