use super::document::Report;
use super::format::format_size;
use crate::accuracy::keywords::{BottleneckKind, CrossKind, CrossSource};
use kumade_units::{Direction, Rate, Span};
use std::collections::BTreeSet;

/// The path and its traffic in one line.
pub(super) fn describe_setting(report: &Report) -> String {
    let b = &report.bottleneck;
    let kind = match b.kind {
        BottleneckKind::Emulated => "emulated link",
        BottleneckKind::Htb => "the kernel's HTB",
        BottleneckKind::Virtual => "virtual link",
    };
    let besides = [
        (report.rows.iter().any(|row| row.downstream_bits_per_second.is_some()), "with a downstream hop"),
        (report.rows.iter().any(|row| row.burst_bytes.is_some()), "as a token bucket"),
    ];
    let besides = besides.iter().filter(|(any, _)| *any).map(|(_, what)| format!(", also {what}")).collect::<String>();
    let delay = Span::from_secs_f64(b.delay_seconds);
    let firewall = if report.firewall.is_empty() { "none".to_owned() } else { report.firewall.join("; ") };
    format!(
        "bottleneck {} ({kind}){besides}, one-way delay {delay}, queue {}; {}; firewall: {firewall}",
        describe_rates(report),
        format_size(b.queue_bytes),
        describe_cross_traffic(report)
    )
}

fn describe_cross_traffic(report: &Report) -> String {
    let kinds: BTreeSet<_> = report.rows.iter().map(|row| row.cross_kind).collect();
    let words = kinds.iter().map(CrossKind::to_string).collect::<Vec<_>>().join(", ");
    match (kinds.is_empty(), report.cross_source) {
        (true, _) => "no cross traffic".to_owned(),
        _ if kinds.iter().eq([&CrossKind::Tcp]) => "cross traffic by one TCP connection".to_owned(),
        (_, CrossSource::Link) => format!("{words} cross traffic computed inside the link"),
        (_, CrossSource::Packets) => format!("{words} cross traffic sent as UDP packets"),
    }
}

/// The bottleneck's rates: all of them where they were varied.
fn describe_rates(report: &Report) -> String {
    let write = |bits: u64| Rate::from_bits_per_second(bits).to_string();
    let rates_of = |direction: Direction| {
        let rows = report.rows.iter().filter(|row| row.direction == direction);
        let rates: BTreeSet<_> = rows.map(|row| row.bottleneck_bits_per_second).collect();
        rates.into_iter().map(write).collect::<Vec<_>>().join(", ")
    };
    match (rates_of(Direction::Up), rates_of(Direction::Down)) {
        (up, down) if up.is_empty() && down.is_empty() => write(report.bottleneck.rate_bits_per_second),
        (up, down) if up.is_empty() || up == down => down,
        (up, down) if down.is_empty() => up,
        (up, down) => format!("{up} up, {down} down"),
    }
}
