//! A configuration file of one end of a tunnel.

use super::types::{EndSettings, TunnelSettings, parse_buffer_size, parse_device_address};
use crate::config::{DEFAULT_PORT, RelayedConfig, TransportMode, TunnelConfigError};
use crate::host::HostRefusal;
use crate::peer::{PeerConfig, parse_network};
use crate::tunnel::TunnelError;
use kumade_daemon::{
    ConfigError, ConfigFault, NumberOrText, check_names, find_repeated, listen_address, metrics_address, parse_config,
    parse_spanned,
};
use kumade_net::tcp::RtoLimits;
use kumade_noise_session::PublicKey;
use kumade_overlay_io::{ConnectionTuning, DEFAULT_DEVICE, parse_outer_dscp, validate_mtu};
use kumade_units::{Span, parse};
use serde::Deserialize;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// A configuration file that has been read, and where things stand in it.
#[derive(Debug, Clone)]
pub struct TunnelFile {
    /// What it says.
    pub settings: TunnelSettings,
    sections: Sections,
    origin: String,
    text: String,
}

/// What is said on the command line in place of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// The end's name.
    pub name: Option<String>,
    /// The file of its private key.
    pub key_file: Option<PathBuf>,
}

/// The file as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    tunnel: TunnelSection,
    #[serde(default)]
    tuning: TuningSection,
    #[serde(default)]
    peer: Vec<PeerSection>,
}

/// `[tunnel]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TunnelSection {
    name: Option<Spanned<String>>,
    key: Option<String>,
    preshared_key: Option<String>,
    /// Where this end waits for others: an address, a port, or both.
    listen: Option<Spanned<String>>,
    /// Where it connects to, in place of that: a host, perhaps with a port.
    connect: Option<Spanned<String>>,
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    #[serde(default)]
    carrier: CarrierName,
    /// Of `rake`, `relay` and `auto`.
    connections: Option<Spanned<usize>>,
    device: Option<Spanned<String>>,
    mtu: Option<Spanned<u16>>,
    congestion_control: Option<Spanned<String>>,
    /// Of the packets between the ends.
    dscp: Option<Spanned<NumberOrText>>,
    /// What the other ends' forwardings may reach.
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    /// Local ports, and where they lead.
    #[serde(default)]
    forwards: Vec<Spanned<String>>,
    /// Whose connections are relayed besides this host's.
    #[serde(default)]
    relay_from: Vec<Spanned<String>>,
    prometheus: Option<Spanned<String>>,
    on_event: Option<String>,
}

/// What carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CarrierName {
    #[default]
    Auto,
    Udp,
    Tcp,
    Rake,
    Relay,
}

/// `[tuning]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TuningSection {
    min_rto: Option<Spanned<String>>,
    max_rto: Option<Spanned<String>>,
    send_buffer: Option<Spanned<String>>,
    unsent: Option<Spanned<String>>,
    #[serde(default)]
    delay_short_segments: bool,
}

/// `[[peer]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PeerSection {
    /// What the log and the status call it.
    name: Option<Spanned<String>>,
    public_key: Spanned<String>,
    #[serde(default)]
    networks: Vec<Spanned<String>>,
}

impl TunnelFile {
    /// Reads a file's text. `origin` names it in errors.
    ///
    /// # Errors
    /// Names the line, what is wrong there, and what to try.
    pub fn from_toml(text: &str, origin: &str, options: &FileOptions) -> Result<Self, ConfigError> {
        let read = || {
            let sections = parse_config::<Sections>(text)?;
            Ok((sections.settings(options)?, sections))
        };
        let (settings, sections) = read().map_err(|fault: ConfigFault| fault.with_line(origin, text))?;
        Ok(TunnelFile { settings, sections, origin: origin.to_owned(), text: text.to_owned() })
    }

    /// Why an end cannot be as the file says, with the line that says it; none where no line does.
    pub fn locate(&self, error: &TunnelError) -> Option<ConfigError> {
        let span = self.sections.span_of(error)?;
        Some(ConfigFault::new(span, error.to_string()).with_line(&self.origin, &self.text))
    }
}

