//! The state machine over a simulated path: what it requests, in which order, and how it handles the results.

use kumade_measurement::report::{DirectionReport, EcnGrade, LoadReason, QueueCount, QueueMarkingKind, Warning};
use kumade_measurement::{
    Clocks, Coalescing, DeliveredTrain, Directions, DsFieldRequest, Event, Failure, LoadRecord, LoadRequest,
    MarkRequest, Measurement, MeasurementPlan, OpenRequest, Opened, Purpose, Report, RequestedBudget, SendRequest,
    Session, Step, TcpEndFacts, TcpFacts, TraceRequest, TransportChoice, UdpFacts,
};
use kumade_probe_train::{
    DsFieldArrival, DsFieldRecord, HopAnswer, HopTrace, HopTraceRecord, Mark, MarkedArrival, MarkedRecord, MarkedTrain,
    PacketRecord, PortProtocol, Train, TrainRecord, Transport,
};
use kumade_units::{Direction, Rate, Span, Time};

/// One link in each direction, of this rate, without cross traffic.
struct Path {
    rate: Rate,
    now: Time,
    /// Larger packets vanish.
    mtu: u32,
    /// The largest packet that this host can send.
    host_mtu: u32,
    coalescing: Option<Coalescing>,
    udp: bool,
    /// Packets arrive at multiples of this, as many as there are then.
    turn: Option<Span>,
    /// By which part the rate is higher and lower, for 50 ms each.
    variation: f64,
    /// Trains that break the connections, counted from the first.
    breaks: fn(usize) -> bool,
    sent: Vec<SendRequest>,
    opened: Vec<OpenRequest>,
    loads: Vec<LoadRequest>,
    /// Whether marked packets can be sent.
    udp_stays_open: bool,
    marked: Vec<MarkRequest>,
    /// On the way up, if the far end tells; each quotes what was sent.
    routers: Option<u8>,
    traced: Vec<TraceRequest>,
    /// Trains with a DSCP and ECN codepoint of each packet.
    queues_filled: Vec<DsFieldRequest>,
    events: Vec<Event>,
}

fn arrived_unchanged(train: &MarkedTrain) -> MarkedRecord {
    let arrival = |(index, mark): (u32, &Mark)| MarkedArrival { index, ds_field: Some(mark.ds_field), hop_limit: None };
    let count = train.marks.len() as u32;
    MarkedRecord { sent: (0..count).collect(), arrivals: (0..).zip(&train.marks).map(arrival).collect() }
}

/// What the kernels say where so many routers are on the way.
fn behind(routers: u8) -> UdpFacts {
    let hop_limits = [Some(64), Some(64 - routers)];
    let own = ([192, 0, 2, 7], 50_000).into();
    UdpFacts {
        local: own,
        seen: own,
        up_hop_limits: hop_limits,
        down_hop_limits: hop_limits,
        near_path_mtu: None,
        far_path_mtu: None,
    }
}

/// The same of TCP, by its SYN.
fn syn_behind(routers: u8) -> TcpFacts {
    let mut arrived_syn = vec![0; 40];
    (arrived_syn[0], arrived_syn[8], arrived_syn[9], arrived_syn[32], arrived_syn[33]) =
        (0x45, 64 - routers, 6, 0x50, 2);
    let near = TcpEndFacts { hop_limit: Some(64), ..TcpEndFacts::default() };
    let UdpFacts { local, seen, .. } = behind(routers);
    TcpFacts {
        local,
        seen,
        is_destination_kept: true,
        arrived_syn,
        reference_syn: None,
        ecn_setting: None,
        near,
        far: near,
    }
}

fn all_answered(trace: &HopTrace) -> HopTraceRecord {
    let sent: Vec<u32> = (0..trace.probes.len() as u32).collect();
    let answer = |index: &u32| HopAnswer {
        index: *index,
        from: Some([10, 0, 0, trace.probes[*index as usize].hop_limit].into()),
        is_v6: false,
        icmp_type: 11,
        icmp_code: 0,
        round_trip: DELAY,
        quoted_ds_field: Some(trace.ds_field),
    };
    HopTraceRecord { answers: sent.iter().map(answer).collect(), sent, can_read_quotes: true }
}

