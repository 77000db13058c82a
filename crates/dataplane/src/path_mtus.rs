use kumade_multipath::message::{DataHeader, MtuQuery};
use kumade_multipath::{BondConfig, PathId, PathMtu};
use kumade_units::{Span, Time};

/// What is known of the MTUs of the paths to a peer, and what is still to be said about them.
///
/// Paths count with IP packets on them, hosts with those inside the datagrams.
#[derive(Debug)]
pub(crate) struct PathMtus {
    /// None where they are not discovered, on a path or on all.
    paths: Vec<Option<PathMtu>>,
    /// Bytes of all headers of a datagram but those of its message, and of its seal, by path.
    datagram_overhead: Vec<u32>,
    /// Bytes of a data message besides its packet, at most.
    message_overhead: u32,
    /// The last probe of the far end on each path, until it is answered.
    unanswered: Vec<Option<u32>>,
    /// [`Self::least`], which each packet asks for.
    least: Option<u32>,
    due: Option<Time>,
}

/// Until a round trip has been measured.
const UNKNOWN_PATIENCE: Span = Span::from_secs(1);
const SLACK: Span = Span::from_millis(100);

impl PathMtus {
    /// `interface_mtus` are those of the paths' interfaces, or none where packets of any length are to be sent.
    pub(crate) fn new(interface_mtus: &[Option<u32>], bond: &BondConfig, now: Time) -> Self {
        let mut mtus = PathMtus {
            paths: interface_mtus.iter().map(|mtu| mtu.map(|mtu| PathMtu::new(mtu, now))).collect(),
            datagram_overhead: bond.paths.iter().map(|path| without_message(path.overhead_bytes)).collect(),
            message_overhead: DataHeader::bytes(bond.paths.len()),
            unanswered: vec![None; bond.paths.len()],
            least: None,
            due: None,
        };
        mtus.update();
        mtus
    }

    /// Something else carries a path from now on, which adds so many bytes to each packet: up to this MTU its own is
    /// discovered, if there is one.
    pub(crate) fn set_carrier(&mut self, path: PathId, mtu: Option<u32>, overhead_bytes: u32, now: Time) {
        if let Some(place) = self.paths.get_mut(path.index()) {
            *place = mtu.map(|mtu| PathMtu::new(mtu, now));
            self.datagram_overhead[path.index()] = without_message(overhead_bytes);
            self.update();
        }
    }

    fn path(&self, path: PathId) -> Option<&PathMtu> {
        self.paths.get(path.index())?.as_ref()
    }

    /// The longest packet of hosts that may be sent on a path now; 0 where none may.
    pub(crate) fn limit(&self, path: PathId) -> u32 {
        let limit = |mtu: &PathMtu| mtu.limit().map_or(0, |mtu| self.within(path.index(), mtu));
        self.path(path).map_or(u32::MAX, limit)
    }

    /// The longest packet of hosts that every path passes, as far as is known or expected.
    pub(crate) fn least(&self) -> Option<u32> {
        self.least
    }

    fn within(&self, path: usize, mtu: u32) -> u32 {
        mtu.saturating_sub(self.datagram_overhead[path] + self.message_overhead)
    }

    /// The MTU of a path, if it is known.
    pub(crate) fn mtu(&self, path: PathId) -> Option<u32> {
        self.path(path)?.limit()
    }

    /// Whether nothing is being found out of a path.
    pub(crate) fn is_settled(&self, path: PathId) -> bool {
        self.path(path).is_none_or(PathMtu::is_settled)
    }

    pub(crate) fn up(&mut self, path: PathId, now: Time) {
        self.change(path, |mtu| mtu.up(now));
    }

    pub(crate) fn down(&mut self, path: PathId) {
        self.change(path, PathMtu::down);
    }

    /// A datagram of so many bytes has left.
    pub(crate) fn sent(&mut self, path: PathId, bytes: usize) {
        let mtu = self.on_path(path, bytes);
        if mtu > PathMtu::BASE {
            self.change(path, |path| path.sent(mtu));
        }
    }

    /// The kernel has refused a datagram of so many bytes, because the interface does not take it.
    pub(crate) fn refused(&mut self, path: PathId, bytes: usize, now: Time) {
        let mtu = self.on_path(path, bytes);
        self.change(path, |path| path.refused(mtu, now));
    }

    /// The far end has received a probe of this host.
    pub(crate) fn answered(&mut self, path: PathId, number: u32, now: Time) {
        self.change(path, |mtu| mtu.answered(number, now));
    }

    /// A probe of the far end has come.
    pub(crate) fn asked(&mut self, path: PathId, number: u32) {
        self.unanswered[path.index()] = Some(number);
    }

    /// The next answer to send.
    pub(crate) fn take_answer(&mut self) -> Option<(PathId, u32)> {
        PathId::all().zip(&mut self.unanswered).find_map(|(path, number)| Some((path, number.take()?)))
    }

    /// Whether [`poll`](Self::poll) has anything to do.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The probe of a path that is to be sent now.
    pub(crate) fn poll(&mut self, path: PathId, round_trip: Option<Span>, now: Time) -> Option<MtuQuery> {
        let overhead = *self.datagram_overhead.get(path.index())?;
        let patience = round_trip.map_or(UNKNOWN_PATIENCE, |round_trip| round_trip * 2 + SLACK);
        let probe = self.change(path, |mtu| mtu.poll(now, patience))??;
        Some(MtuQuery { number: probe.number, size: probe.bytes.saturating_sub(overhead) as u16 })
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due
    }

    fn on_path(&self, path: PathId, datagram_bytes: usize) -> u32 {
        let overhead =
            self.datagram_overhead.get(path.index()).map_or(0, |bytes| bytes - kumade_noise_session::OVERHEAD as u32);
        u32::try_from(datagram_bytes).unwrap_or(u32::MAX).saturating_add(overhead)
    }

    fn change<R>(&mut self, path: PathId, change: impl FnOnce(&mut PathMtu) -> R) -> Option<R> {
        let result = change(self.paths.get_mut(path.index())?.as_mut()?);
        self.update();
        Some(result)
    }

    fn update(&mut self) {
        self.due = self.paths.iter().flatten().filter_map(PathMtu::deadline).min();
        let expected = |(path, mtu): (usize, &Option<PathMtu>)| Some(self.within(path, mtu.as_ref()?.expected()));
        self.least = self.paths.iter().enumerate().filter_map(expected).min();
    }
}

/// Of the bytes that are added to each packet on a path, all but those of its message.
fn without_message(overhead_bytes: u32) -> u32 {
    overhead_bytes.saturating_sub(crate::OVERHEAD) + kumade_noise_session::OVERHEAD as u32
}
