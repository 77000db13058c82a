use crate::elastic::{Elastic, ElasticFlow, Impact};
use crate::moving::Moving;
use crate::proxy::{HEADER_BYTES, Proxy, Relayed};
use link::queue::{Ecn, QueueConfig};
use link::{CrossConfig, CrossTraffic, Label, Link, LinkConfig, Loss, Medium, Recording};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use train::{PacketRecord, Train, TrainRecord};
use units::ConfigError;
use units::{Rate, Span, Time};

/// One link of a path, with its cross traffic.
#[derive(Debug, Clone)]
pub struct Hop {
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
const SEGMENTS_OF_SEND: i64 = 12;

/// Links in series, or side by side, or one that is shared with TCP connections. Trains come one after the other, so that each
/// hop can carry all of a train before the next hop.
#[derive(Debug)]
pub struct VirtualPath {
    hops: Vec<Link<usize>>,
    /// What was added to each.
    cross: Vec<Vec<CrossConfig>>,
    /// The links are not in series: each flow takes one of them, by a hash under this seed (RFC 2991).
    balanced_by: Option<u64>,
    /// In place of the links.
    elastic: Option<Box<Elastic>>,
    stamping: Stamping,
    /// Larger packets are lost.
    mtu: Option<u32>,
    /// Behind the first link.
    proxy: Option<Proxy>,
    random: Pcg64Mcg,
    now: Time,
}

/// The least that TCP has commonly.
const RETRANSMISSION_TIMEOUT: Span = Span::from_millis(200);

/// All trains are those of one host.
const TRAINS_HOST: u64 = 0;

impl VirtualPath {
    /// An idle path at time zero.
    ///
    /// # Errors
    /// [`Link`] or [`CrossTraffic`] refuses a setting.
    pub fn new(hops: &[Hop], stamping: Stamping, seed: u64) -> Result<Self, ConfigError> {
        let cross = hops.iter().map(|hop| hop.cross.clone()).collect();
        let hops = hops.iter().map(build).collect::<Result<_, ConfigError>>()?;
        let random = Pcg64Mcg::seed_from_u64(seed);
        let now = Time::ZERO;
        Ok(VirtualPath { hops, cross, balanced_by: None, elastic: None, stamping, mtu: None, proxy: None, random, now })
    }

    /// One link with TCP connections on it, which begin within the first second.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn elastic(
        link: &LinkConfig,
        flows: &[ElasticFlow],
        stamping: Stamping,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let elastic = Elastic::new(link.clone(), flows.to_vec(), seed)?;
        let path = VirtualPath::new(&[], stamping, seed)?;
        Ok(VirtualPath { elastic: Some(Box::new(elastic)), ..path })
    }

    /// What the trains did to the TCP connections, where there are some.
    pub fn impact(&self) -> Option<Impact> {
        self.elastic.as_ref()?.impact()
    }

