use super::bonded::validate_bonded;
use super::checks::{check_disjoint, check_interface, check_unique, find_path, parse_network};
use super::file::{ConfigFile, LocalSection, PathSection, PlaneName, RemoteSection};
use super::measurement::{measurement_targets, validate_measurement};
use super::sessions::validate_sessions;
use super::translations::validate_translations;
use super::types::{GatewayConfig, GatewayPath, LocalSite, Plane, RemoteSite, SessionsConfig};
use crate::ratio::PathRatio;
use ipnet::IpNet;
use kumade_daemon::{ConfigError, ConfigFault};
use kumade_daemon::{check_names, metrics_address, parse_config, parse_spanned};
use kumade_net::interface::Family;
use kumade_net::{ScopedAddress, ScopedAddressError};
use kumade_units::{Rate, parse};
use std::net::IpAddr;
use toml::Spanned;

/// Each path takes a routing table and a priority among the rules.
const MAX_PATHS: usize = 64;
const DEFAULT_PATH_WEIGHT: u32 = 1;
const NOT_BONDED_MESSAGE: &str = "this section is of the bonded plane: set plane = \"bonded\" in [gateway]";
const NO_SESSIONS_MESSAGE: &str = "the bonded plane has no sessions: leave [sessions] out";

impl GatewayConfig {
    /// Reads and validates a file's text. `origin` names it in errors; `interfaces` are those of this host.
    ///
    /// # Errors
    /// Names the line, what is wrong there, and what to try.
    pub fn from_toml(text: &str, origin: &str, interfaces: &[String]) -> Result<Self, ConfigError> {
        parse_config(text).and_then(|file| validate(&file, interfaces)).map_err(|fault| fault.with_line(origin, text))
    }

    /// The name of the gateway in a file's text, whose other parts need not be valid on this host.
    ///
    /// # Errors
    /// It is no configuration of a gateway, or the name cannot be one.
    pub fn name_in_toml(text: &str, origin: &str) -> Result<String, ConfigError> {
        let named = |file: ConfigFile| check_names([&file.gateway.name]).map(|()| file.gateway.name.into_inner());
        parse_config(text).and_then(named).map_err(|fault| fault.with_line(origin, text))
    }

    /// Validates what the command line says, as a file's text.
    ///
    /// # Errors
    /// What is wrong, and what to try.
    pub fn from_options(text: &str, interfaces: &[String]) -> Result<Self, ConfigError> {
        let file = parse_config(text).and_then(|file| validate(&file, interfaces));
        file.map_err(|fault| fault.with_line("command line", ""))
    }
}

fn validate(file: &ConfigFile, interfaces: &[String]) -> Result<GatewayConfig, ConfigFault> {
    check_names([&file.gateway.name])?;
    let whole = || file.gateway.name.span();
    if file.local.is_empty() && file.gateway.plane == PlaneName::Direct {
        return Err(ConfigFault::new(whole(), "no [[local]]: say behind which interface the local hosts are"));
    }
    if file.remote.is_empty() {
        return Err(ConfigFault::new(whole(), "no [[remote]]: say which networks are to be reached over the paths"));
    }
    let locals = file.local.iter().map(|section| validate_local(section, interfaces)).collect::<Result<Vec<_>, _>>()?;
    let paths = validate_paths(&file.path, whole(), interfaces)?;
    let mut remotes = file
        .remote
        .iter()
        .map(|section| validate_remote(section, &paths, file.gateway.plane))
        .collect::<Result<Vec<_>, _>>()?;
    check_unique(file.local.iter().map(|section| &section.interface), "interface of [[local]]")?;
    check_unique(file.remote.iter().map(|section| &section.name), "remote")?;
    check_disjoint(&all_networks(file)?)?;
    let one_armed = |section: &&LocalSection| {
        section.networks.is_empty() && paths.iter().any(|path| path.interface == *section.interface.get_ref())
    };
    if let Some(section) = file.local.iter().find(one_armed) {
        let interface = &section.interface;
        return Err(ConfigFault::new(
            interface.span(),
            format!("{} is also a path's interface: list the local hosts' `networks`", interface.get_ref()),
        ));
    }
    let ((plane, sessions), measurement) = (validate_plane(file, &paths)?, validate_measurement(file)?);
    let targets = measurement_targets(file, &remotes, &plane, measurement.port)?;
    remotes.iter_mut().zip(targets).for_each(|(remote, target)| remote.measurement_addresses = target);
    let metrics_address = file.gateway.prometheus.as_ref().map(|text| parse_spanned(text, metrics_address));
    let config = GatewayConfig {
        name: file.gateway.name.get_ref().clone(),
        plane,
        prometheus: metrics_address.transpose()?,
        on_event: file.gateway.on_event.clone(),
        measurement,
        sessions,
        locals,
        paths,
        remotes,
        translations: Vec::new(),
    };
    let translations = validate_translations(&file.translation, &config)?;
    Ok(GatewayConfig { translations, ..config })
}

fn validate_plane(file: &ConfigFile, paths: &[GatewayPath]) -> Result<(Plane, Option<SessionsConfig>), ConfigFault> {
    match (file.gateway.plane, &file.bonded, &file.sessions) {
        (PlaneName::Bonded, _, Some(section)) => Err(ConfigFault::new(section.key.span(), NO_SESSIONS_MESSAGE)),
        (PlaneName::Bonded, _, None) => Ok((Plane::Bonded(validate_bonded(file, paths)?), None)),
        (PlaneName::Direct, Some(section), _) => Err(ConfigFault::new(section.key.span(), NOT_BONDED_MESSAGE)),
        (PlaneName::Direct, None, _) => Ok((Plane::Direct, validate_sessions(file, paths)?)),
    }
}

