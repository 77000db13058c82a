use crate::cipher::{Cipher, DataKey};
use crate::counter_reference::{CounterReference, HeaderForm};
use crate::limits::{MAX_BLOCKS, REJECT_AFTER, REKEY_AFTER_BLOCKS};
use crate::message::{
    DataHeader, HEADER_BYTES, OVERHEAD_BYTES, SHORT_HEADER_BYTES, TAG_BYTES, WireNonce, data_header,
    short_header_bytes, to_array, write_short_header,
};
use crate::noise::SessionKeys;
use crate::replay::ReplayWindow;
use kumade_units::Time;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thiserror::Error;

/// Each number of a path has its own space of counters.
const MAX_PATHS: usize = 1 << 8;
/// Where the number of the path stands in a nonce.
const PATH_SHIFT: u32 = 56;
/// Bits of a counter, below the bit that says who has given it.
const COUNTER_BITS: u32 = 55;
/// Set in nonces whose counters the sender of the datagram has given: these are others than the sealer's own.
const NUMBERED_FLAG: u64 = 1 << COUNTER_BITS;
/// What stands in place of the next counter of a path that another sealer owns.
const COUNTER_OF_OTHER_SEALER: u64 = 1 << COUNTER_BITS;
/// Blocks that a sealer takes from what the session may seal, at a time.
const RESERVATION_BLOCKS: u64 = 1 << 24;

/// Why a datagram was not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SealError {
    /// There is no session with the peer, or none that the peer has confirmed: a handshake is needed.
    #[error("there is no session with the peer yet")]
    NoSession,
    /// The buffer has no room for header and tag.
    #[error("the buffer is shorter than the {OVERHEAD_BYTES} bytes that a datagram has besides its text")]
    TooShort,
    /// The path's number belongs to another sealer of the session, or its counters are exhausted.
    #[error("the path {path} belongs to another sealer of this session")]
    ForeignPath {
        /// Its number.
        path: u8,
    },
    /// A datagram with this counter or a later one has been sealed on the path.
    #[error("the session has sealed counter {counter} of its path, or a later one")]
    UsedCounter {
        /// The counter.
        counter: u64,
    },
    /// The session has sealed as much as it may.
    #[error("the session has sealed as many bytes as it may")]
    Exhausted,
}

/// Why a datagram was not opened. It is to be dropped without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Not a data message.
    #[error("it is not a data message")]
    Malformed,
    /// No session with its index is known here, or it has ended.
    #[error("it belongs to no session")]
    UnknownSession,
    /// It says of its counter only the lowest bits, and nothing is expected over its path.
    #[error("nothing is expected over its path")]
    UnknownPath,
    /// It fails its authentication.
    #[error("it is not authentic")]
    Forged,
    /// It has been received before, or is too old to tell.
    #[error("it has been received before")]
    Replayed,
}

/// A datagram that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedDatagram {
    /// The number of the path, as the sender chose it.
    pub path: u8,
    /// The number of the datagram on that path: from 0, without gaps where nothing is lost, or as the sender chose it.
    pub counter: u64,
    /// Whether the sender chose it ([`Sealer::seal_numbered`]).
    pub is_numbered: bool,
    /// Where in the datagram the plaintext stands now. Empty in a keepalive.
    pub plaintext: Range<usize>,
}

/// A datagram that was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedDatagram {
    /// Its number on its path.
    pub counter: u64,
    /// Where in the buffer the datagram begins.
    pub start: usize,
    /// The session has sealed so much that it should be replaced: [`Endpoint::connect`](crate::Endpoint::connect).
    pub is_rekey_due: bool,
}

/// The sending half of a session.
///
/// It owns numbers of paths; each has its own counters. [`take_paths`](Self::take_paths) makes another sealer, for
/// another thread, that owns some of them instead.
#[derive(Debug)]
pub struct Sealer {
    outbound: Arc<SendingState>,
    /// By path: the next counter, or [`COUNTER_OF_OTHER_SEALER`].
    next_counters: PathCounters,
    /// By path: the least counter that a numbered datagram may have.
    next_numbered: PathCounters,
    /// What is left of the last reservation, in blocks.
    remaining_blocks: u64,
}

