//! What a scenario's words mean to those who carry it out, in real time or virtually.

use crate::scenario::{CrossKind, Direction, Method, Point, Scenario};
use estimate::LinearScanConfig;
use link::{CrossConfig, LinkConfig, Periods, SizeMix};
use measure::MethodChoice;
use units::{Rate, Span, Time};

/// The bottleneck of the paper's experiment, to which the papers' train fits.
const PAPERS_RATE: Rate = Rate::from_mbit(100);

/// The bottleneck as a link of this direction.
pub(crate) fn link(scenario: &Scenario, direction: Direction) -> LinkConfig {
    let crate::scenario::Bottleneck { delay, queue, .. } = scenario.bottleneck;
    let rate = scenario.bottleneck.rate_of(direction);
    LinkConfig { rate: Some(rate), queue_bytes: queue, delay, seed: 1, ..LinkConfig::default() }
}

/// The estimator with its numbers.
pub(crate) fn method(scenario: &Scenario, point: &Point) -> MethodChoice {
    match point.method {
        Method::Primed => MethodChoice::Primed,
        Method::LinearScan => MethodChoice::LinearScan(papers_train(scenario.bottleneck.rate_of(point.direction))),
        Method::PathTester => MethodChoice::PathTester,
        Method::PathTesterClassic => {
            MethodChoice::PathTesterClassic { first_iunit: 0, last_iunit: scenario.last_iunit }
        }
        Method::Pathload => MethodChoice::Pathload,
        Method::PathChirp => MethodChoice::PathChirp,
    }
}

/// The papers' train with the interval that lets it scan the same share of this rate as of the paper's.
fn papers_train(rate: Rate) -> LinearScanConfig {
    let paper = LinearScanConfig::paper(measure::transport::MAX_PACKET);
    let interval = paper.interval.as_secs_f64() * PAPERS_RATE.as_f64() / rate.as_f64();
    LinearScanConfig { interval: Span::from_secs_f64(interval), ..paper }
}

/// The pattern of the cross traffic; none where the kernel's TCP makes it up. Each run meets another part of it; the same
/// run of the same scenario meets the same.
pub(crate) fn pattern(scenario: &Scenario, point: &Point) -> Option<CrossConfig> {
    let size = scenario.cross.packet_bytes;
    let rate = point.cross;
    let kind = match scenario.cross.kind {
        CrossKind::Constant => link::CrossKind::Constant { rate, size },
        CrossKind::Poisson => link::CrossKind::Poisson { rate, sizes: SizeMix::fixed(size) },
        CrossKind::OnOff => {
            let on = Span::from_millis(20);
            let burst = (rate.as_f64() + scenario.bottleneck.rate_of(point.direction).as_f64()) / 2.0;
            let off = Span::from_secs_f64(on.as_secs_f64() * (burst / rate.as_f64() - 1.0));
            link::CrossKind::OnOff { rate: Rate::from_f64(burst), size, on, off, periods: Periods::Exponential }
        }
        CrossKind::Tcp => return None,
    };
    // The golden ratio's multiples lie evenly between 0 and 1.
    let phase = (f64::from(point.run) * 0.618_033_988_749_895).fract();
    Some(CrossConfig { kind, start: Time::ZERO, phase, seed: u64::from(point.run) << 40 | rate.bits_per_second() })
}
