use super::*;
use kumade_probe_train::MarkedArrival;

const EF_ECT0: u8 = 46 << 2 | 0b10;
const TIME_EXCEEDED: u8 = 11;

/// A router's last octet of 10.0.0.0/24, and the octet that it quotes; none does not answer.
type Router = Option<(u8, u8)>;

fn probe(routers: u8, protocol: PortProtocol) -> TraceProbe {
    TraceProbe::new(Direction::Up, protocol, EF_ECT0, routers, Span::from_millis(10))
}

/// Traces a path of so many routers, on which a flow meets this router at a hop; the far end gets this octet, if any. In a step, no more than five
/// packets leave, or all.
fn trace(
    mut probe: TraceProbe,
    router: impl Fn(u8, u8) -> Router,
    at_far_end: Option<u8>,
    at_once: usize,
) -> (TraceProbe, u32) {
    let mut packets = 0;
    while let Some(step) = probe.next_step(Span::from_secs(1)) {
        match step {
            TraceStep::Arrival(train) => {
                assert_eq!(train.check(), Ok(()));
                packets += train.marks.len() as u32;
                let sent = 0..train.marks.len() as u32;
                let arrival = |index| Some(MarkedArrival { index, ds_field: Some(at_far_end?), hop_limit: None });
                let arrivals = sent.clone().filter_map(arrival).collect();
                probe.record_arrivals(&MarkedRecord { sent: sent.collect(), arrivals });
            }
            TraceStep::Hops(trace) => {
                assert_eq!(trace.check(), Ok(()));
                let sent: Vec<u32> = (0..trace.probes.len().min(at_once) as u32).collect();
                packets += sent.len() as u32;
                let answer = |index: &u32| {
                    let HopProbe { flow, hop_limit } = trace.probes[*index as usize];
                    let (from, quoted) = router(hop_limit, flow)?;
                    Some(HopAnswer {
                        index: *index,
                        from: Some([10, 0, 0, from].into()),
                        is_v6: false,
                        icmp_type: TIME_EXCEEDED,
                        icmp_code: 0,
                        round_trip: Span::from_millis(i64::from(hop_limit)),
                        quoted_ds_field: Some(quoted),
                    })
                };
                let answers = sent.iter().filter_map(answer).collect();
                probe.record_answers(&trace, &HopTraceRecord { sent, answers, can_read_quotes: true });
            }
        }
    }
    assert!(packets <= probe.max_packets(), "{packets}");
    (probe, packets)
}

/// Router `n` quotes octet `n - 1` of these to all flows, or does not answer.
fn trace_one_way(quotes: &[Option<u8>], at_far_end: Option<u8>) -> (TraceProbe, u32) {
    let router = |hop: u8, _| Some((hop, (*quotes.get(usize::from(hop) - 1)?)?));
    trace(probe(quotes.len() as u8, PortProtocol::Udp), router, at_far_end, usize::MAX)
}

fn changes(quotes: &[Option<u8>], at_far_end: Option<u8>) -> Vec<(String, String, u8, Option<u8>)> {
    let found = trace_one_way(quotes, at_far_end).0.report().unwrap().changes;
    found.into_iter().map(|change| (change.field, change.to, change.after_hop, change.before_hop)).collect()
}

fn change(field: &str, to: &str, after: u8, before: Option<u8>) -> (String, String, u8, Option<u8>) {
    (field.to_owned(), to.to_owned(), after, before)
}

#[test]
fn each_router_is_asked_by_six_flows_and_one_that_does_not_answer_twice() {
    let (probe, packets) = trace_one_way(&[Some(EF_ECT0), None, Some(EF_ECT0), Some(EF_ECT0)], Some(EF_ECT0));
    assert_eq!(packets, 2 * 4 + 3 * 6 + 2);
    let report = probe.report().unwrap();
    let counts: Vec<_> = report.hops.iter().map(|hop| (hop.hop, hop.sent, hop.answered, hop.flows_answered)).collect();
    assert_eq!(counts, [(1, 6, 6, 6), (2, 2, 0, 0), (3, 6, 6, 6), (4, 6, 6, 6)]);
    let third = &report.hops[2];
    assert_eq!(third.addresses, [("10.0.0.3".to_owned(), 6)].into());
    assert_eq!(third.answers, [("time exceeded".to_owned(), 6)].into());
    assert_eq!(
        (third.round_trip_seconds, third.dscp.get("EF"), third.ecn.get("ECT(0)")),
        (Some(0.003), Some(&6), Some(&6))
    );
    assert_eq!((report.dscp.as_str(), report.ecn.as_str()), ("EF", "ECT(0)"));
    let far_end = report.far_end.unwrap();
    assert_eq!((far_end.sent, far_end.arrived), (8, 8));
    assert!(report.changes.is_empty(), "{:?}", report.changes);
    let addresses = [Some(1), None, Some(3), Some(4)].map(|hop| hop.map(|hop| format!("10.0.0.{hop}"))).to_vec();
    assert_eq!(report.paths, [crate::report::TracePathReport { flows: 6, addresses }]);
    assert_eq!((report.paths_confidence, report.unknown_hops), (Some(1.0 - 2.0 / 64.0), vec![2]));
    assert_eq!(probe.missing_quotes(), None);
}

