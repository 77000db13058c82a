//! The transport in use: its choice, the test of packet sizes, and its replacement when connections break.

use crate::packet_size::{PacketSize, PacketSizeSearch};
use crate::plan::{MeasurementPlan, TransportChoice};
use crate::report::Warning;
use crate::series::DeliveredTrain;
use crate::step::{Failure, OpenRequest, Opened};
use kumade_probe_train::{Train, Transport};
use kumade_units::{Direction, Span, Time};

/// Maximum number of replacements; servers limit the connections of a turn as well.
const MAX_REPLACEMENTS: u32 = 4;
/// Maximum total time of replacements, which are slow behind a firewall that limits the rate of new connections.
const MAX_REPLACEMENT_TIME: Span = Span::from_secs(2);
/// Servers take so many times the connections in a turn that they allow at once.
const CONNECTIONS_FACTOR: u32 = 4;
/// Connections for the load at the end, and more.
const RESERVED_CONNECTIONS: u32 = 32;
/// Connections that lost packets are not made anew once that has taken so long in all.
const MAX_RENEWAL_TIME: Span = Span::from_secs(6);
/// Where as many packets were lost as this part of the connections, many of these may be waiting for retransmission timeouts, each twice as
/// long as the one before (RFC 6298): they send late then, or not at all.
const MAX_LOST_PACKETS_PER_CONNECTION: f64 = 0.1;
/// New connections are so far apart that the packets which open one make up this part of what arrived of the last train, …
const OPENING_PACKETS_PART: f64 = 0.5;
/// … which are so many each way, …
const PACKETS_PER_OPENING: f64 = 3.0;
/// … but all of them are begun in this time.
const MAX_OPENING_TIME: Span = Span::from_secs(1);

/// What the transport requires next.
#[derive(Debug)]
pub(crate) enum TransportNeed {
    /// Open or reopen it.
    Open(OpenRequest),
    /// Send a train that tests whether packets of a size pass.
    TestPacketSize(Direction, Train),
    /// Nothing: it is ready for trains.
    Nothing,
    /// It has failed.
    Failed(Failure),
}

#[derive(Debug)]
enum TransportState {
    Closed,
    /// The largest packet that passes is searched for over UDP.
    TestingPacketSizes(PacketSizeSearch),
    Ready,
    Broken,
    Replacing(Time),
    Renewing(Time),
    Failed(Failure),
}

/// The transport in use.
#[derive(Debug)]
pub(crate) struct TransportInUse {
    state: TransportState,
    kind: Transport,
    may_fall_back: bool,
    /// The directions to be measured.
    directions: Vec<Direction>,
    /// Connections to open, and the minimum number of them.
    requested_connections: (u16, u16),
    /// The number of the next connection; none is used twice in a session.
    next_connection: u16,
    /// Connections when it was last opened, and now.
    opened_connections: u32,
    open_connections: u32,
    /// The largest packet that passes, in bytes.
    max_packet: u32,
    /// What was found of that in each direction.
    sizes: [Option<(u32, Option<u32>)>; 2],
    /// Whether that is looked for in each direction by itself.
    searches_each_size: bool,
    replacements: u32,
    replacement_time: Span,
    renewal_time: Span,
    /// Packets that were lost since it was last opened.
    lost_packets: u32,
    /// From one packet of the last train that arrived to the next, on average.
    arrival_gap: Span,
    /// Connections that the server takes in all.
    max_connections: u32,
    warnings: Vec<Warning>,
}

