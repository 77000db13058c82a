//! Values of a report as short texts.

use kumade_measurement::Report;
use kumade_measurement::report::{Burst, Bytes, DelayFigures, DelayReport, DirectionReport, PacketReport};
use kumade_probe_train::{Estimate, Transport};
use kumade_units::{Direction, Rate, Span};

/// Those that were measured.
pub fn measured_directions(report: &Report) -> Vec<(Direction, &DirectionReport)> {
    let measured = [(Direction::Up, &report.up), (Direction::Down, &report.down)];
    measured.into_iter().filter_map(|(direction, found)| Some((direction, found.as_ref()?))).collect()
}

/// The available bandwidth, or its bound.
pub fn available_cell(found: &DirectionReport) -> String {
    bound_cell(found)
        .unwrap_or_else(|| found.available_bits_per_second.map_or_else(|| "no value".to_owned(), rate_cell))
}

/// The same in at most 20 columns: an interval is always in percent.
pub fn narrow_available_cell(found: &DirectionReport) -> String {
    let narrow = |estimate: Estimate<Rate>| match half_interval_percent(estimate) {
        percent if percent > 999.0 => format!("{} ±> 999 %", estimate.value),
        percent => format!("{}{}", estimate.value, format_percent(percent)),
    };
    bound_cell(found).unwrap_or_else(|| found.available_bits_per_second.map_or_else(|| "no value".to_owned(), narrow))
}

fn bound_cell(found: &DirectionReport) -> Option<String> {
    match (found.at_least_bits_per_second, found.at_most_bits_per_second) {
        (Some(rate), _) => Some(format!("≥ {rate}")),
        (_, Some(rate)) => Some(format!("≤ {rate}")),
        _ => None,
    }
}

/// What a direction sent in all, and the time that it took.
pub fn cost_cell(found: &DirectionReport) -> String {
    format!("{} in {}", Bytes(found.total_bytes_sent()), Span::from_secs_f64(found.total_duration_seconds()))
}

/// What one flow can have, where flows have queues of their own.
pub fn fair_share_cell(found: &DirectionReport) -> String {
    found.fair_share_bits_per_second.map_or_else(|| "–".to_owned(), rate_cell)
}

/// The capacity, or its lower bound.
pub fn capacity_cell(found: &DirectionReport) -> String {
    match &found.capacity {
        Some(capacity) => match (capacity.bottleneck_bits_per_second, capacity.at_least_bits_per_second) {
            (Some(estimate), _) => rate_cell(estimate),
            (None, Some(bound)) => format!("≥ {}", bound.max(found.at_least_bits_per_second.unwrap_or(bound))),
            (None, None) => "unknown".to_owned(),
        },
        None => "–".to_owned(),
    }
}

