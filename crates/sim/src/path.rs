use crate::elastic::{ElasticFlow, ElasticPath, FlowImpact};
use crate::packet_at_hop::PacketAtHop;
use crate::packet_transport::{EcmpLinks, LinksInSeries, link_of_flow, offer_to_link, pop_packet};
use crate::proxy::{HEADER_BYTES, Proxy};
use crate::train_connections::{TrainConnections, TrainPacketFate};
use kumade_link::queue::QueueConfig;
use kumade_link::{CrossConfig, CrossTraffic, Jitter, Link, LinkConfig, Loss, Medium, Recording};
use kumade_packet::DsField;
use kumade_probe_train::{
    DsFieldArrival, DsFieldRecord, DsFieldTrain, Mark, MarkedArrival, MarkedRecord, MarkedTrain, PacketRecord,
    PlannedPacket, Train, TrainRecord,
};
use kumade_units::ConfigError;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// One link of a path, with its cross traffic.
#[derive(Debug, Clone)]
pub struct PathHop {
    /// The link; it needs a rate.
    pub link: LinkConfig,
    /// Its queue; none for tail drop of [`LinkConfig::queue_bytes`].
    pub queue: Option<QueueConfig>,
    /// The cross traffic that enters here.
    pub cross: Vec<CrossConfig>,
}

/// Errors of the hosts' time stamps.
#[derive(Debug, Clone, Copy)]
pub struct Stamping {
    /// The interval between two packets sent back to back, which is the time that a send takes.
    pub send_cost: Span,
    /// The receiver's stamps are late by up to this, uniformly.
    pub receive_jitter: Span,
    /// The receiver's device reports packets only at multiples of this, all of them with one stamp (interrupt
    /// coalescing); zero reports each at once.
    pub batching: Span,
    /// The receiver's clock when the sender's is at zero.
    pub clock_offset: Span,
    /// How much faster the receiver's clock runs, as a ratio: 50e-6 is 50 ppm.
    pub clock_skew: f64,
}

impl Default for Stamping {
    /// Kernel stamps on two ordinary machines (5 µs a send, a few µs of lateness), clocks half a second and 20 ppm off.
    fn default() -> Self {
        Stamping {
            send_cost: Span::from_micros(5),
            receive_jitter: Span::from_micros(3),
            batching: Span::ZERO,
            clock_offset: Span::from_millis(500),
            clock_skew: 20e-6,
        }
    }
}

/// A burst takes as long as one send, and the same again for so many of its packets.
const SEND_CALL_SEGMENTS: i64 = 12;

/// Links in series, or side by side, or one that is shared with TCP connections. Trains come one after the other, so that each
/// hop can carry all of a train before the next hop.
#[derive(Debug)]
pub struct VirtualPath {
    hops: Vec<Link<usize>>,
    /// What was added to each.
    cross: Vec<Vec<CrossConfig>>,
    /// The links are not in series: each flow takes one of them, by a hash under this seed (RFC 2991).
    ecmp_seed: Option<u64>,
    /// In place of the links.
    elastic_path: Option<Box<ElasticPath>>,
    stamping: Stamping,
    /// Larger packets are lost.
    mtu: Option<u32>,
    /// What becomes of the octet of DSCP and ECN of each packet; none where the packet is dropped.
    mark_treatment: fn(u8) -> Option<u8>,
    /// Behind the first link.
    proxy: Option<Proxy>,
    /// Those that are open, on each side of a proxy.
    connections: Vec<TrainConnections>,
    random: Pcg64Mcg,
    now: Time,
}

/// After the last packet of a train over connections, the sender waits so long for the stamps of those that are held back.
const MAX_STAMP_WAIT: Span = Span::from_millis(100);

impl VirtualPath {
    /// An idle path at time zero.
    ///
    /// # Errors
    /// [`Link`] or [`CrossTraffic`] refuses a setting.
    pub fn new(hops: &[PathHop], stamping: Stamping, seed: u64) -> Result<Self, ConfigError> {
        let cross = hops.iter().map(|hop| hop.cross.clone()).collect();
        let hops = hops.iter().map(build_link).collect::<Result<_, ConfigError>>()?;
        let random = Pcg64Mcg::seed_from_u64(seed);
        let now = Time::ZERO;
        let (balanced_by, elastic, mtu, proxy, connections) = (None, None, None, None, Vec::new());
        Ok(VirtualPath {
            hops,
            cross,
            ecmp_seed: balanced_by,
            elastic_path: elastic,
            stamping,
            mtu,
            mark_treatment: Some,
            proxy,
            connections,
            random,
            now,
        })
    }

