//! A budget of bytes for 24 hours: of an agent's host, of a declared link.

use crate::run_document::utc_text;
use kumade_net::clock;
use kumade_serve::SharedUsage;
use kumade_units::{Span, Time, exact_text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What measurements may carry, and have carried.
#[derive(Debug)]
pub(crate) struct DayBudget {
    /// In 24 hours; none for no limit.
    pub(crate) bytes_per_day: Option<u64>,
    usage: SharedUsage,
    /// What one has carried at most.
    largest: u64,
}

/// For the next process: a restart gives no bytes back.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct NotedUse {
    utc: Time,
    bytes: u64,
}

const DAY: Span = Span::from_secs(86_400);
/// Of a time as far as its minute.
const MINUTE_CHARS: usize = "2026-11-28T14:30".len();

impl DayBudget {
    /// Goes on from what was noted; the bytes of that count for a day from now on.
    pub(crate) fn new(bytes_per_day: Option<u64>, noted: Option<NotedUse>) -> Self {
        let usage = SharedUsage::default();
        let noted = noted.filter(|noted| clock::realtime() - noted.utc < DAY);
        usage.add_bytes(noted.map_or(0, |noted| noted.bytes));
        DayBudget { bytes_per_day, usage, largest: 0 }
    }

    /// What a server counts itself.
    pub(crate) fn usage(&self) -> SharedUsage {
        self.usage.clone()
    }

    /// In the last 24 hours.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.usage.bytes()
    }

    /// A measurement has carried so much.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.usage.add_bytes(bytes);
        self.note_largest(bytes);
    }

    /// One has carried so much, which is counted already.
    pub(crate) fn note_largest(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
    }

    pub(crate) fn noted(&self) -> NotedUse {
        NotedUse { utc: clock::realtime(), bytes: self.used_bytes() }
    }

    /// Why none may begin; none if one may: there is room for as much as one has carried at most.
    pub(crate) fn refusal(&self) -> Option<String> {
        let limit = self.bytes_per_day?;
        let free_at = self.usage.time_of_room(self.largest.clamp(1, limit), limit)?;
        let (now, utc) = (clock::monotonic(), clock::realtime());
        (free_at > now).then(|| {
            // In whole minutes: it is told anew where it differs.
            let until = utc_text(utc + (free_at - now) + Span::from_secs(60));
            let until = until.get(..MINUTE_CHARS).unwrap_or_default();
            format!("the budget of {} in 24 hours is used up until {until}Z", exact_text::bytes(limit))
        })
    }
}

/// What a measurement has carried, both ways, by its document.
pub(crate) fn carried_bytes(document: &Value) -> u64 {
    let parts = ["/up", "/up/capacity", "/down", "/down/capacity"];
    let bytes = parts.map(|part| document.pointer(&format!("{part}/bytes_sent")).and_then(Value::as_u64));
    bytes.into_iter().flatten().fold(0, u64::saturating_add)
}
