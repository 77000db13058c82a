//! A proxy that ends the TCP connections of its two sides, and passes on what it reads when it reads it.

use crate::packet_at_hop::PacketAtHop;
use kumade_packet::DsField;
use kumade_probe_train::Train;
use kumade_units::{Rate, Span, Time};
use rand::{Rng, RngExt};
use std::collections::BTreeMap;
use std::iter::Peekable;

/// Bytes of the IP and TCP headers where nothing else is said: IPv4, with timestamps.
pub(crate) const HEADER_BYTES: u32 = 52;

/// A proxy between two links that ends the TCP connections of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proxy {
    /// It wakes up by up to this after data has come, uniformly, and then reads all that has gathered.
    pub max_wake_up_delay: Span,
    /// The interval between two segments that it sends back to back, which is the time that a send takes.
    pub send_cost: Span,
    /// Bytes of the IP and TCP headers on each data packet, before it and behind it.
    pub header_bytes: [u32; 2],
}

/// What the proxy sends as one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelayedSegment {
    /// The train's packets whose last bytes are in it.
    pub(crate) packets: Vec<usize>,
    /// The segment; its index is its place among all of them.
    pub(crate) segment: PacketAtHop,
}

impl Proxy {
    /// The same as seen by what comes the other way.
    pub fn reversed(self) -> Self {
        let [before, behind] = self.header_bytes;
        Proxy { header_bytes: [behind, before], ..self }
    }

    /// Bytes of the largest packet that it can pass on in one piece.
    pub fn max_packet(&self) -> u32 {
        let [before, behind] = self.header_bytes;
        Train::MAX_ETHERNET_PACKET_BYTES - behind.saturating_sub(before)
    }

    /// A rate of IP packets behind it, as that of the packets before it which have the same payload, where they are as large as can be.
    pub fn rate_before(&self, behind: Rate) -> Rate {
        let before = self.max_packet();
        let ratio = f64::from(before) / f64::from(self.segment_bytes(self.payload_bytes(before)));
        Rate::from_f64(behind.as_f64() * ratio)
    }

    /// What it sends of the packets that have reached it: each connection's bytes in order.
    pub(crate) fn relay(&self, arrived: &[PacketAtHop], random: &mut impl Rng) -> Vec<RelayedSegment> {
        let mut readable = readable_in_order(arrived).into_iter().peekable();
        let mut sent = Vec::with_capacity(arrived.len());
        // Until then it is awake, and sends.
        let mut busy_until = None;
        while let Some(first) = readable.peek().copied() {
            let late = Span::from_nanos(random.random_range(0..=self.max_wake_up_delay.as_nanos().max(0)));
            let mut now = busy_until.filter(|until| first.time <= *until).unwrap_or(first.time + late);
            for gathered in gather_readable(&mut readable, now) {
                self.send_segments(&gathered, &mut now, &mut sent);
            }
            busy_until = Some(now);
        }
        sent
    }

    /// One connection's bytes in as few segments as they take.
    fn send_segments(&self, packets: &[PacketAtHop], now: &mut Time, sent: &mut Vec<RelayedSegment>) {
        let max = Train::MAX_ETHERNET_PACKET_BYTES - self.header_bytes[1];
        let mut left: u32 = packets.iter().map(|packet| self.payload_bytes(packet.size)).sum();
        let (mut read, mut passed) = (0, 0);
        let flow = packets.first().map_or(0, |packet| packet.flow);
        let mut packets = packets.iter().peekable();
        while left > 0 {
            let payload = left.min(max);
            left -= payload;
            passed += payload;
            let mut ended = Vec::new();
            while let Some(packet) = packets.next_if(|packet| read + self.payload_bytes(packet.size) <= passed) {
                read += self.payload_bytes(packet.size);
                ended.push(packet.index);
            }
            *now += self.send_cost;
            let segment = PacketAtHop {
                index: sent.len(),
                flow,
                size: self.segment_bytes(payload),
                ds_field: DsField::default(),
                time: *now,
            };
            sent.push(RelayedSegment { packets: ended, segment });
        }
    }

    /// Bytes that TCP carries in a packet before the proxy: at least one.
    fn payload_bytes(&self, size: u32) -> u32 {
        size.saturating_sub(self.header_bytes[0]).max(1)
    }

    fn segment_bytes(&self, payload: u32) -> u32 {
        payload + self.header_bytes[1]
    }
}

/// When the proxy can read each packet: once all earlier ones of its connection have come, too.
fn readable_in_order(arrived: &[PacketAtHop]) -> Vec<PacketAtHop> {
    let mut packets = arrived.to_vec();
    packets.sort_by_key(|packet| (packet.index, packet.time));
    // TCP drops what comes twice.
    packets.dedup_by_key(|packet| packet.index);
    let mut latest: BTreeMap<u64, Time> = BTreeMap::new();
    for packet in &mut packets {
        let latest = latest.entry(packet.flow).or_insert(packet.time);
        *latest = packet.time.max(*latest);
        packet.time = *latest;
    }
    packets.sort_by_key(|packet| (packet.time, packet.index));
    packets
}

