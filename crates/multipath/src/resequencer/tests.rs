use super::*;
use crate::message::NUMBER_BITS;
use crate::sequencer::Sequencer;
use kumade_units::Span;

/// A sender and a receiver with the datagrams between them in the test's hands.
struct Ends {
    sequencer: Sequencer,
    counters: [u64; PathId::MAX_PATHS],
    resequencer: Resequencer<u32>,
    out: Vec<u32>,
}

/// What is delivered when all waits.
const NOTHING: [u32; 0] = [];

type Datagram = (ArrivedData<Vec<Predecessor>>, u32);

fn path(number: u8) -> PathId {
    PathId::new(number).unwrap()
}

fn time_at_millis(millis: i64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn delay(least: i64, most: i64) -> DelayRange {
    DelayRange { min: Span::from_millis(least), max: Span::from_millis(most) }
}

impl Ends {
    fn new(config: ResequencerConfig) -> Self {
        let resequencer = Resequencer::new(config);
        Ends { sequencer: Sequencer::new(), counters: [0; PathId::MAX_PATHS], resequencer, out: Vec::new() }
    }

    fn counter(&mut self, over: u8) -> u64 {
        let counter = &mut self.counters[usize::from(over)];
        *counter += 1;
        *counter - 1
    }

    /// A packet of a bucket leaves over each of these paths.
    fn send(&mut self, bucket: u16, over: &[u8], payload: u32) -> Vec<Datagram> {
        let copies: Vec<_> = over.iter().map(|over| (path(*over), self.counter(*over))).collect();
        let assignment = self.sequencer.assign(bucket, copies.iter().copied());
        let header =
            DataHeader { bucket, number: assignment.number, is_redundant: copies.len() > 1, ..DataHeader::default() };
        let datagram = |(path, counter): (PathId, u64)| {
            let predecessors = assignment.predecessors(path).collect();
            (ArrivedData { path, counter, header, predecessors, bytes: 1000 }, payload)
        };
        copies.into_iter().map(datagram).collect()
    }

    /// Packets of bucket 0 with payloads counted from 0 leave over these paths, one after the other.
    fn send_over(&mut self, paths: &[u8]) -> Vec<Datagram> {
        (0..).zip(paths).flat_map(|(payload, over)| self.send(0, &[*over], payload)).collect()
    }

    /// A datagram arrives; returns what is delivered.
    fn arrive(&mut self, datagram: &Datagram, now: Time) -> Vec<u32> {
        let (arrival, payload) = datagram.clone();
        self.resequencer.receive(arrival, payload, now, &mut self.out);
        std::mem::take(&mut self.out)
    }

    fn arrive_all<'d>(&mut self, datagrams: impl IntoIterator<Item = &'d Datagram>, now: Time) -> Vec<u32> {
        datagrams.into_iter().flat_map(|datagram| self.arrive(datagram, now)).collect()
    }

    fn expire(&mut self, now: Time) -> Vec<u32> {
        self.resequencer.expire(now, &mut self.out);
        std::mem::take(&mut self.out)
    }
}

fn ends() -> Ends {
    Ends::new(ResequencerConfig::default())
}

#[test]
fn what_arrives_in_order_passes_at_once() {
    let mut ends = ends();
    let sent = ends.send_over(&[0, 1, 0, 1]);
    for (payload, datagram) in (0..).zip(&sent) {
        assert_eq!(ends.arrive(datagram, time_at_millis(1)), [payload]);
    }
    assert_eq!((ends.resequencer.deadline(), ends.resequencer.waiting_totals()), (None, (0, 0)));
    let expected = ResequencerStatistics { in_order: 4, ..ResequencerStatistics::default() };
    assert_eq!(*ends.resequencer.statistics(), expected);
}

