use crate::{ArchiveError, AuditEntry, Event, Gap, Host, HostId, Pair, PairId};
use kumade_sketch::{HOUR_NANOS, Layer};
use kumade_units::Time;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

/// Samples of one hour that are not rolled up yet. What comes for an hour that is being rolled up opens the next generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId {
    /// The hour, counted from 1970.
    pub hour: i64,
    /// From 0.
    pub generation: u32,
}

/// A segment as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Which.
    pub id: SegmentId,
    /// The last pair that has been rolled up, in the order of their numbers; none if it has not begun.
    pub rolled_to: Option<PairId>,
}

/// What is kept for a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// Each packet.
    Packets,
    /// Blocks of one layer.
    Blocks(Layer),
    /// Figures of runs.
    Runs,
    /// Documents of runs.
    Documents,
    /// Events.
    Events,
    /// Gaps.
    Gaps,
    /// Who wrote what.
    Audit,
    /// Numbers of batches.
    Delivered,
}

impl Kept {
    /// All, from those that take most room.
    pub const ALL: [Kept; 10] = [
        Kept::Packets,
        Kept::Blocks(Layer::Minutes),
        Kept::Documents,
        Kept::Blocks(Layer::Hours),
        Kept::Blocks(Layer::Days),
        Kept::Runs,
        Kept::Events,
        Kept::Gaps,
        Kept::Audit,
        Kept::Delivered,
    ];

    /// A word for people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Kept::Packets => "packets",
            Kept::Blocks(Layer::Minutes) => "minutes",
            Kept::Blocks(Layer::Hours) => "hours",
            Kept::Blocks(Layer::Days) => "days",
            Kept::Runs => "runs",
            Kept::Documents => "documents",
            Kept::Events => "events",
            Kept::Gaps => "gaps",
            Kept::Audit => "audit",
            Kept::Delivered => "delivered",
        }
    }

    /// The table that has it, in each engine.
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Kept::Runs => "run",
            Kept::Documents => "document",
            Kept::Events => "event",
            Kept::Gaps => "gap",
            kept => kept.name(),
        }
    }

    /// A query for the oldest one, as a number, and of how many nanoseconds each is. `least_number` is how an engine has the least number of the
    /// blocks in a table.
    pub(crate) fn oldest_query(self, least_number: &str) -> (String, i64) {
        let (found, nanos) = match self {
            Kept::Packets => (least_number, HOUR_NANOS),
            Kept::Blocks(layer) => (least_number, layer.block_nanos()),
            Kept::Documents => {
                return ("SELECT min(started) FROM run WHERE id = (SELECT min(run) FROM document)".to_owned(), 1);
            }
            Kept::Runs => ("min(started)", 1),
            Kept::Gaps => ("min(since)", 1),
            Kept::Events | Kept::Audit | Kept::Delivered => ("min(at)", 1),
        };
        (format!("SELECT {found} FROM {}", self.table()), nanos)
    }
}

/// A run as an engine stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Its number.
    pub id: i64,
    /// Of which pair.
    pub pair: PairId,
    /// When it began.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
    /// The name of its document's schema.
    pub schema: String,
    /// Encoded figures.
    pub figures: Vec<u8>,
}

/// One change. An engine makes several at once, all or none.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A host, new or changed.
    Host(Host),
    /// A new pair.
    Pair(Pair),
    /// Which numbers of an instance have been delivered, instead of what was stored: ranges, first and last included.
    Delivered {
        /// Whose.
        instance: String,
        /// When its last batch came.
        at: Time,
        /// The ranges.
        ranges: Vec<(u64, u64)>,
    },
    /// A new segment.
    OpenSegment(SegmentId),
    /// Chunks of samples for a segment.
    Spool {
        /// Which segment.
        segment: SegmentId,
        /// Counted from 0 within the segment.
        slot: u32,
        /// By pair.
        chunks: Vec<(PairId, Vec<u8>)>,
    },
    /// The pairs of a segment up to this one are rolled up.
    RolledTo(SegmentId, PairId),
    /// All of a segment is.
    DropSegment(SegmentId),
    /// A block, new or changed.
    Block {
        /// Its layer.
        layer: Layer,
        /// Its pair.
        pair: PairId,
        /// Its number since 1970.
        number: i64,
        /// Encoded.
        data: Vec<u8>,
    },
    /// The packets of an hour, new or changed.
    Packets {
        /// Of which pair.
        pair: PairId,
        /// Of which hour since 1970.
        hour: i64,
        /// Encoded.
        data: Vec<u8>,
    },
    /// The name of a figure.
    FigureName(u32, String),
    /// A run and its compressed document.
    Run(StoredRun, Vec<u8>),
    /// An event.
    Event(Event),
    /// A gap: one of the same pair and beginning is replaced.
    Gap(Gap),
    /// Who wrote what.
    Audit(AuditEntry),
    /// A value by its key; none takes it away.
    State(String, Option<Vec<u8>>),
    /// The state of pairs, encoded, instead of what was stored of each.
    Latest(Vec<(PairId, Vec<u8>)>),
}