/// What can be read by now, by connection, in the order in which these have become readable.
fn gather_readable(readable: &mut Peekable<impl Iterator<Item = PacketAtHop>>, now: Time) -> Vec<Vec<PacketAtHop>> {
    let mut connections: Vec<Vec<PacketAtHop>> = Vec::new();
    while let Some(packet) = readable.next_if(|packet| packet.time <= now) {
        match connections.iter_mut().find(|packets| packets[0].flow == packet.flow) {
            Some(packets) => packets.push(packet),
            None => connections.push(vec![packet]),
        }
    }
    connections
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    /// Wakes up at once, so that only what comes at one time, or while it sends, is joined.
    const PROXY: Proxy =
        Proxy { max_wake_up_delay: Span::ZERO, send_cost: Span::from_micros(5), header_bytes: [52, 52] };

    fn packet(index: usize, flow: u64, size: u32, micros: i64) -> PacketAtHop {
        PacketAtHop { index, flow, size, ds_field: DsField::default(), time: Time::ZERO + Span::from_micros(micros) }
    }

    /// The packets that each segment ends, its size, and when it leaves in microseconds.
    fn relayed(proxy: Proxy, arrived: &[PacketAtHop]) -> Vec<(Vec<usize>, u32, i64)> {
        let sent = proxy.relay(arrived, &mut Pcg64Mcg::seed_from_u64(1)).into_iter();
        sent.map(|RelayedSegment { packets, segment }| (packets, segment.size, segment.time.as_nanos() / 1000))
            .collect()
    }

    #[test]
    fn small_packets_of_one_connection_leave_as_one_segment_and_full_ones_as_two() {
        let together = [packet(0, 7, 652, 100), packet(1, 7, 652, 100), packet(2, 8, 652, 100)];
        assert_eq!(relayed(PROXY, &together), [(vec![0, 1], 1252, 105), (vec![2], 652, 110)]);
        let full = [packet(0, 7, 1500, 100), packet(1, 7, 1500, 100)];
        assert_eq!(relayed(PROXY, &full), [(vec![0], 1500, 105), (vec![1], 1500, 110)]);
        let cut_elsewhere = [packet(0, 7, 1052, 100), packet(1, 7, 1052, 100)];
        assert_eq!(relayed(PROXY, &cut_elsewhere), [(vec![0], 1500, 105), (vec![1], 604, 110)]);
    }

    #[test]
    fn what_a_connection_misses_holds_up_that_connection_alone() {
        let first_is_late = [packet(1, 7, 1500, 100), packet(2, 8, 1500, 200), packet(0, 7, 1500, 900)];
        assert_eq!(relayed(PROXY, &first_is_late), [(vec![2], 1500, 205), (vec![0], 1500, 905), (vec![1], 1500, 910)]);
    }

    #[test]
    fn it_wakes_up_late_by_no_more_than_is_set_and_passes_each_packet_once() {
        let proxy = Proxy { max_wake_up_delay: Span::from_micros(300), ..PROXY };
        let arrived: Vec<PacketAtHop> =
            (0..200).map(|index| packet(index, index as u64 % 120, 1500, 40 * index as i64)).collect();
        let sent = relayed(proxy, &arrived);
        let mut passed: Vec<usize> = sent.iter().flat_map(|(packets, ..)| packets.clone()).collect();
        passed.sort_unstable();
        assert_eq!(passed, (0..200).collect::<Vec<_>>());
        let late = |(packets, _, at): &(Vec<usize>, u32, i64)| at - 40 * packets[0] as i64;
        let latest = sent.iter().map(late).max().unwrap();
        assert!((150..=300 + 5 * 10).contains(&latest), "{latest}");
    }

    #[test]
    fn sizes_behind_it_have_the_headers_of_that_side() {
        let to_ipv6 = Proxy { header_bytes: [52, 72], ..PROXY };
        assert_eq!(to_ipv6.max_packet(), 1480);
        assert_eq!(relayed(to_ipv6, &[packet(0, 7, 1480, 0)]), [(vec![0], 1500, 5)]);
        assert_eq!(to_ipv6.rate_before(Rate::from_mbit(150)), Rate::from_mbit(148));
        assert_eq!(to_ipv6.reversed().max_packet(), 1500);
        assert_eq!(relayed(to_ipv6.reversed(), &[packet(0, 7, 1500, 0)]), [(vec![0], 1480, 5)]);
    }
}
