//! NAT sessions between two gateways, in real namespaces.

use crate::counter;
use crate::sites;

use counter::Counter;
use kumade_daemon::RuntimeDir;
use kumade_gateway::GatewayConfig;
use kumade_gateway::direct::{DirectPlane, RemoteSessions, SessionPlane};
use kumade_gateway::status::{GatewayStatus, new_recorder};
use kumade_multipath::nat_session::{NatRole, RefusalReason, SessionPhase};
use kumade_net::interface::Family;
use kumade_net::namespace::Namespace;
use kumade_net::nftables::{
    Chain, FlowChange, FlowList, FlowListKind, Hook, InstalledTable, LogWatch, Rule, Statement, Table,
};
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces};
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey};
use kumade_packet::{Addresses, FlowKey};
use sites::Sites;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// One end of the sites, as its gateway knows it.
struct Site<'a> {
    namespace: &'a Namespace,
    /// 1 is left, 2 right.
    number: u8,
    key: PrivateKey,
    directory: RuntimeDir,
    idle: &'static str,
}

struct Running {
    sessions: SessionPlane,
    plane: DirectPlane,
}

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_bytes([seed; 32])
}

impl<'a> Site<'a> {
    fn pair(sites: &'a Sites, test: &str) -> [Site<'a>; 2] {
        [(&sites.left, 1), (&sites.right, 2)].map(|(namespace, number)| {
            let path =
                PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{number}-{}", std::process::id()));
            Site { namespace, number, key: key(number), directory: RuntimeDir::from_path(path), idle: "3s" }
        })
    }

    fn config(&self, far: PublicKey) -> GatewayConfig {
        let interfaces = ["lan", "path1", "path2"].map(String::from);
        GatewayConfig::from_toml(&self.text(far), "site.toml", &interfaces).unwrap()
    }

    /// All hosts of the left share one address on the second path.
    fn text(&self, far: PublicKey) -> String {
        let (own, other) = (self.number, 3 - self.number);
        let path = |number: u8| {
            format!(
                "[[path]]\nname = \"path{number}\"\ninterface = \"path{number}\"\n\
                 gateways = [\"10.9.{number}.{other}\", \"fd09:{number}::{other}\"]\n"
            )
        };
        let alias = if own == 1 { "path = \"path2\"\n" } else { "" };
        format!(
            "[gateway]\nname = \"site{own}\"\n[sessions]\nkey = \"unused\"\nidle = \"{}\"\n\
             [[local]]\ninterface = \"lan\"\nnetworks = [\"10.{own}.0.0/24\", \"fd0{own}::/64\"]\n{}{}\
             [[remote]]\nname = \"site{other}\"\nnetworks = [\"10.{other}.0.0/24\", \"fd0{other}::/64\"]\n\
             sessions = true\npublic-key = \"{far}\"\naddresses = [\"10.9.1.{other}\", \"10.9.2.{other}\"]\n\
             [[translation]]\nnetwork = \"10.1.0.0/24\"\nalias = \"198.51.100.1\"\n{alias}\
             [[translation]]\nnetwork = \"fd01::/64\"\nalias = \"fd51::/64\"\n{alias}",
            self.idle,
            path(1),
            path(2)
        )
    }

    fn start(&self, far: PublicKey) -> Running {
        self.start_with(&self.config(far))
    }

    fn start_with(&self, config: &GatewayConfig) -> Running {
        let start = || {
            let plane = DirectPlane::start(config, self.directory.clone()).unwrap();
            let psks = vec![PresharedKey::default()];
            let settings = config.sessions.as_ref().unwrap();
            Running { sessions: SessionPlane::start(&plane, settings, self.key.clone(), psks).unwrap(), plane }
        };
        self.namespace.run(start).unwrap()
    }