#[test]
fn the_faster_paths_packets_wait_for_the_slower_paths() {
    let mut ends = ends();
    let sent = ends.send_over(&[0, 1, 0, 1, 0]);
    assert_eq!(ends.arrive_all([&sent[0], &sent[2], &sent[4]], time_at_millis(0)), [0]);
    assert_eq!(ends.resequencer.waiting_totals(), (2, 2000));
    assert_eq!(ends.arrive(&sent[1], time_at_millis(25)), [1, 2]);
    assert_eq!(ends.arrive(&sent[3], time_at_millis(26)), [3, 4]);
    let statistics = ends.resequencer.statistics();
    assert_eq!((statistics.in_order, statistics.lost, statistics.max_depth), (5, 0, 2));
    let waits = statistics.waits;
    assert_eq!((waits.count, waits.total_wait, waits.max_wait), (2, Span::from_millis(51), Span::from_millis(26)));
}

#[test]
fn a_gap_is_over_when_its_path_has_passed_it_and_waits_for_no_other_path() {
    let mut ends = ends();
    let sent = ends.send_over(&[2, 0, 1, 0, 1]);
    assert_eq!(ends.arrive(&sent[0], time_at_millis(0)), [0]);
    // 1 is lost on path 0. Path 2 is idle and has nothing to say.
    assert_eq!(ends.arrive_all([&sent[2], &sent[4]], time_at_millis(1)), NOTHING);
    assert_eq!(ends.arrive(&sent[3], time_at_millis(2)), [2, 3, 4]);
    let statistics = ends.resequencer.statistics();
    assert_eq!((statistics.lost, statistics.expired), (1, 0));
}

#[test]
fn a_packet_of_another_bucket_or_a_probe_shows_a_loss_too() {
    for probe in [false, true] {
        let mut ends = ends();
        let sent = ends.send_over(&[0, 1]);
        assert_eq!(ends.arrive(&sent[1], time_at_millis(1)), NOTHING);
        if probe {
            let counter = ends.counter(0);
            ends.resequencer.datagram_passed(path(0), counter, time_at_millis(2), &mut ends.out);
            assert_eq!(ends.out, [1]);
        } else {
            let other = ends.send(9, &[0], 7);
            assert_eq!(ends.arrive(&other[0], time_at_millis(2)), [7, 1]);
        }
    }
}

#[test]
fn what_other_buckets_have_on_a_path_holds_nothing_up() {
    let mut ends = ends();
    let sent = ends.send(0, &[0], 0);
    let other = ends.send(1, &[1], 1);
    let next = ends.send(0, &[0], 2);
    assert_eq!(ends.arrive_all([&sent[0], &next[0], &other[0]], time_at_millis(0)), [0, 2, 1]);
}

#[test]
fn a_burst_of_losses_of_any_length_ends_as_soon_as_its_paths_have_passed_it() {
    let mut ends = ends();
    let paths: Vec<u8> = (0..3).cycle().take(1000).collect();
    let sent = ends.send_over(&paths);
    assert_eq!(ends.arrive_all(&sent[..2], time_at_millis(0)), [0, 1]);
    assert_eq!(ends.arrive(&sent[997], time_at_millis(1)), NOTHING);
    assert_eq!(ends.arrive(&sent[999], time_at_millis(1)), NOTHING);
    // 2 … 996, 998: path 2 is still missing; it may have had 998, but then 997 need not wait.
    assert_eq!(ends.resequencer.waiting_totals().0, 2);
    assert_eq!(ends.arrive(&sent[995], time_at_millis(2)), [995, 997]);
    assert_eq!(ends.arrive(&sent[998], time_at_millis(2)), [998, 999]);
    assert_eq!(ends.resequencer.statistics().lost, 994);
}

