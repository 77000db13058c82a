//! The suite on PostgreSQL.

use crate::directory::Directory;
use crate::server::{PATIENCE, Server};
use crate::suite::{self, Engine, START, batch, make_pairs, probes, settle};
use kumade_archive::{
    Archive, ArchiveError, Batch, Kept, Leader, NewRun, PairId, PairState, PostgresAddress, PostgresStore, Reader,
    Retention, Run, Series, SeriesQuery, Store, Write,
};
use kumade_units::Span;
use nix::sys::signal::{Signal, kill};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn connection(server: &Server, database: &str) -> String {
    format!("host={} user=kumade dbname={database}", server.directory().display())
}

fn address(server: &Server, database: &str) -> PostgresAddress {
    connection(server, database).parse().unwrap()
}

fn new_database(server: &Server) -> Database<'_> {
    Database { server, name: server.create_database() }
}

struct Database<'a> {
    server: &'a Server,
    name: String,
}

impl Engine for Database<'_> {
    type Store = PostgresStore;

    fn open(&self) -> PostgresStore {
        open_patiently(&connection(self.server, &self.name))
    }

    fn reader(&self, _: &mut PostgresStore) -> PostgresStore {
        PostgresStore::open_read_only(&address(self.server, &self.name)).unwrap()
    }
}

/// Whoever led before.
fn open_as_leader(address: &PostgresAddress) -> Result<PostgresStore, ArchiveError> {
    let mut store = PostgresStore::open(address)?;
    let Leader { epoch, .. } = store.leader()?;
    assert!(store.take_over(epoch, Span::ZERO, "test")?.is_some());
    Ok(store)
}

