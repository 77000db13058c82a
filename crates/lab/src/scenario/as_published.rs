//! What a scenario file says of the experiment as it was published: `[as-published]` has keys that replace those of the file, such as all points
//! of a paper, and what the paper states about them.

use super::catalogue::publishable_names;
use super::refusal::Refusal;
use crate::report::Statement;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) const SECTION: &str = "as-published";
pub(super) const STATEMENTS: &str = "statements";

#[derive(Deserialize)]
struct StatementList {
    #[serde(default)]
    statements: Vec<Statement>,
}

/// Whether the file says how it was published.
pub(super) fn has_section(document: &DeTable<'_>) -> bool {
    document.contains_key(SECTION)
}

/// Takes the section out of a file. Where it `is_chosen`, its keys replace those of the file, and what it states is returned.
///
/// # Errors
/// It is chosen and there is none, or it is not written as such a section.
pub(super) fn apply_section(document: &mut DeTable<'_>, is_chosen: bool) -> Result<Vec<Statement>, Refusal> {
    let missing = || {
        let others = publishable_names().join(", ");
        format!(
            "it has no section [{SECTION}], which says how it was published; leave --as-published out. These have one: {others}"
        )
    };
    let section = match document.remove(SECTION) {
        Some(section) if is_chosen => section,
        None if is_chosen => return Err(Refusal::Invalid(missing())),
        _ => return Ok(Vec::new()),
    };
    let span = section.span();
    let DeValue::Table(mut section) = section.into_inner() else {
        let reason = format!("`{SECTION}` is a value, and is to be a section [{SECTION}] with keys of the file");
        return Err(Refusal::Invalid(reason));
    };
    let mut stated = DeTable::new();
    if let Some((key, statements)) = section.remove_entry(STATEMENTS) {
        stated.insert(key, statements);
    }
    let StatementList { statements } =
        StatementList::deserialize(toml::Deserializer::from(Spanned::new(span, stated))).map_err(Refusal::Malformed)?;
    for (key, value) in section {
        document.remove(&**key.get_ref());
        document.insert(key, value);
    }
    Ok(statements)
}
