use crate::batch::Acknowledged;
use crate::document_codec::compress_document;
use crate::run::NewRun;
use crate::store::{StoredRun, Write};
use crate::{ArchiveError, PairId};
use kumade_sketch::{BucketedDelay, ChunkWriter, HOUR_NANOS, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// What was taken and is not yet committed.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    hours: BTreeMap<i64, BTreeMap<PairId, ChunkWriter>>,
    writes: Vec<Write>,
    batches: Vec<Acknowledged>,
    numbers: BTreeMap<String, BTreeSet<u64>>,
    samples: usize,
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.writes.is_empty()
    }

    pub(crate) fn contains(&self, instance: &str, sequence: u64) -> bool {
        self.numbers.get(instance).is_some_and(|numbers| numbers.contains(&sequence))
    }

    pub(crate) fn push(&mut self, write: Write) {
        self.writes.push(write);
    }

    pub(crate) fn push_run(
        &mut self,
        id: i64,
        run: &NewRun,
        schema: String,
        figures: Vec<u8>,
    ) -> Result<(), ArchiveError> {
        let document = compress_document(&run.document)?;
        let stored = StoredRun { id, pair: run.pair, started: run.started, ended: run.ended, schema, figures };
        self.writes.push(Write::Run(stored, document));
        Ok(())
    }

    pub(crate) fn push_sample(&mut self, pair: PairId, sample: &Sample<BucketedDelay>) {
        self.samples += 1;
        let hour = sample.sent.as_nanos().div_euclid(HOUR_NANOS);
        self.hours.entry(hour).or_default().entry(pair).or_default().push(sample);
    }

    pub(crate) fn push_batch(&mut self, instance: &str, sequence: u64, refused_samples: u64) {
        self.numbers.entry(instance.to_owned()).or_default().insert(sequence);
        self.batches.push(Acknowledged { instance: instance.to_owned(), sequence, refused_samples });
    }

    pub(crate) fn hours(&self) -> &BTreeMap<i64, BTreeMap<PairId, ChunkWriter>> {
        &self.hours
    }

    pub(crate) fn samples(&self) -> usize {
        self.samples
    }

    pub(crate) fn writes(&self) -> &[Write] {
        &self.writes
    }

    pub(crate) fn instances(&self) -> impl Iterator<Item = &String> {
        self.numbers.keys()
    }

    pub(crate) fn numbers(&self, instance: &str) -> impl Iterator<Item = u64> + '_ {
        self.numbers.get(instance).into_iter().flatten().copied()
    }

    /// They are committed.
    pub(crate) fn take_writes(&mut self) {
        self.hours.clear();
        self.writes.clear();
        self.numbers.clear();
        self.samples = 0;
    }

    pub(crate) fn take_batches(&mut self) -> Vec<Acknowledged> {
        std::mem::take(&mut self.batches)
    }
}