/// The policer or shaper.
pub fn shaping_cell(direction: Direction, found: &DirectionReport) -> String {
    let Some(capacity) = &found.capacity else { return "–".to_owned() };
    if let Some(policer) = &capacity.policer {
        let rate = policer.rate_bits_per_second.map_or_else(String::new, |rate| format!(" at {}", rate.value));
        let burst = policer.burst_bytes.map_or_else(String::new, |burst| format!(", {}", Burst(burst)));
        return format!("policed{rate}{burst}");
    }
    match (&capacity.shaper, capacity.bottleneck_bits_per_second) {
        (Some(shaper), _) => {
            let place = match (shaper.at_sender, direction) {
                (false, _) => "",
                (true, Direction::Up) => " (this host's own interface)",
                (true, Direction::Down) => " (the server's own interface)",
            };
            format!("{}, {}{place}", shaper.committed_rate.value, Burst(shaper.burst_bytes))
        }
        // A token bucket that lets more pass at once may have been overlooked.
        (None, _) if let Some(bytes) = found.sustained_bytes => format!("none up to {}", Bytes(bytes)),
        (None, Some(_)) => "none seen".to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

/// Of the idle path, and while trains load this direction.
pub fn round_trip_cell(delay: &DelayReport, direction: Direction) -> String {
    let Some(idle) = &delay.round_trip else { return "no value".to_owned() };
    let idle = Span::from_secs_f64(idle.median_seconds.value);
    match loaded_round_trip_figures(delay, direction) {
        Some(loaded) => format!("{idle} → {}", Span::from_secs_f64(loaded.median_seconds.value)),
        None => idle.to_string(),
    }
}

/// Round trips while trains load this direction.
pub fn loaded_round_trip_figures(delay: &DelayReport, direction: Direction) -> Option<&DelayFigures> {
    match direction {
        Direction::Up => delay.up_loaded_round_trip.as_ref(),
        Direction::Down => delay.down_loaded_round_trip.as_ref(),
    }
}

/// By how much a filled path delays, and its grade: `C (+122 ms)`.
pub fn bufferbloat_cell(found: &DirectionReport) -> String {
    let Some(load) = &found.load else { return "–".to_owned() };
    match (load.describe_grade(), load.added_delay_seconds) {
        (Some(grade), Some(added)) if added.value < 1e-3 => format!("{grade} (+ < 1 ms)"),
        (Some(grade), Some(added)) => format!("{grade} (+{})", Span::from_secs_f64(added.value)),
        _ => "unknown".to_owned(),
    }
}

/// What TCP connections carried that filled the path.
pub fn goodput_cell(found: &DirectionReport) -> String {
    let goodput = found.load.as_ref().and_then(|load| load.goodput_bits_per_second);
    goodput.map_or_else(|| "–".to_owned(), |rate| rate.to_string())
}

/// Of packets without load by the measurement.
pub fn loss_cell(delay: &DelayReport, direction: Direction, transport: Transport) -> String {
    let packets = idle_packets(delay, direction);
    if transport == Transport::Udp { lost_cell(packets) } else { "hidden by TCP".to_owned() }
}

/// Packets without load by the measurement.
pub fn idle_packets(delay: &DelayReport, direction: Direction) -> Option<&PacketReport> {
    match direction {
        Direction::Up => delay.up_packets.as_ref(),
        Direction::Down => delay.down_packets.as_ref(),
    }
}

/// Packets of trains, which may overflow queues themselves.
pub fn loaded_packets(delay: &DelayReport, direction: Direction) -> Option<&PacketReport> {
    match direction {
        Direction::Up => delay.up_loaded_packets.as_ref(),
        Direction::Down => delay.down_loaded_packets.as_ref(),
    }
}

/// Of trains, which may overflow queues themselves: no loss of the path's own.
pub fn loaded_loss_cell(delay: &DelayReport, direction: Direction) -> String {
    lost_cell(loaded_packets(delay, direction))
}

/// How many of these packets were lost.
pub fn lost_cell(packets: Option<&PacketReport>) -> String {
    match packets.map_or((0, 0), |packets| (packets.sent, packets.lost)) {
        (0, _) => "–".to_owned(),
        (sent, 0) => format!("0 of {sent} packets"),
        (sent, lost) => format!("{:.2} % ({lost} of {sent} packets)", f64::from(lost) / f64::from(sent) * 100.0),
    }
}

/// The one-way delay, if the clocks tell it.
pub fn one_way_cell(delay: &DelayReport, direction: Direction) -> Option<String> {
    one_way_figures(delay, direction).map(|figures| delay_with_bound(figures.median_seconds))
}

/// One-way delays, if the clocks tell more of them than half the round trip does.
pub fn one_way_figures(delay: &DelayReport, direction: Direction) -> Option<&DelayFigures> {
    const MAX_INTERVAL_WIDTH_RATIO: f64 = 0.9;
    let figures = if direction == Direction::Up { &delay.up } else { &delay.down }.as_ref()?;
    let Estimate { low, high, .. } = figures.minimum_seconds;
    let round_trip = delay.round_trip.as_ref()?.minimum_seconds.value;
    (high - low < MAX_INTERVAL_WIDTH_RATIO * round_trip).then_some(figures)
}

/// A delay with its bound.
pub fn delay_with_bound(delay: Estimate<f64>) -> String {
    let [value, low, high] = [delay.value, delay.low, delay.high].map(Span::from_secs_f64);
    if low == high { value.to_string() } else { format!("{value} ±{}", (value - low).max(high - value)) }
}

/// A rate with the half of its interval, in percent.
pub fn rate_cell(estimate: Estimate<Rate>) -> String {
    let Estimate { value, low, high, .. } = estimate;
    match half_interval_percent(estimate) {
        percent if percent >= 99.5 => format!("{value} ({low} … {high})"),
        percent => format!("{value}{}", format_percent(percent)),
    }
}

/// The longer part of the interval, in percent of the value.
pub fn half_interval_percent(estimate: Estimate<Rate>) -> f64 {
    let [middle, least, most] = [estimate.value, estimate.low, estimate.high].map(Rate::as_f64);
    (middle - least).max(most - middle) / middle.max(1.0) * 100.0
}

fn format_percent(percent: f64) -> String {
    match percent {
        percent if percent <= 0.0 => String::new(),
        percent if percent >= 9.95 => format!(" ±{percent:.0} %"),
        percent => format!(" ±{:.1} %", percent.max(0.1)),
    }
}