/// The server may be about to start.
fn open_patiently(connection: &str) -> PostgresStore {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match open_as_leader(&connection.parse().unwrap()) {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn postgres_passes_the_suite() {
    let Some(server) = Server::start() else { return };
    suite::run(|| new_database(&server));
}

/// What two engines answer after the same history.
#[derive(Debug, PartialEq)]
struct Answers {
    series: Vec<Series>,
    states: Vec<PairState>,
    runs: Vec<Run>,
    packets: Vec<kumade_sketch::Sample>,
}

fn answers<E: Engine>(engine: &E) -> Answers {
    let mut archive = suite::open(engine, START);
    let pairs = make_pairs(&mut archive, 3);
    let end = START + Span::from_secs(40 * 86_400);
    let document =
        |day: i64| format!(r#"{{"schema": "kumade.measure/1", "up": {{"at_least_bits_per_second": {day}}}}}"#);
    for day in 0..40 {
        let from = START + Span::from_secs(day * 86_400);
        let now = from + suite::HOUR;
        let samples = pairs.iter().map(|pair| (*pair, probes(day as u64 + u64::from(pair.0), from, 120))).collect();
        let runs =
            vec![NewRun { pair: pairs[0], started: from, ended: from + Span::from_secs(8), document: document(day) }];
        archive.ingest(&Batch { runs, ..batch(day as u64, samples) }, now).unwrap();
        archive.commit(now).unwrap();
        settle(&mut archive, now + suite::HOUR);
        // What was late by days.
        let late = from - Span::from_secs(3 * 86_400);
        archive.ingest(&batch(1000 + day as u64, vec![(pairs[2], probes(day as u64, late, 10))]), now).unwrap();
        archive.commit(now).unwrap();
    }
    let series = |pair: &PairId| [3, 100, 700].map(|points| SeriesQuery { pair: *pair, from: START, to: end, points });
    let queries: Vec<_> = pairs.iter().flat_map(series).collect();
    let reader = archive.read();
    Answers {
        series: queries.iter().map(|query| reader.series(query).unwrap()).collect(),
        states: reader.latest().unwrap(),
        runs: reader.runs(pairs[0], START..end, 100).unwrap(),
        packets: reader.packets(pairs[2], end - Span::from_secs(5 * 86_400)..end, 10_000).unwrap(),
    }
}

#[test]
fn both_engines_give_the_same_answers_to_the_bit() {
    let Some(server) = Server::start() else { return };
    let (one, other) = (answers(&Directory::in_memory()), answers(&new_database(&server)));
    assert!(one.series.iter().all(|series| !series.points.is_empty()) && !one.packets.is_empty());
    assert_eq!(one, other);
}

/// What a writer that was stopped does when it goes on.
#[test]
fn one_that_was_replaced_writes_nothing_more() {
    let Some(server) = Server::start() else { return };
    let database = new_database(&server);
    let mut first = Archive::open(database.open(), Retention::default(), START).unwrap();
    let pair = make_pairs(&mut first, 1)[0];
    let mut other = PostgresStore::open(&address(&server, &database.name)).unwrap();
    let Leader { epoch, name, age } = other.leader().unwrap();
    assert_eq!((epoch, name.as_str()), (1, "test"));
    assert!(age < Span::from_secs(3600), "{age}");
    let hour = Span::from_secs(3600);
    assert_eq!(other.take_over(epoch, hour, "early").unwrap(), None, "it has said that it leads");
    assert!(matches!(other.put_anything(), Err(ArchiveError::Deposed { .. })), "it does not lead");
    assert!(first.store().renew().unwrap());
    assert_eq!(other.take_over(epoch, Span::ZERO, "late").unwrap(), Some(2));
    assert_eq!(other.take_over(epoch, Span::ZERO, "later").unwrap(), None, "of an epoch that is over");
    assert_eq!(other.take_over(2, Span::ZERO, "late").unwrap(), Some(3));
    first.ingest(&batch(1, vec![(pair, probes(1, START, 20))]), START + suite::HOUR).unwrap();
    assert!(matches!(first.commit(START + suite::HOUR), Err(ArchiveError::Deposed { .. })));
    assert!(!first.store().renew().unwrap());
    other.put_anything().unwrap();
    let old = START + Span::from_secs(86_400);
    assert!(matches!(first.store().delete_before(Kept::Events, old, 10), Err(ArchiveError::Deposed { .. })));
}

trait PutAnything {
    fn put_anything(&mut self) -> Result<(), ArchiveError>;
}

impl PutAnything for PostgresStore {
    fn put_anything(&mut self) -> Result<(), ArchiveError> {
        self.commit(&[Write::State("test".to_owned(), Some(vec![1]))])
    }
}

/// Between the beginning and the end of a transaction, which has locked who leads.
#[test]
fn a_transaction_that_does_not_end_holds_nobody_up() {
    let Some(server) = Server::start() else { return };
    let database = new_database(&server);
    let mut leader = database.open();
    let mut other = PostgresStore::open(&address(&server, &database.name)).unwrap();
    // As a writer that is stopped there.
    let mut stopped = ::postgres::Client::connect(&connection(&server, &database.name), ::postgres::NoTls).unwrap();
    stopped
        .batch_execute("SET idle_in_transaction_session_timeout = 8000; BEGIN; SELECT FROM leader FOR SHARE")
        .unwrap();
    assert_eq!(other.take_over(1, Span::ZERO, "other").unwrap(), Some(2));
    assert!(stopped.batch_execute("COMMIT").is_err());
    assert!(matches!(leader.put_anything(), Err(ArchiveError::Deposed { .. })));
}

#[test]
fn a_database_of_another_version_or_program_is_refused() {
    let Some(server) = Server::start() else { return };
    let database = new_database(&server);
    drop(database.open());
    let mut client = ::postgres::Client::connect(&connection(&server, &database.name), ::postgres::NoTls).unwrap();
    client.batch_execute("UPDATE kumade_schema SET version = 99").unwrap();
    let error = PostgresStore::open_read_only(&address(&server, &database.name)).unwrap_err();
    assert!(matches!(error, ArchiveError::Newer { found: 99, .. }), "{error}");
    let other = new_database(&server);
    let mut client = ::postgres::Client::connect(&connection(&server, &other.name), ::postgres::NoTls).unwrap();
    client.batch_execute("CREATE TABLE theirs(x int)").unwrap();
    assert!(matches!(PostgresStore::open(&address(&server, &other.name)), Err(ArchiveError::Foreign { .. })));
}

#[test]
fn a_reader_connects_again_to_a_server_that_was_killed() {
    let Some(mut server) = Server::start() else { return };
    let (name, mut reader) = {
        let database = new_database(&server);
        drop(database.open());
        let reader = PostgresStore::open_read_only(&address(&server, &database.name)).unwrap();
        (database.name.clone(), Reader::new(reader))
    };
    assert_eq!(reader.hosts().unwrap(), []);
    server.kill();
    server.restart_killed();
    // The server's own processes may have answered for a moment longer.
    assert!(reader.hosts().is_ok() || reader.hosts().is_ok(), "{name}");
}

#[test]
fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let Some(mut server) = Server::start() else { return };
    let connection = {
        let database = new_database(&server);
        connection(&server, &database.name)
    };
    let mut acknowledged = 0u64;
    for round in 0..4u64 {
        let mut archive = Archive::open(open_patiently(&connection), Retention::default(), START).unwrap();
        let pair = make_pairs(&mut archive, 1)[0];
        let pid = server.pid();
        let killer = std::thread::spawn(move || {
            sleep(Duration::from_millis(100 + 170 * round));
            // The server's own processes notice that it has gone.
            kill(pid, Signal::SIGKILL).unwrap();
        });
        // Until the server is gone.
        for sequence in acknowledged.. {
            let from = START + Span::from_secs(sequence as i64 * 120);
            let now = from + Span::from_secs(120);
            archive.ingest(&batch(sequence, vec![(pair, probes(sequence, from, 20))]), now).unwrap();
            if archive.commit(now).is_err() {
                break;
            }
            acknowledged = sequence + 1;
            if (0..9).any(|_| archive.maintain(now).is_err()) {
                break;
            }
        }
        killer.join().unwrap();
        drop(archive);
        server.restart_killed();
        let end = START + Span::from_secs(acknowledged as i64 * 120 + 86_400);
        let mut archive = Archive::open(open_patiently(&connection), Retention::default(), end).unwrap();
        let series = archive.read().series(&SeriesQuery { pair, from: START, to: end, points: 1 }).unwrap();
        let sent: u64 = series.points.iter().map(|point| point.summary[kumade_sketch::Lane::Up].all().sent()).sum();
        let whole = [acknowledged, acknowledged + 1].map(|batches| batches * 20);
        assert!(whole.contains(&sent), "{sent} probes after {acknowledged} batches");
    }
}

/// The engine's own part of a full disk is the same code as everywhere; what the server tells is told apart.
#[test]
fn room_is_looked_for_by_writing() {
    let Some(server) = Server::start() else { return };
    let mut store = new_database(&server).open();
    assert!(store.restore_reserve().unwrap());
    assert_eq!(store.checkpoint().unwrap(), 0);
}
