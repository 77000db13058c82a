//! Clients that have keys of their own: who is let in, what each may do, and what is told of it.

use crate::common;

use common::recorder::Recorder;
use common::{DEADLINE, RawClient, RunningServer};
use kumade_client::{Error, MeasureConfig, measure};
use kumade_measurement::TransportChoice;
use kumade_probe_train::Transport;
use kumade_serve::{AccessRecord, NamedClient, Quota, ServerConfig};
use kumade_units::{Direction, Span};
use kumade_wire::{ClientMessage, ClientSession, PresharedKey, ServerMessage, Version};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.access.1.json");

fn key(byte: u8) -> PresharedKey {
    PresharedKey::from_bytes([byte; 32])
}

fn client(name: &str, byte: u8, quota: Quota) -> NamedClient {
    NamedClient { name: name.to_owned(), key: key(byte), quota }
}

/// A server of these clients, and its access log.
struct Site {
    server: RunningServer,
    log: PathBuf,
}

impl Site {
    fn start(test: &str, clients: Vec<NamedClient>) -> Self {
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.jsonl"));
        let _ = fs::remove_file(&log);
        let access_log = Some(Arc::new(File::options().append(true).create(true).open(&log).unwrap()));
        let server = RunningServer::start(ServerConfig { clients, access_log, ..ServerConfig::default() });
        Site { server, log }
    }

    fn measuring(&self, address: SocketAddr, byte: u8) -> MeasureConfig {
        let config = common::measuring(address).with_changed_plan(|plan| {
            plan.transport = TransportChoice::Fixed(Transport::Udp);
            plan.method = "linear-scan:packets=10".parse().unwrap();
        });
        MeasureConfig { key: Some(key(byte)), ..config }
    }

    fn measure(&self, byte: u8) -> Result<(), Error> {
        measure(&self.measuring(self.server.address, byte), &mut |_| {}).map(|_| ())
    }

