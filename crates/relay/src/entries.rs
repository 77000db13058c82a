use crate::relayed_stream::RelayedStream;
use crate::report::{RelayReport, RelayStatus, ReportQueue};
use crate::slot::ConnectionSlot;
use crate::stream_turns::StreamTurns;
use kumade_daemon::FairAdmission;
use kumade_net::clock;
use kumade_net::readiness::{EpollSet, Event};
use kumade_noise_session::PublicKey;
use kumade_units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpStream;

/// A connection between the ends, and what is known of it.
pub(crate) struct RelayEntry {
    pub(crate) stage: ConnectionSlot,
    /// Whose it is, at the far end.
    pub(crate) peer: Option<PublicKey>,
    /// When it is given up.
    pub(crate) deadline: Option<Time>,
}

impl RelayEntry {
    /// It may stay what it is for as long as if it had just become that.
    pub(crate) fn renew_deadline(&mut self) {
        self.deadline = self.stage.timeout().map(|patience| clock::monotonic() + patience);
    }
}

/// All connections of one end, by their numbers in the set: an even one for that between the ends, the next one for that
/// which is carried.
pub(crate) struct RelayEntries {
    pub(crate) epoll_set: EpollSet,
    pub(crate) reports: ReportQueue,
    pub(crate) status: RelayStatus,
    pub(crate) entries: BTreeMap<u32, RelayEntry>,
    /// Those that have not shown to be a peer's.
    unauthenticated: FairAdmission<u32>,
    /// Those of each peer, at the far end.
    peer_streams: BTreeMap<PublicKey, BTreeSet<u32>>,
    /// Those that may have something to do, by whose they are; nobody's are of those who have not shown to be peers, and all at the near end.
    busy: StreamTurns<Option<PublicKey>>,
    next_number: u32,
}

/// Lower numbers are others'.
pub(crate) const FIRST_CONNECTION_NUMBER: u32 = 1 << 10;

