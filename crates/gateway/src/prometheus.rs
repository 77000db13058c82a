//! The status of a gateway in Prometheus' text format (OpenMetrics).

use crate::status::{
    Path, PathState, Refused, Remote, RemotePath, RemoteSessions, Resequencing, Status, Traffic, Tunnel, TunnelPath,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// The metrics of a gateway. Their names begin with `kumade_gateway_`.
pub fn metrics(status: Status) -> String {
    let mut registry = Registry::with_prefix("kumade_gateway");
    registry.register_collector(Box::new(Metrics(status)));
    let mut out = String::new();
    // A string takes everything, so that nothing can fail.
    let _ = text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Metrics(Status);

type Labels<'a> = Vec<(&'static str, &'a str)>;
/// What metrics are of, with the labels of each.
type Labelled<'a, T> = [(Labels<'a>, &'a T)];
/// Name, help text, value; metrics without a value are left out.
type Gauge<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);
/// Name without `_total`, help text, value.
type Counter<T> = (&'static str, &'static str, fn(&T) -> u64);
/// The beginning of the names, the end of the help texts, value.
type Traffics<T> = (&'static str, &'static str, fn(&T) -> &Traffic);

const GATEWAY: [Gauge<Status>; 2] = [
    ("uptime_seconds", "For how long the gateway has run", |status| Some(status.duration_seconds)),
    ("sessions", "NAT sessions, in whatever phase", |status| Some(status.session_count as f64)),
];

const PATH: [Gauge<Path>; 2] = [
    ("path_up", "Whether packets take the path", |path| Some(truth(path.up))),
    ("path_share_ratio", "The path's part of the bytes that left in the last second", |path| path.share_ratio),
];
const PATH_TRAFFIC: [Traffics<Path>; 1] = [("path_sent", "that left by the path", |path| &path.sent)];

const REMOTE_PATH: [Gauge<RemotePath>; 5] = [
    ("remote_path_weight", "The path's part of the packets to the remote site", |path| path.weight.map(f64::from)),
    ("remote_path_measured_rate_bytes_per_second", "The rate by which the path is weighed", |path| {
        path.measured.as_ref()?.rate_bits_per_second.map(|rate| rate / 8.0)
    }),
    ("remote_path_available_bytes_per_second", "The available bandwidth by the last measurement", |path| {
        path.measured.as_ref()?.available_bits_per_second.map(|available| available.value / 8.0)
    }),
    ("remote_path_loss_ratio", "Packets lost on the idle path, by the last measurement", |path| {
        path.measured.as_ref()?.loss_ratio.map(|loss| loss.value)
    }),
    ("remote_path_measured_age_seconds", "How long ago the last measurement was that has succeeded", |path| {
        path.measured.as_ref()?.age_seconds
    }),
];

const TUNNEL: [Gauge<Tunnel>; 2] = [
    ("tunnel_connected", "Whether both gateways have agreed on keys", |tunnel| Some(truth(tunnel.connected))),
    ("tunnel_queued_packets", "Packets that wait until a path has room", |tunnel| Some(tunnel.queued_packets as f64)),
];
const TUNNEL_COUNTERS: [Counter<Tunnel>; 3] = [
    ("tunnel_key_changes", "How often keys have changed", |tunnel| tunnel.key_changes),
    ("tunnel_restarts", "How often the remote gateway has restarted", |tunnel| tunnel.restarts),
    ("tunnel_dropped_packets", "Packets that the queue discipline has dropped", |tunnel| tunnel.dropped_packets),
];

const TUNNEL_PATH: [Gauge<TunnelPath>; 7] = [
    ("tunnel_path_up", "Whether the path carries packets both ways", |path| Some(truth(path.state == PathState::Up))),
    ("tunnel_path_rate_bytes_per_second", "What the path carries, as its traffic has shown", |path| {
        Some(path.rate_bits_per_second / 8.0)
    }),
    ("tunnel_path_round_trip_seconds", "Smoothed round-trip time", |path| path.round_trip_seconds),
    ("tunnel_path_min_round_trip_seconds", "Least round-trip time of the last 10 to 20 s", |path| {
        path.min_round_trip_seconds
    }),
    ("tunnel_path_queue_seconds", "How long packets wait in the path's own queue", |path| Some(path.queue_seconds)),
    ("tunnel_path_loss_ratio", "Packets that are lost, but for those lost because too much was sent", |path| {
        Some(path.loss_ratio)
    }),
    ("tunnel_path_share_ratio", "The path's part of the bytes that left in the last second", |path| path.share_ratio),
];
const TUNNEL_PATH_COUNTERS: [Counter<TunnelPath>; 1] =
    [("tunnel_path_lost_packets", "Packets that did not arrive, for whatever cause", |path| path.lost_packets)];
const TUNNEL_PATH_TRAFFIC: [Traffics<TunnelPath>; 3] = [
    ("tunnel_path_sent", "that left by the path", |path| &path.sent),
    ("tunnel_path_delivered", "that arrived at the remote gateway", |path| &path.delivered),
    ("tunnel_path_received", "that came over the path", |path| &path.received),
];

const RESEQUENCING: [Gauge<Resequencing>; 2] = [
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

const SESSIONS: [Gauge<RemoteSessions>; 3] = [
    ("sessions_connected", "Whether both gateways have agreed on keys", |sessions| Some(truth(sessions.connected))),
    ("sessions_reachable", "Whether the remote gateway answers", |sessions| Some(truth(sessions.reachable))),
    ("sessions_restored", "Flows from the site that are given their addresses back", |sessions| {
        Some(sessions.restored as f64)
    }),
];
const SESSION_COUNTERS: [Counter<RemoteSessions>; 17] = [
    ("sessions_begun", "Flows for which a session was begun", |of| of.counters.begun),
    ("sessions_accepted", "Requests that the remote gateway has confirmed", |of| of.counters.accepted),
    ("sessions_refused", "Requests that it has refused", |of| of.counters.refused),
    ("sessions_idle", "Sessions that ended because no packet passed", |of| of.counters.idle),
    ("sessions_unanswered", "Requests and ends that were never answered", |of| of.counters.unanswered),
    ("sessions_asked_again", "Sessions that the remote gateway had lost", |of| of.counters.asked_again),
    ("sessions_no_alias", "Flows for which no aliases were free", |of| of.counters.no_alias),
    ("sessions_full", "Flows seen while there were as many sessions as may be", |of| of.counters.full),
    ("sessions_failed", "Flows for which the system took no rule", |of| of.counters.failed),
    ("sessions_granted", "Rules installed for the remote gateway", |of| of.counters.granted),
    ("sessions_denied", "Requests of the remote gateway that were refused", |of| of.counters.denied),
    ("sessions_lapsed", "Rules removed because they were no longer mentioned", |of| of.counters.lapsed),
    ("sessions_remote_restarts", "Restarts of the remote gateway", |of| of.counters.restarts),
    ("sessions_remote_losses", "Times that the remote gateway no longer answered", |of| of.counters.losses),
    ("sessions_retransmitted_messages", "Messages that were sent again", |of| of.counters.retransmissions),
    ("sessions_ignored_messages", "Messages of earlier lives, and those not understood", |of| {
        of.counters.ignored_messages
    }),
    ("sessions_rate_limited_messages", "Messages beyond the rate that is looked at", |of| {
        of.counters.rate_limited_messages
    }),
];

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let encoder = &mut encoder;
        let gateway = ("gateway", self.0.name.as_str());
        gauges(encoder, &[(vec![gateway], &self.0)], &GATEWAY)?;
        let paths = self.0.paths.iter();
        let paths = paths.map(|path| (vec![gateway, ("path", &*path.name), ("interface", &*path.interface)], path));
        let paths: Vec<_> = paths.collect();
        gauges(encoder, &paths, &PATH)?;
        traffic(encoder, &paths, &PATH_TRAFFIC)?;
        self.remote_paths(encoder)?;
        self.tunnels(encoder)?;
        self.sessions(encoder)?;
        self.0.refused.iter().try_for_each(|refused| refusals(encoder, gateway, refused))
    }
}

