use crate::batch::{Acknowledged, Batch, Taken};
use crate::delivered::DeliveredNumbers;
use crate::figure_codec::FigureNames;
use crate::recent::Recent;
use crate::schedule::Schedule;
use crate::segment::{Floors, OpenSegment};
use crate::staged::Staged;
use crate::store::{SegmentId, Store, Write};
use crate::{ArchiveError, AuditEntry, Event, Family, Gap, Host, HostId, Pair, PairId, PairState, Reader, Retention};
use kumade_sketch::Sample;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// A sample may be this far ahead of the writer's clock: less than the rounding of a probe's time.
const MAX_AHEAD: Span = Span::from_millis(1000);

/// States of pairs are written this often: what the matrix shows is no older.
const STATE_INTERVAL: Span = Span::from_secs(30);

/// Whether the archive takes what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Writing,
    /// The disk is full since then: nothing is taken, and [`Archive::maintain`] makes room.
    DiskFull(Time),
}

/// The writer of an archive. There is one, in one thread.
#[derive(Debug)]
pub struct Archive<S> {
    pub(crate) reader: Reader<S>,
    pub(crate) hosts: BTreeMap<HostId, Host>,
    pub(crate) pairs: BTreeMap<PairId, Pair>,
    pub(crate) segments: BTreeMap<SegmentId, OpenSegment>,
    pub(crate) retention: Retention,
    pub(crate) health: Health,
    pub(crate) schedule: Schedule,
    names: FigureNames,
    pub(crate) delivered: BTreeMap<String, DeliveredNumbers>,
    floors: Floors,
    recent: Recent,
    staged: Staged,
    next_run: i64,
    states_written: Option<Time>,
}

impl<S: Store> Archive<S> {
    /// Takes over what is stored: reads again which samples are not rolled up yet.
    ///
    /// # Errors
    ///
    /// The database can't be read.
    pub fn open(store: S, retention: Retention, now: Time) -> Result<Self, ArchiveError> {
        let mut reader = Reader::new(store);
        let store = reader.store();
        let hosts = store.hosts()?.into_iter().map(|host| (host.id, host)).collect();
        let pairs = store.pairs()?.into_iter().map(|pair| (pair.id, pair)).collect();
        let mut names = FigureNames::default();
        store.figure_names()?.into_iter().for_each(|(number, name)| names.insert(number, name));
        let mut delivered: BTreeMap<String, DeliveredNumbers> = BTreeMap::new();
        for (instance, at, first, last) in store.delivered()? {
            delivered.entry(instance).or_default().add_stored(at, first, last);
        }
        let next_run = store.last_run_id()? + 1;
        let schedule = Schedule::load(store)?;
        let mut archive = Archive {
            reader,
            hosts,
            pairs,
            segments: BTreeMap::new(),
            retention,
            health: Health::Writing,
            schedule,
            names,
            delivered,
            floors: Floors::default(),
            recent: Recent::default(),
            staged: Staged::default(),
            next_run,
            states_written: None,
        };
        archive.replay(now)?;
        Ok(archive)
    }

    /// The questions that can be put to it. Other threads have readers of their own.
    pub fn read(&mut self) -> &mut Reader<S> {
        &mut self.reader
    }

    /// The engine below it, such as for a backup or further readers.
    pub fn store(&mut self) -> &mut S {
        self.reader.store()
    }

    /// Whether it takes what comes.
    pub fn health(&self) -> Health {
        self.health
    }

