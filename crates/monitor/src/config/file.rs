use super::types::{LightProbes, MeasurementSchedule, MonitorConfig, MonitoredTarget, RetentionConfig};
use crate::light::{ProbeKind, ReplyLimits};
use kumade_client::{DEFAULT_PORT, STAMP_PORT};
use kumade_daemon::{ConfigError, ConfigFault, metrics_address, parse_config};
use kumade_net::{ScopedAddress, ScopedAddressError, interface::Family};
use kumade_units::{Span, exact_text, parse};
use kumade_wire::PresharedKey;
use kumade_wire::stamp::StampKey;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Where the page is served by default: on the loopback interface alone.
const DEFAULT_PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7280);
const DEFAULT_ARCHIVE: &str = "/var/lib/kumade-monitor";
/// One probe in 10 ms is what a measurement sends; none in an hour tells nothing.
const VALID_PROBE_INTERVALS: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(3600);
/// A measurement takes seconds; after a year, nobody knows what was before.
const VALID_PERIODS: RangeInclusive<Span> = Span::from_secs(30)..=Span::from_secs(366 * 86_400);
/// For replies: a full buffer holds seconds, never minutes.
const VALID_LIMITS: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(60);
/// Less than a day is no archive.
const VALID_RETENTIONS: RangeInclusive<Span> = Span::from_secs(86_400)..=Span::from_secs(100 * 366 * 86_400);

/// Reads the file of a pre-shared key; says why it cannot.
pub type KeyReader<'r> = &'r dyn Fn(&Path) -> Result<PresharedKey, String>;

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    #[serde(default)]
    monitor: MonitorSection,
    #[serde(default)]
    retention: RetentionSection,
    #[serde(default)]
    target: Vec<TargetSection>,
}

/// `[monitor]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MonitorSection {
    name: Option<String>,
    archive: Option<PathBuf>,
    page: Option<Spanned<String>>,
}

/// `[retention]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RetentionSection {
    packets: Option<Spanned<String>>,
    minutes: Option<Spanned<String>>,
    hours: Option<Spanned<String>>,
    runs: Option<Spanned<String>>,
}

/// `[[target]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TargetSection {
    host: Spanned<String>,
    name: Option<String>,
    id: Option<Spanned<String>>,
    #[serde(default)]
    family: FamilyName,
    #[serde(default)]
    probe: ProbeName,
    stamp_port: Option<Spanned<u16>>,
    stamp_key: Option<Spanned<PathBuf>>,
    interval: Option<Spanned<String>>,
    late_after: Option<Spanned<String>>,
    lost_after: Option<Spanned<String>>,
    measure: Option<Spanned<String>>,
    key: Option<Spanned<PathBuf>>,
}

/// Which addresses of a target are used. Both IP versions are two targets, since they are two paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FamilyName {
    #[default]
    Any,
    Ipv4,
    Ipv6,
    Both,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProbeName {
    #[default]
    Echo,
    Stamp,
}

impl MonitorConfig {
    /// Reads a file's text. `origin` names it in errors, `read_key` reads the file of a key.
    ///
    /// # Errors
    /// Names the file, the line, what is wrong there, and what to try.
    pub fn from_toml(text: &str, origin: &str, read_key: KeyReader<'_>) -> Result<Self, ConfigError> {
        parse_config::<Sections>(text)
            .and_then(|sections| sections.validate(read_key))
            .map_err(|fault| fault.with_line(origin, text))
    }
}

impl Sections {
    fn validate(&self, read_key: KeyReader<'_>) -> Result<MonitorConfig, ConfigFault> {
        let targets = self.target.iter().map(|target| target.validate(read_key));
        let targets: Vec<Vec<MonitoredTarget>> = targets.collect::<Result<_, _>>()?;
        let mut ids = BTreeSet::new();
        for (section, target) in
            self.target.iter().zip(&targets).flat_map(|(section, all)| all.iter().map(move |one| (section, one)))
        {
            if !ids.insert(&target.id) {
                let span = section.id.as_ref().map_or_else(|| section.host.span(), Spanned::span);
                let text = format!("two targets have the id {:?}: give one of them another `id`", target.id);
                return Err(ConfigFault::new(span, text));
            }
        }
        if targets.is_empty() {
            return Err(ConfigFault::new(
                0..0,
                "nothing to monitor: write [[target]] and host = \"HOST\" for each host",
            ));
        }
        let MonitorSection { name, archive, page } = &self.monitor;
        Ok(MonitorConfig {
            name: name.clone().unwrap_or_else(own_name),
            archive: archive.clone().unwrap_or_else(default_archive),
            page: page.as_ref().map_or(Ok(DEFAULT_PAGE), |text| parse_spanned(text, metrics_address))?,
            retention: self.retention.validate()?,
            targets: targets.into_iter().flatten().collect(),
        })
    }
}

impl RetentionSection {
    fn validate(&self) -> Result<RetentionConfig, ConfigFault> {
        let default = RetentionConfig::default();
        let span = |text: &Option<Spanned<String>>, default| span_within(text.as_ref(), default, VALID_RETENTIONS);
        Ok(RetentionConfig {
            packets: span(&self.packets, default.packets)?,
            minutes: span(&self.minutes, default.minutes)?,
            hours: span(&self.hours, default.hours)?,
            runs: span(&self.runs, default.runs)?,
        })
    }
}

