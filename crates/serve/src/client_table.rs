//! The clients that have keys of their own, and what each has used of its quota.

use crate::config::ServerConfig;
use crate::named_client::{NamedClient, Quota};
use crate::quota::{QuotaExceeded, QuotaLimit, QuotaUsage};
use crate::shared_usage::SharedUsage;
use kumade_net::clock;
use kumade_units::{Span, Time, exact_text};
use kumade_wire::PresharedKey;
use std::sync::{Arc, MutexGuard};

/// The keys of a server, and whose they are.
#[derive(Debug)]
pub(super) struct ClientTable {
    /// Those of the accounts, in their order, then the one that has no name.
    pub(super) keys: Arc<[PresharedKey]>,
    accounts: Vec<Arc<ClientAccount>>,
    /// Of all accounts together, if it is.
    usage: Option<SharedUsage>,
}

/// What a named client may do, and what it has done.
#[derive(Debug)]
pub(super) struct ClientAccount {
    pub(super) name: String,
    quota: Quota,
    /// Of the name: it outlasts other quotas, and another key.
    usage: SharedUsage,
}

/// Which clients were replaced by others, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientChanges {
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that are there no more.
    pub removed: Vec<String>,
}

impl ClientTable {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let nobody = ClientTable { keys: [].into(), accounts: Vec::new(), usage: config.usage.clone() };
        nobody.with_clients(&config.clients, config.key.as_ref())
    }

    /// The one of this name, if it is served.
    pub(super) fn find_account_named(&self, name: &str) -> Option<Arc<ClientAccount>> {
        self.accounts.iter().find(|account| account.name == name).cloned()
    }

    /// These clients in place of those before; who has the same name has used what it had used.
    pub(super) fn with_clients(&self, clients: &[NamedClient], key: Option<&PresharedKey>) -> Self {
        let keys = clients.iter().map(|client| &client.key).chain(key).cloned().collect();
        let account = |client: &NamedClient| {
            let before = self.find_account_named(&client.name);
            let usage = before.map(|account| account.usage.clone()).or_else(|| self.usage.clone());
            let usage = usage.unwrap_or_default();
            Arc::new(ClientAccount { name: client.name.clone(), quota: client.quota, usage })
        };
        ClientTable { keys, accounts: clients.iter().map(account).collect(), usage: self.usage.clone() }
    }

    /// Who is in this one and not in the one `before`, and the reverse.
    pub(super) fn changes_since(&self, before: &ClientTable) -> ClientChanges {
        let names_missing = |from: &ClientTable, of: &ClientTable| {
            let is_missing = |account: &&Arc<ClientAccount>| from.find_account_named(&account.name).is_none();
            of.accounts.iter().filter(is_missing).map(|account| account.name.clone()).collect()
        };
        ClientChanges { added: names_missing(before, self), removed: names_missing(self, before) }
    }

    /// Whether only who has a key is served.
    pub(super) fn requires_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whose key this is, by its place; none for one without a name, and without a key.
    pub(super) fn find_account(&self, key_index: Option<usize>) -> Option<Arc<ClientAccount>> {
        self.accounts.get(key_index?).cloned()
    }
}

impl ClientAccount {
    /// Whether a measurement may begin. The error says why not.
    pub(super) fn check_measurement(&self) -> Result<(), String> {
        let now = clock::monotonic();
        self.lock().check_measurement(&self.quota, now).map_err(|exceeded| self.describe_refusal(exceeded, now))
    }

    /// Counts one, if it may begin.
    pub(super) fn begin_measurement(&self) -> Result<(), String> {
        let now = clock::monotonic();
        self.lock().begin_measurement(&self.quota, now).map_err(|exceeded| self.describe_refusal(exceeded, now))
    }

    /// Counts the bytes of a train, if they may be carried.
    pub(super) fn charge_bytes(&self, bytes: u64) -> Result<(), String> {
        let now = clock::monotonic();
        self.lock().charge_bytes(bytes, &self.quota, now).map_err(|exceeded| self.describe_refusal(exceeded, now))
    }

