//! STAMP and one-way delay on loopback, with clocks that are wrong in known ways.

use crate::common;

use common::reflecting::{Reflecting, delay_to, quick};
use common::{DEADLINE, RunningServer};
use kumade_client::{Error, measure};
use kumade_client::{Hint, NtpServer, StampConfig, measure_stamp};
use kumade_measurement::report::{DelayReport, Warning};
use kumade_net::clock;
use kumade_netns_testbed::{ReferenceClock, eventually};
use kumade_probe_train::Estimate;
use kumade_serve::{HostClock, ServerConfig};
use kumade_units::{Span, Time};
use kumade_wire::PresharedKey;
use kumade_wire::stamp::{ErrorEstimate, MIN_PROBE_BYTES, PACKET_BYTES, Probe, Reflection, Reply};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// How long a delay takes depends on the machine; that its bounds are in order does not. How exact they are is tested in
/// virtual time (`estimate/tests/one_way_delay.rs`).
fn assert_in_order(interval: Estimate<f64>) {
    assert!(interval.low >= 0.0 && interval.low <= interval.value && interval.value <= interval.high, "{interval:?}");
}

/// Both ways' least delays, too, which can't be longer than the least round trip.
pub fn assert_sound(delay: &DelayReport) {
    let round_trip = delay.round_trip.as_ref().unwrap().minimum_seconds;
    assert_in_order(round_trip);
    for way in [&delay.up, &delay.down] {
        let least = way.as_ref().unwrap().minimum_seconds;
        assert_in_order(least);
        assert!(least.low <= round_trip.value + ROUNDING, "{least:?} against {round_trip:?}");
    }
}

const ROUNDING: f64 = 1e-6;

/// A clock that is 87 ms ahead and gains 50 parts in a million.
struct Fast {
    since: Time,
}

impl Fast {
    const AHEAD: Span = Span::from_millis(87);
    const SKEW: f64 = 50e-6;

    fn set_now() -> Self {
        Fast { since: clock::realtime() }
    }

    fn clock(&self, maximum_error: Option<Span>) -> HostClock {
        HostClock::Simulated { offset: Self::AHEAD, skew: Self::SKEW, since: self.since, maximum_error }
    }

    /// The interval holds what it was ahead at some time between then and now.
    fn assert_held_by(&self, offset: Estimate<f64>) {
        let ahead = Self::AHEAD.as_secs_f64();
        let now = ahead + (clock::realtime() - self.since).as_secs_f64() * Self::SKEW;
        assert!(offset.low <= now + ROUNDING && ahead - ROUNDING <= offset.high, "{offset:?} holds no {ahead} … {now}");
    }
}

#[test]
fn a_reflector_is_measured_by_ipv4_and_ipv6() {
    for (bind, ask) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.3")] {
        let reflector = Reflecting::start(bind, HostClock::System);
        let address = SocketAddr::new(ask.parse().unwrap(), reflector.address.port());
        let delay = delay_to(&StampConfig { size: 300, ..quick(address) });
        assert_sound(&delay);
        for figures in [&delay.round_trip, &delay.up, &delay.down].map(|figures| figures.as_ref().unwrap()) {
            assert!(figures.packets >= 50, "{figures:?}");
        }
        let packets = delay.round_trip_packets.unwrap();
        assert_eq!((packets.sent, packets.lost, packets.duplicates), (100, 0, Some(0)));
        assert_eq!((delay.up_packets.unwrap().lost, delay.down_packets.unwrap().lost), (0, 0));
        assert_eq!((delay.up_hops, delay.down_hops), (Some(0), Some(0)));
    }
}

/// The far clock is 87 ms ahead; an NTP server that shows the same time says how wrong the near one is.
#[test]
fn a_far_clock_that_is_wrong_is_bounded_and_a_reference_pins_it_down() {
    let fast = Fast::set_now();
    let unknown = Reflecting::start("127.0.0.1", fast.clock(None));
    let delay = delay_to(&quick(unknown.address));
    assert_sound(&delay);
    fast.assert_held_by(delay.clock.unwrap().offset_seconds);
    let fast = Fast::set_now();
    let known = Reflecting::start("127.0.0.1", fast.clock(Some(Span::from_millis(1))));
    let reference = ReferenceClock::start(Fast::AHEAD).unwrap();
    let ntp = vec![NtpServer { host: "127.0.0.1".into(), port: reference.address().port() }];
    let delay = delay_to(&StampConfig { ntp, ..quick(known.address) });
    assert!(!delay.warnings.contains(&Warning::ClocksContradicted), "{:?}", delay.warnings);
    assert_sound(&delay);
    let clock = delay.clock.unwrap();
    assert!(clock.near_error_seconds.unwrap() > 0.08 && clock.far_error_seconds.unwrap() < 0.001_1, "{clock:?}");
    fast.assert_held_by(clock.offset_seconds);
}

