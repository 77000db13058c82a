use super::address::PostgresAddress;
use super::error::engine_error;
use super::tls::refusal;
use crate::ArchiveError;
use postgres::types::ToSql;
use postgres::{Client, NoTls, Row, Statement};
use std::collections::BTreeMap;
use std::fmt;

/// Tables of segments begin with this.
pub(super) const SPOOL_PREFIX: &str = "spool_";

/// How a session is set up. A server drops a client that has vanished after 10 + 3 × 5 s. Plans are made anew for each
/// question: those that serve any parameters lock every partition. A client that was stopped within a transaction gives up what it has
/// locked, so that another can take over.
const SESSION: &str = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; \
                       SET tcp_user_timeout = 20000; SET plan_cache_mode = force_custom_plan; SET client_min_messages = warning; \
                       SET synchronous_commit = on; SET idle_in_transaction_session_timeout = 8000";

/// A connection, and what it has prepared.
pub(super) struct Session {
    pub(super) client: Client,
    /// What errors call the archive.
    pub(super) name: String,
    statements: BTreeMap<String, Statement>,
}

impl Session {
    pub(super) fn connect(address: &PostgresAddress) -> Result<Self, ArchiveError> {
        let name = address.name();
        let failed = |cause: String| ArchiveError::Engine { operation: "connect", archive: name.clone(), cause };
        let config = address.connection().map_err(|error| failed(error.to_string()))?;
        let tls = address.tls().map_err(|error| failed(format!("cannot read the certificates: {error}")))?;
        let connected = match tls {
            Some(tls) => config.connect(tls),
            None => config.connect(NoTls),
        };
        let client = connected.map_err(|error| match refusal(&error) {
            Some(cause) => failed(cause),
            None => engine_error("connect", &name, error),
        })?;
        let mut session = Session { client, name, statements: BTreeMap::new() };
        session.execute_all("set up the session", SESSION)?;
        Ok(session)
    }

    pub(super) fn execute_all(&mut self, operation: &'static str, sql: &str) -> Result<(), ArchiveError> {
        self.client.batch_execute(sql).map_err(|error| engine_error(operation, &self.name, error))
    }

    pub(super) fn query(
        &mut self,
        operation: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ArchiveError> {
        let statement = self.statement(operation, sql)?;
        self.client.query(&statement, parameters).map_err(|error| engine_error(operation, &self.name, error))
    }

    pub(super) fn execute(
        &mut self,
        operation: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, ArchiveError> {
        let statement = self.statement(operation, sql)?;
        self.client.execute(&statement, parameters).map_err(|error| engine_error(operation, &self.name, error))
    }

    /// Those that were prepared within a transaction that failed may be gone with it.
    pub(super) fn forget_statements(&mut self) {
        self.statements.clear();
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

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("Session").field("name", &self.name).finish_non_exhaustive()
    }
}
