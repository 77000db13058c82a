//! Tables, and how those of earlier versions become those of this one.

use super::error::engine_error;
use crate::ArchiveError;
use rusqlite::Connection;

/// "kuma", in the header of the file.
const APPLICATION_ID: i32 = 0x6b75_6d61;

/// Each step makes the schema of the next number. A step is never changed once it was released.
const MIGRATIONS: &[&str] = &[FIRST];

/// Blocks, and what is not yet rolled up, are keyed by number · 2^32 + pair · 2^8 + piece: written in the order of time, they fill their pages, and what is too old lies
/// together. Keyed by pair first, each write would touch a page of its own, half of which stayed empty.
const FIRST: &str = "
CREATE TABLE host(id INTEGER PRIMARY KEY, stable_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, address TEXT NOT NULL,
    properties TEXT NOT NULL) STRICT;
CREATE TABLE pair(id INTEGER PRIMARY KEY, source INTEGER NOT NULL, target INTEGER NOT NULL, family INTEGER NOT NULL,
    UNIQUE(source, target, family)) STRICT;
CREATE TABLE delivered(instance TEXT NOT NULL, first BLOB NOT NULL, last BLOB NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY(instance, first)) STRICT, WITHOUT ROWID;
CREATE TABLE segment(hour INTEGER NOT NULL, generation INTEGER NOT NULL, rolled_to INTEGER, PRIMARY KEY(hour, generation))
    STRICT, WITHOUT ROWID;
CREATE TABLE packets(key INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE minutes(key INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE hours(key INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE days(key INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE figure_name(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE run(id INTEGER PRIMARY KEY, pair INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL,
    schema TEXT NOT NULL, figures BLOB NOT NULL) STRICT;
CREATE INDEX run_of_pair ON run(pair, started);
CREATE INDEX run_by_time ON run(started);
CREATE TABLE latest_run(pair INTEGER PRIMARY KEY, run INTEGER NOT NULL, started INTEGER NOT NULL) STRICT;
CREATE TABLE document(run INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE event(at INTEGER NOT NULL, kind TEXT NOT NULL, host INTEGER, pair INTEGER, text TEXT NOT NULL) STRICT;
CREATE INDEX event_by_time ON event(at);
CREATE TABLE gap(pair INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, cause TEXT NOT NULL,
    PRIMARY KEY(pair, since)) STRICT, WITHOUT ROWID;
CREATE INDEX gap_by_end ON gap(until);
CREATE TABLE audit(at INTEGER NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL) STRICT;
CREATE INDEX audit_by_time ON audit(at);
CREATE TABLE state(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE latest(pair INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
";

/// The schema that this version writes.
pub(crate) fn latest_schema() -> u32 {
    MIGRATIONS.len() as u32
}

/// Creates the tables, or brings those of an earlier version forward. All or nothing.
pub(crate) fn migrate(connection: &mut Connection, archive: &str) -> Result<(), ArchiveError> {
    let failed = |error| engine_error("create or migrate the tables", archive, error);
    let found = check(connection, archive)?;
    if found == latest_schema() {
        return Ok(());
    }
    let transaction = connection.transaction().map_err(failed)?;
    for step in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    transaction.pragma_update(None, "user_version", latest_schema()).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// The schema that is there, 0 of an empty file; refuses what is later or foreign.
pub(crate) fn check(connection: &Connection, archive: &str) -> Result<u32, ArchiveError> {
    let failed = |error| engine_error("read the schema's version", archive, error);
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let (application, found) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    if tables > 0 && application != i64::from(APPLICATION_ID) {
        return Err(ArchiveError::Foreign { archive: archive.to_owned() });
    }
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > latest_schema() {
        return Err(ArchiveError::Newer { archive: archive.to_owned(), found, known: latest_schema() });
    }
    Ok(found)
}
