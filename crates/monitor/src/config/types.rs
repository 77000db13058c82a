use crate::light::{ProbeKind, ReplyLimits};
use kumade_net::interface::Family;
use kumade_units::Span;
use kumade_wire::PresharedKey;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What a monitor does.
#[derive(Debug, Clone)]
pub struct MonitorConfig {
    /// What this host is called on the page.
    pub name: String,
    /// The directory of its archive.
    pub archive: PathBuf,
    /// Where its page and its metrics are served.
    pub page: SocketAddr,
    /// How long what is kept.
    pub retention: RetentionConfig,
    /// At least one, with different ids.
    pub targets: Vec<MonitoredTarget>,
}

/// How long each layer of the archive is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Single probes.
    pub packets: Span,
    /// Figures of each minute.
    pub minutes: Span,
    /// Figures of each hour.
    pub hours: Span,
    /// Documents of measurements.
    pub runs: Span,
}

impl Default for RetentionConfig {
    /// A pair with a probe a second takes some 2 MB a year so.
    fn default() -> Self {
        let days = |days: i64| Span::from_secs(days * 86_400);
        RetentionConfig { packets: days(7), minutes: days(30), hours: days(3 * 365), runs: days(90) }
    }
}

/// A host to which the path is monitored.
#[derive(Debug, Clone)]
pub struct MonitoredTarget {
    /// By which its history is found, whatever it is called.
    pub id: String,
    /// What it is called on the page.
    pub name: String,
    /// Its name or address.
    pub host: String,
    /// Which of its addresses are used; none for any.
    pub family: Option<Family>,
    /// Small packets, all day.
    pub light: LightProbes,
    /// Full measurements, where it runs `kumade serve`.
    pub measurement: Option<MeasurementSchedule>,
}

/// How a target is probed all day.
#[derive(Debug, Clone)]
pub struct LightProbes {
    /// What is sent.
    pub kind: ProbeKind,
    /// UDP port of the STAMP reflector.
    pub port: u16,
    /// Mean interval between probes.
    pub interval: Span,
    /// How long replies are waited for.
    pub limits: ReplyLimits,
}

/// When and how available bandwidth, capacity and delay are measured.
#[derive(Debug, Clone)]
pub struct MeasurementSchedule {
    /// Port of `kumade serve` there.
    pub port: u16,
    /// From one measurement to the next.
    pub period: Span,
    /// The key that is shared with the server.
    pub key: Option<PresharedKey>,
}