const DELAY: Span = Span::from_millis(5);

impl Path {
    fn new() -> Self {
        let (rate, now) = (Rate::from_mbit(50), Time::ZERO);
        Path {
            rate,
            now,
            mtu: 1500,
            host_mtu: 1500,
            coalescing: None,
            udp: true,
            turn: None,
            variation: 0.0,
            breaks: |_| false,
            sent: vec![],
            opened: vec![],
            loads: vec![],
            udp_stays_open: true,
            marked: vec![],
            routers: None,
            traced: vec![],
            queues_filled: vec![],
            events: vec![],
        }
    }

    fn measure(&mut self, plan: MeasurementPlan) -> Result<Report, Failure> {
        let session = Session {
            peer: "192.0.2.1:7272".into(),
            started: "2026-11-22T00:00:00.000Z".into(),
            round_trip: DELAY * 2,
            max_connections: 256,
            clocks: Clocks::default(),
            coalescing: self.coalescing.clone(),
        };
        let mut measurement = Measurement::new(plan, session);
        self.routers.into_iter().for_each(|routers| measurement.tcp_observed(syn_behind(routers)));
        loop {
            match measurement.next(self.now) {
                Step::Open(request) => {
                    self.opened.push(request);
                    self.now += Span::from_millis(20);
                    match request.transport {
                        Transport::Udp if !self.udp => measurement.transport_failed("no answer"),
                        Transport::Udp => {
                            measurement.transport_opened(self.open(0), self.now);
                            self.routers.into_iter().for_each(|routers| measurement.udp_observed(behind(routers)));
                        }
                        _ => measurement.transport_opened(self.open(request.connections.into()), self.now),
                    }
                }
                Step::Send(request) => measurement.train_delivered(self.carry(request)),
                Step::Load(request) => {
                    match request.direction {
                        Direction::Up => measurement.load_completed(&self.fill(&request)),
                        Direction::Down => measurement.load_failed("the server is old"),
                    }
                    self.loads.push(request);
                }
                Step::Mark(request) => {
                    self.now += request.train.duration() + DELAY * 2;
                    match self.udp_stays_open {
                        true => measurement.marks_delivered(&arrived_unchanged(&request.train)),
                        false => measurement.marks_failed("the server has lost it"),
                    }
                    self.marked.push(request);
                }
                Step::SendDsFields(request) => {
                    self.now += request.wait;
                    match self.udp_stays_open {
                        true => measurement.ds_fields_delivered(&self.fill_queue(&request)),
                        false => measurement.ds_fields_failed("the server has lost it"),
                    }
                    self.queues_filled.push(request);
                }
                Step::Trace(request) => {
                    self.now += DELAY;
                    match self.udp_stays_open {
                        true => measurement.hops_traced(&all_answered(&request.trace)),
                        false => measurement.hops_not_traced("the socket is gone"),
                    }
                    self.traced.push(request);
                }
                Step::Ports(_) => measurement.ports_failed("the server is old"),
                Step::IdleFlows(round) => measurement.flows_idled(&vec![None; round.flows.len()]),
                Step::Progress(event) => self.events.push(event),
                Step::Done(report) => return Ok(*report),
                Step::Failed(failure) => return Err(failure),
            }
        }
    }

    /// What a link with one queue makes of a train, which marks nothing.
    fn fill_queue(&mut self, request: &DsFieldRequest) -> DsFieldRecord {
        let start = self.now;
        let planned = || request.train.train.packets().map(|packet| (start + packet.offset, packet.size));
        let mut free = start;
        let mut arrivals = Vec::new();
        for (index, ((sent, size), octet)) in (0..).zip(planned().zip(&request.train.ds_fields)) {
            free = free.max(sent) + self.rate.time_for(size.into());
            arrivals.push(DsFieldArrival { index, received: Some(free + DELAY), ds_field: Some(*octet) });
        }
        self.now = free + DELAY * 2;
        let sent = (0..).zip(planned()).map(|(index, (sent, _))| (index, sent));
        DsFieldRecord::new(request.train.ds_fields.len(), sent, &arrivals)
    }

