//! A database that several machines share: PostgreSQL.

mod error;
mod partitions;
mod read;
mod schema;
mod write;

use crate::ArchiveError;
use ::postgres::types::ToSql;
use ::postgres::{Client, Config, NoTls, Row, Statement};
use error::engine_error;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// An archive in a database. One writer holds it, whichever machine it runs on; any number of readers.
///
/// A writer holds an advisory lock of the session that it writes by: if the session ends, neither the lock nor a write of
/// this writer is left, and another may take over. A host that has vanished is noticed within half a minute.
pub struct PostgresStore {
    client: Client,
    name: String,
    statements: BTreeMap<String, Statement>,
}

/// "kumade" in ASCII: the lock that the writer of an archive holds, and what keeps two migrations apart.
const WRITER_LOCK: i64 = 0x6b75_6d61_6465;

/// A server that does not answer is given up after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a session is set up. A server drops a client that has vanished after 10 + 3 × 5 s. Plans are made anew for each
/// question: those that serve any parameters lock every partition.
const SESSION: &str = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; \
                       SET tcp_user_timeout = 20000; SET plan_cache_mode = force_custom_plan; SET client_min_messages = warning; \
                       SET synchronous_commit = on";

impl PostgresStore {
    /// Connects as the writer. An empty database gets the tables; those of an earlier version are migrated.
    /// `connection` is a string of libpq's kind: `host=db.example.net user=kumade dbname=kumade`.
    ///
    /// # Errors
    ///
    /// The server can't be reached, another writer holds the archive, or it is of a later version.
    pub fn open(connection: &str) -> Result<Self, ArchiveError> {
        let mut store = Self::connect(connection)?;
        let held = store.query("take the writer's lock", "SELECT pg_try_advisory_lock($1)", &[&WRITER_LOCK])?;
        if !held.first().is_some_and(|row| row.get(0)) {
            let cause = "another coordinator writes it; it can be taken over once that one has ended".to_owned();
            return Err(ArchiveError::Engine { operation: "write", archive: store.name, cause });
        }
        schema::migrate(&mut store)?;
        Ok(store)
    }

    /// Connects for reading alone.
    ///
    /// # Errors
    ///
    /// The server can't be reached, or the archive is of another version: an earlier one is migrated by the writer.
    pub fn open_read_only(connection: &str) -> Result<Self, ArchiveError> {
        let mut store = Self::connect(connection)?;
        store.execute_all("set up the session", "SET default_transaction_read_only = on")?;
        let found = schema::check(&mut store)?;
        if found < schema::latest_schema() {
            let cause = format!("it has the schema {found}; start a coordinator once, which migrates it");
            return Err(ArchiveError::Engine { operation: "read", archive: store.name, cause });
        }
        Ok(store)
    }

    fn connect(connection: &str) -> Result<Self, ArchiveError> {
        let failed = |name: &str, error| engine_error("connect", name, error);
        let mut config: Config = connection.parse().map_err(|error| failed("the connection string", error))?;
        config.connect_timeout(CONNECT_TIMEOUT).application_name("kumade");
        // Without the password.
        let name = format!("the database {}", config.get_dbname().or(config.get_user()).unwrap_or("kumade"));
        let client = config.connect(NoTls).map_err(|error| failed(&name, error))?;
        let mut store = PostgresStore { client, name, statements: BTreeMap::new() };
        store.execute_all("set up the session", SESSION)?;
        Ok(store)
    }

    fn execute_all(&mut self, operation: &'static str, sql: &str) -> Result<(), ArchiveError> {
        self.client.batch_execute(sql).map_err(|error| engine_error(operation, &self.name, error))
    }

    fn query(
        &mut self,
        operation: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ArchiveError> {
        let statement = self.statement(operation, sql)?;
        self.client.query(&statement, parameters).map_err(|error| engine_error(operation, &self.name, error))
    }

    fn execute(
        &mut self,
        operation: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, ArchiveError> {
        let statement = self.statement(operation, sql)?;
        self.client.execute(&statement, parameters).map_err(|error| engine_error(operation, &self.name, error))
    }

    /// Prepared once. Questions to tables that come and go are asked without.
    fn statement(&mut self, operation: &'static str, sql: &str) -> Result<Statement, ArchiveError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let prepared = self.client.prepare(sql).map_err(|error| engine_error(operation, &self.name, error))?;
        if !sql.contains(SPOOL_PREFIX) {
            self.statements.insert(sql.to_owned(), prepared.clone());
        }
        Ok(prepared)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("PostgresStore").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Tables of segments begin with this, and are dropped whole.
const SPOOL_PREFIX: &str = "spool_";

fn spool_table(segment: crate::SegmentId) -> String {
    format!("{SPOOL_PREFIX}{}_{}", segment.hour, segment.generation)
}
