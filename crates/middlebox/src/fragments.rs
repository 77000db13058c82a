use crate::action::Direction;
use crate::table::IdleTable;
use kumade_packet::{Headers, PacketEnd, rewrite};
use kumade_units::{Span, Time};
use std::collections::VecDeque;
use std::net::IpAddr;

/// A fragment that was held and can now be forwarded, translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasedFragment {
    /// The side to which it goes: [`Direction::Inbound`] to the inside, also of a hairpinned datagram.
    pub direction: Direction,
    /// The fragment, from its IP header on.
    pub packet: Vec<u8>,
}

/// Which datagram a fragment belongs to (RFC 791 §3.2), as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct DatagramKey {
    direction: Direction,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u32,
}

/// Where the first fragment of a datagram went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentRoute {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) is_hairpin: bool,
}

#[derive(Debug)]
struct HeldFragment {
    key: DatagramKey,
    deadline: Time,
    packet: Vec<u8>,
}

/// Associations of fragmented datagrams, and later fragments that arrived before the first one.
///
/// RFC 4787 REQ-14: "A NAT MUST support receiving in-order and out-of-order fragments", and a): so "that
/// fragmentation-based DoS attacks do not compromise the NAT's ability to process in-order and unfragmented IP packets".
/// Both stores are bounded and give up their oldest entry for a new one, so that a flood of fragments can displace other
/// fragments only.
#[derive(Debug)]
pub(crate) struct FragmentTable {
    associations: IdleTable<DatagramKey, FragmentRoute, 1>,
    held: VecDeque<HeldFragment>,
    released: VecDeque<ReleasedFragment>,
    max_held: usize,
    timeout: Span,
    pub(crate) held_total: u64,
    pub(crate) released_total: u64,
    pub(crate) dropped_total: u64,
}

impl FragmentTable {
    pub(crate) fn new(seed: u128, max_associations: usize, max_held: usize, timeout: Span) -> Self {
        FragmentTable {
            associations: IdleTable::new(seed, max_associations, [timeout]),
            held: VecDeque::new(),
            released: VecDeque::new(),
            max_held,
            timeout,
            held_total: 0,
            released_total: 0,
            dropped_total: 0,
        }
    }

    /// Drops what has waited for too long.
    pub(crate) fn expire(&mut self, now: Time) {
        while let Some(id) = self.associations.expired_entry(now) {
            self.associations.remove(id);
        }
        while self.held.front().is_some_and(|held| held.deadline <= now) {
            self.held.pop_front();
            self.dropped_total += 1;
        }
    }

    /// Where the first fragment of this one's datagram went.
    pub(crate) fn find_route(&self, direction: Direction, headers: &Headers) -> Option<FragmentRoute> {
        let id = self.associations.find(&DatagramKey::from_headers(direction, headers))?;
        Some(*self.associations.value(id))
    }

    /// Holds a copy of a later fragment.
    pub(crate) fn hold_fragment(&mut self, direction: Direction, headers: &Headers, packet: &[u8], now: Time) {
        self.held_total += 1;
        let packet = packet[..headers.total_len].to_vec();
        self.held.push_back(HeldFragment {
            key: DatagramKey::from_headers(direction, headers),
            deadline: now + self.timeout,
            packet,
        });
        if self.held.len() > self.max_held {
            self.held.pop_front();
            self.dropped_total += 1;
        }
    }

    /// Notes where the first fragment of a datagram goes, and releases the later ones held.
    pub(crate) fn associate_datagram(
        &mut self,
        direction: Direction,
        headers: &Headers,
        route: FragmentRoute,
        now: Time,
    ) {
        let key = DatagramKey::from_headers(direction, headers);
        // A datagram with the identification of an earlier one takes over its association.
        if let Some(id) = self.associations.find(&key) {
            self.associations.remove(id);
        } else if self.associations.is_full()
            && let Some(oldest) = self.associations.oldest_in_queue(0)
        {
            self.associations.remove(oldest);
        }
        self.associations.insert(key, route, 0, now);
        self.release_fragments(key, route);
    }

    pub(crate) fn next_released(&mut self) -> Option<ReleasedFragment> {
        self.released.pop_front()
    }

    fn release_fragments(&mut self, key: DatagramKey, route: FragmentRoute) {
        let mut at = 0;
        while at < self.held.len() {
            if self.held[at].key != key {
                at += 1;
                continue;
            }
            let Some(HeldFragment { mut packet, .. }) = self.held.remove(at) else { return };
            let Ok(headers) = Headers::parse(&packet) else { continue };
            if rewrite(&mut packet, &headers, &route.translate_headers(&headers)).is_ok() {
                let direction = if route.is_hairpin { Direction::Inbound } else { key.direction };
                self.push_released(ReleasedFragment { direction, packet });
            }
        }
    }

    /// The caller takes released fragments after each packet; should it not, they do not accumulate.
    fn push_released(&mut self, released: ReleasedFragment) {
        self.released_total += 1;
        self.released.push_back(released);
        if self.released.len() > self.max_held {
            self.released.pop_front();
            self.dropped_total += 1;
        }
    }
}

impl DatagramKey {
    fn from_headers(direction: Direction, headers: &Headers) -> Self {
        DatagramKey {
            direction,
            source: headers.source,
            destination: headers.destination,
            protocol: headers.protocol,
            identification: headers.identification,
        }
    }
}

impl FragmentRoute {
    /// The headers of a fragment that goes the same way.
    pub(crate) fn translate_headers(&self, headers: &Headers) -> Headers {
        let mut translated = *headers;
        translated.set_address(PacketEnd::Source, self.source);
        translated.set_address(PacketEnd::Destination, self.destination);
        translated
    }
}
