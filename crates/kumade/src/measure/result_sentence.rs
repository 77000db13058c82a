//! A report in one sentence.

use super::cells::{available_cell, half_interval_percent, measured_directions, rate_cell};
use kumade_measurement::Report;
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Transport;
use kumade_units::Direction;

/// An interval that is wider to either side stands in the sentence, too: who reads nothing else must not take the value for exact.
const MAX_UNSAID_PERCENT: f64 = 20.0;

/// `Available: 18.2 Mbit/s of 20 Mbit/s up, 94.1 Mbit/s down, over UDP.`
pub fn result_sentence(report: &Report) -> String {
    let directions = measured_directions(report);
    let found: Vec<String> = directions
        .iter()
        .filter(|(_, found)| found.has_result())
        .map(|(direction, found)| direction_clause(*direction, found))
        .collect();
    let transport = directions.first().map_or("", |(_, found)| transport_text(found.transport));
    if found.is_empty() {
        return format!("The available bandwidth could not be determined over {transport}.");
    }
    let shaped = match Direction::BOTH.map(|direction| is_shaped_by_sender(report, direction)) {
        [true, true] => " The two hosts' own interfaces shape the path.",
        [true, false] => " This host's own interface shapes the path up.",
        [false, true] => " The server's own interface shapes the path down.",
        [false, false] => "",
    };
    let bufferbloat =
        bufferbloat_grade(report).map_or_else(String::new, |grade| format!(" Bufferbloat: grade {grade}."));
    format!("Available: {}, over {transport}.{shaped}{bufferbloat}", found.join(", "))
}

/// The worse of both directions: `C`, or `A up, C to D down` where either is not one grade alone.
fn bufferbloat_grade(report: &Report) -> Option<String> {
    let loads = || {
        measured_directions(report).into_iter().filter_map(|(direction, found)| Some((direction, found.load.as_ref()?)))
    };
    let sure = loads().map(|(_, load)| load.worst_grade.filter(|worst| load.best_grade == Some(*worst)));
    if let Some(worst) = sure.max_by_key(|grade| grade.map_or((1, None), |grade| (0, Some(grade))))? {
        return Some(worst.to_string());
    }
    let grades: Vec<String> =
        loads().filter_map(|(direction, load)| Some(format!("{} {direction}", load.describe_grade()?))).collect();
    (!grades.is_empty()).then(|| grades.join(", "))
}

fn is_shaped_by_sender(report: &Report, direction: Direction) -> bool {
    let found = measured_directions(report).into_iter().find(|(of, _)| *of == direction);
    let shaper = found.and_then(|(_, found)| found.capacity.as_ref()?.shaper);
    shaper.is_some_and(|shaper| shaper.at_sender)
}

fn direction_clause(direction: Direction, found: &DirectionReport) -> String {
    let bounded = found.at_least_bits_per_second.is_some() || found.at_most_bits_per_second.is_some();
    if bounded {
        let why = bound_reason(direction, found).map_or_else(String::new, |why| format!(" ({why})"));
        return format!("{}{why} {direction}", available_cell(found));
    }
    let Some(estimate) = found.available_bits_per_second else { return String::new() };
    let capacity = found.capacity.as_ref().and_then(|capacity| capacity.bottleneck_bits_per_second);
    // Equal within what either is accurate to.
    let busy = capacity.filter(|capacity| capacity.low > estimate.high);
    let of = busy.map_or_else(String::new, |capacity| format!(" of {}", capacity.value));
    let value = match half_interval_percent(estimate) {
        percent if percent > MAX_UNSAID_PERCENT => rate_cell(estimate),
        _ => estimate.value.to_string(),
    };
    format!("{value}{of} {direction}")
}

/// Why there is no more than a bound.
fn bound_reason(direction: Direction, found: &DirectionReport) -> Option<&'static str> {
    let lower = found.at_least_bits_per_second.is_some();
    Some(match (found.limited_by.as_deref()?, direction) {
        ("sender", Direction::Up) => "this host cannot send faster",
        ("sender", Direction::Down) => "the server cannot send faster",
        ("host", _) => "a host may be no faster",
        ("budget", _) => "the budget allowed no faster train",
        ("flow-queueing", _) => "the fair share of one flow",
        ("growing-queue", _) => "a queue kept growing",
        ("loss", _) => "longer trains lost packets",
        ("nearly-full", _) => "the path is nearly full",
        ("token-bucket", _) => "more passes for a burst only",
        ("range", _) if lower => "the method tries no higher rate",
        ("range", _) => "the method tries no lower rate",
        _ => return None,
    })
}

fn transport_text(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "UDP",
        Transport::Rake => "many TCP connections",
        Transport::Single => "one TCP connection",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_estimate::{Outcome, Reason};
    use kumade_measurement::Cost;
    use kumade_probe_train::Estimate;
    use kumade_units::Rate;

    /// "19 Mbit/s" was all that the sentence said of 5 to 33.
    #[test]
    fn a_wide_interval_stands_in_the_sentence() {
        let clause = |low, high| {
            let [value, low, high] = [19, low, high].map(Rate::from_mbit);
            let available = Some(Estimate { value, low, high, confidence: 0.95 });
            let outcome = Outcome { available, reason: None, ..Outcome::without_value(Reason::NoPacketArrived) };
            let found = DirectionReport::new(Transport::Udp, 0, "primed", outcome, None, &Cost::default());
            direction_clause(Direction::Up, &found)
        };
        assert_eq!(clause(18, 20), "19 Mbit/s up");
        assert_eq!(clause(5, 33), "19 Mbit/s ±74 % up");
    }
}