    /// Links side by side, of which each flow takes one: equal-cost paths, or an aggregated link.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn balanced(members: &[Hop], stamping: Stamping, seed: u64) -> Result<Self, ConfigError> {
        VirtualPath::new(members, stamping, seed).map(|path| VirtualPath { balanced_by: Some(seed), ..path })
    }

    /// Gives it an MTU, which hosts have found out (RFC 1191): larger packets are lost.
    pub fn with_mtu(self, mtu: u32) -> Self {
        VirtualPath { mtu: Some(mtu), ..self }
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
    pub(crate) fn legs(&self) -> [(u32, Span); 2] {
        match (self.proxy, &self.hops[..]) {
            (Some(Proxy { headers: [near, far], .. }), [first, ..]) => {
                let delay = first.config().delay;
                [(near, delay), (far, self.delay() - delay)]
            }
            _ => [(HEADER_BYTES, self.delay()); 2],
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
    pub fn delay(&self) -> Span {
        if let Some(elastic) = &self.elastic {
            return elastic.delay();
        }
        let delays = self.hops.iter().map(|hop| hop.config().delay);
        match self.balanced_by {
            None => delays.fold(Span::ZERO, |sum, delay| sum + delay),
            Some(_) => delays.max().unwrap_or(Span::ZERO),
        }
    }

    /// Sends a train now, as one flow; afterwards it is as late as the last packet's arrival.
    pub fn send(&mut self, train: &Train) -> TrainRecord {
        self.send_as(train, 1)
    }

    /// As [`send`](Self::send), with the packets spread over so many flows in turn: TCP connections, which retransmit what was lost.
    /// That takes no room in any queue, but waits as long as the others.
    pub fn send_as(&mut self, train: &Train, flows: u32) -> TrainRecord {
        let (departures, free) = self.departures(train, flows);
        let mut moving: Vec<Moving> = Vec::with_capacity(train.count() as usize);
        let mut packets = Vec::with_capacity(train.count() as usize);
        for (index, (planned, sent)) in train.packets().zip(departures).enumerate() {
            if self.mtu.is_none_or(|mtu| planned.size <= mtu) {
                let flow = index as u64 % u64::from(flows.max(1));
                moving.push(Moving { index, flow, size: planned.size, at: sent });
            }
            packets.push(PacketRecord { size: planned.size, sent: Some(sent), submitted: None, received: None });
        }
        self.now = free;
        let sent = moving.clone();
        moving = match (&mut self.elastic, self.balanced_by) {
            (Some(elastic), _) => {
                let moving = pass_elastic(elastic, &moving);
                self.now = self.now.max(elastic.now());
                moving
            }
            (None, None) => match self.proxy {
                Some(proxy) => self.pass_proxy(proxy, &moving),
                None => self.hops.iter_mut().fold(moving, |moving, hop| pass(hop, &moving)),
            },
            (None, Some(_)) => self.pass_balanced(&moving),
        };
        if flows > 1 && self.proxy.is_none() {
            moving.extend(retransmitted(&sent, &moving, self.delay()));
        }
        let mut before = None;
        for Moving { index, at, .. } in moving {
            self.now = self.now.max(at);
            // What a proxy has joined comes as one segment, which has one stamp.
            let joined = before.filter(|(then, _)| self.proxy.is_some() && *then == at);
            let stamp = joined.map_or_else(|| self.stamp(at), |(_, stamp)| stamp);
            packets[index].received = Some(stamp);
            before = Some((at, stamp));
        }
        TrainRecord { packets }
    }

    /// When each packet leaves, and when the sender has sent the last one. One flow is sent in bursts where a train says so.
    fn departures(&self, train: &Train, flows: u32) -> (Vec<Time>, Time) {
        let mut free = self.now;
        let mut departures = Vec::with_capacity(train.count() as usize);
        let cost = self.stamping.send_cost;
        match train.bursts().filter(|_| flows <= 1) {
            Some(bursts) => {
                for burst in bursts {
                    let sent = free.max(self.now + burst.offset);
                    free = sent + cost + cost * burst.packets.len() as i64 / SEGMENTS_OF_SEND;
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

    fn pass_balanced(&mut self, moving: &[Moving]) -> Vec<Moving> {
        let mut shares = vec![Vec::new(); self.hops.len()];
        for packet in moving {
            shares[self.member(packet.flow)].push(*packet);
        }
        let mut arrived: Vec<Moving> =
            self.hops.iter_mut().zip(shares).flat_map(|(hop, share)| pass(hop, &share)).collect();
        arrived.sort_by_key(|packet| (packet.at, packet.index));
        arrived
    }

    /// Over the first link, through the proxy, and over the others: connections of either side retransmit what was lost there.
    fn pass_proxy(&mut self, proxy: Proxy, moving: &[Moving]) -> Vec<Moving> {
        let (near, far) = self.hops.split_at_mut(1);
        let relayed = proxy.relay(&pass_reliably(near, moving), &mut self.random);
        let segments: Vec<Moving> = relayed.iter().map(|relayed| relayed.segment).collect();
        let arrived = pass_reliably(far, &segments).into_iter();
        let packets_of = |segment: Moving| {
            let Relayed { packets, .. } = &relayed[segment.index];
            packets.iter().map(move |&index| Moving { index, ..segment })
        };
        arrived.flat_map(packets_of).collect()
    }

    /// The link that a flow takes, where they are side by side.
    pub fn member(&self, flow: u64) -> usize {
        let hash = Pcg64Mcg::seed_from_u64(self.balanced_by.unwrap_or(0) ^ (flow << 20)).random::<u32>();
        hash as usize % self.hops.len()
    }

    /// The bandwidth that was available from `from` to `to`: the least over the hops of the sustained rate less cross
    /// traffic, or of what a link whose rate varies leaves to full packets; of links side by side, the sum. Of TCP connections counts
    /// what they would have sent without any trains.
    pub fn truth(&self, from: Time, to: Time) -> Rate {
        if let Some(elastic) = &self.elastic {
            return elastic.truth(from, to);
        }
        let truths = self.truths(from, to).into_iter();
        match self.balanced_by {
            None => truths.min().unwrap_or(Rate::ZERO),
            Some(_) => truths.fold(Rate::ZERO, |sum, rate| Rate::from_f64(sum.as_f64() + rate.as_f64())),
        }
    }

    /// The same for each link, in packets as the sender's are.
    pub fn truths(&self, from: Time, to: Time) -> Vec<Rate> {
        let available = |(place, hop): (usize, &Link<usize>)| {
            if let Some(Medium::Wireless(_) | Medium::Trace(_)) = &hop.config().medium {
                return left(hop.config(), self.cross.get(place).map_or(&[], Vec::as_slice), from, to)
                    .unwrap_or(Rate::ZERO);
            }
            let rate = hop.config().sustained_rate().map_or(f64::INFINITY, Rate::as_f64);
            let cross = hop.ledger().cross_bytes_between(from, to).unwrap_or(0);
            Rate::from_f64(rate - Rate::from_bytes_over(cross, to - from).as_f64())
        };
        let as_sent = |(place, rate)| match self.proxy {
            Some(proxy) if place > 0 => proxy.before(rate),
            _ => rate,
        };
        self.hops.iter().enumerate().map(available).enumerate().map(as_sent).collect()
    }

    /// Runs all hops on to the present, so that [`truth`](Self::truth) covers it.
    pub fn settle(&mut self) {
        for hop in &mut self.hops {
            hop.advance(self.now);
        }
        if let Some(elastic) = &mut self.elastic {
            elastic.run_until(self.now);
        }
    }

    fn stamp(&mut self, arrival: Time) -> Time {
        let Stamping { receive_jitter, batching, clock_offset, clock_skew, .. } = self.stamping;
        if batching > Span::ZERO {
            let batch = arrival.as_nanos().div_euclid(batching.as_nanos()) + 1;
            return Time::from_nanos(batch * batching.as_nanos()) + clock_offset;
        }
        let late = Span::from_nanos(self.random.random_range(0..=receive_jitter.as_nanos().max(0)));
        arrival + late + clock_offset + Span::from_nanos((arrival.as_nanos() as f64 * clock_skew) as i64)
    }
}

fn build(hop: &Hop) -> Result<Link<usize>, ConfigError> {
    let config = hop.link.clone().validate()?;
    let mut link = match &hop.queue {
        Some(queue) => Link::with_queue(config, &queue.clone().validate()?),
        None => Link::new(config),
    };
    link.ledger_mut().record(Recording::Cross);
    link.advance(Time::ZERO);
    for cross in &hop.cross {
        link.add_cross(CrossTraffic::new(cross.clone())?);
    }
    Ok(link)
}

/// What a link whose rate varies leaves from `from` to `to` beside this cross traffic: what it carries of packets of 1500 bytes that
/// always wait with it. (That is not what it carries without cross traffic less that: a turn on a radio link takes as long for a
/// small packet as for a large one, but for the bits.) None where a setting is out of range.
fn left(config: &LinkConfig, cross: &[CrossConfig], from: Time, to: Time) -> Option<Rate> {
    const PACKET_BYTES: u32 = 1500;
    const WAITING_BYTES: u64 = 600_000;
    const STEP: Span = Span::from_millis(1);
    let config = LinkConfig {
        queue_bytes: 2 * WAITING_BYTES,
        delay: Span::ZERO,
        jitter: Span::ZERO,
        loss: Loss::None,
        ..config.clone()
    };
    let mut link = Link::new(config.validate().ok()?);
    for config in cross {
        link.add_cross(CrossTraffic::new(config.clone()).ok()?);
    }
    let mut bytes = 0;
    let mut now = Time::ZERO;
    while now < to {
        while link.queued_bytes() < WAITING_BYTES && link.offer((), PACKET_BYTES, now).is_ok() {}
        now += STEP;
        link.advance(now);
        while let Some(delivery) = link.pop_due(now) {
            bytes += if (from..to).contains(&delivery.due) { u64::from(PACKET_BYTES) } else { 0 };
        }
    }
    Some(Rate::from_bytes_over(bytes, to - from))
}

fn pass_elastic(elastic: &mut Elastic, packets: &[Moving]) -> Vec<Moving> {
    let sent: Vec<_> = packets.iter().map(|packet| (packet.at, packet.size)).collect();
    let arrivals = elastic.carry(&sent).into_iter();
    packets.iter().zip(arrivals).filter_map(|(packet, at)| Some(Moving { at: at?, ..*packet })).collect()
}

fn pass(hop: &mut Link<usize>, packets: &[Moving]) -> Vec<Moving> {
    for &Moving { index, flow, size, at } in packets {
        // What finds no room is lost: it just does not come out.
        let _ = hop.offer_labelled(index, Label { size, flow, host: TRAINS_HOST, ecn: Ecn::NotEct }, at);
    }
    let mut out = Vec::with_capacity(packets.len());
    loop {
        while let Some(delivery) = hop.pop_due(Time::MAX) {
            let Label { size, flow, .. } = delivery.label;
            out.push(Moving { index: delivery.packet, flow, size, at: delivery.due });
        }
        match hop.next_event() {
            Some(event) => hop.advance(event),
            None => return out,
        }
    }
}

/// Over these links in series, with what was lost among those that arrive.
fn pass_reliably(hops: &mut [Link<usize>], packets: &[Moving]) -> Vec<Moving> {
    let delay = hops.iter().fold(Span::ZERO, |sum, hop| sum + hop.config().delay);
    let mut arrived = hops.iter_mut().fold(packets.to_vec(), |moving, hop| pass(hop, &moving));
    arrived.extend(retransmitted(packets, &arrived, delay));
    arrived
}

/// When what is not among those that arrived does so all the same, after the usual delay or, where nothing arrived, after `delay`.
fn retransmitted(sent: &[Moving], arrived: &[Moving], delay: Span) -> Vec<Moving> {
    let sent_at: BTreeMap<usize, Time> = sent.iter().map(|packet| (packet.index, packet.at)).collect();
    let has_arrived: BTreeSet<usize> = arrived.iter().map(|packet| packet.index).collect();
    let mut delays: Vec<Span> =
        arrived.iter().filter_map(|packet| Some(packet.at - *sent_at.get(&packet.index)?)).collect();
    delays.sort_unstable();
    let after = RETRANSMISSION_TIMEOUT + delays.get(delays.len() / 2).copied().unwrap_or(delay);
    let lost = sent.iter().filter(|packet| !has_arrived.contains(&packet.index));
    lost.map(|packet| Moving { at: packet.at + after, ..*packet }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{CrossKind, SizeMix, Wireless};

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
        left(&link, &size.map(cross).into_iter().collect::<Vec<_>>(), from, to).unwrap().as_f64()
    }

    /// Beside small packets, what the link carries less their bits was taken for the truth, though nothing could have it.
    #[test]
    fn small_packets_take_more_of_a_radio_link_than_their_bits() {
        let (idle, large, small) = (left_beside(None), left_beside(Some(1500)), left_beside(Some(300)));
        assert!((idle - large - 20e6).abs() < 2e6, "{idle}, {large}");
        assert!(idle - small > 1.5 * (idle - large), "{idle}, {large}, {small}");
    }
}
