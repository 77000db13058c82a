use crate::message::{DataHeader, MtuQuery};
use crate::{BondConfig, PathId, PathMtuDiscovery};
use kumade_noise_session::{SHORTEST_HEADER_BYTES, TAG_BYTES};
use kumade_units::{Rate, Span, Time};

/// What is known of the MTUs of the paths to a peer, and what is still to be said about them.
///
/// Paths count with IP packets on them, hosts with those inside the datagrams.
#[derive(Debug)]
pub(crate) struct PathMtus {
    /// None where they are not discovered, on a path or on all.
    discoveries: Vec<Option<PathMtuDiscovery>>,
    /// Bytes before a sealed datagram, by path.
    outer_bytes: Vec<u32>,
    /// Bytes of a sealed datagram besides the packet in it, as far as most have.
    datagram_overhead: u32,
    /// Of these, what is before the message.
    header_bytes: usize,
    /// The last probe of the far end on each path, until it is answered.
    unanswered_probes: Vec<Option<u32>>,
    /// [`Self::common_max_packet_bytes`], which each packet asks for.
    common_max_packet_bytes: Option<u32>,
    next_probe: Option<Time>,
    /// A path has come to pass less than before, and nobody has asked for that yet.
    has_reduction: bool,
}

/// Until a round trip has been measured.
const INITIAL_ANSWER_TIMEOUT: Span = Span::from_secs(1);
const ANSWER_TIMEOUT_SLACK: Span = Span::from_millis(100);

impl PathMtus {
    /// `interface_mtus` are those of the paths' interfaces, or none where packets of any length are to be sent.
    pub(crate) fn new(interface_mtus: &[Option<u32>], bond: &BondConfig, now: Time) -> Self {
        let mut mtus = PathMtus {
            discoveries: interface_mtus.iter().map(|mtu| mtu.map(|mtu| PathMtuDiscovery::new(mtu, now))).collect(),
            outer_bytes: bond.paths.iter().map(|path| outer_bytes(path.overhead_bytes)).collect(),
            datagram_overhead: datagram_overhead(SHORTEST_HEADER_BYTES, bond.paths.len()),
            header_bytes: SHORTEST_HEADER_BYTES,
            unanswered_probes: vec![None; bond.paths.len()],
            common_max_packet_bytes: None,
            next_probe: None,
            has_reduction: false,
        };
        mtus.update_common_max();
        mtus
    }

    /// Something else carries a path from now on, which adds so many bytes to each packet: up to this MTU its own is
    /// discovered, if there is one.
    pub(crate) fn set_transport(&mut self, path: PathId, mtu: Option<u32>, overhead_bytes: u32, now: Time) {
        if let Some(outer) = self.outer_bytes.get_mut(path.index()) {
            *outer = outer_bytes(overhead_bytes);
        }
        if let Some(place) = self.discoveries.get_mut(path.index()) {
            *place = mtu.map(|mtu| PathMtuDiscovery::new(mtu, now));
            self.update_common_max();
        }
    }

    /// There are so many paths, if there were fewer; of further ones nothing is known until their
    /// [transport](Self::set_transport) is set.
    pub(crate) fn set_path_count(&mut self, paths: usize) {
        if paths > self.outer_bytes.len() {
            if !self.discoveries.is_empty() {
                self.discoveries.resize(paths, None);
            }
            self.outer_bytes.resize(paths, 0);
            self.unanswered_probes.resize(paths, None);
            self.datagram_overhead = datagram_overhead(self.header_bytes, paths);
            self.update_common_max();
        }
    }

    /// There is a session in which so many bytes stand before the message of a packet: what passes leaves room for the longest that there
    /// was. Returns whether it does for more than before.
    pub(crate) fn raise_header_bytes(&mut self, bytes: usize) -> bool {
        let is_more = bytes > self.header_bytes;
        if is_more {
            self.header_bytes = bytes;
            self.datagram_overhead = datagram_overhead(bytes, self.outer_bytes.len());
            self.update_common_max();
        }
        is_more
    }

    fn discovery(&self, path: PathId) -> Option<&PathMtuDiscovery> {
        self.discoveries.get(path.index())?.as_ref()
    }

    /// The longest packet of hosts that may be sent on a path now; 0 where none may.
    pub(crate) fn max_packet_bytes(&self, path: PathId) -> u32 {
        let limit =
            |mtu: &PathMtuDiscovery| mtu.limit_bytes().map_or(0, |mtu| self.inner_packet_bytes(path.index(), mtu));
        self.discovery(path).map_or(u32::MAX, limit)
    }

    /// The longest packet of hosts that every path passes, as far as is known or expected.
    pub(crate) fn common_max_packet_bytes(&self) -> Option<u32> {
        self.common_max_packet_bytes
    }

    fn inner_packet_bytes(&self, path: usize, mtu: u32) -> u32 {
        mtu.saturating_sub(self.outer_bytes[path] + self.datagram_overhead)
    }