impl Metrics {
    fn remote_paths(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut paths = Vec::new();
        for remote in &self.0.remotes {
            let labels = [("gateway", self.0.name.as_str()), ("remote", remote.name.as_str())];
            paths.extend(
                remote.paths.iter().map(|path| ([labels.as_slice(), &[("path", path.name.as_str())]].concat(), path)),
            );
        }
        gauges(encoder, &paths, &REMOTE_PATH)
    }

    fn sessions(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let sessions = self.of_remotes(|remote| remote.sessions.as_ref());
        gauges(encoder, &sessions, &SESSIONS)?;
        counters(encoder, &sessions, &SESSION_COUNTERS)?;
        let help = "Flows to the site that have a session, by its phase";
        let mut metric = encoder.encode_descriptor("sessions_divided", help, None, MetricType::Gauge)?;
        for (labels, of) in &sessions {
            for (phase, count) in of.divided.by_name() {
                let labels = [labels.as_slice(), &[("phase", phase)]].concat();
                metric.encode_family(&labels)?.encode_gauge(&(count as f64))?;
            }
        }
        Ok(())
    }

    /// What remote sites have, with the labels of each.
    fn of_remotes<'a, T>(&'a self, part: impl Fn(&'a Remote) -> Option<&'a T>) -> Vec<(Labels<'a>, &'a T)> {
        let labels = |name| vec![("gateway", self.0.name.as_str()), ("remote", name)];
        let remotes = self.0.remotes.iter();
        remotes.filter_map(|remote| Some((labels(remote.name.as_str()), part(remote)?))).collect()
    }

