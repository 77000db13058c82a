//! The two gateways at work, as users run them, each in its namespace.

use super::scenario::{NatSessionExperiment, SessionGateway, path_alias};
use crate::gateway_side::{GatewaySide, MEETING_TIMEOUT, read_config};
use anyhow::Context;
use kumade_daemon::{PrivateDirectory, RuntimeDir};
use kumade_gateway::direct::{DirectPlane, SessionPlane};
use kumade_multipath::nat_session::SessionStatus;
use kumade_net::clock;
use kumade_net::interface::Family;
use kumade_net::namespace::Namespace;
use kumade_net::nftables::{Chain, FlowChange, FlowList, FlowListKind, Hook, InstalledTable, Rule, Statement, Table};
use kumade_netns_testbed::Sites;
use kumade_noise_session::PresharedKey;
use kumade_packet::{Addresses, FlowKey, protocol};
use kumade_units::Span;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

/// Of messages, in gateways' files too.
const MESSAGE_PORT: u16 = 7273;

/// Both gateways, until dropped.
pub(super) struct NatGateways<'a> {
    sites: &'a Sites,
    experiment: &'a NatSessionExperiment,
    directory: PrivateDirectory,
    sending: Option<RunningGateway>,
    receiving: Option<RunningGateway>,
}

/// A gateway's process.
struct RunningGateway {
    sessions: SessionPlane,
    plane: DirectPlane,
}

impl<'a> NatGateways<'a> {
    /// Starts both; they have met when this returns.
    pub(super) fn start(sites: &'a Sites, experiment: &'a NatSessionExperiment) -> anyhow::Result<Self> {
        let directory = PrivateDirectory::new("kumade-lab")?;
        let mut gateways = NatGateways { sites, experiment, directory, sending: None, receiving: None };
        gateways.start_gateway(SessionGateway::Sending)?;
        gateways.start_gateway(SessionGateway::Receiving)?;
        let end = clock::monotonic() + MEETING_TIMEOUT;
        while !gateways.have_met() {
            anyhow::ensure!(clock::monotonic() < end, "the gateways have not met within {MEETING_TIMEOUT}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(gateways)
    }

    fn have_met(&self) -> bool {
        let answers = |running: &Option<RunningGateway>| {
            let reachable = running.as_ref().and_then(|running| running.sessions.reachable_peers().ok());
            reachable.is_some_and(|remotes| remotes.iter().all(|(_, answers)| *answers))
        };
        answers(&self.sending) && answers(&self.receiving)
    }

    /// Starts one that does not run.
    pub(super) fn start_gateway(&mut self, which: SessionGateway) -> anyhow::Result<()> {
        let paths = self.experiment.paths.len();
        let config = read_config(&config_text(which, paths, self.experiment.idle), paths)?;
        let settings = config.sessions.as_ref().context("a configuration without sessions")?;
        let start = || -> anyhow::Result<RunningGateway> {
            let plane = DirectPlane::start(&config, RuntimeDir::from_path(self.directory.path()))?;
            let sessions =
                SessionPlane::start(&plane, settings, side_of(which).private_key(), vec![PresharedKey::default()])?;
            Ok(RunningGateway { sessions, plane })
        };
        let running = self.namespace(which).run(start)??;
        *self.running_mut(which) = Some(running);
        Ok(())
    }

    /// Ends one without a word to the other.
    pub(super) fn kill(&mut self, which: SessionGateway) -> anyhow::Result<()> {
        let silent = self.drop_messages(which)?;
        if let Some(RunningGateway { sessions, plane }) = self.running_mut(which).take() {
            // It stops before its rules go.
            sessions.stop()?;
            drop(sessions);
            self.namespace(which).run(|| drop(plane))?;
        }
        // What it has said at last was on its way for no longer than this.
        let longest = self.experiment.paths.iter().map(|path| path.delay).max().unwrap_or_default();
        thread::sleep((longest + Span::from_millis(20)).to_duration());
        drop(silent);
        Ok(())
    }

    /// Loses all messages of a gateway on their arrival at the other one, until the result is dropped.
    pub(super) fn drop_messages(&self, from: SessionGateway) -> anyhow::Result<InstalledTable> {
        let (family, list) = (Family::V4, "messages");
        let (from, to) = (side_of(from), side_of(from).other_side());
        let rules = vec![Rule(vec![Statement::TranslateFlow(family, list.into())])];
        let table = Table {
            name: "lab-filter".into(),
            counters: vec![],
            flow_lists: vec![FlowList { name: list.into(), family, kind: FlowListKind::Translation }],
            // In front of the gateway's own rules.
            chains: vec![Chain { name: "arriving".into(), hook: Some(Hook::Prerouting(-400)), rules }],
        };
        let table = to.gateway_namespace(self.sites).run(|| InstalledTable::install(&table))??;
        // TEST-NET-1, to which there is no route.
        let nowhere =
            Addresses { source: Ipv4Addr::new(192, 0, 2, 1).into(), destination: Ipv4Addr::new(192, 0, 2, 2).into() };
        let end = |path, of: GatewaySide| {
            SocketAddr::new(Sites::gateway_address(path, of.address_number()).into(), MESSAGE_PORT)
        };
        let lost = |path| {
            let flow = FlowKey { protocol: protocol::UDP, source: end(path, from), destination: end(path, to) };
            FlowChange::Add(list.into(), flow, Some(nowhere))
        };
        let lost: Vec<_> = (0..self.experiment.paths.len()).map(lost).collect();
        table.change_flows(&lost)?;
        Ok(table)
    }

    /// What a gateway tells of its sessions; nothing if it does not run.
    pub(super) fn sessions(&self, which: SessionGateway) -> anyhow::Result<Vec<SessionStatus>> {
        let running = match which {
            SessionGateway::Sending => &self.sending,
            SessionGateway::Receiving => &self.receiving,
        };
        let Some(running) = running else { return Ok(Vec::new()) };
        let status = running.sessions.status().context("ask a gateway about its sessions")?;
        Ok(status.remotes.into_iter().flat_map(|remote| remote.sessions).collect())
    }

    fn running_mut(&mut self, which: SessionGateway) -> &mut Option<RunningGateway> {
        match which {
            SessionGateway::Sending => &mut self.sending,
            SessionGateway::Receiving => &mut self.receiving,
        }
    }

    fn namespace(&self, which: SessionGateway) -> &'a Namespace {
        side_of(which).gateway_namespace(self.sites)
    }
}

impl Drop for NatGateways<'_> {
    fn drop(&mut self) {
        for which in [SessionGateway::Sending, SessionGateway::Receiving] {
            let Some(RunningGateway { sessions, plane }) = self.running_mut(which).take() else { continue };
            drop(sessions);
            // It takes its rules away in its own namespace.
            if let Err(error) = self.namespace(which).run(|| drop(plane)) {
                tracing::warn!("{error}");
            }
        }
    }
}