    /// Whether so many bytes may be carried. The error says why not.
    pub(super) fn check_bytes(&self, bytes: u64) -> Result<(), String> {
        let now = clock::monotonic();
        self.lock().check_bytes(bytes, &self.quota, now).map_err(|exceeded| self.describe_refusal(exceeded, now))
    }

    /// Counts bytes that have been carried.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.lock().add_bytes(bytes, clock::monotonic());
    }

    /// How many bytes may still be carried; none for no limit.
    pub(super) fn bytes_left(&self) -> Option<u64> {
        self.lock().bytes_left(&self.quota, clock::monotonic())
    }

    /// Whether the client may fill the path. The error says why not.
    pub(super) fn check_load(&self) -> Result<(), String> {
        if self.quota.denies_load {
            return Err(format!("the client {} may not fill the path: measure without --load", self.name));
        }
        Ok(())
    }

    fn describe_refusal(&self, exceeded: QuotaExceeded, now: Time) -> String {
        describe_refusal(&self.name, exceeded, now, clock::realtime())
    }

    fn lock(&self) -> MutexGuard<'_, QuotaUsage> {
        self.usage.lock()
    }
}

/// The limit, and when to come again: `now` is on the clock of `exceeded`, `utc` the same instant.
fn describe_refusal(name: &str, exceeded: QuotaExceeded, now: Time, utc: Time) -> String {
    let limit = match exceeded.limit {
        QuotaLimit::BytesPerDay(limit) => format!("{} in 24 hours", exact_text::bytes(limit)),
        QuotaLimit::MeasurementsPerHour(1) => "1 measurement in an hour".to_owned(),
        QuotaLimit::MeasurementsPerHour(limit) => format!("{limit} measurements in an hour"),
    };
    let advice = match exceeded.free_at {
        Some(free_at) => {
            let wait = (free_at - now).max(Span::ZERO);
            format!("come again in {}, at {}", describe_wait(wait), utc_second(utc + wait))
        }
        None => "measure with a smaller budget".to_owned(),
    };
    format!("the quota of the client {name}, {limit}, is exceeded; {advice}")
}

/// In whole seconds, minutes, or hours and minutes, never too short.
fn describe_wait(wait: Span) -> String {
    let seconds = wait.as_secs_f64().ceil() as u64;
    let minutes = seconds.div_ceil(60);
    match (seconds, minutes) {
        (0..=120, _) => format!("{seconds} s"),
        (_, 0..=120) => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// RFC 3339, the second that begins at or after this time.
fn utc_second(time: Time) -> String {
    let seconds = time.as_nanos().div_euclid(1_000_000_000) + i64::from(time.as_nanos() % 1_000_000_000 != 0);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_why_and_when_to_come_again() {
        let (now, utc) = (Time::ZERO, Time::from_nanos(1_763_000_000_400_000_000));
        let told = |limit, wait: Option<i64>| {
            let free_at = wait.map(|seconds| now + Span::from_secs(seconds));
            describe_refusal("campus", QuotaExceeded { limit, free_at }, now, utc)
        };
        assert_eq!(
            told(QuotaLimit::MeasurementsPerHour(12), Some(1441)),
            "the quota of the client campus, 12 measurements in an hour, is exceeded; come again in 25 min, at 2025-11-13T02:37:22Z"
        );
        assert_eq!(
            told(QuotaLimit::BytesPerDay(5 << 20), Some(8 * 3600)),
            "the quota of the client campus, 5mb in 24 hours, is exceeded; come again in 8 h 0 min, at 2025-11-13T10:13:21Z"
        );
        assert!(told(QuotaLimit::MeasurementsPerHour(1), Some(-1)).contains("1 measurement in an hour"));
        assert!(told(QuotaLimit::BytesPerDay(5_000), None).ends_with("measure with a smaller budget"));
    }
}
