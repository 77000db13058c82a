//! How much measurements carry at an agent's host in 24 hours, whoever asks for them.

use crate::run_document::utc_text;
use kumade_client::PresharedKey;
use kumade_client::report::Report;
use kumade_net::clock;
use kumade_serve::{NamedClient, Quota, SharedUsage};
use kumade_units::{Span, Time, exact_text};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What measurements may carry, and have carried.
#[derive(Debug)]
pub(super) struct TrainBudget {
    /// In 24 hours; none for no limit.
    bytes_per_day: Option<u64>,
    usage: SharedUsage,
    /// What had been used when the last measurement began.
    before: u64,
    /// What one used at most.
    largest: u64,
    file: PathBuf,
    noted: u64,
}

/// For the next process: a restart gives no bytes back.
#[derive(Serialize, Deserialize)]
struct NotedUse {
    utc: Time,
    bytes: u64,
}

const FILE: &str = "carried.json";
const DAY: Span = Span::from_secs(86_400);
/// Of a time as far as its minute.
const MINUTE_CHARS: usize = "2026-11-28T14:30".len();
/// Whose quota it is that a refused measurement is told of.
const CLIENT: &str = "mesh";

impl TrainBudget {
    /// Goes on from what the process before has noted in this directory.
    pub(super) fn open(bytes_per_day: Option<u64>, directory: &Path) -> Self {
        let (file, usage) = (directory.join(FILE), SharedUsage::default());
        let noted = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<NotedUse>(&bytes).ok());
        let noted = noted.filter(|noted| clock::realtime() - noted.utc < DAY).map_or(0, |noted| noted.bytes);
        usage.add_bytes(noted);
        TrainBudget { bytes_per_day, usage, before: noted, largest: 0, file, noted }
    }

    /// Who has this key may measure within it.
    pub(super) fn client(&self, key: PresharedKey) -> NamedClient {
        let quota = Quota { bytes_per_day: self.bytes_per_day, ..Quota::default() };
        NamedClient { name: CLIENT.to_owned(), key, quota }
    }

    pub(super) fn usage(&self) -> SharedUsage {
        self.usage.clone()
    }

    /// What was used, and what may be.
    pub(super) fn bytes(&self) -> (u64, Option<u64>) {
        (self.usage.bytes(), self.bytes_per_day)
    }

    /// A measurement begins.
    pub(super) fn begin(&mut self) {
        self.note_use();
        self.before = self.usage.bytes();
    }

    /// A measurement that this end began has carried so much.
    pub(super) fn add_bytes(&mut self, bytes: u64) {
        self.begin();
        self.usage.add_bytes(bytes);
        self.note_use();
    }

    /// Looks at what was used since the last look.
    pub(super) fn note_use(&mut self) {
        let used = self.usage.bytes();
        self.largest = self.largest.max(used.saturating_sub(self.before));
        if used == self.noted {
            return;
        }
        self.noted = used;
        let noted = NotedUse { utc: clock::realtime(), bytes: used };
        let written = serde_json::to_vec(&noted).map_err(Into::into).and_then(|bytes| fs::write(&self.file, bytes));
        if let Err(error) = written {
            tracing::debug!("cannot note what measurements have carried: {error}");
        }
    }

    /// Why none may begin; none if one may: there is room for as much as one has used at most.
    pub(super) fn refusal(&self) -> Option<String> {
        let limit = self.bytes_per_day?;
        let needed = self.largest.clamp(1, limit);
        let free_at = self.usage.time_of_room(needed, limit)?;
        let (now, utc) = (clock::monotonic(), clock::realtime());
        let budget = exact_text::bytes(limit);
        (free_at > now).then(|| {
            // In whole minutes: it is told anew where it differs.
            let until = utc_text(utc + (free_at - now) + Span::from_secs(60));
            let until = until.get(..MINUTE_CHARS).unwrap_or_default();
            format!("the budget of {budget} in 24 hours is used up until {until}Z")
        })
    }
}

/// What a measurement has carried, both ways.
pub(super) fn carried_bytes(report: &Report) -> u64 {
    let directions = [&report.up, &report.down].into_iter().flatten();
    let bytes = directions.map(|direction| {
        let capacity = direction.capacity.as_ref().map_or(0, |capacity| capacity.bytes_sent);
        direction.bytes_sent.saturating_add(capacity)
    });
    bytes.fold(0, u64::saturating_add)
}
