use super::bottleneck::Bottleneck;
use super::packets::PrimedTrain;
use crate::stats::mean;
use kumade_probe_train::fit::{FittedLine, lower_hull};

/// The delay of a packet of no size through empty queues, as a line over time: clocks drift. From the lower hull of
/// the trains' least delays; a slope that no pair of clocks has is taken for a path that never was empty.
pub(super) fn delay_floor(trains: &[PrimedTrain], bottleneck: Bottleneck) -> FittedLine {
    const MAX_SLOPE_SECONDS_PER_SECOND: f64 = 200e-6;
    // A sending stamp that was taken late makes a delay look too short: the two least of each train are passed over.
    let least = |train: &PrimedTrain| {
        let passing = train.packet_bits / bottleneck.line_rate;
        let mut delays: Vec<(f64, f64)> =
            train.points.iter().map(|p| (p.sent, p.first_packet_delay - passing)).collect();
        delays.sort_by(|a, b| a.1.total_cmp(&b.1));
        delays.get(2).or(delays.first()).copied()
    };
    let points: Vec<(f64, f64)> = trains.iter().filter_map(least).collect();
    let hull = lower_hull(points.iter().copied());
    let middle = mean(&points.iter().map(|p| p.0).collect::<Vec<_>>());
    let edge = hull.windows(2).find(|w| (w[0].0..=w[1].0).contains(&middle));
    if let Some([a, b]) = edge {
        let slope = (b.1 - a.1) / (b.0 - a.0);
        if slope.abs() <= MAX_SLOPE_SECONDS_PER_SECOND {
            return FittedLine { intercept: a.1 - slope * a.0, slope };
        }
    }
    FittedLine { intercept: hull.iter().map(|p| p.1).fold(f64::INFINITY, f64::min), slope: 0.0 }
}
