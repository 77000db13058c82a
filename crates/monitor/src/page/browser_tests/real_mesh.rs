//! A mesh of real agents on emulated links, whose coordinator's page is looked at.

use super::driver::Browser;
use super::{Window, assert_fits};
use crate::config::{AgentConfig, MonitorConfig, RoleConfig};
use crate::mesh::own_agent::OwnAgent;
use crate::monitor::Monitor;
use kumade_client::PresharedKey;
use kumade_daemon::PrivateDirectory;
use kumade_link::LinkConfig;
use kumade_net::clock;
use kumade_netns_testbed::{HostSpec, StarHostSpec, StarNetwork, eventually, in_namespaces};
use kumade_noise_session::PrivateKey;
use kumade_units::{Rate, Span};
use serde_json::json;
use std::path::Path;
use std::thread;

/// The first one has the coordinator as well.
const SITES: [(&str, u64, i64); 3] = [("berlin", 100, 3), ("oslo", 30, 9), ("paris", 50, 6)];
const STAMP_PORT: u16 = 8620;
/// An agent that is away for longer than some seconds tells of it.
const ABSENCE: Span = Span::from_secs(6);

struct RealMesh {
    // In this order they end.
    agents: Vec<Option<OwnAgent>>,
    monitor: Monitor,
    network: StarNetwork,
    directory: PrivateDirectory,
}

impl RealMesh {
    fn start() -> Self {
        let host = |((name, rate, delay), number): (&(&str, u64, i64), u8)| {
            let rate = Rate::from_mbit(*rate);
            let delay = Span::from_millis(*delay);
            let link = LinkConfig { rate: Some(rate), delay, queue_bytes: 300_000, ..LinkConfig::default() };
            let host = HostSpec::with_number(name, number);
            StarHostSpec { host, up: link.clone(), down: link, up_cross: None, down_cross: None }
        };
        let network = StarNetwork::build(SITES.iter().zip(1..).map(host).collect()).unwrap();
        let directory = PrivateDirectory::new("kumade-real-mesh").unwrap();
        let config = coordinator_config(&network, directory.path());
        let monitor =
            network.host(SITES[0].0).unwrap().namespace.run(|| Monitor::start(config, None, Default::default()));
        let mut mesh =
            RealMesh { agents: vec![None, None, None], monitor: monitor.unwrap().unwrap(), network, directory };
        (1..SITES.len()).for_each(|site| mesh.start_agent(site));
        mesh
    }

    fn start_agent(&mut self, site: usize) {
        let config = agent_config(&self.network, self.directory.path(), site);
        config.make_archive_directory().unwrap();
        let namespace = &self.network.host(SITES[site].0).unwrap().namespace;
        self.agents[site] = Some(namespace.run(|| OwnAgent::start(config, &Default::default())).unwrap().unwrap());
    }

    /// The pair between these two; who of them probes.
    fn pair_between(&self, one: usize, other: usize) -> (String, usize) {
        let status = self.monitor.status().borrow().clone();
        let ends = [SITES[one].0, SITES[other].0];
        let pair = status
            .pairs
            .iter()
            .find(|pair| pair.ends.as_ref().is_some_and(|pair| ends.iter().all(|end| pair.iter().any(|id| id == end))));
        let pair = pair.unwrap();
        let source = pair.ends.as_ref().unwrap()[0].clone();
        (pair.id.clone(), if source == ends[0] { one } else { other })
    }
}

fn identity(site: usize) -> PrivateKey {
    PrivateKey::from_bytes([site as u8 + 1; 32])
}

fn coordinator_config(network: &StarNetwork, directory: &Path) -> MonitorConfig {
    let mut text = format!(
        "[monitor]\nname = \"office\"\nrole = \"coordinator\"\nkey = \"k\"\nstretch = true\npage = \"127.0.0.1:7280\"\narchive = {:?}\n\
         [mesh]\ninterval = \"100ms\"\nmeasure = \"10min\"\n",
        directory.join("archive")
    );
    for (site, (name, ..)) in SITES.iter().enumerate() {
        let address = network.host(name).unwrap().v4;
        let key = if site == 0 {
            "this-host = true".to_owned()
        } else {
            format!("public-key = \"{}\"", identity(site).public_key())
        };
        text += &format!("[[agent]]\nid = {name:?}\naddress = \"{address}\"\nstamp-port = {STAMP_PORT}\n{key}\n");
    }
    MonitorConfig::from_toml(&text, "coordinator.toml", &|_| Ok(PresharedKey::from_bytes([1; 32]))).unwrap()
}

