//! Whether a scenario on accuracy describes a path that can exist, with traffic that it can carry.

use crate::accuracy::keywords::{BottleneckKind, CrossKind, CrossSource, Transport};
use crate::accuracy::path::{Bottleneck, DownstreamHop};
use crate::accuracy::scenario::AccuracyScenario;
use crate::study::bounds::MAX_RATE;
use crate::study::checks::{check_delay, check_rate, check_runs, reject_if};
use kumade_units::{Direction, Rate};
use std::ops::RangeInclusive;

const PACKET_BYTES: RangeInclusive<u32> = 64..=1500;
const MAX_CROSS_PACKETS_PER_SECOND: f64 = 1e6;

/// # Errors
/// Says what is wrong and what to change.
pub(super) fn check(scenario: &AccuracyScenario) -> Result<(), String> {
    check_runs(scenario.runs)?;
    check_transports(scenario)?;
    check_bottleneck(&scenario.bottleneck)?;
    check_token_bucket(scenario)?;
    if let Some(hop) = &scenario.downstream_hop {
        check_downstream_hop(scenario, hop)?;
    }
    check_cross(scenario)
}

fn check_transports(scenario: &AccuracyScenario) -> Result<(), String> {
    let is_virtual = scenario.bottleneck.kind == BottleneckKind::Virtual;
    reject_if(is_virtual && scenario.transports.contains(&Transport::Single), || {
        let others = scenario.transports.iter().filter(|transport| **transport != Transport::Single);
        let others: Vec<_> = others.map(|transport| transport.word()).collect();
        let advice = match others.is_empty() {
            true => "name other transports with --transport, or leave --virtual out".to_owned(),
            false => format!("add --transport {} for its other rows, or leave --virtual out", others.join(",")),
        };
        format!("a virtual path has no congestion window, which is what `single` is about; {advice}")
    })
}

fn check_bottleneck(bottleneck: &Bottleneck) -> Result<(), String> {
    for rate in [Some(bottleneck.rate), bottleneck.down_rate].into_iter().flatten() {
        check_rate("a bottleneck", rate)?;
    }
    reject_if(bottleneck.kind == BottleneckKind::Htb && bottleneck.down_rate.is_some(), || {
        "HTB cannot have a different rate in the down direction; use the lab's own link".into()
    })?;
    check_delay("a delay", bottleneck.delay)
}

fn check_token_bucket(scenario: &AccuracyScenario) -> Result<(), String> {
    let Bottleneck { kind, rate, down_rate, burst, peak_rate, .. } = scenario.bottleneck;
    let (burst, peak) = match (burst, peak_rate) {
        (None, None) => return Ok(()),
        (Some(burst), Some(peak)) => (burst, peak),
        _ => return Err("a token bucket has a burst and a peak_rate; give both or neither".into()),
    };
    reject_if(kind == BottleneckKind::Htb, || "HTB cannot have a burst of its own; use the lab's own link".into())?;
    reject_if(scenario.downstream_hop.is_some(), || {
        "a token bucket with a downstream hop; leave one of them out".into()
    })?;
    let fastest = down_rate.map_or(rate, |down| down.max(rate));
    reject_if(burst == 0 || peak <= fastest || peak > MAX_RATE, || {
        format!("bursts of {burst} bytes at {peak}; choose at least 1 byte, and more than {fastest} up to {MAX_RATE}")
    })
}

fn check_downstream_hop(scenario: &AccuracyScenario, hop: &DownstreamHop) -> Result<(), String> {
    let bottleneck = &scenario.bottleneck;
    let fastest = bottleneck.rate_in(Direction::Up).max(bottleneck.rate_in(Direction::Down));
    reject_if(bottleneck.kind == BottleneckKind::Htb, || {
        "HTB cannot have a downstream hop; use the lab's own link".into()
    })?;
    reject_if(hop.rate_ratio.is_nan() || hop.rate_ratio <= 1.0 || hop.rate(fastest) > MAX_RATE, || {
        format!(
            "a downstream hop {} times as fast as the bottleneck; choose more than 1, up to {MAX_RATE}",
            hop.rate_ratio
        )
    })?;
    reject_if(hop.kind == CrossKind::Tcp || hop.load >= 1.0, || {
        "a downstream hop filled by its cross traffic; choose constant, jittered, poisson or on-off, and a load below 100 %"
            .into()
    })?;
    check_delay("a downstream hop's delay", hop.delay)?;
    check_packet_rate(hop.cross_traffic_rate(fastest), scenario.cross.packet_bytes)
}

fn check_cross(scenario: &AccuracyScenario) -> Result<(), String> {
    let cross = &scenario.cross;
    reject_if(cross.source == Some(CrossSource::Link) && scenario.needs_packets(), || {
        "cross traffic by TCP or before HTB cannot be computed in the link; have it sent as packets".into()
    })?;
    reject_if(!PACKET_BYTES.contains(&cross.packet_bytes), || {
        format!("cross-traffic packets of {} bytes; choose 64 to 1500", cross.packet_bytes)
    })?;
    if cross.kind == CrossKind::Tcp {
        return Ok(());
    }
    let rate = scenario.directions.iter().map(|direction| scenario.bottleneck.rate_in(*direction)).min();
    let (rate, max) = (rate.unwrap_or(Rate::ZERO), cross.levels.iter().copied().max().unwrap_or(Rate::ZERO));
    reject_if(max >= rate, || format!("cross traffic of {max} leaves nothing of a bottleneck of {rate}; choose less"))?;
    check_packet_rate(max, cross.packet_bytes)
}

fn check_packet_rate(rate: Rate, size: u32) -> Result<(), String> {
    let packets = rate.as_f64() / 8.0 / f64::from(size);
    reject_if(packets > MAX_CROSS_PACKETS_PER_SECOND, || {
        format!("cross traffic of {rate} in packets of {size} bytes is more than a million packets per second")
    })
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, Overrides};

    #[test]
    fn a_path_that_cannot_exist_is_refused_with_the_reason() {
        let accuracy = include_str!("../../scenarios/rake-accuracy.toml");
        let refused = |bottleneck: &str, hop: &str, part: &str| {
            let text = accuracy.replace("rate = \"100mbit\"", &format!("rate = \"100mbit\"\n{bottleneck}"));
            let hop = match hop {
                "" => String::new(),
                hop => format!("\n[downstream_hop]\nkind = \"constant\"\nqueue = \"64kb\"\n{hop}"),
            };
            let no_table = |_: &str| unreachable!("it names none");
            let read = Experiment::from_toml(&(text + &hop), "own.toml", &no_table, &Overrides::default());
            let error = read.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused("burst = \"10kb\"", "", "give both or neither");
        refused("burst = \"10kb\"\npeak_rate = \"90mbit\"", "", "more than 100 Mbit/s");
        let hop = "rate_ratio = 2\ndelay = \"1ms\"\nload = \"50%\"";
        refused("burst = \"10kb\"\npeak_rate = \"1gbit\"", hop, "leave one of them out");
        refused("", &hop.replace('2', "0.5"), "0.5 times as fast");
        refused("", &hop.replace("50%", "100%"), "load below 100 %");
        refused("", &hop.replace("1ms", "9s"), "delay of 9 s");
        refused("kind = \"htb\"", hop, "HTB cannot have a downstream hop");
    }
}
