//! One client's turn: its probe connections, and its trains within the limits.

use crate::access_log::MeasurementRecord;
use crate::client_table::ClientAccount;
use crate::clock::HostClock;
use crate::config::ServerConfig;
use crate::idle_flows::FlowSocket;
use crate::path_view;
use crate::server_state::{ClientRegistration, UdpCandidate};
use crate::turn_limits::{MAX_HOP_PROBES, Refusal, RemainingLimits, count_bytes, dscp_bytes};
use crate::turn_ports::TurnPorts;
use crate::udp;
use kumade_net::clock;
use kumade_net::readiness::EpollSet;
use kumade_probe_train::{DsFieldTrain, HopTrace, MarkedTrain, PortProtocol, Train, Transport};
use kumade_transport::deadline_after;
use kumade_transport::{ControlWatch, LoadRole, Probes, SentTrain, StampSource, TcpLoad, TcpProbes, UdpProbes};
use kumade_units::{Direction, Span, Time};
use kumade_wire::{Departure, IdleFlow, ServerMessage, SessionEndpoint, UdpPathView, Version};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Maximum receive timeout, and wait for connections, that a client may request.
const MAX_WAIT: Span = Span::from_secs(5);
/// Maximum time for which a client may have the path filled at once.
const MAX_LOAD_DURATION: Span = Span::from_secs(30);
/// Maximum number of connections that fill it.
const MAX_LOAD_CONNECTIONS: u32 = 16;
/// Maximum number of connections whose SYNs a client may ask for at once.
const MAX_SYN_CONNECTIONS: u32 = 8;
/// Time between looks at a load whose time is over.
const LOAD_CHECK_INTERVAL: Span = Span::from_millis(5);

/// Resources of a client during its turn.
pub(super) struct MeasurementTurn {
    arrivals: mpsc::Receiver<(u16, TcpStream)>,
    probes: Option<(Transport, Probes)>,
    /// Transfers that fill the path, and in which direction.
    load: Option<(Direction, TcpLoad)>,
    control: ControlWatch,
    remaining_limits: RemainingLimits,
    /// Of a client with a quota.
    account: Option<Arc<ClientAccount>>,
    began: Time,
    record: MeasurementRecord,
    clock: HostClock,
    /// From where UDP was opened last.
    udp_client: Option<UdpCandidate>,
    /// Further ports at which the client is listened for; none before it has asked for that.
    ports: Option<TurnPorts>,
}

impl MeasurementTurn {
    /// Begins the turn of the client with this control connection; `record` is that of a client of which nothing was carried.
    pub(super) fn begin(
        member: &ClientRegistration,
        control: &TcpStream,
        config: &ServerConfig,
        account: Option<Arc<ClientAccount>>,
        record: MeasurementRecord,
    ) -> io::Result<Self> {
        let &ServerConfig { limits, clock, .. } = config;
        let remaining = RemainingLimits::new(limits, clock::monotonic());
        let control = ControlWatch::from_stream(control)?;
        Ok(MeasurementTurn {
            arrivals: member.begin_turn(),
            probes: None,
            load: None,
            control,
            remaining_limits: remaining,
            account,
            began: clock::monotonic(),
            record,
            clock,
            udp_client: None,
            ports: None,
        })
    }

    /// Ends the turn: what was carried in it.
    pub(super) fn end(mut self) -> MeasurementRecord {
        self.end_load();
        self.record.duration_seconds = (clock::monotonic() - self.began).as_secs_f64();
        self.record
    }

    /// The time when the turn ends, on [`clock::monotonic`].
    pub(super) fn end_time(&self) -> Time {
        self.remaining_limits.end_time
    }

    /// Opens UDP to the address to which `nonce` was sent, now that the client has proved to receive there.
    pub(super) fn prove_udp(
        &mut self,
        member: &ClientRegistration,
        local: SocketAddr,
        nonce: [u8; 16],
    ) -> Result<ServerMessage, Refusal> {
        let candidate = member.candidate_of_nonce(nonce).ok_or_else(|| Refusal("unknown nonce".into()))?;
        let peer = candidate.address;
        let socket =
            udp::connect_to_client(local, peer).map_err(|e| Refusal(format!("cannot open UDP to {peer}: {e}")))?;
        let probes =
            UdpProbes::new(socket, member.credential, SessionEndpoint::Server).map_err(|e| Refusal(e.to_string()))?;
        self.udp_client = Some(candidate);
        self.use_probes(Transport::Udp, Probes::Udp(probes));
        Ok(ServerMessage::UdpOpen)
    }