/// A number for each path. Of the 256 that there may be, few are used, and there is a session for each of a host's peers.
#[derive(Debug)]
struct PathCounters {
    /// Made where a number changes.
    pages: Box<[Option<Box<[u64; PAGE_PATHS]>>; PATH_PAGES]>,
    initial: u64,
}

/// The replay windows of paths that follow each other.
type WindowPage = Box<[OnceLock<Box<Mutex<ReplayWindow>>>; PAGE_PATHS]>;

/// Paths whose numbers and windows are made together.
const PAGE_PATHS: usize = 16;
const PATH_PAGES: usize = MAX_PATHS / PAGE_PATHS;

/// Which page has a path, and where there.
fn page_of(path: u8) -> (usize, usize) {
    (usize::from(path) / PAGE_PATHS, usize::from(path) % PAGE_PATHS)
}

impl PathCounters {
    fn new(initial: u64) -> Self {
        PathCounters { pages: Box::new([const { None }; PATH_PAGES]), initial }
    }

    fn get(&self, path: u8) -> u64 {
        let (page, place) = page_of(path);
        self.pages[page].as_ref().map_or(self.initial, |page| page[place])
    }

    fn get_mut(&mut self, path: u8) -> &mut u64 {
        let (page, place) = page_of(path);
        let initial = self.initial;
        &mut self.pages[page].get_or_insert_with(|| Box::new([initial; PAGE_PATHS]))[place]
    }
}

#[derive(Debug)]
struct SendingState {
    key: DataKey,
    /// The peer's index of the session.
    receiver: u32,
    /// Blocks that sealers have reserved.
    reserved_blocks: AtomicU64,
}

/// The receiving half of a session. Its clones share the replay windows: a datagram is opened by one of them at most.
#[derive(Debug, Clone)]
pub struct Opener(Arc<ReceivingState>);

#[derive(Debug)]
struct ReceivingState {
    cipher: Cipher,
    key: DataKey,
    index: u32,
    is_confirmed: AtomicBool,
    /// By path; made when the first authentic datagram of the path comes.
    windows: [OnceLock<WindowPage>; PATH_PAGES],
    /// The same of numbered datagrams.
    numbered_windows: [OnceLock<WindowPage>; PATH_PAGES],
}

/// What a handshake has agreed on: keys for both directions, until they expire.
#[derive(Debug)]
pub struct Session {
    sealer: Sealer,
    opener: Opener,
    pub(crate) is_initiator: bool,
    pub(crate) established: Time,
    capabilities: u8,
}

impl Session {
    pub(crate) fn new(
        cipher: Cipher,
        keys: &SessionKeys,
        (index, receiver): (u32, u32),
        is_initiator: bool,
        established: Time,
    ) -> Self {
        let outbound =
            SendingState { key: DataKey::new(cipher, &keys.send), receiver, reserved_blocks: AtomicU64::new(0) };
        let inbound = ReceivingState {
            cipher,
            key: DataKey::new(cipher, &keys.receive),
            index,
            // The response has shown the initiator that the responder has the keys.
            is_confirmed: AtomicBool::new(is_initiator),
            windows: [const { OnceLock::new() }; PATH_PAGES],
            numbered_windows: [const { OnceLock::new() }; PATH_PAGES],
        };
        let sealer = Sealer {
            outbound: Arc::new(outbound),
            next_counters: PathCounters::new(0),
            next_numbered: PathCounters::new(0),
            remaining_blocks: 0,
        };
        Session { sealer, opener: Opener(Arc::new(inbound)), is_initiator, established, capabilities: 0 }
    }

    /// The index that this host has given to the session: data messages to this host carry it
    /// ([`receiver_index`](crate::receiver_index)).
    pub fn index(&self) -> u32 {
        self.opener.index()
    }

