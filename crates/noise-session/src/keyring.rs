use crate::counter_reference::{CounterReference, HeaderForm};
use crate::limits::{MAX_SESSIONS, REJECT_AFTER};
use crate::session::{OpenError, OpenedDatagram, SealError, SealedDatagram, Session};
use kumade_units::Time;

/// The sessions of one peer, oldest first: what is in flight under an old one still opens after a new one has been made.
#[derive(Debug, Default)]
pub(crate) struct Keyring(Vec<Session>);

impl Keyring {
    /// Adds a session; returns the indices of those that it takes the place of.
    pub(crate) fn install(&mut self, session: Session, now: Time) -> Vec<u32> {
        let mut dropped = self.expire(now);
        if self.0.len() == MAX_SESSIONS {
            // The one in use stays.
            let in_use = self.current_index(now);
            dropped.push(self.0.remove(usize::from(in_use == Some(0))).index());
        }
        self.0.push(session);
        dropped
    }

    /// Forgets the sessions that have ended; returns their indices.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<u32> {
        self.0.extract_if(.., |old| old.has_expired(now)).map(|old| old.index()).collect()
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.0.iter().map(|session| session.established + REJECT_AFTER).min()
    }

    /// The session to send under: the latest one that the peer has confirmed.
    pub(crate) fn current_session(&self, now: Time) -> Option<&Session> {
        self.current_index(now).map(|place| &self.0[place])
    }

    pub(crate) fn seal(&mut self, path: u8, datagram: &mut [u8], now: Time) -> Result<SealedDatagram, SealError> {
        let place = self.current_index(now).ok_or(SealError::NoSession)?;
        self.0[place].seal(path, datagram)
    }

    pub(crate) fn seal_numbered(
        &mut self,
        (path, counter): (u8, u64),
        form: HeaderForm,
        datagram: &mut [u8],
        now: Time,
    ) -> Result<SealedDatagram, SealError> {
        let place = self.current_index(now).ok_or(SealError::NoSession)?;
        self.0[place].seal_numbered(path, counter, form, datagram)
    }

    /// Opens a datagram whose receiver index is `index`.
    pub(crate) fn open(
        &self,
        index: u32,
        datagram: &mut [u8],
        reference: impl FnOnce(u8) -> Option<CounterReference>,
        now: Time,
    ) -> Result<OpenedDatagram, OpenError> {
        let session = self.0.iter().find(|session| session.index() == index && !session.has_expired(now));
        session.ok_or(OpenError::UnknownSession)?.open_numbered(datagram, reference)
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(Session::index)
    }

    fn current_index(&self, now: Time) -> Option<usize> {
        self.0.iter().rposition(|session| session.is_confirmed() && !session.has_expired(now))
    }
}