    fn open(&self, connections: u32) -> Opened {
        Opened { max_packet: self.host_mtu, is_size_known: false, connections, warnings: Vec::new() }
    }

    fn carry(&mut self, request: SendRequest) -> DeliveredTrain {
        self.now += request.wait;
        let record = self.pass(&request.train);
        let connections = self.opened.last().filter(|open| open.transport != Transport::Udp);
        let carried = DeliveredTrain {
            packets: record.packets.len() as u64,
            bytes: record.packets.iter().map(|packet| u64::from(packet.size)).sum(),
            record,
            ended: self.now,
            unstamped_packets: Vec::new(),
            has_kernel_stamps: true,
            is_held_back: false,
            is_broken: (self.breaks)(self.sent.len()),
            connections: connections.map_or(0, |open| open.connections.into()),
        };
        self.sent.push(request);
        self.now += DELAY * 2;
        carried
    }

    fn pass(&mut self, train: &Train) -> TrainRecord {
        let (start, mut free) = (self.now, self.now);
        let packets = train.packets().map(|planned| {
            let sent = (start + planned.offset).max(self.now);
            self.now = sent + Span::from_micros(1);
            let received = (planned.size <= self.mtu).then(|| {
                free = free.max(sent) + self.rate_at(free.max(sent)).time_for(planned.size.into());
                self.reported(free) + DELAY
            });
            PacketRecord { size: planned.size, sent: Some(sent), submitted: None, received }
        });
        TrainRecord { packets: packets.collect() }
    }

    /// When a packet that was served then arrives.
    fn reported(&self, served: Time) -> Time {
        let Some(turn) = self.turn.map(Span::as_nanos) else { return served };
        Time::from_nanos((served.as_nanos() + turn - 1) / turn * turn)
    }

    fn rate_at(&self, time: Time) -> Rate {
        let is_high = (time.as_nanos() / Span::from_millis(50).as_nanos()) % 2 == 0;
        Rate::from_f64(self.rate.as_f64() * (1.0 + if is_high { self.variation } else { -self.variation }))
    }

    /// Transfers that fill the link, whose queue adds 100 ms.
    fn fill(&self, request: &LoadRequest) -> LoadRecord {
        let (idle, interval) = (DELAY * 2, Span::from_millis(100));
        let intervals = request.duration.as_nanos() / interval.as_nanos();
        LoadRecord {
            connections: request.connections.into(),
            idle_round_trips: vec![idle; 20],
            loaded_round_trips: (0..intervals).map(|i| (interval * i, idle + Span::from_millis(100))).collect(),
            bytes_per_interval: (0..intervals).map(|_| self.rate.bytes_in(interval)).collect(),
            interval,
        }
    }

    fn purposes(&self) -> Vec<(Purpose, Direction)> {
        let mut purposes: Vec<_> = self.sent.iter().map(|sent| (sent.purpose, sent.direction)).collect();
        purposes.dedup();
        purposes
    }
}

#[test]
fn everything_comes_in_its_order_and_ends_in_a_report_that_can_be_read_back() {
    let mut path = Path::new();
    let report = path.measure(MeasurementPlan::default()).unwrap();
    let purposes = path.purposes();
    let of = |purpose, direction| purposes.iter().position(|&p| p == (purpose, direction)).unwrap();
    let mut order = vec![of(Purpose::PacketSize, Direction::Up), of(Purpose::PacketSize, Direction::Down)];
    order.push(of(Purpose::IdleDelay, Direction::Up));
    for direction in Direction::BOTH {
        order.extend([of(Purpose::Capacity, direction), of(Purpose::AvailableBandwidth, direction)]);
    }
    assert!(order.is_sorted(), "{purposes:?}");
    for direction in [&report.up, &report.down] {
        let direction = direction.as_ref().unwrap();
        let available = direction.available_bits_per_second.unwrap();
        assert_eq!(available.covers(path.rate), Some(true), "{direction:?}");
        let capacity = direction.capacity.as_ref().unwrap().bottleneck_bits_per_second.unwrap();
        assert_eq!(capacity.covers(path.rate), Some(true), "{direction:?}");
    }
    assert!(report.delay.as_ref().unwrap().up.is_some());
    // Warnings and reasons are read again as the words that they are written in.
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::to_string(&serde_json::from_str::<Report>(&text).unwrap()).unwrap(), text);
}

