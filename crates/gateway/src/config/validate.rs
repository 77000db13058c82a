use super::error::{ConfigError, Fault};
use super::file::{ConfigFile, LocalSection, PathSection, RemoteSection, TranslationSection};
use super::options::SimpleConfig;
use super::types::{Config, Local, Path, Remote, Side, Translation, family_of};
use ipnet::IpNet;
use net::interface::Family;
use std::net::IpAddr;
use toml::Spanned;
use units::{Rate, parse};

/// Each path takes a routing table and a priority among the rules.
const MAX_PATHS: usize = 64;
/// The ratio, once it is reduced: the kernel holds it as a list of that length.
const MAX_RATIO_SUM: u32 = 1000;
const DEFAULT_WEIGHT: u32 = 1;

impl Config {
    /// Reads and validates a file's text. `origin` names it in errors; `interfaces` are those of this host.
    ///
    /// # Errors
    /// Names the line, what is wrong there, and what to try.
    pub fn from_toml(text: &str, origin: &str, interfaces: &[String]) -> Result<Self, ConfigError> {
        let file: Result<ConfigFile, Fault> = toml::from_str(text).map_err(|error: toml::de::Error| {
            Fault::new(error.span().unwrap_or_default(), error.message().trim().replace('\n', ", "))
        });
        file.and_then(|file| validate(&file, interfaces)).map_err(|fault| fault.at(origin, text))
    }

    /// Validates what was put together otherwise than from a file.
    ///
    /// # Errors
    /// What is wrong, and what to try.
    pub fn from_options(options: &SimpleConfig, interfaces: &[String]) -> Result<Self, ConfigError> {
        validate(&options.file(), interfaces).map_err(|fault| fault.at("command line", ""))
    }
}

