use super::*;
use kumade_estimate::delay::Deliveries;
use kumade_estimate::{Outcome, Reason};
use kumade_measurement::Cost;
use kumade_measurement::report::{DelayReport, DirectionReport, ErrorReport, PacketReport};
use kumade_probe_train::{Estimate, Transport};
use kumade_units::Rate;
use proptest::prelude::*;

const BOTH: [Direction; 2] = Direction::BOTH;

fn thresholds(texts: &[&str]) -> Vec<Threshold> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn empty_report() -> Report {
    let error = ErrorReport { kind: String::new(), message: String::new(), hint: None };
    Report { error: None, ..Report::failed(String::new(), String::new(), error) }
}

fn direction(change: impl FnOnce(&mut DirectionReport)) -> Option<DirectionReport> {
    let outcome = Outcome::without_value(Reason::NoPacketArrived);
    let mut report = DirectionReport::new(Transport::Udp, 0, "primed", outcome, None, &Cost::default());
    change(&mut report);
    Some(report)
}

fn mbit(value: u64) -> Rate {
    Rate::from_bits_per_second(value * 1_000_000)
}

fn available(value: u64, low: u64, high: u64) -> Option<DirectionReport> {
    let [value, low, high] = [value, low, high].map(mbit);
    direction(|found| found.available_bits_per_second = Some(Estimate { value, low, high, confidence: 0.95 }))
}

fn state_of(up: Option<DirectionReport>, check: &str) -> State {
    verdict(&thresholds(&[check]), &[Direction::Up], Ok(&Report { up, ..empty_report() })).0
}

#[test]
fn only_what_is_sure_is_critical() {
    let check = "available=20mbit:,10mbit:";
    for (found, state) in [
        (available(50, 40, 60), State::Ok),
        (available(21, 15, 30), State::Ok),
        (available(19, 15, 25), State::Ok),
        (available(21, 9, 30), State::Unknown),
        (available(15, 9, 25), State::Unknown),
        (available(15, 12, 19), State::Warning),
        (available(11, 8, 15), State::Warning),
        (available(9, 8, 15), State::Warning),
        (available(9, 8, 25), State::Warning),
        (available(9, 8, 9), State::Critical),
        (direction(|found| found.at_least_bits_per_second = Some(mbit(20))), State::Ok),
        (direction(|found| found.at_least_bits_per_second = Some(mbit(15))), State::Unknown),
        (direction(|found| found.at_most_bits_per_second = Some(mbit(30))), State::Unknown),
        (direction(|found| found.at_most_bits_per_second = Some(mbit(15))), State::Warning),
        (direction(|found| found.at_most_bits_per_second = Some(mbit(9))), State::Critical),
        (direction(|_| ()), State::Unknown),
        (None, State::Unknown),
    ] {
        assert_eq!(state_of(found.clone(), check), state, "{found:?}");
    }
}

fn loss(lost: u32, sent: u32) -> PacketReport {
    PacketReport::from_trains(Deliveries { sent, arrived: sent - lost, lost, ..Deliveries::default() })
}

/// `loss=1%,5%` was OK where none of eight packets was lost, of a path that loses 3 %, and never critical where it lost 10 %.
#[test]
fn loss_is_ok_only_where_enough_packets_say_so() {
    let check = thresholds(&["loss-up=1%,5%"]);
    let state = |lost, sent| {
        let delay = DelayReport { up_packets: Some(loss(lost, sent)), ..DelayReport::new("trains") };
        verdict(&check, &[Direction::Up], Ok(&Report { delay: Some(delay), ..empty_report() }))
    };
    let sent = packets_to_tell_loss(&check);
    for (lost, sent, expected) in [
        (0, 8, State::Unknown),
        (1, 8, State::Warning),
        (0, sent, State::Ok),
        (sent * 3 / 100, sent, State::Warning),
        (sent / 10, sent, State::Critical),
    ] {
        let (state, line) = state(lost, sent);
        assert_eq!(state, expected, "{lost} of {sent}: {line}");
    }
    let [(_, open), (_, sure), (_, unsure)] = [state(0, 8), state(0, sent), state(2, sent)];
    assert!(open.contains("(0.00 % … 32.44 %), which leaves open whether it is critical"), "{open}");
    assert!(sure.starts_with("KUMADE OK: loss up 0.00 % (0.00 % … 1.00 %) |"), "{sure}");
    assert!(unsure.contains(") may be beyond the warning threshold |"), "{unsure}");
}

#[test]
fn packets_follow_from_the_thresholds_up_to_a_bound() {
    for (checks, packets) in [
        (&["available=20mbit:", "loss"][..], 0),
        (&["loss=1%,5%"], 381),
        (&["loss-up=,5%", "delay=1ms"], 73),
        (&["loss=,5%", "loss-down=2%"], 189),
        (&["loss=0.5%"], 765),
        (&["loss=0"], 800),
        (&["loss=0.01%"], 800),
        // What alerts without a loss needs none to be told.
        (&["loss=@0:1%"], 0),
        (&["loss=@10%:20%"], 35),
    ] {
        assert_eq!(packets_to_tell_loss(&thresholds(checks)), packets, "{checks:?}");
    }
}