#[test]
fn where_udp_does_not_open_many_connections_carry_the_trains() {
    let mut path = Path { udp: false, ..Path::new() };
    let report = path.measure(MeasurementPlan { directions: Directions::Up, ..MeasurementPlan::default() }).unwrap();
    assert_eq!(path.opened.iter().map(|open| open.transport).collect::<Vec<_>>(), [Transport::Udp, Transport::Rake]);
    let up = report.up.unwrap();
    assert_eq!((up.transport, up.connections, report.down), (Transport::Rake, 120, None));
    assert_eq!(up.warnings[0], Warning::NoUdp("no answer".to_owned()));
    assert!(path.sent.iter().all(|sent| sent.purpose != Purpose::PacketSize), "TCP finds its own size");
}

#[test]
fn a_transport_that_was_asked_for_and_does_not_open_is_a_failure() {
    let mut path = Path { udp: false, ..Path::new() };
    let transport = TransportChoice::Fixed(Transport::Udp);
    let failure = path.measure(MeasurementPlan { transport, ..MeasurementPlan::default() }).unwrap_err();
    assert_eq!(failure, Failure::TransportUnavailable { transport: Transport::Udp, reason: "no answer".into() });
}

#[test]
fn packets_are_as_large_as_pass_in_both_directions() {
    let mut path = Path { mtu: 1420, ..Path::new() };
    let report = path.measure(MeasurementPlan::default()).unwrap();
    let tested: Vec<_> = path.sent.iter().filter(|sent| sent.purpose == Purpose::PacketSize).collect();
    let sizes: Vec<_> = tested.iter().map(|sent| (sent.direction, sent.train.segments[0].first_size)).collect();
    // The usual sizes, and what is between those that passed and those that did not.
    assert_eq!(sizes, [(Direction::Up, 1500), (Direction::Up, 1500), (Direction::Up, 1446), (Direction::Down, 1420)]);
    let largest = path.sent[4..].iter().flat_map(|sent| sent.train.packets()).map(|packet| packet.size).max();
    assert_eq!(largest, Some(1420));
    let warnings = report.up.unwrap().warnings;
    assert!(warnings.contains(&Warning::PacketsTooLarge { passed: 1420, lost: 1433 }), "{warnings:?}");
}

#[test]
fn jumbo_frames_are_sent_where_they_pass_and_the_path_is_fast() {
    let plan = MeasurementPlan { directions: Directions::Up, ..MeasurementPlan::default() };
    for (rate, mtu, largest) in [(10_000, 9000, 9000), (50, 9000, 1500), (10_000, 1500, 1500)] {
        let mut path = Path { rate: Rate::from_mbit(rate), mtu, host_mtu: 9000, ..Path::new() };
        path.measure(plan.clone()).unwrap();
        let (tests, trains): (Vec<_>, Vec<_>) = path.sent.iter().partition(|sent| sent.purpose == Purpose::PacketSize);
        let sizes: Vec<_> = tests.iter().map(|sent| sent.train.segments[0].first_size).collect();
        assert_eq!(sizes, [9000, 1500][..if mtu == 9000 { 1 } else { 2 }]);
        let found = trains.iter().flat_map(|sent| sent.train.packets()).map(|packet| packet.size).max();
        assert_eq!(found, Some(largest), "{rate} Mbit/s, {mtu} bytes");
    }
}