fn validate(file: &ConfigFile, interfaces: &[String]) -> Result<Config, Fault> {
    name(&file.gateway.name)?;
    let whole = || file.gateway.name.span();
    if file.local.is_empty() {
        return Err(Fault::new(whole(), "no [[local]]: say behind which interface the local hosts are"));
    }
    if file.remote.is_empty() {
        return Err(Fault::new(whole(), "no [[remote]]: say which networks are to be reached over the paths"));
    }
    let locals = file.local.iter().map(|section| local(section, interfaces)).collect::<Result<Vec<_>, _>>()?;
    let paths = paths(&file.path, whole(), interfaces)?;
    let remotes = file.remote.iter().map(|section| remote(section, &paths)).collect::<Result<Vec<_>, _>>()?;
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
    let config = Config {
        name: file.gateway.name.get_ref().clone(),
        plane: file.gateway.plane,
        locals,
        paths,
        remotes,
        translations: Vec::new(),
    };
    let translations = translations(&file.translation, &config)?;
    Ok(Config { translations, ..config })
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
        weight: section.weight.as_ref().map_or(Ok(DEFAULT_WEIGHT), weight)?,
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

fn weight(weight: &Spanned<u32>) -> Result<u32, Fault> {
    match *weight.get_ref() {
        value @ 0..=MAX_RATIO_SUM => Ok(value),
        value => Err(Fault::new(weight.span(), format!("the weight {value} is more than {MAX_RATIO_SUM}: reduce all"))),
    }
}

fn rate(text: &Spanned<String>) -> Result<Rate, Fault> {
    match parse::rate(text.get_ref()) {
        Ok(Rate::ZERO) => Err(Fault::new(text.span(), "a path of rate 0 carries nothing: give it weight = 0 instead")),
        Ok(rate) => Ok(rate),
        Err(error) => Err(Fault::new(text.span(), error.to_string())),
    }
}

fn remote(section: &RemoteSection, paths: &[Path]) -> Result<Remote, Fault> {
    name(&section.name)?;
    let networks = section.networks.iter().map(network).collect::<Result<Vec<_>, _>>()?;
    let fault =
        |problem: String| Fault::new(section.name.span(), format!("remote `{}` {problem}", section.name.get_ref()));
    if networks.is_empty() {
        return Err(fault("has no networks: list the addresses of its hosts".into()));
    }
    let numbers = match &section.paths {
        None => (0..paths.len()).collect(),
        Some(names) => {
            unique(names.iter(), "path in this list")?;
            names.iter().map(|name| place(name, paths)).collect::<Result<Vec<_>, _>>()?
        }
    };
    let weights = numbers.iter().map(|&number| paths[number].weight);
    match reduced_sum(weights) {
        0 => return Err(fault("has no path with a weight above 0, so that no packet could reach it".into())),
        1..=MAX_RATIO_SUM => {}
        sum => {
            return Err(fault(format!(
                "has paths whose weights add up to {sum}, more than {MAX_RATIO_SUM}: round them"
            )));
        }
    }
    for family in networks.iter().map(|network| family_of(*network)) {
        let lacks = |path: &&Path| has_gateway(path) && path.gateway(family).is_none();
        if let Some(path) = numbers.iter().map(|&number| &paths[number]).find(lacks) {
            return Err(fault(format!(
                "has {} networks, but its path `{}` has no {0} gateway: add one to the path, or take it out of `paths`",
                match family {
                    Family::V4 => "IPv4",
                    Family::V6 => "IPv6",
                },
                path.name
            )));
        }
    }
    Ok(Remote { name: section.name.get_ref().clone(), networks, paths: numbers })
}

fn has_gateway(path: &Path) -> bool {
    path.gateway_v4.is_some() || path.gateway_v6.is_some()
}

/// Of weights without their greatest common divisor.
fn reduced_sum(weights: impl Iterator<Item = u32> + Clone) -> u32 {
    let divisor = weights.clone().fold(0, greatest_common_divisor);
    weights.map(|weight| weight / divisor.max(1)).sum()
}

/// Of two numbers; the other one where one is 0.
pub(crate) fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

fn translations(sections: &[TranslationSection], config: &Config) -> Result<Vec<Translation>, Fault> {
    let mut translations: Vec<Translation> = Vec::new();
    for section in sections {
        let translation = translation(section, config)?;
        for other in &translations {
            if let Some(problem) = conflict(&translation, other) {
                return Err(Fault::new(section.alias.span(), problem));
            }
        }
        translations.push(translation);
    }
    Ok(translations)
}

fn translation(section: &TranslationSection, config: &Config) -> Result<Translation, Fault> {
    let (hosts, alias) = (network(&section.network)?, network(&section.alias)?);
    if (family_of(hosts), hosts.prefix_len()) != (family_of(alias), alias.prefix_len()) {
        let problem = format!("{hosts} and {alias} differ in size or IP version: each address needs one of its own");
        return Err(Fault::new(section.alias.span(), problem));
    }
    let locals = config.locals.iter().flat_map(|local| &local.networks);
    let remotes = config.remotes.iter().flat_map(|remote| remote.networks.iter().map(move |network| (remote, network)));
    let remote = remotes.clone().find(|(_, network)| network.prefix_len() > 0 && network.contains(&hosts));
    let is_local = locals.clone().any(|network| network.contains(&hosts));
    if !is_local && remote.is_none() {
        let problem = format!("{hosts} is in no network of a [[local]] or [[remote]] section: list it there");
        return Err(Fault::new(section.network.span(), problem));
    }
    let own = locals.chain(remotes.map(|(_, network)| network)).filter(|network| network.prefix_len() > 0);
    if let Some(other) = own.into_iter().find(|network| overlap(**network, alias)) {
        let problem = format!("the alias {alias} overlaps the network {other}: an alias is used by no host");
        return Err(Fault::new(section.alias.span(), problem));
    }
    let path = section.path.as_ref().map(|name| place(name, &config.paths)).transpose()?;
    if let (Some(name), Some(path), Some((remote, _))) = (&section.path, path, remote)
        && !remote.paths.contains(&path)
    {
        let problem =
            format!("the path `{}` does not lead to remote `{}`, where {hosts} is", name.get_ref(), remote.name);
        return Err(Fault::new(name.span(), problem));
    }
    let side = if is_local { Side::Local } else { Side::Remote };
    Ok(Translation { side, network: hosts, alias, path })
}

/// Why two translations cannot both be.
fn conflict(one: &Translation, other: &Translation) -> Option<String> {
    let same = (one.network, one.alias) == (other.network, other.alias);
    if !same && overlap(one.alias, other.alias) {
        return Some(format!("the alias {} overlaps that of {}: give each network its own", one.alias, other.network));
    }
    let same_path = one.path.is_some() && one.path == other.path;
    (same_path && overlap(one.network, other.network))
        .then(|| format!("{} has an alias on this path already: {}", other.network, other.alias))
}

/// All networks of a file, with their places in it.
fn networks(file: &ConfigFile) -> Result<Vec<(Spanned<IpNet>, bool)>, Fault> {
    let locals = file.local.iter().flat_map(|local| &local.networks).map(|text| (text, false));
    let remotes = file.remote.iter().flat_map(|remote| &remote.networks).map(|text| (text, true));
    locals.chain(remotes).map(|(text, remote)| Ok((Spanned::new(text.span(), network(text)?), remote))).collect()
}

/// 0.0.0.0/0 and ::/0 of a remote mean all other addresses, and may contain networks; nothing else may.
fn disjoint(networks: &[(Spanned<IpNet>, bool)]) -> Result<(), Fault> {
    for (number, (one, one_is_remote)) in networks.iter().enumerate() {
        for (other, other_is_remote) in &networks[..number] {
            let (network, earlier) = (*one.get_ref(), *other.get_ref());
            let is_rest = |network: IpNet, remote: &bool| network.prefix_len() == 0 && *remote;
            let nested = is_rest(network, one_is_remote) != is_rest(earlier, other_is_remote);
            if overlap(network, earlier) && !nested {
                let problem = format!("{network} overlaps {earlier}: a host is in one network only");
                return Err(Fault::new(one.span(), problem));
            }
        }
    }
    Ok(())
}

fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn unique<'a>(names: impl Iterator<Item = &'a Spanned<String>>, kind: &str) -> Result<(), Fault> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name.get_ref()) {
            return Err(Fault::new(name.span(), format!("`{}` is given twice as {kind}", name.get_ref())));
        }
        seen.push(name.get_ref());
    }
    Ok(())
}