#[test]
fn what_nothing_follows_on_its_path_is_given_up_after_the_difference_of_the_delays_and_a_margin() {
    let config = ResequencerConfig { wait_margin: Span::from_millis(5), ..ResequencerConfig::default() };
    let mut ends = Ends::new(config);
    ends.resequencer.set_delay(path(0), Some(delay(20, 70)));
    ends.resequencer.set_delay(path(1), Some(delay(40, 90)));
    let sent = ends.send_over(&[0, 1, 1, 1]);
    assert_eq!(ends.arrive(&sent[1], time_at_millis(100)), NOTHING);
    assert_eq!(ends.resequencer.deadline(), Some(time_at_millis(135)));
    assert_eq!(ends.arrive(&sent[3], time_at_millis(101)), NOTHING);
    assert_eq!(ends.expire(time_at_millis(134)), NOTHING);
    // 2 is lost as well, but its path has passed it; what path 0 had before is not waited for again.
    assert_eq!(ends.expire(time_at_millis(135)), [1, 3]);
    assert_eq!((ends.resequencer.deadline(), ends.resequencer.statistics().expired), (None, 1));
    assert_eq!(ends.arrive(&sent[0], time_at_millis(140)), [0], "late is better than never");
    assert_eq!(ends.arrive(&sent[0], time_at_millis(141)), NOTHING);
    let ResequencerStatistics { lost, late, duplicates, .. } = *ends.resequencer.statistics();
    assert_eq!((lost, late, duplicates), (2, 1, 1));
}

/// Found with tunnels over many connections, of which one waits for its retransmission timer: what it had was dropped, and the
/// connection inside waited for a timeout of seconds.
#[test]
fn what_was_sent_once_is_delivered_however_late_and_an_old_copy_is_not() {
    let mut ends = ends();
    let (once, copies) = (ends.send(0, &[0], 1).remove(0), ends.send(0, &[0, 1], 2));
    let others: Vec<_> = (0..window::WINDOW_NUMBERS + 10).map(|_| ends.send(0, &[2], 3).remove(0)).collect();
    ends.arrive(&copies[1], time_at_millis(0));
    ends.resequencer.flush(time_at_millis(0), &mut ends.out);
    ends.arrive_all(&others, time_at_millis(1));
    assert_eq!(ends.arrive(&once, time_at_millis(2)), [1]);
    assert_eq!(ends.arrive(&copies[0], time_at_millis(3)), NOTHING);
    let ResequencerStatistics { late, duplicates, .. } = *ends.resequencer.statistics();
    assert_eq!((late, duplicates), (1, 1));
}

#[test]
fn the_timer_waits_on_a_slow_path_for_a_fast_one_by_the_margin_only_and_the_longest_where_delays_are_unknown() {
    let mut ends = ends();
    let sent = ends.send_over(&[0, 1]);
    ends.arrive(&sent[1], time_at_millis(0));
    assert_eq!(ends.resequencer.deadline(), Some(time_at_millis(250)));
    ends.resequencer.set_delay(path(0), Some(delay(5, 5)));
    ends.resequencer.set_delay(path(1), Some(delay(80, 80)));
    let other = ends.send(0, &[1], 2);
    ends.arrive(&other[0], time_at_millis(1));
    assert_eq!(ends.resequencer.deadline(), Some(time_at_millis(10)));
}

#[test]
fn the_timer_does_not_expire_while_the_path_that_is_waited_for_delivers_other_packets() {
    let mut ends = ends();
    PathId::all().for_each(|path| ends.resequencer.set_delay(path, Some(delay(10, 10))));
    let others: Vec<_> = (0..30).map(|payload| ends.send(1, &[0], payload).remove(0)).collect();
    let sent = ends.send_over(&[0, 1]);
    assert_eq!(ends.arrive(&sent[1], time_at_millis(0)), NOTHING);
    for (datagram, millis) in others.iter().zip((0..).step_by(9)) {
        assert!(ends.arrive(datagram, time_at_millis(millis)).len() <= 1);
        assert_eq!(
            ends.expire(time_at_millis(millis + 9)),
            if millis + 9 < 250 { vec![] } else { vec![1] },
            "at {millis}"
        );
        if millis + 9 >= 250 {
            return;
        }
    }
    unreachable!("no packet waits for longer than 250 ms");
}

