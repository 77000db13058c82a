use super::queue_case::QueueCase;
use super::treatment_settings::TreatmentSettings;
use crate::accuracy::BottleneckKind;
use crate::values::{rate, ratio, size, span};
use kumade_link::{LinkConfig, Loss};
use kumade_middlebox::{EndpointDependence, MiddleboxConfig, NatConfig};
use kumade_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// An experiment on what paths do to packets, and whether measurements say so. It comes from a scenario file, read and validated by
/// [`load`](crate::load).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathTreatmentExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// What implements the path: this program, or the kernel's routing, nftables and HTB.
    pub bottleneck: BottleneckKind,
    /// The link behind the middlebox, the same in both directions.
    pub link: LinkSettings,
    /// What is done to packets.
    pub cases: Vec<TreatmentCase>,
    /// How often each case is measured.
    pub runs: u32,
}

/// The link of all cases.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSettings {
    /// Counted in IP packets.
    #[serde(deserialize_with = "rate")]
    pub rate: Rate,
    /// Propagation delay, one way. The kernel's has none.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// What its queue holds, in bytes.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
}

/// A path, and the IP version in which it is measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreatmentCase {
    /// Names it in reports.
    pub label: String,
    /// The IP version.
    pub version: IpVersion,
    /// The part of all packets that the link loses, in either direction.
    #[serde(default, deserialize_with = "ratio")]
    pub loss: f64,
    /// How the address of the host that measures is translated (NAT44), if it is.
    pub nat: Option<NatSettings>,
    /// The queues of the link.
    #[serde(default)]
    pub queues: QueueCase,
    /// What the middlebox does, in this order.
    #[serde(default)]
    pub treatments: Vec<TreatmentSettings>,
}

/// Kinds of address translation (RFC 4787).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatSettings {
    /// What of a destination decides on the external port (4.1).
    pub mapping: EndpointDependenceSettings,
    /// What of a source decides whether it is let in (5).
    pub filtering: EndpointDependenceSettings,
}

/// What of a remote endpoint counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointDependenceSettings {
    EndpointIndependent,
    AddressDependent,
    AddressAndPortDependent,
}

impl From<EndpointDependenceSettings> for EndpointDependence {
    fn from(settings: EndpointDependenceSettings) -> Self {
        match settings {
            EndpointDependenceSettings::EndpointIndependent => EndpointDependence::EndpointIndependent,
            EndpointDependenceSettings::AddressDependent => EndpointDependence::AddressDependent,
            EndpointDependenceSettings::AddressAndPortDependent => EndpointDependence::AddressAndPortDependent,
        }
    }
}

/// The two versions of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they say what they are")]
pub enum IpVersion {
    Ipv4,
    Ipv6,
}

impl IpVersion {
    /// The word for it in scenario files and in reports.
    pub fn word(self) -> &'static str {
        match self {
            IpVersion::Ipv4 => "ipv4",
            IpVersion::Ipv6 => "ipv6",
        }
    }
}

/// One measurement: what one row of the report is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreatmentPoint<'a> {
    /// The path.
    pub case: &'a TreatmentCase,
    /// Counted from 1.
    pub run: u32,
}

/// What translated hosts are seen as: of a network for documentation (RFC 5737).
const EXTERNAL_ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);

impl TreatmentCase {
    /// The middlebox on the path.
    ///
    /// # Errors
    /// What of a treatment contradicts itself or is out of range.
    pub fn middlebox(&self) -> Result<MiddleboxConfig, String> {
        let treatments = self.treatments.iter().map(TreatmentSettings::treatment).collect::<Result<_, _>>()?;
        let nat = self.nat.map(|NatSettings { mapping, filtering }| NatConfig {
            mapping: mapping.into(),
            filtering: filtering.into(),
            ..NatConfig::new(EXTERNAL_ADDRESS)
        });
        Ok(MiddleboxConfig { treatments, nat, ..MiddleboxConfig::default() })
    }

    /// The link behind it, whose losses follow from the run.
    pub(super) fn link(&self, settings: &LinkSettings, run: u32) -> LinkConfig {
        LinkConfig {
            rate: Some(settings.rate),
            delay: settings.delay,
            queue_bytes: settings.queue,
            loss: if self.loss > 0.0 { Loss::Independent(self.loss) } else { Loss::None },
            seed: run.into(),
            ..LinkConfig::default()
        }
    }
}
