//! A network of links and flows under a virtual clock.
//!
//! A [`Network`] is built from [`kumade_link::Link`]s and flows over them, then run up to given times; counters read at two
//! times show what each flow got in between. Nothing depends on how often it is stopped. All random numbers follow from
//! the seed, which is printed with the network.

mod flow;
mod gateways;
mod ids;
mod packet;
mod sojourn;

pub use flow::{FlowConfig, FlowStatistics, TcpConfig, TrafficSource};
pub use gateways::{Datagram, Gateways};
pub use ids::{FlowId, GatewaysId, LinkId};
pub use sojourn::SojournHistogram;

use crate::event_queue::EventQueue;
use flow::NetworkFlow;
use kumade_link::queue::{Ecn, QueueConfig};
use kumade_link::{Label, Ledger, Link, LinkConfig};
use kumade_units::ConfigError;
use kumade_units::{Span, Time};
use packet::{GatewayEncapsulation, NetworkPacket, PacketBody};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt;

/// Links and the flows over them.
#[derive(Debug)]
pub struct Network {
    seed: u64,
    random: Pcg64Mcg,
    now: Time,
    processed_events: u64,
    event_queue: EventQueue,
    /// What is scheduled at each place of the agenda.
    event_sources: Vec<EventSource>,
    links: Vec<LinkState>,
    flows: Vec<FlowState>,
    gateways: Vec<GatewaysState>,
}

#[derive(Debug, Clone, Copy)]
enum EventSource {
    Link(u32),
    Gateways(u32),
    Source(u32),
    ForwardLine(u32),
    Receiver(u32),
    BackwardLine(u32),
}

#[derive(Debug)]
struct LinkState {
    link: Link<NetworkPacket>,
    sojourn: SojournHistogram,
    event_entry: u32,
}

#[derive(Debug)]
struct GatewaysState {
    gateways: Box<dyn Gateways>,
    paths: Vec<LinkId>,
    event_entry: u32,
    /// What it let go, until it is on its way.
    outgoing: Vec<(usize, Datagram)>,
    received: Vec<Datagram>,
}

#[derive(Debug)]
struct FlowState {
    flow: NetworkFlow,
    source_entry: u32,
    forward_entry: u32,
    receiver_entry: u32,
    backward_entry: u32,
}

impl Network {
    /// An empty network at time zero.
    pub fn new(seed: u64) -> Self {
        Network {
            seed,
            random: Pcg64Mcg::seed_from_u64(seed),
            now: Time::ZERO,
            processed_events: 0,
            event_queue: EventQueue::new(),
            event_sources: Vec::new(),
            links: Vec::new(),
            flows: Vec::new(),
            gateways: Vec::new(),
        }
    }

