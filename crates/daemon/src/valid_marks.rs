use crate::journal::{Journal, Leftover, Record};
use kumade_net::{SetupError, sysctl};
use serde::{Deserialize, Serialize};

/// Reverse path filtering (RFC 3704) of the calling thread's network namespace sees the marks of packets until this is dropped
/// (`net.ipv4.conf.all.src_valid_mark`). A [`Journal`] knows of it in case the process is killed.
#[derive(Debug)]
pub struct ValidMarks {
    record: Option<Record>,
}

/// It did not see marks before.
#[derive(Debug, Serialize, Deserialize)]
struct IgnoredMarks {}

const SETTING: &str = "net.ipv4.conf.all.src_valid_mark";

impl ValidMarks {
    /// None where it is so already, as the administrator has it.
    ///
    /// # Errors
    /// The system refuses it, or it cannot be written down.
    pub fn install(journal: &Journal) -> Result<Option<Self>, SetupError> {
        journal.recover::<IgnoredMarks>();
        let failed = |error| SetupError::new(format!("set {SETTING} to 1"), error);
        if sysctl::read(SETTING).map_err(failed)? != "0" {
            return Ok(None);
        }
        let record = journal.record(&IgnoredMarks {}).map_err(failed)?;
        sysctl::write(SETTING, "1").map_err(failed)?;
        Ok(Some(ValidMarks { record: Some(record) }))
    }
}

impl Drop for ValidMarks {
    fn drop(&mut self) {
        if let Err(error) = sysctl::write(SETTING, "0") {
            tracing::warn!("{SETTING} stays 1 until a tunnel starts: {error}");
            self.record.take().into_iter().for_each(Record::leave_to_successor);
        }
    }
}

impl Leftover for IgnoredMarks {
    const KIND: &'static str = "src-valid-mark";
    type Error = std::io::Error;

    fn exists(&self) -> bool {
        // Written down only where it is changed.
        true
    }

    fn undo(&self) -> std::io::Result<()> {
        sysctl::write(SETTING, "0")
    }
}
