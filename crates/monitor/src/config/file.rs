use super::access_section::{AccessSection, TlsSection, check_reach};
use super::alert_sections::{AlertSection, NotifySection, SilenceSection, alert_settings};
use super::mesh::{AgentSection, CoordinatorSection, LinkSection, MeshKeys, MeshSection, agent_config, mesh_config};
use super::remote_write::RemoteWriteSection;
use super::types::{AgentConfig, LightProbes, MeasurementSchedule, MonitorConfig, MonitoredTarget};
use super::values::{
    FamilyName, KeyReader, VALID_LIMITS, VALID_PERIODS, VALID_PROBE_INTERVALS, VALID_RETENTIONS, parse_spanned,
    span_within,
};
use crate::light::{ProbeKind, ReplyLimits};
use kumade_archive::{PostgresAddress, PostgresAddressError, Retention};
use kumade_client::{DEFAULT_PORT, STAMP_PORT};
use kumade_daemon::{ConfigError, ConfigFault, metrics_address, parse_config};
use kumade_net::{ScopedAddress, ScopedAddressError, interface::Family};
use kumade_units::{Span, parse};
use kumade_wire::PresharedKey;
use kumade_wire::stamp::StampKey;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use toml::Spanned;

/// Where the page is served by default: on the loopback interface alone.
const DEFAULT_PAGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7280);
const DEFAULT_ARCHIVE: &str = "/var/lib/kumade-monitor";
/// What begins so is a database; all else is a directory.
const DATABASE_SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];
/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    #[serde(default)]
    monitor: MonitorSection,
    #[serde(default)]
    retention: RetentionSection,
    #[serde(rename = "remote-write")]
    remote_write: Option<RemoteWriteSection>,
    #[serde(default)]
    access: AccessSection,
    tls: Option<TlsSection>,
    #[serde(default)]
    target: Vec<TargetSection>,
    #[serde(default)]
    mesh: MeshSection,
    #[serde(default)]
    agent: Vec<AgentSection>,
    #[serde(default)]
    link: Vec<LinkSection>,
    coordinator: Option<CoordinatorSection>,
    #[serde(default)]
    alert: Vec<AlertSection>,
    #[serde(default)]
    notify: Vec<NotifySection>,
    #[serde(default)]
    silence: Vec<SilenceSection>,
}

/// What the program does with a file.
#[derive(Debug, Clone)]
pub enum RoleConfig {
    /// It has an archive and a page.
    Monitor(Box<MonitorConfig>),
    /// It measures for a coordinator.
    Agent(Box<AgentConfig>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RoleName {
    #[default]
    Single,
    Agent,
    Coordinator,
}

/// `[monitor]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MonitorSection {
    #[serde(default)]
    role: RoleName,
    listen: Option<Spanned<String>>,
    key: Option<Spanned<PathBuf>>,
    port: Option<u16>,
    stamp_port: Option<u16>,
    bytes_per_day: Option<Spanned<String>>,
    name: Option<String>,
    archive: Option<Spanned<PathBuf>>,
    archive_password_file: Option<Spanned<PathBuf>>,
    archive_ca: Option<Spanned<PathBuf>>,
    page: Option<Spanned<String>>,
    prometheus: Option<Spanned<String>>,
    #[serde(default)]
    stretch: bool,
}

/// `[retention]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RetentionSection {
    packets: Option<Spanned<String>>,
    minutes: Option<Spanned<String>>,
    hours: Option<Spanned<String>>,
    days: Option<Spanned<String>>,
    runs: Option<Spanned<String>>,
    documents: Option<Spanned<String>>,
    records: Option<Spanned<String>>,
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

impl RoleConfig {
    /// Reads a file's text, as [`MonitorConfig::from_toml`], of any role.
    ///
    /// # Errors
    /// As there.
    pub fn from_toml(text: &str, origin: &str, read_key: KeyReader<'_>) -> Result<Self, ConfigError> {
        let role = |sections: Sections| match sections.monitor.role {
            RoleName::Agent => sections.validate_agent(read_key).map(|agent| RoleConfig::Agent(Box::new(agent))),
            _ => sections.validate(read_key).map(|monitor| RoleConfig::Monitor(Box::new(monitor))),
        };
        parse_config::<Sections>(text).and_then(role).map_err(|fault| fault.with_line(origin, text))
    }
}

impl MonitorSection {
    fn mesh_keys(&self) -> MeshKeys<'_> {
        MeshKeys {
            listen: self.listen.as_ref(),
            key: self.key.as_ref(),
            port: self.port,
            stamp_port: self.stamp_port,
            bytes_per_day: self.bytes_per_day.as_ref(),
        }
    }
}

