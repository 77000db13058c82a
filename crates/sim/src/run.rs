use crate::VirtualPath;
use kumade_estimate::{Method, Outcome, Step};
use kumade_measurement::report::Warning;
use kumade_measurement::{
    Clocks, DeliveredTrain, DsFieldRequest, Event, Failure, MarkRequest, Measurement, OpenRequest, Opened, Purpose,
    Report, SendRequest, Session, TcpConnectionInfo, TrainSeries, detect_proxy,
};
use kumade_probe_train::{DsFieldRecord, MarkedRecord, Train, TrainRecord, Transport};
use kumade_units::{Direction, Rate, Span, Time};

/// A finished run of one method on a virtual path.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodRun {
    /// The result of the method.
    pub outcome: Outcome,
    /// The available bandwidth from the first packet to the last.
    pub truth: Rate,
    /// When the first packet left.
    pub started: Time,
    /// When the last one arrived.
    pub ended: Time,
    /// IP packets sent.
    pub packets: u64,
    /// IP bytes sent.
    pub bytes: u64,
}

/// Runs one method on a path, without the other parts of a measurement.
pub fn measure(method: &mut dyn Method, path: &mut VirtualPath) -> MethodRun {
    let mut series = TrainSeries::new(Direction::Up, path.now());
    let mut window = MeasurementWindow::default();
    loop {
        match method.next(path.now()) {
            Step::Send { wait, train } => {
                path.wait(series.time_until_gap(wait, path.now()));
                let started = path.now();
                let carried = send_over_path(path, &train, None);
                window.extend(started, carried.ended);
                series.add_train(&carried);
                method.record(&carried.record);
            }
            Step::Done(outcome) => {
                path.run_until_quiet();
                let (started, ended) = window.span.unwrap_or((path.now(), path.now()));
                let cost = series.cost(path.now());
                let truth = path.true_available(started, ended);
                return MethodRun { outcome, truth, started, ended, packets: cost.packets, bytes: cost.bytes };
            }
        }
    }
}

/// Both directions of a virtual path, and which transports it passes.
#[derive(Debug)]
pub struct VirtualPaths {
    /// From the host that measures to the far end.
    pub up: VirtualPath,
    /// From the far end back.
    pub down: VirtualPath,
    /// Whether UDP passes.
    pub passes_udp: bool,
}

/// The result of a measurement of virtual paths.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualMeasurement {
    /// The report.
    pub report: Report,
    /// The available bandwidth up and down, on average of the time that the report says its value is an average over; without a value, of the time
    /// from the first packet of the method's trains to the last. None where there were no such trains.
    pub truth: [Option<Rate>; 2],
    /// When that was.
    pub windows: [Option<(Time, Time)>; 2],
    /// Delays of single packets up and down before the paths were loaded.
    pub idle_delays: [Vec<Span>; 2],
}