    /// Bytes before the text of a numbered datagram to the peer, in the short form.
    pub fn short_header_bytes(&self) -> usize {
        short_header_bytes(self.sealer.outbound.receiver)
    }

    /// What both hosts have agreed to seal with.
    pub fn cipher(&self) -> Cipher {
        self.opener.0.cipher
    }

    /// What both hosts have of [`HandshakePolicy::capabilities`](crate::HandshakePolicy::capabilities).
    pub fn capabilities(&self) -> u8 {
        self.capabilities
    }

    /// The same of hosts that both have these.
    pub(crate) fn with_capabilities(self, capabilities: u8) -> Self {
        Session { capabilities, ..self }
    }

    /// Seals in place: see [`Sealer::seal`].
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    pub fn seal(&mut self, path: u8, datagram: &mut [u8]) -> Result<SealedDatagram, SealError> {
        self.sealer.seal(path, datagram)
    }

    /// Seals in place with a given counter: see [`Sealer::seal_numbered`].
    ///
    /// # Errors
    /// As [`Sealer::seal_numbered`].
    pub fn seal_numbered(
        &mut self,
        path: u8,
        counter: u64,
        form: HeaderForm,
        datagram: &mut [u8],
    ) -> Result<SealedDatagram, SealError> {
        self.sealer.seal_numbered(path, counter, form, datagram)
    }

    /// Opens in place: see [`Opener::open`].
    ///
    /// # Errors
    /// As [`Opener::open`].
    pub fn open(&self, datagram: &mut [u8]) -> Result<OpenedDatagram, OpenError> {
        self.opener.open(datagram)
    }

    /// Opens in place: see [`Opener::open_numbered`].
    ///
    /// # Errors
    /// As [`Opener::open`].
    pub fn open_numbered(
        &self,
        datagram: &mut [u8],
        reference: impl FnOnce(u8) -> Option<CounterReference>,
    ) -> Result<OpenedDatagram, OpenError> {
        self.opener.open_numbered(datagram, reference)
    }

    /// Whether data may be sent: the peer has shown that it has the keys. An initiator knows at once; a responder when the
    /// first datagram has been opened, by whichever clone of the opener.
    pub fn is_confirmed(&self) -> bool {
        self.opener.0.is_confirmed.load(Ordering::Acquire)
    }

    /// Whether the session has ended, 180 s after its handshake.
    pub fn has_expired(&self, now: Time) -> bool {
        now - self.established >= REJECT_AFTER
    }

    /// The same session for another thread, which alone seals on `paths` from now on; both open all.
    ///
    /// # Errors
    /// One of the paths is not this session's own (any more); nothing has changed then.
    pub fn take_paths(&mut self, paths: RangeInclusive<u8>) -> Result<Session, SealError> {
        let sealer = self.sealer.take_paths(paths)?;
        let (is_initiator, established, capabilities) = (self.is_initiator, self.established, self.capabilities);
        Ok(Session { sealer, opener: self.opener.clone(), is_initiator, established, capabilities })
    }

    /// The halves, for two threads.
    pub fn split(self) -> (Sealer, Opener) {
        (self.sealer, self.opener)
    }
}

impl Sealer {
    /// Seals a datagram in place, as the next one on `path`. The plaintext stands in `datagram` with [`HEADER_BYTES`] bytes
    /// before it and [`TAG_BYTES`] bytes behind it; these are overwritten, and the whole of `datagram` is to be sent.
    /// An empty plaintext is a keepalive.
    ///
    /// # Errors
    /// See [`SealError`]; `datagram` is unchanged then.
    #[inline]
    pub fn seal(&mut self, path: u8, datagram: &mut [u8]) -> Result<SealedDatagram, SealError> {
        let counter = self.next_counter(path)?;
        let nonce = (u64::from(path) << PATH_SHIFT) + counter;
        let sealed = self.seal_whole(nonce, datagram)?;
        *self.next_counters.get_mut(path) += 1;
        Ok(SealedDatagram { counter, ..sealed })
    }