impl Sections {
    fn validate(&self, read_key: KeyReader<'_>) -> Result<MonitorConfig, ConfigFault> {
        let targets = self.target.iter().map(|target| target.validate(read_key));
        let mut targets: Vec<Vec<MonitoredTarget>> = targets.collect::<Result<_, _>>()?;
        self.check_role()?;
        if self.monitor.role == RoleName::Agent {
            let text = "an agent has no archive: give the coordinator's file";
            return Err(ConfigFault::new(0..0, text));
        }
        let mut mesh = None;
        if self.monitor.role == RoleName::Coordinator {
            let keys = self.monitor.mesh_keys();
            let (config, pairs) = mesh_config(keys, &self.mesh, &self.agent, &self.link, read_key)?;
            mesh = Some(config);
            targets = vec![pairs];
        }
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
        if targets.is_empty() && mesh.is_none() {
            return Err(ConfigFault::new(
                0..0,
                "nothing to monitor: write [[target]] and host = \"HOST\" for each host",
            ));
        }
        let targets: Vec<MonitoredTarget> = targets.into_iter().flatten().collect();
        let MonitorSection { name, page, prometheus, stretch, .. } = &self.monitor;
        let (archive, database) = self.monitor.archive()?;
        if database.is_some() && mesh.as_ref().is_some_and(|mesh| mesh.own_agent.is_some()) {
            let span = self.monitor.archive.as_ref().map(Spanned::span).unwrap_or_default();
            let text =
                "`this-host` does not go with an archive that several hosts share: run an agent on each by itself";
            return Err(ConfigFault::new(span, text));
        }
        let access = self.access.validate()?;
        let address =
            |text: &Option<Spanned<String>>| text.as_ref().map(|text| parse_spanned(text, metrics_address)).transpose();
        let (page_address, prometheus_address) = (address(page)?.unwrap_or(DEFAULT_PAGE), address(prometheus)?);
        check_reach(&access, "page", Some(page_address), page.as_ref().map(Spanned::span))?;
        check_reach(&access, "prometheus", prometheus_address, prometheus.as_ref().map(Spanned::span))?;
        Ok(MonitorConfig {
            name: name.clone().unwrap_or_else(own_name),
            archive,
            database,
            page: page_address,
            prometheus: prometheus_address,
            stretch: *stretch,
            retention: self.retention.validate()?,
            alerts: alert_settings(&self.alert, &self.notify, &self.silence, &targets)?,
            access,
            tls: self.tls.as_ref().map(TlsSection::files),
            remote_write: self.remote_write.as_ref().map(RemoteWriteSection::validate).transpose()?,
            targets,
            mesh,
        })
    }

    fn validate_agent(&self, read_key: KeyReader<'_>) -> Result<AgentConfig, ConfigFault> {
        self.check_role()?;
        let (archive, database) = self.monitor.archive()?;
        if database.is_some() {
            let span = self.monitor.archive.as_ref().map(Spanned::span).unwrap_or_default();
            return Err(ConfigFault::new(
                span,
                "an agent has a directory, and no database: its coordinator has the archive",
            ));
        }
        agent_config(self.monitor.mesh_keys(), archive, self.coordinator.as_ref(), read_key)
    }

    /// Whether nothing stands in the file that is for another role.
    fn check_role(&self) -> Result<(), ConfigFault> {
        let role = self.monitor.role;
        let target = self.target.first().map(|target| target.host.span());
        let agent = self.agent.first().map(AgentSection::span);
        let link = self.link.first().map(LinkSection::span);
        let coordinator = self.coordinator.as_ref().map(CoordinatorSection::span);
        let foreign = [
            ("[[target]]", RoleName::Single, target),
            ("[[agent]]", RoleName::Coordinator, agent),
            ("[[link]]", RoleName::Coordinator, link),
            ("[coordinator]", RoleName::Agent, coordinator),
        ];
        for (part, owner, span) in foreign {
            if let (true, Some(span)) = (owner != role, span) {
                let word = format!("{owner:?}").to_lowercase();
                return Err(ConfigFault::new(span, format!("{part} goes with role = \"{word}\" in [monitor]")));
            }
        }
        Ok(())
    }
}

