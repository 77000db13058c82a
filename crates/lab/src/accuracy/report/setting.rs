use super::document::Report;
use super::format::size;
use std::collections::BTreeSet;
use units::Span;

/// The path and its traffic in a line.
pub(super) fn of(report: &Report) -> String {
    let b = &report.bottleneck;
    let rate = rates(report);
    let shaper = match b.kind.as_str() {
        "htb" => "the kernel's HTB",
        "virtual" => "a virtual link",
        _ => "the lab's own link",
    };
    let delay = match b.delay_seconds {
        0.0 => "no delay".to_owned(),
        seconds => format!("{} each way", Span::from_secs_f64(seconds)),
    };
    let kinds: BTreeSet<_> = report.rows.iter().map(|row| row.cross_kind.as_str()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let cross = match (if kinds.is_empty() { "no" } else { kinds.as_str() }, report.cross_by.as_str()) {
        ("tcp", _) => "cross traffic by one TCP connection that sends what it may".to_owned(),
        (kind, "link") => format!("{kind} cross traffic computed inside the link"),
        (kind, _) => format!("{kind} cross traffic sent as UDP packets"),
    };
    let firewall = if report.firewall.is_empty() { "none".to_owned() } else { report.firewall.join("; ") };
    let besides = [
        (report.rows.iter().any(|row| row.later_bits_per_second.is_some()), "with a later hop"),
        (report.rows.iter().any(|row| row.burst_bytes.is_some()), "as a token bucket"),
    ];
    let besides = besides.iter().filter(|(any, _)| *any).map(|(_, what)| format!(", also {what}")).collect::<String>();
    let queue = size(b.queue_bytes);
    format!("bottleneck {rate} ({shaper}){besides}, {delay}, queue {queue}; {cross}; firewall: {firewall}")
}

/// The bottleneck's rates: of a sweep, all of them.
fn rates(report: &Report) -> String {
    let write = |bits: u64| units::Rate::from_bits_per_second(bits).to_string();
    let rates_of = |direction: &str| {
        let rows = report.rows.iter().filter(|row| row.direction == direction);
        let rates: BTreeSet<_> = rows.map(|row| row.bottleneck_bits_per_second).collect();
        rates.into_iter().map(write).collect::<Vec<_>>().join(", ")
    };
    match (rates_of("up"), rates_of("down")) {
        (up, down) if up.is_empty() || up == down => {
            if down.is_empty() {
                write(report.bottleneck.rate_bits_per_second)
            } else {
                down
            }
        }
        (up, down) if down.is_empty() => up,
        (up, down) => format!("{up} up, {down} down"),
    }
}