/// This host's own interface may be the cause of what it receives, and of no more.
#[test]
fn an_interface_that_coalesces_interrupts_is_named_where_packets_arrive_in_batches() {
    let coalescing = |micros| Some(Coalescing { interface: "eth0".into(), delay: Span::from_micros(micros) });
    let cases =
        [(250, coalescing(250), true), (250, coalescing(8), false), (250, None, false), (0, coalescing(250), false)];
    for (interrupts, coalescing, is_named) in cases {
        let turn = Some(Span::from_micros(interrupts)).filter(|turn| *turn > Span::ZERO);
        let mut path = Path { rate: Rate::from_mbit(400), turn, coalescing, ..Path::new() };
        let report = path.measure(MeasurementPlan::default()).unwrap();
        let names = |report: Option<DirectionReport>| {
            report
                .unwrap()
                .warnings
                .iter()
                .any(|warning| matches!(warning, Warning::Coalescing(name, _) if name == "eth0"))
        };
        assert_eq!([names(report.up), names(report.down)], [false, is_named], "{:?}, {interrupts} µs", path.coalescing);
    }
}

#[test]
fn where_only_small_packets_pass_udp_is_given_up() {
    let mut path = Path { mtu: 600, ..Path::new() };
    let plan = MeasurementPlan { directions: Directions::Down, capacity: false, ..MeasurementPlan::default() };
    let down = path.measure(plan).unwrap().down.unwrap();
    assert_eq!(down.transport, Transport::Rake);
    assert_eq!(down.warnings[0], Warning::NoUdp("only small packets pass".to_owned()));
    assert!(path.sent.iter().take(2).all(|sent| sent.direction == Direction::Down), "up is not asked for");
}

#[test]
fn connections_that_break_are_replaced_by_new_ones_a_few_times() {
    let transport = TransportChoice::Fixed(Transport::Rake);
    let plan = MeasurementPlan { transport, directions: Directions::Up, ..MeasurementPlan::default() };
    let mut path = Path { breaks: |train| train == 3, ..Path::new() };
    let up = path.measure(plan.clone()).unwrap().up.unwrap();
    assert!(
        up.warnings.iter().any(|warning| matches!(warning, Warning::ConnectionsReplaced(1, _))),
        "{:?}",
        up.warnings
    );
    let [first, second] = path.opened[..] else { panic!("{:?}", path.opened) };
    assert!(!first.is_replacement && second.is_replacement);
    assert_eq!((first.first_number, second.first_number), (0, 120), "no number is used twice");
    let mut path = Path { breaks: |_| true, ..Path::new() };
    assert_eq!(path.measure(plan), Err(Failure::ConnectionsKeepBreaking { replacements: 4 }));
}

#[test]
fn the_capacity_leaves_the_method_half_of_the_allowance_at_least() {
    for bytes in [100_000, 400_000, 1_000_000] {
        let mut path = Path::new();
        let budget = RequestedBudget { bytes: Some(bytes), time: None };
        let plan = MeasurementPlan { budget, directions: Directions::Up, ..MeasurementPlan::default() };
        let up = path.measure(plan).unwrap().up.unwrap();
        let capacity = up.capacity.unwrap();
        assert!(capacity.bytes_sent <= bytes / 2, "{bytes}: {}", capacity.bytes_sent);
        assert!(capacity.bytes_sent + up.bytes_sent <= bytes, "{bytes}: {} + {}", capacity.bytes_sent, up.bytes_sent);
    }
}

