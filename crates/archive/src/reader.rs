use crate::decoding::read_packets;
use crate::document_codec::decompress_document;
use crate::figure_codec::FigureNames;
use crate::figures::Figures;
use crate::series::{Series, SeriesQuery, read_series};
use crate::store::{DiskUsage, Kept, ReadStore, StoredRun};
use crate::{ArchiveError, AuditEntry, Event, Gap, Host, HostId, Pair, PairId, PairState, Run};
use kumade_sketch::{ChunkReader, HOUR_NANOS, Sample};
use kumade_units::Time;
use std::ops::Range;

/// Puts questions to an archive.
#[derive(Debug)]
pub struct Reader<S> {
    store: S,
    names: FigureNames,
}

impl<S: ReadStore> Reader<S> {
    /// Reads from an engine.
    pub fn new(store: S) -> Self {
        Reader { store, names: FigureNames::default() }
    }

    pub(crate) fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// The probes of a pair in about so many points.
    ///
    /// # Errors
    ///
    /// The database can't be read. So it is with all that follow.
    pub fn series(&mut self, query: &SeriesQuery) -> Result<Series, ArchiveError> {
        read_series(&mut self.store, query)
    }

    /// Single probes, by time, while they are kept; at most `limit`.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn packets(&mut self, pair: PairId, sent: Range<Time>, limit: usize) -> Result<Vec<Sample>, ArchiveError> {
        let hour = |time: Time| time.as_nanos().div_euclid(HOUR_NANOS);
        let hours = hour(sent.start)..hour(sent.end) + 1;
        let mut found = Vec::new();
        let mut take = |samples: &mut dyn Iterator<Item = Sample<_>>| {
            found.extend(samples.filter(|sample| sent.contains(&sample.sent)).map(Sample::to_spans));
            found.sort_by_key(|sample: &Sample| sample.sent);
            found.truncate(limit);
        };
        let (packed, chunks) = self.store.read_at_once(|store| {
            let mut chunks = Vec::new();
            for segment in store.segments()?.into_iter().filter(|segment| hours.contains(&segment.id.hour)) {
                if segment.rolled_to.is_none_or(|last| last < pair) {
                    chunks.extend(store.spool_of_pair(segment.id, pair)?);
                }
            }
            Ok((store.packets(pair, hours)?, chunks))
        })?;
        packed.iter().for_each(|(_, data)| take(&mut read_packets(data).into_iter()));
        chunks.iter().for_each(|chunk| take(&mut ChunkReader::new(chunk).map_while(Result::ok)));
        Ok(found)
    }

    /// The runs of a pair that began in this time, the latest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn runs(&mut self, pair: PairId, began: Range<Time>, limit: u32) -> Result<Vec<Run>, ArchiveError> {
        let stored = self.store.read_at_once(|store| store.runs(pair, began, limit))?;
        self.decoded_runs(stored)
    }

    /// One run, with all figures of its document while that is kept.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn run(&mut self, run: i64) -> Result<Option<Run>, ArchiveError> {
        let stored = self.store.read_at_once(|store| store.run(run))?;
        let mut found = self.decoded_runs(stored.into_iter().collect())?.pop();
        if let (Some(run), Some(document)) = (&mut found, self.document(run)?)
            && let Ok(document) = serde_json::from_str(&document)
        {
            run.figures = Figures::from_document(&document);
        }
        Ok(found)
    }

    /// The latest run of each pair, by pair.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn latest_runs(&mut self) -> Result<Vec<Run>, ArchiveError> {
        let stored = self.store.read_at_once(ReadStore::latest_runs)?;
        self.decoded_runs(stored)
    }

    /// The document of a run as it came, while it is kept.
    ///
    /// # Errors
    ///
    /// As above, or it is damaged.
    pub fn document(&mut self, run: i64) -> Result<Option<String>, ArchiveError> {
        let Some(packed) = self.store.read_at_once(|store| store.document(run))? else { return Ok(None) };
        decompress_document(run, &packed).map(Some)
    }

    /// How all pairs are now, by pair: no older than half a minute.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn latest(&mut self) -> Result<Vec<PairState>, ArchiveError> {
        let stored = self.store.read_at_once(ReadStore::latest)?;
        Ok(stored.iter().filter_map(|(pair, data)| PairState::decode(*pair, data)).collect())
    }

    /// All hosts, by number.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn hosts(&mut self) -> Result<Vec<Host>, ArchiveError> {
        self.store.read_at_once(ReadStore::hosts)
    }

    /// All pairs, by number.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn pairs(&mut self) -> Result<Vec<Pair>, ArchiveError> {
        self.store.read_at_once(ReadStore::pairs)
    }

    /// The events of this time, the latest first, at most `limit`; of one host or pair, or all.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn events(
        &mut self,
        at: Range<Time>,
        host: Option<HostId>,
        pair: Option<PairId>,
        limit: u32,
    ) -> Result<Vec<Event>, ArchiveError> {
        self.store.read_at_once(|store| store.events(at, host, pair, limit))
    }

    /// The gaps of a pair that reach into this time, in their order.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn gaps(&mut self, pair: PairId, time: Range<Time>) -> Result<Vec<Gap>, ArchiveError> {
        self.store.read_at_once(|store| store.gaps(pair, time))
    }

    /// Who wrote what in this time, the latest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn audit(&mut self, at: Range<Time>, limit: u32) -> Result<Vec<AuditEntry>, ArchiveError> {
        self.store.read_at_once(|store| store.audit(at, limit))
    }

    /// The value that is kept by this key.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn state(&mut self, key: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        self.store.read_at_once(|store| store.state(key))
    }

    /// How much room it takes. It reads all pages' headers: some seconds for an archive of years.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn disk_usage(&mut self) -> Result<DiskUsage, ArchiveError> {
        self.store.disk_usage()
    }

    /// From when the oldest of each kind is; none where there is none.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn oldest(&mut self) -> Result<Vec<(Kept, Option<Time>)>, ArchiveError> {
        self.store.read_at_once(|store| Kept::ALL.into_iter().map(|kept| Ok((kept, store.oldest(kept)?))).collect())
    }

    fn decoded_runs(&mut self, stored: Vec<StoredRun>) -> Result<Vec<Run>, ArchiveError> {
        // Names are only ever added.
        let names = self.store.read_at_once(ReadStore::figure_names)?;
        if names.len() > self.names.len() {
            names.into_iter().for_each(|(number, name)| self.names.insert(number, name));
        }
        let decoded = stored.into_iter().map(|run| {
            let figures = self.names.decode(&run.figures);
            Run { id: run.id, pair: run.pair, started: run.started, ended: run.ended, schema: run.schema, figures }
        });
        Ok(decoded.collect())
    }
}