    /// Sends messages from the far gateway to nowhere, as they arrive, until the table is dropped.
    fn lose_messages(&self) -> InstalledTable {
        let (family, list) = (Family::V4, "messages");
        let rules = vec![Rule(vec![Statement::TranslateFlow(family, list.into())])];
        let table = Table {
            name: "filter".into(),
            counters: vec![],
            flow_lists: vec![FlowList { name: list.into(), family, kind: FlowListKind::Translation }],
            chains: vec![Chain { name: "arriving".into(), hook: Some(Hook::Prerouting(-400)), rules }],
        };
        let table = self.namespace.run(|| InstalledTable::install(&table)).unwrap().unwrap();
        let nowhere = Addresses { source: "192.0.2.1".parse().unwrap(), destination: "192.0.2.2".parse().unwrap() };
        let lost = |path: u8| {
            let end = |number: u8| format!("10.9.{path}.{number}:7273").parse().unwrap();
            let flow = FlowKey { protocol: 17, source: end(3 - self.number), destination: end(self.number) };
            FlowChange::Add(list.into(), flow, Some(nowhere))
        };
        table.change_flows(&[lost(1), lost(2)]).unwrap();
        table
    }

    fn stop(&self, running: Running) {
        let Running { sessions, plane } = running;
        sessions.stop().unwrap();
        drop(sessions);
        self.namespace.run(|| drop(plane)).unwrap();
    }
}

impl Running {
    fn remote(&self) -> RemoteSessions {
        self.sessions.status().unwrap().remotes.remove(0)
    }

    /// As `kumade gateway status` has it.
    fn document(&self, config: &GatewayConfig) -> GatewayStatus {
        let mut recorder = new_recorder(config);
        let fill = |status: &mut GatewayStatus, now| {
            self.sessions.status().unwrap().fill_status(status);
            self.plane.fill_status(status, now)
        };
        recorder.renew(fill).unwrap();
        recorder.latest().get()
    }

    /// Of the flows that it sends, those that are divided.
    fn divided(&self) -> usize {
        let is_divided = |role, phase| role == NatRole::Divides && phase == SessionPhase::Active;
        self.remote().sessions.iter().filter(|session| is_divided(session.role, session.phase)).count()
    }
}

fn both(sites: &[Site<'_>; 2]) -> [Running; 2] {
    let [left, right] = sites;
    let running = [left.start(right.key.public_key()), right.start(left.key.public_key())];
    assert!(eventually(|| running.iter().all(|one| one.remote().is_reachable)));
    running
}

fn on(path: &str, source: &str) -> Vec<Statement> {
    vec![Statement::InputInterface(path.into()), Statement::Source(source.parse().unwrap())]
}

/// Sends data over TCP from `a` to `b`, slowly and until it is told to end; `b` sees the address of `a`.
fn slow_transfer(sites: &Sites, to: &str, end: mpsc::Receiver<()>) -> (IpAddr, u64, u64) {
    let address = SocketAddr::new(to.parse().unwrap(), 9);
    let listener = sites.b.run(|| TcpListener::bind(address).unwrap()).unwrap();
    let near = sites.a.run(|| TcpStream::connect(address).unwrap()).unwrap();
    let (mut far, from) = listener.accept().unwrap();
    far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    near.set_write_timeout(Some(TEST_DEADLINE)).unwrap();
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        far.read_to_end(&mut received).unwrap();
        assert!(received.iter().enumerate().all(|(place, byte)| *byte == (place % 251) as u8), "altered");
        received.len() as u64
    });
    let mut sent = 0;
    while end.try_recv() == Err(mpsc::TryRecvError::Empty) {
        let data: Vec<u8> = (sent..sent + 2000).map(|place| (place % 251) as u8).collect();
        (&near).write_all(&data).unwrap();
        sent += 2000;
        thread::sleep(Duration::from_millis(2));
    }
    drop(near);
    (from.ip(), sent, reader.join().unwrap())
}

/// Runs a slow transfer while `during` looks on, and checks that it arrives unchanged from the address that its host has.
fn with_transfer<T>(sites: &Sites, [source, to]: [&str; 2], during: impl FnOnce() -> T) -> T {
    let (end, ended) = mpsc::channel();
    let ((from, sent, received), result) = thread::scope(move |scope| {
        let transfer = scope.spawn(|| slow_transfer(sites, to, ended));
        let result = during();
        end.send(()).unwrap();
        (transfer.join().unwrap(), result)
    });
    assert_eq!((from.to_string().as_str(), sent), (source, received));
    result
}

const V4: [&str; 2] = ["10.1.0.2", "10.2.0.2"];