/// What an engine can be asked.
pub trait ReadStore: Send {
    /// What errors call the archive.
    fn name(&self) -> String;

    /// Who holds it may read; none where any number may at a time.
    fn reader_turn(&self) -> Option<Arc<Mutex<()>>>;

    /// All answers are as of this moment …
    ///
    /// # Errors
    ///
    /// The database can't be read.
    fn begin_reading(&mut self) -> Result<(), ArchiveError>;

    /// … until this one.
    ///
    /// # Errors
    ///
    /// The database can't be read.
    fn end_reading(&mut self) -> Result<(), ArchiveError>;

    /// Answers several questions as of one moment. What is read is copied out and the moment let go, so that no reader holds
    /// back what the writer may reuse.
    ///
    /// # Errors
    ///
    /// Those of the questions, or the database can't be read.
    fn read_at_once<T>(
        &mut self,
        questions: impl FnOnce(&mut Self) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError>
    where
        Self: Sized,
    {
        let turn = self.reader_turn();
        // There is nothing in it that a panic could have left half done.
        let _turn = turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
        self.begin_reading()?;
        let answers = questions(self);
        let ended = self.end_reading();
        let answers = answers?;
        ended.map(|()| answers)
    }

    /// All hosts, by number.
    ///
    /// # Errors
    ///
    /// The database can't be read. So it is with all that follow.
    fn hosts(&mut self) -> Result<Vec<Host>, ArchiveError>;
    /// All pairs, by number.
    ///
    /// # Errors
    ///
    /// As above.
    fn pairs(&mut self) -> Result<Vec<Pair>, ArchiveError>;
    /// The names of figures.
    ///
    /// # Errors
    ///
    /// As above.
    fn figure_names(&mut self) -> Result<Vec<(u32, String)>, ArchiveError>;
    /// Ranges of delivered numbers, by instance, and when each instance's last batch came.
    ///
    /// # Errors
    ///
    /// As above.
    fn delivered(&mut self) -> Result<Vec<(String, Time, u64, u64)>, ArchiveError>;
    /// All segments, by hour and generation.
    ///
    /// # Errors
    ///
    /// As above.
    fn segments(&mut self) -> Result<Vec<Segment>, ArchiveError>;
    /// All chunks of a segment, in the order in which they came; each is handed over with its slot.
    ///
    /// # Errors
    ///
    /// As above.
    fn spool(&mut self, segment: SegmentId, each: &mut dyn FnMut(u32, PairId, &[u8])) -> Result<(), ArchiveError>;
    /// The chunks of one pair in a segment, in their order.
    ///
    /// # Errors
    ///
    /// As above.
    fn spool_of_pair(&mut self, segment: SegmentId, pair: PairId) -> Result<Vec<Vec<u8>>, ArchiveError>;
    /// The blocks of a pair with these numbers, by number.
    ///
    /// # Errors
    ///
    /// As above.
    fn blocks(&mut self, layer: Layer, pair: PairId, numbers: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError>;
    /// The packets of a pair in these hours, by hour.
    ///
    /// # Errors
    ///
    /// As above.
    fn packets(&mut self, pair: PairId, hours: Range<i64>) -> Result<Vec<(i64, Vec<u8>)>, ArchiveError>;
    /// The blocks with one number of these pairs, by pair: one question where rolling up would put many.
    ///
    /// # Errors
    ///
    /// As above.
    fn blocks_of_pairs(
        &mut self,
        kept: Kept,
        number: i64,
        pairs: RangeInclusive<PairId>,
    ) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError>;
    /// The runs of a pair that began in this time, the latest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// As above.
    fn runs(&mut self, pair: PairId, began: Range<Time>, limit: u32) -> Result<Vec<StoredRun>, ArchiveError>;
    /// One run.
    ///
    /// # Errors
    ///
    /// As above.
    fn run(&mut self, run: i64) -> Result<Option<StoredRun>, ArchiveError>;
    /// The latest run of each pair, by pair.
    ///
    /// # Errors
    ///
    /// As above.
    fn latest_runs(&mut self) -> Result<Vec<StoredRun>, ArchiveError>;
    /// The greatest number that a run has.
    ///
    /// # Errors
    ///
    /// As above.
    fn last_run_id(&mut self) -> Result<i64, ArchiveError>;
    /// The compressed document of a run, while it is kept.
    ///
    /// # Errors
    ///
    /// As above.
    fn document(&mut self, run: i64) -> Result<Option<Vec<u8>>, ArchiveError>;
    /// The encoded state of each pair, by pair.
    ///
    /// # Errors
    ///
    /// As above.
    fn latest(&mut self) -> Result<Vec<(PairId, Vec<u8>)>, ArchiveError>;
    /// The events of this time, the latest first, at most `limit`; of one host or pair, or all.
    ///
    /// # Errors
    ///
    /// As above.
    fn events(
        &mut self,
        at: Range<Time>,
        host: Option<HostId>,
        pair: Option<PairId>,
        limit: u32,
    ) -> Result<Vec<Event>, ArchiveError>;
    /// The gaps of a pair that reach into this time, in their order.
    ///
    /// # Errors
    ///
    /// As above.
    fn gaps(&mut self, pair: PairId, time: Range<Time>) -> Result<Vec<Gap>, ArchiveError>;
    /// Who wrote what in this time, the latest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// As above.
    fn audit(&mut self, at: Range<Time>, limit: u32) -> Result<Vec<AuditEntry>, ArchiveError>;
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// As above.
    fn state(&mut self, key: &str) -> Result<Option<Vec<u8>>, ArchiveError>;
    /// From when the oldest thing of a kind is; none if there is none.
    ///
    /// # Errors
    ///
    /// As above.
    fn oldest(&mut self, kept: Kept) -> Result<Option<Time>, ArchiveError>;
    /// How much room it takes.
    ///
    /// # Errors
    ///
    /// As above.
    fn disk_usage(&mut self) -> Result<DiskUsage, ArchiveError>;
}

/// What one writer can do to it.
pub trait Store: ReadStore {
    /// Makes all of the changes, durably, or none.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::DiskFull`] if there is no room; others if the database fails.
    fn commit(&mut self, writes: &[Write]) -> Result<(), ArchiveError>;

    /// Deletes at most `limit` things that ended before a time, the oldest first, and returns how many it deleted.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    fn delete_before(&mut self, kept: Kept, before: Time, limit: u32) -> Result<u32, ArchiveError>;

    /// Brings what was committed to its place, so that logs don't grow; to be called every minute or so. Returns the length
    /// of the log before it.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    fn checkpoint(&mut self) -> Result<u64, ArchiveError>;

    /// Gives room inside the files that nothing takes back to the file system, at most this many bytes.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    fn shrink(&mut self, bytes: u64) -> Result<(), ArchiveError>;

    /// Gives up what was set aside for the time when the disk is full. Nothing happens if there is nothing.
    ///
    /// # Errors
    ///
    /// The file can't be removed.
    fn release_reserve(&mut self) -> Result<(), ArchiveError>;

    /// Sets it aside again, if there is room for it: says whether it is there.
    ///
    /// # Errors
    ///
    /// A file can't be written, for another reason than that the disk is full.
    fn restore_reserve(&mut self) -> Result<bool, ArchiveError>;
}

/// Room that an archive takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// By kind: bytes of what is kept, with what the database adds to each row.
    pub kept: Vec<(Kept, u64)>,
    /// Samples that are not rolled up yet.
    pub spool_bytes: u64,
    /// All files of the archive.
    pub total_bytes: u64,
    /// Room inside the files that nothing takes.
    pub free_bytes: u64,
    /// The log of what was committed and is not yet in its place. An alarm should go off where it keeps growing.
    pub log_bytes: u64,
    /// What is set aside for the time when the disk is full.
    pub reserve_bytes: u64,
    /// What is left on the file system for this user; none if unknown.
    pub available_bytes: Option<u64>,
}