    fn tunnels(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let tunnels = self.of_remotes(|remote| remote.tunnel.as_ref());
        gauges(encoder, &tunnels, &TUNNEL)?;
        counters(encoder, &tunnels, &TUNNEL_COUNTERS)?;
        let mut paths = Vec::new();
        for (labels, tunnel) in &tunnels {
            let labelled = |path| ([labels.as_slice(), &[("path", path_name(path))]].concat(), path);
            paths.extend(tunnel.paths.iter().map(labelled));
        }
        gauges(encoder, &paths, &TUNNEL_PATH)?;
        counters(encoder, &paths, &TUNNEL_PATH_COUNTERS)?;
        traffic(encoder, &paths, &TUNNEL_PATH_TRAFFIC)?;
        let orders: Vec<_> = tunnels.into_iter().map(|(labels, tunnel)| (labels, &tunnel.resequencing)).collect();
        gauges(encoder, &orders, &RESEQUENCING)?;
        counters(encoder, &orders, &RESEQUENCING_COUNTERS)?;
        waits(encoder, &orders)
    }
}

fn path_name(path: &TunnelPath) -> &str {
    &path.name
}

fn gauges<T>(encoder: &mut DescriptorEncoder, of: &Labelled<'_, T>, gauges: &[Gauge<T>]) -> fmt::Result {
    for (name, help, value) in gauges {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, item) in of {
            if let Some(value) = value(item) {
                metric.encode_family(labels)?.encode_gauge(&value)?;
            }
        }
    }
    Ok(())
}

fn counters<T>(encoder: &mut DescriptorEncoder, of: &Labelled<'_, T>, counters: &[Counter<T>]) -> fmt::Result {
    for (name, help, value) in counters {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, item) in of {
            metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value(item), None)?;
        }
    }
    Ok(())
}

/// Packets and bytes, a counter each.
fn traffic<T>(encoder: &mut DescriptorEncoder, of: &Labelled<'_, T>, kinds: &[Traffics<T>]) -> fmt::Result {
    type Of = fn(&Traffic) -> u64;
    let units: [(&str, &str, Of); 2] =
        [("packets", "Packets", |traffic| traffic.packets), ("bytes", "Bytes of IP packets", |traffic| traffic.bytes)];
    for (kind, what, traffic) in kinds {
        for (unit, subject, value) in units {
            let (name, help) = (format!("{kind}_{unit}"), format!("{subject} {what}"));
            let mut metric = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
            for (labels, item) in of {
                let value = value(traffic(item));
                metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
            }
        }
    }
    Ok(())
}

fn waits(encoder: &mut DescriptorEncoder, of: &Labelled<'_, Resequencing>) -> fmt::Result {
    let help = "How long packets waited for earlier ones";
    let mut metric = encoder.encode_descriptor("resequencing_wait_seconds", help, None, MetricType::Histogram)?;
    for (labels, order) in of {
        let (count, sum) = order.waits.map_or((0, 0.0), |waits| (waits.packets, waits.total_seconds));
        let buckets = order.waits_histogram.iter();
        let buckets: Vec<_> =
            buckets.map(|bucket| (bucket.up_to_seconds.unwrap_or(f64::INFINITY), bucket.packets)).collect();
        metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn refusals(encoder: &mut DescriptorEncoder, gateway: (&'static str, &str), refused: &Refused) -> fmt::Result {
    let help = "Packets and datagrams that were not carried";
    let mut metric = encoder.encode_descriptor("refused_packets", help, None, MetricType::Counter)?;
    for (cause, count) in [
        ("unroutable", refused.unroutable_packets),
        ("foreign_source", refused.foreign_source_packets),
        ("datagram", refused.datagrams),
        ("handshake", refused.handshakes),
        ("output", refused.output_packets),
    ] {
        let labels: Labels<'_> = vec![gateway, ("cause", cause)];
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_as_prometheus_wants_them() {
        let status = serde_json::from_str(include_str!("../tests/statuses/bonded.json")).unwrap();
        insta::assert_snapshot!("bonded", metrics(status));
    }

    #[test]
    fn the_direct_plane_has_metrics_of_sessions_and_none_of_tunnels() {
        let text = metrics(serde_json::from_str(include_str!("../tests/statuses/direct.json")).unwrap());
        insta::assert_snapshot!("direct", text);
    }
}