impl TransportInUse {
    pub(crate) fn new(plan: &MeasurementPlan, max_connections: u32) -> Self {
        let (kind, may_fall_back) = match plan.transport {
            TransportChoice::Auto => (Transport::Udp, true),
            TransportChoice::Fixed(kind) => (kind, false),
        };
        let granted = u16::try_from(max_connections).unwrap_or(u16::MAX);
        let needed = plan.method.max_packets().div_ceil(Transport::MAX_PACKETS_PER_CONNECTION);
        TransportInUse {
            state: TransportState::Closed,
            kind,
            may_fall_back,
            directions: Direction::BOTH.into_iter().filter(|&direction| plan.directions.contains(direction)).collect(),
            requested_connections: (plan.connections.min(granted), needed.try_into().unwrap_or(u16::MAX)),
            next_connection: 0,
            opened_connections: 0,
            open_connections: 0,
            max_packet: 0,
            sizes: [None; 2],
            searches_each_size: plan.path,
            replacements: 0,
            replacement_time: Span::ZERO,
            renewal_time: Span::ZERO,
            lost_packets: 0,
            arrival_gap: Span::ZERO,
            max_connections: max_connections.saturating_mul(CONNECTIONS_FACTOR),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn kind(&self) -> Transport {
        self.kind
    }

    /// Open TCP connections; zero for UDP.
    pub(crate) fn connections(&self) -> u32 {
        self.open_connections
    }

    /// TCP connections that were opened together, of which some may be closed; packet i of a train is on connection i modulo this.
    pub(crate) fn opened_connections(&self) -> u32 {
        self.opened_connections
    }

    /// How often it was replaced.
    pub(crate) fn replacements(&self) -> u32 {
        self.replacements
    }

    /// Has connections opened anew in place of these, if many may be held back by what they have lost; false where that is not so, or not
    /// possible.
    pub(crate) fn renew(&mut self, now: Time) -> bool {
        let is_behind =
            f64::from(self.lost_packets) > MAX_LOST_PACKETS_PER_CONNECTION * f64::from(self.opened_connections);
        let taken =
            u32::from(self.next_connection) + 2 * u32::from(self.requested_connections.0) + RESERVED_CONNECTIONS;
        let is_possible = taken <= self.max_connections && self.renewal_time < MAX_RENEWAL_TIME;
        let is_renewed =
            self.kind == Transport::Rake && matches!(self.state, TransportState::Ready) && is_behind && is_possible;
        if is_renewed {
            self.state = TransportState::Renewing(now);
        }
        is_renewed
    }

    /// The largest packet that passes, in bytes.
    pub(crate) fn max_packet(&self) -> u32 {
        self.max_packet
    }

    /// The largest packet that passed in each direction, up first, and the smallest that did not, in bytes; none where that was not looked for.
    pub(crate) fn sizes(&self) -> [Option<(u32, Option<u32>)>; 2] {
        self.sizes
    }

    /// The largest that passes and is no jumbo frame, in bytes.
    pub(crate) fn max_ethernet_packet(&self) -> u32 {
        self.max_packet.min(Train::MAX_ETHERNET_PACKET_BYTES)
    }

    /// Warnings for the report.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings.clone();
        let trains = self.replacements;
        warnings.extend((trains > 0).then(|| match self.kind {
            Transport::Udp => Warning::UdpReopened(trains),
            _ => Warning::ConnectionsReplaced(trains, self.connections()),
        }));
        warnings
    }

    /// Takes the numbers of so many further connections; returns the first.
    pub(crate) fn allocate_connection_numbers(&mut self, connections: u16) -> u16 {
        let first = self.next_connection;
        self.next_connection = first.saturating_add(connections);
        first
    }

    /// What has to be done before the next train.
    pub(crate) fn next(&mut self, now: Time) -> TransportNeed {
        match &self.state {
            TransportState::Ready => TransportNeed::Nothing,
            TransportState::Failed(failure) => TransportNeed::Failed(failure.clone()),
            TransportState::TestingPacketSizes(search) => match search.next_train() {
                Some((direction, train)) => TransportNeed::TestPacketSize(direction, train),
                None => {
                    self.state = TransportState::Ready;
                    TransportNeed::Nothing
                }
            },
            TransportState::Broken => self.replace_transport(now),
            TransportState::Closed => {
                let (count, needed) = if self.kind == Transport::Single { (1, 1) } else { self.requested_connections };
                TransportNeed::Open(self.new_open_request(count, needed, false))
            }
            TransportState::Replacing(_) => TransportNeed::Open(self.request_replacement()),
            TransportState::Renewing(_) => TransportNeed::Open(self.request_renewal()),
        }
    }

    /// It is open at both ends.
    pub(crate) fn transport_opened(&mut self, opened: Opened, now: Time) {
        (self.opened_connections, self.open_connections, self.lost_packets) =
            (opened.connections, opened.connections, 0);
        // Of those that are opened anew, others may open in time.
        self.warnings.retain(|warning| !matches!(warning, Warning::FewConnections(..)));
        self.warnings.extend(opened.warnings);
        self.state = match self.state {
            TransportState::Replacing(began) => {
                self.replacement_time += now - began;
                TransportState::Ready
            }
            TransportState::Renewing(began) => {
                self.renewal_time += now - began;
                TransportState::Ready
            }
            _ => {
                self.max_packet = opened.max_packet;
                self.first_size_test(opened.is_size_known)
            }
        };
    }

    /// It could not be opened.
    pub(crate) fn transport_failed(&mut self, reason: String) {
        if self.kind == Transport::Udp
            && self.may_fall_back
            && !matches!(self.state, TransportState::Replacing(_) | TransportState::Renewing(_))
        {
            self.kind = Transport::Rake;
            self.warnings = vec![Warning::NoUdp(reason)];
            self.state = TransportState::Closed;
        } else {
            self.state = TransportState::Failed(Failure::TransportUnavailable { transport: self.kind, reason });
        }
    }

    /// Updates its state after a train.
    pub(crate) fn train_delivered(&mut self, carried: &DeliveredTrain) {
        if matches!(self.state, TransportState::TestingPacketSizes(_)) {
            return self.packet_size_tested(carried);
        }
        self.open_connections = carried.connections;
        self.lost_packets = self.lost_packets.saturating_add(carried.missing_packets() as u32);
        self.arrival_gap = carried.arrival_gap().unwrap_or(self.arrival_gap);
        if carried.is_broken || self.open_connections < self.opened_connections {
            self.state = TransportState::Broken;
        }
    }

    /// Evaluates a [test](TransportNeed::TestPacketSize).
    fn packet_size_tested(&mut self, carried: &DeliveredTrain) {
        let TransportState::TestingPacketSizes(search) = &mut self.state else { return };
        let size = search.record_train(&carried.record);
        self.sizes = search.found();
        match size {
            PacketSize::Open => {}
            PacketSize::SmallOnly => self.transport_failed("only small packets pass".to_owned()),
            PacketSize::Largest(passed, lost) => {
                self.warnings.extend(lost.map(|lost| Warning::PacketsTooLarge { passed, lost }));
                self.max_packet = passed;
                self.state = TransportState::Ready;
            }
        }
    }

    /// Packet sizes are tested over UDP; TCP has its own path MTU discovery.
    fn first_size_test(&self, is_size_known: bool) -> TransportState {
        match is_size_known || self.kind != Transport::Udp {
            true => TransportState::Ready,
            false => TransportState::TestingPacketSizes(PacketSizeSearch::new(
                self.max_packet,
                self.directions.clone(),
                self.searches_each_size,
            )),
        }
    }

    fn replace_transport(&mut self, now: Time) -> TransportNeed {
        if self.replacements == MAX_REPLACEMENTS || self.replacement_time >= MAX_REPLACEMENT_TIME {
            let failure = Failure::ConnectionsKeepBreaking { replacements: self.replacements };
            self.state = TransportState::Failed(failure.clone());
            return TransportNeed::Failed(failure);
        }
        self.replacements += 1;
        self.state = TransportState::Replacing(now);
        TransportNeed::Open(self.request_replacement())
    }

    /// As many connections as are still open, but at least half as many as there were.
    fn request_replacement(&mut self) -> OpenRequest {
        let needed = if self.kind == Transport::Single { 1 } else { self.requested_connections.1 };
        let count = self.open_connections.max(self.opened_connections / 2).max(u32::from(needed));
        self.new_open_request(count.try_into().unwrap_or(u16::MAX), needed, true)
    }

    /// As many as in the beginning, spread over the time in which what opens them passes.
    fn request_renewal(&mut self) -> OpenRequest {
        let (count, needed) = self.requested_connections;
        let gap = self.arrival_gap.as_secs_f64() * PACKETS_PER_OPENING / OPENING_PACKETS_PART;
        let spacing = Span::from_secs_f64(gap).min(MAX_OPENING_TIME / i64::from(count.max(1)));
        OpenRequest { spacing, ..self.new_open_request(count, needed, true) }
    }

    fn new_open_request(&mut self, connections: u16, needed: u16, replaces: bool) -> OpenRequest {
        let first = self.allocate_connection_numbers(if self.kind == Transport::Udp { 0 } else { connections });
        OpenRequest {
            transport: self.kind,
            connections,
            min_connections: needed,
            first_number: first,
            is_replacement: replaces,
            spacing: Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::{PacketRecord, TrainRecord};

    fn opened(connections: u32) -> Opened {
        Opened { max_packet: 1500, is_size_known: true, connections, warnings: Vec::new() }
    }

    /// A train a packet a millisecond, of which this part was lost.
    fn carried(packets: i64, lost: i64) -> DeliveredTrain {
        let at = |millis| Some(Time::ZERO + Span::from_millis(millis));
        let packet = |number: i64| PacketRecord {
            size: 1500,
            sent: at(number),
            submitted: None,
            received: at(number + 5).filter(|_| number >= lost),
        };
        DeliveredTrain::over_connections(TrainRecord { packets: (0..packets).map(packet).collect() }, Vec::new())
    }

    /// Behind a policer of the kernel, connections that waited for retransmission timeouts sent hardly anything of the trains that were to tell
    /// its rate.
    #[test]
    fn connections_that_lost_much_are_opened_anew_as_fast_as_packets_arrive() {
        let plan = MeasurementPlan { transport: TransportChoice::Fixed(Transport::Rake), ..MeasurementPlan::default() };
        let mut transport = TransportInUse::new(&plan, 256);
        assert!(matches!(transport.next(Time::ZERO), TransportNeed::Open(OpenRequest { spacing: Span::ZERO, .. })));
        transport.transport_opened(opened(120), Time::ZERO);
        transport.train_delivered(&carried(100, 12));
        assert!(!transport.renew(Time::ZERO), "few connections are behind");
        let mut renewed = 0;
        loop {
            transport.train_delivered(&carried(100, 60));
            if !transport.renew(Time::ZERO) {
                break;
            }
            let TransportNeed::Open(request) = transport.next(Time::ZERO) else {
                panic!("connections are opened anew")
            };
            assert_eq!((request.connections, request.is_replacement), (120, true));
            assert_eq!(request.spacing, Span::from_millis(6));
            transport.transport_opened(opened(120), Time::ZERO);
            assert!(!transport.renew(Time::ZERO), "none has lost anything");
            renewed += 1;
            assert!(renewed < 20, "servers take no more");
        }
        assert_eq!(renewed, 6);
    }

    /// On a busy machine, 58 were said where 85 were used.
    #[test]
    fn connections_that_are_missing_are_those_of_the_last_opening() {
        let plan = MeasurementPlan { transport: TransportChoice::Fixed(Transport::Rake), ..MeasurementPlan::default() };
        let mut transport = TransportInUse::new(&plan, 256);
        let few = |used| Opened {
            warnings: vec![Warning::FewConnections(used, 120, "62 timed out".to_owned())],
            ..opened(used)
        };
        transport.transport_opened(few(58), Time::ZERO);
        transport.state = TransportState::Renewing(Time::ZERO);
        transport.transport_opened(few(85), Time::ZERO);
        assert_eq!(transport.warnings(), few(85).warnings);
        transport.state = TransportState::Replacing(Time::ZERO);
        transport.transport_opened(opened(120), Time::ZERO);
        assert_eq!(transport.warnings(), []);
    }
}