fn side_of(which: SessionGateway) -> GatewaySide {
    match which {
        SessionGateway::Sending => GatewaySide::Left,
        SessionGateway::Receiving => GatewaySide::Right,
    }
}

/// Hosts of the sending site share an address on each path but the first.
fn config_text(which: SessionGateway, paths: usize, idle: Span) -> String {
    let (own, far) = (side_of(which).address_number(), side_of(which).other_side().address_number());
    let addresses: Vec<_> = (0..paths).map(|path| format!("\"{}\"", Sites::gateway_address(path, far))).collect();
    let mut text = format!(
        "[gateway]\nname = \"site{own}\"\n\n[sessions]\nkey = \"unused\"\nport = {MESSAGE_PORT}\nidle = \"{}ns\"\n\n\
         [[local]]\ninterface = \"{}\"\nnetworks = [\"10.{own}.0.0/24\"]\n\n\
         [[remote]]\nname = \"site{far}\"\nnetworks = [\"10.{far}.0.0/24\"]\nsessions = true\n\
         public-key = \"{}\"\naddresses = [{}]\n",
        idle.as_nanos(),
        Sites::LAN,
        side_of(which).other_side().private_key().public_key(),
        addresses.join(", ")
    );
    for place in 0..paths {
        let (name, next_hop) = (Sites::path_interface(place), Sites::gateway_address(place, far));
        let _ = writeln!(text, "\n[[path]]\nname = \"{name}\"\ninterface = \"{name}\"\ngateways = [\"{next_hop}\"]");
        if place > 0 {
            let path = if which == SessionGateway::Sending { format!("path = \"{name}\"\n") } else { String::new() };
            let alias = path_alias(place);
            let _ = write!(text, "\n[[translation]]\nnetwork = \"10.1.0.0/24\"\nalias = \"{alias}\"\n{path}");
        }
    }
    text
}