    /// Seals a datagram in place, with this counter of the path: as [`Sealer::seal`], but in the short form with
    /// [`SHORT_HEADER_BYTES`] bytes before the text, of which those from [`SealedDatagram::start`] on are to be sent. Counters only
    /// rise. One in the short form opens as long as it is at most [`CounterReference::MAX_COUNTERS_AHEAD`] above what has come over
    /// the path: the caller takes care of that by what the receiver has reported.
    ///
    /// # Errors
    /// See [`SealError`]; `datagram` is unchanged then.
    #[inline]
    pub fn seal_numbered(
        &mut self,
        path: u8,
        counter: u64,
        form: HeaderForm,
        datagram: &mut [u8],
    ) -> Result<SealedDatagram, SealError> {
        // Whether the path is this sealer's own.
        self.next_counter(path)?;
        if counter < self.next_numbered.get(path) || counter >= NUMBERED_FLAG {
            return Err(SealError::UsedCounter { counter });
        }
        let nonce = (u64::from(path) << PATH_SHIFT) + NUMBERED_FLAG + counter;
        let sealed = match form {
            HeaderForm::Whole => self.seal_whole(nonce, datagram)?,
            HeaderForm::Short => {
                let (header, rest) =
                    datagram.split_first_chunk_mut::<SHORT_HEADER_BYTES>().ok_or(SealError::TooShort)?;
                let receiver = self.outbound.receiver;
                let start = SHORT_HEADER_BYTES - short_header_bytes(receiver);
                let mut written = [0; SHORT_HEADER_BYTES];
                write_short_header(receiver, path, counter, &mut written);
                let is_rekey_due = self.seal_text(nonce, &written[start..], rest)?;
                *header = written;
                SealedDatagram { counter, start, is_rekey_due }
            }
        };
        *self.next_numbered.get_mut(path) = counter + 1;
        Ok(SealedDatagram { counter, ..sealed })
    }

    /// The next of the sealer's own counters of a path.
    fn next_counter(&self, path: u8) -> Result<u64, SealError> {
        let counter = self.next_counters.get(path);
        if counter == COUNTER_OF_OTHER_SEALER { Err(SealError::ForeignPath { path }) } else { Ok(counter) }
    }

    fn seal_whole(&mut self, nonce: u64, datagram: &mut [u8]) -> Result<SealedDatagram, SealError> {
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER_BYTES>().ok_or(SealError::TooShort)?;
        let written = data_header(self.outbound.receiver, nonce);
        let is_rekey_due = self.seal_text(nonce, &written, rest)?;
        *header = written;
        Ok(SealedDatagram { counter: 0, start: 0, is_rekey_due })
    }

    /// Seals the text of a datagram under its header, with room for the tag behind it. Returns whether the session should be replaced.
    fn seal_text(&mut self, nonce: u64, header: &[u8], text: &mut [u8]) -> Result<bool, SealError> {
        let (text, tag) = text.split_last_chunk_mut::<TAG_BYTES>().ok_or(SealError::TooShort)?;
        // One block more than the text, the tag's, and one for the header, which is authenticated as text is.
        let is_worn = self.reserve_blocks(text.len().div_ceil(16) as u64 + 2)?;
        *tag = self.outbound.key.seal(nonce, header, text).map_err(|_| SealError::Exhausted)?;
        Ok(is_worn)
    }

    /// Another sealer of the same session, which alone seals on `paths` from now on.
    ///
    /// # Errors
    /// One of the paths is not this sealer's own; nothing has changed then.
    pub fn take_paths(&mut self, paths: RangeInclusive<u8>) -> Result<Sealer, SealError> {
        if let Some(path) = paths.clone().find(|&path| self.next_counters.get(path) == COUNTER_OF_OTHER_SEALER) {
            return Err(SealError::ForeignPath { path });
        }
        let mut next = PathCounters::new(COUNTER_OF_OTHER_SEALER);
        let mut next_numbered = PathCounters::new(0);
        for path in paths {
            std::mem::swap(next.get_mut(path), self.next_counters.get_mut(path));
            let numbered = self.next_numbered.get(path);
            if numbered > 0 {
                *next_numbered.get_mut(path) = numbered;
            }
        }
        Ok(Sealer { outbound: Arc::clone(&self.outbound), next_counters: next, next_numbered, remaining_blocks: 0 })
    }