#[test]
fn where_flows_are_spread_as_many_are_sent_as_it_takes_to_find_all_members() {
    // Two at the second hop; a third router there takes no flow, and one at the third hop does not answer.
    let router = |hop: u8, flow: u8| match hop {
        2 => Some((20 + flow % 2, EF_ECT0)),
        3 if flow % 2 == 1 => None,
        hop => Some((hop, EF_ECT0)),
    };
    let (found, packets) = trace(probe(4, PortProtocol::Udp), router, Some(EF_ECT0), usize::MAX);
    let report = found.report().unwrap();
    assert_eq!(report.hops[1].addresses, [("10.0.0.20".to_owned(), 9), ("10.0.0.21".to_owned(), 8)].into());
    let path = |flows, second| crate::report::TracePathReport {
        flows,
        addresses: [Some(1), Some(second), None, Some(4)].map(|hop| hop.map(|hop| format!("10.0.0.{hop}"))).to_vec(),
    };
    assert_eq!((report.paths, report.unknown_hops), (vec![path(6, 20), path(5, 21)], vec![3]));
    let confidence = report.paths_confidence.unwrap();
    assert!((0.95..0.99).contains(&confidence), "{confidence}");
    // Eleven flows at each hop, five once more where the third one does not answer, and six where two do.
    assert_eq!(packets, 3 * 11 + 11 + 5 + 6 + 4 * 4);
    // More than it takes 27 flows to find are not said to be all.
    let (found, _) = trace(probe(1, PortProtocol::Tcp), |_, flow| Some((flow, 0)), None, usize::MAX);
    let report = found.report().unwrap();
    assert_eq!((report.paths.len(), report.paths_confidence), (27, Some(0.0)));
    assert!(report.far_end.is_none(), "no SYN is sent to the far end");
}

#[test]
fn a_change_is_between_the_places_where_it_is_seen() {
    let (kept, no_dscp) = (Some(EF_ECT0), Some(0b10));
    assert_eq!(changes(&[kept, kept, no_dscp], no_dscp), [change("DSCP", "CS0", 2, Some(3))]);
    assert_eq!(changes(&[kept, None, None], Some(46 << 2)), [change("ECN", "Not-ECT", 1, None)]);
    assert_eq!(changes(&[no_dscp], Some(0)), [change("DSCP", "CS0", 0, Some(1)), change("ECN", "Not-ECT", 1, None)]);
    // A router quotes what it would have sent.
    assert_eq!(changes(&[kept, no_dscp, kept], kept), []);
    assert_eq!(changes(&[], no_dscp), [change("DSCP", "CS0", 0, None)]);
    // Only the way of the own flow is compared with what arrives.
    let router = |hop: u8, flow: u8| Some((hop, if flow == 0 { EF_ECT0 } else { 0b10 }));
    let (found, _) = trace(probe(2, PortProtocol::Udp), router, kept, usize::MAX);
    assert_eq!(found.report().unwrap().changes, []);
}

#[test]
fn answers_beyond_what_was_sent_count_for_nothing() {
    let mut probe = probe(2, PortProtocol::Udp);
    let probes = [1, 2].map(|hop_limit| HopProbe { flow: 0, hop_limit }).to_vec();
    let max_duration = Span::from_secs(1);
    let trace = HopTrace { ds_field: EF_ECT0, probes, timeout: Span::ZERO, max_duration };
    let answer = |index| HopAnswer {
        index,
        from: None,
        is_v6: true,
        icmp_type: 3,
        icmp_code: 0,
        round_trip: Span::from_millis(1),
        quoted_ds_field: None,
    };
    let of_time = |round_trip| HopAnswer { round_trip, ..answer(0) };
    let of_router = |from: &str| HopAnswer { from: Some(from.parse().unwrap()), ..answer(0) };
    let impossible = [
        of_time(Span::from_nanos(-1)),
        of_time(max_duration + Span::from_nanos(1)),
        of_time(Span::MAX),
        of_router("10.0.0.1"),
        of_router("ff02::1"),
        of_router("::"),
    ];
    probe.record_answers(
        &trace,
        &HopTraceRecord { sent: vec![0], answers: impossible.to_vec(), can_read_quotes: false },
    );
    assert_eq!(probe.report().unwrap().hops[0].answered, 0);
    let answers = [0, 0, 1, 7, u32::MAX].map(answer).to_vec();
    probe.record_answers(&trace, &HopTraceRecord { sent: vec![0, 9], answers, can_read_quotes: false });
    probe.record_arrivals(&MarkedRecord {
        sent: [vec![0, 1, 4, u32::MAX], vec![1; 9999]].concat(),
        arrivals: [0, 0, 3, 4].map(|index| MarkedArrival { index, ds_field: None, hop_limit: None }).to_vec(),
    });
    let report = probe.report().unwrap();
    assert_eq!((report.hops.len(), report.hops[0].sent, report.hops[0].answered), (1, 2, 1));
    let far_end = report.far_end.unwrap();
    assert_eq!((far_end.sent, far_end.arrived), (2, 1));
    assert_eq!((report.paths.len(), report.paths_confidence), (0, None));
    assert!(probe.missing_quotes().unwrap().contains("CAP_NET_RAW"));
}