#[test]
fn a_line_has_the_state_the_figures_and_performance_data() {
    let packets = PacketReport {
        sent: 200,
        arrived: 198,
        late: None,
        lost: 2,
        loss_ratio: Estimate { value: 0.01, low: 0.0025, high: 0.035, confidence: 0.95 },
        duplicates: None,
        reordered: 0,
        reordering_ratio: 0.0,
        reordering_extent: 0,
    };
    let delay = DelayReport { up_packets: Some(packets), ..DelayReport::new("trains") };
    let report = Report { up: available(18, 17, 19), delay: Some(delay), ..empty_report() };
    let checks = thresholds(&["available-up=20mbit:,10mbit:", "loss-up=0.5%,@10%:20%", "round-trip"]);
    let (state, line) = verdict(&checks, &BOTH, Ok(&report));
    assert_eq!(state, State::Warning);
    assert_eq!(
        line,
        "KUMADE WARNING: available up 18 Mbit/s (17 Mbit/s … 19 Mbit/s) is beyond the warning threshold, \
         loss up 1.00 % (0.25 % … 3.50 %) is beyond the warning threshold, but not for sure, \
         round trip is not known: no value | 'available_up'=18000000;20000000:;10000000:;0; \
         'available_up_low'=17000000;;;0; 'available_up_high'=19000000;;;0; \
         'loss_up'=1%;0.5;@10:20;0;100 'loss_up_low'=0.25%;;;0;100 'loss_up_high'=3.5%;;;0;100 \
         'round_trip'=U;;;0; 'round_trip_low'=U;;;0; 'round_trip_high'=U;;;0;"
    );
}

#[test]
fn no_data_is_unknown_and_the_reason_is_one_line() {
    let (state, line) = verdict(&thresholds(&["loss"]), &BOTH, Err("no answer|\nfrom far"));
    assert_eq!((state.exit_status(), line.as_str()), (3, "KUMADE UNKNOWN: no answer  from far"));
    let (state, _) = verdict(&thresholds(&["available", "loss"]), &BOTH, Ok(&empty_report()));
    assert_eq!(state, State::Unknown);
}

#[test]
fn the_worst_state_counts() {
    let report = Report { up: available(9, 8, 9), down: available(90, 80, 99), ..empty_report() };
    let of = |checks: &[&str]| verdict(&thresholds(checks), &BOTH, Ok(&report)).0;
    assert_eq!(of(&["available=,10mbit:"]), State::Critical);
    assert_eq!(of(&["available-down=,10mbit:"]), State::Ok);
    assert_eq!(of(&["available-down=,10mbit:", "loss"]), State::Unknown);
    assert_eq!(of(&["loss", "available-up=10mbit:"]), State::Warning);
}

#[test]
fn thresholds_that_make_no_sense_are_named() {
    for (text, reason) in [
        ("jitter=1ms", "`jitter` cannot be checked"),
        ("round-trip-up=1ms", "`round-trip-up` cannot be checked"),
        ("loss=1", "write it like 1%"),
        ("available=20", "it has no unit"),
        ("delay=20mbit", "the unit is unknown"),
        ("available=,20mbit:10mbit", "its start is above its end"),
        ("delay=1ms,2ms,3ms", "is not a time"),
    ] {
        let refused = text.parse::<Threshold>().unwrap_err();
        assert!(refused.contains(reason), "{text}: {refused}");
    }
    let not_measured = |text: &str, directions, is_stamp| {
        text.parse::<Threshold>().unwrap().check_measured(directions, is_stamp).is_err()
    };
    assert!(not_measured("available", &BOTH, true) && !not_measured("loss", &BOTH, true));
    assert!(not_measured("loss-up", &[Direction::Down], false) && !not_measured("loss", &[Direction::Down], false));
    assert!(not_measured("round-trip", &[Direction::Down], false));
    // It would be UNKNOWN for ever.
    assert!(not_measured("loss=0.1%,0.3%", &BOTH, false) && !not_measured("loss=0.1%,0.5%", &BOTH, false));
}

proptest! {
    /// A narrower interval around the same value changes no alert into a better one but where it was not for sure, and what is OK for
    /// sure stays so: nothing within an interval is worse than what the interval was judged, by more than one state; what leaves more open
    /// tells nothing.
    #[test]
    fn what_an_interval_is_judged_holds_for_its_value(value in 1u64..100, below in 0u64..50, above in 0u64..50) {
        let wide = state_of(available(value, value.saturating_sub(below), value + above), "available=40mbit:,20mbit:");
        let exact = state_of(available(value, value, value), "available=40mbit:,20mbit:");
        let may_be_critical = value.saturating_sub(below) < 20;
        let is_consistent = match wide {
            State::Unknown => may_be_critical && exact != State::Critical && value + above >= 40,
            State::Ok => !may_be_critical,
            _ => wide == exact || wide.exit_status() + 1 == exact.exit_status(),
        };
        prop_assert!(is_consistent, "{wide}, {exact}");
        let crossed = value + above < 20;
        prop_assert_eq!(wide == State::Critical, crossed);
    }
}