impl Sections {
    fn settings(&self, options: &FileOptions) -> Result<TunnelSettings, ConfigFault> {
        let TunnelSection { name, key, preshared_key, addresses, device, congestion_control, .. } = &self.tunnel;
        let end = self.tunnel.end()?;
        let key_file = options.key_file.clone().or_else(|| Some(key.as_ref()?.into()));
        let Some(key_file) = key_file else {
            return Err(ConfigFault::new(
                self.tunnel.role_span(),
                "no `key` in [tunnel]: give the file of this end's private key, from `kumade key private`",
            ));
        };
        check_names(name)?;
        let peers = self.peer.iter().map(PeerSection::to_config).collect::<Result<Vec<_>, _>>()?;
        if let Some(name) = find_repeated(self.peer.iter().filter_map(|peer| peer.name.as_ref())) {
            return Err(ConfigFault::new(name.span(), format!("two peers are called `{}`", name.get_ref())));
        }
        let addresses = addresses.iter().map(|text| parse_spanned(text, parse_device_address));
        Ok(TunnelSettings {
            name: options.name.clone().or_else(|| Some(name.as_ref()?.get_ref().clone())),
            key_file,
            preshared_key_file: preshared_key.as_ref().map(PathBuf::from),
            end,
            transport: self.tunnel.transport(),
            device: device.as_ref().map_or_else(|| DEFAULT_DEVICE.to_owned(), |device| device.get_ref().clone()),
            mtu: validate_mtu(self.tunnel.mtu.as_ref())?,
            addresses: addresses.collect::<Result<_, _>>()?,
            peers,
            congestion_control: congestion_control.as_ref().map(|name| name.get_ref().clone()),
            tuning: self.tuning.to_connection_tuning()?,
            dscp: parse_outer_dscp(self.tunnel.dscp.as_ref())?,
            relayed_connections: self.tunnel.relayed_connections()?,
            prometheus: self.tunnel.prometheus.as_ref().map(|text| parse_spanned(text, metrics_address)).transpose()?,
            on_event: self.tunnel.on_event.clone(),
        })
    }

    /// Where it is said.
    fn span_of(&self, error: &TunnelError) -> Option<Range<usize>> {
        let TunnelSection { connections, addresses, congestion_control, device, forwards, .. } = &self.tunnel;
        let of_text = |text: &Option<Spanned<String>>| text.as_ref().map(Spanned::span);
        let peers_with = |key: &PublicKey| {
            let has_key = |peer: &&PeerSection| peer.public_key.get_ref().parse() == Ok(*key);
            self.peer.iter().filter(has_key).map(|peer| peer.public_key.span()).next_back()
        };
        match error {
            TunnelError::Config(error) => match error {
                TunnelConfigError::NoPeer | TunnelConfigError::NothingToCarry(_) => Some(self.tunnel.role_span()),
                TunnelConfigError::SeveralPeers(_) => self.peer.get(1).map(|peer| peer.public_key.span()),
                TunnelConfigError::OwnKey(key)
                | TunnelConfigError::SameKey(key)
                | TunnelConfigError::NoNetworks(key) => peers_with(key),
                TunnelConfigError::SharedNetwork(network) => {
                    let texts = self.peer.iter().flat_map(|peer| &peer.networks);
                    texts.filter(|text| parse_network(text.get_ref()) == Ok(*network)).map(Spanned::span).next_back()
                }
                TunnelConfigError::ConnectionCount(_) => connections.as_ref().map(Spanned::span),
                TunnelConfigError::DeviceName(_) => of_text(device),
                TunnelConfigError::SamePort(address) => {
                    let is_there = |text: &&Spanned<String>| {
                        text.get_ref().parse().is_ok_and(|forward: kumade_relay::Forward| forward.listen == *address)
                    };
                    forwards.iter().filter(is_there).map(Spanned::span).next_back()
                }
                TunnelConfigError::MinRto(_) => of_text(&self.tuning.min_rto),
                TunnelConfigError::MaxRto(_) => of_text(&self.tuning.max_rto),
            },
            TunnelError::Host(error) => match error {
                HostRefusal::TakenNetwork { address, .. } => {
                    let is_it = |text: &&Spanned<String>| text.get_ref().parse() == Ok(*address);
                    addresses.iter().find(is_it).map(Spanned::span)
                }
                HostRefusal::ForeignAddress { address } => {
                    let listen = self.tunnel.listen.iter().chain(forwards);
                    listen.filter(|text| text.get_ref().contains(&address.to_string())).map(Spanned::span).next()
                }
                HostRefusal::CongestionControl(_) => of_text(congestion_control),
                HostRefusal::MinRto { .. } => of_text(&self.tuning.min_rto),
            },
            TunnelError::Packets(_) | TunnelError::Relay(_) | TunnelError::RelayUpdate(_) => None,
        }
    }
}

