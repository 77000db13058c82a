use super::bonded::bonded;
use super::checks::{disjoint, interface, name, network, place, unique};
use super::error::{ConfigError, Fault};
use super::file::{ConfigFile, LocalSection, PathSection, PlaneName, RemoteSection};
use super::measurement::{measurement, targets};
use super::options::SimpleConfig;
use super::sessions::sessions;
use super::translations::translations;
use super::types::{Config, Local, Path, Plane, Remote, Sessions, family_of};
use crate::ratio::Ratio;
use ipnet::IpNet;
use kumade_net::interface::Family;
use kumade_units::{Rate, parse};
use std::net::{IpAddr, SocketAddr};
use toml::Spanned;

/// Each path takes a routing table and a priority among the rules.
const MAX_PATHS: usize = 64;
const DEFAULT_WEIGHT: u32 = 1;
const NOT_BONDED: &str = "this section is of the bonded plane: set plane = \"bonded\" in [gateway]";
const NO_SESSIONS: &str = "the bonded plane has no sessions: leave [sessions] out";

impl Config {
    /// Reads and validates a file's text. `origin` names it in errors; `interfaces` are those of this host.
    ///
    /// # Errors
    /// Names the line, what is wrong there, and what to try.
    pub fn from_toml(text: &str, origin: &str, interfaces: &[String]) -> Result<Self, ConfigError> {
        parse(text).and_then(|file| validate(&file, interfaces)).map_err(|fault| fault.at(origin, text))
    }

    /// The name of the gateway in a file's text, whose other parts need not be valid on this host.
    ///
    /// # Errors
    /// It is no configuration of a gateway, or the name cannot be one.
    pub fn name_in_toml(text: &str, origin: &str) -> Result<String, ConfigError> {
        let named = |file: ConfigFile| name(&file.gateway.name).map(|()| file.gateway.name.into_inner());
        parse(text).and_then(named).map_err(|fault| fault.at(origin, text))
    }

    /// Validates what was put together otherwise than from a file.
    ///
    /// # Errors
    /// What is wrong, and what to try.
    pub fn from_options(options: &SimpleConfig, interfaces: &[String]) -> Result<Self, ConfigError> {
        validate(&options.file(), interfaces).map_err(|fault| fault.at("command line", ""))
    }
}

fn parse(text: &str) -> Result<ConfigFile, Fault> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        Fault::new(error.span().unwrap_or_default(), error.message().trim().replace('\n', ", "))
    })
}

fn validate(file: &ConfigFile, interfaces: &[String]) -> Result<Config, Fault> {
    name(&file.gateway.name)?;
    let whole = || file.gateway.name.span();
    if file.local.is_empty() && file.gateway.plane == PlaneName::Direct {
        return Err(Fault::new(whole(), "no [[local]]: say behind which interface the local hosts are"));
    }
    if file.remote.is_empty() {
        return Err(Fault::new(whole(), "no [[remote]]: say which networks are to be reached over the paths"));
    }
    let locals = file.local.iter().map(|section| local(section, interfaces)).collect::<Result<Vec<_>, _>>()?;
    let paths = paths(&file.path, whole(), interfaces)?;
    let mut remotes =
        file.remote.iter().map(|section| remote(section, &paths, file.gateway.plane)).collect::<Result<Vec<_>, _>>()?;
    unique(file.local.iter().map(|section| &section.interface), "interface of [[local]]")?;
    unique(file.remote.iter().map(|section| &section.name), "remote")?;
    disjoint(&networks(file)?)?;
    let one_armed = |section: &&LocalSection| {
        section.networks.is_empty() && paths.iter().any(|path| path.interface == *section.interface.get_ref())
    };
    if let Some(section) = file.local.iter().find(one_armed) {
        let interface = &section.interface;
        return Err(Fault::new(
            interface.span(),
            format!("{} is also a path's interface: list the local hosts' `networks`", interface.get_ref()),
        ));
    }
    let ((plane, sessions), measurement) = (plane(file, &paths)?, measurement(file)?);
    let targets = targets(file, &remotes, &plane, measurement.port)?;
    remotes.iter_mut().zip(targets).for_each(|(remote, target)| remote.measured_to = target);
    let config = Config {
        name: file.gateway.name.get_ref().clone(),
        plane,
        prometheus: file.gateway.prometheus.as_ref().map(prometheus).transpose()?,
        measurement,
        sessions,
        locals,
        paths,
        remotes,
        translations: Vec::new(),
    };
    let translations = translations(&file.translation, &config)?;
    Ok(Config { translations, ..config })
}

fn prometheus(text: &Spanned<String>) -> Result<SocketAddr, Fault> {
    kumade_daemon::metrics_address(text.get_ref()).map_err(|error| Fault::new(text.span(), error.to_string()))
}

