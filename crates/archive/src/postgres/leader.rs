use super::PostgresStore;
use crate::ArchiveError;
use kumade_units::{Span, Time};

/// Who writes an archive that several can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Counts those that have led; zero if nobody has.
    pub epoch: u64,
    /// What it is called.
    pub name: String,
    /// How long ago it said so, by the server's clock.
    pub age: Span,
}

const LEAD: &str = "look who leads";
/// The time of the clock, as that of the transaction is when it began.
const AGE: &str = "extract(epoch FROM clock_timestamp() - renewed)::float8";

impl PostgresStore {
    /// Who leads.
    ///
    /// # Errors
    ///
    /// The database can't be read.
    pub fn leader(&mut self) -> Result<Leader, ArchiveError> {
        self.read_leader().or_else(|_| {
            // The server was restarted, perhaps.
            *self = self.reconnected()?;
            self.read_leader()
        })
    }

    fn read_leader(&mut self) -> Result<Leader, ArchiveError> {
        let rows = self.session.query(LEAD, &format!("SELECT epoch, name, {AGE} FROM leader"), &[])?;
        let row = rows.first().ok_or_else(|| self.deposed())?;
        let age = Span::from_secs_f64(row.get::<_, f64>(2).max(0.0));
        Ok(Leader { epoch: row.get::<_, i64>(0) as u64, name: row.get(1), age })
    }

    /// Begins to lead instead of the one of an epoch, if that one has not said for some time that it still does. Returns the own epoch; none if
    /// it has, or another was faster.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn take_over(&mut self, from: u64, stale_after: Span, name: &str) -> Result<Option<u64>, ArchiveError> {
        // A transaction of the one before has locked the row: it ends, or the server ends it, within the time for idle ones.
        let sql = format!(
            "UPDATE leader SET epoch = epoch + 1, name = $2, renewed = clock_timestamp() \
             WHERE epoch = $1 AND (epoch = 0 OR {AGE} >= $3) RETURNING epoch"
        );
        let rows = self.session.query("take over", &sql, &[&(from as i64), &name, &stale_after.as_secs_f64()])?;
        self.epoch = rows.first().map(|row| row.get(0));
        Ok(self.epoch.map(|epoch| epoch as u64))
    }

    /// Says that it still leads; returns whether it does.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn renew(&mut self) -> Result<bool, ArchiveError> {
        let sql = "UPDATE leader SET renewed = clock_timestamp() WHERE epoch = $1";
        let renewed = self.session.execute("say who leads", sql, &[&self.epoch.unwrap_or(-1)])?;
        Ok(renewed > 0)
    }

    /// Leads no more: another may take over as soon as it looks.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn resign(&mut self) -> Result<(), ArchiveError> {
        let sql = "UPDATE leader SET renewed = 'epoch' WHERE epoch = $1";
        self.session.execute("give up to lead", sql, &[&self.epoch.take().unwrap_or(-1)]).map(drop)
    }

    /// Shows those that stand by what the leader sees at a time. It is gone with the server, where that is restarted by force.
    ///
    /// # Errors
    ///
    /// The database can't be written, or another leads.
    pub fn share_seen(&mut self, at: Time, data: &[u8]) -> Result<(), ArchiveError> {
        let operation = "share what is seen";
        let sql = "INSERT INTO seen VALUES(1, $1, $2) ON CONFLICT(id) DO UPDATE SET at = $1, data = $2";
        let write = |store: &mut Self| store.session.execute(operation, sql, &[&at.as_nanos(), &data]).map(drop);
        self.in_transaction(operation, write)
    }

    /// What the leader has shown last, and as of when; none if that is what is known.
    ///
    /// # Errors
    ///
    /// The database can't be read.
    pub fn seen(&mut self, known: Option<Time>) -> Result<Option<(Time, Vec<u8>)>, ArchiveError> {
        let sql = "SELECT at, data FROM seen WHERE at IS DISTINCT FROM $1";
        let rows = self.session.query("look at what the leader sees", sql, &[&known.map(Time::as_nanos)])?;
        Ok(rows.first().map(|row| (Time::from_nanos(row.get(0)), row.get(1))))
    }

    /// Does several things at once or none, and only as the one that leads.
    pub(super) fn in_transaction<T>(
        &mut self,
        operation: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        self.session.execute_all(operation, "BEGIN")?;
        let done = self.check_epoch().and_then(|()| work(self));
        let done = done.and_then(|done| self.session.execute_all(operation, "COMMIT").map(|()| done));
        if done.is_err() {
            self.session.forget_statements();
            _ = self.session.execute_all(operation, "ROLLBACK");
        }
        done
    }

    /// The row is held until the transaction ends: nobody takes over meanwhile.
    fn check_epoch(&mut self) -> Result<(), ArchiveError> {
        let rows = self.session.query(LEAD, "SELECT epoch FROM leader FOR SHARE", &[])?;
        let leads = self.epoch.is_some() && rows.first().map(|row| row.get::<_, i64>(0)) == self.epoch;
        leads.then_some(()).ok_or_else(|| self.deposed())
    }

    fn deposed(&self) -> ArchiveError {
        ArchiveError::Deposed { archive: self.session.name.clone() }
    }
}