#[test]
fn long_trains_measure_a_link_whose_packets_arrive_in_batches_while_its_rate_varies() {
    let mut path = Path { rate: Rate::from_mbit(300), turn: Some(Span::from_millis(1)), variation: 0.3, ..Path::new() };
    let plan = MeasurementPlan { directions: Directions::Up, ..MeasurementPlan::default() };
    let up = path.measure(plan).unwrap().up.unwrap();
    let available = up.available_bits_per_second.unwrap_or_else(|| panic!("{:?}", up.reason));
    assert_eq!(available.covers(path.rate), Some(true), "{available:?}");
    assert!((240..360).contains(&(available.value.bits_per_second() / 1_000_000)), "{available:?}");
    assert!(
        up.warnings.iter().any(|w| matches!(w, Warning::Estimate(kumade_estimate::Warning::MeanOfLongTrains(..)))),
        "{:?}",
        up.warnings
    );
    assert_eq!(path.purposes().last(), Some(&(Purpose::VaryingLink, Direction::Up)));
}

#[test]
fn long_trains_keep_within_the_budget() {
    for bytes in [700_000, 1_500_000, 3_000_000] {
        let mut path = Path { turn: Some(Span::from_millis(3)), variation: 0.3, ..Path::new() };
        let budget = RequestedBudget { bytes: Some(bytes), time: None };
        let plan = MeasurementPlan { budget, directions: Directions::Up, ..MeasurementPlan::default() };
        let up = path.measure(plan).unwrap().up.unwrap();
        let spent = up.capacity.map_or(0, |capacity| capacity.bytes_sent) + up.bytes_sent;
        assert!(spent <= bytes, "{bytes}: {spent}");
    }
}

/// Eight packets without a loss stood for "loss OK" on a path that lost 3 %.
#[test]
fn as_many_idle_packets_as_are_asked_for_are_counted_where_tcp_does_not_hide_loss() {
    for (udp, directions, least, most) in [
        (true, Directions::Both, [381, 381], [420, 420]),
        (true, Directions::Down, [8, 381], [32, 420]),
        (false, Directions::Both, [8, 8], [32, 32]),
    ] {
        let mut path = Path { udp, ..Path::new() };
        let plan = MeasurementPlan { min_idle_packets: 381, directions, capacity: false, ..MeasurementPlan::default() };
        let delay = path.measure(plan).unwrap().delay.unwrap();
        let idle = |direction| {
            let idle = path.sent.iter().filter(|it| it.purpose == Purpose::IdleDelay && it.direction == direction);
            idle.map(|it| it.train.packet_count()).sum::<u32>()
        };
        for (direction, packets) in [(Direction::Up, delay.up_packets), (Direction::Down, delay.down_packets)] {
            let (sent, place) = (idle(direction), direction as usize);
            assert!((least[place]..=most[place]).contains(&sent), "{udp}, {directions:?}, {direction}: {sent}");
            assert_eq!(packets.map(|packets| packets.sent), udp.then_some(sent));
        }
    }
}

#[test]
fn idle_trains_end_where_nothing_comes_of_them() {
    let mut path = Path { mtu: 0, ..Path::new() };
    let transport = TransportChoice::Fixed(Transport::Rake);
    let plan = MeasurementPlan { transport, directions: Directions::Up, capacity: false, ..MeasurementPlan::default() };
    let report = path.measure(plan).unwrap();
    let idle = path.sent.iter().filter(|sent| sent.purpose == Purpose::IdleDelay).count();
    assert_eq!((idle, report.up.unwrap().available_bits_per_second), (1, None));
    assert!(report.delay.unwrap().reason.is_some());
}

#[test]
fn the_path_is_filled_at_the_very_end_over_connections_of_its_own() {
    let mut path = Path { udp: false, ..Path::new() };
    let duration = Span::from_secs(4);
    let report = path.measure(MeasurementPlan { load: Some(duration), ..MeasurementPlan::default() }).unwrap();
    let opened = path.opened.last().unwrap();
    let [up, down] = path.loads[..] else { panic!("{:?}", path.loads) };
    assert_eq!([up.direction, down.direction], Direction::BOTH);
    assert_eq!((up.duration, up.first_connection), (duration, opened.first_number + opened.connections));
    assert_eq!(down.first_connection, up.first_connection + up.connections);
    let places: Vec<_> = path.events.iter().map(|event| matches!(event, Event::LoadDone { .. })).collect();
    assert!(places.is_sorted() && places.iter().filter(|done| **done).count() == 2, "{:?}", path.events);
    let up = report.up.unwrap().load.unwrap();
    assert_eq!(up.describe_grade().as_deref(), Some("C"), "{up:?}");
    let down = report.down.unwrap().load.unwrap();
    assert_eq!((down.describe_grade(), down.reason), (None, Some(LoadReason::Other("the server is old".to_owned()))));
}

