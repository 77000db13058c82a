//! How much measurements carry at an agent's host in 24 hours, whoever asks for them.

use super::day_budget::DayBudget;
use kumade_client::PresharedKey;
use kumade_serve::{NamedClient, Quota, SharedUsage};
use std::fs;
use std::path::{Path, PathBuf};

/// A budget that outlasts the process.
#[derive(Debug)]
pub(super) struct TrainBudget {
    budget: DayBudget,
    /// What had been used when the last measurement began.
    before: u64,
    file: PathBuf,
    noted: u64,
}

const FILE: &str = "carried.json";
/// Whose quota it is that a refused measurement is told of.
const CLIENT: &str = "mesh";

impl TrainBudget {
    /// Goes on from what the process before has noted in this directory.
    pub(super) fn open(bytes_per_day: Option<u64>, directory: &Path) -> Self {
        let file = directory.join(FILE);
        let noted = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let budget = DayBudget::new(bytes_per_day, noted);
        let used = budget.used_bytes();
        TrainBudget { budget, before: used, file, noted: used }
    }

    /// Who has this key may measure within it.
    pub(super) fn client(&self, key: PresharedKey) -> NamedClient {
        let quota = Quota { bytes_per_day: self.budget.bytes_per_day, ..Quota::default() };
        NamedClient { name: CLIENT.to_owned(), key, quota }
    }

    pub(super) fn usage(&self) -> SharedUsage {
        self.budget.usage()
    }

    /// What was used, and what may be.
    pub(super) fn bytes(&self) -> (u64, Option<u64>) {
        (self.budget.used_bytes(), self.budget.bytes_per_day)
    }

    /// A measurement begins.
    pub(super) fn begin(&mut self) {
        self.note_use();
        self.before = self.budget.used_bytes();
    }

    /// A measurement that this end began has carried so much.
    pub(super) fn add_bytes(&mut self, bytes: u64) {
        self.begin();
        self.budget.add_bytes(bytes);
        self.note_use();
    }

    /// Looks at what was used since the last look.
    pub(super) fn note_use(&mut self) {
        let used = self.budget.used_bytes();
        self.budget.note_largest(used.saturating_sub(self.before));
        if used == self.noted {
            return;
        }
        self.noted = used;
        let bytes = serde_json::to_vec(&self.budget.noted()).map_err(Into::into);
        if let Err(error) = bytes.and_then(|bytes| fs::write(&self.file, bytes)) {
            tracing::debug!("cannot note what measurements have carried: {error}");
        }
    }

    /// Why none may begin; none if one may.
    pub(super) fn refusal(&self) -> Option<String> {
        self.budget.refusal()
    }
}