    /// One link with TCP connections on it, which begin within the first second.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_elastic_flows(
        link: &LinkConfig,
        flows: &[ElasticFlow],
        stamping: Stamping,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let elastic = ElasticPath::new(link.clone(), flows.to_vec(), seed)?;
        let path = VirtualPath::new(&[], stamping, seed)?;
        Ok(VirtualPath { elastic_path: Some(Box::new(elastic)), ..path })
    }

    /// What the trains did to the TCP connections, where there are some.
    pub fn elastic_impact(&self) -> Option<FlowImpact> {
        self.elastic_path.as_ref()?.measure_impact()
    }

    /// Links side by side, of which each flow takes one: equal-cost paths, or an aggregated link.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn over_ecmp_links(members: &[PathHop], stamping: Stamping, seed: u64) -> Result<Self, ConfigError> {
        VirtualPath::new(members, stamping, seed).map(|path| VirtualPath { ecmp_seed: Some(seed), ..path })
    }

    /// Gives it an MTU, which hosts have found out (RFC 1191): larger packets are lost.
    pub fn with_mtu(self, mtu: u32) -> Self {
        VirtualPath { mtu: Some(mtu), ..self }
    }

    /// Lets a middlebox change the octet of DSCP and ECN of each packet like this, or drop the packet where it makes none of it.
    pub fn with_mark_treatment(self, mark_treatment: fn(u8) -> Option<u8>) -> Self {
        VirtualPath { mark_treatment, ..self }
    }

    /// Puts a proxy behind the first of its links: all packets are those of TCP connections, which retransmit on either side of it
    /// what was lost there.
    pub fn with_proxy(self, proxy: Proxy) -> Self {
        VirtualPath { proxy: Some(proxy), ..self }
    }

    /// The largest packet that passes, if not every one does.
    pub fn mtu(&self) -> Option<u32> {
        let of_proxy = self.proxy.map(|proxy| proxy.max_packet());
        self.mtu.into_iter().chain(of_proxy).min()
    }

    /// What TCP connections of either end go by, the sender's first: the bytes of their headers, and how long a packet of theirs takes
    /// without queues. Without a proxy they are the same ones.
    pub(crate) fn tcp_connection_infos(&self) -> [(u32, Span); 2] {
        match (self.proxy, &self.hops[..]) {
            (Some(Proxy { header_bytes: [near, far], .. }), [first, ..]) => {
                let delay = first.config().delay;
                [(near, delay), (far, self.base_delay() - delay)]
            }
            _ => [(HEADER_BYTES, self.base_delay()); 2],
        }
    }

    /// The virtual clock: that of the sender.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets time pass.
    pub fn wait(&mut self, span: Span) {
        self.now += span;
    }

    /// Without queues, from one end to the other; of links side by side, that of the longest.
    pub fn base_delay(&self) -> Span {
        if let Some(elastic) = &self.elastic_path {
            return elastic.base_delay();
        }
        let delays = self.hops.iter().map(|hop| hop.config().delay);
        match self.ecmp_seed {
            None => delays.fold(Span::ZERO, |sum, delay| sum + delay),
            Some(_) => delays.max().unwrap_or(Span::ZERO),
        }
    }

    /// Sends a train now, as one flow; afterwards it is as late as the last packet's arrival.
    pub fn send(&mut self, train: &Train) -> TrainRecord {
        self.send_with(train, &[]).0
    }

    /// Sends a train whose packets have a DSCP and ECN codepoint each, as one flow.
    pub fn send_ds_fields(&mut self, train: &DsFieldTrain) -> DsFieldRecord {
        let treat = self.mark_treatment;
        let (record, arrived) = self.send_with(&train.train, &train.ds_fields);
        let arrival = |packet: &PacketAtHop| {
            let received = record.packets[packet.index].received;
            let ds_field = Some(treat(packet.ds_field.octet())?);
            Some(DsFieldArrival { index: packet.index as u32, received, ds_field })
        };
        let arrivals: Vec<_> = arrived.iter().filter_map(arrival).collect();
        let sent = (0..).zip(&record.packets).filter_map(|(index, packet)| Some((index, packet.sent?)));
        DsFieldRecord::new(record.packets.len(), sent, &arrivals)
    }

    /// Sends a train with these octets of DSCP and ECN, as far as there are any: its record, and what arrived, in the order of arrival.
    fn send_with(&mut self, train: &Train, ds_fields: &[u8]) -> (TrainRecord, Vec<PacketAtHop>) {
        let (departures, free) = self.departure_times(train, 1);
        self.now = free;
        let mut sent = self.packets_within_mtu(train, &departures, 1);
        for packet in &mut sent {
            packet.ds_field = ds_fields.get(packet.index).copied().map(DsField::from_octet).unwrap_or_default();
        }
        let arrived = match (&mut self.elastic_path, self.ecmp_seed) {
            (Some(elastic), _) => elastic.pass_packets(&sent),
            (None, None) => self.hops.iter_mut().fold(sent, |moving, hop| deliver_over_link(hop, &moving)),
            (None, Some(seed)) => {
                let member = link_of_flow(seed, self.hops.len(), 0);
                deliver_over_link(&mut self.hops[member], &sent)
            }
        };
        let planned = train.packets().zip(departures);
        let unstamped = |(planned, at): (PlannedPacket, Time)| PacketRecord {
            size: planned.size,
            sent: Some(at),
            submitted: None,
            received: None,
        };
        (self.record_stamps(planned.map(unstamped).collect(), &arrived), arrived)
    }

    /// Sends marked packets now, as one flow: which of them arrive, and as what.
    pub fn send_marks(&mut self, train: &MarkedTrain) -> MarkedRecord {
        let treat = self.mark_treatment;
        let delivered = self.send(&train.unmarked());
        let arrival = |((index, packet), mark): ((u32, &PacketRecord), &Mark)| {
            let ds_field = treat(mark.ds_field).filter(|_| packet.received.is_some());
            ds_field.map(|octet| MarkedArrival { index, ds_field: Some(octet), hop_limit: None })
        };
        MarkedRecord {
            sent: (0..train.marks.len() as u32).collect(),
            arrivals: (0..).zip(&delivered.packets).zip(&train.marks).filter_map(arrival).collect(),
        }
    }

    /// The same with the packets on so many TCP connections in turn, opened before if they are not yet. It ends when all have arrived, but no
    /// later than this after its planned end; what has not arrived by then counts as lost, and still takes room later. Behind a proxy, all of
    /// it is waited for.
    pub fn send_over_connections(&mut self, train: &Train, connections: u32, timeout: Span) -> TrainRecord {
        self.run_connections();
        self.open_connections(connections);
        let (departures, free) = self.departure_times(train, connections);
        let deadline = self.now + train.duration() + timeout;
        let submitted = self.packets_within_mtu(train, &departures, connections);
        let (carried, arrived) = match self.proxy {
            Some(proxy) => self.deliver_through_proxy(proxy, &submitted),
            None => self.deliver_over_connections(&submitted, deadline),
        };
        let last_stamp = free + MAX_STAMP_WAIT;
        let is_held_back = |carried: &TrainPacketFate| carried.sent.is_none_or(|at| at > last_stamp);
        let is_missing = carried.len() != arrived.len();
        let held_until = carried.iter().any(is_held_back).then_some(last_stamp);
        self.now = held_until.into_iter().chain(is_missing.then_some(deadline)).fold(free, Time::max);
        let planned = train.packets().zip(departures);
        let unsent = |(planned, at): (PlannedPacket, Time)| PacketRecord {
            size: planned.size,
            sent: None,
            submitted: Some(at),
            received: None,
        };
        let mut packets: Vec<PacketRecord> = planned.map(unsent).collect();
        for (packet, carried) in submitted.iter().zip(&carried) {
            packets[packet.index].sent = carried.sent.filter(|at| *at <= last_stamp);
        }
        self.record_stamps(packets, &arrived)
    }

    /// Opens TCP connections anew, if there are any: the next train is sent over these.
    pub fn reopen_connections(&mut self) {
        let reopened = |open: TrainConnections| {
            let count = open.count();
            open.reopened(count)
        };
        self.connections = std::mem::take(&mut self.connections).into_iter().map(reopened).collect();
    }

    /// Opens so many TCP connections, if there are not as many.
    fn open_connections(&mut self, count: u32) {
        if self.connections.is_empty() {
            let [(_, near), (_, far)] = self.tcp_connection_infos();
            let legs = if self.proxy.is_some() { vec![near, far] } else { vec![self.base_delay()] };
            self.connections = legs.into_iter().map(|delay| TrainConnections::new(count, delay)).collect();
        }
        if self.connections.first().is_some_and(|open| open.count() != count) {
            let open = std::mem::take(&mut self.connections).into_iter();
            self.connections = open.map(|open| open.reopened(count)).collect();
        }
    }

    /// Lets TCP connections do until now what they have to.
    fn run_connections(&mut self) {
        let now = self.now;
        match &mut self.connections[..] {
            [] => {}
            [near, far] => {
                let (near_links, far_links) = self.hops.split_at_mut(1);
                near.run_until(now, &mut LinksInSeries(near_links));
                far.run_until(now, &mut LinksInSeries(far_links));
            }
            [all, ..] => match (&mut self.elastic_path, self.ecmp_seed) {
                (Some(elastic), _) => all.run_until(now, &mut **elastic),
                (None, None) => all.run_until(now, &mut LinksInSeries(&mut self.hops)),
                (None, Some(seed)) => all.run_until(now, &mut EcmpLinks { links: &mut self.hops, seed }),
            },
        }
    }

    /// What this is of a train that leaves at these times: those that the MTU lets through, each with its flow.
    fn packets_within_mtu(&self, train: &Train, departures: &[Time], flows: u32) -> Vec<PacketAtHop> {
        let packets = train.packets().zip(departures).enumerate();
        let passes = |size: u32| self.mtu.is_none_or(|mtu| size <= mtu);
        packets
            .filter(|(_, (planned, _))| passes(planned.size))
            .map(|(index, (planned, at))| PacketAtHop {
                index,
                flow: index as u64 % u64::from(flows.max(1)),
                size: planned.size,
                ds_field: DsField::default(),
                time: *at,
            })
            .collect()
    }

    /// A train's record with the receiver's stamps of what has arrived, in the order of arrival.
    fn record_stamps(&mut self, mut packets: Vec<PacketRecord>, arrived: &[PacketAtHop]) -> TrainRecord {
        let mut before = None;
        for &PacketAtHop { index, time: at, .. } in arrived {
            self.now = self.now.max(at);
            // What a proxy has joined comes as one segment, which has one stamp.
            let joined = before.filter(|(then, _)| self.proxy.is_some() && *then == at);
            let stamp = joined.map_or_else(|| self.stamp_arrival(at), |(_, stamp)| stamp);
            packets[index].received = Some(stamp);
            before = Some((at, stamp));
        }
        self.now = self.elastic_path.as_ref().map_or(self.now, |elastic| self.now.max(elastic.now()));
        TrainRecord { packets }
    }

    /// When each packet leaves, and when the sender has sent the last one. One flow is sent in bursts where a train says so.
    fn departure_times(&self, train: &Train, flows: u32) -> (Vec<Time>, Time) {
        let mut free = self.now;
        let mut departures = Vec::with_capacity(train.packet_count() as usize);
        let cost = self.stamping.send_cost;
        match train.bursts().filter(|_| flows <= 1) {
            Some(bursts) => {
                for burst in bursts {
                    let sent = free.max(self.now + burst.offset);
                    free = sent + cost + cost * burst.packets.len() as i64 / SEND_CALL_SEGMENTS;
                    departures.extend(burst.packets.map(|_| sent));
                }
            }
            None => {
                for planned in train.packets() {
                    let sent = free.max(self.now + planned.offset);
                    free = sent + cost;
                    departures.push(sent);
                }
            }
        }
        (departures, free)
    }

    /// What became of these packets, and those of them that arrived, in the order in which they did.
    fn deliver_over_connections(
        &mut self,
        packets: &[PacketAtHop],
        deadline: Time,
    ) -> (Vec<TrainPacketFate>, Vec<PacketAtHop>) {
        let [all, ..] = &mut self.connections[..] else { return Default::default() };
        let carried = match (&mut self.elastic_path, self.ecmp_seed) {
            (Some(elastic), _) => all.deliver(packets, deadline, &mut **elastic),
            (None, None) => all.deliver(packets, deadline, &mut LinksInSeries(&mut self.hops)),
            (None, Some(seed)) => all.deliver(packets, deadline, &mut EcmpLinks { links: &mut self.hops, seed }),
        };
        let arrived = arrived_packets(packets, &carried);
        (carried, arrived)
    }

    /// The same over the first link, through the proxy, and over the others: connections of either side send again what was lost there.
    fn deliver_through_proxy(
        &mut self,
        proxy: Proxy,
        packets: &[PacketAtHop],
    ) -> (Vec<TrainPacketFate>, Vec<PacketAtHop>) {
        let [near, far] = &mut self.connections[..] else { return Default::default() };
        let (near_links, far_links) = self.hops.split_at_mut(1);
        let mut carried = near.deliver(packets, Time::MAX, &mut LinksInSeries(near_links));
        let relayed = proxy.relay(&arrived_packets(packets, &carried), &mut self.random);
        let segments: Vec<PacketAtHop> = relayed.iter().map(|relayed| relayed.segment).collect();
        let carried_on = far.deliver(&segments, Time::MAX, &mut LinksInSeries(far_links));
        carried.iter_mut().for_each(|carried| carried.received = None);
        let mut all = Vec::with_capacity(packets.len());
        for segment in arrived_packets(&segments, &carried_on) {
            for &index in &relayed[segment.index].packets {
                all.push(PacketAtHop { index, ..segment });
            }
        }
        (carried, all)
    }

    /// The link that a flow takes, where they are side by side.
    pub fn link_of_flow(&self, flow: u64) -> usize {
        link_of_flow(self.ecmp_seed.unwrap_or(0), self.hops.len(), flow)
    }

    /// The bandwidth that was available from `from` to `to`: the least over the hops of the sustained rate less cross
    /// traffic, or of what a link whose rate varies leaves to full packets; of links side by side, the sum. Of TCP connections counts
    /// what they would have sent without any trains.
    pub fn true_available(&self, from: Time, to: Time) -> Rate {
        if let Some(elastic) = &self.elastic_path {
            return elastic.true_available(from, to);
        }
        let truths = self.true_available_per_link(from, to).into_iter();
        match self.ecmp_seed {
            None => truths.min().unwrap_or(Rate::ZERO),
            Some(_) => truths.fold(Rate::ZERO, |sum, rate| Rate::from_f64(sum.as_f64() + rate.as_f64())),
        }
    }

    /// The same for each link, in packets as the sender's are.
    pub fn true_available_per_link(&self, from: Time, to: Time) -> Vec<Rate> {
        let available = |(place, hop): (usize, &Link<usize>)| {
            if let Some(Medium::Wireless(_) | Medium::Trace(_)) = &hop.config().medium {
                return available_between(hop.config(), self.cross.get(place).map_or(&[], Vec::as_slice), from, to)
                    .unwrap_or(Rate::ZERO);
            }
            let rate = match &hop.config().medium {
                Some(Medium::Schedule(schedule)) => schedule.mean_rate(from, to).as_f64(),
                _ => hop.config().sustained_rate().map_or(f64::INFINITY, Rate::as_f64),
            };
            let cross = hop.ledger().cross_bytes_between(from, to).unwrap_or(0);
            Rate::from_f64(rate - Rate::from_bytes_over(cross, to - from).as_f64())
        };
        let as_sent = |(place, rate)| match self.proxy {
            Some(proxy) if place > 0 => proxy.rate_before(rate),
            _ => rate,
        };
        self.hops.iter().enumerate().map(available).enumerate().map(as_sent).collect()
    }

    /// Runs all hops on to the present, so that [`true_available`](Self::true_available) covers it.
    pub fn run_until_quiet(&mut self) {
        self.run_connections();
        for hop in &mut self.hops {
            hop.advance(self.now);
        }
        if let Some(elastic) = &mut self.elastic_path {
            elastic.run_until(self.now);
        }
    }

    fn stamp_arrival(&mut self, arrival: Time) -> Time {
        let Stamping { receive_jitter, batching, clock_offset, clock_skew, .. } = self.stamping;
        if batching > Span::ZERO {
            let batch = arrival.as_nanos().div_euclid(batching.as_nanos()) + 1;
            return Time::from_nanos(batch * batching.as_nanos()) + clock_offset;
        }
        let late = Span::from_nanos(self.random.random_range(0..=receive_jitter.as_nanos().max(0)));
        arrival + late + clock_offset + Span::from_nanos((arrival.as_nanos() as f64 * clock_skew) as i64)
    }
}

