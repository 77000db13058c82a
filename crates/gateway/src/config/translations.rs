use super::checks::{network, overlap, place};
use super::error::Fault;
use super::file::TranslationSection;
use super::types::{Config, Side, Translation, family_of};

/// Validates the translations of a configuration that is valid but for them.
pub(super) fn translations(sections: &[TranslationSection], config: &Config) -> Result<Vec<Translation>, Fault> {
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
    if family_of(hosts) != family_of(alias) {
        return Err(Fault::new(section.alias.span(), format!("{hosts} and {alias} differ in IP version")));
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
    let translation = Translation { side, network: hosts, alias, path };
    if translation.is_shared() && config.is_static(&translation) {
        let problem = format!(
            "{hosts} and {alias} differ in size: each address needs one of its own, unless the remotes have `sessions = true`"
        );
        return Err(Fault::new(section.alias.span(), problem));
    }
    Ok(translation)
}

/// Why two translations cannot both be.
fn conflict(one: &Translation, other: &Translation) -> Option<String> {
    let same = (one.network, one.alias) == (other.network, other.alias);
    let is_shared = one.is_shared() && other.is_shared() && (one.side, one.alias) == (other.side, other.alias);
    if !same && !is_shared && overlap(one.alias, other.alias) {
        return Some(format!("the alias {} overlaps that of {}: give each network its own", one.alias, other.network));
    }
    let same_path = one.path.is_some() && one.path == other.path;
    (same_path && overlap(one.network, other.network))
        .then(|| format!("{} has an alias on this path already: {}", other.network, other.alias))
}
