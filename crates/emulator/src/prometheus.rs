//! Statistics in Prometheus' text format (OpenMetrics).

use crate::report::{Bucket, DirectionReport, Document, Flow, FlowTraffic, Percentiles, Traffic};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;

/// The metrics of links: the document of each that covers the time since its start, and whether it runs.
pub fn encode_metrics(links: &[(Document, bool)]) -> String {
    let mut registry = Registry::with_prefix("kumade_link");
    registry.register_collector(Box::new(LinkMetrics(links.to_vec())));
    let mut out = String::new();
    // A string takes everything, so that nothing can fail.
    let _ = text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct LinkMetrics(Vec<(Document, bool)>);

type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Collector for LinkMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.encode_traffic(&mut encoder)?;
        self.encode_drops(&mut encoder)?;
        self.encode_flows(&mut encoder)?;
        self.encode_gauges(&mut encoder)?;
        self.encode_histograms(&mut encoder)
    }
}

impl LinkMetrics {
    /// Each direction of each link, with its labels.
    fn directions(&self) -> impl Iterator<Item = (Labels<'_>, &DirectionReport)> {
        let directions = self.0.iter().flat_map(|(link, _)| [(link, "up", &link.up), (link, "down", &link.down)]);
        directions.map(|(link, name, direction)| {
            let labels: Labels<'_> =
                vec![("link", &link.name), ("direction", name), ("from", &direction.from), ("to", &direction.to)];
            (labels, direction)
        })
    }

    fn encode_traffic(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        type Of = fn(&DirectionReport) -> &Traffic;
        let kinds: [(&str, &str, Of); 4] = [
            ("offered", "that reached the link", |direction| &direction.offered),
            ("delivered", "that were delivered", |direction| &direction.delivered),
            ("marked", "that the queue marked (ECN)", |direction| &direction.marked),
            ("corrupted", "that were delivered with a bit inverted", |direction| &direction.corrupted),
        ];
        for (kind, what, of) in kinds {
            let counts: Vec<_> = self.directions().map(|(labels, direction)| (labels, *of(direction))).collect();
            encode_counters(encoder, kind, what, &counts)?;
        }
        Ok(())
    }

    fn encode_drops(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut counts = Vec::new();
        for (labels, direction) in self.directions() {
            let drops = &direction.dropped;
            for (cause, traffic) in [
                ("queue_full", drops.queue_full),
                ("managed", drops.aqm),
                ("policed", drops.policed),
                ("loss", drops.loss),
                ("refused", drops.refused),
                ("malformed", drops.malformed),
                ("too_large", drops.too_large),
                ("overload", drops.overload),
                ("output", drops.output),
            ] {
                let labels = [labels.clone(), vec![("cause", cause)]].concat();
                counts.push((labels, traffic));
            }
        }
        encode_counters(encoder, "dropped", "that were dropped", &counts)
    }

    fn encode_flows(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        type Of = fn(&FlowTraffic) -> &Traffic;
        let kinds: [(&str, &str, Of); 4] = [
            ("flow_offered", "of one of the largest flows that reached the link", |flow| &flow.offered),
            ("flow_delivered", "of one of the largest flows that were delivered", |flow| &flow.delivered),
            ("flow_marked", "of one of the largest flows that the queue marked (ECN)", |flow| &flow.marked),
            ("flow_dropped", "of one of the largest flows that were dropped", |flow| &flow.dropped),
        ];
        let groups = self.directions().map(|(labels, direction)| (labels, group_flows(&direction.flows)));
        let groups: Vec<_> = groups.collect();
        for (kind, what, of) in kinds {
            let mut counts = Vec::new();
            for (labels, groups) in &groups {
                for (flow, members) in groups {
                    let labels = [labels.clone(), vec![("flow", flow.as_str())]].concat();
                    counts.push((labels, sum_traffic(members.iter().map(|traffic| of(traffic)))));
                }
            }
            encode_counters(encoder, kind, what, &counts)?;
        }
        Ok(())
    }