#[test]
fn an_ordinary_measurement_tells_the_delay_idle_and_under_load() {
    let clock = HostClock::Simulated {
        offset: Span::from_millis(-3_000),
        skew: 0.0,
        since: clock::realtime(),
        maximum_error: Some(Span::from_millis(2)),
    };
    let server = RunningServer::start(ServerConfig { clock, ..ServerConfig::default() });
    let scan = "linear-scan".parse().unwrap();
    let report = measure(&server.measuring().with_changed_plan(|plan| plan.method = scan), &mut |_| {}).unwrap();
    let delay = report.delay.unwrap();
    for figures in [&delay.up, &delay.down] {
        assert_in_order(figures.as_ref().unwrap().minimum_seconds);
        assert!(figures.as_ref().unwrap().packets >= 8);
    }
    assert!(delay.up_loaded.is_some() && delay.down_loaded.is_some());
    let clock = delay.clock.unwrap();
    assert_eq!(clock.far_error_seconds, Some(0.002));
    let offset = clock.offset_seconds;
    assert!(offset.low <= -3.0 + ROUNDING && -3.0 - ROUNDING <= offset.high, "{clock:?}");
}

#[test]
fn nobody_there_is_said_and_what_to_try() {
    // One that was free a moment ago may be another test's now.
    let closed = "127.0.0.1:1".parse().unwrap();
    let error = measure_stamp(&quick(closed)).unwrap_err();
    assert!(error.to_string().contains("no STAMP reflector answers"), "{error}");
    assert_eq!(error.hint(), Some(Hint::StartReflector));
}

#[test]
fn the_reflector_never_answers_more_than_it_was_asked() {
    let reflector = Reflecting::start("127.0.0.1", HostClock::System);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket.connect(reflector.address).unwrap();
    let mut buffer = [0; 2000];
    // Longer ones than an Ethernet frame carries would multiply on their way back.
    for unanswered in [0, 1, MIN_PROBE_BYTES - 1, 1473, 60_000] {
        socket.send(&vec![0; unanswered]).unwrap();
        assert!(socket.recv(&mut buffer).is_err(), "{unanswered} octets are answered");
    }
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut asked = vec![9; 1400];
    let clock = ErrorEstimate::new(false, Span::ZERO);
    let sent = Time::from_nanos(5);
    Probe { sequence: 3, sent, error_estimate: clock, session: 77 }.encode(asked.first_chunk_mut().unwrap());
    socket.send(&asked).unwrap();
    let length = socket.recv(&mut buffer).unwrap();
    let reply = Reply::decode(&buffer[..length]).unwrap();
    assert_eq!((length, reply.probe_sequence, reply.session), (1400, 3, 77));
    // How much of a flood is answered is tested without a clock (`sources.rs`); here, that it does no harm for long.
    for _ in 0..3_000 {
        socket.send(&asked[..PACKET_BYTES]).unwrap();
    }
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    while socket.recv(&mut buffer).is_ok() {}
    assert!(eventually(|| {
        socket.send(&asked).unwrap();
        socket.recv(&mut buffer).is_ok_and(|length| length == asked.len())
    }));
}

/// As TWAMP Light senders send them (RFC 5357, 4.1.2): number, stamp and error estimate, and padding that makes both directions'
/// packets equal, less, or none. Nobody is sent more than it, or whoever forges its address, has sent.
#[test]
fn short_packets_of_twamp_light_are_answered_by_as_many_octets() {
    let reflector = Reflecting::start("127.0.0.1", HostClock::System);
    for padding in [27, 29, 14, 10, 0] {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.set_read_timeout(Some(DEADLINE)).unwrap();
        sender.connect(reflector.address).unwrap();
        for sequence in 0..3_u8 {
            let recorded = [0, 0, 0, sequence, 0xec, 0xc2, 0xa1, 0x3c, 0x80, 0, 0, 0, 0x80, 1];
            sender.send(&[&recorded[..], &vec![0; padding]].concat()).unwrap();
            let mut answer = [0; 100];
            assert_eq!(sender.recv(&mut answer).unwrap(), 14 + padding);
            assert_eq!(answer[..4], [0, 0, 0, sequence]);
            let reflected = kumade_wire::stamp::ClockFormat::Ntp.decode(answer[4..12].try_into().unwrap());
            assert!((clock::realtime() - reflected).as_secs_f64().abs() < 3600.0);
            if padding >= 27 {
                let reply = Reply::decode(&answer[..14 + padding]).unwrap();
                assert_eq!(
                    (reply.probe_sequence, reply.probe_timestamp.to_vec()),
                    (sequence.into(), recorded[4..].to_vec())
                );
            }
        }
    }
}