#[test]
fn a_path_that_goes_down_lets_all_go_that_waits_for_it_until_it_delivers_again() {
    let mut ends = ends();
    let sent = ends.send_over(&[0, 1, 0, 1, 0, 0, 1]);
    assert_eq!(ends.arrive_all([&sent[0], &sent[2]], time_at_millis(0)), [0]);
    ends.resequencer.path_down(path(1), time_at_millis(1), &mut ends.out);
    assert_eq!(std::mem::take(&mut ends.out), [2]);
    assert_eq!(ends.arrive(&sent[4], time_at_millis(2)), [4], "3 went over it as well");
    assert_eq!(ends.arrive(&sent[3], time_at_millis(3)), [3], "it is back; late");
    assert_eq!(ends.arrive(&sent[6], time_at_millis(4)), NOTHING, "now 5 is waited for");
    assert_eq!(ends.arrive(&sent[5], time_at_millis(5)), [5, 6]);
    let ResequencerStatistics { lost, late, .. } = *ends.resequencer.statistics();
    assert_eq!((lost, late), (2, 1));
}

#[test]
fn copies_are_delivered_once_in_order_and_a_loss_of_all_of_them_is_found() {
    let mut ends = ends();
    let sent: Vec<_> = (0..4).flat_map(|payload| ends.send(0, &[0, 1], payload)).collect();
    let (fast, slow): (Vec<_>, Vec<_>) = sent.iter().partition(|(arrival, _)| arrival.path == path(0));
    assert_eq!(ends.arrive_all([fast[0], fast[1], fast[3]], time_at_millis(0)), [0, 1], "the slow path may have 2");
    assert_eq!(ends.arrive_all([slow[0], slow[1]], time_at_millis(1)), NOTHING);
    assert_eq!(ends.arrive(slow[3], time_at_millis(1)), [3], "both lost 2");
    let ResequencerStatistics { lost, duplicates, in_order, .. } = *ends.resequencer.statistics();
    assert_eq!((lost, duplicates, in_order), (1, 3, 3));
}

#[test]
fn packets_that_need_no_order_pass_at_once_and_only_once() {
    let mut ends = ends();
    let sent = ends.send_over(&[0, 1]);
    assert_eq!(ends.arrive(&sent[1], time_at_millis(0)), NOTHING);
    let number = ends.sequencer.assign_unordered(0);
    let header = DataHeader { number: number + 3, is_unordered: true, is_redundant: true, ..DataHeader::default() };
    for (over, expected) in [(1, vec![50]), (2, vec![]), (3, vec![])] {
        let arrival = ArrivedData { path: path(over), counter: 9, header, predecessors: vec![], bytes: 100 };
        assert_eq!(ends.arrive(&(arrival, 50), time_at_millis(1)), expected);
    }
    assert_eq!(ends.arrive(&sent[0], time_at_millis(2)), [0, 1], "the others' order is its own matter");
}

#[test]
fn numbers_wrap() {
    let mut ends = ends();
    // Messages have their lowest 18 bits; so many at a time can be skipped.
    let near_the_end = (1 << NUMBER_BITS) - 3;
    let header = |number| DataHeader { number: number % (1 << NUMBER_BITS), ..DataHeader::default() };
    for number in (40_000..near_the_end).step_by(40_000).chain([near_the_end]) {
        let counter = ends.counter(0);
        let arrival = ArrivedData { path: path(0), counter, header: header(number), predecessors: vec![], bytes: 1 };
        assert_eq!(ends.arrive(&(arrival, number), time_at_millis(0)), [number]);
    }
    let predecessor = vec![Predecessor::new(path(1), 0)];
    for (step, waits) in [(2, predecessor), (3, vec![]), (4, vec![])] {
        let (number, counter) = (near_the_end.wrapping_add(step), ends.counter(0));
        let arrival = ArrivedData { path: path(0), counter, header: header(number), predecessors: waits, bytes: 1 };
        assert_eq!(ends.arrive(&(arrival, number), time_at_millis(0)), NOTHING);
    }
    let number = near_the_end.wrapping_add(1);
    let arrival = ArrivedData { path: path(1), counter: 0, header: header(number), predecessors: vec![], bytes: 1 };
    assert_eq!(ends.arrive(&(arrival, number), time_at_millis(0)), [1, 2, 3, 4].map(|step| near_the_end + step));
}

