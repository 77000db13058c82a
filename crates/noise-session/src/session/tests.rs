use super::*;
use zeroize::Zeroizing;

/// Two ends of a session, with the indices 1 and 2, established at time zero.
pub(crate) fn pair(cipher: Cipher) -> (Session, Session) {
    pair_of(cipher, (1, 2))
}

/// The same with other indices.
pub(crate) fn pair_of(cipher: Cipher, indices: (u32, u32)) -> (Session, Session) {
    pair_at(cipher, indices, Time::ZERO)
}

/// The same, established at another time.
pub(crate) fn pair_at(cipher: Cipher, (one, other): (u32, u32), established: Time) -> (Session, Session) {
    let keys = |send: u8, receive: u8| SessionKeys {
        send: Zeroizing::new([send; 32]),
        receive: Zeroizing::new([receive; 32]),
    };
    (
        Session::new(cipher, &keys(1, 2), (one, other), true, established),
        Session::new(cipher, &keys(2, 1), (other, one), false, established),
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
        assert_eq!(b.open(&mut datagram), Ok(OpenedDatagram { path, counter, is_numbered: false, plaintext: 16..20 }));
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
fn each_block_of_text_and_one_for_header_and_tag_each_count() {
    let (mut a, _) = pair(Cipher::Aes256Gcm);
    for (text, blocks) in [(0, 2), (1, 3), (16, 3), (17, 4)] {
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
        assert_eq!(a.seal_numbered(3, used, HeaderForm::Short, room), Err(SealError::UsedCounter { counter: used }));
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

/// The same datagram under another header, which says the same.
#[test]
fn a_numbered_datagram_has_one_header() {
    for (index, header_bytes) in [(2, 4), (5000, 6)] {
        let (mut a, b) = pair_of(Cipher::Aes256Gcm, (1, index));
        let short = numbered(&mut a, 9, b"text");
        let mut long = [0; SHORT_HEADER_BYTES];
        long[..4].copy_from_slice(&(0x4000_0003 | index << 4).to_be_bytes());
        long[5] = 9;
        let whole = data_header(index, (3 << PATH_SHIFT) + NUMBERED_FLAG + 9);
        let rest = &short[header_bytes..];
        for other in [[&whole[..], rest].concat(), [&long[..], rest].concat()] {
            assert_eq!(open_numbered(&b, &other, 0).is_ok(), other == short);
        }
        let mut datagram = [&[0; HEADER_BYTES], &b"text"[..], &[0; TAG_BYTES]].concat();
        a.seal_numbered(3, 10, HeaderForm::Whole, &mut datagram).unwrap();
        let mut again = short[..header_bytes].to_vec();
        again[header_bytes - 1] = 10;
        assert!(open_numbered(&b, &[&again[..], &datagram[HEADER_BYTES..]].concat(), 0).is_err());
        assert_eq!(open_numbered(&b, &datagram, 0), Ok(10));
        assert_eq!(open_numbered(&b, &short, 0), if index == 5000 { Err(OpenError::Replayed) } else { Ok(9) });
    }
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
    /// A path that loses, doubles and reorders: what opens has the number that its text says, and all opens that comes, but for what
    /// is older than the replay window.
    #[test]
    fn numbers_come_back_over_a_path_that_loses_and_reorders(
        steps in proptest::collection::vec((1u64..15_000, 0usize..4, 0usize..4), 1..60),
    ) {
        let (mut a, b) = pair(Cipher::Aes256Gcm);
        let (mut counter, mut next, mut waiting, mut came) = (0, 0, Vec::new(), std::collections::BTreeSet::new());
        for (step, late, copies) in steps {
            counter += step;
            let datagram = numbered(&mut a, counter, &counter.to_le_bytes());
            for copy in 0..copies.min(2) {
                let place = if copy == 0 { waiting.len().saturating_sub(late) } else { waiting.len() };
                waiting.insert(place, (counter, datagram.clone()));
            }
            if waiting.len() > 3 {
                let (sent, datagram): (u64, Vec<u8>) = waiting.remove(0);
                let opened = open_numbered(&b, &datagram, next);
                let is_within = sent + ReplayWindow::WINDOW_PACKETS >= next
                    && sent < next.max(ReplayWindow::WINDOW_PACKETS) + CounterReference::MAX_COUNTERS_AHEAD;
                let is_copy = came.contains(&sent);
                let is_expected = if opened.is_ok() { opened == Ok(sent) && !is_copy } else { is_copy || !is_within };
                proptest::prop_assert!(is_expected, "{} {:?}", sent, opened);
                came.extend(opened.ok());
                next = next.max(opened.map_or(0, |counter| counter + 1));
            }
        }
    }
}
