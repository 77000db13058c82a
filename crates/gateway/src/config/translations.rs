use super::checks::{find_path, networks_overlap, parse_network};
use super::file::TranslationSection;
use super::types::{AddressTranslation, GatewayConfig, GatewaySide};
use kumade_daemon::ConfigFault;
use kumade_net::interface::Family;

/// Validates the translations of a configuration that is valid but for them.
pub(super) fn validate_translations(
    sections: &[TranslationSection],
    config: &GatewayConfig,
) -> Result<Vec<AddressTranslation>, ConfigFault> {
    let mut translations: Vec<AddressTranslation> = Vec::new();
    for section in sections {
        let translation = validate_translation(section, config)?;
        for other in &translations {
            if let Some(problem) = find_conflict(&translation, other) {
                return Err(ConfigFault::new(section.alias.span(), problem));
            }
        }
        translations.push(translation);
    }
    Ok(translations)
}

fn validate_translation(
    section: &TranslationSection,
    config: &GatewayConfig,
) -> Result<AddressTranslation, ConfigFault> {
    let (hosts, alias) = (parse_network(&section.network)?, parse_network(&section.alias)?);
    if Family::from_network(hosts) != Family::from_network(alias) {
        return Err(ConfigFault::new(section.alias.span(), format!("{hosts} and {alias} differ in IP version")));
    }
    let locals = config.locals.iter().flat_map(|local| &local.networks);
    let remotes = config.remotes.iter().flat_map(|remote| remote.networks.iter().map(move |network| (remote, network)));
    let remote = remotes.clone().find(|(_, network)| network.prefix_len() > 0 && network.contains(&hosts));
    let is_local = locals.clone().any(|network| network.contains(&hosts));
    if !is_local && remote.is_none() {
        let problem = format!("{hosts} is in no network of a [[local]] or [[remote]] section: list it there");
        return Err(ConfigFault::new(section.network.span(), problem));
    }
    let own = locals.chain(remotes.map(|(_, network)| network)).filter(|network| network.prefix_len() > 0);
    if let Some(other) = own.into_iter().find(|network| networks_overlap(**network, alias)) {
        let problem = format!("the alias {alias} overlaps the network {other}: an alias is used by no host");
        return Err(ConfigFault::new(section.alias.span(), problem));
    }
    let path = section.path.as_ref().map(|name| find_path(name, &config.paths)).transpose()?;
    if let (Some(name), Some(path), Some((remote, _))) = (&section.path, path, remote)
        && !remote.paths.contains(&path)
    {
        let problem =
            format!("the path `{}` does not lead to remote `{}`, where {hosts} is", name.get_ref(), remote.name);
        return Err(ConfigFault::new(name.span(), problem));
    }
    let side = if is_local { GatewaySide::Local } else { GatewaySide::Remote };
    let translation = AddressTranslation { side, network: hosts, alias, path };
    if translation.is_shared() && config.is_static(&translation) {
        let problem = format!(
            "{hosts} and {alias} differ in size: each address needs one of its own, unless the remotes have `sessions = true`"
        );
        return Err(ConfigFault::new(section.alias.span(), problem));
    }
    Ok(translation)
}

/// Why two translations cannot both be.
fn find_conflict(one: &AddressTranslation, other: &AddressTranslation) -> Option<String> {
    let same = (one.network, one.alias) == (other.network, other.alias);
    let is_shared = one.is_shared() && other.is_shared() && (one.side, one.alias) == (other.side, other.alias);
    if !same && !is_shared && networks_overlap(one.alias, other.alias) {
        return Some(format!("the alias {} overlaps that of {}: give each network its own", one.alias, other.network));
    }
    let same_path = one.path.is_some() && one.path == other.path;
    (same_path && networks_overlap(one.network, other.network))
        .then(|| format!("{} has an alias on this path already: {}", other.network, other.alias))
}
