//! A database that several machines share: PostgreSQL.

mod error;
mod partitions;
mod read;
mod schema;
mod session;
mod write;

use crate::ArchiveError;
use session::{SPOOL_PREFIX, Session};

/// An archive in a database. One writer holds it, whichever machine it runs on; any number of readers.
///
/// A writer holds an advisory lock of the session that it writes by: if the session ends, neither the lock nor a write of
/// this writer is left, and another may take over. A host that has vanished is noticed within half a minute.
#[derive(Debug)]
pub struct PostgresStore {
    session: Session,
}

/// "kumade" in ASCII: the lock that the writer of an archive holds, and what keeps two migrations apart.
const WRITER_LOCK: i64 = 0x6b75_6d61_6465;

impl PostgresStore {
    /// Connects as the writer. An empty database gets the tables; those of an earlier version are migrated.
    /// `connection` is a string of libpq's kind: `host=db.example.net user=kumade dbname=kumade`.
    ///
    /// # Errors
    ///
    /// The server can't be reached, another writer holds the archive, or it is of a later version.
    pub fn open(connection: &str) -> Result<Self, ArchiveError> {
        let mut session = Session::connect(connection)?;
        let held = session.query("take the writer's lock", "SELECT pg_try_advisory_lock($1)", &[&WRITER_LOCK])?;
        if !held.first().is_some_and(|row| row.get(0)) {
            let cause = "another coordinator writes it; it can be taken over once that one has ended".to_owned();
            return Err(ArchiveError::Engine { operation: "write", archive: session.name, cause });
        }
        schema::migrate(&mut session)?;
        Ok(PostgresStore { session })
    }

    /// Connects for reading alone.
    ///
    /// # Errors
    ///
    /// The server can't be reached, or the archive is of another version: an earlier one is migrated by the writer.
    pub fn open_read_only(connection: &str) -> Result<Self, ArchiveError> {
        let mut session = Session::connect(connection)?;
        session.execute_all("set up the session", "SET default_transaction_read_only = on")?;
        let found = schema::check(&mut session)?;
        if found < schema::latest_schema() {
            let cause = format!("it has the schema {found}; start a coordinator once, which migrates it");
            return Err(ArchiveError::Engine { operation: "read", archive: session.name, cause });
        }
        Ok(PostgresStore { session })
    }
}

/// The table of a segment, which is dropped whole.
fn spool_table(segment: crate::SegmentId) -> String {
    format!("{SPOOL_PREFIX}{}_{}", segment.hour, segment.generation)
}