#[test]
fn only_a_direction_that_is_measured_is_filled() {
    let mut path = Path::new();
    let plan =
        MeasurementPlan { load: Some(Span::from_secs(4)), directions: Directions::Up, ..MeasurementPlan::default() };
    let report = path.measure(plan).unwrap();
    assert_eq!(path.loads.len(), 1);
    assert!(report.up.unwrap().load.is_some());
    path.loads.clear();
    assert!(path.measure(MeasurementPlan::default()).unwrap().up.unwrap().load.is_none() && path.loads.is_empty());
}

#[test]
fn marked_packets_are_sent_once_in_each_direction_before_the_path_is_loaded_and_on_request_alone() {
    let mut path = Path::new();
    let plan = MeasurementPlan { path: true, ..MeasurementPlan::default() };
    let report = path.measure(plan).unwrap().path.unwrap();
    assert_eq!(path.marked.iter().map(|request| request.direction).collect::<Vec<_>>(), Direction::BOTH);
    assert_eq!(report.ecn_readiness.unwrap().grade, EcnGrade::L4s);
    let sizes = [report.up.mtu.unwrap(), report.down.mtu.unwrap()].map(|mtu| (mtu.passed_bytes, mtu.lost_bytes));
    assert_eq!(sizes, [(1500, None); 2]);

    let mut path = Path::new();
    let report = path.measure(MeasurementPlan::default()).unwrap().path.unwrap();
    assert!(path.marked.is_empty() && report.ecn_readiness.is_none(), "{report:?}");
}

#[test]
fn a_measurement_goes_on_where_marked_packets_cannot_be_sent() {
    for (udp, udp_stays_open) in [(true, false), (false, true)] {
        let mut path = Path { udp, udp_stays_open, ..Path::new() };
        let report = path.measure(MeasurementPlan { path: true, ..MeasurementPlan::default() }).unwrap();
        assert!(report.has_result());
        let report = report.path.unwrap();
        assert_eq!(path.marked.len(), usize::from(udp));
        assert_eq!(report.ecn_readiness.unwrap().grade, EcnGrade::Unknown);
        assert!(report.not_known[0].starts_with("ECN over UDP, and DSCP: "), "{:?}", report.not_known);
    }
}

#[test]
fn routers_are_asked_after_the_marked_packets_on_request_alone() {
    let mut path = Path { routers: Some(3), ..Path::new() };
    let plan = MeasurementPlan { path: true, trace: true, ..MeasurementPlan::default() };
    let report = path.measure(plan.clone()).unwrap().path.unwrap();
    let rounds: Vec<_> = path.traced.iter().map(|request| (request.direction, request.trace.probes.len())).collect();
    // The own flow, and five others.
    assert_eq!(rounds, [Direction::Up, Direction::Down].map(|direction| [(direction, 3), (direction, 15)]).concat());
    assert!(path.marked[2..].iter().all(|request| request.train.marks[0].hop_limit == Some(7)), "{:?}", path.marked);
    for trace in [report.up.trace, report.down.trace].map(Option::unwrap) {
        assert_eq!((trace.protocol, trace.hops.len(), trace.changes.len()), (PortProtocol::Udp, 3, 0));
        assert_eq!((trace.far_end.unwrap().arrived, trace.paths.len()), (8, 1));
    }
    let begins = path.events.iter().filter(|event| matches!(event, Event::TraceBegins { max_packets: 378, .. }));
    assert_eq!(begins.count(), 2);

    let mut path = Path { routers: Some(3), ..Path::new() };
    let report = path.measure(MeasurementPlan { path: true, ..MeasurementPlan::default() }).unwrap().path.unwrap();
    assert!(report.up.trace.is_none() && path.traced.is_empty(), "{report:?}");
    // Where it is not known how far the far end is, or packets can't be sent, the measurement goes on.
    for (routers, udp_stays_open) in [(None, true), (Some(3), false)] {
        let mut path = Path { routers, udp_stays_open, ..Path::new() };
        let report = path.measure(plan.clone()).unwrap();
        assert!(report.has_result());
        let not_known = report.path.unwrap().not_known;
        assert!(not_known.iter().any(|text| text.starts_with("the routers on the way up: ")), "{not_known:?}");
    }
}