    fn encode_gauges(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        type Of = fn(&DirectionReport) -> Option<f64>;
        let gauges: [(&str, &str, Of); 3] = [
            ("queued_bytes", "Bytes in the queue", |direction| Some(direction.queued_bytes as f64)),
            ("fairness_index_ratio", "Jain's index of the active flows since the start", |direction| {
                direction.fairness_index_ratio
            }),
            ("active_flows", "Flows with at least ten packets", |direction| Some(direction.active_flows as f64)),
        ];
        for (name, help, of) in gauges {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, direction) in self.directions() {
                if let Some(value) = of(direction) {
                    metric.encode_family(&labels)?.encode_gauge(&value)?;
                }
            }
        }
        let help = "Whether 99 of 100 packets came out at most 0.3 ms late since the start";
        let mut metric = encoder.encode_descriptor("on_time", help, None, MetricType::Gauge)?;
        for (link, _) in &self.0 {
            let labels = vec![("link", link.name.as_str())];
            metric.encode_family(&labels)?.encode_gauge(&f64::from(u8::from(link.verdict.on_time)))?;
        }
        let mut metric = encoder.encode_descriptor("running", "Whether packets pass", None, MetricType::Gauge)?;
        for (link, is_running) in &self.0 {
            let labels = vec![("link", link.name.as_str())];
            metric.encode_family(&labels)?.encode_gauge(&f64::from(u8::from(*is_running)))?;
        }
        Ok(())
    }

    fn encode_histograms(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        type Of = fn(&DirectionReport) -> (&Vec<Bucket>, Option<&Percentiles>);
        let kinds: [(&str, &str, Of); 3] = [
            ("queueing_delay_seconds", "From arrival until transmission began", |direction| {
                (&direction.queueing_delay_histogram, direction.queueing_delay.as_ref())
            }),
            ("sojourn_seconds", "From arrival to delivery", |direction| {
                (&direction.sojourn_histogram, direction.sojourn.as_ref())
            }),
            ("lateness_seconds", "How much later than due packets were delivered", |direction| {
                (&direction.lateness_histogram, direction.lateness.as_ref())
            }),
        ];
        for (name, help, of) in kinds {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (labels, direction) in self.directions() {
                let (buckets, percentiles) = of(direction);
                let count = buckets.iter().map(|bucket| bucket.packets).sum();
                let sum = percentiles.map_or(0.0, |times| times.mean_seconds * count as f64);
                let buckets: Vec<_> = buckets
                    .iter()
                    .map(|bucket| (bucket.up_to_seconds.unwrap_or(f64::INFINITY), bucket.packets))
                    .collect();
                metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}

/// Flows that differ in their ephemeral ports only, together: with these, series would grow without limit.
fn group_flows(flows: &[Flow]) -> BTreeMap<String, Vec<&FlowTraffic>> {
    let mut groups: BTreeMap<String, Vec<&FlowTraffic>> = BTreeMap::new();
    for flow in flows {
        let name = without_ephemeral_ports(flow.name.as_deref().unwrap_or_default());
        groups.entry(name).or_default().push(&flow.traffic);
    }
    groups
}

/// The lowest of the ports that systems give to clients (RFC 6335 says 49152, Linux begins lower).
const MIN_EPHEMERAL_PORT: u16 = 32_768;

/// `tcp 10.0.0.1:40312 > 10.0.0.2:80` as `tcp 10.0.0.1 > 10.0.0.2:80`. IPv6 addresses with a port are in brackets.
fn without_ephemeral_ports(name: &str) -> String {
    let word = |word: &str| match word.rsplit_once(':') {
        Some((address, port)) if address.contains('.') || address.ends_with(']') => {
            let is_ephemeral = port.parse::<u16>().is_ok_and(|port| port >= MIN_EPHEMERAL_PORT);
            if is_ephemeral { address.to_owned() } else { word.to_owned() }
        }
        _ => word.to_owned(),
    };
    name.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn sum_traffic<'t>(parts: impl Iterator<Item = &'t Traffic>) -> Traffic {
    parts.fold(Traffic { packets: 0, bytes: 0, bits_per_second: 0.0 }, |sum, part| Traffic {
        packets: sum.packets + part.packets,
        bytes: sum.bytes + part.bytes,
        bits_per_second: sum.bits_per_second + part.bits_per_second,
    })
}

/// Packets and bytes, a counter each; `what` ends their help texts.
fn encode_counters(
    encoder: &mut DescriptorEncoder,
    kind: &str,
    what: &str,
    counts: &[(Labels<'_>, Traffic)],
) -> fmt::Result {
    type Of = fn(&Traffic) -> u64;
    let units: [(&str, &str, Of); 2] =
        [("packets", "Packets", |traffic| traffic.packets), ("bytes", "Bytes of IP packets", |traffic| traffic.bytes)];
    for (unit, subject, of) in units {
        let (name, help) = (format!("{kind}_{unit}"), format!("{subject} {what}"));
        let mut metric = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
        for (labels, traffic) in counts {
            metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&of(traffic), None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::without_ephemeral_ports;

    /// Finding 7 of the review by a new user: series grew without limit.
    #[test]
    fn ephemeral_ports_are_left_out() {
        for (name, expected) in [
            ("tcp 10.0.0.1:40312 > 10.0.0.2:80", "tcp 10.0.0.1 > 10.0.0.2:80"),
            ("udp [fd00::1]:53 > [fd00::2]:60000", "udp [fd00::1]:53 > [fd00::2]"),
            ("icmp 10.0.0.1 > 10.0.0.2", "icmp 10.0.0.1 > 10.0.0.2"),
            ("proto 58 fd00::1 > fd00::2", "proto 58 fd00::1 > fd00::2"),
            ("", ""),
        ] {
            assert_eq!(without_ephemeral_ports(name), expected);
        }
    }
}