/// RFC 8762, 4.4: with a key, only its holder is answered, and only its holder's answers count.
#[test]
fn with_a_key_only_authenticated_packets_are_reflected() {
    let key = |byte: u8| Some(PresharedKey::from_bytes([byte; 32]));
    let reflector = Reflecting::with_key("127.0.0.1", HostClock::System, key(1));
    assert_sound(&delay_to(&StampConfig { key: key(1), ..quick(reflector.address) }));
    let unanswered = |address| StampConfig { count: 10, late_after: Span::from_millis(300), ..quick(address) };
    for other in [None, key(2)] {
        let error = measure_stamp(&StampConfig { key: other, ..unanswered(reflector.address) }).unwrap_err();
        assert!(matches!(error, Error::NoReflector { .. }), "{error}");
    }
    let without = Reflecting::start("127.0.0.1", HostClock::System);
    let error = measure_stamp(&StampConfig { key: key(1), ..unanswered(without.address) }).unwrap_err();
    assert!(matches!(error, Error::NoReflector { .. }), "{error}");
}

/// Whoever claims to be another reflector starts no endless exchange between the two.
#[test]
fn two_reflectors_do_not_answer_each_other() {
    let reflector = Reflecting::start("127.0.0.1", HostClock::System);
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(DEADLINE)).unwrap();
    other.connect(reflector.address).unwrap();
    let mut payload = [0; PACKET_BYTES];
    let clock = ErrorEstimate::new(false, Span::ZERO);
    Probe { sequence: 0, sent: clock::realtime(), error_estimate: clock, session: 0 }.encode(&mut payload);
    other.send(&payload).unwrap();
    assert_eq!(other.recv(&mut payload).unwrap(), PACKET_BYTES);
    let now = clock::realtime();
    let answer =
        |_: &Probe| Reflection { sequence: 0, reflected: now, received: now, error_estimate: clock, probe_ttl: 255 };
    Reply::reflect(&mut payload, answer).unwrap();
    other.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    other.send(&payload).unwrap();
    assert!(other.recv(&mut payload).is_err(), "an answer is answered");
}

/// A reflector beside which somebody answers sooner who has not seen the probes.
#[test]
fn answers_that_do_not_repeat_the_probes_stamp_are_passed_over() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut payload = [0; PACKET_BYTES];
        for _ in 0..100 {
            let (_, from) = socket.recv_from(&mut payload).unwrap();
            let now = clock::realtime();
            let clock = ErrorEstimate::new(false, Span::ZERO);
            let answer = |probe: &Probe| Reflection {
                sequence: probe.sequence,
                reflected: now,
                received: now,
                error_estimate: clock,
                probe_ttl: 255,
            };
            Reply::reflect(&mut payload, answer).unwrap();
            let mut forged = payload;
            forged[31] ^= 1;
            socket.send_to(&forged, from).unwrap();
            socket.send_to(&payload, from).unwrap();
        }
    });
    let packets = delay_to(&quick(address)).round_trip_packets.unwrap();
    assert_eq!((packets.sent, packets.lost, packets.duplicates), (100, 0, Some(0)));
    thread.join().unwrap();
}

#[test]
fn neither_endless_copies_nor_stamps_that_are_no_times_spoil_what_is_measured_here() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut payload = [0; PACKET_BYTES];
        for number in 0..100 {
            let (_, from) = socket.recv_from(&mut payload).unwrap();
            let clock = ErrorEstimate::new(false, Span::ZERO);
            let reflected = Time::from_nanos(if number % 2 == 0 { 0 } else { 4_000_000_000_000_000_000 });
            let received = Time::from_nanos(2_000_000_000_000_000_000);
            let answer = |probe: &Probe| Reflection {
                sequence: probe.sequence,
                reflected,
                received,
                error_estimate: clock,
                probe_ttl: 255,
            };
            Reply::reflect(&mut payload, answer).unwrap();
            for _ in 0..if number < 60 { 10 } else { 1 } {
                socket.send_to(&payload, from).unwrap();
            }
        }
    });
    let delay = delay_to(&quick(address));
    let packets = delay.round_trip_packets.unwrap();
    assert!(packets.lost == 0 && packets.duplicates > Some(100), "{packets:?}");
    let round_trip = delay.round_trip.unwrap();
    // The false stamps are decades away.
    assert!(round_trip.percentile_99_seconds.value < DEADLINE.as_secs_f64(), "{round_trip:?}");
    thread.join().unwrap();
}

#[test]
fn addresses_are_those_that_were_asked_for() {
    let reflector = Reflecting::start("127.0.0.1", HostClock::System);
    let config = StampConfig { family: kumade_client::Family::V6, ..quick(reflector.address) };
    assert!(measure_stamp(&config).unwrap_err().to_string().contains("no IPv6 address"));
    let ip: IpAddr = "127.0.0.1".parse().unwrap();
    assert_eq!(
        measure_stamp(&quick(reflector.address)).unwrap().peer,
        SocketAddr::new(ip, reflector.address.port()).to_string()
    );
}
