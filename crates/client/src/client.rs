//! A measurement over real sockets: the driver of [`Measurement`].

use crate::cancel::StopCondition;
use crate::clocks;
use crate::config::MeasureConfig;
use crate::ds_fields::exchange_ds_fields;
use crate::error::Error;
use crate::exchange::exchange_train;
use crate::hop_trace::HopFlows;
use crate::host_claim::Claimed;
use crate::idle_flows::IdleRunner;
use crate::load;
use crate::mapping;
use crate::open;
use crate::path;
use crate::ports::PortTries;
use crate::resolve::resolve;
use crate::server_connection::{ServerConnection, effective_family};
use kumade_measurement::report::Warning;
use kumade_measurement::{
    Clocks, Event, Failure, IdleRound, Measurement, MeasurementPlan, OpenRequest, Opened, PortRound, Purpose, Report,
    SendRequest, UdpFacts,
};
use kumade_measurement::{Session, Step};
use kumade_net::clock;
use kumade_probe_train::Transport;
use kumade_transport::Probes;
use kumade_units::Span;
use kumade_wire::Version;
use std::net::SocketAddr;

/// Maximum wait between two trains: five seconds after a train, the server ends the turn.
const MAX_TRAIN_DELAY: Span = Span::from_secs(4);

/// Measures the path to a server. `on_event` is called on the calling thread, between trains.
///
/// # Errors
/// If the server can't be reached or the path can't carry trains, which is known within ten seconds unless other clients
/// are measured first (for [`MeasureConfig::max_server_wait`] at most) or an NTP server or a name server does not answer; and if the measurement is cancelled or exceeds
/// its deadline. If trains arrive but give no estimate, that is not an error: the report states the reason.
pub fn measure(config: &MeasureConfig, on_event: &mut dyn FnMut(&Event)) -> Result<Report, Error> {
    let limit = StopCondition::new(&config.cancel, config.deadline);
    let result = measure_within(config, &limit, on_event);
    // Cancellation makes other operations fail: it is the cause to report.
    result.map_err(|error| limit.check().err().unwrap_or(error))
}

fn measure_within(
    config: &MeasureConfig,
    limit: &StopCondition,
    on_event: &mut dyn FnMut(&Event),
) -> Result<Report, Error> {
    let started = jiff::Timestamp::now();
    let addresses = resolve(&config.host, config.port, effective_family(config), limit)?;
    // Before the turn at the server: who waits there for a turn must not wait for somebody here who waits for one there.
    let claim = Claimed::wait(config.host_claim, &addresses, limit, on_event)?;
    let mut peer = ServerConnection::connect(config, &addresses, limit)?;
    let connected = peer.address.to_string();
    let round_trip_seconds = peer.round_trip.as_secs_f64();
    on_event(&Event::Connected { peer: connected.clone(), round_trip_seconds });
    // Before the turn begins: waiting for an NTP server must not delay other clients.
    let known = clocks::read_host_clocks(&config.ntp, limit)?;
    peer.wait_for_turn(config.max_server_wait, on_event)?;
    let known = known.refreshed(&config.ntp, limit)?;
    let stamp_scatter = clocks::stamp_scatter();
    let (far, view) = peer.clock_error_and_path()?;
    let session = Session {
        peer: connected,
        started: format!("{started:.3}"),
        round_trip: peer.round_trip,
        max_connections: peer.limits.connections,
        clocks: Clocks { far, stamp_scatter, ..known.clocks },
        coalescing: peer.coalescing(),
    };
    let plan = MeasurementPlan { seed: getrandom::u64().unwrap_or(0), ..config.plan.clone() };
    let mut measurement = Measurement::new(plan, session);
    path::tell_of_tcp(&mut measurement, &peer, view.and_then(|view| view.tcp));
    if config.plan.path {
        path::tell_of_syns(&mut measurement, &mut peer, &config.binding)?;
        mapping::tell_of_mappings(&mut measurement, &mut peer, &config.binding)?;
    }
    let mut driver = MeasurementDriver {
        peer,
        config,
        limit,
        probes: None,
        udp_facts: None,
        is_mtu_known: false,
        trains: 0,
        hop_flows: HopFlows::default(),
        port_tries: PortTries::default(),
        idle_runner: IdleRunner { config, limit, claim, has_left_turn: false },
    };
    let mut report = driver.run(measurement, on_event)?;
    driver.idle_runner.claim.add_warning(&mut report);
    driver.peer.leave();
    Ok(report)
}