impl TunnelSection {
    fn end(&self) -> Result<EndSettings, ConfigFault> {
        let first = |list: &[Spanned<String>]| list.first().map(Spanned::span);
        match (&self.listen, &self.connect) {
            (Some(listen), None) => {
                let connections = self.connections.as_ref().map(Spanned::span);
                let others = [
                    ("connections", connections),
                    ("forwards", first(&self.forwards)),
                    ("relay-from", first(&self.relay_from)),
                ];
                refuse_others(others, "`connect`")?;
                parse_spanned(listen, |text| listen_address(text, DEFAULT_PORT)).map(EndSettings::Listen)
            }
            (None, Some(host)) => {
                refuse_others([("allow", first(&self.allow))], "`listen`")?;
                Ok(EndSettings::Connect(host.get_ref().clone()))
            }
            (Some(_), Some(connect)) => Err(ConfigFault::new(
                connect.span(),
                "`connect` and `listen`: an end does one of them; write a file for each",
            )),
            (None, None) => Err(ConfigFault::new(
                0..0,
                "neither `listen` nor `connect` in [tunnel]: give listen = \"7274\" at one end, and connect = \"HOST:7274\" at the \
                 other",
            )),
        }
    }

    /// What says which end it is.
    fn role_span(&self) -> Range<usize> {
        self.listen.as_ref().or(self.connect.as_ref()).map(Spanned::span).unwrap_or_default()
    }

    fn transport(&self) -> TransportMode {
        // An end that listens takes as many as come.
        let usual = if self.listen.is_some() { 1 } else { TransportMode::DEFAULT_CONNECTIONS };
        let connections = self.connections.as_ref().map_or(usual, |connections| *connections.get_ref());
        match self.carrier {
            CarrierName::Auto => TransportMode::Auto(connections),
            CarrierName::Udp => TransportMode::Udp,
            CarrierName::Tcp => TransportMode::Tcp,
            CarrierName::Rake => TransportMode::Rake(connections),
            CarrierName::Relay => TransportMode::Relay(connections),
        }
    }

    fn relayed_connections(&self) -> Result<RelayedConfig, ConfigFault> {
        Ok(RelayedConfig {
            forwards: self.forwards.iter().map(|text| parse_spanned(text, str::parse)).collect::<Result<_, _>>()?,
            sources: self.relay_from.iter().map(|text| parse_spanned(text, parse_network)).collect::<Result<_, _>>()?,
            allowed: self.allow.iter().map(|text| parse_spanned(text, str::parse)).collect::<Result<_, _>>()?,
        })
    }
}

fn refuse_others<const N: usize>(others: [(&str, Option<Range<usize>>); N], role: &str) -> Result<(), ConfigFault> {
    match others.into_iter().find_map(|(key, span)| Some((key, span?))) {
        Some((key, span)) => {
            Err(ConfigFault::new(span, format!("`{key}` is for an end with {role}: leave it out here")))
        }
        None => Ok(()),
    }
}

impl TuningSection {
    fn to_connection_tuning(&self) -> Result<ConnectionTuning, ConfigFault> {
        let usual = ConnectionTuning::default();
        let time = |text: &Option<Spanned<String>>, usual| match text {
            // 0 leaves what the system has.
            Some(text) => parse_spanned(text, parse::span).map(|time| Some(time).filter(|time| *time > Span::ZERO)),
            None => Ok(usual),
        };
        let size = |text: &Option<Spanned<String>>| {
            text.as_ref().map(|text| parse_spanned(text, parse_buffer_size)).transpose()
        };
        Ok(ConnectionTuning {
            rto: RtoLimits { min: time(&self.min_rto, usual.rto.min)?, max: time(&self.max_rto, usual.rto.max)? },
            send_buffer_bytes: size(&self.send_buffer)?,
            unsent_bytes: size(&self.unsent)?,
            has_no_delay: !self.delay_short_segments,
            ..usual
        })
    }
}