impl TargetSection {
    /// One target, or one for each IP version.
    fn validate(&self, read_key: KeyReader<'_>) -> Result<Vec<MonitoredTarget>, ConfigFault> {
        let (host, port) = self.host_and_port()?;
        let name = self.name.clone().unwrap_or_else(|| host.clone());
        let id = self.id.as_ref().map_or_else(|| name.clone(), |id| id.get_ref().clone());
        let (light, measurement) = (self.light_probes(read_key)?, self.measurement(port, read_key)?);
        let target = |suffix: &str, family| MonitoredTarget {
            id: format!("{id}{suffix}"),
            name: format!("{name}{suffix}"),
            host: host.clone(),
            family,
            light: light.clone(),
            measurement: measurement.clone(),
        };
        Ok(match self.family {
            FamilyName::Any => vec![target("", None)],
            FamilyName::Ipv4 => vec![target("", Some(Family::V4))],
            FamilyName::Ipv6 => vec![target("", Some(Family::V6))],
            FamilyName::Both => vec![target(" (IPv4)", Some(Family::V4)), target(" (IPv6)", Some(Family::V6))],
        })
    }

    fn host_and_port(&self) -> Result<(String, Option<u16>), ConfigFault> {
        let text = self.host.get_ref().trim();
        let fault = |problem: String| ConfigFault::new(self.host.span(), problem);
        match ScopedAddress::parse_with_port(text) {
            Ok((address, port)) => return Ok((address.to_string(), port)),
            Err(ScopedAddressError::Malformed(_)) => {}
            Err(error) => return Err(fault(error.to_string())),
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(parse::number(port).map_err(|error| fault(error.to_string()))?)),
            None => (text, None),
        };
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let problem = || {
            fault(format!("{text:?} is no host: write a name or an address, perhaps with a port, as host.example:7272"))
        };
        is_name.then(|| (name.to_owned(), port)).ok_or_else(problem)
    }

    fn light_probes(&self, read_key: KeyReader<'_>) -> Result<LightProbes, ConfigFault> {
        let default = ReplyLimits::default();
        let limits = ReplyLimits {
            late_after: span_within(self.late_after.as_ref(), default.late_after, VALID_LIMITS)?,
            lost_after: span_within(self.lost_after.as_ref(), default.lost_after, VALID_LIMITS)?,
        };
        if limits.lost_after < limits.late_after {
            let span = self.lost_after.as_ref().or(self.late_after.as_ref()).map(Spanned::span).unwrap_or_default();
            return Err(ConfigFault::new(
                span,
                "`lost-after` is less than `late-after`: a reply is late before it is lost",
            ));
        }
        let kind = match self.probe {
            ProbeName::Stamp => {
                ProbeKind::Stamp(key_in(self.stamp_key.as_ref(), read_key)?.as_ref().map(StampKey::new))
            }
            ProbeName::Echo => {
                let others = [
                    ("stamp-port", self.stamp_port.as_ref().map(Spanned::span)),
                    ("stamp-key", self.stamp_key.as_ref().map(Spanned::span)),
                ];
                if let Some((name, span)) = others.into_iter().find_map(|(name, span)| Some((name, span?))) {
                    return Err(ConfigFault::new(span, format!("`{name}` goes with probe = \"stamp\" alone")));
                }
                ProbeKind::Echo
            }
        };
        Ok(LightProbes {
            kind,
            port: self.stamp_port.as_ref().map_or(STAMP_PORT, |port| *port.get_ref()),
            interval: span_within(self.interval.as_ref(), Span::from_secs(1), VALID_PROBE_INTERVALS)?,
            limits,
        })
    }

    fn measurement(
        &self,
        port: Option<u16>,
        read_key: KeyReader<'_>,
    ) -> Result<Option<MeasurementSchedule>, ConfigFault> {
        let Some(period) = &self.measure else {
            return match &self.key {
                Some(key) => {
                    Err(ConfigFault::new(key.span(), "`key` goes with `measure`, such as measure = \"10min\""))
                }
                None => Ok(None),
            };
        };
        Ok(Some(MeasurementSchedule {
            port: port.unwrap_or(DEFAULT_PORT),
            period: span_within(Some(period), Span::ZERO, VALID_PERIODS)?,
            key: key_in(self.key.as_ref(), read_key)?,
        }))
    }
}

fn parse_spanned<T, E: ToString>(
    text: &Spanned<String>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ConfigFault> {
    parse(text.get_ref()).map_err(|error| ConfigFault::new(text.span(), error.to_string()))
}

fn span_within(
    text: Option<&Spanned<String>>,
    default: Span,
    valid: RangeInclusive<Span>,
) -> Result<Span, ConfigFault> {
    let Some(text) = text else { return Ok(default) };
    let span = parse_spanned(text, parse::span)?;
    let (first, last) = (exact_text::span(*valid.start()), exact_text::span(*valid.end()));
    let problem = || ConfigFault::new(text.span(), format!("{} is out of range: {first} to {last}", text.get_ref()));
    valid.contains(&span).then_some(span).ok_or_else(problem)
}

fn key_in(path: Option<&Spanned<PathBuf>>, read_key: KeyReader<'_>) -> Result<Option<PresharedKey>, ConfigFault> {
    let read =
        |path: &Spanned<PathBuf>| read_key(path.get_ref()).map_err(|problem| ConfigFault::new(path.span(), problem));
    path.map(read).transpose()
}

/// What systemd gives a unit with `StateDirectory=`, else the usual place.
fn default_archive() -> PathBuf {
    std::env::var_os("STATE_DIRECTORY").map_or_else(|| DEFAULT_ARCHIVE.into(), PathBuf::from)
}

fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "this host".to_owned() } else { name.trim().to_owned() }
}