#[test]
fn over_tcp_routers_on_the_way_up_are_asked_by_syns() {
    let mut path = Path { routers: Some(3), udp: false, ..Path::new() };
    let plan = MeasurementPlan { path: true, trace: true, ..MeasurementPlan::default() };
    let report = path.measure(plan).unwrap().path.unwrap();
    assert!(
        path.traced.iter().all(|request| request.protocol == PortProtocol::Tcp && request.direction == Direction::Up)
    );
    let trace = report.up.trace.unwrap();
    assert_eq!((trace.protocol, trace.hops.len(), trace.far_end), (PortProtocol::Tcp, 3, None));
    assert_eq!((trace.dscp.as_str(), trace.ecn.as_str()), ("EF", "Not-ECT"));
    assert!(report.down.trace.is_none());
    let is_said = |text: &String| text.starts_with("the routers on the way down: over TCP");
    assert!(report.not_known.iter().any(is_said), "{:?}", report.not_known);
}

#[test]
fn queues_are_filled_once_their_direction_is_measured_and_on_request_alone() {
    let mut path = Path::new();
    let report = path.measure(MeasurementPlan { path: true, ..MeasurementPlan::default() }).unwrap().path.unwrap();
    let directions: Vec<_> = path.queues_filled.iter().map(|request| request.direction).collect();
    assert_eq!(directions, [[Direction::Up; 3], [Direction::Down; 3]].concat(), "once for each codepoint");
    for found in [&report.up, &report.down] {
        assert_eq!(found.queue_marking.as_ref().map(|found| found.kind), Some(QueueMarkingKind::NoneSeen));
        assert!(found.queue_classes.is_none());
    }

    let mut path = Path::new();
    let plan = MeasurementPlan { path: true, queues: true, directions: Directions::Up, ..MeasurementPlan::default() };
    let report = path.measure(plan).unwrap().path.unwrap();
    assert_eq!(report.up.queue_classes.map(|found| found.queues), Some(QueueCount::One));
    assert!(report.down.queue_marking.is_none() && report.down.queue_classes.is_none());
    let classes = &path.queues_filled[3..];
    let bytes: u64 = classes.iter().map(|request| request.train.train.bytes()).sum();
    let begins =
        path.events.iter().filter(|event| matches!(event, Event::QueuesBegin { max_bytes, .. } if bytes <= *max_bytes));
    assert_eq!((classes.len(), begins.count()), (3, 1));

    let mut path = Path::new();
    path.measure(MeasurementPlan::default()).unwrap();
    assert!(path.queues_filled.is_empty());
    // Where they cannot be sent, the measurement goes on.
    let mut path = Path { udp_stays_open: false, ..Path::new() };
    let plan = MeasurementPlan { path: true, queues: true, ..MeasurementPlan::default() };
    assert!(path.measure(plan).unwrap().has_result());
}

#[test]
fn the_mtu_of_each_direction_is_in_the_report() {
    let mut path = Path { mtu: 1492, ..Path::new() };
    let report = path.measure(MeasurementPlan::default()).unwrap().path.unwrap();
    let sizes = [report.up.mtu.unwrap(), report.down.mtu.unwrap()].map(|mtu| (mtu.passed_bytes, mtu.lost_bytes));
    assert_eq!(sizes, [(1492, Some(1500)), (1492, None)], "larger ones are not tried again");
}
