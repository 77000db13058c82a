//! One-way delays on the lab's network, 15 ms out and 5 ms back, against a far clock that is 87 ms ahead and drifts by
//! 50 ppm: the published system was wrong by up to 76 ms there.

#[path = "../../serve/tests/ntp/mod.rs"]
mod ntp;

use link::LinkConfig;
use measurement::MeasurementPlan;
use measurement::report::DelayReport;
use net::clock;
use probe::{MeasureConfig, measure};
use probe::{StampConfig, measure_stamp};
use serve::{HostClock, Server, ServerConfig};
use serve::{Reflector, ReflectorConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use testnet::in_namespaces;
use testnet::{Network, NetworkSpec};
use train::Estimate;
use units::{Rate, Span};

const OUT: Span = Span::from_millis(15);
const BACK: Span = Span::from_millis(5);
const AHEAD: Span = Span::from_millis(87);
/// What a busy machine adds to the least delay at most, or the experiment is void.
const LATE: f64 = 2e-3;
/// Of an interval, by what two clocks may have drifted in the second or so since they were last known.
const DRIFT: f64 = 2e-3;

/// A server and a reflector with that clock on one host, and the way to them.
struct Path {
    network: Network,
    stop: Arc<AtomicBool>,
    serving: Vec<JoinHandle<()>>,
}

impl Path {
    /// The far clock says that it may be wrong by so much.
    fn new(maximum_error: Option<Span>) -> Self {
        let link =
            LinkConfig { rate: Some(Rate::from_mbit(50)), queue_bytes: 250_000, delay: OUT, ..LinkConfig::default() };
        let down = LinkConfig { delay: BACK, ..link.clone() };
        let network = Network::build(NetworkSpec { down, ..NetworkSpec::pair(link) }).unwrap();
        let clock = HostClock::Simulated { offset: AHEAD, skew: 50e-6, since: clock::realtime(), maximum_error };
        let far = &network.host("b").unwrap().namespace;
        let stop = Arc::new(AtomicBool::new(false));
        let server = far.run(|| Server::bind(ServerConfig { clock, ..ServerConfig::default() })).unwrap().unwrap();
        let reflector = far.run(|| Reflector::bind(&ReflectorConfig { listen: None, clock })).unwrap().unwrap();
        let (first, second) = (Arc::clone(&stop), Arc::clone(&stop));
        let serving = vec![
            far.spawn("serve", move || server.run(&first).unwrap()).unwrap(),
            far.spawn("reflect", move || reflector.run(&second).unwrap()).unwrap(),
        ];
        Path { network, stop, serving }
    }

    /// By STAMP, and by an ordinary measurement.
    fn measure(&self, with_reference: bool) -> [DelayReport; 2] {
        let near = &self.network.host("a").unwrap().namespace;
        let host = self.network.host("b").unwrap().v4.to_string();
        // With the time by which the far clock is right.
        let ntp = || with_reference.then(|| near.run(|| ntp::answer(AHEAD)).unwrap());
        let stamp = StampConfig { ntp: ntp(), ..StampConfig::new(&host, serve::STAMP_PORT) };
        let stamp = near.run(|| measure_stamp(&stamp)).unwrap().unwrap();
        let method = "pathtester".parse().unwrap();
        let trains = {
            let base = MeasureConfig::new(&host, serve::DEFAULT_PORT);
            MeasureConfig { ntp: ntp(), plan: MeasurementPlan { method, ..base.plan }, ..base }
        };
        let trains = near.run(|| measure(&trains, &mut |_| {})).unwrap().unwrap();
        [stamp, trains].map(|report| report.delay.unwrap())
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for serving in self.serving.drain(..) {
            // A panic of the server has been printed.
            let _ = serving.join();
        }
    }
}

fn assert_holds(interval: Estimate<f64>, truth: Span, width: f64) {
    let truth = truth.as_secs_f64();
    assert!(interval.low <= truth + LATE && truth <= interval.high, "{truth} is not in {interval:?}");
    assert!(interval.high - interval.low <= width + LATE + DRIFT, "{interval:?} is too wide");
}

fn assert_all_hold(delay: &DelayReport, width: f64) {
    eprintln!("{delay}");
    assert_holds(delay.up.as_ref().unwrap().minimum_seconds, OUT, width);
    assert_holds(delay.down.as_ref().unwrap().minimum_seconds, BACK, width);
    let offset = delay.clock.as_ref().unwrap().offset_seconds;
    let ahead = AHEAD.as_secs_f64();
    assert!(offset.low <= ahead + LATE && ahead <= offset.high, "{offset:?}");
}

#[test]
fn the_interval_holds_the_truth_and_a_reference_narrows_it() {
    in_namespaces("the_interval_holds_the_truth_and_a_reference_narrows_it", || {
        let round_trip = (OUT + BACK).as_secs_f64();
        for delay in Path::new(None).measure(false) {
            assert_all_hold(&delay, round_trip);
        }
        // A reference good to a millisecond either way.
        for delay in Path::new(Some(Span::from_millis(1))).measure(true) {
            assert_all_hold(&delay, 2e-3);
        }
    });
}