impl VirtualPaths {
    /// Drives a full measurement, as `client` does over sockets. `on_event` gets its progress.
    ///
    /// # Errors
    /// The measurement ends without a report.
    pub fn measure(
        &mut self,
        mut measurement: Measurement,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<VirtualMeasurement, Failure> {
        let mut method_trains = [MeasurementWindow::default(); 2];
        let mut idle_delays = [Vec::new(), Vec::new()];
        let mut connections = 0;
        loop {
            let now = self.now();
            match measurement.next(now) {
                kumade_measurement::Step::Open(request) => match self.open_transport(&request) {
                    Ok(opened) => {
                        connections = opened.connections;
                        measurement.transport_opened(opened, self.now());
                    }
                    Err(reason) => measurement.transport_failed(reason),
                },
                kumade_measurement::Step::Send(request) => {
                    let (started, carried) = self.send_train(&request, connections);
                    match request.purpose {
                        Purpose::AvailableBandwidth => {
                            method_trains[request.direction as usize].extend(started, carried.ended);
                        }
                        Purpose::IdleDelay => {
                            idle_delays[request.direction as usize]
                                .extend(delays_of_packets(&carried.record, connections));
                        }
                        _ => {}
                    }
                    measurement.train_delivered(carried);
                }
                kumade_measurement::Step::Load(_) => measurement.load_failed("virtual paths carry trains only"),
                kumade_measurement::Step::Mark(request) => measurement.marks_delivered(&self.send_marks(&request)),
                kumade_measurement::Step::SendDsFields(request) => {
                    measurement.ds_fields_delivered(&self.send_ds_fields(&request));
                }
                kumade_measurement::Step::Trace(_) => measurement.hops_not_traced("virtual paths have no routers"),
                kumade_measurement::Step::Ports(_) => measurement.ports_failed("virtual paths have no ports"),
                kumade_measurement::Step::IdleFlows(_) => {
                    measurement.flows_failed("virtual paths keep no state of flows")
                }
                kumade_measurement::Step::Progress(event) => on_event(&event),
                kumade_measurement::Step::Done(report) => {
                    let reports = [&report.up, &report.down].map(Option::as_ref);
                    let windows = Direction::BOTH.map(|direction| {
                        let (from, last) = method_trains[direction as usize].span?;
                        let report = reports[direction as usize];
                        Some(report.and_then(|report| report.value_window(from)).unwrap_or((from, last)))
                    });
                    let truth = Direction::BOTH.map(|direction| {
                        let (from, to) = windows[direction as usize]?;
                        let path = self.path_mut(direction);
                        path.run_until_quiet();
                        Some(path.true_available(from, to))
                    });
                    return Ok(VirtualMeasurement { report: *report, truth, windows, idle_delays });
                }
                kumade_measurement::Step::Failed(failure) => return Err(failure),
            }
        }
    }

    /// What hosts at its ends know of each other when they begin: exact clocks, and no receiver that joins packets.
    pub fn session(&self) -> Session {
        Session {
            peer: "virtual".to_owned(),
            started: "1970-01-01T00:00:00.000Z".to_owned(),
            round_trip: self.round_trip(),
            max_connections: Session::DEFAULT_MAX_CONNECTIONS,
            clocks: Clocks::default(),
            coalescing: None,
        }
    }

    /// From one end to the other and back, without queues.
    pub fn round_trip(&self) -> Span {
        self.up.base_delay() + self.down.base_delay()
    }

    fn now(&self) -> Time {
        self.up.now().max(self.down.now())
    }

    /// Connections are opened at once, but for their spacing and a round trip: what opens them is not lost, and takes no room.
    fn open_transport(&mut self, request: &OpenRequest) -> Result<Opened, String> {
        let connections = match request.transport {
            Transport::Udp if !self.passes_udp => return Err("the firewall rejects it".to_owned()),
            Transport::Udp => 0,
            Transport::Rake => request.connections.into(),
            Transport::Single => return Err("a virtual path has no congestion window".to_owned()),
        };
        let takes = request.spacing * i64::from(connections) + self.round_trip();
        for path in [&mut self.up, &mut self.down].into_iter().filter(|_| connections > 0) {
            path.reopen_connections();
            path.wait(takes);
        }
        let mtu = self.up.mtu();
        // As over sockets, where TCP keeps to Ethernet's size.
        let largest = if connections > 0 { Train::MAX_ETHERNET_PACKET_BYTES } else { Train::MAX_PACKET_BYTES };
        let max_packet = mtu.map_or(Train::MAX_ETHERNET_PACKET_BYTES, |mtu| mtu.min(largest));
        let is_divided = if connections > 0 { self.proxy_warning() } else { None };
        let warnings = is_divided.into_iter().collect();
        Ok(Opened { max_packet, is_size_known: mtu.is_none(), connections, warnings })
    }

    /// As `client` has it of what the kernels of both ends know.
    fn proxy_warning(&self) -> Option<Warning> {
        let [up_near, up_far] = self.up.tcp_connection_infos();
        let [down_far, down_near] = self.down.tcp_connection_infos();
        let leg = |(header, there): (u32, Span), (_, back): (u32, Span)| TcpConnectionInfo {
            header_bytes: header,
            round_trip: there + back,
        };
        detect_proxy(leg(up_near, down_near), leg(up_far, down_far), self.round_trip())
    }

    /// When the train began to leave, and what became of it.
    fn send_train(&mut self, request: &SendRequest, connections: u32) -> (Time, DeliveredTrain) {
        let start = self.now() + request.wait;
        let path = self.path_mut(request.direction);
        path.wait(start - path.now());
        let over = (connections > 0).then_some((connections, request.timeout));
        (start, send_over_path(path, &request.train, over))
    }

    /// Sends marked packets: what the path makes of them, of those that arrive in time.
    fn send_marks(&mut self, request: &MarkRequest) -> MarkedRecord {
        let start = self.now();
        let path = self.path_mut(request.direction);
        path.wait(start - path.now());
        let record = path.send_marks(&request.train);
        path.wait(path.base_delay() + request.timeout);
        record
    }

    /// Sends such a train: what the path and its queues make of it.
    fn send_ds_fields(&mut self, request: &DsFieldRequest) -> DsFieldRecord {
        let start = self.now() + request.wait;
        let path = self.path_mut(request.direction);
        path.wait(start - path.now());
        let record = path.send_ds_fields(&request.train);
        path.wait(path.base_delay());
        record
    }

    fn path_mut(&mut self, direction: Direction) -> &mut VirtualPath {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

/// The delays of the packets that no connection had to repeat; zero connections are UDP.
fn delays_of_packets(record: &TrainRecord, connections: u32) -> Vec<Span> {
    let record = match connections {
        0 => record.clone(),
        connections => record.without_loss_recovery(connections as usize, None),
    };
    record.packets.iter().filter_map(|packet| Some(packet.received? - packet.sent?)).collect()
}

/// Carries a train, over so many connections with this receive timeout if any. What became of it is known to the sender a path's delay after the
/// receiver has stopped.
fn send_over_path(path: &mut VirtualPath, train: &Train, over: Option<(u32, Span)>) -> DeliveredTrain {
    let planned_end = path.now() + train.duration();
    let (record, ended) = match over {
        // What is missing then may still be waited for.
        Some((connections, timeout)) => (path.send_over_connections(train, connections, timeout), planned_end),
        None => (path.send(train), path.now()),
    };
    path.wait(path.base_delay());
    let (packets, bytes) = (u64::from(train.packet_count()), train.bytes());
    DeliveredTrain {
        record,
        packets,
        bytes,
        ended,
        unstamped_packets: Vec::new(),
        has_kernel_stamps: true,
        is_held_back: false,
        is_broken: false,
        connections: over.map_or(0, |(connections, _)| connections),
    }
}

/// From the first packet to the last, once there is one.
#[derive(Debug, Clone, Copy, Default)]
struct MeasurementWindow {
    span: Option<(Time, Time)>,
}

impl MeasurementWindow {
    fn extend(&mut self, from: Time, to: Time) {
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
    }
}
