//! Names that nothing has.

use kumade_daemon::ConfigFault;
use toml::Spanned;

/// A name that nothing has, with the most similar one that something has.
pub(super) fn unknown_name_fault<'n>(
    name: &Spanned<String>,
    kind: &str,
    known: impl Iterator<Item = &'n str>,
) -> ConfigFault {
    let text = name.get_ref();
    let nearest = known.max_by(|one, other| similarity(text, one).total_cmp(&similarity(text, other)));
    let hint = nearest.map(|nearest| format!("; the nearest one is {nearest:?}")).unwrap_or_default();
    ConfigFault::new(name.span(), format!("{text:?} is not {kind}{hint}"))
}

fn similarity(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(one, other)
}