impl MonitorSection {
    /// A directory, or a database.
    fn archive(&self) -> Result<(PathBuf, Option<PostgresAddress>), ConfigFault> {
        let named = self.archive.as_ref().map(|archive| (archive.get_ref().to_string_lossy(), archive.span()));
        let database = named.filter(|(text, _)| DATABASE_SCHEMES.iter().any(|scheme| text.starts_with(scheme)));
        let Some((text, span)) = database else {
            let others = [("archive-password-file", &self.archive_password_file), ("archive-ca", &self.archive_ca)];
            for (key, file) in others {
                let text = format!("`{key}` goes with archive = \"postgresql://USER@HOST/DATABASE\" alone");
                file.iter().try_for_each(|file| Err(ConfigFault::new(file.span(), text.clone())))?;
            }
            let directory = self.archive.as_ref().map(|archive| archive.get_ref().clone());
            return Ok((directory.unwrap_or_else(default_archive), None));
        };
        let fault = |error: PostgresAddressError| {
            let remedy = match error {
                PostgresAddressError::HasPassword => ", and archive-password-file = \"FILE\"",
                PostgresAddressError::NamesTls => ": archive-ca = \"FILE\"",
                _ => "",
            };
            ConfigFault::new(span.clone(), format!("{error}{remedy}"))
        };
        let address: PostgresAddress = text.parse().map_err(fault)?;
        let named = |file: &Option<Spanned<PathBuf>>| file.as_ref().map(|file| file.get_ref().clone());
        let address = named(&self.archive_password_file).into_iter().fold(address, PostgresAddress::with_password_file);
        let address = named(&self.archive_ca).into_iter().try_fold(address, PostgresAddress::with_authorities);
        let address = address.map_err(fault)?;
        Ok((default_archive(), Some(address)))
    }
}

impl RetentionSection {
    fn validate(&self) -> Result<Retention, ConfigFault> {
        let default = Retention::default();
        let span = |text: &Option<Spanned<String>>, default: Option<Span>| match text {
            Some(text) => span_within(Some(text), Span::ZERO, VALID_RETENTIONS).map(Some),
            None => Ok(default),
        };
        Ok(Retention {
            packets: span_within(self.packets.as_ref(), default.packets, VALID_RETENTIONS)?,
            minutes: span(&self.minutes, default.minutes)?,
            hours: span(&self.hours, default.hours)?,
            days: span(&self.days, default.days)?,
            runs: span(&self.runs, default.runs)?,
            documents: span(&self.documents, default.documents)?,
            records: span(&self.records, default.records)?,
        })
    }
}

