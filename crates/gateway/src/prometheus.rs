//! The metrics of a gateway.

use crate::status::{
    GatewayPathStatus, GatewayStatus, RemotePath, RemoteSessions, RemoteSiteStatus, SESSION_COUNTERS, Tunnel,
};
use kumade_daemon::metrics::{Counter, Encoder, Gauge, Labels, bool_as_f64};
use kumade_overlay_io::status::metrics::{TrafficCounter, encode_refused, encode_traffic};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use std::fmt;

const GATEWAY_GAUGES: [Gauge<GatewayStatus>; 2] = [
    ("uptime_seconds", "For how long the gateway has run", |status| Some(status.duration_seconds)),
    ("sessions", "NAT sessions, in whatever phase", |status| Some(status.session_count as f64)),
];

const PATH_GAUGES: [Gauge<GatewayPathStatus>; 2] = [
    ("path_up", "Whether packets take the path", |path| Some(bool_as_f64(path.up))),
    ("path_share_ratio", "The path's part of the bytes that left in the last second", |path| path.share_ratio),
];
const PATH_COUNTERS: [Counter<GatewayPathStatus>; 1] =
    [("path_failures", "How often the interface or the routes of a path of the direct plane were gone", |path| {
        path.failures
    })];
const PATH_TRAFFIC_COUNTERS: [TrafficCounter<GatewayPathStatus>; 1] =
    [("path_sent", "that left by the path", |path| &path.sent)];

const REMOTE_PATH_GAUGES: [Gauge<RemotePath>; 5] = [
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

const SESSION_GAUGES: [Gauge<RemoteSessions>; 3] = [
    ("sessions_connected", "Whether both gateways have agreed on keys", |sessions| {
        Some(bool_as_f64(sessions.connected))
    }),
    ("sessions_reachable", "Whether the remote gateway answers", |sessions| Some(bool_as_f64(sessions.reachable))),
    ("sessions_restored", "Flows from the site that are given their addresses back", |sessions| {
        Some(sessions.restored as f64)
    }),
];
impl Collector for GatewayStatus {
    fn encode(&self, mut descriptors: DescriptorEncoder) -> fmt::Result {
        let mut encoder = Encoder::new(&mut descriptors, "");
        let gateway = ("gateway", self.name.as_str());
        encoder.encode_gauges(&[(vec![gateway], self)], &GATEWAY_GAUGES)?;
        let paths = self.paths.iter();
        let paths = paths.map(|path| (vec![gateway, ("path", &*path.name), ("interface", &*path.interface)], path));
        let paths: Vec<_> = paths.collect();
        encoder.encode_gauges(&paths, &PATH_GAUGES)?;
        if self.plane == crate::status::PlaneKind::Direct {
            encoder.encode_counters(&paths, &PATH_COUNTERS)?;
        }
        encode_traffic(&mut encoder, &paths, &PATH_TRAFFIC_COUNTERS)?;
        self.encode_remote_paths(&mut encoder)?;
        Tunnel::encode_metrics(&mut descriptors, "tunnel_", &self.labelled_remotes(|remote| remote.tunnel.as_ref()))?;
        let mut encoder = Encoder::new(&mut descriptors, "");
        self.encode_sessions(&mut encoder)?;
        self.refused.iter().try_for_each(|refused| encode_refused(&mut encoder, gateway, refused))
    }
}

impl GatewayStatus {
    fn encode_remote_paths(&self, encoder: &mut Encoder<'_, '_>) -> fmt::Result {
        let mut paths = Vec::new();
        for (labels, remote) in self.labelled_remotes(Some) {
            paths.extend(
                remote.paths.iter().map(|path| ([&labels[..], &[("path", path.name.as_str())]].concat(), path)),
            );
        }
        encoder.encode_gauges(&paths, &REMOTE_PATH_GAUGES)
    }

    fn encode_sessions(&self, encoder: &mut Encoder<'_, '_>) -> fmt::Result {
        let sessions = self.labelled_remotes(|remote| remote.sessions.as_ref());
        encoder.encode_gauges(&sessions, &SESSION_GAUGES)?;
        for (name, help, _, count) in SESSION_COUNTERS {
            let counts = sessions.iter().map(|(labels, sessions)| (labels.clone(), count(&sessions.counters)));
            encoder.encode_counts(&format!("sessions_{name}"), help, counts)?;
        }
        let help = "Flows to the site that have a session, by its phase";
        encoder.encode_metric("sessions_divided", help, MetricType::Gauge, |mut metric| {
            let counts =
                sessions.iter().flat_map(|(labels, of)| of.divided.named_counts().map(|count| (labels, count)));
            counts.into_iter().try_for_each(|(labels, (phase, count))| {
                let labels = [labels.as_slice(), &[("phase", phase)]].concat();
                metric.encode_family(&labels)?.encode_gauge(&(count as f64))
            })
        })
    }

    /// What remote sites have, with the labels of each.
    fn labelled_remotes<'a, T>(
        &'a self,
        part: impl Fn(&'a RemoteSiteStatus) -> Option<&'a T>,
    ) -> Vec<(Labels<'a>, &'a T)> {
        let labels = |name| vec![("gateway", self.name.as_str()), ("remote", name)];
        let remotes = self.remotes.iter();
        remotes.filter_map(|remote| Some((labels(remote.name.as_str()), part(remote)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_daemon::metrics::encode_text;

    fn encode_metrics(status: GatewayStatus) -> String {
        encode_text("kumade_gateway", status)
    }

    #[test]
    fn metrics_are_as_prometheus_wants_them() {
        let status = serde_json::from_str(include_str!("../tests/statuses/bonded.json")).unwrap();
        insta::assert_snapshot!("bonded", encode_metrics(status));
    }

    #[test]
    fn the_number_of_threads_is_told_where_there_are_several() {
        let mut status: GatewayStatus = serde_json::from_str(include_str!("../tests/statuses/bonded.json")).unwrap();
        status.remotes[0].tunnel.as_mut().unwrap().threads = Some(3);
        let text = encode_metrics(status);
        let line = text.lines().find(|line| line.starts_with("kumade_gateway_tunnel_threads{")).unwrap();
        assert!(line.ends_with(" 3.0"), "{line}");
    }

    #[test]
    fn the_direct_plane_has_metrics_of_sessions_and_none_of_tunnels() {
        let text = encode_metrics(serde_json::from_str(include_str!("../tests/statuses/direct.json")).unwrap());
        insta::assert_snapshot!("direct", text);
    }
}