fn name(text: &Spanned<String>) -> Result<(), Fault> {
    service::check_name(text.get_ref()).map_err(|error| Fault::new(text.span(), error.to_string()))
}

fn place(name: &Spanned<String>, paths: &[Path]) -> Result<usize, Fault> {
    paths.iter().position(|path| path.name == *name.get_ref()).ok_or_else(|| {
        let names: Vec<_> = paths.iter().map(|path| path.name.as_str()).collect();
        Fault::new(name.span(), format!("no path is called `{}`: there are {}", name.get_ref(), names.join(", ")))
    })
}

fn interface(name: &Spanned<String>, interfaces: &[String]) -> Result<String, Fault> {
    let known = interfaces.iter().find(|known| *known == name.get_ref());
    known.cloned().ok_or_else(|| {
        let problem = format!("this host has no interface `{}`: there are {}", name.get_ref(), interfaces.join(", "));
        Fault::new(name.span(), problem)
    })
}

/// As in `10.1.0.0/24`; an address alone is a network of one host.
fn network(text: &Spanned<String>) -> Result<IpNet, Fault> {
    let fault = |problem: String| Fault::new(text.span(), format!("`{}` {problem}", text.get_ref()));
    let host = text.get_ref().parse::<IpAddr>().map(IpNet::from);
    let network: IpNet = host
        .or_else(|_| text.get_ref().parse())
        .map_err(|_| fault("is no network: write it like 10.1.0.0/24 or fd00:1::/64".into()))?;
    if network.addr() != network.network() {
        return Err(fault(format!("names one host of a network: write {}", network.trunc())));
    }
    Ok(network)
}