/// The paper's Fig. 3, with the addresses of the sender's second provider.
#[test]
fn a_transfer_is_divided_by_itself_hosts_see_their_addresses_and_it_ends_when_idle() {
    in_namespaces("a_transfer_is_divided_by_itself_hosts_see_their_addresses_and_it_ends_when_idle", || {
        let sites = Sites::new();
        let ends = Site::pair(&sites, "sessions-transfer");
        let running = both(&ends);
        let cases = [(V4, "10.1.0.2/32", "198.51.100.1/32"), (["fd01::2", "fd02::2"], "fd01::2/128", "fd51::2/128")];
        for (addresses, own, alias) in cases {
            let counter = Counter::new(&sites.right, &[on("path1", own), on("path2", alias)]);
            let receiving = with_transfer(&sites, addresses, || {
                let carried = || counter.packets().iter().all(|packets| *packets > 10);
                assert!(eventually(carried), "{:?}", running[0].remote());
                // The acknowledgements have a session of their own.
                assert!(eventually(|| running.iter().all(|one| one.divided() == 1)));
                // It is counted once a second.
                let receiving = || running[1].remote().sessions.into_iter().find(|one| one.role == NatRole::Restores);
                assert!(eventually(|| receiving().is_some_and(|session| session.packets > 10)));
                receiving().unwrap()
            });
            assert_eq!((receiving.flow.source.ip().to_string().as_str(), receiving.aliases.len()), (addresses[0], 1));
            assert!(eventually(|| running.iter().all(|one| one.remote().sessions.is_empty())));
        }
        for running in &running {
            let statistics = running.remote().statistics;
            assert!(statistics.idle >= 2 && statistics.lapsed == 0 && statistics.failed == 0, "{statistics:?}");
        }
        ends.iter().zip(running).for_each(|(end, running)| end.stop(running));
    });
}

/// Where the kernel cannot tell of new flows, these are looked for.
#[test]
fn a_transfer_is_divided_where_another_program_has_the_log() {
    in_namespaces("a_transfer_is_divided_where_another_program_has_the_log", || {
        let sites = Sites::new();
        let _taken = sites.left.run(|| LogWatch::open(7272).unwrap()).unwrap();
        let ends = Site::pair(&sites, "sessions-log");
        let running = both(&ends);
        with_transfer(&sites, V4, || assert!(eventually(|| running[0].divided() == 1), "{:?}", running[0].remote()));
        ends.iter().zip(running).for_each(|(end, running)| end.stop(running));
    });
}

#[test]
fn a_lost_confirmation_is_asked_for_again_and_nothing_is_divided_before_it_comes() {
    in_namespaces("a_lost_confirmation_is_asked_for_again_and_nothing_is_divided_before_it_comes", || {
        let sites = Sites::new();
        let ends = Site::pair(&sites, "sessions-lost");
        let running = both(&ends);
        let counter = Counter::new(&sites.right, &[on("path2", "198.51.100.1/32")]);
        let filter = ends[0].lose_messages();
        with_transfer(&sites, V4, || {
            // Requests arrive, and confirmations do not; on a slow machine the far gateway counts as lost before.
            let is_repeated = |remote: RemoteSessions| remote.statistics.retransmissions > 0 || !remote.is_reachable;
            assert!(eventually(|| is_repeated(running[0].remote())), "{:?}", running[0].remote());
            assert_eq!((running[0].divided(), counter.packets()), (0, vec![0]));
            drop(filter);
            assert!(eventually(|| counter.packets()[0] > 10));
        });
        ends.iter().zip(running).for_each(|(end, running)| end.stop(running));
    });
}

#[test]
fn a_transfer_goes_on_while_either_gateway_is_started_again() {
    in_namespaces("a_transfer_goes_on_while_either_gateway_is_started_again", || {
        let sites = Sites::new();
        let ends = Site::pair(&sites, "sessions-restart");
        let [left, right] = &ends;
        let mut running = both(&ends).map(Some);
        with_transfer(&sites, V4, || {
            for (place, end, far) in [(0, left, right), (1, right, left)] {
                let all_divided =
                    |running: &[Option<Running>; 2]| running.iter().flatten().all(|one| one.divided() == 1);
                assert!(eventually(|| all_divided(&running)));
                end.stop(running[place].take().unwrap());
                let other = running[1 - place].as_ref().unwrap();
                assert!(eventually(|| other.remote().sessions.is_empty()));
                running[place] = Some(end.start(far.key.public_key()));
                assert!(eventually(|| all_divided(&running)));
            }
        });
        ends.iter().zip(running).for_each(|(end, running)| end.stop(running.unwrap()));
    });
}