    /// The MTU of a path, if it is known.
    pub(crate) fn mtu(&self, path: PathId) -> Option<u32> {
        self.discovery(path)?.limit_bytes()
    }

    /// Whether a path has come to pass less than before, since this was last asked.
    pub(crate) fn take_reduction(&mut self) -> bool {
        std::mem::take(&mut self.has_reduction)
    }

    /// Whether it is known what a path passes, to within the distances of common lengths at least.
    pub(crate) fn is_settled(&self, path: PathId) -> bool {
        self.discovery(path).is_none_or(PathMtuDiscovery::is_settled)
    }

    pub(crate) fn path_up(&mut self, path: PathId, now: Time) {
        self.update_discovery(path, |mtu| mtu.path_up(now));
    }

    /// A path has lost long packets, and passed short ones.
    pub(crate) fn confirm(&mut self, path: PathId, now: Time) {
        self.update_discovery(path, |mtu| mtu.confirm(now));
    }

    pub(crate) fn path_down(&mut self, path: PathId) {
        self.update_discovery(path, PathMtuDiscovery::path_down);
    }

    /// A datagram with a message of so many bytes leaves.
    pub(crate) fn record_sent(&mut self, path: PathId, message_bytes: usize) {
        let mtu = self.outer_packet_bytes(path, self.header_bytes + message_bytes + TAG_BYTES);
        if mtu > PathMtuDiscovery::BASE_BYTES {
            self.update_discovery(path, |path| path.packet_sent(mtu));
        }
    }

    /// The kernel has refused a datagram of so many bytes, because the interface does not take it.
    pub(crate) fn record_refusal(&mut self, path: PathId, bytes: usize, now: Time) {
        let mtu = self.outer_packet_bytes(path, bytes);
        self.update_discovery(path, |path| path.size_refused(mtu, now));
    }

    /// The far end has received a probe of this host.
    pub(crate) fn record_answer(&mut self, path: PathId, number: u32, now: Time) {
        self.update_discovery(path, |mtu| mtu.probe_answered(number, now));
    }

    /// A probe of the far end has come.
    pub(crate) fn record_query(&mut self, path: PathId, number: u32) {
        self.unanswered_probes[path.index()] = Some(number);
    }

    /// The next answer to send.
    pub(crate) fn take_answer(&mut self) -> Option<(PathId, u32)> {
        PathId::all().zip(&mut self.unanswered_probes).find_map(|(path, number)| Some((path, number.take()?)))
    }

    /// Whether [`poll`](Self::poll) has anything to do.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next_probe.is_some_and(|due| due <= now)
    }

    /// The probe of a path of this rate that is to be sent now.
    pub(crate) fn poll(&mut self, path: PathId, round_trip: Option<Span>, rate: Rate, now: Time) -> Option<MtuQuery> {
        let overhead = *self.outer_bytes.get(path.index())? + kumade_noise_session::OVERHEAD_BYTES as u32;
        let patience = round_trip.map_or(INITIAL_ANSWER_TIMEOUT, |round_trip| round_trip * 2 + ANSWER_TIMEOUT_SLACK);
        let probe = self.update_discovery(path, |mtu| mtu.poll(now, patience, rate))??;
        Some(MtuQuery { number: probe.number, size: probe.bytes.saturating_sub(overhead) as u16 })
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.next_probe
    }

    fn outer_packet_bytes(&self, path: PathId, datagram_bytes: usize) -> u32 {
        let outer = self.outer_bytes.get(path.index()).copied().unwrap_or_default();
        u32::try_from(datagram_bytes).unwrap_or(u32::MAX).saturating_add(outer)
    }

    fn update_discovery<R>(&mut self, path: PathId, change: impl FnOnce(&mut PathMtuDiscovery) -> R) -> Option<R> {
        let discovery = self.discoveries.get_mut(path.index())?.as_mut()?;
        let before = discovery.reductions();
        let result = change(discovery);
        self.has_reduction |= discovery.reductions() != before;
        self.update_common_max();
        Some(result)
    }

    fn update_common_max(&mut self) {
        self.next_probe = self.discoveries.iter().flatten().filter_map(PathMtuDiscovery::deadline).min();
        let expected = |(path, mtu): (usize, &Option<PathMtuDiscovery>)| {
            Some(self.inner_packet_bytes(path, mtu.as_ref()?.expected_bytes()))
        };
        self.common_max_packet_bytes = self.discoveries.iter().enumerate().filter_map(expected).min();
    }
}

/// Of the bytes that are added to each packet on a path, those before the sealed datagram.
fn outer_bytes(overhead_bytes: u32) -> u32 {
    overhead_bytes.saturating_sub(crate::dataplane::OVERHEAD_BYTES)
}

fn datagram_overhead(header_bytes: usize, paths: usize) -> u32 {
    (header_bytes + TAG_BYTES) as u32 + DataHeader::size_for_paths(paths)
}