impl RelayEntries {
    pub(crate) fn new(set: EpollSet) -> Self {
        RelayEntries {
            epoll_set: set,
            reports: ReportQueue::default(),
            status: RelayStatus::default(),
            entries: BTreeMap::new(),
            unauthenticated: FairAdmission::default(),
            peer_streams: BTreeMap::new(),
            busy: StreamTurns::new(),
            next_number: FIRST_CONNECTION_NUMBER,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Those that have not shown to be a peer's.
    pub(crate) fn unauthenticated(&self) -> &FairAdmission<u32> {
        &self.unauthenticated
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &RelayEntry)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// Keeps a connection under a new number, and has it looked at. Dropped where the system watches no more sockets.
    pub(crate) fn add_connection(&mut self, slot: ConnectionSlot) {
        let number = self.new_number();
        if slot.socket().is_none_or(|socket| self.epoll_set.add_edge_triggered(socket, number).is_ok()) {
            self.replace_stage(number, slot, None);
            self.schedule(number);
        }
    }

    /// A number that no connection has.
    pub(crate) fn new_number(&mut self) -> u32 {
        loop {
            let number = self.next_number;
            self.next_number = number.checked_add(2).unwrap_or(FIRST_CONNECTION_NUMBER);
            if !self.entries.contains_key(&number) {
                return number;
            }
        }
    }

    /// Keeps what a connection has become.
    pub(crate) fn replace_stage(&mut self, number: u32, slot: ConnectionSlot, peer: Option<PublicKey>) {
        let mut entry = RelayEntry { stage: slot, peer, deadline: None };
        entry.renew_deadline();
        self.restore_entry(number, entry);
    }

    pub(crate) fn restore_entry(&mut self, number: u32, entry: RelayEntry) {
        if let Some(network) = entry.stage.unauthenticated_network() {
            self.unauthenticated.insert(network, number);
        }
        if let Some(peer) = entry.peer {
            self.peer_streams.entry(peer).or_default().insert(number);
        }
        self.entries.insert(number, entry);
    }

    /// Those through which bytes pass.
    pub(crate) fn relayed_mut(&mut self) -> impl Iterator<Item = (u32, &mut RelayedStream)> {
        self.entries.iter_mut().filter_map(|(number, entry)| match &mut entry.stage {
            ConnectionSlot::Relayed(carried) => Some((*number, &mut **carried)),
            _ => None,
        })
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut RelayEntry> {
        self.entries.get_mut(&number)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<RelayEntry> {
        let entry = self.entries.remove(&number)?;
        if let Some(network) = entry.stage.unauthenticated_network() {
            self.unauthenticated.remove(network, &number);
        }
        if let Some(streams) = entry.peer.as_ref().and_then(|peer| self.peer_streams.get_mut(peer)) {
            streams.remove(&number);
            if streams.is_empty() {
                entry.peer.as_ref().map(|peer| self.peer_streams.remove(peer));
            }
        }
        Some(entry)
    }

    /// Forgets a connection. Of a peer's, the kernel keeps nothing, whatever the peer has not taken.
    pub(crate) fn discard(&mut self, number: u32) -> Option<RelayEntry> {
        let entry = self.remove(number)?;
        if entry.peer.is_some() {
            entry.stage.reset_when_dropped();
        }
        Some(entry)
    }

    /// The streams of a peer, oldest first as a rule.
    pub(crate) fn streams_of_peer(&self, peer: &PublicKey) -> impl Iterator<Item = (u32, &RelayEntry)> {
        let numbers = self.peer_streams.get(peer).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.entries.get(number)?)))
    }

    /// Lets the kernel's buffers of a stream grow, if it has carried bytes.
    pub(crate) fn release_buffer_sizes(&mut self, number: u32) {
        if let Some(RelayEntry { stage: ConnectionSlot::Relayed(carried), .. }) = self.entries.get_mut(&number) {
            carried.release_buffer_sizes();
        }
    }

    /// Peers that have streams.
    pub(crate) fn peers(&self) -> Vec<PublicKey> {
        self.peer_streams.keys().copied().collect()
    }

    /// Has the connection that is carried under this number looked at, too.
    pub(crate) fn watch_plain(&self, plain: &TcpStream, number: u32) -> io::Result<()> {
        self.epoll_set.add_edge_triggered(plain, number + 1)
    }

    /// Has bytes pass.
    pub(crate) fn relay(&mut self, number: u32, carried: RelayedStream, peer: Option<PublicKey>) {
        self.status.opened += 1;
        self.replace_stage(number, ConnectionSlot::Relayed(Box::new(carried)), peer);
        self.schedule(number);
    }

    /// A connection is not carried, for this reason.
    pub(crate) fn record_refusal(&mut self, report: Option<RelayReport>) {
        self.status.refused += 1;
        report.into_iter().for_each(|report| self.reports.push(report, clock::monotonic()));
    }

    /// Has a connection looked at.
    pub(crate) fn schedule(&mut self, number: u32) {
        if let Some(entry) = self.entries.get(&number) {
            self.busy.schedule(entry.peer, number);
        }
    }

    /// Something has happened on a socket.
    pub(crate) fn handle_event(&mut self, event: &Event) {
        let number = event.number & !1;
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let ConnectionSlot::Relayed(carried) = &mut entry.stage {
            let RelayedStream { plain, sealed, .. } = &mut **carried;
            let (readable, writable) = if event.number == number {
                (&mut sealed.is_readable, &mut sealed.is_writable)
            } else {
                (&mut plain.is_readable, &mut plain.is_writable)
            };
            *readable |= event.is_readable || event.has_error;
            *writable |= event.is_writable || event.has_error;
        }
        self.busy.schedule(entry.peer, number);
    }

    /// Those that may have something to do.
    pub(crate) fn busy(&self) -> &StreamTurns<Option<PublicKey>> {
        &self.busy
    }

    /// The same, to be gone on with.
    pub(crate) fn busy_mut(&mut self) -> &mut StreamTurns<Option<PublicKey>> {
        &mut self.busy
    }
}
