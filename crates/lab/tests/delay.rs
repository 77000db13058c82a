//! One-way delays on the lab's network, 15 ms out and 5 ms back, against a far clock that is 87 ms ahead and drifts by
//! 50 ppm: the published system was wrong by up to 76 ms there.

use kumade_client::{MeasureConfig, NtpServer, measure};
use kumade_client::{StampConfig, measure_stamp};
use kumade_link::LinkConfig;
use kumade_measurement::report::{DelayReport, Warning};
use kumade_net::clock;
use kumade_netns_testbed::{Network, NetworkSpec, ReferenceClock, TEST_DEADLINE, in_namespaces};
use kumade_probe_train::Estimate;
use kumade_serve::{HostClock, Server, ServerConfig};
use kumade_serve::{Reflector, ReflectorConfig};
use kumade_units::{Rate, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const FORWARD_DELAY: Span = Span::from_millis(15);
const REVERSE_DELAY: Span = Span::from_millis(5);
const CLOCK_OFFSET: Span = Span::from_millis(87);
const SKEW: f64 = 50e-6;
/// The longest that a test may take: so long the far clock gains.
const DRIFT: f64 = SKEW * TEST_DEADLINE.as_secs() as f64;

/// A server and a reflector with that clock on one host, and the way to them.
struct ClockedHost {
    network: Network,
    stop: Arc<AtomicBool>,
    serving: Vec<JoinHandle<()>>,
}

impl ClockedHost {
    /// The far clock says that it may be wrong by so much.
    fn new(maximum_error: Option<Span>) -> Self {
        let link = LinkConfig {
            rate: Some(Rate::from_mbit(50)),
            queue_bytes: 250_000,
            delay: FORWARD_DELAY,
            ..LinkConfig::default()
        };
        let down = LinkConfig { delay: REVERSE_DELAY, ..link.clone() };
        let network = Network::build(NetworkSpec { down, ..NetworkSpec::host_pair(link) }).unwrap();
        let clock = HostClock::Simulated { offset: CLOCK_OFFSET, skew: SKEW, since: clock::realtime(), maximum_error };
        let far = &network.host("b").unwrap().namespace;
        let stop = Arc::new(AtomicBool::new(false));
        let server = far.run(|| Server::bind(ServerConfig { clock, ..ServerConfig::default() })).unwrap().unwrap();
        let reflector =
            far.run(|| Reflector::bind(&ReflectorConfig { clock, ..ReflectorConfig::default() })).unwrap().unwrap();
        let (first, second) = (Arc::clone(&stop), Arc::clone(&stop));
        let serving = vec![
            far.spawn("serve", move || server.run(&first).unwrap()).unwrap(),
            far.spawn("reflect", move || reflector.run(&second).unwrap()).unwrap(),
        ];
        ClockedHost { network, stop, serving }
    }

    /// By STAMP, and by an ordinary measurement.
    fn measure(&self, with_reference: bool) -> [DelayReport; 2] {
        let near = &self.network.host("a").unwrap().namespace;
        let host = self.network.host("b").unwrap().v4.to_string();
        // With the time by which the far clock is right.
        let reference = near.run(|| ReferenceClock::start(CLOCK_OFFSET)).unwrap().unwrap();
        let port = reference.address().port();
        let ntp: Vec<_> = with_reference.then(|| NtpServer { host: "127.0.0.1".into(), port }).into_iter().collect();
        let stamp = StampConfig { ntp: ntp.clone(), ..StampConfig::new(&host, kumade_serve::STAMP_PORT) };
        let stamp = near.run(|| measure_stamp(&stamp)).unwrap().unwrap();
        let method = "linear-scan".parse().unwrap();
        let trains = MeasureConfig {
            ntp,
            ..MeasureConfig::new(&host, kumade_serve::DEFAULT_PORT).with_changed_plan(|plan| plan.method = method)
        };
        let trains = near.run(|| measure(&trains, &mut |_| {})).unwrap().unwrap();
        [stamp, trains].map(|report| report.delay.unwrap())
    }
}

impl Drop for ClockedHost {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for serving in self.serving.drain(..) {
            // A panic of the server has been printed.
            let _ = serving.join();
        }
    }
}

/// A link is never early: packets take `truth` or longer. How much longer is the machine's business.
fn assert_covers(interval: Estimate<f64>, truth: Span) {
    assert!(0.0 <= interval.low && interval.low <= interval.value && interval.value <= interval.high, "{interval:?}");
    assert!(truth.as_secs_f64() <= interval.high, "{truth} is more than {interval:?}");
}

fn assert_all_cover(delay: &DelayReport) {
    eprintln!("{delay}");
    let (up, down) = (delay.up.as_ref().unwrap().minimum_seconds, delay.down.as_ref().unwrap().minimum_seconds);
    assert_covers(up, FORWARD_DELAY);
    assert_covers(down, REVERSE_DELAY);
    if let Some(round_trip) = &delay.round_trip {
        let round_trip = round_trip.minimum_seconds;
        assert_covers(round_trip, FORWARD_DELAY + REVERSE_DELAY);
        // Neither way can have taken what the other needs at least.
        assert!(up.low <= round_trip.value - REVERSE_DELAY.as_secs_f64() + ROUNDING, "{up:?} of {round_trip:?}");
        assert!(down.low <= round_trip.value - FORWARD_DELAY.as_secs_f64() + ROUNDING, "{down:?} of {round_trip:?}");
    }
    let offset = delay.clock.as_ref().unwrap().offset_seconds;
    let ahead = CLOCK_OFFSET.as_secs_f64();
    assert!(offset.low <= ahead + DRIFT && ahead <= offset.high + ROUNDING, "{offset:?}");
}

const ROUNDING: f64 = 1e-6;

/// That a reference narrows the interval, and to what, is tested without a clock (`estimate/tests/one_way_delay.rs`).
#[test]
fn the_interval_holds_the_truth_with_and_without_a_reference() {
    in_namespaces("the_interval_holds_the_truth_with_and_without_a_reference", || {
        for delay in ClockedHost::new(None).measure(false) {
            assert_all_cover(&delay);
        }
        // A reference good to a millisecond either way.
        for delay in ClockedHost::new(Some(Span::from_millis(1))).measure(true) {
            assert_all_cover(&delay);
            let clock = delay.clock.unwrap();
            assert!(clock.near_error_seconds.is_some() && clock.far_error_seconds.is_some(), "{clock:?}");
            let contradicted = delay.warnings.contains(&Warning::ClocksContradicted);
            assert!(!contradicted, "{:?}", delay.warnings);
        }
    });
}
