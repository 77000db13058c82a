use crate::status::metrics::{TrafficCounter, encode_traffic};
use crate::status::resequencing::Resequencing;
use crate::status::tunnel::{PathState, Tunnel, TunnelPath};
use kumade_daemon::metrics::{Counter, Encoder, Gauge, LabelledItems, bool_as_f64};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

const TUNNEL_GAUGES: [Gauge<Tunnel>; 4] = [
    ("connected", "Whether both ends have agreed on keys, and the far end answers", |tunnel| {
        Some(bool_as_f64(tunnel.connected))
    }),
    ("last_heard_seconds", "How long ago anything came from the far end", |tunnel| tunnel.last_heard_seconds),
    ("queued_packets", "Packets that wait until a path has room", |tunnel| Some(tunnel.queued_packets as f64)),
    ("threads", "Of several threads, how many carry packets to the far end", |tunnel| tunnel.threads.map(f64::from)),
];
const TUNNEL_COUNTERS: [Counter<Tunnel>; 6] = [
    ("losses", "How often the far end was lost", |tunnel| tunnel.losses),
    ("key_changes", "How often keys have changed", |tunnel| tunnel.key_changes),
    ("restarts", "How often the far end has restarted", |tunnel| tunnel.restarts),
    ("dropped_packets", "Packets that the queue discipline has dropped", |tunnel| tunnel.dropped_packets),
    ("saved_header_bytes", "Bytes by which packets were shorter, since their headers were compressed", |tunnel| {
        tunnel.saved_header_bytes
    }),
    (
        "undecompressed_packets",
        "Packets that were dropped, since the headers they were compressed by are unknown",
        |tunnel| tunnel.undecompressed_packets,
    ),
];

const PATH_GAUGES: [Gauge<TunnelPath>; 7] = [
    ("path_up", "Whether the path carries packets both ways", |path| Some(bool_as_f64(path.state == PathState::Up))),
    ("path_rate_bytes_per_second", "What the path carries, as its traffic has shown", |path| {
        Some(path.rate_bits_per_second / 8.0)
    }),
    ("path_round_trip_seconds", "Smoothed round-trip time", |path| path.round_trip_seconds),
    ("path_min_round_trip_seconds", "Minimum round-trip time of the last 10 to 20 s", |path| {
        path.min_round_trip_seconds
    }),
    ("path_queue_seconds", "How long packets wait in the path's own queue", |path| Some(path.queue_seconds)),
    ("path_loss_ratio", "Packets that are lost, but for those lost because too much was sent", |path| {
        Some(path.loss_ratio)
    }),
    ("path_share_ratio", "The path's part of the bytes that left in the last second", |path| path.share_ratio),
];
const PATH_COUNTERS: [Counter<TunnelPath>; 2] = [
    ("path_failures", "How often the path has failed, or its TCP connection ended", |path| path.failures),
    ("path_lost_packets", "Packets that did not arrive, for whatever cause", |path| path.lost_packets),
];
const PATH_TRAFFIC: [TrafficCounter<TunnelPath>; 3] = [
    ("path_sent", "that left by the path", |path| &path.sent),
    ("path_delivered", "that arrived at the far end", |path| &path.delivered),
    ("path_received", "that came over the path", |path| &path.received),
];

const RESEQUENCING_GAUGES: [Gauge<Resequencing>; 2] = [
    ("resequencing_waiting_packets", "Packets that wait for earlier ones", |order| Some(order.waiting_packets as f64)),
    ("resequencing_max_depth_packets", "The most packets that waited at once in one part of the flows", |order| {
        Some(order.max_depth_packets as f64)
    }),
];
const RESEQUENCING_COUNTERS: [Counter<Resequencing>; 7] = [
    ("resequencing_in_order_packets", "Packets delivered in order", |order| order.in_order_packets),
    ("resequencing_unordered_packets", "Packets of flows that prefer speed to order", |order| order.unordered_packets),
    ("resequencing_lost_packets", "Packets declared lost", |order| order.lost_packets),
    ("resequencing_late_packets", "Packets delivered although later ones had been", |order| order.late_packets),
    ("resequencing_duplicate_packets", "Copies that were dropped", |order| order.duplicate_packets),
    ("resequencing_expired_waits", "Waits that ended by the timer", |order| order.expired_waits),
    ("resequencing_evicted_waits", "Waits that ended because memory was needed", |order| order.evicted_waits),
];

impl Tunnel {
    /// The metrics of all far ends, their paths and the order of packets. The names of the first two kinds begin with `prefix`.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn encode_metrics(
        encoder: &mut DescriptorEncoder<'_>,
        prefix: &'static str,
        tunnels: &LabelledItems<'_, Tunnel>,
    ) -> fmt::Result {
        let mut named = Encoder::new(encoder, prefix);
        named.encode_gauges(tunnels, &TUNNEL_GAUGES)?;
        named.encode_counters(tunnels, &TUNNEL_COUNTERS)?;
        let mut paths = Vec::new();
        for (labels, tunnel) in tunnels {
            let labelled = |path| ([labels.as_slice(), &[("path", path_name(path))]].concat(), path);
            paths.extend(tunnel.paths.iter().map(labelled));
        }
        named.encode_gauges(&paths, &PATH_GAUGES)?;
        named.encode_counters(&paths, &PATH_COUNTERS)?;
        encode_traffic(&mut named, &paths, &PATH_TRAFFIC)?;
        let orders: Vec<_> = tunnels.iter().map(|(labels, tunnel)| (labels.clone(), &tunnel.resequencing)).collect();
        let mut plain = Encoder::new(encoder, "");
        plain.encode_gauges(&orders, &RESEQUENCING_GAUGES)?;
        plain.encode_counters(&orders, &RESEQUENCING_COUNTERS)?;
        encode_waits(&mut plain, &orders)
    }
}

fn path_name(path: &TunnelPath) -> &str {
    &path.name
}

fn encode_waits(encoder: &mut Encoder<'_, '_>, of: &LabelledItems<'_, Resequencing>) -> fmt::Result {
    let help = "How long packets waited for earlier ones";
    encoder.encode_metric("resequencing_wait_seconds", help, MetricType::Histogram, |mut metric| {
        of.iter().try_for_each(|(labels, order)| {
            let (count, sum) = order.waits.map_or((0, 0.0), |waits| (waits.packets, waits.total_seconds));
            let buckets = order.waits_histogram.iter();
            let buckets: Vec<_> =
                buckets.map(|bucket| (bucket.up_to_seconds.unwrap_or(f64::INFINITY), bucket.packets)).collect();
            metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })
    })
}