impl PeerSection {
    fn to_config(&self) -> Result<PeerConfig, ConfigFault> {
        check_names(&self.name)?;
        Ok(PeerConfig {
            name: self.name.as_ref().map(|name| name.get_ref().clone()),
            key: parse_spanned(&self.public_key, |text| text.trim().parse::<PublicKey>())?,
            networks: self.networks.iter().map(|text| parse_spanned(text, parse_network)).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f";

    fn read(tunnel: &str, more: &str) -> Result<TunnelFile, ConfigError> {
        let text = format!("[tunnel]\nkey = \"a.key\"\n{tunnel}\n[[peer]]\npublic-key = \"{KEY}\"\n{more}");
        TunnelFile::from_toml(&text, "t.toml", &FileOptions::default())
    }

    #[test]
    fn what_is_left_out_is_as_on_the_command_line() {
        let TunnelSettings { transport, device, tuning, key_file, .. } =
            read("connect = \"host.example\"", "").unwrap().settings;
        assert_eq!((transport, device.as_str()), (TransportMode::Auto(16), "kumade0"));
        assert!(tuning == ConnectionTuning::default() && key_file == *"a.key");
        assert_eq!(read("listen = \"443\"", "").unwrap().settings.transport, TransportMode::Auto(1));
        let options = FileOptions { name: Some("b".into()), key_file: Some("b.key".into()) };
        let file = TunnelFile::from_toml("[tunnel]\nname = \"a\"\nlisten = \"443\"\n", "t.toml", &options).unwrap();
        assert_eq!((file.settings.name.as_deref(), file.settings.key_file), (Some("b"), PathBuf::from("b.key")));
    }

    #[test]
    fn zero_leaves_the_system_its_timeouts() {
        let tuning = "[tuning]\nmin-rto = \"0s\"\nmax-rto = \"2s\"\ndelay-short-segments = true";
        let tuning = read("listen = \"443\"", tuning).unwrap().settings.tuning;
        assert_eq!(tuning.rto, RtoLimits { min: None, max: Some(Span::from_secs(2)) });
        assert!(!tuning.has_no_delay);
    }

    #[test]
    fn what_a_running_end_cannot_become_is_named() {
        let settings = |text: &str| read(text, "").unwrap().settings;
        let listens = settings("listen = \"443\"");
        let since = |text: &str| settings(text).unchangeable_since(&listens);
        for (text, key) in [
            ("listen = \"444\"", "`listen` in [tunnel]"),
            ("connect = \"a\"", "`connect` in [tunnel]"),
            ("listen = \"443\"\nname = \"a\"", "`name` in [tunnel]"),
            ("listen = \"443\"\ncarrier = \"udp\"", "`carrier` in [tunnel]"),
            ("listen = \"443\"\ndevice = \"a\"", "`device` in [tunnel]"),
            ("listen = \"443\"\naddresses = [\"10.0.0.1/24\"]", "`addresses` in [tunnel]"),
            ("listen = \"443\"\ndscp = 46", "`dscp` in [tunnel]"),
            ("listen = \"443\"\non-event = \"true\"", "`on-event` in [tunnel]"),
        ] {
            assert_eq!(since(text), Some(key), "{text}");
        }
        for text in ["mtu = 1400", "prometheus = \"9272\"", "congestion-control = \"cubic\"", "allow = [\"10.0.0.1\"]"]
        {
            assert_eq!(since(&format!("listen = \"443\"\n{text}")), None, "{text}");
        }
        let has_congestion_control = settings("listen = \"443\"\ncongestion-control = \"cubic\"");
        assert_eq!(listens.unchangeable_since(&has_congestion_control), Some("`congestion-control` in [tunnel]"));
        let [few, many] = [8, 9].map(|number| settings(&format!("connect = \"a\"\nconnections = {number}")));
        assert_eq!(many.unchangeable_since(&few), Some("`connections` in [tunnel]"));
    }
}