#[test]
fn a_gateway_with_another_key_gets_no_sessions() {
    in_namespaces("a_gateway_with_another_key_gets_no_sessions", || {
        let sites = Sites::new();
        let [left, right] = Site::pair(&sites, "sessions-stranger");
        let running = [left.start(right.key.public_key()), right.start(key(99).public_key())];
        let counter = Counter::new(&sites.right, &[on("path1", "10.1.0.2/32"), on("path2", "198.51.100.1/32")]);
        let is_refused = || running[1].sessions.status().unwrap().refused_handshakes > 1;
        with_transfer(&sites, V4, || assert!(eventually(is_refused)));
        assert!(running.iter().all(|one| !one.remote().is_connected && one.remote().sessions.is_empty()));
        let packets = counter.packets();
        assert!(packets[0] > 0 && packets[1] == 0, "{packets:?}");
        let [one, two] = running;
        left.stop(one);
        right.stop(two);
    });
}

/// The far gateway's own configuration decides, whatever it is asked for.
#[test]
fn a_rule_is_refused_that_the_receiving_gateway_s_configuration_does_not_have() {
    in_namespaces("a_rule_is_refused_that_the_receiving_gateway_s_configuration_does_not_have", || {
        let sites = Sites::new();
        let [left, right] = Site::pair(&sites, "sessions-permitted");
        let mut config = right.config(left.key.public_key());
        config.translations.clear();
        let running = [left.start(right.key.public_key()), right.start_with(&config)];
        with_transfer(&sites, V4, || {
            let is_refused = || {
                let sessions = running[0].remote().sessions;
                let refused = SessionPhase::Refused(Some(RefusalReason::NotPermitted));
                sessions.iter().any(|session| session.phase == refused)
            };
            assert!(eventually(is_refused));
        });
        assert_eq!(running[1].remote().statistics.granted, 0);
        let [one, two] = running;
        left.stop(one);
        right.stop(two);
    });
}

#[test]
fn ten_thousand_flows_have_sessions_at_once_and_one_more_has_none() {
    in_namespaces("ten_thousand_flows_have_sessions_at_once_and_one_more_has_none", || {
        const FIRST_PORT: u16 = 20_000;
        const FLOWS: u16 = 10_000;
        let sites = Sites::new();
        let ends = Site::pair(&sites, "sessions-many").map(|site| Site { idle: "600s", ..site });
        let running = both(&ends);
        let near = sites.a.run(|| UdpSocket::bind("10.1.0.2:5000").unwrap()).unwrap();
        let send = |port: u16| drop(near.send_to(b"data", ("10.2.0.2", port)));
        let all_divided = || {
            (FIRST_PORT..FIRST_PORT + FLOWS).for_each(send);
            running[0].divided() == usize::from(FLOWS)
        };
        assert!(eventually(all_divided), "{:?}", running[0].remote().statistics);
        let granted = running[1].remote().statistics.granted;
        assert!(granted >= u64::from(FLOWS), "{granted}");
        assert!(eventually(|| {
            send(FIRST_PORT + FLOWS);
            running[0].remote().statistics.full > 0
        }));
        // Both tell about them, in time and in a document of bounded size.
        for (end, running, far) in [(&ends[0], &running[0], &ends[1]), (&ends[1], &running[1], &ends[0])] {
            let (start, status) = (Instant::now(), running.document(&end.config(far.key.public_key())));
            assert!(start.elapsed() < TEST_DEADLINE / 4, "{:?}", start.elapsed());
            assert_eq!(status.sessions.len(), GatewayStatus::MAX_SESSIONS);
            assert!(status.session_count >= u64::from(FLOWS));
            let sessions = status.remotes[0].sessions.as_ref().unwrap();
            assert!(sessions.divided.active.max(sessions.restored) >= u64::from(FLOWS), "{sessions:?}");
        }
        let other = running[0].remote().sessions.iter().any(|one| one.flow.destination.port() == FIRST_PORT + FLOWS);
        assert!(!other);
        ends.iter().zip(running).for_each(|(end, running)| end.stop(running));
    });
}