    /// All hosts, by number.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values()
    }

    /// All pairs, by number.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.values()
    }

    /// Samples in memory that are not rolled up yet.
    pub fn open_samples(&self) -> u64 {
        self.segments.values().map(OpenSegment::samples).sum()
    }

    /// Samples that were taken and are not written yet: they become more while the database fails.
    pub fn staged_samples(&self) -> usize {
        self.staged.samples()
    }

    /// The host that the configuration knows by `stable_id`, new or as it is called now. Its number, and with it its history,
    /// stays. Durable once this returns.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn put_host(
        &mut self,
        stable_id: &str,
        name: &str,
        address: &str,
        properties: &str,
    ) -> Result<HostId, ArchiveError> {
        let known = self.hosts.values().find(|host| host.stable_id == stable_id);
        let next = self.hosts.last_key_value().map_or(1, |(last, _)| last.0 + 1);
        let host = Host {
            id: known.map_or(HostId(next), |host| host.id),
            stable_id: stable_id.to_owned(),
            name: name.to_owned(),
            address: address.to_owned(),
            properties: properties.to_owned(),
        };
        let id = host.id;
        if known != Some(&host) {
            self.write_now(vec![Write::Host(host.clone())])?;
            self.hosts.insert(id, host);
        }
        Ok(id)
    }

    /// The pair of these hosts, which is made where there is none. Durable once this returns.
    ///
    /// # Errors
    ///
    /// There is no such host, or the database can't be written.
    pub fn put_pair(&mut self, source: HostId, target: HostId, family: Family) -> Result<PairId, ArchiveError> {
        if let Some(HostId(id)) = [source, target].into_iter().find(|host| !self.hosts.contains_key(host)) {
            return Err(ArchiveError::Unknown { what: "host", id });
        }
        let known =
            self.pairs.values().find(|pair| (pair.source, pair.target, pair.family) == (source, target, family));
        if let Some(pair) = known {
            return Ok(pair.id);
        }
        let id = PairId(self.pairs.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        if id > PairId::MAX {
            return Err(ArchiveError::Unknown { what: "free number for the pair", id: id.0 });
        }
        let pair = Pair { id, source, target, family };
        self.write_now(vec![Write::Pair(pair.clone())])?;
        self.pairs.insert(id, pair);
        Ok(id)
    }

    /// Whether a batch was taken before; it may not be written yet.
    pub fn is_known(&self, instance: &str, sequence: u64) -> bool {
        self.is_written(instance, sequence) || self.staged.contains(instance, sequence)
    }

    /// Whether a batch is on the disk, so that it may be acknowledged again.
    pub fn is_written(&self, instance: &str, sequence: u64) -> bool {
        self.delivered.get(instance).is_some_and(|numbers| numbers.contains(sequence))
    }

    /// Takes a batch. It is written, and may be acknowledged, with the next [`commit`](Self::commit), or was before.
    ///
    /// # Errors
    ///
    /// The disk is full, or a document is no document; nothing of the batch is taken.
    pub fn ingest(&mut self, batch: &Batch, now: Time) -> Result<Taken, ArchiveError> {
        if let Health::DiskFull(_) = self.health {
            return Err(ArchiveError::DiskFull { operation: "take a batch", archive: self.reader.store().name() });
        }
        if self.is_known(&batch.instance, batch.sequence) {
            return Ok(Taken::Repeated);
        }
        if let Some(run) = batch.runs.iter().find(|run| !self.pairs.contains_key(&run.pair)) {
            return Err(ArchiveError::Unknown { what: "pair", id: run.pair.0 });
        }
        let runs = batch.runs.iter().map(|run| Ok((run, run.read()?)));
        for (run, (schema, figures)) in runs.collect::<Result<Vec<_>, ArchiveError>>()? {
            for (number, name) in self.names.number_new_names(&figures) {
                self.staged.push(Write::FigureName(number, name));
            }
            self.staged.push_run(self.next_run, run, schema, self.names.encode(&figures))?;
            self.next_run += 1;
        }
        batch.events.iter().for_each(|event| self.staged.push(Write::Event(event.clone())));
        batch.gaps.iter().for_each(|gap| self.staged.push(Write::Gap(gap.clone())));
        let mut refused = 0;
        for (pair, samples) in &batch.samples {
            refused += self.stage_samples(*pair, samples, now);
        }
        self.staged.push_batch(&batch.instance, batch.sequence, refused);
        Ok(Taken::Staged)
    }

    /// Writes what was taken, durably, and returns what may be acknowledged. After an error nothing is lost: the next commit
    /// tries again.
    ///
    /// # Errors
    ///
    /// The disk is full, after which [`health`](Self::health) says so, or the database failed.
    pub fn commit(&mut self, now: Time) -> Result<Vec<Acknowledged>, ArchiveError> {
        let states = self.states_to_write(now);
        if self.staged.is_empty() && states.is_empty() {
            return Ok(Vec::new());
        }
        let (mut writes, opened) = self.staged_writes(now);
        if !states.is_empty() {
            writes.push(latest_write(&states));
        }
        if let Err(error) = self.apply(&writes, now) {
            self.recent.put_back(states.iter().map(|state| state.pair));
            return Err(error);
        }
        self.staged.take_writes();
        self.segments.extend(opened);
        for write in writes {
            let Write::Spool { segment, chunks, .. } = write else { continue };
            let Some(open) = self.segments.get_mut(&segment) else { continue };
            (open.next_slot, open.touched) = (open.next_slot + 1, now);
            for (pair, chunk) in chunks {
                open.append(pair, &chunk, |sample| self.recent.add(pair, sample));
            }
        }
        let acknowledged = self.staged.take_batches();
        for batch in &acknowledged {
            self.delivered.entry(batch.instance.clone()).or_default().insert(batch.sequence, now);
        }
        Ok(acknowledged)
    }

    /// Keeps a value by its key; durable once this returns. None takes it away.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn put_state(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), ArchiveError> {
        self.write_now(vec![Write::State(key.to_owned(), value.map(<[u8]>::to_vec))])
    }

    /// Notes something that happened; durable once this returns.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn put_event(&mut self, event: Event) -> Result<(), ArchiveError> {
        self.write_now(vec![Write::Event(event)])
    }

    /// Notes a time without probes, instead of one that began at the same time; durable once this returns.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn put_gap(&mut self, gap: Gap) -> Result<(), ArchiveError> {
        self.write_now(vec![Write::Gap(gap)])
    }

    /// Keeps what it has for these times from now on.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Notes who wrote what; durable once this returns.
    ///
    /// # Errors
    ///
    /// The database can't be written.
    pub fn put_audit(&mut self, entry: AuditEntry) -> Result<(), ArchiveError> {
        self.write_now(vec![Write::Audit(entry)])
    }

    /// Writes, and notes a full disk.
    pub(crate) fn apply(&mut self, writes: &[Write], now: Time) -> Result<(), ArchiveError> {
        let written = self.reader.store().commit(writes);
        if let (Err(ArchiveError::DiskFull { .. }), Health::Writing) = (&written, self.health) {
            self.health = Health::DiskFull(now);
        }
        written
    }

    /// Small things that are written at once, whatever the state: where they fail, the caller knows.
    fn write_now(&mut self, writes: Vec<Write>) -> Result<(), ArchiveError> {
        self.reader.store().commit(&writes)
    }

    /// Stages the samples of a pair, and returns how many are refused.
    fn stage_samples(&mut self, pair: PairId, samples: &[Sample], now: Time) -> u64 {
        if !self.pairs.contains_key(&pair) {
            return samples.len() as u64;
        }
        let (first, last) = (now - self.retention.packets, now + MAX_AHEAD);
        let mut taken: Vec<_> = samples.iter().filter(|sample| first <= sample.sent && sample.sent <= last).collect();
        taken.sort_by_key(|sample| sample.sent);
        let floors = self.floors.of_pair(pair);
        for sample in &taken {
            self.staged.push_sample(pair, &floors.quantise(sample));
        }
        (samples.len() - taken.len()) as u64
    }

    /// What is staged, as changes; and the segments that these open.
    fn staged_writes(&self, now: Time) -> (Vec<Write>, BTreeMap<SegmentId, OpenSegment>) {
        let mut writes = self.staged.writes().to_vec();
        let mut opened = BTreeMap::new();
        for (&hour, pairs) in self.staged.hours() {
            let generations =
                self.segments.range(SegmentId { hour, generation: 0 }..=SegmentId { hour, generation: u32::MAX });
            let last = generations.last();
            let id = match last {
                Some((id, segment)) if !segment.rolling => *id,
                last => SegmentId { hour, generation: last.map_or(0, |(id, _)| id.generation + 1) },
            };
            let slot = self.segments.get(&id).map_or(0, |segment| segment.next_slot);
            if !self.segments.contains_key(&id) {
                writes.push(Write::OpenSegment(id));
                opened.insert(id, OpenSegment::new(id, now));
            }
            let chunks = pairs.iter().map(|(pair, chunk)| (*pair, chunk.bytes().to_vec())).collect();
            writes.push(Write::Spool { segment: id, slot, chunks });
        }
        for instance in self.staged.instances() {
            let mut numbers = self.delivered.get(instance).cloned().unwrap_or_default();
            self.staged.numbers(instance).for_each(|number| numbers.insert(number, now));
            let ranges = numbers.ranges().collect();
            writes.push(Write::Delivered { instance: instance.clone(), at: now, ranges });
        }
        (writes, opened)
    }

    fn states_to_write(&mut self, now: Time) -> Vec<PairState> {
        if self.states_written.is_some_and(|written| (Span::ZERO..STATE_INTERVAL).contains(&(now - written))) {
            return Vec::new();
        }
        let states = self.recent.take_changed();
        if !states.is_empty() {
            self.states_written = Some(now);
        }
        states
    }

    /// Writes the states of pairs where that is due and no commit has done it.
    pub(crate) fn write_states(&mut self, now: Time) -> Result<(), ArchiveError> {
        let states = self.states_to_write(now);
        if states.is_empty() {
            return Ok(());
        }
        let written = self.apply(&[latest_write(&states)], now);
        if written.is_err() {
            self.recent.put_back(states.iter().map(|state| state.pair));
        }
        written
    }

    /// Reads what was committed and not rolled up before the last end.
    fn replay(&mut self, now: Time) -> Result<(), ArchiveError> {
        let store = self.reader.store();
        for (pair, state) in store.latest()? {
            PairState::decode(pair, &state).iter().for_each(|state| self.recent.resume(state));
        }
        for segment in store.segments()? {
            let mut open = OpenSegment::from_stored(&segment, now);
            let (floors, recent) = (&mut self.floors, &mut self.recent);
            let mut next_slot = 0;
            store.spool(segment.id, &mut |slot, pair, chunk| {
                next_slot = slot + 1;
                let rolled = segment.rolled_to.is_some_and(|last| pair <= last);
                let mut each = |sample: &Sample<_>| {
                    floors.of_pair(pair).resume(sample);
                    recent.add(pair, sample);
                };
                if rolled {
                    kumade_sketch::ChunkReader::new(chunk).map_while(Result::ok).for_each(|sample| each(&sample));
                } else {
                    open.append(pair, chunk, each);
                }
            })?;
            open.next_slot = next_slot;
            self.segments.insert(segment.id, open);
        }
        Ok(())
    }
}

fn latest_write(states: &[PairState]) -> Write {
    Write::Latest(states.iter().map(|state| (state.pair, state.encode())).collect())
}