fn build_link(hop: &PathHop) -> Result<Link<usize>, ConfigError> {
    let config = hop.link.clone().validate()?;
    let mut link = match &hop.queue {
        Some(queue) => Link::with_queue(config, &queue.clone().validate()?),
        None => Link::new(config),
    };
    link.ledger_mut().record(Recording::Cross);
    link.advance(Time::ZERO);
    for cross in &hop.cross {
        link.add_cross_traffic(CrossTraffic::new(cross.clone())?);
    }
    Ok(link)
}

/// What a link whose rate varies leaves from `from` to `to` beside this cross traffic: what it carries of packets of 1500 bytes that
/// always wait with it. (That is not what it carries without cross traffic less that: a turn on a radio link takes as long for a
/// small packet as for a large one, but for the bits.) None where a setting is out of range.
fn available_between(config: &LinkConfig, cross: &[CrossConfig], from: Time, to: Time) -> Option<Rate> {
    const PACKET_BYTES: u32 = 1500;
    const BACKLOG_BYTES: u64 = 600_000;
    const STEP: Span = Span::from_millis(1);
    let config = LinkConfig {
        queue_bytes: 2 * BACKLOG_BYTES,
        delay: Span::ZERO,
        jitter: Jitter::default(),
        loss: Loss::None,
        ..config.clone()
    };
    let mut link = Link::new(config.validate().ok()?);
    for config in cross {
        link.add_cross_traffic(CrossTraffic::new(config.clone()).ok()?);
    }
    let mut bytes = 0;
    let mut now = Time::ZERO;
    while now < to {
        while link.queued_bytes() < BACKLOG_BYTES && link.offer((), PACKET_BYTES, now).is_ok() {}
        now += STEP;
        link.advance(now);
        while let Some(delivery) = link.pop_due(now) {
            bytes += if (from..to).contains(&delivery.due) { u64::from(PACKET_BYTES) } else { 0 };
        }
    }
    Some(Rate::from_bytes_over(bytes, to - from))
}