#[test]
fn when_memory_is_short_the_oldest_gap_goes() {
    for config in [
        ResequencerConfig { max_packets: 3, ..ResequencerConfig::default() },
        ResequencerConfig { max_bytes: 3999, ..ResequencerConfig::default() },
    ] {
        let mut ends = Ends::new(config);
        let first = [0, 1, 1].map(|over| ends.send(0, &[over], 1).remove(0));
        let second = [0, 1, 1].map(|over| ends.send(1, &[over], 2).remove(0));
        assert_eq!(ends.arrive_all(&first[1..], time_at_millis(0)), NOTHING);
        assert_eq!(ends.arrive(&second[1], time_at_millis(1)), NOTHING);
        assert_eq!(ends.arrive(&second[2], time_at_millis(2)), [1, 1]);
        assert_eq!(ends.resequencer.statistics().evicted, 1);
        assert_eq!(ends.arrive(&first[0], time_at_millis(3)), [1], "late");
        assert_eq!(ends.arrive(&second[0], time_at_millis(3)), [2, 2, 2]);
    }
}

#[test]
fn a_path_that_reorders_by_little_is_tolerated() {
    for (extent, expected) in [(0, [vec![1], vec![0]]), (1, [vec![], vec![0, 1]])] {
        let mut ends = ends();
        ends.resequencer.set_reordering_extent(path(0), extent);
        let sent = ends.send_over(&[0, 0]);
        let got = [ends.arrive(&sent[1], time_at_millis(0)), ends.arrive(&sent[0], time_at_millis(0))];
        assert_eq!(got, expected, "extent {extent}");
    }
    let mut ends = ends();
    ends.resequencer.set_reordering_extent(path(0), 2);
    let sent = ends.send_over(&[0, 0, 0, 0]);
    assert_eq!(ends.arrive_all(&sent[1..3], time_at_millis(0)), NOTHING);
    assert_eq!(ends.arrive(&sent[3], time_at_millis(0)), [1, 2, 3], "a lower counter is lost when enough have arrived");
}

#[test]
fn a_flush_delivers_all_that_waits_in_order() {
    let mut ends = ends();
    let sent = ends.send_over(&[0, 1, 0, 1, 0, 1]);
    assert_eq!(ends.arrive_all([&sent[1], &sent[5]], time_at_millis(0)), NOTHING);
    ends.resequencer.flush(time_at_millis(1), &mut ends.out);
    assert_eq!(ends.out, [1, 5]);
    assert_eq!((ends.resequencer.deadline(), ends.resequencer.waiting_totals()), (None, (0, 0)));
}

#[test]
fn numbers_in_falling_order_cost_little_each() {
    let mut ends = ends();
    let mut sent = ends.send_over(&[[1; 1].as_slice(), &[0; 3000]].concat());
    sent.remove(0);
    sent.reverse();
    let delivered = ends.arrive_all(&sent, time_at_millis(0));
    let (waiting, _) = ends.resequencer.waiting_totals();
    // Each would have to be put before all that came before it.
    assert!((1..=pool::MAX_INSERTION_DISTANCE + 1).contains(&waiting), "{waiting}");
    assert_eq!(delivered.len() + waiting, sent.len(), "nothing is lost");
    assert_eq!(ends.resequencer.statistics().late as usize, delivered.len());
    assert_eq!(ends.expire(time_at_millis(1000)).len(), waiting);
}

/// The same packet, repeated over a path after it was lost on another one.
fn repeated(ends: &mut Ends, (arrival, payload): &Datagram, over: u8) -> Datagram {
    let header = DataHeader { is_redundant: true, ..arrival.header };
    (ArrivedData { path: path(over), counter: ends.counter(over), header, ..arrival.clone() }, *payload)
}

