use super::plane::Plane;
use crate::values::{optional_size, optional_span};
use kumade_tunnel::ConnectionTuning;
use kumade_units::Span;
use serde::Deserialize;

/// What is set on the TCP connections of a tunnel, and which part of their adaptation is left out; the rest is as by default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Names it in reports.
    pub name: String,
    /// The planes that are run with it, as well as without.
    pub planes: Vec<Plane>,
    /// In which cases, by their labels; in all, if none are named.
    #[serde(default)]
    pub cases: Vec<String>,
    /// The minimum retransmission timeout of the connections that carry. One that is longer than a socket's may be is set for
    /// the gateways' namespaces.
    #[serde(deserialize_with = "optional_span", default)]
    pub min_rto: Option<Span>,
    /// The greatest, whatever the round trip: set for the gateways' namespaces.
    #[serde(deserialize_with = "optional_span", default)]
    pub max_rto: Option<Span>,
    /// Bytes of the send buffer.
    #[serde(deserialize_with = "optional_size", default)]
    pub send_buffer: Option<u64>,
    /// Bytes not sent yet above which a connection takes no more.
    #[serde(deserialize_with = "optional_size", default)]
    pub unsent: Option<u64>,
    /// Whether short segments wait until others are acknowledged.
    #[serde(default)]
    pub nagle: bool,
    /// Parts of the adaptation that are left out.
    #[serde(default)]
    pub without: Vec<AdaptationPart>,
}

/// A part of what makes a tunnel over TCP adapt itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdaptationPart {
    /// The minimum retransmission timeout is shorter than that of the connections inside.
    MinRto,
    /// The greatest is so short that a connection sends again soon after an outage.
    MaxRto,
    /// No more is open on a connection than what it delivers in a round trip and a little more.
    OpenBound,
    /// FQ-CoDel manages the queue in front of the connections.
    Aqm,
    /// Small packets of sparse flows go over two connections that are kept for these.
    SparseCopies,
    /// Data that the connections inside repeat while those below still have it is not sent again.
    RepeatedData,
    /// Of the datagrams that wait after an outage, the newest are sent, and those that have waited too long are not.
    StaleDatagrams,
}

/// What a socket takes.
const MAX_SOCKET_MIN_RTO: Span = Span::from_millis(200);
/// What waits in the connection where nothing bounds what is open: about as much as the send buffers of other tunnels hold.
const UNBOUNDED_UNSENT_BYTES: u32 = 256 << 10;

impl Tuning {
    /// What is set on each connection.
    pub(crate) fn connection_tuning(&self) -> ConnectionTuning {
        let mut tuning = ConnectionTuning { has_no_delay: !self.nagle, ..ConnectionTuning::default() };
        for part in &self.without {
            match part {
                AdaptationPart::MinRto => tuning.rto.min = None,
                AdaptationPart::MaxRto => tuning.rto.max = None,
                AdaptationPart::OpenBound => {
                    tuning.tcp_over_tcp.limits_in_flight = false;
                    tuning.unsent_bytes = Some(UNBOUNDED_UNSENT_BYTES);
                }
                AdaptationPart::Aqm => tuning.has_aqm = false,
                AdaptationPart::SparseCopies => tuning.tcp_over_tcp.duplicates_sparse_flows = false,
                AdaptationPart::RepeatedData => tuning.tcp_over_tcp.drops_retransmissions = false,
                AdaptationPart::StaleDatagrams => tuning.tcp_over_tcp.drops_stale_datagrams = false,
            }
        }
        if let Some(least) = self.min_rto {
            tuning.rto.min = Some(least).filter(|least| *least <= MAX_SOCKET_MIN_RTO);
        }
        if self.max_rto.is_some() {
            tuning.rto.max = None;
        }
        tuning.send_buffer_bytes = self.send_buffer.map(|bytes| bytes as u32);
        tuning.unsent_bytes = self.unsent.map(|bytes| bytes as u32).or(tuning.unsent_bytes);
        tuning
    }

    /// What is set for the gateways' namespaces, below `net.ipv4`.
    pub(crate) fn namespace_settings(&self) -> Vec<(&'static str, String)> {
        let beyond = self.min_rto.filter(|least| *least > MAX_SOCKET_MIN_RTO);
        HostRto { min: beyond, max: self.max_rto }.namespace_settings()
    }
}

/// The retransmission timeouts of hosts or gateways; the system's where none is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostRto {
    /// The minimum.
    #[serde(deserialize_with = "optional_span")]
    pub min: Option<Span>,
    /// The greatest.
    #[serde(deserialize_with = "optional_span")]
    pub max: Option<Span>,
}

impl HostRto {
    /// What is set for their namespaces, below `net.ipv4`.
    pub(crate) fn namespace_settings(self) -> Vec<(&'static str, String)> {
        let least = self.min.map(|least| ("tcp_rto_min_us", (least.as_nanos() / 1000).to_string()));
        let most = self.max.map(|most| ("tcp_rto_max_ms", (most.as_nanos() / 1_000_000).to_string()));
        least.into_iter().chain(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_tunnel::RtoLimits;

    fn tuning(text: &str) -> Tuning {
        toml::from_str(&format!("name = \"one\"\nplanes = [\"tunnel-tcp\"]\n{text}")).unwrap()
    }

    #[test]
    fn a_timeout_is_set_on_sockets_or_beyond_their_range_for_the_namespace() {
        let (short, long) = (tuning("min_rto = \"50ms\""), tuning("min_rto = \"3s\"\nmax_rto = \"3s\""));
        assert_eq!(
            (short.connection_tuning().rto.min, short.namespace_settings()),
            (Some(Span::from_millis(50)), vec![])
        );
        assert_eq!(long.connection_tuning().rto, RtoLimits::default());
        let settings = [("tcp_rto_min_us", "3000000".to_owned()), ("tcp_rto_max_ms", "3000".to_owned())];
        assert_eq!(long.namespace_settings(), settings);
    }

    #[test]
    fn each_part_can_be_left_out_alone() {
        let all = tuning("").connection_tuning();
        assert_eq!(all, ConnectionTuning::default());
        let without = |part: &str| tuning(&format!("without = [\"{part}\"]")).connection_tuning();
        assert_eq!(without("min-rto"), ConnectionTuning { rto: RtoLimits { min: None, ..all.rto }, ..all });
        assert_eq!(without("max-rto"), ConnectionTuning { rto: RtoLimits { max: None, ..all.rto }, ..all });
        assert_eq!(without("aqm"), ConnectionTuning { has_aqm: false, ..all });
        assert!(
            !without("sparse-copies").tcp_over_tcp.duplicates_sparse_flows
                && !without("open-bound").tcp_over_tcp.limits_in_flight
        );
        assert!(!without("repeated-data").tcp_over_tcp.drops_retransmissions);
        assert!(!without("stale-datagrams").tcp_over_tcp.drops_stale_datagrams);
        assert_eq!(without("open-bound").unsent_bytes, Some(UNBOUNDED_UNSENT_BYTES));
    }
}