/// Carries packets of one flow over a link.
fn deliver_over_link(link: &mut Link<usize>, packets: &[PacketAtHop]) -> Vec<PacketAtHop> {
    packets.iter().for_each(|packet| offer_to_link(link, *packet));
    let mut out = Vec::with_capacity(packets.len());
    loop {
        while let Some(packet) = pop_packet(link, Time::MAX) {
            out.push(packet);
        }
        match link.next_event() {
            Some(event) => link.advance(event),
            None => return out,
        }
    }
}

/// Those of the packets that arrived, when they did, and in that order.
fn arrived_packets(packets: &[PacketAtHop], fates: &[TrainPacketFate]) -> Vec<PacketAtHop> {
    let both = packets.iter().zip(fates);
    let mut arrived: Vec<PacketAtHop> =
        both.filter_map(|(packet, carried)| Some(PacketAtHop { time: carried.received?, ..*packet })).collect();
    arrived.sort_by_key(|packet| (packet.time, packet.index));
    arrived
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_link::{CrossKind, SizeMix, Wireless};

    /// On a radio link that does not vary, beside 20 Mbit/s of cross traffic in packets of this size, if any.
    fn left_beside(size: Option<u32>) -> f64 {
        let medium = Wireless { slowest: 3, fastest: 3, packets: 16, ..Wireless::default() };
        let link = LinkConfig {
            rate: Some(Rate::from_mbit(100)),
            queue_bytes: 1_000_000,
            medium: Some(Medium::Wireless(medium)),
            ..LinkConfig::default()
        };
        let kind = |size| CrossKind::Poisson { rate: Rate::from_mbit(20), sizes: SizeMix::fixed(size) };
        let cross = |size| CrossConfig { kind: kind(size), start: Time::ZERO, phase: 0.0, seed: 3 };
        let (from, to) = (Time::ZERO + Span::from_secs(1), Time::ZERO + Span::from_secs(4));
        available_between(&link, &size.map(cross).into_iter().collect::<Vec<_>>(), from, to).unwrap().as_f64()
    }

    /// Beside small packets, what the link carries less their bits was taken for the truth, though nothing could have it.
    #[test]
    fn small_packets_take_more_of_a_radio_link_than_their_bits() {
        let (idle, large, small) = (left_beside(None), left_beside(Some(1500)), left_beside(Some(300)));
        assert!((idle - large - 20e6).abs() < 2e6, "{idle}, {large}");
        assert!(idle - small > 1.5 * (idle - large), "{idle}, {large}, {small}");
    }
}