/// Carries out the steps of a measurement.
struct MeasurementDriver<'c> {
    peer: ServerConnection,
    config: &'c MeasureConfig,
    limit: &'c StopCondition,
    /// None before the first transport is open.
    probes: Option<Probes>,
    /// What is known of the path of UDP.
    udp_facts: Option<UdpFacts>,
    /// Whether the sizes of packets that pass have been looked for, and with that all that ICMP messages say of them.
    is_mtu_known: bool,
    trains: u32,
    hop_flows: HopFlows,
    port_tries: PortTries,
    idle_runner: IdleRunner<'c>,
}

impl MeasurementDriver<'_> {
    fn run(&mut self, mut measurement: Measurement, on_event: &mut dyn FnMut(&Event)) -> Result<Report, Error> {
        loop {
            self.limit.check()?;
            match measurement.next(clock::monotonic()) {
                Step::Open(request) => match self.open_transport(&request)? {
                    Ok(opened) => {
                        measurement.transport_opened(opened, clock::monotonic());
                        self.udp_facts.into_iter().for_each(|facts| measurement.udp_observed(facts));
                    }
                    Err(reason) => measurement.transport_failed(reason),
                },
                Step::Send(request) => {
                    if request.purpose != Purpose::PacketSize {
                        self.observe_mtu(&mut measurement)?;
                    }
                    let carried = self.run_train(&request)?;
                    measurement.train_delivered(carried);
                }
                Step::Load(request) => {
                    let (direction, duration_seconds) = (request.direction, request.duration.as_secs_f64());
                    on_event(&Event::LoadBegins { direction, duration_seconds });
                    match load::run_load(&mut self.peer, &self.config.binding, &request) {
                        Ok(record) => measurement.load_completed(&record),
                        // What has been measured before remains.
                        Err(error) => {
                            self.limit.check()?;
                            measurement.load_failed(error.to_string());
                        }
                    }
                }
                Step::Mark(request) => {
                    self.observe_mtu(&mut measurement)?;
                    self.trains += 1;
                    let address = self.peer.address;
                    let doing = "looking at marked packets";
                    let probes = self.probes.as_mut().ok_or(Error::ProtocolViolation { address, doing })?;
                    match path::exchange_marks(&mut self.peer, probes, self.trains, &request)? {
                        Ok(record) => measurement.marks_delivered(&record),
                        Err(reason) => measurement.marks_failed(reason),
                    }
                }
                Step::SendDsFields(request) => {
                    self.limit.sleep_until(clock::monotonic() + request.wait.min(MAX_TRAIN_DELAY))?;
                    self.trains += 1;
                    match exchange_ds_fields(&mut self.peer, self.probes.as_mut(), self.trains, &request)? {
                        Ok(record) => measurement.ds_fields_delivered(&record),
                        Err(reason) => measurement.ds_fields_failed(reason),
                    }
                }
                Step::Trace(request) => {
                    self.trains += 1;
                    let (peer, binding) = (&mut self.peer, &self.config.binding);
                    match self.hop_flows.trace(peer, self.probes.as_mut(), binding, self.trains, &request)? {
                        Ok(record) => measurement.hops_traced(&record),
                        Err(reason) => measurement.hops_not_traced(reason),
                    }
                }
                Step::Ports(round) => self.try_ports(&mut measurement, &round)?,
                Step::IdleFlows(round) => self.leave_flows_idle(&mut measurement, &round, on_event)?,
                Step::Progress(event) => on_event(&event),
                Step::Done(report) => return Ok(*report),
                Step::Failed(failure) => return Err(failure_error(self.peer.address, failure)),
            }
        }
    }

    /// Where that fails, what has been measured before remains.
    fn try_ports(&mut self, measurement: &mut Measurement, round: &PortRound) -> Result<(), Error> {
        match self.port_tries.run_round(&mut self.peer, &self.config.binding, round) {
            Ok(Ok(record)) => measurement.ports_tried(&record),
            Ok(Err(reason)) => measurement.ports_failed(reason),
            Err(error) => {
                self.limit.check()?;
                measurement.ports_failed(error.to_string());
            }
        }
        Ok(())
    }

    /// Where that fails, what has been measured before remains.
    fn leave_flows_idle(
        &mut self,
        measurement: &mut Measurement,
        round: &IdleRound,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), Error> {
        match self.idle_runner.run_round(&mut self.peer, round, on_event) {
            Ok(Ok(results)) => measurement.flows_idled(&results),
            Ok(Err(reason)) => measurement.flows_failed(reason),
            Err(error) => {
                self.limit.check()?;
                measurement.flows_failed(error.to_string());
            }
        }
        Ok(())
    }

    /// Opens a transport at both ends. The inner error is the reason why that is not possible.
    fn open_transport(&mut self, request: &OpenRequest) -> Result<Result<Opened, String>, Error> {
        let unknown = self.unsupported_features();
        if request.transport == Transport::Udp {
            let opened = open::open_udp(&mut self.peer, &self.config.binding)?;
            return Ok(opened.map(|opened| {
                self.udp_facts = opened.facts.or(self.udp_facts);
                self.use_probes(opened.probes, unknown)
            }));
        }
        if let Some(broken) = self.probes.as_mut().filter(|_| request.is_replacement) {
            broken.abort();
        }
        let (probes, warnings) = open::open_tcp(&mut self.peer, &self.config.binding, request)?;
        if request.is_replacement {
            return Ok(Ok(self.use_probes(probes, warnings)));
        }
        self.peer.wait_for_drain()?;
        Ok(Ok(self.use_probes(probes, [unknown, warnings].concat())))
    }

    /// Tells what both ends know of the path's MTU, once packets of all sizes have been sent: what the far end knows takes a round trip,
    /// and is asked where the path is to be looked at.
    fn observe_mtu(&mut self, measurement: &mut Measurement) -> Result<(), Error> {
        let (Some(mut facts), Some(Probes::Udp(probes))) = (self.udp_facts, &self.probes) else { return Ok(()) };
        if std::mem::replace(&mut self.is_mtu_known, true) {
            return Ok(());
        }
        facts.near_path_mtu = probes.known_path_mtu();
        let doing = "looking at the path";
        facts.far_path_mtu = None;
        if self.config.plan.path && self.peer.ask_path_view(doing)? {
            let view = self.peer.receive_path_view(open::ANSWER_TIMEOUT, doing)?;
            facts.far_path_mtu = view.udp.and_then(|udp| udp.path_mtu);
        }
        measurement.udp_observed(facts);
        Ok(())
    }

    /// What a server of an earlier release can't do.
    fn unsupported_features(&self) -> Vec<Warning> {
        let version = self.peer.version();
        let warning = |what: &str| Warning::OldServer(version.number(), Version::NEWEST.number(), what.to_owned());
        version.missing_features(self.config.key.is_some()).map(warning).collect()
    }

    fn use_probes(&mut self, probes: Probes, warnings: Vec<Warning>) -> Opened {
        let max_packet = probes.max_packet().min(self.peer.max_packet());
        let connections = probes.connections();
        let opened = Opened { max_packet, is_size_known: false, connections, warnings };
        self.probes = Some(probes);
        opened
    }

    fn run_train(&mut self, request: &SendRequest) -> Result<kumade_measurement::DeliveredTrain, Error> {
        self.limit.sleep_until(clock::monotonic() + request.wait.min(MAX_TRAIN_DELAY))?;
        self.trains += 1;
        let address = self.peer.address;
        let probes = self.probes.as_mut().ok_or(Error::ProtocolViolation { address, doing: "measuring" })?;
        exchange_train(&mut self.peer, probes, self.trains, request)
    }
}

fn failure_error(address: SocketAddr, failure: Failure) -> Error {
    match failure {
        Failure::TransportUnavailable { transport, reason } => {
            Error::TransportUnavailable { address, transport, reason }
        }
        Failure::ConnectionsKeepBreaking { replacements } => Error::ConnectionsKeepBreaking { address, replacements },
    }
}