impl TargetSection {
    /// One target, or one for each IP version.
    fn validate(&self, read_key: KeyReader<'_>) -> Result<Vec<MonitoredTarget>, ConfigFault> {
        let (host, port) = self.host_and_port()?;
        self.check_family(&host)?;
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

    /// An address has one IP version.
    fn check_family(&self, host: &str) -> Result<(), ConfigFault> {
        let Ok(address) = host.parse::<ScopedAddress>() else { return Ok(()) };
        let own = Family::from_address(address.ip());
        let is_met = match self.family {
            FamilyName::Any => true,
            FamilyName::Ipv4 => own == Family::V4,
            FamilyName::Ipv6 => own == Family::V6,
            FamilyName::Both => false,
        };
        let problem = || {
            ConfigFault::new(
                self.host.span(),
                format!("{host} is an address of {own}: leave `family` out, or give a name"),
            )
        };
        is_met.then_some(()).ok_or_else(problem)
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

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::interface::Family;
    use std::path::Path;

    fn read(text: &str) -> Result<MonitorConfig, String> {
        let read_key = |path: &Path| match path.to_str() {
            Some("good.key") => Ok(PresharedKey::parse(&"ab".repeat(32)).unwrap()),
            _ => Err(format!("cannot read the key file {}", path.display())),
        };
        MonitorConfig::from_toml(text, "m.toml", &read_key).map_err(|error| error.to_string())
    }

    #[test]
    fn two_targets_take_six_lines() {
        let text = "[monitor]\nname = \"here\"\n[[target]]\nhost = \"a.example:7300\"\nmeasure = \"10min\"\n[[target]]\nhost = \"192.0.2.7\"\n";
        let config = read(text).unwrap();
        assert_eq!((config.name.as_str(), config.page), ("here", DEFAULT_PAGE));
        let [first, second] = &config.targets[..] else { panic!() };
        assert_eq!((first.id.as_str(), first.host.as_str()), ("a.example", "a.example"));
        let schedule = first.measurement.as_ref().unwrap();
        assert_eq!((schedule.port, schedule.period), (7300, Span::from_secs(600)));
        assert!(second.measurement.is_none() && matches!(second.light.kind, ProbeKind::Echo));
        assert_eq!(second.light.interval, Span::from_secs(1));
    }

    #[test]
    fn both_ip_versions_are_two_targets() {
        let text = "[[target]]\nhost = \"a.example\"\nid = \"a\"\nname = \"Site A\"\nfamily = \"both\"\nprobe = \"stamp\"\nstamp-key = \"good.key\"\n";
        let config = read(text).unwrap();
        let names: Vec<_> =
            config.targets.iter().map(|target| (target.id.as_str(), target.name.as_str(), target.family)).collect();
        assert_eq!(
            names,
            [("a (IPv4)", "Site A (IPv4)", Some(Family::V4)), ("a (IPv6)", "Site A (IPv6)", Some(Family::V6))]
        );
        assert!(matches!(config.targets[0].light.kind, ProbeKind::Stamp(Some(_))));
        assert_eq!(config.targets[0].light.port, STAMP_PORT);
    }

    #[test]
    fn conditions_that_no_alert_is_about_keep_the_usual_ones() {
        let words = |text: &str| {
            let config = read(&format!("[[target]]\nhost = \"a.example\"\nfamily = \"both\"\n{text}")).unwrap();
            config.alerts.rules.iter().map(|rule| (rule.name.clone(), rule.times, rule.out_of)).collect::<Vec<_>>()
        };
        let named = |all: &[(&str, u32, u32)]| {
            all.iter().map(|(name, times, out_of)| ((*name).to_owned(), *times, *out_of)).collect::<Vec<_>>()
        };
        let usual =
            [("down", 6, 6), ("no-data", 10, 10), ("loss", 3, 3), ("not-archived", 1, 1), ("agent-silent", 1, 1)];
        assert_eq!(words(""), named(&usual));
        assert_eq!(
            words("[[alert]]\non = \"loss\"\nenabled = false\n[[alert]]\non = \"down\"\nname = \"x\"\ntimes = 9\n"),
            named(&[("x", 9, 9), ("no-data", 10, 10), ("not-archived", 1, 1), ("agent-silent", 1, 1)])
        );
        let config = read(
            "[[target]]\nhost = \"a.example\"\nfamily = \"both\"\n[[alert]]\non = \"available\"\nbelow = \"20mbit\"\ntargets = [\"a.example\"]\n",
        );
        let ids = vec!["a.example (IPv4)".to_owned(), "a.example (IPv6)".to_owned()];
        assert_eq!(config.unwrap().alerts.rules[0].pairs, Some(ids));
    }

    #[test]
    fn faults_name_their_line_and_what_to_write() {
        let target = "[[target]]\nhost = \"a.example\"\n";
        for (text, expected) in [
            ("", "nothing to monitor"),
            ("[[target]]\nhost = \"a b\"\n", "m.toml:2: \"a b\" is no host"),
            ("[[target]]\nhost = \"a.example:x\"\n", "m.toml:2: `x` is not a whole number"),
            ("[[target]]\nhost = \"192.0.2.1\"\nfamily = \"both\"\n", "m.toml:2: 192.0.2.1 is an address of IPv4"),
            ("[[target]]\nhost = \"fd00::1\"\nfamily = \"ipv4\"\n", "m.toml:2: fd00::1 is an address of IPv6"),
            ("[[target]]\nhost = \"\"\n", "m.toml:2: \"\" is no host"),
            (&format!("{target}{target}"), "m.toml:4: two targets have the id \"a.example\""),
            (&format!("{target}interval = \"1ms\"\n"), "m.toml:3: 1ms is out of range: 10ms to 1h"),
            (&format!("{target}measure = \"1s\"\n"), "m.toml:3: 1s is out of range"),
            (&format!("{target}measure = \"10\"\n"), "m.toml:3: `10` is not a time"),
            (&format!("{target}key = \"good.key\"\n"), "m.toml:3: `key` goes with `measure`"),
            (&format!("{target}measure = \"1h\"\nkey = \"bad.key\"\n"), "m.toml:4: cannot read the key file bad.key"),
            (&format!("{target}stamp-port = 8620\n"), "m.toml:3: `stamp-port` goes with probe = \"stamp\""),
            (&format!("{target}late-after = \"5s\"\n"), "m.toml:3: `lost-after` is less than `late-after`"),
            (&format!("{target}[[alert]]\non = \"loss\"\n"), "m.toml:4: an alert on loss needs `above`"),
            (
                &format!("{target}[[alert]]\non = \"lost\"\n"),
                "m.toml:4: unknown variant `lost`, expected one of `down`",
            ),
            (&format!("{target}[[alert]]\non = \"down\"\nbelow = \"1mbit\"\n"), "m.toml:5: `below` means nothing"),
            (&format!("{target}[[alert]]\non = \"down\"\ntimes = 0\n"), "m.toml:5: 0 is out of range"),
            (
                &format!("{target}[[alert]]\non = \"change\"\ntimes = 3\nout-of = 2\n"),
                "m.toml:5: `times` is more than `out-of`",
            ),
            (
                &format!("{target}[[alert]]\non = \"down\"\ntargets = [\"a.exmple\"]\n"),
                "m.toml:5: \"a.exmple\" is not a target's id; the nearest one is \"a.example\"",
            ),
            (
                &format!("{target}[[alert]]\non = \"down\"\n[[alert]]\non = \"down\"\n"),
                "m.toml:6: two alerts are called \"down\"",
            ),
            (&format!("{target}[[notify]]\n"), "[[notify]] has either webhook"),
            (&format!("{target}[[notify]]\nwebhook = \"example.org\"\n"), "m.toml:4: this is no address"),
            (&format!("{target}[[notify]]\ncommand = [\"mail\"]\n"), "m.toml:4: a command begins with the whole path"),
            (
                &format!("{target}[[silence]]\nfrom = \"22:00\"\nto = \"23:00\"\n"),
                "m.toml:4: `22:00` is no time: write it as 2026",
            ),
            (
                &format!("{target}[[silence]]\nfrom = \"22:00\"\nto = \"23:00\"\ndays = [\"mun\"]\n"),
                "m.toml:6: \"mun\" is not a day; the nearest one is \"mon\"",
            ),
            (
                &format!("{target}[[silence]]\nfrom = \"2026-12-24\"\nto = \"2026-12-23\"\n"),
                "m.toml:5: it ends before it begins",
            ),
            (&format!("{target}probes = \"stamp\"\n"), "m.toml:3: unknown field `probes`"),
            (&format!("[monitor]\npage = \"x\"\n{target}"), "m.toml:2: `x` is neither a port"),
            (
                &format!("[monitor]\narchive = \"postgresql://me:hushed@db.example/kumade\"\n{target}"),
                "m.toml:2: a password does not belong into the address",
            ),
            (
                &format!("[monitor]\narchive-password-file = \"x\"\n{target}"),
                "m.toml:2: `archive-password-file` goes with",
            ),
            (&format!("[monitor]\narchive-ca = \"x\"\n{target}"), "m.toml:2: `archive-ca` goes with"),
            (
                &format!("[monitor]\narchive = \"postgresql://me@db.example/kumade?sslmode=require\"\n{target}"),
                "is named: archive-ca = \"FILE\"",
            ),
            (&format!("[retention]\npackets = \"1h\"\n{target}"), "m.toml:2: 1h is out of range"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains("hushed"), "{text}: {error}");
        }
    }

    #[test]
    fn an_archive_is_a_directory_or_a_database() {
        let target = "[[target]]\nhost = \"a.example\"\n";
        let config = read(&format!("[monitor]\narchive = \"/var/archive\"\n{target}")).unwrap();
        assert!(config.database.is_none() && config.archive == Path::new("/var/archive"));
        let database = "archive = \"postgresql://me@db.example/kumade\"\narchive-password-file = \"file\"\narchive-ca = \"ca.pem\"\n";
        let config = read(&format!("[monitor]\n{database}{target}")).unwrap();
        assert!(config.is_archive_shared() && format!("{config:?}").contains("kumade"));
    }
}
