use super::*;
use kumade_units::{Rate, Span, Time};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Event {
    Acknowledged(Ack),
    Congested(u32),
    Recovered,
    TimedOut(u32, bool),
    Undone,
}

/// Small numbers, and any.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..200u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        4 => (0..500_000_000i64).prop_map(Span::from_nanos),
        1 => any::<i64>().prop_map(Span::from_nanos),
        1 => Just(Span::MAX),
        1 => Just(Span::ZERO),
    ]
}

fn total() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..10_000u64, 1 => any::<u64>()]
}

fn delivery() -> impl Strategy<Value = DeliveryRate> {
    let rate = prop_oneof![4 => 0..1_000_000_000u64, 1 => any::<u64>()].prop_map(Rate::from_bits_per_second);
    (rate, any::<bool>()).prop_map(|(rate, application_limited)| DeliveryRate { rate, application_limited })
}

prop_compose! {
    fn acknowledgement()(
        counts in [count(), count(), count(), count(), count()],
        times in (span(), span()),
        round_trip in proptest::option::of(span()),
        window_limited in any::<bool>(),
        reduction in prop_oneof![Just(None), Just(Some(Reduction::Mark)), Just(Some(Reduction::Loss))],
        delivery in proptest::option::of(delivery()),
        totals in [total(), total()],
    ) -> Ack {
        let [acked, delivered, lost, in_flight, was_in_flight] = counts;
        let [total_delivered, delivered_when_sent] = totals;
        Ack {
            now: Time::ZERO + times.0,
            acked,
            delivered,
            marked: delivered / 2,
            lost,
            round_trip,
            smoothed_round_trip: times.1,
            in_flight,
            was_in_flight,
            window_limited,
            reduction,
            delivery,
            total_delivered,
            delivered_when_sent,
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => acknowledgement().prop_map(Event::Acknowledged),
        1 => count().prop_map(Event::Congested),
        1 => Just(Event::Recovered),
        1 => (count(), any::<bool>()).prop_map(|(in_flight, again)| Event::TimedOut(in_flight, again)),
        1 => Just(Event::Undone),
    ]
}

proptest! {
    #[test]
    fn nothing_that_happens_leaves_a_controller_without_a_window_or_a_rate(
        which in 0..CongestionControl::ALL.len(),
        segment_bytes in count(),
        events in proptest::collection::vec((span(), event()), 1..150),
    ) {
        let mut controller = CongestionControl::ALL[which].1.build(segment_bytes);
        for (at, event) in events {
            let now = Time::ZERO + at;
            match &event {
                Event::Acknowledged(ack) => controller.on_ack(ack),
                Event::Congested(in_flight) => controller.on_congestion(now, *in_flight),
                Event::Recovered => controller.on_recovery_end(now),
                Event::TimedOut(in_flight, again) => controller.on_retransmission_timeout(now, *in_flight, *again),
                Event::Undone => controller.on_spurious_reduction(now),
            }
            let window = controller.window();
            prop_assert!(window.is_finite() && window >= 1.0, "{window} after {event:?}: {controller:?}");
            prop_assert!(controller.threshold() >= 2.0, "{controller:?}");
            let rate = controller.pacing_rate();
            prop_assert!(rate != Some(Rate::ZERO), "{controller:?}");
        }
    }
}

#[test]
fn every_controller_is_known_by_its_name() {
    for (name, control) in CongestionControl::ALL {
        assert_eq!(control.to_string(), name);
        assert_eq!(name.parse(), Ok(control));
    }
    let error = "reno".parse::<CongestionControl>().unwrap_err().to_string();
    assert!(error.contains("`reno` is not a congestion control; choose one of new-reno, bic"), "{error}");
}
