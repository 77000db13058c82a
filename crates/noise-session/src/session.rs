use crate::cipher::{Cipher, DataKey};
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

/// How much a numbered datagram says of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderForm {
    /// All of it, behind [`HEADER_BYTES`]: it opens whatever the receiver knows, and shows it where the path is.
    Whole,
    /// The lowest 16 bits, behind [`SHORT_HEADER_BYTES`] at most: see [`CounterReference`].
    Short,
}

/// What the receiver of a numbered datagram knows of the path that it came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterReference {
    /// The number of the path in the session.
    pub path: u8,
    /// The counter after the highest one that has come over it; 0 before any has.
    pub next_counter: u64,
}

impl CounterReference {
    /// How far above the next counter others are recognised by their lowest 16 bits. The range of 2¹⁶ begins where the replay window
    /// ends: what is older is refused in any case.
    pub const MAX_COUNTERS_AHEAD: u64 = (1 << u16::BITS) - ReplayWindow::WINDOW_PACKETS;

    /// The counter with these lowest bits, of those from the replay window's width below the next one on (compare RFC 9000 §A.3,
    /// whose range lies as far above the next one as below).
    fn expand(self, lowest: u16) -> u64 {
        let first = self.next_counter.saturating_sub(ReplayWindow::WINDOW_PACKETS);
        first + u64::from(lowest.wrapping_sub(first as u16))
    }
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
    pages: [Option<Box<[u64; PAGE_PATHS]>>; PATH_PAGES],
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
        PathCounters { pages: [const { None }; PATH_PAGES], initial }
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
        Session { sealer, opener: Opener(Arc::new(inbound)), is_initiator, established }
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
        let (is_initiator, established) = (self.is_initiator, self.established);
        Ok(Session { sealer, opener: self.opener.clone(), is_initiator, established })
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
                let is_rekey_due = self.seal_text(nonce, rest)?;
                let receiver = self.outbound.receiver;
                write_short_header(receiver, path, counter, header);
                SealedDatagram { counter, start: SHORT_HEADER_BYTES - short_header_bytes(receiver), is_rekey_due }
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
        let is_rekey_due = self.seal_text(nonce, rest)?;
        *header = data_header(self.outbound.receiver, nonce);
        Ok(SealedDatagram { counter: 0, start: 0, is_rekey_due })
    }

    /// Seals the text of a datagram, with room for the tag behind it. Returns whether the session should be replaced.
    fn seal_text(&mut self, nonce: u64, text: &mut [u8]) -> Result<bool, SealError> {
        let (text, tag) = text.split_last_chunk_mut::<TAG_BYTES>().ok_or(SealError::TooShort)?;
        // One block more than the text: the tag's.
        let is_worn = self.reserve_blocks(text.len().div_ceil(16) as u64 + 1)?;
        *tag = self.outbound.key.seal(nonce, text).map_err(|_| SealError::Exhausted)?;
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
        self.0.key.open(nonce, &mut datagram[text.clone()], tag).map_err(|_| OpenError::Forged)?;
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
pub(crate) mod tests {
    use super::*;
    use zeroize::Zeroizing;

    /// Two ends of a session, with the indices 1 and 2, established at time zero.
    pub(crate) fn pair(cipher: Cipher) -> (Session, Session) {
        pair_of(cipher, (1, 2))
    }

    /// The same with other indices.
    pub(crate) fn pair_of(cipher: Cipher, (one, other): (u32, u32)) -> (Session, Session) {
        let keys = |send: u8, receive: u8| SessionKeys {
            send: Zeroizing::new([send; 32]),
            receive: Zeroizing::new([receive; 32]),
        };
        (
            Session::new(cipher, &keys(1, 2), (one, other), true, Time::ZERO),
            Session::new(cipher, &keys(2, 1), (other, one), false, Time::ZERO),
        )
    }

    pub(crate) fn sealed(session: &mut Session, path: u8, text: &[u8]) -> Vec<u8> {
        let mut datagram = [&[0; HEADER_BYTES], text, &[0; TAG_BYTES]].concat();
        session.seal(path, &mut datagram).unwrap();
        datagram
    }

    #[test]
    fn paths_have_counters_and_windows_of_their_own() {
        let (mut a, b) = pair(Cipher::Aes256Gcm);
        for (path, counter) in [(0, 0), (0, 1), (7, 0), (255, 0), (7, 1)] {
            let mut datagram = sealed(&mut a, path, b"text");
            let copy = datagram.clone();
            assert_eq!(
                b.open(&mut datagram),
                Ok(OpenedDatagram { path, counter, is_numbered: false, plaintext: 16..20 })
            );
            assert_eq!(&datagram[16..20], b"text");
            assert_eq!(b.open(&mut copy.clone()), Err(OpenError::Replayed));
        }
        // However far another path is ahead, nothing looks old.
        let late = sealed(&mut a, 3, b"late");
        for _ in 0..20_000 {
            b.open(&mut sealed(&mut a, 4, b"")).unwrap();
        }
        b.open(&mut late.clone()).unwrap();
    }

    #[test]
    fn nothing_altered_is_opened_not_even_its_header() {
        let (mut a, b) = pair(Cipher::ChaCha20Poly1305);
        let datagram = sealed(&mut a, 1, b"some text");
        for at in 0..datagram.len() {
            for bit in 0..8 {
                let mut altered = datagram.clone();
                altered[at] ^= 1 << bit;
                assert!(b.open(&mut altered).is_err(), "byte {at}, bit {bit}");
            }
        }
        for length in 0..datagram.len() {
            assert!(b.open(&mut datagram[..length].to_vec()).is_err());
        }
        b.open(&mut datagram.clone()).unwrap();
    }

    #[test]
    fn a_session_shared_by_threads_has_each_path_once() {
        let (mut a, b) = pair(Cipher::Aes256Gcm);
        let mut other = a.take_paths(8..=15).unwrap();
        let mut room = [0; OVERHEAD_BYTES];
        assert_eq!(a.seal(8, &mut room), Err(SealError::ForeignPath { path: 8 }));
        assert_eq!(other.seal(7, &mut room), Err(SealError::ForeignPath { path: 7 }));
        assert_eq!(a.take_paths(0..=8).err(), Some(SealError::ForeignPath { path: 8 }));
        let opener = b.split().1;
        let (first, second) = (opener.clone(), opener);
        first.open(&mut sealed(&mut a, 0, b"x")).unwrap();
        let datagram = sealed(&mut other, 9, b"x");
        assert!(second.open(&mut datagram.clone()).is_ok());
        assert_eq!(first.open(&mut datagram.clone()), Err(OpenError::Replayed), "windows are shared");
    }

    #[test]
    fn a_responder_is_confirmed_by_the_first_datagram() {
        let (mut a, b) = pair(Cipher::Aes256Gcm);
        assert!(a.is_confirmed() && !b.is_confirmed());
        b.open(&mut sealed(&mut a, 0, b"")).unwrap();
        assert!(b.is_confirmed());
    }

    #[test]
    fn each_block_of_text_and_one_for_the_tag_count() {
        let (mut a, _) = pair(Cipher::Aes256Gcm);
        for (text, blocks) in [(0, 1), (1, 2), (16, 2), (17, 3)] {
            a.sealer.remaining_blocks = blocks;
            let reserved = a.sealer.outbound.reserved_blocks.load(Ordering::Relaxed);
            sealed(&mut a, 0, &vec![0; text]);
            assert_eq!(a.sealer.remaining_blocks, 0, "{text} bytes");
            assert_eq!(
                a.sealer.outbound.reserved_blocks.load(Ordering::Relaxed),
                reserved,
                "no more than was left is needed"
            );
        }
    }

    #[test]
    fn a_session_is_worn_beyond_half_of_what_it_may_seal_and_its_last_blocks_can_be_used() {
        const { assert!(REKEY_AFTER_BLOCKS < MAX_BLOCKS) };
        let (mut a, _) = pair(Cipher::Aes256Gcm);
        let reserve = |session: &mut Session, before: u64| {
            session.sealer.remaining_blocks = 0;
            session.sealer.outbound.reserved_blocks.store(before, Ordering::Relaxed);
            session.seal(0, &mut [0; OVERHEAD_BYTES]).map(|sealed| sealed.is_rekey_due)
        };
        assert_eq!(reserve(&mut a, REKEY_AFTER_BLOCKS - RESERVATION_BLOCKS), Ok(false));
        assert_eq!(reserve(&mut a, REKEY_AFTER_BLOCKS - RESERVATION_BLOCKS + 1), Ok(true));
        assert_eq!(reserve(&mut a, MAX_BLOCKS - RESERVATION_BLOCKS), Ok(true));
        assert_eq!(reserve(&mut a, MAX_BLOCKS - RESERVATION_BLOCKS + 1), Err(SealError::Exhausted));
        let reserved = a.sealer.outbound.reserved_blocks.load(Ordering::Relaxed);
        assert_eq!(reserved, MAX_BLOCKS - RESERVATION_BLOCKS + 1, "what was refused is not taken");
    }

    #[test]
    fn a_session_seals_no_more_than_it_may() {
        let (mut a, _) = pair(Cipher::Aes256Gcm);
        let mut other = a.take_paths(1..=1).unwrap();
        let mut room = [0; OVERHEAD_BYTES];
        assert!(!a.seal(0, &mut room).unwrap().is_rekey_due);
        a.sealer.outbound.reserved_blocks.store(REKEY_AFTER_BLOCKS + 1, Ordering::Relaxed);
        assert!(a.seal(0, &mut room).unwrap().is_rekey_due);
        a.sealer.outbound.reserved_blocks.store(MAX_BLOCKS, Ordering::Relaxed);
        assert_eq!(other.seal(1, &mut room), Err(SealError::Exhausted));
        *a.sealer.next_counters.get_mut(0) = COUNTER_OF_OTHER_SEALER - 1;
        let last = sealed(&mut a, 0, b"");
        assert_eq!(last[8..16], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]);
        assert_eq!(a.seal(0, &mut room), Err(SealError::ForeignPath { path: 0 }));
    }

    /// Sealed in the short form, with this counter of path 3.
    fn numbered(session: &mut Session, counter: u64, text: &[u8]) -> Vec<u8> {
        let mut datagram = [&[0; SHORT_HEADER_BYTES], text, &[0; TAG_BYTES]].concat();
        let sealed = session.seal_numbered(3, counter, HeaderForm::Short, &mut datagram).unwrap();
        datagram.split_off(sealed.start)
    }

    /// Opens what came over path 3, where `next` is expected.
    fn open_numbered(session: &Session, datagram: &[u8], next: u64) -> Result<u64, OpenError> {
        let reference = |path| (path == 3).then_some(CounterReference { path: 3, next_counter: next });
        session.open_numbered(&mut datagram.to_vec(), reference).map(|opened| opened.counter)
    }

    #[test]
    fn a_numbered_datagram_has_the_counter_that_its_sender_gives_and_none_twice() {
        let (mut a, b) = pair(Cipher::Aes256Gcm);
        let datagram = numbered(&mut a, 70_000, b"text");
        assert_eq!(datagram.len(), 4 + 4 + TAG_BYTES);
        for used in [0, 70_000] {
            let room = &mut [0; SHORT_HEADER_BYTES + TAG_BYTES];
            assert_eq!(
                a.seal_numbered(3, used, HeaderForm::Short, room),
                Err(SealError::UsedCounter { counter: used })
            );
        }
        assert_eq!(b.open(&mut datagram.clone()), Err(OpenError::UnknownPath));
        assert_eq!(open_numbered(&b, &datagram, 0), Err(OpenError::Forged), "it seems to be 4464");
        assert_eq!(open_numbered(&b, &datagram, 69_000), Ok(70_000));
        assert_eq!(open_numbered(&b, &datagram, 70_001), Err(OpenError::Replayed));
        // The sealer's own counters are others.
        let own = sealed(&mut a, 3, b"own");
        assert_eq!(b.open(&mut own.clone()).map(|opened| (opened.counter, opened.is_numbered)), Ok((0, false)));
        // One in the whole form opens whatever is known.
        let mut whole = [&[0; HEADER_BYTES], &b"whole"[..], &[0; TAG_BYTES]].concat();
        a.seal_numbered(3, 1 << 40, HeaderForm::Whole, &mut whole).unwrap();
        assert_eq!(b.open(&mut whole).map(|opened| (opened.counter, opened.is_numbered)), Ok((1 << 40, true)));
    }

    #[test]
    fn nothing_altered_is_opened_in_the_short_form_either() {
        let (mut a, b) = pair_of(Cipher::ChaCha20Poly1305, (1, 5000));
        let datagram = numbered(&mut a, 9, b"some text");
        assert_eq!(datagram.len(), SHORT_HEADER_BYTES + 9 + TAG_BYTES, "an index of more than eleven bits");
        for at in 0..datagram.len() {
            for bit in 0..8 {
                let mut altered = datagram.clone();
                altered[at] ^= 1 << bit;
                assert!(open_numbered(&b, &altered, 0).is_err(), "byte {at}, bit {bit}");
            }
        }
        for length in 0..datagram.len() {
            assert!(open_numbered(&b, &datagram[..length], 0).is_err());
        }
        assert_eq!(open_numbered(&b, &datagram, 0), Ok(9));
    }

    #[test]
    fn who_takes_a_path_over_goes_on_counting() {
        let (mut a, b) = pair(Cipher::Aes256Gcm);
        numbered(&mut a, 5, b"");
        let mut other = a.take_paths(0..=15).unwrap();
        let room = &mut [0; SHORT_HEADER_BYTES + TAG_BYTES];
        assert_eq!(a.seal_numbered(3, 6, HeaderForm::Short, room), Err(SealError::ForeignPath { path: 3 }));
        assert!(other.seal_numbered(3, 5, HeaderForm::Short, room).is_err());
        assert_eq!(open_numbered(&b, &numbered(&mut other, 6, b"x"), 0), Ok(6));
    }

    proptest::proptest! {
        /// Whatever is lost and however it is reordered: a datagram that is no more ahead of what has come than is proven, and no older
        /// than the replay window, has the counter that it was sealed with. Any other one fails to authenticate or has been refused.
        #[test]
        fn a_counter_is_known_by_its_lowest_bits_within_the_window(
            next in 0u64..1 << 54,
            offset in -20_000i64..60_000,
        ) {
            let sent = next.saturating_add_signed(offset);
            let expanded = CounterReference { path: 0, next_counter: next }.expand(sent as u16);
            let is_within = sent + ReplayWindow::WINDOW_PACKETS >= next
                && sent < next.max(ReplayWindow::WINDOW_PACKETS) + CounterReference::MAX_COUNTERS_AHEAD;
            proptest::prop_assert_eq!(expanded == sent, is_within, "{} {}", expanded, sent);
        }

        /// A path that loses, doubles and reorders: what opens has the number that its text says, and all opens that comes, but for what
        /// is older than the replay window.
        #[test]
        fn numbers_come_back_over_a_path_that_loses_and_reorders(
            steps in proptest::collection::vec((1u64..15_000, 0usize..4, proptest::bool::weighted(0.3)), 1..60),
        ) {
            let (mut a, b) = pair(Cipher::Aes256Gcm);
            let (mut counter, mut next, mut waiting) = (0, 0, Vec::new());
            for (step, late, is_lost) in steps {
                counter += step;
                let datagram = numbered(&mut a, counter, &counter.to_le_bytes());
                if !is_lost {
                    waiting.insert(waiting.len().saturating_sub(late), (counter, datagram));
                }
                if waiting.len() > 3 {
                    let (sent, datagram): (u64, Vec<u8>) = waiting.remove(0);
                    let opened = open_numbered(&b, &datagram, next);
                    let is_within = sent + ReplayWindow::WINDOW_PACKETS >= next
                        && sent < next.max(ReplayWindow::WINDOW_PACKETS) + CounterReference::MAX_COUNTERS_AHEAD;
                    proptest::prop_assert!(opened == Ok(sent) || (opened.is_err() && !is_within), "{} {:?}", sent, opened);
                    next = next.max(opened.map_or(0, |counter| counter + 1));
                }
            }
        }
    }
}