#[test]
fn where_nothing_arrives_some_more_are_asked_and_nothing_is_asked_without_time() {
    let (found, packets) = trace_one_way(&[Some(EF_ECT0), Some(EF_ECT0)], None);
    assert_eq!((packets, found.hops.len()), (2 * 4 + 2 * 6 + 2 * 2, 4));
    assert_eq!(probe(7, PortProtocol::Udp).next_step(Span::ZERO), None);
    assert_eq!(probe(7, PortProtocol::Udp).report(), None);
    // Rounds are divided where there is no time for all.
    let all = |hop: u8, _| Some((hop, EF_ECT0));
    assert_eq!(trace(probe(7, PortProtocol::Udp), all, Some(EF_ECT0), 5).1, 9 * 4 + 6 * 7);
    // No more hops than an octet counts, of as many flows as there may be, of which each answer is another's.
    let (found, packets) =
        trace(probe(255, PortProtocol::Tcp), |hop, flow| Some((hop ^ flow << 3, 0)), None, usize::MAX);
    assert_eq!(packets, 30 * (27 + 6));
    assert!(found.max_packets() >= packets);
}
#[test]
fn where_packets_of_a_flow_are_spread_no_paths_are_told() {
    // At the second hop, four packets in a row go to one router, and the next ones to the other, whatever their flow.
    let turn = std::cell::Cell::new(0);
    let router = |hop: u8, _| {
        turn.set(turn.get() + u8::from(hop == 2));
        Some((if hop == 2 { 20 + turn.get() / 4 % 2 } else { hop }, EF_ECT0))
    };
    let (found, _) = trace(probe(3, PortProtocol::Udp), router, Some(EF_ECT0), usize::MAX);
    let report = found.report().unwrap();
    assert_eq!(report.hops[1].addresses.len(), 2);
    assert_eq!((report.paths, report.paths_confidence, report.unsteady_hops), (vec![], None, vec![2]));
}

#[test]
fn marks_of_other_paths_are_not_taken_for_those_of_the_own_flow() {
    // The own flow has no answer at the second hop, where a mark is changed; half of the others have another first router.
    let router = |own_third: u8| {
        move |hop: u8, flow: u8| match (hop, flow) {
            (1, flow) => Some((1 + flow % 2 * 10, EF_ECT0)),
            (2, 0) => None,
            (2, _) => Some((2, 0b10)),
            (3, 0) => Some((own_third, EF_ECT0)),
            (3, _) => Some((3, EF_ECT0)),
            (hop, _) => Some((hop, EF_ECT0)),
        }
    };
    let octets = |own_third| {
        let (found, _) = trace(probe(3, PortProtocol::Udp), router(own_third), Some(EF_ECT0), usize::MAX);
        found.quoted_octets()[1].1.len()
    };
    assert_eq!((octets(30), octets(3)), (0, 5));
}

#[test]
fn a_flow_that_cannot_be_sent_is_not_asked_for_again_and_steps_are_bounded() {
    let mut first = probe(30, PortProtocol::Tcp);
    let mut asked = 0;
    while let Some(TraceStep::Hops(trace)) = first.next_step(Span::from_secs(1)) {
        asked += trace.probes.len();
        first.record_answers(&trace, &HopTraceRecord::default());
    }
    assert_eq!(asked, 30, "the own flow, once");
    // One packet at a time.
    let (mut second, mut steps) = (probe(30, PortProtocol::Udp), 0);
    while let Some(step) = second.next_step(Span::from_secs(1)) {
        steps += 1;
        match step {
            TraceStep::Hops(trace) => second
                .record_answers(&trace, &HopTraceRecord { sent: vec![0], answers: Vec::new(), can_read_quotes: false }),
            TraceStep::Arrival(_) => {
                second.record_arrivals(&MarkedRecord { sent: vec![0; 100_000], arrivals: Vec::new() });
            }
        }
    }
    assert_eq!(steps, 2 * MAX_STEPS);
    assert_eq!(second.report().unwrap().far_end.unwrap().sent, MAX_STEPS);
}

#[test]
fn packets_for_the_far_end_have_hops_to_spare_on_any_path() {
    for (routers, expected) in [(3, 7), (30, 34), (40, 44), (255, 255)] {
        let Some(TraceStep::Arrival(train)) = probe(routers, PortProtocol::Udp).next_step(Span::from_secs(1)) else {
            panic!("none")
        };
        assert_eq!(train.marks[0].hop_limit, Some(expected));
    }
    assert!(probe(255, PortProtocol::Udp).max_packets() <= 1980 + 4 * MAX_STEPS);
}
