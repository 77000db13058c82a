//! What an agent has to deliver: batches on their way, and those on its disk.

use super::frame::{Batch, Delivery, MAX_BATCH_RESULTS, Pause, PeerResults, RunResult, WireResult};
use super::peer_path::PeerPath;
use super::spool::{BatchKey, Spool};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// Between two batches while the coordinator takes them.
const BATCH_INTERVAL: Span = Span::from_secs(1);
/// The same while it is away: what has not been written is lost with the process.
const SPOOL_INTERVAL: Span = Span::from_secs(10);
/// Batches that are on their way at a time.
const MAX_UNACKNOWLEDGED: usize = 64;
/// Of these, from the disk.
const MAX_BACKFILLED: usize = 8;
/// Between two batches from the disk: an hour is delivered within a minute, and the coordinator has time for the others.
const BACKFILL_INTERVAL: Span = Span::from_millis(150);
/// After this, a batch that is not acknowledged is sent again. The archive writes once a second, unless its disk is full.
const RESEND_AFTER: Span = Span::from_secs(15);

/// Takes results, gives deliveries, keeps what is not acknowledged.
#[derive(Debug)]
pub(super) struct Outbox {
    instance: u64,
    boot: String,
    next_sequence: u64,
    probes: BTreeMap<PeerPath, PeerResults>,
    runs: Vec<RunResult>,
    pause: Option<Pause>,
    next_batch: Time,
    next_backfill: Time,
    /// On their way: with the batch, or without where it is on the disk.
    sent: BTreeMap<BatchKey, (Time, Option<Batch>)>,
    spool: Spool,
    disk_failure: Option<String>,
}

impl Outbox {
    /// `boot` names this start of the host, by whose clock times are.
    pub(super) fn new(instance: u64, boot: String, spool: Spool, now: Time) -> Self {
        Outbox {
            instance,
            boot,
            next_sequence: 0,
            probes: BTreeMap::new(),
            runs: Vec::new(),
            pause: None,
            next_batch: now + BATCH_INTERVAL,
            next_backfill: now,
            sent: BTreeMap::new(),
            spool,
            disk_failure: None,
        }
    }

    /// What became of probes.
    pub(super) fn add_results(
        &mut self,
        path: PeerPath,
        duplicates: u64,
        results: impl IntoIterator<Item = WireResult>,
    ) {
        let all = self.probes.entry(path).or_insert(PeerResults { path, duplicates: 0, results: Vec::new() });
        all.duplicates = all.duplicates.saturating_add(duplicates);
        all.results.extend(results);
    }

    /// A run has ended.
    pub(super) fn add_run(&mut self, run: RunResult) {
        self.runs.push(run);
    }

    /// Nobody was probed from then until now.
    pub(super) fn add_pause(&mut self, pause: Pause) {
        self.pause = Some(pause);
    }

    /// Has passed to the archive.
    pub(super) fn acknowledge(&mut self, key: BatchKey) {
        tracing::trace!(instance = key.0, sequence = key.1, "a batch is acknowledged");
        self.sent.remove(&key);
        self.spool.remove(&key);
    }

    /// What waits on the disk.
    pub(super) fn spooled(&self) -> usize {
        self.spool.len()
    }

    /// Why the last batch could not be kept on the disk, if it could not.
    pub(super) fn disk_failure(&self) -> Option<String> {
        self.disk_failure.clone()
    }

    /// What is to be sent now; without a connection, what is there goes to the disk. `utc` is the clock of the day.
    pub(super) fn advance(&mut self, is_connected: bool, now: Time, utc: Time) -> Vec<Delivery> {
        self.give_up_sent(now, if is_connected { RESEND_AFTER } else { Span::ZERO });
        if is_connected {
            // It may have been away until now.
            self.next_batch = self.next_batch.min(now + BATCH_INTERVAL);
        }
        let mut deliveries = Vec::new();
        let count: usize = self.probes.values().map(|peer| peer.results.len()).sum();
        if now >= self.next_batch || count >= MAX_BATCH_RESULTS || !self.runs.is_empty() {
            self.next_batch = now + if is_connected { BATCH_INTERVAL } else { SPOOL_INTERVAL };
            for batch in self.take_batches(now, utc) {
                if is_connected && self.sent.len() < MAX_UNACKNOWLEDGED {
                    deliveries.push(Delivery { stamp: now, batch: batch.clone() });
                    self.sent.insert((batch.instance, batch.sequence), (now, Some(batch)));
                } else {
                    self.spool(&batch);
                }
            }
        }
        let backfilled = self.sent.values().filter(|(_, batch)| batch.is_none()).count();
        if is_connected && now >= self.next_backfill && backfilled < MAX_BACKFILLED {
            let sent = &self.sent;
            if let Some(batch) = self.spool.newest(|key| sent.contains_key(key)) {
                self.next_backfill = now + BACKFILL_INTERVAL;
                self.sent.insert((batch.instance, batch.sequence), (now, None));
                deliveries.push(Delivery { stamp: batch.stamp(&self.boot, now, utc), batch });
            }
        }
        deliveries
    }

