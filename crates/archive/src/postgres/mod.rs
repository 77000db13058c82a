//! A database that several machines share: PostgreSQL.

mod address;
mod error;
mod leader;
mod partitions;
mod read;
mod schema;
mod session;
mod spool;
mod tls;
mod write;

use crate::ArchiveError;
pub use address::{PostgresAddress, PostgresAddressError};
pub use leader::Leader;
use session::{SPOOL_PREFIX, Session};
use std::time::Duration;

/// An archive in a database. One writer, whichever machine it runs on; any number of readers.
///
/// The one that leads writes: each transaction compares its epoch with the one that is stored, so that one that was replaced, whatever it
/// believes, writes nothing more.
#[derive(Debug)]
pub struct PostgresStore {
    session: Session,
    address: PostgresAddress,
    /// Of the writer that leads.
    epoch: Option<i64>,
    reads_only: bool,
}

impl PostgresStore {
    /// Connects. An empty database gets the tables; those of an earlier version are migrated. It can be written to once
    /// [`take_over`](Self::take_over) has succeeded.
    ///
    /// # Errors
    ///
    /// The server can't be reached, or the archive is of a later version.
    pub fn open(address: &PostgresAddress) -> Result<Self, ArchiveError> {
        let mut session = Session::connect(address)?;
        schema::migrate(&mut session)?;
        Ok(PostgresStore { session, address: address.clone(), epoch: None, reads_only: false })
    }

    /// Connects for reading alone. A connection that is lost is made anew by the next question.
    ///
    /// # Errors
    ///
    /// The server can't be reached, or the archive is of another version: an earlier one is migrated by the writer.
    pub fn open_read_only(address: &PostgresAddress) -> Result<Self, ArchiveError> {
        let session = Self::connect_reader(address)?;
        Ok(PostgresStore { session, address: address.clone(), epoch: None, reads_only: true })
    }

    /// A connection for another thread, which only reads.
    ///
    /// # Errors
    ///
    /// As [`open_read_only`](Self::open_read_only).
    pub fn reader(&self) -> Result<Self, ArchiveError> {
        Self::open_read_only(&self.address)
    }

    /// Whether the connection is gone: it is tried. What was asked last may have been done or not.
    pub fn is_lost(&mut self) -> bool {
        self.session.client.is_valid(ANSWER_TIMEOUT).is_err()
    }

    /// Another connection of the same writer, after the first one was lost. If it still leads, nobody has written meanwhile.
    ///
    /// # Errors
    ///
    /// The server can't be reached.
    pub fn reconnected(&self) -> Result<Self, ArchiveError> {
        let session = Session::connect(&self.address)?;
        Ok(PostgresStore { session, address: self.address.clone(), epoch: self.epoch, reads_only: self.reads_only })
    }

    fn connect_reader(address: &PostgresAddress) -> Result<Session, ArchiveError> {
        let mut session = Session::connect(address)?;
        session.execute_all("set up the session", "SET default_transaction_read_only = on")?;
        let found = schema::check(&mut session)?;
        if found < schema::latest_schema() {
            let cause = format!("it has the schema {found}; start a coordinator once, which migrates it");
            return Err(ArchiveError::Engine { operation: "read", archive: session.name, cause });
        }
        Ok(session)
    }

    fn begin(&mut self) -> Result<(), ArchiveError> {
        let (operation, sql) = ("begin to read", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        match self.session.execute_all(operation, sql) {
            // The server was restarted, perhaps.
            Err(_) if self.reads_only => {
                self.session = Self::connect_reader(&self.address)?;
                self.session.execute_all(operation, sql)
            }
            begun => begun,
        }
    }
}

/// A server that answers nothing for so long is gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