fn plane(file: &ConfigFile, paths: &[Path]) -> Result<(Plane, Option<Sessions>), Fault> {
    match (file.gateway.plane, &file.bonded, &file.sessions) {
        (PlaneName::Bonded, _, Some(section)) => Err(Fault::new(section.key.span(), NO_SESSIONS)),
        (PlaneName::Bonded, _, None) => Ok((Plane::Bonded(bonded(file, paths)?), None)),
        (PlaneName::Direct, Some(section), _) => Err(Fault::new(section.key.span(), NOT_BONDED)),
        (PlaneName::Direct, None, _) => Ok((Plane::Direct, sessions(file, paths)?)),
    }
}

fn local(section: &LocalSection, interfaces: &[String]) -> Result<Local, Fault> {
    let networks = section.networks.iter().map(network).collect::<Result<Vec<_>, _>>()?;
    Ok(Local { interface: interface(&section.interface, interfaces)?, networks })
}

fn paths(sections: &[PathSection], whole: std::ops::Range<usize>, interfaces: &[String]) -> Result<Vec<Path>, Fault> {
    if sections.is_empty() {
        return Err(Fault::new(whole, "no [[path]]: give at least one, with its interface and next hop"));
    }
    if let Some(section) = sections.get(MAX_PATHS) {
        return Err(Fault::new(section.name.span(), format!("more than {MAX_PATHS} paths: leave some out")));
    }
    unique(sections.iter().map(|section| &section.name), "path")?;
    sections.iter().map(|section| path(section, interfaces)).collect()
}

fn path(section: &PathSection, interfaces: &[String]) -> Result<Path, Fault> {
    name(&section.name)?;
    let (mut gateway_v4, mut gateway_v6) = (None, None);
    for text in &section.gateways {
        let is_first = match gateway(text)? {
            IpAddr::V4(address) => gateway_v4.replace(address).is_none(),
            IpAddr::V6(address) => gateway_v6.replace(address).is_none(),
        };
        if !is_first {
            let problem = format!("{} is a second gateway of its IP version: make it another [[path]]", text.get_ref());
            return Err(Fault::new(text.span(), problem));
        }
    }
    Ok(Path {
        name: section.name.get_ref().clone(),
        interface: interface(&section.interface, interfaces)?,
        gateway_v4,
        gateway_v6,
        weight: section.weight.unwrap_or(DEFAULT_WEIGHT),
        rate: section.rate.as_ref().map(rate).transpose()?,
    })
}

fn gateway(text: &Spanned<String>) -> Result<IpAddr, Fault> {
    let fault = |problem: &str| Fault::new(text.span(), format!("`{}` {problem}", text.get_ref()));
    let address: IpAddr =
        text.get_ref().parse().map_err(|_| fault("is no IP address: give the next hop's, like 192.0.2.1"))?;
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err(fault("is no address of a router: give the next hop's on this path"));
    }
    Ok(address)
}

fn rate(text: &Spanned<String>) -> Result<Rate, Fault> {
    match parse::rate(text.get_ref()) {
        Ok(Rate::ZERO) => Err(Fault::new(text.span(), "a path of rate 0 carries nothing: give it weight = 0 instead")),
        Ok(rate) => Ok(rate),
        Err(error) => Err(Fault::new(text.span(), error.to_string())),
    }
}

fn remote(section: &RemoteSection, paths: &[Path], plane: PlaneName) -> Result<Remote, Fault> {
    name(&section.name)?;
    let networks = section.networks.iter().map(network).collect::<Result<Vec<_>, _>>()?;
    let fault =
        |problem: String| Fault::new(section.name.span(), format!("remote `{}`{problem}", section.name.get_ref()));
    if networks.is_empty() {
        return Err(fault(" has no networks: list the addresses of its hosts".into()));
    }
    let numbers = match &section.paths {
        None => (0..paths.len()).collect(),
        Some(names) => {
            unique(names.iter(), "path in this list")?;
            names.iter().map(|name| place(name, paths)).collect::<Result<Vec<_>, _>>()?
        }
    };
    let ratio = Ratio::new(numbers.iter().map(|&number| paths[number].weight));
    let ratio = ratio.map_err(|error| fault(format!(": {error}")))?;
    if ratio.is_zero() {
        return Err(fault(" has no path with a weight above 0, so that no packet could reach it".into()));
    }
    // In the bonded plane, the path's packets may be of another IP version than those of hosts.
    let in_direct = networks.iter().filter(|_| plane == PlaneName::Direct);
    for family in in_direct.map(|network| family_of(*network)) {
        let lacks = |path: &&Path| path.has_gateway() && path.gateway(family).is_none();
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
    Ok(Remote {
        name: section.name.get_ref().clone(),
        networks,
        paths: numbers,
        ratio,
        measured_to: Vec::new(),
        sessions: section.sessions.as_ref().is_some_and(|sessions| *sessions.get_ref()),
    })
}

/// All networks of a file, with their places in it.
fn networks(file: &ConfigFile) -> Result<Vec<(Spanned<IpNet>, bool)>, Fault> {
    let locals = file.local.iter().flat_map(|local| &local.networks).map(|text| (text, false));
    let remotes = file.remote.iter().flat_map(|remote| &remote.networks).map(|text| (text, true));
    locals.chain(remotes).map(|(text, remote)| Ok((Spanned::new(text.span(), network(text)?), remote))).collect()
}