#[test]
fn what_is_lost_and_repeated_is_waited_for() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    ends.resequencer.record_missing(time_at_millis(10));
    let sent = ends.send_over(&[0, 1, 0, 1, 0, 1]);
    // 0 and 2 are lost on path 0, which 4 shows: neither gap is over before its time.
    assert_eq!(ends.arrive_all([&sent[1], &sent[3], &sent[4], &sent[5]], time_at_millis(10)), NOTHING);
    assert_eq!(ends.resequencer.deadline(), Some(time_at_millis(50)));
    // What is repeated later in the order comes first.
    let [zero, two] = [0, 2].map(|number| repeated(&mut ends, &sent[number], 1));
    assert_eq!(ends.arrive(&two, time_at_millis(20)), NOTHING);
    assert_eq!(ends.arrive(&zero, time_at_millis(30)), [0, 1, 2, 3, 4, 5]);
    assert_eq!((ends.resequencer.deadline(), ends.resequencer.waiting_totals()), (None, (0, 0)));
    // The lost ones come after all, or are repeated twice.
    assert_eq!(ends.arrive_all([&sent[0], &sent[2], &two.clone()], time_at_millis(31)), NOTHING);
    let statistics = ends.resequencer.statistics();
    assert_eq!((statistics.lost, statistics.duplicates), (0, 3));
}

#[test]
fn losses_that_follow_each_other_add_nothing_to_each_others_waits() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    let sent = ends.send_over(&[0; 13]);
    for (numbers, millis) in [(1..4, 0), (5..8, 10), (9..13, 20)] {
        ends.resequencer.record_missing(time_at_millis(millis));
        assert_eq!(ends.arrive_all(&sent[numbers], time_at_millis(millis)), NOTHING);
    }
    for (millis, payloads) in [(40, [1, 2, 3]), (50, [5, 6, 7])] {
        assert_eq!(ends.resequencer.deadline(), Some(time_at_millis(millis)));
        assert_eq!(ends.expire(time_at_millis(millis)), payloads);
    }
    assert_eq!(ends.expire(time_at_millis(60)), [9, 10, 11, 12]);
    assert_eq!(ends.resequencer.statistics().lost, 3);
}

#[test]
fn few_packets_behind_a_loss_wait_for_a_moment() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    let sent = ends.send_over(&[0, 0, 0]);
    ends.resequencer.record_missing(time_at_millis(10));
    assert_eq!(ends.arrive_all(&sent[1..], time_at_millis(10)), NOTHING);
    assert_eq!(ends.resequencer.deadline(), Some(time_at_millis(14)));
    assert_eq!(ends.expire(time_at_millis(14)), [1, 2]);
}

#[test]
fn what_was_lost_with_its_path_is_not_waited_for() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    let sent = ends.send_over(&[0, 1, 1, 1, 1]);
    ends.resequencer.record_missing(time_at_millis(10));
    assert_eq!(ends.arrive_all(&sent[1..], time_at_millis(10)), NOTHING);
    ends.resequencer.path_down(path(0), time_at_millis(11), &mut ends.out);
    assert_eq!(std::mem::take(&mut ends.out), [1, 2, 3, 4]);
    // Nothing was found to be missing for long: this was lost with a path that the far end has given up.
    let sent = ends.send_over(&[0, 1, 1, 1, 1]);
    let without_predecessors =
        sent[1..].iter().map(|(arrival, payload)| (ArrivedData { predecessors: vec![], ..arrival.clone() }, *payload));
    let arrived: Vec<Datagram> = without_predecessors.collect();
    assert_eq!(ends.arrive_all(&arrived, time_at_millis(90)), [1, 2, 3, 4]);
}

#[test]
fn what_is_not_repeated_in_time_again_and_again_is_not_waited_for() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    let lose_one = |ends: &mut Ends, millis: i64| {
        let sent = ends.send_over(&[0; 4]);
        ends.resequencer.record_missing(time_at_millis(millis));
        let at_once = ends.arrive_all(&sent[1..], time_at_millis(millis)).len();
        (at_once, ends.expire(time_at_millis(millis + 40)).len(), sent)
    };
    for round in 0..8 {
        assert_eq!((lose_one(&mut ends, round * 100).0, round), (0, round));
    }
    let (at_once, _, sent) = lose_one(&mut ends, 900);
    assert_eq!(at_once, 3);
    // It comes late, and is worth waiting for again.
    let late = repeated(&mut ends, &sent[0], 1);
    assert_eq!(ends.arrive(&late, time_at_millis(940)).len(), 1);
    assert_eq!(lose_one(&mut ends, 1000).0, 0);
}