    /// All that is not acknowledged goes to the disk: the process ends.
    pub(super) fn close(&mut self, now: Time, utc: Time) {
        self.give_up_sent(now, Span::ZERO);
        for batch in self.take_batches(now, utc) {
            self.spool(&batch);
        }
    }

    /// Probes in one batch, and each run in its own: a document may be long.
    fn take_batches(&mut self, now: Time, utc: Time) -> Vec<Batch> {
        let mut batches = Vec::new();
        for run in std::mem::take(&mut self.runs) {
            batches.push(Batch { runs: vec![run], ..Batch::default() });
        }
        let probes: Vec<_> = std::mem::take(&mut self.probes).into_values().collect();
        let pause = self.pause.take();
        if !probes.is_empty() || pause.is_some() {
            batches.push(Batch { probes, pause, ..Batch::default() });
        }
        for (batch, sequence) in batches.iter_mut().zip(self.next_sequence..) {
            (batch.instance, batch.sequence) = (self.instance, sequence);
            (batch.boot, batch.made, batch.made_utc) = (self.boot.clone(), now, utc);
        }
        self.next_sequence += batches.len() as u64;
        batches.iter().for_each(trace_batch);
        batches
    }

    /// What has been on its way for so long is sent again, later.
    fn give_up_sent(&mut self, now: Time, after: Span) {
        let overdue = self.sent.iter().filter(|(_, (sent, _))| now - *sent >= after).map(|(key, _)| *key);
        for key in overdue.collect::<Vec<_>>() {
            if let Some((_, Some(batch))) = self.sent.remove(&key) {
                self.spool(&batch);
            }
        }
    }

    fn spool(&mut self, batch: &Batch) {
        let written = self.spool.push(batch);
        self.disk_failure = written.err().map(|error| format!("cannot keep results for the coordinator: {error}"));
    }
}

/// What is in it: by this, what the archive has is compared with what was measured.
fn trace_batch(batch: &Batch) {
    let probes = || batch.probes.iter().map(|peer| (peer.path.peer, peer.results.len())).collect::<Vec<_>>();
    let runs = || batch.runs.iter().map(|run| run.path.peer).collect::<Vec<_>>();
    let (instance, sequence) = (batch.instance, batch.sequence);
    tracing::trace!(instance, sequence, probes = ?probes(), runs = ?runs(), "made a batch");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::frame::WireLoss;
    use kumade_daemon::PrivateDirectory;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn what_is_not_acknowledged_is_delivered_again_by_the_next_process_too() {
        let directory = PrivateDirectory::new("kumade-outbox").unwrap();
        let outbox = |instance, now| {
            Outbox::new(instance, "boot".to_owned(), Spool::open(directory.path()).unwrap(), after(now))
        };
        let mut first = outbox(1, 0);
        let probe = |outbox: &mut Outbox, second| {
            outbox.add_results(
                PeerPath::new(7, None),
                0,
                [WireResult(after(second), None, None, false, WireLoss::Unknown)],
            )
        };
        let keys = |deliveries: Vec<Delivery>| -> Vec<BatchKey> {
            deliveries.iter().map(|delivery| (delivery.batch.instance, delivery.batch.sequence)).collect()
        };
        probe(&mut first, 0);
        assert_eq!(keys(first.advance(true, after(1), after(1))), [(1, 0)]);
        first.acknowledge((1, 0));
        probe(&mut first, 1);
        assert_eq!(keys(first.advance(true, after(2), after(2))), [(1, 1)]);
        // The connection ends; what was on its way, and what comes, is kept.
        probe(&mut first, 2);
        assert!(first.advance(false, after(3), after(3)).is_empty() && first.spooled() == 2);
        probe(&mut first, 3);
        first.close(after(4), after(4));
        let mut second = outbox(2, 5);
        assert_eq!(keys(second.advance(true, after(5), after(5))), [(1, 3)], "the newest first");
        assert!(second.advance(true, after(5), after(5)).is_empty(), "at a limited rate");
        assert_eq!(keys(second.advance(true, after(6), after(6))), [(1, 2)]);
        second.acknowledge((1, 3));
        assert_eq!(keys(second.advance(true, after(7), after(7))), [(1, 1)]);
        // Not acknowledged: again.
        assert_eq!(keys(second.advance(true, after(30), after(30))), [(1, 2)]);
        [(1, 1), (1, 2)].into_iter().for_each(|key| second.acknowledge(key));
        assert!(second.spooled() == 0 && second.advance(true, after(60), after(60)).is_empty());
    }
}