    /// Takes blocks from what the session may seal in all its sealers; whether it should be replaced.
    fn reserve_blocks(&mut self, blocks: u64) -> Result<bool, SealError> {
        let reserved = &self.outbound.reserved_blocks;
        if self.remaining_blocks < blocks {
            let before = reserved.fetch_add(RESERVATION_BLOCKS, Ordering::Relaxed);
            if before > MAX_BLOCKS - RESERVATION_BLOCKS {
                // Back to where it was, so that it never wraps.
                reserved.fetch_sub(RESERVATION_BLOCKS, Ordering::Relaxed);
                return Err(SealError::Exhausted);
            }
            self.remaining_blocks += RESERVATION_BLOCKS;
        }
        self.remaining_blocks = self.remaining_blocks.checked_sub(blocks).ok_or(SealError::Exhausted)?;
        Ok(reserved.load(Ordering::Relaxed) > REKEY_AFTER_BLOCKS)
    }
}

impl Opener {
    /// See [`Session::index`].
    pub fn index(&self) -> u32 {
        self.0.index
    }

    /// Opens a datagram in place, if it is authentic and has not been opened before. None opens that says only the lowest bits of
    /// its counter.
    ///
    /// # Errors
    /// See [`OpenError`]. The contents of `datagram` are undefined then.
    pub fn open(&self, datagram: &mut [u8]) -> Result<OpenedDatagram, OpenError> {
        self.open_numbered(datagram, |_| None)
    }

    /// The same of datagrams of either form. `reference` is what is known of the path whose number ends in these four bits; `None` if
    /// nothing may come over it.
    ///
    /// # Errors
    /// As [`Opener::open`].
    #[inline]
    pub fn open_numbered(
        &self,
        datagram: &mut [u8],
        reference: impl FnOnce(u8) -> Option<CounterReference>,
    ) -> Result<OpenedDatagram, OpenError> {
        let header = DataHeader::read(datagram).ok_or(OpenError::Malformed)?;
        if header.receiver != self.0.index {
            return Err(OpenError::UnknownSession);
        }
        let nonce = match header.nonce {
            WireNonce::Whole(nonce) => nonce,
            WireNonce::Short { path, counter } => {
                let reference = reference(path).ok_or(OpenError::UnknownPath)?;
                let counter = reference.expand(counter) & (NUMBERED_FLAG - 1);
                (u64::from(reference.path) << PATH_SHIFT) + NUMBERED_FLAG + counter
            }
        };
        let text = header.bytes..datagram.len() - TAG_BYTES;
        let tag = to_array(&datagram[text.end..]);
        let (header, rest) = datagram.split_at_mut(text.start);
        self.0.key.open(nonce, header, &mut rest[..text.len()], tag).map_err(|_| OpenError::Forged)?;
        let (path, counter) = ((nonce >> PATH_SHIFT) as u8, nonce & (NUMBERED_FLAG - 1));
        let is_numbered = nonce & NUMBERED_FLAG != 0;
        self.check_replay(path, is_numbered, counter)?;
        Ok(OpenedDatagram { path, counter, is_numbered, plaintext: text })
    }

    /// Notes an authentic datagram.
    fn check_replay(&self, path: u8, is_numbered: bool, counter: u64) -> Result<(), OpenError> {
        let (page, place) = page_of(path);
        let pages = if is_numbered { &self.0.numbered_windows } else { &self.0.windows };
        let window = pages[page].get_or_init(Box::default)[place].get_or_init(Box::default);
        // A window is valid between any two statements: it need not be given up because a thread was.
        if !window.lock().unwrap_or_else(PoisonError::into_inner).accept(counter) {
            return Err(OpenError::Replayed);
        }
        if !self.0.is_confirmed.load(Ordering::Relaxed) {
            self.0.is_confirmed.store(true, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
