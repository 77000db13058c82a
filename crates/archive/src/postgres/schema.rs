//! Tables, and how those of earlier versions become those of this one.

use super::session::Session;
use crate::ArchiveError;

/// Each step makes the schema of the next number. A step is never changed once it was released.
const MIGRATIONS: &[&str] = &[FIRST, SECOND, THIRD];

/// Numbers are 64 bits long everywhere: one type for all parameters. Blocks lie in partitions by number, made when they are
/// first written to.
const FIRST: &str = "
CREATE TABLE host(id bigint PRIMARY KEY, stable_id text NOT NULL UNIQUE, name text NOT NULL, address text NOT NULL,
    properties text NOT NULL);
CREATE TABLE pair(id bigint PRIMARY KEY, source bigint NOT NULL, target bigint NOT NULL, family bigint NOT NULL,
    UNIQUE(source, target, family));
CREATE TABLE delivered(instance text COLLATE \"C\" NOT NULL, first bytea NOT NULL, last bytea NOT NULL, at bigint NOT NULL,
    PRIMARY KEY(instance, first));
CREATE TABLE segment(hour bigint NOT NULL, generation bigint NOT NULL, rolled_to bigint, PRIMARY KEY(hour, generation));
CREATE TABLE packets(number bigint NOT NULL, pair bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY(number, pair))
    PARTITION BY RANGE(number);
CREATE TABLE minutes(number bigint NOT NULL, pair bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY(number, pair))
    PARTITION BY RANGE(number);
CREATE TABLE hours(number bigint NOT NULL, pair bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY(number, pair))
    PARTITION BY RANGE(number);
CREATE TABLE days(number bigint NOT NULL, pair bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY(number, pair))
    PARTITION BY RANGE(number);
CREATE TABLE figure_name(id bigint PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE run(id bigint PRIMARY KEY, pair bigint NOT NULL, started bigint NOT NULL, ended bigint NOT NULL, schema text NOT NULL,
    figures bytea NOT NULL);
CREATE INDEX run_of_pair ON run(pair, started);
CREATE INDEX run_by_time ON run(started);
CREATE TABLE latest_run(pair bigint PRIMARY KEY, run bigint NOT NULL, started bigint NOT NULL);
CREATE TABLE document(run bigint PRIMARY KEY, data bytea NOT NULL);
CREATE TABLE event(id bigserial PRIMARY KEY, at bigint NOT NULL, kind text NOT NULL, host bigint, pair bigint,
    text text NOT NULL);
CREATE INDEX event_by_time ON event(at);
CREATE TABLE gap(pair bigint NOT NULL, since bigint NOT NULL, until bigint NOT NULL, cause text NOT NULL,
    PRIMARY KEY(pair, since));
CREATE INDEX gap_by_end ON gap(until);
CREATE TABLE audit(id bigserial PRIMARY KEY, at bigint NOT NULL, who text NOT NULL, what text NOT NULL);
CREATE INDEX audit_by_time ON audit(at);
CREATE TABLE state(key text COLLATE \"C\" PRIMARY KEY, value bytea NOT NULL);
CREATE TABLE latest(pair bigint PRIMARY KEY, data bytea NOT NULL) WITH (fillfactor = 50);
-- They are compressed, and compressed for good.
ALTER TABLE document ALTER COLUMN data SET STORAGE EXTERNAL;
";

/// Who leads, in one row.
const SECOND: &str = "
CREATE TABLE leader(id bigint PRIMARY KEY CHECK (id = 1), epoch bigint NOT NULL, name text NOT NULL, renewed timestamptz NOT NULL)
    WITH (fillfactor = 10);
INSERT INTO leader VALUES(1, 0, '', 'epoch');
";

/// What the leader sees, for those that stand by: some megabytes every few seconds, which need not outlive the server. Not in its log, they
/// cost nothing on its disk.
const THIRD: &str = "
CREATE UNLOGGED TABLE seen(id bigint PRIMARY KEY CHECK (id = 1), at bigint NOT NULL, data bytea NOT NULL);
ALTER TABLE seen ALTER COLUMN data SET STORAGE EXTERNAL;
DELETE FROM state WHERE key = 'monitor.status';
";

/// What keeps two migrations apart: "kumade" in ASCII.
const MIGRATION_LOCK: i64 = 0x6b75_6d61_6465;

/// The schema that this version writes.
pub(super) fn latest_schema() -> u32 {
    MIGRATIONS.len() as u32
}

/// Creates the tables, or brings those of an earlier version forward. All or nothing; others wait meanwhile.
pub(super) fn migrate(session: &mut Session) -> Result<(), ArchiveError> {
    let operation = "create or migrate the tables";
    session.execute_all(operation, &format!("BEGIN; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))?;
    let migrated = migrate_locked(session).and_then(|()| session.execute_all(operation, "COMMIT"));
    if migrated.is_err() {
        session.forget_statements();
        _ = session.execute_all(operation, "ROLLBACK");
    }
    migrated
}

fn migrate_locked(session: &mut Session) -> Result<(), ArchiveError> {
    let found = check(session)?;
    if found == latest_schema() {
        return Ok(());
    }
    let steps = MIGRATIONS[found as usize..].concat();
    let number = format!(
        "CREATE TABLE IF NOT EXISTS kumade_schema(version bigint NOT NULL); DELETE FROM kumade_schema; \
         INSERT INTO kumade_schema VALUES({});",
        latest_schema()
    );
    session.execute_all("create or migrate the tables", &format!("{steps} {number}"))
}

/// The schema that is there, 0 of an empty database; refuses what is later or foreign.
pub(super) fn check(session: &mut Session) -> Result<u32, ArchiveError> {
    let operation = "read the schema's version";
    let sql = "SELECT count(*), count(*) FILTER (WHERE tablename = 'kumade_schema') FROM pg_tables \
               WHERE schemaname = current_schema()";
    let rows = session.query(operation, sql, &[])?;
    let (tables, ours) = rows.first().map_or((0, 0), |row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
    if ours == 0 {
        let foreign = || ArchiveError::Foreign { archive: session.name.clone() };
        return if tables == 0 { Ok(0) } else { Err(foreign()) };
    }
    let rows = session.query(operation, "SELECT version FROM kumade_schema", &[])?;
    let found = rows.first().map_or(0, |row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX));
    if found > latest_schema() {
        return Err(ArchiveError::Newer { archive: session.name.clone(), found, known: latest_schema() });
    }
    Ok(found)
}
