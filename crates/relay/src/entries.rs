use crate::carried::Carried;
use crate::report::{RelayStatus, Report, Reports};
use crate::slot::Slot;
use kumade_daemon::FairAdmission;
use kumade_net::clock;
use kumade_net::readiness::{Event, Readiness};
use kumade_noise_session::PublicKey;
use kumade_units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpStream;

/// A connection between the ends, and what is known of it.
pub(crate) struct Entry {
    pub(crate) slot: Slot,
    /// Whose it is, at the far end.
    pub(crate) peer: Option<PublicKey>,
    /// When it is given up.
    pub(crate) deadline: Option<Time>,
}

/// All connections of one end, by their numbers in the set: an even one for that between the ends, the next one for that
/// which is carried.
pub(crate) struct Entries {
    pub(crate) set: Readiness,
    pub(crate) reports: Reports,
    pub(crate) status: RelayStatus,
    pub(crate) entries: BTreeMap<u32, Entry>,
    /// Those that have not shown to be a peer's.
    strangers: FairAdmission<u32>,
    /// Those that may have something to do.
    busy: BTreeSet<u32>,
    next_number: u32,
}

/// Lower numbers are others'.
pub(crate) const FIRST_NUMBER: u32 = 1 << 10;

impl Entries {
    pub(crate) fn new(set: Readiness) -> Self {
        Entries {
            set,
            reports: Reports::default(),
            status: RelayStatus::default(),
            entries: BTreeMap::new(),
            strangers: FairAdmission::default(),
            busy: BTreeSet::new(),
            next_number: FIRST_NUMBER,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Those that have not shown to be a peer's.
    pub(crate) fn strangers(&self) -> &FairAdmission<u32> {
        &self.strangers
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// Keeps a connection under a new number, and has it looked at. Dropped where the system watches no more sockets.
    pub(crate) fn enter(&mut self, slot: Slot) {
        let number = self.new_number();
        if slot.socket().is_none_or(|socket| self.set.add_edges(socket, number).is_ok()) {
            self.put(number, slot, None);
            self.busy.insert(number);
        }
    }

    /// A number that no connection has.
    pub(crate) fn new_number(&mut self) -> u32 {
        loop {
            let number = self.next_number;
            self.next_number = number.checked_add(2).unwrap_or(FIRST_NUMBER);
            if !self.entries.contains_key(&number) {
                return number;
            }
        }
    }

    /// Keeps what a connection has become.
    pub(crate) fn put(&mut self, number: u32, slot: Slot, peer: Option<PublicKey>) {
        let deadline = slot.patience().map(|patience| clock::monotonic() + patience);
        self.put_back(number, Entry { slot, peer, deadline });
    }

    pub(crate) fn put_back(&mut self, number: u32, entry: Entry) {
        if let Some(network) = entry.slot.stranger_network() {
            self.strangers.insert(network, number);
        }
        self.entries.insert(number, entry);
    }

    /// Those through which bytes pass.
    pub(crate) fn carried_mut(&mut self) -> impl Iterator<Item = &mut Carried> {
        self.entries.values_mut().filter_map(|entry| match &mut entry.slot {
            Slot::Carried(carried) => Some(&mut **carried),
            _ => None,
        })
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut(&number)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        if let Some(network) = entry.slot.stranger_network() {
            self.strangers.remove(network, &number);
        }
        Some(entry)
    }

    /// Has the connection that is carried under this number looked at, too.
    pub(crate) fn watch_plain(&self, plain: &TcpStream, number: u32) -> io::Result<()> {
        self.set.add_edges(plain, number + 1)
    }

    /// Has bytes pass.
    pub(crate) fn carry(&mut self, number: u32, carried: Carried, peer: Option<PublicKey>) {
        self.status.opened += 1;
        self.put(number, Slot::Carried(Box::new(carried)), peer);
        self.busy.insert(number);
    }

    /// A connection is not carried, for this reason.
    pub(crate) fn refuse(&mut self, report: Option<Report>) {
        self.status.refused += 1;
        report.into_iter().for_each(|report| self.reports.push(report));
    }

    /// Has a connection looked at.
    pub(crate) fn look_at(&mut self, number: u32) {
        self.busy.insert(number);
    }

    /// Something has happened on a socket.
    pub(crate) fn happened(&mut self, event: &Event) {
        let number = event.number & !1;
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Slot::Carried(carried) = &mut entry.slot {
            let Carried { plain, sealed, .. } = &mut **carried;
            let (readable, writable) = if event.number == number {
                (&mut sealed.is_readable, &mut sealed.is_writable)
            } else {
                (&mut plain.is_readable, &mut plain.is_writable)
            };
            *readable |= event.readable || event.error;
            *writable |= event.writable || event.error;
        }
        self.busy.insert(number);
    }

    /// Those that may have something to do.
    pub(crate) fn take_busy(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.busy)
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }
}