    /// Collects the probe connections from number `first` on. Each packet counts `header` bytes of headers.
    pub(super) fn await_connections(
        &mut self,
        kind: Transport,
        (first, expected): (u16, u32),
        wait: Span,
        header: u32,
    ) -> Result<ServerMessage, Refusal> {
        let limit = self.remaining_limits.limits.connections;
        if expected > limit {
            return Err(Refusal(format!("{expected} probe connections requested, the limit is {limit}")));
        }
        self.probes = None;
        let (numbers, streams): (Vec<_>, Vec<_>) = self.collect_connections(first, expected, wait).into_iter().unzip();
        match tcp_probes(kind, streams)? {
            Some(mut probes) => {
                let far = probes.endpoint_info();
                probes.set_header_bytes(header);
                self.use_probes(kind, Probes::Tcp(probes));
                Ok(ServerMessage::Connections { numbers, server_endpoint: far })
            }
            None => Ok(ServerMessage::Connections { numbers: Vec::new(), server_endpoint: None }),
        }
    }

    /// The connections with this number or a higher one, in their order, once as many as expected have arrived, or after `wait`.
    fn collect_connections(&self, first: u16, expected: u32, wait: Span) -> Vec<(u16, TcpStream)> {
        let deadline = deadline_after(wait.min(MAX_WAIT)).min(self.end_time());
        let mut came: Vec<(u16, TcpStream)> = Vec::new();
        while came.len() < expected as usize {
            let left = (deadline - clock::monotonic()).to_duration();
            match self.arrivals.recv_timeout(left) {
                Ok((index, stream)) if index >= first && came.iter().all(|(i, _)| *i != index) => {
                    came.push((index, stream));
                }
                Ok(_) => {}
                Err(_) if left == Duration::ZERO => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        came.sort_by_key(|(index, _)| *index);
        came
    }

    /// Begins to fill the path in this direction, over the connections from number `first` on.
    pub(super) fn begin_load(
        &mut self,
        direction: Direction,
        (first, expected): (u16, u32),
        wait: Span,
        duration: Span,
    ) -> Result<ServerMessage, Refusal> {
        if expected > MAX_LOAD_CONNECTIONS {
            return Err(Refusal(format!(
                "{expected} connections to fill the path, the limit is {MAX_LOAD_CONNECTIONS}"
            )));
        }
        if !(Span::ZERO..=MAX_LOAD_DURATION).contains(&duration) {
            return Err(Refusal(format!("{duration} to fill the path, the limit is {MAX_LOAD_DURATION}")));
        }
        self.remaining_limits.check_time(duration, clock::monotonic())?;
        let mut max_bytes = self.remaining_limits.bytes;
        if let Some(account) = &self.account {
            account.check_load()?;
            account.check_bytes(1)?;
            max_bytes = account.bytes_left().map_or(max_bytes, |left| left.min(max_bytes));
        }
        // Its trains have all been carried.
        (self.probes, self.load) = (None, None);
        let streams: Vec<_> =
            self.collect_connections(first, expected, wait).into_iter().map(|(_, stream)| stream).collect();
        let connections = streams.len() as u32;
        if connections > 0 {
            let role = if direction == Direction::Up { LoadRole::Receive } else { LoadRole::Send };
            let load = TcpLoad::begin(streams, role, duration, max_bytes);
            self.load = Some((direction, load.map_err(|error| Refusal(format!("cannot fill the path: {error}")))?));
            self.record.load = true;
            self.record.directions.insert(direction);
        }
        Ok(ServerMessage::LoadBegins { connections })
    }

    /// When to look whether the load has ended; none if there is none.
    pub(super) fn next_load_check(&self) -> Option<Time> {
        let until = self.load.as_ref()?.1.end_time();
        Some(until.max(deadline_after(LOAD_CHECK_INTERVAL)))
    }

    /// What the load has carried, if it has just ended.
    pub(super) fn take_ended_load(&mut self) -> Option<ServerMessage> {
        if !self.load.as_ref()?.1.has_ended() {
            return None;
        }
        self.end_load().map(|bytes| ServerMessage::LoadEnded { bytes })
    }

    /// Ends the load, if there is one; returns the bytes that it has carried, in each tenth of a second.
    fn end_load(&mut self) -> Option<Vec<u64>> {
        let (direction, load) = self.load.take()?;
        let bytes = load.end();
        let sum = bytes.iter().sum();
        self.remaining_limits.bytes = self.remaining_limits.bytes.saturating_sub(sum);
        if let Some(account) = &self.account {
            account.add_bytes(sum);
        }
        *self.carried_bytes(direction) += sum;
        Some(bytes)
    }

    fn carried_bytes(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::Up => &mut self.record.received_bytes,
            Direction::Down => &mut self.record.sent_bytes,
        }
    }

    /// Whether the path is being filled.
    pub(super) fn is_loading(&self) -> bool {
        self.load.is_some()
    }

    fn use_probes(&mut self, kind: Transport, mut probes: Probes) {
        probes.abort_on_close_of(self.control.clone());
        self.probes = Some((kind, probes));
    }

    /// Receives a train.
    pub(super) fn receive(&mut self, number: u32, train: &Train, timeout: Span) -> Result<ServerMessage, Refusal> {
        let clock = self.clock;
        let probes = self.begin_train(train, Direction::Up)?;
        Ok(match probes.receive(number, train, timeout.min(MAX_WAIT)) {
            Ok(mut received) => {
                let sizes: Vec<_> = train.packets().map(|packet| packet.size).collect();
                let arrived = received.arrivals.iter().filter_map(|arrival| sizes.get(arrival.index as usize));
                *self.carried_bytes(Direction::Up) += arrived.map(|size| u64::from(*size)).sum::<u64>();
                for arrival in &mut received.arrivals {
                    arrival.received = arrival.received.map(|at| clock.time_at(at));
                }
                let kernel_stamps = received.stamp_source == StampSource::Kernel;
                ServerMessage::Received { number, arrivals: received.arrivals, kernel_stamps }
            }
            Err(error) => failure_message(number, &error)?,
        })
    }

    /// Sends a train. What a client of this version does not know is not said.
    pub(super) fn send(&mut self, number: u32, train: &Train, version: Version) -> Result<Vec<ServerMessage>, Refusal> {
        let clock = self.clock;
        let probes = self.begin_train(train, Direction::Down)?;
        Ok(match probes.send(number, train) {
            Ok(mut sent) => {
                let sizes = sent.departures.iter().map(|departure| u64::from(departure.size));
                *self.carried_bytes(Direction::Down) += sizes.sum::<u64>();
                let held_back = sent.stamp_source == StampSource::Queue && version >= Version::SEND_TIMES;
                let submitted = (version >= Version::SEND_TIMES).then(|| submission_message(number, &sent));
                for departure in &mut sent.departures {
                    departure.sent = departure.sent.map(|at| clock.time_at(at));
                }
                let kernel_stamps = sent.stamp_source != StampSource::User;
                let sent = ServerMessage::Sent { number, departures: sent.departures, kernel_stamps };
                let held_back = held_back.then_some(ServerMessage::QueuedLocally { number });
                held_back.into_iter().chain(submitted).chain([sent]).collect()
            }
            Err(error) => vec![failure_message(number, &error)?],
        })
    }

    /// Receives a marked train.
    pub(super) fn receive_marked(
        &mut self,
        number: u32,
        train: &MarkedTrain,
        timeout: Span,
    ) -> Result<ServerMessage, Refusal> {
        let Some(probes) = self.begin_marked(train, Direction::Up)? else { return Ok(no_marked_packets(number)) };
        Ok(match probes.receive_marked(number, train, timeout.min(MAX_WAIT)) {
            Ok(arrivals) => {
                *self.carried_bytes(Direction::Up) += marked_bytes(arrivals.len());
                ServerMessage::ReceivedMarked { number, arrivals }
            }
            Err(error) => failure_message(number, &error)?,
        })
    }

    /// Sends a marked train.
    pub(super) fn send_marked(&mut self, number: u32, train: &MarkedTrain) -> Result<ServerMessage, Refusal> {
        let Some(probes) = self.begin_marked(train, Direction::Down)? else { return Ok(no_marked_packets(number)) };
        Ok(match probes.send_marked(number, train) {
            Ok(sent) => {
                *self.carried_bytes(Direction::Down) += marked_bytes(sent.len());
                ServerMessage::SentMarked { number, sent }
            }
            Err(error) => failure_message(number, &error)?,
        })
    }

    /// Receives a train whose packets have a DSCP and ECN codepoint each.
    pub(super) fn receive_ds_fields(
        &mut self,
        number: u32,
        train: &DsFieldTrain,
        timeout: Span,
    ) -> Result<ServerMessage, Refusal> {
        let clock = self.clock;
        let Some(probes) = self.begin_ds_fields(train, Direction::Up)? else { return Ok(no_marked_packets(number)) };
        Ok(match probes.receive_ds_fields(number, train, timeout.min(MAX_WAIT)) {
            Ok(mut arrivals) => {
                let sizes: Vec<_> = train.train.packets().map(|packet| packet.size).collect();
                let arrived = arrivals.iter().filter_map(|arrival| sizes.get(arrival.index as usize));
                *self.carried_bytes(Direction::Up) += arrived.map(|size| u64::from(*size)).sum::<u64>();
                for arrival in &mut arrivals {
                    arrival.received = arrival.received.map(|at| clock.time_at(at));
                }
                ServerMessage::ReceivedDsFields { number, arrivals }
            }
            Err(error) => failure_message(number, &error)?,
        })
    }

    /// Sends such a train.
    pub(super) fn send_ds_fields(&mut self, number: u32, train: &DsFieldTrain) -> Result<ServerMessage, Refusal> {
        let clock = self.clock;
        let Some(probes) = self.begin_ds_fields(train, Direction::Down)? else { return Ok(no_marked_packets(number)) };
        Ok(match probes.send_ds_fields(number, train) {
            Ok(mut departures) => {
                let sizes = departures.iter().map(|departure| u64::from(departure.size));
                *self.carried_bytes(Direction::Down) += sizes.sum::<u64>();
                for departure in &mut departures {
                    departure.sent = departure.sent.map(|at| clock.time_at(at));
                }
                ServerMessage::SentDsFields { number, departures }
            }
            Err(error) => failure_message(number, &error)?,
        })
    }

    /// Asks the routers on the way to the client: by the flow of the trains, and by others to addresses to which these nonces were sent.
    pub(super) fn trace_hops(
        &mut self,
        member: &ClientRegistration,
        local: SocketAddr,
        number: u32,
        trace: &HopTrace,
        flows: &[[u8; 16]],
    ) -> Result<ServerMessage, Refusal> {
        trace.check().map_err(|error| Refusal(error.to_string()))?;
        if !self.remaining_limits.deduct_hop_probes(trace, clock::monotonic())? {
            let reason = format!("the limit is {MAX_HOP_PROBES} packets for routers per turn");
            return Ok(ServerMessage::Failed { number, reason });
        }
        let train = trace.counted_train();
        let Some(probes) = self.begin_udp_train(&train, count_bytes(&train), Direction::Down)? else {
            return Ok(no_marked_packets(number));
        };
        // Flow 0 is that of the trains.
        let further = flows.iter().take(usize::from(HopTrace::MAX_FLOWS) - 1);
        let further: Vec<_> = further.map(|nonce| open_flow(member, local, *nonce)).collect();
        Ok(match probes.trace_hops(number, trace, &further) {
            Ok(record) => {
                self.remaining_limits.refund_hop_probes(trace.probes.len() - record.sent.len());
                *self.carried_bytes(Direction::Down) += marked_bytes(record.sent.len());
                ServerMessage::HopsTraced { number, record }
            }
            Err(error) => failure_message(number, &error)?,
        })
    }

    /// As [`begin_train`](Self::begin_train); none where UDP is not open.
    fn begin_ds_fields(
        &mut self,
        train: &DsFieldTrain,
        direction: Direction,
    ) -> Result<Option<&mut UdpProbes>, Refusal> {
        train.check().map_err(|error| Refusal(error.to_string()))?;
        self.begin_udp_train(&train.train, dscp_bytes(train), direction)
    }

    /// As [`begin_train`](Self::begin_train); none where UDP is not open.
    fn begin_marked(&mut self, train: &MarkedTrain, direction: Direction) -> Result<Option<&mut UdpProbes>, Refusal> {
        train.check().map_err(|error| Refusal(error.to_string()))?;
        let unmarked = train.unmarked();
        self.begin_udp_train(&unmarked, count_bytes(&unmarked), direction)
    }

    /// Of packets of which so many bytes may have a DSCP.
    fn begin_udp_train(
        &mut self,
        train: &Train,
        dscp_bytes: u64,
        direction: Direction,
    ) -> Result<Option<&mut UdpProbes>, Refusal> {
        self.remaining_limits.deduct_dscp_bytes(dscp_bytes)?;
        Ok(match self.begin_train(train, direction)? {
            Probes::Udp(probes) => Some(probes),
            Probes::Tcp(_) => None,
        })
    }

    /// How the SYNs of probe connections arrived, from number `first` on.
    pub(super) fn collect_syns(&self, first: u16, expected: u32, wait: Span) -> Result<ServerMessage, Refusal> {
        if expected > MAX_SYN_CONNECTIONS {
            return Err(Refusal(format!("the SYNs of {expected} connections, the limit is {MAX_SYN_CONNECTIONS}")));
        }
        let arrived = self.collect_connections(first, expected, wait);
        let syns = arrived.iter().map(|(number, stream)| (*number, path_view::take_saved_syn(stream)));
        Ok(ServerMessage::ConnectionSyns { syns: syns.collect() })
    }

    /// Listens at these ports for the client; those before are closed.
    pub(super) fn open_ports(
        &mut self,
        ports: &[(PortProtocol, u16)],
        config: &ServerConfig,
        watch: (&EpollSet, u32),
        new: impl FnOnce() -> TurnPorts,
    ) -> ServerMessage {
        let listening = self.ports.get_or_insert_with(new);
        let opened = listening.open(ports, config, watch);
        ServerMessage::PortsOpened { ports: opened, second_address: listening.second_address() }
    }

    /// Takes what has come at these ports.
    pub(super) fn advance_ports(&mut self, watch: (&EpollSet, u32)) {
        self.ports.iter_mut().for_each(|ports| ports.advance(watch));
    }

    /// What has come there.
    pub(super) fn port_arrivals(&mut self, watch: (&EpollSet, u32)) -> ServerMessage {
        self.advance_ports(watch);
        let arrivals = self.ports.as_mut().map(TurnPorts::take_arrivals);
        ServerMessage::PortArrivals { arrivals: arrivals.unwrap_or_default() }
    }

    /// Sends packets from such a port to the address to which `nonce` was sent.
    pub(super) fn send_from_port(
        &mut self,
        member: &ClientRegistration,
        nonce: [u8; 16],
        port: u16,
    ) -> Result<ServerMessage, Refusal> {
        let client = member.candidate_of_nonce(nonce).map(|candidate| candidate.address);
        if let (Some(ports), Some(client)) = (&mut self.ports, client) {
            ports.send_from(port, client)?;
        }
        Ok(ServerMessage::SentFromPort { client })
    }

    /// Sockets of flows that are to be kept while they are idle, of UDP and of TCP, each with its idle time; none where the client has not
    /// proved to receive there, or the connection has not come.
    pub(super) fn take_flows(
        &mut self,
        member: &ClientRegistration,
        local: SocketAddr,
        udp: &[([u8; 16], IdleFlow)],
        tcp: &[(u16, IdleFlow)],
        wait: Span,
    ) -> [Vec<(Option<FlowSocket>, Span)>; 2] {
        let udp = udp
            .iter()
            .map(|(nonce, flow)| (open_flow(member, local, *nonce).map(FlowSocket::Udp), flow.idle))
            .collect();
        let first = tcp.iter().map(|(number, _)| *number).min().unwrap_or(0);
        let expected = tcp.len() as u32;
        let mut came: BTreeMap<u16, TcpStream> = self.collect_connections(first, expected, wait).into_iter().collect();
        let mut take = |number| came.remove(&number).filter(|stream| stream.set_nonblocking(true).is_ok());
        let tcp = tcp.iter().map(|(number, flow)| (take(*number).map(FlowSocket::Tcp), flow.idle)).collect();
        [udp, tcp]
    }

    /// What is seen of the client's UDP packets; none where UDP is not open.
    pub(super) fn udp_path_view(&self) -> Option<UdpPathView> {
        let (_, Probes::Udp(probes)) = self.probes.as_ref()? else { return None };
        let UdpCandidate { address, arrived_hop_limit, .. } = self.udp_client?;
        let (hop_limit, path_mtu) = (probes.hop_limit(), probes.known_path_mtu());
        Some(UdpPathView { client: address, arrived_hop_limit, hop_limit, path_mtu })
    }

    /// Deducts the train from what is left to the turn, and from the client's quota.
    fn begin_train(&mut self, train: &Train, direction: Direction) -> Result<&mut Probes, Refusal> {
        let (kind, probes) = self.probes.as_mut().ok_or_else(|| Refusal("no transport is open".into()))?;
        train.check(Train::MAX_PACKET_BYTES).map_err(|e| Refusal(e.to_string()))?;
        self.remaining_limits.deduct_train(train, clock::monotonic())?;
        if let Some(account) = &self.account {
            account.charge_bytes(count_bytes(train))?;
        }
        self.record.transports.insert(*kind);
        self.record.directions.insert(direction);
        Ok(probes)
    }
}

/// A socket for the flow of the address to which this nonce was sent, which does not block; none where it was sent to nobody.
fn open_flow(member: &ClientRegistration, local: SocketAddr, nonce: [u8; 16]) -> Option<UdpSocket> {
    let client = member.candidate_of_nonce(nonce)?.address;
    let socket = udp::connect_to_client(local, client);
    let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket.inspect_err(|error| tracing::debug!("cannot open a flow to {client}: {error}")).ok()
}

/// When the packets of a train were given to the kernel.
fn submission_message(number: u32, sent: &SentTrain) -> ServerMessage {
    let earlier = |(departure, submitted): (&Departure, &Option<Time>)| Some(departure.sent? - (*submitted)?);
    let pairs = sent.departures.iter().zip(&sent.submitted);
    ServerMessage::Submitted {
        number,
        submitted_before_sent: pairs.map(|pair| earlier(pair).unwrap_or_default()).collect(),
    }
}

/// What so many marked packets are counted as.
fn marked_bytes(packets: usize) -> u64 {
    packets as u64 * u64::from(MarkedTrain::PACKET_BYTES)
}

fn no_marked_packets(number: u32) -> ServerMessage {
    ServerMessage::Failed { number, reason: "marked packets are sent by UDP, which is not open".to_owned() }
}

/// The probes over these connections; none if all of them are closed already.
fn tcp_probes(kind: Transport, streams: Vec<TcpStream>) -> Result<Option<TcpProbes>, Refusal> {
    let probes = match (kind, streams.into_iter()) {
        (Transport::Udp, _) => return Err(Refusal("UDP has no probe connections".into())),
        (Transport::Rake, streams) => TcpProbes::rake(streams.collect()),
        (Transport::Single, mut streams) => match streams.next() {
            Some(stream) => TcpProbes::single(stream),
            None => return Ok(None),
        },
    };
    match probes {
        Ok(probes) => Ok(Some(probes)),
        Err(kumade_transport::Error::NoConnection(_)) => Ok(None),
        Err(error) => Err(Refusal(error.to_string())),
    }
}

/// A failure of the path is reported to the client; an invalid request ends its session.
fn failure_message(number: u32, error: &kumade_transport::Error) -> Result<ServerMessage, Refusal> {
    match error {
        kumade_transport::Error::Plan(_) | kumade_transport::Error::TooManyPerConnection { .. } => {
            Err(Refusal(error.to_string()))
        }
        _ => Ok(ServerMessage::Failed { number, reason: error.to_string() }),
    }
}
