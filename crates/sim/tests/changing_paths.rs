//! Paths that change while they are measured: a sender that pauses, and a link whose rate changes. And one that does not, though it is busy.

use kumade_estimate::{Conditions, MethodSettings, Shaping};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use kumade_probe_train::Transport;
use kumade_sim::atlas::{AtlasMeasurement, DrawnPath, PathKind, PathResult, Seeds};
use kumade_sim::{PathHop, Stamping, VirtualPath, measure};
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PATHS: u32 = 100;
const STEADY_PATHS: u32 = 100;

/// What became of measurements on such paths.
#[derive(Debug, Default)]
struct Statements {
    /// Those that are wrong with confidence.
    wrong: usize,
    /// Values of the available bandwidth.
    values: usize,
    /// Token buckets where there is none.
    absent_buckets: usize,
}

/// On paths of this kind over either transport. Their seeds have tuned the method.
fn measure_paths(kind: PathKind) -> Statements {
    let mut found = Statements::default();
    for transport in [Transport::Udp, Transport::Rake] {
        for path in (0..PATHS).map(|number| DrawnPath::new(kind, Seeds::Tuning.seed(number))) {
            let measured = path.measure(transport, &MethodSettings::default()).unwrap();
            let AtlasMeasurement { report, truth, .. } = &measured;
            let result = PathResult::evaluate(&path, &measured);
            if result.fault.is_some() {
                println!("{kind} over {transport}, seed {}: {} available; {report}", path.seed, truth.available);
            }
            if result.reports_absent_bucket {
                println!("{kind} over {transport}, seed {}, bucket: {report} {:?}", path.seed, report.capacity);
            }
            found.wrong += usize::from(result.fault.is_some());
            found.values += usize::from(report.available_bits_per_second.is_some());
            found.absent_buckets += usize::from(result.reports_absent_bucket);
        }
    }
    println!("{kind}: {found:?}");
    found
}

/// What trains of 0.3 s found was called an average over all the time in which the link was looked at: 29 of these 200 were wrong. Now 5 are; the
/// bar is a standard deviation (√5) above that.
#[test]
fn a_value_is_an_average_over_the_time_of_the_trains_that_it_follows_from() {
    let found = measure_paths(PathKind::OnOff);
    assert!(found.wrong <= 7 && found.values >= 150, "{found:?}");
}

/// Trains before and after the change were fitted as those of one link, and what the look at another one found idle narrowed the interval: 60 of
/// these 200 were wrong. Now 1 is, and the bar a standard deviation above that.
#[test]
fn trains_of_a_link_that_has_changed_are_not_taken_for_those_of_one() {
    let found = measure_paths(PathKind::RateStep);
    assert!(found.wrong <= 2 && found.values >= 115, "{found:?}");
}

/// How often a busy link that keeps its rate seems to have changed it, as the method's trains see it: its value then rests on none of the first three.
/// That leaves fewer trains to the value: 4 of 50 with fast senders, and 9 of 50 with slow ones. The bars are a standard deviation above that.
#[test]
fn steady_links_that_are_busy_have_not_changed() {
    let mut changed = [0; 2];
    for number in 0..STEADY_PATHS {
        let seed = Seeds::Tuning.seed(number);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rate = Rate::from_f64(2e6 * 150f64.powf(random.random_range(0.0..1.0)));
        let link = LinkConfig { rate: Some(rate), queue_bytes: 400_000, ..LinkConfig::default() };
        let cross = Rate::from_f64(0.8 * rate.as_f64());
        let sizes = if number % 2 == 0 { SizeMix::imix() } else { SizeMix::fixed(1500) };
        let kind = CrossKind::Poisson { rate: cross, sizes };
        let cross = vec![CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed }];
        let hop = PathHop { link, queue: None, cross };
        // As fast as a host sends, and not much faster than the link: cross traffic then gets between packets of a preload.
        let gap = [Stamping::default().send_cost, rate.time_for(1500) / 2][number as usize / 2 % 2];
        let stamping = Stamping { send_cost: gap, ..Stamping::default() };
        // Where no token bucket was looked for, nothing is taken for a change.
        let [seen, without] = [Shaping::Unshaped, Shaping::Unknown].map(|shaping| {
            let mut path = VirtualPath::new(std::slice::from_ref(&hop), stamping, seed).unwrap();
            path.wait(Span::from_millis(500));
            let mut method = MethodSettings::default().build(&Conditions { shaping, seed, ..Conditions::new(1500) });
            measure(&mut *method, &mut path);
            method.value_trains().is_some_and(|(first, _)| first > 2)
        });
        changed[number as usize / 2 % 2] += u32::from(seen && !without);
    }
    let [fast, slow] = changed;
    println!(
        "links of 2 to 300 Mbit/s at a load of 0.8 seem to have changed their rate: {fast} of {} before fast senders, {slow} before slow ones",
        STEADY_PATHS / 2
    );
    assert!(fast <= 6 && slow <= 12, "{changed:?}");
}