    /// The lines of the log, once there are so many; each fits the schema.
    fn lines(&self, count: usize) -> Vec<serde_json::Value> {
        let began = Instant::now();
        let text = loop {
            let text = fs::read_to_string(&self.log).unwrap();
            if text.lines().count() >= count {
                break text;
            }
            assert!(began.elapsed() < DEADLINE, "{text}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let schema = serde_json::from_str(&fs::read_to_string(SCHEMA).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.iter().for_each(|line| validator.validate(line).unwrap_or_else(|error| panic!("{error} in {line}")));
        assert_eq!(lines.len(), count, "{text}");
        lines
    }
}

fn reason(error: Result<(), Error>) -> String {
    match error {
        Err(Error::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// To write it anew: `UPDATE_SCHEMAS=1 cargo test -p kumade-serve --test tests named_clients`.
#[test]
fn the_schema_of_the_access_log_is_the_published_one() {
    let generated = serde_json::to_string_pretty(&AccessRecord::json_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(SCHEMA, &generated).unwrap();
    }
    assert_eq!(fs::read_to_string(SCHEMA).unwrap(), generated);
}

/// Also clients of earlier releases, which know of one key alone.
#[test]
fn each_client_is_known_by_its_key_and_told_of_in_the_log() {
    let clients = vec![client("campus", 1, Quota::default()), client("lab", 2, Quota::default())];
    let site = Site::start("known", clients);
    site.measure(2).unwrap();
    let older = Recorder::start(site.server.address, Some(Version::OLDEST));
    let config = site.measuring(older.address, 1);
    measure(&config, &mut |_| {}).unwrap();
    assert!(matches!(site.measure(3), Err(Error::Handshake { .. })));
    assert!(matches!(site.measure(3), Err(Error::Handshake { .. })), "of which no second line tells");
    let mut open = RawClient::connect(site.server.address);
    assert!(open.receive().unwrap_err().contains("requires a key"));

    let lines = site.lines(3);
    let find = |client: &str| lines.iter().find(|line| line["client"] == client).unwrap();
    let (lab, campus) = (find("lab"), find("campus"));
    let stranger = lines.iter().find(|line| line["event"] == "key-refused").unwrap();
    for (line, name) in [(lab, "lab"), (campus, "campus")] {
        assert_eq!(
            (&line["event"], &line["client"], &line["result"]),
            (&"measurement".into(), &name.into(), &"complete".into())
        );
        assert!(
            line["received_bytes"].as_u64().unwrap() > 0 && line["duration_seconds"].as_f64().unwrap() > 0.0,
            "{line}"
        );
        assert_eq!(line["transports"], serde_json::json!(["udp"]));
    }
    assert_eq!(lab["directions"], serde_json::json!(["up", "down"]));
    assert!(lab["sent_bytes"].as_u64().unwrap() > 0);
    assert_eq!((&stranger["event"], &stranger["key"]), (&"key-refused".into(), &"unknown".into()));
    assert_eq!(stranger["address"], "127.0.0.1");
}

#[test]
fn a_client_that_has_used_its_measurements_is_told_when_to_come_again() {
    let quota = Quota { measurements_per_hour: Some(1), ..Quota::default() };
    let site = Site::start("measurements", vec![client("campus", 1, quota), client("lab", 2, Quota::default())]);
    site.measure(1).unwrap();
    let why = reason(site.measure(1));
    assert!(
        why.contains("the quota of the client campus, 1 measurement in an hour, is exceeded; come again in "),
        "{why}"
    );
    site.measure(2).unwrap();
    let refused = &site.lines(3)[1];
    assert_eq!((&refused["result"], &refused["reason"]), (&"refused".into(), &why.into()));
    assert_eq!((&refused["received_bytes"], &refused["duration_seconds"]), (&0.into(), &0.0.into()));
}

/// The measurement ends at the train that is too much; what was measured before counts.
#[test]
fn a_client_that_has_used_its_bytes_is_refused() {
    let quota = Quota { bytes_per_day: Some(60_000), ..Quota::default() };
    let site = Site::start("bytes", vec![client("campus", 1, quota)]);
    let why = reason((0..10).map(|_| site.measure(1)).find(Result::is_err).unwrap());
    assert!(why.contains("the quota of the client campus, 60000b in 24 hours, is exceeded; "), "{why}");
    let lines = fs::read_to_string(&site.log).unwrap().lines().count().max(1);
    let carried: u64 = site
        .lines(lines)
        .iter()
        .map(|line| line["sent_bytes"].as_u64().unwrap() + line["received_bytes"].as_u64().unwrap())
        .sum();
    assert!(carried <= 60_000, "{carried}");
}

#[test]
fn a_client_that_may_not_fill_the_path_is_refused_and_told_of() {
    let quota = Quota { denies_load: true, ..Quota::default() };
    let site = Site::start("load", vec![client("campus", 1, quota)]);
    let (mut campus, _) = RawClient::with_key_and_turn(site.server.address, &key(1));
    let second = Span::from_secs(1);
    campus.send(&ClientMessage::Load {
        direction: Direction::Up,
        first: 0,
        expected: 1,
        wait: second,
        duration: second,
    });
    let answer = campus.receive().unwrap();
    let ServerMessage::Refused(why) = &answer else { panic!("{answer:?}") };
    assert_eq!(why, "the client campus may not fill the path: measure without --load");
    let line = &site.lines(1)[0];
    assert_eq!((&line["result"], &line["load"]), (&"refused".into(), &false.into()));
}

#[test]
fn clients_are_replaced_while_the_server_runs_and_what_they_have_used_remains() {
    let quota = |measurements| Quota { measurements_per_hour: Some(measurements), ..Quota::default() };
    let site = Site::start("replaced", vec![client("campus", 1, quota(1)), client("lab", 2, Quota::default())]);
    site.measure(1).unwrap();
    let mut lab = RawClient::with_key_and_turn(site.server.address, &key(2)).0;
    let changes = site.server.clients.replace(&[client("campus", 4, quota(2)), client("office", 3, Quota::default())]);
    assert_eq!((changes.added, changes.removed), (vec!["office".to_owned()], vec!["lab".to_owned()]));
    for gone in [1, 2] {
        assert!(matches!(site.measure(gone), Err(Error::Handshake { .. })), "{gone}");
    }
    lab.send_all(&[ClientMessage::Ping, ClientMessage::EndTurn, ClientMessage::EnterQueue]);
    assert_eq!(lab.receive(), Ok(ServerMessage::Pong), "its turn goes on");
    let why = "the client lab is not served any more".to_owned();
    assert_eq!(lab.receive(), Ok(ServerMessage::Refused(why)));
    site.measure(3).unwrap();
    site.measure(4).unwrap();
    assert!(reason(site.measure(4)).contains("2 measurements in an hour"), "with one before");
}

/// What a connection with a wrong key is answered before it is closed.
fn try_wrong_key(server: SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // It may be closed before that has been said.
    let _ = stream.write_all(&ClientSession::client(Some(&key(0)), Version::NEWEST).take_outgoing());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// 128 keys are tried with what it says: a network has that done for so long, and another is served all the while.
#[test]
fn a_network_with_wrong_keys_is_soon_not_tried_and_another_is() {
    let clients = (1..=128).map(|byte| client(&format!("client-{byte}"), byte, Quota::default())).collect();
    let site = Site::start("trials", clients);
    let is_full = |answer: Vec<u8>| answer.get(8) == Some(&4);
    let tried = (0..5000).find(|_| is_full(try_wrong_key(site.server.address)));
    assert!(tried.is_some_and(|tried| tried >= 100), "a host with a wrong key is, one that goes on is not: {tried:?}");
    let mut config = site.measuring(site.server.address, 128);
    config.binding.source = Some(IpAddr::V4(Ipv4Addr::new(127, 9, 9, 9)));
    measure(&config, &mut |_| {}).unwrap();
    let lines = site.lines(2);
    assert_eq!((&lines[0]["event"], &lines[1]["client"]), (&"key-refused".into(), &"client-128".into()));
}