    /// Adds a link, with this queue if one is given, else with tail drop. Its random numbers follow from its seed and the
    /// network's.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn add_link(&mut self, config: LinkConfig, queue: Option<QueueConfig>) -> Result<LinkId, ConfigError> {
        let config = LinkConfig { seed: config.seed ^ self.random.random::<u64>(), ..config }.validate()?;
        let mut link = match queue {
            Some(queue) => Link::with_queue(config, &queue.validate()?),
            None => Link::new(config),
        };
        link.advance(self.now);
        let index = self.links.len() as u32;
        let place = self.add_event_source(EventSource::Link(index));
        self.links.push(LinkState { link, sojourn: SojournHistogram::default(), event_entry: place });
        Ok(LinkId(index))
    }

    /// Adds two gateways with these links between them, each of them a path.
    ///
    /// # Panics
    /// A link is not in this network.
    pub fn add_gateways(&mut self, paths: Vec<LinkId>, gateways: Box<dyn Gateways>) -> GatewaysId {
        assert!(paths.iter().all(|id| (id.0 as usize) < self.links.len()), "gateways have links of their own network");
        let index = self.gateways.len() as u32;
        let place = self.add_event_source(EventSource::Gateways(index));
        self.gateways.push(GatewaysState {
            gateways,
            paths,
            event_entry: place,
            outgoing: Vec::new(),
            received: Vec::new(),
        });
        GatewaysId(index)
    }

    /// Adds a flow. One whose start has passed begins now.
    ///
    /// # Errors
    /// [`CrossTraffic`](kumade_link::CrossTraffic) refuses a setting.
    ///
    /// # Panics
    /// A link or gateway of its path is not in this network.
    pub fn add_flow(&mut self, config: FlowConfig) -> Result<FlowId, ConfigError> {
        let known = |id: &LinkId| (id.0 as usize) < self.links.len();
        assert!(config.forward.iter().chain(&config.back).all(known), "a flow goes over links of its own network");
        let known = |id: GatewaysId| (id.0 as usize) < self.gateways.len();
        let mut gateways = config.gateways.into_iter().chain(config.gateways_back);
        assert!(gateways.all(known), "a flow passes gateways of its own network");
        let index = self.flows.len() as u32;
        let random = Pcg64Mcg::seed_from_u64(self.random.random());
        let flow = NetworkFlow::new(config, index, self.now, random)?;
        let source = self.add_event_source(EventSource::Source(index));
        let out = self.add_event_source(EventSource::ForwardLine(index));
        let receiver = self.add_event_source(EventSource::Receiver(index));
        let back = self.add_event_source(EventSource::BackwardLine(index));
        self.event_queue.set_time(source, flow.next_source_time());
        self.flows.push(FlowState {
            flow,
            source_entry: source,
            forward_entry: out,
            receiver_entry: receiver,
            backward_entry: back,
        });
        Ok(FlowId(index))
    }

    /// Has a UDP flow send packets of these bytes at these times besides its own: in order, and none before the present.
    ///
    /// # Panics
    /// The flow is not in this network.
    pub fn send(&mut self, id: FlowId, packets: impl IntoIterator<Item = (Time, u32)>) {
        self.flows[id.0 as usize].flow.add_packets(packets);
        self.reschedule(id.0);
    }

    /// Runs up to and including `end`.
    pub fn run_until(&mut self, end: Time) {
        while let Some((time, place)) = self.event_queue.first().filter(|(time, _)| *time <= end) {
            self.now = self.now.max(time);
            match self.event_sources[place as usize] {
                EventSource::Link(index) => self.process_event(index),
                EventSource::Gateways(index) => {
                    let state = &mut self.gateways[index as usize];
                    state.gateways.on_time(self.now, &mut state.received);
                    self.deliver_from_gateways(index);
                }
                EventSource::ForwardLine(index) => self.forward_departures(index, false),
                EventSource::BackwardLine(index) => self.forward_departures(index, true),
                EventSource::Source(index) => {
                    self.flows[index as usize].flow.on_source_time(self.now);
                    self.reschedule(index);
                }
                EventSource::Receiver(index) => {
                    self.flows[index as usize].flow.on_receiver_time(self.now);
                    self.reschedule(index);
                }
            }
        }
        self.now = self.now.max(end);
        for state in &mut self.links {
            state.link.advance(self.now);
        }
    }

    /// The virtual clock.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The seed of all random numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many times a packet passed a link or reached a host.
    pub fn event_count(&self) -> u64 {
        self.processed_events
    }

    /// The flows, in order of their addition.
    pub fn flows(&self) -> impl ExactSizeIterator<Item = FlowId> + use<> {
        (0..self.flows.len() as u32).map(FlowId)
    }

    /// The counters of a flow.
    ///
    /// # Panics
    /// The flow is not in this network.
    pub fn flow(&self, id: FlowId) -> FlowStatistics {
        self.flows[id.0 as usize].flow.statistics()
    }

    /// When each packet of a UDP flow arrived, and how long it was on its way, in the order of arrival; empty unless
    /// [`FlowConfig::record_delays`] asks for it.
    ///
    /// # Panics
    /// The flow is not in this network.
    pub fn delays(&self, id: FlowId) -> &[(Time, Span)] {
        self.flows[id.0 as usize].flow.delays()
    }

    /// The sojourn times of a flow's packets in the queue that [`FlowConfig::record_queueing`] names; none without one.
    ///
    /// # Panics
    /// The flow is not in this network.
    pub fn flow_queueing(&self, id: FlowId) -> Option<&SojournHistogram> {
        self.flows[id.0 as usize].flow.queueing()
    }

    /// What has happened on a link.
    ///
    /// # Panics
    /// The link is not in this network.
    pub fn ledger(&self, id: LinkId) -> &Ledger {
        self.links[id.0 as usize].link.ledger()
    }

    /// The sojourn times of packets in a link's queue.
    ///
    /// # Panics
    /// The link is not in this network.
    pub fn sojourn(&self, id: LinkId) -> &SojournHistogram {
        &self.links[id.0 as usize].sojourn
    }

    /// A link's ledger, to switch recording on.
    ///
    /// # Panics
    /// The link is not in this network.
    pub fn ledger_mut(&mut self, id: LinkId) -> &mut Ledger {
        self.links[id.0 as usize].link.ledger_mut()
    }

    fn add_event_source(&mut self, what: EventSource) -> u32 {
        self.event_sources.push(what);
        self.event_queue.add_entry()
    }

    /// Takes what has come through a link.
    fn process_event(&mut self, index: u32) {
        self.links[index as usize].link.advance(self.now);
        loop {
            let state = &mut self.links[index as usize];
            let Some(delivery) = state.link.pop_due(self.now) else { break };
            if !delivery.is_duplicate {
                state.sojourn.record(delivery.service_start - delivery.arrival);
                if !matches!(delivery.packet.body, PacketBody::Acknowledgement(_)) {
                    let flow = &mut self.flows[delivery.packet.flow as usize].flow;
                    flow.record_queueing(LinkId(index), delivery.service_start - delivery.arrival);
                }
            }
            self.processed_events += 1;
            // Its checksum fails where it arrives.
            if delivery.inverted_bit.is_some() {
                continue;
            }
            let mut packet = delivery.packet;
            packet.is_marked |= delivery.is_marked;
            match packet.encapsulation.take() {
                Some(carried) => self.arrive_at_gateways(carried, packet),
                None => {
                    packet.hop += 1;
                    self.forward_packet(packet);
                }
            }
        }
        self.reschedule_link(index);
    }

    /// Takes what has left a host: on the way out or back. Meanwhile more may come.
    fn forward_departures(&mut self, index: u32, back: bool) {
        while let Some(packet) = self.flows[index as usize].flow.pop_due(back, self.now) {
            self.forward_packet(packet);
        }
        self.reschedule(index);
    }

    /// Hands a packet to the next link of its path, or to the gateways after them, or to the host at its end.
    fn forward_packet(&mut self, packet: NetworkPacket) {
        let config = &self.flows[packet.flow as usize].flow.config;
        let back = matches!(packet.body, PacketBody::Acknowledgement(_));
        let (path, gateways) =
            if back { (&config.back, config.gateways_back) } else { (&config.forward, config.gateways) };
        match path.get(packet.hop as usize) {
            Some(id) => self.offer_to_link(*id, packet, packet.size),
            None => match gateways.filter(|_| packet.hop as usize == path.len()) {
                Some(GatewaysId(index)) => self.enter_gateways(index, packet),
                None => {
                    self.processed_events += 1;
                    self.flows[packet.flow as usize].flow.receive_packet(&packet, self.now);
                    self.reschedule(packet.flow);
                }
            },
        }
    }

    /// Offers a packet to a link, of which it takes so many bytes.
    fn offer_to_link(&mut self, id: LinkId, packet: NetworkPacket, size: u32) {
        let ecn = if packet.is_marked { Ecn::Ce } else { packet.ecn };
        let flow = packet.label();
        // Each flow of these networks is that of a host of its own.
        let label = Label { size, flow, host: flow, ecn, destination_host: flow as u32, ..Label::default() };
        // What is dropped just does not come out; the ledger has it.
        let _ = self.links[id.0 as usize].link.offer_labelled(packet, label, self.now);
        self.reschedule_link(id.0);
    }

    /// A packet reaches the gateway before several paths.
    fn enter_gateways(&mut self, index: u32, packet: NetworkPacket) {
        let state = &mut self.gateways[index as usize];
        let mut sent = std::mem::take(&mut state.outgoing);
        state.gateways.send(Datagram::new(packet), self.now, &mut sent);
        for (path, datagram) in sent.drain(..) {
            let (packet, bytes) = datagram.into_packet(index, path);
            self.offer_to_link(self.gateways[index as usize].paths[path], packet, bytes);
        }
        self.gateways[index as usize].outgoing = sent;
        self.reschedule_gateways(index);
    }

    /// A packet reaches the gateway behind several paths.
    fn arrive_at_gateways(
        &mut self,
        GatewayEncapsulation { gateway_pair: index, path, tag }: GatewayEncapsulation,
        packet: NetworkPacket,
    ) {
        let state = &mut self.gateways[index as usize];
        let datagram = Datagram { tag, ..Datagram::new(packet) };
        state.gateways.receive(path as usize, datagram, self.now, &mut state.received);
        self.deliver_from_gateways(index);
    }

    /// Hands on what the gateway behind several paths has let go.
    fn deliver_from_gateways(&mut self, index: u32) {
        let mut received = std::mem::take(&mut self.gateways[index as usize].received);
        for datagram in received.drain(..) {
            let mut packet = datagram.packet;
            packet.hop += 1;
            self.forward_packet(packet);
        }
        self.gateways[index as usize].received = received;
        self.reschedule_gateways(index);
    }

    fn reschedule_gateways(&mut self, index: u32) {
        let state = &self.gateways[index as usize];
        self.event_queue.set_time(state.event_entry, state.gateways.next_time());
    }

    fn reschedule_link(&mut self, index: u32) {
        let state = &self.links[index as usize];
        self.event_queue.set_time(state.event_entry, state.link.next_event());
    }

    fn reschedule(&mut self, index: u32) {
        let FlowState {
            flow,
            source_entry: source,
            forward_entry: out,
            receiver_entry: receiver,
            backward_entry: back,
        } = &self.flows[index as usize];
        self.event_queue.set_time(*source, flow.next_source_time());
        self.event_queue.set_time(*out, flow.forward_line.next_time());
        self.event_queue.set_time(*receiver, flow.next_receiver_time());
        self.event_queue.set_time(*back, flow.backward_line.next_time());
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (links, flows) = (self.links.len(), self.flows.len());
        write!(f, "network of {links} links and {flows} flows, seed {}", self.seed)
    }
}
