use crate::multipath::PathSettings;
use crate::paper::Paper;
use crate::values::{span, spans};
use kumade_multipath::nat_session::NatConfig;
use kumade_packet::{FlowKey, protocol};
use kumade_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};

/// An experiment on NAT sessions. Every case is run `runs` times. It comes from a scenario file, read and validated by
/// [`load`](crate::load).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatSessionExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The published experiment that this one repeats.
    pub paper: Option<Paper>,
    /// The paths between the gateways. Hosts of the sending site share an address on all but the first one.
    pub paths: Vec<PathSettings>,
    /// A session ends when no packet of its flow has passed for so long.
    #[serde(deserialize_with = "span")]
    pub idle: Span,
    /// The time from one packet of a flow to the next.
    #[serde(deserialize_with = "span")]
    pub interval: Span,
    /// What happens.
    pub cases: Vec<NatCase>,
    /// How often each case is run.
    pub runs: u32,
    /// Whether it runs in virtual time; else between real gateways.
    #[serde(rename = "virtual", default)]
    pub virtual_time: bool,
}

/// Flows, and what happens to the gateways and their messages meanwhile.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatCase {
    /// Names it in reports.
    pub label: String,
    /// How many hosts send.
    #[serde(default = "default_host_count")]
    pub hosts: usize,
    /// How many flows each of them has.
    #[serde(default = "default_host_count")]
    pub flows: usize,
    /// For how long each flow's packets come, pause, come again and so on.
    #[serde(deserialize_with = "spans")]
    pub activity: Vec<Span>,
    /// Messages that are lost.
    #[serde(rename = "lost")]
    pub message_loss: Option<MessageLoss>,
    /// A gateway that is killed and starts anew.
    pub restart: Option<GatewayRestart>,
}

/// One of the two gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[serde(rename = "Gateway")]
pub enum SessionGateway {
    /// The one that asks for sessions and divides flows.
    Sending,
    /// The one that gives them their addresses back.
    Receiving,
}

/// All messages of one gateway to the other are lost for a while.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageLoss {
    /// Whose messages.
    pub from: SessionGateway,
    /// From when on, counted from the first packet.
    #[serde(deserialize_with = "span")]
    pub after: Span,
    /// For how long.
    #[serde(deserialize_with = "span", rename = "for")]
    pub duration: Span,
}

/// A gateway is killed without a word to the other one, and its rules vanish.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayRestart {
    /// Which one.
    pub gateway: SessionGateway,
    /// When, counted from the first packet.
    #[serde(deserialize_with = "span")]
    pub after: Span,
    /// How long it is gone until it starts.
    #[serde(deserialize_with = "span")]
    pub down: Span,
}

/// One run: what one row of the report is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NatPoint<'a> {
    /// What happens.
    pub case: &'a NatCase,
    /// Counted from 1.
    pub run: u32,
}

/// To this port of the receiving host all flows go.
pub(super) const FLOW_PORT: u16 = 9;
/// Of the first flow; each further one has the next.
const FIRST_SOURCE_PORT: u16 = 20_000;
/// Payload of a packet in bytes.
pub(super) const PAYLOAD_BYTES: usize = 500;
/// After the time in which sessions become idle, so long is waited for messages about their ends.
const DRAIN_TIME: Span = Span::from_secs(2);

impl NatSessionExperiment {
    /// What gateways are told to allow.
    pub(super) fn nat_limits(&self) -> NatConfig {
        NatConfig { idle_timeout: self.idle, ..NatConfig::default() }
    }

    /// When packets of a flow are sent, counted from the first packet of all flows.
    pub(super) fn packet_times(&self, case: &NatCase, flow: usize) -> impl Iterator<Item = Span> {
        // Flows take turns within an interval.
        let offset = self.interval * flow as i64 / case.flow_count() as i64;
        let interval = self.interval;
        let begins = case.activity.iter().scan(Span::ZERO, |end, span| {
            let begin = *end;
            *end = begin + *span;
            Some((begin, *span))
        });
        let sending: Vec<_> = begins.step_by(2).collect();
        sending.into_iter().flat_map(move |(begin, span)| {
            let count = span.as_nanos() / interval.as_nanos();
            (0..count).map(move |number| begin + offset + interval * number)
        })
    }

    /// How long a run lasts, from the first packet on.
    pub(super) fn run_duration(&self, case: &NatCase) -> Span {
        case.activity.iter().fold(self.idle + DRAIN_TIME, |sum, span| sum + *span)
    }
}

impl NatCase {
    /// How many flows all hosts have together.
    pub fn flow_count(&self) -> usize {
        self.hosts * self.flows
    }

    /// All flows: those of a host have one source address.
    pub(super) fn flow_keys(&self) -> Vec<FlowKey> {
        let source = |flow: usize| {
            let address = host_address(flow / self.flows);
            SocketAddr::new(address.into(), FIRST_SOURCE_PORT + flow as u16)
        };
        let destination = SocketAddr::new(Ipv4Addr::new(10, 2, 0, 2).into(), FLOW_PORT);
        let key = |flow| FlowKey { protocol: protocol::UDP, source: source(flow), destination };
        (0..self.flow_count()).map(key).collect()
    }
}

impl MessageLoss {
    /// Whether a message of that gateway is lost so long after the first packet.
    pub(super) fn drops_message(&self, from: SessionGateway, after: Span) -> bool {
        self.from == from && (self.after..self.after + self.duration).contains(&after)
    }
}

/// The address of a sending host, by its place.
pub(super) fn host_address(place: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, 2 + place as u8)
}

/// The address that all sending hosts share on a path, by its place; on the first they have their own.
pub(super) fn path_alias(path: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100 + path as u8, 1)
}

const fn default_host_count() -> usize {
    1
}