fn agent_config(network: &StarNetwork, directory: &Path, site: usize) -> AgentConfig {
    let text = format!(
        "[monitor]\nrole = \"agent\"\nkey = \"k\"\nstamp-port = {STAMP_PORT}\narchive = {:?}\n\
         [coordinator]\naddress = \"{}\"\npublic-key = \"{}\"\n",
        directory.join(SITES[site].0),
        network.host(SITES[0].0).unwrap().v4,
        identity(0).public_key()
    );
    let read_key = |_: &Path| Ok(PresharedKey::from_bytes([site as u8 + 1; 32]));
    match RoleConfig::from_toml(&text, "agent.toml", &read_key).unwrap() {
        RoleConfig::Agent(config) => *config,
        RoleConfig::Monitor(_) => panic!("an agent's file"),
    }
}

#[test]
fn a_real_mesh_is_looked_at_from_its_matrix_to_a_run_and_back() {
    in_namespaces("page::browser_tests::real_mesh::a_real_mesh_is_looked_at_from_its_matrix_to_a_run_and_back", || {
        if !Browser::is_installed() {
            return;
        }
        let mut mesh = RealMesh::start();
        let began = clock::monotonic();
        let namespace = mesh.network.host(SITES[0].0).unwrap().namespace.clone();
        let window = Window { browser: Browser::start(&namespace).unwrap(), page: mesh.monitor.page_address() };
        window.open("/");
        // The cell of a path that was measured has a value, or says that there is none.
        let measured = "[...document.querySelectorAll('.matrix tbody td:not(.own)')].find((one) => /bit\\/s|not known/.test(one.innerText))";
        window.wait_for(&format!("!!{measured}"));
        println!("a path was measured after {}", clock::monotonic() - began);
        window.wait_for("document.querySelector('.matrix-summary').innerText.includes('All 3 agents are connected')");

        // By what people follow: a cell, a measurement, and the way back.
        window.ask(&format!("{measured}.querySelector('a').click()"));
        window.wait_for(
            "location.pathname.startsWith('/pair/') && document.querySelectorAll('.plot canvas').length >= 3",
        );
        window.ask("document.querySelector('a[href^=\"/run/\"]').click()");
        window.wait_for("location.pathname.startsWith('/run/') && document.querySelector('pre')?.textContent.includes('kumade.measure/') && document.body.innerText.includes('Available bandwidth')");
        window.browser.back();
        window.wait_for(
            "location.pathname.startsWith('/pair/') && document.querySelectorAll('.plot canvas').length >= 3",
        );
        window.browser.back();
        window.wait_for("location.pathname === '/' && !!document.querySelector('.matrix')");

        // An agent that was away: the path that it probes has a gap, with the cause.
        let (pair, source) = mesh.pair_between(1, 2);
        drop(mesh.agents[source].take());
        window.wait_for("document.querySelector('.matrix-summary').innerText.includes('Not connected')");
        thread::sleep(ABSENCE.to_duration());
        mesh.start_agent(source);
        let has_gap = || {
            window.open(&format!("/pair/{pair}?last=1h"));
            window.wait_for("document.querySelectorAll('.plot canvas').length >= 3");
            window.ask("document.body.innerText.includes('the agent did not run')") == json!(true)
        };
        assert!(eventually(has_gap), "{}", window.ask("document.body.innerText"));
        window.assert_quiet();

        let pair = format!("/pair/{pair}?last=1h");
        for (scheme, ground) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 23, 21)")] {
            window.browser.prefer(scheme);
            for view in ["/", "/paths", "/events", "/schedule", &pair] {
                assert_fits(&window, view, ground, &[360, 2560]);
            }
        }
        window.assert_quiet();
    });
}