/// Each unrepaired loss held its bucket up for the whole wait, for ever, if anything else was repeated.
#[test]
fn what_is_repeated_too_late_or_twice_is_no_reason_to_wait() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    let mut kept = 0;
    for round in 0..40 {
        let sent = ends.send_over(&[0; 4]);
        let millis = round * 100;
        ends.resequencer.record_missing(time_at_millis(millis));
        kept += usize::from(ends.arrive_all(&sent[1..], time_at_millis(millis)).is_empty());
        ends.expire(time_at_millis(millis + 40));
        for late in 41..44 {
            let late_one = repeated(&mut ends, &sent[0], 1);
            ends.arrive(&late_one, time_at_millis(millis + late));
        }
    }
    assert_eq!(kept, 8, "as often as at the beginning");
}

#[test]
fn what_was_repeated_is_not_delivered_again_however_late_it_comes() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    let sent = ends.send_over(&[0, 1, 1, 1]);
    ends.resequencer.record_missing(time_at_millis(0));
    let repeat = repeated(&mut ends, &sent[0], 1);
    assert_eq!(ends.arrive_all(sent[1..].iter().chain([&repeat]), time_at_millis(1)), [0, 1, 2, 3]);
    for payload in 4..3000 {
        let next = ends.send(0, &[1], payload).remove(0);
        assert_eq!(ends.arrive(&next, time_at_millis(2)), [payload]);
    }
    assert_eq!(ends.arrive(&sent[0], time_at_millis(3)), NOTHING);
    assert_eq!(ends.resequencer.statistics().duplicates, 1);
}

/// They would have come late, and out of order, for the next 220 000 packets.
#[test]
fn a_bucket_goes_on_in_order_after_a_loss_of_any_length() {
    for lost in [40_000u32, 41_000, 100_000, 259_000] {
        for is_unordered in [false, true] {
            let mut ends = ends();
            ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
            let mut arrive = |number: u32, is_redundant: bool| {
                let number = number % (1 << NUMBER_BITS);
                let header = DataHeader { number, is_unordered, is_redundant, ..DataHeader::default() };
                let counter = ends.counter(0);
                let arrival = ArrivedData { path: path(0), counter, header, predecessors: vec![], bytes: 1 };
                ends.arrive(&(arrival, number), time_at_millis(0))
            };
            for number in 0..10 {
                assert_eq!(arrive(number, false), [number]);
            }
            let after: Vec<_> = (lost..lost + 3000).flat_map(|number| arrive(number, is_unordered)).collect();
            let expected: Vec<_> = (lost..lost + 3000).map(|number| number % (1 << NUMBER_BITS)).collect();
            assert!(expected.ends_with(&after), "after {lost}");
            assert!(after.len() > 3000 - 40, "{} after {lost}", after.len());
        }
    }
}

#[test]
fn a_repeat_that_cannot_wait_is_not_delivered_before_its_original() {
    let mut ends = ends();
    ends.resequencer.set_repair_wait(Some(Span::from_millis(40)));
    let sent = ends.send_over(&[[1; 1].as_slice(), &[0; 300]].concat());
    ends.arrive(&sent[300], time_at_millis(0));
    let mut delivered = Vec::new();
    for datagram in sent[1..300].iter().rev() {
        let repeat = repeated(&mut ends, datagram, 0);
        delivered.extend(ends.arrive(&repeat, time_at_millis(1)));
    }
    delivered.extend(ends.arrive_all(&sent[..300], time_at_millis(2)));
    delivered.extend(ends.expire(time_at_millis(1000)));
    delivered.sort_unstable();
    assert!(delivered.is_sorted_by(|one, next| one < next), "each once");
}