fn validate_local(section: &LocalSection, interfaces: &[String]) -> Result<LocalSite, ConfigFault> {
    let networks = section.networks.iter().map(parse_network).collect::<Result<Vec<_>, _>>()?;
    Ok(LocalSite { interface: check_interface(&section.interface, interfaces)?, networks })
}

fn validate_paths(
    sections: &[PathSection],
    whole: std::ops::Range<usize>,
    interfaces: &[String],
) -> Result<Vec<GatewayPath>, ConfigFault> {
    if sections.is_empty() {
        return Err(ConfigFault::new(whole, "no [[path]]: give at least one, with its interface and next hop"));
    }
    if let Some(section) = sections.get(MAX_PATHS) {
        return Err(ConfigFault::new(section.name.span(), format!("more than {MAX_PATHS} paths: leave some out")));
    }
    check_unique(sections.iter().map(|section| &section.name), "path")?;
    sections.iter().map(|section| validate_path(section, interfaces)).collect()
}

fn validate_path(section: &PathSection, interfaces: &[String]) -> Result<GatewayPath, ConfigFault> {
    check_names([&section.name])?;
    let (mut gateway_v4, mut gateway_v6) = (None, None);
    for text in &section.gateways {
        let is_first = match parse_next_hop(text, section.interface.get_ref())? {
            IpAddr::V4(address) => gateway_v4.replace(address).is_none(),
            IpAddr::V6(address) => gateway_v6.replace(address).is_none(),
        };
        if !is_first {
            let problem = format!("{} is a second gateway of its IP version: make it another [[path]]", text.get_ref());
            return Err(ConfigFault::new(text.span(), problem));
        }
    }
    Ok(GatewayPath {
        name: section.name.get_ref().clone(),
        interface: check_interface(&section.interface, interfaces)?,
        gateway_v4,
        gateway_v6,
        weight: section.weight.unwrap_or(DEFAULT_PATH_WEIGHT),
        rate: section.rate.as_ref().map(parse_rate).transpose()?,
    })
}

/// That of the path through this interface.
fn parse_next_hop(text: &Spanned<String>, interface: &str) -> Result<IpAddr, ConfigFault> {
    let fault = |problem: &str| ConfigFault::new(text.span(), format!("`{}` {problem}", text.get_ref()));
    let address: ScopedAddress = text.get_ref().parse().map_err(|error| match error {
        ScopedAddressError::Malformed(_) => fault("is no IP address: give the next hop's, like 192.0.2.1"),
        error => ConfigFault::new(text.span(), error.to_string()),
    })?;
    if address.interface().is_some_and(|named| named != interface) {
        return Err(fault(&format!("is not at the path's interface, {interface}")));
    }
    let address = address.ip();
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err(fault("is no address of a router: give the next hop's on this path"));
    }
    Ok(address)
}

fn parse_rate(text: &Spanned<String>) -> Result<Rate, ConfigFault> {
    match parse_spanned(text, parse::rate)? {
        Rate::ZERO => {
            Err(ConfigFault::new(text.span(), "a path of rate 0 carries nothing: give it weight = 0 instead"))
        }
        rate => Ok(rate),
    }
}

fn validate_remote(
    section: &RemoteSection,
    paths: &[GatewayPath],
    plane: PlaneName,
) -> Result<RemoteSite, ConfigFault> {
    check_names([&section.name])?;
    let networks = section.networks.iter().map(parse_network).collect::<Result<Vec<_>, _>>()?;
    let fault = |problem: String| {
        ConfigFault::new(section.name.span(), format!("remote `{}`{problem}", section.name.get_ref()))
    };
    if networks.is_empty() {
        return Err(fault(" has no networks: list the addresses of its hosts".into()));
    }
    let numbers = match &section.paths {
        None => (0..paths.len()).collect(),
        Some(names) => {
            check_unique(names.iter(), "path in this list")?;
            names.iter().map(|name| find_path(name, paths)).collect::<Result<Vec<_>, _>>()?
        }
    };
    let ratio = PathRatio::new(numbers.iter().map(|&number| paths[number].weight));
    let ratio = ratio.map_err(|error| fault(format!(": {error}")))?;
    if ratio.is_zero() {
        return Err(fault(" has no path with a weight above 0, so that no packet could reach it".into()));
    }
    // In the bonded plane, the path's packets may be of another IP version than those of hosts.
    let in_direct = networks.iter().filter(|_| plane == PlaneName::Direct);
    for family in in_direct.map(|network| Family::from_network(*network)) {
        let lacks = |path: &&GatewayPath| path.has_next_hop() && path.next_hop(family).is_none();
        if let Some(path) = numbers.iter().map(|&number| &paths[number]).find(lacks) {
            return Err(fault(format!(
                " has {} networks, but its path `{}` has no {0} gateway: add one to the path, or take it out of `paths`",
                match family {
                    Family::V4 => "IPv4",
                    Family::V6 => "IPv6",
                },
                path.name
            )));
        }
    }
    Ok(RemoteSite {
        name: section.name.get_ref().clone(),
        networks,
        paths: numbers,
        ratio,
        measurement_addresses: Vec::new(),
        divides_single_flows: section.sessions.as_ref().is_some_and(|sessions| *sessions.get_ref()),
    })
}

/// All networks of a file, with their places in it.
fn all_networks(file: &ConfigFile) -> Result<Vec<(Spanned<IpNet>, bool)>, ConfigFault> {
    let locals = file.local.iter().flat_map(|local| &local.networks).map(|text| (text, false));
    let remotes = file.remote.iter().flat_map(|remote| &remote.networks).map(|text| (text, true));
    locals.chain(remotes).map(|(text, remote)| Ok((Spanned::new(text.span(), parse_network(text)?), remote))).collect()
}
