use super::row::{FlowRow, NatSessionRow};
use super::scenario::{NatPoint, NatSessionExperiment};
use super::session_observer::SessionObserver;
use kumade_packet::FlowKey;
use kumade_units::{Span, Time};

/// What has become of the packets of one flow.
#[derive(Debug, Clone, Default)]
pub(super) struct FlowTraffic {
    /// When each was sent.
    pub(super) sent_times: Vec<Time>,
    /// How many arrived from their host's address.
    pub(super) received_packets: u64,
    /// How many arrived from another one.
    pub(super) altered_packets: u64,
    /// How much longer than its path takes the first one was under way.
    pub(super) first_packet_wait: Option<Span>,
}

impl NatSessionRow {
    /// Of flows in the order of [`NatCase::flow_keys`](super::NatCase). `killed` is when a gateway was.
    pub(super) fn new(
        experiment: &NatSessionExperiment,
        point: &NatPoint<'_>,
        observer: &SessionObserver,
        traffic: &[FlowTraffic],
        killed: Option<Time>,
    ) -> Self {
        let flows = point.case.flow_keys();
        let flow = |(key, traffic): (&FlowKey, &FlowTraffic)| {
            let FlowTraffic {
                sent_times: sent,
                received_packets: received,
                altered_packets: altered,
                first_packet_wait: first_wait,
            } = traffic;
            FlowRow {
                flow: format!("{} > {}", key.source, key.destination),
                sent_packets: sent.len() as u64,
                received_packets: *received,
                altered_packets: *altered,
                lost_packets: (sent.len() as u64).saturating_sub(received + altered),
                first_packet_wait_seconds: first_wait.map(Span::as_secs_f64),
                killed_seconds: killed.zip(sent.first()).map(|(killed, first)| (killed - *first).as_secs_f64()),
                sessions: observer.session_rows(key, sent, experiment.idle),
            }
        };
        NatSessionRow {
            case: point.case.label.clone(),
            run: point.run,
            flows: flows.iter().zip(traffic).map(flow).collect(),
            repeats: 0,
            disturbed: false,
            lateness_p99_seconds: None,
        }
    }
}
